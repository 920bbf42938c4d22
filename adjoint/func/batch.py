"""`vmap`: a function of one element, run once on a whole batch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..core.nodes import wrap
from ..core.payload import Level
from ..core.tensor import TensorBase
from ..core.views import edge_of
from ..ops.join import cat
from ..ops.random import get_rng_state, set_rng_state
from ..ops.shape import expand_p, movedim, reshape_p
from ..payloads.batched import Batched
from ..tree import TreeSpec, broadcast_prefix, tree_flatten, tree_leaves, tree_structure
from .values import as_tensor, value_of


def vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """Return `func` with a batch dimension added to its arguments and results.

    Parameters
    ----------
    func
        A function of tensors (and anything else) that returns tensors; it sees one element of the batch.
    in_dims
        Which dimension of each argument is the batch; None where an argument is the same for all. A number
        for all arguments, or a tuple that follows the structure of the arguments.
    out_dims
        Where the batch goes in each result; None where a result does not depend on the batch.
    randomness
        Whether random numbers inside are the "same" for the batch, "different", or an "error".
    chunk_size
        How many elements to run at a time; None for all at once.

    Examples
    --------
    >>> from adjoint.func import grad, vmap
    >>> weight, xs = adjoint.tensor([1.0, 2.0]), adjoint.eye(2)
    >>> vmap(grad(lambda w, x: (w * x).sum() ** 2), in_dims=(None, 0))(weight, xs)  # per-sample gradients
    tensor([[2., 0.],
            [0., 4.]])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        _check_out_dims(out_dims, func)
        size, dims, flat, spec = _inputs(in_dims, args, func)
        if chunk_size is None or chunk_size >= size:
            return _run(func, size, dims, flat, spec, kwargs, out_dims, randomness)
        return _run_chunks(func, size, dims, flat, spec, kwargs, out_dims, randomness, chunk_size)

    return wrapper


def _name(func: Any) -> str:
    if hasattr(func, "__name__"):
        return str(func.__name__)
    if isinstance(func, functools.partial):
        return f"functools.partial({_name(func.func)}, ...)"
    return repr(func)


def _inputs(in_dims: Any, args: tuple[Any, ...], func: Any) -> tuple[int, list[Any], list[Any], TreeSpec]:
    """Return the size of the batch, one dimension (or None) per leaf of the arguments, the leaves and structure."""
    start = f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>): "
    if not isinstance(in_dims, int | tuple):
        raise ValueError(
            f"{start}expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, "
            f"got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({_name(func)})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap "
            "over a function with no inputs. The latter is unsupported."
        )
    flat, spec = tree_flatten(args)
    dims = broadcast_prefix(in_dims, spec)
    if dims is None:
        raise ValueError(
            f"{start}in_dims is not compatible with the structure of `inputs`. in_dims has structure "
            f"{tree_structure(in_dims)} but inputs has structure {spec}."
        )
    dims = [_checked_dim(d, x, start) for d, x in zip(dims, flat, strict=True)]
    sizes = [x.shape[d] for d, x in zip(dims, flat, strict=True) if d is not None]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if any(n != sizes[0] for n in sizes):
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the "
            "mapped dimension"
        )
    return sizes[0], dims, flat, spec


def _checked_dim(dim: Any, x: Any, start: str) -> int | None:
    if dim is None:
        return None
    if not isinstance(dim, int):
        raise ValueError(
            f"{start}Got in_dim={dim} for an input but in_dim must be either an integer dimension or None."
        )
    if not isinstance(x, TensorBase):
        raise ValueError(
            f"{start}Got in_dim={dim} for an input but the input is of type {type(x)}. We cannot vmap over non-Tensor "
            "arguments, please use None as the respective in_dim"
        )
    rank = int(x.array.ndim)
    if not -rank <= dim < rank:
        raise ValueError(
            f"{start}Got in_dim={dim} for some input, but that input is a Tensor of dimensionality {rank} so expected "
            f"in_dim to satisfy -{rank} <= in_dim < {rank}."
        )
    return dim % rank


def _run(
    func: Any, size: int, dims: list[Any], flat: list[Any], spec: TreeSpec, kwargs: Any, out_dims: Any, randomness: str
) -> Any:
    with Level(Batched, size, randomness) as level:
        inputs = [x if d is None else wrap(Batched(value_of(_to_front(x, d)), level)) for x, d in zip(flat, dims)]
        held = [getattr(x, "array", None) for x in inputs]
        outs, out_spec = tree_flatten(func(*spec.unflatten(inputs), **kwargs))
        places = _out_dims(out_dims, outs, out_spec, func)
        sources = {}
        for x, d, inner, before in zip(flat, dims, inputs, held, strict=True):
            if d is not None:
                sources[id(inner)] = (x, d)
                if inner.array is not before:  # the function has written into its argument
                    x.copy_(_opened(inner, d, level, size, func))
        results = [
            _opened(o, d, level, size, func) if (own := _of_argument(o, d, sources, level)) is None else own
            for o, d in zip(outs, places, strict=True)
        ]
    return out_spec.unflatten(results)


def _of_argument(out: Any, dim: int | None, sources: dict[int, Any], level: int) -> Any:
    """Return an output that is an argument, or a view of one, as that of the caller's tensor; else None."""
    if dim is None or not isinstance(out, TensorBase) or not sources:
        return None
    if id(out) in sources:
        x, place = sources[id(out)]
        rank = x.array.ndim
        return x if -rank <= dim < rank and dim % rank == place else movedim(x, place, dim)
    lineage = out.lineage
    if lineage is None or id(lineage.base) not in sources:
        return None
    x, place = sources[id(lineage.base)]
    view: Any = wrap(Batched(_to_front(x, place), level))
    for op, params in lineage.replay:
        view = op.call(view, *params)
    whole = view.array.value
    return None if whole.array.shape[1:] != out.array.shape else whole if dim == 0 else movedim(whole, 0, dim)


def _to_front(x: Any, dim: int) -> Any:
    return x if dim == 0 else movedim(x, dim, 0)


def _check_out_dims(out_dims: Any, func: Any) -> None:
    if not all(isinstance(d, int | None) for d in tree_leaves(out_dims)):
        raise ValueError(
            f"vmap({_name(func)}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python collection of "
            "ints representing where in the outputs the vmapped dimension should appear."
        )


def _out_dims(out_dims: Any, outs: list[Any], spec: TreeSpec, func: Any) -> list[Any]:
    leaves, own = tree_flatten(out_dims)
    leaves = [None if d is None else int(d) for d in leaves]
    if spec.is_leaf() and isinstance(out_dims, tuple) and len(out_dims) == 1 and isinstance(outs[0], TensorBase):
        return leaves
    places = broadcast_prefix(out_dims, spec)
    if places is None:
        raise ValueError(
            f"vmap({_name(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure "
            f"of `outputs`. out_dims has structure {own} but outputs has structure {spec}."
        )
    return [None if d is None else int(d) for d in places]


def _opened(out: Any, dim: int | None, level: int, size: int, func: Any) -> Any:
    """Return an output with its batch dimension in sight."""
    if not isinstance(out, TensorBase):
        if dim is None:
            return out
        raise ValueError(
            f"vmap({_name(func)}, ...): `{_name(func)}` must only return Tensors, got type {type(out)}. Did you mean "
            "to set out_dims= to None for output?"
        )
    edge_of(out)  # a view of what was written since becomes up to date
    payload = out.array
    batched = isinstance(payload, Batched) and payload.level == level
    if dim is None:
        if batched:
            raise ValueError(
                f"vmap({_name(func)}, ...): `{_name(func)}` can not return a BatchedTensor when out_dim is None"
            )
        return out
    whole = as_tensor(payload.value) if batched else reshape_p(out, (1, *out.array.shape))
    if whole.array.shape[0] != size:
        whole = expand_p(whole, (size, *whole.array.shape[1:]))
    return whole if dim == 0 else movedim(whole, 0, dim)


def _run_chunks(
    func: Any, size: int, dims: list[Any], flat: list[Any], spec: TreeSpec, kwargs: Any, out_dims: Any,
    randomness: str, chunk_size: int,
) -> Any:  # fmt: skip
    """Run the batch a few elements at a time, and put the results together."""
    parts: list[list[Any]] = []
    state = get_rng_state() if randomness == "same" else None
    for start in range(0, size, chunk_size):
        count = min(chunk_size, size - start)
        if state is not None:
            set_rng_state(state)  # what is the same for a batch is so for its chunks
        pieces = [x if d is None else x.narrow(d, start, count) for x, d in zip(flat, dims)]
        result = _run(func, count, dims, pieces, spec, kwargs, out_dims, randomness)
        leaves, out_spec = tree_flatten(result)
        parts.append(leaves)
    places = _out_dims(out_dims, parts[0], out_spec, func)
    joined = [p[0] if d is None else cat(list(p), d) for p, d in zip(zip(*parts, strict=True), places, strict=True)]
    return out_spec.unflatten(joined)
