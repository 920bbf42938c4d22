"""Cases: a call built and run by a module, check by check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import adjoint
from adjoint.core.nodes import wrap

from .drawing import Array, Call, Name

EPS = {"float64": 2.0**-52, "complex128": 2.0**-52, "float32": 2.0**-23, "complex64": 2.0**-23,
       "float16": 2.0**-10, "bfloat16": 2.0**-7}  # fmt: skip


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
