"""Who is right where derivatives or roundings differ: finite differences, and double precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .drawing import COMPLEX, Array, Call, Name
from .running import EPS, Case, Run, cotangent, numbers

LARGEST = {"float16": 65504.0, "bfloat16": 3.38e38, "float32": 3.4e38, "complex64": 3.4e38}


def precision(case: Case, *names: str) -> float:
    """Return the rounding of the coarsest dtype in a call or its result."""
    used = {a.dtype for a in arrays(case.call)} | {str(v) for v in case.call.kwargs.values() if isinstance(v, Name)}
    used |= {str(v) for v in case.call.args if isinstance(v, Name)} | set(names)
    return max([EPS[n] for n in used if n in EPS], default=EPS["float64" if names == ("float64",) else "float32"])


def arrays(value: Any) -> list[Array]:
    """Return the tensors of a call."""
    if isinstance(value, Call):
        return arrays([*value.args, *value.kwargs.values()])
    if isinstance(value, Array):
        return [value]
    return [a for v in value for a in arrays(v)] if isinstance(value, list | tuple) else []


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return nested arguments with every leaf, tensors included, changed."""
    if isinstance(value, list | tuple) and not isinstance(value, Array):
        return type(value)(mapped(v, change) for v in value)
    if isinstance(value, dict):
        return {k: mapped(v, change) for k, v in value.items()}
    return change(value)


def widened(call: Call) -> Call:
    """Return a call in double precision: the same values."""

    def wide(value: Any) -> Any:
        if isinstance(value, Array) and value.dtype in EPS:
            return value._replace(dtype="complex128" if value.dtype in COMPLEX else "float64")
        if isinstance(value, Name) and value in EPS:
            return Name("complex128" if value in COMPLEX else "float64")
        return value

    return call._replace(args=mapped(call.args, wide), kwargs=mapped(call.kwargs, wide))


def excused_by_precision(T: Any, case: Case, check: str, i: int, at: Any, a: Any, b: Any) -> Any:
    """Return where a difference stays after a comparison of both results with torch's in double precision."""
    if a[0] not in EPS or precision(case, a[0]) <= EPS["float64"]:
        return at
    exact = Run(T, case._replace(call=widened(case.call), checks=(check,))).found[check]
    if isinstance(exact, Exception) or exact[i] is None or exact[i][1].shape != a[1].shape:
        return at
    eps, reference = precision(case, a[0]), exact[i][1]
    with np.errstate(all="ignore"):
        mine, theirs = np.abs(a[1] - reference), np.abs(b[1] - reference)
        near = mine <= 4 * theirs + 8 * eps * (np.abs(reference) + 1e-30)
        near |= ~np.isfinite(b[1]) & (mine <= 1000 * eps * (np.abs(reference) + 1))
        near |= (a[1] == reference) | (np.isnan(a[1]) & np.isnan(reference))
        top = LARGEST.get(a[0], np.inf)
        near |= (np.abs(reference) > 0.1 * top) & (np.abs(a[1]) > 0.1 * top)
    return at & ~near


def moved(call: Call, steps: list[np.ndarray]) -> Call:
    """Return a call in double precision whose differentiable tensors have moved by some steps."""
    left = list(steps)

    def move(value: Any) -> Any:
        if isinstance(value, Array) and value.differentiable:
            return value._replace(values=value.values + left.pop(0), layout="contiguous")
        return value

    wide = widened(call)
    return wide._replace(args=mapped(wide.args, move), kwargs=mapped(wide.kwargs, move))


def ends(T: Any, case: Case, check: str, directions: list[np.ndarray], h: float) -> list[Any]:
    """Return a check's results at steps of h, -h and 0 along a direction."""
    found = []
    for step in (h, -h, 0.0):
        call = moved(case.call, [step * d for d in directions])
        result = Run(T, case._replace(call=call, checks=(check,))).found[check]
        if isinstance(result, Exception):
            return []
        found.append([None if r is None or not isinstance(r, tuple) or r[0] not in EPS else r[1] for r in result])
    return found


def product(T: Any, case: Case, results: list[Any], key: tuple[int, ...]) -> float:
    """Return the inner product of results with random cotangents, the same that a run uses."""
    total = 0.0
    for i, r in enumerate(results):
        if r is not None:
            like = T.zeros(r.shape, dtype=T.complex128 if r.dtype.kind == "c" else T.float64)
            total += float(np.real(np.conj(numbers(cotangent(T, like, [case.seed, *key, i]))[1]) * r).sum())
    return total


def slopes(T: Any, case: Case, check: str, leaf: int, place: int, turn: complex) -> list[Any]:
    """Return differences (both sides, left, right) of a check's results times their cotangents."""
    specs = [a for a in arrays(case.call) if a.differentiable]
    directions = [np.zeros(a.values.shape, complex if a.dtype in COMPLEX else float) for a in specs]
    directions[leaf].ravel()[place] = turn
    h = 1e-6 * max(1.0, abs(specs[leaf].values.ravel()[place]))
    found = ends(T, case, check, directions, h)
    if not found:
        return [np.nan] * 3
    return differences(*(product(T, case, f, () if check == "recorded" else (7,)) for f in found), h)


def differences(right: Any, left: Any, middle: Any, h: float) -> list[Any]:
    """Return the slope over both sides, on the left and on the right."""
    return [(right - left) / (2 * h), (middle - left) / h, (right - middle) / h]


def decided(T: Any, case: Case, check: str, i: int, at: Any, a: Any, b: Any) -> Any:
    """Return where a difference of derivatives stays after a comparison with finite differences of torch's results."""
    at = np.array(at)
    tolerance = max(1e-5, 50 * precision(case, a[0]))
    if check == "tangent":
        told = pushed(T, case, i)
        if told:
            parts = [np.real, np.imag] if a[0] in COMPLEX else [np.real]
            for place in np.argwhere(at):
                p = tuple(place)
                pairs = [(f(a[1][p]), f(b[1][p]), *(f(t[p]) for t in told)) for f in parts]
                at[p] = not is_right(pairs, tolerance)
        return at
    if check == "second" and i >= sum(s.differentiable for s in arrays(case.call)):
        return at
    for place in np.flatnonzero(at)[:64]:
        turns: list[complex] = [1.0, 1j] if a[0] in COMPLEX else [1.0]
        told = [slopes(T, case, {"gradient": "recorded", "second": "gradient"}[check], i, int(place), t) for t in turns]
        pairs = [[(v[1].ravel()[place] * np.conj(t)).real for v in (a, b)] for t in turns]
        if is_right([(*pair, *slope) for pair, slope in zip(pairs, told)], tolerance):
            at.ravel()[place] = False
    return at


def pushed(T: Any, case: Case, i: int) -> list[Any]:
    """Return finite differences of one result along random tangents, the same that a run uses."""
    specs = [a for a in arrays(case.call) if a.differentiable]
    likes = [T.zeros(a.values.shape, dtype=getattr(T, a.dtype)) for a in specs]
    directions = [numbers(cotangent(T, t, [case.seed, 9, k]))[1] for k, t in enumerate(likes)]
    found = ends(T, case, "value", directions, 1e-6)
    floats = [[r for r in f if r is not None] for f in found]
    return differences(*(f[i] for f in floats), 1e-6) if found else []


def is_right(parts: list[tuple[Any, ...]], tolerance: float) -> bool:
    """Return whether differences say that adjoint's derivative is right where torch's is another, in each part of it.

    A part is adjoint's number, torch's, and the slopes over both sides, on the left and on the right.
    """
    right, torch_too = True, True
    for mine, theirs, both, left, after in parts:
        scale = max(1.0, abs(both))
        if abs(left - after) > 1e-3 * scale:  # at a kink torch's slope counts, where it has one
            right &= not np.isfinite(theirs) and min(left, after) - tolerance <= mine <= max(left, after) + tolerance
            torch_too = False
        else:
            right &= bool(abs(mine - both) <= tolerance * scale)
            torch_too &= bool(abs(theirs - both) <= tolerance * scale)
    return right and not torch_too
