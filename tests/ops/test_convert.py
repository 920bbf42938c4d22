"""The methods that convert to one dtype: the docstrings that their factory writes, and the examples in them."""

from __future__ import annotations

import doctest
import inspect

import pytest

import adjoint

CASTERS = "bfloat16 bool byte cdouble cfloat char double float half int long short".split()


@pytest.mark.parametrize("name", CASTERS)
def test_the_example_of_a_caster_runs(name: str) -> None:
    text = inspect.getdoc(getattr(adjoint.Tensor, name)) or ""
    example = doctest.DocTestParser().get_doctest(text, {"adjoint": adjoint}, name, None, None)
    assert [e.source for e in example.examples if f".{name}()" in e.source]
    assert doctest.DocTestRunner(verbose=False).run(example).failed == 0
