"""Programs that walk the graph find the nodes that torch has, and gradients stay what they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import adjoint
from adjoint.core.folding import fold
from tests.oracle import needs_torch, same


def numbers(T: Any, *shape: int) -> Any:
    count = 1
    for n in shape:
        count *= n
    return (T.arange(float(count), dtype=T.float64).reshape(shape) / 7 + 0.1).requires_grad_()


def tree(node: Any) -> Any:
    """Return the name of a node and, below it, of those that it leads to."""
    return node and [node.name(), *(tree(child) for child, _ in node.next_functions)]


def linear(T, bias=True, frozen="", shape=(3, 4)):
    x, w, b = numbers(T, *shape), numbers(T, 5, 4), numbers(T, 5)
    inputs = [t.requires_grad_(name not in frozen) for name, t in zip("xwb", (x, w, b), strict=True)]
    out = T.nn.functional.linear(x, w, b if bias else None)
    return out, [t for t in inputs[: 3 if bias else 2] if t.requires_grad]


def two_layers(T):
    x, w = numbers(T, 3, 4), numbers(T, 4, 4)
    hidden = T.nn.functional.linear(x * 2, w, numbers(T, 4)).relu()
    return T.nn.functional.linear(hidden, w.t()), [x, w]


def cross_entropy(T, reduction="mean", labels=(0, 1, 2)):
    x = numbers(T, 3, 4)
    return T.nn.functional.cross_entropy(x * 2, T.tensor(labels), reduction=reduction), [x]


def batch_norm(T):
    x, w, b = numbers(T, 2, 3, 2), numbers(T, 3), numbers(T, 3)
    return T.nn.functional.batch_norm(x**2, None, None, w, b, True), [x, w, b]


def masked(T):
    x = numbers(T, 3, 4)
    return 1 - x.masked_fill(x.detach() > 1, 0)[:, T.tensor([0, 2])].index_fill(0, T.tensor([1]), 3), [x]


def two_outputs(T, name):
    x = numbers(T, 3, 4)
    a, b = getattr(T, name)(x * 2)
    assert a.grad_fn is b.grad_fn
    return a * b, [x]


def of_inputs(function, *shapes):
    """Return a builder of a function of tensors of some shapes, the first of them computed."""

    def build(T):
        xs = [numbers(T, *shape) for shape in shapes]
        return function(T, xs[0] * 2, *xs[1:]), xs

    return build


def product(x, y):
    return of_inputs(lambda T, a, b: a @ b, x, y)


BUILDERS: dict[str, Callable[[Any], Any]] = {
    "index of two numbers": of_inputs(lambda T, x: x[0, 1] ** 2, (2, 3)),
    "index of slices and None": of_inputs(lambda T, x: x[0:1, None, 1:, 2] ** 2, (2, 3, 4)),
    "sum, scaled": of_inputs(lambda T, x, y: T.add(x, y, alpha=2) ** 2, (2, 3), (3,)),
    "difference, scaled": of_inputs(lambda T, x, y: T.sub(x, y, alpha=2) ** 2, (2, 3), (3,)),
    "copied by reshape": of_inputs(lambda T, x: x.t().reshape(6) ** 2, (2, 3)),
    "clamp_min": of_inputs(lambda T, x: x.clamp_min(0.5) ** 2, (2, 3)),
    "max_pool1d": of_inputs(lambda T, x: T.nn.functional.max_pool1d(x, 2) ** 2, (2, 3, 6)),
    "avg_pool1d": of_inputs(lambda T, x: T.nn.functional.avg_pool1d(x, 2) ** 2, (2, 3, 6)),
    "prod along a dimension": of_inputs(lambda T, x: x.prod(1), (2, 3)),
    "stable sort": of_inputs(lambda T, x: x.sort(stable=True)[0] ** 2, (2, 3)),
    "nll loss, weighted": of_inputs(
        lambda T, x: T.nn.functional.nll_loss(x, T.tensor([0, 2]), T.tensor([1.0, 2, 3]).double()) ** 2, (2, 3)
    ),
    "masked_select": of_inputs(lambda T, x: x.masked_select(T.tensor([True, False, True])), (2, 3)),
    "vector by matrix": product((3,), (3, 4)),
    "batch by vector": product((5, 2, 3), (3,)),
    "batch by matrix": product((2, 5, 2, 3), (3, 4)),
    "vector by batch": product((3,), (5, 3, 4)),
    "matrix by batch": product((2, 3), (5, 3, 4)),
    "batches": product((5, 2, 3), (5, 3, 4)),
    "one by a batch": product((1, 2, 3), (5, 3, 4)),
    "batch by one": product((5, 2, 3), (1, 3, 4)),
    "batches, broadcast": product((3, 1, 2, 3), (5, 3, 4)),
    "scores": of_inputs(lambda T, q, k: q @ k.transpose(-1, -2), (2, 5, 2, 3), (2, 5, 4, 3)),
    "bmm": of_inputs(lambda T, a, b: T.bmm(a, b), (5, 2, 3), (5, 3, 4)),
    "addmm": of_inputs(lambda T, x, y, z: T.addmm(x, y, z), (2, 4), (2, 3), (3, 4)),
    "addmm, scaled": of_inputs(lambda T, x, y, z: T.addmm(x, y, z, alpha=2, beta=3), (4,), (2, 3), (3, 4)),
    "addmv": of_inputs(lambda T, x, y, z: T.addmv(x, y, z), (2,), (2, 3), (3,)),
    "addbmm": of_inputs(lambda T, x, y, z: T.addbmm(x, y, z), (2, 4), (2, 2, 3), (2, 3, 4)),
    "baddbmm": of_inputs(lambda T, x, y, z: T.baddbmm(x, y, z, alpha=0.5), (2, 2, 4), (2, 2, 3), (2, 3, 4)),
    "addr": of_inputs(lambda T, x, y, z: T.addr(x, y, z), (2, 3), (2,), (3,)),
    "vdot": of_inputs(lambda T, x, y: T.vdot(x, y), (3,), (3,)),
    "dist": of_inputs(lambda T, x, y: T.dist(x, y), (2, 3), (2, 3)),
    "batch norm in evaluation": of_inputs(
        lambda T, x, w, b: T.nn.functional.batch_norm(x, T.zeros(3).double(), T.ones(3).double(), w, b),
        (2, 3, 2),
        (3,),
        (3,),
    ),
    "renorm": of_inputs(lambda T, x: T.renorm(x, 2, 0, 1.0), (2, 3)),
    "cholesky_inverse": of_inputs(lambda T, x: T.cholesky_inverse(x + T.eye(3)), (3, 3)),
    "linear": linear,
    "linear without bias": lambda T: linear(T, bias=False),
    "linear, input frozen": lambda T: linear(T, frozen="x"),
    "linear, weight frozen": lambda T: linear(T, frozen="w"),
    "linear of a batch": lambda T: linear(T, shape=(2, 3, 4)),
    "linear of a batch, input frozen": lambda T: linear(T, frozen="x", shape=(2, 2, 3, 4)),
    "linear of a batch, weight frozen": lambda T: linear(T, frozen="w", shape=(2, 3, 4)),
    "linear of a batch without bias": lambda T: linear(T, bias=False, shape=(2, 3, 4)),
    "linear of a vector": lambda T: linear(T, shape=(4,)),
    "linear of a vector without bias": lambda T: linear(T, bias=False, shape=(4,)),
    "two layers": two_layers,
    "without what no gradient goes to": lambda T: masked(T),
    "cross entropy": cross_entropy,
    "cross entropy, sum": lambda T: cross_entropy(T, "sum", (0, -100, 2)),
    "cross entropy, none": lambda T: cross_entropy(T, "none"),
    "batch norm": batch_norm,
    "var_mean": lambda T: two_outputs(T, "var_mean"),
    "std_mean": lambda T: two_outputs(T, "std_mean"),
    "aminmax": lambda T: two_outputs(T, "aminmax"),
}


# Nodes of these are torch's, but what their hooks see of the gradients between them has the operands' shapes.
PRODUCTS = {
    "batches",
    "scores",
    "max_pool1d",
    "avg_pool1d",
    *(name for name in BUILDERS if " by " in name or "broadcast" in name or "index" in name),
}


@needs_torch
@pytest.mark.parametrize("hooked", [False, True], ids=["walked", "hooked"])
@pytest.mark.parametrize("name", BUILDERS)
def test_a_walked_graph_is_torchs(name: str, hooked: bool) -> None:
    def program(T):
        out, inputs = BUILDERS[name](T)
        names, log = tree(out.grad_fn), []
        if hooked:
            waiting, seen = [out.grad_fn], set()
            while waiting:
                node = waiting.pop()
                if node is not None and node not in seen:
                    seen.add(node)
                    node.register_hook(lambda i, o, node=node: log.append((node.name(), i, o)))
                    waiting += [child for child, _ in node.next_functions]
        alone = [T.autograd.grad(out.sum(), x, retain_graph=True) for x in inputs]
        calls = list(log)
        first = T.autograd.grad(out.sum(), inputs, create_graph=True)
        second = T.autograd.grad(sum((g * g).sum() for g in first), inputs, allow_unused=True, retain_graph=True)
        out.sum().backward()
        with pytest.raises(RuntimeError, match="a second time"):
            out.sum().backward()
        if name in PRODUCTS:
            calls = [node for node, _, _ in calls]
        return names, alone, calls, first, second, [x.grad for x in inputs], tree(out.grad_fn)

    same(program, 1e-9)


@pytest.mark.parametrize("name", BUILDERS)
def test_a_hook_that_walks_changes_nothing(name: str) -> None:
    """A node may be looked at for the first time while a pass runs, also one that wants some inputs only."""

    def gradients(walks: bool, first: int | None) -> Any:
        out, inputs = BUILDERS[name](adjoint)
        top = out * 1.0
        if walks:
            top.register_hook(lambda g: tree(out.grad_fn) and None)
            out.register_hook(lambda g: tree(out.grad_fn) and None)
        wanted = inputs if first is None else inputs[first : first + 1]
        return [g.tolist() for g in adjoint.autograd.grad(top.sum(), wanted)]

    for first in (None, 0):
        for g, h in zip(gradients(False, first), gradients(True, first), strict=True):
            assert adjoint.allclose(adjoint.tensor(g), adjoint.tensor(h), rtol=1e-12)


@needs_torch
def test_hooks_of_several_outputs_run_in_their_order() -> None:
    def program(T):
        class Three(T.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 1, x * 2, x * 3

            @staticmethod
            def backward(ctx, a, b, c):
                return a + 2 * b + 3 * c

        log = []
        x = numbers(T, 3)
        for outs in (x.unbind(), Three.apply(x), x.split(1)):
            for i, out in enumerate(outs):
                out.register_hook(lambda g, i=i: log.append(i))
            (outs[0].sum() * outs[1].sum() * outs[2].sum()).backward()
        return log, x.grad

    same(program)


SAVED: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda T, x: x.sum(1),
    "sum, keepdim": lambda T, x: x.sum((0, 1), keepdim=True),
    "mean": lambda T, x: x.mean(0),
    "mean of all": lambda T, x: x.mean(),
    "max of all": lambda T, x: x.max(),
    "max": lambda T, x: x.max(1)[0],
    "median": lambda T, x: x.median(1)[0],
    "cummax": lambda T, x: x.cumsum(1),
    "sort": lambda T, x: x.sort(1)[0],
    "topk": lambda T, x: x.topk(2, 1)[0],
    "mm": lambda T, x: x.mm(x.detach().t().requires_grad_()),
    "cat": lambda T, x: T.cat([x, x], 1),
    "select": lambda T, x: x[:, 1],
    "ellipsis": lambda T, x: x[..., 0],
    "slice": lambda T, x: x[:, 1:3],
    "slice with a step": lambda T, x: x[::2],
    "narrow": lambda T, x: x.narrow(0, 1, 2),
    "new axis": lambda T, x: x[..., None],
    "unsqueeze": lambda T, x: x.unsqueeze(0),
    "squeeze": lambda T, x: x[:, :1].squeeze(1),
    "index": lambda T, x: x[T.tensor([0, 1])],
    "index of columns": lambda T, x: x[:, T.tensor([0, 1])],
    "mask": lambda T, x: x[x.detach() > 1],
    "masked_fill": lambda T, x: x.masked_fill(x.detach() > 1, 0),
    "split": lambda T, x: x.split(2, 1)[0],
    "split into sizes": lambda T, x: x.split([1, 3], 1)[0],
    "unbind": lambda T, x: x.unbind(0)[0],
    "linear": lambda T, x: T.nn.functional.linear(x, numbers(T, 5, 4), numbers(T, 5)),
    "linear without bias": lambda T, x: T.nn.functional.linear(x, numbers(T, 5, 4)),
    "linear of a batch": lambda T, x: T.nn.functional.linear(x[None], numbers(T, 5, 4), numbers(T, 5)),
    "embedding": lambda T, x: T.nn.functional.embedding(T.tensor([0, 1]), x),
    "mse_loss": lambda T, x: T.nn.functional.mse_loss(x, x.detach()),
    "smooth_l1_loss": lambda T, x: T.nn.functional.smooth_l1_loss(x, x.detach()),
    "huber_loss": lambda T, x: T.nn.functional.huber_loss(x, x.detach()),
    "pad": lambda T, x: T.nn.functional.pad(x, (1, 2)),
    "roll": lambda T, x: x.roll(1, 0),
    "cast": lambda T, x: x.float(),
    "subtracted from one": lambda T, x: 1 - x,
    "mul": lambda T, x: x * x,
    "div": lambda T, x: x / x,
    "pow": lambda T, x: x**2,
}


@needs_torch
@pytest.mark.parametrize("name", SAVED)
def test_saved_attributes_are_torchs(name: str) -> None:
    def program(T):
        node = SAVED[name](T, numbers(T, 3, 4)).grad_fn
        found = {a: getattr(node, a) for a in sorted(dir(node)) if a.startswith("_saved_")}
        return {a: str(v) if "dtype" in a else v for a, v in found.items()}

    same(program)


@needs_torch
def test_what_nodes_have_saved_has_torchs_names() -> None:
    def program(T):
        x, w, b = numbers(T, 3, 4), numbers(T, 5, 4), numbers(T, 5)
        first = T.tensor([0])
        node = T.nn.functional.linear(x, w, b).grad_fn
        operands = [node._saved_mat1, node._saved_mat2, node._saved_alpha, node._saved_beta]
        assert node.next_functions
        shaped = (x.sum(0), x.index_select(0, first), x.repeat(2, 1), x[first])
        along = (T.cat([x, x], 1), T.stack([x, x]), x.softmax(1), x.cumsum(0))
        return (
            operands,
            [node._saved_mat1, node._saved_mat2],
            (x + x).grad_fn._saved_alpha,
            [list(out.grad_fn._saved_self_sym_sizes) for out in shaped],
            [out.grad_fn._saved_dim for out in along],
        )

    same(program)


def test_what_cannot_be_seen_as_one_node_keeps_its_gradient() -> None:
    """Inputs whose history was not the one they have now lead elsewhere: nothing may be lost there."""
    x, y = numbers(adjoint, 2, 2), numbers(adjoint, 2, 2)
    inner = x * y
    out = fold(inner + x, "MadeUpBackward0", y)  # says nothing of x
    assert out.grad_fn.name() == "AddBackward0"
    gx, gy = adjoint.autograd.grad(out.sum(), [x, y])
    assert adjoint.equal(gx, y + 1) and adjoint.equal(gy, x)


def test_derivatives_lead_into_what_is_seen_as_one_node() -> None:
    x = numbers(adjoint, 2, 3)
    gradients = []
    for looked in (False, True):
        out = adjoint.renorm(x * 2, 2, 0, 1.0)
        if looked:
            assert out.grad_fn.name() == "RenormBackward0"
        (first,) = adjoint.autograd.grad((out * out).sum(), x, create_graph=True)
        gradients.append(adjoint.autograd.grad((first * x).sum(), x)[0])
    assert adjoint.allclose(*gradients)


def test_what_is_seen_as_one_node_frees_and_refuses_as_one() -> None:
    x, y = numbers(adjoint, 2, 3), numbers(adjoint, 3, 2)
    kept = x * 1
    out = adjoint.addmm(adjoint.ones(2, 2, dtype=adjoint.float64), kept, y)
    assert out.grad_fn._saved_mat1 is not None and out.grad_fn._saved_alpha == 1
    with adjoint.no_grad():
        kept.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()
