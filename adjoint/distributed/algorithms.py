"""Uneven inputs (`Join`), and communication hooks, which compress gradients."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from .._paths import lead_to
from ..core import dtypes
from ..futures import Future
from ..ops.create import ones, zeros
from .collectives import all_reduce
from .groups import resolved
from .reducer import GradBucket

__all__ = [
    "Join", "JoinHook", "Joinable", "allreduce_hook", "bf16_compress_hook", "bf16_compress_wrapper",
    "fp16_compress_hook", "fp16_compress_wrapper",
]  # fmt: skip


class JoinHook:
    """What a process without data left does for one object in a `Join`."""

    def main_hook(self) -> None:
        """Call the collectives of one step of the other processes."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Run once every process has finished its data."""


class _JoinConfig:
    """Whether an object is inside of a `Join`, and what it does there."""

    def __init__(self) -> None:
        self.enable = False
        self.throws = False
        self.is_first = False
        self.divides_by_all = True


class Joinable(ABC):
    """An object whose steps call collectives: it says how a process without data takes part in them."""

    @abstractmethod
    def __init__(self) -> None:
        self._join_config = _JoinConfig()

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return the hook of this object."""

    @property
    @abstractmethod
    def join_device(self) -> Any:
        """Where the collectives' tensors are."""

    @property
    @abstractmethod
    def join_process_group(self) -> Any:
        """The group that calls the collectives."""


class Join:
    """The context in which each process may go through its own number of batches.

    A process that is through enters a loop in which it takes part in the others' collectives, until all are through.

    Parameters
    ----------
    joinables
        Objects that call collectives in every step: models in `DistributedDataParallel`, optimizers that share state.
    throw_on_early_termination
        Whether every process shall raise as soon as one has no data left.
    """

    def __init__(
        self, joinables: list[Joinable], enable: bool = True, throw_on_early_termination: bool = False, **kwargs: Any
    ) -> None:
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        self._joinables, self._enable, self._throws = joinables, enable, throw_on_early_termination
        self._hooks = [joinable.join_hook(**kwargs) for joinable in joinables]
        self._group = resolved(joinables[0].join_process_group)

    def __enter__(self) -> None:
        for number, joinable in enumerate(self._joinables):
            config = joinable._join_config
            config.enable, config.throws, config.is_first = self._enable, self._throws, number == 0

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if not self._enable or kind:
            self._leave()
            return
        is_last = self._shadow()
        self._leave()
        for hook in self._hooks:
            hook.post_hook(is_last)

    def _shadow(self) -> bool:
        """Take part until every process is through; return whether this one was among the last."""
        rounds = 0
        while True:
            active = zeros(1)
            all_reduce(active, group=self._group)
            if not active.item():
                return rounds == 0
            if self._throws:
                all_reduce(ones(1), group=self._group)
                raise RuntimeError("Detected at least one rank that exhausted inputs. Throwing across all ranks.")
            rounds += 1
            if rounds == 1000:
                warnings.warn("a rank has had no data for 1000 steps of the others: its share is small", stacklevel=3)
            for hook in self._hooks:
                hook.main_hook()

    def _leave(self) -> None:
        for joinable in self._joinables:
            joinable._join_config.enable = False

    @staticmethod
    def notify_join_context(joinable: Joinable) -> Any:
        """Notify processes without data that a step begins; the first of the joinables calls this in every step.

        Returns
        -------
        The handle of the call that counts the processes with data, or None where no `Join` is active.
        """
        config = joinable._join_config
        if not config.enable or not config.is_first:
            return None
        group = resolved(joinable.join_process_group)
        work = all_reduce(ones(1), group=group, async_op=True)
        if config.throws:
            assert work is not None
            work.wait()
            if work.result()[0].item() < group.size():
                all_reduce(zeros(1), group=group)
                raise RuntimeError("Detected at least one rank that exhausted inputs. Throwing across all ranks.")
        return work


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future[Any]:
    """Average a bucket without compression: the default."""
    return _averaged(process_group, bucket, None)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Any]:
    """Average a bucket in bfloat16: half the bytes, eight bits of precision."""
    return _averaged(process_group, bucket, dtypes.bfloat16)


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Any]:
    """Average a bucket in float16: half the bytes."""
    return _averaged(process_group, bucket, dtypes.float16)


def _averaged(process_group: Any, bucket: GradBucket, dtype: Any) -> Future[Any]:
    group, whole = resolved(process_group), bucket.buffer()
    sent = (whole if dtype is None else whole.to(dtype)).div_(group.size())
    work = all_reduce(sent, group=group, async_op=True)
    assert work is not None
    return work.get_future().then(lambda future: future.value()[0].to(whole.dtype))


def _wrapper(hook: Callable[..., Any], dtype: Any) -> Callable[..., Any]:
    def compressed(state: Any, bucket: GradBucket) -> Future[Any]:
        whole = bucket.buffer()
        bucket.set_buffer(whole.to(dtype).to(whole.dtype))
        return hook(state, bucket)

    return compressed


def bf16_compress_wrapper(hook: Callable[..., Any]) -> Callable[..., Any]:
    """Return a hook that rounds to bfloat16 before another one runs."""
    return _wrapper(hook, dtypes.bfloat16)


def fp16_compress_wrapper(hook: Callable[..., Any]) -> Callable[..., Any]:
    """Return a hook that rounds to float16 before another one runs."""
    return _wrapper(hook, dtypes.float16)


lead_to(
    "adjoint.distributed",
    {"algorithms": "algorithms.join algorithms.ddp_comm_hooks algorithms.ddp_comm_hooks.default_hooks"},
)
