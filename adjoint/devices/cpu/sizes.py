"""From how many elements on a kernel of the CPU beats NumPy's, as measured by benchmarks/sizes.py.

A number holds for forward and backward together; below it NumPy's call costs less than choosing.
"""

from __future__ import annotations

SUM = 4097  # blocks of dot products, and compiled loops
COMPILED_SUM = 1 << 15  # sums of which compiled loops may pay, and scans by matrix multiplication
BROADCAST = 16384  # up to here a gradient that is repeated is copied out
BATCH = 1 << 13  # elements of a batch of matrices that threads may share
PLACES = 1024  # up to here the places of elements are cached for the next call
ATTENTION = 1 << 13  # weights from which on they are computed in blocks, and found again in the backward pass
INDEX = 4096  # elements of an index up to which offsets are cached for the next call, and bounds found by a search
GATHER = 1 << 15  # elements above which compiled loops may gather, add and look up rows
MOVE = 1 << 16  # elements above which a copy that places, turns or joins may be split among threads,
COPY = 1 << 17  # and from which compiled copies are faster than NumPy's
TRIANGLE = 1 << 15  # elements of matrices from which on compiled loops clear a triangle,
SELECT = 3000  # and from which on a selection by bits, without branches, is faster than NumPy's
ZEROS = 4097  # elements from which on zeros are written by threads
ROWS = 1 << 15  # elements from which on row-wise statements are compiled loops (without Numba: threads take blocks)
ROWS_PIECE = 1 << 16  # elements of rows that are worth a thread that is awake,
ROWS_PIECE_DEAR = 1 << 15  # and of rows with exponentials
ROWS_SUMMED = 1 << 19  # elements whose sums across rows are one piece: longer sums round more
ROWS_BLOCK = 1 << 19  # elements of a block of rows for NumPy: threads with smaller ones meet at the interpreter's lock
ROWS_THREAD = 1 << 17  # elements below which NumPy's passes over rows are not worth a thread
COLUMNS = 3 << 20  # bytes of a convolution's windows at a time: what fits into a core's cache
CONVOLUTION = 1 << 22  # elements of windows from which on threads split the samples
SAMPLES = 16  # samples from which on a convolution's columns have them last,
SAMPLES_LAST = 16  # where rows of the result are at most so long
IMAGES = 1 << 17  # elements of images that are pooled at a time,
IMAGES_SPLIT = 1 << 19  # and from which on threads split them
SMALL = 4096  # up to here few calls of NumPy's count for more than the elements
SMALL_RANDOM = 128  # and up to here among random numbers
ONE_ROW = 16  # classes of a sample whose cross entropy is computed in Python, and losses that are added up there
VECTOR = 32  # columns that are worth a vector
MIDDLE = 512  # elements from which on a reduction looks whether few elements follow its axis:
MIDDLE_ROW = 64  # fewer than these, for which NumPy's loops are too short,
MIDDLE_AXIS = 8192  # with an axis that is no longer
EXTREMES = (1 << 15) + 1  # compiled extremes of columns
SORT = 2048  # elements whose keys are sorted together with their places
SORT_BLOCK = 1 << 15  # elements of rows that stay in the cache between the passes of a sort
BEST = 256  # elements of an axis of which the best are found without sorting all,
BEST_SHARE = 8  # if they are no more than one of so many,
BEST_ONE_BY_ONE = 32  # and in a compiled loop, in which each one found moves all others, no more than these
SCAN = 4097  # cumulative sums and products
SCAN_ROWS = 128  # elements behind an axis that are added as a row
SCAN_BLOCK = 1 << 17  # elements of rows that stay in the cache between the steps of a recurrence
PRODUCT_ROW = 17  # elements of a row whose product is computed by halves or by a compiled loop
PRODUCT_BACKWARD = 1 << 15  # gradients of products of rows
ERF = 1000  # error functions of float32 by a polynomial
LOG1P_EXP = 128  # log1p_exp in several fast calls
TRIGAMMA = 256  # up to here trigamma of float32 by the first terms of its sum and a continued fraction
TIMES_LOG = 4097  # xlogy, where a pass costs more than to look whether it is needed
LOOP = 1 << 15  # elements from which on a compiled loop is worth calling
MATMUL = 1 << 18  # multiplications up to which BLAS uses one thread, and from which on a batch is split among threads
DOT = 1 << 10  # elements whose sum is as fast without a dot product
MATVEC = 1 << 14  # elements of a matrix up to which BLAS uses one thread for its product with a vector
BATCH_MATMUL = 1 << 23  # multiplications in a batch of small matrices that take no longer than to wake a thread
BLAS_THREADS = 1 << 27  # multiplications of two matrices from which on BLAS splits them as well itself
PIECES = 1 << 16  # elements from which on pieces pay for themselves where each is worth ten passes or more
PIECE = 1 << 18  # elements of a piece
ATTENTION_BLOCK = 1 << 17  # weights of a block, which stay in a core's cache,
ATTENTION_SPLIT = 1 << 14  # under which a block is not cut for a second thread
ATTENTION_WIDE = 256  # the width of heads from which on weights are saved,
ATTENTION_SAVED = 1 << 25  # if there are no more than these
ATTENTION_COMPILED = 1 << 18  # weights of a block that compiled code takes (of wide heads twice those),
ATTENTION_QUERIES = 64  # and its least queries
ATTENTION_SHORT = 96  # queries and keys up to which a transposed operand is copied before BLAS multiplies
FUSED = 32_768  # elements of a region that is small
FUSED_LIBM = 16_384  # elements up to which a call to libm for each is faster than a pass of NumPy's
REUSED = 1 << 15  # bytes of an array from which on new memory costs more than to look whether the last one is free
ADD_IN_PLACE = 8192  # elements from which on a gradient is added in place
RANDOM_BLOCK = 1 << 14  # random numbers made at a time, which stay in the cache; a multiple of 16
ARGUMENT = 1 << 18  # bytes of an argument up to which its views are copied to a place of their own

# Elements from which on kernels of oneDNN, and loops compiled by Numba, beat NumPy, by the name of an op.
ONEDNN = {
    "convolution": 1 << 12,
    "pooling": 1 << 12,
    "matmul": (1 << 18) + 1,  # products of numbers, from which on BLAS would wake its threads
    "bmm": 1 << 18,
}
NUMBA = {
    "softmax": 1 << 15,  # oneDNN's loses NaNs
    "attention": 1 << 15,
    "norm": 1 << 15,
    "sum": 1 << 15,
    "running": 1 << 14,
    "gather": 1 << 15,
    "best": 1 << 15,
    "extreme": 1 << 15,
    "sample": 1 << 14,
}
REMAINDER = 2048  # vectorized remainders

# Elements that are worth a thread:
ERF_THREADS = 1 << 15  # error functions by a polynomial;
THREAD_SUM = 1 << 19  # sums by dot products,
THREAD_SUM_COMPILED = 1 << 18  # and by compiled loops;
THREAD_COLUMNS = 1 << 17  # cumulative sums and extremes of columns;
THREAD_TRIANGLES = 1 << 17  # cumulative sums by matrix multiplication,
THREAD_SCAN = 1 << 15  # and by additions, each of which waits for the one before;
THREAD_SORT = 1 << 16  # sorting;
THREAD_INDEXED_ROWS = 1 << 17  # rows by index;
THREAD_COPY = 1 << 18  # copies;
THREAD_LOOP = 1 << 14  # elementwise loops, where threads are awake;
THREAD_ROWS = 1 << 15  # compiled loops over rows, where threads are awake;
THREAD_PROGRAM = 32_768  # loops of compiled programs, which are then split among threads
