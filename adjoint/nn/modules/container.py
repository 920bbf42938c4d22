"""Modules that hold others, or parameters, in order or by name."""

from __future__ import annotations

import operator
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Iterator, KeysView, Mapping
from itertools import chain
from typing import Any

from ..._typing import Tensor
from ...core.tensor import TensorBase
from ..parameter import Parameter
from .module import Module, _addindent

__all__ = ["Container", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


class Container(Module):
    """A module with the given children; deprecated in favour of `Module`."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        warnings.warn(
            "`nn.Container` is deprecated. All of its functionality is now implemented in `nn.Module`. Subclass that "
            "instead.",
            FutureWarning,
            stacklevel=2,
        )
        for name, module in kwargs.items():
            self.add_module(name, module)


def _position(index: Any, size: int) -> int:
    """Return an index counted from the front."""
    number = operator.index(index)
    if not -size <= number < size:
        raise IndexError(f"index {number} is out of range")
    return number % size


def _without_numbers(names: list[str]) -> list[str]:
    return [name for name in names if not name.isdigit()]


class _Ordered(Module):
    """Base of `Sequential` and `ModuleList`: children by number."""

    _modules: dict[str, Any]

    def _name_at(self, index: Any) -> str:
        return list(self._modules)[_position(index, len(self))]

    def _renumber(self, modules: Iterable[Any]) -> None:
        self._modules = {str(i): module for i, module in enumerate(modules)}

    def __setitem__(self, idx: Any, module: Any) -> None:
        setattr(self, self._name_at(idx), module)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __dir__(self) -> list[str]:
        return _without_numbers(super().__dir__())

    def append(self, module: Module) -> Any:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key: Any) -> Any:
        """Remove and return a module, or a slice of them."""
        value = self[key]  # type: ignore[index]
        del self[key]  # type: ignore[attr-defined]
        return value


class Sequential(_Ordered):
    """A chain of modules: each gets the result of the previous one.

    Examples
    --------
    >>> net = adjoint.nn.Sequential(adjoint.nn.Linear(3, 4), adjoint.nn.ReLU(), adjoint.nn.Linear(4, 1))
    >>> net(adjoint.ones(2, 3)).shape
    adjoint.Size([2, 1])
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for i, module in enumerate(args):
                self.add_module(str(i), module)

    def forward(self, input: Any) -> Tensor:
        """Return what the last module returns."""
        for module in self._modules.values():
            input = module(input)
        return input

    def _get_item_by_idx(self, iterator: Iterable[Any], idx: Any) -> Any:
        return list(iterator)[_position(idx, len(self))]

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return self.__class__(OrderedDict(list(self._modules.items())[idx]))
        return self._modules[self._name_at(idx)]

    def __delitem__(self, idx: Any) -> None:
        names = list(self._modules)[idx] if isinstance(idx, slice) else [self._name_at(idx)]
        self._renumber([module for name, module in self._modules.items() if name not in names])

    def __add__(self, other: Any) -> Any:
        self._want_sequential(other)
        return Sequential(*self, *other)

    def __iadd__(self, other: Any) -> Any:
        self._want_sequential(other)
        return self.extend(other)

    @staticmethod
    def _want_sequential(other: Any) -> None:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")

    def _times(self, other: Any) -> int:
        if not isinstance(other, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(other)}")
        if other <= 0:
            raise ValueError(f"Non-positive multiplication factor {other} for {type(self)}")
        return other

    def __mul__(self, other: Any) -> Any:
        return Sequential(*list(self) * self._times(other))

    __rmul__ = __mul__

    def __imul__(self, other: Any) -> Any:
        return self.extend(list(self) * (self._times(other) - 1))

    def insert(self, index: int, module: Module) -> Any:
        """Insert a module at a position."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}")
        modules = list(self)
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def extend(self, sequential: Iterable[Module]) -> Any:
        """Add several modules at the end."""
        for module in list(sequential):
            self.append(module)
        return self


class ModuleList(_Ordered):
    """A list of modules whose parameters are registered.

    It can be indexed, sliced, iterated over and appended to, but not called.

    Parameters
    ----------
    modules : iterable of Module, optional
        What it holds at first.

    Examples
    --------
    >>> layers = adjoint.nn.ModuleList(adjoint.nn.Linear(2, 2) for _ in range(3))
    >>> layers
    ModuleList(
      (0-2): 3 x Linear(in_features=2, out_features=2, bias=True)
    )
    >>> x = adjoint.ones(2)
    >>> for layer in layers:
    ...     x = layer(x)
    >>> [name for name, _ in layers.named_parameters()][:2]
    ['0.weight', '0.bias']
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def _get_abs_string_index(self, idx: Any) -> str:
        return str(_position(idx, len(self)))

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return self.__class__(list(self)[idx])
        return self._modules[self._get_abs_string_index(idx)]

    def __setitem__(self, idx: Any, module: Any) -> None:
        setattr(self, self._get_abs_string_index(idx), module)

    def __delitem__(self, idx: Any) -> None:
        modules = list(self)
        del modules[idx if isinstance(idx, slice) else _position(idx, len(self))]
        self._renumber(modules)

    def __iadd__(self, modules: Iterable[Module]) -> Any:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList(chain(self, other))

    def insert(self, index: int, module: Module) -> None:
        """Insert a module at a position."""
        index = operator.index(index)
        if index < -len(self):
            raise IndexError(f"Index out of range: {index}")
        modules = list(self)
        modules.insert(min(index, len(modules)), module)
        self._renumber(modules)

    def extend(self, modules: Iterable[Module]) -> Any:
        """Add several modules at the end."""
        _want_iterable("ModuleList.extend", "an iterable", modules)
        for module in list(modules):
            self.append(module)
        return self

    def __repr__(self) -> str:
        texts = [repr(module) for module in self]
        if not texts:
            return f"{self._get_name()}()"
        runs: list[tuple[int, int, str]] = []  # consecutive modules with equal text are printed once
        for i, text in enumerate(texts):
            if runs and runs[-1][2] == text:
                runs[-1] = (runs[-1][0], i, text)
            else:
                runs.append((i, i, text))
        lines = [f"({a}): {t}" if a == b else f"({a}-{b}): {b - a + 1} x {t}" for a, b, t in runs]
        return f"{self._get_name()}(\n  " + "\n  ".join(_addindent(line, 2) for line in lines) + "\n)"


class ModuleDict(Module):
    """A dict of modules whose parameters are registered; it keeps the order of insertion.

    Parameters
    ----------
    modules : mapping or iterable of pairs, optional
        Modules by name: what it holds at first.

    Examples
    --------
    >>> heads = adjoint.nn.ModuleDict({"class": adjoint.nn.Linear(4, 3), "box": adjoint.nn.Linear(4, 2)})
    >>> heads["box"](adjoint.ones(4)).shape
    adjoint.Size([2])
    >>> [name for name, _ in heads.named_parameters()]
    ['class.weight', 'class.bias', 'box.weight', 'box.bias']
    """

    _modules: dict[str, Any]

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Remove and return a module."""
        return self._modules.pop(key)

    def keys(self) -> KeysView[str]:
        """Return the names."""
        return self._modules.keys()

    def items(self) -> Any:
        """Return names and modules."""
        return self._modules.items()

    def values(self) -> Any:
        """Return the modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add the modules of a mapping, or of pairs."""
        for name, module in _pairs("ModuleDict", "ModuleDict", modules):
            self[name] = module


class ParameterList(Module):
    """A list of parameters that are registered.

    A tensor put in becomes a parameter; other objects stay what they are, unregistered.

    Parameters
    ----------
    values : iterable, optional
        What it holds at first.

    Examples
    --------
    >>> weights = adjoint.nn.ParameterList([adjoint.ones(2), adjoint.zeros(3)])
    >>> [p.shape for p in weights.parameters()]
    [adjoint.Size([2]), adjoint.Size([3])]
    >>> weights[0].requires_grad
    True
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def _get_abs_string_index(self, idx: Any) -> str:
        return str(_position(idx, len(self)))

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return self.__class__([self[i] for i in range(len(self))[idx]])
        return getattr(self, self._get_abs_string_index(idx))

    def __setitem__(self, idx: Any, param: Any) -> None:
        setattr(self, self._get_abs_string_index(idx), _as_parameter(param))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(len(self))])

    def __iadd__(self, parameters: Iterable[Any]) -> Any:
        return self.extend(parameters)

    def __dir__(self) -> list[str]:
        return _without_numbers(super().__dir__())

    def append(self, value: Any) -> Any:
        """Add a value at the end."""
        self._size += 1
        self[len(self) - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> Any:
        """Add several values at the end."""
        if isinstance(values, TensorBase):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        _want_iterable("ParameterList.extend", "an iterable", values)
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        """Return a line for each value."""
        return "\n".join(_described(i, p, lambda t: t.dtype) for i, p in enumerate(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise: a list of parameters computes nothing."""
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dict of parameters that are registered.

    A tensor put in becomes a parameter; other objects stay what they are, unregistered.

    Parameters
    ----------
    parameters : mapping or iterable of pairs, optional
        Values by name: what it holds at first.

    Examples
    --------
    >>> gains = adjoint.nn.ParameterDict({"left": adjoint.ones(2), "right": adjoint.zeros(2)})
    >>> [name for name, _ in gains.named_parameters()]
    ['left', 'right']
    >>> gains["left"].requires_grad
    True
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def _key_to_attr(self, key: Any) -> str:
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string (type is "
                f"'{type(key).__name__}'). Open an issue on github if you need non-string keys."
            )
        return key

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._key_to_attr(key))

    def __setitem__(self, key: str, value: Any) -> None:
        attribute = self._key_to_attr(key)
        value = _as_parameter(value)
        setattr(self, attribute, value)
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, self._key_to_attr(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """Return a dict of the same parameters."""
        return ParameterDict(OrderedDict((k, self[k]) for k in self._keys))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return a value; if the name is missing, set it to `default` first."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove all values."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Remove and return a value."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove the last value, and return it with its name."""
        key, _ = self._keys.popitem()
        self._keys[key] = None
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value, or `default`."""
        return self[key] if key in self._keys else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """Return a dict with one value for all names."""
        return ParameterDict((k, default) for k in keys)

    def keys(self) -> KeysView[str]:
        """Return the names."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Return names and values."""
        return ((k, self[k]) for k in self._keys)

    def values(self) -> Iterable[Any]:
        """Return the values."""
        return (self[k] for k in self._keys)

    def update(self, parameters: Any) -> None:
        """Add the values of a mapping, or of pairs."""
        for key, value in _pairs("ParameterDict", "ParametersDict", parameters):
            self[key] = value

    def extra_repr(self) -> str:
        """Return a line for each value."""
        return "\n".join(_described(k, p, lambda t: t.type()) for k, p in self.items())

    def __call__(self, input: Any) -> Any:
        """Raise: a dict of parameters computes nothing."""
        raise RuntimeError("ParameterDict should not be called.")

    def __or__(self, other: Any) -> ParameterDict:
        copy = self.copy()
        copy.update(other)
        return copy

    def __ror__(self, other: Any) -> Any:
        return other | dict(self.items()) if isinstance(other, dict) else other.copy() | self

    def __ior__(self, other: Any) -> ParameterDict:
        self.update(other)
        return self


def _as_parameter(value: Any) -> Any:
    if isinstance(value, TensorBase) and not isinstance(value, Parameter):
        return Parameter(value)
    return value


def _want_iterable(call: str, what: str, values: Any) -> None:
    if not isinstance(values, Iterable):
        raise TypeError(f"{call} should be called with {what}, but got {type(values).__name__}")


def _pairs(name: str, spoken: str, given: Any) -> list[tuple[str, Any]]:
    """Return the names and values of a mapping, of another container or of pairs."""
    _want_iterable(f"{spoken}.update", "an iterable of key/value pairs", given)
    if isinstance(given, Mapping | ModuleDict | ParameterDict):
        return list(given.items())
    pairs = []
    for number, pair in enumerate(given):
        if not isinstance(pair, Iterable):
            raise TypeError(f"{name} update sequence element #{number} should be Iterable; is{type(pair).__name__}")
        found = tuple(pair)
        if len(found) != 2:
            raise ValueError(f"{name} update sequence element #{number} has length {len(found)}; 2 is required")
        pairs.append(found)
    return pairs


def _described(key: Any, value: Any, kind: Any) -> str:
    if not isinstance(value, TensorBase):
        return f"  ({key}): Object of type: {type(value).__name__}"
    tensor: Any = value
    what = "Parameter" if isinstance(value, Parameter) else "Tensor"
    place = "" if tensor.device.type == "cpu" else f" ({tensor.device})"
    return f"  ({key}): {what} containing: [{kind(tensor)} of size {'x'.join(map(str, tensor.shape))}{place}]"
