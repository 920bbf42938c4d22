"""The general helpers of test-suites: the test case, parametrization, skips, contexts, samples, the runner."""

from __future__ import annotations

import argparse
import copy
import sys
import types
import unittest
from typing import Any

from ...testing.creation import make_tensor
from . import case, contexts, expectations, flags, gradients, parametrization, samples, skips, tracking
from .case import *  # noqa: F403
from .case import TestCase
from .contexts import *  # noqa: F403
from .expectations import *  # noqa: F403
from .flags import *  # noqa: F403
from .gradients import *  # noqa: F403
from .parametrization import *  # noqa: F403
from .parametrization import _TestParametrizer
from .samples import *  # noqa: F403
from .skips import *  # noqa: F403
from .tracking import *  # noqa: F403

__all__ = [
    "NestedTensorTestCase", "NoTest", "TestCaseBase", "check_test_defined_in_running_script",
    "copy_func", "custom_op", "load_tests", "make_tensor", "parse_cmd_line_args",
    "raise_on_run_directly", "run_tests", "scoped_load_inline", "set_running_script_path", "shell",
    *case.__all__, *contexts.__all__, *expectations.__all__, *flags.__all__, *gradients.__all__,
    *parametrization.__all__, *samples.__all__, *skips.__all__, *tracking.__all__,
]  # fmt: skip

_ = _TestParametrizer  # which suites with parametrizations of their own take for a base
UNITTEST_ARGS: list[str] = []
TestCaseBase = TestCase


class NoTest:
    """A mixin for classes that are no tests though their names say so."""

    __test__ = False


class NestedTensorTestCase(TestCase):
    """A test case for nested tensors, which are not offered here."""

    __test__ = False


def scoped_load_inline(func: Any) -> Any:
    """Leave a test out: it compiles a program in C++ against torch."""
    return unittest.skip("extensions in C++ are not built against adjoint")(func)


def custom_op(opname: str, symbolic_fn: Any, opset_version: int) -> Any:
    """Return a context that does nothing: there is no export to ONNX here."""
    return contexts.enable_profiling_mode()


def set_running_script_path() -> None:
    """Do nothing: tests of any module run."""


def check_test_defined_in_running_script(test_case: Any) -> None:
    """Do nothing: tests of any module run."""


def raise_on_run_directly(file_to_call: str) -> None:
    """Say that a file is run by another one."""
    raise RuntimeError(f"This test file is not meant to be run directly, use:\n\n\tpython {file_to_call} TESTNAME\n")


def run_tests(argv: list[str] | None = None) -> None:
    """Run the tests of the program's own module, as ``unittest.main`` does; options of torch's runner are dropped."""
    unittest.main(argv=_plain(sys.argv if argv is None else argv))


def _plain(argv: list[str]) -> list[str]:
    """Return a command line without the options that unittest does not know."""
    options = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in ("--subprocess", "--accept", "--rerun-disabled-tests", "--use-pytest", "--showlocals"):
        options.add_argument(name, action="store_true")
    for name in ("--seed", "--jit-executor", "--repeat", "--log-suffix", "--ge-config", "--ge_config"):
        options.add_argument(name)
    for name in ("--save-xml", "--import-slow-tests", "--import-disabled-tests"):
        options.add_argument(name, nargs="?")
    return [argv[0], *options.parse_known_args(argv[1:])[1]]


def load_tests(loader: Any, tests: Any, pattern: Any) -> Any:
    """Return the tests that a loader has found, all of them."""
    return tests


def parse_cmd_line_args() -> None:
    """Do nothing: the command line is the runner's."""


def copy_func(f: Any) -> Any:
    """Return a function of the same code and attributes."""
    made = types.FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__, f.__closure__)
    made.__kwdefaults__ = copy.copy(f.__kwdefaults__)
    made.__dict__.update(f.__dict__)
    return made


def shell(command: list[str], cwd: str | None = None, env: Any = None, **kwargs: Any) -> int:
    """Run a command and return how it ended."""
    import subprocess

    return subprocess.run(command, cwd=cwd, env=env, check=False, **kwargs).returncode
