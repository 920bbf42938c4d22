"""Which GPUs there are, and which one is in use; CuPy is imported only where it is installed."""

from __future__ import annotations

import functools
from importlib.util import find_spec
from typing import Any

from ..core import device as places

__all__ = [
    "DeferredCudaCallError", "OutOfMemoryError", "current_device", "device", "device_count", "device_of",
    "get_device_capability", "get_device_name", "get_device_properties", "init", "ipc_collect", "is_available",
    "is_bf16_supported", "is_initialized", "set_device", "synchronize",
]  # fmt: skip


class OutOfMemoryError(RuntimeError):
    """A GPU has no memory left."""


class DeferredCudaCallError(Exception):
    """A call that waited for the GPU to be initialised failed; here calls never wait."""


@functools.cache
def module() -> Any:
    """Return CuPy where it is installed and finds a GPU, else None."""
    if find_spec("cupy") is None:
        return None
    try:
        # Only machines that have it pay for this import, and only programs that ask.
        import cupy

        return cupy if cupy.cuda.runtime.getDeviceCount() > 0 else None
    except Exception:  # no driver, no device, a broken install: all mean the same here
        return None


def required() -> Any:
    """Return CuPy, or explain why there is no GPU to use."""
    cupy = module()
    if cupy is None:
        raise RuntimeError(
            "CUDA is not available: no GPU was found through CuPy; pip install adjoint[cuda] on a machine that has one"
        )
    return cupy


def index_of(device: Any) -> int:
    """Return the number of a GPU named in any way; None means the one in use."""
    if device is None:
        return current_device()
    if isinstance(device, int):
        return device
    place = places.device(device)
    if place.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {place}")
    return current_device() if place.index is None else place.index


def is_available() -> bool:
    """Return whether tensors can be put on a GPU.

    Examples
    --------
    >>> adjoint.cuda.is_available() in (True, False)
    True
    """
    return module() is not None


def device_count() -> int:
    """Return the number of GPUs."""
    cupy = module()
    return 0 if cupy is None else int(cupy.cuda.runtime.getDeviceCount())


def current_device() -> int:
    """Return the number of the GPU in use."""
    return int(required().cuda.runtime.getDevice())


def set_device(device: Any) -> None:
    """Use another GPU from now on."""
    required().cuda.Device(index_of(device)).use()


class device:
    """A context in which another GPU is in use."""

    def __init__(self, device: Any) -> None:
        self.idx = index_of(device) if module() is not None else -1
        self._context: Any = None

    def __enter__(self) -> None:
        if self.idx >= 0:
            self._context = required().cuda.Device(self.idx)
            self._context.__enter__()

    def __exit__(self, *error: object) -> None:
        if self._context is not None:
            self._context.__exit__(*error)


class device_of(device):
    """A context in which the GPU of a tensor is in use; of a tensor on the host, none."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else 0)
        if not obj.is_cuda:
            self.idx = -1


def synchronize(device: Any = None) -> None:
    """Wait until the GPU has done all it was given."""
    required().cuda.Device(index_of(device)).synchronize()


def init() -> None:
    """Do nothing: CuPy initialises the GPU when it is first used."""


def is_initialized() -> bool:
    """Return whether the GPU was looked for and found."""
    return module.cache_info().currsize > 0 and module() is not None


def ipc_collect() -> None:
    """Do nothing: memory is not shared between processes."""


def _properties(device: Any) -> dict[str, Any]:
    found: dict[str, Any] = required().cuda.runtime.getDeviceProperties(index_of(device))
    return found


def get_device_name(device: Any = None) -> str:
    """Return the name of a GPU."""
    return str(_properties(device)["name"].decode())


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """Return the compute capability of a GPU."""
    found = _properties(device)
    return int(found["major"]), int(found["minor"])


class _Properties:
    """What `get_device_properties` returns."""

    def __init__(self, found: dict[str, Any]) -> None:
        self.name = found["name"].decode()
        self.major, self.minor = int(found["major"]), int(found["minor"])
        self.total_memory = int(found["totalGlobalMem"])
        self.multi_processor_count = int(found["multiProcessorCount"])
        self.warp_size = int(found["warpSize"])

    def __repr__(self) -> str:
        size = self.total_memory // 2**20
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={size}MB, multi_processor_count={self.multi_processor_count})"
        )


def get_device_properties(device: Any = None) -> _Properties:
    """Return name, memory and other properties of a GPU."""
    return _Properties(_properties(device))


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return whether the GPU in use computes with bfloat16."""
    return is_available() and (including_emulation or get_device_capability()[0] >= 8)
