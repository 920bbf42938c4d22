"""Every feature in a loop with the garbage collector off: nothing may be left that only the collector could free.

Three judges after each loop: the objects that the collector knows, the blocks of memory that the interpreter has
allocated (arrays are not among the former), and the resident memory of the process. What grows once, as a cache does,
stops growing: a loop that seems to leak runs again, and counts only if it grows again. A short run has time for some
of the loops, in an order of the seed's.

    python -m gates.leaks --minutes 1 --seed 0                    # 2,000 iterations of each from 40 minutes on
    python -m gates.leaks --iterations 2000 schedulers compiled   # some of them
    python -m gates.leaks --module torch --iterations 100         # the same loops with PyTorch, for comparison
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import gc
import importlib
import io
import pickle
import random
import sys
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from .summary import summary

ITERATIONS = 2000
ALLOWED = 0.02  # objects or blocks for each iteration: a leak of one in fifty iterations is found
BYTES = 1024  # of resident memory for each iteration
FEATURES: dict[str, Callable[[Any], None]] = {}
CYCLIC: set[str] = set()


def feature(run: Callable[[Any], None]) -> Callable[[Any], None]:
    """Register one iteration of a loop; it gets the package, adjoint or torch."""
    FEATURES[run.__name__] = run
    return run


def cyclic(run: Callable[[Any], None]) -> Callable[[Any], None]:
    """Register a loop whose objects refer to each other by their nature; the collector may free them."""
    CYCLIC.add(run.__name__)
    return feature(run)


def leaf(T: Any, *shape: int) -> Any:
    """Return a tensor of ones that wants a gradient."""
    return T.ones(*(shape or (3,)), requires_grad=True)


@contextlib.contextmanager
def raises(*kinds: type[BaseException]) -> Iterator[None]:
    """Let a block fail."""
    try:
        yield
    except kinds:
        return
    raise AssertionError("nothing was raised")


def model_of(T: Any) -> Any:
    """Return a small model."""
    nn = T.nn
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 1))


# --- Recording and the backward pass ---------------------------------------------------------------------------


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


_functions: dict[Any, Any] = {}


def function_of(T: Any) -> Any:
    """Return a custom function that saves its input, its output and more."""
    if T not in _functions:

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

        _functions[T] = Exp
    return _functions[T]


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


# --- Modules and training --------------------------------------------------------------------------------------


@feature
def modules(T: Any) -> None:
    """Containers, and what one does to a model."""
    nn = T.nn
    m = nn.ModuleDict({"a": nn.ModuleList([nn.Linear(3, 3)]), "b": nn.Sequential(nn.Linear(3, 3), nn.Tanh())})
    m["b"](m["a"][0](T.ones(2, 3))).sum().backward()
    m.to(T.float64).float().train().eval().zero_grad()
    m.apply(lambda x: None)
    list(m.named_modules()), list(m.named_parameters()), repr(m)
    nn.ParameterList([leaf(T)]), nn.ParameterDict({"a": leaf(T)})
    m.load_state_dict(copy.deepcopy(m).state_dict())


@feature
def layers(T: Any) -> None:
    """Layers with state, attention, recurrent ones."""
    nn = T.nn
    x = leaf(T, 2, 4, 8)
    y = nn.MultiheadAttention(8, 2, batch_first=True)(x, x, x)[0]
    y = nn.LSTM(8, 4, batch_first=True)(y)[0]
    y = nn.Conv1d(4, 4, 1)(nn.BatchNorm1d(4)(y))
    nn.LayerNorm(4)(y).sum().backward()
    nn.Embedding(4, 3)(T.tensor([1, 2])).sum().backward()
    nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)(x).sum().backward()


@cyclic
def parametrizations(T: Any) -> None:
    """Parametrized weights: each module gets a class of its own, and a class refers to itself."""
    utils = T.nn.utils
    m = utils.parametrizations.weight_norm(T.nn.Linear(3, 3))
    m(T.ones(2, 3)).sum().backward()
    m = utils.parametrizations.spectral_norm(T.nn.Linear(3, 3))
    m(T.ones(2, 3)).sum().backward()
    utils.parametrize.remove_parametrizations(m, "weight")
    utils.prune.l1_unstructured(T.nn.Linear(3, 3), "weight", 0.5)(T.ones(2, 3))


OPTIMIZERS = [
    "SGD", "Adam", "AdamW", "Adagrad", "Adadelta", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop", "LBFGS",
    "Adafactor", "SparseAdam", "Muon",
]  # fmt: skip


@feature
def optimizers(T: Any) -> None:
    """A step of every optimizer."""
    for name in OPTIMIZERS:
        w = T.nn.Parameter(T.ones(2, 2))
        optimizer = getattr(T.optim, name)([w], lr=0.1)

        def closure() -> Any:
            optimizer.zero_grad()  # noqa: B023
            loss = (w * w).sum()  # noqa: B023
            loss.backward()
            return loss

        closure()
        if name == "SparseAdam":
            w.grad = T.ones(2, 2).to_sparse()
            optimizer.step()
        else:
            optimizer.step(closure)
        optimizer.load_state_dict(optimizer.state_dict())
        closure.__closure__ and optimizer.zero_grad()
        repr(optimizer)
        del closure


@feature
def optimizer_hooks(T: Any) -> None:
    """Hooks of an optimizer."""
    w = leaf(T)
    optimizer = T.optim.Adam([w])
    optimizer.register_step_pre_hook(lambda *a: None)
    optimizer.register_step_post_hook(lambda *a: None)
    optimizer.register_state_dict_post_hook(lambda *a: None)
    w.sum().backward()
    optimizer.step()
    optimizer.state_dict()
    optimizer.add_param_group({"params": [leaf(T)]})


def schedulers_of(T: Any, optimizer: Any) -> Iterator[Any]:
    """Return one scheduler of each kind."""
    s = T.optim.lr_scheduler
    yield s.LambdaLR(optimizer, lambda e: 0.9**e)
    yield s.MultiplicativeLR(optimizer, lambda e: 0.9)
    yield s.StepLR(optimizer, 1)
    yield s.MultiStepLR(optimizer, [1, 2])
    yield s.ConstantLR(optimizer)
    yield s.LinearLR(optimizer)
    yield s.ExponentialLR(optimizer, 0.9)
    yield s.PolynomialLR(optimizer)
    yield s.CosineAnnealingLR(optimizer, 3)
    yield s.CosineAnnealingWarmRestarts(optimizer, 3)
    yield s.CyclicLR(optimizer, 0.1, 0.2)
    yield s.OneCycleLR(optimizer, 0.1, 10)
    yield s.ReduceLROnPlateau(optimizer)
    yield s.SequentialLR(optimizer, [s.StepLR(optimizer, 1), s.StepLR(optimizer, 2)], [2])
    yield s.ChainedScheduler([s.StepLR(optimizer, 1)])
    yield T.optim.swa_utils.SWALR(optimizer, 0.1)


@feature
def schedulers(T: Any) -> None:
    """Every scheduler, dropped."""
    for i in range(16):
        optimizer = T.optim.SGD([leaf(T)], lr=0.1, momentum=0.9)
        scheduler = next(s for j, s in enumerate(schedulers_of(T, optimizer)) if j == i)
        for _ in range(2):
            optimizer.step()
            scheduler.step(*((1.0,) if type(scheduler).__name__ == "ReduceLROnPlateau" else ()))
        scheduler.load_state_dict(scheduler.state_dict())
        scheduler.get_last_lr()


@feature
def scaled(T: Any) -> None:
    """A gradient scaler."""
    w = leaf(T)
    optimizer, scaler = T.optim.SGD([w], lr=0.1), T.amp.GradScaler("cpu")
    scaler.scale(w.sum()).backward()
    scaler.unscale_(optimizer)
    T.nn.utils.clip_grad_norm_([w], 1.0)
    scaler.step(optimizer)
    scaler.update()
    scaler.load_state_dict(scaler.state_dict())


@feature
def averaged(T: Any) -> None:
    """Averages of weights."""
    m, utils = model_of(T), T.optim.swa_utils
    for average in (utils.AveragedModel(m), utils.AveragedModel(m, multi_avg_fn=utils.get_ema_multi_avg_fn(0.9))):
        average.update_parameters(m)
        average.update_parameters(m)
        average(T.ones(2, 3))
    utils.update_bn([T.ones(2, 3)], average)


@feature
def training(T: Any) -> None:
    """A loop as programs have it."""
    m = model_of(T)
    optimizer = T.optim.AdamW(m.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        loss = T.nn.functional.mse_loss(m(T.randn(4, 3)), T.zeros(4, 1))
        loss.backward()
        optimizer.step()


@feature
def compiled(T: Any) -> None:
    """A compiled function, dropped, with its graph and its gradients."""
    w = leaf(T)
    f = T.compile(lambda x: (x * w).sin().sum())
    f(T.ones(3)).backward()
    f(T.ones(3)).backward()
    m = T.compile(T.nn.Linear(3, 1))
    m(T.ones(2, 3)).sum().backward()


# --- Data, files, other processes ------------------------------------------------------------------------------


@feature
def loaders(T: Any) -> None:
    """Data loaded in this process."""
    data = T.utils.data
    loader = data.DataLoader(data.TensorDataset(T.arange(6), T.ones(6, 2)), batch_size=2, shuffle=True)
    for _ in loader:
        pass
    next(iter(loader))
    data.random_split(range(6), [2, 4])


@feature
def workers(T: Any) -> None:
    """Data loaded by two workers."""
    data = T.utils.data
    for _ in data.DataLoader(data.TensorDataset(T.arange(4)), batch_size=2, num_workers=2):
        pass


@feature
def files(T: Any) -> None:
    """Saved and loaded state."""
    m = model_of(T)
    optimizer = T.optim.Adam(m.parameters())
    m(T.ones(2, 3)).sum().backward()
    optimizer.step()
    file = io.BytesIO()
    T.save({"model": m.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    m.load_state_dict(T.load(file)["model"])
    with raises(Exception):
        T.load(io.BytesIO(b"nothing"))


@feature
def copies(T: Any) -> None:
    """Copies and pickles."""
    x = leaf(T)
    m = model_of(T)
    copy.deepcopy([x, x.detach()[1:], m])
    copy.copy(m)
    pickle.loads(pickle.dumps([x, m]))  # noqa: S301 - our own


@feature
def threads(T: Any) -> None:
    """A pass in a thread."""

    def work() -> None:
        with T.no_grad():
            leaf(T) * 2
        (leaf(T) * 2).sum().backward()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


@feature
def futures(T: Any) -> None:
    """Futures."""
    future = T.futures.Future()
    after = future.then(lambda f: f.value() + 1)
    future.set_result(1)
    assert after.wait() == 2
    T.futures.wait_all([future])


# --- Kinds of tensors and other features -------------------------------------------------------------------------


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
    if ("subclass", T) not in _functions:

        class Own(T.Tensor):  # type: ignore[misc, name-defined]
            @classmethod
            def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                return super().__torch_function__(func, types, args, kwargs or {})

        _functions["subclass", T] = Own
    return T.ones(3).as_subclass(_functions["subclass", T])


@feature
def operators(T: Any) -> None:
    """Custom operators, declared once."""
    if ("op", T) not in _functions:
        op = T.library.custom_op("leaks::double", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor")
        op.register_autograd(lambda ctx, g: g * 2)
        _functions["op", T] = op
    x = leaf(T)
    _functions["op", T](x).sum().backward()


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


# --- Judges ------------------------------------------------------------------------------------------------------


def resident() -> int:
    """Return the resident memory of the process, in bytes; 0 where that is not known."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096
    except OSError:
        return 0


def census() -> Counter[str]:
    """Count the objects that the collector knows, by type."""
    return Counter(f"{type(o).__module__}.{type(o).__qualname__}" for o in gc.get_objects())


def grown(run: Callable[[Any], None], T: Any, iterations: int) -> tuple[list[str], str]:
    """Return what a loop has left behind, and how much of everything."""
    gc.collect()  # which also empties the interpreter's lists of free objects
    blocks = sys.getallocatedblocks()
    for _ in range(5):  # what a collection has taken from a cache is there again
        run(T)
    before, size = census(), resident()
    for _ in range(iterations):
        run(T)
    if run.__name__ in CYCLIC:
        gc.collect()
    size, after = resident() - size, census()
    after.subtract(before)
    objects = sum(after.values())
    most = ", ".join(f"{count} {name}" for name, count in after.most_common(4) if count > 0)
    del before, after
    gc.collect()
    blocks = sys.getallocatedblocks() - blocks
    allowed = 12 + ALLOWED * iterations
    found = [f"{objects} objects ({most})"] if objects > allowed else []
    found += [f"{blocks} blocks"] if blocks > 3 * allowed + 200 else []
    found += [f"{size} bytes of memory"] if size > (4 << 20) + BYTES * iterations else []
    return found, f"{iterations} iterations: {objects:+} objects, {blocks:+} blocks, {size / 2**20:+.1f} MiB"


def judge(run: Callable[[Any], None], T: Any, iterations: int, until: float) -> tuple[str, str]:
    """Return what is wrong with a feature, if anything, and what was measured."""
    start = time.perf_counter()
    for _ in range(3):
        run(T)
    each = (time.perf_counter() - start) / 3
    iterations = max(20, min(iterations, int((until - time.perf_counter()) / each)))
    gc.disable()
    try:
        for _ in range(3):
            found, said = grown(run, T, iterations)
            if not found:
                return "", said
        return "; ".join(found), said
    finally:
        gc.enable()


def main(argv: list[str] | None = None) -> int:
    """Run every loop; return whether one of them leaks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0, help="of the order of the loops")
    parser.add_argument("--iterations", type=int, help="in place of what the minutes allow")
    parser.add_argument("--module", default="adjoint", help="adjoint, or torch for comparison")
    parser.add_argument("names", nargs="*", help="which loops; all unless said")
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    T, names = importlib.import_module(options.module), options.names or list(FEATURES)
    random.Random(options.seed).shuffle(names)
    end, cases, wrong, crashed = time.perf_counter() + 60 * options.minutes, 0, 0, 0
    for i, name in enumerate(names):
        now = time.perf_counter()
        if cases and now > end and not options.iterations:
            break
        slot = now + (1e9 if options.iterations else max(end - now, 0) / (len(names) - i))
        try:
            found, said = judge(FEATURES[name], T, options.iterations or ITERATIONS, slot)
        except Exception:
            crashed += 1
            print(f"{name:18} raised\n{traceback.format_exc(limit=-3)}", flush=True)
            continue
        cases, wrong = cases + 1, wrong + bool(found)
        print(f"{name:18} {'LEAKS ' + found if found else 'ok'}; {said}", flush=True)
        if found:
            print(f"  again: python -m gates.leaks --iterations 200 {name}", flush=True)
    print(summary("leaks", cases, wrong=wrong, crashed=crashed))
    return 1 if wrong or crashed else 0


if __name__ == "__main__":
    sys.exit(main())
