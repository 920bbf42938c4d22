"""Custom functions on payloads: taken apart, given to the function's own rule, put together again."""

from __future__ import annotations

import warnings
from typing import Any

from ..core.nodes import wrap
from ..core.payload import top_payload
from ..core.tensor import TensorBase
from .batched import Batched
from .dual import Dual
from .traced import Traced


def apply_function(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a custom function of which some argument holds a payload."""
    top = top_payload(args)
    assert top is not None
    level = top.level
    if isinstance(top, Dual):
        return _dual(cls, args, kwargs, level)
    if isinstance(top, Batched):
        return _batched(cls, args, kwargs, level)
    if isinstance(top, Traced):
        # A function is traced through: its forward's primitives become lines, its backward's too.
        from ..autograd.function import _apply

        return _apply(cls, args, kwargs)
    raise RuntimeError(f"{cls.__name__}: custom functions do not run on {type(top).__name__}")


def _at(value: Any, kind: type, level: int) -> Any:
    """Return the payload of a tensor argument, if it is of this level."""
    if isinstance(value, TensorBase) and isinstance(value.array, kind) and value.array.level == level:  # type: ignore[attr-defined]
        return value.array
    return None


def _tensor(value: Any) -> Any:
    return value if isinstance(value, TensorBase) else wrap(value)


def _dual(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any], level: int) -> Any:
    # Custom functions stand below payloads, which run them level by level.
    from ..autograd.function import Function, _apply

    duals = [_at(a, Dual, level) for a in args]
    primals = tuple(a if d is None else _tensor(d.primal) for a, d in zip(args, duals, strict=True))
    tangents = tuple(None if d is None or d.tangent is None else _tensor(d.tangent) for d in duals)
    if cls.jvp is Function.jvp:
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD: "
            f"{cls.__name__} has none."
        )
    context: list[Any] = []
    out = _apply(cls, primals, kwargs, context)
    ctx = context[0]
    changes = cls.jvp(ctx, *tangents)
    several = isinstance(out, tuple)
    outs = out if several else (out,)
    moves = changes if isinstance(changes, tuple) else (changes,)
    results = tuple(
        wrap(Dual(o, t, level)) if isinstance(o, TensorBase) and t is not None else o
        for o, t in zip(outs, moves, strict=True)
    )
    return results if several else results[0]


def _batched(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any], level: int) -> Any:
    batches = [_at(a, Batched, level) for a in args]
    values = tuple(a if b is None else _tensor(b.value) for a, b in zip(args, batches, strict=True))
    size = next(b.value.shape[0] for b in batches if b is not None)
    if "vmap" in vars(cls):
        dims = tuple(None if b is None else 0 for b in batches)
        out, out_dims = cls.vmap(_Info(size), dims, *values)
        return _rebatched(out, out_dims, level)
    warnings.warn(f"vmap: {cls.__name__} has no vmap staticmethod; running it in a loop over the batch", stacklevel=3)
    results = [
        cls.apply(*(v if b is None else v[i] for v, b in zip(values, batches, strict=True)), **kwargs)
        for i in range(size)
    ]
    from ..ops.join import stack

    if isinstance(results[0], tuple):
        return tuple(wrap(Batched(stack(parts), level)) for parts in zip(*results, strict=True))
    return wrap(Batched(stack(results), level))


class _Info:
    """What a function's vmap rule is told."""

    def __init__(self, batch_size: int, randomness: str = "error") -> None:
        self.batch_size, self.randomness = batch_size, randomness


def _rebatched(out: Any, dims: Any, level: int) -> Any:
    if isinstance(out, tuple):
        each = dims if isinstance(dims, tuple) else (dims,) * len(out)
        return tuple(_rebatched(o, d, level) for o, d in zip(out, each, strict=True))
    if dims is None:
        return out
    return wrap(Batched(out if dims == 0 else out.movedim(dims, 0), level))
