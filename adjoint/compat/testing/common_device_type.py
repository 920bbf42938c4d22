"""Tests for each kind of device and dtype: `instantiate_device_type_tests`, `dtypes`, `onlyCPU`, `ops`."""

from __future__ import annotations

import enum
import functools
import inspect
import os
import unittest
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ...core import dtypes as kinds
from .case import TestCase
from .common_dtype import get_all_dtypes
from .flags import TEST_CUDA
from .parametrization import (
    Variant,
    _TestParametrizer,
    bound,
    dtype_name,
    no_decorators,
    variants_of,
)

__all__ = [
    "CPUTestBase", "CUDATestBase", "DeviceTypeTestBase", "OpDTypes", "deviceCountAtLeast", "disableMkldnn",
    "disablecuDNN", "dtypes", "dtypesIfCPU", "dtypesIfCUDA", "dtypesIfMPS", "dtypesIfXPU", "expectedFailure",
    "expectedFailureCPU", "expectedFailureCUDA", "expectedFailureMPS", "expectedFailureMeta", "expectedFailureXLA",
    "expectedFailureXPU", "get_all_device_types", "instantiate_device_type_tests", "largeTensorTest", "onlyAccelerator",
    "onlyCPU", "onlyCUDA", "onlyMPS", "onlyNativeDeviceTypes", "onlyNativeDeviceTypesAnd", "onlyOn", "onlyXPU", "ops",
    "precisionOverride", "skipCPUIf", "skipCPUIfNoFFT", "skipCPUIfNoLapack", "skipCPUIfNoMkl", "skipCPUIfNoMklSparse",
    "skipCPUIfNoMkldnn", "skipCUDAIf", "skipCUDAIfNoCudnn", "skipCUDAIfNoCusolver", "skipCUDAIfNoMagma",
    "skipCUDAIfNoMagmaAndNoCusolver", "skipCUDAIfRocm", "skipGPUIf", "skipIf", "skipLazy", "skipLazyIf", "skipMPS",
    "skipMPSIf", "skipMeta", "skipMetaIf", "skipXLA", "skipXLAIf", "skipXPU", "skipXPUIf", "tol", "toleranceOverride",
]  # fmt: skip

Test = Callable[..., Any]


# --- The classes --------------------------------------------------------------------------------------


class DeviceTypeTestBase(TestCase):
    """A test case whose tests run on one kind of device."""

    __test__ = False
    device_type: str = "generic_device_type"

    @classmethod
    def get_primary_device(cls) -> str:
        """Return the device that tests are given."""
        return cls.device_type

    @classmethod
    def get_all_devices(cls) -> list[str]:
        """Return all devices of this kind."""
        return [cls.get_primary_device()]

    @classmethod
    def _init_and_get_primary_device(cls) -> str:
        return cls.get_primary_device()


class CPUTestBase(DeviceTypeTestBase):
    """Tests that run on the CPU."""

    __test__ = False
    device_type = "cpu"


class CUDATestBase(DeviceTypeTestBase):
    """Tests that run on a GPU."""

    __test__ = False
    device_type = "cuda"

    @classmethod
    def get_primary_device(cls) -> str:
        """Return the first GPU."""
        return "cuda:0"


# By which a program that runs a suite chooses kinds of device: names with commas between them.
PYTORCH_TESTING_DEVICE_ONLY_FOR_KEY = "PYTORCH_TESTING_DEVICE_ONLY_FOR"
PYTORCH_TESTING_DEVICE_EXCEPT_FOR_KEY = "PYTORCH_TESTING_DEVICE_EXCEPT_FOR"
device_type_test_bases = [CPUTestBase, *([CUDATestBase] if TEST_CUDA else [])]


def get_device_type_test_bases() -> list[Any]:
    """Return the classes of the kinds of device that there are."""
    return list(device_type_test_bases)


def filter_desired_device_types(device_type_test_bases: Any, except_for: Any = None, only_for: Any = None) -> list[Any]:
    """Return those of several classes whose kind of device a test is for."""
    found = [b for b in device_type_test_bases if except_for is None or b.device_type not in _named(except_for)]
    return [b for b in found if only_for is None or b.device_type in _named(only_for)]


def get_desired_device_type_test_bases(
    except_for: Any = None,
    only_for: Any = None,
    include_lazy: bool = False,
    allow_mps: bool = False,
    allow_xpu: bool = False,
    include_meta: bool = False,
    allow_hpu: bool = False,
) -> list[Any]:
    """Return the classes of the kinds of device that a test and the runner of the suite select."""
    found = filter_desired_device_types(device_type_test_bases, except_for, only_for)
    only, without = (
        [name for name in os.environ.get(key, "").split(",") if name] or None
        for key in (PYTORCH_TESTING_DEVICE_ONLY_FOR_KEY, PYTORCH_TESTING_DEVICE_EXCEPT_FOR_KEY)
    )
    return filter_desired_device_types(found, without, only)


def get_all_device_types() -> list[str]:
    """Return the kinds of device that there are."""
    return [base.device_type for base in device_type_test_bases]


def _named(devices: Any) -> tuple[str, ...]:
    return (devices,) if isinstance(devices, str) else tuple(devices)


def instantiate_device_type_tests(
    generic_test_class: Any,
    scope: dict[str, Any],
    except_for: Any = None,
    only_for: Any = None,
    include_lazy: bool = False,
    allow_mps: bool = False,
    allow_xpu: bool = False,
    include_meta: bool = False,
    allow_hpu: bool = False,
) -> None:
    """Put in the place of a class of tests one for each kind of device, each test in its variants.

    A test takes the device as its argument, and whatever its decorators give: the dtype, say.
    """
    name = generic_test_class.__name__
    scope.pop(name, None)
    generic_test_class.__test__ = False
    members = set(dir(generic_test_class)) - set(dir(TestCase))
    tests = {n: getattr(generic_test_class, n) for n in members if n.startswith("test")}
    for test_name in tests:
        if test_name in vars(generic_test_class):
            delattr(generic_test_class, test_name)
    for base in get_desired_device_type_test_bases(except_for, only_for):
        kind = base.device_type
        made: Any = type(f"{name}{kind.upper()}", (base, generic_test_class), {"__test__": True})
        made.__module__ = generic_test_class.__module__
        for test_name, test in tests.items():
            _instantiate(made, generic_test_class, test_name, test)
        scope[made.__name__] = made


def _instantiate(cls: Any, generic: Any, name: str, test: Any) -> None:
    """Give a class the variants of a test for its kind of device."""
    if not inspect.isfunction(test):
        setattr(cls, name, test)
        return
    variants: Any = variants_of(test, generic, cls)
    chosen = _dtypes_of(test, cls.device_type)
    for made, suffix, kwargs, decorators in variants:
        for given in chosen if chosen is not None and "dtype" not in kwargs else [None]:
            more = {} if given is None else {("dtypes" if isinstance(given, tuple) else "dtype"): given}
            dtype = kwargs.get("dtype", given)
            names = [name, suffix, cls.device_type, "" if dtype is None else _dtype_test_suffix(dtype)]
            if "dtype" in kwargs and suffix.endswith(dtype_name(dtype)):
                # What `ops` and its like yield ends in the dtype; the device stands before it.
                names[1] = suffix.removesuffix(dtype_name(dtype)).rstrip("_")
            full = "_".join(part for part in names if part)
            variant = _on_device(bound(made, {**kwargs, **more}, decorators({**kwargs, **more})), test, dtype)
            variant.__name__, variant.__qualname__ = full, f"{cls.__qualname__}.{full}"
            setattr(cls, full, variant)


def _dtype_test_suffix(dtype: Any) -> str:
    return "_".join(dtype_name(d) for d in dtype) if isinstance(dtype, list | tuple) else dtype_name(dtype)


def _update_param_kwargs(param_kwargs: dict[str, Any], name: str, value: Any) -> None:
    """Give a test an argument in the place of one of that name; several values go by the plural."""
    param_kwargs.pop(name, None)
    param_kwargs.pop(f"{name}s", None)
    if value is not None:
        param_kwargs[f"{name}s" if isinstance(value, list | tuple) else name] = value


def _dtypes_of(test: Any, kind: str) -> list[Any] | None:
    found: dict[str, list[Any]] = getattr(test, "dtypes", {})
    return found.get(kind, found.get("all"))


def _on_device(variant: Any, test: Any, dtype: Any) -> Any:
    """Return a test that is given its device, with the tolerances of its dtype."""

    @functools.wraps(variant)
    def run(self: Any) -> Any:
        before = self.precision, self.rel_tol
        self.precision = max(self.precision, getattr(test, "precision_overrides", {}).get(dtype, 0))
        tolerance = getattr(test, "tolerance_overrides", {}).get(dtype)
        if tolerance is not None:
            self.precision, self.rel_tol = max(self.precision, tolerance.atol), max(self.rel_tol, tolerance.rtol)
        several = getattr(test, "num_required_devices", None)
        device = self.get_primary_device()
        try:
            if several is None:
                return variant(self, device)
            devices = self.get_all_devices()
            if len(devices) < several:
                self.skipTest(f"fewer than {several} devices detected")
            return variant(self, devices)
        finally:
            self.precision, self.rel_tol = before

    del run.__wrapped__
    return run


# --- dtypes and tolerances ----------------------------------------------------------------------------


class dtypes:
    """Run a test once for each of several dtypes, which it is given as ``dtype``."""

    def __init__(self, *args: Any, device_type: str = "all") -> None:
        several = len(args) == 1 and isinstance(args[0], list | tuple) and type(args[0]) is list
        self.args, self.device_type = (list(args[0]) if several else list(args)), device_type

    def __call__(self, fn: Test) -> Test:
        """Note the dtypes on a test."""
        noted = dict(getattr(fn, "dtypes", {}))
        if self.device_type in noted:
            raise AssertionError(f"dtypes redefinition for {self.device_type}")
        noted[self.device_type] = self.args
        fn.dtypes = noted  # type: ignore[attr-defined]
        return fn


def _dtypes_if(kind: str) -> Callable[..., dtypes]:
    def decorator(*args: Any) -> dtypes:
        """Run a test on one kind of device once for each of several dtypes."""
        return dtypes(*args, device_type=kind)

    return decorator


dtypesIfCPU, dtypesIfCUDA, dtypesIfMPS = _dtypes_if("cpu"), _dtypes_if("cuda"), _dtypes_if("mps")
dtypesIfXPU, dtypesIfHPU, dtypesIfPRIVATEUSE1 = _dtypes_if("xpu"), _dtypes_if("hpu"), _dtypes_if("privateuse1")


class precisionOverride:
    """Compare with greater absolute tolerances: a dict from dtypes."""

    def __init__(self, d: dict[Any, float]) -> None:
        self.d = d

    def __call__(self, fn: Any) -> Any:
        """Note the tolerances on a test."""
        fn.precision_overrides = self.d
        return fn


class tol(NamedTuple):
    """An absolute and a relative tolerance."""

    atol: float
    rtol: float


class toleranceOverride:
    """Compare with greater tolerances: a dict from dtypes to `tol`."""

    def __init__(self, d: dict[Any, tol]) -> None:
        self.d = d

    def __call__(self, fn: Any) -> Any:
        """Note the tolerances on a test."""
        fn.tolerance_overrides = self.d
        return fn


# --- By kind of device --------------------------------------------------------------------------------


def _kind_of(self: Any, args: tuple[Any, ...]) -> str:
    kind = getattr(self, "device_type", None)
    return str(kind if kind is not None else (args[0] if args else "cpu")).partition(":")[0]


def _before(check: Callable[[Any, str], None]) -> Callable[[Test], Test]:
    """Return a decorator that runs a check before a test, which may leave it out."""

    def decorate(fn: Any) -> Any:
        @functools.wraps(fn)
        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            check(self, _kind_of(self, args))
            return fn(self, *args, **kwargs)

        return wrapper

    return decorate


class skipIf:
    """Leave a test out, on one kind of device or on all, where a condition holds.

    The condition may be a value, the name of an attribute of the test case, or a function.
    """

    def __init__(self, dep: Any, reason: str, device_type: Any = None) -> None:
        self.dep, self.reason, self.device_type = dep, reason, device_type

    def _check(self, case: Any, kind: str) -> None:
        if self.device_type is not None and kind not in _named(self.device_type):
            return
        holds = getattr(case, self.dep, True) if isinstance(self.dep, str) else self.dep
        if holds() if callable(holds) else holds:
            raise unittest.SkipTest(self.reason)

    def __call__(self, fn: Test) -> Test:
        """Decorate a test."""
        return _before(self._check)(fn)


def _skip_on(device_type: Any) -> Callable[[Any, str], skipIf]:
    def decorator(dep: Any, reason: str) -> skipIf:
        """Skip a test on one kind of device if a condition holds."""
        return skipIf(dep, reason, device_type)

    return decorator


skipCPUIf, skipCUDAIf, skipMPSIf, skipXPUIf = _skip_on("cpu"), _skip_on("cuda"), _skip_on("mps"), _skip_on("xpu")
skipMetaIf, skipXLAIf, skipLazyIf, skipHPUIf = _skip_on("meta"), _skip_on("xla"), _skip_on("lazy"), _skip_on("hpu")
skipPRIVATEUSE1If, skipGPUIf = _skip_on("privateuse1"), _skip_on(("cuda", "mps", "xpu"))
skipMPS, skipXPU, skipMeta = skipMPSIf(True, "not on MPS"), skipXPUIf(True, "not on XPU"), skipMetaIf(True, "not meta")
skipXLA, skipLazy, skipHPU = skipXLAIf(True, "not on XLA"), skipLazyIf(True, "not lazy"), skipHPUIf(True, "not on HPU")
skipCPUIfNoMkl = skipCPUIfNoMklSparse = skipCPUIfNoMkldnn = skipCPUIf(True, "there is no MKL here")
skipCUDAIfNoCudnn = skipCUDAIf(True, "cuDNN is not used")
skipCUDAIfNoMiopen = skipCUDAIfNotMiopenSuggestNHWC = skipCUDAIf(True, "MIOpen is not used")
skipCUDAIfNotRocm = skipCUDAIf(True, "ROCm is not used")
skipCUDAIfNoCusparseGeneric = skipCUDAIfNoHipsparseGeneric = skipCUDAIf(True, "cuSPARSE is not used")
skipCUDAIfNoSparseGeneric = skipCUDAIfNoCusparseGeneric
skipPRIVATEUSE1 = skipPRIVATEUSE1If(True, "not on PRIVATEUSE1")


def _same(fn: Any) -> Any:
    return fn


def _same_or_decorator(func: Any = None, *, msg: str = "") -> Any:
    """Leave a test as it is: the condition for skipping never holds here."""
    return _same if func is None else func


skipCPUIfNoLapack = skipCPUIfNoFFT = disableMkldnn = disablecuDNN = skipCUDAIfNoMagma = skipCUDAIfNoCusolver = _same
skipCUDAIfNoCusolverROCMIfNoMagma = skipCUDAIfNoMagmaAndNoCusolver = skipCUDAIfNoMagmaAndNoLinalgsolver = (
    skipCUDAIfMiopen
) = _same
skipCUDAIfRocm = _same_or_decorator


def _takes_versions(versions: Any = None) -> Callable[[Test], Test]:
    """Leave a test as it is: no version of CUDA, cuDNN or ROCm makes a difference here."""
    return _same


skipCUDAVersionIn = skipCUDAIfVersionLessThan = skipCUDAIfCudnnVersionLessThan = _takes_versions
skipCUDAIfRocmVersionLessThan = skipCUDAIfRocmHipBlasltVersionLessThan = _takes_versions


def has_cusolver() -> bool:
    """Return False: cuSOLVER is CuPy's affair."""
    return False


has_hipsolver = has_cusolver


class onlyOn:
    """Run a test on some kinds of device alone."""

    def __init__(self, device_type: Any) -> None:
        self.device_type = device_type

    def _check(self, case: Any, kind: str) -> None:
        if kind not in _named(self.device_type):
            raise unittest.SkipTest(f"Only runs on {self.device_type}")

    def __call__(self, fn: Test) -> Test:
        """Decorate a test."""
        return _before(self._check)(fn)


onlyCPU, onlyCUDA, onlyMPS, onlyXPU = onlyOn("cpu"), onlyOn("cuda"), onlyOn("mps"), onlyOn("xpu")
onlyCUDAAndPRIVATEUSE1 = onlyOn(("cuda", "privateuse1"))
onlyHPU, onlyPRIVATEUSE1, onlyAccelerator = onlyOn("hpu"), onlyOn("privateuse1"), onlyOn(("cuda", "mps", "xpu"))


def onlyNativeDeviceTypes(fn: Test) -> Test:
    """Leave a test as it is: all devices here are native ones of torch."""
    return fn


def onlyNativeDeviceTypesAnd(devices: Any = None) -> Callable[[Test], Test]:
    """Leave a test as it is."""
    return _same


class deviceCountAtLeast:
    """Give a test all devices of a kind, where there are enough of them."""

    def __init__(self, num_required_devices: int) -> None:
        self.num_required_devices = num_required_devices

    def __call__(self, fn: Any) -> Any:
        """Note the number on a test."""
        fn.num_required_devices = self.num_required_devices
        return fn


class expectedFailure:
    """Expect a test to fail on one kind of device."""

    def __init__(self, device_type: str, dtype: Any = None) -> None:
        self.device_type, self.dtype = device_type, dtype

    def __call__(self, fn: Test) -> Test:
        """Decorate a test."""

        @functools.wraps(fn)
        def wrapper(self_: Any, *args: Any, **kwargs: Any) -> Any:
            meant = _kind_of(self_, args) == self.device_type and self.dtype in (None, kwargs.get("dtype"))
            if not meant:
                return fn(self_, *args, **kwargs)
            try:
                fn(self_, *args, **kwargs)
            except unittest.SkipTest:
                raise
            except Exception:
                return None
            self_.fail("expected test to fail, but it passed")
            return None

        return wrapper


expectedFailureCPU, expectedFailureCUDA = expectedFailure("cpu"), expectedFailure("cuda")
expectedFailureMPS, expectedFailureXPU = expectedFailure("mps"), expectedFailure("xpu")
expectedFailureMeta, expectedFailureXLA = expectedFailure("meta"), expectedFailure("xla")
expectedFailureHPU = expectedFailure("hpu")
expectedFailureMPSComplex = expectedFailureMPSPre14 = expectedFailureMPSPre15 = expectedFailureMPS


def largeTensorTest(size: Any, device: Any = None, inductor: bool = False) -> Callable[[Test], Test]:
    """Skip a test if the machine has less than `size` bytes (a number, or a text such as "4 GB") of free memory."""
    units = {"GB": 1 << 30, "MB": 1 << 20, "KB": 1 << 10}
    needed = int(float(size[:-2]) * units[size[-2:].upper()]) if isinstance(size, str) else None

    def check(case: Any, kind: str) -> None:
        wanted = needed if needed is not None else size(case, kind) if callable(size) else int(size)
        if wanted > _free_memory():
            raise unittest.SkipTest(f"Insufficient {kind} memory")

    return _before(check)


def _free_memory() -> int:
    try:
        return int(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):  # not every system has these
        return 1 << 32


# --- Tables of operators ------------------------------------------------------------------------------


class OpDTypes(enum.Enum):
    """Which dtypes of an operator a test runs on."""

    supported = 0
    unsupported = 1
    supported_backward = 2
    unsupported_backward = 3
    any_one = 4
    none = 5
    any_common_cpu_cuda_one = 6


ANY_DTYPE_ORDER = (
    kinds.float32, kinds.float64, kinds.complex64, kinds.complex128, kinds.float16, kinds.bfloat16, kinds.int64,
    kinds.int32, kinds.int16, kinds.int8, kinds.uint8, kinds.bool_, kinds.float8_e4m3fn, kinds.float8_e5m2,
)  # fmt: skip


class ops(_TestParametrizer):
    """Run a test for each operator of a table, and each dtype that the operator says it takes.

    An entry has a `name` and a method `supported_dtypes(device_type)`; its `decorators`, if any, are applied.
    """

    def __init__(
        self,
        op_list: Any,
        *,
        dtypes: OpDTypes | Sequence[Any] = OpDTypes.supported,
        allowed_dtypes: Sequence[Any] | None = None,
        skip_if_dynamo: bool = True,
    ) -> None:
        self.op_list, self.opinfo_dtypes = list(op_list), dtypes
        self.allowed_dtypes = None if allowed_dtypes is None else set(allowed_dtypes)

    def _dtypes(self, op: Any, kind: str) -> list[Any]:
        asked = self.opinfo_dtypes
        if asked is OpDTypes.none:
            return [None]
        backward = asked in (OpDTypes.supported_backward, OpDTypes.unsupported_backward)
        taken = set(op.supported_backward_dtypes(kind) if backward else op.supported_dtypes(kind))
        if not isinstance(asked, OpDTypes):
            found = set(asked)
        elif asked in (OpDTypes.unsupported, OpDTypes.unsupported_backward):
            found = set(get_all_dtypes()) - taken
        else:
            found = taken
        if self.allowed_dtypes is not None:
            found &= self.allowed_dtypes
        if asked in (OpDTypes.any_one, OpDTypes.any_common_cpu_cuda_one):
            return [d for d in ANY_DTYPE_ORDER if d in found][:1]
        return sorted(found, key=str)

    def _parametrize_test(self, test: Any, generic_cls: Any, device_cls: Any) -> Iterator[Variant]:
        if device_cls is None:
            raise RuntimeError("The @ops decorator is only intended to be used in a device-specific context")
        for op in self.op_list:
            name = getattr(op, "formatted_name", op.name.replace(".", "_"))
            for dtype in self._dtypes(op, device_cls.device_type):
                kwargs = {"op": op} if dtype is None else {"op": op, "dtype": dtype}
                suffix = name if dtype is None else f"{name}_{dtype_name(dtype)}"
                yield test, suffix, kwargs, _decorators_of(op, test, generic_cls, device_cls.device_type, dtype)


def _decorators_of(op: Any, test: Any, generic: Any, kind: str, dtype: Any) -> Callable[[dict[str, Any]], Any]:
    ask = getattr(op, "get_decorators", None)
    if ask is None:
        return no_decorators
    return lambda kwargs: ask(generic.__name__, test.__name__, kind, dtype, kwargs)
