"""From how many elements on a kernel of the GPU beats CuPy's, and how work is divided among its blocks."""

from __future__ import annotations

COLUMNS = 256 << 20  # bytes of a convolution's windows at a time
RANDOM = 1 << 16  # random numbers from which on the GPU makes its own, by a seed; fewer are those of the CPU
BLOCKS = 1056  # blocks that occupy a large GPU
PIECE = 64  # elements of a column that a block reduces at least,
PIECE_OF_ROW = 4096  # and of a row
SORT_IN_BLOCK = 4096  # elements of a row that are sorted in shared memory
BEST_ONE_BY_ONE = 32  # best elements that are found one after another
SCAN_COLUMNS, SCAN_COLUMN = 1 << 16, 64  # fewer columns than that, longer than this, are transposed into rows
SCAN_ROWS, SCAN_ROW = 64, 1 << 16  # of fewer rows than that, longer than this, CuPy's scan of a whole array is faster
WORKSPACE = 32 << 20  # bytes of workspace that cuBLAS needs on recent devices,
CUDNN_WORKSPACE = 1 << 30  # and of workspace that an algorithm of cuDNN's for a convolution may use
BATCH_CALLS = 16  # calls for which operands of uneven batches are still cheaper than a copy
ALIGNED_MATMUL = 1 << 33  # multiplications from which on copies to aligned rows are worth it,
ALIGNED_SIDE = 256  # and what each size must be for that
PACKED = 1 << 16  # elements from which on they are read in packs of 16 bytes
RING_ARRAY = 1 << 20  # bytes up to which arrays wait in a ring to be used again,
RING = 512  # arrays in a ring,
RINGS = 1 << 27  # and bytes in all rings
CHUNK = 1 << 14  # elements of many arrays that one block goes over
ROW_IN_REGISTERS = 1 << 14  # columns up to which rows of a program stay in registers; longer ones are read again
ROW_REGISTERS = 96  # elements of a row that a thread may hold
REDUCED_FIRST = 1 << 20  # elements up to which a number that they reduce to is found first
REDUCED_BOTH = 4096  # columns of rows that are reduced both along and down
FUSED = 1 << 18  # bytes of a value that is small
BIAS = 1 << 20  # bytes of a product from which on it adds a bias itself
PADDED_ROWS = 1 << 10  # rows of a matrix from which on some are added,
PADDED_COLUMNS = 64  # and columns from which on rows that are no multiple of 16 bytes get some more
IN_PLACE = 1 << 20  # bytes of a result from which on it takes the place of an input that dies
ARENA = 16 << 20  # bytes of a program's memory from which on it is planned twice,
ARENA_BUFFERS = 4096  # where it has no more buffers than these
RETAINED = 64 << 20  # free bytes that a pool may retain
PEAK = 1 << 20  # bytes by which the peak of memory has to rise to be noted,
PEAK_PART = 1024  # or this part of it
PLANS = 1 << 12  # plans that a kernel remembers: how it is launched for some shapes
COPY_BLOCKS = 1 << 20  # blocks of a copy
COPIED_RESULT = 1 << 16  # bytes up to which what a program returns is copied
ROWS_OF_PLANES = 32  # rows of planes from which on a block for each occupies a GPU,
ROWS_PLANES = 1 << 17  # if they have no more elements than these,
ROW_OF_PLANES = 1 << 14  # and elements up to which a block takes a row whatever their number
