"""The graph, its gradients, hooks and modes, program by program, against torch."""

from __future__ import annotations

import pytest

from tests.oracle import needs_torch, same

from .programs import Program, Programs, leaf, refusal, square

program = Programs()

# --- The seeds' examples ------------------------------------------------------------------------------


@program
def scalar_example(T):
    x = T.tensor(2.0, requires_grad=True)
    y = x**2
    z = 2 * y + 1
    z.backward()
    return x.grad, z.grad_fn.name(), y.grad_fn.name()


@program
def vector_root_is_refused(T):
    x, y = leaf(T), leaf(T)
    z = x * y + T.sum(x)
    z.backward()


@program
def custom_loss(T):
    x, w = leaf(T), leaf(T, 0.5, -1.0, 2.0)
    T.sum(w * x**2).backward()
    return x.grad, w.grad


@program
def sine_plus_square(T):
    x = T.tensor(2.0, requires_grad=True)
    (x * x + T.sin(x)).backward()
    return x.grad


@program
def cube_twice(T):
    x = T.tensor(2.0, requires_grad=True)
    (dy,) = T.autograd.grad(x**3, x, create_graph=True)
    (ddy,) = T.autograd.grad(dy, x, create_graph=True)
    (dddy,) = T.autograd.grad(ddy, x)
    return dy, ddy, dddy


@program
def accumulation(T):
    x = leaf(T)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    first = x.grad.clone()
    y.backward()
    return first, x.grad


@program
def second_backward_is_refused(T):
    x = leaf(T)
    y = (x * x).sum()
    y.backward()
    y.backward()


@program
def second_backward_without_saved_values(T):
    x = leaf(T)
    y = x + 1
    y.backward(T.ones(3, dtype=T.float64))
    y.backward(T.ones(3, dtype=T.float64))
    return x.grad


@program
def constants_prune(T):
    x, c = leaf(T), T.tensor([1.0, 1.0, 1.0], dtype=T.float64)
    y = x * c
    return [(None if f is None else f.name(), i) for f, i in y.grad_fn.next_functions]


@program
def leaf_flags(T):
    x = leaf(T)
    y = x * 2
    d = y.detach()
    return x.is_leaf, y.is_leaf, d.is_leaf, y.requires_grad, d.requires_grad, x.grad_fn is None


@program
def branches_loops_recursion(T):
    x = leaf(T)

    def recurse(v, depth):
        if depth == 0 or v.sum() > 100:
            return v
        return recurse(v * 2 if depth % 2 else v + x, depth - 1)

    recurse(x, 7).sum().backward()
    return x.grad


# --- backward and grad: arguments -----------------------------------------------------------------------


@program
def no_grad_needed(T):
    T.ones(3).sum().backward()


@program
def gradient_shape_mismatch(T):
    (leaf(T) * 2).backward(T.ones(2, dtype=T.float64))


@program
def several_roots(T):
    x = leaf(T)
    T.autograd.backward([(x * 2).sum(), (x * x).sum()])
    return x.grad


@program
def several_roots_with_gradients(T):
    x = leaf(T)
    T.autograd.backward([x * 2, x * x], [T.ones(3, dtype=T.float64), T.full((3,), 0.5, dtype=T.float64)])
    return x.grad


@program
def backward_into_inputs(T):
    x, y = leaf(T), leaf(T)
    (x * y).sum().backward(inputs=[x])
    return x.grad, y.grad is None


@program
def backward_into_non_leaf(T):
    x = leaf(T)
    y = x * 2
    (y * y).sum().backward(inputs=[y])
    return y.grad, x.grad is None


@program
def empty_inputs(T):
    leaf(T).sum().backward(inputs=[])


@program
def grad_unused(T):
    x, y = leaf(T), leaf(T)
    T.autograd.grad((x * 2).sum(), [x, y])


@program
def grad_allow_unused(T):
    x, y = leaf(T), leaf(T)
    a, b = T.autograd.grad((x * 2).sum(), [x, y], allow_unused=True)
    return a, b is None


@program
def grad_materialize(T):
    x, y = leaf(T), leaf(T)
    return T.autograd.grad((x * 2).sum(), [x, y], materialize_grads=True)


@program
def grad_of_non_leaf(T):
    x = leaf(T)
    y = x * x
    return T.autograd.grad((y * y).sum(), [y, x])


@program
def grad_does_not_touch_dot_grad(T):
    x = leaf(T)
    T.autograd.grad((x * x).sum(), x)
    return x.grad is None


@program
def grad_input_without_grad(T):
    x = leaf(T)
    T.autograd.grad((x * 2).sum(), T.ones(3))


@program
def grads_batched(T):
    x = leaf(T)
    y = x * x
    g = T.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], dtype=T.float64)
    return T.autograd.grad(y, x, g, is_grads_batched=True)


@program
def gradient_edges(T):
    x = leaf(T)
    y = x * x
    edge = T.autograd.graph.get_gradient_edge(y)
    out = (y * 3).sum()
    (a,) = T.autograd.grad(out, edge, retain_graph=True)
    (b,) = T.autograd.grad(edge, x, grad_outputs=T.ones(3, dtype=T.float64))
    return a, b


@program
def gradient_edges_of_several_outputs(T):
    x = leaf(T)
    a, b, c = (x * x).unbind()
    edge = T.autograd.graph.get_gradient_edge(b)
    (g,) = T.autograd.grad(a * b * c, edge, retain_graph=True)
    (h,) = T.autograd.grad(edge, x, grad_outputs=T.tensor(2.0, dtype=T.float64))
    y = square(T).apply(x)
    (k,) = T.autograd.grad((y * y).sum(), T.autograd.graph.get_gradient_edge(y))
    return g, h, k, edge.output_nr


@program
def leaf_as_root(T):
    x = T.tensor(3.0, requires_grad=True)
    x.backward()
    return x.grad


@program
def integer_cannot_require_grad(T):
    T.tensor([1, 2], requires_grad=True)


@program
def promoted_gradient_has_the_leaf_dtype(T):
    x = T.tensor([1.0, 2.0], dtype=T.float32, requires_grad=True)
    y = T.tensor([1.0, 2.0], dtype=T.float64, requires_grad=True)
    (x * y).sum().backward()
    return x.grad, y.grad


@program
def broadcast_is_undone(T):
    x, y = T.ones(3, 1, requires_grad=True), T.ones(4, requires_grad=True)
    (x * y + x - y).sum().backward()
    return x.grad, y.grad


# --- .grad, retain_grad, hooks ------------------------------------------------------------------------------


@program
def retain_grad(T):
    x = leaf(T)
    y = x * x
    y.retain_grad()
    (y * 3).sum().backward()
    return y.grad, y.retains_grad, x.retains_grad


@program
def retain_grad_refused(T):
    T.ones(2).retain_grad()


@program
def grad_assignment_shape(T):
    leaf(T).grad = T.ones(2, dtype=T.float64)


@program
def grad_assignment_dtype(T):
    leaf(T).grad = T.ones(3)


@program
def grad_assignment_type(T):
    leaf(T).grad = 3


@program
def tensor_hook(T):
    x, seen = leaf(T), []
    y = x * 2
    handle = y.register_hook(lambda g: seen.append(g.clone()))
    y.register_hook(lambda g: g * 10)
    (y * y).sum().backward(retain_graph=True)
    handle.remove()
    (y * y).sum().backward()
    return x.grad, seen


@program
def leaf_hook_sees_the_sum_once(T):
    x, seen = leaf(T), []
    x.register_hook(lambda g: seen.append(g.clone()) or g * 2)
    (x * 2 + x * 3 + x).sum().backward()
    return x.grad, seen


@program
def hook_on_constant(T):
    T.ones(2).register_hook(lambda g: g)


@program
def hook_changes_size(T):
    x = leaf(T)
    x.register_hook(lambda g: T.ones(2, dtype=T.float64))
    x.sum().backward()


@program
def post_accumulate_hook(T):
    x, seen = leaf(T), []
    x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
    (x * 2).sum().backward()
    (x * 3).sum().backward()
    return seen


@program
def post_accumulate_on_non_leaf(T):
    (leaf(T) * 2).register_post_accumulate_grad_hook(lambda p: None)


@program
def node_hooks(T):
    x, seen = leaf(T), []
    y = x * x
    y.grad_fn.register_prehook(lambda gs: (gs[0] * 2,))
    y.grad_fn.register_hook(lambda gi, go: seen.append((len(gi), len(go), go[0].clone())))
    y.sum().backward()
    return x.grad, seen


@program
def node_hook_replaces(T):
    x = leaf(T)
    y = x * 2
    y.grad_fn.register_hook(lambda gi, go: tuple(None if g is None else g + 1 for g in gi))
    y.sum().backward()
    return x.grad


@program
def multi_grad_hook_all(T):
    x, y, seen = leaf(T), leaf(T), []
    T.autograd.graph.register_multi_grad_hook([x, y], lambda gs: seen.append([g.clone() for g in gs]))
    (x * 2 + y * 3).sum().backward()
    return seen


@program
def multi_grad_hook_any(T):
    x, y, seen = leaf(T), leaf(T), []
    T.autograd.graph.register_multi_grad_hook([x, y], lambda g: seen.append(1), mode="any")
    (x * 2 + y * 3).sum().backward()
    return seen


@program
def order_of_execution(T):
    x, seen = leaf(T), []

    def watch(t, name):
        t.grad_fn.register_hook(lambda gi, go: seen.append(name))
        return t

    a = watch(x * 2, "a")
    b = watch(x * 3, "b")
    c = watch(a + b, "c")
    d = watch(a * b, "d")
    (c + d).sum().backward()
    return seen


@program
def hooks_with_create_graph(T):
    x = leaf(T)
    y = x * x
    y.register_hook(lambda g: g * y)
    (g,) = T.autograd.grad(y.sum(), x, create_graph=True)
    return g, T.autograd.grad(g.sum(), x)


@program
def reentrant_backward_in_hook(T):
    x, z = leaf(T), leaf(T)

    def hook(g):
        with T.enable_grad():
            (z * z).sum().backward()

    y = x * 2
    y.register_hook(hook)
    y.sum().backward()
    return x.grad, z.grad


@program
def queue_callback(T):
    x, seen = leaf(T), []
    x.register_hook(lambda g: T.autograd.Variable._execution_engine.queue_callback(lambda: seen.append("end")))
    y = x * 2
    y.register_hook(lambda g: seen.append("y"))
    y.sum().backward()
    return seen


# --- Modes --------------------------------------------------------------------------------------------


@program
def no_grad_contexts(T):
    x = leaf(T)
    with T.no_grad():
        a = x * 2
        with T.enable_grad():
            b = x * 2
    with T.set_grad_enabled(False):
        c = x * 2
    return a.requires_grad, b.requires_grad, c.requires_grad, T.is_grad_enabled()


@program
def no_grad_decorators(T):
    x = leaf(T)

    @T.no_grad()
    def f():
        return (x * 2).requires_grad

    @T.no_grad
    def g():
        return (x * 2).requires_grad

    return f(), g(), T.is_grad_enabled()


@program
def no_grad_generator(T):
    @T.no_grad()
    def generate():
        value = yield T.is_grad_enabled()
        yield value, T.is_grad_enabled()
        try:
            yield "waiting"
        except ValueError:
            yield "caught", T.is_grad_enabled()

    g = generate()
    seen = [
        next(g),
        T.is_grad_enabled(),
        g.send(5),
        T.is_grad_enabled(),
        next(g),
        g.throw(ValueError()),
        T.is_grad_enabled(),
    ]
    g.close()
    return seen


@program
def inference(T):
    x = leaf(T)
    with T.inference_mode():
        a = x * 2
        b = T.ones(3)
    return a.is_inference(), b.is_inference(), x.is_inference(), a.requires_grad


@program
def inference_in_place_outside(T):
    with T.inference_mode():
        a = T.ones(3) * 2
    a.add_(1)


@program
def inference_saved(T):
    x = T.ones(3, requires_grad=True)
    with T.inference_mode():
        a = T.ones(3) * 2
    return x * a


@program
def inference_requires_grad(T):
    with T.inference_mode():
        a = T.ones(3) * 2
    a.requires_grad_()


@program
def inference_version(T):
    with T.inference_mode():
        a = T.ones(3) * 2
    return a._version


# --- Forward mode and reverse mode together; edges --------------------------------------------------------


@program
def a_dual_tensor_has_the_history_of_its_primal(T):
    from importlib import import_module

    fwd = import_module(f"{T.__name__}.autograd.forward_ad")
    x = leaf(T)
    with fwd.dual_level():
        d = fwd.make_dual(x, T.ones(3, dtype=T.float64))
        y = (d * d).sum()
        seen = [d.requires_grad, d.is_leaf, d.grad_fn.name(), y.grad_fn.name(), y.requires_grad]
        y.backward()
        cut = fwd.unpack_dual(d.detach()).tangent
        with fwd._set_fwd_grad_enabled(False):
            still = fwd.unpack_dual(d * 2).tangent
        z = d * 3
    return seen, x.grad, cut, still, z + 1, z.grad_fn.name(), T.func.jvp(lambda x: x.detach() * 2, (x,), (x,))


@program
def an_unrecorded_write_inside_a_transform(T):
    def f(x):
        y = x * 1
        with T.no_grad():
            y[0].mul_(2)
        return (y * y).sum()

    x = T.tensor([1.0, 2.0, 3.0], dtype=T.float64)
    return T.func.grad(f)(x), T.func.vmap(T.func.grad(f))(T.stack([x, x * 2])), T.func.hessian(f)(x)


@program
def a_pass_from_the_edge_of_a_scalar(T):
    x = leaf(T)
    y = (x * x).sum()
    edge = T.autograd.graph.get_gradient_edge(y)
    (g,) = T.autograd.grad(edge, x, retain_graph=True)
    T.autograd.backward(edge)
    other = T.autograd.graph.get_gradient_edge(x * 2)
    return g, x.grad, refusal(lambda: T.autograd.grad(other, x))[0]


@program
def recording_inside_inference_mode(T):
    with T.inference_mode(), T.enable_grad():
        y = T.ones(3, requires_grad=True) * 2
    with T.inference_mode():
        z = T.ones(3)
    return y.requires_grad, y.is_inference(), refusal(lambda: T.nn.Parameter(z))[0]


@program
def derivatives_until_they_are_zero(T):
    found = []
    for f in (lambda x: x**3, lambda x: x.square(), T.relu, lambda x: T.relu(x) * x):
        x = leaf(T, -1.0, 0.5, 2.0)
        y = f(x)
        for _ in range(3):
            (y,) = T.autograd.grad(y.sum(), x, create_graph=True)
            found.append((y.detach(), y.requires_grad))
            if not y.requires_grad:
                break
    return found


@needs_torch
@pytest.mark.parametrize("function", program, ids=lambda f: f.__name__)
def test_program_does_what_it_does_on_torch(function: Program) -> None:
    same(function)
