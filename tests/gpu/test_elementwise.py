"""Elementwise ops on a GPU: formulas in C give what the rules give, whatever the dtype and layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint.core.nodes import registry

pytestmark = pytest.mark.gpu

F = adjoint.nn.functional

# Each primitive that has a row in C, as a program writes it; `p` is positive, `u` between 0 and 1, `m` a mask.
EXPRESSIONS = {
    "add": "x + y", "sub": "x - y", "rsub": "2 - x", "mul": "x * y", "div": "x / p", "neg": "-x",
    "div_floor": "x // p", "div_trunc": "adjoint.div(x, p, rounding_mode='trunc')", "remainder": "x % p",
    "fmod": "adjoint.fmod(x, p)", "addcmul": "adjoint.addcmul(x, y, p, value=0.5)",
    "addcdiv": "adjoint.addcdiv(x, y, p, value=0.5)", "lerp": "adjoint.lerp(x, y, u)", "lerp_by": "x.lerp(y, 0.7)",
    "sqrt": "p.sqrt()", "rsqrt": "p.rsqrt()", "reciprocal": "p.reciprocal()", "pow": "p ** y",
    "power": "x ** 2 + p ** 0.5 + p ** 1.7 + p ** -1 + x ** 3 + p ** -0.5", "exponential": "2.5 ** x", "exp": "x.exp()",
    "exp2": "x.exp2()", "expm1": "x.expm1()", "log": "p.log()", "log2": "p.log2()", "log10": "p.log10()",
    "log1p": "p.log1p()", "xlogy": "adjoint.xlogy(x, p)", "xlog1py": "adjoint.special.xlog1py(x, p)",
    "logaddexp": "adjoint.logaddexp(x, y)", "logaddexp2": "adjoint.logaddexp2(x, y)", "sin": "x.sin()",
    "cos": "x.cos()", "tan": "u.tan()", "asin": "u.asin()", "acos": "u.acos()", "atan": "x.atan()",
    "sinh": "x.sinh()", "cosh": "x.cosh()", "tanh": "x.tanh()",
    "tanh_back": "adjoint.autograd.grad(x.tanh().sum(), x, create_graph=True)[0]", "asinh": "x.asinh()",
    "acosh": "(p + 1.5).acosh()", "atanh": "(u * 0.9).atanh()", "atan2": "adjoint.atan2(x, y)",
    "hypot": "adjoint.hypot(x, p)", "deg2rad": "x.deg2rad()", "rad2deg": "x.rad2deg()", "erf": "x.erf()",
    "erfc": "x.erfc()", "ndtr": "adjoint.special.ndtr(x)", "copysign": "adjoint.copysign(x, y)",
    "heaviside": "adjoint.heaviside(x, y) + x", "where": "adjoint.where(m, x, y)",
    "masked_fill": "x.masked_fill(m, 0.5)",
    "share": "adjoint.autograd.grad(adjoint.maximum(x, y).sum(), x, create_graph=True)[0] + x",
    "maximum": "adjoint.maximum(x, y)", "minimum": "adjoint.minimum(x, x * 1)", "fmax": "adjoint.fmax(x, y)",
    "fmin": "adjoint.fmin(x, y)", "clamp": "x.clamp(-0.5, 0.5) + y.clamp(min=0)",
    "clamp_tensors": "adjoint.clamp(x, y, p)", "clamp_min": "adjoint.clamp(x, min=y)",
    "clamp_max": "adjoint.clamp(x, max=y)", "abs": "x.abs()", "sign": "x.sign() * x", "sgn": "x.sgn() * x",
    "floor": "x.floor()", "ceil": "x.ceil()", "trunc": "x.trunc()", "round": "(x * 3).round()", "frac": "x.frac()",
    "nan_to_num": "(x / 0).nan_to_num(0.5, 2.0, -3.0) + x.nan_to_num()", "eq": "(x == y) * x", "ne": "(x != y) * x",
    "lt": "(x < y) * x", "le": "(x <= 0.5) * x", "gt": "(x > y) * x", "ge": "(x >= y) * x",
    "isnan": "(x / x).isnan() * x", "isinf": "(x / 0).isinf() * x", "isfinite": "x.isfinite() * x",
    "logical_not": "x.floor().logical_not() * x", "relu": "x.relu()", "hardtanh": "F.hardtanh(x, -0.5, 0.7)",
    "leaky_relu": "F.leaky_relu(x, 0.2)", "prelu": "F.prelu(x, p[0, 0])", "threshold": "F.threshold(x, 0.1, 20.0)",
    "hardshrink": "F.hardshrink(x)", "softshrink": "F.softshrink(x)", "hardsigmoid": "F.hardsigmoid(x * 3)",
    "hardswish": "F.hardswish(x * 3)", "elu": "F.elu(x, 1.3) + F.selu(y) + F.celu(p, 0.7)",
    "softplus": "F.softplus(x * 20) + F.softplus(y, 2.0, 1.0)", "log_sigmoid": "F.logsigmoid(x)",
    "sigmoid": "x.sigmoid()", "silu": "F.silu(x)",
    "silu_slope": "adjoint.autograd.grad(F.silu(x).sum(), x, create_graph=True)[0]", "mish": "F.mish(x)",
    "gelu": "F.gelu(x) + F.gelu(y, approximate='tanh')",
    "gelu_slope": "adjoint.autograd.grad(F.gelu(x).sum(), x, create_graph=True)[0]",
}  # fmt: skip
TOLERANCES = {"float64": 1e-12, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


def inputs(place: str, dtype: Any, wide: Any, shape: tuple[int, ...] = (3, 5)) -> dict[str, Any]:
    """Return leaves of `dtype` rounded alike on both sides, held in `wide`."""
    rng = np.random.default_rng(0)
    made = {"x": rng.normal(size=shape), "y": rng.normal(size=shape), "p": rng.uniform(0.3, 2, shape),
            "u": rng.uniform(0.05, 0.95, shape)}  # fmt: skip
    leaves = {k: adjoint.tensor(v).to(dtype).to(place, wide).requires_grad_() for k, v in made.items()}
    return leaves | {"m": adjoint.tensor(rng.uniform(size=shape) > 0.5, device=place)}


def computed(expression: str, leaves: dict[str, Any], seed: int = 1) -> dict[str, Any]:
    """Return an expression's value, and its gradients under a cotangent of random numbers."""
    out = eval(expression, {"adjoint": adjoint, "F": F, "np": np} | leaves)
    cotangent = adjoint.tensor(np.random.default_rng(seed).normal(size=tuple(out.shape)))
    out.backward(cotangent.to(out.device, out.dtype))
    found = {k: v.grad for k, v in leaves.items() if v.grad is not None}
    return {k: v.detach().cpu().double().numpy() for k, v in {"value": out, **found}.items()}


def agree(mine: dict[str, Any], theirs: dict[str, Any], tolerance: float) -> None:
    assert mine.keys() == theirs.keys()
    for name, value in mine.items():
        np.testing.assert_allclose(value, theirs[name], tolerance, tolerance, err_msg=name)


def test_every_row_is_tried() -> None:
    from adjoint.devices.cuda.elementwise import row_of

    assert {op.name for op in registry.values() if row_of(op) is not None} >= set(EXPRESSIONS)


def test_host_arrays_keep_their_kernels() -> None:
    """A GPU that appears changes no op: its arrays find their kernels in a table beside each op."""
    ops = [registry[name] for name in ("mul", "relu", "maximum", "mse_loss")]
    before = [(op.kernel, op.run, op.direct, op.into) for op in ops]
    x = adjoint.ones(3, device="cuda", requires_grad=True)
    F.mse_loss(adjoint.maximum(adjoint.relu(x * x), x), x).backward()
    assert [(op.kernel, op.run, op.direct, op.into) for op in ops] == before
    assert all(op.variants[type(x.detach().array)].kernel is not op.kernel for op in ops)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_formulas_agree_with_rules(name: str, dtype: str) -> None:
    kind = getattr(adjoint, dtype)
    mine = computed(EXPRESSIONS[name], inputs("cuda", kind, kind))
    theirs = computed(EXPRESSIONS[name], inputs("cpu", kind, adjoint.float64))
    steep = dtype not in ("float64", "float32") and name in ("div_floor", "remainder", "fmod", "div_trunc", "power")
    agree(mine, theirs, TOLERANCES[dtype] * (20 if steep else 1))


LAYOUTS = {
    "transposed": "x.t() * y.t()",
    "one transposed": "x.t() * y.reshape(5, 3)",
    "a row": "x * y[0]",
    "a column": "x * y[:, :1]",
    "a number in memory": "x * y[0, 0]",
    "every other": "x[:, ::2] * y[:, ::2]",
    "backwards": "x.flip(1) * y[1:, :][:1]",
    "repeated": "x.expand(2, 3, 5) * y.reshape(3, 5)",
    "outer": "x.reshape(15, 1) * y.reshape(1, 15)",
    "permuted": "x.reshape(3, 5, 1).permute(2, 1, 0) * y.reshape(3, 5, 1).permute(2, 1, 0)",
    "itself": "x * x + x / x",
    "numbers of NumPy's": "x * np.float64(2) + y / np.int64(3)",
    "one number": "-x[0, 0].expand(3, 5) * y[0, :1].expand(3, 5)",
    "a sum": "(x - y).abs().sum() * adjoint.ones(3, device=x.device, dtype=x.dtype)",
}


@pytest.mark.parametrize("expression", LAYOUTS.values(), ids=list(LAYOUTS))
def test_operands_of_any_layout(expression: str) -> None:
    mine = computed(expression, inputs("cuda", adjoint.float64, adjoint.float64))
    agree(mine, computed(expression, inputs("cpu", adjoint.float64, adjoint.float64)), 1e-12)


@pytest.mark.parametrize(
    "expression",
    ["x * y", "x + y[0]", "x * y[:, :1]", "x[:, 1:] * y[:, 1:]", "x[1:] * y[1:]", "x.t() * y.t()",
     "x[:, ::2] + y[:, ::2]", "adjoint.where(m, x, y[0])",
     "x.reshape(-1)[1:] * y.reshape(-1)[1:]", "x.mul(2.5).clamp(min=0.1)"],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_large_arrays_are_read_in_packs(expression: str, dtype: str) -> None:
    kind = getattr(adjoint, dtype)
    mine = computed(expression, inputs("cuda", kind, kind, (260, 264)))
    theirs = computed(expression, inputs("cpu", kind, adjoint.float64, (260, 264)))
    for name, value in mine.items():
        if name != "y":  # whose gradient may be the sum of many
            np.testing.assert_allclose(value, theirs[name], TOLERANCES[dtype], TOLERANCES[dtype], err_msg=name)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("size", [(7, 5), (257, 129)])
@pytest.mark.parametrize(
    "name", ["mse_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss", "binary_cross_entropy_with_logits"]
)
def test_losses(name: str, size: tuple[int, ...], reduction: str) -> None:
    expression = f"F.{name}(x, y, reduction='{reduction}')"
    mine = computed(expression, inputs("cuda", adjoint.float64, adjoint.float64, size))
    agree(mine, computed(expression, inputs("cpu", adjoint.float64, adjoint.float64, size)), 1e-11)


def test_a_gradient_that_the_program_holds_stays_as_it_is() -> None:
    x = adjoint.ones(100, 100, device="cuda", requires_grad=True)
    g = adjoint.ones(100, 100, device="cuda")
    (x + 1).backward(g)
    x.grad.mul_(3)
    assert g.cpu().numpy().max() == 1


@pytest.mark.parametrize("shape", [(3, 5), (300, 301)])
@pytest.mark.parametrize("target", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("source", ["float64", "float32", "float16", "bfloat16", "bool", "int64"])
def test_conversion(source: str, target: str, shape: tuple[int, ...]) -> None:
    values = adjoint.tensor(np.random.default_rng(0).normal(size=shape) * 3).to(getattr(adjoint, source))
    wanted = values.to(getattr(adjoint, target)).double().numpy()
    for given, expected in ((values.to("cuda"), wanted), (values.to("cuda").t(), wanted.T)):
        found = given.to(getattr(adjoint, target))
        assert found.dtype is getattr(adjoint, target)
        np.testing.assert_allclose(found.cpu().double(), expected, 1e-3 if source == "float64" else 0)


def test_a_gradient_that_nobody_else_holds_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = (adjoint.ones(100, 100, device="cuda", requires_grad=True) for _ in range(2))
    copies: list[Any] = []
    kind: Any = type(x.array)
    usual = kind.copy
    monkeypatch.setattr(kind, "copy", lambda self, *rest: copies.append(self) or usual(self, *rest))
    (x * y).backward(adjoint.ones(100, 100, device="cuda"))
    (x.t().tanh().t() * 2).sum().backward()
    z = adjoint.ones(100, 100, device="cuda", requires_grad=True)
    (z.t() * y.t()).sum().backward()
    assert not copies


@pytest.mark.parametrize(
    "written",
    ["x.relu_()", "x.clamp_(-0.5, 0.5)", "x.clamp_(min=y)", "x.addcmul_(y, p, value=0.3)", "x.addcdiv_(y, p)",
     "x.lerp_(y, 0.4)", "x.masked_fill_(m, 2.0)", "x.sigmoid_()", "x.pow_(2)", "x.t().mul_(y.t())", "x[1:].floor_()",
     "x.add_(y, alpha=2)", "x.div_(p)", "x.neg_()", "x.copysign_(y)", "x.mul_(y[0])", "F.silu(x, inplace=True)"],
)  # fmt: skip
def test_in_place_forms(written: str) -> None:
    found = []
    for place in ("cuda", "cpu"):
        leaves = {k: v.detach() for k, v in inputs(place, adjoint.float64, adjoint.float64).items()}
        eval(written, {"adjoint": adjoint, "F": F} | leaves)
        found.append(leaves["x"].cpu().numpy())
    np.testing.assert_allclose(*found, 1e-12)


@pytest.mark.parametrize("kind", ["float64", "bfloat16", "int64", "bool", "complex64"])
def test_copies_are_of_their_own(kind: str) -> None:
    x = adjoint.tensor([[1.0, 0.0], [2.0, 3.0]], device="cuda").to(getattr(adjoint, kind))
    for given in (x, x.t(), x[:, 1:], x[0, 0].expand(2, 2)):
        copied = given.array.copy()
        np.testing.assert_array_equal(copied.get().astype(complex), given.array.get().astype(complex))
        assert copied.data.ptr != given.data_ptr()


def test_in_place_writes() -> None:
    x = adjoint.arange(12.0, device="cuda").reshape(3, 4)
    x += 1
    x.mul_(x)
    x[1:] -= x[:-1]
    rows = np.arange(1.0, 13).reshape(3, 4) ** 2
    np.testing.assert_array_equal(x.cpu(), np.concatenate([rows[:1], np.diff(rows, axis=0)]))


def test_a_result_of_transposed_operands_is_laid_out_as_they_are() -> None:
    x = adjoint.ones(3, 5, device="cuda").t()
    assert (x * x).stride() == x.stride()


def test_nan_and_infinity() -> None:
    values = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0]
    x, y = (adjoint.tensor(values, device=place).repeat(6) for place in ("cuda", "cpu"))
    v, w = (adjoint.tensor(values, device=place).repeat_interleave(6) for place in ("cuda", "cpu"))
    for name in ("maximum", "minimum", "fmax", "fmin", "xlogy", "logaddexp", "hypot", "atan2", "eq", "lt", "ge"):
        mine, theirs = getattr(adjoint, name)(x, v).cpu(), getattr(adjoint, name)(y, w)
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), 1e-6, err_msg=name)
    for name in ("relu", "sign", "abs", "isnan", "isinf", "isfinite", "nan_to_num", "floor", "sigmoid", "tanh"):
        np.testing.assert_allclose(getattr(adjoint, name)(x).cpu(), getattr(adjoint, name)(y), 1e-6, err_msg=name)


def test_memory_of_small_arrays_is_taken_again_only_when_nobody_holds_it() -> None:
    x = adjoint.ones(4, 4, device="cuda")
    kept = [x + i for i in range(100)]
    views = [(x * i)[1:] for i in range(100)]
    for i in range(100):
        assert kept[i].cpu().numpy().max() == 1 + i
        assert views[i].cpu().numpy().max() == i


def test_memory_of_small_arrays_counts_only_while_somebody_holds_them() -> None:
    x = adjoint.ones(4, 4, device="cuda")
    before = adjoint.cuda.memory_allocated()
    for _ in range(10):
        y = x * 2
    assert adjoint.cuda.memory_allocated() > before
    del y
    assert adjoint.cuda.memory_allocated() == before


def test_the_peak_of_memory_is_known_though_nobody_looked() -> None:
    x = adjoint.ones(1 << 20, device="cuda")
    adjoint.cuda.reset_peak_memory_stats()
    before = adjoint.cuda.memory_allocated()
    y = (x * 2 + (x * 3)) * (x * 4)  # at the most four of four megabytes, and y
    del y
    for _ in range(20):  # in turn
        x * 2
    most, now = adjoint.cuda.max_memory_allocated(), adjoint.cuda.memory_allocated()
    assert now == before and 11 << 20 <= most - before <= 20 << 20
    assert adjoint.cuda.max_memory_reserved() >= most
    adjoint.cuda.reset_peak_memory_stats()
    assert adjoint.cuda.max_memory_allocated() - before < 1 << 20


def test_a_small_array_is_not_used_again_while_its_memory_is_looked_at() -> None:
    import cupy
    from cupy.lib.stride_tricks import as_strided  # whose result has no base

    if hasattr(cupy, "simulated"):
        pytest.skip("what refers to memory is told by objects of CuPy's own")
    x = adjoint.ones(4, 4, device="cuda")
    views = [as_strided((x * i).array, (16,), (4,)) for i in range(100)]
    for i in range(100):
        assert adjoint.core.nodes.wrap(views[i]).cpu().numpy().max() == i
