"""Tables that are looked up by numbers: a row for each, and what comes back added to the rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...devices.cuda.source import TYPES
from ..expressions import is_floating
from ..graph import Line, Value
from .text import computed_as

if TYPE_CHECKING:
    from .steps import Place

_THREADS = 256

# A number that names no row gives NaN: the device cannot raise.
_LOOK = """extern "C" __global__ void NAME(
    const T* __restrict__ table, const I* __restrict__ numbers, T* __restrict__ out, i64 n) {
    const i64 i = (i64)blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    const i64 row = i / WIDTH, column = i - row * WIDTH, at = (i64)numbers[row];
    typedef Pack<T, PACK> P;
    P found;
    if (at >= 0 && at < ROWS) found = ((const P*)table)[at * WIDTH + column];
    else for (int j = 0; j < PACK; ++j) found.v[j] = (T)__int_as_float(0x7fffffff);
    ((P*)out)[i] = found;
}"""
_ADD = """extern "C" __global__ void NAME(
    const T* __restrict__ g, const I* __restrict__ numbers, T* __restrict__ out, i64 n) {
    const i64 i = (i64)blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    const i64 row = i / WIDTH, column = i - row * WIDTH, at = (i64)numbers[row];
    if (at >= 0 && at < ROWS && at != PADDING) atomicAdd(&out[at * WIDTH + column], g[i]);
}"""


class Table:
    """A kernel of a table."""

    def __init__(self, source: str, size: int, moved: int) -> None:
        self.source, self.size, self.bytes = source, size, moved
        self.grid, self.block = (-(-size // _THREADS), 1), (_THREADS, 1)


def table_kernel(line: Line, place: Callable[[Value], Place]) -> Table | None:
    """Return the kernel of a look-up or of its gradient, None where the op's own is called."""
    first, numbers = line.operands
    out = line.outputs[0]
    if not isinstance(numbers, Value) or numbers.dtype.name not in ("int32", "int64") or not is_floating(out):
        return None
    if not numbers.size or not out.size or first.dtype != out.dtype:
        return None
    if not _dense(place(first)) or not _dense(place(numbers)):
        return None
    types = {"T": TYPES[out.dtype.name], "I": TYPES[numbers.dtype.name]}
    if line.op.name == "embedding":
        width = out.size // numbers.size
        pack = 16 // out.dtype.itemsize
        if width % pack or place(first).offset % 16:
            pack = 1
        sizes = {"PACK": pack, "WIDTH": width // pack, "ROWS": first.shape[0]}
        text = _LOOK
        for name, size in sizes.items():
            text = text.replace(name, str(size))
        return Table(_typed(text, types), out.size // pack, 2 * out.nbytes)
    rows, padding, by_frequency = line.params
    if by_frequency or computed_as(out.dtype) != TYPES[out.dtype.name]:
        return None
    width = first.size // numbers.size
    text = _ADD.replace("WIDTH", str(width)).replace("ROWS", str(rows)).replace("PADDING", str(padding))
    return Table(_typed(text, types), first.size, first.nbytes + out.nbytes)


def _typed(text: str, types: dict[str, str]) -> str:
    for name, kind in types.items():
        text = text.replace(f"const {name}*", f"const {kind}*").replace(f" {name}* __", f" {kind}* __")
        text = text.replace(f"Pack<{name},", f"Pack<{kind},").replace(f"({name})__int", f"({kind})__int")
    return text


def _dense(place: Place) -> bool:
    step = place.value.dtype.itemsize
    for n, stride in zip(reversed(place.shape), reversed(place.strides)):
        if n != 1 and stride != step:
            return False
        step *= n
    return True
