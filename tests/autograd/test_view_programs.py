"""Random programs of views and in-place writes: gradients and refusals equal torch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint
from tests.oracle import needs_torch, same

VIEWS = {
    "row": lambda v: v[0],
    "tail": lambda v: v[1:],
    "step": lambda v: v[::2],
    "transpose": lambda v: v.transpose(0, -1),
    "flat": lambda v: v.reshape(-1),
    "lead": lambda v: v.unsqueeze(0),
    "narrow": lambda v: v.narrow(0, 0, 1),
    "diagonal": lambda v: v.diagonal() if v.dim() > 1 else v,
    "detach": lambda v: v.detach(),
    "expand": lambda v: v[:1].expand(2, *v.shape[1:]),
    "split": lambda v: v.split(1)[-1],
    "unbind": lambda v: v.unbind(0)[0],
}
WRITES = {
    "scale": lambda v, x: v.mul_(2.0),
    "shift": lambda v, x: v.add_(x.sum()),
    "square": lambda v, x: v.mul_(v.clone()),
    "fill": lambda v, x: v.fill_(0.5),
    "zero": lambda v, x: v.zero_(),
    "copy": lambda v, x: v.copy_(x.sum() * 3),
    "set": lambda v, x: v.__setitem__(0, x[0, 0] * 2),
    "exp": lambda v, x: v.exp_(),
}
READS = {"none": lambda v: None, "keep": lambda v: (v * v).sum()}

step = st.tuples(
    st.sampled_from(["view", "hidden", "write", "quiet"]),
    st.integers(0, 5),
    st.sampled_from(sorted(VIEWS)),
    st.sampled_from(sorted(WRITES)),
    st.sampled_from(sorted(READS)),
)


def run(T: Any, steps: list[tuple[str, int, str, str, str]]) -> Any:
    x = T.tensor(np.linspace(0.1, 1.2, 12).reshape(3, 4).tolist(), dtype=T.float64, requires_grad=True)
    tensors, kept = [x * 1], []
    for kind, which, view, write, read in steps:
        target = tensors[which % len(tensors)]
        if kind in ("view", "hidden"):
            if target.dim() == 0:
                continue
            with T.set_grad_enabled(kind == "view"):
                tensors.append(VIEWS[view](target))
        elif target.dim() or write != "set":
            if kind == "quiet":
                with T.no_grad():
                    WRITES[write](target, x)
            else:
                WRITES[write](target, x)
        value = READS[read](target)
        if value is not None:
            kept.append(value)
    about = [(t.requires_grad, t.is_leaf, t._version, t.grad_fn is not None and t.grad_fn.name()) for t in tensors]
    loss = sum((t * t).sum() for t in tensors) + sum(kept)
    if not loss.requires_grad:
        return about
    (g,) = T.autograd.grad(loss, x, allow_unused=True)
    return about, [t.detach() for t in tensors], "none" if g is None else g


@needs_torch
@settings(max_examples=250, deadline=None, derandomize=True)
@given(st.lists(step, min_size=1, max_size=7))
def test_program_equals_torch(steps: list[tuple[str, int, str, str, str]]) -> None:
    same(lambda T: run(T, steps), tolerance=1e-9)


@pytest.mark.slow
@needs_torch
@settings(max_examples=1500, deadline=None, derandomize=True)
@given(st.lists(step, min_size=4, max_size=14))
def test_longer_programs_equal_torch(steps: list[tuple[str, int, str, str, str]]) -> None:
    same(lambda T: run(T, steps), tolerance=1e-9)


def test_a_tensor_times_itself_in_place() -> None:
    # torch refuses the backward of this; the product keeps a copy of what it overwrites here, and is right
    x = adjoint.tensor([1.0, 2.0, 3.0], dtype=adjoint.float64, requires_grad=True)
    y = x * 1
    y.mul_(y)
    y[1:].add_(y[:-1].clone())
    y.sum().backward()
    assert x.grad.tolist() == [4.0, 8.0, 6.0]
