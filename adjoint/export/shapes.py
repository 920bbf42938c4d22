"""Which axes are dynamic: what programs say, for each tensor among the arguments."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from .. import tree
from ..core.tensor import TensorBase
from ..nn.modules.module import Module
from .sizes import Dim, DimHint

__all__ = ["ShapesCollection", "dynamic_axes_of", "dynamic_shapes_of"]


class ShapesCollection:
    """Dynamic axes by tensor, in place of ``dynamic_shapes`` in the structure of the arguments.

    Examples
    --------
    >>> x = adjoint.ones(3, 2)
    >>> shapes = adjoint.export.ShapesCollection()
    >>> shapes[x] = {0: adjoint.export.Dim("batch")}
    >>> program = adjoint.export.export(adjoint.nn.ReLU(), (x,), dynamic_shapes=shapes)
    >>> program.module()(adjoint.ones(7, 2)).shape
    adjoint.Size([7, 2])
    """

    def __init__(self) -> None:
        self._specs: dict[int, tuple[Any, Any]] = {}  # the tensor is held, so that its number stays its own

    def __setitem__(self, tensor: Any, spec: Any) -> None:
        self._specs[id(tensor)] = (tensor, spec)

    def __getitem__(self, tensor: Any) -> Any:
        return self._specs[id(tensor)][1]

    def __len__(self) -> int:
        return len(self._specs)

    def of(self, args: Any, kwargs: Any) -> list[dict[int, Dim]]:
        """Return the dynamic axes of each tensor among the arguments."""
        found: list[dict[int, Dim]] = []
        names: dict[str, Dim] = {}
        for leaf in tree.tree_leaves((args, kwargs)):
            if isinstance(leaf, TensorBase):
                found.append(_axes(leaf, self._specs.get(id(leaf), (None, None))[1], names, len(found)))
        return found


def dynamic_shapes_of(module: Any, args: Any, kwargs: Any, said: Any) -> list[dict[int, Dim]]:
    """Return the dynamic axes of each tensor; `said` is by names of parameters or in their order, nested as these."""
    if isinstance(said, ShapesCollection):
        return said.of(args, kwargs)
    try:
        function = module.forward if isinstance(module, Module) else module
        arguments = dict(inspect.signature(function).bind(*args, **kwargs).arguments)
    except (TypeError, ValueError):
        arguments = {**{str(i): v for i, v in enumerate(args)}, **kwargs}
    for name, parameter in _parameters(module).items():  # what came by *args and **kwargs is given in full
        if parameter.kind is inspect.Parameter.VAR_KEYWORD and name in arguments:
            arguments.update(arguments.pop(name))
    if isinstance(said, Mapping):
        unknown = set(said) - set(arguments)
        if unknown:
            raise ValueError(f"dynamic_shapes names {sorted(unknown)}; the arguments are {list(arguments)}")
        pairs = [(value, said.get(name)) for name, value in arguments.items()]
    else:
        if len(said or ()) > len(arguments):
            raise ValueError(f"dynamic_shapes is for {len(said)} arguments; there are {len(arguments)}")
        pairs = list(zip(arguments.values(), [*said, *[None] * (len(arguments) - len(said))], strict=True))
    found: list[dict[int, Dim]] = []
    names: dict[str, Dim] = {}
    for value, spec in pairs:
        _match(value, spec, found, names)
    return found


def _parameters(module: Any) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(module.forward if isinstance(module, Module) else module).parameters
    except (TypeError, ValueError):
        return {}


def _match(value: Any, spec: Any, found: list[dict[int, Dim]], names: dict[str, Dim]) -> None:
    if isinstance(value, TensorBase):
        found.append(_axes(value, spec, names, len(found)))
    elif isinstance(value, Mapping):
        for key, part in value.items():
            _match(part, spec.get(key) if isinstance(spec, Mapping) else None, found, names)
    elif isinstance(value, tuple | list):
        parts = list(spec) if isinstance(spec, tuple | list) else [None] * len(value)
        for part, its in zip(value, parts, strict=False):
            _match(part, its, found, names)


def _axes(tensor: Any, spec: Any, names: dict[str, Dim], number: int) -> dict[int, Dim]:
    pairs = spec.items() if isinstance(spec, Mapping) else enumerate(spec or ())
    rank = len(tensor.shape)
    return {
        axis % rank: dim
        for axis, said in pairs
        if (dim := _dim(said, names, f"s{number}_{axis}", tensor.shape[axis])) is not None and -rank <= axis < rank
    }


def _dim(said: Any, names: dict[str, Dim], fresh: str, size: int) -> Dim | None:
    if isinstance(said, int) and said != size:
        raise ValueError(f"an axis is said to have the static size {said}, and the example's is {size}")
    if said is None or isinstance(said, int) or (isinstance(said, DimHint) and said.kind == "STATIC"):
        return None
    if isinstance(said, DimHint):
        return said.dim(fresh)
    if isinstance(said, str):
        return names.setdefault(said, Dim(said))
    if not isinstance(said, Dim):
        raise TypeError(f"a dynamic size is a Dim, a name or None, not {type(said).__name__}")
    return said


def dynamic_axes_of(names: Sequence[str], tensors: Sequence[Any], said: Mapping[str, Any]) -> list[dict[int, Dim]]:
    """Return the dynamic axes of each tensor, of ``{"x": {0: "batch"}}`` or ``{"x": [0]}``; outputs are left aside."""
    dims: dict[str, Dim] = {}
    found = []
    for name, tensor in zip(names, tensors, strict=True):
        spec = said.get(name, {})
        pairs = spec.items() if isinstance(spec, Mapping) else [(axis, f"{name}_dynamic_axes_{axis}") for axis in spec]
        rank = len(tensor.shape)
        found.append({axis % rank: _dim(dim, dims, f"{name}_{axis}", tensor.shape[axis]) for axis, dim in pairs})
    return [{axis: dim for axis, dim in axes.items() if dim is not None} for axes in found]
