"""From how many elements on a kernel of the CPU beats NumPy's, as measured by benchmarks/sizes.py.

A number holds for forward and backward together; below it NumPy's call costs less than choosing.
"""

from __future__ import annotations

SUM = 4097  # blocks of dot products, and compiled loops
BROADCAST = 16384  # up to here a gradient that is repeated is copied out
BATCH = 1 << 13  # elements of a batch of matrices that threads may share
PLACES = 1024  # up to here the places of elements are cached for the next call
ATTENTION = 1 << 13  # weights from which on they are computed in blocks, and found again in the backward pass
ROWS = 1 << 15  # elements from which on row-wise statements are compiled loops (without Numba: threads take blocks)
ROWS_PIECE = 1 << 16  # elements of rows that are worth a thread that is awake,
ROWS_PIECE_DEAR = 1 << 15  # and of rows with exponentials
ROWS_SUMMED = 1 << 19  # elements whose sums across rows are one piece: longer sums round more
ROWS_BLOCK = 1 << 19  # elements of a block of rows for NumPy: threads with smaller ones meet at the interpreter's lock
ROWS_THREAD = 1 << 17  # elements below which NumPy's passes over rows are not worth a thread
ROWS_SMALL = 1 << 12  # elements of rows below which to choose among forms takes longer than passes
