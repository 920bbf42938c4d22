"""Communication hooks: the plain average, and averages of gradients in fewer bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....core import dtypes
from ....futures import Future
from ...buckets import GradBucket
from ...collectives import all_reduce
from ...groups import resolved

__all__ = [
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
]


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future:
    """Average a bucket as it is: what happens without a hook."""
    return _averaged(process_group, bucket, None)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future:
    """Average a bucket in bfloat16: half the bytes, of each gradient eight bits of precision."""
    return _averaged(process_group, bucket, dtypes.bfloat16)


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future:
    """Average a bucket in float16: half the bytes."""
    return _averaged(process_group, bucket, dtypes.float16)


def _averaged(process_group: Any, bucket: GradBucket, dtype: Any) -> Future:
    group, whole = resolved(process_group), bucket.buffer()
    sent = (whole if dtype is None else whole.to(dtype)).div_(group.size())
    work = all_reduce(sent, group=group, async_op=True)
    assert work is not None
    return work.get_future().then(lambda future: future.value()[0].to(whole.dtype))


def _wrapper(hook: Callable[..., Any], dtype: Any) -> Callable[..., Any]:
    def compressed(state: Any, bucket: GradBucket) -> Future:
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
