"""What a test suite queries about the machine and about how it is run."""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
from typing import Any

from ... import cuda

__all__ = [
    "ACCELERATOR_TYPE", "ADDRESS_IN_USE", "ALLOW_XPU_PROFILING_TEST", "BUILD_WITH_CAFFE2", "CONNECT_TIMEOUT",
    "EXPANDABLE_SEGMENTS", "FILE_SCHEMA", "GRADCHECK_NONDET_TOL", "GRAPH_EXECUTOR", "IN_RE_WORKER", "IS_ARM64",
    "IS_AVX512_VNNI_SUPPORTED", "IS_CI", "IS_CPU_CAPABILITY_SVE", "IS_CPU_CAPABILITY_SVE256",
    "IS_CPU_EXT_SVE_SUPPORTED", "IS_FBCODE", "IS_FILESYSTEM_UTF8_ENCODING", "IS_JETSON", "IS_LINUX", "IS_MACOS",
    "IS_PPC", "IS_REMOTE_GPU", "IS_S390X", "IS_SANDCASTLE", "IS_WINDOWS", "IS_X86", "MACOS_VERSION", "MI200_ARCH",
    "MI300_ARCH", "MI350_ARCH", "NATIVE_DEVICES", "NAVI3_ARCH", "NAVI4_ARCH", "NAVI_ARCH", "NOTEST_CPU",
    "NO_MULTIPROCESSING_SPAWN", "OPINFO_SAMPLE_INPUT_INDEX", "PRINT_REPRO_ON_FAILURE", "RERUN_DISABLED_TESTS", "SEED",
    "TEST_ACCELERATOR", "TEST_ACL", "TEST_CUDA", "TEST_CUDA_CUDSS", "TEST_CUDA_GRAPH",
    "TEST_CUDA_GRAPH_CONDITIONAL_NODES", "TEST_CUDA_MEM_LEAK_CHECK", "TEST_CUDA_PYTHON_BINDINGS", "TEST_CUTEDSL",
    "TEST_DILL", "TEST_FAIRSEQ", "TEST_HPU", "TEST_LIBROSA", "TEST_MKL", "TEST_MPS", "TEST_MULTIACCELERATOR",
    "TEST_NUMBA", "TEST_NUMPY", "TEST_NVMATH", "TEST_ONEDNN", "TEST_OPT_EINSUM", "TEST_PRIVATEUSE1",
    "TEST_PRIVATEUSE1_DEVICE_TYPE", "TEST_SAVE_XML", "TEST_SCIPY", "TEST_SKIP_CUDAGRAPH", "TEST_SKIP_FAST",
    "TEST_TRANSFORMERS", "TEST_TRITON_DSL", "TEST_WITHOUT_COMPILED_AUTOGRAD", "TEST_WITH_AOT_EAGER", "TEST_WITH_ASAN",
    "TEST_WITH_CROSSREF", "TEST_WITH_DEV_DBG_ASAN", "TEST_WITH_MIOPEN_SUGGEST_NHWC", "TEST_WITH_MTIA", "TEST_WITH_ROCM",
    "TEST_WITH_SLOW", "TEST_WITH_SLOW_GRADCHECK", "TEST_WITH_TORCHDYNAMO", "TEST_WITH_TORCHINDUCTOR", "TEST_WITH_TSAN",
    "TEST_WITH_TV", "TEST_WITH_UBSAN", "TEST_XPU", "TEST_Z3", "USE_PYTEST", "LazyVal", "allocator_option_enabled_fn",
    "has_package", "has_pytest",
]  # fmt: skip


class LazyVal:
    """A flag that is computed when it is first read."""

    def __init__(self, cb: Any) -> None:
        self._ask = cb
        self._value: bool | None = None

    def __bool__(self) -> bool:
        if self._value is None:
            self._value = bool(self._ask())
        return bool(self._value)


def has_package(name: str) -> bool:
    """Return whether a package is installed, without importing it."""
    return importlib.util.find_spec(name) is not None


def allocator_option_enabled_fn(allocator_config: str, _: Any, option: str) -> bool:
    """Return whether a text of settings, ``a:True,b:False``, turns an option on."""
    settings = dict(part.split(":", 1) for part in allocator_config.split(",") if ":" in part)
    return settings.get(option) == "True"


def _asked(variable: str) -> bool:
    return os.environ.get(variable, "0") == "1"


IS_WINDOWS, IS_MACOS, IS_LINUX = sys.platform == "win32", sys.platform == "darwin", sys.platform == "linux"
_machine = platform.machine().lower()
IS_X86, IS_ARM64 = _machine in ("x86_64", "amd64", "i386"), _machine in ("arm64", "aarch64")
IS_PPC, IS_S390X = _machine == "ppc64le", _machine == "s390x"
IS_AVX512_VNNI_SUPPORTED = IS_CPU_CAPABILITY_SVE = IS_CPU_CAPABILITY_SVE256 = IS_CPU_EXT_SVE_SUPPORTED = False
IS_JETSON = IS_FBCODE = IS_SANDCASTLE = IS_REMOTE_GPU = IN_RE_WORKER = False
IS_CI = bool(os.environ.get("CI"))
IS_FILESYSTEM_UTF8_ENCODING = sys.getfilesystemencoding() == "utf-8"
MACOS_VERSION = float(".".join(platform.mac_ver()[0].split(".")[:2]) or -1) if IS_MACOS else -1.0
NATIVE_DEVICES = ("cpu", "cuda", "xpu", "meta", "mps", "mtia")
SEED = 1234
GRADCHECK_NONDET_TOL = 0.0  # gradients here are the same on every run
GRAPH_EXECUTOR = None
NOTEST_CPU = NO_MULTIPROCESSING_SPAWN = ALLOW_XPU_PROFILING_TEST = BUILD_WITH_CAFFE2 = False

EXPANDABLE_SEGMENTS = USE_PYTEST = TEST_SAVE_XML = PRINT_REPRO_ON_FAILURE = RERUN_DISABLED_TESTS = False
OPINFO_SAMPLE_INPUT_INDEX: int | None = None
FILE_SCHEMA, ADDRESS_IN_USE, CONNECT_TIMEOUT = "file://", "Address already in use", "connect() timed out."
MI200_ARCH, MI300_ARCH, MI350_ARCH = ("gfx90a",), ("gfx940", "gfx941", "gfx942"), ("gfx950",)
NAVI3_ARCH, NAVI4_ARCH = ("gfx1100", "gfx1101"), ("gfx1200", "gfx1201")
NAVI_ARCH = ("gfx1030", *NAVI3_ARCH, *NAVI4_ARCH)

TEST_NUMPY = True
has_pytest = has_package("pytest")
TEST_SCIPY, TEST_NUMBA, TEST_DILL = has_package("scipy"), has_package("numba"), has_package("dill")
TEST_LIBROSA, TEST_OPT_EINSUM = has_package("librosa"), has_package("opt_einsum")
TEST_FAIRSEQ, TEST_TRANSFORMERS, TEST_Z3 = has_package("fairseq"), has_package("transformers"), has_package("z3")
TEST_CUDA = cuda.is_available()
TEST_ACCELERATOR, ACCELERATOR_TYPE = TEST_CUDA, "cuda" if TEST_CUDA else None
TEST_CUDA_CUDSS = TEST_CUDA_GRAPH_CONDITIONAL_NODES = TEST_CUDA_PYTHON_BINDINGS = TEST_NVMATH = False
TEST_CUTEDSL = TEST_TRITON_DSL = TEST_SKIP_CUDAGRAPH = False
TEST_PRIVATEUSE1_DEVICE_TYPE = "privateuseone"
TEST_MULTIACCELERATOR = LazyVal(lambda: cuda.device_count() > 1)
TEST_CUDA_GRAPH = TEST_CUDA_MEM_LEAK_CHECK = TEST_MKL = TEST_ONEDNN = TEST_ACL = False
TEST_MPS = TEST_XPU = TEST_HPU = TEST_PRIVATEUSE1 = TEST_WITH_MTIA = False
TEST_WITH_ASAN = TEST_WITH_DEV_DBG_ASAN = TEST_WITH_TSAN = TEST_WITH_UBSAN = TEST_WITH_ROCM = False
TEST_WITH_TORCHDYNAMO = TEST_WITH_TORCHINDUCTOR = TEST_WITH_AOT_EAGER = TEST_WITH_CROSSREF = TEST_WITH_TV = False
TEST_WITHOUT_COMPILED_AUTOGRAD = TEST_WITH_MIOPEN_SUGGEST_NHWC = False
TEST_WITH_SLOW, TEST_SKIP_FAST = _asked("PYTORCH_TEST_WITH_SLOW"), _asked("PYTORCH_TEST_SKIP_FAST")
TEST_WITH_SLOW_GRADCHECK = _asked("PYTORCH_TEST_WITH_SLOW_GRADCHECK")
