"""Random programs of views, in-place writes and changes of geometry: values, gradients and refusals equal torch's.

A program is a list of steps, each a name and parameters, so that one that differs can be printed and run again. torch
judges each; where the two disagree about a gradient of a program that finite differences can judge, they decide.

    python -m gates.aliasing --minutes 5 --seed 0
"""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import adjoint

from .summary import summary

Step = tuple[Any, ...]
Rng = np.random.Generator


class Result(NamedTuple):
    """What a program did: an error that ended it, what each tensor is then, gradients, and losses on the way."""

    error: tuple[str, str] | None
    tensors: list[Any]
    gradients: list[Any]
    loss: complex


class State:
    """The tensors of a running program: those it differentiates by, all others, and values read on the way."""

    def __init__(self, T: Any, program: list[Step], nudge: float = 0.0) -> None:
        _, shape, kind = program[0]
        self.T, self.read, self.hooked = T, [], []
        values = np.linspace(0.3, 1.4, int(np.prod(shape))).reshape(shape)
        if kind == "complex":
            values = values + 1j * values[::-1]
        dtype = T.complex128 if kind == "complex" else T.float64
        self.x = T.tensor((values + nudge * direction(shape)).tolist(), dtype=dtype, requires_grad=True)
        first = self.x * 1 if kind != "buffer" else T.tensor(values.tolist(), dtype=dtype)
        self.tensors: list[Any] = [first, self.x] if kind == "leaf" else [first]


def direction(shape: tuple[int, ...]) -> Any:
    """Return the direction along which finite differences are taken."""
    return np.cos(np.arange(int(np.prod(shape)))).reshape(shape)


# --- Steps -------------------------------------------------------------------------------------------

VIEWS: dict[str, Callable[[Any, int, int], Any]] = {
    "select": lambda v, i, j: v.select(i % v.dim(), j % v.shape[i % v.dim()]),
    "row": lambda v, i, j: v[j % v.shape[0]],
    "tail": lambda v, i, j: v.narrow(0, 1, v.shape[0] - 1 or 9),
    "step": lambda v, i, j: v[..., ::2],
    "transpose": lambda v, i, j: v.transpose(i % v.dim(), j % v.dim()),
    "permute": lambda v, i, j: v.permute(*np.roll(np.arange(v.dim()), i).tolist()),
    "flat": lambda v, i, j: v.view(-1),
    "reshape": lambda v, i, j: v.reshape(-1, v.shape[0]),
    "unsqueeze": lambda v, i, j: v.unsqueeze(i % (v.dim() + 1)),
    "squeeze": lambda v, i, j: v.squeeze(),
    "narrow": lambda v, i, j: v.narrow(i % v.dim(), 0, 1),
    "diagonal": lambda v, i, j: v.diagonal(i % 2),
    "unfold": lambda v, i, j: v.unfold(i % v.dim(), 1, 1),
    "expand": lambda v, i, j: v[:1].expand(2, *v.shape[1:]),
    "alias": lambda v, i, j: v.view_as(v),
    "as_strided": lambda v, i, j: _reached(v).as_strided((2,), (1,), v.storage_offset()),
    "split": lambda v, i, j: v.split(1, i % v.dim())[0],
    "chunk": lambda v, i, j: v.chunk(2)[j % len(v.chunk(2))],
    "unbind": lambda v, i, j: v.unbind(i % v.dim())[0],
    "tensor_split": lambda v, i, j: v.tensor_split(2)[0],
    "real": lambda v, i, j: v.real,
    "imag": lambda v, i, j: v.imag,
    "view_as_real": lambda v, i, j: _of(v).view_as_real(v),
    "view_as_complex": lambda v, i, j: _of(v).view_as_complex(v),
    "detach": lambda v, i, j: v.detach(),
    "data": lambda v, i, j: v.data,
    "clone": lambda v, i, j: v.clone(),
    "twice": lambda v, i, j: v * 2,
    "movedim": lambda v, i, j: v.movedim(i % v.dim(), j % v.dim()),
    "flatten": lambda v, i, j: v.flatten(),
    "unflatten": lambda v, i, j: v.unflatten(0, (1, -1)),
    "mT": lambda v, i, j: v.mT if v.dim() > 1 else v.view_as(v),
}
CUTS = {"detach", "data"}


def _of(tensor: Any) -> Any:
    return sys.modules[type(tensor).__module__.partition(".")[0]]


def _reached(v: Any) -> Any:
    """Return a tensor of which two elements in a row are its own: torch has no gradient for what lies outside."""
    if v._is_view() and not (v.is_contiguous() and v.numel() > 1):
        raise RuntimeError("the tensor is a view with gaps")
    return v


def _index(v: Any, i: int) -> Any:
    T = _of(v)
    choices: list[Any] = [0, -1, ..., slice(0, 1), (..., 0), T.tensor([0]), v.real.detach() > 0.8, None, (None, 0)]
    return choices[i % len(choices)]


def _other(s: State, v: Any, i: int) -> Any:
    """Return something to write: of one element of the program's leaf, or of all of another tensor."""
    x = s.x.reshape(-1)[i % s.x.numel()].clone()
    return x.real if x.is_complex() and not v.is_complex() else x


WRITES: dict[str, Callable[[State, Any, int], Any]] = {
    "mul": lambda s, v, i: v.mul_(2.0),
    "mul_x": lambda s, v, i: v.mul_(_other(s, v, i)),
    "add_x": lambda s, v, i: v.add_(_other(s, v, i)),
    "sub": lambda s, v, i: v.sub_(0.25),
    "div_x": lambda s, v, i: v.div_(_other(s, v, i)),
    "square": lambda s, v, i: v.mul_(v.clone()),
    "self": lambda s, v, i: v.mul_(v),
    "pow": lambda s, v, i: v.pow_(2),
    "fill": lambda s, v, i: v.fill_(0.5),
    "zero": lambda s, v, i: v.zero_(),
    "copy_x": lambda s, v, i: v.copy_(_other(s, v, i) * 3),
    "copy": lambda s, v, i: v.copy_(_of(v).ones(v.shape, dtype=v.dtype) * 0.7),
    "set": lambda s, v, i: v.__setitem__(_index(v, i), 0.6),
    "set_x": lambda s, v, i: v.__setitem__(_index(v, i), _other(s, v, i)),
    "set_mul": lambda s, v, i: v.__setitem__(_index(v, i), v[_index(v, i)] * 3),
    "masked_fill": lambda s, v, i: v.masked_fill_(v.real.detach() > 0.8, 0.4),
    "masked_scatter": lambda s, v, i: v.masked_scatter_(v.real.detach() > 0.8, s.x.reshape(-1).repeat(4)),
    "index_fill": lambda s, v, i: _dense(v).index_fill_(i % v.dim(), _of(v).tensor([0]), 0.9),
    "index_add": lambda s, v, i: _dense(v).index_add_(0, _of(v).tensor([0]), v[:1].clone()),
    "index_copy": lambda s, v, i: _dense(v).index_copy_(0, _of(v).tensor([0]), v[-1:] * 2),
    "index_put": lambda s, v, i: _dense(v).index_put_((_of(v).tensor([0]),), _other(s, v, i), accumulate=bool(i % 2)),
    "scatter": lambda s, v, i: _dense(v).scatter_(0, _of(v).zeros(v.shape, dtype=_of(v).int64)[:1], v[-1:] * 2),
    "exp": lambda s, v, i: v.exp_(),
    "sin": lambda s, v, i: v.sin_(),
    "tanh": lambda s, v, i: v.tanh_(),
    "sigmoid": lambda s, v, i: v.sigmoid_(),
    "sqrt": lambda s, v, i: v.sqrt_(),
    "clamp": lambda s, v, i: v.clamp_(0.45, 1.05),
    "relu": lambda s, v, i: v.relu_(),
    "neg": lambda s, v, i: v.neg_(),
    "addcmul": lambda s, v, i: v.addcmul_(_other(s, v, i), _other(s, v, i + 1)),
    "lerp": lambda s, v, i: v.lerp_(v.clone() * 2, 0.3),
    "cumsum": lambda s, v, i: v.cumsum_(i % v.dim()),
    "imul": lambda s, v, i: v.__imul__(1.5),
    "out": lambda s, v, i: _of(v).mul(v.detach(), 2, out=v),
    "dirty": lambda s, v, i: _functions(s.T)[0].apply(v),
    "fill_diagonal": lambda s, v, i: v.fill_diagonal_(0.2),
    "where": lambda s, v, i: v.copy_(_of(v).where(v.real.detach() > 0.8, v, v * 2)),
}
SHAPES: dict[str, Callable[[State, Any, int, int], Any]] = {
    "t_": lambda s, v, i, j: v.t_(),
    "transpose_": lambda s, v, i, j: v.transpose_(i % v.dim(), j % v.dim()),
    "swapaxes_": lambda s, v, i, j: v.swapaxes_(i % v.dim(), j % v.dim()),
    "swapdims_": lambda s, v, i, j: v.swapdims_(i % v.dim(), j % v.dim()),
    "unsqueeze_": lambda s, v, i, j: v.unsqueeze_(i % (v.dim() + 1)),
    "squeeze_": lambda s, v, i, j: v.squeeze_(),
    "squeeze_dim_": lambda s, v, i, j: v.squeeze_(i % v.dim()),
    "as_strided_": lambda s, v, i, j: _reached(v).as_strided_((2,), (1,), v.storage_offset()),
    "as_strided_all_": lambda s, v, i, j: _reached(v).as_strided_((v.numel(),), (1,), v.storage_offset()),
    "resize_": lambda s, v, i, j: v.resize_(v.numel()),
    "resize_less_": lambda s, v, i, j: v.resize_(max(v.numel() // 2, 1)),
    "resize_as_": lambda s, v, i, j: v.resize_as_(v.detach().reshape(-1)),
}
OTHERS: dict[str, Callable[[State, Any, int], Any]] = {
    "detach_": lambda s, v, i: _unviewed(s, v).detach_(),
    "requires_grad_": lambda s, v, i: _unviewed(s, v).requires_grad_(),
    "freeze": lambda s, v, i: v.requires_grad_(False),
    "retain_grad": lambda s, v, i: v.retain_grad(),
    "hook": lambda s, v, i: _hookable(v).register_hook(_noting(s.hooked)),
    "hook_scale": lambda s, v, i: _hookable(v).register_hook(lambda g: g * 3),
    "read": lambda s, v, i: s.read.append((v * v).sum()),
    "read_exp": lambda s, v, i: s.read.append(v.exp().sum()),
    "numpy": lambda s, v, i: v.detach().numpy().__imul__(1.1),
    "from_numpy": lambda s, v, i: s.tensors.append(s.T.from_numpy(v.detach().numpy())),
    "asarray": lambda s, v, i: np.asarray(v.detach()).__iadd__(0.25),
    "as_tensor": lambda s, v, i: s.tensors.append(s.T.as_tensor(np.asarray(v.detach()))),
    "look": lambda s, v, i: v.grad_fn,
    "set_": lambda s, v, i: _unviewed(s, v).set_(s.tensors[i % len(s.tensors)].detach()),
    "set_data": lambda s, v, i: setattr(v, "data", _unviewed(s, v).detach().clone().mul_(2)),
    "version": lambda s, v, i: _of(v).autograd.graph.increment_version(v),
    "identity": lambda s, v, i: s.tensors.append(_functions(s.T)[1].apply(v)),
    "custom_view": lambda s, v, i: s.tensors.append(_functions(s.T)[2].apply(v)),
}
IMPURE = {
    "detach_",
    "freeze",
    "numpy",
    "from_numpy",
    "asarray",
    "as_tensor",
    "from_dlpack",
    "set_",
    "set_data",
    "hook_scale",
    "requires_grad_",
}


def _unviewed(s: State, v: Any) -> Any:
    """Return a tensor that has no views and is none: what becomes of those, when it changes, torch leaves open."""
    if s.T.is_inference_mode_enabled() or v._is_view() or any(t._base is v for t in s.tensors):
        raise RuntimeError("the tensor has views")
    return v


def _dense(v: Any) -> Any:
    if any(n > 1 and not s for s, n in zip(v.stride(), v.shape, strict=True)):
        raise RuntimeError("the tensor overlaps itself")
    return v


def _hookable(v: Any) -> Any:
    """Return a tensor that has somewhere to put a hook: with a leaf that is a view, torch 2.13 ends the process."""
    if v._is_view() and v.is_leaf:
        raise RuntimeError("the tensor is a leaf and a view")
    return v


def _noting(found: list[Any]) -> Callable[[Any], None]:
    def hook(g: Any) -> None:
        found.append(complex(g.sum().item()))

    return hook


_made: dict[Any, tuple[Any, ...]] = {}


def _functions(T: Any) -> tuple[Any, ...]:
    """Return custom functions: one that writes its input, one that returns it, one that returns a view of it."""
    if T in _made:
        return _made[T]

    class Dirty(T.autograd.Function):  # type: ignore[misc,name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            return x.mul_(4)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 4

    class Identity(T.autograd.Function):  # type: ignore[misc,name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    class Viewing(T.autograd.Function):  # type: ignore[misc,name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.unsqueeze(0)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g.squeeze(0)

    _made[T] = (Dirty, Identity, Viewing)
    return _made[T]


def perform(s: State, step: Step) -> None:
    """Run one step of a program."""
    mode, kind, name, which, i, j = step
    v = s.tensors[which % len(s.tensors)]
    T = s.T
    region = {
        "grad": contextlib.nullcontext,
        "no_grad": T.no_grad,
        "enable_grad": T.enable_grad,
        "inference": T.inference_mode,
    }
    with region[mode]():
        if kind == "view":
            s.tensors.append(VIEWS[name](v, i, j))
        elif kind == "write":
            WRITES[name](s, v, i)
        elif kind == "shape":
            SHAPES[name](s, v, i, j)
        else:
            OTHERS[name](s, v, i)


# --- Programs ----------------------------------------------------------------------------------------


def start(rng: Rng) -> Step:
    """Return the first step: the leaf's shape and kind."""
    shapes = [(3, 4), (2, 3, 2), (4,), (3, 1, 2), (2, 2), (1, 4)]
    return "start", shapes[rng.integers(len(shapes))], rng.choice(["real"] * 5 + ["complex", "buffer", "leaf"]).item()


def random_step(rng: Rng) -> Step:
    """Return a step at random."""
    kind = rng.choice(["view", "write", "shape", "other"], p=[0.35, 0.35, 0.17, 0.13]).item()
    names = list({"view": VIEWS, "write": WRITES, "shape": SHAPES, "other": OTHERS}[kind])
    mode = rng.choice(["grad", "no_grad", "inference"], p=[0.88, 0.1, 0.02]).item()
    return (mode, kind, rng.choice(names).item(), *(int(n) for n in rng.integers(0, 60, 3)))


def is_pure(program: list[Step]) -> bool:
    """Return whether finite differences can judge the program: everything it computes is recorded."""
    return program[0][2] != "complex" and all(
        mode == "grad" and name not in IMPURE | CUTS | {"out", "masked_fill", "masked_scatter", "where", "clamp"}
        and not (name.startswith("set") and i % 9 == 6)
        for mode, _, name, _, i, _ in program[1:]
    )  # fmt: skip


def generate(rng: Rng, judge: Any, length: int) -> list[Step]:
    """Return a program of steps that the judge runs; sometimes the last is one that it refuses."""
    program = [start(rng)]
    state: State | None = State(judge, program)
    while len(program) <= length:
        step = random_step(rng)
        if state is None:
            state = _replayed(judge, program)
        try:
            perform(state, step)
        except Exception:
            state = None  # what it did before it raised is unknown
            if rng.random() < 0.12:
                return [*program, step]
        else:
            program.append(step)
    return program


def _replayed(T: Any, program: list[Step]) -> State:
    state = State(T, program)
    for step in program[1:]:
        perform(state, step)
    return state


# --- Judging -----------------------------------------------------------------------------------------


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
REFUSED = "a view looks at elements that its base, whose shape"


def _undecided(found: list[Any], theirs: Result) -> list[Any]:
    """Return the differences that finite differences, which agree with adjoint, leave open."""
    failed = {f".1.{i}." for i, facts in enumerate(theirs.tensors) if facts[0] == "error"}
    return [
        f for f in found
        if not (f[0].startswith(".2.0") or f[0].endswith("#") or any(f[0].startswith(at) for at in failed))
    ]  # fmt: skip


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


def main(argv: list[str] | None = None) -> int:
    """Run programs until the time is over, and print a table of what came of them."""
    parser = argparse.ArgumentParser(description="Random programs of views and writes, compared with torch.")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--length", type=int, default=8)
    parser.add_argument("--show", type=int, default=10, help="how many of the programs that differ are printed")
    given = parser.parse_args(argv)
    try:
        import torch
    except ImportError:
        print("torch, which judges here, is not installed")
        return 0
    warnings.simplefilter("ignore")
    table, shown = Counter[str](), Counter[str]()
    end = time.monotonic() + 60 * given.minutes
    while time.monotonic() < end:
        seed = given.seed * 1_000_003 + table.total()
        rng = np.random.default_rng(seed)
        program = generate(rng, torch, int(rng.integers(2, given.length + 1)))
        verdict, found = judge(program, torch)
        table[verdict] += 1
        if verdict != "same":
            kind = f"{verdict} {re.sub('[0-9]+', 'n', str(found[0]))[:150]}"
            shown[kind] += 1
            if shown[kind] <= 1 and (verdict != "differs" or len(shown) <= given.show):
                program = shortened(program, torch, verdict)
                print(f"--- {verdict}, seed {seed}")
                for line in program:
                    print("   ", line)
                for where, a, b in judge(program, torch)[1][:4]:
                    print(f"    {where}\n        adjoint {a}\n        torch   {b}")
                sys.stdout.flush()
    print(f"{'cases':>8} {'wrong':>8} {'differs':>8} {'crashed':>8}")
    print(f"{table.total():>8} {table['wrong']:>8} {table['differs']:>8} {table['crashed']:>8}")
    print(summary("aliasing", table.total(), wrong=table["wrong"], crashed=table["crashed"]))
    return int(table["wrong"] + table["crashed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
