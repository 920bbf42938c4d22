"""`TestCase`: unittest's, with an `assertEqual` for tensors and further assertions."""

from __future__ import annotations

import contextlib
import re
import unittest
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np

from ...core.tensor import TensorBase
from ...ops import create, namespace
from ...ops.random import manual_seed
from ...sparse import sparse_coo_tensor
from ...testing.comparison import Failure, Options, compare, message_of
from ...testing.creation import make_tensor
from .expectations import AssertRaisesContextIgnoreNotImplementedError, Expectations
from .flags import SEED, TEST_SKIP_FAST

__all__ = ["TestCase", "set_rng_seed"]

_NUMBER = (int, float, complex, bool, np.number, np.bool_)


def set_rng_seed(seed: int | None = None) -> None:
    """Seed the random numbers of adjoint, Python and NumPy."""
    import random

    chosen = SEED if seed is None else seed
    manual_seed(chosen)
    random.seed(chosen)
    np.random.seed(chosen)


def _is_tensor_like(value: Any) -> bool:
    return isinstance(value, TensorBase) or (isinstance(value, np.ndarray) and value.dtype.kind not in "OUS")


def _relaxed(x: Any, y: Any, options: Options) -> None:
    """Compare as tests do: a number with a tensor of one element, a list with a tensor, objects by ``==``."""
    if _is_tensor_like(x) and isinstance(y, Sequence) and not isinstance(y, str | bytes):
        y = create.as_tensor(y, dtype=create.as_tensor(x).dtype)
    elif _is_tensor_like(y) and isinstance(x, Sequence) and not isinstance(x, str | bytes):
        x = create.as_tensor(x, dtype=create.as_tensor(y).dtype)
    if _is_tensor_like(x) and _is_tensor_like(y):
        compare(create.as_tensor(_dense(x)), create.as_tensor(_dense(y)), options)
    elif x is None or y is None:
        compare(x, y, options)
    elif (_is_tensor_like(x) and isinstance(y, _NUMBER)) or (_is_tensor_like(y) and isinstance(x, _NUMBER)):
        compare(*_same_kind(_number(x), _number(y)), options._replace(check_dtype=False))
    elif isinstance(x, _NUMBER) and isinstance(y, _NUMBER):
        compare(*_same_kind(x, y), options._replace(check_dtype=False))
    else:
        _relaxed_containers(x, y, options)


def _relaxed_containers(x: Any, y: Any, options: Options) -> None:
    if isinstance(x, Set) and isinstance(y, Set):
        _unless(x == y, f"Set comparison failed: {x} != {y}")
    elif isinstance(x, str | bytes) and isinstance(y, str | bytes):
        _unless(x == y, f"String comparison failed: {x!r} != {y!r}")
    elif isinstance(x, Mapping) and isinstance(y, Mapping):
        if set(x) != set(y):
            compare(x, y, options)  # which says what keys are missing
        _each(((key, x[key], y[key]) for key in x), options)
    elif isinstance(x, Sequence) and isinstance(y, Sequence):
        if len(x) != len(y):
            compare(x, y, options)
        _each(zip(range(len(x)), x, y, strict=True), options)
    else:
        equal = x == y
        _unless(bool(np.all(equal)), f"Object comparison failed: {x!r} != {y!r}")


def _each(items: Any, options: Options) -> None:
    for key, x, y in items:
        try:
            _relaxed(x, y, options)
        except Failure as failure:
            raise failure.inside(key) from None


def _unless(equal: bool, text: str) -> None:
    if not equal:
        raise Failure(AssertionError, text)


def _dense(x: Any) -> Any:
    return x.to_dense() if getattr(x, "is_sparse", False) else x


def _number(x: Any) -> Any:
    if not _is_tensor_like(x):
        return x
    count = x.array.size if isinstance(x, TensorBase) else x.size
    if count != 1:
        raise ValueError(
            f"Only single element tensor-likes can be compared against a number. Got {count} elements instead."
        )
    return x.item()


def _same_kind(x: Any, y: Any) -> tuple[Any, Any]:
    both = isinstance(x, bool | np.bool_), isinstance(y, bool | np.bool_)
    return (x, y) if both[0] == both[1] else (x + 0, y + 0)


class TestCase(Expectations):
    """A test case whose `assertEqual` compares tensors, numbers and containers of them within a tolerance."""

    __test__ = False  # this one is a base; pytest collects what is made of it
    maxDiff = None
    _precision: float = 0
    _rel_tol: float = 0
    _ignore_not_implemented_error = False

    def __init__(self, method_name: str = "runTest", methodName: str = "runTest") -> None:
        super().__init__(method_name if method_name != "runTest" else methodName)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__test__" not in vars(cls):
            cls.__test__ = True

    @property
    def precision(self) -> float:
        """The least absolute tolerance of a comparison that is given none."""
        return self._precision

    @precision.setter
    def precision(self, prec: float) -> None:
        self._precision = prec

    @property
    def rel_tol(self) -> float:
        """The least relative tolerance of a comparison that is given none."""
        return self._rel_tol

    @rel_tol.setter
    def rel_tol(self, prec: float) -> None:
        self._rel_tol = prec

    def setUp(self) -> None:
        """Seed the random numbers; leave quick tests out where only slow ones are selected."""
        if TEST_SKIP_FAST and not getattr(getattr(self, self._testMethodName), "slow_test", False):
            raise unittest.SkipTest("test is fast; we disabled it with PYTORCH_TEST_SKIP_FAST")
        set_rng_seed()

    def assertEqual(
        self,
        x: Any,
        y: Any,
        msg: str | Callable[[str], str] | None = None,
        *,
        atol: float | None = None,
        rtol: float | None = None,
        equal_nan: bool = True,
        exact_dtype: bool = True,
        exact_device: bool = False,
        exact_layout: bool = False,
        exact_stride: bool = False,
        exact_is_coalesced: bool = False,
    ) -> None:
        """Fail unless two values are equal, tensors and numbers in them within a tolerance."""
        __tracebackhide__ = True
        if (rtol is None) != (atol is None):
            missing = "rtol" if rtol is None else "atol"
            raise ValueError(f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}.")
        least = (0.0, 0.0) if rtol is not None else (self.rel_tol, self.precision)
        options = Options(True, rtol, atol, equal_nan, exact_device, exact_dtype, exact_stride, *least)
        try:
            _relaxed(x, y, options)
        except Failure as failure:
            text = message_of(failure)
            if msg is not None:
                text = msg(text) if callable(msg) else f"{text}\n{msg}"
            error: Exception = failure.kind(text)
        else:
            return
        raise error

    def assertNotEqual(  # type: ignore[override]
        self, x: Any, y: Any, msg: str | None = None, *, atol: float | None = None, rtol: float | None = None,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        """Fail if `assertEqual` would pass."""
        with self.assertRaises(AssertionError, msg=msg):
            self.assertEqual(x, y, msg, atol=atol, rtol=rtol, **kwargs)

    def assertRaises(self, expected_exception: Any, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        """Fail unless an exception is raised; leave the test out for NotImplementedError where the case says so."""
        if not self._ignore_not_implemented_error:
            return super().assertRaises(expected_exception, *args, **kwargs)
        context: Any = AssertRaisesContextIgnoreNotImplementedError(expected_exception, self)
        return context.handle("assertRaises", args, kwargs)

    def assertRaisesRegex(  # type: ignore[override]
        self, expected_exception: Any, expected_regex: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Fail unless an exception with a text is raised, as `assertRaises` does."""
        if not self._ignore_not_implemented_error:
            return super().assertRaisesRegex(expected_exception, expected_regex, *args, **kwargs)
        context: Any = AssertRaisesContextIgnoreNotImplementedError(expected_exception, self, expected_regex)
        return context.handle("assertRaisesRegex", args, kwargs)

    def assertEqualIgnoreType(self, *args: Any, **kwargs: Any) -> None:
        """Compare without regard to dtypes."""
        self.assertEqual(*args, exact_dtype=False, **kwargs)

    def assertEqualTypeString(self, x: Any, y: Any) -> None:
        """Fail unless two tensors are of one kind: device and dtype."""
        self.assertEqual(x.device, y.device)
        self.assertEqual(x.dtype, y.dtype)
        self.assertEqual(x.is_sparse, y.is_sparse)

    def assertEqualBroadcasting(self, x: Any, y: Any, *args: Any, **kwargs: Any) -> None:
        """Compare with `y` broadcast to the shape of `x`."""
        other = create.as_tensor(y, dtype=x.dtype)
        self.assertEqual(x, other.expand(x.shape), *args, **kwargs)

    def assertObjectIn(self, obj: Any, iterable: Any) -> None:
        """Fail unless the very object is among those of `iterable`."""
        if not any(item is obj for item in iterable):
            raise AssertionError("object not found in iterable")

    def assertGreaterAlmostEqual(
        self, first: Any, second: Any, places: int | None = None, msg: Any = None, delta: Any = None
    ) -> None:
        """Fail unless `first` is greater than `second`, or nearly equal."""
        if not first >= second:
            self.assertAlmostEqual(first, second, places, msg, delta)

    def assertNotWarn(self, callable: Callable[[], Any], msg: str = "") -> None:
        """Fail if a call warns."""
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            callable()
        self.assertTrue(len(heard) == 0, msg)

    @contextlib.contextmanager
    def assertWarnsOnceRegex(self, category: type[Warning], regex: str = "") -> Iterator[None]:
        """Fail unless the block warns so, once at least."""
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            yield
        said = [w for w in heard if issubclass(w.category, category) and re.search(regex, str(w.message))]
        self.assertTrue(said, f"no {category.__name__} matches {regex!r}")

    @contextlib.contextmanager
    def assertLeaksNoCudaTensors(self, name: str | None = None) -> Iterator[None]:
        """Enclose a block; memory of a GPU is counted by CuPy's pool, not here."""
        yield

    def compare_with_numpy(
        self, torch_fn: Any, np_fn: Any, tensor_like: Any, device: Any = None, dtype: Any = None, **kwargs: Any
    ) -> None:
        """Compare the results of a function of tensors and one of arrays for the same values."""
        given: Any = tensor_like if isinstance(tensor_like, TensorBase) else create.tensor(tensor_like, dtype=dtype)
        result = torch_fn(given)
        expected: Any = np_fn(given.detach().cpu().numpy())
        if isinstance(expected, np.ndarray):
            expected = create.from_numpy(np.ascontiguousarray(expected).reshape(expected.shape))
        self.assertEqual(expected, result, **kwargs)

    def compare_with_reference(self, torch_fn: Any, ref_fn: Any, sample_input: Any, **kwargs: Any) -> None:
        """Compare the results of a function of tensors and one of arrays for the same sample."""
        arrays = sample_input.numpy()
        actual = torch_fn(sample_input.input, *sample_input.args, **sample_input.kwargs)
        expected = ref_fn(arrays.input, *arrays.args, **arrays.kwargs)
        self.assertEqual(actual, expected, exact_device=False, **kwargs)

    def safeToDense(self, t: Any) -> Any:
        """Return a tensor in which every element is held."""
        return t.to_dense()

    def genSparseTensor(
        self, size: Any, sparse_dim: int, nnz: int, is_uncoalesced: bool, device: Any, dtype: Any
    ) -> tuple[Any, Any, Any]:
        """Return a random sparse tensor, and copies of its indices and values."""
        dense = list(size[sparse_dim:])
        values = make_tensor([nnz, *dense], device=device, dtype=dtype, low=-1, high=1)
        rows = [np.random.randint(0, max(n, 1), nnz) for n in size[:sparse_dim]]
        indices: Any = create.as_tensor(np.asarray(rows, dtype=np.int64).reshape(sparse_dim, nnz))
        if is_uncoalesced:
            indices, values = namespace.cat([indices, indices], -1), namespace.cat([values, values], 0)
        x = sparse_coo_tensor(indices, values, size, dtype=dtype, device=device)
        x = x if is_uncoalesced else x.coalesce()
        return x, x._indices().clone(), x._values().clone()
