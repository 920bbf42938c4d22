"""Kinds of tensors, and other features."""

from __future__ import annotations

from typing import Any

from .features import cyclic, feature, leaf, own_classes


@feature
def printing(T: Any) -> None:
    """Printed tensors."""
    x = leaf(T)
    repr(x), str(x * 2), repr([x.to(T.bfloat16)]), f"{x.sum().item():.2f}", repr((x * 2).grad_fn)


@cyclic
def profiled(T: Any) -> None:
    """A profile: events know their parents and children."""
    with T.profiler.profile() as profile:
        (leaf(T) * 2).sum().backward()
    profile.key_averages().table()


@feature
def sparse(T: Any) -> None:
    """Sparse tensors."""
    x = T.eye(3).to_sparse().requires_grad_()
    T.sparse.mm(x, T.ones(3, 2)).sum().backward()
    x.coalesce().to_dense()
    T.eye(3).to_sparse_csr() @ T.ones(3, 3)
    e = T.nn.Embedding(4, 3, sparse=True)
    e(T.tensor([1, 2])).sum().backward()


@feature
def nested(T: Any) -> None:
    """Nested tensors."""
    x = T.nested.nested_tensor([T.ones(2, 3), T.ones(1, 3)], layout=T.jagged)
    T.nested.to_padded_tensor(x * 2, 0.0)
    x.unbind()


@feature
def distributions(T: Any) -> None:
    """Random variables."""
    d = T.distributions
    mean = leaf(T)
    normal = d.Normal(mean, T.ones(3))
    normal.log_prob(normal.rsample()).sum().backward()
    d.kl_divergence(normal, d.Normal(T.zeros(3), T.ones(3))).sum().backward()
    d.TransformedDistribution(normal, [d.ExpTransform()]).rsample().sum().backward()
    d.Categorical(logits=leaf(T)).sample(), d.Independent(normal, 1).entropy()


@feature
def generators(T: Any) -> None:
    """Random numbers."""
    g = T.Generator().manual_seed(1)
    T.randn(3, generator=g), T.randperm(4, generator=g), T.rand(3), T.randint(3, (2,))
    g.set_state(g.get_state())
    with T.random.fork_rng():
        T.manual_seed(1)


@feature
def subclasses(T: Any) -> None:
    """A subclass, and modes of functions."""
    x = _subclass(T)
    (x * 2).sum()
    with T.overrides.BaseTorchFunctionMode():
        T.ones(3) * 2
    x[0], T.stack([x, x])


def _subclass(T: Any) -> Any:
    if ("subclass", T) not in own_classes:

        class Own(T.Tensor):  # type: ignore[misc, name-defined]
            @classmethod
            def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                return super().__torch_function__(func, types, args, kwargs or {})

        own_classes["subclass", T] = Own
    return T.ones(3).as_subclass(own_classes["subclass", T])


@feature
def operators(T: Any) -> None:
    """Custom operators, declared once."""
    if ("op", T) not in own_classes:
        op = T.library.custom_op("leaks::double", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor")
        op.register_autograd(lambda ctx, g: g * 2)
        own_classes["op", T] = op
    x = leaf(T)
    own_classes["op", T](x).sum().backward()


@feature
def meta(T: Any) -> None:
    """Tensors without elements."""
    (T.ones(3, device="meta", requires_grad=True) * 2).sum().backward()
    T.nn.Linear(3, 2, device="meta")(T.ones(4, 3, device="meta"))


@cyclic
def traced(T: Any) -> None:
    """Graphs of fx and of jit: a graph and its nodes know each other."""
    m = T.nn.Sequential(T.nn.Linear(3, 2), T.nn.ReLU())
    g = T.fx.symbolic_trace(m)
    g(T.ones(2, 3)), g.code, g.recompile()
    g.graph.lint()
    T.jit.trace(m, T.ones(2, 3))(T.ones(2, 3))


@cyclic
def exported(T: Any) -> None:
    """An exported program, a graph too."""
    T.export.export(T.nn.Linear(3, 2), (T.ones(2, 3),)).module()(T.ones(2, 3))


@feature
def checked(T: Any) -> None:
    """Checks of gradients."""
    x = T.ones(2, dtype=T.float64, requires_grad=True)
    T.autograd.gradcheck(lambda x: (x * x).sum(), (x,), check_forward_ad=True)
    T.autograd.gradgradcheck(lambda x: (x**3).sum(), (x,))
    T.autograd.functional.hessian(lambda x: (x**3).sum(), x)


@feature
def linear_algebra(T: Any) -> None:
    """Decompositions and transforms."""
    x = T.eye(3, dtype=T.float64).mul(2).requires_grad_()
    (T.linalg.inv(x).sum() + T.linalg.eigh(x)[0].sum() + T.linalg.svd(x)[1].sum() + T.linalg.det(x)).backward()
    T.fft.ifft(T.fft.fft(x)).real.sum().backward()
    T.einsum("ij,jk->ik", x, x).sum().backward()
    x.numpy(force=True), T.from_numpy(x.detach().numpy()), x.tolist(), T.tensor(x.tolist())


@feature
def memory(T: Any) -> None:
    """Shared and changed memory."""
    x = leaf(T)
    s = x.detach().untyped_storage()
    s.nbytes(), s.data_ptr()
    y = T.ones(3)
    y.set_(T.ones(4)).resize_(2)
    x.data = T.zeros(3)
    x.detach().share_memory_()
    T.utils.dlpack.from_dlpack(T.utils.dlpack.to_dlpack(y))
