"""From how many elements on a kernel of the CPU beats NumPy's, as measured by benchmarks/sizes.py.

A number holds for forward and backward together; below it NumPy's call costs less than choosing.
"""

from __future__ import annotations

SUM = 4097  # blocks of dot products, and compiled loops
BROADCAST = 16384  # up to here a gradient that is repeated is copied out
BATCH = 1 << 13  # elements of a batch of matrices that threads may share
PLACES = 1024  # up to here the places of elements are cached for the next call
ATTENTION = 1 << 13  # weights from which on they are computed in blocks, and found again in the backward pass
COLUMNS = 3 << 20  # bytes of a convolution's windows at a time: what fits into a core's cache
CONVOLUTION = 1 << 22  # elements of windows from which on threads split the samples
SAMPLES = 16  # samples from which on a convolution's columns have them last,
SAMPLES_LAST = 16  # where rows of the result are at most so long
IMAGES = 1 << 17  # elements of images that are pooled at a time,
IMAGES_SPLIT = 1 << 19  # and from which on threads split them
