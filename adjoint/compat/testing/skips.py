"""Decorators that skip a test, or expect it to fail, if the machine lacks a requirement."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import time
import unittest
import warnings
from collections.abc import Callable
from typing import Any

from . import flags

__all__ = [
    "coalescedonoff", "gcIfJetson", "getRocmArchName", "getRocmVersion", "isRocmArchAnyOf", "is_navi3_arch",
    "lazy_skip_if", "make_dynamo_test", "markDynamoStrictTest", "recover_orig_fp32_precision",
    "requires_cuda_p2p_access", "retry", "retry_on_connect_failures", "runOnRocm", "runOnRocmArch",
    "runWithoutCompiledAutograd", "serialTest", "setBlasBackendsToDefaultFinally", "setLinalgBackendsToDefaultFinally",
    "setSdpaBackendsToDefaultFinally", "skipCUDAMemoryLeakCheckIf", "skipCUDANonDefaultStreamIf",
    "skipIfCachingAllocatorDisabled", "skipIfCompiledWithoutNumpy", "skipIfCrossRef", "skipIfFreeThreaded", "skipIfHpu",
    "skipIfHpu_BUGGY", "skipIfLegacyJitExecutor", "skipIfMPS", "skipIfNNModuleInlined", "skipIfNoLapack",
    "skipIfNoSciPy", "skipIfNoXNNPACK", "skipIfNoXPU", "skipIfNotMiopenSuggestNHWC", "skipIfNotRegistered",
    "skipIfPythonVersionMismatch", "skipIfRocm", "skipIfRocmArch", "skipIfRocmVersionLessThan", "skipIfRocm_BUGGY",
    "skipIfTorchDynamo", "skipIfTorchInductor", "skipIfWindows", "skipIfWindowsXPU", "skipIfXpu", "skipIfXpu_BUGGY",
    "skipRocmIfTorchInductor", "skip_but_pass_in_sandcastle", "skip_but_pass_in_sandcastle_if", "skip_exception_type",
    "skip_if_pytest", "slowTest", "slowTestIf", "suppress_warnings", "unMarkDynamoStrictTest",
    "with_ieee_matmul_precision", "wrapDeterministicFlagAPITest", "wrapSwapTensorsTest", "xfailIf", "xfailIfACL",
    "xfailIfLinux", "xfailIfNoAcceleratorTriton", "xfailIfPy312Plus", "xfailIfROCm", "xfailIfS390X",
    "xfailIfTorchDynamo", "xfailIfWindows", "xfail_inherited_tests", "xpassIfTorchDynamo_np",
]  # fmt: skip

Test = Callable[..., Any]


def _same(fn: Any) -> Any:
    return fn


def _either(func: Any, decorate: Callable[[Any], Any]) -> Any:
    """Return a decorated test, or the decorator where it was called without one."""
    return decorate(func) if callable(func) else decorate


def lazy_skip_if(condition_fn: Callable[[], bool], reason: str) -> Callable[[Test], Test]:
    """Leave a test out where, when it is about to run, a condition holds."""

    def decorate(fn: Any) -> Any:
        if isinstance(fn, type):
            return unittest.skipIf(condition_fn(), reason)(fn)

        @functools.wraps(fn)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if condition_fn():
                raise unittest.SkipTest(reason)
            return fn(*args, **kwargs)

        return wrapper

    return decorate


# --- What is never so here, and what always is --------------------------------------------------------


def _always_run(func: Any = None, *, msg: str = "") -> Any:
    """Leave a test as it is: the condition for skipping never holds here."""
    return _either(func, _same)


def _never_run(func: Any) -> Any:
    """Skip a test: its requirement is never met here."""
    return unittest.skip("needs what adjoint does not run on")(func)


def _takes_reason(msg: str = "", condition: bool = True) -> Callable[[Test], Test]:
    """Return a decorator that changes nothing."""
    return msg if callable(msg) else _same


skipIfRocm = skipIfRocm_BUGGY = skipIfXpu = skipIfXpu_BUGGY = skipIfWindowsXPU = _always_run
skipIfMPS = skipIfHpu = skipIfHpu_BUGGY = skipIfCrossRef = skipIfCompiledWithoutNumpy = _always_run
skipIfNoLapack = skipIfCachingAllocatorDisabled = gcIfJetson = with_ieee_matmul_precision = _always_run
runOnRocm = skipIfNoXNNPACK = skipIfNoXPU = skipIfNotMiopenSuggestNHWC = _never_run
skipIfTorchDynamo = skipIfTorchInductor = skipIfNNModuleInlined = skipIfLegacyJitExecutor = _takes_reason
skipRocmIfTorchInductor = runWithoutCompiledAutograd = _takes_reason
setLinalgBackendsToDefaultFinally = setBlasBackendsToDefaultFinally = setSdpaBackendsToDefaultFinally = _same
xfailIfNoAcceleratorTriton = recover_orig_fp32_precision = _same
xfailIfTorchDynamo = xpassIfTorchDynamo_np = xfailIfROCm = xfailIfACL = _same


def isRocmArchAnyOf(arch: tuple[str, ...]) -> bool:
    """Return False: there is no GPU of AMD's."""
    return False


is_navi3_arch = isRocmArchAnyOf


def getRocmVersion() -> tuple[int, int]:
    """Return (0, 0): ROCm is not used."""
    return (0, 0)


def getRocmArchName(device_index: int = 0) -> str:
    """Return the name of a GPU of AMD's: there is none."""
    return ""


def requires_cuda_p2p_access() -> Callable[[Test], Test]:
    """Leave a test out: no GPU here reads the memory of another."""
    return unittest.skip("cuda p2p access is not available")


def wrapSwapTensorsTest(swap: bool | None = None) -> Callable[[Test], Test]:
    """Leave a test as it is: parameters always stay the same objects here."""
    return _same


def coalescedonoff(f: Test) -> Test:
    """Run a test twice: with ``coalesced=True``, and with False."""

    @functools.wraps(f)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        f(self, *args, **kwargs, coalesced=True)
        f(self, *args, **kwargs, coalesced=False)

    return wrapper


def runOnRocmArch(arch: tuple[str, ...]) -> Callable[[Test], Test]:
    """Leave a test out: it is for AMD's GPUs."""
    return _never_run


def skipIfRocmArch(arch: tuple[str, ...]) -> Callable[[Test], Test]:
    """Leave a test as it is."""
    return _same


def skipIfRocmVersionLessThan(version: Any = None) -> Callable[[Test], Test]:
    """Leave a test as it is."""
    return _same


def skipIfNotRegistered(op_name: str, message: str) -> Callable[[Test], Test]:
    """Leave a test out: operators of Caffe2 are not registered here."""
    return unittest.skip(message)


# --- Conditions ---------------------------------------------------------------------------------------


def skipIfNoSciPy(fn: Test) -> Test:
    """Skip a test if SciPy is not installed."""
    return unittest.skipUnless(flags.TEST_SCIPY, "test require SciPy, but SciPy not found")(fn)


def skipIfWindows(func: Any = None, *, msg: str = "test doesn't currently work on the Windows stack") -> Any:
    """Leave a test out on Windows."""
    return _either(func, unittest.skipIf(flags.IS_WINDOWS, msg))


def skipIfPythonVersionMismatch(predicate: Callable[[Any], bool]) -> Callable[[Test], Test]:
    """Leave a test out unless a predicate holds of ``sys.version_info``."""
    return unittest.skipUnless(predicate(sys.version_info), "Python version mismatch")


def skipIfFreeThreaded(msg: str = "Test doesn't work with free-threaded python") -> Callable[[Test], Test]:
    """Skip a test if Python runs without the global lock."""
    locked = getattr(sys, "_is_gil_enabled", lambda: True)()
    return unittest.skipIf(not locked, msg)


def skip_but_pass_in_sandcastle(reason: str) -> Callable[[Test], Test]:
    """Leave a test out."""
    return unittest.skip(reason)


def skip_but_pass_in_sandcastle_if(condition: Any, reason: str) -> Callable[[Test], Test]:
    """Skip a test if a condition holds."""
    return unittest.skipIf(condition, reason)


def skip_if_pytest(fn: Test) -> Test:
    """Skip a test if pytest runs it."""
    return lazy_skip_if(lambda: "PYTEST_CURRENT_TEST" in os.environ, "does not work under pytest")(fn)


def skipCUDAMemoryLeakCheckIf(condition: Any) -> Callable[[Test], Test]:
    """Leave a test as it is: nothing checks the memory of GPUs around it."""
    return _same


skipCUDANonDefaultStreamIf = serialTest = skipCUDAMemoryLeakCheckIf


def slowTest(fn: Test) -> Test:
    """Run a test only where slow ones are selected, by ``PYTORCH_TEST_WITH_SLOW=1``."""
    reason = "test is slow; run with PYTORCH_TEST_WITH_SLOW to enable test"
    wrapped = unittest.skipUnless(flags.TEST_WITH_SLOW, reason)(fn)
    wrapped.slow_test = True  # type: ignore[attr-defined]
    return wrapped


def slowTestIf(condition: Any) -> Callable[[Test], Test]:
    """Mark a test as slow if a condition holds."""
    return slowTest if condition else _same


def xfailIf(condition: Any) -> Callable[[Test], Test]:
    """Expect a test to fail where a condition holds."""
    return unittest.expectedFailure if condition else _same


xfailIfLinux, xfailIfWindows = xfailIf(flags.IS_LINUX), xfailIf(flags.IS_WINDOWS)
xfailIfS390X, xfailIfPy312Plus = xfailIf(flags.IS_S390X), xfailIf(sys.version_info >= (3, 12))


def xfail_inherited_tests(tests: list[str]) -> Callable[[Any], Any]:
    """Expect tests that a class inherits to fail."""

    def decorate(cls: Any) -> Any:
        for name in tests:
            inherited = getattr(cls, name)

            def calling(self: Any, _inherited: Any = inherited) -> Any:
                return _inherited(self)

            setattr(cls, name, unittest.expectedFailure(calling))
        return cls

    return decorate


# --- How a test runs ----------------------------------------------------------------------------------


def markDynamoStrictTest(cls_or_func: Any = None, nopython: bool = False) -> Any:
    """Leave a test as it is: there is no Dynamo here."""
    return _either(cls_or_func, _same)


def unMarkDynamoStrictTest(cls: Any = None) -> Any:
    """Leave a test as it is."""
    return _either(cls, _same)


make_dynamo_test = unMarkDynamoStrictTest


def suppress_warnings(fn: Test) -> Test:
    """Run a test without its warnings."""

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return fn(*args, **kwargs)

    return wrapper


def skip_exception_type(exc_type: type[BaseException]) -> Any:
    """Return a context in which an exception means that the test is left out."""

    @contextlib.contextmanager
    def skipping() -> Any:
        try:
            yield
        except exc_type as error:
            raise unittest.SkipTest(f"not implemented: {error}") from error

    return skipping()


def retry(
    ExceptionToCheck: Any,
    tries: int = 3,
    delay: float = 3,
    skip_after_retries: bool = False,
) -> Callable[[Test], Test]:
    """Retry a test several times if it raises an exception."""

    def decorate(fn: Test) -> Test:
        @functools.wraps(fn)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            for left in range(tries - 1, -1, -1):
                try:
                    return fn(*args, **kwargs)
                except ExceptionToCheck as error:
                    if not left and skip_after_retries:
                        raise unittest.SkipTest(f"Skipping after {tries} consecutive {error!r}") from error
                    if not left:
                        raise
                    time.sleep(delay)
            return None

        return wrapper

    return decorate


def retry_on_connect_failures(func: Any = None, connect_errors: Any = "Address already in use") -> Any:
    """Retry a test if a port is in use."""
    return _either(func, retry((RuntimeError, OSError), tries=10, delay=0.1))


def wrapDeterministicFlagAPITest(fn: Test) -> Test:
    """Put the switches of determinism back after a test."""
    # The guard stands beside the other contexts, which need the flags of this package.
    from .contexts import DeterministicGuard

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with DeterministicGuard(False):
            return fn(*args, **kwargs)

    return wrapper
