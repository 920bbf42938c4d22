"""Guards: what a program found around it when it was captured, and whether that is still so.

Running a program shows which ops it calls, not which Python values made it call them. So everything it can reach is
noted: variables of enclosing functions, globals its code names, attributes of modules, options of optimizers, and of
classes, Python modules and plain objects the attributes that the code names. A `Fact` is one such place and what was
there. Tensors are facts by identity; their elements are read on every run.
"""

from __future__ import annotations

import collections
import dis
import functools
import io
import random
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from .._typing import Array
from ..core.device import device
from ..core.dtypes import dtype
from ..core.tensor import TensorBase, ours, owner_of

_SIMPLE = (bool, int, float, complex, str, bytes, type(None), dtype, device, type(Ellipsis), slice, range)
_MISSING = object()
_MOST = 20_000  # facts: a program that reaches more than this is not compiled
_DEPTH = 60
_LARGE = 64  # numbers in a list or dict from which on they are compared as a whole
_BYTES = 1 << 16  # of a NumPy array whose elements are compared on every call
_DYNAMIC = frozenset(("getattr", "hasattr", "vars", "setattr", "delattr", "dir", "__dict__", "eval", "exec", "locals"))
_OURS = frozenset(("adjoint", "torch"))  # in a program that ran by `adjoint run`, classes have torch's names
_LIBRARIES = frozenset(("numpy", "cupy", "scipy", "torch", "adjoint", *sys.stdlib_module_names)) - {"__main__"}


class Fact:
    """A place, and what was there: ``container[key] is value``."""

    __slots__ = ("container", "key", "name", "same", "value")

    def __init__(self, container: Any, key: Any, value: object, name: str, same: bool) -> None:
        self.container, self.key, self.value, self.name, self.same = container, key, value, name, same

    def now(self) -> Any:
        """Return what is there now."""
        container = self.container
        if type(container) is types.CellType:
            try:
                return container.cell_contents
            except ValueError:
                return _MISSING
        if self.key is len or self.key is frozenset:
            return self.key(container)
        if isinstance(container, dict | types.MappingProxyType):
            return container.get(self.key, _MISSING)
        return container[self.key] if len(container) > self.key else _MISSING

    def holds(self) -> bool:
        """Return whether what is there is what was there."""
        now = self.now()
        if now is self.value:
            return True
        if self.same or type(now) is not type(self.value):
            return False
        return bool(now == self.value) or (now != now and self.value != self.value)


class Contents(Fact):
    """Something whose elements can change where it is, and a copy of them as they were."""

    __slots__ = ("copy",)

    def __init__(self, container: Any, key: Any, value: Any, name: str) -> None:
        super().__init__(container, key, value, name, True)
        self.copy: Any = value.copy() if not isinstance(value, tuple) else value

    def now(self) -> Any:
        """Return what is there now."""
        return self.value if self.container is None else super().now()

    def holds(self) -> bool:
        """Return whether it is the same thing, with the same elements."""
        now = self.now()
        if now is not self.value:
            return False
        if isinstance(now, np.ndarray):
            return (
                now.shape == self.copy.shape and now.dtype == self.copy.dtype and now.tobytes() == self.copy.tobytes()
            )
        return bool(now == self.copy)


class Slot(Fact):
    """An attribute that is in no dict."""

    __slots__ = ()

    def now(self) -> Any:
        """Return what is there now."""
        return getattr(self.container, self.key, _MISSING)


class State(Fact):
    """A generator of random numbers, as it was."""

    __slots__ = ()

    def now(self) -> Any:
        """Return its state."""
        return _state_of(self.container)

    def holds(self) -> bool:
        """Return whether it has drawn nothing since."""
        return bool(self.now() == self.value)


def _state_of(generator: Any) -> object:
    if isinstance(generator, random.Random):
        return generator.getstate()
    if isinstance(generator, np.random.Generator):
        return repr(generator.bit_generator.state)
    return repr(generator.get_state())


class Outside:
    """What a program assumes about the tensors it found outside, apart from their arrays."""

    def __init__(self, graph: Any) -> None:
        tensors = [r.tensor for r in graph.outside if not r.attribute]  # not numbers, nor whose gradient is read
        self.flags = [(t, t.node is not None) for t in tensors]
        self.owners = {id(owner_of(t.array)) for t in tensors}

    def difference(self, leaves: list[Any], written: bool) -> str:
        """Return a text about what is different now, or an empty one."""
        for tensor, required in self.flags:
            if (tensor.node is not None) is not required:
                now = "did not require grad, and does now" if tensor.node is not None else "required grad"
                return f"a tensor {list(tensor.array.shape)} outside {now}"
        if written:  # an argument that is one of them would be written behind its back
            for i, leaf in enumerate(leaves):
                if isinstance(leaf, TensorBase) and id(owner_of(leaf.array)) in self.owners:
                    return f"argument {i} shares memory with a tensor that the function finds by itself"
        return ""


class Surroundings:
    """The facts around a function; `unknown` says what of it cannot be looked at."""

    def __init__(
        self, function: Callable[..., Any], arguments: Any, read: set[tuple[int, Any]], executed: Any = None
    ) -> None:
        self.facts: list[Fact] = []
        self.executed = executed  # the code that a call has run, beside which no other is looked at; None: all is
        self.seen: set[int] = set()
        self.read = read  # places whose number is read on every run
        self.optimizers: list[Any] = []
        self.tensors: set[int] = set()
        self.arrays: set[int] = set()  # owners of the memory of NumPy arrays
        self.unknown = ""
        self.named: set[str] = set()  # attributes that code names
        self.places: dict[int, tuple[Any, Any, str, int]] = {}  # of which only these are looked at
        self._visit(function, getattr(function, "__name__", type(function).__name__), 0)
        for i, argument in enumerate(arguments):
            if isinstance(argument, np.ndarray):
                self._note_array(None, None, argument, f"argument {i}")
            elif not isinstance(argument, TensorBase):
                self._visit(argument, f"argument {i}", 0)
        self._visit_named()
        # The facts to check on every call, in lists, so that no method is called for each.
        plain = [f for f in self.facts if type(f) is Fact]
        tables = (dict, types.MappingProxyType)
        self.entries = [(f.container, f.key, f.value, f) for f in plain if isinstance(f.container, tables)]
        self.entries = [entry for entry in self.entries if entry[1] is not len]
        self.cells = [(f.container, f.value, f) for f in plain if type(f.container) is types.CellType]
        self.lengths = [(f.container, f.value, f) for f in plain if f.key is len]
        quick = {id(entry[-1]) for entry in (*self.entries, *self.cells, *self.lengths)}
        self.others = [f for f in self.facts if id(f) not in quick]

    def difference(self) -> str:
        """Return a text about what has changed, or an empty one."""
        fact = self.broken()
        return "" if fact is None else f"{fact.name} was {fact.value!r:.60} and is {fact.now()!r:.60}"

    def broken(self) -> Fact | None:
        """Return a fact that holds no longer, or None."""
        for container, key, value, fact in self.entries:
            if container.get(key) is not value and not fact.holds():
                return fact
        for cell, value, fact in self.cells:
            try:
                if cell.cell_contents is value:
                    continue
            except ValueError:  # deleted
                return fact
            if not fact.holds():
                return fact
        for container, length, fact in self.lengths:
            if len(container) != length:
                return fact
        for fact in self.others:
            if not fact.holds():
                return fact
        return None

    # --- looking around ---

    def _note(
        self, container: object, key: object, value: object, name: str, depth: int, kind: type[Fact] = Fact
    ) -> None:
        if (id(container), key) in self.read:
            return
        if len(self.facts) >= _MOST:
            self.unknown = self.unknown or f"it reaches more than {_MOST} values"
            return
        if isinstance(value, np.ndarray):
            self._note_array(container, key, value, name)
            return
        simple = _is_simple(value) or (isinstance(value, tuple) and all(map(_is_simple, value)))
        self.facts.append(kind(container, key, value, name, not simple))
        if not simple:
            self._visit(value, name, depth)

    def _note_array(self, container: object, key: object, array: Array, name: str) -> None:
        self.arrays.add(id(owner_of(array)))
        if array.nbytes > _BYTES or array.dtype.hasobject:
            self.unknown = self.unknown or f"it reaches the NumPy array {name}, too large to be compared on every call"
        else:
            self.facts.append(Contents(container, key, array, name))

    def _visit(self, value: Any, name: str, depth: int) -> None:
        if isinstance(value, TensorBase):
            self.tensors.add(id(value))
            return
        if id(value) in self.seen:
            return
        self.seen.add(id(value))
        if depth > _DEPTH:
            self.unknown = self.unknown or f"{name} is nested more than {_DEPTH} deep"
        elif getattr(type(value), "runs_programs", False):  # a compiled function is the function
            self._visit(value.function, name, depth)
        elif isinstance(value, functools.partial):
            for part in (value.func, *value.args, *value.keywords.values()):
                self._visit(part, name, depth + 1)
        elif isinstance(value, types.MethodType):
            self._visit(value.__func__, name, depth + 1)
            self._visit(value.__self__, name.rpartition(".")[0] or name, depth + 1)
        elif isinstance(value, types.FunctionType):
            self._visit_function(value, name, depth)
        elif isinstance(value, staticmethod | classmethod):
            self._visit(value.__func__, name, depth + 1)
        elif isinstance(value, property):
            self._visit(value.fget, name, depth + 1)
        elif isinstance(value, type | types.ModuleType):
            self._visit_room(value, name, depth)
        elif isinstance(value, dict | list | tuple | collections.deque):
            self._visit_items(value, name, depth)
            if type(value).__module__ not in ("builtins", "collections"):
                self._visit_object(value, name, depth)
        elif isinstance(value, set):
            self.facts.append(Fact(value, frozenset, frozenset(value), name, False))
        elif isinstance(value, random.Random | np.random.Generator | np.random.RandomState):
            self.facts.append(State(value, None, _state_of(value), name, False))
        elif hasattr(type(value), "__next__") and not (isinstance(value, io.IOBase) and not _is_readable(value)):
            self.unknown = self.unknown or f"it reaches the iterator {name}, and what that gives next is not known"
        elif isinstance(value, bytearray | memoryview) or type(value).__module__ == "array":
            self.unknown = self.unknown or f"it reaches {name}, whose bytes may change"
        else:
            self._visit_object(value, name, depth)

    def _visit_items(self, value: Any, name: str, depth: int) -> None:
        keyed = isinstance(value, dict)
        if len(value) > _LARGE and all(map(_is_simple, value.values() if keyed else value)):
            self.facts.append(Contents(None, None, value, name))
            return
        if not isinstance(value, tuple):
            self.facts.append(Fact(value, len, len(value), f"len({name})", False))
        for key, item in list(value.items() if keyed else enumerate(value)):
            shown = f"{name}[{key!r}]" if isinstance(key, str | int) else f"{name}[...]"
            if isinstance(key, TensorBase):
                self.tensors.add(id(key))
            if isinstance(value, tuple):
                self._visit(item, shown, depth + 1)
            else:
                self._note(value, key, item, shown, depth + 1)

    def _visit_function(self, function: types.FunctionType, name: str, depth: int) -> None:
        if function.__code__.co_filename in ours:
            return
        if self.executed is not None and function.__code__ not in self.executed:
            return
        for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                self._note(cell, None, cell.cell_contents, variable, depth + 1)
            except ValueError:
                continue
        names, attributes = _names(function.__code__)
        self.named |= attributes
        for variable in names:
            if variable in function.__globals__:
                self._note(function.__globals__, variable, function.__globals__[variable], variable, depth + 1)
        for i, default in enumerate((*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())):
            self._visit(default, f"default {i} of {name}", depth + 1)

    def _visit_object(self, value: object, name: str, depth: int) -> None:
        attributes = getattr(value, "__dict__", None)
        if _is_foreign(value):
            return
        kind = type(value)
        self._visit(kind, name, depth + 1)
        for slot in _slots(kind):
            self._note(value, slot, getattr(value, slot, _MISSING), f"{name}.{slot}", depth + 1, Slot)
        if not isinstance(attributes, dict):
            return
        if not _is_ours(kind):
            self.places[id(value)] = (value, attributes, name, depth)
            return
        self.facts.append(Fact(attributes, len, len(attributes), f"the number of attributes of {name}", False))
        if "param_groups" in attributes and "state" in attributes:
            self.optimizers.append(value)
            self._visit_state(attributes["state"], name, depth)
        for key, item in list(attributes.items()):
            if not _is_bookkeeping(key):
                self._note(attributes, key, item, f"{name}.{key}", depth + 1)

    def _visit_state(self, state: object, name: str, depth: int) -> None:
        """Note which tensors an optimizer stores for each parameter: a program writes into these."""
        for p, kept in state.items() if isinstance(state, dict) else ():
            if isinstance(p, TensorBase) and isinstance(kept, dict):
                self._note(state, p, kept, f"{name}.state[...]", depth + 1)

    def _visit_room(self, room: object, name: str, depth: int) -> None:
        """Remember a class or a Python module: of its many attributes those are looked at that code names."""
        for part in room.__mro__ if isinstance(room, type) else (room,):
            if _room(part) not in _LIBRARIES and id(part) not in self.places:
                self.places[id(part)] = (part, vars(part), name, depth)

    def _visit_named(self) -> None:
        """Look at what code names of objects, classes and modules, and at the code found there, until no more is."""
        done: set[tuple[int, str]] = set()
        while True:
            everything = not self.named.isdisjoint(_DYNAMIC)
            found = [
                (place, attributes, key, name, depth)
                for place, attributes, name, depth in self.places.values()
                for key in (attributes if _is_open(place, everything) else self.named.intersection(attributes))
                if (id(place), key) not in done and not (key.startswith("__") and type(attributes) is dict)
            ]
            implied = [
                (place, attributes, key, name, depth)
                for place, attributes, name, depth in self.places.values() if isinstance(place, type)
                for key in attributes if key.startswith("__") and isinstance(attributes[key], types.FunctionType)
                and (id(place), key) not in done
            ]  # fmt: skip
            if not found and not implied:
                return
            for place, attributes, key, name, depth in (*found, *implied):
                done.add((id(place), key))
                if key in attributes:
                    self._note(attributes, key, attributes[key], f"{name}.{key}", depth + 1)


def _is_readable(file: Any) -> bool:
    return not file.closed and bool(file.readable())


def _is_simple(value: object) -> bool:
    return isinstance(value, _SIMPLE)


def _room(value: Any) -> str:
    """Return the name of the package that a class or module belongs to."""
    name = getattr(value, "__module__", None) if isinstance(value, type) else value.__name__
    return str(name).partition(".")[0]


def _is_ours(kind: Any) -> bool:
    """Return whether a class is derived from one of adjoint's, whose code may read any of its attributes."""
    return isinstance(kind, type) and any(_room(base) in _OURS for base in kind.__mro__)


def _is_open(place: object, dynamic: bool) -> bool:
    """Return whether code may read attributes of a class or an object that it does not name."""
    if isinstance(place, types.ModuleType):
        return False
    kind = place if isinstance(place, type) else type(place)
    if _is_ours(kind):
        return True
    return _room(kind) not in _LIBRARIES and (dynamic or hasattr(kind, "__getattr__"))


def _slots(kind: type) -> list[str]:
    if _room(kind) in _LIBRARIES:
        return []
    found = [vars(base).get("__slots__", ()) for base in kind.__mro__ if _room(base) not in _LIBRARIES]
    return [s for slots in found for s in ((slots,) if isinstance(slots, str) else slots) if not s.startswith("__")]


class Executed:
    """Notes which code a call runs: of a large library a function reaches far more than it uses."""

    def __init__(self, code: set[types.CodeType]) -> None:
        self.code, self.found = code, set[types.CodeType]()
        self.profiled = sys.getprofile() is not None  # by another profiler, which stays

    def __enter__(self) -> Executed:
        if not self.profiled:
            sys.setprofile(self._note)
        return self

    def _note(self, frame: types.FrameType, event: str, argument: Any) -> None:
        if event == "call":
            self.found.add(frame.f_code)

    def __exit__(self, *error: object) -> None:
        if not self.profiled:
            sys.setprofile(None)

    def is_known(self) -> bool:
        """Return whether everything that ran had run before; note what had not."""
        new = {code for code in self.found - self.code if code.co_filename not in ours}
        self.code |= new
        return not new


class Before:
    """What was there before a call: a call that changes it does something that no program does."""

    def __init__(self, function: Callable[..., Any], arguments: Any, executed: Any = None) -> None:
        self.surroundings = Surroundings(function, arguments, set(), executed)
        self.random = random.getstate()
        self.numpy = _numpy_state()

    def difference(self) -> str:
        """Return a text about what the call has changed, or an empty one."""
        fact = self.surroundings.broken()
        if fact is not None:
            return f"it changes {fact.name} from {fact.value!r:.40} to {fact.now()!r:.40}"
        if random.getstate() != self.random or _numpy_state() != self.numpy:
            return "it uses random numbers of Python or NumPy, which a compiled program would repeat"
        return ""


def _numpy_state() -> object:
    kind, keys, *rest = np.random.get_state()
    return kind, np.asarray(keys).tobytes(), *rest


@functools.lru_cache(4096)
def _names(code: types.CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """Return the globals that code and the functions inside it look up, and all names that it has for anything."""
    found = {str(i.argval) for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    inner = [_names(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    names = {*code.co_names, *(n for _, names in inner for n in names)}
    return frozenset(found.union(*(n for n, _ in inner))), frozenset(names)


def _is_foreign(value: object) -> bool:
    """Return whether an object belongs to a library, whose attributes are its own business."""
    room = type(value).__module__.partition(".")[0]
    return room in ("numpy", "builtins", "threading", "logging", "itertools", "collections", "tqdm", "random")


def _is_bookkeeping(key: str) -> bool:
    """Return whether an attribute is a table that changes as a program runs, and never what it computes."""
    return key in ("state", "_optimizer_step_pre_hooks", "_optimizer_step_post_hooks", "_step_count", "_opt_called")
