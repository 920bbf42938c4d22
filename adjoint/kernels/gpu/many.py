"""One launch over the elements of many arrays: what an optimizer or a gradient scaler does to all parameters.

A block reads from a table where the arrays are, and from a list which part of which array is its own. Both are kept: in
the next step the arrays are, as a rule, the same ones.
"""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from .launching import Kernels

__all__ = ["CHUNK", "Many"]

CHUNK = 1 << 14  # elements that one block goes over
_THREADS = 512
_KEPT = 16  # tables that are remembered

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
        self._tables: dict[Any, tuple[Any, Any, int]] = {}

    def __call__(self, rows: list[tuple[Any, ...]], arguments: tuple[Any, ...]) -> None:
        """Launch it; arrays of a row lie alike and in one piece, and none is empty."""
        first = rows[0][0]
        key = tuple([a.data.ptr for row in rows for a in row]), tuple([row[0].size for row in rows])
        found = self._tables.get(key)
        if found is None:
            if len(self._tables) >= _KEPT:
                self._tables.clear()
            found = self._tables[key] = _table(rows, key[0], key[1], self.columns)
        table, chunks, count = found
        self.kernels.launch("many", (first.dtype.char,), count, _THREADS, (table, chunks, *arguments))


def _table(rows: Any, addresses: tuple[int, ...], sizes: tuple[int, ...], columns: int) -> tuple[Any, Any, int]:
    """Return where arrays are and how many elements they have, which part is whose, and how many parts there are."""
    table = np.empty((len(sizes), columns + 1), np.int64)
    table[:, :columns] = np.array(addresses, np.int64).reshape(-1, columns)
    table[:, columns] = sizes
    counts = -(-np.array(sizes) // CHUNK)
    row = np.repeat(np.arange(len(sizes)), counts)
    part = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    chunks = np.stack([row, part], 1).astype(np.int32)
    return cupy.asarray(table), cupy.asarray(chunks), len(row)
