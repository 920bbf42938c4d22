"""One table: sample inputs of every primitive. A new primitive is tested by a new row.

A row lists samples. A tuple is the primitive's own arguments, arrays standing for tensors: ``(floats(3, 4), 1)``.
`via` reaches a primitive whose parameters are prepared elsewhere through the public function that prepares them, and
`back` one that a gradient calls.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import adjoint as torch
from adjoint import func
from adjoint.core.device import place_array
from adjoint.core.nodes import registry
from adjoint.core.observation import literal

F = torch.nn.functional


class Sample(NamedTuple):
    """A program that calls a primitive, and the arrays it is called with."""

    program: Callable[..., Any]
    arrays: tuple[np.ndarray, ...]


def floats(*shape: int, low: float = -2.0, high: float = 2.1, k: int = 0) -> np.ndarray:
    """Return numbers of [low, high) far from each other and from round ones, in no order; `k` numbers the drawing."""
    size = int(np.prod(shape))
    order = np.random.default_rng((k, size)).permutation(size)
    return (low + (high - low) * (order + 0.31 + 0.17 * k) / max(size, 1)).reshape(shape)


def positive(*shape: int, k: int = 0) -> np.ndarray:
    return floats(*shape, low=0.3, high=2.2, k=k)


def unit(*shape: int, k: int = 0) -> np.ndarray:
    return floats(*shape, low=0.12, high=0.93, k=k)


def complexes(*shape: int, k: int = 0) -> np.ndarray:
    return floats(*shape, k=k) + 1j * floats(*shape, k=k + 1)


def ints(*values: Any) -> np.ndarray:
    return np.array(values, np.int64)


def bools(*shape: int, k: int = 0) -> np.ndarray:
    return floats(*shape, k=k) > 0


def square(n: int, *, k: int = 0) -> np.ndarray:
    """Return a matrix that is far from singular and from symmetric, its eigenvalues apart."""
    return 0.3 * floats(n, n, k=k) + np.diag(np.arange(1.0, n + 1))


def definite(n: int) -> np.ndarray:
    a = 0.3 * floats(n, n)
    return a @ a.T + np.diag(np.arange(1.0, n + 1))


def symmetric(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of any matrix, of whose symmetric part `f` is taken: finite differences break symmetry."""
    return lambda a, *rest: f((a + a.mT) / 2, *rest)


def via(program: Callable[..., Any], *arrays: np.ndarray) -> Sample:
    return Sample(program, arrays)


def back(program: Callable[..., Any], x: np.ndarray) -> Sample:
    """Return a sample of the primitive that is the gradient of a linear program."""
    base = torch.tensor(x)
    g = floats(*program(base).shape, k=3)
    return Sample(lambda g: func.vjp(program, base.to(g))[1](g)[0], (g,))


def _direct(name: str, row: tuple[Any, ...]) -> Sample:
    op = registry[name]
    count = len(op.inputs)
    slots = [i for i, v in enumerate(row[:count]) if isinstance(v, np.ndarray)]

    def program(*tensors: Any) -> Any:
        # Parameters are the same on every run.
        args = [literal(place_array(v, tensors[0].device)) if isinstance(v, np.ndarray) else v for v in row]
        for i, tensor in zip(slots, tensors, strict=True):
            args[i] = tensor
        return op.call(*args)

    return Sample(program, tuple(row[i] for i in slots))


def samples(name: str) -> list[Sample]:
    """Return the samples of a primitive."""
    return [row if isinstance(row, Sample) else _direct(name, row) for row in SAMPLES.get(name, ())]


_X, _Y = floats(3, 4), floats(4, k=1)
_A, _B, _C = floats(3, 4), floats(3, 4, k=1), floats(3, 4, k=2)
_ALL = slice(None)
_I = ints([0, 2, 1], [2, 2, 0])
_LAYER = [floats(3, 2, 2), floats(2, 3, k=1), floats(2, 3, k=2), floats(12, 2, k=3), floats(12, 3, k=4)]
_LAYER += [floats(12, k=5), floats(12, k=6)]


def _like(x: Any, array: np.ndarray) -> Any:
    """Return a constant of a program, in the dtype of its input."""
    return torch.tensor(array, dtype=x.dtype)


def image(rank: int) -> np.ndarray:
    return floats(1, 1, *(4,) * rank)


def _named(name: str, size: int) -> Callable[..., Any]:
    return lambda x: getattr(F, name)(x, size)


def _resize(mode: str, rank: int) -> Callable[..., Any]:
    return lambda x: F.interpolate(x, size=(6,) * rank, mode=mode)


def _shrink(mode: str) -> Callable[..., Any]:
    return lambda x: F.interpolate(x, size=(2, 2), mode=mode, antialias=True)


def _both(name: str, program: Callable[[int], Any], ranks: tuple[int, ...] = (1, 2, 3)) -> dict[str, Any]:
    """Return rows of a linear op of images of several ranks, and of its gradient."""
    rows = {}
    for n in ranks:
        rows[name.format(n=n)] = [via(program(n), image(n))]
        rows[name.format(n=n) + "_backward"] = [back(program(n), image(n))]
    return rows


def _lstm(x: Any, h: Any, c: Any, w: Any, v: Any, a: Any, b: Any) -> Any:
    return torch.lstm(x, (h[None], c[None]), (w, v, a, b), True, 1, 0.0, False, False, False)


def _gru(x: Any, h: Any, w: Any, v: Any, a: Any, b: Any) -> Any:
    return torch.gru(x, h[None], (w, v, a, b), True, 1, 0.0, False, False, False)


def _rnn(x: Any, h: Any, w: Any, v: Any, a: Any, b: Any) -> Any:
    return torch.rnn_tanh(x, h[None], (w, v, a, b), True, 1, 0.0, False, False, False)


def _ctc(x: Any) -> Any:
    return F.ctc_loss(x.log_softmax(-1), torch.tensor([[1, 2], [2, 1]]), (4, 4), (2, 1), reduction="none")


def _drawn(kind: str, *args: float) -> Sample:
    """Return a sample of an in-place draw, from a fixed seed."""

    def program(x: Any) -> Any:
        torch.manual_seed(7)
        return getattr(x.clone(), kind)(*args)

    return via(program, positive(2, 3))


def _seeded(program: Callable[..., Any], *arrays: np.ndarray) -> Sample:
    def seeded(*xs: Any) -> Any:
        torch.manual_seed(7)
        return program(*xs)

    return via(seeded, *arrays)


# fmt: off
SAMPLES: dict[str, list[Any]] = {
    # --- elementwise, of one input -------------------------------------------------------------
    **{name: [(floats(3, 4),), (complexes(2, 2),)] for name in (
        "neg sin cos exp exp2 expm1 sinh cosh tanh asinh sigmoid sgn clone contiguous alias zero silu silu_slope tan"
    ).split()},
    **{name: [(floats(3, 4),)] for name in (
        "floor ceil trunc round frac sign deg2rad rad2deg relu hardsigmoid hardswish log_sigmoid mish erf erfc erfcx "
        "ndtr log_ndtr i0 i0e i1 i1e bessel_j0 bessel_j1 airy_ai airy_slope sinc spherical_bessel_j0 atan "
        "isnan isinf isfinite signbit logical_not zeros_like angle frexp"
    ).split()},
    **{name: [(positive(3, 4),), (complexes(2, 2),)] for name in
       "log log2 log10 sqrt rsqrt reciprocal abs log1p".split()},
    **{name: [(positive(3, 4),)] for name in (
        "lgamma digamma bessel_y0 bessel_y1 entr modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 "
        "scaled_modified_bessel_k1"
    ).split()},
    **{name: [(floats(3, 4, low=-0.9, high=0.92),)] for name in "asin acos atanh erfinv".split()},
    "acosh": [(floats(3, 4, low=1.3, high=3.0),)],
    "ndtri": [(unit(3, 4),)],
    "bitwise_not": [(ints([3, 5, -2]),)],
    "conj": [(complexes(2, 3),)],
    "power": [(positive(3, 4), 2.5), (floats(3, 4), 3)],
    "exponential": [via(lambda x: torch.pow(1.7, x), floats(3, 4)), _drawn("exponential_", 1.5)],
    "clamp": [(_X, -1.0, 0.77), (_X, None, 0.5)],
    "round_to": [(_X, 1)],
    "nan_to_num": [(_X, 0.0, 9.0, -9.0)],
    "hardtanh": [(_X, -1.0, 0.9)],
    "leaky_relu": [(_X, 0.1)],
    "threshold": [(_X, 0.2, 1.0)],
    "hardshrink": [(_X, 0.5)],
    "softshrink": [(_X, 0.5)],
    "elu": [(_X, 1.3, 1.0, 1.0)],
    "softplus": [(_X, 1.2, 20.0)],
    "gelu": [(_X, "none"), (_X, "tanh")],
    "gelu_slope": [(_X, "none"), (_X, "tanh")],
    "polygamma": [via(lambda x: torch.polygamma(2, x), positive(3, 4))],
    "logit": [(unit(3, 4), None), (unit(3, 4), 0.2)],
    "view_as_real": [(complexes(2, 3),)],
    "view_as_complex": [(floats(3, 2),)],
    "view_dtype": [via(lambda x: x.view(torch.int64), floats(2, 3))],
    "cast": [via(lambda x: x.to(torch.complex128), floats(2, 3)), via(lambda x: x.double(), ints([1, 2]))],
    "move": [(_X, "cpu", "cpu")],
    # --- elementwise, of several ---------------------------------------------------------------
    **{name: [(_X, _Y), (floats(3, 1), 0.7)] for name in "add sub mul rsub".split()},
    **{name: [(_X, positive(4, k=1)), (complexes(3), complexes(3, k=4))] for name in ("div",)},
    **{name: [(_A, _B)] for name in (
        "maximum minimum fmax fmin clamp_min clamp_max prelu hypot atan2 logaddexp logaddexp2 copysign nextafter "
        "eq ne lt le gt ge heaviside tanh_back"
    ).split()},
    **{name: [(_A, positive(3, 4, k=1))] for name in "div_floor div_trunc remainder fmod".split()},
    **{name: [(bools(3, 4), bools(3, 4, k=1))] for name in "logical_and logical_or logical_xor".split()},
    **{name: [(ints([3, 5, 12]), ints([1, 2, 3]))] for name in (
        "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift gcd lcm"
    ).split()},
    **{name: [(positive(3, 4), positive(4, k=1))] for name in "pow xlogy xlog1py".split()},
    # These three have no derivative for their first argument, as in torch.
    "igamma": [via(lambda y: torch.igamma(_like(y, positive(3, 4)), y), positive(4, k=1))],
    "igammac": [via(lambda y: torch.igammac(_like(y, positive(3, 4)), y), positive(4, k=1))],
    "zeta": [via(lambda y: torch.special.zeta(_like(y, 1.6 + unit(3, 4)), y), positive(4, k=1))],
    **{name: [(floats(3, 4, low=-0.9, high=0.92), ints(0, 1, 2, 3))] for name in (
        "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w "
        "shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v "
        "shifted_chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l "
        "legendre_polynomial_p"
    ).split()},
    "complex": [(_A, _B)],
    "isclose": [(_A, _B, 1e-5, 1e-8, False)],
    "where": [(bools(3, 4, k=2), _X, _Y)],
    "masked_fill": [(_X, bools(3, 4, k=2), floats(k=1))],
    "share": [(_A, _B, _C)],
    "clamp_tensors": [(_X, floats(4, low=-1.5, high=-0.5), floats(4, low=0.4, high=1.4))],
    "moving_average": [(_A, _B, 0.9, 0.2)],
    "addcmul": [(_A, _B, _C, 0.7)],
    "addcdiv": [(_A, _B, positive(3, 4, k=2), 0.7)],
    "lerp": [(_A, _B, unit(3, 4))],
    "lerp_by": [(_A, _B, 0.3)],
    "fill": [(_X, floats(k=1))],
    "copy": [(_A, _B)],
    # --- reductions and scans ------------------------------------------------------------------
    **{name: [(_X, (1,), False), (_X, (0, 1), True)] for name in
       "sum mean nansum logsumexp amax amin max_all min_all all any count_nonzero".split()},
    "prod": [(positive(3, 4), (1,), False)],
    **{name: [(_X,)] for name in "sum_all mean_all".split()},
    **{name: [(_X, (1,), 1, False), (_X, (0, 1), 0, True)] for name in "var std".split()},
    "vector_norm": [(_X, 2.0, (1,), False), (_X, 3.0, (0, 1), True), (_X, 1.0, (0,), False)],
    **{name: [(_X, 1)] for name in "softmax log_softmax logcumsumexp cummax cummin".split()},
    "cumsum": [(_X, 1, False), (_X, 0, True)],
    "cumprod": [(positive(3, 4), 1)],
    "recur": [(_A, _B, 1)],
    **{name: [(_X, 1, False), (_X, 0, True)] for name in
       "max_dim min_dim argmax argmin median_dim nanmedian_dim mode".split()},
    **{name: [(_X, (0, 1), False)] for name in "median nanmedian".split()},
    "sum_to": [(_X, (1, 4)), (_X, ())],
    "euclid": [via(lambda x, y: torch.cdist(x, y), floats(3, 2), floats(4, 2, k=1))],
    "farthest": [via(lambda x, y: torch.cdist(x, y, p=float("inf")), floats(3, 2), floats(4, 2, k=1))],
    # --- shapes --------------------------------------------------------------------------------
    "copy_strided": [(_X, (8, 24))],
    "clone_ordered": [(_X, (1, 0))],
    "reshape": [(_X, (2, 6))],
    "unsafe_view": [(_X, (2, 6))],
    "squeeze_0": [(floats(3, 1, 2), (1,))],
    "squeeze": [(floats(3, 1, 2), (1,))],
    "squeeze_2": [(floats(3, 1, 2), (1,))],
    "unsqueeze": [(_X, 1)],
    "expand": [(floats(3, 1), (2, 3, 4))],
    "permute": [(floats(2, 3, 2), (2, 0, 1))],
    "transpose": [(_X, 0, 1)],
    "t": [(_X,)],
    "repeat": [(_X, (2, 1))],
    "flip": [(_X, (0, 1))],
    "roll": [(_X, (1,), (1,))],
    "rot90": [(_X, 1, (0, 1))],
    "tril": [(_X, 0)],
    "triu": [(_X, 1)],
    "pad": [(_X, ((1, 0), (0, 2)), 0.5)],
    "slice": [(_X, (slice(0, 2), slice(None, None, 2)))],
    "getitem": [via(lambda x: x[..., 1], _X)],
    "getitem_none": [via(lambda x: x[..., None], _X)],
    "select": [(_X, 1, 2)],
    "place": [(floats(3), (3, 4), (_ALL, 1))],
    "set_slice": [(_X, floats(3, k=1), (_ALL, 1))],
    "cat": [via(lambda x, y: torch.cat((x, y), 1), _X, floats(3, 2, k=1))],
    "stack": [via(lambda x, y: torch.stack((x, y), 1), _A, _B)],
    "assemble": [back(lambda x: x.split(2, 1)[0], _X), via(lambda x, y: torch.block_diag(x, y), _X, floats(2, 2))],
    "split": [via(lambda x: x.split(3, 1), _X)],
    "split_with_sizes": [via(lambda x: x.split([1, 3], 1), _X)],
    "unbind": [via(lambda x: x.unbind(1), _X)],
    "diagonal": [(_X, 1, 0, 1)],
    "undiagonal": [(floats(3), (3, 4), 1, 0, 1)],
    "set_diagonal": [(_X, floats(3, k=1), 1, 0, 1)],
    "diagonal_copy": [(_X, 1, 0, 1)],
    "unfold": [(_X, 1, 2, 1)],
    "refold": [(floats(3, 3, 2), (3, 4), 1, 2, 1)],
    "as_strided": [via(lambda x: x.as_strided((2, 3), (1, 2), 1), _X)],
    # --- indexing and sorting ------------------------------------------------------------------
    "pick": [(_X, np.array([2, 0, 0]), 0)],
    "index": [via(lambda x: x[:, torch.tensor([2, 0, 0])], _X)],
    "unindex": [back(lambda x: x[:, torch.tensor([2, 0, 0])], _X)],
    "index_put": [via(lambda x, y: x.index_put((torch.tensor([2, 0]),), y), _X, floats(2, 4, k=1)),
                  via(lambda x, y: x.index_put((torch.tensor([2, 2]),), y, accumulate=True), _X, floats(2, 4, k=1))],
    "gather": [(floats(2, 3), _I, 1)],
    "ungather": [(floats(2, 3), _I, (2, 3), 1)],
    "scatter": [(floats(2, 3), floats(2, 3, k=1), ints([0, 2, 1], [2, 1, 0]), 1)],
    "scatter_add": [(floats(2, 3), floats(2, 3, k=1), _I, 1)],
    "scatter_reduce": [(positive(2, 3), positive(2, 3, k=1), _I, 1, how, True) for how in
                       ("prod", "mean", "amax", "amin")],
    "index_select": [(_X, ints(2, 0, 2), 0)],
    "index_add": [(_X, floats(2, 4, k=1), ints(2, 2), 0)],
    "index_copy": [(_X, floats(2, 4, k=1), ints(2, 0), 0)],
    "index_fill": [(_X, floats(k=1), ints(2, 0), 0)],
    "take": [(_X, ints(3, 11, 3))],
    "masked_select": [(_X, bools(3, 4, k=1))],
    "masked_scatter": [(_X, floats(12, k=2), bools(3, 4, k=1))],
    "argsort": [(_X, 1, False), (_X, 0, True)],
    "best": [(_X, 1, 2, True)],
    "sort": [via(lambda x: x.sort(1)[0], _X)],
    "topk": [via(lambda x: x.topk(2, 1)[0], _X)],
    "kthvalue": [via(lambda x: x.kthvalue(2, 1)[0], _X)],
    "searchsorted": [via(lambda x, y: torch.searchsorted(x, y), np.sort(floats(5)), floats(3, k=1))],
    "embedding": [via(lambda w: F.embedding(torch.tensor([2, 0, 2]), w), floats(3, 2))],
    "unembedding": [back(lambda w: F.embedding(torch.tensor([2, 0, 2]), w), floats(3, 2))],
    "grid_sampler_2d": [
        via(
            lambda x, g, how=how: F.grid_sample(x, g, padding_mode=how, align_corners=how == "border"),
            floats(2, 2, 3, 4),
            0.8 * floats(2, 3, 2, 2, k=1),
        )
        for how in ("zeros", "border")
    ],
    "take_rows": [(_X, np.array([2, 0]))],
    "put_rows": [(floats(2, 4), np.array([2, 0]), 3, 0.5)],
    # --- products and linear algebra -----------------------------------------------------------
    "mm": [(_X, floats(4, 2, k=1)), (complexes(2, 2), complexes(2, 2, k=4))],
    "mv": [(_X, _Y)],
    "dot": [(floats(4), _Y)],
    "bmm": [(floats(2, 3, 2), floats(2, 2, 3, k=1))],
    "project": [via(lambda x, w: F.linear(x, w), floats(2, 3, 4), floats(2, 4, k=1))],
    "linear": [(_X, floats(2, 4, k=1), floats(2, k=2))],
    "contract": [via(lambda x, y: torch.einsum("iaj,ajk->ik", x, y), floats(2, 3, 2), floats(3, 2, 2, k=1))],
    "cross": [
        via(lambda x, y: torch.cross(x, y, dim=1), floats(2, 3), floats(2, 3, k=1)),
        via(lambda x, y: torch.cross(x, y, dim=1), complexes(2, 3), complexes(2, 3, k=1)),
    ],
    "inv": [via(torch.linalg.inv, square(3))],
    "singular": [via(lambda a: torch.linalg.solve_ex(a, _like(a, np.ones(3)))[1], square(3))],
    "linalg_solve": [via(torch.linalg.solve, square(3), floats(3, 2, k=1))],
    "solve_triangular": [via(lambda a, b: torch.linalg.solve_triangular(a, b, upper=True), square(3), floats(3, 2))],
    "cofactors": [(square(3),)],
    "det": [(square(3),)],
    "slogdet": [via(lambda a: torch.linalg.slogdet(a)[1], square(3))],
    "matrix_size": [(square(3),)],
    "matrix_exp": [via(torch.linalg.matrix_exp, 0.4 * square(3))],
    "pinv": [via(torch.linalg.pinv, floats(3, 2))],
    "matrix_rank": [via(torch.linalg.matrix_rank, floats(3, 2))],
    "bad_minors": [via(lambda a: torch.linalg.cholesky_ex(a)[1], definite(3))],
    "cholesky": [via(symmetric(torch.linalg.cholesky), definite(3))],
    "cholesky_solve": [via(lambda b, a: torch.cholesky_solve(b, a.tril()), floats(3, 2), square(3))],
    "qr": [via(lambda a: tuple(torch.linalg.qr(a)), floats(3, 2))],
    "qr_r": [via(lambda a: torch.linalg.qr(a, mode="r")[1], floats(3, 2))],
    "svd": [via(lambda a: torch.linalg.svd(a, full_matrices=False)[1], floats(3, 2)),
            via(lambda a: (lambda u, s, v: (u * s[..., None, :]) @ v)(*torch.linalg.svd(a, full_matrices=False)),
                floats(3, 2))],
    "svdvals": [(floats(3, 2),)],
    "eigh": [via(symmetric(lambda a: torch.linalg.eigh(a)[0]), definite(3))],
    "eig": [via(lambda a: torch.linalg.eig(a)[0], square(3))],
    "permutation": [via(lambda a: torch.linalg.lu(a)[0], square(3)[::-1].copy())],
    "lu_factor": [via(lambda a: torch.linalg.lu_factor(a)[0], square(3)[::-1].copy())],
    # --- Fourier transforms --------------------------------------------------------------------
    "fft_c2c": [via(torch.fft.fft, complexes(2, 4)), via(torch.fft.ifft2, complexes(2, 4))],
    "fft_r2c": [via(torch.fft.rfft, floats(2, 5))],
    "fft_c2r": [via(lambda x: torch.fft.irfft(x, 5), complexes(2, 3))],
    # --- convolution, pooling, resampling ------------------------------------------------------
    "conv": [via(lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1), floats(1, 2, 5), floats(2, 2, 3, k=1),
                 floats(2, k=2)),
             via(lambda x, w: F.conv2d(x, w, groups=2), floats(1, 2, 3, 3), floats(2, 1, 2, 2, k=1))],
    "conv_transpose": [via(lambda x, w, b: F.conv_transpose1d(x, w, b, stride=2), floats(1, 2, 3),
                           floats(2, 2, 3, k=1), floats(2, k=2))],
    "conv_weight": [back(lambda w: F.conv1d(_like(w, floats(1, 2, 5)), w, padding=1), floats(2, 2, 3, k=1))],
    "im2col": [via(lambda x: F.unfold(x, 2, padding=1), floats(1, 2, 3, 3))],
    "col2im": [via(lambda x: F.fold(x, (3, 3), 2), floats(1, 4, 4))],
    **_both("avg_pool{n}d", lambda n: lambda x: getattr(F, f"avg_pool{n}d")(x, 2)),
    **_both("adaptive_avg_pool{n}d", lambda n: lambda x: getattr(F, f"adaptive_avg_pool{n}d")(x, 3)),
    **_both("reflect_pad{n}d", lambda n: lambda x: F.pad(x, (1, 2) * n, mode="reflect")),
    **_both("replicate_pad{n}d", lambda n: lambda x: F.pad(x, (1, 2) * n, mode="replicate")),
    **_both("circular_pad{n}d", lambda n: lambda x: F.pad(x, (1, 2) * n, mode="circular")),
    **_both("upsample_nearest{n}d", lambda n: _resize("nearest", n)),
    **_both("upsample_nearest_exact{n}d", lambda n: _resize("nearest-exact", n)),
    **_both("upsample_linear1d", lambda n: _resize("linear", n), ranks=(1,)),
    **_both("upsample_bilinear2d", lambda n: _resize("bilinear", n), ranks=(2,)),
    **_both("upsample_bicubic2d", lambda n: _resize("bicubic", n), ranks=(2,)),
    **_both("upsample_trilinear3d", lambda n: _resize("trilinear", n), ranks=(3,)),
    **_both("upsample_bilinear2d_aa", lambda n: _shrink("bilinear"), ranks=(2,)),
    **_both("upsample_bicubic2d_aa", lambda n: _shrink("bicubic"), ranks=(2,)),
    **{f"max_pool{n}d": [via(_named(f"max_pool{n}d", 2), image(n))] for n in (1, 2, 3)},
    **{f"adaptive_max_pool{n}d": [via(_named(f"adaptive_max_pool{n}d", 3), image(n))] for n in (1, 2, 3)},
    "max_pool_backward": [back(lambda x: F.max_pool2d(x, 2), image(2))],
    "where_largest": [via(lambda x: F.max_pool2d(x, 2, return_indices=True)[1], image(2))],
    "where_largest_at": [via(lambda x, s: F.fractional_max_pool2d(x, 2, (2, 2), _random_samples=s),
                             image(2), unit(1, 1, 2))],
    "channel_mean": [via(lambda x: F.local_response_norm(x, 2), floats(1, 4, 3))],
    "channel_mean_backward": [via(lambda x, g: func.vjp(lambda y: F.local_response_norm(y, 2), x)[1](g)[0],
                                  floats(1, 4, 3), floats(1, 4, 3, k=1))],
    # --- networks ------------------------------------------------------------------------------
    "mse_loss": [via(partial(F.mse_loss, reduction=how), _A, _B) for how in ("none", "mean", "sum")],
    "smooth_l1_loss": [via(lambda x, y: F.smooth_l1_loss(x, y, beta=0.7), _A, _B)],
    "huber_loss": [via(lambda x, y: F.huber_loss(x, y, delta=0.7), _A, _B)],
    "soft_margin_loss": [via(F.soft_margin_loss, _A, _B)],
    "binary_cross_entropy": [via(F.binary_cross_entropy, unit(3, 4), unit(3, 4, k=1))],
    "binary_cross_entropy_with_logits": [via(F.binary_cross_entropy_with_logits, _A, unit(3, 4, k=1))],
    "ctc_loss": [via(_ctc, floats(4, 2, 3))],
    "nll_loss": [via(lambda x, t: F.nll_loss(x, t), _X, ints(1, 3, 0))],
    "nll_loss2d": [via(lambda x, t: F.nll_loss(x, t), floats(2, 3, 2, 2), ints([[0, 2], [1, 1]], [[2, 2], [0, 1]]))],
    "nll_back": [back(lambda x: F.nll_loss(x, torch.tensor([1, 3, 0]), reduction="none"), _X)],
    "cross_entropy": [via(lambda x, t: F.cross_entropy(x, t), _X, ints(1, 3, 0))],
    "class_loss": [(_X, ints([1], [3], [0]), 1, 3, False, False), (_X, ints([1], [3], [0]), 1, -100, True, True)],
    "is_class": [(ints([1], [3], [0]), 4)],
    "layer_norm": [via(lambda x, w, b: F.layer_norm(x, (4,), w, b), _X, floats(4, k=1), floats(4, k=2))],
    "batch_norm": [via(lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), floats(3, 2, 2),
                       floats(2, k=1), floats(2, k=2))],
    "group_norm": [via(lambda x, w, b: F.group_norm(x, 2, w, b), floats(2, 4, 3), floats(4, k=1), floats(4, k=2))],
    "rms_norm": [via(lambda x, w: F.rms_norm(x, (4,), w), _X, floats(4, k=1))],
    "attend": [(floats(1, 3, 2), floats(1, 3, 2, k=1), floats(1, 3, 2, k=2), 0.7, causal)
               for causal in (False, True)],
    "flash": [(floats(1, 3, 2), floats(1, 4, 2, k=1), floats(1, 4, 3, k=2), 0.7, causal) for causal in (False, True)],
    "masked_flash": [(floats(1, 3, 2), floats(1, 4, 2, k=1), floats(1, 4, 3, k=2), mask, 0.7, False, 1.0, 0)
                     for mask in (floats(1, 3, 4, k=3), bools(3, 4, k=2))],
    "flash_backward": [(floats(1, 3, 3, k=4), floats(1, 3, 2), floats(1, 4, 2, k=1), floats(1, 4, 3, k=2), None,
                        floats(1, 3, 3, k=5), floats(1, 3, k=6), 0.7, False, 1.0, 0)],
    "attention_dropout_mask": [(floats(1, 3, 2), 4, 0.5, 1)],
    "lstm_layer": [via(_lstm, *_LAYER)],
    "gru_layer": [via(_gru, *_LAYER[:2], *(a[:9] for a in _LAYER[3:]))],
    "rnn_layer": [via(_rnn, *_LAYER[:2], *(a[:3] for a in _LAYER[3:]))],
    "lstm_cell": [via(lambda x, h, c, *w: torch.lstm_cell(x, (h, c), *w), floats(2, 2), *_LAYER[1:])],
    "gru_cell": [via(torch.gru_cell, floats(2, 2), _LAYER[1], *(a[:9] for a in _LAYER[3:]))],
    # --- random numbers, from a fixed seed -----------------------------------------------------
    "bernoulli": [_seeded(torch.bernoulli, unit(2, 3))],
    "poisson": [_seeded(torch.poisson, positive(2, 3))],
    "normal_of_mean": [_seeded(lambda m: torch.normal(m, 0.5), floats(2, 3))],
    "normal_of_std": [_seeded(lambda s: torch.normal(0.5, s), positive(2, 3))],
    "normal_of_both": [_seeded(torch.normal, floats(2, 3), positive(2, 3))],
    "binomial": [_seeded(torch.binomial, np.full((2, 3), 5.0), unit(2, 3))],
    "uniform": [_drawn("uniform_")],
    "normal": [_drawn("normal_")],
    "geometric": [_drawn("geometric_", 0.3)],
    "cauchy": [_drawn("cauchy_")],
    "log_normal": [_drawn("log_normal_")],
    "random": [_drawn("random_")],
    "random_below": [_drawn("random_", 9)],
    "random_between": [_drawn("random_", 2, 9)],
    "standard_gamma": [_seeded(torch._standard_gamma, positive(2, 3))],
    "sample_dirichlet": [_seeded(torch._sample_dirichlet, positive(2, 3))],
    "standard_gamma_grad": [(positive(2, 3), positive(2, 3, k=1))],
    "dirichlet_grad": [(unit(2, 3), positive(2, 3), 4 + positive(2, 3))],
}
