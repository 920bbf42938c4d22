"""Every feature in a loop with the garbage collector off: nothing may be left that only the collector could free.

Three judges after each loop: the objects that the collector knows, the blocks of memory that the interpreter has
allocated (arrays are not among the former), and the resident memory of the process. What grows once, as a cache does,
stops growing: a loop that seems to leak runs again, and counts only if it grows again. A short run has time for some
of the loops, in an order of the seed's.

    python -m gates.leaks --minutes 1 --seed 0                    # 2,000 iterations of each from 40 minutes on
    python -m gates.leaks --iterations 2000 schedulers compiled   # some of them
    python -m gates.leaks --module torch --iterations 100         # the same loops with PyTorch, for comparison
"""

from . import data, kinds, recording, training
from .features import FEATURES

__all__ = ["FEATURES", "data", "kinds", "recording", "training"]
