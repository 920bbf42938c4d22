"""One launch over the elements of many arrays: what an optimizer or a gradient scaler does to all parameters.

A block reads the addresses of the arrays from a table, and its part of them from a list. Both are cached: in
the next step the arrays are, as a rule, the same ones.
"""

from __future__ import annotations

import functools
from typing import Any

import cupy
import numpy as np

from ..._typing import Array, DType, Kernel
from ...scalar import cuda
from ...scalar.symbol import variable
from .arrays import adopt, new
from .launching import FLOATS, Kernels
from .reductions import reduced
from .sizes import CHUNK

__all__ = ["CHUNK", "Many", "are_dense", "copy", "scale", "sum_of_squares", "unscale", "updates"]

_THREADS = 512
_KEPT = 256  # tables that are remembered: an optimizer has one, data parallel training two for each bucket

_TEXT = r"""
typedef wide_of<T>::type W;
extern "C" __global__ void many(const i64* table, const int* chunksPARAMETERS) {
    const int row = chunks[2 * blockIdx.x];
    const i64 start = (i64)chunks[2 * blockIdx.x + 1] * CHUNK;
    const i64* at = table + (i64)row * (COLUMNS + 1);
    const i64 rest = at[COLUMNS] - start;
    const int n = rest < CHUNK ? (int)rest : CHUNK;
    const int N = 16 / sizeof(T);
    int done = 0;
    POINTERS
    BEGIN
    if (((ALIGNED) & 15) == 0) {
        done = n / N * N;
        for (int i = threadIdx.x; i < n / N; i += blockDim.x) {
            PACKS
            #pragma unroll
            for (int j = 0; j < N; ++j) { READ_PACK BODY WRITE_PACK }
            STORES
        }
    }
    for (int i = done + threadIdx.x; i < n; i += blockDim.x) { READ BODY WRITE }
    END
}
"""


_AT_END = "sum = block_sum(sum); if (threadIdx.x == 0) parts[blockIdx.x] = sum;"


def _text(columns: int, written: tuple[int, ...], parameters: str, body: str, begin: str, end: str) -> str:
    every = range(columns)
    pieces = {
        "PARAMETERS": parameters and ", " + parameters,
        "COLUMNS": str(columns),
        "CHUNK": str(CHUNK),
        "POINTERS": " ".join(f"T* p{i} = (T*)at[{i}] + start;" for i in every),
        "ALIGNED": " | ".join(f"at[{i}]" for i in every),
        "PACKS": " ".join(f"Pack<T, N> k{i} = ((Pack<T, N>*)p{i})[i];" for i in every),
        "READ_PACK": " ".join(f"W v{i} = k{i}.v[j];" for i in every),
        "WRITE_PACK": " ".join(f"k{i}.v[j] = (T)v{i};" for i in written),
        "STORES": " ".join(f"((Pack<T, N>*)p{i})[i] = k{i};" for i in written),
        "READ": " ".join(f"W v{i} = p{i}[i];" for i in every),
        "WRITE": " ".join(f"p{i}[i] = (T)v{i};" for i in written),
        "BODY": body,
        "BEGIN": begin,
        "END": end,
    }
    text = _TEXT
    for name in ("READ_PACK", "WRITE_PACK", *pieces):  # the longer names before those that they begin with
        text = text.replace(name, pieces[name])
    return text


class Many:
    """A kernel over rows of arrays: one array for each of the columns, all of a row with as many elements.

    The body is C about one element: ``v0``, ``v1``, ... are the elements of the columns, computed with in type W;
    those of `written` are stored again. `row` is the number of the row, `begin` and `end` surround a thread's work.
    """

    def __init__(
        self, columns: int, written: tuple[int, ...], parameters: str, body: str, begin: str = "", end: str = ""
    ) -> None:
        self.columns = columns
        self.kernels = Kernels(_text(columns, written, parameters, body, begin, end), "T")

    def __call__(self, rows: list[tuple[Any, ...]], arguments: tuple[Any, ...]) -> None:
        """Launch it; arrays of a row have the same layout without gaps, and none is empty."""
        first = rows[0][0]
        places = tuple([a.data.ptr for row in rows for a in row])
        sizes = tuple([row[0].size for row in rows])
        where = first.data.device_id, _stream().ptr  # what one stream has uploaded is not there yet for another
        table = _tables.get((places, sizes, where))
        if table is None:
            if len(_tables) >= _KEPT:
                _tables.clear()
            table = _tables[places, sizes, where] = _table(places, sizes, self.columns)
        chunks, count = _chunks(sizes, where)
        self.kernels.launch("many", (first.dtype.char,), count, _THREADS, (table, chunks, *arguments))


_tables: dict[Any, Any] = {}
_stream = cupy.cuda.get_current_stream


def _table(places: tuple[int, ...], sizes: tuple[int, ...], columns: int) -> Array:
    """Return where arrays are, and how many elements those of a row have."""
    table = np.empty((len(sizes), columns + 1), np.int64)
    table[:, :columns] = np.array(places, np.int64).reshape(-1, columns)
    table[:, columns] = sizes
    return cupy.asarray(table)


@functools.lru_cache(256)
def _chunks(sizes: tuple[int, ...], where: tuple[int, int]) -> tuple[Any, int]:
    """Return which part of which row each block has, and how many blocks there are."""
    counts = -(-np.array(sizes) // CHUNK)
    row = np.repeat(np.arange(len(sizes)), counts)
    part = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    return cupy.asarray(np.stack([row, part], 1).astype(np.int32)), len(row)


# --- What is done to all gradients -------------------------------------------------------------------------

_SQUARES = Many(1, (), "W* parts", "sum += v0 * v0;", "W sum = 0;", _AT_END)
_SCALE = Many(1, (0,), "const W* factor", "v0 *= by;", "const W by = *factor;")
_COPY = Many(2, (1,), "W n0", "v1 = v0 / n0;")
_UNSCALE = Many(
    1, (0,), "int* flags, W n0", "bad |= !(v0 - v0 == 0); v0 *= n0;", "bool bad = false;", "if (bad) flags[row] = 1;"
)


def are_dense(values: list[Any]) -> bool:
    """Return whether values are dense arrays on one GPU, of one real dtype."""
    first = values[0]
    if not isinstance(first, cupy.ndarray) or first.dtype.char not in FLOATS:
        return False
    dtype, place = first.dtype, first.data.device_id
    return all(
        isinstance(a, cupy.ndarray) and a.dtype == dtype and a.data.device_id == place
        and (a._c_contiguous or a._f_contiguous)
        for a in values
    )  # fmt: skip


def _wide(dtype: DType) -> DType:
    return np.dtype(np.float32) if dtype.itemsize == 2 else dtype


def sum_of_squares(values: list[Any]) -> Any:
    """Return the sum of the squares of all elements of arrays; half precision is added up in single."""
    rows = [(a,) for a in values if a.size]
    if not rows:
        return adopt(cupy.zeros((), _wide(values[0].dtype)))
    parts = new((sum(-(-a.size // CHUNK) for (a,) in rows),), _wide(values[0].dtype))
    _SQUARES(rows, (parts,))
    return reduced(parts, None, False)


def scale(values: list[Any], factor: Array) -> None:
    """Multiply arrays by an array of one element."""
    rows = [(a,) for a in values if a.size]
    if rows:
        _SCALE(rows, (factor.astype(_wide(values[0].dtype), copy=False),))


def copy(sources: list[Any], targets: list[Any], divisor: float = 1.0) -> None:
    """Write arrays, divided by a number, into others of the same memory layout."""
    rows = [row for row in zip(sources, targets, strict=True) if row[0].size]
    if rows:
        _COPY(rows, (_wide(sources[0].dtype).type(divisor),))


def unscale(values: list[Any], factor: float) -> Any:
    """Multiply arrays, none of them empty, by a number; return an array that says which were not finite."""
    flags = cupy.zeros(len(values), np.int32)
    _UNSCALE([(a,) for a in values], (flags, _wide(values[0].dtype).type(factor)))
    return flags


@functools.cache
def updates(update: Kernel, columns: int, fixed: tuple[Any, ...]) -> Many | None:
    """Return an optimizer's update, a formula of elements, as a kernel over rows of arrays; None without text in C.

    `fixed` has a tuple of the value for each parameter that is no scalar.
    """
    values = [variable(f"v{i}") for i in range(columns)]
    numbers = [variable(f"n{i}") if f is None else f[0] for i, f in enumerate(fixed)]
    try:
        changed = update(*values, *numbers)
    except (TypeError, AttributeError):
        return None
    written = (0, *range(2, columns))
    lines: list[str] = []
    stores: list[str] = []
    for column, result in zip(written, changed if isinstance(changed, tuple) else (changed,), strict=True):
        steps, value = cuda.lines(result, "W", prefix=f"c{column}_")
        lines += [*steps, f"const W c{column} = {value}"]
        stores.append(f"v{column} = c{column}")  # when all are computed: each is of the elements as they were
    parameters = ", ".join(f"W n{i}" for i, f in enumerate(fixed) if f is None)
    return Many(columns, written, parameters, " ".join(f"{line};" for line in [*lines, *stores]))
