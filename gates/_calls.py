# ruff: noqa: E501 (one operator, one line)
"""Random calls of operators, as data: what `gates.ops` runs on adjoint and on torch.

A row of a table names an operator and makes its arguments; tensors among them are `Array`, which either module builds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Rng = np.random.Generator
FLOATS = ("float64", "float32", "float16", "bfloat16")
COMPLEX = ("complex128", "complex64")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
LARGEST = {
    "float64": 1.7976931348623157e308,
    "float32": 3.4028234663852886e38,
    "float16": 65504.0,
    "bfloat16": 3.3895314e38,
}
SMALLEST = {"float64": 5e-324, "float32": 1e-45, "float16": 6e-8, "bfloat16": 9.2e-41}


class Array(NamedTuple):
    """A tensor to be built: its values in full precision, its dtype's name, its memory layout."""

    values: np.ndarray
    dtype: str
    layout: str = "contiguous"
    differentiable: bool = False

    def __repr__(self) -> str:
        flat = np.asarray(self.values).ravel()
        body = ", ".join(f"{v:.17g}" if v.dtype.kind == "f" else str(v) for v in flat[:12]) + (
            ", ..." * (flat.size > 12)
        )
        return f"<{self.dtype}{list(self.values.shape)} {self.layout}: {body}>"


class Name(str):
    """The name of a dtype, where a call takes one."""

    __slots__ = ()


class Call(NamedTuple):
    """An operator's dotted name and its arguments; the first part of a method's name is "Tensor"."""

    family: str
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Draw:
    """Random parts of one call, all of one main dtype."""

    def __init__(self, rng: Rng, dtype: str, special: float, extreme: bool, layouts: bool = True) -> None:
        self.rng, self.dtype, self.special, self.extreme, self.layouts = rng, dtype, special, extreme, layouts

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def pick(self, *options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def int(self, low: int, high: int) -> int:
        """Return an integer, both ends included."""
        return int(self.rng.integers(low, high + 1))

    def shape(self, low: int = 0, high: int = 3) -> tuple[int, ...]:
        """Return a shape; sizes are small, sometimes 0 or 1."""
        sizes = (1, 2, 3, 4, 5) if self.chance(0.9) else (0, 1, 2)
        return tuple(self.pick(*sizes) for _ in range(self.int(low, high)))

    def partner(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return a shape that broadcasts with another one."""
        if self.chance(0.5):
            return shape
        shape = tuple(1 if self.chance(0.3) else n for n in shape)
        return shape[self.int(0, len(shape)) :]

    def dim(self, x: Array | int) -> int:
        """Return a dimension of a tensor, counted from either end."""
        rank = x if isinstance(x, int) else x.values.ndim
        return self.int(-max(rank, 1), max(rank, 1) - 1)

    def dims(self, x: Array) -> Any:
        """Return some dimensions, or one."""
        rank = x.values.ndim
        if not rank or self.chance(0.4):
            return self.dim(x)
        chosen = self.rng.permutation(rank)[: self.int(1, rank)]
        return tuple(int(d) - (rank if self.chance(0.3) else 0) for d in chosen)

    def values(self, shape: tuple[int, ...], dtype: str, low: float, high: float) -> np.ndarray:
        """Return random values of a dtype, a few of them special."""
        if dtype == "bool":
            return self.rng.random(shape) < 0.5
        if dtype in INTEGERS:
            return self.rng.integers(max(int(low), 0) if dtype == "uint8" else int(low), int(high) + 1, shape)
        if dtype in COMPLEX:
            part = "float64" if dtype == "complex128" else "float32"
            return self.values(shape, part, low, high) + 1j * self.values(shape, part, low, high)
        x = self.rng.uniform(low, high, shape)
        if self.chance(0.2):
            x = np.round(x)  # ties and kinks
        x = np.array(_rounded(x, dtype), ndmin=len(shape)).reshape(shape)
        if self.special:
            at = self.rng.random(shape) < self.special
            choices = [0.0, -0.0, 1.0, -1.0, 0.5]
            if self.dtype not in COMPLEX:  # whose infinities and NaNs differ between C libraries
                choices += [np.nan, np.inf, -np.inf]
                choices += (
                    [LARGEST[dtype], -LARGEST[dtype], LARGEST[dtype] ** 0.5, SMALLEST[dtype]] if self.extreme else []
                )
            x = np.where(at, self.rng.choice(choices, shape), x)
        return x

    def array(self, shape: tuple[int, ...], dtype: str = "", low: float = -3, high: float = 3) -> Array:
        """Return a tensor to differentiate by, if its dtype allows that."""
        dtype = dtype or self.dtype
        layouts = ("contiguous", "transposed", "strided", "expanded", "offset", "reversed")
        layout = self.pick(*layouts) if self.layouts and self.chance(0.4) else "contiguous"
        values = np.asarray(self.values(shape, dtype, low, high))
        if layout == "expanded" and values.ndim and values.size:
            values = np.broadcast_to(values[:1], values.shape).copy()
        return Array(values, dtype, layout, dtype in FLOATS + COMPLEX and self.chance(0.85))

    def index(self, shape: tuple[int, ...], size: int, negative: bool = False) -> Array:
        """Return indices into a dimension of some size."""
        low = -size if negative else 0
        return Array(self.rng.integers(low, max(size, 1), shape) if size else np.zeros(shape, int), "int64")

    def mask(self, shape: tuple[int, ...]) -> Array:
        return Array(np.asarray(self.rng.random(shape) < 0.5), "bool")

    def scalar(self) -> Any:
        """Return a number: Python's, NumPy's, special ones included."""
        number = self.pick(0, 1, 2, -1, 3, 0.5, -0.5, 2.0, -1.5, 0.0, 1.0, True)
        if self.special and self.chance(0.25):
            number = self.pick(float("inf"), float("-inf"), -0.0, 1e-320)
        if self.dtype in COMPLEX and self.chance(0.2):
            return 1.5 - 0.5j
        if self.chance(0.15):
            return np.float64(number) if isinstance(number, float) else np.int64(number)
        return number

    def other(self, shape: tuple[int, ...]) -> Any:
        """Return a second operand: of the same dtype, of another one, or a number."""
        if self.chance(0.2):
            return self.scalar()
        dtype = self.pick(*FLOATS, *COMPLEX, *INTEGERS, "bool") if self.chance(0.2) else self.dtype
        return self.array(self.partner(shape), dtype)

    def square(self, low: int = 1, high: int = 4, batch: bool = True) -> Array:
        n = self.int(low, high)
        lead = self.shape(0, 2) if batch and self.chance(0.4) else ()
        x = self.array((*lead, n, n))
        return x._replace(values=x.values + 4 * np.eye(n), layout=self.pick("contiguous", "transposed", "reversed"))

    def keep(self) -> dict[str, Any]:
        return {"keepdim": self.chance(0.5)} if self.chance(0.5) else {}

    def dtypes(self) -> dict[str, Any]:
        wider = {"complex64": "complex128", "complex128": "complex128"}.get(self.dtype, "float64")
        return {"dtype": Name(self.pick(wider, self.dtype))} if self.chance(0.2) else {}


def _rounded(x: np.ndarray, dtype: str) -> Any:
    if dtype == "bfloat16":
        bits = np.asarray(x, np.float32).view(np.uint32)
        return (bits & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)
    return np.asarray(x).astype(dtype).astype(np.float64)


Made = tuple[tuple[Any, ...], dict[str, Any]]
Row = Callable[[Draw], Made]


def made(*args: Any, **kwargs: Any) -> Made:
    """Return arguments; those that are None by name are left out."""
    return args, {k: v for k, v in kwargs.items() if v is not None}


# --- Elementwise -------------------------------------------------------------------------------------


def words(text: str) -> list[str]:
    """Return the words of a text."""
    return text.split()


UNARY = words(
    "abs acos acosh asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 floor frac "
    "isfinite isinf isnan isneginf isposinf isreal lgamma log log10 log1p log2 logical_not neg positive rad2deg "
    "reciprocal relu round rsqrt sigmoid sign signbit sgn sin sinc sinh sqrt square tan tanh trunc i0 conj_physical "
    "angle real bitwise_not nan_to_num frexp special.entr special.erfcx special.i0e special.i1 special.i1e "
    "special.log_ndtr special.ndtr special.ndtri special.expit special.psi special.gammaln special.sinc "
    "special.bessel_j0 special.bessel_j1 nn.functional.relu6 nn.functional.selu nn.functional.silu nn.functional.mish "
    "nn.functional.softsign nn.functional.tanhshrink nn.functional.logsigmoid nn.functional.hardswish "
    "nn.functional.hardsigmoid nn.functional.hardtanh Tensor.clone Tensor.abs Tensor.__neg__ Tensor.__invert__"
)
BINARY = words(
    "add sub mul div true_divide pow atan2 fmod remainder floor_divide maximum minimum fmax fmin hypot copysign xlogy "
    "logaddexp logaddexp2 nextafter ldexp heaviside gcd lcm bitwise_and bitwise_or bitwise_xor eq ne lt le gt ge "
    "logical_and logical_or logical_xor float_power rsub special.xlog1py special.zeta isclose special.xlogy "
    "Tensor.__add__ Tensor.__radd__ Tensor.__sub__ Tensor.__rsub__ Tensor.__mul__ Tensor.__truediv__ "
    "Tensor.__rtruediv__ Tensor.__pow__ Tensor.__rpow__ Tensor.__mod__ Tensor.__rmod__ Tensor.__floordiv__ "
    "Tensor.__rfloordiv__ Tensor.__and__ Tensor.__lt__ Tensor.__eq__ igamma igammac bitwise_left_shift "
    "bitwise_right_shift dist"
)
F = "nn.functional."


def _unary(d: Draw) -> Made:
    return made(d.array(d.shape()))


def _binary(d: Draw) -> Made:
    shape = d.shape()
    return made(d.array(shape), d.other(shape))


def _with(*options: Any) -> Row:
    """Return a row of one tensor and one of some sets of keyword arguments."""
    return lambda d: made(d.array(d.shape()), **d.pick(*options))


def _clamp(d: Draw) -> Made:
    x = d.array(d.shape())
    ends = [None if d.chance(0.25) else d.other(x.values.shape) for _ in range(2)]
    if all(e is None for e in ends) or isinstance(ends[0], Array) != isinstance(ends[1], Array):
        ends = [-1, 0.5] if d.dtype in FLOATS else [-1, 2]
    return made(x, *ends)


def _three(d: Draw, **kwargs: Any) -> Made:
    shape = d.shape()
    return made(d.array(shape), d.array(d.partner(shape)), d.array(d.partner(shape)), **kwargs)


def _where(d: Draw) -> Made:
    shape = d.shape()
    return made(d.mask(d.partner(shape)), d.array(shape), d.other(shape))


ELEMENTWISE: dict[str, Row] = {
    **dict.fromkeys(UNARY, _unary),
    **dict.fromkeys(BINARY, _binary),
    "add ": lambda d: (_binary(d)[0], {"alpha": d.pick(1, 2, -1, 0)}),
    "sub ": lambda d: (_binary(d)[0], {"alpha": d.pick(1, 2, -1, 0)}),
    "div ": lambda d: (_binary(d)[0], {"rounding_mode": d.pick("floor", "trunc", None)}),
    "pow ": lambda d: made(d.array(d.shape()), d.pick(0, 1, 2, 3, -1, -2, 0.5, -0.5, 1.5, 0.0, 2.0)),
    "round ": _with({"decimals": 0}, {"decimals": 1}, {"decimals": -1}),
    "logit": _with({}, {"eps": 1e-3}, {"eps": 0.3}),
    "nan_to_num ": _with({"nan": 2.0}, {"posinf": 1.0, "neginf": -3.0}),
    "clamp": _clamp,
    "clamp_min": lambda d: _binary(d),
    "clamp_max": lambda d: _binary(d),
    "lerp": lambda d: _three(d) if d.chance(0.6) else made(*_three(d)[0][:2], d.pick(0.3, 0.7, 0, 1.5)),
    "addcmul": lambda d: _three(d, value=d.pick(None, 2, 0.5, 0)),
    "addcdiv": lambda d: _three(d, value=d.pick(None, 2, 0.5, 0)),
    "where": _where,
    "polygamma": lambda d: made(d.int(0, 3), d.array(d.shape(), low=0.1)),
    "mvlgamma": lambda d: made(d.array(d.shape(), low=1.6, high=6), d.int(1, 3)),
    "polar": lambda d: made(*(a._replace(values=np.abs(a.values)) for a in _three(d)[0][:1]), d.array(())),
    "complex": lambda d: _three(d)[0][:2] and (_three(d)[0][:2], {}),
    F + "leaky_relu": _with({}, {"negative_slope": 0.2}, {"negative_slope": -0.5}, {"negative_slope": 0}),
    F + "elu": _with({}, {"alpha": 0.5}, {"alpha": 2.0}),
    F + "celu": _with({}, {"alpha": 0.5}),
    F + "gelu": _with({}, {"approximate": "tanh"}),
    F + "softplus": _with({}, {"beta": 2.0}, {"threshold": 1.03}),
    F + "hardtanh ": _with({"min_val": -0.5, "max_val": 2.0}),
    F + "hardshrink": _with({}, {"lambd": 1.0}, {"lambd": 0}),
    F + "softshrink": _with({}, {"lambd": 1.0}, {"lambd": 0}),
    F + "threshold": _with({"threshold": 0.0, "value": 1.0}, {"threshold": 1.0, "value": -2.0}),
    F + "prelu": lambda d: (lambda s: made(d.array(s), d.array((s[1] if len(s) > 1 and d.chance(0.5) else 1,))))(
        d.shape(1)
    ),
    F + "glu": lambda d: (lambda s: made(d.array((*s, 2 * d.int(1, 2))), -1))(d.shape(0, 2)),
    "Tensor.to": lambda d: made(d.array(d.shape()), Name(d.pick(*FLOATS, *COMPLEX))),
    "Tensor.sigmoid": _unary,
}


# --- Reductions and scans ----------------------------------------------------------------------------


def _reduce(d: Draw, dtype: bool = False, **extra: Any) -> Made:
    x = d.array(d.shape())
    kwargs = {**extra, **(d.dtypes() if dtype else {})}
    if d.chance(0.3):
        return made(x, **kwargs)
    return made(x, **{("dim" if d.chance(0.9) else "axis"): d.dims(x)}, **d.keep(), **kwargs)


def _along(d: Draw, keep: bool = False, dtype: bool = False, low: int = 0, **extra: Any) -> Made:
    x = d.array(d.shape(low))
    return made(x, d.dim(x), **(d.keep() if keep else {}), **(d.dtypes() if dtype else {}), **extra)


def _maybe_along(d: Draw) -> Made:
    return made(d.array(d.shape())) if d.chance(0.3) else _along(d, keep=True)


def _one_dim(d: Draw) -> Made:
    return made(d.array(d.shape())) if d.chance(0.3) else _along(d, keep=True, dtype=True)


def _distinct(d: Draw, low: int = 0) -> Array:
    """Return a tensor without equal elements, among which torch promises no index."""
    x = d.array(d.shape(low))
    values = d.rng.permutation(x.values.size).reshape(x.values.shape) - 2
    if d.special and d.dtype in FLOATS:
        values = np.where(values == 0, d.pick(np.nan, np.inf), values)
    return x if d.dtype == "bool" else x._replace(values=values, layout=d.pick("contiguous", "transposed", "reversed"))


def _ranked(d: Draw, **extra: Any) -> Made:
    x = _distinct(d, 1)
    dim = d.dim(x)
    return made(x, d.int(1, max(x.values.shape[dim], 1)), dim, **extra)


def _cdist(d: Draw) -> Made:
    k = d.int(0, 4)
    return made(
        d.array((d.int(0, 4), k)), d.array((d.int(1, 4), k)), d.pick(2.0, 1.0, 0.0, 3.0, float("inf"), 0.5, 1.5)
    )


P = (2, 1, 0, float("inf"), -float("inf"), 3, 0.5, -1, -2, 1.5)
REDUCE: dict[str, Row] = {
    **dict.fromkeys(("sum", "nansum", "mean", "nanmean"), lambda d: _reduce(d, dtype=True)),
    **dict.fromkeys(("amax", "amin", "count_nonzero", "all", "any"), lambda d: _reduce(d)),
    **dict.fromkeys(("max", "min", "argmax", "argmin"), _maybe_along),
    **dict.fromkeys(("median", "nanmedian"), lambda d: made(x := _distinct(d), *((d.dim(x),) if d.chance(0.7) else ()))),
    "prod": _one_dim,
    "aminmax": lambda d: (lambda x: made(x, dim=d.dim(x), **d.keep()) if d.chance(0.7) else made(x))(d.array(d.shape())),
    **dict.fromkeys(("var", "std", "var_mean", "std_mean"), lambda d: _reduce(d, correction=d.pick(0, 1, 0.5))),
    "count_nonzero": lambda d: (lambda x: made(x, dim=d.dims(x)) if d.chance(0.6) else made(x))(d.array(d.shape())),
    "logsumexp": lambda d: (lambda x: made(x, d.dims(x), **d.keep()))(d.array(d.shape())),
    "norm": lambda d: _reduce(d, p=d.pick(*P)),
    "linalg.vector_norm": lambda d: _reduce(d, dtype=True, ord=d.pick(*P)),
    **dict.fromkeys(("cumsum", "cumprod"), lambda d: _along(d, dtype=True)),
    **dict.fromkeys(("cummax", "cummin", "logcumsumexp"), lambda d: _along(d)),
    **dict.fromkeys(("softmax", "log_softmax"), lambda d: _along(d, dtype=True)),
    F + "softmin": lambda d: _along(d),
    "sort": lambda d: _along(d, stable=True, descending=d.chance(0.5)),
    "argsort": lambda d: (lambda x: made(x, dim=d.dim(x), stable=True, descending=d.chance(0.5)))(d.array(d.shape())),
    "topk": lambda d: _ranked(d, largest=d.chance(0.5)),
    "kthvalue": lambda d: _ranked(d),
    "mode": lambda d: made(x := _distinct(d), d.dim(x)),
    **dict.fromkeys(("quantile", "nanquantile"), lambda d: (lambda x: made(
        x, d.pick(0.0, 0.25, 0.5, 1.0, 0.3), dim=d.dim(x), interpolation=d.pick("linear", "lower", "higher", "midpoint", "nearest"),
        **d.keep()))(d.array(d.shape(1)))),
    "diff": lambda d: (lambda x: made(x, n=d.int(0, 2), dim=d.dim(x)))(d.array(d.shape(1))),
    "trapezoid": lambda d: (lambda x: made(x, dim=d.dim(x)))(d.array(d.shape(1))),
    "cumulative_trapezoid": lambda d: (lambda x: made(x, dim=d.dim(x)))(d.array(d.shape(1))),
    "renorm": lambda d: (lambda x: made(x, d.pick(1, 2, 0.5, 3, float("inf")), d.dim(x), d.pick(0.5, 1.0, 5.0)))(d.array(d.shape(2))),
    "cdist": _cdist,
    "dist": lambda d: (*_binary(d)[:1], {"p": d.pick(2, 1, 0, 3, float("inf"), 0.5)}),
    F + "normalize": lambda d: (lambda x: made(x, p=d.pick(2.0, 1.0, 3.0), dim=d.dim(x)))(d.array(d.shape(1))),
    F + "cosine_similarity": lambda d: (lambda s: made(d.array(s), d.array(s), dim=d.dim(len(s))))(d.shape(1)),
    F + "pairwise_distance": lambda d: (lambda s: made(d.array(s), d.array(s), p=d.pick(2.0, 1.0, 3.0)))(d.shape(1, 2)),
    "Tensor.sum": lambda d: _reduce(d, dtype=True),
    "Tensor.max": _maybe_along,
    "cov": lambda d: made(d.array(d.shape(1, 2)), correction=d.pick(0, 1)),
    "corrcoef": lambda d: made(d.array(d.shape(1, 2))),
}  # fmt: skip


# --- Shapes and indices ------------------------------------------------------------------------------


def _permute(d: Draw) -> Made:
    x = d.array(d.shape())
    return made(x, tuple(int(i) for i in d.rng.permutation(x.values.ndim)))


def _two_dims(d: Draw, low: int = 1, distinct: bool = False) -> Made:
    x = d.array(d.shape(low))
    rank = x.values.ndim
    a, b = (int(i) for i in d.rng.permutation(rank)[:2]) if distinct else (d.dim(x), d.dim(x))
    return made(x, a, b)


def _joined(d: Draw) -> tuple[list[Array], int]:
    shape = list(d.shape(1))
    dim = d.dim(len(shape))
    parts = []
    for _ in range(d.int(1, 3)):
        own = list(shape)
        own[dim] = d.int(0, 3)
        parts.append(d.array(tuple(own), d.pick(*FLOATS, *INTEGERS) if d.chance(0.1) else ""))
    return parts, dim


def _pad(d: Draw) -> Made:
    mode = d.pick("constant", "constant", "reflect", "replicate", "circular")
    if mode == "constant":
        x = d.array(d.shape(1))
        widths = [d.int(-1, 2) for _ in range(2 * d.int(1, x.values.ndim))]
        return made(x, widths, mode, d.pick(0, 1.5, -1))
    rank = d.int(1, 2)
    x = d.array((d.int(1, 2), d.int(1, 2), *(d.int(3, 5) for _ in range(rank))))
    return made(x, [d.int(0, 2) for _ in range(2 * rank)], mode)


def _indexed(d: Draw) -> tuple[Array, int, Array, Array]:
    """Return a tensor, a dimension, indices along it, and a source of their shape."""
    x = d.array(tuple(max(n, 1) for n in d.shape(1)))
    dim, shape = d.dim(x), x.values.shape
    own = tuple(d.int(1, n) for n in shape)
    size = shape[dim]
    own = tuple(d.int(0, 5) if i == dim % len(shape) else n for i, n in enumerate(own))
    return x, dim, d.index(own, size), d.array(own)


def _along_index(d: Draw) -> tuple[Array, int, Array, Array]:
    """Return a tensor, a dimension, a vector of indices, and a source with that many slices."""
    x = d.array(tuple(max(n, 1) for n in d.shape(1)))
    dim, shape = d.dim(x), list(x.values.shape)
    index = d.index((d.int(0, 4),), shape[dim])
    if not d.chance(0.5):  # copies are promised only for distinct places
        index = Array(d.rng.permutation(shape[dim])[: d.int(0, shape[dim])], "int64")
    shape[dim] = index.values.size
    return x, dim, index, d.array(tuple(shape))


def _copied(d: Draw) -> Made:
    x, dim, _, _ = _along_index(d)
    index = Array(d.rng.permutation(x.values.shape[dim])[: d.int(0, x.values.shape[dim])], "int64")
    shape = list(x.values.shape)
    shape[dim] = index.values.size
    return made(x, dim, index, d.array(tuple(shape)))


def _getitem(d: Draw) -> Made:
    x = d.array(tuple(max(n, 1) for n in d.shape(1)))
    key: list[Any] = []
    for n in x.values.shape[: d.int(1, x.values.ndim)]:
        kind = d.pick("int", "slice", "index", "none", "mask", "step")
        key.append({
            "int": lambda n=n: d.int(-n, n - 1), "slice": lambda n=n: slice(d.int(-n, n), None),
            "index": lambda n=n: d.index((2,), n, True), "none": lambda: None, "mask": lambda n=n: slice(None),
            "step": lambda: slice(None, None, 2),
        }[kind]())  # fmt: skip
    if d.chance(0.15):
        return made(x, d.mask(x.values.shape))
    return made(x, tuple(key))


def _take(d: Draw) -> Made:
    x = d.array(d.shape())
    return made(x, d.index(d.shape(0, 2) if x.values.size else (0,), x.values.size, True))


SHAPE: dict[str, Row] = {
    "permute": _permute,
    **dict.fromkeys(("transpose", "swapaxes", "movedim"), _two_dims),
    **dict.fromkeys(("squeeze", "unsqueeze", "unbind", "flatten"), lambda d: _along(d)),
    **dict.fromkeys(("tril", "triu"), lambda d: made(d.array(d.shape(2)), d.int(-2, 2))),
    **dict.fromkeys(("diag",), lambda d: made(d.array(d.shape(1, 2)), d.int(-2, 2))),
    "diagonal": lambda d: (lambda x: made(x, d.int(-2, 2), 0, -1))(d.array(d.shape(2))),
    "diag_embed": lambda d: made(d.array(d.shape(1, 2)), d.int(-1, 2)),
    "diagflat": lambda d: made(d.array(d.shape(0, 2)), d.int(-1, 2)),
    "flip": lambda d: (lambda x: made(x, (d.dim(x),)))(d.array(d.shape(1))),
    "roll": lambda d: (lambda x: made(x, d.int(-3, 3), d.dim(x)))(d.array(d.shape(1))),
    "rot90": lambda d: made(d.array(d.shape(2)), d.int(-3, 4), (0, 1)),
    "tile": lambda d: made(d.array(d.shape()), tuple(d.int(0, 2) for _ in range(d.int(1, 3)))),
    "Tensor.repeat": lambda d: made(d.array(d.shape(0, 2)), *(d.int(0, 3) for _ in range(3))),
    "repeat_interleave": lambda d: (lambda x: made(x, d.int(0, 3), dim=d.dim(x)))(d.array(d.shape(1))),
    "Tensor.expand": lambda d: (lambda x: made(x, d.int(1, 3), *x.values.shape))(d.array(d.shape(0, 2))),
    "reshape": lambda d: made(d.array(d.shape(1)), d.pick((-1,), (1, -1), (-1, 1))),
    "narrow": lambda d: (lambda x, k: made(x, k, 0, d.int(0, x.values.shape[k])))(d.array(d.shape(1, 1)), 0),
    "split": lambda d: (lambda x: made(x, d.int(1, 3), d.dim(x)))(d.array(d.shape(1))),
    "chunk": lambda d: (lambda x: made(x, d.int(1, 4), d.dim(x)))(d.array(d.shape(1))),
    "tensor_split": lambda d: (lambda x: made(x, d.pick(2, 3, (1,), (0, 2)), d.dim(x)))(d.array(d.shape(1))),
    "cat": lambda d: made(*_joined(d)),
    "stack": lambda d: (lambda s: made([d.array(s) for _ in range(d.int(1, 3))], d.dim(len(s) + 1)))(d.shape(0, 2)),
    **dict.fromkeys(("hstack", "vstack", "dstack"), lambda d: (lambda s: made([d.array(s), d.array(s)]))(d.shape())),
    F + "pad": _pad,
    "Tensor.unfold": lambda d: made(d.array((d.int(1, 3), d.int(3, 6))), -1, d.int(1, 3), d.int(1, 2)),
    "unflatten": lambda d: made(d.array((d.int(0, 3), 6)), 1, d.pick((2, 3), (-1, 2), (1, 6))),
    "kron": lambda d: made(d.array(d.shape(0, 2)), d.array(d.shape(0, 2))),
    "outer": lambda d: made(d.array(d.shape(1, 1)), d.array(d.shape(1, 1))),
    "cartesian_prod": lambda d: made(d.array(d.shape(1, 1)), d.array(d.shape(1, 1))),
    "meshgrid": lambda d: made(d.array(d.shape(1, 1)), d.array(d.shape(1, 1)), indexing=d.pick("ij", "xy")),
    "block_diag": lambda d: made(d.array(d.shape(0, 2)), d.array(d.shape(0, 2))),
    "vander": lambda d: made(d.array(d.shape(1, 1)), d.int(0, 4)),
    "broadcast_to": lambda d: (lambda x: made(x, (2, *x.values.shape)))(d.array(d.shape())),
    "nn.functional.one_hot": lambda d: made(d.index(d.shape(0, 2), 4), 5),
    "heaviside": _binary,
    "view_as_real": _unary,
    "trace": lambda d: made(d.array(d.shape(2, 2))),
}
INDEX: dict[str, Row] = {
    "gather": lambda d: made(*_indexed(d)[:3]),
    "take_along_dim": lambda d: (lambda x, k, i, s: made(x, i, k))(*_indexed(d)),
    "scatter_add": lambda d: made(*_indexed(d)),
    "scatter_reduce": lambda d: made(
        *_indexed(d), reduce=d.pick("sum", "prod", "mean", "amax", "amin"), include_self=d.chance(0.6)
    ),
    "index_select": lambda d: made(*_along_index(d)[:3]),
    "index_add": lambda d: made(*_along_index(d), alpha=d.pick(None, 2)),
    "index_copy": _copied,
    "index_fill": lambda d: made(*_along_index(d)[:3], d.pick(0, 1.5, -2)),
    "index_reduce": lambda d: made(
        *_along_index(d), reduce=d.pick("prod", "mean", "amax", "amin"), include_self=d.chance(0.6)
    ),
    "take": _take,
    "masked_fill": lambda d: (lambda x: made(x, d.mask(d.partner(x.values.shape)), d.pick(0, 1.5, -2)))(d.array(d.shape())),
    "masked_select": lambda d: (lambda x: made(x, d.mask(d.partner(x.values.shape))))(d.array(d.shape())),
    "masked_scatter": lambda d: (lambda x: made(x, d.mask(x.values.shape), d.array((x.values.size + 1,))))(d.array(d.shape())),
    "index_put": lambda d: (lambda x, k, i, s: made(x, (i,), d.array(()), accumulate=d.chance(0.5)))(
        *(lambda x, k, i, s: (x, k, d.index((3,), x.values.shape[0], True), s))(*_along_index(d))),
    "Tensor.__getitem__": _getitem,
    "nonzero": _unary,
    "argwhere": _unary,
    "searchsorted": lambda d: made(Array(np.sort(d.rng.uniform(-3, 3, 5)), d.dtype), d.array(d.shape()), right=d.chance(0.5)),
    "bucketize": lambda d: made(d.array(d.shape()), Array(np.sort(d.rng.uniform(-3, 3, 5)), d.dtype), right=d.chance(0.5)),
    F + "embedding": lambda d: made(
        d.index(d.shape(0, 2), 4), d.array((4, d.int(1, 3))), padding_idx=d.pick(None, 0, -1), scale_grad_by_freq=d.chance(0.3)
    ),
    F + "embedding_bag": lambda d: made(
        d.index((d.int(1, 3), d.int(1, 4)), 4), d.array((4, d.int(1, 3))), mode=d.pick("sum", "mean", "max"),
        padding_idx=d.pick(None, 0)
    ),
    "unique": _unary,
    "isin": lambda d: made(d.array(d.shape()), d.array(d.shape(1, 1))),
    "select_scatter": lambda d: (lambda s: made(d.array(s), d.array(s[1:]), 0, d.int(0, s[0] - 1)))((d.int(1, 3), *d.shape(0, 2))),
    "slice_scatter": lambda d: (lambda s: made(d.array(s), d.array((s[0] - 1, *s[1:])), 0, 1))((d.int(1, 3), *d.shape(0, 2))),
    "diagonal_scatter": lambda d: (lambda n: made(d.array((n, n)), d.array((n,))))(d.int(0, 3)),
}  # fmt: skip


# --- Matrices, transforms, layers --------------------------------------------------------------------


def _matmul(d: Draw) -> Made:
    n, k, m = (d.int(0, 4) if d.chance(0.1) else d.int(1, 4) for _ in range(3))
    lead = d.shape(0, 2)
    a = (k,) if d.chance(0.2) else (*d.partner(lead), n, k)
    b = (k,) if d.chance(0.2) else (*lead, k, m)
    return made(d.array(a), d.array(b))


def _addmm(d: Draw) -> Made:
    n, k, m = (d.int(0, 4) if d.chance(0.1) else d.int(1, 4) for _ in range(3))
    scales = {"beta": d.pick(0, 1, 2), "alpha": d.pick(0, 1, 0.5)} if d.chance(0.5) and d.dtype in FLOATS else {}
    return made(d.array(d.partner((n, m))), d.array((n, k)), d.array((k, m)), **scales)


def _einsum(d: Draw) -> Made:
    sizes = {c: d.int(1, 3) for c in "ijkl"}
    text = d.pick(
        "ij,jk->ik",
        "ij,ij->",
        "i,j->ij",
        "ijk,kl->ijl",
        "ii->i",
        "ij->ji",
        "ij,kj,il->kl",
        "ijk->j",
        "ii->",
        "i,i,i->i",
    )
    return made(text, *(d.array(tuple(sizes[c] for c in part)) for part in text.split("->")[0].split(",")))


def _definite(d: Draw) -> Array:
    x = d.square()
    a = x.values
    return x._replace(values=a @ np.conj(np.swapaxes(a, -1, -2)) + np.diag(3 + 0.37 * np.arange(a.shape[-1])))


def _conv(rank: int, transposed: bool = False) -> Row:
    def row(d: Draw) -> Made:
        groups, kernel = d.pick(1, 1, 2), tuple(d.int(1, 3) for _ in range(rank))
        c, o = groups * d.int(1, 2), groups * d.int(1, 2)
        x = d.array((d.int(1, 2), c, *(d.int(4, 6) for _ in range(rank))))
        d.special = 0.0  # what zeros of the padding are times an infinite weight depends on the algorithm
        w = d.array((c, o // groups, *kernel) if transposed else (o, c // groups, *kernel))
        bias = d.array((o,)) if d.chance(0.5) else None
        return made(x, w, bias, stride=d.int(1, 2), padding=d.int(0, 1), dilation=d.pick(1, 1, 2), groups=groups)

    return row


def _pool(rank: int, **options: Any) -> Row:
    def row(d: Draw) -> Made:
        x = d.array((d.int(1, 2), d.int(1, 2), *(d.int(3, 6) for _ in range(rank))))
        extra = {k: d.pick(*v) for k, v in options.items()}
        return made(x, d.int(2, 3), stride=d.pick(None, 1, 2), padding=d.int(0, 1), ceil_mode=d.chance(0.3), **extra)

    return row


def _norm(d: Draw) -> Made:
    x = d.array((*d.shape(0, 2), d.int(1, 4)))
    size = x.values.shape[-1:]
    return made(x, size, *(d.array(size) if d.chance(0.7) else None for _ in range(2)), d.pick(1e-5, 1e-2))


def _batch_norm(d: Draw) -> Made:
    c = d.int(1, 3)
    x = d.array((d.int(2, 3), c, *d.shape(0, 2)))
    stats = [Array(np.linspace(0.2, 1.0, c), d.dtype) for _ in range(2)]
    return made(x, *stats, d.array((c,)), d.array((c,)), training=d.chance(0.6))


def _loss(*options: Any, positive: bool = False) -> Row:
    def row(d: Draw) -> Made:
        shape = d.shape()
        low, high = (0.01, 0.99) if positive else (-3, 3)
        return made(d.array(shape, low=low, high=high), d.array(shape, low=low, high=high),
                    reduction=d.pick("none", "sum", "mean"), **d.pick(*options))  # fmt: skip

    return row


def _classes(d: Draw) -> Made:
    n, c = d.int(0, 3) if d.chance(0.1) else d.int(1, 3), d.int(1, 4)
    lead = d.shape(0, 1)
    index = d.index((n, *lead), c)
    if d.chance(0.2):
        index = index._replace(values=np.where(d.rng.random(index.values.shape) < 0.4, -100, index.values))
    weight = Array(d.rng.uniform(0.2, 2, c), d.dtype) if d.chance(0.3) else None
    return made(d.array((n, c, *lead)), index, weight=weight, reduction=d.pick("none", "sum", "mean"))


def _smoothed(d: Draw) -> Made:
    args, kwargs = _classes(d)
    return args, {**kwargs, "label_smoothing": d.pick(0.0, 0.1)}


def _interpolate(d: Draw) -> Made:
    mode = d.pick("nearest", "bilinear", "bicubic", "area", "nearest-exact", "linear")
    rank = 1 if mode == "linear" else 2
    x = d.array((1, d.int(1, 2), *(d.int(1, 5) for _ in range(rank))))
    corners = d.chance(0.4) if mode in ("linear", "bilinear", "bicubic") else None
    if d.chance(0.5):
        return made(x, size=tuple(d.int(1, 6) for _ in range(rank)), mode=mode, align_corners=corners)
    return made(x, scale_factor=d.pick(0.5, 1.5, 2.0, 1.0), mode=mode, align_corners=corners)


def _grid(d: Draw) -> Made:
    x = d.array((1, 2, d.int(1, 4), d.int(1, 4)))
    d.special = 0.0  # at infinity, torch's backward ends the process
    grid = d.array((1, d.int(1, 3), d.int(1, 3), 2), low=-1.3, high=1.3)
    mode, padding = d.pick("bilinear", "nearest", "bicubic"), d.pick("zeros", "border", "reflection")
    return made(x, grid, mode, padding, d.chance(0.5))


def _attention(d: Draw) -> Made:
    e, s, t = d.int(1, 3), d.int(1, 3), d.int(1, 3)
    causal = d.chance(0.3)
    mask = None if causal or d.chance(0.5) else d.mask((t, s))
    return made(d.array((1, 2, t, e)), d.array((1, 2, s, e)), d.array((1, 2, s, e)), mask, 0.0, causal)


def _fft(real: bool = False) -> Row:
    def row(d: Draw) -> Made:
        x = d.array(tuple(max(n, 1) for n in d.shape(1)))
        if real and d.dtype in COMPLEX:
            x = x._replace(values=x.values.real, dtype="float64" if d.dtype == "complex128" else "float32")
        return made(x, n=d.pick(None, None, 4, 3), dim=d.dim(x), norm=d.pick(None, "ortho", "forward"))

    return row


MATRIX: dict[str, Row] = {
    **dict.fromkeys(("matmul", "Tensor.__matmul__"), _matmul),
    "addmm": _addmm,
    **dict.fromkeys(("dot", "vdot", "inner"), lambda d: (lambda s: made(d.array(s), d.array(s)))(d.shape(1, 1))),
    "einsum": _einsum,
    "tensordot": lambda d: made(d.array((2, 3, 4)), d.array((3, 4, 2)), dims=([1, 2], [0, 1])),
    **dict.fromkeys(("linalg.det", "linalg.inv", "logdet", "matrix_exp", "linalg.matrix_norm", "linalg.slogdet",
                     "linalg.svdvals", "linalg.pinv", "linalg.cond"), lambda d: made(d.square())),
    "linalg.solve": lambda d: (lambda a: made(a, d.array((*a.values.shape[:-1], d.int(1, 3)))))(d.square()),
    "linalg.cholesky": lambda d: made(_definite(d), upper=d.chance(0.5)),
    "linalg.eigvalsh": lambda d: made(_definite(d)),
    "linalg.matrix_power": lambda d: made(d.square(), d.int(-2, 4)),
    "linalg.qr": lambda d: made(d.square()),
    "linalg.solve_triangular": lambda d: (lambda a: made(a, d.array(a.values.shape), upper=d.chance(0.5)))(d.square()),
    "linalg.matrix_norm ": lambda d: made(d.square(), d.pick("fro", "nuc", 1, -1, 2, -2, float("inf"))),
    "linalg.cross": lambda d: (lambda s: made(d.array((*s, 3)), d.array((*s, 3))))(d.shape(0, 2)),
    "linalg.multi_dot": lambda d: made([d.array((2, 3)), d.array((3, 4)), d.array((4, 1))]),
    F + "linear": lambda d: (lambda i, o: made(d.array((*d.shape(0, 2), i)), d.array((o, i)), d.array((o,)) if d.chance(0.6) else None))(
        d.int(1, 4), d.int(1, 4)),
    F + "bilinear": lambda d: made(d.array((2, 3)), d.array((2, 4)), d.array((2, 3, 4)), d.array((2,))),
    **dict.fromkeys(("fft.fft", "fft.ifft", "fft.hfft", "fft.irfft"), _fft()),
    **dict.fromkeys(("fft.rfft", "fft.ihfft"), _fft(real=True)),
    "linalg.lstsq": lambda d: made(d.array((4, 3)), d.array((4, 2))),
}  # fmt: skip
LAYERS: dict[str, Row] = {
    **{F + f"conv{n}d": _conv(n) for n in (1, 2, 3)},
    **{F + f"conv_transpose{n}d": _conv(n, transposed=True) for n in (1, 2)},
    **{F + f"max_pool{n}d": _pool(n, dilation=(1, 1, 2)) for n in (1, 2)},
    F + "avg_pool1d": _pool(1, count_include_pad=(True, False)),
    F + "avg_pool2d": _pool(2, count_include_pad=(True, False), divisor_override=(None, 2)),
    F + "lp_pool2d": lambda d: made(d.array((1, 2, 4, 5)), d.pick(1.0, 2.0, 3.0), 2),
    **dict.fromkeys(
        (F + "adaptive_avg_pool2d", F + "adaptive_max_pool2d"),
        lambda d: made(d.array((1, 2, d.int(2, 5), d.int(2, 5))), (d.int(1, 4), d.int(1, 4))),
    ),
    F + "layer_norm": _norm,
    F + "rms_norm": lambda d: made(*_norm(d)[0][:3]),
    F + "batch_norm": _batch_norm,
    F + "instance_norm": lambda d: made(d.array((2, 3, d.int(2, 4)))),
    F + "group_norm": lambda d: made(d.array((2, 4, *d.shape(0, 1))), d.pick(1, 2, 4)),
    F + "local_response_norm": lambda d: made(d.array((2, 4, 3)), 2),
    **dict.fromkeys((F + "mse_loss", F + "l1_loss", F + "soft_margin_loss"), _loss({})),
    F + "smooth_l1_loss": _loss({}, {"beta": 0.5}, {"beta": 0.0}),
    F + "huber_loss": _loss({}, {"delta": 0.5}),
    F + "binary_cross_entropy": _loss({}, positive=True),
    F + "binary_cross_entropy_with_logits": _loss({}),
    F + "kl_div": _loss({}, {"log_target": True}),
    F + "poisson_nll_loss": _loss({}, {"log_input": False}, {"full": True}),
    F + "hinge_embedding_loss": _loss({}),
    F + "multilabel_soft_margin_loss": lambda d: (lambda s: made(d.array(s), d.array(s)))(d.shape(2, 2)),
    F + "gaussian_nll_loss": lambda d: (lambda s: made(d.array(s), d.array(s), d.array(s, low=0.1)))(d.shape(1)),
    F + "margin_ranking_loss": lambda d: (lambda s: made(d.array(s), d.array(s), d.array(s)))(d.shape(1)),
    F + "triplet_margin_loss": lambda d: (lambda s: made(d.array(s), d.array(s), d.array(s)))(d.shape(2, 2)),
    F + "cosine_embedding_loss": lambda d: made(d.array((2, 3)), d.array((2, 3)), Array(np.array([1, -1]), "int64")),
    F + "nll_loss": _classes,
    F + "cross_entropy": _smoothed,
    F + "multi_margin_loss": lambda d: made(d.array((3, 4)), d.index((3,), 4), p=d.pick(1, 2)),
    F + "interpolate": _interpolate,
    F + "grid_sample": _grid,
    F + "affine_grid": lambda d: made(d.array((1, 2, 3)), (1, 1, 2, 3), d.chance(0.5)),
    F + "scaled_dot_product_attention": _attention,
    F + "pixel_shuffle": lambda d: made(d.array((1, 4, 2, 3)), 2),
    F + "unfold": lambda d: made(d.array((1, 2, 4, 5)), d.int(1, 3), padding=d.int(0, 1), stride=d.int(1, 2)),
    F + "fold": lambda d: made(d.array((1, 8, 9)), (4, 4), 2),
    F + "channel_shuffle": lambda d: made(d.array((1, 4, 2, 2)), 2),
}
FAMILIES = {
    "elementwise": ELEMENTWISE,
    "reduce": REDUCE,
    "shape": SHAPE,
    "index": INDEX,
    "matrix": MATRIX,
    "layers": LAYERS,
}
WEIGHTS = {"elementwise": 0.34, "reduce": 0.24, "shape": 0.12, "index": 0.1, "matrix": 0.09, "layers": 0.11}


NOT_FOR_INTEGERS = (
    "norm",
    "softmin",
    "softmax",
    "vander",
    "matrix_power",
    "loss",
    "index_add",
    "mode",
    "inner",
    "dot",
    "vdot",
    "einsum",
)
NOT_FOR_COMPLEX = (
    "pool1d",
    "pool2d",
    "softmin",
    "softmax",
    "median",
    "mode",
)  # which torch takes by accident: if empty, or one window
NOT_SPECIAL = (
    "linalg.", "logdet", "matrix_exp", F + "bilinear", "cov", "corrcoef", "prod", "cumprod", "renorm", "mode", "addmm", "einsum",
    F + "batch_norm",
    F + "scaled_dot_product_attention",
)  # fmt: skip


def random_call(rng: Rng) -> Call:
    """Return a call: most are of floating dtypes, a third have special values, some integers or booleans."""
    family = rng.choice(list(WEIGHTS), p=list(WEIGHTS.values())).item()
    dtype = rng.choice(["float64", "float32", "float16", "bfloat16", "complex128", "complex64", "int", "bool"],
                       p=[0.44, 0.18, 0.06, 0.06, 0.09, 0.05, 0.09, 0.03]).item()  # fmt: skip
    if dtype == "int":
        dtype = rng.choice(INTEGERS).item()
    rows = FAMILIES[family]
    name = list(rows)[int(rng.integers(len(rows)))]
    special = float(rng.choice([0.0, 0.15, 0.4], p=[0.55, 0.3, 0.15]))
    if name.startswith(NOT_SPECIAL):  # LAPACK's own ways with them, and 0 times infinity in one order or another
        special = 0.0
    if dtype in COMPLEX and name.strip().endswith(NOT_FOR_COMPLEX):
        dtype = "float64"
    if name.strip().endswith(NOT_FOR_INTEGERS) and dtype not in FLOATS:
        dtype = "float64"
    args, kwargs = rows[name](Draw(rng, dtype, special, extreme=family == "elementwise"))
    return Call(family, name.strip(), args, kwargs)


# --- torch's own samples -----------------------------------------------------------------------------

RANDOM = (
    "rand",
    "dropout",
    "bernoulli",
    "normal",
    "multinomial",
    "poisson",
    "empty",
    "exponential",
    "rrelu",
    "uniform",
)
# Indices among equals, bases of a space, unset memory; tests/conformance has them.
OPEN = ("linalg.", "sort", "argsort", "msort", "topk", "kthvalue", "mode", "median", "nanmedian", "svd", "lu", "geqrf", "qr",
        "ormqr", "pca_lowrank", "svd_lowrank", "pinverse", "cholesky", "triangular_solve", "resize", "searchsorted", "as_strided", "torch.", "sparse",
        "nn.functional.max_unpool", "tensor", "masked.", "hash_tensor", "nn.functional.fractional", "signal.")  # fmt: skip
_entries: list[Any] = []
_samples: dict[tuple[str, str], list[Any]] = {}


def entries(T: Any, has: Callable[[str], bool]) -> list[Any]:
    """Return the operators of torch's table that a module has under the same name."""
    if not _entries:
        from torch.testing._internal.common_methods_invocations import op_db

        for op in op_db:
            if not op.name.startswith(("_", *OPEN)) and not any(r in op.name for r in RANDOM) and has(op.name):
                found = T
                for part in op.name.split("."):
                    found = getattr(found, part, None)
                if found is op.op:
                    _entries.append(op)
    return _entries


def sample_call(rng: Rng, T: Any, has: Callable[[str], bool]) -> Call | None:
    """Return one of torch's sample inputs in random layouts, some elements at kinks; None where it is no plain data."""
    ops = entries(T, has)
    op = ops[int(rng.integers(len(ops)))]
    names = sorted(str(d).rpartition(".")[2] for d in op.supported_dtypes("cpu"))
    names = [n for n in names if n in FLOATS + COMPLEX + INTEGERS + ("bool",)] or ["float64"]
    dtype = "float64" if "float64" in names and rng.random() < 0.5 else names[int(rng.integers(len(names)))]
    if (op.full_name, dtype) not in _samples:
        T.manual_seed(0)  # a case depends on its own seed alone
        made = list(op.sample_inputs("cpu", getattr(T, dtype), requires_grad=dtype in FLOATS + COMPLEX))
        _samples[op.full_name, dtype] = made[:: max(1, len(made) // 20)]
    samples = _samples[op.full_name, dtype]
    if not samples:
        return None
    sample = samples[int(rng.integers(len(samples)))]
    draw = Draw(rng, dtype, 0.0, extreme=False)
    try:
        args = tuple(_taken(v, T, draw) for v in (sample.input, *sample.args))
        return Call("op_db", op.name, args, {k: _taken(v, T, draw) for k, v in sample.kwargs.items()})
    except TypeError:
        return None


def _taken(value: Any, T: Any, draw: Draw) -> Any:
    """Return an argument of a sample as data."""
    if isinstance(value, T.Tensor):
        name = str(value.dtype).rpartition(".")[2]
        if value.layout is not T.strided or name not in FLOATS + COMPLEX + INTEGERS + ("bool",):
            raise TypeError
        values = value.detach().resolve_conj().resolve_neg()
        values = values.to(T.complex128 if name in COMPLEX else T.float64 if name in FLOATS else value.dtype).numpy()
        if value.requires_grad and draw.chance(0.3):
            values = np.where(draw.rng.random(values.shape) < 0.2, draw.pick(0.0, 1.0, -1.0), values)
        layout = draw.pick("contiguous", "transposed", "strided", "offset", "reversed")
        return Array(np.array(values), name, layout, value.requires_grad)
    if isinstance(value, T.dtype):
        return Name(str(value).rpartition(".")[2])
    if isinstance(value, T.Size):
        return tuple(value)
    if type(value) in (list, tuple):
        return type(value)(_taken(v, T, draw) for v in value)
    if value is None or isinstance(value, bool | int | float | complex | str | np.generic):
        return value
    raise TypeError
