"""What the factory of in-place functions writes: docstrings that name the out-of-place function, and their examples."""

from __future__ import annotations

import doctest
import inspect
import re
from typing import Any

import pytest

import adjoint
from adjoint.core import inplace


def made() -> dict[str, Any]:
    """Return the methods of Tensor that the factory has made, by name."""
    functions = {name: inspect.getattr_static(adjoint.Tensor, name) for name in dir(adjoint.Tensor)}
    return {
        name: f for name, f in functions.items()
        if not name.startswith("_") and getattr(f, "__globals__", None) is vars(inplace)
    }  # fmt: skip


@pytest.mark.parametrize("name", made())
def test_the_docstring_names_a_method_and_the_parameters(name: str) -> None:
    text = inspect.getdoc(made()[name]) or ""
    assert "\nReturns\n-------\n" in text
    assert ("other" in inspect.signature(made()[name]).parameters) <= ("\nother : " in text)
    named = re.match(r"In-place version of `(\w+)`", text)
    if named is None:
        assert name == "zero_"
    else:
        assert hasattr(adjoint.Tensor, named[1])


def test_the_examples_run() -> None:
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for name, function in made().items():
        runner.run(parser.get_doctest(inspect.getdoc(function) or "", {"adjoint": adjoint}, name, None, None))
    assert runner.failures == 0
    assert runner.tries > 10
