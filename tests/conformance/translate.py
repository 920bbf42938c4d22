"""From torch's words to adjoint's: tensors, dtypes, functions, and the samples made of them."""

from __future__ import annotations

import collections
import types
from typing import Any

import ml_dtypes
import numpy as np
import torch

import adjoint
from adjoint.core.nodes import wrap

place = "cpu"  # where adjoint computes; torch always computes on the host
reversed = False  # whether adjoint's arrays run backwards through memory that may not be written
placed = False  # whether anything was put there for the call that was translated last
_ROOTS = ("", "nn.functional", "linalg", "special", "fft", "signal.windows", "Tensor", "nn", "autograd")


class Missing(Exception):
    """adjoint has no such name."""


# --- Values -----------------------------------------------------------------------------------------


def to_numpy(t: torch.Tensor) -> np.ndarray:
    """Return a torch tensor's values as an array that shares nothing with it, strides kept."""
    t = torch.zeros_like(t) if t._is_zerotensor() else t.detach().resolve_conj().resolve_neg()
    if t.layout != torch.strided or t.device.type not in ("cpu", "cuda"):
        raise Missing(f"{t.layout} tensors on {t.device}")
    t = t.cpu()  # some samples ask for a GPU where there is one
    itemsize = t.element_size()
    flat = memory_of(t)
    if t.dtype == torch.bfloat16:
        memory = flat.view(torch.int16).numpy().copy().view(ml_dtypes.bfloat16)
    else:
        memory = flat.numpy().copy()
    strides = tuple(s * itemsize for s in t.stride())
    if not t.numel():
        return np.zeros(tuple(t.shape), memory.dtype)
    return np.ndarray(tuple(t.shape), memory.dtype, memory, t.storage_offset() * itemsize, strides)


def memory_of(t: torch.Tensor) -> torch.Tensor:
    """Return all that lies in a tensor's memory, which may be more than it shows."""
    with torch.no_grad():
        return torch.empty(0, dtype=t.dtype, device=t.device).set_(t.untyped_storage())


def to_adjoint(value: Any, memo: dict[int, Any] | None = None) -> Any:
    """Return what a torch value is in adjoint: the same object translates to the same object."""
    global placed
    if memo is None:
        memo, placed = {}, False
    if id(value) in memo:
        return memo[id(value)][0]
    out = _translate(value, memo)
    memo[id(value)] = (out, value)  # keeps `value` alive, so that its id stays its own
    return out


def _translate(value: Any, memo: dict[int, Any]) -> Any:
    if isinstance(value, torch.Tensor):
        global placed
        placed = True
        array = to_numpy(value)
        if reversed:  # as a kernel's result may lie; `from_numpy` refuses it, as torch does
            array = np.asarray(np.flip(np.flip(array).copy()))
            array.setflags(write=False)
        out = wrap(array) if reversed else adjoint.from_numpy(array).to(place)
        hides = not reversed and value.numel() and array.base.size > value.numel()
        if hides or (place != "cpu" and out.numel() and tuple(out.stride()) != tuple(value.stride())):
            # What a view does not show lies in its memory all the same; the way to a GPU does not keep gaps.
            memory = adjoint.from_numpy(array.base).to(place)
            out = memory.as_strided(out.shape, value.stride(), value.storage_offset()).detach()
        if value.requires_grad:
            out.requires_grad_()
        return out
    if isinstance(value, torch.dtype):
        return getattr(adjoint, str(value).rpartition(".")[2], None) or _lack(str(value))
    if isinstance(value, torch.device) or (isinstance(value, str) and value == "cpu"):
        return adjoint.device(place)
    if isinstance(value, torch.Size):
        return adjoint.Size(value)
    if isinstance(value, torch.memory_format | torch.layout):
        return getattr(adjoint, str(value).rpartition(".")[2], None) or _lack(str(value))
    if isinstance(value, torch.Generator):
        return adjoint.Generator(place).manual_seed(value.initial_seed())
    if isinstance(value, list):
        return [to_adjoint(v, memo) for v in value]
    if isinstance(value, tuple):
        return tuple(to_adjoint(v, memo) for v in value)
    if isinstance(value, dict):
        return {k: adjoint.device(place) if k == "device" and v else to_adjoint(v, memo) for k, v in value.items()}
    if isinstance(value, slice):
        return slice(*(to_adjoint(v, memo) for v in (value.start, value.stop, value.step)))
    if isinstance(value, np.ndarray | np.generic):
        return value
    if isinstance(value, torch.nn.PairwiseDistance):
        return lambda x1, x2: adjoint.pairwise_distance(x1, x2, value.norm, value.eps, value.keepdim)
    return swap(value)


def _lack(name: str) -> Any:
    raise Missing(f"adjoint has no {name.removeprefix('torch.')}")


# --- Functions --------------------------------------------------------------------------------------


def _paths() -> dict[int, str]:
    """Return where torch keeps each of its public functions."""
    found: dict[int, str] = {}
    for root in _ROOTS:
        room: Any = torch
        for part in filter(None, root.split(".")):
            room = getattr(room, part)
        for name in dir(room):
            try:
                value = getattr(room, name)
            except Exception:
                continue
            if callable(value) and not isinstance(value, types.ModuleType):
                found.setdefault(id(value), f"{root}.{name}".strip("."))
    return found


_PATHS = _paths()


def lookup(path: str) -> Any:
    """Return ``adjoint.path``."""
    value: Any = adjoint
    for part in path.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            raise Missing(f"adjoint.{path}") from None
    return value


def swap(value: Any) -> Any:
    """Return adjoint's counterpart of a torch module or function; test helpers get adjoint's globals."""
    if isinstance(value, types.ModuleType):
        if value.__name__ == "torch" or (
            value.__name__.startswith("torch.") and not value.__name__.startswith("torch.testing")
        ):
            return adjoint if value is torch else lookup(value.__name__.removeprefix("torch."))
        return value
    if id(value) in _PATHS:
        return lookup(_PATHS[id(value)])
    if isinstance(value, types.FunctionType) and value.__module__.startswith("torch.testing._internal"):
        return rebind(value)
    return value


def _set_seed(op: Any, *args: Any, **kwargs: Any) -> Any:
    adjoint.manual_seed(42)
    return op(*args, **kwargs)


class _Globals(dict):  # type: ignore[type-arg]
    """The globals of one of torch's test modules, as they would be had it imported adjoint."""

    def __init__(self, original: dict[str, Any]) -> None:
        super().__init__(__builtins__=__builtins__, wrapper_set_seed=_set_seed)
        self.original = original

    def __missing__(self, name: str) -> Any:
        value = swap(self.original[name])
        self[name] = value
        return value


# Not a dict: a compiled function would look through all of torch's own tables for what it depends on.
_globals: collections.UserDict[int, _Globals] = collections.UserDict()


def rebind(f: types.FunctionType) -> Any:
    """Return a copy of one of torch's test helpers that calls adjoint instead of torch."""
    space = _globals.setdefault(id(f.__globals__), _Globals(f.__globals__))
    cells = None
    if f.__closure__:
        cells = tuple(types.CellType(swap(c.cell_contents)) for c in f.__closure__)
    out = types.FunctionType(f.__code__, space, f.__name__, _swapped(f.__defaults__), cells)
    out.__kwdefaults__ = f.__kwdefaults__ and {k: swap(v) for k, v in f.__kwdefaults__.items()}
    return out


def _swapped(defaults: Any) -> Any:
    return defaults and tuple(to_adjoint(v) if not callable(v) else swap(v) for v in defaults)


def flatten(value: Any) -> list[Any]:
    """Return the leaves of nested tuples, lists and dicts, in order."""
    if isinstance(value, list | tuple) and not isinstance(value, torch.Size | adjoint.Size):
        return [leaf for item in value for leaf in flatten(item)]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in flatten(item)]
    return [value]


def substitute(value: Any, old: dict[int, Any]) -> Any:
    """Return nested containers with some leaves (given by id) exchanged."""
    if id(value) in old:
        return old[id(value)]
    if isinstance(value, list):
        return [substitute(v, old) for v in value]
    if isinstance(value, tuple) and not isinstance(value, torch.Size | adjoint.Size):
        return tuple(substitute(v, old) for v in value)
    if isinstance(value, dict):
        return {k: substitute(v, old) for k, v in value.items()}
    return value
