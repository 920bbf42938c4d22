"""Collectives that gradients flow through, and batch norm over the batches of all processes."""

from __future__ import annotations

from typing import Any

from .._paths import lead_to
from ..autograd.function import Function
from ..autograd.grad_mode import no_grad
from ..ops.create import empty
from ..ops.create_like import empty_like, zeros_like
from ..ops.join import cat, stack
from . import collectives
from .engines import ReduceOp
from .groups import get_group_rank, get_rank, get_world_size

__all__ = [
    "all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce", "reduce_scatter",
    "scatter",
]  # fmt: skip


def _dense(x: Any) -> Any:
    return x.contiguous().clone()


def _root(group: Any, rank: int) -> int:
    return rank if group is None else get_group_rank(group, rank)


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Any, op: ReduceOp, group: Any) -> Any:
        ctx.how, ctx.group = op, group
        out = _dense(tensor)
        collectives.all_reduce(out, op, group)
        return out

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        if ctx.how not in (ReduceOp.SUM, ReduceOp.AVG):
            raise RuntimeError(f"all_reduce with {ctx.how} has no gradient here: only sums and averages have")
        return _AllReduce.apply(g, ctx.how, ctx.group), None, None


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Any, src: int, group: Any) -> Any:
        ctx.src, ctx.group = src, group
        out = _dense(tensor)
        collectives.broadcast(out, src, group)
        return out

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return _Reduce.apply(g, ctx.src, ReduceOp.SUM, ctx.group, True), None, None


class _Reduce(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Any, dst: int, op: ReduceOp, group: Any, zero: bool) -> Any:
        ctx.dst, ctx.how, ctx.group = dst, op, group
        out = _dense(tensor)
        collectives.reduce(out, dst, op, group)
        return zeros_like(out) if zero and get_rank(group) != _root(group, dst) else out

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        if ctx.how is not ReduceOp.SUM:
            raise RuntimeError(f"reduce with {ctx.how} has no gradient here: only a sum has")
        return _Broadcast.apply(g, ctx.dst, ctx.group), None, None, None, None


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Any, group: Any) -> Any:
        ctx.group = group
        out = [empty_like(tensor.contiguous()) for _ in range(get_world_size(group))]
        collectives.all_gather(out, tensor.contiguous(), group)
        return tuple(out)

    @staticmethod
    def backward(ctx: Any, *gs: Any) -> Any:
        return _ReduceScatter.apply(ReduceOp.SUM, ctx.group, *gs), None


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, op: ReduceOp, group: Any, *tensors: Any) -> Any:
        ctx.how, ctx.group = op, group
        out = empty_like(tensors[get_rank(group)].contiguous())
        collectives.reduce_scatter(out, [t.contiguous() for t in tensors], op, group)
        return out

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        if ctx.how is not ReduceOp.SUM:
            raise RuntimeError(f"reduce_scatter with {ctx.how} has no gradient here: only a sum has")
        return None, None, *_AllGather.apply(g, ctx.group)


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Any, dst: int, group: Any) -> Any:
        ctx.dst, ctx.group = dst, group
        out = [zeros_like(tensor.contiguous()) for _ in range(get_world_size(group))]
        here = get_rank(group) == _root(group, dst)
        collectives.gather(tensor.contiguous(), out if here else None, dst, group)
        return tuple(out)

    @staticmethod
    def backward(ctx: Any, *gs: Any) -> Any:
        return _Scatter.apply(ctx.dst, ctx.group, *gs), None, None


class _Scatter(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Any, *tensors: Any) -> Any:
        ctx.src, ctx.group = src, group
        out = empty_like(tensors[0].contiguous())
        here = get_rank(group) == _root(group, src)
        collectives.scatter(out, [t.contiguous() for t in tensors] if here else None, src, group)
        return out

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return None, None, *_Gather.apply(g, ctx.src, ctx.group)


class _AllToAll(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, shapes: list[Any], *tensors: Any) -> Any:
        ctx.group, ctx.shapes = group, [t.shape for t in tensors]
        like = tensors[0]
        out = [empty(shape, dtype=like.dtype, device=like.device) for shape in shapes]
        collectives.all_to_all(out, [t.contiguous() for t in tensors], group)
        return tuple(out)

    @staticmethod
    def backward(ctx: Any, *gs: Any) -> Any:
        return None, None, *_AllToAll.apply(ctx.group, ctx.shapes, *gs)


class _AllToAllSingle(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, shape: Any, received: Any, given: Any, tensor: Any) -> Any:
        ctx.group, ctx.shape, ctx.received, ctx.given = group, tensor.shape, received, given
        out = empty(shape, dtype=tensor.dtype, device=tensor.device)
        collectives.all_to_all_single(out, tensor.contiguous(), received, given, group)
        return out

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        back = _AllToAllSingle.apply(ctx.group, ctx.shape, ctx.given, ctx.received, g)
        return None, None, None, None, back


def all_reduce(tensor: Any, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Any:
    """Return the ranks' tensors reduced, on every rank."""
    return _AllReduce.apply(tensor, op, group)


def broadcast(tensor: Any, src: int, group: Any = None) -> Any:
    """Return the tensor of rank `src`, on every rank."""
    return _Broadcast.apply(tensor, src, group)


def reduce(tensor: Any, dst: int, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Any:
    """Return the ranks' tensors reduced, on rank `dst`."""
    return _Reduce.apply(tensor, dst, op, group, False)


def all_gather(tensor: Any, group: Any = None) -> tuple[Any, ...]:
    """Return every rank's tensor, on every rank."""
    return _AllGather.apply(tensor, group)


def reduce_scatter(output: Any, input_list: Any, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Any:
    """Return this rank's part of what the ranks' lists reduce to; `output` only says its shape."""
    return _ReduceScatter.apply(op, group, *input_list)


def gather(tensor: Any, dst: int = 0, group: Any = None) -> tuple[Any, ...]:
    """Return every rank's tensor on rank `dst`, and zeros on the others."""
    return _Gather.apply(tensor, dst, group)


def scatter(tensors: Any, src: int = 0, group: Any = None) -> Any:
    """Return this rank's part of the list that rank `src` has."""
    return _Scatter.apply(src, group, *tensors)


def all_to_all(output_tensor_list: Any, input_tensor_list: Any, group: Any = None) -> tuple[Any, ...]:
    """Return what the ranks give to this one; `output_tensor_list` only says the shapes."""
    return _AllToAll.apply(group, [t.shape for t in output_tensor_list], *input_tensor_list)


def all_to_all_single(
    output: Any, input: Any, output_split_sizes: Any = None, input_split_sizes: Any = None, group: Any = None
) -> Any:
    """Return what the ranks give to this one, joined; `output` only says the shape."""
    return _AllToAllSingle.apply(group, output.shape, output_split_sizes, input_split_sizes, input)


def synchronised(norm: Any, input: Any, momentum: float) -> Any:
    """Return `input` normalised by mean and variance over all ranks, and update the running statistics.

    Each rank gives its mean, its sum of squares around that mean, and its count: these combine without the
    cancellation that a difference of sums would suffer. Gradients flow through what is gathered.
    """
    axes = [axis for axis in range(input.dim()) if axis != 1]
    shape = [1, -1] + [1] * (input.dim() - 2)
    value = input if input.dtype.itemsize >= 4 else input.float()
    count = value.numel() / value.shape[1]
    mean = value.mean(axes) if count else value.sum(axes)
    squares = ((value - mean.reshape(shape)) ** 2).sum(axes)
    parts = stack(all_gather(cat([mean, squares, mean.new_full((1,), count)]), norm.process_group))
    channels = value.shape[1]
    means, spreads, counts = parts[:, :channels], parts[:, channels:-1], parts[:, -1:].detach()
    total = counts.sum()
    whole = (means * counts).sum(0) / total
    variance = (spreads + counts * (means - whole) ** 2).sum(0) / total
    if norm.training and norm.running_mean is not None:
        with no_grad():
            norm.running_mean.lerp_(whole.to(norm.running_mean.dtype), momentum)
            unbiased = variance * (total / (total - 1))
            norm.running_var.lerp_(unbiased.to(norm.running_var.dtype), momentum)
    out = (value - whole.reshape(shape)) * (variance + norm.eps).rsqrt().reshape(shape)
    if norm.weight is not None:
        out = out * norm.weight.reshape(shape)
    if norm.bias is not None:
        out = out + norm.bias.reshape(shape)
    return out.to(input.dtype)


lead_to("adjoint.distributed", {"nn": "nn.functional"})
