"""The checks of one operator: each compares adjoint with torch (or with itself) on one sample."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import torch

import adjoint

from . import entries, translate
from .translate import flatten, substitute, swap, to_adjoint, to_numpy

CHECKS = ("forward", "grad", "gradgrad", "forward_ad", "vmap", "method", "inplace", "out", "names", "alias", "errors")


class Mismatch(Exception):
    """adjoint's answer is not torch's."""


class NotApplicable(Exception):
    """There is nothing to compare: torch does not support it, or says nothing about it."""


class _TorchRefuses(NotApplicable):
    """Torch raises, which may be what it lacks, or what it forbids."""


# Relative and absolute tolerance per dtype; the absolute one grows with the largest value compared.
TOLERANCES = {
    "float64": (1e-7, 1e-9),
    "complex128": (1e-7, 1e-9),
    "float32": (2e-4, 1e-5),
    "complex64": (2e-4, 1e-5),
    "float16": (1e-2, 1e-2),
    "bfloat16": (5e-2, 5e-2),
}
# How many times wider they are where torch's own kernel is inexact: its Bessel functions are off by up to
# 3e-7 in double precision (against mpmath).
LOOSE = {f"special.bessel_{name}": 1000.0 for name in ("j0", "j1", "y0", "y1")}


# --- Comparing --------------------------------------------------------------------------------------


def array_of(value: Any) -> np.ndarray:
    """Return an adjoint tensor's values; one that lies elsewhere than what it was made of is a mistake."""
    if translate.place != "cpu" and translate.placed and value.device.type != translate.place:
        raise Mismatch(f"the result lies on {value.device}, the arguments on {translate.place}")
    return np.asarray(value.detach().cpu().array)  # not numpy(), which refuses bfloat16


def compare_arrays(a: np.ndarray, b: np.ndarray, what: str, loose: float = 1.0) -> None:
    """Raise `Mismatch` unless `a` (adjoint's) is close to `b` (torch's)."""
    if a.shape != b.shape:
        raise Mismatch(f"{what}: shape {a.shape}, torch has {b.shape}")
    if a.dtype != b.dtype:
        raise Mismatch(f"{what}: dtype {a.dtype}, torch has {b.dtype}")
    if not a.size:
        return
    name = a.dtype.name
    if name not in TOLERANCES:
        if not np.array_equal(a, b):
            i = tuple(int(k) for k in np.argwhere(a != b)[0])
            raise Mismatch(f"{what}: {a[i]} at {i}, torch has {b[i]} ({int((a != b).sum())}/{a.size} differ)")
        return
    rtol, atol = (t * loose for t in TOLERANCES[name])
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        a, b = a.astype(wide), b.astype(wide)
        finite = np.isfinite(b)
        scale = max(1.0, float(np.abs(b[finite]).max())) if finite.any() else 1.0
        close = (np.abs(a - b) <= atol * scale + rtol * np.abs(b)) | (a == b) | (np.isnan(a) & np.isnan(b))
        if a.dtype.kind == "c" and not close.all():
            # An infinite or NaN complex number: each part by itself.
            parts = [np.isclose(f(a), f(b), rtol, atol * scale, equal_nan=True) for f in (np.real, np.imag)]
            close |= parts[0] & parts[1] | (np.isnan(a) & np.isnan(b))
    if not close.all():
        i = tuple(int(k) for k in np.argwhere(~close)[0])
        share = f"{int((~close).sum())}/{a.size} differ"
        raise Mismatch(f"{what}: {a[i]:.10g} at {i}, torch has {b[i]:.10g} ({share})")


def compare(ours: Any, theirs: Any, what: str = "result", loose: float = 1.0, values: bool = True) -> None:
    """Raise `Mismatch` unless two results are the same: structure, shapes, dtypes, values."""
    a, b = flatten(ours), flatten(theirs)
    if len(a) != len(b):
        raise Mismatch(f"{what}: {len(a)} results, torch has {len(b)}")
    for field in getattr(theirs, "_fields", None) or _fields(theirs):
        if not hasattr(ours, field):
            raise Mismatch(f"{what}: the result has no field `{field}`")
    for i, (x, y) in enumerate(zip(a, b)):
        label = f"{what} {i}" if len(a) > 1 else what
        if isinstance(y, torch.Tensor):
            if not isinstance(x, adjoint.Tensor):
                raise Mismatch(f"{label}: a {type(x).__name__}, torch has a tensor")
            if values:
                compare_arrays(array_of(x), to_numpy(y), label, loose)
            elif tuple(x.shape) != tuple(y.shape) or _word(x.dtype) != _word(y.dtype):
                raise Mismatch(f"{label}: {x.dtype} {tuple(x.shape)}, torch has {y.dtype} {tuple(y.shape)}")
        elif isinstance(y, float | complex) and isinstance(x, float | complex | int):
            compare_arrays(np.asarray(x, type(y)), np.asarray(y), label, loose)
        elif isinstance(y, torch.Size):
            if tuple(x) != tuple(y):
                raise Mismatch(f"{label}: {x}, torch has {y}")
        elif isinstance(y, torch.dtype):
            if _word(x) != _word(y):
                raise Mismatch(f"{label}: {x}, torch has {y}")
        elif x != y and not (y is None and x is None):
            raise Mismatch(f"{label}: {x!r}, torch has {y!r}")


def _word(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


def _fields(result: Any) -> list[str]:
    kind = type(result)
    if kind.__module__ != "torch.return_types":
        return []
    return [n for n in dir(kind) if not n.startswith(("_", "n_")) and n not in ("count", "index")]


# --- One sample -------------------------------------------------------------------------------------


class Case:
    """One sample of one operator, in both languages."""

    def __init__(self, op: Any, sample: Any, function: Any) -> None:
        self.op, self.sample, self.function = op, sample, function
        floating = [TOLERANCES[_word(t.dtype)][0] for t in self.tensors() if _word(t.dtype) in TOLERANCES]
        # A result is as exact as the coarsest of its inputs.
        self.loose = LOOSE.get(op.name, 1.0) * (max(floating) / min(floating) if floating else 1.0)

    def tensors(self) -> list[torch.Tensor]:
        """Return the sample's tensors."""
        s = self.sample
        return [t for t in flatten((s.input, s.args, s.kwargs)) if isinstance(t, torch.Tensor)]

    def theirs(self, grad: bool = False) -> Any:
        """Return the sample's (input, args, kwargs) for torch, fresh tensors."""
        s = self.sample
        memo: dict[int, Any] = {}
        for leaf in flatten((s.input, s.args, s.kwargs)):
            if isinstance(leaf, torch.Tensor) and id(leaf) not in memo:
                memo[id(leaf)] = self._twin(leaf, grad)
        return substitute((s.input, tuple(s.args), dict(s.kwargs)), memo)

    @staticmethod
    def _twin(t: torch.Tensor, grad: bool) -> torch.Tensor:
        if t.layout != torch.strided:
            raise NotApplicable("not a strided tensor")
        with torch.no_grad():
            memory = translate.memory_of(t).clone()
            twin = memory.as_strided(t.shape, t.stride(), t.storage_offset()).detach()
            if t.is_conj():
                twin = twin.conj() if memory.is_conj() is False else twin
        return twin.requires_grad_(grad and t.requires_grad)

    def run_theirs(self, call: Any, process: bool = False, seed: int = 7) -> Any:
        """Run torch's function."""
        torch.manual_seed(seed)
        input, args, kwargs = call
        out = self.op.op(input, *args, **kwargs)
        return self.sample.output_process_fn_grad(out) if process else out

    def run_ours(self, call: Any, process: bool = False) -> Any:
        """Run adjoint's function."""
        adjoint.manual_seed(7)
        input, args, kwargs = call
        out = self.function(input, *args, **kwargs)
        return swap(self.sample.output_process_fn_grad)(out) if process else out

    def is_random(self) -> bool:
        """Return whether torch's own values change with the seed, or with the device: a GPU draws other numbers."""
        names = getattr(getattr(self.op.op, "__code__", None), "co_names", ())
        if translate.place != "cpu" and "wrapper_set_seed" in names:
            return True
        one, two = (flatten(self.run_theirs(self.theirs(), seed=seed)) for seed in (7, 8))
        pairs = [(a, b) for a, b in zip(one, two) if isinstance(a, torch.Tensor)]
        return any(a.shape != b.shape or not torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in pairs)


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:120]}"


def _torch_runs(f: Any, *args: Any, **kwargs: Any) -> Any:
    """Return torch's answer; where torch itself refuses, there is nothing to compare."""
    try:
        return f(*args, **kwargs)
    except Exception as error:
        raise _TorchRefuses(f"torch raises {_line(error)}") from None


def forward(case: Case) -> None:
    """Values, shapes and dtypes."""
    call = case.theirs()
    ours = to_adjoint(call)
    expected = _torch_runs(case.run_theirs, call)
    got = case.run_ours(ours)
    if case.op.name in entries.UNSET:
        return compare(got, expected, values=False)
    try:
        compare(got, expected, loose=case.loose)
    except Mismatch as mismatch:
        try:
            # Results that are unique only up to a sign or a phase.
            process = case.sample.output_process_fn_grad
            compare(swap(process)(got), process(expected), loose=case.loose)
        except Mismatch:
            if case.op.name in entries.TIES and _points_at_equals(call, got, expected):
                return None
            if not case.is_random():
                raise mismatch from None
            compare(got, expected, values=False)


def _points_at_equals(call: Any, got: Any, expected: Any) -> bool:
    """Return whether indices that differ lead to the same values; torch promises none among equals."""
    compare(got, expected, values=False)
    ours, theirs = flatten(got), flatten(expected)
    if len(ours) > 1:
        compare(ours[0], theirs[0])
    source, mine, other = to_numpy(call[0]), array_of(ours[-1]), to_numpy(theirs[-1])
    numbers = [v for v in (*call[1], *call[2].values()) if isinstance(v, int) and not isinstance(v, bool)]
    for axis in {call[2].get("dim", -1), *numbers, *range(source.ndim)}:
        try:
            kept = [i if i.ndim == source.ndim else np.expand_dims(i, axis) for i in (mine, other)]
            if np.array_equal(*(np.take_along_axis(source, i, axis) for i in kept), equal_nan=True):
                return all(
                    len(set(row)) == len(row) for row in np.moveaxis(kept[0], axis, -1).reshape(-1, kept[0].shape[axis])
                )
        except (IndexError, ValueError):
            continue
    return False


def alias(case: Case) -> None:
    """Whether the result shares memory with the input."""
    call = case.theirs()
    ours = to_adjoint(call)
    expected, got = flatten(_torch_runs(case.run_theirs, call)), flatten(case.run_ours(ours))
    t_in = [t for t in flatten(call) if isinstance(t, torch.Tensor)]
    a_in = [t for t in flatten(ours) if isinstance(t, adjoint.Tensor)]
    for i, (x, y) in enumerate(zip(got, expected)):
        if not isinstance(y, torch.Tensor) or not y.numel():
            continue
        shares = any(y.untyped_storage().data_ptr() == t.untyped_storage().data_ptr() for t in t_in)
        ours_shares = any(_share(x.detach().array, t.detach().array) for t in a_in)
        if shares != ours_shares:
            words = {True: "a view", False: "a copy"}
            raise Mismatch(f"result {i}: {words[ours_shares]}, torch returns {words[shares]}")
        if shares and x.numel() > 1 and tuple(x.stride()) != tuple(y.stride()):
            raise Mismatch(f"result {i}: a view with strides {x.stride()}, torch has {y.stride()}")


def _share(a: Any, b: Any) -> bool:
    """Return whether two arrays share memory, or views of one look at different places in it."""
    return bool(np.may_share_memory(a, b)) or _owner(a) is _owner(b)


def _owner(array: Any) -> Any:
    while isinstance(getattr(array, "base", None), type(array)):
        array = array.base
    return array


def _differentiable(outs: list[Any], kind: type) -> list[int]:
    return [i for i, o in enumerate(outs) if isinstance(o, kind) and o.requires_grad]


def _cotangents(outs: list[Any], seed: int) -> list[torch.Tensor]:
    rng = np.random.default_rng(seed)
    made = []
    for o in outs:
        value = rng.standard_normal(tuple(o.shape))
        if o.dtype.is_complex:
            value = value + 1j * rng.standard_normal(tuple(o.shape))
        made.append(torch.as_tensor(np.asarray(value)).to(o.dtype))
    return made


def _compare_grads(ours: Any, theirs: Any, what: str, loose: float) -> None:
    for i, (a, b) in enumerate(zip(ours, theirs)):
        label = f"{what} {i}" if len(theirs) > 1 else what
        # No gradient and a gradient of zeros mean the same.
        if a is None and b is None:
            continue
        if b is None:
            if np.any(array_of(a)):
                raise Mismatch(f"{label}: a gradient, torch has none")
        elif a is None:
            if torch.any(b != 0):
                raise Mismatch(f"{label}: no gradient, torch has one")
        else:
            compare_arrays(array_of(a), to_numpy(b), label, loose)


def _prepare(case: Case) -> Any:
    op = case.op
    if not op.supports_autograd:
        raise NotApplicable("torch does not differentiate it")
    call = case.theirs(grad=True)
    ours = to_adjoint(call)
    t_leaves = _unique([t for t in flatten(call) if isinstance(t, torch.Tensor) and t.requires_grad])
    a_leaves = _unique([t for t in flatten(ours) if isinstance(t, adjoint.Tensor) and t.requires_grad])
    if not t_leaves:
        raise NotApplicable("no input requires a gradient")
    expected = flatten(_torch_runs(case.run_theirs, call, True))
    got = flatten(case.run_ours(ours, True))
    where = _differentiable(expected, torch.Tensor)
    if where != _differentiable(got, adjoint.Tensor):
        raise Mismatch(f"outputs {_differentiable(got, adjoint.Tensor)} require a gradient, in torch {where}")
    if not where:
        raise NotApplicable("no output requires a gradient")
    t_outs, a_outs = [expected[i] for i in where], [got[i] for i in where]
    try:
        compare(a_outs, t_outs, "value", loose=case.loose)
    except Mismatch:
        if case.is_random():
            raise NotApplicable("random: the streams differ") from None
        raise
    return t_leaves, a_leaves, t_outs, a_outs


def _unique(tensors: list[Any]) -> list[Any]:
    return list({id(t): t for t in tensors}.values())


def grad(case: Case) -> None:
    """First-order gradients under a random cotangent."""
    t_leaves, a_leaves, t_outs, a_outs = _prepare(case)
    cotangents = _cotangents(t_outs, 1)
    expected = _torch_runs(torch.autograd.grad, t_outs, t_leaves, cotangents, allow_unused=True)
    got = adjoint.autograd.grad(a_outs, a_leaves, to_adjoint(cotangents), allow_unused=True)
    try:
        _compare_grads(got, expected, "gradient", 10 * case.loose)
    except Mismatch:
        if not _torch_gradient_is_wrong(case, t_leaves, cotangents, got, expected):
            raise


def _torch_gradient_is_wrong(case: Case, leaves: Any, cotangents: Any, ours: Any, theirs: Any) -> bool:
    """Return whether finite differences of torch's own values agree with our gradients and not with torch's."""
    needs = [isinstance(t, torch.Tensor) and t.requires_grad for t in flatten(case.theirs(grad=True))]
    directions = _cotangents(leaves, 5)
    ends = []
    for step in (1e-6, -1e-6):
        base = case.theirs()
        moving = _unique([t for t, n in zip(flatten(base), needs) if n])
        moved = {id(t): t + step * d for t, d in zip(moving, directions)}
        outs = [o for o in flatten(case.run_theirs(substitute(base, moved), True)) if isinstance(o, torch.Tensor)]
        outs = [o for o in outs if o.is_floating_point() or o.is_complex()]
        if len(outs) != len(cotangents):
            return False
        ends.append(sum(_dot(o, c) for o, c in zip(outs, cotangents)))
    slope = (ends[0] - ends[1]) / 2e-6
    told = [sum(_dot(g, d) for g, d in zip(gs, directions)) for gs in (ours, theirs)]
    off = [abs(v - slope) / max(1.0, abs(slope)) for v in told]
    return off[0] < 1e-5 < 1e-3 < off[1]


def gradgrad(case: Case) -> None:
    """Second-order gradients: with respect to the inputs and to the first cotangent."""
    t_leaves, a_leaves, t_outs, a_outs = _prepare(case)
    t_cot = [c.requires_grad_() for c in _cotangents(t_outs, 1)]
    a_cot = to_adjoint(t_cot)
    got = adjoint.autograd.grad(a_outs, a_leaves, a_cot, allow_unused=True, create_graph=True)
    t_second: Any = None
    try:
        expected = _torch_runs(torch.autograd.grad, t_outs, t_leaves, t_cot, allow_unused=True, create_graph=True)
        t_where = [i for i, g in enumerate(expected) if g is not None and g.requires_grad]
        second = _cotangents([expected[i] for i in t_where], 2)
        if t_where:
            firsts = [expected[i] for i in t_where]
            t_second = _torch_runs(torch.autograd.grad, firsts, t_leaves + t_cot, second, allow_unused=True)
    except _TorchRefuses:  # what torch lacks is measured
        return _check_by_differences(case, got, a_leaves, a_cot)
    try:
        _compare_grads(got, expected, "gradient", 10 * case.loose)
        if not t_where:
            return _check_by_differences(case, got, a_leaves, a_cot)
        a_second = _second([got[i] for i in t_where], a_leaves + a_cot, to_adjoint(second))
        _compare_grads(a_second, t_second, "second gradient", 100 * case.loose)
    except Mismatch as mismatch:
        try:
            _check_by_differences(case, got, a_leaves, a_cot)
        except Mismatch:
            raise mismatch from None


def _second(firsts: list[Any], leaves: list[Any], cotangents: list[Any]) -> Any:
    """Return adjoint's gradients of gradients; one that does not depend on anything contributes zero."""
    pairs = [(g, c) for g, c in zip(firsts, cotangents) if g is not None and g.requires_grad]
    if not pairs:
        return [None] * len(leaves)
    firsts, cotangents = [p[0] for p in pairs], [p[1] for p in pairs]
    return adjoint.autograd.grad(firsts, leaves, cotangents, allow_unused=True, retain_graph=True)


def _check_by_differences(case: Case, firsts: Any, leaves: list[Any], cotangents: list[Any]) -> None:
    """Compare adjoint's second order with differences of its first, which is compared with torch elsewhere."""
    if any(t.dtype not in (adjoint.float64, adjoint.complex128) for t in leaves + cotangents):
        raise NotApplicable("single precision is too coarse for differences")
    seconds = to_adjoint(_cotangents(_as_torch(firsts, leaves), 2))
    moving = leaves + cotangents
    directions = to_adjoint(_cotangents(_as_torch(moving, moving), 6))
    told = sum(_dot(s, d) for s, d in zip(_second(list(firsts), moving, seconds), directions))
    needs = [isinstance(t, torch.Tensor) and t.requires_grad for t in flatten(case.theirs(grad=True))]
    ends = []
    for step in (1e-6, -1e-6):
        call = to_adjoint(case.theirs())
        fresh = _unique([t for t, n in zip(flatten(call), needs) if n])
        moved = [(t + step * d).detach().requires_grad_() for t, d in zip(fresh, directions)]
        outs = flatten(case.run_ours(substitute(call, {id(t): m for t, m in zip(fresh, moved)}), True))
        outs = [outs[i] for i in _differentiable(outs, adjoint.Tensor)]
        cots = [(c + step * d).detach() for c, d in zip(cotangents, directions[len(fresh) :])]
        got = adjoint.autograd.grad(outs, moved, cots, allow_unused=True)
        ends.append(sum(_dot(g, s) for g, s in zip(got, seconds)))
    slope, value = (ends[0] - ends[1]) / 2e-6, sum(_dot(g, s) for g, s in zip(firsts, seconds))
    scale = max(1.0, abs(slope), abs(ends[0]))
    if not abs((ends[0] + ends[1]) / 2 - value) <= 1e-6 * scale:
        raise Mismatch("gradient: another one with create_graph=True than without")
    if not abs(told - slope) <= 1e-5 * scale:
        raise Mismatch(f"second gradient: {told:.10g} along a direction, differences of the first say {slope:.10g}")


def _as_torch(values: Any, like: list[Any]) -> list[torch.Tensor]:
    """Return empty torch tensors of the shapes and dtypes of adjoint's."""
    both = [t if v is None else v for v, t in zip(values, like)]
    return [torch.empty(tuple(t.shape), dtype=getattr(torch, _word(t.dtype))) for t in both]


def _dot(a: Any, b: Any) -> float:
    """Return the inner product of two tensors as vectors of real numbers; None is zero."""
    if a is None or b is None:
        return 0.0
    x, y = (to_numpy(t) if isinstance(t, torch.Tensor) else array_of(t) for t in (a, b))
    return float(np.real(np.conj(x) * y).sum())


def forward_ad(case: Case) -> None:
    """Forward-mode tangents."""
    try:
        theirs = _duals(case, ours=False)
    except _TorchRefuses:
        return _check_by_gradient(case)
    ours = _duals(case, ours=True)
    if not any(p is not None and p[1] is not None for p in theirs):
        raise NotApplicable("no output has a tangent")
    for i, (b, a) in enumerate(zip(theirs, ours)):
        if b is None:
            continue
        if a is None:
            raise Mismatch(f"value {i} is not a floating tensor, torch's is")
        try:
            compare_arrays(array_of(a[0]), to_numpy(b[0]), f"value {i}", case.loose)
        except Mismatch:
            if case.is_random():
                raise NotApplicable("random: the streams differ") from None
            raise
        try:
            _compare_grads([a[1]], [b[1]], f"tangent of output {i}", 10 * case.loose)
        except Mismatch:
            if not (_torch_is_wrong(case, i, a[1], b[1]) or _torch_contradicts_itself(case, i, a[1], b[1])):
                raise


def _duals(case: Case, ours: bool) -> list[Any]:
    """Return the outputs' (value, tangent) pairs, None for what is no floating tensor."""
    kind: Any = adjoint.Tensor if ours else torch.Tensor
    ad: Any = adjoint.autograd.forward_ad if ours else torch.autograd.forward_ad
    needs = [isinstance(t, torch.Tensor) and t.requires_grad for t in flatten(case.theirs(grad=True))]
    base = case.theirs()
    leaves = _unique([t for t, n in zip(flatten(base), needs) if n])
    if not leaves:
        raise NotApplicable("no input requires a gradient")
    tangents: list[Any] = _directions(case, leaves)
    translated: dict[int, Any] = {}
    call = base
    if ours:
        call = to_adjoint(base, translated)
        leaves, tangents = [translated[id(t)][0] for t in leaves], to_adjoint(tangents)
    run, guard = (case.run_ours, _plainly) if ours else (case.run_theirs, _torch_runs)
    with ad.dual_level():
        duals = {id(t): guard(ad.make_dual, t, v) for t, v in zip(leaves, tangents)}
        outs = flatten(guard(run, substitute(call, duals), True))
        floating = [isinstance(o, kind) and (o.is_floating_point() or o.is_complex()) for o in outs]
        return [tuple(ad.unpack_dual(o)) if f else None for o, f in zip(outs, floating)]


def _directions(case: Case, leaves: list[Any]) -> list[torch.Tensor]:
    """Return random tangents; those of an operator that takes only Hermitian matrices are Hermitian."""
    made = _cotangents(leaves, 3)
    return [t + t.mH for t in made] if case.op.name in entries.HERMITIAN else made


def _plainly(f: Any, *args: Any) -> Any:
    return f(*args)


def _check_by_gradient(case: Case) -> None:
    """Compare adjoint's tangents with a gradient: what torch lacks forwards it has backwards, as a rule."""
    t_leaves, a_leaves, t_outs, a_outs = _prepare(case)
    cotangents = _cotangents(t_outs, 1)
    try:
        gradients = _torch_runs(torch.autograd.grad, t_outs, t_leaves, cotangents, allow_unused=True)
    except _TorchRefuses:
        gradients = adjoint.autograd.grad(a_outs, a_leaves, to_adjoint(cotangents), allow_unused=True)
    where = _differentiable(flatten(case.run_ours(to_adjoint(case.theirs(grad=True)), True)), adjoint.Tensor)
    duals = _duals(case, ours=True)
    told = [_dot(duals[i] and duals[i][1], c) for i, c in zip(where, cotangents)]
    wanted = [_dot(g, d) for g, d in zip(gradients, _directions(case, t_leaves))]
    off = abs(sum(told) - sum(wanted)) / max(1.0, *map(abs, told), *map(abs, wanted))
    if not off <= 100 * TOLERANCES[_word(t_outs[0].dtype)][0] * case.loose:
        raise Mismatch(f"tangent: {sum(told):.10g} along a cotangent, the gradient says {sum(wanted):.10g}")


def _torch_contradicts_itself(case: Case, output: int, ours: Any, theirs: Any) -> bool:
    """Return whether torch's gradient agrees to the last digits with our tangent and not with torch's."""
    call = case.theirs(grad=True)
    leaves = _unique([t for t in flatten(call) if isinstance(t, torch.Tensor) and t.requires_grad])
    out = flatten(case.run_theirs(call, True))[output]
    cotangents = _cotangents([out], 8)
    gradients = torch.autograd.grad([out], leaves, cotangents, allow_unused=True)
    wanted = [_dot(g, d) for g, d in zip(gradients, _cotangents(leaves, 3))]
    scale = max(1.0, *map(abs, wanted))
    off = [abs(_dot(t, cotangents[0]) - sum(wanted)) / scale for t in (ours, theirs)]
    return off[0] < 1e-9 < 1e-8 < off[1]


def _torch_is_wrong(case: Case, output: int, ours: Any, theirs: Any) -> bool:
    """Return whether finite differences of torch's own values agree with our tangent and not with torch's."""
    needs = [isinstance(t, torch.Tensor) and t.requires_grad for t in flatten(case.theirs(grad=True))]
    ends = []
    for step in (1e-6, -1e-6):
        base = case.theirs()
        leaves = [t for t, n in zip(flatten(base), needs) if n]
        moved = {id(t): t + step * d for t, d in zip(leaves, _cotangents(leaves, 3))}
        ends.append(flatten(case.run_theirs(substitute(base, moved), True))[output])
    slope = to_numpy((ends[0] - ends[1]) / 2e-6)
    off = [np.abs(v - slope).max() / max(1.0, np.abs(slope).max()) for v in (array_of(ours), to_numpy(theirs))]
    return bool(off[0] < 1e-5 < 1e-3 < off[1])


def vmap(case: Case) -> None:
    """A batch of two through vmap, against a loop over it: all tensors batched, and one of them, in its last place."""
    if case.op.name in entries.UNSET:
        raise NotApplicable("unset values")
    call = case.theirs()
    tensors = _unique([t for t in flatten(call) if isinstance(t, torch.Tensor)])
    if not tensors:
        raise NotApplicable("no tensors")
    translated: dict[int, Any] = {}
    mine = to_adjoint(call, translated)

    def theirs(*values: Any) -> Any:
        return case.run_theirs(substitute(call, {id(t): v for t, v in zip(tensors, values)}), True)

    def ours(*values: Any) -> Any:
        new = {id(translated[id(t)][0]): v for t, v in zip(tensors, values)}
        return tuple(flatten(case.run_ours(substitute(mine, new), True)))

    reasons = []
    for dims in _batchings(tensors):
        both = [t if d is None else torch.stack([t, _changed(t)], d) for t, d in zip(tensors, dims)]
        reason = None
        second = [b if d is None else b.select(d, 1).clone() for b, d in zip(both, dims)]
        try:
            _torch_runs(theirs, *second)
            drawn = _torch_runs(torch.func.vmap(theirs, dims, randomness="different"), *both)
            random = _is_refused(torch.func.vmap(theirs, dims), *both)  # it draws, which is an error unless allowed
        except NotApplicable as refusal:  # what torch cannot batch is not asked of us, but must not be wrong
            reason = refusal
            reasons.append(reason)
        batched = [translated[id(t)][0] if d is None else to_adjoint(b) for t, b, d in zip(tensors, both, dims)]
        parts = [[b if d is None else b.select(d, k).clone() for b, d in zip(batched, dims)] for k in range(2)]
        try:
            looped = [ours(*part) for part in parts]
            got = adjoint.func.vmap(ours, dims, randomness="different")(*batched)
        except Exception:
            if reason:
                continue
            raise
        if not reason and random:
            compare(list(got), flatten(drawn), f"result of in_dims={dims}", values=False)
            continue
        for i, y in enumerate(looped[0]):
            if isinstance(y, adjoint.Tensor):
                want = np.stack([array_of(looped[0][i]), array_of(looped[1][i])])
                compare_arrays(array_of(got[i]), want, f"result {i} of in_dims={dims}, against a loop", 10 * case.loose)
    if len(reasons) == len(_batchings(tensors)):
        raise reasons[0]


def _is_refused(f: Any, *args: Any) -> bool:
    try:
        f(*args)
    except Exception:
        return True
    return False


def _batchings(tensors: list[Any]) -> list[tuple[int | None, ...]]:
    every: tuple[int | None, ...] = (0,) * len(tensors)
    return [every, (-1, *(None,) * (len(tensors) - 1))]


def _changed(t: torch.Tensor) -> torch.Tensor:
    return t * 0.9 if t.is_floating_point() or t.is_complex() else t


def method(case: Case) -> None:
    """The Tensor method of the same name."""
    variant = case.op.method_variant or getattr(torch.Tensor, case.op.name.rpartition(".")[2], None)
    if not callable(variant) or case.op.name.startswith("__") or case.op.name in entries.UNSET:
        raise NotApplicable("torch has no such method")
    call = case.theirs()
    if not isinstance(call[0], torch.Tensor):
        raise NotApplicable("no tensor to call it on")
    mine = entries.method_of(case.op, variant, case.op.name)
    ours = to_adjoint(call)
    torch.manual_seed(7)
    expected = _torch_runs(variant, call[0], *call[1], **call[2])
    adjoint.manual_seed(7)
    got = mine(ours[0], *ours[1], **ours[2])
    _compare_or_random(case, got, expected)


def _compare_or_random(case: Case, got: Any, expected: Any) -> None:
    try:
        compare(got, expected, loose=case.loose)
    except Mismatch as mismatch:
        try:
            process = case.sample.output_process_fn_grad
            compare(swap(process)(got), process(expected), loose=case.loose)
        except Mismatch:
            if not case.is_random():
                raise mismatch from None


def names(case: Case) -> None:
    """The operator's other names: functions and methods."""
    if not case.op.aliases:
        raise NotApplicable("torch has no other name for it")
    for other in case.op.aliases:
        path = other.name.removeprefix("torch.")
        forms = [(other.op, lambda path=path: translate.lookup(path))]
        if other.method_variant is not None:
            forms.append((other.method_variant, lambda path=path: entries.tensor_method(path)))
        for theirs, ours in forms:
            call = case.theirs()
            mine = to_adjoint(call)
            expected = _torch_runs(theirs, call[0], *call[1], **call[2])
            _compare_or_random(case, ours()(mine[0], *mine[1], **mine[2]), expected)
        if other.inplace_variant is not None:
            entries.tensor_method(path + "_")


def inplace(case: Case) -> None:
    """The in-place method: value, identity, and the gradient through it."""
    op = case.op
    variant = op.inplace_variant
    if variant is None or case.sample.broadcasts_input:
        raise NotApplicable("torch has no in-place form")
    mine = entries.method_of(op, variant, op.name + "_")
    wants_grad = op.supports_autograd and op.supports_inplace_autograd
    call = case.theirs(grad=wants_grad)
    if not isinstance(call[0], torch.Tensor):
        raise NotApplicable("no tensor to write to")
    ours = to_adjoint(call)
    t_self, a_self = call[0].clone(), ours[0].clone()
    torch.manual_seed(7)
    try:
        expected = variant(t_self, *call[1], **call[2])
    except Exception as error:
        try:
            mine(a_self, *ours[1], **ours[2])
        except Exception:
            raise NotApplicable("both refuse") from None
        raise Mismatch(f"torch refuses ({_line(error)}), adjoint does not") from None
    adjoint.manual_seed(7)
    got = mine(a_self, *ours[1], **ours[2])
    if expected is t_self and got is not a_self:
        raise Mismatch("does not return the tensor it wrote to")
    if op.name in entries.UNSET:
        return
    try:
        compare(a_self, t_self, "value", loose=case.loose)
    except Mismatch:
        if case.is_random():
            return
        raise
    if expected.requires_grad != got.requires_grad:
        raise Mismatch(f"requires_grad is {got.requires_grad}, in torch {expected.requires_grad}")
    if expected.requires_grad:
        t_leaves = _unique([t for t in flatten(call) if isinstance(t, torch.Tensor) and t.requires_grad])
        a_leaves = _unique([t for t in flatten(ours) if isinstance(t, adjoint.Tensor) and t.requires_grad])
        cotangents = _cotangents([expected], 1)
        want = _torch_runs(torch.autograd.grad, [expected], t_leaves, cotangents, allow_unused=True)
        have = adjoint.autograd.grad([got], a_leaves, to_adjoint(cotangents), allow_unused=True)
        _compare_grads(have, want, "gradient", 10 * case.loose)


def out(case: Case) -> None:
    """``out=``: filled and returned; an empty one is resized."""
    if case.op.name.startswith("__"):
        raise NotApplicable("an operator of Python's has no out=")
    call = case.theirs()
    expected = _torch_runs(case.run_theirs, call)
    if not flatten(expected) or not all(isinstance(t, torch.Tensor) for t in flatten(expected)):
        raise NotApplicable("not all results are tensors")
    for size in ("same", "empty"):
        call = case.theirs()
        ours = to_adjoint(call)
        shapes = [t.shape if size == "same" else (0,) for t in flatten(expected)]
        blank = [torch.empty(shape, dtype=t.dtype) for shape, t in zip(shapes, flatten(expected))]
        single = isinstance(expected, torch.Tensor)
        target: Any = blank[0] if single else tuple(blank)
        # A twin of its own: torch refuses to resize a tensor whose memory NumPy has seen.
        mine = to_adjoint(blank[0].clone() if single else tuple(t.clone() for t in blank))
        reference = _torch_runs(case.run_theirs, (call[0], call[1], call[2] | {"out": target}))
        if case.op.name not in entries.UNSET and not _agree(case, target, expected):
            raise NotApplicable("torch does not put its own result into out=")
        if not single and len(flatten(mine)) != len(blank):
            raise NotApplicable("torch itself takes fewer results")
        got = case.run_ours((ours[0], ours[1], ours[2] | {"out": mine}))
        kept = [x is y for x, y in zip(flatten(reference), flatten(target))]
        for i, (x, y) in enumerate(zip(flatten(got), flatten(mine))):
            if i < len(kept) and kept[i] and x is not y:
                raise Mismatch("does not return the tensor given as out=")
        if case.op.name not in entries.UNSET:
            _compare_or_random(case, mine, target)


def _agree(case: Case, one: Any, other: Any) -> bool:
    """Return whether two of torch's results are the same, up to what random numbers change."""
    pairs = list(zip(flatten(one), flatten(other)))
    return case.is_random() or all(
        a.shape == b.shape and torch.allclose(a.nan_to_num(), b.nan_to_num().to(a.dtype)) for a, b in pairs
    )


def errors(op: Any, function: Any) -> list[tuple[bool, str]]:
    """Return, for every wrong call torch names, whether adjoint raises the same class, and the story."""
    told = []
    # Torch gets its own: what NumPy has seen it refuses to resize.
    for item, twin in zip(op.error_inputs("cpu"), op.error_inputs("cpu")):
        sample = twin.sample_input
        arguments = (sample.input, tuple(sample.args), dict(sample.kwargs))
        try:
            call = to_adjoint(arguments, _with_shared_memory(arguments))
        except Exception:  # what adjoint or NumPy cannot hold at all: a meta tensor, 65 dimensions
            continue
        sample = item.sample_input
        try:
            op.op(sample.input, *sample.args, **sample.kwargs)
        except Exception as error:
            theirs = error
        else:
            continue
        wanted: Any = next((k for k in type(theirs).__mro__ if k.__module__ == "builtins"), Exception)
        try:
            function(call[0], *call[1], **call[2])
            if translate.place == "cuda":  # a GPU tells of a wrong index when somebody waits for it
                adjoint.cuda.synchronize()
        except Exception as error:
            words = str(error).replace("adjoint.", "torch.")
            fine = isinstance(error, wanted) and re.search(item.error_regex, words) is not None
            told.append((fine, "" if fine else f"{_line(error)}, torch raises {_line(theirs)}"))
        else:
            told.append((False, f"no error, torch raises {_line(theirs)}"))
    return told


def _with_shared_memory(arguments: Any) -> dict[int, Any]:
    """Return a memo for `to_adjoint` in which tensors that share memory do so in adjoint."""
    shared: dict[int, list[torch.Tensor]] = {}
    for t in flatten(arguments):
        if isinstance(t, torch.Tensor) and t.layout == torch.strided and t.numel():
            shared.setdefault(t.untyped_storage().data_ptr(), []).append(t)
    memo: dict[int, Any] = {}
    for group in shared.values():
        if len({id(t) for t in group}) > 1:
            memory = to_adjoint(translate.memory_of(group[0]))
            for t in group:
                memo[id(t)] = (memory.as_strided(tuple(t.shape), t.stride(), t.storage_offset()), t)
    return memo


SAMPLE_CHECKS = {
    "forward": forward, "grad": grad, "gradgrad": gradgrad, "forward_ad": forward_ad, "vmap": vmap,
    "method": method, "inplace": inplace, "out": out, "names": names, "alias": alias,
}  # fmt: skip


def is_differentiating(check: str) -> bool:
    """Return whether a check only makes sense for floating dtypes."""
    return check in ("grad", "gradgrad", "forward_ad")


__all__ = ["CHECKS", "SAMPLE_CHECKS", "Case", "Mismatch", "NotApplicable", "errors", "is_differentiating"]
