"""Random calls of operators: values, derivatives of both modes and orders, and batches are right.

torch judges values, dtypes, shapes and derivatives. Where derivatives differ, finite differences of torch's values in
double precision decide; where values of low precision differ, its result in double precision does. Batches are compared
with a loop. Without torch, finite differences of adjoint's values judge gradients in double precision, nothing else.

    python -m gates.ops --minutes 5 --seed 0
    python -m gates.ops --seed 0 --case 1234      # one case again, all of it printed
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import adjoint
from adjoint.core.nodes import wrap

from ._calls import COMPLEX, Array, Call, Name, Rng, random_call, sample_call
from .summary import summary

EPS = {"float64": 2.0**-52, "complex128": 2.0**-52, "float32": 2.0**-23, "complex64": 2.0**-23,
       "float16": 2.0**-10, "bfloat16": 2.0**-7}  # fmt: skip
LARGEST = {"float16": 65504.0, "bfloat16": 3.38e38, "float32": 3.4e38, "complex64": 3.4e38}
SECONDS = 30  # for one case
SAMPLES_FROM = 2000  # torch's table takes a while to load: a short run does without it


class Case(NamedTuple):
    """A call and what is checked of it."""

    call: Call
    seed: int
    checks: tuple[str, ...]


class Hung(Exception):
    """A case took too long."""


# --- Building a call -------------------------------------------------------------------------------


def built(T: Any, value: Any, made: list[Any]) -> Any:
    """Return a part of a call as a module's own; tensors are added to `made`."""
    if isinstance(value, Array):
        made.append((value, tensor(T, value)))
        return made[-1][1]
    if isinstance(value, Name):
        return getattr(T, value)
    if isinstance(value, list | tuple):
        return type(value)(built(T, v, made) for v in value)
    if isinstance(value, dict):
        return {k: built(T, v, made) for k, v in value.items()}
    return value


def tensor(T: Any, spec: Array) -> Any:
    """Return a tensor of a memory layout, a leaf."""
    if spec.layout == "reversed" and T is adjoint and spec.dtype != "bfloat16":
        array = spec.values.astype(spec.dtype)
        t = wrap(np.asarray(np.flip(np.flip(array).copy())))
    else:
        t = laid_out(T, plain(T, spec.values, spec.dtype), spec.layout).detach()
    return t.requires_grad_() if spec.differentiable else t


def plain(T: Any, values: np.ndarray, dtype: str) -> Any:
    """Return a contiguous tensor."""
    with np.errstate(all="ignore"):
        array = np.array(values, "float32" if dtype == "bfloat16" else dtype, order="C")
    return T.from_numpy(array).to(getattr(T, dtype))


def laid_out(T: Any, t: Any, layout: str) -> Any:
    """Return the same values in another layout."""
    if not t.ndim or not t.numel():
        return t
    order = tuple(reversed(range(t.ndim)))
    if layout == "transposed":
        return t.permute(order).contiguous().permute(order)
    if layout == "strided":
        return T.stack([t, t + 1 if t.dtype is not T.bool else ~t], -1)[..., 0]
    if layout == "expanded":
        return t[:1].clone().expand(t.shape)
    if layout == "offset":
        return T.cat([t[:1], t])[1:]
    return t


def function(T: Any, name: str) -> Callable[..., Any]:
    """Return a module's operator."""
    found: Any = T
    for part in name.split("."):
        found = getattr(found, part)
    return found  # type: ignore[no-any-return]


def flat(value: Any) -> list[Any]:
    """Return the leaves of nested results."""
    if isinstance(value, list | tuple):
        return [leaf for v in value for leaf in flat(v)]
    return [value]


def word(dtype: Any) -> str:
    """Return a dtype's name."""
    return str(dtype).rpartition(".")[2]


def numbers(t: Any) -> Any:
    """Return (dtype, array in full precision) of a result, or the result itself if it is no tensor."""
    if t is None or not hasattr(t, "detach"):
        return t
    t = t.detach().resolve_conj().resolve_neg()
    name = word(t.dtype)
    array = t.float().numpy() if name == "bfloat16" else t.numpy()
    with np.errstate(all="ignore"):
        return name, array.astype({"f": np.float64, "c": np.complex128}.get(array.dtype.kind, array.dtype))


# --- Running it --------------------------------------------------------------------------------------


def cotangent(T: Any, like: Any, seed: Any) -> Any:
    """Return a random tensor like another one."""
    rng = np.random.default_rng(seed)
    values = rng.uniform(0.5, 2, tuple(like.shape)) * rng.choice([-1, 1], tuple(like.shape))
    if like.is_complex():
        values = values + 1j * rng.uniform(-2, 2, tuple(like.shape))
    name = word(like.dtype)
    values = np.round(np.asarray(values) * 16) / 16  # exact in every dtype
    return plain(T, values, name)


class Run:
    """One module's run of a case, check by check; a check that raised has the exception for a result."""

    def __init__(self, T: Any, case: Case) -> None:
        self.T, self.case, self.found = T, case, {}
        self.made: list[Any] = []
        for check in case.checks:
            try:
                self.found[check] = getattr(self, check)()
            except Hung:
                raise
            except Exception as error:
                self.found[check] = error

    def parts(self) -> tuple[Any, Any, list[Any]]:
        """Return new arguments, and the tensors among them to differentiate by."""
        self.made = []
        args = built(self.T, self.case.call.args, self.made)
        kwargs = built(self.T, self.case.call.kwargs, self.made)
        return args, kwargs, [t for spec, t in self.made if spec.differentiable]

    def apply(self, args: Any, kwargs: Any) -> list[Any]:
        """Return what the operator makes of arguments, as a list."""
        return flat(function(self.T, self.case.call.name)(*args, **kwargs))

    def value(self) -> Any:
        """Values, with nothing recorded."""
        args, kwargs, _ = self.parts()
        with self.T.no_grad():
            return [numbers(o) for o in self.apply(args, kwargs)]

    def recorded(self) -> Any:
        """Values of what requires a gradient."""
        args, kwargs, _ = self.parts()
        return [numbers(o) for o in self.apply(args, kwargs) if hasattr(o, "detach") and o.requires_grad]

    def gradient(self, second: bool = False) -> Any:
        """Gradients under random cotangents."""
        args, kwargs, leaves = self.parts()
        outs = [o for o in self.apply(args, kwargs) if hasattr(o, "detach") and o.requires_grad]
        if not outs or not leaves:
            return []
        given = [cotangent(self.T, o, [self.case.seed, i]).requires_grad_(second) for i, o in enumerate(outs)]
        got = self.T.autograd.grad(outs, leaves, given, allow_unused=True, create_graph=second)
        if not second:
            return [numbers(g) for g in got]
        at = [i for i, g in enumerate(got) if g is not None and g.requires_grad]
        firsts, seeds = [got[i] for i in at], [cotangent(self.T, got[i], [self.case.seed, 7, i]) for i in at]
        if not firsts:
            return []
        return [numbers(g) for g in self.T.autograd.grad(firsts, [*leaves, *given], seeds, allow_unused=True)]

    def second(self) -> Any:
        """Gradients of the gradients' product with other cotangents."""
        return self.gradient(second=True)

    def tangent(self) -> Any:
        """Tangents of forward mode."""
        args, kwargs, leaves = self.parts()
        if not leaves:
            return []
        ad = self.T.autograd.forward_ad
        with ad.dual_level():
            duals = {
                id(t): ad.make_dual(t.detach(), cotangent(self.T, t, [self.case.seed, 9, i]))
                for i, t in enumerate(leaves)
            }
            outs = self.apply(*exchanged((args, kwargs), duals))
            pairs = [ad.unpack_dual(o) for o in outs if hasattr(o, "detach") and word(o.dtype) in EPS]
        return [numbers(p.tangent) for p in pairs]

    def out(self) -> Any:
        """What `out=` holds afterwards: the same values; a result of the wrong shape is resized."""
        args, kwargs, _ = self.parts()
        with self.T.no_grad():
            outs = function(self.T, self.case.call.name)(*args, **kwargs)
            blank = [self.T.zeros_like(o) for o in flat(outs)]
            into = blank[0] if hasattr(outs, "detach") else tuple(blank)
            args, kwargs, _ = self.parts()
            function(self.T, self.case.call.name)(*args, **kwargs, out=into)
        return [numbers(o) for o in blank]

    def inplace(self) -> Any:
        """The tensor after the in-place form of the call, and gradients through that."""
        args, kwargs, leaves = self.parts()
        name = self.case.call.name.rpartition(".")[2] + "_"
        written = args[0].clone()
        getattr(written, name)(*args[1:], **kwargs)
        if not written.requires_grad:
            return [numbers(written)]
        given = cotangent(self.T, written, [self.case.seed, 3])
        got = self.T.autograd.grad([written], leaves, [given], allow_unused=True)
        return [numbers(written), *(numbers(g) for g in got)]


def exchanged(value: Any, new: dict[int, Any]) -> Any:
    """Return nested arguments with some tensors exchanged."""
    if id(value) in new:
        return new[id(value)]
    if isinstance(value, list | tuple):
        return type(value)(exchanged(v, new) for v in value)
    if isinstance(value, dict):
        return {k: exchanged(v, new) for k, v in value.items()}
    return value


def batched(case: Case) -> Any:
    """Return (by vmap, by a loop) of a batch of two: the first tensor's, or every tensor's."""
    run = Run(adjoint, case._replace(checks=()))
    args, kwargs, _ = run.parts()
    tensors = [t.detach() for _, t in run.made]
    if not tensors:
        return [], []
    own = [i == 0 or case.seed % 2 for i in range(len(tensors))]
    olds = [t for _, t in run.made]
    pairs = [adjoint.stack([t, t * 0.75 if word(t.dtype) in EPS else t]) if o else t for t, o in zip(tensors, own)]

    def f(*values: Any) -> Any:
        new = {id(t): v for t, v in zip(olds, values)}
        return tuple(o for o in run.apply(*exchanged((args, kwargs), new)) if hasattr(o, "detach"))

    rows = [f(*(p[i] if o else p for p, o in zip(pairs, own))) for i in range(2)]
    got = adjoint.func.vmap(f, tuple(0 if o else None for o in own))(*pairs)
    return [numbers(g) for g in got], [numbers(adjoint.stack(both)) for both in zip(*rows)]


# --- Judging -----------------------------------------------------------------------------------------


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
            if at.any():
                yield i, "numbers", at, a, b


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
    """Return where a difference stays after torch's result in double precision is asked which is nearer to it."""
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
    """Return the product of results with the cotangents that a run draws for them."""
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
    """Return where a difference of derivatives stays after finite differences of torch's results are asked."""
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
    """Return differences of one result along the tangents that a run draws."""
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
            if REFUSALS.search(str(a)):
                continue
            found.append(Difference("crashed", check, f"{type(a).__name__}: {str(a)[:150]} {_place(a)}"))
            continue
        if check in DERIVATIVES and undefined(case, theirs["value"]):
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
    "vmap: |inside a transform|dynamic shape|data-dependent|Inside vmap|double backward not supported"
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
    # -inf at the beginning: torch has NaN
    "logcumsumexp": ("gradient",),
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
        ("lgamma", "special.gammaln", "digamma", "special.psi", "mvlgamma"), ("gradient", "second", "tangent")
    ),
    # torch's tangents at ties and NaN are not its gradients
    **dict.fromkeys(("fmax", "fmin", "maximum", "minimum", "clamp_min", "clamp_max"), ("tangent",)),
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
    # torch loses how the gradient of the bias depends on the cotangent, if there is no weight
    "nn.functional.layer_norm": ("second",),
}


def better(case: Case, difference: Difference) -> bool:
    """Return whether a difference is a documented improvement."""
    return difference.check in BETTER.get(case.call.name, ())


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


# --- The gate ----------------------------------------------------------------------------------------


def is_there(name: str) -> bool:
    """Return whether adjoint has an operator."""
    try:
        return callable(function(adjoint, name))
    except AttributeError:
        return False


UNDIFFERENTIABLE = ("logical", "eq", "ne", "lt", "le", "gt", "ge", "bitwise")


def random_case(seed: Any, T: Any) -> Case:
    """Return a case; each has its value checked, a share each of the rest."""
    rng: Rng = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        sampled = T is not None and seed[-1] >= SAMPLES_FROM and rng.random() < 0.06
        call = sample_call(rng, T, is_there) if sampled else None
        call = call or random_call(rng)
    checks = ["value", "gradient"]
    checks += [c for c, share in (("second", 0.3), ("tangent", 0.25), ("vmap", 0.2)) if rng.random() < share]
    if "Tensor" not in call.name and "functional" not in call.name:
        checks += [c for c in ("out", "inplace") if rng.random() < 0.12]
        if call.name.startswith(
            UNDIFFERENTIABLE
        ):  # torch takes the gradient through their in-place forms for the identity's
            checks = [c for c in checks if c != "inplace"]
    return Case(call, int(rng.integers(1 << 30)), tuple(checks))


def _too_long(*_: Any) -> None:
    raise Hung


def tried(case: Case, T: Any) -> list[Difference]:
    """Return what differs in a case; one that takes too long is hung."""
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(SECONDS)
    try:
        return judged(case, T) if T is not None else without_torch(case)
    except Hung:
        return [Difference("hung", "value", f"longer than {SECONDS} s")]
    finally:
        signal.alarm(0)


def oracle() -> Any:
    """Return torch, or None where it is not installed."""
    try:
        import torch
    except ImportError:
        print("torch is not installed: finite differences judge gradients in double precision, nothing else")
        return None
    torch.set_num_threads(1)
    return torch


def main(argv: list[str] | None = None) -> int:
    """Run cases until the time is over, and print a table of what came of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="run this one alone")
    parser.add_argument("--show", type=int, default=20, help="how many kinds of difference are printed")
    given = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    T = oracle()
    cases: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    table: Counter[tuple[str, str]] = Counter()
    end, number = time.monotonic() + 60 * given.minutes, given.case or 0
    while time.monotonic() < end:
        case = random_case([given.seed, number], T)
        found = tried(case, T)
        cases[case.call.family] += 1
        for d in found[:1]:
            table[case.call.family, d.kind] += 1
            kinds[f"{case.call.name} {d.check} {d.kind}"] += 1
            fresh = kinds[f"{case.call.name} {d.check} {d.kind}"] == 1
            if (fresh and len(kinds) <= given.show) or given.case is not None:
                print(f"--- {d.kind}: --seed {given.seed} --case {number}")
                print(
                    f"    {case.call.name}{case.call.args} {case.call.kwargs or ''}\n    {d.check} {d.text}", flush=True
                )
        if given.case is not None:
            break
        number += 1
    _print_table(cases, table)
    for kind, count in kinds.most_common():
        print(f"    {count:5} {kind}")
    total = {k: sum(n for (_, kind), n in table.items() if kind == k) for k in ("wrong", "hung", "crashed")}
    print(summary("ops", cases.total(), **total))
    return int(any(total.values()))


def _print_table(cases: Counter[str], table: Counter[tuple[str, str]]) -> None:
    print(f"{'family':12} {'cases':>8} {'wrong':>8} {'crashed':>8} {'hung':>8}")
    for family, count in sorted(cases.items()):
        print(f"{family:12} {count:>8} " + " ".join(f"{table[family, k]:>8}" for k in ("wrong", "crashed", "hung")))


if __name__ == "__main__":
    sys.exit(main())
