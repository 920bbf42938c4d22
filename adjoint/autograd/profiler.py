"""The profiler under its older name, ``autograd.profiler``: `profile` takes its options by position."""

from __future__ import annotations

from typing import Any

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "emit_itt", "emit_nvtx", "profile", "record_function"]  # noqa: F822


def __getattr__(name: str) -> Any:
    if name in ("EventList", "FunctionEvent", "FunctionEventAvg", "record_function"):
        # The package of the same name is below this one in the layout; this module only re-exports its names.
        from .. import profiler

        return getattr(profiler, name)
    raise AttributeError(f"module 'adjoint.autograd.profiler' has no attribute '{name}'")


def profile(
    enabled: bool = True, *, use_cuda: bool = False, use_device: Any = None, record_shapes: bool = False,
    with_flops: bool = False, profile_memory: bool = False, with_stack: bool = False, with_modules: bool = False,
    use_kineto: bool = False, use_cpu: bool = True, **_: Any,
) -> Any:  # fmt: skip
    """Return a profile, as `adjoint.profiler.profile` gives it; with ``enabled=False`` one that records nothing."""
    # As above.
    from ..profiler import ProfilerAction
    from ..profiler import profile as profiled

    return profiled(
        schedule=None if enabled else lambda step: ProfilerAction.NONE, record_shapes=record_shapes,
        profile_memory=profile_memory, with_stack=with_stack, with_modules=with_modules,
    )  # fmt: skip


class emit_nvtx:
    """Accepted for compatibility; a no-op, since NVTX is not supported."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled

    def __enter__(self) -> emit_nvtx:
        return self

    def __exit__(self, *error: object) -> None:
        pass


class emit_itt(emit_nvtx):
    """Accepted for compatibility; a no-op, since ITT is not supported."""
