"""Recording, the backward pass, and transforms."""

from __future__ import annotations

from typing import Any

from .features import feature, leaf, own_classes, raises


@feature
def backward(T: Any) -> None:
    """A pass."""
    x = leaf(T)
    y = (x * x).exp().sum()
    y.backward()
    y = (x.sin() @ x).tanh()
    T.autograd.grad(y, x, retain_graph=True)
    y.backward()


@feature
def unfinished(T: Any) -> None:
    """A graph that no pass frees."""
    x = leaf(T, 3, 3)
    (x @ x).softmax(0).max(0).values.prod()


@feature
def create_graph(T: Any) -> None:
    """Second derivatives; a recorded .grad makes a cycle of its own, which the program breaks, as with PyTorch."""
    x = leaf(T)
    (g,) = T.autograd.grad((x**3).sum(), x, create_graph=True)
    (g * g).sum().backward()
    (x**3).sum().backward(create_graph=True)
    x.grad = None


@feature
def tensor_hooks(T: Any) -> None:
    """Hooks on tensors and nodes."""
    x = leaf(T)
    y = x * 2
    y.register_hook(lambda g: g * 2)
    y.retain_grad()
    x.register_post_accumulate_grad_hook(lambda p: None)
    y.grad_fn.register_hook(lambda a, b: None)
    y.grad_fn.register_prehook(lambda a: None)
    T.autograd.graph.register_multi_grad_hook((x, y), lambda gs: None)
    z = y.sum()
    z.backward()
    x.register_hook(lambda g: None).remove()


@feature
def module_hooks(T: Any) -> None:
    """Hooks on modules."""
    m = T.nn.Linear(3, 1)
    m.register_forward_pre_hook(lambda *a: None)
    m.register_forward_hook(lambda *a: None)
    m.register_full_backward_pre_hook(lambda *a: None)
    m.register_full_backward_hook(lambda *a: None)
    m.register_state_dict_pre_hook(lambda *a: None)
    m.register_load_state_dict_post_hook(lambda *a: None)
    m(leaf(T, 2, 3)).sum().backward()
    m.load_state_dict(m.state_dict())


def function_of(T: Any) -> Any:
    """Return a custom function that saves its input, its output and more."""
    if T not in own_classes:

        class Exp(T.autograd.Function):  # type: ignore[misc, name-defined]
            @staticmethod
            def forward(ctx: Any, x: Any, fail: str = "") -> Any:
                if fail == "forward":
                    raise ValueError(fail)
                ctx.fail, ctx.out = fail, x.exp()
                ctx.save_for_backward(x, ctx.out)
                return ctx.out.clone(), x.detach() * 2

            @staticmethod
            def backward(ctx: Any, g: Any, h: Any) -> Any:
                if ctx.fail:
                    raise ValueError(ctx.fail)
                return g * ctx.saved_tensors[1], None

        own_classes[T] = Exp
    return own_classes[T]


@feature
def functions(T: Any) -> None:
    """Custom functions."""
    x = leaf(T)
    y, z = function_of(T).apply(x)
    (y * z).sum().backward()
    function_of(T).apply(x)


@feature
def exceptions(T: Any) -> None:
    """What fails in forward, in backward, in a hook, in an op."""
    x = leaf(T)
    with raises(ValueError):
        function_of(T).apply(x, "forward")
    y, _ = function_of(T).apply(x, "backward")
    with raises(ValueError):
        y.sum().backward()
    z = x * 2

    def hook(g: Any) -> None:
        raise KeyError("hook")

    z.register_hook(hook)
    with raises(KeyError):
        (z * z).sum().backward()
    with raises(RuntimeError):
        x @ T.ones(4)
    w = x * 1
    e = w.exp()
    e.add_(1)
    with raises(RuntimeError):
        e.sum().backward()


@feature
def saved_hooks(T: Any) -> None:
    """Packed tensors."""
    x = leaf(T)
    with T.autograd.graph.saved_tensors_hooks(lambda t: (t.detach(), 1), lambda t: t[0]):
        y = (x * x).exp()
    y.sum().backward()
    with T.autograd.graph.save_on_cpu():
        (x * x).sum().backward()


@feature
def checkpoints(T: Any) -> None:
    """Both kinds of checkpoints."""
    x = leaf(T)
    for kind in (True, False):
        y = T.utils.checkpoint.checkpoint(lambda a: (a * a).exp(), x, use_reentrant=kind)
        y.sum().backward()
        T.utils.checkpoint.checkpoint(lambda a: (a * a).exp(), x, use_reentrant=kind)


@feature
def views(T: Any) -> None:
    """Views and writes."""
    x = leaf(T, 3, 3)
    y = x * 1
    v, w = y[0], y.t()
    v.mul_(2)
    w[1] = v
    y.add_(w.detach().sum())
    (y.sum() + w.sum() + v.sum()).backward()
    a, b, _ = (x * 1).unbind()
    (a + b).view(3, 1).expand(3, 2).sum().backward()


@feature
def switches(T: Any) -> None:
    """Modes."""
    x = leaf(T)
    with T.no_grad():
        x * 2
    with T.inference_mode():
        y = x * 2
        y[0].add_(1)
    with T.autocast("cpu", dtype=T.bfloat16):
        z = T.ones(3, 3) @ x
    z.float().sum().backward()
    with T.set_grad_enabled(False):
        x.detach().requires_grad_()


@feature
def anomaly(T: Any) -> None:
    """Anomaly detection, with and without one."""
    x = leaf(T)
    with T.autograd.detect_anomaly():
        (x * x).sum().backward()
        with raises(RuntimeError):
            ((x - 1).sqrt() * 0).sum().backward()


@feature
def reentrant(T: Any) -> None:
    """Passes inside a pass."""
    x = leaf(T)
    y = x * 1

    def hook(g: Any) -> None:
        with T.enable_grad():
            z = leaf(T)
            (z * z).sum().backward()

    y.register_hook(hook)
    y.sum().backward()


# --- Transforms ------------------------------------------------------------------------------------------------


@feature
def transforms(T: Any) -> None:
    """Function transforms, one in another."""
    x, f = T.ones(3), T.func

    def cube(x: Any) -> Any:
        return (x**3).sum()

    f.grad(cube)(x)
    f.hessian(cube)(x)
    f.jacrev(f.jacfwd(lambda x: x * x))(x)
    f.vmap(f.grad(cube))(T.ones(2, 3))
    f.vjp(cube, x)[1](T.ones(()))
    f.jvp(cube, (x,), (x,))
    f.linearize(cube, x)[1](x)
    f.functionalize(lambda x: x.clone().add_(1))(x)


@feature
def batched_writes(T: Any) -> None:
    """Writes inside transforms."""

    def f(x: Any) -> Any:
        y = x * 1
        y[0] = x[1]
        y.t().mul_(2)
        return y.sum()

    T.func.vmap(f)(T.ones(2, 3, 3))
    T.func.grad(f)(T.ones(3, 3))
    T.func.jvp(f, (T.ones(3, 3),), (T.ones(3, 3),))
    with raises(RuntimeError):
        T.func.vmap(lambda x: x @ T.ones(7))(T.ones(2, 3))


@feature
def duals(T: Any) -> None:
    """Forward mode."""
    forward_ad = T.autograd.forward_ad
    with forward_ad.dual_level():
        x = forward_ad.make_dual(leaf(T), T.ones(3))
        y = (x * x).exp() * 2
        y.add_(1)
        forward_ad.unpack_dual(y).tangent.sum().backward()


@feature
def stateless(T: Any) -> None:
    """Modules as functions."""
    m = T.nn.Linear(3, 1)
    T.func.functional_call(m, dict(m.named_parameters()), (T.ones(2, 3),)).sum().backward()
    T.func.stack_module_state([m, T.nn.Linear(3, 1)])
