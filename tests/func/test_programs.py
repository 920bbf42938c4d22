"""Function transforms, program by program, against torch: values, structures, modes and refusals.

A program is a line: its name, a colon, an expression of `T` (the module), `F` (``T.func``) and a few tensors. Of an
error, its class and the words before the first colon, comma or full stop are compared.
"""

from __future__ import annotations

import collections
import itertools
import re
from typing import Any

import pytest

import adjoint
from adjoint.core.nodes import registry
from adjoint.core.recorders import parametric
from tests.oracle import close, needs_torch, outcome, torch

Pair = collections.namedtuple("Pair", "a b")

TEXT = """
# --- Modes around and inside
inference_grad: inferring(T, lambda: F.grad(lambda a: (a**3).sum())(x))
inference_nested: inferring(T, lambda: F.grad(lambda a: F.grad(lambda b: (b**4).sum())(a).sum())(x))
inference_vjp: inferring(T, lambda: F.vjp(T.sin, x)[1](ones(3)))
inference_jvp: inferring(T, lambda: F.jvp(T.sin, (x,), (ones(3),)))
inference_hessian: inferring(T, lambda: F.hessian(lambda a: (a**3).sum())(x))
inference_result: inferring(T, lambda: F.jacrev(T.sin)(x)).is_inference()
inference_captured: inferring(T, lambda: (lambda w: F.grad(lambda a: (a * w).sum())(x))(ones(3)))
inference_argument: F.grad(lambda a, w: (a * w).sum())(x, inferring(T, lambda: ones(3)))
inference_inside: F.jacfwd(lambda a: a * inferring(T, lambda: a * a))(x)
inference_inside_saved: F.grad(lambda a: (a * inferring(T, lambda: a * a)).sum())(x)
no_grad_inside: F.grad(lambda a: (a * silent(T, lambda: a**2)).sum())(x)
no_grad_inside_nested: F.jacrev(F.hessian(lambda a: (silent(T, lambda: a.sin()) * a.cos().sum()).sum()))(x)
no_grad_inside_outer: outer(T, F.hessian(lambda a: (silent(T, lambda: a.exp()) * a.sin()).sum()))
no_grad_around: silent(T, lambda: F.grad(F.grad(lambda a: a**3))(s))
no_grad_around_jvp_in_grad: silent(T, lambda: F.grad(lambda a: F.jvp(T.sin, (a,), (x,))[1].sum())(x))
# --- Refusals inside
captured: F.grad(lambda a: (c.add_(a) * a).sum())(x)
captured_constant: F.vjp(lambda a: c.add_(1) * a, x)
captured_item: F.jacrev(lambda a: (c.__setitem__(0, 1.0), c * a)[1])(x)
captured_view: F.jvp(lambda a: (c[:2].mul_(2), c * a)[1], (x,), (x,))
captured_transposed: F.jacfwd(lambda a: c.t_() * a)(x)
captured_by_partial: F.grad(functools.partial(lambda k, a: (k.add_(1) * a).sum(), c))(x)
captured_buffer: F.grad(lambda a: bn(a).sum())(m)
captured_in_list: (lambda l: F.grad(lambda a: (l[0].add_(1) * a).sum())(x))([c])
captured_in_nested: (lambda inner: F.grad(lambda a: inner(a).sum())(x))(lambda a: c.add_(1) * a)
captured_level: F.grad(lambda a: (lambda b: F.grad(lambda z: (b.mul_(2) * z).sum())(a).sum())(a * 2))(x)
captured_copy: F.grad(lambda a: (c.clone().add_(a) * a).sum())(x)
stored_is_written: (lambda l: F.grad(lambda a: (l.append(ones(3)), (l[0].add_(a) * a).sum())[1])(x))([])
data_set: F.grad(lambda a: (setattr(c, "data", T.ones(3)), a.sum())[1])(x)
data_set_of_local: F.grad(lambda a: (T.nn.Linear(3, 1).double()(a)).sum())(x)
local_is_written: F.grad(lambda a: (T.zeros(3, dtype=T.float64).add_(a) * a).sum())(x)
argument_is_written: (F.grad(lambda a, b: (b.mul_(a) * a).sum())(x, y), y)
argument_is_written_jacfwd: (F.jacfwd(lambda a, b: (b.mul_(2) * a).sum())(x, y), y)
requires_grad_: F.grad(lambda a: a.requires_grad_().sum())(x)
requires_grad_of_local: F.vmap(lambda a: T.ones(3).requires_grad_() * a)(m)
requires_grad_set: F.grad(lambda a: (setattr(a, "requires_grad", True), (a * a).sum())[1])(x)
retain_grad: F.grad(lambda a: ((a * 2).retain_grad(), a.sum())[1])(x)
backward: F.grad(lambda a: ((a * a).sum().backward(), a.sum())[1])(x)
backward_vmap: F.vmap(lambda a: a.sum().backward())(m)
autograd_functional: F.grad(lambda a: T.autograd.functional.jacobian(T.sin, a).sum())(x)
autograd_grad: F.grad(lambda a: T.autograd.grad((a**3).sum(), a, create_graph=True)[0].sum())(x)
hooks_around: hooked(T, lambda: F.grad(lambda a: (a**3).sum())(x))
hooks_inside: F.jacrev(lambda a: hooked(T, lambda: a**3))(x)
hooks_inside_jvp: F.jvp(lambda a: hooked(T, lambda: a**3), (x,), (x,))
checkpointed: F.grad(lambda a: T.utils.checkpoint.checkpoint(lambda b: (b**3).sum(), a, use_reentrant=False))(x)
context_function: F.grad(lambda a: square(T).apply(a).sum())(x)
context_function_vmap: F.vmap(square(T).apply)(x)
data: F.jacfwd(lambda a: a.data * a)(x)
detach: F.jvp(lambda a: F.jvp(lambda b: b.detach() * b.sin(), (a,), (y,))[1], (x,), (y,))
copied: F.jacfwd(F.jacrev(lambda a: T.tensor(a) * a))(x)
# --- Arguments and outputs
argnum_float: F.grad(lambda a: a.sum(), argnums=(0.0,))(x)
argnums_same: F.grad(lambda a, b: a.sum(), argnums=(0, -2))(x, y)
integers: F.grad(lambda a: a.sum())(T.tensor([1, 2]))
integers_jacfwd: F.jacfwd(lambda a: a * 2.0)(T.tensor([1, 2]))
tangent_integers: F.jvp(lambda a: a * 2.0, (x,), (T.ones(3, dtype=T.int64),))
complex_output: F.grad(lambda a: T.complex(a.sum(), a.sum()))(x)
complex_jacrev: F.jacrev(lambda a: a * a)(T.tensor([1 + 2j]))
complex_jacrev_output: F.jacrev(lambda a: T.complex(a, a))(x)
complex_jacfwd: F.jacfwd(lambda a: a * a)(T.tensor([1 + 2j]))
complex_jacfwd_output: F.jacfwd(lambda a: T.complex(a, a))(x)
complex_vjp: F.vjp(lambda a: a * a, T.tensor([1 + 2j]))[1](T.tensor([1 + 0j]))
none: F.vjp(lambda a: None, x)
empty: F.jacrev(lambda a: ())(x)
empty_jvp: F.jvp(lambda a: [], (x,), (x,))
empty_jacfwd: F.jacfwd(lambda a: {})(x)
indices: F.vjp(lambda a: a.argmax(), x)
booleans: F.jacrev(lambda a: a > 0)(x)
no_primals: F.jvp(lambda: x, (), ())
aux: F.grad(lambda a: (a.sum(), {"k": [a * 2]}), has_aux=True)(x)
aux_int: F.grad(lambda a: (a.sum(), 3), has_aux=True)(x)
aux_none: F.vjp(lambda a: (a, None), x, has_aux=True)
aux_jvp: F.jvp(lambda a: (a, 3), (x,), (x,), has_aux=True)
aux_jacfwd: F.jacfwd(lambda a: (a, "s"), has_aux=True)(x)
same_object: F.vjp(lambda a: a, x)[0] is x
pairs: F.jacrev(lambda a: Pair(a * 2, a * a))(x)
made_inside: F.grad(lambda a: (a * T.ones(3, requires_grad=True)).sum())(x).requires_grad
cotangent_none: F.vjp(lambda a: a.sum(), x)[1](None)
cotangent_float: F.vjp(lambda a: a.sum(), x)[1](1.0)
cotangent_complex: F.vjp(lambda a: a * 2, x)[1](T.ones(3, dtype=T.complex128))
cotangent_recorded: F.vjp(T.sin, x)[1](ones(3), create_graph=True)[0].requires_grad
linear_dtype: F.linearize(T.sin, x)[1](T.ones(3))
# --- Derivatives of derivatives
grad_jvp_relu: F.grad(lambda a: (F.jvp(T.relu, (a,), (y,))[1] * a).sum())(x - 0.5)
vmap_jvp_clamp: F.vmap(lambda a: F.jvp(lambda b: b.clamp(max=0.2), (a,), (y,))[1])(m)
jvp_jvp_maximum: F.jvp(lambda a: F.jvp(lambda b: T.maximum(b * b, y), (a,), (y,))[1], (x,), (y,))
vmap_jvp_vjp_elu: F.vmap(lambda a: F.jvp(lambda b: F.vjp(T.nn.functional.elu, b)[1](y)[0], (a,), (y,))[1])(m)
vmap_jacrev_einsum: F.vmap(F.jacrev(lambda a: T.einsum("i,j,k->ik", a, a, a.cos())))(m)
grad_vmap_grad: F.grad(lambda w: F.vmap(F.grad(lambda b: (w * b**3).sum()))(m).sum())(y)
mask_jacrev: F.jacrev(lambda a: a[a > 0.4] ** 2)(x)
mask_hessian: F.hessian(lambda a: (a[a > 0.4] ** 3).sum())(x)
mask_of_columns: F.jacrev(lambda a: a[:, T.tensor([True, False, True])] * 2)(m)
mask_of_all: F.jacrev(lambda a: a.masked_select(a > 0) ** 2)(m)
mask_vmap_grad: F.vmap(F.grad(lambda a: (a[T.tensor([True, False, True])] ** 3).sum()))(m)
mask_written: F.jacrev(lambda a: (lambda b: (b.__setitem__(T.tensor([True, False, True]), a[:2]), b * a)[1])(a * 1))(x)
# --- Looking through
unwrapped: (lambda o: (F.grad(lambda a: (o.append(F.debug_unwrap(a)), a.sum())[1])(x), o, o[0].requires_grad))([])
unwrapped_all: (lambda o: (F.vmap(F.grad(lambda a: (o.append(F.debug_unwrap(a)), a.sum())[1]))(m), o))([])
unwrapped_once: shape_inside(T, lambda a: F.debug_unwrap(a, recurse=False))
unwrapped_outside: F.debug_unwrap(x)
# --- Named dimensions
rearrange: F.rearrange(m, "a (b c) -> (c a) 1 b", c=3)
rearrange_any: F.vmap(lambda a: F.rearrange(a, "... b -> (b ...)"))(T.stack([m, m]))
rearrange_one_sided: F.rearrange(m, "a b -> b")
rearrange_twice: F.rearrange(m, "a a -> a")
rearrange_rank: F.rearrange(m, "a b c -> c b a")
rearrange_open: F.rearrange(m, "a b -> (a b")
# --- Modules
unexpected: F.functional_call(lin, {"w": x}, x)
unexpected_strict: F.functional_call(lin, {"w": x}, x, strict=True)
not_a_tensor: F.functional_call(lin, {"bias": 3}, x)
no_name: F.functional_call(lin, {"": x}, x)
twice: F.functional_call(lin, ({"bias": x}, {"bias": x}), x)
stack_frozen: F.stack_module_state([lin, T.nn.Linear(3, 2).double().requires_grad_(False)])
instance_norm: F.replace_all_batch_norm_modules_(T.nn.InstanceNorm1d(3, track_running_stats=True)).running_mean
"""

PROGRAMS = dict(line.split(": ", 1) for line in TEXT.strip().splitlines() if not line.startswith("#"))


def inferring(T: Any, run: Any) -> Any:
    with T.inference_mode():
        return run()


def silent(T: Any, run: Any) -> Any:
    with T.no_grad():
        return run()


def hooked(T: Any, run: Any) -> Any:
    with T.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        return run()


def outer(T: Any, function: Any) -> Any:
    x = T.tensor([0.3, 0.6, 0.9], dtype=T.float64, requires_grad=True)
    out = function(x)
    return out, T.autograd.grad((out * out).sum(), x)


def shape_inside(T: Any, look: Any) -> Any:
    seen: list[Any] = []
    T.func.vmap(T.func.grad(lambda a: (seen.append(tuple(look(a).shape)), a.sum())[1]))(T.ones(2, 3))
    return seen


def square(T: Any) -> Any:
    class Square(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g * 2 * ctx.saved_tensors[0]

    return Square


def run(name: str, T: Any) -> Any:
    """Return what a program of the table does."""

    def program(T: Any) -> Any:
        lin = T.nn.Linear(3, 2).double()
        with T.no_grad():
            lin.weight.copy_(T.arange(6).reshape(2, 3) * 0.1)
            lin.bias.fill_(0.5)
        names = {
            "T": T, "F": T.func, "x": T.tensor([0.3, 0.6, 0.9], dtype=T.float64),
            "y": T.tensor([0.7, -0.4, 0.2], dtype=T.float64), "s": T.tensor(0.5, dtype=T.float64),
            "m": T.tensor([[0.3, -0.6, 0.9], [0.1, 0.5, -0.2]], dtype=T.float64), "c": T.zeros(3, dtype=T.float64),
            "ones": lambda n: T.ones(n, dtype=T.float64), "lin": lin, "bn": T.nn.BatchNorm1d(3).double(),
            "functools": __import__("functools"), "Pair": Pair, "inferring": inferring, "silent": silent,
            "hooked": hooked, "outer": outer, "square": square,
            "shape_inside": shape_inside,
        }  # fmt: skip
        return eval(PROGRAMS[name], names)

    return outcome(program, T)


@needs_torch
@pytest.mark.parametrize("name", PROGRAMS)
def test_program_is_torchs(name: str) -> None:
    (kind, mine), (expected_kind, theirs) = run(name, adjoint), run(name, torch)
    assert kind == expected_kind, f"adjoint: {kind} {mine}; torch: {expected_kind} {theirs}"
    if kind == "value":
        close(mine, theirs, 1e-6)
        return
    assert mine[0] == theirs[0], f"adjoint: {mine}; torch: {theirs}"
    assert _key(theirs[1]) in mine[1].replace("adjoint", "torch"), f"adjoint: {mine}; torch: {theirs}"


def _key(message: str) -> str:
    """Return the words of a message that programs match on."""
    return re.split(r"[:,.(]|\\n", message)[0]


def test_an_op_without_a_tangent_rule_is_differentiated_twice_forwards() -> None:
    # torch's answer is not taken here: its second forward derivative of a determinant is wrong.
    F = adjoint.func
    x = adjoint.tensor([0.3, 0.7, -0.4], dtype=adjoint.float64)

    def det(a: Any) -> Any:
        return adjoint.linalg.det(a.outer(a) + adjoint.eye(3, dtype=adjoint.float64) + a.sin().outer(a.cos()))

    expected = F.jacrev(F.jacrev(F.jacrev(det)))(x)
    for transforms in ((F.jacfwd, F.jacfwd, F.jacfwd), (F.jacfwd, F.jacfwd, F.jacrev), (F.jacfwd, F.jacrev, F.jacrev)):
        third = det
        for transform in transforms[::-1]:
            third = transform(third)
        close(third(x).detach().numpy(), expected.numpy(), 1e-9)
        assert not third(x).requires_grad


def _power(a: Any) -> Any:
    return a**5


_power_without_rules = parametric(lambda a: a**5, x=lambda g, x: 5 * g * x**4, name="power_without_rules", batch="same")
registry.pop("power_without_rules")  # it is none of adjoint's, which other tests go through


def _transformed(letters: tuple[str, ...], function: Any) -> Any:
    """Return a function with transforms around it, the first letter's outermost."""
    F = adjoint.func
    scales = adjoint.tensor([1.0, 1.5], dtype=adjoint.float64)
    around = {
        "r": F.jacrev,
        "f": F.jacfwd,
        "g": lambda f: F.grad(lambda a: f(a).sum()),
        "v": lambda f: lambda a: F.vmap(lambda k: f(a * k))(scales).sum(0),
        "j": lambda f: lambda a: F.jvp(f, (a,), (a.cos(),))[1],
        "p": lambda f: lambda a: F.vjp(f, a)[1](f(a).cos())[0],
    }
    for letter in reversed(letters):
        function = around[letter](function)
    return function


@pytest.mark.parametrize("mode", ["recorded", "silent", "plain"])
def test_transforms_nest_in_any_order(mode: str) -> None:
    """An op whose tangents come from its gradient is, under any transforms, what one with all rules is."""
    for n in (1, 2, 3):
        for letters in itertools.product("rfvjgp", repeat=n):
            if letters.count("r") + letters.count("f") > 1 or (n == 3 and sum(map(ord, letters)) % 3):
                continue
            results = []
            for function in (_power, lambda a: _power_without_rules(a)):
                x = adjoint.tensor([0.5, 0.7], dtype=adjoint.float64, requires_grad=mode == "recorded")
                with adjoint.set_grad_enabled(mode != "silent"):
                    out = _transformed(letters, function)(x)
                found = [out.detach().numpy(), out.requires_grad]
                if out.requires_grad:
                    found.append(adjoint.autograd.grad((out * out).sum(), x)[0].numpy())
                results.append(found)
            close(*results, 1e-9)
