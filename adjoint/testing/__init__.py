"""For tests of code that uses tensors: `assert_close` and `make_tensor`."""

from __future__ import annotations

from .._paths import lead_to
from .comparison import assert_allclose, assert_close
from .creation import make_tensor
from .text import FileCheck

__all__ = ["FileCheck", "assert_allclose", "assert_close", "make_tensor"]

lead_to("adjoint.testing", {"comparison": "_comparison", "creation": "_creation"})
