"""PyTorch's define-by-run autograd, rebuilt in pure Python on NumPy."""

from __future__ import annotations

from ._version import __version__
from .core import primitive as _primitive  # first: everything else stands on it
from .core.device import device
from .core.dtypes import (
    bfloat16,
    complex64,
    complex128,
    dtype,
    finfo,
    float16,
    float32,
    float64,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    promote_types,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .core.dtypes import bool_ as bool
from .core.modes import is_grad_enabled
from .core.size import Size
from .tensor import Tensor

from .ops.namespace import *  # noqa: F403, I001

from . import autograd
from .autograd import enable_grad, inference_mode, no_grad, set_grad_enabled
from .autograd.grad_mode import is_inference_mode_enabled
from .printing import set_printoptions

float = float32
double = float64
half = float16
long = int64
int = int32
short = int16
cfloat = complex64
cdouble = complex128
