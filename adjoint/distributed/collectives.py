"""Collectives: arguments, the memory that an engine can use, calls."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from ..core import device as devices
from ..core.payload import Payload
from ..core.tensor import TensorBase, note_write
from ..core.writable import check_writable
from ..errors import describe
from .engines import ReduceOp
from .groups import ProcessGroup, get_group_rank, is_member, resolved
from .works import Work

__all__ = [
    "all_gather", "all_gather_into_tensor", "all_gather_single", "all_reduce", "all_reduce_coalesced", "all_to_all",
    "all_to_all_single", "barrier", "broadcast", "gather", "monitored_barrier", "reduce", "reduce_scatter",
    "reduce_scatter_single", "reduce_scatter_tensor", "scatter",
]  # fmt: skip


def check_tensor(tensor: Any, name: str) -> None:
    """Raise unless an argument is a tensor that has memory."""
    if not isinstance(tensor, TensorBase):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type Tensor\n             but got "
            f"{type(tensor)} instead."
        )
    if isinstance(tensor.array, Payload):
        raise RuntimeError(f"`{name}` is a value inside of a transform: processes exchange real tensors only")


def check_list(tensors: Any, name: str, size: int | None = None) -> None:
    """Raise unless an argument is a list of tensors, `size` of them."""
    if not isinstance(tensors, list | tuple):
        raise TypeError(f"Invalid function argument. Expected parameter `{name}` of type List[Tensor]")
    for number, tensor in enumerate(tensors):
        check_tensor(tensor, f"{name}[{number}]")
    if size is not None and len(tensors) != size:
        raise ValueError(f"{name} has {len(tensors)} tensors, and the group {size} ranks: it needs one for each")


class Memory:
    """A tensor's dense memory, or a dense copy of it that `settle` brings back."""

    __slots__ = ("array", "staged", "tensor")

    def __init__(self, tensor: Any, name: str, group: Any, writes: bool = True) -> None:
        check_tensor(tensor, name)
        array = tensor.array
        if writes:
            check_writable(tensor, False)
        on_host = type(array) is np.ndarray
        if not on_host and group.engine_for(array).name != "nccl":
            array = devices.place_array(array, devices.CPU)
        dense = array.flags.c_contiguous
        self.array = array if dense else array.copy(order="C")
        self.tensor, self.staged = tensor, self.array is not tensor.array

    def settle(self, operation: str) -> Any:
        """Bring what was written to the tensor, and note that it was; return the tensor."""
        tensor = self.tensor
        if self.staged:
            tensor.array[...] = devices.place_array(self.array, devices.of(tensor.array))
        note_write(tensor, operation)
        return tensor


def flat(tensors: Sequence[Any], name: str, group: Any) -> Any:
    """Return the elements of several tensors, one after the other."""
    arrays = [Memory(tensor, name, group, writes=False).array.reshape(-1) for tensor in tensors]
    return devices.module_of(arrays[0]).concatenate(arrays)


def spread(array: Any, tensors: Sequence[Any], operation: str) -> list[Any]:
    """Fill several tensors from their concatenated elements."""
    at = 0
    for tensor in tensors:
        check_writable(tensor, False)
        part = array[at : at + tensor.array.size].reshape(tensor.array.shape)
        tensor.array[...] = devices.place_array(part, devices.of(tensor.array))
        note_write(tensor, operation)
        at += tensor.array.size
    return list(tensors)


def _outside(op: str) -> Any:
    """Warn that a call does nothing here; return None."""
    warnings.warn(f"Running {op} on a process that is not in the group does nothing", stacklevel=3)


def _run(
    pg: ProcessGroup, async_op: bool, op: str, what: str, start: Any, finish: Any = None, kept: Any = None
) -> Work | None:
    """Begin a call, as `ProcessGroup.begin` does; return its handle, or wait for its end."""
    work = pg.begin(op, what, start, finish, kept, waits=not async_op)
    if async_op:
        return work
    work.wait()
    return None


def root_of(group: ProcessGroup, rank: int | None, group_rank: int | None, name: str) -> int:
    """Return the group rank that a call names, by its global rank or its rank in the group."""
    if (rank is None) == (group_rank is None):
        raise ValueError(f"name the {name} once: {name}= among all processes, or group_{name}= in the group")
    if group_rank is not None:
        if not 0 <= group_rank < group.size():
            raise ValueError(f"group_{name}={group_rank} is not in [0, {group.size() - 1}]")
        return group_rank
    return get_group_rank(group, int(rank))  # type: ignore[arg-type]


def _checked_op(op: Any) -> ReduceOp:
    if not isinstance(op, ReduceOp):
        raise TypeError(f"op must be a ReduceOp, not {op!r}")
    return op


def averaged(array: Any, op: ReduceOp, size: int) -> None:
    """Make an average of a sum, in place."""
    if op is not ReduceOp.AVG or size == 1:
        return
    if array.dtype.kind in "iub":
        array //= size
    else:
        array /= size


# --- Reductions -------------------------------------------------------------------------------------


def all_reduce(tensor: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """Combine the ranks' tensors, element by element, and write the result into every rank's `tensor`.

    Parameters
    ----------
    tensor : Tensor
        Any shape, the same on every rank; it is written in place.
    op : ReduceOp, default ReduceOp.SUM
        How to combine: ``SUM``, ``AVG``, ``PRODUCT``, ``MIN``, ``MAX``, or the bits by ``BAND``, ``BOR``, ``BXOR``.
    group : ProcessGroup, optional
        The ranks that take part; all by default.
    async_op : bool, default False
        Whether to return at once, with a handle whose ``wait()`` ends the call.

    Returns
    -------
    Work or None
        The handle, where `async_op` is set.

    Examples
    --------
    On two ranks with ``[1., 2.]`` and ``[10., 20.]`` both get ``[11., 22.]``. In a job of one process:

    >>> import adjoint.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> x = adjoint.tensor([1.0, 2.0])
    >>> dist.all_reduce(x, dist.ReduceOp.SUM)
    >>> x
    tensor([1., 2.])
    >>> dist.destroy_process_group()
    """
    if not is_member(group):
        return _outside("all_reduce")
    pg, op = resolved(group), _checked_op(op)
    memory = Memory(tensor, "tensor", pg)
    array = memory.array

    def finish() -> Any:
        averaged(array, op, pg.size())
        return memory.settle("all_reduce")

    what = f"{describe(array)}, {op.name}"
    start = lambda: pg.engine_for(array).all_reduce(array, op)
    return _run(pg, async_op, "all_reduce", what, start, finish, memory)


def all_reduce_coalesced(tensors: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Any:
    """Reduce several tensors in one call."""
    if not is_member(group):
        return _outside("all_reduce_coalesced")
    pg, op = resolved(group), _checked_op(op)
    check_list(tensors, "tensors")
    array = flat(tensors, "tensors", pg)

    def finish() -> Any:
        averaged(array, op, pg.size())
        return spread(array, tensors, "all_reduce_coalesced")

    what = f"{describe(array)}, {op.name}"
    start = lambda: pg.engine_for(array).all_reduce(array, op)
    return _run(pg, async_op, "all_reduce_coalesced", what, start, finish, array)


def reduce(
    tensor: Any,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Reduce the ranks' tensors into the `tensor` of rank `dst`."""
    if not is_member(group):
        return _outside("reduce")
    pg, op = resolved(group), _checked_op(op)
    root = root_of(pg, dst, group_dst, "dst")
    memory = Memory(tensor, "tensor", pg)
    array = memory.array

    def finish() -> Any:
        if pg.rank() != root:
            return tensor
        averaged(array, op, pg.size())
        return memory.settle("reduce")

    what = f"{describe(array)}, {op.name}, dst={pg.ranks[root]}"
    start = lambda: pg.engine_for(array).reduce(array, op, root)
    return _run(pg, async_op, "reduce", what, start, finish, memory)


def reduce_scatter_tensor(
    output: Any, input: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Reduce the ranks' `input`, and give each rank its part: the first, second, ... of equal size."""
    if not is_member(group):
        return _outside("reduce_scatter_tensor")
    pg, op = resolved(group), _checked_op(op)
    into, given = Memory(output, "output", pg), Memory(input, "input", pg, writes=False)
    _check_parts("input", given.array, "output", into.array, pg)
    return _reduce_scattered(into, given.array, op, pg, "reduce_scatter_tensor", async_op)


def reduce_scatter(
    output: Any, input_list: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Reduce the ranks' lists of tensors, and give each rank the one at its place."""
    if not is_member(group):
        return _outside("reduce_scatter")
    pg, op = resolved(group), _checked_op(op)
    check_list(input_list, "input_list", pg.size())
    into = Memory(output, "output", pg)
    given = flat(input_list, "input_list", pg)
    _check_parts("input_list", given, "output", into.array, pg)
    return _reduce_scattered(into, given, op, pg, "reduce_scatter", async_op)


def _reduce_scattered(
    into: Memory, given: Any, op: ReduceOp, pg: ProcessGroup, name: str, async_op: bool
) -> Work | None:
    def finish() -> Any:
        averaged(into.array, op, pg.size())
        return into.settle(name)

    what = f"{describe(given)}, {op.name}"
    start = lambda: pg.engine_for(given).reduce_scatter(into.array, given, op)
    return _run(pg, async_op, name, what, start, finish, (into, given))


# --- Copies -----------------------------------------------------------------------------------------


def broadcast(
    tensor: Any, src: int | None = None, group: Any = None, async_op: bool = False, group_src: int | None = None
) -> Work | None:
    """Copy the tensor of one rank into every rank's `tensor`.

    Parameters
    ----------
    tensor : Tensor
        The tensor to send, on the source; a tensor of its shape and dtype to write into, elsewhere.
    src : int, optional
        The source, as a rank among all processes.
    group : ProcessGroup, optional
        The ranks that take part; all by default.
    async_op : bool, default False
        Whether to return at once, with a handle whose ``wait()`` ends the call.
    group_src : int, optional
        In place of `src`: the source, as a rank in the group.

    Returns
    -------
    Work or None
        The handle, where `async_op` is set.

    Examples
    --------
    >>> import adjoint.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> x = adjoint.tensor([1.0, 2.0])
    >>> dist.broadcast(x, src=0)
    >>> x
    tensor([1., 2.])
    >>> dist.destroy_process_group()
    """
    if not is_member(group):
        return _outside("broadcast")
    pg = resolved(group)
    root = root_of(pg, src, group_src, "src")
    memory = Memory(tensor, "tensor", pg, writes=pg.rank() != root)
    array = memory.array
    finish = lambda: tensor if pg.rank() == root else memory.settle("broadcast")
    what = f"{describe(array)}, src={pg.ranks[root]}"
    start = lambda: pg.engine_for(array).broadcast(array, root)
    return _run(pg, async_op, "broadcast", what, start, finish, memory)


def all_gather_into_tensor(
    output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False
) -> Work | None:
    """Fill `output_tensor` with every rank's `input_tensor`, one after the other."""
    if not is_member(group):
        return _outside("all_gather_into_tensor")
    pg = resolved(group)
    into, given = Memory(output_tensor, "output_tensor", pg), Memory(input_tensor, "input_tensor", pg, writes=False)
    _check_parts("output_tensor", into.array, "input_tensor", given.array, pg)
    start = lambda: pg.engine_for(given.array).all_gather(into.array, given.array)
    finish = lambda: into.settle("all_gather_into_tensor")
    return _run(pg, async_op, "all_gather_into_tensor", describe(given.array), start, finish, (into, given))


def all_gather(tensor_list: Any, tensor: Any, group: Any = None, async_op: bool = False) -> Work | None:
    """Collect the tensors of all ranks on every rank.

    Parameters
    ----------
    tensor_list : list of Tensor
        One tensor for each rank of the group, to write into; of the shape and dtype of `tensor`.
    tensor : Tensor
        What this rank sends; it has the same shape on every rank.
    group : ProcessGroup, optional
        The ranks that take part; all by default.
    async_op : bool, default False
        Whether to return at once, with a handle whose ``wait()`` ends the call.

    Returns
    -------
    Work or None
        The handle, where `async_op` is set.

    Examples
    --------
    >>> import adjoint.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> parts = [adjoint.zeros(2) for _ in range(dist.get_world_size())]
    >>> dist.all_gather(parts, adjoint.tensor([1.0, 2.0]))
    >>> parts
    [tensor([1., 2.])]
    >>> dist.destroy_process_group()
    """
    if not is_member(group):
        return _outside("all_gather")
    pg = resolved(group)
    check_list(tensor_list, "tensor_list", pg.size())
    given = Memory(tensor, "tensor", pg, writes=False).array
    _check_alike(tensor_list, "tensor_list", given)
    into = _room(given, pg.size())
    start = lambda: pg.engine_for(given).all_gather(into, given)
    finish = lambda: spread(into, tensor_list, "all_gather")
    return _run(pg, async_op, "all_gather", describe(given), start, finish, (into, given))


def gather(
    tensor: Any,
    gather_list: Any = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Fill the `gather_list` of rank `dst` (0, if none is named) with the ranks' `tensor`."""
    if not is_member(group):
        return _outside("gather")
    pg = resolved(group)
    root = root_of(pg, 0 if dst is None and group_dst is None else dst, group_dst, "dst")
    given = Memory(tensor, "tensor", pg, writes=False).array
    mine = _own_list(gather_list, "gather_list", pg, root, "dst")
    if mine:
        _check_alike(gather_list, "gather_list", given)
    into = _room(given, pg.size()) if mine else None
    start = lambda: pg.engine_for(given).gather(into, given, root)
    finish = lambda: spread(into, gather_list, "gather") if mine else []
    what = f"{describe(given)}, dst={pg.ranks[root]}"
    return _run(pg, async_op, "gather", what, start, finish, (into, given))


def scatter(
    tensor: Any,
    scatter_list: Any = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Fill every rank's `tensor` with the one at its place in the `scatter_list` of rank `src` (by default 0)."""
    if not is_member(group):
        return _outside("scatter")
    pg = resolved(group)
    root = root_of(pg, 0 if src is None and group_src is None else src, group_src, "src")
    into = Memory(tensor, "tensor", pg)
    mine = _own_list(scatter_list, "scatter_list", pg, root, "src")
    if mine:
        _check_alike(scatter_list, "scatter_list", into.array)
    given = flat(scatter_list, "scatter_list", pg) if mine else None
    start = lambda: pg.engine_for(into.array).scatter(into.array, given, root)
    what = f"{describe(into.array)}, src={pg.ranks[root]}"
    return _run(pg, async_op, "scatter", what, start, lambda: into.settle("scatter"), (into, given))


def all_to_all_single(
    output: Any,
    input: Any,
    output_split_sizes: Any = None,
    input_split_sizes: Any = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Cut `input` along its first dimension, give each rank its part, and join what they give into `output`."""
    if not is_member(group):
        return _outside("all_to_all_single")
    pg = resolved(group)
    into, given = Memory(output, "output", pg), Memory(input, "input", pg, writes=False)
    received = _counts(into.array, output_split_sizes, pg.size(), "output")
    sent = _counts(given.array, input_split_sizes, pg.size(), "input")
    start = lambda: pg.engine_for(given.array).all_to_all(into.array, given.array, received, sent)
    finish = lambda: into.settle("all_to_all_single")
    return _run(pg, async_op, "all_to_all_single", given.array.dtype.name, start, finish, (into, given))


def all_to_all(
    output_tensor_list: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False
) -> Work | None:
    """Give each rank the tensor at its place in a list, and fill another list with what the ranks give."""
    if not is_member(group):
        return _outside("all_to_all")
    pg = resolved(group)
    check_list(output_tensor_list, "output_tensor_list", pg.size())
    check_list(input_tensor_list, "input_tensor_list", pg.size())
    given = flat(input_tensor_list, "input_tensor_list", pg)
    into = flat(output_tensor_list, "output_tensor_list", pg)
    received, sent = ([t.array.size for t in ts] for ts in (output_tensor_list, input_tensor_list))
    start = lambda: pg.engine_for(given).all_to_all(into, given, received, sent)
    finish = lambda: spread(into, output_tensor_list, "all_to_all")
    return _run(pg, async_op, "all_to_all", given.dtype.name, start, finish, (into, given))


# The names that torch 2.13 gives them.
all_gather_single, reduce_scatter_single = all_gather_into_tensor, reduce_scatter_tensor


# --- Barriers ---------------------------------------------------------------------------------------


def barrier(
    group: Any = None, async_op: bool = False, device_ids: Any = None, timeout: timedelta | None = None
) -> Work | None:
    """Wait until every rank of the group has called this.

    Parameters
    ----------
    group : ProcessGroup, optional
        The ranks that take part; all by default.
    async_op : bool, default False
        Whether to return at once, with a handle whose ``wait()`` ends the call.
    device_ids : list of int, optional
        Accepted for torch's sake.
    timeout : timedelta, optional
        How long to wait; by default the group's timeout.

    Returns
    -------
    Work or None
        The handle, where `async_op` is set.

    Examples
    --------
    >>> import adjoint.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> dist.barrier()
    >>> dist.destroy_process_group()
    """
    if not is_member(group):
        return _outside("barrier")
    pg = resolved(group)
    work = pg.begin("barrier", "", lambda: pg._engine.barrier(), waits=not async_op)
    if async_op:
        return work
    work.wait(timeout)
    return None


def monitored_barrier(group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
    """Wait until every rank has come here; like every collective's, its error names those that did not."""
    barrier(group, timeout=timeout)


# --- Sizes ------------------------------------------------------------------------------------------


def _room(like: Any, count: int) -> Any:
    return devices.module_of(like).empty(count * like.size, like.dtype)


def _own_list(tensors: Any, name: str, pg: ProcessGroup, root: int, side: str) -> bool:
    if pg.rank() == root:
        check_list(tensors, name, pg.size())
        return True
    if tensors:
        raise ValueError(
            f"Argument ``{name}`` must NOT be specified on non-{'destination' if side == 'dst' else 'source'} ranks."
        )
    return False


def _check_alike(tensors: Any, name: str, array: Any) -> None:
    for number, tensor in enumerate(tensors):
        if tensor.array.size != array.size or tensor.array.dtype != array.dtype:
            raise ValueError(
                f"{name}[{number}] is {describe(tensor.array)}, and the tensor that each rank has {describe(array)}: "
                "they must be alike"
            )


def _check_parts(whole_name: str, whole: Any, part_name: str, part: Any, pg: ProcessGroup) -> None:
    check_dtypes(whole_name, whole, part_name, part)
    if whole.size != part.size * pg.size():
        raise ValueError(
            f"{whole_name} is {describe(whole)}, and {part_name} {describe(part)}: with {pg.size()} ranks the first "
            f"has {pg.size()} times as many elements as the second"
        )


def check_dtypes(one_name: str, one: Any, other_name: str, other: Any) -> None:
    """Raise unless two arrays have elements of one kind."""
    if one.dtype != other.dtype:
        raise TypeError(f"{one_name} is {describe(one)}, and {other_name} {describe(other)}: the dtypes must be equal")


def _counts(array: Any, sizes: Any, parts: int, name: str) -> list[int]:
    """Return how many elements go to, or come from, each rank."""
    rows = array.shape[0] if array.ndim else 0
    row = array.size // rows if rows else int(np.prod(array.shape[1:]))
    if not sizes:
        if rows % parts:
            raise ValueError(f"the first dimension of {name}, {rows}, cannot be cut into {parts} equal parts")
        return [rows // parts * row] * parts
    if len(sizes) != parts or sum(sizes) != rows:
        raise ValueError(f"{name}_split_sizes={list(sizes)} must be {parts} numbers that add up to {rows}")
    return [int(size) * row for size in sizes]
