"""`Module`: members, hooks, state, conversions, copies, as torch has them."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import warnings
import weakref
from collections import OrderedDict
from typing import Any

import pytest

import adjoint
from adjoint import nn
from tests.oracle import needs_torch, outcome, same, torch


def small(m: Any) -> Any:
    """Return a model with parameters, buffers of both kinds, shared and missing members."""
    nn = m.nn

    class Block(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(2, 2)
            self.register_buffer("kept", m.ones(2))
            self.register_buffer("passing", m.zeros(1), persistent=False)
            self.register_parameter("absent", None)
            self.plain = 5

        def forward(self, x: Any, scale: Any = 1) -> Any:
            return self.linear(x) * self.kept * scale

    class Net(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first = Block()
            self.second = Block()
            self.shared = self.first.linear
            self.none: Any = None
            self.add_module("missing", None)

        def forward(self, x: Any) -> Any:
            return self.second(self.first(x), scale=2)

    m.manual_seed(0)
    return Net()


# --- Programs that must do on adjoint what they do on torch -----------------------------------------


def names(m: Any) -> Any:
    net = small(m)
    return [
        [n for n, _ in net.named_parameters()],
        [n for n, _ in net.named_parameters(prefix="p", recurse=False)],
        [n for n, _ in net.named_parameters(remove_duplicate=False)],
        [n for n, _ in net.named_buffers()],
        [n for n, _ in net.named_children()],
        [n for n, _ in net.named_modules()],
        [n for n, _ in net.named_modules(remove_duplicate=False)],
        len(list(net.parameters())), len(list(net.buffers())), len(list(net.children())), len(list(net.modules())),
        list(net.state_dict()), list(net.state_dict(prefix="x.")), repr(net), repr(net.first),
        dict(net.state_dict()._metadata),
    ]  # fmt: skip


def members(m: Any) -> Any:
    net = small(m)
    parameter = m.nn.Parameter(m.ones(3))
    net.first.extra = parameter
    net.first.plain = m.nn.Linear(1, 1)
    told = [n for n, _ in net.first.named_parameters()]
    net.first.plain = None
    net.first.kept = m.zeros(3)
    del net.first.linear
    net.buffer = m.nn.Buffer(m.ones(1))
    net.loose = m.nn.Buffer(m.ones(1), persistent=False)
    net.first._parameters["extra"] = None
    return (
        told,
        net.first.extra,
        net.first.kept,
        list(net.state_dict()),
        hasattr(net.first, "linear"),
        "first" in dir(net),
    )


def paths(m: Any) -> Any:
    net = small(m)
    net.set_submodule("second.linear", m.nn.Identity())
    return [
        repr(net.get_submodule("first.linear")),
        net.get_submodule("") is net,
        net.get_parameter("first.linear.weight").shape == (2, 2),
        net.get_buffer("first.kept"),
        repr(net.second),
    ]


def hooks(m: Any) -> Any:
    net = small(m)
    told: list[Any] = []
    net.first.register_forward_pre_hook(lambda mod, args: told.append("pre"))
    net.first.register_forward_pre_hook(lambda mod, args: (args[0] * 2,), prepend=True)
    net.second.register_forward_pre_hook(
        lambda mod, args, kwargs: (args, {"scale": kwargs["scale"] + 1}), with_kwargs=True
    )
    net.first.register_forward_hook(lambda mod, args, out: told.append(list(out.shape)))
    handle = net.first.register_forward_hook(lambda mod, args, out: out * 3)
    net.second.register_forward_hook(lambda mod, args, kwargs, out: told.append(sorted(kwargs)), with_kwargs=True)
    one = net(m.ones(1, 2))
    handle.remove()
    two = net(m.ones(1, 2))
    with net.register_forward_hook(lambda mod, args, out: out + 100):
        three = net(m.ones(1, 2))
    return one, two, three, net(m.ones(1, 2)), told


def backward_hooks(m: Any) -> Any:
    net = small(m)
    told: list[Any] = []
    net.first.register_full_backward_hook(lambda mod, gi, go: told.append(["first", gi, go]))
    net.second.register_full_backward_pre_hook(lambda mod, go: (go[0] * 2,))
    net.second.register_full_backward_hook(lambda mod, gi, go: (gi[0] * 3,))
    x = m.ones(1, 2, requires_grad=True)
    net(x).sum().backward()
    first = [x.grad, [p.grad for p in net.parameters()]]
    net.zero_grad()
    net(m.ones(1, 2)).sum().backward()
    return first, told, [p.grad for p in net.parameters()]


def always_called(m: Any) -> Any:
    told: list[Any] = []

    class Failing(m.nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: Any) -> Any:
            raise ValueError("no")

    net = Failing()
    net.register_forward_hook(lambda mod, args, out: told.append("never"))
    net.register_forward_hook(lambda mod, args, out: told.append(out), always_call=True)
    try:
        net(1)
    except ValueError as error:
        told.append(str(error))
    return told


def global_hooks(m: Any) -> Any:
    room, told = m.nn.modules.module, []
    net = small(m)
    handles = [
        room.register_module_forward_pre_hook(lambda mod, args: told.append(f"pre {type(mod).__name__}")),
        room.register_module_forward_hook(lambda mod, args, out: told.append(f"post {type(mod).__name__}")),
        room.register_module_full_backward_hook(lambda mod, gi, go: told.append(f"back {type(mod).__name__}")),
        room.register_module_parameter_registration_hook(lambda mod, name, p: told.append(name)),
        room.register_module_module_registration_hook(lambda mod, name, p: told.append(name)),
        room.register_module_buffer_registration_hook(lambda mod, name, p: told.append(name)),
    ]
    try:
        net(m.ones(1, 2)).sum().backward()
        m.nn.BatchNorm1d(1)
        m.nn.Sequential(m.nn.ReLU())
    finally:
        for handle in handles:
            handle.remove()
    before = len(told)
    net(m.ones(1, 2))
    return told, len(told) == before


def loading(m: Any) -> Any:
    net, other = small(m), small(m)
    with m.no_grad():
        for p in other.parameters():
            p.add_(1)
    weight = net.first.linear.weight
    result = net.load_state_dict(other.state_dict())
    state = other.state_dict()
    del state["first.kept"]
    state["what.is.this"] = m.ones(1)
    loose = net.load_state_dict(state, strict=False)
    return repr(result), list(loose), weight is net.first.linear.weight, dict(net.state_dict())


def assigning(m: Any) -> Any:
    net = small(m)
    state = {k: v.clone().double() for k, v in net.state_dict().items()}
    given = state["first.linear.weight"]
    net.load_state_dict(state, assign=True)
    held = net.first.linear.weight
    return (
        held.dtype == m.float64,
        held.data_ptr() == given.data_ptr(),
        held.requires_grad,
        type(held) is m.nn.Parameter,
    )


def wrong_state(m: Any) -> Any:
    net = small(m)
    state = net.state_dict()
    state["first.linear.weight"] = m.ones(3, 3)
    del state["second.kept"]
    state["nobody"] = m.ones(1)
    state["first.linear.more"] = m.ones(1)
    try:
        net.load_state_dict(state)
    except RuntimeError as error:
        return str(error)


def state_hooks(m: Any) -> Any:
    net = small(m)
    told: list[Any] = []
    net.first.register_state_dict_pre_hook(lambda mod, prefix, keep: told.append(["before", prefix, keep]))
    net.first.register_state_dict_post_hook(lambda mod, state, prefix, meta: state.__setitem__("more", m.ones(1)))
    net.register_load_state_dict_pre_hook(lambda mod, state, *rest: state.pop("more", None) is None or None)
    net.register_load_state_dict_post_hook(lambda mod, keys: told.append(list(keys)))
    state = net.state_dict()
    net.load_state_dict(state)
    return told, list(state)


def extra_state(m: Any) -> Any:
    class Counting(m.nn.Module):  # type: ignore[misc,name-defined]
        count = 0

        def get_extra_state(self) -> Any:
            return {"count": self.count}

        def set_extra_state(self, state: Any) -> None:
            self.count = state["count"]

    net, other = m.nn.Sequential(Counting()), m.nn.Sequential(Counting())
    net[0].count = 3
    state = net.state_dict()
    other.load_state_dict(state)
    del state["0._extra_state"]
    return list(net.state_dict()), other[0].count, outcome(lambda _: other.load_state_dict(state), m)[1][0]


def conversions(m: Any) -> Any:
    net = small(m)
    net.register_buffer("whole", m.tensor([1, 2]))
    net(m.ones(1, 2)).sum().backward()
    weight = net.first.linear.weight
    told = []
    for change in ("double", "half", "bfloat16", "float"):
        getattr(net, change)()
        told.append([str(t.dtype) for t in [weight, weight.grad, net.first.kept, net.whole]])
    net.to(m.float64)
    net.to(dtype=m.float32)
    net.to("cpu")
    net.to(m.ones(1, dtype=m.float64))
    told.append(str(weight.dtype))
    return told, weight is net.first.linear.weight, weight.is_leaf


def training(m: Any) -> Any:
    net = small(m)
    net.eval()
    net.requires_grad_(False)
    told = [mod.training for mod in net.modules()], [p.requires_grad for p in net.parameters()]
    net.train().requires_grad_()
    net(m.ones(1, 2)).sum().backward()
    net.zero_grad(set_to_none=False)
    zeros = [p.grad for p in net.parameters()]
    net.zero_grad()
    net.apply(lambda mod: setattr(mod, "seen", type(mod).__name__))
    return told, zeros, [p.grad for p in net.parameters()], [mod.seen for mod in net.modules()]


def copies(m: Any) -> Any:
    net = small(m)
    net.first.register_forward_hook(lambda mod, args, out: out * 2)
    twin = copy.deepcopy(net)
    with m.no_grad():
        twin.first.linear.weight.zero_()
    return net(m.ones(1, 2)), twin(m.ones(1, 2)), twin.shared is twin.first.linear, list(twin.state_dict()), repr(twin)


def replaced_registries(m: Any) -> Any:
    """What libraries for meta-learning do: a clone with registries of its own."""
    net = m.nn.Linear(2, 2)
    clone = net.__new__(type(net))
    clone.__dict__ = net.__dict__.copy()
    clone._parameters = clone._parameters.copy()
    clone._parameters["weight"] = net.weight * 2
    return clone(m.ones(1, 2)), net(m.ones(1, 2)), clone.weight is not net.weight


PROGRAMS = [
    names, members, paths, hooks, backward_hooks, always_called, global_hooks, loading, assigning, wrong_state,
    state_hooks, extra_state, conversions, training, copies, replaced_registries,
]  # fmt: skip


@needs_torch
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_programs(program: Any) -> None:
    same(program, 1e-5)


def before_init(m: Any) -> Any:
    class Early(m.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            self.weight = m.nn.Parameter(m.ones(1))

    return Early()


# What torch refuses: class and message are compared.
REFUSED = [
    before_init,
    lambda m: setattr(m.nn.Linear(1, 1), "weight", m.ones(1)),
    lambda m: setattr(small(m), "first", 3),
    lambda m: setattr(small(m).first, "kept", 3),
    lambda m: m.nn.Module().register_parameter("a.b", None),
    lambda m: m.nn.Module().register_parameter("", None),
    lambda m: m.nn.Module().register_parameter("forward", None),
    lambda m: m.nn.Module().register_parameter("a", m.ones(1)),
    lambda m: m.nn.Module().register_parameter("a", m.nn.Parameter(m.ones(1)) * 2),
    lambda m: m.nn.Module().register_buffer("a", 3),
    lambda m: m.nn.Module().register_buffer("a.b", m.ones(1)),
    lambda m: m.nn.Module().add_module("a.b", None),
    lambda m: m.nn.Module().add_module("a", 3),
    lambda m: small(m).get_submodule("first.nothing"),
    lambda m: small(m).get_submodule("first.plain"),
    lambda m: small(m).get_parameter("first.kept"),
    lambda m: small(m).get_buffer("first.linear.weight"),
    lambda m: small(m).set_submodule("", m.nn.ReLU()),
    lambda m: small(m).nothing,
    lambda m: small(m).train(3),
    lambda m: small(m).to(m.int64),
    lambda m: m.nn.Module()(1),
    lambda m: small(m).load_state_dict(3),
    lambda m: delattr(small(m), "nothing"),
]


@needs_torch
@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_refusals(number: int) -> None:
    mine, theirs = outcome(REFUSED[number], adjoint), outcome(REFUSED[number], torch)
    assert mine[0] == theirs[0] == "error", f"adjoint: {mine}; torch: {theirs}"
    assert mine[1][0] == theirs[1][0], f"adjoint: {mine}; torch: {theirs}"
    assert mine[1][1].replace("adjoint.", "torch.")[:24] == theirs[1][1][:24], f"adjoint: {mine}; torch: {theirs}"


# --- What needs no oracle ---------------------------------------------------------------------------


def test_members_can_be_read_whoever_wrote_them() -> None:
    layer = nn.Linear(2, 2)
    for write in (
        lambda p: layer._parameters.__setitem__("weight", p),
        lambda p: layer._parameters.update(weight=p),
        lambda p: setattr(layer, "weight", p),
        lambda p: setattr(layer, "_parameters", {"weight": p, "bias": None}),
    ):
        p = nn.Parameter(adjoint.randn(2, 2))
        write(p)
        assert layer.weight is p
        assert layer._parameters["weight"] is p
    assert layer.bias is None
    assert layer._parameters.pop("weight") is p
    assert not hasattr(layer, "weight")
    layer._parameters.setdefault("weight", p)
    assert layer.weight is p
    layer._parameters.clear()
    assert not hasattr(layer, "weight")
    assert layer._parameters.pop("weight", 3) == 3


def test_a_module_goes_when_its_last_reference_does() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    net.register_forward_hook(lambda m, args, out: out)
    gone = weakref.ref(net[0])
    gc.disable()
    try:
        del net
        assert gone() is None
    finally:
        gc.enable()


class Pickled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.tied = self.linear.weight
        self.register_buffer("kept", adjoint.ones(1))

    def forward(self, x: Any) -> Any:
        return self.linear(x) + self.kept


def test_pickle() -> None:
    net = Pickled()
    stream = io.BytesIO()
    pickle.dump(net, stream)
    twin = pickle.loads(stream.getvalue())
    x = adjoint.ones(1, 2)
    assert (twin(x) == net(x)).all()
    assert twin.tied is twin.linear.weight
    twin.linear._parameters["weight"] = nn.Parameter(adjoint.zeros(2, 2))
    assert (twin.linear.weight == 0).all()
    assert (net.linear.weight != 0).any()


def test_an_error_says_in_which_module_it_arose() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Sequential(nn.Linear(2, 3), nn.Linear(4, 2))])

        def forward(self, x: Any) -> Any:
            return self.layers[0](x)

    with pytest.raises(RuntimeError, match=r"mat1 and mat2 shapes cannot be multiplied \(5x3 and 4x2\)") as caught:
        Net()(adjoint.ones(5, 2))
    notes = [n for n in caught.value.__notes__ if n.startswith("in module")]
    assert notes == ["in module Net.layers.0.1: Linear(in_features=4, out_features=2, bias=True)"]


def test_an_error_in_a_hooked_module_says_where_too() -> None:
    net = nn.Sequential(nn.Linear(2, 3))
    net[0].register_forward_hook(lambda m, args, out: out)
    with pytest.raises(RuntimeError) as caught:
        net(adjoint.ones(1, 5))
    assert any("Sequential.0: Linear" in n for n in caught.value.__notes__)


def test_hooks_that_went_cost_nothing() -> None:
    layer = nn.ReLU()
    handle = layer.register_forward_hook(lambda m, args, out: out * 2)
    x = adjoint.ones(1)
    assert layer(x).item() == 2
    handle.remove()
    assert layer(x).item() == 1
    assert not layer._hooked


def test_warnings_of_old_hooks() -> None:
    layer = nn.Linear(1, 1)
    layer.register_backward_hook(lambda m, gi, go: None)
    with pytest.raises(RuntimeError, match="Cannot use both regular backward hooks and full backward hooks"):
        layer.register_full_backward_hook(lambda m, gi, go: None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layer(adjoint.ones(1, 1)).sum().backward()


def test_a_state_dict_keeps_tied_weights_and_survives_changes() -> None:
    net = Pickled()
    state = net.state_dict()
    assert isinstance(state, OrderedDict)
    assert not state["linear.weight"].requires_grad
    assert net.state_dict(keep_vars=True)["linear.weight"] is net.linear.weight
    with adjoint.no_grad():
        net.linear.weight.fill_(3)
    assert (state["linear.weight"] == 3).all()  # the same memory, as in torch


def test_shared_memory_keeps_the_module() -> None:
    net = Pickled()
    assert net.share_memory() is net
    assert net.to_empty(device="cpu") is net


def test_prefix_of_data_parallel_can_be_taken_off() -> None:
    state = nn.DataParallel(nn.Linear(1, 1)).state_dict()
    nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    assert list(state) == ["weight", "bias"]
    nn.Linear(1, 1).load_state_dict(state)


def test_a_class_that_wants_to_be_asked_for_attributes_hears_of_members() -> None:
    asked: list[str] = []

    class Listening(nn.Linear):
        def __getattr__(self, name: str) -> Any:
            asked.append(name)
            return super().__getattr__(name)

    layer = Listening(2, 2)
    assert layer.weight is layer._parameters["weight"] and "weight" in asked
    other = nn.Linear(2, 2)
    other.__class__ = Listening
    asked.clear()
    assert other.weight is other._parameters["weight"] and asked == ["weight"]
    other.__class__ = nn.Linear
    asked.clear()
    assert other(adjoint.ones(1, 2)).shape == (1, 2) and not asked
