"""Contexts that tests run in: a seed, a default, a temporary file, a quiet collector."""

from __future__ import annotations

import contextlib
import enum
import gc
import io
import os
import socket
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from ... import settings
from ...core import dtypes
from ...core.tensor import TensorBase
from ...testing._utils import freeze_rng_state

__all__ = [
    "AlwaysWarnTypedStorageRemoval", "BytesIOContext", "CudaMemoryLeakCheck", "CudaNonDefaultStream", "CudaSyncGuard",
    "DeterministicGuard", "ProfilingMode", "SwapTensorsGuard", "TemporaryDirectoryName", "TemporaryFileName",
    "check_leaked_tensors", "disable_gc", "enable_profiling_mode", "enable_profiling_mode_for_profiling_tests",
    "find_free_port", "freeze_rng_state", "run_concurrently", "set_cwd", "set_default_dtype", "set_default_tensor_type",
    "set_warn_always_context", "swap",
]  # fmt: skip


@contextlib.contextmanager
def set_default_dtype(dtype: Any) -> Iterator[None]:
    """Run a block with another default dtype."""
    before = dtypes.default()
    dtypes.set_default(dtype)
    try:
        yield
    finally:
        dtypes.set_default(before)


@contextlib.contextmanager
def set_default_tensor_type(tensor_type: Any) -> Iterator[None]:
    """Run a block with the dtype of a tensor type as the default."""
    before = dtypes.default()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings.set_default_tensor_type(tensor_type)
    try:
        yield
    finally:
        dtypes.set_default(before)


@contextlib.contextmanager
def set_warn_always_context(new_val: bool) -> Iterator[None]:
    """Run a block with `set_warn_always` set."""
    before = settings.is_warn_always_enabled()
    settings.set_warn_always(new_val)
    try:
        yield
    finally:
        settings.set_warn_always(before)


@contextlib.contextmanager
def disable_gc() -> Iterator[None]:
    """Run a block in which Python collects no cycles."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@contextlib.contextmanager
def check_leaked_tensors(limit: int = 1, matched_type: Any = TensorBase) -> Iterator[list[Any]]:
    """Warn of tensors that a block leaves in cycles, and put them in the list that the block is given."""
    found: list[Any] = []
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield found
        gc.collect()
        found.extend(x for x in gc.garbage if isinstance(x, matched_type))
        if found:
            text = f"{len(found)} tensors were found in the garbage. Did you introduce a reference cycle?"
            warnings.warn(text, stacklevel=2)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


class ProfilingMode(enum.Enum):
    """How torch's scripts are run; there is one way here."""

    LEGACY = 1
    SIMPLE = 2
    PROFILING = 3


@contextlib.contextmanager
def enable_profiling_mode() -> Iterator[None]:
    """Enclose a block; scripts here are functions of Python."""
    yield


enable_profiling_mode_for_profiling_tests = enable_profiling_mode


class _Quiet:
    """A context that does nothing: CuPy manages what it would watch or set on a GPU."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take what torch's takes."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing."""


class CudaSyncGuard(_Quiet):
    """Warn about GPU synchronizations; a no-op, for they cannot be detected here."""


class CudaNonDefaultStream(_Quiet):
    """Run a block in another stream than the default one: there is one here."""


class CudaMemoryLeakCheck(_Quiet):
    """Compare the memory of GPUs before and after a test: a no-op, for CuPy's pool caches freed memory."""


class SwapTensorsGuard(_Quiet):
    """Choose how modules are converted; a no-op, for parameters always stay the same objects here."""


@contextlib.contextmanager
def set_cwd(path: str) -> Iterator[None]:
    """Run a block in another folder."""
    with contextlib.chdir(path):
        yield


@contextlib.contextmanager
def TemporaryFileName(*args: Any, **kwargs: Any) -> Iterator[str]:
    """Give the name of a temporary file, which is removed after the block."""
    handle, name = tempfile.mkstemp(*args, **kwargs)
    os.close(handle)
    try:
        yield name
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


@contextlib.contextmanager
def TemporaryDirectoryName(suffix: str | None = None) -> Iterator[str]:
    """Give the name of a temporary folder, which is removed after the block."""
    with tempfile.TemporaryDirectory(suffix=suffix) as name:
        yield name


class BytesIOContext(io.BytesIO):
    """A file in memory that stays open after its block."""

    def __exit__(self, *args: object) -> None:
        """Leave it open."""


class DeterministicGuard:
    """Run a block with the switch of determinism set."""

    def __init__(self, deterministic: bool, *, warn_only: bool = False, fill_uninitialized_memory: bool = True) -> None:
        self.deterministic, self.warn_only = deterministic, warn_only

    def __enter__(self) -> None:
        self.before = (
            settings.are_deterministic_algorithms_enabled(),
            settings.is_deterministic_algorithms_warn_only_enabled(),
        )
        settings.use_deterministic_algorithms(self.deterministic, warn_only=self.warn_only)

    def __exit__(self, *error: object) -> None:
        settings.use_deterministic_algorithms(self.before[0], warn_only=self.before[1])


def AlwaysWarnTypedStorageRemoval(always_warn: bool) -> Any:
    """Return a context that changes nothing: typed storages do not warn here."""
    return contextlib.nullcontext()


@contextlib.contextmanager
def swap(swap_values: Any) -> Iterator[None]:
    """Set attributes for a block: ``(object, name, value)`` each."""
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in swap_values]
    for owner, name, value in swap_values:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


def find_free_port() -> int:
    """Return a free port."""
    with contextlib.closing(socket.socket()) as listening:
        listening.bind(("localhost", 0))
        return int(listening.getsockname()[1])


def run_concurrently(
    worker_func: Callable[..., Any] | list[Callable[..., Any]],
    num_threads: int | None = None,
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
) -> None:
    """Run a function in several threads at once, or several functions in one each."""
    workers = worker_func if isinstance(worker_func, list) else [worker_func] * (num_threads or 1)
    ready = threading.Barrier(len(workers))
    errors: list[BaseException] = []

    def run(worker: Callable[..., Any]) -> None:
        ready.wait()
        try:
            worker(*args, **(kwargs or {}))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
