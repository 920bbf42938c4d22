"""From how many elements on a kernel of the GPU beats CuPy's, and how work is divided among its blocks."""

from __future__ import annotations

COLUMNS = 256 << 20  # bytes of a convolution's windows at a time
RANDOM = 1 << 16  # random numbers from which on the GPU makes its own, by a seed; fewer are those of the CPU
BLOCKS = 1056  # blocks that keep a large GPU busy
PIECE = 64  # elements of a column that a block reduces at least,
PIECE_OF_ROW = 4096  # and of a row
SORT_IN_BLOCK = 4096  # elements of a row that are sorted in shared memory
BEST_ONE_BY_ONE = 32  # best elements that are found one after another
SCAN_COLUMNS, SCAN_COLUMN = 1 << 16, 64  # fewer columns than that, longer than this, are transposed into rows
SCAN_ROWS, SCAN_ROW = 64, 1 << 16  # of fewer rows than that, longer than this, CuPy's scan of a whole array is faster
ROWS_OF_PLANES = 32  # rows of planes from which on a block for each keeps a GPU busy,
ROWS_PLANES = 1 << 17  # if they have no more elements than these
