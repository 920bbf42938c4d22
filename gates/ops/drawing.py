"""Random parts of a call, as data: tensors among them are `Array`, which either module builds."""

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
        """Return True with a probability."""
        return bool(self.rng.random() < p)

    def pick(self, *options: Any) -> Any:
        """Return one of some options."""
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
        """Return booleans."""
        return Array(np.asarray(self.rng.random(shape) < 0.5), "bool")

    def scalar(self) -> Any:
        """Return a number: Python's, NumPy's, special ones included."""
        number = self.pick(0, 1, 2, -1, 3, 0.5, -0.5, 2.0, -1.5, 0.0, 1.0, True)
        if self.special and self.chance(0.25):
            # A number that underflows in the tensor's dtype is 0 in torch's loops, and not in the ends of them.
            number = self.pick(float("inf"), float("-inf"), -0.0, SMALLEST.get(self.dtype, 1e-30))
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
        """Return square matrices, well conditioned."""
        n = self.int(low, high)
        lead = self.shape(0, 2) if batch and self.chance(0.4) else ()
        x = self.array((*lead, n, n))
        return x._replace(values=x.values + 4 * np.eye(n), layout=self.pick("contiguous", "transposed", "reversed"))

    def keep(self) -> dict[str, Any]:
        """Return a `keepdim` keyword, or none."""
        return {"keepdim": self.chance(0.5)} if self.chance(0.5) else {}

    def dtypes(self) -> dict[str, Any]:
        """Return a keyword that names a dtype, or none."""
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


F = "nn.functional."
