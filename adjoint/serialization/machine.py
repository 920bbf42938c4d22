"""A pickle machine that knows data and nothing else: names become entries of a table, never imports or calls.

It reads every opcode that plain data need, up to protocol 5. A name outside the table is noted and the machine
goes on, so that one error can list all of them; objects that a file builds with such a name are never made.

Two promises besides: a file never changes what exists (a NumPy dtype or array that gets a state is replaced by a new
one), and work and memory stay within a small multiple of the file's size: what a pickle copies, hashes or names again
and again by a few bytes each is counted (`Machine.charge`), and so are the objects that a byte or two make
(`Machine.occupy`). The page docs/loading.md says all of this to those who have to trust it.
"""

from __future__ import annotations

import struct
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.tensor import TensorBase
from .allowed import ALLOWED, Builder, Keys, built
from .sources import FileFormatError

__all__ = ["UNKNOWN", "Machine"]

_MARK = object()
_DICTS = (dict, OrderedDict, Counter, defaultdict)
_LONGEST_INTEGER = 1024  # bytes
_LONGEST_NAME = 500  # characters of a module's or class's name
_WORK = 8  # bytes copied, or parts of keys hashed, for each byte of the file
_ROOM = 64  # bytes of objects for each byte of the file: about what the densest of honest pickles makes
_FREE = 1 << 24  # bytes of objects that any file may make
# Bytes that objects take: what the opcodes of one byte make, what a dict grows by with its first item, and what calls
# make, tensors in particular (with its array, its memory and its place in the graph).
_SET, _LIST, _FIRST_ITEM, _CALLED, _TENSOR = 216, 56, 168, 250, 1000


_DAMAGE = (
    IndexError, KeyError, ValueError, TypeError, AttributeError, OverflowError, MemoryError, RecursionError,
    SystemError, struct.error,
)  # fmt: skip


class Refused:
    """What stands for everything that a name outside the table would have made."""

    __slots__ = ()


UNKNOWN = _refused = Refused()


class Machine:
    """Runs one pickle in `data` from `at` on."""

    def __init__(
        self,
        data: bytes,
        at: int = 0,
        persistent: Callable[[Any], Any] | None = None,
        added: dict[Any, Any] | None = None,
    ) -> None:
        self.data, self.at = data, at
        self.persistent = persistent
        self.added = added or {}
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.refused: dict[str, None] = {}
        self._left = _WORK * (len(data) + 10_000)
        self._room = _ROOM * len(data) + _FREE
        self._keys = Keys()
        self._unbuilt: dict[int, tuple[Any, list[int]]] = {}

    def run(self) -> Any:
        """Return the object; raise one error with every name that was refused."""
        try:
            while True:
                code = self.take(1)[0]
                if code == 0x2E:  # STOP
                    break
                step = _STEPS.get(code)
                if step is None:
                    raise FileFormatError(f"the pickle has the opcode {code:#04x}, which plain data do not need")
                step(self)
            (value,) = self.stack
        except FileFormatError:
            raise
        except _DAMAGE as error:
            raise FileFormatError(f"the pickle is damaged at byte {self.at}: {type(error).__name__}: {error}") from None
        if self.refused:
            raise FileFormatError(_sentence(list(self.refused)))
        return value

    def charge(self, work: int) -> None:
        """Count work that a file causes with fewer bytes than it takes; raise where that is out of proportion."""
        self._left -= work
        if self._left < 0:
            raise FileFormatError("the pickle repeats itself: it would take far more memory or time than its size")

    def occupy(self, size: int) -> None:
        """Count memory that an opcode of few bytes takes; raise where that is out of proportion."""
        self._room -= size
        if self._room < 0:
            raise FileFormatError("the pickle makes so many objects that they would take far more memory than its size")

    # --- Bytes

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        data = self.data[self.at : self.at + size]
        if len(data) != size:
            raise FileFormatError("the pickle is cut short")
        self.at += size
        return data

    def number(self, form: str) -> Any:
        """Return the next number, of one of struct's forms."""
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def line(self) -> str:
        """Return what remains of a line."""
        end = self.data.find(b"\n", self.at, self.at + 1000)
        if end < 0:
            raise FileFormatError("the pickle is cut short")
        text = self.data[self.at : end].decode()
        self.at = end + 1
        return text

    def sized(self, form: str) -> bytes:
        """Return bytes that are preceded by how many they are."""
        return self.take(self.number(form))

    # --- The stack

    def push(self, value: Any) -> None:
        """Put a value on the stack."""
        self.stack.append(value)

    def pop(self) -> Any:
        """Take a value from the stack, which must not be a mark."""
        value = self.stack.pop()
        if value is _MARK:
            raise FileFormatError("the pickle takes a mark for a value")
        return value

    def top(self) -> Any:
        """Return the value on top of the stack."""
        if self.stack[-1] is _MARK:
            raise FileFormatError("the pickle takes a mark for a value")
        return self.stack[-1]

    def marked(self) -> list[Any]:
        """Take all values down to the last mark."""
        for at in range(len(self.stack) - 1, -1, -1):
            if self.stack[at] is _MARK:
                values = self.stack[at + 1 :]
                del self.stack[at:]
                return values
        raise FileFormatError("the pickle looks for a mark that is not there")

    def last(self, count: int) -> tuple[Any, ...]:
        """Take some values off the stack."""
        values = [self.pop() for _ in range(count)]
        return tuple(reversed(values))

    # --- Containers

    def extend(self, values: list[Any]) -> None:
        """Append to the list, or the known object like one, on top of the stack."""
        target = self.top()
        if type(target) is list:
            target += values
        elif target is not _refused:
            raise FileFormatError(f"the pickle appends to a {type(target).__name__}")

    def put(self, pairs: list[Any]) -> None:
        """Set items of the dict on top of the stack."""
        target = self.top()
        if target is _refused:
            return
        if type(target) not in _DICTS or len(pairs) % 2:
            raise FileFormatError(f"the pickle sets items of a {type(target).__name__}")
        if not target and pairs:
            self.occupy(_FIRST_ITEM)
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            if key is _refused:
                continue
            self.check_key(target, key)
            target[key] = value

    def check_key(self, target: Any, key: Any) -> None:
        """Raise unless a value may be a key of a container."""
        self.charge(self._keys.check(target, key))

    def add(self, values: list[Any]) -> None:
        """Add to the set on top of the stack."""
        target = self.top()
        if target is _refused:
            return
        if type(target) is not set:
            raise FileFormatError("the pickle adds to something that is no set")
        for value in values:
            self.check_key(target, value)
            target.add(value)

    # --- Names and calls

    def name(self, module: Any, name: Any) -> None:
        """Push what the table has for a name."""
        if not isinstance(module, str) or not isinstance(name, str):
            raise FileFormatError("the pickle has a name that is no text")
        if len(module) > _LONGEST_NAME or len(name) > _LONGEST_NAME:
            raise FileFormatError("the pickle has a name of many hundred characters")
        key = (module, name)
        if key in self.added:
            self.push(self.added[key])
        elif key in ALLOWED:
            self.push(ALLOWED[key])
        else:
            self.charge(len(module) + len(name))
            self.refused[f"{module}.{name}"] = None
            self.push(_refused)

    def call(self, function: Any, args: Any) -> Any:
        """Return what a name of the table makes of arguments."""
        if function is _refused or args is _refused or (isinstance(args, tuple) and _refused in map(_itself, args)):
            return _refused
        if not isinstance(args, tuple):
            raise FileFormatError("the pickle calls with arguments that are no tuple")
        if self.is_added(function):
            return function(*args)
        if not isinstance(function, Builder):
            raise FileFormatError(f"the pickle calls a {type(function).__name__}")
        self.charge(sum(map(_length, args)))
        self.occupy(_CALLED)
        made = function.make(self.check_key, *args) if function.takes_keys else function.make(*args)
        if isinstance(made, TensorBase):
            self.occupy(_TENSOR)
        elif isinstance(made, np.dtype | np.ndarray):
            self._unbuilt[id(made)] = made, []
        return made

    def made_new(self, kind: Any, args: Any) -> Any:
        """Return a new instance of a class, its constructor not called."""
        if isinstance(kind, type) and self.is_added(kind) and isinstance(args, tuple):
            return kind.__new__(kind, *args)
        return self.call(kind, args)

    def build(self, state: Any) -> None:
        """Give the object on top of the stack its state."""
        target = self.top()
        if target is _refused or state is _refused:
            return
        if type(target) in self.trusted():
            _restored(target, state)
            return
        if isinstance(state, tuple | dict):
            self.charge(sum(map(_length, state if isinstance(state, tuple) else (state,))))
        made = built(target, state)
        if made is not target:
            self.replace(target, made)

    def replace(self, old: Any, new: Any) -> None:
        """Put a new object in the place of the one on top of the stack, and of what was noted of that."""
        _, notes = self._unbuilt.pop(id(old), (None, None))
        if notes is None:
            raise FileFormatError(f"the pickle sets the state of a {type(old).__name__} for a second time")
        self.stack[-1] = new
        for at in notes:
            self.memo[at] = new

    def note(self, at: int) -> None:
        """Note the value on top of the stack under a number."""
        value = self.memo[at] = self.top()
        waiting = self._unbuilt.get(id(value))
        if waiting is not None and waiting[0] is value:
            waiting[1].append(at)

    def is_added(self, value: Any) -> bool:
        """Return whether a class or function is one that the program added to what files may name."""
        return any(value is added for added in self.added.values())

    def trusted(self) -> set[Any]:
        """Return the classes that the program added."""
        return {value for value in self.added.values() if isinstance(value, type)}

    def persist(self, key: Any) -> None:
        """Push a storage that the file has outside of the pickle."""
        if self.persistent is None:
            raise FileFormatError("the pickle names a storage, and there is none beside it")
        if key is _refused or (isinstance(key, tuple) and _refused in map(_itself, key)):
            self.push(_refused)
        else:
            self.push(self.persistent(key))

    def get(self, at: int) -> None:
        """Push what was noted before."""
        if at not in self.memo:
            raise FileFormatError(f"the pickle refers to note {at}, which it has not made")
        self.push(self.memo[at])


def _itself(value: Any) -> Any:
    # `in` compares with ==, which for a tensor returns a tensor: only the mark itself may count.
    return value if value is _refused else None


_SIZED = (str, bytes, bytearray, list, tuple, dict, set, frozenset)


def _length(value: Any) -> int:
    """Return how much there is to copy of an argument; of a tuple, which may be arguments in turn, with its parts."""
    if type(value) is tuple:
        return len(value) + sum(len(part) for part in value if isinstance(part, _SIZED))
    return len(value) if isinstance(value, _SIZED) else 1


def _restored(target: Any, state: Any) -> None:
    if hasattr(target, "__setstate__"):
        target.__setstate__(state)
    elif isinstance(state, dict):
        target.__dict__.update(state)
    else:
        raise FileFormatError(f"no state for a {type(target).__name__}")


def _sentence(names: list[str]) -> str:
    said = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    return (
        f"Weights only load failed: the file names {said}, which {'is' if len(names) == 1 else 'are'} not among what a "
        "checkpoint of tensors needs. Nothing was imported or run. If you trust the file, let these classes in with "
        "adjoint.serialization.add_safe_globals([...]); a whole pickled model is better saved again as its state_dict()"
    )


def _integer(data: bytes) -> int:
    if len(data) > _LONGEST_INTEGER:
        raise FileFormatError(f"the pickle has an integer of {len(data)} bytes")
    return int.from_bytes(data, "little", signed=True)


def _text_integer(text: str) -> int:
    if text in ("00", "01"):  # how protocol 0 writes bools
        return text == "01"
    if len(text) > 400:
        raise FileFormatError(f"the pickle has an integer of {len(text)} digits")
    return int(text.rstrip("L"))


def _made(m: Machine, value: Any, size: int) -> Any:
    m.occupy(size)
    return value


def _set_dict(m: Machine) -> None:
    values = m.marked()
    m.push(_made(m, {}, _LIST))
    m.put(values)


def _frozen(m: Machine) -> None:
    values = m.marked()
    made: set[Any] = _made(m, set(), _SET)
    m.push(made)
    m.add(values)
    m.pop()
    m.push(frozenset(made))


def _two(step: Callable[[Machine, Any, Any], Any]) -> Callable[[Machine], None]:
    def run(m: Machine) -> None:
        first, second = m.last(2)
        step(m, first, second)

    return run


def _put_one(m: Machine) -> None:
    pair = m.last(2)
    m.put(list(pair))


def _append_one(m: Machine) -> None:
    value = m.pop()
    m.extend([value])


def _note(form: str) -> Callable[[Machine], None]:
    return lambda m: m.note(m.number(form))


def _new_with_names(m: Machine) -> None:
    kind, args, names = m.last(3)
    if names != {}:
        raise FileFormatError("the pickle makes an object with named arguments")
    m.push(m.made_new(kind, args))


def _pop(m: Machine) -> None:
    m.stack.pop()


def _protocol(m: Machine) -> None:
    if m.take(1)[0] > 5:
        raise FileFormatError("the pickle has a protocol later than 5")


_STEPS: dict[int, Callable[[Machine], Any]] = {
    0x80: _protocol,
    0x95: lambda m: m.take(8),  # FRAME
    ord("("): lambda m: m.push(_MARK),
    ord("0"): _pop,
    ord("1"): lambda m: m.marked(),
    ord("2"): lambda m: m.push(m.top()),
    ord("N"): lambda m: m.push(None),
    0x88: lambda m: m.push(True),
    0x89: lambda m: m.push(False),
    ord("I"): lambda m: m.push(_text_integer(m.line())),
    ord("L"): lambda m: m.push(_text_integer(m.line())),
    ord("F"): lambda m: m.push(float(m.line())),
    ord("J"): lambda m: m.push(m.number("<i")),
    ord("K"): lambda m: m.push(m.number("<B")),
    ord("M"): lambda m: m.push(m.number("<H")),
    ord("G"): lambda m: m.push(m.number(">d")),
    0x8A: lambda m: m.push(_integer(m.sized("<B"))),
    0x8B: lambda m: m.push(_integer(m.sized("<I"))),
    ord("U"): lambda m: m.push(m.sized("<B").decode("latin-1")),  # Python 2's strings
    ord("T"): lambda m: m.push(m.sized("<I").decode("latin-1")),
    ord("X"): lambda m: m.push(m.sized("<I").decode("utf-8", "surrogatepass")),
    0x8C: lambda m: m.push(m.sized("<B").decode("utf-8", "surrogatepass")),
    0x8D: lambda m: m.push(m.sized("<Q").decode("utf-8", "surrogatepass")),
    ord("C"): lambda m: m.push(m.sized("<B")),
    ord("B"): lambda m: m.push(m.sized("<I")),
    0x8E: lambda m: m.push(m.sized("<Q")),
    0x96: lambda m: m.push(bytearray(m.sized("<Q"))),
    ord(")"): lambda m: m.push(()),
    ord("t"): lambda m: m.push(tuple(m.marked())),
    0x85: lambda m: m.push(m.last(1)),
    0x86: lambda m: m.push(m.last(2)),
    0x87: lambda m: m.push(m.last(3)),
    ord("]"): lambda m: m.push(_made(m, [], _LIST)),
    ord("l"): lambda m: m.push(_made(m, m.marked(), _LIST)),
    ord("a"): _append_one,
    ord("e"): lambda m: m.extend(m.marked()),
    ord("}"): lambda m: m.push(_made(m, {}, _LIST)),
    ord("d"): _set_dict,
    ord("s"): _put_one,
    ord("u"): lambda m: m.put(m.marked()),
    0x8F: lambda m: m.push(_made(m, set(), _SET)),
    0x90: lambda m: m.add(m.marked()),
    0x91: _frozen,
    ord("q"): _note("<B"),
    ord("r"): _note("<I"),
    0x94: lambda m: m.note(len(m.memo)),
    ord("h"): lambda m: m.get(m.number("<B")),
    ord("j"): lambda m: m.get(m.number("<I")),
    ord("c"): lambda m: m.name(m.line(), m.line()),
    0x93: _two(lambda m, module, name: m.name(module, name)),
    ord("R"): _two(lambda m, function, args: m.push(m.call(function, args))),
    0x81: _two(lambda m, kind, args: m.push(m.made_new(kind, args))),
    0x92: _new_with_names,
    ord("b"): lambda m: m.build(m.pop()),
    ord("Q"): lambda m: m.persist(m.pop()),
}
