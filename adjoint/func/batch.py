"""`vmap`: a function of one element, run once on a whole batch.

The steps have the names and arguments of those of ``torch._functorch.vmap``, in whose place this module stands:
packages whose containers come apart in their own way (tensordict) put functions of theirs in the place of some.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from ..core.nodes import wrap
from ..core.payload import Level, arguments, entered, inside, is_batch, payload_of
from ..core.tensor import TensorBase
from ..core.views import edge_of, replayed
from ..core.writable import is_leaf_node
from ..ops.dimensions import movedim
from ..ops.join import cat
from ..ops.random import get_rng_state, set_rng_state
from ..ops.shape import alias, contiguous_p, expand_p, reshape_p
from ..payloads.batched import Batched
from ..tree import TreeSpec, broadcast_prefix, tree_flatten, tree_leaves, tree_structure, tree_unflatten
from .values import as_tensor, value_of


def vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """Return `func` with a batch dimension added to its arguments and results.

    Parameters
    ----------
    func : callable
        A function of tensors (and anything else) that returns tensors; it sees one element of the batch.
    in_dims : int, None or nested, default 0
        Which dimension of each argument is the batch; None where an argument is the same for all. A number
        for all arguments, or a tuple that follows the structure of the arguments.
    out_dims : int, None or nested, default 0
        Where the batch goes in each result; None where a result does not depend on the batch.
    randomness : {"error", "same", "different"}
        Whether random numbers inside are an error, the same for the whole batch, or different for each element.
    chunk_size : int, optional
        How many elements to run at a time; None for all at once.

    Returns
    -------
    callable
        Takes the arguments of `func` with the batch dimensions of `in_dims`; its results have those of `out_dims`.

    Raises
    ------
    ValueError
        If the sizes of the batch dimensions differ, or no argument has one.
    RuntimeError
        If `func` branches on values, ``if x > 0``, or needs random numbers with ``randomness="error"``.

    Examples
    --------
    >>> from adjoint.func import grad, vmap
    >>> weight, xs = adjoint.tensor([1.0, 2.0]), adjoint.eye(2)
    >>> vmap(grad(lambda w, x: (w * x).sum() ** 2), in_dims=(None, 0))(weight, xs)  # per-sample gradients
    tensor([[2., 0.],
            [0., 4.]])
    >>> vmap(adjoint.dot, in_dims=(1, 1))(adjoint.ones(2, 3), adjoint.ones(2, 3))  # columns
    tensor([2., 2., 2.])
    """
    _check_randomness_arg(randomness)
    if chunk_size is not None and not chunk_size > 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return vmap_impl(func, in_dims, out_dims, randomness, chunk_size, *args, **kwargs)

    return wrapper


def chunk_vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", chunks: int = 2
) -> Callable[..., Any]:
    """Return `vmap` of a function that runs the batch in a number of parts."""
    _check_randomness_arg(randomness)
    if chunks == 1:
        return vmap(func, in_dims, out_dims, randomness)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        _check_out_dims_is_int_or_int_pytree(out_dims, func)
        _, dims, flat, spec = _process_batched_inputs(in_dims, args, func)
        parts = zip(*([x] * chunks if d is None else x.chunk(chunks, d) for x, d in zip(flat, dims)))
        return _chunked_vmap(func, dims, parts, spec, out_dims, randomness, **kwargs)

    return wrapper


def vmap_impl(
    func: Callable[..., Any], in_dims: Any, out_dims: Any, randomness: str, chunk_size: int | None, *args: Any,
    **kwargs: Any,
) -> Any:  # fmt: skip
    """Call a function on a batch."""
    _check_out_dims_is_int_or_int_pytree(out_dims, func)
    size, dims, flat, spec = _process_batched_inputs(in_dims, args, func)
    if chunk_size is None or chunk_size >= size:
        return _flat_vmap(func, size, dims, flat, spec, out_dims, randomness, **kwargs)
    parts = _get_chunked_inputs(flat, dims, size, chunk_size)
    return _chunked_vmap(func, dims, parts, spec, out_dims, randomness, **kwargs)


def _check_randomness_arg(randomness: str) -> None:
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")


def _get_name(func: Any) -> str:
    if hasattr(func, "__name__"):
        return str(func.__name__)
    if isinstance(func, functools.partial):
        return f"functools.partial({_get_name(func.func)}, ...)"
    return repr(func)


# --- Arguments --------------------------------------------------------------------------------------


def _process_batched_inputs(
    in_dims: Any, args: tuple[Any, ...], func: Any
) -> tuple[int, list[Any], list[Any], TreeSpec]:
    """Return the size of the batch, one dimension (or None) per leaf of the arguments, the leaves and structure."""
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            f"{_start(func, in_dims)}expected `in_dims` to be int or a (potentially nested) tuple matching the "
            f"structure of inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({_get_name(func)})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to "
            "vmap over a function with no inputs. The latter is unsupported."
        )
    flat, spec = tree_flatten(args)
    dims = _broadcast_to_and_flatten(in_dims, spec)
    if dims is None:
        raise ValueError(
            f"{_start(func, in_dims)}in_dims is not compatible with the structure of `inputs`. in_dims has structure "
            f"{tree_structure(in_dims)} but inputs has structure {spec}."
        )
    dims = [_checked_dim(d, x, in_dims, func) for d, x in zip(dims, flat, strict=True)]
    return _validate_and_get_batch_size(dims, flat), dims, flat, spec


_broadcast_to_and_flatten = broadcast_prefix


def _start(func: Any, in_dims: Any) -> str:
    """Return how a message about an argument starts."""
    return f"vmap({_get_name(func)}, in_dims={in_dims}, ...)(<inputs>): "


def _checked_dim(dim: Any, x: Any, in_dims: Any, func: Any) -> int | None:
    if dim is None:
        return None
    if not isinstance(dim, int):
        raise ValueError(
            f"{_start(func, in_dims)}Got in_dim={dim} for an input but in_dim must be either an integer dimension or "
            "None."
        )
    if not isinstance(x, TensorBase):
        raise ValueError(
            f"{_start(func, in_dims)}Got in_dim={dim} for an input but the input is of type {type(x)}. We cannot vmap "
            "over non-Tensor arguments, please use None as the respective in_dim"
        )
    rank = int(x.array.ndim)
    if not -rank <= dim < rank:
        raise ValueError(
            f"{_start(func, in_dims)}Got in_dim={dim} for some input, but that input is a Tensor of dimensionality "
            f"{rank} so expected in_dim to satisfy -{rank} <= in_dim < {rank}."
        )
    if isinstance(dim, bool):
        raise TypeError("size(): argument 'dim' (position 1) must be int, not bool")
    return dim % rank


def _validate_and_get_batch_size(flat_in_dims: list[Any], flat_args: list[Any]) -> int:
    """Return the size of the batch, which all arguments must agree on."""
    sizes = [x.size(d) for d, x in zip(flat_in_dims, flat_args) if d is not None]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if len(set(sizes)) > 1:
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the "
            "mapped dimension"
        )
    return int(sizes[0])


def _create_batched_inputs(
    flat_in_dims: list[Any], flat_args: list[Any], vmap_level: int, args_spec: TreeSpec
) -> tuple[Any, ...]:
    """Return the arguments as the function sees them."""
    inputs = [x if d is None else _add_batch_dim(x, d, vmap_level) for d, x in zip(flat_in_dims, flat_args)]
    return args_spec.unflatten(inputs)  # type: ignore[no-any-return]


# --- One batch --------------------------------------------------------------------------------------


def _flat_vmap(
    func: Any, batch_size: int, flat_in_dims: list[Any], flat_args: list[Any], args_spec: TreeSpec, out_dims: Any,
    randomness: str, **kwargs: Any,
) -> Any:  # fmt: skip
    with vmap_increment_nesting(batch_size, randomness) as level:
        inputs = _create_batched_inputs(flat_in_dims, flat_args, level, args_spec)
        outputs = func(*inputs, **kwargs)
        _write_back(level, batch_size)
        return _unwrap_batched(outputs, out_dims, level, batch_size, func)


_nested: list[Level] = []


class vmap_increment_nesting(entered):
    """Enter a batch level: the value of the context is the level of tensors that represent one element."""

    __slots__ = ()

    def __init__(self, batch_size: int, randomness: str) -> None:
        super().__init__(Level(Batched, batch_size, randomness))

    def __exit__(self, *error: object) -> None:
        arguments.pop(self.level.number, None)  # first: an end that is interrupted after it is made up for later
        super().__exit__(*error)


def _vmap_increment_nesting(batch_size: int, randomness: str) -> int:
    """Enter a batch level until `_vmap_decrement_nesting`."""
    _nested.append(Level(Batched, batch_size, randomness))
    return _nested[-1].__enter__()


def _vmap_decrement_nesting() -> int:
    """Leave the innermost batch level."""
    level = _nested.pop()
    level.__exit__()
    arguments.pop(level.number, None)
    return level.number


def _add_batch_dim(self: Any, batch_dim: int, level: int) -> Any:
    """Return a tensor as one element of a batch along a dimension sees it."""
    given, place = arguments.setdefault(level, {}), batch_dim % self.array.ndim
    for x, dim, stand_in, _ in given.values():
        if x is self and dim == place:  # given twice: what is written into one is seen by the other
            return alias(stand_in)
    inner = wrap(Batched(value_of(_to_front(self, batch_dim)), level))
    given[id(inner)] = (self, place, inner, inner.array)
    return inner


def _to_front(x: Any, dim: int) -> Any:
    return x if dim == 0 else movedim(x, dim, 0)


def _write_back(level: int, size: int) -> None:
    """Copy values that a function has written into its arguments to the caller's tensors."""
    for x, dim, inner, before in arguments.get(level, {}).values():
        edge_of(inner)
        if inner.array is not before:
            whole = _remove_batch_dim(wrap(inner.array, inner.node), level, size, min(dim, inner.array.ndim))
            if whole.shape == x.shape:
                x.copy_(whole)
            else:  # only the shape was written (`unsqueeze_`, `t_`), of the caller's memory
                x.as_strided_(whole.size(), whole.stride(), x.storage_offset())


def is_batchedtensor(tensor: Any) -> bool:
    """Return whether a tensor stands for one element of a batch."""
    return is_batch(tensor)


# --- Results ----------------------------------------------------------------------------------------


def _check_out_dims_is_int_or_int_pytree(out_dims: Any, func: Any) -> None:
    if type(out_dims) is not int and not all(isinstance(d, int | None) for d in tree_leaves(out_dims)):
        raise ValueError(
            f"vmap({_get_name(func)}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python "
            "collection of ints representing where in the outputs the vmapped dimension should appear."
        )


def _unwrap_batched(batched_outputs: Any, out_dims: Any, vmap_level: int, batch_size: int, func: Any) -> Any:
    """Return the function's results with the batch dimension visible."""
    outs, spec = tree_flatten(batched_outputs)
    name = _get_name(func)
    places = _out_dims(out_dims, isinstance(batched_outputs, TensorBase), spec, name)
    results = [
        _maybe_remove_batch_dim(name, out, vmap_level, batch_size, d) for out, d in zip(outs, places, strict=True)
    ]
    return spec.unflatten(results)


def _out_dims(out_dims: Any, single: bool, spec: TreeSpec, name: str) -> list[Any]:
    if single and isinstance(out_dims, tuple) and len(out_dims) == 1:
        places: Any = list(out_dims)
    else:
        places = _broadcast_to_and_flatten(out_dims, spec)
    if places is None:
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure "
            f"of `outputs`. out_dims has structure {tree_structure(out_dims)} but outputs has structure {spec}."
        )
    return [d if d is None else int(d) for d in places]


def _maybe_remove_batch_dim(name: str, batched_output: Any, vmap_level: int, batch_size: int, out_dim: Any) -> Any:
    """Return a result with the batch dimension visible, or unchanged if `out_dims` has none for it."""
    if out_dim is None:
        if isinstance(batched_output, TensorBase) and _is_of(batched_output, vmap_level):
            raise ValueError(f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None")
        return batched_output
    if not isinstance(batched_output, TensorBase):
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(batched_output)}. Did you mean to "
            "set out_dims= to None for output?"
        )
    return _remove_batch_dim(batched_output, vmap_level, batch_size, out_dim)


def _is_of(tensor: Any, level: int) -> bool:
    payload = payload_of(tensor)
    return isinstance(payload, Batched) and payload.level == level


def _remove_batch_dim(self: Any, level: int, batch_size: int, out_dim: int) -> Any:
    """Return a tensor that stands for one element of a batch as the whole batch, along a dimension."""
    edge_of(self)  # a view of what was written since becomes up to date
    own = _of_argument(self, level, out_dim)
    if own is not None:
        return own
    payload = self.array
    whole = as_tensor(payload.value) if _is_of(self, level) else reshape_p(self, (1, *payload.shape))
    if whole.array.shape[0] != batch_size:
        whole = expand_p(whole, (batch_size, *whole.array.shape[1:]))
        if _is_of(self, level):  # a batch all of whose elements are equal so far, of which each may be written
            whole = contiguous_p(whole)
    return whole if out_dim == 0 else movedim(whole, 0, out_dim)


def _of_argument(out: Any, level: int, dim: int) -> Any:
    """Return a result that is an argument, or a view of one, as that of the caller's tensor; else None."""
    given = arguments.get(level)
    if given is None:
        return None
    if id(out) in given:
        x, place, *_ = given[id(out)]
        rank = x.array.ndim
        return x if -rank <= dim < rank and dim % rank == place else movedim(x, place, dim)
    lineage = out.lineage
    if lineage is None or id(lineage.base) not in given:
        return None
    x, place, *_ = given[id(lineage.base)]
    held = out.array.value
    edge = edge_of(held) if isinstance(held, TensorBase) else None
    if edge_of(x) is not None and (edge is None or is_leaf_node(edge)):
        return None  # made where nothing was recorded
    view: Any = wrap(Batched(_to_front(x, place), level))
    for op, params in lineage.replay:
        view = replayed(op, view, params)
    whole = view.array.value
    return whole if dim == 0 else movedim(whole, 0, dim)


# --- In parts ---------------------------------------------------------------------------------------


def get_chunk_sizes(total_elems: int, chunk_size: int) -> list[int]:
    """Return the sizes of the chunks of a batch: all equal except the last."""
    return [min(chunk_size, total_elems - at) for at in range(0, total_elems, chunk_size)]


def _get_chunked_inputs(
    flat_args: list[Any], flat_in_dims: list[Any], batch_size: int, chunk_size: int
) -> Iterable[tuple[Any, ...]]:
    """Return the arguments of each part of a batch."""
    at = 0
    for size in get_chunk_sizes(batch_size, chunk_size):
        yield tuple(x if d is None else x.narrow(d, at, size) for x, d in zip(flat_args, flat_in_dims))
        at += size


def _chunked_vmap(
    func: Any, flat_in_dims: list[Any], chunks_flat_args: Iterable[tuple[Any, ...]], args_spec: TreeSpec,
    out_dims: Any, randomness: str, **kwargs: Any,
) -> Any:  # fmt: skip
    """Run the batch a few elements at a time, and put the results together."""
    parts: list[list[Any]] = []
    state = get_rng_state() if randomness == "same" else None
    for part in chunks_flat_args:
        flat_args = list(part)
        size = _validate_and_get_batch_size(flat_in_dims, flat_args)
        if state is not None:
            set_rng_state(state)  # what is the same for a batch is so for its chunks
        result = _flat_vmap(func, size, flat_in_dims, flat_args, args_spec, out_dims, randomness, **kwargs)
        leaves, out_spec = tree_flatten(result)
        parts.append(leaves)
    places = _out_dims(out_dims, isinstance(result, TensorBase), out_spec, _get_name(func))
    joined = [p[0] if d is None else cat(list(p), d) for p, d in zip(zip(*parts, strict=True), places, strict=True)]
    return out_spec.unflatten(joined)


# --- Any results ------------------------------------------------------------------------------------


def restore_vmap(func: Any, in_dims: Any, batch_size: int, randomness: str) -> Callable[..., Any]:
    """Return a function of batches that returns its results, of any kind, and where each has its batch dimension."""

    def inner(*args: Any, **kwargs: Any) -> Any:
        with vmap_increment_nesting(batch_size, randomness) as level:
            outputs = func(*wrap_batched(args, in_dims, level), **kwargs)
            _write_back(level, batch_size)
            return unwrap_batched(outputs, level)

    return inner


def wrap_batched(args: tuple[Any, ...], bdims: Any, level: int) -> tuple[Any, ...]:
    """Return arguments as one element of a batch sees them."""
    flat, spec = tree_flatten(args)
    dims = _broadcast_to_and_flatten(bdims, spec)
    assert dims is not None
    return _create_batched_inputs(dims, flat, level, spec)


def unwrap_batched(args: Any, level: int) -> tuple[Any, Any]:
    """Return results as whole batches, and the dimension of each: 0, or None for what is no batch."""
    flat, spec = tree_flatten(args)
    if not flat:
        return args, ()
    size = next(around.size for around in inside.levels if around.number == level) or 0
    dims = [0 if isinstance(x, TensorBase) and _is_of(x, level) else None for x in flat]
    opened = [x if d is None else _remove_batch_dim(x, level, size, 0) for x, d in zip(flat, dims, strict=True)]
    return tree_unflatten(opened, spec), tree_unflatten(dims, spec)
