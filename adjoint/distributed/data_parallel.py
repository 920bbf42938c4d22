"""`DistributedDataParallel`: every process trains a copy of the model, and they average their gradients."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..core import device as devices
from ..core import modes
from ..core.tensor import TensorBase, note_write
from ..errors import describe
from ..nn.modules.module import Module
from ..nn.parallel import _moved
from .algorithms import Join, Joinable, JoinHook
from .engines import ReduceOp
from .groups import ProcessGroup, resolved
from .objects import all_gather_object
from .reducer import Reducer
from .works import DistBackendError

__all__ = ["DistributedDataParallel"]

_MEGABYTE = 1024 * 1024
_FIRST_BUCKET, _LARGEST_BUCKET = _MEGABYTE, 25 * _MEGABYTE
_CHUNK = 250 * _MEGABYTE


class DistributedDataParallel(Module, Joinable):
    """A model that is trained by several processes, each on its own part of the data.

    All start from the parameters of rank 0. In the backward pass gradients are averaged over the ranks in buckets,
    while the pass still runs. Parameters that a rank, or every rank, does not use need no option; with
    `find_unused_parameters` the graph is searched for them after the forward pass, so that no bucket waits for them.

    Parameters
    ----------
    module : Module
        The model.
    device_ids : list of int, optional
        The GPU of this process; at most one. The model must be on it already.
    output_device, dim : optional
        Accepted for torch's sake, saved as attributes.
    broadcast_buffers : bool, default True
        Whether every forward pass in training starts with the buffers (running statistics) of rank 0.
    init_sync : bool, default True
        Whether to compare the parameters' shapes over the ranks and copy rank 0's values to all.
    process_group : ProcessGroup, optional
        The ranks that train together; all by default.
    bucket_cap_mb : float, optional
        The size of a bucket, in MiB; by default an eighth of all gradients, from 1 to 25.
    find_unused_parameters : bool, default False
        Whether to search the graph for parameters that the forward pass did not use.
    gradient_as_bucket_view : bool, default False
        Whether ``.grad`` is a part of the bucket, which saves a copy.
    static_graph : bool, default False
        A promise that every pass uses the same parameters.
    device_mesh : DeviceMesh, optional
        In place of `process_group`: a mesh of one dimension, whose group trains together.
    forward_sync_buffers : bool, optional
        False has the effect of ``broadcast_buffers=False``.
    check_reduction, delay_all_reduce_named_params, param_to_hook_all_reduce, mixed_precision : optional
        Accepted for torch's sake; they change nothing.
    skip_all_reduce_unused_params, bucket_cap_mb_list, batched_grad_copy : optional
        Accepted for torch's sake; they change nothing.

    Raises
    ------
    RuntimeError
        If no parameter requires a gradient.

    Examples
    --------
    In a program that is started with ``adjoint launch --nproc 4 train.py``::

        dist.init_process_group()
        model = DistributedDataParallel(Net())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:  # with a DistributedSampler
            optimizer.zero_grad()
            loss(model(x), y).backward()
            optimizer.step()

    A job of one process:

    >>> import adjoint.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> model = adjoint.nn.parallel.DistributedDataParallel(adjoint.nn.Linear(2, 1))
    >>> model(adjoint.ones(3, 2)).sum().backward()
    >>> model.module.weight.grad
    tensor([[3., 3.]])
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        module: Any,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: list[int] | None = None,
        batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
    ) -> None:
        super().__init__()
        Joinable.__init__(self)
        group = device_mesh.get_group() if device_mesh is not None else process_group
        self.process_group: ProcessGroup = resolved(group)
        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        named = [(n, p) for n, p in module.named_parameters() if n not in self.parameters_to_ignore]
        trained = [(n, p) for n, p in named if p.requires_grad]
        if not trained:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameters that require a "
                "gradient."
            )
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError("device_ids can only be None or contain a single element.")
        self.module, self.dim = module, dim
        self.device_ids, self.output_device = device_ids or None, output_device
        self.device = devices.of(trained[0][1].array)
        self.device_type = self.device.type
        self.broadcast_buffers = broadcast_buffers is not False and forward_sync_buffers is not False
        self.find_unused_parameters, self.static_graph = find_unused_parameters, static_graph
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.require_backward_grad_sync = True
        if init_sync:
            _check_alike(named, self.process_group)
            self._broadcast([p for _, p in named] + self._buffers_shared(), 0)
        size = sum(p.array.nbytes for _, p in trained)
        # Some eight buckets, so that most are on their way before the last gradient comes.
        even = min(_LARGEST_BUCKET, max(_FIRST_BUCKET, size // 8))
        cap = even if bucket_cap_mb is None else int(bucket_cap_mb * _MEGABYTE)
        self.bucket_bytes_cap = cap
        self.reducer = Reducer(
            trained, self.process_group, cap, cap if bucket_cap_mb is not None else min(cap, _FIRST_BUCKET),
            gradient_as_bucket_view, find_unused_parameters, static_graph,
        )  # fmt: skip

    # --- Forward ------------------------------------------------------------------------------------

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Return what the model returns; the backward pass will average the gradients."""
        recording = modes.is_grad_enabled()
        syncing = recording and self.require_backward_grad_sync
        if recording:  # a look at other data in between changes nothing for the pass that is to come
            self.reducer.enabled = syncing
        source = 0
        if self._join_config.enable:
            source = self._announce(syncing)
        if self.training and self.broadcast_buffers and syncing:
            self._broadcast(self._buffers_shared(), source)
        if self.device_type != "cpu":
            inputs, kwargs = _moved(inputs, self.device), _moved(kwargs, self.device)
        out = self.module(*inputs, **kwargs)
        if syncing:
            self.reducer.expect([t for t in _tensors_in(out) if t.requires_grad])  # type: ignore[attr-defined]
        return out

    @property
    def unused_parameters(self) -> list[str]:
        """The names of the parameters that no rank used in the last backward pass."""
        return list(self.reducer.idle)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Accumulate gradients locally in the block; the first backward pass after it averages them."""
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def register_comm_hook(self, state: Any, hook: Callable[..., Any]) -> None:
        """Let ``hook(state, bucket)`` reduce each bucket; it returns the future of the averaged buffer."""
        if self.reducer.hook is not None:
            raise RuntimeError("register_comm_hook or register_builtin_comm_hook can only be called once.")
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        self.reducer.hook, self.reducer.hook_state = hook, state

    def _set_static_graph(self) -> None:
        self.static_graph = self.reducer.static = True

    # --- Copies -------------------------------------------------------------------------------------

    def _buffers_shared(self) -> list[Any]:
        return [b for n, b in self.module.named_buffers() if b is not None and n not in self.parameters_to_ignore]

    def _broadcast(self, tensors: list[Any], source: int) -> None:
        """Fill tensors from those of one rank, all of one dtype in one call."""
        group = self.process_group
        for chunk in _chunks(tensors):
            module = devices.module_of(chunk[0].array)
            flat = module.concatenate([t.array.reshape(-1) for t in chunk])
            start = lambda flat=flat: group.engine_for(flat).broadcast(flat, source)
            group.begin("broadcast of the model's state", describe(flat), start, None, flat).wait()
            at = 0
            for tensor in chunk:
                size = tensor.array.size
                if group.rank() != source:
                    tensor.array[...] = flat[at : at + size].reshape(tensor.array.shape)
                    note_write(tensor, "broadcast")
                at += size

    # --- Uneven inputs ------------------------------------------------------------------------------

    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True, throw_on_early_termination: bool = False
    ) -> Join:
        """Return the context in which ranks may have different numbers of batches.

        Ranks that are through take part with zeros. Gradients are divided by the number of all ranks, or with
        ``divide_by_initial_world_size=False`` by that of the ranks that still have data.
        """
        return Join(
            [self], enable, throw_on_early_termination, divide_by_initial_world_size=divide_by_initial_world_size
        )

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return what a rank does after it has finished its data, until all ranks have."""
        return _Shadow(self, kwargs.get("divide_by_initial_world_size", True))

    @property
    def join_device(self) -> Any:
        """Where the model is."""
        return self.device

    @property
    def join_process_group(self) -> Any:
        """The process group that trains together."""
        return self.process_group

    def _announce(self, syncing: bool) -> int:
        """Notify ranks without data of this step, and return the rank whose buffers are broadcast."""
        work = Join.notify_join_context(self)
        if work is not None:
            work.wait()
            active = int(work.result()[0].item())
            if not self._join_config.divides_by_all:
                self.reducer.divisor = active
        told = self._agreed([int(syncing), self.process_group.rank(), int(self.training)])
        return int(told[1])

    def _agreed(self, said: list[int]) -> Any:
        told = np.array(said, np.int64)
        start = lambda: self.process_group._engine.all_reduce(told, ReduceOp.MAX)
        self.process_group.begin("what comes next", "", start, None, told).wait()
        return told


class _Shadow(JoinHook):
    """A rank without data: it takes part in the others' collectives."""

    def __init__(self, model: DistributedDataParallel, divides_by_all: bool) -> None:
        self.model = model
        model._join_config.divides_by_all = divides_by_all
        model.reducer.divisor = model.process_group.size()

    def main_hook(self) -> None:
        """Take part in one step."""
        model = self.model
        syncing, source, training = model._agreed([0, -1, 0])
        if not syncing:
            return
        if model.broadcast_buffers and training:
            model._broadcast(model._buffers_shared(), int(source))
        model.reducer.shadow()

    def post_hook(self, is_last_joiner: bool) -> None:
        """Receive the parameters and buffers of the rank that had data to the end."""
        model = self.model
        (source,) = model._agreed([model.process_group.rank() if is_last_joiner else -1])
        model._broadcast([*model.module.parameters(), *model._buffers_shared()], int(source))
        model.reducer.divisor = model.process_group.size()


def _chunks(tensors: list[Any]) -> Iterator[list[Any]]:
    """Yield tensors of one dtype and device together, as many as a message shall carry."""
    by_kind: dict[Any, list[Any]] = {}
    for tensor in tensors:
        by_kind.setdefault((tensor.array.dtype, str(devices.of(tensor.array))), []).append(tensor)
    for alike in by_kind.values():
        chunk: list[Any] = []
        size = 0
        for tensor in alike:
            if chunk and size + tensor.array.nbytes > _CHUNK:
                yield chunk
                chunk, size = [], 0
            chunk.append(tensor)
            size += tensor.array.nbytes
        yield chunk


def _check_alike(named: list[tuple[str, Any]], group: ProcessGroup) -> None:
    """Raise where the ranks' models have different parameters."""
    mine = [f"{name}: {describe(p)}{'' if p.requires_grad else ', frozen'}" for name, p in named]
    every: list[Any] = [None] * group.size()
    all_gather_object(every, mine, group)
    for rank, theirs in zip(group.ranks, every, strict=True):
        if theirs != every[0]:
            differing = [f"{a or 'nothing'} / {b or 'nothing'}" for a, b in _paired(every[0], theirs) if a != b]
            raise DistBackendError(
                f"DistributedDataParallel: the models of rank {group.ranks[0]} and rank {rank} have different "
                f"parameters: {'; '.join(differing[:5])}"
            )


def _paired(one: list[str], other: list[str]) -> Iterator[tuple[str, str]]:
    for at in range(max(len(one), len(other))):
        yield (one[at] if at < len(one) else ""), (other[at] if at < len(other) else "")


def _tensors_in(value: Any) -> Iterator[TensorBase]:
    """Yield the tensors in what a model returns."""
    if isinstance(value, TensorBase):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _tensors_in(part)
    elif isinstance(value, list | tuple | set):
        for part in value:
            yield from _tensors_in(part)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from _tensors_in(getattr(value, field.name))
