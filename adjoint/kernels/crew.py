"""NumPy's own elementwise loops, shared by OpenMP's threads: for large arrays, with Numba and oneDNN installed.

NumPy computes a ufunc by one call of an inner loop over all elements, without the interpreter's lock. `hire` puts a
loop of ours before each of those for floats: short arrays go straight on (4 ns), long ones are cut into pieces, which
the caller and the threads of oneDNN (see team.py) take in turn. Everything between is machine code, so that a piece
waits for no lock of Python's. Results are the same bits, and floating-point flags (NumPy's warnings) arrive where they
would.

This stands before NumPy's loops for the whole process, so it happens only on request: with ``ADJOINT_CREW=1`` set, once
a program has worked on many large arrays.

Only imported where Numba is installed and an array is large.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

import numpy as np
from llvmlite import binding, ir  # type: ignore[import-untyped, unused-ignore]
from numba import types
from numpy._core import umath

from . import team
from .addresses import add, at, call, intp, load, parallel, store, swap, union, word
from .sources import cfunc, njit


def _foreign(name: str, *kinds: Any) -> Any:
    return types.ExternalFunction(name, types.int32(*kinds))


_clear_flags, _flags, _raise_flags = (_foreign(f"fe{n}except", types.int32) for n in ("clear", "test", "raise"))
_EVERY_FLAG = 0x3D if hasattr(os, "uname") and os.uname().machine == "x86_64" else 0x1F

# --- The crew and its work ----------------------------------------------------------------------------

# Words of the shared state, apart so that threads do not tug at one line of the cache.
_LOCK, _NEXT, _MEMBERS, _LIMIT, _FLAGS, _JOB, _HELD, _TEAM = (64 * i for i in range(8))
_SCRATCH = 64 * 8
_MOST = 64  # threads
# Words of the team: whether its threads are there (its address), OpenMP's function, and ours for it to call.
_THERE, _RUN, _PART = (8 * i for i in range(3))
# Words of the job: the loop, where its arguments are, and how it is cut.
_FUNCTION, _ARRAYS, _STEPS, _DATA, _COUNT, _TOTAL, _PIECE = (8 * i for i in range(7))
_SMALLEST = 4096  # elements of a piece

compiled = njit(nogil=True, error_model="numpy")


@compiled
def _take(state: Any, scratch: Any) -> None:
    """Compute pieces of the open job until none is left."""
    job = state + _JOB
    function, arrays, steps, data = load(job), load(job + _ARRAYS), load(job + _STEPS), load(job + _DATA)
    count, total, piece = load(job + _COUNT), load(job + _TOTAL), load(job + _PIECE)
    while True:
        start = add(state + _NEXT, piece)
        if start >= total:
            return
        for k in range(count):
            store(scratch + 8 * k, load(arrays + 8 * k) + start * load(steps + 8 * k))
        store(scratch + 64, min(piece, total - start))
        call(function, scratch, scratch + 64, steps, data)


def _take_part(state: Any) -> None:
    """Be one of the threads: compute pieces, and leave the flags that were raised."""
    number = add(state + _MEMBERS, 1)
    _clear_flags(_EVERY_FLAG)
    _take(state, state + _SCRATCH + 128 * number)
    union(state + _FLAGS, np.intp(_flags(_EVERY_FLAG)))


@compiled
def _apart(arrays: Any, steps: Any, count: Any, n: Any) -> Any:
    """Return whether the result (the last array) is dense and shares no memory with an operand, unless all of it."""
    out, width = load(arrays + 8 * (count - 1)), load(steps + 8 * (count - 1))
    if width <= 0 or width > 16:
        return False
    for k in range(count - 1):
        first, step = load(arrays + 8 * k), load(steps + 8 * k)
        if step < 0:
            return False
        if not (first == out and step == width) and first < out + n * width and out < first + n * step + 16:
            return False
    return True


def _shared(arrays: Any, counts: Any, steps: Any, data: Any, entry: Any) -> None:
    """Stand before an inner loop: `entry` holds its address, the length from which it is shared, and the state."""
    n, function, state = load(counts), load(entry), load(entry + 16)
    operands, team = load(entry + 24), state + _TEAM
    alone = n < load(entry + 8) or load(state + _LIMIT) <= 0 or load(state + _HELD) != 0 or load(load(team)) == 0
    # Or another thread has the crew.
    if alone or not _apart(arrays, steps, operands, n) or swap(state + _LOCK, 1) != 0:
        call(function, arrays, counts, steps, data)
        return
    job, threads = state + _JOB, load(state + _LIMIT) + 1
    store(job, function)
    store(job + _ARRAYS, arrays)
    store(job + _STEPS, steps)
    store(job + _DATA, data)
    store(job + _COUNT, operands)
    store(job + _TOTAL, n)
    store(job + _PIECE, max(_SMALLEST, n // (2 * threads) // 1024 * 1024))
    store(state + _NEXT, 0)
    store(state + _MEMBERS, 0)
    store(state + _FLAGS, np.intp(_flags(_EVERY_FLAG)))
    parallel(load(team + _RUN), load(team + _PART), state, threads)
    flags = load(state + _FLAGS)
    store(state + _LOCK, 0)
    if flags != 0:
        _raise_flags(np.int32(flags))


# --- Putting it before NumPy's loops ------------------------------------------------------------------

# Elements from which loops are shared: of functions of few steps, and of those of many.
_CHEAP = {"f": 1 << 15, "d": 1 << 14, "i": 1 << 15, "l": 1 << 14, "?": 1 << 16}
_DEAR = {"f": 1 << 14, "d": 1 << 13}
_WANTED: dict[tuple[str, str], list[str]] = {  # the ufuncs of each kind, and the types of elements
    ("fd", "cheap"): [
        "add", "subtract", "multiply", "negative", "absolute", "fabs", "square", "maximum", "minimum", "fmax", "fmin",
        "floor", "ceil", "trunc", "rint", "sign", "copysign", "equal", "not_equal", "less", "less_equal", "greater",
        "greater_equal", "isnan", "isfinite", "isinf", "signbit",
    ],
    ("fd", "dear"): [
        "divide", "sqrt", "reciprocal", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan",
        "tanh", "sinh", "cosh", "arctan", "arcsin", "arccos", "arcsinh", "arccosh", "arctanh", "arctan2", "hypot",
        "power", "fmod", "remainder", "floor_divide", "logaddexp", "cbrt", "float_power",
    ],
    ("il?", "cheap"): [
        "bitwise_and", "bitwise_or", "bitwise_xor", "invert", "logical_and", "logical_or", "logical_not", "negative",
        "subtract", "add",
    ],
}  # fmt: skip
_MAKE, _REPLACE = 1, 30  # places of PyUFunc_FromFuncAndData and _ReplaceLoopBySignature in NumPy's table for C
_forever: list[Any] = []


class Crew:
    """The state in memory, and what must live as long as it."""

    def __init__(self, there: int, parallel: int) -> None:
        self.memory = np.zeros(_SCRATCH // 8 + 16 * (_MOST + 1) + 8, np.int64)
        self.state = (self.memory.ctypes.data + 63) // 64 * 64
        self.held = ctypes.c_int64.from_address(self.state + _HELD)  # 1: Python's threads have the processors
        kind = types.void(intp, intp, intp, intp, intp)
        self.shared = cfunc(kind, error_model="numpy")(_shared)
        self.part = cfunc(types.void(intp), error_model="numpy")(_take_part)
        (ctypes.c_int64 * 3).from_address(self.state + _TEAM)[:] = [there, parallel, self.part.address]
        self.kept: list[Any] = []

    def limit(self, workers: int) -> None:
        """Set how many threads may take pieces beside the one that calls."""
        ctypes.c_int64.from_address(self.state + _LIMIT).value = max(min(workers, _MOST - 1), 0)

    def forget(self) -> None:
        """Be without workers, as a forked child is."""
        for place in (_LOCK, _LIMIT, _HELD):
            ctypes.c_int64.from_address(self.state + place).value = 0


def _wanted() -> list[tuple[Any, str, int]]:
    """Return the ufuncs, the types of the loops to stand before, and the length from which on."""
    found = []
    for (kinds, price), names in _WANTED.items():
        least = _CHEAP if price == "cheap" else _DEAR
        for ufunc in (getattr(np, name) for name in names):
            for signature in dict.fromkeys(ufunc.types):
                first = signature[0]
                if first in kinds and set(signature) <= {first, "?", "-", ">"}:
                    found.append((ufunc, signature, least[first]))
    return found + [(vars(umath)["clip"], f"{kind * 3}->{kind}", _CHEAP[kind]) for kind in "fd"]


def _springboards(target: int, entries: list[int]) -> tuple[Any, list[int]]:
    """Return machine code for each entry: it goes straight on with short arrays, else to `target`, with the entry."""
    module = ir.Module()
    module.triple = binding.get_default_triple()
    kind = ir.FunctionType(ir.VoidType(), [word] * 4)
    longer = ir.FunctionType(ir.VoidType(), [word] * 5)
    for i, entry in enumerate(entries):
        function = ir.Function(module, kind, f"loop{i}")
        builder = ir.IRBuilder(function.append_basic_block())
        entry_of = builder.inttoptr(ir.Constant(word, entry), word.as_pointer())
        least = builder.load(builder.gep(entry_of, [ir.Constant(word, 1)]))
        with builder.if_then(builder.icmp_signed("<", builder.load(at(builder, function.args[1])), least)):
            straight = builder.inttoptr(builder.load(entry_of), kind.as_pointer())
            builder.call(straight, function.args, tail=True)
            builder.ret_void()
        callee = builder.inttoptr(ir.Constant(word, target), longer.as_pointer())
        builder.call(callee, [*function.args, ir.Constant(word, entry)], tail=True)
        builder.ret_void()
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine()
    engine = binding.create_mcjit_compiler(binding.parse_assembly(str(module)), machine)
    engine.finalize_object()
    return engine, [engine.get_function_address(f"loop{i}") for i in range(len(entries))]


def _for_c(place: int, result: Any, *kinds: Any) -> Any:
    """Return the function at a place of NumPy's table for C."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = ctypes.c_size_t.from_address(pointer(umath._UFUNC_API, None) + 8 * place).value
    return ctypes.PYFUNCTYPE(result, *kinds)(address)


def _entries(crew: Crew, rows: list[tuple[int, int, int]]) -> tuple[Any, list[int]]:
    """Return a row of words for each loop (its address, when it is shared, how many arrays), and loops before them."""
    words = np.zeros((len(rows), 4), np.int64)
    for row, (address, least, arrays) in zip(words, rows, strict=True):
        row[:] = address, least, crew.state, arrays
    engine, boards = _springboards(crew.shared.address, [words.ctypes.data + 32 * i for i in range(len(rows))])
    crew.kept += [engine, words]
    return words, boards


def _stand_before(crew: Crew) -> None:
    wanted = _wanted()
    words, boards = _entries(crew, [(0, least, ufunc.nargs) for ufunc, _, least in wanted])
    out = ctypes.POINTER(ctypes.c_size_t)
    replace = _for_c(_REPLACE, ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int), out)
    for (ufunc, signature, _), row, board in zip(wanted, words, boards, strict=True):
        numbers = [np.dtype(c).num for c in signature.replace("->", "")]
        old = ctypes.c_size_t()
        # The loop before ours is in its row before any thread can come: the interpreter's lock is ours.
        if replace(ufunc, board, (ctypes.c_int * len(numbers))(*numbers), ctypes.byref(old)) == 0:
            row[0] = old.value


def ufunc(name: str, loop: Any, inputs: int, dtype: Any, crew: Crew | None) -> Any:
    """Return a NumPy ufunc with one loop, made by Numba, that the crew shares where there is one."""
    arrays = inputs + 1
    address = loop.address
    if crew is not None:
        _, (address,) = _entries(crew, [(address, _DEAR[dtype.char], arrays)])
    functions, data = (ctypes.c_void_p * 1)(address), (ctypes.c_void_p * 1)(None)
    kinds, title = ctypes.create_string_buffer(bytes([dtype.num] * arrays)), ctypes.create_string_buffer(name.encode())
    _forever.extend((functions, data, kinds, title, loop))  # a ufunc has only their addresses
    pointers, numbers = [ctypes.c_void_p] * 3, [ctypes.c_int] * 4
    make = _for_c(_MAKE, ctypes.py_object, *pointers, *numbers, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
    at = [ctypes.addressof(part) for part in (functions, data, kinds, title)]
    return make(*at[:3], 1, inputs, 1, -1, at[3], at[3], 0)


def hire() -> Crew | None:
    """Put the crew before NumPy's loops; return it, or None where that cannot be."""
    words = team.words()
    if words is None or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    crew = Crew(*words[:2])
    _stand_before(crew)
    return crew
