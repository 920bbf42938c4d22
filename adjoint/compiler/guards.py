"""Guards: what a program found around it when it was captured, and whether that is still so.

Running a program shows which ops it calls, not which Python values made it call them. So everything it can reach is
noted: variables of enclosing functions, globals its code names, attributes of modules, options of optimizers. A
`Fact` is one such place and what was there. Tensors are facts by identity; their elements are read on every run.
"""

from __future__ import annotations

import dis
import functools
import random
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.device import device
from ..core.dtypes import dtype
from ..core.tensor import TensorBase, ours, owner_of

_SIMPLE = (bool, int, float, complex, str, bytes, type(None), dtype, device, type(Ellipsis), slice, range)
_MISSING = object()
_MOST = 20_000  # facts: a program that reaches more than this is not looked at further
_DEPTH = 12


class Fact:
    """A place, and what was there: ``container[key] is value``."""

    __slots__ = ("container", "key", "name", "same", "value")

    def __init__(self, container: Any, key: Any, value: Any, name: str, same: bool) -> None:
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
        if isinstance(container, dict):
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


class Outside:
    """What a program relies on of the tensors it found outside, besides their arrays."""

    def __init__(self, graph: Any) -> None:
        tensors = [r.tensor for r in graph.outside if not r.attribute]  # not numbers, nor whose gradient is read
        self.flags = [(t, t.node is not None) for t in tensors]
        self.owners = {id(owner_of(t.array)) for t in tensors}

    def difference(self, leaves: list[Any], written: bool) -> str:
        """Return in words what is different now, or nothing."""
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
    """The facts around a function."""

    def __init__(self, function: Callable[..., Any], arguments: Any, read: set[tuple[int, Any]]) -> None:
        self.facts: list[Fact] = []
        self.seen: set[int] = set()
        self.read = read  # places whose number is read on every run
        self.optimizers: list[Any] = []
        self._visit(function, getattr(function, "__name__", type(function).__name__), 0)
        for i, argument in enumerate(arguments):
            if not isinstance(argument, TensorBase):
                self._visit(argument, f"argument {i}", 0)
        # What is asked on every call, without the call of a method for each.
        self.entries = [(f.container, f.key, f.value, f) for f in self.facts if type(f.container) is not types.CellType]
        self.entries = [entry for entry in self.entries if isinstance(entry[0], dict) and entry[1] is not len]
        self.cells = [(f.container, f.value, f) for f in self.facts if type(f.container) is types.CellType]
        quick = {id(entry[-1]) for entry in (*self.entries, *self.cells)}
        self.others = [f for f in self.facts if id(f) not in quick]

    def difference(self) -> str:
        """Return in words what is not as it was, or nothing."""
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
        for fact in self.others:
            if not fact.holds():
                return fact
        return None

    # --- looking around ---

    def _note(self, container: Any, key: Any, value: Any, name: str, depth: int) -> None:
        if len(self.facts) >= _MOST or (id(container), key) in self.read:
            return
        simple = isinstance(value, _SIMPLE) or (isinstance(value, tuple) and all(isinstance(v, _SIMPLE) for v in value))
        self.facts.append(Fact(container, key, value, name, not simple))
        if not simple:
            self._visit(value, name, depth)

    def _visit(self, value: Any, name: str, depth: int) -> None:
        if depth > _DEPTH or id(value) in self.seen or isinstance(value, TensorBase | type | types.ModuleType):
            return
        self.seen.add(id(value))
        if getattr(type(value), "runs_programs", False):  # a compiled function is the function
            self._visit(value.function, name, depth)
        elif isinstance(value, functools.partial):
            for part in (value.func, *value.args, *value.keywords.values()):
                self._visit(part, name, depth + 1)
        elif isinstance(value, types.MethodType):
            self._visit(value.__func__, name, depth + 1)
            self._visit(value.__self__, name.rpartition(".")[0] or name, depth + 1)
        elif isinstance(value, types.FunctionType):
            self._visit_function(value, name, depth)
        elif isinstance(value, dict):
            self.facts.append(Fact(value, len, len(value), f"len({name})", False))
            self._note_all(value, value.items(), name, depth)
        elif isinstance(value, set):
            self.facts.append(Fact(value, frozenset, frozenset(value), name, False))
        elif isinstance(value, list | tuple):
            if isinstance(value, list):
                self.facts.append(Fact(value, len, len(value), f"len({name})", False))
            self._note_all(value, enumerate(value), name, depth)
        else:
            self._visit_object(value, name, depth)

    def _note_all(self, container: Any, items: Any, name: str, depth: int) -> None:
        for key, item in list(items):
            if isinstance(container, tuple):
                self._visit(item, f"{name}[{key!r}]", depth + 1)
            else:
                shown = f"{name}[{key!r}]" if isinstance(key, str | int) else f"{name}[...]"
                self._note(container, key, item, shown, depth + 1)

    def _visit_function(self, function: types.FunctionType, name: str, depth: int) -> None:
        if function.__code__.co_filename in ours:
            return
        for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                self._note(cell, None, cell.cell_contents, variable, depth + 1)
            except ValueError:
                continue
        for variable in _names(function.__code__):
            if variable in function.__globals__:
                self._note(function.__globals__, variable, function.__globals__[variable], variable, depth + 1)
        for i, default in enumerate(function.__defaults__ or ()):
            self._visit(default, f"default {i} of {name}", depth + 1)

    def _visit_object(self, value: Any, name: str, depth: int) -> None:
        attributes = getattr(value, "__dict__", None)
        if not isinstance(attributes, dict) or _is_foreign(value):
            return
        self.facts.append(Fact(attributes, len, len(attributes), f"the number of attributes of {name}", False))
        if "param_groups" in attributes and "state" in attributes:
            self.optimizers.append(value)
        for key, item in list(attributes.items()):
            if not _is_bookkeeping(key):
                self._note(attributes, key, item, f"{name}.{key}", depth + 1)
        forward = getattr(type(value), "forward", None) or type(value).__dict__.get("__call__")
        if isinstance(forward, types.FunctionType):
            self._visit(forward, f"{name}.{forward.__name__}", depth + 1)


class Before:
    """What was there before a call: a call that changes it does something that no program does."""

    def __init__(self, function: Callable[..., Any], arguments: Any) -> None:
        self.surroundings = Surroundings(function, arguments, set())
        self.random = random.getstate()
        self.numpy = _numpy_state()

    def difference(self) -> str:
        """Return in words what the call has changed, or nothing."""
        fact = self.surroundings.broken()
        if fact is not None:
            return f"it changes {fact.name} from {fact.value!r:.40} to {fact.now()!r:.40}"
        if random.getstate() != self.random or _numpy_state() != self.numpy:
            return "it draws random numbers from Python or NumPy, and a program would repeat them"
        return ""


def _numpy_state() -> Any:
    kind, keys, *rest = np.random.get_state()
    return kind, np.asarray(keys).tobytes(), *rest


@functools.lru_cache(4096)
def _names(code: types.CodeType) -> frozenset[str]:
    """Return the globals that code and the functions inside it look up."""
    found = {str(i.argval) for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    inner = [_names(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return frozenset(found.union(*inner))


def _is_foreign(value: Any) -> bool:
    """Return whether an object belongs to a library, whose attributes are its own business."""
    room = type(value).__module__.partition(".")[0]
    return room in ("numpy", "builtins", "threading", "logging", "itertools", "collections", "tqdm", "random")


def _is_bookkeeping(key: str) -> bool:
    """Return whether an attribute is a table that changes as a program runs, and never what it computes."""
    return key in ("state", "_optimizer_step_pre_hooks", "_optimizer_step_post_hooks", "_step_count", "_opt_called")
