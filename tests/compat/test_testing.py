"""Helpers that test-suites import from ``torch.testing._internal``: equal to torch's in what they accept and name."""

from __future__ import annotations

import importlib
import unittest
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import adjoint


def library(name: str) -> SimpleNamespace:
    if name == "torch":
        pytest.importorskip("torch", reason="torch is the second opinion on its own helpers")
    home = f"{name}.testing._internal"
    return SimpleNamespace(
        torch=importlib.import_module(name),
        utils=importlib.import_module(f"{home}.common_utils"),
        devices=importlib.import_module(f"{home}.common_device_type"),
        dtypes=importlib.import_module(f"{home}.common_dtype"),
    )


@pytest.fixture(params=["adjoint", "torch"], scope="module")
def lib(request: Any) -> SimpleNamespace:
    return library(request.param)


def pairs(torch: Any) -> list[tuple[Any, Any, bool]]:
    one = torch.ones(2)
    return [
        (1, 1.0, True), (1, True, True), (torch.tensor(1), 1, True), (torch.tensor(1.0), 1, True),
        (one, [1.0, 1.0], True), ([1.0, 1.0], one, True), (one, one.double(), False), ("a", "b", False),
        ("a", "a", True), ({1, 2}, {2, 1}, True), ({1}, {2}, False), (None, None, True), (None, 1, False),
        (one, np.ones(2), False), (np.ones(2, np.float32), one, True), (torch.float32, torch.float64, False),
        (float("nan"), float("nan"), True), (one.shape, (2,), True), ([one], (one,), True),
        ({"a": one}, {"a": one}, True), ({"a": one}, {"b": one}, False), (1e-8, 0, True), (1e-4, 0, False),
        (torch.tensor(True), True, True), (range(3), [0, 1, 2], True), (torch.device("cpu"), "cpu", False),
        (torch.tensor([1]), torch.tensor([1.0]), False), (True, torch.tensor(1), True), (1, "1", False),
        (one, None, False), (torch.ones(2, 3), torch.ones(3), False), (1 + 1j, 1 + 1j, True),
    ]  # fmt: skip


def test_what_is_equal(lib: SimpleNamespace) -> None:
    case = type("Case", (lib.utils.TestCase,), {"__test__": False})("run")
    for x, y, equal in pairs(lib.torch):
        if equal:
            case.assertEqual(x, y)
            with pytest.raises(AssertionError):
                case.assertNotEqual(x, y)
        else:
            case.assertNotEqual(x, y)
            with pytest.raises(AssertionError):
                case.assertEqual(x, y)
    one = lib.torch.ones(2)
    case.assertEqual(one, one.double(), exact_dtype=False)
    case.assertEqual(one, one + 0.1, atol=0.2, rtol=0)
    with pytest.raises(ValueError, match="Both 'rtol' and 'atol'"):
        case.assertEqual(one, one, atol=0.2)
    with pytest.raises(ValueError, match="Only single element"):
        case.assertEqual(one, 1)
    with pytest.raises(AssertionError, match=r"(?s)not close.*hello"):
        case.assertEqual(one, one + 0.1, "hello")


def made_tests(cls: Any) -> list[str]:
    return sorted(name for name in vars(cls) if name.startswith("test_") and getattr(cls, name) is not None)


def ran(*classes: Any) -> dict[str, int]:
    loader, suite = unittest.TestLoader(), unittest.TestSuite()
    for cls in classes:
        suite.addTests(loader.loadTestsFromTestCase(cls))
    result = unittest.TestResult()
    suite.run(result)
    assert not result.errors, result.errors[0][1]
    assert not result.failures, result.failures[0][1]
    return {"run": result.testsRun, "skipped": len(result.skipped), "expected": len(result.expectedFailures)}


def test_variants_of_a_test(lib: SimpleNamespace) -> None:
    parametrize, subtest = lib.utils.parametrize, lib.utils.subtest
    failing = subtest((5, 6), decorators=[unittest.expectedFailure])

    class Parametrized(lib.utils.TestCase):
        __test__ = False

        @parametrize("x", [1, 2])
        @parametrize("y", ["a", None, 1.5, lib.torch.float32, True, [1, 2], len])
        def test_a(self, x: int, y: Any) -> None:
            assert x in (1, 2)

        @parametrize("x,y", [(1, 2), subtest((3, 4), name="bar"), failing])
        def test_b(self, x: int, y: int) -> None:
            assert x < 5 and y == x + 1

        @parametrize("x", [1, 2], name_fn=lambda x: f"n{x}")
        def test_c(self, x: int) -> None: ...

        @lib.utils.decorateIf(unittest.skip("no"), lambda given: given["x"] == 2)
        @parametrize("x", [1, 2])
        def test_d(self, x: int) -> None: ...

        @parametrize("x", [(1, 2), (3, 4)])
        def test_e(self, x: Any) -> None:
            assert len(x) == 2

    lib.utils.instantiate_parametrized_tests(Parametrized)
    firsts = [f"test_a_x_{x}_{y}" for x in (1, 2) for y in ("float32", "y1", "y5", "y6", "y_1_5", "y_True", "y_a")]
    rest = ["test_b_bar", "test_b_x_1_y_2", "test_b_x_5_y_6", "test_c_n1", "test_c_n2", "test_d_x_1", "test_d_x_2",
            "test_e_x0", "test_e_x1"]  # fmt: skip
    assert made_tests(Parametrized) == sorted(firsts + rest)
    if lib.torch is adjoint:  # torch's runs tests of the running script alone
        assert ran(Parametrized) == {"run": 23, "skipped": 1, "expected": 1}


def test_tests_for_each_device_and_dtype(lib: SimpleNamespace) -> None:
    devices, torch = lib.devices, lib.torch
    seen: dict[str, Any] = {}

    class Placed(lib.utils.TestCase):
        @devices.dtypes(torch.float32, torch.int64)
        def test_a(self, device: str, dtype: Any) -> None:
            seen[str(dtype).rpartition(".")[2]] = torch.ones(1, device=device, dtype=dtype)

        @devices.onlyCUDA
        def test_b(self, device: str) -> None: ...

        @devices.onlyCPU
        @lib.utils.parametrize("x", [1, 2])
        @devices.dtypes(torch.float32)
        def test_c(self, device: str, x: int, dtype: Any) -> None: ...

        @devices.expectedFailureCPU
        def test_d(self, device: str) -> None:
            raise ValueError

        @devices.toleranceOverride({torch.float32: devices.tol(atol=0.25, rtol=0.125)})
        @devices.dtypes(torch.float32, torch.int64)
        def test_e(self, device: str, dtype: Any) -> None:
            seen[f"tolerance {dtype}"] = self.precision, self.rel_tol

        @devices.skipCPUIf(True, "not here")
        def test_f(self, device: str) -> None: ...

        @devices.largeTensorTest("1000000 GB")
        def test_g(self, device: str) -> None: ...

    scope: dict[str, Any] = {"Placed": Placed}
    devices.instantiate_device_type_tests(Placed, scope, only_for="cpu")
    assert list(scope) == ["PlacedCPU"]
    assert made_tests(scope["PlacedCPU"]) == [
        "test_a_cpu_float32", "test_a_cpu_int64", "test_b_cpu", "test_c_x_1_cpu_float32", "test_c_x_2_cpu_float32",
        "test_d_cpu", "test_e_cpu_float32", "test_e_cpu_int64", "test_f_cpu", "test_g_cpu",
    ]  # fmt: skip
    if lib.torch is adjoint:
        assert ran(scope["PlacedCPU"]) == {"run": 10, "skipped": 3, "expected": 0}
        assert seen["int64"].dtype is adjoint.int64
        assert seen["tolerance adjoint.float32"] == (0.25, 0.125)
        assert seen["tolerance adjoint.int64"] == (0, 0)


def names_of(dtypes: Any) -> list[str]:
    return [str(d).rpartition(".")[2] for d in dtypes]


@pytest.mark.parametrize(
    "name",
    ["floating_types", "floating_types_and_half", "floating_and_complex_types", "double_types", "complex_types",
     "integral_types", "all_types", "all_types_and_half", "all_types_and_complex", "empty_types", "get_all_fp_dtypes",
     "get_all_int_dtypes", "get_all_complex_dtypes", "get_all_dtypes"],
)  # fmt: skip
def test_dtypes_by_kind(name: str) -> None:
    torch = library("torch")
    assert sorted(names_of(getattr(library("adjoint").dtypes, name)())) == sorted(
        names_of(getattr(torch.dtypes, name)())
    )


def test_dtypes_and_others() -> None:
    dtypes = library("adjoint").dtypes
    assert names_of(dtypes.floating_types_and(adjoint.float16, adjoint.float32)) == ["float32", "float64", "float16"]
    assert len(dtypes.all_types_and_complex_and(adjoint.bool)) == 10


def test_samples_and_contexts() -> None:
    utils = library("adjoint").utils
    with utils.freeze_rng_state():
        first = adjoint.rand(3)
    assert first.equal(adjoint.rand(3))
    with utils.set_default_dtype(adjoint.float64):
        assert adjoint.ones(1).dtype is adjoint.float64
    assert adjoint.ones(1).dtype is adjoint.float32
    x = adjoint.rand(3, 4, requires_grad=True)
    y = utils.noncontiguous_like(x)
    assert not y.is_contiguous()
    assert y.equal(x)
    assert y.requires_grad
    a = utils.random_symmetric_pd_matrix(4, 2)
    assert a.dtype is adjoint.float64
    assert (adjoint.linalg.eigvalsh(a) > 0).all()
    assert adjoint.linalg.matrix_rank(utils.random_square_matrix_of_rank(5, 3)) == 3
    with utils.TemporaryFileName() as name:
        adjoint.save(x, name)
    assert 0 < utils.find_free_port() < 65536
    assert utils.gradcheck(adjoint.sin, adjoint.rand(3, dtype=adjoint.float64, requires_grad=True))
    assert utils.torch_to_numpy_dtype_dict[adjoint.int16] is np.int16


def test_what_a_suite_asks_of_the_machine() -> None:
    utils, cuda = library("adjoint").utils, importlib.import_module("adjoint.testing._internal.common_cuda")
    assert utils.TEST_NUMPY and not utils.TEST_WITH_ROCM
    if not adjoint.cuda.is_available():
        assert not utils.TEST_CUDA and not cuda.SM80OrLater and not cuda.TEST_MULTIGPU
    assert utils.skipIfTorchDynamo("not with it")(len) is len
    assert utils.skipIfRocm(len) is len
    assert utils.skipIfNoLapack(len) is len
