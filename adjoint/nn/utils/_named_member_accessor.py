"""Get, set and swap the tensors and submodules of a module by their dotted names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ...core.tensor import TensorBase

__all__ = ["NamedMemberAccessor", "set_tensor", "swap_submodule", "swap_tensor"]

_MISSING: Any = object()


def set_tensor(module: Any, name: str, tensor: Any) -> None:
    """Replace the tensor of that name in a module."""
    swap_tensor(module, name, tensor)


def swap_tensor(module: Any, name: str, tensor: Any, allow_missing: bool = False) -> Any:
    """Replace the tensor of that name in a module, and return the old one."""
    if "." in name or not name:
        raise KeyError(f"tensor name can't be empty or contain '.': {name!r}")
    home = next((held for held in (module._parameters, module._buffers) if name in held), None)
    before = home[name] if home is not None else getattr(module, name, _MISSING)
    if before is _MISSING and not allow_missing:
        raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
    if before is not _MISSING and before is not None and not isinstance(before, TensorBase):
        raise TypeError(f"attribute `{name}`: {before!r} is not an instance of Tensor")
    if tensor is _MISSING:
        home.pop(name) if home is not None else delattr(module, name)
    elif home is not None:
        home[name] = tensor
    else:
        setattr(module, name, tensor)
    return before


def swap_submodule(module: Any, name: str, submodule: Any) -> Any:
    """Replace the submodule of that name in a module, and return the old one."""
    before = module._modules[name]
    module._modules[name] = submodule
    return before


class NamedMemberAccessor:
    """Access the members of a module and its submodules by dotted names."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def get_submodule(self, name: str) -> Any:
        """Return a module inside."""
        return self.module.get_submodule(name)

    def _home(self, name: str) -> tuple[Any, str]:
        path, _, last = name.rpartition(".")
        return self.get_submodule(path), last

    def get_tensor(self, name: str) -> Any:
        """Return a parameter or buffer."""
        home, last = self._home(name)
        found = getattr(home, last)
        if not isinstance(found, TensorBase):
            raise TypeError(f"`{name}` is not an instance of Tensor")
        return found

    def set_tensor(self, name: str, value: Any) -> None:
        """Replace a parameter or buffer."""
        home, last = self._home(name)
        set_tensor(home, last, value)

    def swap_tensor(self, name: str, value: Any, allow_missing: bool = False) -> Any:
        """Replace a parameter or buffer, and return the old one."""
        home, last = self._home(name)
        return swap_tensor(home, last, value, allow_missing)

    def swap_tensors_dict(self, named_tensors: dict[str, Any], allow_missing: bool = False) -> tuple[Any, list[str]]:
        """Replace several tensors; return the old ones, and the names that were missing."""
        before = {name: self.swap_tensor(name, value, allow_missing) for name, value in named_tensors.items()}
        return before, [name for name, value in before.items() if value is _MISSING]

    def get_tensors(self, names: Iterable[str]) -> list[Any]:
        """Return several parameters or buffers."""
        return [self.get_tensor(name) for name in names]

    def set_tensors_dict(self, named_tensors: dict[str, Any]) -> None:
        """Replace parameters and buffers."""
        for name, value in named_tensors.items():
            self.set_tensor(name, value)

    def named_parameters(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        """Yield parameters with their names."""
        yield from self.module.named_parameters(remove_duplicate=remove_duplicate)

    def named_buffers(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        """Yield buffers with their names."""
        yield from self.module.named_buffers(remove_duplicate=remove_duplicate)

    def named_tensors(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        """Yield parameters and buffers with their names."""
        yield from self.named_parameters(remove_duplicate)
        yield from self.named_buffers(remove_duplicate)
