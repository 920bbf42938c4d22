"""The general helpers of test-suites: the test case, parametrization, skips, contexts, samples, the runner."""

from __future__ import annotations

import copy
import types
import unittest
from typing import Any

from ...autograd.gradcheck import gradcheck as _gradcheck
from ...autograd.gradcheck import gradgradcheck as _gradgradcheck
from ..creation import make_tensor
from . import case, contexts, flags, parametrization, samples, skips
from .case import *  # noqa: F403
from .contexts import *  # noqa: F403
from .flags import *  # noqa: F403
from .parametrization import *  # noqa: F403
from .parametrization import _TestParametrizer
from .samples import *  # noqa: F403
from .skips import *  # noqa: F403

__all__ = [
    "copy_func", "gradcheck", "gradgradcheck", "load_tests", "make_tensor", "parse_cmd_line_args", "run_tests", "shell",
    *case.__all__, *contexts.__all__, *flags.__all__, *parametrization.__all__, *samples.__all__, *skips.__all__,
]  # fmt: skip

_ = _TestParametrizer  # which suites with parametrizations of their own take for a base
UNITTEST_ARGS: list[str] = []


def gradcheck(fn: Any, inputs: Any, **kwargs: Any) -> bool:
    """Compare gradients with finite differences, those of batches too, by the quick method unless told otherwise."""
    options = {"check_batched_grad": True, "fast_mode": not flags.TEST_WITH_SLOW_GRADCHECK, **kwargs}
    return _gradcheck(fn, inputs, **options)


def gradgradcheck(fn: Any, inputs: Any, grad_outputs: Any = None, **kwargs: Any) -> bool:
    """Compare gradients of gradients with finite differences."""
    options = {"check_batched_grad": True, "fast_mode": not flags.TEST_WITH_SLOW_GRADCHECK, **kwargs}
    return _gradgradcheck(fn, inputs, grad_outputs, **options)


def run_tests(argv: list[str] | None = None) -> None:
    """Run the tests of the program's own module, as ``unittest.main`` does."""
    unittest.main(argv=argv)


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
