"""What tests for GPUs ask: which there are, and what they can do."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from ... import cuda
from ...core.device import device
from .flags import IS_MACOS, IS_WINDOWS, TEST_CUDA, TEST_NUMBA, TEST_WITH_ROCM, TEST_XPU, LazyVal

__all__ = ["CUDA_DEVICE", "IS_MACOS", "IS_WINDOWS", "TEST_CUDA", "TEST_NUMBA", "TEST_WITH_ROCM", "TEST_XPU"]

CUDA_DEVICE = device("cuda:0") if TEST_CUDA else None
CUDA_ALREADY_INITIALIZED_ON_IMPORT = False
TEST_MULTIGPU = LazyVal(lambda: cuda.device_count() > 1)
TEST_NUMBA_CUDA = TEST_CUDNN = TEST_MAGMA = TEST_CUSPARSE_GENERIC = TEST_HIPSPARSE_GENERIC = False
TEST_CUDNN_VERSION = 0
TRITON_PTXAS_VERSION = (0, 0)
ROCM_VERSION = (0, 0)


def _capable(major: int, minor: int) -> LazyVal:
    return LazyVal(lambda: TEST_CUDA and cuda.get_device_capability() >= (major, minor))


SM53OrLater, SM60OrLater, SM70OrLater = _capable(5, 3), _capable(6, 0), _capable(7, 0)
SM75OrLater, SM80OrLater, SM89OrLater = _capable(7, 5), _capable(8, 0), _capable(8, 9)
SM90OrLater, SM100OrLater, SM120OrLater = _capable(9, 0), _capable(10, 0), _capable(12, 0)
IS_JETSON = IS_THOR = IS_SM89 = IS_SM90 = IS_SM100 = False

# Fused kernels of torch's; what computes here does not depend on them.
PLATFORM_SUPPORTS_FLASH_ATTENTION = PLATFORM_SUPPORTS_MEM_EFF_ATTENTION = PLATFORM_SUPPORTS_CUDNN_ATTENTION = False
PLATFORM_SUPPORTS_FUSED_ATTENTION = PLATFORM_SUPPORTS_FUSED_SDPA = PLATFORM_SUPPORTS_CK_SDPA = False
PLATFORM_SUPPORTS_FP8 = PLATFORM_SUPPORTS_FP8_GROUPED_GEMM = PLATFORM_SUPPORTS_MX_GEMM = False
PLATFORM_SUPPORTS_BF16 = SM80OrLater


def initialize_cuda_context_rng() -> None:
    """Do nothing: random numbers here are the host's."""


def _get_torch_cuda_version() -> tuple[int, int]:
    """Return the version of CUDA, (0, 0) where there is none."""
    return (0, 0)


def _get_torch_rocm_version() -> tuple[int, int]:
    """Return (0, 0): ROCm is not used."""
    return (0, 0)


@contextlib.contextmanager
def tf32_off() -> Iterator[None]:
    """Enclose a block; products of single precision are never rounded to TF32 here."""
    yield


@contextlib.contextmanager
def tf32_on(self: Any, tf32_precision: float = 1e-5) -> Iterator[None]:
    """Run a block with the tolerance that TF32 would need."""
    before, self.precision = self.precision, tf32_precision
    try:
        yield
    finally:
        self.precision = before


tf32_enabled = tf32_off


def tf32_on_and_off(tf32_precision: float = 1e-5, *, only_if: bool = True) -> Callable[[Any], Any]:
    """Leave a test as it is: there is no TF32 to switch."""
    return lambda fn: fn


def with_tf32_off(f: Any) -> Any:
    """Leave a test as it is."""
    return f


xfailIfSM89 = xfailIfSM90 = xfailIfSM100OrLater = xfailIfSM120OrLater = with_tf32_off
