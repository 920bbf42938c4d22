"""What a program on a GPU does, one thing at a time: launches, products, copies, calls of an op's own kernel."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._typing import Array, Shape
from ..graph import GuardFailure, Line, Value
from .kernels import joining_source
from .text import HEAD

_TOGETHER = 12  # kernels that are compiled as one module
_JOINED = 256  # threads that join the parts of one number


class Place(NamedTuple):
    """The place of a value: its offset in bytes from another, its root; without a root, from the start of the mail."""

    value: Value
    root: Any
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def __str__(self) -> str:
        where = f"{'sent' if self.root is None else self.root}{f' + {self.offset}' if self.offset else ''}"
        return where if self.root is self.value else f"{self.value} in {where}"


class Sources:
    """The kernels of a program, each text once, compiled some together and some at the same time."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.functions: dict[str, Any] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def name(self, text: str) -> str:
        """Return the name of a kernel."""
        return self.names.setdefault(text, f"kernel_{len(self.names)}")

    def texts(self) -> list[str]:
        """Return the texts with their names."""
        return [text.replace("NAME", name, 1) for text, name in self.names.items()]

    def compile(self) -> None:
        """Compile what is not compiled yet."""
        import cupy

        from ...devices.cuda.compilation import compiled

        found = [(n, text.replace("NAME", n, 1)) for text, n in self.names.items() if n not in self.functions]
        groups = [found[i : i + _TOGETHER] for i in range(0, len(found), _TOGETHER)]
        place = cupy.cuda.Device().id

        def build(group: list[tuple[str, str]]) -> None:
            with cupy.cuda.Device(place):
                code = "\n".join([HEAD, *(text for _, text in group)])
                module = compiled(code, contract=False)  # rounded as eagerly
                for name, _ in group:
                    self.functions[name] = module.get_function(name)

        if len(groups) < 2:
            list(map(build, groups))
            return
        with concurrent.futures.ThreadPoolExecutor(min(8, len(groups))) as pool:
            list(pool.map(build, groups))


class Launch:
    """A launch of a kernel of ours."""

    def __init__(self, name: str, kernel: Any, operands: list[Place], parts: list[Place], text: str) -> None:
        self.name, self.kernel, self.operands, self.parts, self.text = name, kernel, operands, parts, text
        self.bytes = getattr(kernel, "bytes", 0)

    def touched(self) -> list[Place]:
        """Return what must be there."""
        return [*self.operands, *self.parts]

    def run(self, env: Env) -> None:
        """Launch it."""
        given = [env.address(p) for p in (*self.operands, *self.parts)]
        env.functions[self.name](self.kernel.grid, (*self.kernel.block, 1)[:3], (*given, self.kernel.size))

    def __str__(self) -> str:
        given = ", ".join(map(str, self.touched()))
        return f"{self.name}<<<{self.kernel.grid}, {self.kernel.block}>>>({given})  # {self.text}"


class Join:
    """A launch that joins what blocks have reduced."""

    text = "join"

    def __init__(
        self, sources: Sources, lines: list[Line], parts: list[Place], outs: list[Place], count: int, columns: int
    ) -> None:
        self.name = sources.name(joining_source(lines, columns))
        self.parts, self.outs, self.count, self.columns = parts, outs, count, columns
        self.bytes = sum(count * columns * p.value.dtype.itemsize for p in parts)

    def touched(self) -> list[Place]:
        """Return what must be there."""
        return [p for pair in zip(self.parts, self.outs, strict=True) for p in pair]

    def run(self, env: Env) -> None:
        """Launch it."""
        grid, block = ((1, len(self.outs)), (_JOINED, 1, 1))
        if self.columns > 1:
            grid, block = (-(-self.columns // 32), len(self.outs)), (32, 32, 1)
        env.functions[self.name](grid, block, (*map(env.address, self.touched()), self.count, self.columns))

    def __str__(self) -> str:
        given = ", ".join(map(str, self.touched()))
        return f"{self.name}({given}, {self.count}, {self.columns})  # joins parts"


class Multiply:
    """A product of matrices by cuBLAS."""

    text = "product"

    def __init__(self, x: Place, y: Place, out: Place) -> None:
        self.x, self.y, self.out = x, y, out
        self.bias: Place | None = None
        self.bytes = sum(p.value.nbytes for p in (x, y, out))

    def touched(self) -> list[Place]:
        """Return what must be there."""
        return [self.x, self.y, self.out, *([] if self.bias is None else [self.bias])]

    def run(self, env: Env) -> None:
        """Multiply."""
        x, y, out = env.array(self.x), env.array(self.y), env.array(self.out)
        if self.bias is None:
            env.multiply(x, y, out)
        else:
            env.linear(x, y.T, env.array(self.bias), out)

    def __str__(self) -> str:
        more = "" if self.bias is None else f" + {self.bias}"
        return f"multiply({self.x}, {self.y}, out={self.out}){more}  # {self.x.shape} @ {self.y.shape}"


class Fill:
    """Zeros everywhere in a buffer."""

    text = "zeros"

    def __init__(self, place: Place) -> None:
        self.place, self.bytes = place, place.value.nbytes

    def touched(self) -> list[Place]:
        """Return what must be there."""
        return [self.place]

    def run(self, env: Env) -> None:
        """Fill it."""
        size = self.place.strides[0] * self.place.shape[0] if self.place.shape else self.place.value.nbytes
        env.fill(env.address(self.place), size)

    def __str__(self) -> str:
        return f"{self.place} = 0"


class Copy:
    """A copy by CuPy, of elements that kernels of ours do not know."""

    text = "copy"

    def __init__(self, source: Place, target: Place) -> None:
        self.source, self.target, self.bytes = source, target, 2 * source.value.nbytes

    def touched(self) -> list[Place]:
        """Return what must be there."""
        return [self.source, self.target]

    def run(self, env: Env) -> None:
        """Copy."""
        env.array(self.target)[...] = env.array(self.source)

    def __str__(self) -> str:
        return f"{self.target}[...] = {self.source}"


class Call:
    """A call of a function on arrays: an op's own kernel."""

    def __init__(self, line: Line, operands: list[Any], outputs: list[Any], function: Any) -> None:
        self.line, self.operands, self.outputs, self.function = line, operands, outputs, function
        self.text = line.op.name
        self.bytes = sum(v.nbytes for v in (*line.inputs, *line.outputs))
        # What the CPU computes from results of the device is no part of a CUDA graph.
        self.breaks = any(isinstance(o, Value) for o in (*operands, *outputs))

    def touched(self) -> list[Place]:
        """Return what must be there."""
        return [p for p in (*self.operands, *self.outputs) if isinstance(p, Place)]

    def run(self, env: Env) -> None:
        """Call it, and store what it returns."""
        given = [env.anything(o) if isinstance(o, Place | Value) else o for o in self.operands]
        found = self.function(*given, *self.line.params)
        for target, array in zip(self.outputs, found if self.line.op.outputs else (found,), strict=True):
            if isinstance(target, Value):
                env.hosted[target] = np.asarray(array.get() if hasattr(array, "get") else array)
            else:
                env.roots[target.root] = env.laid(array, target)

    def __str__(self) -> str:
        made = ", ".join(map(str, self.outputs))
        return f"{made} = {self.line.op.name}({', '.join(map(str, self.operands))})"


class Attend(Call):
    """The gradients of attention, written where they are wanted."""

    def run(self, env: Env) -> None:
        """Launch it."""
        from ...devices.cuda.attention import attend_backward

        g, q, k, v, _, out, logs = [env.array(o) if isinstance(o, Place) else o for o in self.operands]
        scale, causal, keep, seed = self.line.params
        attend_backward(g, q, k, v, None, out, logs, scale, causal, keep, seed, tuple(map(env.array, self.outputs)))


class Take:
    """The copy to the device of a value that the CPU has computed meanwhile."""

    text, bytes, breaks = "take", 0, True

    def __init__(self, place: Place) -> None:
        self.place = place

    def touched(self) -> list[Place]:
        """Return what must be there."""
        return [self.place]

    def run(self, env: Env) -> None:
        """Send it."""
        env.roots[self.place.root] = env.cupy.asarray(np.ascontiguousarray(env.hosted[self.place.root]))

    def __str__(self) -> str:
        return f"{self.place} = sent"


class Ask:
    """A guard: a look at a value, which must be what it was."""

    text, bytes, breaks = "guard", 0, True

    def __init__(self, check: Any, place: Place) -> None:
        self.check, self.place = check, place

    def touched(self) -> list[Place]:
        """Return what must be there."""
        return [self.place] if isinstance(self.place, Place) else []

    def run(self, env: Env) -> None:
        """Look, and raise if it is another."""
        self.check(env.anything(self.place))

    def __str__(self) -> str:
        return f"guard {self.check.what} of {self.place}"


class Env:
    """Where things are in one run: the arrays of inputs and results, the memory of buffers, what the CPU sent."""

    def __init__(self, program: Any, arena: int, mail: int, roots: dict[Value, Any]) -> None:
        import cupy

        from ...devices.cuda.epilogues import linear_into
        from ...devices.cuda.products import multiply

        self.cupy, self.multiply, self.linear = cupy, multiply, linear_into
        self.functions, self.offsets = program.sources.functions, program.lives.offsets
        self.arena, self.mail, self.roots = arena, mail, roots
        self.hosted: dict[Value, Any] = {}
        self.kept: set[Any] = set()  # arrays that steps between graphs read or leave

    def address(self, place: Place) -> int:
        """Return the address of a place."""
        if place.root is None:
            return self.mail + place.offset
        offset = self.offsets.get(place.root)
        if offset is not None:
            return self.arena + offset + place.offset
        return int(self.roots[place.root].data.ptr) + place.offset

    def array(self, place: Place) -> Any:
        """Return a place as an array."""
        if 0 in place.shape:  # an empty array has no address
            return self.kind(place.shape, place.value.dtype)
        size = reach(place.shape, place.strides, place.value.dtype.itemsize)
        pointer = self.cupy.cuda.MemoryPointer(self.cupy.cuda.UnownedMemory(self.address(place), max(size, 1), self), 0)
        return self.kind(place.shape, place.value.dtype, pointer, strides=place.strides)

    @property
    def kind(self) -> Any:
        """The class of arrays on the device."""
        from ...devices.cuda.arrays import Array

        return Array

    def anything(self, what: Any) -> Any:
        """Return a place, or a value on the CPU, as an array."""
        return self.hosted[what] if isinstance(what, Value) else self.array(what)

    def laid(self, array: Array, place: Place) -> Array:
        """Return an array in the memory layout that the program relies on."""
        array = self.cupy.asarray(array)
        if array.shape != place.shape:
            raise GuardFailure(f"{place} has the shape {list(array.shape)}, and {list(place.shape)} when captured")
        if array.strides == place.strides or array.size < 2:
            return array
        block = self.cupy.empty(reach(place.shape, place.strides, array.itemsize), np.uint8)
        fresh = self.kind(place.shape, array.dtype, block.data, strides=place.strides)
        fresh[...] = array
        return fresh

    def fill(self, address: int, size: int) -> None:
        """Put zeros into memory."""
        stream = self.cupy.cuda.get_current_stream().ptr
        self.cupy.cuda.runtime.memsetAsync(address, 0, size, stream)


def reach(shape: Shape, strides: Sequence[int], itemsize: int) -> int:
    """Return how many bytes an array stretches over."""
    return 0 if 0 in shape else sum((n - 1) * s for n, s in zip(shape, strides)) + itemsize
