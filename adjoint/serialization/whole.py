"""Whole objects in PyTorch's format: a module or an optimizer by its class, its tensors beside the pickle.

Such a file contains names, and loading it imports and calls them: only if the caller requested that.
"""

from __future__ import annotations

import collections
import io
import pickle
import sys
import types
from typing import IO, Any

from .._paths import home_of
from ..core import device as devices
from ..core import dtypes, layout
from ..core.size import Size
from ..core.tensor import TensorBase
from ..nn.modules.module import Module
from ..nn.modules.rnn import RNNBase
from ..nn.modules.state import Members
from ..subclasses import Dispatching
from .allowed import ALLOWED, Builder
from .archive import storages_in
from .extents import Placement
from .pickling import _Call, _Name, _Persistent, _Pickle, _Storages, write_archive
from .sources import Source

__all__ = ["read", "write"]

# What every module of PyTorch's has, and here only one that has hooks.
_HOOKS = (
    "_backward_pre_hooks", "_backward_hooks", "_forward_hooks", "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called", "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs", "_state_dict_hooks",
    "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
)  # fmt: skip
_TRANSLATED = (Size, devices.device, dtypes.dtype, layout.layout, layout.memory_format)


class _Callable(_Name):
    """A name that the pickle calls: pickle insists on something that looks as if it could be."""

    def __init__(self, name: _Name) -> None:
        self.said = name.said

    def __call__(self) -> None:
        """Do nothing: the loader calls what has the name."""


_Base: Any = pickle._Pickler  # type: ignore[attr-defined]  # pickle's own in Python, whose methods can be replaced


class _Pickler(_Base):  # type: ignore[misc]
    """Writes PyTorch's names for classes, and tensors as PyTorch describes them."""

    def __init__(self, stream: IO[bytes], protocol: int, storages: _Storages | None) -> None:
        super().__init__(stream, protocol)
        self.storages = storages
        self.tensors: dict[int, Any] = {}  # in a first pass: the tensors that there are

    def persistent_id(self, obj: Any) -> Any:
        """Return how the file names a storage."""
        return obj.key if isinstance(obj, _Persistent) else None

    def reducer_override(self, obj: Any) -> Any:
        """Return how an object is rebuilt, where pickle's own way is not PyTorch's."""
        if isinstance(obj, TensorBase):
            if self.storages is None:
                self.tensors.setdefault(id(obj), obj)
                return dict, (), None, None, iter(vars(obj).items())
            return self._reduced(self.storages.call(obj, whole=True))
        if isinstance(obj, _Call):
            return self._reduced(obj)
        if isinstance(obj, _Name | Dispatching):
            return "said"
        if isinstance(obj, _TRANSLATED):
            said = _Pickle(lambda tensor: tensor)._translated(obj, ())
            return "said" if isinstance(said, _Name) else self._reduced(said)
        if type(obj) is Members:
            return dict, (), None, None, iter(obj.items())
        if isinstance(obj, Module) and type(obj).__reduce_ex__ is object.__reduce_ex__:
            made: Any = obj.__reduce_ex__(self.proto)
            return (*made[:2], _module_state(obj, made[2]), *made[3:])
        return NotImplemented

    def _reduced(self, call: _Call) -> tuple[Any, ...]:
        return (_Callable(call.function), call.args, *(() if call.state is None else (call.state,)))

    def save_global(self, obj: Any, name: Any = None) -> None:
        """Write the name of a class or function, without looking whether it is there under it."""
        if isinstance(obj, _TRANSLATED):
            obj = _Pickle(lambda tensor: tensor)._translated(obj, ())
        if isinstance(obj, _Name):
            self.write(obj.said)
            return
        home = getattr(obj, "__module__", None) or ""
        if home.partition(".")[0] not in ("adjoint", "torch"):
            super().save_global(obj, name)
            return
        module, _, last = _torch_name(obj).rpartition(".")
        self.write(f"c{module}\n{last}\n".encode())
        self.memoize(obj)

    dispatch = {**_Base.dispatch, types.FunctionType: save_global}


def _torch_name(obj: Any) -> str:
    """Return the name under which PyTorch has a class or function of adjoint's."""
    module, name = obj.__module__, obj.__qualname__
    if isinstance(obj, type):
        return f"{home_of(module, name) if module.startswith('adjoint') else module}.{name}"
    for home in ("nn.functional", "", "special", "linalg", "fft", "autograd"):
        module = sys.modules.get(f"adjoint.{home}".rstrip("."))
        if _inner(getattr(module, obj.__name__, None)) is _inner(obj):
            return f"torch.{home}.{obj.__name__}".replace("..", ".")
    return f"torch{module.removeprefix('adjoint').removeprefix('torch')}.{name}"


def _inner(function: Any) -> Any:
    """Return the function inside one that queries subclasses first."""
    return function._function if isinstance(function, Dispatching) else function


def _module_state(module: Module, state: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of a module in the form in which PyTorch's modules have them."""
    hooks = {name: collections.OrderedDict(state.get(name) or ()) for name in _HOOKS}
    own = {name: value for name, value in state.items() if name not in (*_HOOKS, "_given_weights")}
    if isinstance(module, RNNBase):
        own["_flat_weights"] = module._flat_weights
    return {"_is_full_backward_hook": None, **hooks, **own}


def write(obj: Any, stream: IO[bytes], protocol: int = 2) -> None:
    """Write an object so that ``torch.load(weights_only=False)`` reads it."""
    first = _Pickler(io.BytesIO(), protocol, None)
    first.dump(obj)
    storages = _Storages(list(first.tensors.values()))
    data = io.BytesIO()
    _Pickler(data, protocol, storages).dump(obj)
    write_archive(data.getvalue(), storages, stream)


# --- Reading --------------------------------------------------------------------------------------------


def read(source: Source, place: Placement, module: Any, **options: Any) -> Any:
    """Return the object in a zip file, made with a pickle module: what the file names is imported and called."""
    data, storage = storages_in(source, place)

    class Unpickler(module.Unpickler):  # type: ignore[misc]
        """Finds names of PyTorch's here."""

        def find_class(self, module: str, name: str) -> Any:
            """Return what a name stands for."""
            known = ALLOWED.get((module, name)) if module.partition(".")[0] == "torch" else None
            if isinstance(known, Builder) and name not in ("Tensor", "Parameter", "Buffer"):
                return known.make
            if known is not None and not isinstance(known, Builder):
                return known
            root, _, rest = module.partition(".")
            if root == "torch" and "torch" not in sys.modules:
                module = f"adjoint.{rest}".rstrip(".")
            return super().find_class(module, name)

        def persistent_load(self, pid: Any) -> Any:
            """Return a storage."""
            return storage(pid)

    return Unpickler(io.BytesIO(data), **options).load()
