"""CUDA graphs: work that is recorded once and replayed with one launch, as ``torch.cuda.CUDAGraph`` has it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .. import tree
from ..autograd.differentiate import grad
from ..autograd.function import Function
from ..autograd.grad_mode import enable_grad, no_grad
from ..core.tensor import TensorBase
from .devices import Stream, required, synchronize

__all__ = ["CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables"]


def graph_pool_handle() -> Any:
    """Return memory that several graphs may share, if they never run at the same time."""
    return required().cuda.MemoryPool()


def is_current_stream_capturing() -> bool:
    """Return whether work is being recorded instead of done."""
    try:
        return bool(required().cuda.get_current_stream().is_capturing())
    except AssertionError:
        return False


class CUDAGraph:
    """Work on the GPU between ``capture_begin`` and ``capture_end``, which ``replay`` does again.

    It reads and writes the very memory of the tensors that it was recorded with: write new inputs there by
    ``copy_``. Tensors made inside have separate memory that the graph holds until ``reset``. Each replay repeats
    the random numbers of the recording; graphs of `adjoint.compile` generate new ones.
    """

    def __init__(self, keep_graph: bool = False) -> None:
        self._pool: Any = None
        self._graph: Any = None
        self._open: Any = None

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        """Record from now on; the current stream must not be the default one."""
        cupy = required()
        stream = cupy.cuda.get_current_stream()
        if not stream.ptr:
            raise RuntimeError(
                "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay them "
                "on the default stream.) Use the context torch.cuda.graph, which takes one"
            )
        self._pool = pool if pool is not None else self._pool or graph_pool_handle()
        self._open = contextlib.ExitStack()
        self._open.enter_context(cupy.cuda.using_allocator(self._pool.malloc))
        stream.begin_capture()

    def capture_end(self) -> None:
        """Stop recording."""
        try:
            self._graph = required().cuda.get_current_stream().end_capture()
        finally:
            if self._open is not None:
                self._open.close()
                self._open = None

    def replay(self) -> None:
        """Do the work, on the current stream."""
        if self._graph is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        self._graph.launch(required().cuda.get_current_stream())

    def reset(self) -> None:
        """Forget the work and its memory."""
        self._graph = self._pool = None

    def pool(self) -> Any:
        """Return the graph's memory, for another graph to share."""
        return self._pool


@contextlib.contextmanager
def graph(
    cuda_graph: CUDAGraph, pool: Any = None, stream: Stream | None = None, capture_error_mode: str = "global"
) -> Iterator[None]:
    """Capture the GPU work inside this context, without running it."""
    cupy = required()
    synchronize()
    inner = cupy.cuda.Stream(non_blocking=True) if stream is None else stream.inner
    with inner:
        cuda_graph.capture_begin(pool, capture_error_mode)
        try:
            yield
        finally:
            cuda_graph.capture_end()


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Any = None,
) -> Any:
    """Return a function or module whose forward and backward are each one graph; or as many as are given.

    Arguments must be tensors of the same shapes as `sample_args`, on the GPU.
    """
    single = not isinstance(callables, tuple)
    functions = (callables,) if single else callables
    samples = (sample_args,) if single else sample_args
    pool = graph_pool_handle() if pool is None else pool
    made = [_graphed(f, tuple(a), num_warmup_iters, pool) for f, a in zip(functions, samples, strict=True)]
    return made[0] if single else tuple(made)


class _Replayed(Function):
    """Forward and backward by replaying; gradients of parameters are returned like those of arguments."""

    @staticmethod
    def forward(ctx: Any, parts: Any, *inputs: Any) -> Any:
        ctx.parts = parts
        for mine, given in zip(parts.inputs, inputs):
            if mine is not given:
                mine.copy_(given)
        parts.forward.replay()
        return tuple(out.detach().clone() for out in parts.outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        parts = ctx.parts
        for mine, given in zip(parts.cotangents, gradients):
            if mine is not None and given is not None:
                mine.copy_(given)
        parts.backward.replay()
        return None, *(None if g is None else g.detach().clone() for g in parts.gradients)


class _Parts:
    """The graphs of one function, and the tensors between which they run."""

    forward: CUDAGraph
    backward: CUDAGraph
    inputs: Sequence[Any]
    outputs: Sequence[Any]
    cotangents: Sequence[Any]
    gradients: Sequence[Any]


def _graphed(function: Any, args: tuple[Any, ...], warm: int, pool: Any) -> Callable[..., Any]:
    if not all(isinstance(a, TensorBase) for a in args):
        raise RuntimeError(
            "In the make_graphed_callables API, sample_args for each callable must contain only Tensors."
        )
    parameters = tuple(function.parameters()) if hasattr(function, "parameters") else ()
    parts = _Parts()
    parts.inputs = (*(a.detach().clone().requires_grad_(a.requires_grad) for a in args), *parameters)
    wanted = [x for x in parts.inputs if x.requires_grad]

    def run() -> tuple[list[Any], Any]:
        out = function(*parts.inputs[: len(args)])
        return tree.tree_flatten(out)

    for _ in range(warm):  # kernels are compiled and libraries loaded before anything is recorded
        leaves, spec = run()
        _gradients(leaves, [_ones(y) for y in leaves], wanted)
    parts.forward, parts.backward = CUDAGraph(), CUDAGraph()
    with graph(parts.forward, pool), enable_grad():
        leaves, spec = run()
    parts.outputs = leaves
    parts.cotangents = [_ones(y) if y.requires_grad else None for y in leaves]
    with graph(parts.backward, pool):
        found = iter(_gradients(leaves, parts.cotangents, wanted))
    parts.gradients = [next(found) if x.requires_grad else None for x in parts.inputs]
    eager = function.forward if hasattr(function, "forward") else function

    def call(*given: Any) -> Any:
        if len(given) != len(args) or any(a.shape != b.shape for a, b in zip(given, parts.inputs)):
            return eager(*given)
        out = _Replayed.apply(parts, *given, *parameters)
        return tree.tree_unflatten(list(out), spec)

    if not hasattr(function, "forward"):
        return call
    training = function.training
    function.forward = lambda *given: call(*given) if function.training == training else eager(*given)
    return function  # type: ignore[no-any-return]


def _ones(y: Any) -> Any:
    with no_grad():
        return y * 0 + 1


def _gradients(outputs: Any, cotangents: Any, inputs: Any) -> Any:
    pairs = [(y, g) for y, g in zip(outputs, cotangents) if y.requires_grad]
    if not pairs or not inputs:
        return [None] * len(inputs)
    return grad([y for y, _ in pairs], inputs, [g for _, g in pairs], allow_unused=True)
