# ruff: noqa: E501 (one operator, one line)
"""Random calls of all families, and calls from torch's own table of samples."""

from __future__ import annotations

import functools
import sys
import unittest
from collections.abc import Callable
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np

from .drawing import COMPLEX, FLOATS, INTEGERS, Array, Call, Draw, F, Name, Rng
from .elementwise import ELEMENTWISE
from .layers import LAYERS, MATRIX
from .reductions import REDUCE
from .shapes import INDEX, SHAPE

FAMILIES = {
    "elementwise": ELEMENTWISE,
    "reduce": REDUCE,
    "shape": SHAPE,
    "index": INDEX,
    "matrix": MATRIX,
    "layers": LAYERS,
}
WEIGHTS = {"elementwise": 0.34, "reduce": 0.24, "shape": 0.12, "index": 0.1, "matrix": 0.09, "layers": 0.11}


NOT_FOR_INTEGERS = (
    "norm",
    "softmin",
    "softmax",
    "vander",
    "matrix_power",
    "loss",
    "index_add",
    "mode",
    "inner",
    "dot",
    "vdot",
    "einsum",
)
NOT_FOR_COMPLEX = (
    "pool1d",
    "pool2d",
    "softmin",
    "softmax",
    "median",
    "mode",
)  # which torch takes by accident: if empty, or one window
NOT_SPECIAL = (
    "linalg.", "logdet", "matrix_exp", F + "bilinear", "cov", "corrcoef", "prod", "cumprod", "renorm", "mode", "addmm", "einsum",
    F + "batch_norm",
    F + "scaled_dot_product_attention",
)  # fmt: skip


def random_call(rng: Rng) -> Call:
    """Return a call: most are of floating dtypes, a third have special values, some integers or booleans."""
    family = rng.choice(list(WEIGHTS), p=list(WEIGHTS.values())).item()
    dtype = rng.choice(["float64", "float32", "float16", "bfloat16", "complex128", "complex64", "int", "bool"],
                       p=[0.44, 0.18, 0.06, 0.06, 0.09, 0.05, 0.09, 0.03]).item()  # fmt: skip
    if dtype == "int":
        dtype = rng.choice(INTEGERS).item()
    rows = FAMILIES[family]
    name = list(rows)[int(rng.integers(len(rows)))]
    special = float(rng.choice([0.0, 0.15, 0.4], p=[0.55, 0.3, 0.15]))
    if name.startswith(NOT_SPECIAL):  # LAPACK's own ways with them, and 0 times infinity in one order or another
        special = 0.0
    if dtype in COMPLEX and name.strip().endswith(NOT_FOR_COMPLEX):
        dtype = "float64"
    if name.strip().endswith(NOT_FOR_INTEGERS) and dtype not in FLOATS:
        dtype = "float64"
    args, kwargs = rows[name](Draw(rng, dtype, special, extreme=family == "elementwise"))
    return Call(family, name.strip(), args, kwargs)


# --- torch's own samples -----------------------------------------------------------------------------

RANDOM = (
    "rand",
    "dropout",
    "bernoulli",
    "normal",
    "multinomial",
    "poisson",
    "empty",
    "exponential",
    "rrelu",
    "uniform",
)
# Indices among equals, bases of a space, unset memory; tests/conformance has them.
OPEN = ("linalg.", "sort", "argsort", "msort", "topk", "kthvalue", "mode", "median", "nanmedian", "svd", "lu", "geqrf", "qr",
        "ormqr", "pca_lowrank", "svd_lowrank", "pinverse", "cholesky", "triangular_solve", "resize", "searchsorted", "as_strided", "torch.", "sparse",
        "nn.functional.max_unpool", "tensor", "masked.", "hash_tensor", "nn.functional.fractional", "signal.")  # fmt: skip
_entries: list[Any] = []
_samples: dict[tuple[str, str], list[Any]] = {}


@functools.cache
def _op_db() -> list[Any]:
    """Return torch's table of operators, which imports a package that few have for the base class of its tests."""
    if "expecttest" not in sys.modules and find_spec("expecttest") is None:
        stand_in = ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase  # type: ignore[attr-defined]
        sys.modules["expecttest"] = stand_in
    try:
        from torch.testing._internal.common_methods_invocations import op_db
    except ImportError as error:
        print(f"skipped: the samples of torch's table of operators, which does not load here ({error})")
        return []
    return op_db  # type: ignore[no-any-return]


def entries(T: Any, has: Callable[[str], bool]) -> list[Any]:
    """Return the operators of torch's table that a module has under the same name."""
    if not _entries:
        for op in _op_db():
            if not op.name.startswith(("_", *OPEN)) and not any(r in op.name for r in RANDOM) and has(op.name):
                found = T
                for part in op.name.split("."):
                    found = getattr(found, part, None)
                if found is op.op:
                    _entries.append(op)
    return _entries


# Here torch reads scale and shift of any layout as if they were contiguous.
_READS_CONTIGUOUS = ("native_batch_norm", "native_group_norm", "nn.functional.batch_norm", "nn.functional.group_norm")


def sample_call(rng: Rng, T: Any, has: Callable[[str], bool]) -> Call | None:
    """Return one of torch's sample inputs in random layouts, some elements at kinks; None where it is no plain data."""
    ops = entries(T, has)
    if not ops:
        return None
    op = ops[int(rng.integers(len(ops)))]
    names = sorted(str(d).rpartition(".")[2] for d in op.supported_dtypes("cpu"))
    names = [n for n in names if n in FLOATS + COMPLEX + INTEGERS + ("bool",)] or ["float64"]
    dtype = "float64" if "float64" in names and rng.random() < 0.5 else names[int(rng.integers(len(names)))]
    if (op.full_name, dtype) not in _samples:
        T.manual_seed(0)  # a case depends on its own seed alone
        made = list(op.sample_inputs("cpu", getattr(T, dtype), requires_grad=dtype in FLOATS + COMPLEX))
        _samples[op.full_name, dtype] = made[:: max(1, len(made) // 20)]
    samples = _samples[op.full_name, dtype]
    if not samples:
        return None
    sample = samples[int(rng.integers(len(samples)))]
    draw = Draw(rng, dtype, 0.0, extreme=False, layouts=op.name not in _READS_CONTIGUOUS)
    try:
        args = tuple(_taken(v, T, draw) for v in (sample.input, *sample.args))
        return Call("op_db", op.name, args, {k: _taken(v, T, draw) for k, v in sample.kwargs.items()})
    except TypeError:
        return None


def _taken(value: Any, T: Any, draw: Draw) -> Any:
    """Return an argument of a sample as data."""
    if isinstance(value, T.Tensor):
        name = str(value.dtype).rpartition(".")[2]
        if value.layout is not T.strided or name not in FLOATS + COMPLEX + INTEGERS + ("bool",):
            raise TypeError
        values = value.detach().resolve_conj().resolve_neg()
        values = values.to(T.complex128 if name in COMPLEX else T.float64 if name in FLOATS else value.dtype).numpy()
        if value.requires_grad and draw.chance(0.3):
            values = np.where(draw.rng.random(values.shape) < 0.2, draw.pick(0.0, 1.0, -1.0), values)
        layout = draw.pick("contiguous", "transposed", "strided", "offset", "reversed")
        return Array(np.array(values), name, layout if draw.layouts else "contiguous", value.requires_grad)
    if isinstance(value, T.dtype):
        return Name(str(value).rpartition(".")[2])
    if isinstance(value, T.Size):
        return tuple(value)
    if type(value) in (list, tuple):
        return type(value)(_taken(v, T, draw) for v in value)
    if value is None or isinstance(value, bool | int | float | complex | str | np.generic):
        return value
    raise TypeError
