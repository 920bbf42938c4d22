"""Under autocast every op gives torch's dtype, weights are converted once, and nothing stays switched on."""

from __future__ import annotations

import itertools
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint.core import modes
from tests.oracle import needs_torch, torch

Op = Callable[[Any, Any, Any], Any]  # of the module, its nn.functional, and a maker of tensors

OPS: dict[str, Op] = {
    # lowered
    "matmul": lambda m, F, t: m.matmul(t(3, 4), t(4, 2)),
    "operator": lambda m, F, t: t(3, 4) @ t(4, 2),
    "mm": lambda m, F, t: m.mm(t(3, 4), t(4, 2)),
    "bmm": lambda m, F, t: m.bmm(t(2, 3, 4), t(2, 4, 2)),
    "matmul batch": lambda m, F, t: t(5, 3, 4) @ t(4, 2),
    "addmm": lambda m, F, t: m.addmm(t(2), t(3, 4), t(4, 2)),
    "baddbmm": lambda m, F, t: m.baddbmm(t(2, 3, 2), t(2, 3, 4), t(2, 4, 2)),
    "linear": lambda m, F, t: F.linear(t(3, 4), t(2, 4), t(2)),
    "linear without bias": lambda m, F, t: F.linear(t(3, 4), t(2, 4)),
    "conv1d": lambda m, F, t: F.conv1d(t(1, 2, 8), t(3, 2, 3), t(3)),
    "conv2d": lambda m, F, t: F.conv2d(t(1, 2, 8, 8), t(3, 2, 3, 3)),
    "conv_transpose2d": lambda m, F, t: F.conv_transpose2d(t(1, 2, 4, 4), t(2, 3, 3, 3)),
    "attention": lambda m, F, t: F.scaled_dot_product_attention(t(1, 2, 4, 8), t(1, 2, 4, 8), t(1, 2, 4, 8)),
    "einsum": lambda m, F, t: m.einsum("ij,jk->ik", t(3, 4), t(4, 2)),
    "double is left alone": lambda m, F, t: t(3, 4).double() @ t(4, 2).double(),
    # single
    "mse_loss": lambda m, F, t: F.mse_loss(t(3, 4), t(3, 4).bfloat16()),
    "l1_loss": lambda m, F, t: F.l1_loss(t(3, 4).bfloat16(), t(3, 4).bfloat16()),
    "smooth_l1_loss": lambda m, F, t: F.smooth_l1_loss(t(3, 4).bfloat16(), t(3, 4).bfloat16()),
    "huber_loss": lambda m, F, t: F.huber_loss(t(3, 4).bfloat16(), t(3, 4).bfloat16()),
    "cross_entropy": lambda m, F, t: F.cross_entropy(t(3, 4).bfloat16(), m.tensor([0, 1, 3])),
    "nll_loss": lambda m, F, t: F.nll_loss(t(3, 4).bfloat16(), m.tensor([0, 1, 3])),
    "kl_div": lambda m, F, t: F.kl_div(t(3, 4).bfloat16(), t(3, 4).bfloat16(), reduction="sum"),
    "bce": lambda m, F, t: F.binary_cross_entropy(t(3, 4).bfloat16().sigmoid(), t(3, 4).bfloat16().sigmoid()),
    "bce with logits": lambda m, F, t: F.binary_cross_entropy_with_logits(t(3, 4).bfloat16(), t(3, 4).bfloat16()),
    "poisson_nll_loss": lambda m, F, t: F.poisson_nll_loss(t(3, 4).bfloat16(), t(3, 4).bfloat16()),
    "soft_margin_loss": lambda m, F, t: F.soft_margin_loss(t(3, 4).bfloat16(), t(3, 4).bfloat16()),
    "hinge_embedding_loss": lambda m, F, t: F.hinge_embedding_loss(t(3, 4).bfloat16(), t(3, 4).bfloat16().sign()),
    "margin_ranking_loss": lambda m, F, t: F.margin_ranking_loss(t(3).bfloat16(), t(3).bfloat16(), t(3).sign()),
    "cosine_embedding_loss": lambda m, F, t: F.cosine_embedding_loss(t(3, 4).bfloat16(), t(3, 4).bfloat16(), m.ones(3)),
    "triplet_margin_loss": lambda m, F, t: F.triplet_margin_loss(*[t(3, 4).bfloat16()] * 3),
    "multi_margin_loss": lambda m, F, t: F.multi_margin_loss(t(3, 4).bfloat16(), m.tensor([0, 1, 3])),
    "prod": lambda m, F, t: t(3, 4).bfloat16().prod(),
    "cdist": lambda m, F, t: m.cdist(t(3, 4).bfloat16(), t(3, 4).bfloat16()),
    "inverse": lambda m, F, t: m.inverse(t(3, 3).bfloat16()),
    "linalg.inv": lambda m, F, t: m.linalg.inv(t(3, 3).bfloat16()),
    "svdvals": lambda m, F, t: m.linalg.svdvals(t(3, 3).bfloat16()),
    "qr": lambda m, F, t: m.linalg.qr(t(3, 3).bfloat16())[0],
    "fft": lambda m, F, t: m.fft.fft(t(8).bfloat16()),
    "avg_pool3d": lambda m, F, t: F.avg_pool3d(t(1, 1, 4, 4, 4).bfloat16(), 2),
    "max_pool3d": lambda m, F, t: F.max_pool3d(t(1, 1, 4, 4, 4).bfloat16(), 2),
    "reflection": lambda m, F, t: F.pad(t(1, 2, 4).bfloat16(), (1, 1), mode="reflect"),
    "replication": lambda m, F, t: F.pad(t(1, 2, 4, 4).bfloat16(), (1, 1, 1, 1), mode="replicate"),
    # widest
    "cat": lambda m, F, t: m.cat([t(2, 3), t(2, 3).bfloat16()]),
    "stack": lambda m, F, t: m.stack([t(2, 3).bfloat16(), t(2, 3)]),
    "cat of one kind": lambda m, F, t: m.cat([t(2, 3).bfloat16(), t(2, 3).bfloat16()]),
    # as they come
    "add": lambda m, F, t: t(3) + t(3).bfloat16(),
    "mul": lambda m, F, t: t(3).bfloat16() * t(3).bfloat16(),
    "relu": lambda m, F, t: F.relu(t(3).bfloat16()),
    "softmax": lambda m, F, t: F.softmax(t(3, 4).bfloat16(), -1),
    "log_softmax": lambda m, F, t: F.log_softmax(t(3, 4).bfloat16(), -1),
    "layer_norm": lambda m, F, t: F.layer_norm(t(3, 4), (4,)),
    "exp": lambda m, F, t: m.exp(t(3).bfloat16()),
    "sum": lambda m, F, t: t(3, 4).bfloat16().sum(),
    "max_pool2d": lambda m, F, t: F.max_pool2d(t(1, 1, 4, 4).bfloat16(), 2),
}  # fmt: skip


def run(module: Any, op: Op, dtype: str) -> Any:
    rng = np.random.default_rng(0)

    def make(*shape: int) -> Any:
        return module.tensor(rng.uniform(0.1, 0.9, shape), dtype=module.float32)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with module.autocast("cpu", dtype=getattr(module, dtype)):
            return op(module, module.nn.functional, make)


# torch itself fails on bfloat16 operands of these where it lowers to float16.
ONLY_BFLOAT16 = ("cat", "stack", "cat of one kind")


@needs_torch
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", OPS)
def test_dtypes_and_values_are_torchs(name: str, dtype: str) -> None:
    if name in ONLY_BFLOAT16:
        dtype = "bfloat16"
    ours, theirs = run(adjoint, OPS[name], dtype), run(torch, OPS[name], dtype)
    assert str(ours.dtype).split(".")[1] == str(theirs.dtype).split(".")[1]
    ours, theirs = np.array(ours.tolist()), np.array(theirs.tolist())
    np.testing.assert_allclose(ours, theirs, rtol=2e-2, atol=2e-2)
    assert not modes.unusual and modes.local.autocast is None


@needs_torch
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_training_a_small_net(dtype: str) -> None:
    """Losses and gradients of three steps agree with torch's, as far as half precision goes."""
    rng = np.random.default_rng(0)
    start = [rng.normal(size=s) / 2 for s in [(16, 8), (16,), (4, 16), (4,)]]
    x, y = rng.normal(size=(32, 8)), rng.integers(0, 4, 32)
    paths = []
    for module in (adjoint, torch):
        F = module.nn.functional
        ps = [module.tensor(a, dtype=module.float32, requires_grad=True) for a in start]
        o = module.optim.SGD(ps, lr=0.5)
        losses = []
        for _ in range(3):
            o.zero_grad()
            with module.autocast("cpu", dtype=getattr(module, dtype)):
                hidden = F.relu(F.linear(module.tensor(x, dtype=module.float32), ps[0], ps[1]))
                loss = F.cross_entropy(F.linear(hidden, ps[2], ps[3]), module.tensor(y))
            assert "float32" in str(loss.dtype) and hidden.dtype is getattr(module, dtype)
            loss.backward()
            o.step()
            losses.append(loss.item())
            assert all("float32" in str(p.grad.dtype) for p in ps)
        paths.append(losses)
    np.testing.assert_allclose(*paths, rtol=2e-2)


def test_a_weight_is_converted_once_per_block() -> None:
    w = adjoint.ones(2, 2, requires_grad=True)
    x = adjoint.ones(2, 2)
    with adjoint.autocast("cpu"):
        y = x @ w + x @ w
        assert len(adjoint.amp.autocast_mode._thread.cache) == 1
        with adjoint.autocast("cpu"):
            x @ w
        assert len(adjoint.amp.autocast_mode._thread.cache) == 1
    assert not adjoint.amp.autocast_mode._thread.cache
    y.sum().backward()
    assert w.grad.tolist() == [[4, 4], [4, 4]]
    with adjoint.autocast("cpu", cache_enabled=False):
        x @ w
        assert not adjoint.amp.autocast_mode._thread.cache


def test_a_weight_that_changes_is_converted_anew() -> None:
    w, x = adjoint.ones(1, 1, requires_grad=True), adjoint.ones(1, 1)
    with adjoint.autocast("cpu"):
        assert (x @ w).item() == 1
        with adjoint.no_grad():
            w.mul_(3)
        assert (x @ w).item() == 3


def test_what_no_grad_converts_does_not_cut_the_graph() -> None:
    w, x = adjoint.ones(1, 1, requires_grad=True), adjoint.ones(1, 1)
    with adjoint.autocast("cpu"):
        with adjoint.no_grad():
            x @ w
        (x @ w).sum().backward()
    assert w.grad.item() == 1


def test_nesting_and_switching_off() -> None:
    x = adjoint.ones(2, 2)
    with adjoint.autocast("cpu"):
        assert adjoint.is_autocast_enabled("cpu")
        with adjoint.autocast("cpu", enabled=False):
            assert (x @ x).dtype is adjoint.float32
            assert not adjoint.is_autocast_enabled("cpu")
        with adjoint.autocast("cpu", dtype=adjoint.float16):
            assert (x @ x).dtype is adjoint.float16
            assert adjoint.get_autocast_dtype("cpu") is adjoint.float16
        assert (x @ x).dtype is adjoint.bfloat16
    assert not adjoint.is_autocast_enabled("cpu") and not modes.unusual
    with pytest.raises(ZeroDivisionError), adjoint.autocast("cpu"):
        1 / 0
    assert not modes.unusual


def test_as_a_decorator_and_in_one_thread() -> None:
    x, seen = adjoint.ones(2, 2), []

    @adjoint.autocast("cpu")
    def depth(n: int) -> Any:
        return x @ x if n == 0 else depth(n - 1)

    assert depth(3).dtype is adjoint.bfloat16
    with adjoint.autocast("cpu"):
        other = threading.Thread(target=lambda: seen.append((x @ x).dtype))
        other.start()
        other.join()
    assert seen == [adjoint.float32] and not modes.unusual


def test_switches() -> None:
    assert adjoint.amp.is_autocast_available("cpu") and not adjoint.amp.is_autocast_available("meta")
    adjoint.set_autocast_enabled("cpu", True)
    try:
        assert adjoint.is_autocast_enabled("cpu") and modes.unusual == 1
    finally:
        adjoint.set_autocast_enabled("cpu", False)
    assert adjoint.get_autocast_dtype("cuda") is adjoint.float16 and adjoint.is_autocast_cache_enabled()


def test_wrong_input() -> None:
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
        adjoint.autocast(3)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="Expected one of cpu, cuda"):
        adjoint.autocast("foo")
    with pytest.raises(RuntimeError, match="unsupported autocast device_type 'meta'"):
        adjoint.autocast("meta")
    with pytest.warns(UserWarning, match="target dtype is not supported"):
        assert not adjoint.autocast("cpu", dtype=adjoint.float32)._enabled
    with pytest.warns(FutureWarning, match="is deprecated"):
        adjoint.cpu.amp.autocast()


@pytest.mark.parametrize("cast_inputs", [None, "float32"])
def test_custom_functions(cast_inputs: str | None) -> None:
    seen: dict[str, Any] = {}
    wanted = None if cast_inputs is None else getattr(adjoint, cast_inputs)

    class Product(adjoint.autograd.Function):
        @staticmethod
        @adjoint.amp.custom_fwd(device_type="cpu", cast_inputs=wanted)
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            ctx.save_for_backward(a, b)
            seen["forward"] = a.dtype, adjoint.is_autocast_enabled("cpu")
            return a.mm(b)

        @staticmethod
        @adjoint.amp.custom_bwd(device_type="cpu")
        def backward(ctx: Any, grad: Any) -> Any:
            a, b = ctx.saved_tensors
            seen["backward"] = adjoint.is_autocast_enabled("cpu")
            return grad.mm(b.t()), a.t().mm(grad)

    a = adjoint.ones(2, 2, requires_grad=True)
    with adjoint.autocast("cpu"):
        out = Product.apply(a.bfloat16() if cast_inputs else a, adjoint.ones(2, 2))
    out.sum().backward()
    assert out.dtype is (adjoint.float32 if cast_inputs else adjoint.bfloat16)
    assert seen["forward"] == (adjoint.float32, cast_inputs is None)
    assert seen["backward"] is (cast_inputs is None)


def test_half_precision_products_are_summed_in_single() -> None:
    """4096 ones: a sum kept in bfloat16 would stop at 256."""
    a = adjoint.ones(2, 4096, dtype=adjoint.bfloat16, requires_grad=True)
    b = adjoint.ones(4096, 3, dtype=adjoint.bfloat16, requires_grad=True)
    out = a @ b
    assert out.tolist() == [[4096.0] * 3] * 2
    wide = adjoint.ones(4096, 2, dtype=adjoint.bfloat16) @ adjoint.ones(2, 3, dtype=adjoint.bfloat16)
    c = adjoint.ones(2, 1, dtype=adjoint.bfloat16, requires_grad=True)
    (adjoint.ones(4096, 2, dtype=adjoint.bfloat16) @ c).sum().backward()
    assert wide.dtype is adjoint.bfloat16 and c.grad.tolist() == [[4096.0], [4096.0]]


# Functions that check dtypes themselves, or that torch's lists name although other ops express them.
MIXED: dict[str, Op] = {
    "attention": lambda m, F, t: F.scaled_dot_product_attention(t(1, 2, 4, 8), t(1, 2, 4, 8), t(1, 2, 4, 8)),
    "causal": lambda m, F, t: F.scaled_dot_product_attention(*[t(1, 4, 8) for _ in range(3)], is_causal=True),
    "mask": lambda m, F, t: F.scaled_dot_product_attention(*[t(1, 4, 8) for _ in range(3)], attn_mask=t(4, 4)),
    "prelu": lambda m, F, t: F.prelu(t(3, 4), t(1)),
    "vecdot": lambda m, F, t: m.linalg.vecdot(t(3, 4), t(3, 4)),
    "vectors": lambda m, F, t: t(4) @ t(4),
    "addbmm": lambda m, F, t: m.addbmm(t(3, 2), t(2, 3, 4), t(2, 4, 2)),
    "mv": lambda m, F, t: m.mv(t(3, 4), t(4)),
    "addr": lambda m, F, t: m.addr(t(3, 4), t(3), t(4)),
    "bilinear": lambda m, F, t: F.bilinear(t(3, 4), t(3, 2), t(5, 4, 2), t(5)),
    "bce": lambda m, F, t: F.binary_cross_entropy(t(3, 4), t(3, 4)),
    "weighted bce": lambda m, F, t: F.binary_cross_entropy(t(3, 4), t(3, 4), weight=t(3, 4)),
    "weighted logits": lambda m, F, t: F.binary_cross_entropy_with_logits(t(3, 4), t(3, 4), pos_weight=t(4)),
    "shares of classes": lambda m, F, t: F.cross_entropy(t(3, 4), t(3, 4)),
    "l1_loss": lambda m, F, t: F.l1_loss(t(3, 4), t(3, 4)),
    "triplet": lambda m, F, t: F.triplet_margin_loss(t(3, 4), t(3, 4), t(3, 4)),
    "grid_sample": lambda m, F, t: F.grid_sample(t(1, 1, 4, 4), t(1, 2, 2, 2), align_corners=False),
    "polar": lambda m, F, t: m.view_as_real(m.polar(t(3), t(3))),
    "quantile": lambda m, F, t: m.quantile(t(5), t(2)),
    "trace": lambda m, F, t: m.trace(t(3, 3)),
    "view_as_complex": lambda m, F, t: m.view_as_real(m.view_as_complex(t(3, 2))),
    "solve": lambda m, F, t: m.linalg.solve(t(3, 3) + 3 * m.eye(3).to(t(1).dtype), t(3)),
    "lstsq": lambda m, F, t: m.linalg.lstsq(t(4, 2), t(4, 1))[0],
    "householder_product": lambda m, F, t: m.linalg.householder_product(t(3, 2), t(2)),
    "matrix_rank": lambda m, F, t: m.linalg.matrix_rank(m.eye(3).to(t(1).dtype)),
    "max_unpool2d": lambda m, F, t: F.max_unpool2d(t(1, 1, 2, 2), m.tensor([[[[0, 2], [8, 10]]]]), 2),
    "index_copy": lambda m, F, t: m.index_copy(t(3, 2), 0, m.tensor([0, 2]), t(2, 2)),
    "RNN": lambda m, F, t: m.nn.RNN(3, 4)(t(5, 2, 3))[0] * 0,
    "products of floats and doubles": lambda m, F, t: m.mm(t(3, 4), t(4, 2).double()),
}  # fmt: skip
KINDS = {
    "halves": ("bfloat16",), "single and half": ("float32", "bfloat16"), "half and single": ("bfloat16", "float32"),
    "rotary": ("float32", "float32", "bfloat16"), "doubles": ("float64",), "single": ("float32",),
}  # fmt: skip


def _outcome(module: Any, op: Op, kinds: tuple[str, ...]) -> Any:
    """Return the dtype and the values of a result, or what is raised."""
    rng, dtypes = np.random.default_rng(0), itertools.cycle(kinds)

    def make(*shape: int) -> Any:
        return module.tensor(rng.uniform(0.1, 0.9, shape), dtype=getattr(module, next(dtypes)))

    try:
        with module.autocast("cpu", dtype=module.bfloat16):
            out = op(module, module.nn.functional, make)
    except RuntimeError:
        return "raises", None
    return str(out.dtype).split(".")[1], np.array(out.tolist())


@needs_torch
@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("name", MIXED)
def test_arguments_are_converted_before_they_are_checked(name: str, kinds: str) -> None:
    (ours, mine), (theirs, wanted) = (_outcome(m, MIXED[name], KINDS[kinds]) for m in (adjoint, torch))
    assert ours == theirs
    if wanted is not None:
        np.testing.assert_allclose(mine, wanted, rtol=5e-2, atol=5e-2)


def test_attention_of_a_rotary_model() -> None:
    q, v = adjoint.ones(1, 2, 4, 8, requires_grad=True), adjoint.ones(1, 2, 4, 8).bfloat16().requires_grad_()
    with adjoint.autocast("cpu", dtype=adjoint.bfloat16):
        out = adjoint.nn.functional.scaled_dot_product_attention(q, q, v, is_causal=True)
        assert out.dtype is adjoint.bfloat16 and modes.local.autocast is not None
    out.float().sum().backward()
    assert q.grad.dtype is adjoint.float32 and v.grad.dtype is adjoint.bfloat16


def test_switches_that_torch_calls_old_warn() -> None:
    with pytest.warns(DeprecationWarning, match=r"Please use torch.is_autocast_enabled\('cpu'\)"):
        assert not adjoint.is_autocast_cpu_enabled()
    with pytest.raises(RuntimeError, match="unknown device type for autocast"):
        adjoint.is_autocast_enabled("meta")
