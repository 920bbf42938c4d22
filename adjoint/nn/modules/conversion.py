"""Moving modules between devices and dtypes, showing them in notebooks, and naming the module of an error."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from ..._typing import Tensor
from ...autograd.grad_mode import no_grad
from ...core import device as devices
from ...core import dtypes
from ...core.tensor import TensorBase
from ...notebook import tree
from ...ops.create_like import empty_like
from ..parameter import is_lazy


def typename(value: Any) -> str:
    """Return what an error calls a value: its type, with the module it is from."""
    if isinstance(value, TensorBase):
        return str(value.type())  # type: ignore[attr-defined]
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


# Arguments of `Module.to`, a letter each: a device, a dtype, a tensor, None, a bool.
_FORMS = re.compile(r"(dN?|N|(d|N)[tN]b{0,2}|[tx]b{0,2})?")


def _letter(value: Any) -> str:
    kinds = ((bool, "b"), (dtypes.dtype, "t"), (TensorBase, "x"), (type(None), "N"))
    return next((letter for kind, letter in kinds if isinstance(value, kind)), "d")


def parse_to(
    *args: Any, device: Any = None, dtype: Any = None, non_blocking: bool = False, copy: bool = False,
    memory_format: Any = None, tensor: Any = None, other: Any = None,
) -> tuple[Any, Any, bool, Any]:  # fmt: skip
    """Return device, dtype, non_blocking and memory_format from the arguments of `Module.to`."""
    if not _FORMS.fullmatch("".join(map(_letter, args))):
        given = ", ".join("Tensor" if isinstance(arg, TensorBase) else type(arg).__name__ for arg in args)
        raise TypeError(
            f"to() received an invalid combination of arguments - got ({given}), but expected one of: (device, dtype, "
            "non_blocking, copy), (dtype, non_blocking, copy), (tensor, non_blocking, copy)"
        )
    for arg in (*args, tensor, other):
        if isinstance(arg, dtypes.dtype):
            dtype = arg
        elif isinstance(arg, bool):
            non_blocking = arg
        elif isinstance(arg, TensorBase):
            device, dtype = arg.device, arg.dtype  # type: ignore[attr-defined]
        elif arg is not None:
            device = arg
    return None if device is None else devices.as_device(device), dtype, non_blocking, memory_format


def say_where(error: Exception, module: Any) -> None:
    """Add a note to an exception that names the module that raised it; each outer module completes the path."""
    source, note = getattr(error, "_module_note", (module, None))
    if note is None and any(n.startswith("in module ") for n in getattr(error, "__notes__", ())):
        return
    try:
        path = next((name for name, found in module.named_modules() if found is source), None)
        if path is None:
            return
        whole = type(module).__name__ + (f".{path}: {type(source).__name__}" if path else "")
        said = f"in module {whole}" + (f"({source.extra_repr()})" if source.extra_repr() else "")
        if note is None:
            error.add_note(said)
        else:
            error.__notes__[error.__notes__.index(note)] = said
        error._module_note = (source, said)  # type: ignore[attr-defined]
    except Exception:  # a module too broken to be described must not hide the error
        return


T = TypeVar("T", bound="Convertible")


class Convertible:
    """The methods of `Module` that change all members in place; a parameter stays the same object."""

    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _members: Callable[..., Any]
    children: Callable[..., Iterator[Any]]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        if recurse:
            for module in self.children():
                module._apply(fn)
        for param in self._parameters.values():
            if param is None:
                continue
            with no_grad():
                applied = fn(param)
                grad = None if param.grad is None else fn(param.grad)
            if is_lazy(param):
                param.become_like(applied)  # type: ignore[attr-defined]
            elif applied is not param:
                param.data = applied
            if grad is not None and grad is not param.grad:
                param.grad = grad.requires_grad_(param.grad.requires_grad)
        for name, buffer in list(self._buffers.items()):
            if buffer is not None:
                self._members("_buffers")[name] = fn(buffer)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Move to a device, convert floating point members to a dtype, or order memory, in place.

        Examples
        --------
        >>> adjoint.nn.Linear(2, 1).to(adjoint.float64).weight.dtype
        adjoint.float64
        """
        device, dtype, non_blocking, memory_format = parse_to(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )
        if dtype is not None and dtype.is_complex:
            warnings.warn(
                "Complex modules are a new feature under active development whose design may change, and some "
                "modules might not work as expected when using complex tensors as parameters or buffers.",
                stacklevel=2,
            )

        def convert(t: Tensor) -> Tensor:
            wanted = dtype if t.is_floating_point() or t.is_complex() else None
            if memory_format is not None and t.dim() in (4, 5):
                return t.to(device, wanted, non_blocking, memory_format=memory_format)
            return t.to(device, wanted, non_blocking)

        return self._apply(convert)

    def cuda(self: T, device: Any = None) -> T:
        """Move to a GPU."""
        return self._apply(lambda t: t.cuda(device))  # type: ignore[no-any-return]

    def cpu(self: T) -> T:
        """Move to the CPU."""
        return self._apply(lambda t: t.cpu())  # type: ignore[no-any-return]

    def type(self: T, dst_type: Any) -> T:
        """Convert all members to a type."""
        return self._apply(lambda t: t.type(dst_type))  # type: ignore[no-any-return]

    def float(self: T) -> T:
        """Convert floating point members to float32."""
        return self._apply(lambda t: t.float() if t.is_floating_point() else t)  # type: ignore[no-any-return]

    def double(self: T) -> T:
        """Convert floating point members to float64."""
        return self._apply(lambda t: t.double() if t.is_floating_point() else t)  # type: ignore[no-any-return]

    def half(self: T) -> T:
        """Convert floating point members to float16."""
        return self._apply(lambda t: t.half() if t.is_floating_point() else t)  # type: ignore[no-any-return]

    def bfloat16(self: T) -> T:
        """Convert floating point members to bfloat16."""
        return self._apply(lambda t: t.bfloat16() if t.is_floating_point() else t)  # type: ignore[no-any-return]

    def to_empty(self: T, *, device: Any, recurse: bool = True) -> T:
        """Move to a device without the values: parameters and buffers there are unset.

        Parameters
        ----------
        device : device, str or int
            Where they are made.
        recurse : bool, default True
            Include those of all modules below this one.

        Returns
        -------
        Module
            This module.

        Examples
        --------
        >>> with adjoint.device("meta"):  # without memory
        ...     layer = adjoint.nn.Linear(2, 1)
        >>> layer = layer.to_empty(device="cpu")
        >>> layer.reset_parameters()
        >>> layer.weight.device.type
        'cpu'
        """
        place = devices.as_device(device)
        return self._apply(lambda t: empty_like(t, device=place), recurse)  # type: ignore[no-any-return]

    def share_memory(self: T) -> T:
        """Move the members to shared memory, which other processes can access."""
        return self._apply(lambda t: t.share_memory_())  # type: ignore[no-any-return]


def as_tree(module: Any, name: str, depth: int = 0) -> str:
    """Return what a notebook shows of a module: its parts as a tree that folds, each with its count of parameters."""
    parameters = list(module.parameters())
    count = sum(0 if is_lazy(p) else p.numel() for p in parameters)
    facts = module.extra_repr().replace("\n", ", ")
    frozen = bool(parameters) and not any(p.requires_grad for p in parameters)
    text = f"{facts}  {count:,} parameters{', frozen' if frozen else ''}".strip()
    children = [as_tree(m, f"({key}) {m._get_name()}", depth + 1) for key, m in module.named_children()]
    return tree(name, text, children, depth < 2)
