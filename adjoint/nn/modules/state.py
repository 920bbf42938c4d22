"""The dicts that hold a module's members and hooks, and loading a state_dict into a tree of modules."""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...autograd.grad_mode import no_grad
from ...core.tensor import TensorBase
from ..parameter import Parameter, is_lazy

REGISTRIES = ("_parameters", "_buffers", "_modules")
_MISSING = object()


def _nobody() -> None:
    """Act as the weak reference of a module that does not exist."""


class Members(dict[str, Any]):
    """The members of one kind of one module; whatever is written here can be read from the module.

    A parameter, buffer or child lives in `_parameters`, `_buffers` or `_modules`. Reading it through ``__getattr__``
    would cost a Python call each time, so `Members` also writes it into the module's ``__dict__``: programs that
    change `_parameters` directly are seen, and a read costs a dict lookup. Where a class overrides ``__getattr__``,
    every read must call it, as in PyTorch: for modules of such a class nothing is written there.
    """

    __slots__ = ("_owner", "_shown")

    _owner: Callable[[], Any]

    def __init__(self, owner: Any, members: Mapping[str, Any] | None = None) -> None:
        if isinstance(owner, Mapping):  # rebuilt by a program that walks through dicts: it has no owner
            super().__init__(owner)
            self._owner, self._shown = _nobody, False
            return
        super().__init__(members or {})
        self._owner = weakref.ref(owner)
        self._shown = owner._shows_members()
        self._attributes().update(self)

    def belongs_to(self, module: Any) -> bool:
        """Return whether these are the members of `module`, not those of one it was copied from."""
        return self._owner() is module

    def _attributes(self) -> dict[str, Any]:
        owner = self._owner()
        return owner.__dict__ if owner is not None and self._shown else {}

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        self._attributes()[name] = value

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self._attributes().pop(name, None)

    def pop(self, name: str, default: Any = _MISSING) -> Any:
        """Remove and return a member."""
        if name not in self and default is not _MISSING:
            return default
        value = self[name]
        del self[name]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove the last member."""
        name, value = super().popitem()
        self._attributes().pop(name, None)
        return name, value

    def clear(self) -> None:
        """Remove all members."""
        for name in list(self):
            del self[name]

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Return a member; if it is missing, set it first."""
        if name not in self:
            self[name] = default
        return self[name]

    def update(self, other: Mapping[str, Any] | Iterable[tuple[str, Any]] = (), /, **members: Any) -> None:  # type: ignore[override]
        """Set several members."""
        for name, value in dict(other, **members).items():
            self[name] = value

    def __ior__(self, other: Any) -> Members:  # type: ignore[override,misc]
        self.update(other)
        return self

    def __reduce__(self) -> Any:
        return dict, (dict(self),)  # copies and pickles are plain; the module that gets one links it


class Hooks(OrderedDict[int, Any]):
    """Hooks by the number of their handle; `on_change` is called for each one that is added."""

    def __init__(self, on_change: Callable[[], None], hooks: Mapping[int, Any] | None = None) -> None:
        self.on_change = on_change
        super().__init__(hooks or {})

    def __setitem__(self, key: int, hook: Any) -> None:
        super().__setitem__(key, hook)
        self.on_change()

    def __reduce__(self) -> Any:
        return OrderedDict, (list(self.items()),)


def hooks_of(module: Any, hooks: Mapping[int, Any] | None = None) -> Hooks:
    """Return a dict of hooks that marks `module` as having some when it gets one."""
    ref = weakref.ref(module)

    def mark() -> None:
        owner = ref()
        if owner is not None:
            owner.__dict__["_hooked"] = True

    return Hooks(mark, hooks)


_EXTRA = "_extra_state"


class IncompatibleKeys(namedtuple("_IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """The keys that are missing in a state_dict, and those that the module does not have."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"

    __str__ = __repr__


def load_tree(root: Any, state_dict: Mapping[str, Any], strict: bool, assign: bool) -> IncompatibleKeys:
    """Load a state_dict into `root` and everything below it."""
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
    metadata = getattr(state_dict, "_metadata", None)
    state: Any = OrderedDict(state_dict)
    if metadata is not None:
        state._metadata = metadata
    missing: list[str] = []
    unexpected: list[str] = []
    errors: list[str] = []
    _load_below(root, state, "", metadata, assign, (missing, unexpected, errors))
    if strict:
        if unexpected:
            errors.insert(0, f"Unexpected key(s) in state_dict: {_quoted(unexpected)}. ")
        if missing:
            errors.insert(0, f"Missing key(s) in state_dict: {_quoted(missing)}. ")
    if errors:
        listed = "\n\t".join(errors)
        raise RuntimeError(f"Error(s) in loading state_dict for {type(root).__name__}:\n\t{listed}")
    return IncompatibleKeys(missing, unexpected)


def _load_below(
    module: Any, local: Any, prefix: str, metadata: Any, assign: bool, found: tuple[list[str], ...]
) -> None:
    """Load the entries of a module, then those of the modules below it; errors are added to the lists `found`."""
    local_metadata = {} if metadata is None else metadata.get(prefix[:-1], {})
    if assign:
        local_metadata["assign_to_params_buffers"] = assign
    module._load_from_state_dict(local, prefix, local_metadata, True, *found)
    below: dict[str, Any] = {}
    for key, value in local.items() if module._modules else ():
        if key.startswith(prefix):
            below.setdefault(key[len(prefix) :].partition(".")[0], OrderedDict())[key] = value
    for name, child in module._modules.items():
        if child is not None:
            part = below.get(name, OrderedDict()) if "." not in name else _below(local, f"{prefix}{name}.")
            _load_below(child, part, f"{prefix}{name}.", metadata, assign, found)
    keys = IncompatibleKeys(found[0], found[1])
    for hook in module._load_state_dict_post_hooks.values():
        if hook(module, keys) is not None:
            raise RuntimeError(
                "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new "
                "values, if incompatible_keys need to be modified, it should be done inplace."
            )


def _below(state: Any, prefix: str) -> Any:
    return OrderedDict((k, v) for k, v in state.items() if k.startswith(prefix))


def _quoted(keys: list[str]) -> str:
    return ", ".join(f'"{k}"' for k in keys)


def load_own(
    module: Any, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: list[str],
    unexpected_keys: list[str], error_msgs: list[str],
) -> None:  # fmt: skip
    """Load the entries of one module, without its children; errors are added to the lists."""
    for hook in module._load_state_dict_pre_hooks.values():
        hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
    left_out = module._non_persistent_buffers_set
    persistent = [(k, v) for k, v in module._buffers.items() if k not in left_out]
    own = {k: v for k, v in itertools.chain(module._parameters.items(), persistent) if v is not None}
    assign = local_metadata.get("assign_to_params_buffers", False)
    for name, target in own.items():
        key = prefix + name
        if key in state_dict:
            problem = _load_one(module, name, target, key, state_dict[key], assign)
            if problem is not None:
                error_msgs.append(problem)
        elif strict:
            missing_keys.append(key)
    _load_extra(module, state_dict, prefix + _EXTRA, strict, missing_keys, unexpected_keys)
    if strict:
        for key in state_dict:
            if key.startswith(prefix) and key != prefix + _EXTRA:
                first, *rest = key[len(prefix) :].split(".", 1)
                if first not in (module._modules if rest else own):
                    unexpected_keys.append(key)


def _load_extra(
    module: Any, state_dict: Any, key: str, strict: bool, missing_keys: list[str], unexpected_keys: list[str]
) -> None:
    takes = any("set_extra_state" in vars(kind) for kind in type(module).__mro__ if kind.__name__ != "Module")
    if takes:
        if key in state_dict:
            module.set_extra_state(state_dict[key])
        elif strict:
            missing_keys.append(key)
    elif strict and key in state_dict:
        unexpected_keys.append(key)


def _load_one(module: Any, name: str, target: Any, key: str, given: Any, assign: bool) -> str | None:
    """Load one tensor; return the error message if it does not fit."""
    if not isinstance(given, TensorBase):
        return (
            f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from checkpoint '
            f"but received {type(given)}"
        )
    source: Any = given
    lazy = is_lazy(target)
    if not lazy and len(target.shape) == 0 and len(source.shape) == 1:
        source = source[0]  # scalars were vectors of one element once
    if not lazy and source.shape != target.shape:
        return (
            f"size mismatch for {key}: copying a param with shape {source.shape} from checkpoint, the shape in current "
            f"model is {target.shape}."
        )
    if lazy and not is_lazy(source) and not assign:
        with no_grad():
            target.materialize(source.shape)
    try:
        with no_grad():
            if assign:
                setattr(module, name, _as_member(source, target))
            elif not is_lazy(source):
                target.copy_(source)
    except Exception as error:
        return (
            f'While copying the parameter named "{key}", whose dimensions in the model are {target.size()} and whose '
            f"dimensions in the checkpoint are {source.size()}, an exception occurred : {error.args}."
        )
    return None


def _as_member(source: Any, target: Any) -> Any:
    if not isinstance(target, Parameter):
        return source
    if isinstance(source, Parameter):
        return source.requires_grad_(target.requires_grad)
    return Parameter(source, requires_grad=target.requires_grad)
