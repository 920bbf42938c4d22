"""What errors say about names that there are not, and what `help` shows."""

from __future__ import annotations

import pydoc
import subprocess
import sys
from typing import Any

import pytest

import adjoint


@pytest.mark.parametrize(
    ("wrong", "right"), [("onez", "ones"), ("tenser", "tensor"), ("Tensr", "Tensor"), ("matmull", "matmul")]
)
def test_a_misspelt_function_is_named(wrong: str, right: str) -> None:
    with pytest.raises(
        AttributeError, match=f"^module 'adjoint' has no attribute '{wrong}'; did you mean '{right}'\\?$"
    ):
        getattr(adjoint, wrong)


def test_nothing_is_suggested_where_nothing_is_close() -> None:
    for name in ("qqqqqq", "_onez"):
        with pytest.raises(AttributeError) as error:
            getattr(adjoint, name)
        assert str(error.value) == f"module 'adjoint' has no attribute '{name}'"
    assert not hasattr(adjoint, "onez")


def test_python_adds_the_name_for_smaller_modules() -> None:
    done = subprocess.run([sys.executable, "-c", "import adjoint; adjoint.nn.Liner"], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].endswith("has no attribute 'Liner'. Did you mean: 'Linear'?")


class Foreign:
    """Takes part in functions; from the first call on, public functions dispatch."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> str:
        return "foreign"


def test_help_shows_signature_and_text_whether_or_not_functions_dispatch() -> None:
    function: Any = adjoint.add
    for _ in range(2):
        shown = pydoc.plain(pydoc.render_doc(function))
        assert (
            "add(input: 'Tensor', other:" in shown
            and "Add `other`, scaled by `alpha`" in shown
            and "Dispatching" not in shown
        )
        assert function(Foreign(), 1) == "foreign"
        function = adjoint.add  # now an instance that stands for the function


def test_a_public_function_binds_in_a_class_whether_or_not_it_dispatches() -> None:
    adjoint.neg(Foreign())

    class Box(adjoint.Tensor):
        flipped = adjoint.neg

    assert Box([1.0, 2.0]).flipped().tolist() == [-1, -2]
