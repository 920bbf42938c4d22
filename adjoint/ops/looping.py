"""Functions that look at the values of their arguments, inside a batch: run for one element after the other."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from .._typing import Kernel
from ..core import modes
from ..core.nodes import wrap
from ..core.payload import Payload, payload_of
from ..core.primitive import parameters_of
from ..core.tensor import TensorBase
from ..core.views import edge_of
from .index import select_p
from .join import stack_p
from .literals import depth_outside

F = TypeVar("F", bound=Callable[..., Any])


def looped(function: F) -> F:
    """Make a function that reads values and has no gradient one of batched values too, by a loop over the batch.

    Inside forward mode it sees the values without their tangents.
    """

    @functools.wraps(function)
    def wrapper(*args: object, **kwargs: Any) -> Any:
        if modes.unusual:
            top = max(_payloads((args, kwargs)), key=lambda p: p.level, default=None)
            if top is not None:
                return _below(function, wrapper, top, args, kwargs, False)
        return function(*args, **kwargs)

    return wrapper  # type: ignore[return-value]


def looped_for(*names: str) -> Callable[[F], F]:
    """Do as `looped` does, but only where one of these arguments, which the function reads, is batched."""

    def decorate(function: F) -> F:
        places = parameters_of(function)
        numbers = [places.index(name) for name in names]

        @functools.wraps(function)
        def wrapper(*args: object, **kwargs: Any) -> Any:
            if modes.unusual:
                read = [*(args[n] for n in numbers if n < len(args)), *(kwargs.get(name) for name in names)]
                if not all(p.spreads for p in _payloads(read)):
                    top = max(_payloads((args, kwargs)), key=lambda p: p.level)
                    if not top.spreads:
                        return _below(function, wrapper, top, args, kwargs, True)
            return function(*args, **kwargs)

        return wrapper  # type: ignore[return-value]

    return decorate


def _payloads(value: object) -> Iterator[Payload]:
    if isinstance(value, TensorBase):
        payload = payload_of(value)
        if payload is not None:
            yield payload
    elif isinstance(value, list | tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _payloads(item)


def _mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    """Return nested arguments with a function applied to their tensors."""
    if isinstance(value, TensorBase):
        return function(value)
    if type(value) in (list, tuple):
        return type(value)(_mapped(v, function) for v in value)
    return {k: _mapped(v, function) for k, v in value.items()} if type(value) is dict else value


def _below(function: Kernel, wrapper: Any, top: Payload, args: object, kwargs: object, has_gradient: bool) -> Any:
    """Call the function one level down: for each element of a batch, or on values without tangents."""
    name = function.__name__

    def at(i: int | None) -> Any:
        def lower(t: Any) -> Any:
            payload = payload_of(t)
            if payload is None or payload.level != top.level:
                return t
            if has_gradient and i is not None and edge_of(t) is not None and modes.is_grad_enabled():
                raise RuntimeError(
                    f"vmap: {name} is run in a loop over the batch, through which no gradient inside vmap flows: "
                    "take the gradient around vmap, or detach() what it reads"
                )
            value = payload.below()
            if i is not None:
                value = select_p(value, 0, i if value.shape[0] > 1 else 0)
            return value if isinstance(value, TensorBase) else wrap(value)

        new_args, new_kwargs = _mapped((args, kwargs), lower)
        return wrapper(*new_args, **new_kwargs)

    if top.spreads:
        return at(None)
    sizes = [p.below().shape[0] for p in _payloads((args, kwargs)) if p.level == top.level]
    warnings.warn(
        f"There is a performance drop because we have not yet implemented the batching rule for {name}: "
        "vmap runs it in a loop over the batch, which is slow but right",
        stacklevel=depth_outside(),
    )
    return _stacked([at(i) for i in range(max(sizes))], top, name)


def _stacked(results: list[Any], top: Payload, name: str) -> Any:
    """Return the results of the elements as one batch."""
    first = results[0]
    if isinstance(first, TensorBase):
        if any(r.array.shape != first.array.shape for r in results):
            raise RuntimeError(
                "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over "
                f"{name}, whose results for this batch have different shapes."
            )
        return wrap(type(top)(stack_p(tuple(results), 0), top.level))  # type: ignore[call-arg]
    if isinstance(first, tuple | list):
        parts = [_stacked(list(part), top, name) for part in zip(*results, strict=True)]
        return type(first)(*parts) if hasattr(first, "_make") else type(first)(parts)
    if any(r != first for r in results):
        raise RuntimeError(f"vmap: {name} gives a different {type(first).__name__} for every element of the batch")
    return first
