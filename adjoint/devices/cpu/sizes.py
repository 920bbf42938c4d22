"""From how many elements on a kernel of the CPU beats NumPy's, as measured by benchmarks/sizes.py.

A number holds for forward and backward together; below it NumPy's call costs less than choosing.
"""

from __future__ import annotations

SUM = 4097  # blocks of dot products, and compiled loops
BROADCAST = 16384  # up to here a gradient that is repeated is copied out
BATCH = 1 << 13  # elements of a batch of matrices that threads may share
PLACES = 1024  # up to here the places of elements are cached for the next call
ATTENTION = 1 << 13  # weights from which on they are computed in blocks, and found again in the backward pass
INDEX = 4096  # elements of an index up to which offsets are cached for the next call, and bounds found by a search
GATHER = 1 << 15  # elements above which compiled loops may gather, add and look up rows
ROWS_PER_THREAD = 1 << 17  # elements of whole rows by index that are worth a thread
MOVE = 1 << 16  # elements above which a copy that places, turns or joins may be split among threads,
COPY = 1 << 17  # from which compiled copies are faster than NumPy's,
COPY_PER_THREAD = 1 << 18  # and of the piece that is worth a thread
TRIANGLE = 1 << 15  # elements of matrices from which on compiled loops clear a triangle,
SELECT = 3000  # and from which on a selection by bits, without branches, is faster than NumPy's
ZEROS = 4097  # elements from which on zeros are written by threads
