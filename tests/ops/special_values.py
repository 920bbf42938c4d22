"""Every elementwise primitive at special values, in every machine form, with torch as the judge.

`python -m tests.ops.special_values [--forms large,compiled] [--dtypes float32] [--ops exp,gelu] [--torch]` runs the
full sweep and prints the differences; on a machine with a GPU (or with ADJOINT_SIMULATED_GPU=1) `--device cuda` has
the forms there. The primitives come from the registry; `PROGRAMS` says how a program reaches those that are not public
under their own name.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np

import adjoint
from adjoint.core.nodes import registry
from adjoint.devices.cpu import provider
from tests.oracle import torch

DTYPES = ("float32", "float64", "float16", "bfloat16")
FORMS = ("large", "provider", "compiled")  # each is compared with small eager arrays
LARGE = 1 << 15  # elements from which on the CPU runs compiled loops

# How a program reaches a primitive, where it is no public function with the primitive's inputs. T is the library.
PROGRAMS = {
    "abs": "T.abs(x)", "add": "x + y", "clamp": "T.clamp(x, -1.0, 6.0)", "clamp_max": "T.clamp(x, max=y)",
    "clamp_min": "T.clamp(x, min=y)", "clamp_tensors": "T.clamp(x, y, z)", "addcdiv": "T.addcdiv(x, y, z, value=0.5)",
    "addcmul": "T.addcmul(x, y, z, value=0.5)", "div_floor": "T.div(x, y, rounding_mode='floor')",
    "div_trunc": "T.div(x, y, rounding_mode='trunc')", "elu": "F.elu(x, 1.3)", "exponential": "2.5 ** x",
    "gelu": "F.gelu(x) + 0 * F.gelu(x, approximate='tanh')", "hardshrink": "F.hardshrink(x)",
    "lerp": "T.lerp(x, y, z)", "lerp_by": "T.lerp(x, y, 0.7)", "leaky_relu": "F.leaky_relu(x, 0.2)",
    "logit": "T.logit(x)", "masked_fill": "T.masked_fill(x, x > 0.5, 2.0)", "nan_to_num": "T.nan_to_num(x)",
    "polygamma": "T.polygamma(2, x)", "power": "x ** 3.0", "round_to": "T.round(x, decimals=2)", "rsub": "2 - x",
    "where": "T.where(x > 0, x, T.exp(x))", "threshold": "F.threshold(x, 0.1, 20.0)", "hardtanh": "F.hardtanh(x)",
    "isclose": "T.isclose(x, y)", "prelu": "F.prelu(x, w)", "log_sigmoid": "F.logsigmoid(x)", "sub": "x - y",
    "softplus": "F.softplus(x)", "softshrink": "F.softshrink(x)", "mul": "x * y", "div": "x / y", "neg": "-x",
    "igamma": "T.igamma(x, y)", "igammac": "T.igammac(x, y)",
}  # fmt: skip
# Other programs of a primitive with parameters: its formula has a branch for each.
MORE = {
    "gelu": ("F.gelu(x)", "F.gelu(x, approximate='tanh')"),
    "power": tuple(f"x ** {p}" for p in ("0.5", "2", "3.0", "-1", "-0.5", "1.7", "1", "0")),
    "elu": ("F.elu(x, 1.3)", "F.selu(x)", "F.celu(x, 0.7)"),
    "softplus": ("F.softplus(x)", "F.softplus(x, 2.0, 1.0)"),
    "clamp": ("T.clamp(x, -1.0, 6.0)", "T.clamp(x, min=0.0)", "T.clamp(x, max=1.0)"),
    "logit": ("T.logit(x)", "T.logit(x, 1e-3)"),
    "exponential": ("2.5 ** x", "0 ** x"),
    "nan_to_num": ("T.nan_to_num(x)", "T.nan_to_num(x, 0.5, 2.0, -3.0)"),
    "hardtanh": ("F.hardtanh(x)", "F.relu6(x)"),
    "threshold": ("F.threshold(x, 0.1, 20.0)",),
    "addcdiv": ("T.addcdiv(x, y, z, value=0.5)", "T.addcdiv(x, y, z)"),
    "addcmul": ("T.addcmul(x, y, z, value=0.5)", "T.addcmul(x, y, z)"),
}
# Reached by gradients of others, which are compared too, or inside of them (running statistics of norms).
INNER = {
    "tanh_back", "share", "silu_slope", "gelu_slope", "airy_slope", "zero", "dirichlet_grad", "standard_gamma_grad",
    "zeros_like", "moving_average",
}  # fmt: skip
OTHER_KINDS = {"angle", "complex"}  # of complex numbers


def is_elementwise(op: Any) -> bool:
    """Return whether a primitive computes each element of its result from the elements of its inputs at that place."""
    return (
        not op.outputs and not op.view and (op.batch == "elementwise" or (op.batch, op.jvp) == ("same", "elementwise"))
    )


def names() -> list[str]:
    """Return the elementwise primitives that programs reach."""
    return [n for n, op in sorted(registry.items()) if is_elementwise(op) and n not in INNER | OTHER_KINDS]


@cache
def programs(name: str) -> tuple[str, ...]:
    """Return the texts of programs that call a primitive, by variables x, y, z."""
    if name in MORE:
        return MORE[name]
    if name in PROGRAMS:
        return (PROGRAMS[name],)
    given = ", ".join("xyz"[: len(registry[name].inputs)])
    for place, module in (("T", adjoint), ("T.special", adjoint.special), ("F", adjoint.nn.functional)):
        if hasattr(module, name):
            return (f"{place}.{name}({given})",)
    raise LookupError(f"{name} is no public function: write in PROGRAMS how a program reaches it")


# --- Values -----------------------------------------------------------------------------------------

_SHARED = (
    "nan inf -inf 0 -0.0 1 -1 2 -2 6 -6 3 -3 0.5 -0.5 0.1 0.3 -1.7 20 -20 5.5 -5.5 9.1 0.99 -0.99 1.5 2.5 -2.5 1e-3 "
    "-1e-3 12 -12 30 -30 100 -100"
).split()
_OWN = {
    "float32": "1e-45 -1e-45 1e-42 -1e-42 1e-38 -1e-38 1.2e-38 1e-30 -1e-20 1e-7 3.4028235e38 -3.4028235e38 3e38 1e20 "
               "-1e20 1e5 -1e5 88 88.7 -88 -90 -103 1e10 -1e10 16777217 8193",
    "float64": "5e-324 -5e-324 1e-310 -1e-310 1e-42 1e-38 2.3e-308 1e-200 -1e-20 1e-17 1.7976931348623157e308 "
               "-1.7976931348623157e308 1e300 1e20 -1e20 1e5 700 -700 -740 1e160 -1e160",
    "float16": "6e-8 -6e-8 1e-5 -1e-5 6.2e-5 65504 -65504 6e4 11 -11 -16 1000 -1000",
    "bfloat16": "1e-40 -1e-40 1e-38 -1e-38 1.2e-38 1e-30 3.3895e38 -3.3895e38 1e20 -1e20 88 -88 1e5",
}  # fmt: skip
_PAIRED = "nan inf -inf 0 -0.0 1 -1 2 -3 0.5 -0.5 6 20".split()
_OWN_PAIRED = {
    "float32": "1e-42 -1e-42 1e-38 3.4028235e38 -3.4028235e38 1e20",
    "float64": "1e-310 -1e-310 1e-42 1.7976931348623157e308 -1e300",
    "float16": "6e-8 1e-5 65504 -65504",
    "bfloat16": "1e-40 -1e-40 3.3895e38 -3.3895e38",
}
_INTEGERS = (0, 1, -1, 2, -3, 7, 100, -100, 63, 2**31 - 1, -(2**31))


def values(arity: int, dtype: str) -> list[np.ndarray]:
    """Return the operands of a function: all special values of one, pairs of fewer, a sample of the triples."""
    if dtype == "bool":
        return [np.array(column) for column in zip(*itertools.product((False, True), repeat=arity), strict=True)]
    if dtype.startswith("int"):
        kept = [v for v in _INTEGERS if arity == 1 or abs(v) < 128]  # the least integer by -1 stops the processor
        return [np.array(c, dtype) for c in zip(*itertools.product(kept, repeat=arity), strict=True)]
    wide = np.float64 if dtype == "float64" else np.float32
    if arity == 1:
        return [np.array([float(v) for v in (*_SHARED, *_OWN[dtype].split())], wide)]
    each = [float(v) for v in (*_PAIRED, *_OWN_PAIRED[dtype].split())]
    rows = list(itertools.product(each, repeat=arity))
    if arity == 3:
        chosen = np.random.default_rng(0).permutation(len(rows))[:400]
        rows = [rows[i] for i in sorted(chosen)]
    return [np.array(column, wide) for column in zip(*rows, strict=True)]


# --- Forms ------------------------------------------------------------------------------------------


def evaluate(text: str, T: Any, leaves: list[Any], orders: int = 2) -> list[Any]:
    """Return a program's value, its first derivatives and its second ones; those that do not exist are None."""
    scope = {"T": T, "F": T.nn.functional, "w": T.tensor(0.25), **dict(zip("xyz", leaves, strict=False))}
    if "w" in text:
        scope["w"] = T.full((1,), 0.25, dtype=leaves[0].dtype, device=leaves[0].device)
    out = eval(text, scope)
    found = [out.detach()]
    if not out.requires_grad or not orders:
        return found
    first = _gradients(T, out, leaves)
    found += [None if g is None else g.detach() for g in first]
    for g in first if orders > 1 else ():
        if g is None or not g.requires_grad:
            found += [None] * len(leaves)
        else:
            found += [None if h is None else h.detach() for h in _gradients(T, g, leaves, last=True)]
    return found


def _gradients(T: Any, out: Any, leaves: list[Any], last: bool = False) -> Any:
    ones = T.ones_like(out)
    return T.autograd.grad(out, leaves, ones, create_graph=not last, allow_unused=True, retain_graph=True)


def labels(text: str, arity: int) -> list[str]:
    """Return what the results of `evaluate` are."""
    given = "xyz"[:arity]
    return ["value", *[f"d{a}" for a in given], *[f"d{a}d{b}" for a in given for b in given]]


def arity_of(text: str) -> int:
    """Return how many leaves a program has."""
    return max(i + 1 for i, n in enumerate("xyz") if re.search(rf"\b{n}\b", text))


class Case(NamedTuple):
    """A program at special values of a dtype."""

    text: str
    dtype: str

    @property
    def operands(self) -> list[np.ndarray]:
        return values(arity_of(self.text), self.dtype)

    @property
    def floating(self) -> bool:
        return self.dtype in DTYPES

    def leaves(self, T: Any, arrays: list[np.ndarray], device: str = "cpu") -> list[Any]:
        """Return leaf tensors of the case's dtype."""
        made = [T.tensor(a).to(device, getattr(T, self.dtype)) for a in arrays]
        return [v.requires_grad_() if self.floating else v for v in made]


Found = list[np.ndarray | None]


def _arrays(found: list[Any], count: int) -> Found:
    made: Found = []
    for v in found:
        if v is None:
            made.append(None)
            continue
        v = v.cpu()
        kind = str(v.dtype).rpartition(".")[2]
        made.append((v.float() if kind in ("float16", "bfloat16") else v).numpy(force=True))
    return made + [None] * (count - len(made))


def run(case: Case, form: str, device: str = "cpu") -> Found:
    """Return what a form makes of a case: value, first and second derivatives."""
    operands, size = case.operands, len(labels(case.text, arity_of(case.text)))
    count = len(operands[0])
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if form == "torch":
            return _arrays(evaluate(case.text, torch, case.leaves(torch, operands, device)), size)
        if form == "eager":
            return _arrays(evaluate(case.text, adjoint, case.leaves(adjoint, operands, device)), size)
        if form == "compiled":

            def program(*leaves: Any) -> Any:
                return [v for v in evaluate(case.text, adjoint, list(leaves)) if v is not None]

            leaves = case.leaves(adjoint, [np.tile(a, 8) for a in operands], device)
            there = [v is not None for v in evaluate(case.text, adjoint, leaves)]
            compiled = adjoint.compile(program)
            for _ in range(3):  # the first calls may run what they capture
                made = iter(compiled(*leaves))
            found = _arrays([next(made) if t else None for t in there], size)
            return [None if a is None else _folded(a, count) for a in found]
        repeats = -(-LARGE * 2 // count) + 1
        large = [np.tile(a, repeats) for a in operands]
        before = provider.allow(form == "large")
        try:
            found = _arrays(evaluate(case.text, adjoint, case.leaves(adjoint, large, device)), size)
        finally:
            provider.allow(before)
        return [None if a is None else _folded(a, count) for a in found]


def _folded(a: np.ndarray, count: int) -> np.ndarray:
    """Return one period of a result that repeats; where it does not, what differs from the first period."""
    if a.size == 1:
        return a
    rows = a.reshape(-1, count)
    for row in rows[1:]:
        same = (row == rows[0]) | ((row != row) & (rows[0] != rows[0]))
        if not same.all():
            return np.where(same, rows[0], row)
    return rows[0]


# --- Comparison -------------------------------------------------------------------------------------


class Difference(NamedTuple):
    """Two forms that disagree at an element."""

    case: Case
    form: str
    what: str
    at: tuple[float, ...]
    expected: Any
    got: Any

    def __str__(self) -> str:
        at = ", ".join(f"{v:.9g}" for v in self.at)
        return (
            f"{self.case.dtype} {self.case.text} {self.what} at ({at}): {self.form} {self.got!r}, not {self.expected!r}"
        )


_BITS = {"float32": (np.float32, np.int32), "float64": (np.float64, np.int64)}


def ulps(a: np.ndarray, b: np.ndarray, dtype: str) -> np.ndarray:
    """Return how many floats of a dtype are between elements; a NaN is far from all but a NaN, zeros are alike."""
    if dtype in _BITS:
        kind, bits = _BITS[dtype]
        x, y = (np.ascontiguousarray(v, kind).view(bits).astype(object) for v in (a, b))
        least = -(1 << (np.dtype(bits).itemsize * 8 - 1))
        x, y = (np.where(v < 0, least - v, v) for v in (x, y))
        distance = np.abs(x - y).astype(float)
    else:
        info = adjoint.finfo(getattr(adjoint, dtype))
        step = np.maximum(np.maximum(np.abs(a), np.abs(b)), info.tiny) * info.eps
        with np.errstate(all="ignore"):
            distance = np.where(a == b, 0.0, np.abs(a.astype(float) - b) / step)
    nan = (a != a) & (b != b)
    odd = ((a != a) ^ (b != b)) | ((np.isinf(a) | np.isinf(b)) & (a != b))
    return np.where(nan, 0.0, np.where(odd, np.inf, distance))


def compare(case: Case, form: str, expected: Found, got: Found, judge: bool = False) -> Iterator[Difference]:
    """Yield where two forms differ by more floats than allowed, or in the sign of a zero.

    Derivatives may differ by rounding errors of numbers around 1, for their formulas subtract such.
    """
    operands = case.operands
    for what, a, b in zip(labels(case.text, len(operands)), expected, got, strict=True):
        if (a is None and b is None) or (judge and (a is None or _excepted(case, what))):  # torch has no derivative
            continue
        a = np.zeros_like(b) if a is None else a
        b = np.zeros_like(a) if b is None else b
        a, b = np.broadcast_arrays(a, b)
        if a.dtype.kind in "biu":
            wrong = a != b
        else:
            dtype = case.dtype if case.floating else a.dtype.name
            eps = float(adjoint.finfo(getattr(adjoint, dtype)).eps)
            with np.errstate(all="ignore"):
                near = np.abs(a.astype(float) - b) <= _ROUNDINGS[len(what)] * eps * (8 if judge else 1)
            if what == "value":
                near &= np.minimum(np.abs(a), np.abs(b)) > 1e-30
            wrong = ~((ulps(a, b, dtype) <= (64 if judge else 4)) | near)
            if what == "value" and not any(case.text.startswith(t) and case.dtype in d for t, d in TIED.items()):
                wrong |= (a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b))
            if judge and (len(what) == 4 or (what != "value" and case.dtype in _HALVES)):
                wrong &= ~(a != a)  # where torch's second derivative is inf - inf or 0 * inf, ours may be its limit
        for i in np.flatnonzero(wrong):
            at = tuple(float(v[i % len(v)]) for v in operands)
            yield Difference(case, form, what, at, a.flat[i].item(), b.flat[i].item())


_ROUNDINGS = {5: 2**-10, 2: 4, 4: 64}  # by the length of a label: of value (beyond denormals), dx, dxdx
_HALVES = ("float16", "bfloat16")
# Which of two zeros NumPy returns depends on where they are in memory, and in half precision on its loop.
TIED = {"T.fmax": DTYPES, "T.fmin": DTYPES, "T.clamp": _HALVES, "T.maximum": _HALVES, "T.minimum": _HALVES}
# Where forms differ: by the beginning of the program, the forms, and why.
DIFFERING = (
    ("T.nextafter", "cuda", "CuPy's kernel, which takes denormals for zeros: ours computes half precision in single"),
    ("T.special.bessel", "cuda", "CuPy's kernels have the limit at infinity, SciPy's functions NaN"),
    ("T.i0(", "cuda", "as above"),
    ("T.special.i1(", "cuda", "as above, and the sign of zero"),
    ("T.special.ndtr(", "cuda", "the lower tail magnifies the rounding of x / sqrt(2)"),
    ("T.erfc", "", "as above, of x * x"),
    ("F.gelu", "", "as above"),
)
# Where a result is not torch's, by the beginning of the program, what is compared and the dtypes ("" for all), and why.
EXCEPTIONS = (
    ("T.special.bessel", "", "", "torch evaluates polynomials in the dtype itself; SciPy in double precision"),
    ("T.special.modified_bessel", "", "", "as above"),
    ("T.special.scaled_modified", "", "", "as above"),
    ("T.special.airy_ai", "", "", "as above"),
    ("T.i0", "", "", "as above: torch's overflows at 90, and its gradient at NaN is 0.5"),
    ("T.special.i1", "", "", "as above"),
    ("T.special.i0e", "", "", "as above"),
    ("T.special.log_ndtr", "", "", "torch subtracts large numbers from each other in the lower tail"),
    ("T.special.ndtr(", "value", "", "torch's lower tail is 1 + erf, which is 0 below -6; ours is erfc"),
    ("T.special.ndtri", "dx", "", "the exponential magnifies the last bit of the value"),
    ("F.gelu", "value", "", "torch's lower tail is x * (1 + erf) / 2; at infinity it is NaN"),
    ("T.special.erfcx", "", "", "the gradient subtracts numbers that are almost the same"),
    ("T.sinc", "d", "", "torch subtracts numbers that are almost the same near 0; ours is a series there"),
    ("T.digamma", "d", "", "poles: torch takes the sine of pi times a float"),
    ("T.lgamma", "dxdx", "", "as above"),
    ("T.polygamma", "", "", "as above, and NaN at infinity, where the limit is 0"),
    ("T.special.zeta", "", "", "as above"),
    (
        "T.igamma",
        "",
        "",
        "derivatives by the first argument, which torch has not, and torch's NaN beyond its iterations",
    ),
    ("T.special.chebyshev", "value", "", "of NaN torch returns what its loop began with"),
    ("T.special.shifted_chebyshev", "value", "", "as above"),
    ("T.special.laguerre", "value", "", "as above"),
    ("T.special.legendre", "value", "", "as above"),
    ("T.fmod", "value", "", "torch divides first, which overflows"),
    ("T.remainder", "value", "", "a zero has the divisor's sign, as in Python"),
    ("T.addcmul", "value", "", "torch's product is not rounded before the sum, and does not overflow"),
    ("T.lerp", "value", "", "as above"),
    ("T.logaddexp2", "value", "", "of equal numbers ours is exact"),
    ("F.softplus", "dxdx", "", "at the threshold itself"),
    ("F.hardswish", "d", "", "at NaN torch's derivatives are NaN and 0, or 1 in half precision"),
    ("T.pow", "dxdy", "", "torch's overflows before the result does"),
    ("T.atan2", "d", "float64", "of two denormals torch's second derivative is a rounding error"),
    ("F.celu", "d", "float64", "torch's constants are of single precision"),
    ("F.elu", "d", _HALVES, "at NaN torch's gradient is 1 in half precision, and NaN in single"),
    ("F.selu", "d", _HALVES, "as above"),
    ("F.celu", "d", _HALVES, "as above"),
    ("F.softshrink", "value", _HALVES, "torch's zeros have the sign of the input in half precision only"),
    ("x ** 0.5", "", _HALVES, "torch's square root is that of `pow` in half precision only"),
    ("x ** -0.5", "", _HALVES, "as above"),
    ("T.addcdiv", "dz", _HALVES, "torch rounds the square of the divisor"),
    ("T.copysign", "", _HALVES, "the sign of a NaN"),
    ("T.signbit", "value", _HALVES, "the sign of a NaN"),
    ("T.erf(", "value", _HALVES, "torch takes denormals for zeros in bfloat16"),
    ("T.logit(x, 1e-3)", "d", "", "at NaN torch's gradient is NaN, and 0 with create_graph"),
    ("T.logit(x, 1e-3)", "", _HALVES, "torch rounds 1 - eps to the dtype, where it is 1"),
    ("T.nextafter", "value", _HALVES, "the sign of zero"),
)


def _excepted(case: Case, what: str) -> bool:
    return any(
        case.text.startswith(text) and what.startswith(label) and (not kinds or case.dtype in kinds)
        for text, label, kinds, _ in EXCEPTIONS
    )


def differences(case: Case, form: str, reference: str = "eager", device: str = "cpu") -> list[Difference]:
    """Return where a form differs from another, but for `DIFFERING` and, from torch, for `EXCEPTIONS`."""
    found = list(compare(case, form, run(case, reference), run(case, form, device), judge=reference == "torch"))
    return [d for d in found if not any(case.text.startswith(t) and k in ("", device) for t, k, _ in DIFFERING)]


def cases(ops: Iterable[str] = (), dtypes: Iterable[str] = DTYPES) -> Iterator[Case]:
    """Yield the programs of primitives (all of them if none are named) in dtypes that they take."""
    for name in list(ops) or names():
        for text in programs(name):
            for dtype in dtypes:
                if _takes(text, dtype):
                    yield Case(text, dtype)


@cache
def _takes(text: str, dtype: str) -> bool:
    """Return whether torch computes a program in a dtype (of the primitives on integers only, in int32 and bool)."""
    case = Case(text, dtype)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            evaluate(text, torch or adjoint, case.leaves(torch or adjoint, case.operands))
    except (RuntimeError, TypeError, NotImplementedError, ValueError):
        return False
    return True


def main(arguments: list[str]) -> int:
    """Sweep, and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--forms", default=",".join(FORMS))
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--ops", default="")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--torch", action="store_true", help="compare small eager arrays with torch as well")
    parser.add_argument("--jobs", type=int, default=0, help="split the cases among so many; this is number --job")
    parser.add_argument("--job", type=int, default=0)
    parser.add_argument("--most", type=int, default=4, help="differences printed of a case and result")
    given = parser.parse_args(arguments)
    total = checked = 0
    chosen = list(cases([n for n in given.ops.split(",") if n], given.dtypes.split(",")))
    for case in chosen[given.job :: given.jobs] if given.jobs else chosen:
        for form in (*(["torch"] if given.torch else []), *[f for f in given.forms.split(",") if f]):
            checked += 1
            try:
                if form == "torch":
                    found = differences(case, "eager", "torch", given.device)
                else:
                    found = differences(case, form, "eager", given.device)
            except Exception as error:
                print(f"{case.dtype} {case.text} {form}: {type(error).__name__}: {str(error)[:200]}", flush=True)
                total += 1
                continue
            total += len(found)
            for _, group in itertools.groupby(found, key=lambda d: d.what):
                several = list(group)
                for d in several[: given.most]:
                    print(d, flush=True)
                if len(several) > given.most:
                    print(f"    and {len(several) - given.most} more", flush=True)
    print(f"{checked} comparisons, {total} differences")
    return total > 0


if __name__ == "__main__":
    if os.environ.get("ADJOINT_SIMULATED_GPU"):
        from tests.gpu import simulated

        simulated.install()
    sys.exit(main(sys.argv[1:]))
