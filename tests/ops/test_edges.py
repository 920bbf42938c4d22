"""Values and gradients at the edges of domains: NaN, zeros in products, negative bases; torch or differences judge."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint.nn import functional
from tests.oracle import needs_torch, same

nan = float("nan")
EXTREMES = ("min", "max", "amin", "amax", "median", "nanmedian")


@needs_torch
@pytest.mark.parametrize("name", EXTREMES)
@pytest.mark.parametrize("values", [[1.0, nan, 3.0], [nan, nan, 1.0], [[1.0, nan], [2.0, 3.0]], [2.0, 2.0, 1.0]])
def test_gradient_of_an_extreme_with_nan(name: str, values: Any) -> None:
    def program(m: Any) -> Any:
        x = m.tensor(values, dtype=m.float64, requires_grad=True)
        out = getattr(m, name)(x)
        return [out, *m.autograd.grad(out, x)]

    same(program)


@needs_torch
@pytest.mark.parametrize("base", [-2.0, -1, 2.0, 0.0, 1 + 1j, -2 + 0j])
@pytest.mark.parametrize("power", [1 + 1j, 2 + 0j, 0.5 + 0j, -1 + 2j])
def test_gradient_of_a_complex_power(base: Any, power: complex) -> None:
    def program(m: Any) -> Any:
        x = m.tensor(power, dtype=m.complex128, requires_grad=True)
        return list(m.autograd.grad((base**x).abs(), x)) if base or (power.real > 0 and not power.imag) else []

    same(program)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize(
    "source", [[0.0, 0.0, 3.0, 4.0], [0.0, 2.0, 0.0, 0.0], [1.0, 2.0, 0.0, 4.0], [0.0, 0.0, 0.0, 1.0]]
)
@pytest.mark.parametrize("index", [[0, 0, 1, 1], [0, 0, 0, 1], [2, 0, 2, 0]])
@pytest.mark.parametrize("name", ["scatter_reduce", "index_reduce"])
def test_derivatives_of_a_product_with_zeros(name: str, index: Any, source: Any, include_self: bool) -> None:
    x = adjoint.tensor([2.0, 0.0, 5.0], dtype=adjoint.float64, requires_grad=True)
    y = adjoint.tensor(source, dtype=adjoint.float64, requires_grad=True)
    f = lambda x, y: getattr(x, name)(0, adjoint.tensor(index), y, "prod", include_self=include_self)
    assert adjoint.autograd.gradcheck(f, (x, y))
    assert adjoint.autograd.gradgradcheck(f, (x, y))


@needs_torch
@pytest.mark.parametrize("eps", [None, 0.0, 0.1, 0.4, 0.5, 0.6, 0.9, 1.0])
def test_logit_with_crossed_bounds(eps: float | None) -> None:
    def program(m: Any) -> Any:
        x = m.tensor([0.0, 0.05, 0.3, 0.5, 0.55, 0.7, 0.95, 1.0, nan], dtype=m.float64, requires_grad=True)
        return [m.logit(x, eps=eps), *m.autograd.grad(m.logit(x, eps=eps).sum(), x)]

    same(program)


# --- What `gates.ops` found ----------------------------------------------------------------------------

inf = float("inf")


def _grad(m: Any, f: Any, *values: Any) -> Any:
    """Return the value of a function of float64 tensors, and gradients of its sum."""
    leaves = [m.tensor(v, dtype=m.float64, requires_grad=True) for v in values]
    out = f(*leaves)
    return [out, *m.autograd.grad(out.sum(), leaves)]


def _tangent(m: Any, f: Any, value: Any, other: Any) -> Any:
    """Return the tangent of a function of two tensors along the second alone."""
    x, y = (m.tensor(v, dtype=m.float64) for v in (value, other))
    return m.func.jvp(lambda y: f(x, y), (y,), (m.ones_like(y),))[1]


def _pow_twice(m: Any) -> Any:
    x, y = (m.tensor(v, dtype=m.float64, requires_grad=True) for v in ([0.0, 2.0, 0.0], [0.5, 2.0, 2.5]))
    g = m.ones(3, dtype=m.float64, requires_grad=True)
    return m.autograd.grad(m.autograd.grad(x**y, (x, y), g, create_graph=True), g, (g.detach(), g.detach()))


def _elu_twice(m: Any) -> Any:
    x = m.tensor([0.0, -0.0, 1.0, -1.0], dtype=m.float64, requires_grad=True)
    (g,) = m.autograd.grad(m.nn.functional.celu(x).sum(), x, create_graph=True)
    return m.autograd.grad(g.sum(), x)


def _read(m: Any, grid: Any, mode: str, padding: str) -> Any:
    image = m.tensor([[[[inf, 1.0, 2.0], [3.0, 4.0, 5.0]]]], dtype=m.float64)
    place = m.tensor([[grid]], dtype=m.float64)
    return m.nn.functional.grid_sample(image, place, mode, padding, align_corners=True)


AT_EDGES = {
    "no tangent of an infinite part: cat": lambda m: _tangent(m, lambda x, y: m.cat([x, y]), [inf, nan], [1.0]),
    "no tangent: dstack": lambda m: _tangent(m, lambda x, y: m.dstack([x, y]), [inf, nan], [1.0, 2.0]),
    "no tangent: masked_scatter": lambda m: _tangent(
        m, lambda x, y: x.masked_scatter(m.tensor([True, False]), y), [inf, nan], [1.0, 2.0]
    ),
    "no tangent: index_add": lambda m: _tangent(
        m, lambda x, y: x.index_add(0, m.tensor([0]), y), [inf, nan], [1.0]
    ),
    "no tangent: diagonal_scatter": lambda m: _tangent(
        m, lambda x, y: m.diagonal_scatter(x, y), [[inf, nan], [nan, 1.0]], [1.0, 2.0]
    ),
    "no tangent: slice_scatter": lambda m: _tangent(
        m, lambda x, y: m.slice_scatter(x, y, 0, 1), [inf, nan, 1.0], [1.0, 2.0]
    ),
    "pow at zero": _pow_twice,
    "celu at its bend": _elu_twice,
    "logcumsumexp and inf": lambda m: _grad(m, lambda x: m.logcumsumexp(x, 0), [1.0, -inf, 2.0, inf, 3.0]),
    "i1 of the smallest": lambda m: _grad(m, m.special.i1, [5e-324, 0.0, 1.0]),
    "i1e of the smallest": lambda m: _grad(m, m.special.i1e, [5e-324, 0.0, 1.0]),
    "sinc of the smallest": lambda m: _grad(m, m.sinc, [5e-324, 0.0, 1.0]),
    "lgamma of the smallest": lambda m: m.lgamma(m.tensor([5e-324, 1e-310, -5e-324, -inf], dtype=m.float64)),
    "addcdiv by the smallest": lambda m: m.addcdiv(
        *(m.tensor([v], dtype=m.float64) for v in (1.0, 2.0, 5e-324)), value=0
    ),
    "addcmul of the largest": lambda m: m.addcmul(
        *(m.tensor([v], dtype=m.float64) for v in (1.0, 1e308, 0.25)), value=4
    ),
    "gaussian_nll_loss, infinite variance": lambda m: _grad(
        m, lambda x, v: m.nn.functional.gaussian_nll_loss(x, x.detach() + 1, v), [0.5, 1.0], [inf, 1e-9]
    ),
    "logits that are infinite": lambda m: m.nn.functional.binary_cross_entropy_with_logits(
        m.tensor([inf, inf, inf, 1.0]), m.tensor([0.0, 0.5, 2.0, 0.5]), reduction="none"
    ),
    "logits that are infinite, many": lambda m: m.nn.functional.binary_cross_entropy_with_logits(
        m.tensor([inf, 1.0]).repeat(50000), m.tensor([0.5, 0.5]).repeat(50000), reduction="none"
    ),
    "leaky_relu without a slope": lambda m: m.nn.functional.leaky_relu(m.tensor([inf, 1.0, -1.0]), 0),
    "leaky_relu without a slope, many": lambda m: m.nn.functional.leaky_relu(m.tensor([inf, -1.0] * 70000), 0),
    "largest element beside NaN": lambda m: _grad(m, lambda x: m.linalg.vector_norm(x, inf), [1.0, nan, 2.0])[1][::2],
    "smooth_l1_loss of NaN": lambda m: _tangent(m, m.nn.functional.smooth_l1_loss, [nan, 1.0], [1.0, 2.0]),
    "huber_loss of NaN": lambda m: _tangent(m, m.nn.functional.huber_loss, [nan, 1.0], [1.0, 2.0]),
    "nansum of integers": lambda m: m.nansum(m.tensor([1, 2], dtype=m.int16), dtype=m.int16),
    "index_fill of bytes": lambda m: m.ones(3, dtype=m.uint8).index_fill(0, m.tensor([1]), -2),
    "gelu of the largest": lambda m: m.nn.functional.gelu(m.tensor([1.7976931348623157e308], dtype=m.float64)),
    "sub with alpha, bytes": lambda m: m.sub(m.ones(2, dtype=m.float64), m.tensor(3, dtype=m.uint8), alpha=-1),
    "adaptive_max_pool2d to more than there are": lambda m: _grad(
        m, lambda x: m.nn.functional.adaptive_max_pool2d(x, (1, 4)), [[[[1.0, 2.0], [4.0, 3.0], [0.0, 5.0]]]]
    ),
    "quantile beside infinity": lambda m: m.quantile(m.tensor([-inf, -1.0, 1.0, inf]), 0.25),
    "midpoint beside infinity": lambda m: m.quantile(m.tensor([-inf, 1.0]), 0.5, interpolation="midpoint"),
    "add with alpha, booleans": lambda m: m.add(m.tensor([True, False]), m.tensor([False, True]), alpha=2),
    "add with alpha, bytes": lambda m: m.add(m.tensor([1], dtype=m.uint8), m.tensor([True]), alpha=3),
    "interpolate to its own size, bfloat16": lambda m: m.nn.functional.interpolate(
        m.tensor([[[1.0, 2.0]]], dtype=m.bfloat16), scale_factor=1.0, mode="linear", align_corners=True
    ),
    "grid_sample outside, beside inf": lambda m: _read(m, [[2.0, -1.0], [1.5, 0.0], [0.0, -1.0]], "bilinear", "zeros"),
    "grid_sample at infinity, border": lambda m: _read(m, [[inf, 1.0], [-1.0, inf], [nan, 1.0]], "bilinear", "border"),
    "grid_sample at infinity, nearest": lambda m: _read(m, [[inf, 1.0], [nan, nan]], "nearest", "zeros"),
}  # fmt: skip


@pytest.mark.parametrize("other", [3, np.int64(3), adjoint.tensor(3)], ids=["int", "NumPy", "0-d"])
@pytest.mark.parametrize("name", ["xlogy", "xlog1py"])
def test_tangent_beside_an_integer_is_of_double_precision(name: str, other: Any) -> None:
    ad = adjoint.autograd.forward_ad
    with ad.dual_level():
        x = ad.make_dual(*(adjoint.tensor([v], dtype=adjoint.float64) for v in (2.0, 1.0)))
        tangent = ad.unpack_dual(getattr(adjoint.special, name)(x, other)).tangent
    assert tangent.item() == pytest.approx(math.log(3 if name == "xlogy" else 4), rel=1e-15)


@needs_torch
@pytest.mark.parametrize("name", AT_EDGES)
def test_at_an_edge(name: str) -> None:
    same(AT_EDGES[name])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_formulas_of_single_numbers_keep_their_dtype(dtype: str) -> None:
    kind, functional = getattr(adjoint, dtype), adjoint.nn.functional
    x, y = adjoint.tensor(-2.5, dtype=kind, requires_grad=True), adjoint.tensor(1.0, dtype=kind)
    for out in (
        adjoint.nan_to_num(x, posinf=1.0, neginf=-3.0),
        functional.binary_cross_entropy_with_logits(x, y),
        functional.hardswish(x),
        adjoint.maximum(x, y),
    ):
        (gradient,) = adjoint.autograd.grad(out, x)
        assert out.dtype == gradient.dtype == kind


# --- What `gates.ops` has found -----------------------------------------------------------------------


def test_products_of_the_others_beside_infinity() -> None:
    x = adjoint.tensor([[0.0, math.inf], [math.inf, 2.0]], requires_grad=True)
    (g,) = adjoint.autograd.grad(x.prod(1).sum(), x, create_graph=True)
    assert g.tolist() == [[math.inf, 0.0], [2.0, math.inf]]
    one = adjoint.tensor([[math.inf]], requires_grad=True)
    (g,) = adjoint.autograd.grad(one.prod(1).sum(), one, create_graph=True)
    assert g.item() == 1.0 and adjoint.autograd.grad(g.sum(), one)[0].item() == 0.0


@pytest.mark.parametrize("groups", [1, 2])
def test_an_element_that_a_weight_never_meets_is_not_in_its_gradient(groups: int) -> None:
    x = np.ones((2, 2, 5, 4), np.float32)
    x[1, 0, 0, 3] = np.nan  # the last column: the first of two taps ends before it
    w = adjoint.ones(2, 2 // groups, 1, 2, requires_grad=True)
    out = functional.conv2d(adjoint.tensor(x), w, groups=groups)
    (g,) = adjoint.autograd.grad(out.sum(), w)
    assert g[0, 0, 0, 0].item() == 30 and math.isnan(g[0, 0, 0, 1].item())


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 1.0])
def test_sorting_a_batch_of_numbers(value: float) -> None:
    x = adjoint.tensor([value, value])
    assert adjoint.vmap(adjoint.argsort)(x).tolist() == [0, 0]
    np.testing.assert_equal(adjoint.vmap(lambda t: adjoint.sort(t)[0])(x).numpy(), x.numpy())


def test_one_singular_matrix_of_a_batch() -> None:
    x = adjoint.tensor([[[2.0, 0.0], [0.0, 4.0]], [[1.0, 2.0], [2.0, 4.0]]], requires_grad=True)
    (g,) = adjoint.autograd.grad(adjoint.linalg.slogdet(x)[1].sum(), x)
    assert g[0].tolist() == [[0.5, 0.0], [0.0, 0.25]] and bool(g[1].isnan().all())


def test_nothing_to_compute_takes_any_dtype() -> None:
    assert adjoint.nanmedian(adjoint.zeros(0, dtype=adjoint.int64)).dtype is adjoint.int64
    assert adjoint.cummax(adjoint.tensor(1j), 0)[0].item() == 1j
    assert not adjoint.cumsum(adjoint.tensor(False), 0, dtype=adjoint.bool).item()
    bools = adjoint.ones(4, dtype=adjoint.bool)
    assert adjoint.matmul(adjoint.ones(0, 4, dtype=adjoint.bool), bools).dtype is adjoint.bool
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        adjoint.mv(adjoint.ones(2, 4, dtype=adjoint.bool), bools)


@pytest.mark.parametrize("shape", [(1,), (3, 1), (2, 3, 1), (3, 2)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_zero_times_infinity_in_products_of_small_matrices(shape: tuple[int, ...], dtype: str) -> None:
    kind = getattr(adjoint, dtype)
    x, w = adjoint.full(shape, math.inf, dtype=kind), adjoint.zeros(1, shape[-1], dtype=kind)
    for out in (functional.linear(x, w), functional.linear(x, w, adjoint.ones(1, dtype=kind)), x @ w.T):
        assert bool(out.isnan().all())


def test_a_nan_is_the_largest_of_its_bag_and_of_no_other() -> None:
    table = adjoint.tensor([[1.0], [math.inf], [math.nan], [2.0]])
    out = functional.embedding_bag(adjoint.tensor([[2, 1, 3], [3, 0, 0], [0, 2, 3]]), table, mode="max")
    np.testing.assert_equal(out.numpy(), [[math.nan], [2.0], [math.nan]])


def test_what_beta_leaves_out_has_a_gradient_of_zeros() -> None:
    x = adjoint.full((2, 2), math.nan, requires_grad=True)
    out = adjoint.addmm(x, adjoint.ones(2, 2), adjoint.ones(2, 2), beta=0)
    assert out.tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert adjoint.autograd.grad(out.sum(), x)[0].tolist() == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("value", [300, 2**40, math.inf, math.nan])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_a_number_that_does_not_fit_is_not_written(value: float) -> None:
    x, i = adjoint.tensor([1, 2], dtype=adjoint.int8), adjoint.tensor([0])
    for write in (
        lambda: x.fill_(value), lambda: x.masked_fill(x > 0, value), lambda: x.index_fill(0, i, value),
        lambda: x.scatter(0, i, value), lambda: functional.pad(x, (1, 1), value=value),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match="without overflow"):
            write()
    assert x.tolist() == [1, 2]


def test_booleans_as_exponents_of_integers() -> None:
    bools = adjoint.tensor([True, False])
    assert adjoint.ldexp(adjoint.tensor([3, 3]), bools).tolist() == [6.0, 3.0]
    with pytest.raises(NotImplementedError, match="ldexp_cpu_exp"):
        adjoint.ldexp(adjoint.ones(2), bools)


def test_the_tangent_of_a_choice_has_its_shape() -> None:
    x, y = adjoint.ones(5), adjoint.tensor(2.0)
    out, tangent = adjoint.func.jvp(lambda y: adjoint.where(adjoint.tensor(False), x, y), (y,), (y,))
    assert out.tolist() == tangent.tolist() == [2.0] * 5


@needs_torch
def test_ties_of_the_farthest_coordinates_are_not_divided() -> None:
    def program(m: Any) -> Any:
        x = m.tensor([[0.0, 0.0], [1.0, -1.0], [5.0, 6.0]], dtype=m.float64, requires_grad=True)
        y = m.tensor([[1.0, 1.0], [0.0, 0.0]], dtype=m.float64, requires_grad=True)
        between, within = m.cdist(x, y, p=math.inf), m.nn.functional.pdist(x, math.inf)
        return [between, within, *m.autograd.grad(between.sum(), (x, y)), *m.autograd.grad(within.sum(), x)]

    same(program)


def test_derivatives_of_the_farthest_coordinate() -> None:
    x = adjoint.tensor([[0.1, 0.7], [1.0, -1.2]], dtype=adjoint.float64, requires_grad=True)
    y = adjoint.tensor([[1.0, 1.3], [0.2, -3.0], [2.0, 0.4]], dtype=adjoint.float64, requires_grad=True)
    f = lambda x, y: adjoint.cdist(x, y, p=math.inf)
    assert adjoint.autograd.gradcheck(f, (x, y), check_forward_ad=True, check_batched_grad=True)
    assert adjoint.autograd.gradgradcheck(f, (x, y))


@needs_torch
def test_an_infinite_row_is_of_no_matter_to_other_distances() -> None:
    def program(m: Any) -> Any:
        x = m.tensor([[0.0, 0.0], [1.0, -1.0]], dtype=m.float64, requires_grad=True)
        y = m.tensor([[1.0, 1.0], [0.0, math.inf]], dtype=m.float64, requires_grad=True)
        distances = m.cdist(x, y)
        return [
            distances,
            *m.autograd.grad(distances[:, 0].sum(), (x, y)),
            *m.autograd.grad(m.cdist(x[:0], y).sum(), y),
        ]

    same(program)


@needs_torch
@pytest.mark.parametrize("value", [1.0, math.inf])
def test_the_gradient_by_places_that_are_rounded_is_recorded(value: float) -> None:
    def program(m: Any) -> Any:
        x = m.full((1, 1, 3, 3), value, dtype=m.float64, requires_grad=True)
        places = m.full((1, 2, 2, 2), 0.3, dtype=m.float64, requires_grad=True)
        read = m.nn.functional.grid_sample(x, places, mode="nearest", align_corners=False)
        first = m.autograd.grad(read.sum(), (x, places), create_graph=True)
        return [read, *first, m.tensor([g.requires_grad for g in first])]

    same(program)


@needs_torch
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_an_empty_cross_entropy_of_a_batch(reduction: str) -> None:
    def program(m: Any) -> Any:
        loss = lambda x, t: m.nn.functional.cross_entropy(x, t, label_smoothing=0.1, reduction=reduction)
        return m.func.vmap(loss)(m.zeros(2, 4, 3, 0), m.zeros(2, 4, 0, dtype=m.int64))

    same(program)


@needs_torch
def test_the_gradient_of_a_power_of_zero_by_its_cotangent() -> None:
    def program(m: Any) -> Any:
        x, g = m.tensor([0.0, 1.0, 2.0], requires_grad=True), m.ones(3, requires_grad=True)
        (slope,) = m.autograd.grad(0.0**x, x, g, create_graph=True)
        return [slope, *m.autograd.grad(slope.sum(), g)]

    same(program)


@needs_torch
def test_distinct_elements_of_a_narrow_dtype_beside_nan() -> None:
    def program(m: Any) -> Any:
        x = m.tensor([2.0, nan, 1.0, 2.0], dtype=m.bfloat16)
        values, inverse, counts = m.unique(x, return_inverse=True, return_counts=True)
        return [values.float(), inverse, counts]

    same(program)


@needs_torch
def test_cross_entropy_of_no_rows_in_half_precision() -> None:
    def program(m: Any) -> Any:
        x = m.ones(0, 1, dtype=m.bfloat16, requires_grad=True)
        loss = m.nn.functional.cross_entropy(x, m.ones(0, dtype=m.int64))
        return [loss.float(), m.autograd.grad(loss, x)[0].float()]

    same(program)


@needs_torch
def test_ldexp_of_complex_numbers_by_booleans() -> None:
    same(lambda m: [m.ldexp(m.tensor([1 + 2j, 3j]), m.tensor([True, False]))])


@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
def test_a_complex_factor_of_real_tensors_is_refused(name: str) -> None:
    x = adjoint.ones(2)
    with pytest.raises(RuntimeError, match="value cannot be converted to type float without overflow"):
        getattr(adjoint, name)(x, x, x, value=1j)
    assert getattr(adjoint, name)(x, x + 0j, x, value=1j).dtype is adjoint.complex64


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_a_transform_along_one_dim_has_points(name: str) -> None:
    with pytest.raises(RuntimeError, match=r"Invalid number of data points \(-1\) specified"):
        getattr(adjoint.fft, name)(adjoint.ones(3), n=-1)
    assert adjoint.fft.fftn(adjoint.ones(3), s=(-1,)).shape == (3,)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("name", ["conv", "conv_transpose"])
def test_kernels_without_elements_are_refused(name: str, rank: int) -> None:
    with pytest.raises(RuntimeError, match="kernel size should be greater than zero"):
        getattr(functional, f"{name}{rank}d")(adjoint.ones(1, 1, *[3] * rank), adjoint.ones(1, 1, *[0] * rank))
