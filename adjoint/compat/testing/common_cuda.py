"""Queries of tests for GPUs: which GPUs there are, and what they support."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from ... import cuda
from ...core.device import device
from ...nn import Linear, MSELoss, Sequential
from ...ops.random import rand
from ...optim import SGD
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
IS_JETSON = IS_THOR = IS_SM89 = IS_SM90 = IS_SM100 = IS_SM10X = IS_SM12X = False
CDNA2OrLater = CDNA3OrLater = lambda: False

# Fused kernels of torch's; what computes here does not depend on them.
PLATFORM_SUPPORTS_FLASH_ATTENTION = PLATFORM_SUPPORTS_MEM_EFF_ATTENTION = PLATFORM_SUPPORTS_CUDNN_ATTENTION = False
PLATFORM_SUPPORTS_FUSED_ATTENTION = PLATFORM_SUPPORTS_FUSED_SDPA = PLATFORM_SUPPORTS_CK_SDPA = False
PLATFORM_SUPPORTS_FP8 = PLATFORM_SUPPORTS_FP8_GROUPED_GEMM = PLATFORM_SUPPORTS_MX_GEMM = False
PLATFORM_SUPPORTS_GREEN_CONTEXT = PLATFORM_SUPPORTS_WORKQUEUE_CONFIG = PLATFORM_SUPPORTS_FP8_SPARSE = False
PLATFORM_SUPPORTS_MXFP8_GROUPED_GEMM = PLATFORM_SUPPORTS_BF16_ATOMICS = PLATFORM_SUPPORTS_HALF_ATOMICS = False
PLATFORM_SUPPORTS_BF16 = SM80OrLater


def initialize_cuda_context_rng() -> None:
    """Do nothing: random numbers are generated on the CPU."""


def _get_torch_cuda_version() -> tuple[int, int]:
    """Return the version of CUDA, (0, 0) where there is none."""
    return (0, 0)


def _get_torch_rocm_version() -> tuple[int, int]:
    """Return (0, 0): ROCm is not used."""
    return (0, 0)


_get_torch_hipblaslt_version = _get_magma_version = _get_torch_rocm_version


@contextlib.contextmanager
def blas_library_context(backend: Any) -> Iterator[None]:
    """Enclose a block; there is no choice between libraries here."""
    yield


def _create_scaling_models_optimizers(
    device: Any = "cuda", optimizer_ctor: Any = SGD, optimizer_kwargs: dict[str, Any] | None = None
) -> tuple[Any, ...]:
    """Return two models with equal weights, and an optimizer for each."""
    models = [Sequential(Linear(8, 8), Linear(8, 8)).to(device) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    options = {"lr": 1.0, **(optimizer_kwargs or {})}
    return *models, *(optimizer_ctor(model.parameters(), **options) for model in models)


def _create_scaling_case(
    device: Any = "cuda", dtype: Any = None, optimizer_ctor: Any = SGD, optimizer_kwargs: Any = None
) -> tuple[Any, ...]:
    """Return two models and their optimizers, four batches, a loss, and the batch to leave out."""
    batches = [tuple(rand(8, 8, dtype=dtype, device=device) for _ in range(2)) for _ in range(4)]
    made = _create_scaling_models_optimizers(device, optimizer_ctor, optimizer_kwargs)
    return *made, batches, MSELoss().to(device), 2


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


xfailIfSM89PreCUDA13 = xfailIfSM12X = xfailIfDistributedNotSupported = xfailCUDAIfSM89OrLaterOnWindows = with_tf32_off
xfailIfSM89 = xfailIfSM90 = xfailIfSM100OrLater = xfailIfSM120OrLater = with_tf32_off
