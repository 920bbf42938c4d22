"""Small helpers of tests of layers."""

from __future__ import annotations

import math
from typing import Any

from ...nn import modules
from ...nn.parameter import Parameter
from ...ops import create, random
from .case import TestCase

__all__ = ["NNTestCase", "get_reduction", "get_weight"]

PRECISION = 1e-5


class NNTestCase(TestCase):
    """A test case for layers."""

    __test__ = False
    _do_cuda_memory_leak_check = _do_cuda_non_default_stream = False


def get_reduction(m: Any) -> str:
    """Return how a loss reduces."""
    return str(getattr(m, "reduction", "mean"))


def get_weight(m: Any) -> Any:
    """Return the weights of the classes of a loss."""
    return getattr(m, "weight", None)


def _create_basic_net() -> Any:
    """Return three small modules inside each other, with a buffer in one."""
    inner, outer = modules.Module(), modules.Module()
    inner.layer_dummy_param = Parameter(create.empty(3, 5))
    inner.register_buffer("layer_dummy_buf", create.zeros(1, 3, 3, 7))
    outer.l1 = inner
    outer.dummy_param = Parameter(create.empty(3, 5))
    outer.register_buffer("dummy_buf", create.zeros(7, 3, 3, 1))
    return inner, outer, modules.Sequential(outer)


def _rand_tensor_non_equal(*size: int) -> Any:
    """Return random numbers of which no two are equal."""
    return random.randperm(math.prod(size)).reshape(size).float()
