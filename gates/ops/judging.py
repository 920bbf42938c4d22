"""What differs between adjoint and torch in a case, and what of it counts."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import adjoint

from .differences import arrays, decided, excused_by_precision, precision, slopes
from .running import EPS, Case, Hung, Run, batched


def wrong(mine: np.ndarray, theirs: np.ndarray, tolerance: float, scale: float) -> np.ndarray:
    """Return where two arrays of one shape differ; `tolerance` is relative to each element and to `scale`."""
    with np.errstate(all="ignore"):
        close = np.abs(mine - theirs) <= tolerance * (np.abs(theirs) + scale)
        same = (
            (mine == theirs) | (np.isnan(mine) & np.isnan(theirs)) | (close & np.isfinite(mine) & np.isfinite(theirs))
        )
        if mine.dtype.kind == "c":  # which part of an infinite or undefined number is what differs between C libraries
            same |= ~np.isfinite(mine) & ~np.isfinite(theirs)
    return ~same


ULPS = {"value": 16, "out": 16, "inplace": 1000, "gradient": 1000, "second": 1e4, "tangent": 1000, "vmap": 1000}
# Relative errors of torch's own kernels, against mpmath: constants in single precision, short series.
INEXACT = {
    **dict.fromkeys(
        ("digamma", "special.psi", "lgamma", "special.gammaln", "polygamma", "mvlgamma", "logcumsumexp"), 1e-8
    ),
    **dict.fromkeys((f"special.bessel_{n}" for n in ("j0", "j1", "y0", "y1")), 1e-5),
    "special.zeta": 1e-6,
    "special.airy_ai": 1e-4,
    **dict.fromkeys(
        ("nn.functional.hardsigmoid", "nn.functional.hardswish", "nn.functional.binary_cross_entropy"), 1e-7
    ),
}
FAMILY = {"elementwise": 1, "reduce": 20, "shape": 1, "index": 20, "matrix": 1e4, "layers": 200, "op_db": 1e4}


def compared(case: Case, check: str, mine: list[Any], theirs: list[Any]) -> Iterator[tuple[int, str, Any, Any, Any]]:
    """Yield (output, what, where, adjoint's, torch's) for all that differs."""
    if not theirs and check not in ("value", "out"):  # torch does not differentiate it
        return
    if len(mine) != len(theirs):
        yield -1, "number of results", None, len(mine), len(theirs)
        return
    for i, (a, b) in enumerate(zip(mine, theirs)):
        if a is None and b is None:
            continue
        if a is None or b is None:  # no gradient is a gradient of zeros
            name, values = a or b
            a, b = a or (name, np.zeros_like(values)), b or (name, np.zeros_like(values))
        if not isinstance(b, tuple) or not isinstance(a, tuple):
            if a != b and not (isinstance(a, float) and np.isclose(a, b, equal_nan=True)):
                yield i, "scalar", None, a, b
        elif (a[0] != b[0] and check != "tangent") or a[1].shape != b[1].shape:
            yield i, "dtype or shape", None, (a[0], a[1].shape), (b[0], b[1].shape)
        else:
            tolerance = ULPS[check] * FAMILY[case.call.family] * precision(case, a[0])
            tolerance = max(tolerance, INEXACT.get(case.call.name, 0))
            finite = np.abs(b[1][np.isfinite(b[1])]) if a[0] in EPS else b[1]
            scale = 1.0 if case.call.family == "elementwise" else max(1.0, finite.max(initial=0))
            at = wrong(a[1], b[1], tolerance, scale) if a[0] in EPS else a[1] != b[1]
            if case.call.name.startswith("fft."):  # the order of the terms decides over inf - inf
                at = at & (np.isfinite(a[1]) | np.isfinite(b[1]))
            if at.any():
                yield i, "numbers", at, a, b


DERIVATIVES = ("gradient", "second", "tangent")


def defined(case: Case, check: str, at: Any, a: Any, b: Any) -> Any:
    """Return where a difference stays once what is undefined does not count.

    These are: a NaN that torch makes of 0 times infinity where adjoint has a number; a derivative at NaN; one of the
    second order at infinity; whatever overflowed, where inputs are the largest or the smallest numbers.
    """
    values = [s.values for s in arrays(case.call) if s.dtype in EPS]
    if check == "second" and not all(np.isfinite(v).all() and not extreme(v).any() for v in values):
        return at & False
    if check == "tangent" or any(np.isinf(v).any() for v in values):  # the order of terms decides over inf - inf
        at = at & (np.isfinite(a[1]) | np.isfinite(b[1]))
    if case.call.family == "matrix":  # of a singular one: whether a derivative is infinite or undefined is rounding
        at = at & (np.isfinite(a[1]) | np.isfinite(b[1]))
    if any(extreme(v).any() for v in values):
        at = at & np.isfinite(a[1]) & np.isfinite(b[1])
    for v in values:
        if v.shape == a[1].shape:
            at = at & ~np.isnan(v)
    return at & ~(np.isnan(b[1]) & ~np.isnan(a[1]))


def undefined(case: Case, value: list[Any]) -> bool:
    """Return whether a result is NaN though no input is: there is nothing to differentiate."""
    nan = any(isinstance(v, tuple) and v[0] in EPS and np.isnan(v[1]).any() for v in value)
    return nan and not any(np.isnan(s.values).any() for s in arrays(case.call) if s.dtype in EPS)


def rounded(case: Case, value: list[Any]) -> bool:
    """Return whether a deviation is what rounding left of equal numbers: a slope in whatever direction."""
    if not case.call.name.startswith("std"):
        return False
    largest = max((float(np.abs(s.values).max(initial=0)) for s in arrays(case.call) if s.dtype in EPS), default=0.0)
    dtype, found = value[0]
    return bool(((found > 0) & (found <= 4 * EPS[dtype] * largest)).any())


def extreme(v: np.ndarray) -> Any:
    """Return which numbers are so large or so small that a product of two leaves the range of some dtype."""
    size = np.abs(v)
    return np.isfinite(size) & (size > 200) | (size > 0) & (size < 1e-7)


class Difference(NamedTuple):
    """What differs in one check of a case."""

    kind: str
    check: str
    text: str


def judged(case: Case, T: Any) -> list[Difference]:
    """Return what differs between adjoint and torch in a case."""
    found: list[Difference] = []
    checks = tuple(c for c in case.checks if c != "vmap")
    theirs = Run(T, case._replace(checks=checks)).found
    mine = Run(adjoint, case._replace(checks=checks)).found
    for check in checks:
        a, b = mine[check], theirs[check]
        if isinstance(b, Exception):
            if check == "value":
                return []  # what is refused, and how, is the matter of `gates.bad_input`
            continue
        if isinstance(a, Exception):
            if REFUSALS.search(str(a)) or (isinstance(a, RuntimeError) and not _elements(case)):
                continue  # torch's kernels do not look at a dtype where there is nothing to compute
            found.append(Difference("crashed", check, f"{type(a).__name__}: {str(a)[:150]} {_place(a)}"))
            continue
        if check in DERIVATIVES and undefined(case, theirs["value"]):
            continue
        if check in DERIVATIVES and any(rounded(case, run["value"]) for run in (mine, theirs)):
            continue
        for i, what, at, x, y in compared(case, check, a, b):
            if at is not None and check in ("gradient", "value", "tangent", "second", "out", "inplace"):
                at = excused_by_precision(T, case, check, i, at, x, y)
                if at.any() and (check in DERIVATIVES or (check == "inplace" and i)):
                    at = defined(case, check, at, x, y)
                if at.any() and check in DERIVATIVES:
                    at = decided(T, case, check, i, at, x, y)
            if at is None or at.any():
                found.append(Difference("wrong", check, f"{i} {what}: " + _shown(at, x, y)))
    if "vmap" in case.checks and not isinstance(mine["value"], Exception):
        found += _judged_batch(case)
    return [d for d in found if not better(case, d)]


def _elements(case: Case) -> int:
    return sum(a.values.size for a in arrays(case.call))


def _judged_batch(case: Case) -> Iterator[Difference]:
    try:
        got, want = batched(case)
    except Hung:
        raise
    except Exception as error:
        if not REFUSALS.search(str(error)):
            yield Difference("crashed", "vmap", f"{type(error).__name__}: {str(error)[:150]} {_place(error)}")
        return
    for i, what, at, x, y in compared(case, "vmap", got, want):
        yield Difference("wrong", "vmap", f"{i} {what}: " + _shown(at, x, y))


REFUSALS = re.compile(
    "an in-place op cannot change it|divisible by 2|with stride 1|vmap: |vmap over |When vmap-ing|"
    "Batching rule not implemented|inside a transform|dynamic shape|data-dependent|Inside vmap|"
    "double backward not supported"
)


def _place(error: Exception) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/adjoint/" in f.filename]
    return f"[{frames[-1].filename.rpartition('/adjoint/')[2]}:{frames[-1].lineno}]" if frames else ""


def _shown(at: Any, x: Any, y: Any) -> str:
    if at is None:
        return f"adjoint {x}, torch {y}"
    places = np.argwhere(at)[:3]
    both = [f"{tuple(map(int, p))}: adjoint {x[1][tuple(p)]}, torch {y[1][tuple(p)]}" for p in places]
    return f"{x[0]} " + "; ".join(both)


# What adjoint does better or torch leaves open, by operator and check; docs/pytorch.md has the rows.
ANY = ("value", "gradient", "second", "tangent", "out", "inplace")
BETTER: dict[str, tuple[str, ...]] = {
    # by a divisor so small that the quotient overflows, torch has NaN for the remainder
    **dict.fromkeys(("fmod", "remainder", "Tensor.__mod__", "Tensor.__rmod__"), ANY),
    # NaN stays NaN; torch has 0 or 1 for igamma(nan, 0), igamma(inf, nan), NaN for zeta(2, inf)
    **dict.fromkeys(("igamma", "igammac", "special.zeta", "polygamma"), ANY),
    # infinite elements: torch subtracts half of the ends from the sum, and gets inf - inf
    "trapezoid": ANY,
    # -inf at the beginning: torch has NaN; its tangents take as few terms of a series as its values
    "logcumsumexp": ("gradient", "tangent"),
    # infinite logits: torch has NaN where the target is 1
    "nn.functional.binary_cross_entropy_with_logits": ("value",),
    # torch's running mean of an infinite element is NaN
    **dict.fromkeys(("var_mean", "std_mean"), ("value", "out")),
    # torch drops a NaN that is no margin's violation
    "nn.functional.multi_margin_loss": ANY,
    # torch counts a tie with `self` though include_self=False, and has no derivative of the second order for it
    **dict.fromkeys(("scatter_reduce", "index_reduce"), ("gradient", "second")),
    # torch's derivative at a pole is a large number
    **dict.fromkeys(
        ("lgamma", "special.gammaln", "digamma", "special.psi", "mvlgamma"),
        ("gradient", "second", "tangent", "inplace"),
    ),
    # torch's tangents at ties and NaN are not its gradients
    **dict.fromkeys(
        ("fmax", "fmin", "maximum", "minimum", "clamp", "clamp_min", "clamp_max", "nn.functional.prelu"), ("tangent",)
    ),
    # torch leaves `out` empty where there is one dim
    **dict.fromkeys(("fft.ihfft2", "fft.ihfftn"), ("out",)),
    # torch takes the derivative by the modulus, where that is 0, for zero
    "polar": ("gradient", "second"),
    # torch raises to an integer power, which is 0 for negative ones
    "ldexp": ("second",),
    # where a probability is 1, torch's tangent is infinite and its gradient is not
    "nn.functional.binary_cross_entropy": ("tangent", "second"),
    # a weight of zero times an infinite pixel
    "nn.functional.interpolate": ("value",),
    # torch loses the tangent of a variance that is raised to eps
    "nn.functional.gaussian_nll_loss": ("tangent",),
    # torch takes NaN for no distance
    "cdist": ("value",),
    # torch's tangents of products are zeros
    **dict.fromkeys(("scatter_reduce prod", "index_reduce prod"), ("tangent",)),
    # torch loses how the gradient of the bias depends on the cotangent, if there is no weight
    "nn.functional.layer_norm": ("second",),
}


def _has_equal_singular_values(x: np.ndarray) -> bool:
    found = np.linalg.svd(x, compute_uv=False)
    return bool((-np.diff(found) <= 1e-6 * found[..., :1]).any())


def _is_singular(x: np.ndarray) -> bool:
    found = np.linalg.svd(x, compute_uv=False)
    return bool((found[..., -1:] <= 1e-5 * found[..., :1]).any())


# The same, of operators where only some inputs are: which checks, and whether the inputs are such.
BETTER_OF: dict[str, tuple[tuple[str, ...], Callable[[list[np.ndarray]], Any]]] = {
    # torch takes a NaN for no maximum, unless it comes first
    "nn.functional.embedding_bag": (("value", "gradient"), lambda values: np.isnan(values[0]).any()),
    # beside an infinite input or target the loss is infinite or 0, and has no slope
    "nn.functional.soft_margin_loss": (("tangent",), lambda values: any(np.isinf(v).any() for v in values)),
    # equal singular values have no gradient of their own, only their sum has
    "linalg.svdvals": (("gradient", "second", "tangent"), lambda values: _has_equal_singular_values(values[0])),
    # inverses of singular matrices are rounding errors
    "linalg.matrix_power": (("value", "gradient", "second", "tangent", "out"), lambda values: _is_singular(values[0])),
    # at 0 torch's second derivative is not the derivative of its first
    "nn.functional.prelu": (("second",), lambda values: (values[0] == 0).any()),
    # the slope of an infinite element is the power of 2, as that of any other
    "ldexp": (("gradient", "tangent"), lambda values: np.isinf(values[0]).any()),
    # which branch of a complex logarithm is taken is open
    "logcumsumexp": (("value", "out"), lambda values: values[0].dtype.kind == "c"),
    # the sign of a NaN is what its conversion to a narrow dtype left
    "signbit": (("value", "out"), lambda values: np.isnan(values[0]).any()),
    # where a probability is 0 or 1, torch's gradient by the target does without the bound that its loss has
    "nn.functional.binary_cross_entropy": (("gradient",), lambda values: np.isin(values[0], (0, 1)).any()),
    # of a vector of zeros the slope is 1e8, and its rounding errors are above the tolerance; torch has NaN beside
    "nn.functional.cosine_similarity": (("second",), lambda values: any((v == 0).any() for v in values)),
    # the sign of an infinite slope at -0.0 is another in torch's loop than at the end of it
    "logit": (("gradient", "inplace", "tangent"), lambda values: ((values[0] == 0) & np.signbit(values[0])).any()),
    # torch takes NaN for no distance, and so has the gradient of the next one
    "cdist": (("gradient", "second"), lambda values: any(np.isnan(v).any() for v in values)),
    # equal rows: whether their correlation is above 1 is a matter of rounding, and beyond it is cut off
    "corrcoef": (("gradient", "second", "tangent"), lambda values: np.ptp(values[0], 0).max(initial=0) == 0),
}


def better(case: Case, difference: Difference) -> bool:
    """Return whether a difference is a documented improvement."""
    words = (v for v in (*case.call.args, *case.call.kwargs.values()) if isinstance(v, str))
    if any(
        difference.check in BETTER.get(name, ()) for name in (case.call.name, *(f"{case.call.name} {w}" for w in words))
    ):
        return True
    checks, applies = BETTER_OF.get(case.call.name, ((), None))
    values = [a.values for a in arrays(case.call) if a.dtype in EPS]
    return applies is not None and difference.check in checks and bool(values) and bool(applies(values))


def without_torch(case: Case) -> list[Difference]:
    """Return where gradients in double precision differ from finite differences of adjoint's own values."""
    specs = [a for a in arrays(case.call) if a.differentiable]
    if not specs or any(a.dtype != "float64" or not np.isfinite(a.values).all() for a in specs):
        return []
    found = Run(adjoint, case._replace(checks=("gradient",))).found["gradient"]
    if isinstance(found, Exception):
        return []
    wrong_at = []
    for i, g in enumerate(found):
        if g is not None and g[1].size:
            place = int(np.random.default_rng(case.seed).integers(g[1].size))
            both, left, right = slopes(adjoint, case, "recorded", i, place, 1.0)
            scale = max(1.0, abs(both))
            smooth = abs(left - right) <= 1e-3 * scale
            if np.isfinite(both) and smooth and not abs(both - g[1].ravel()[place]) <= 1e-4 * scale:
                wrong_at.append(Difference("wrong", "gradient", f"{i}: {g[1].ravel()[place]}, differences say {both}"))
    return wrong_at
