"""Rows, columns, scans, order and places on a GPU give what the host gives, whatever the dtype and layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint.nn import functional as F

pytestmark = pytest.mark.gpu

T = adjoint
BOUNDS = {"float64": 1e-9, "float32": 2e-4, "float16": 2e-2, "bfloat16": 0.12}

# Programs of x, of other leaves (w, b: along the last axis; y: like x) and of indexes.
EXPRESSIONS = {
    "slice": "x[:, 1:]", "steps": "x[1:, ::3]", "select": "x[2]", "new axis": "x[:, None, 3:]", "dots": "x[..., -1]",
    "pieces": "T.cat([v * k for k, v in enumerate(x.split(3, 1))], 1)", "a piece": "x.split(3, 1)[1]",
    "blocks": "T.block_diag(x, y)", "joined": "T.cat([x, y]) * 2", "stacked": "T.stack([x, y], 1) * 2",
    "rolled": "T.roll(x, 3, 1) * y", "lower": "T.tril(x, 1) * y", "upper": "T.triu(x, -2) * y",
    "three joined": "T.cat([x, y[:, :5], x * 2], 1) * 2", "many joined": "T.cat([x, y, x, y, x]) * 2",
    "rolled rows": "T.roll(x, 3, 0) * y", "lower, of one number": "T.tril(x)", "upper, turned": "T.triu(x.t()) * y.t()",
    "index_copy": "x.index_copy(0, order, y)", "index_fill": "x.index_fill(0, order[:2], 2.0) * y",
    "padded": "F.pad(x, (1, 2)) * 2", "cut": "F.pad(x, (-1, -2)) * 2",
    "transposed": "x.t() * y.t() + x.t().sum(1)[:, None]", "contiguous": "x.t().contiguous() * 2",
    "sum": "x.sum()", "sum of a part": "x[:, 1:-1].sum()", "sum of rows": "x.sum(1)", "sum of columns": "x.sum(0)",
    "mean": "x.mean()", "mean of columns": "x.mean(0)", "mean of rows": "x.mean(1, keepdim=True)",
    "var": "x.var()", "var of rows": "x.var(1)", "var of columns": "x.var(0, correction=0)", "std": "x.std(0)",
    "norm": "x.norm()", "norm of rows": "x.norm(dim=1)", "norm of columns": "x.norm(dim=0)",
    "norm 1": "x.norm(1, dim=1)",
    "prod": "(x * 0.1 + 1).prod(1)", "prod of columns": "(x * 0.1 + 1).prod(0)", "prod with zeros": "x.relu().prod(1)",
    "max": "x.max(1)[0]", "min": "x.min(0)[0]", "amax": "x.amax(1)", "amin": "x.amin(0)", "max of all": "x.max()",
    "cumsum": "x.cumsum(1)", "cumsum of columns": "x.cumsum(0)", "cumprod": "(x * 0.1 + 1).cumprod(1)",
    "cumprod with zeros": "x.relu().cumprod(1)", "cumprod of columns": "(x * 0.1 + 1).cumprod(0)",
    "cummax": "x.cummax(1)[0]", "cummin": "x.cummin(0)[0]", "logcumsumexp": "x.logcumsumexp(1)",
    "softmax": "x.softmax(1) * y", "softmax of columns": "x.softmax(0) * y", "log_softmax": "x.log_softmax(1) * y",
    "log_softmax of columns": "x.log_softmax(0) * y", "logsumexp": "x.logsumexp(1)",
    "logsumexp of all": "x.logsumexp((0, 1))", "logsumexp of columns": "x.logsumexp(0, keepdim=True)",
    "layer_norm": "F.layer_norm(x, (N,), w, b) * y", "layer_norm bare": "F.layer_norm(x, (N,)) * y",
    "rms_norm": "F.rms_norm(x, (N,), w) * y", "cross_entropy": "F.cross_entropy(x, labels)",
    "cross_entropy each": "F.cross_entropy(x, labels, reduction='none') * c",
    "cross_entropy ignoring": "F.cross_entropy(x, labels, ignore_index=1, reduction='sum') / 8",
    "index_select": "x.index_select(0, rows) * 1.5", "columns by index": "x[:, columns]",
    "embedding": "F.embedding(rows, x)",
    "padding": "F.embedding(rows, x, padding_idx=1)", "gather": "x.gather(1, places)", "by index": "x[rows]",
    "scatter_add": "T.scatter_add(x, 1, places, y)", "index_put": "x.index_put((rows,), y[rows], accumulate=True)",
    "index_put once": "x.index_put((order,), y)", "columns put": "x.index_put((None, order_n), y)",
    "sort": "x.sort(1)[0] * y", "sort down": "x.sort(1, descending=True)[0] * y",
    "normalize": "F.normalize(x, dim=1) * y",
    "batch_norm": "F.batch_norm(z, None, None, wz, bz, training=True) * z2",
    "batch_norm of rows": "F.batch_norm(x, None, None, w, b, training=True) * y",
    "batch_norm of little": "F.batch_norm(z[..., :2, :2], None, None, wz, bz, training=True) * z2[..., :2, :2]",
    "instance_norm of little": "F.instance_norm(z[..., :2, :2]) * z2[..., :2, :2]",
    "group_norm": "F.group_norm(z, 2, wz, bz) * z2", "instance_norm": "F.instance_norm(z) * z2",
}  # fmt: skip
LEAVES = ("x", "y", "w", "b", "c", "z", "z2", "wz", "bz")


def values(shape: tuple[int, int], dtype: str) -> dict[str, Any]:
    """Return numbers of a dtype for all names but T, F and N; some are equal, as sorting must notice."""
    rng = np.random.default_rng(3)
    m, n = shape
    shapes = {"x": shape, "y": shape, "w": (n,), "b": (n,), "c": (m,), "z": (3, 4, 5, 7), "z2": (3, 4, 5, 7)}
    shapes |= {"wz": (4,), "bz": (4,)}
    kind = getattr(T, dtype)
    found: dict[str, Any] = {k: T.tensor(rng.integers(-40, 40, s) / 16).to(kind) for k, s in shapes.items()}
    found |= {"labels": T.tensor(rng.integers(0, n, m)), "rows": T.tensor(rng.integers(0, m, m))}
    found |= {"order": T.tensor(rng.permutation(m)), "order_n": T.tensor(rng.permutation(n))}
    return found | {"columns": T.tensor(rng.integers(0, n, 5)), "places": T.tensor(rng.integers(0, n, shape))}


def run(text: str, names: dict[str, Any], shape: tuple[int, int]) -> tuple[list[Any], list[str]]:
    """Return the value of a program and the gradients of its leaves, in double on the host."""
    names = {k: v.detach().requires_grad_(v.dtype.is_floating_point) for k, v in names.items()}
    out = eval(text, {"T": T, "F": F, "N": shape[1]}, names)
    weight = T.arange(out.numel(), dtype=T.float64).remainder(5).sub(1.5).reshape(out.shape).to(out)
    used = [names[k] for k in LEAVES]
    found = T.autograd.grad(out, used, weight, allow_unused=True)
    return [None if v is None else v.detach().cpu().double().numpy() for v in (out, *found)], ["value", *LEAVES]


@pytest.mark.parametrize("shape", [(5, 7), (40, 96), (3, 1029)], ids=lambda s: f"{s[0]}x{s[1]}")
@pytest.mark.parametrize("dtype", BOUNDS)
def test_as_on_the_host(dtype: str, shape: tuple[int, int]) -> None:
    wrong = []
    for name, text in EXPRESSIONS.items():
        host = values(shape, dtype)
        gpu = {k: v.cuda() for k, v in host.items()}
        expected, names = run(text, {k: v.double() if v.dtype.is_floating_point else v for k, v in host.items()}, shape)
        try:
            got, _ = run(text, gpu, shape)
        except Exception as error:
            wrong.append(f"{name}: {type(error).__name__}: {str(error)[:300]}")
            continue
        for of, a, b in zip(names, got, expected, strict=True):
            if (a is None) != (b is None):
                wrong.append(f"{name}: gradient of {of} is {'missing' if a is None else 'there'}")
            elif b is not None:
                scale = 1 + np.abs(np.nan_to_num(b)).max(initial=0)
                bound = BOUNDS[dtype]
                if a.shape != b.shape or not np.allclose(a / scale, b / scale, bound, bound, equal_nan=True):
                    worst = np.abs(a - b).max() / scale if a.shape == b.shape else (a.shape, b.shape)
                    wrong.append(f"{name}: {of} is off by {worst}")
    assert not wrong, "\n".join(wrong)


SPECIAL = [[1.0, np.nan, 2.0], [np.inf, 1.0, -np.inf], [-np.inf] * 3, [0.0, -0.0, 0.0], [np.nan, np.nan, 3.0]]


@pytest.mark.parametrize(
    "text",
    ["x.softmax(1)", "x.log_softmax(1)", "x.softmax(0)", "x.sum(1)", "x.sum(0)", "x.max(1)[0]", "x.max(1)[1]",
     "x.min(0)[1]", "x.amax(0)", "x.amin()", "x.var(1)", "x.cumsum(1)", "x.cummax(1)[1]", "x.cummin(1)[0]",
     "x.argmax(1)", "x.prod(1)",
     "x.sort(1)[1]", "x.sort(1, descending=True)[1]", "x.topk(2, 1)[1]", "x.logcumsumexp(1)", "x.logsumexp(1)",
     "F.cross_entropy(x, T.zeros(5, dtype=T.int64, device=x.device), reduction='none')"],
)  # fmt: skip
def test_nan_and_infinity(text: str) -> None:
    host = T.tensor(SPECIAL)
    with np.errstate(all="ignore"):
        a, b = (eval(text, {"x": x, "T": T, "F": F}) for x in (host, host.cuda()))
    np.testing.assert_allclose(b.cpu().numpy(), a.numpy(), rtol=1e-6)


def test_large_arrays() -> None:
    """Pieces that are put together by a second launch, several tiles of a scan, rows that no pack fits."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 20011)).astype(np.float32)
    a, b = T.tensor(x), T.tensor(x).cuda()
    y = rng.standard_normal((5, 33, 9, 8)).astype(np.float32)
    weight = rng.standard_normal(33).astype(np.float32)
    found = []
    for place in ("cpu", "cuda"):  # a block for each of many channels
        z, w = (T.tensor(v).to(place).requires_grad_() for v in (y, weight))
        out = F.batch_norm(z, None, None, w, w, training=True)
        found.append([out, *T.autograd.grad((out * out * out).sum(), (z, w))])
    for one, two in zip(*found, strict=True):
        np.testing.assert_allclose(two.detach().cpu().numpy(), one.detach().numpy(), rtol=2e-3, atol=2e-3)
    for text in ("x.t().contiguous().cumsum(0)", "x.t().contiguous().cummax(0)[1]",
                 "x.sum(1)", "x.sum()", "x.t().sum(0)", "x.var()", "x.t().contiguous().var(0)", "x.max(1)[1]",
                 "x.t().contiguous().max(0)[1]", "x.t().contiguous().sum(0)", "x.cumsum(1)", "x.softmax(1)",
                 "x.log_softmax(1)", "x.norm()", "x.std(1)", "x.topk(5, 1)[1]", "x.topk(9, 1, False)[0]"):  # fmt: skip
        one, two = (eval(text, {"x": v}) for v in (a.double(), b))
        np.testing.assert_allclose(two.cpu().numpy(), one.numpy(), rtol=2e-4, atol=2e-3, err_msg=text)


def test_dropout_draws_on_the_gpu() -> None:
    """The seed decides; as many are kept as should be, and what is kept is scaled."""
    x = T.ones(200, 301, device="cuda", requires_grad=True)
    T.manual_seed(5)
    one = F.dropout(x, 0.25)
    two = F.dropout(x, 0.25)
    T.manual_seed(5)
    again = F.dropout(x, 0.25)
    a, b, c = (v.detach().cpu().numpy() for v in (one, two, again))
    np.testing.assert_array_equal(a, c)
    assert 0.35 < (a != b).mean() < 0.4
    assert abs((a > 0).mean() - 0.75) < 0.01
    np.testing.assert_allclose(np.unique(a), [0, 4 / 3], rtol=1e-6)
    one.sum().backward()
    np.testing.assert_array_equal(x.grad.cpu().numpy(), a)


@pytest.mark.parametrize("dtype", BOUNDS)
def test_many_numbers_are_drawn_on_the_gpu(dtype: str) -> None:
    """Uniform and normal numbers have the moments that they should, and a seed gives them again."""
    kind = getattr(T, dtype)
    draws = []
    for _ in range(2):
        T.manual_seed(1)
        u = T.empty(300, 401, dtype=kind, device="cuda").uniform_(-2, 3)
        draws.append([v.double().cpu().numpy() for v in (u, T.randn(70001, dtype=kind, device="cuda"))])
    u, n = draws[0]
    np.testing.assert_array_equal(u, draws[1][0])
    np.testing.assert_array_equal(n, draws[1][1])
    assert u.min() >= -2 and u.max() < 3 and abs(u.mean() - 0.5) < 0.02 and abs(u.var() - 25 / 12) < 0.03
    assert abs(n.mean()) < 0.02 and abs(n.std() - 1) < 0.02 and abs((n**3).mean()) < 0.06
    assert abs((n**4).mean() - 3) < 0.15 and abs((np.abs(n) > 1.96).mean() - 0.05) < 0.005
