"""Running a program in adjoint and in torch, and judging differences."""

from __future__ import annotations

import contextlib
import re
import traceback
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import adjoint

from .programs import is_pure
from .steps import SHAPES, State, Step, direction, perform


class Result(NamedTuple):
    """What a program did: an error that ended it, what each tensor is then, gradients, and losses on the way."""

    error: tuple[str, str] | None
    tensors: list[Any]
    gradients: list[Any]
    loss: complex


def run(T: Any, program: list[Step], nudge: float = 0.0) -> Result:
    """Run a program, and return everything a user would notice."""
    s = State(T, program, nudge)
    error = None
    for step in program[1:]:
        try:
            perform(s, step)
        except Exception as problem:  # which may come before a write or after it
            return Result(_described(problem), [], [None], 0)
    facts = [_attempt(lambda t=t: _facts(s, t)) for t in s.tensors]
    loss: Any = 0.0
    for t in s.tensors:
        part = _attempt(lambda t=t: (t * t).sum())
        if not isinstance(part, tuple):
            loss = loss + (part.real + part.imag * 0.5 if part.is_complex() else part)
    for r in s.read:
        loss = loss + (r.real if r.is_complex() else r)
    gradients: Any = None
    number = loss.item() if hasattr(loss, "item") else loss
    if getattr(loss, "requires_grad", False):
        gradients = _attempt(lambda: _gradients(s, loss))
    return Result(error, facts, [gradients, s.hooked], number)


def _gradients(s: State, loss: Any) -> Any:
    loss.backward()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [None if t.grad is None else np.array(t.grad.tolist()) for t in (s.x, *s.tensors)]


# Names for one thing that differ by how it was called.
NAMES = {
    "torch::autograd::CopySlices": "CopySlices",
    "torch::autograd::NotImplemented": "NotImplemented",
    "torch::autograd::CopyBackwards": "CopyBackwards",
    "ReshapeAliasBackward0": "ViewBackward0",
    "FillBackward3": "FillBackward2",
}


def _facts(s: State, t: Any) -> Any:
    base = t._base
    at = next((i for i, o in enumerate(s.tensors) if o is base), -1)
    group = next(i for i, o in enumerate(s.tensors) if o.untyped_storage().data_ptr() == t.untyped_storage().data_ptr())
    name = NAMES.get(t.grad_fn.name(), t.grad_fn.name()) if t.grad_fn is not None else None
    strides = [s for s, n in zip(t.stride(), t.shape, strict=True) if n > 1 and t.numel()]
    version = None if t.is_inference() else t._version
    return (
        [
            tuple(t.shape),
            strides,
            t.numel() and t.storage_offset(),
            str(t.dtype).rpartition(".")[2],
            at,
            base is None,
            group,
        ],
        [t.requires_grad, t.is_leaf, name, t.output_nr, t._is_view(), version, t.retains_grad],
        np.array(t.detach().tolist()),
    )


def _attempt(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except Exception as problem:
        return ("error", *_described(problem))


def _described(problem: Exception) -> tuple[str, str]:
    builtin = next(k.__name__ for k in type(problem).__mro__ if k.__module__ == "builtins")
    return builtin, re.sub(r"Function [\w:]+", "Function", str(problem)).split(".")[0].split(":")[0][:48]


def differences(mine: Any, theirs: Any, path: str = "") -> list[tuple[str, Any, Any]]:
    """Return where two results differ."""
    if isinstance(mine, np.ndarray) and isinstance(theirs, np.ndarray):
        close = mine.shape == theirs.shape and np.allclose(mine, theirs, 1e-7, 1e-9, equal_nan=True)
        return [] if close else [(path + "#", mine, theirs)]
    if type(mine) is type(theirs) and isinstance(mine, list | tuple) and len(mine) == len(theirs):
        found = []
        for i, (a, b) in enumerate(zip(mine, theirs, strict=True)):
            found += differences(a, b, f"{path}.{i}")
        return found
    if isinstance(mine, float | complex) and isinstance(theirs, float | complex):
        return [] if np.allclose(mine, theirs, 1e-7, 1e-9, equal_nan=True) else [(path + "#", mine, theirs)]
    return [] if type(mine) is type(theirs) and mine == theirs else [(path, mine, theirs)]


def slope(T: Any, program: list[Step]) -> float:
    """Return the derivative of the program's loss along `direction`, by central differences."""
    h = 1e-6
    return float(np.real(run(T, program, h).loss - run(T, program, -h).loss) / (2 * h))


UNNOTICED = {"set_", "from_numpy", "as_tensor"}  # ways to memory that torch's versions do not know of
REFUSED = "a view looks at elements that its base does not"


def _undecided(found: list[Any], theirs: Result) -> list[Any]:
    """Return the differences that finite differences, which agree with adjoint, leave open."""
    failed = {f".1.{i}." for i, facts in enumerate(theirs.tensors) if facts[0] == "error"}
    return [
        f for f in found
        if not (f[0].startswith(".2.0") or f[0].endswith("#") or any(f[0].startswith(at) for at in failed))
    ]  # fmt: skip


def _same_but_for_shape(a: Any, b: Any) -> bool:
    arrays = isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.size == b.size
    return arrays and not differences(a.reshape(-1), b.reshape(-1))


def _both_overflowed(a: Any, b: Any) -> bool:
    if np.shape(a) != np.shape(b):
        return False
    lost = ~(np.isfinite(a) | np.isfinite(b))
    return bool(lost.any() and np.allclose(np.where(lost, 0, a), np.where(lost, 0, b), 1e-7, 1e-9))


def judge(program: list[Step], torch: Any) -> tuple[str, list[tuple[str, Any, Any]]]:
    """Return how adjoint's run of a program compares: "same", "wrong", "differs" or "crashed", and where."""
    try:
        mine = run(adjoint, program)
    except Exception:
        return "crashed", [("", traceback.format_exc(), "")]
    theirs = run(torch, program)
    found = differences(mine, theirs)
    if is_pure(program) and mine.error is None and isinstance(mine.gradients[0], list):
        if mine.gradients[0][0] is not None:
            along = float((mine.gradients[0][0] * direction(program[0][1])).sum())
            expected = slope(adjoint, program)
            if abs(along - expected) > 1e-4 * max(1.0, abs(expected), abs(along)):
                theirs_along = theirs.gradients[0]
                return "wrong", [("finite differences#", along, expected), ("torch", "", theirs_along), *found]
            found = _undecided(found, theirs)
    if any(step[2] in ("self", "fill", "zero") for step in program) and isinstance(theirs.gradients[0], tuple):
        # torch refuses to differentiate them: x.mul_(x), and one value for all of an expanded tensor
        found = [f for f in found if not f[0].startswith(".2")]
    if isinstance(mine.gradients[0], tuple) and isinstance(theirs.gradients[0], tuple):
        found = [f for f in found if not f[0].startswith(".2.1")]  # which hooks ran before is open
    if any("Tensor must have a last dimension" in str(facts) for facts in theirs.tensors):  # torch has lost a view
        found = [f for f in found if not f[0].endswith("#") and not f[0].startswith((".2", ".1"))]
    names = {step[2] for step in program}
    if {"view_as_real", "view_as_complex", "real", "imag"} & names and set(SHAPES) & names and not is_pure(program):
        found = [f for f in found if not f[0].endswith("#")]  # torch makes such a view anew from the base's new shape
    if "hook_scale" in names and set(SHAPES) & names:  # torch leaves a hook with what the tensor was
        found = [f for f in found if not f[0].startswith(".2")]
    if REFUSED[:40] in str(mine):  # where torch takes the gradient for zero
        return "same", []
    if "one of the variables needed" in str(mine.gradients[0]) and names & UNNOTICED:
        return "same", []  # torch does not notice the write
    if "sqrt" in names and program[0][2] == "complex":  # at its cut, and where zero is rounded, libraries differ
        found = [f for f in found if not f[0].endswith("#")]
    if "retain_grad" in names and any(m != "grad" and kind == "shape" for m, kind, *_ in program[1:]):
        # torch gives a tensor that got its shape unrecorded a gradient of the shape it was computed in
        found = [f for f in found if not (f[0].startswith(".2.0.") and _same_but_for_shape(*f[1:]))]
    if program[0][2] == "complex":  # of infinities complex products make NaN in one order and not in the other
        found = [f for f in found if not (f[0].endswith("#") and _both_overflowed(*f[1:]))]
    if "set_data" in names:  # torch's version stays with the tensor, though its memory is another
        found = [f for f in found if not f[0].endswith(".1.5")]
    if {"detach_", "retain_grad"} <= names:  # of what has no history any more torch says that it retains a gradient
        found = [f for f in found if not f[0].endswith(".1.6")]
    reads = {"read", "read_exp", "set_data"} & {step[2] for step in program}
    if "set_data" in reads and len(reads) > 1:  # what torch saves changes with `.data`
        found = [f for f in found if not f[0].endswith("#")]
    if "one of the variables needed" in str(mine.gradients[0]) and isinstance(theirs.gradients[0], tuple):
        found = [f for f in found if not f[0].startswith(".2.0")]  # two reasons to refuse; either will do
    if not found:
        return "same", []
    for where, a, _ in found:
        if where.endswith("#"):
            return "wrong", found
        if isinstance(a, str) and a in ("ValueError", "AttributeError", "AssertionError", "KeyError"):
            return "crashed", found
    return "differs", found


def shortened(program: list[Step], torch: Any, verdict: str) -> list[Step]:
    """Return a program without the steps that its verdict does not need."""
    i = len(program) - 1
    while i > 0:
        shorter = program[:i] + program[i + 1 :]
        with contextlib.suppress(Exception):
            if judge(shorter, torch)[0] == verdict:
                program = shorter
        i -= 1
    return program
