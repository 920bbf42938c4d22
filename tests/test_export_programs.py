"""Exported programs: what they write, where gradients stop, sizes that vary, signatures, structures of arguments."""

from __future__ import annotations

import collections
import copy
import io
from typing import Any

import pytest

import adjoint
from adjoint import nn
from adjoint.export import Dim, ExportError, ShapesCollection, dims, export, load, save
from adjoint.tree import tree_leaves


class Of(nn.Module):
    """A module of a function."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any, y: Any = None) -> Any:
        return self.function(x) if y is None else self.function(x, y)


def again(program: Any) -> Any:
    file = io.BytesIO()
    save(program, file)
    return load(io.BytesIO(file.getvalue()))


def check(module: Any, *calls: tuple[Any, ...], dynamic_shapes: Any = None) -> None:
    """Export a module by its first call, save and load the program, and compare all calls."""
    program = export(module, calls[0], dynamic_shapes=dynamic_shapes)
    for runs in (program.module(), again(program).module()):
        for call in calls:
            found, expected = runs(*call), module(*call)
            for ours, wanted in zip(tree_leaves(found), tree_leaves(expected), strict=True):
                if isinstance(wanted, adjoint.Tensor):
                    assert ours.shape == wanted.shape and ours.dtype == wanted.dtype
                    assert adjoint.allclose(ours, wanted, atol=1e-5, equal_nan=True)
                else:
                    assert ours == wanted


# --- Writes and gradients -----------------------------------------------------------------------------


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", adjoint.zeros(2))

    def forward(self, x: Any) -> Any:
        self.count += x.sum(0)
        return x * self.count


@pytest.mark.parametrize("saved", [False, True])
def test_buffers_are_written(saved: bool) -> None:
    model, x = Counter(), adjoint.ones(3, 2)
    program = export(model, (x,), dynamic_shapes=({0: Dim("n")},))
    assert model.count.tolist() == [0.0, 0.0]  # the runs for export leave no traces
    assert list(program.graph_signature.buffers_to_mutate.values()) == ["count"]
    module = (again(program) if saved else program).module()
    assert module(x)[0].tolist() == [3.0, 3.0]
    assert module(adjoint.ones(5, 2))[0].tolist() == [8.0, 8.0]
    assert dict(module.named_buffers())["count"].tolist() == [8.0, 8.0]


def test_batch_statistics_are_written() -> None:
    model, x = nn.BatchNorm1d(2), adjoint.randn(6, 2)
    module = again(export(model, (x,))).module()
    assert adjoint.allclose(module(x), model(x), atol=1e-6)
    for name, buffer in model.named_buffers():
        assert adjoint.allclose(dict(module.named_buffers())[name].float(), buffer.float()), name


def test_inputs_are_written() -> None:
    x = adjoint.ones(2)
    program = export(Of(lambda x: x.add_(1) * 2), (x,))
    assert x.tolist() == [1.0, 1.0]  # the example is not
    assert list(program.graph_signature.user_inputs_to_mutate.values()) == ["x"]
    assert again(program).module()(x).tolist() == [4.0, 4.0] and x.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("saved", [False, True])
def test_gradients_stop_where_they_were_stopped(saved: bool) -> None:
    class Stopped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def forward(self, x: Any) -> Any:
            y = self.layer(x)
            return y.detach().view(-1) * y.view(-1) + self.layer.bias.detach().sum()

    model, x = Stopped(), adjoint.randn(3, 2)
    program = export(model, (x,))
    module = (again(program) if saved else program).module()
    assert adjoint.allclose(module(x), model(x), atol=1e-6)
    module(x).sum().backward()
    if not saved:  # the parameters are the model's own
        found = {name: p.grad.clone() for name, p in module.named_parameters()}
        model.zero_grad()
    else:
        found = {name: p.grad for name, p in module.named_parameters()}
    model(x).sum().backward()
    for name, parameter in model.named_parameters():
        assert adjoint.allclose(found[name], parameter.grad, atol=1e-5), name


def test_a_write_to_what_was_detached_is_refused() -> None:
    def f(x: Any) -> Any:
        y = x * 2
        y.detach().add_(1)
        return y

    with pytest.raises(ExportError, match="result of detach"):
        export(Of(f), (adjoint.ones(2),))


# --- Sizes --------------------------------------------------------------------------------------------

R = adjoint.randn
N, T, H, W = Dim("n"), Dim("t"), Dim("h", min=32, max=128), Dim("w", min=32, max=128)


@pytest.mark.parametrize(
    ("function", "shapes", "axes"),
    [
        (lambda x: (x, x.shape[0] * 2, x.numel()), [(4, 2), (9, 2)], {0: N}),
        (lambda x: x[: x.shape[0] // 2], [(4, 2), (9, 2), (2, 2)], {0: N}),
        (lambda x: (x[:, 1:] - x[:, :-1]).cumsum(0), [(2, 4), (3, 9)], {0: N, 1: T}),
        (lambda x: adjoint.cat([x, x[:1]])[:, 0] / x.shape[1] ** 0.5, [(4, 2), (2, 5)], {0: N, 1: T}),
        (lambda x: adjoint.stack([x, x + adjoint.arange(x.shape[1])]), [(4, 2), (2, 5)], {0: N, 1: T}),
        (lambda x: x.new_zeros(x.shape[0] * 2) + x.shape[0] ** 2, [(3, 4), (5, 4)], {0: N}),
        (lambda x: x.reshape(x.shape[0], x.shape[1] // 4, 4).sum(-1), [(3, 8), (2, 20)], {1: 4 * Dim("patches"), 0: N}),
        (nn.MaxPool2d(3, 2, 1, ceil_mode=True), [(1, 2, 64, 40), (1, 2, 35, 97)], {2: H, 3: W}),
        (nn.AvgPool2d(2, count_include_pad=False), [(1, 2, 64, 40), (1, 2, 35, 97)], {2: H, 3: W}),
        (nn.Upsample(scale_factor=2, mode="bilinear"), [(1, 2, 64, 40), (1, 2, 35, 97)], {2: H, 3: W}),
        (nn.ReflectionPad2d(2), [(1, 2, 64, 40), (1, 2, 35, 97)], {2: H, 3: W}),
        (nn.AdaptiveAvgPool2d(3), [(1, 2, 64, 40), (1, 2, 35, 97)], {2: H, 3: W}),
        (lambda x: nn.functional.one_hot((x[0] > 0).long(), 3), [(2, 4), (2, 9)], {1: T}),
    ],
)  # fmt: skip
def test_sizes_that_follow_from_others(function: Any, shapes: Any, axes: Any) -> None:
    check(Of(function), *[(R(*shape),) for shape in shapes], dynamic_shapes={"x": axes})


def test_sizes_after_several_strides() -> None:
    layers = [part for _ in range(4) for part in (nn.Conv2d(3, 3, 3, 2, 1), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Flatten(2)).eval()
    calls = [(R(1, 3, *sizes),) for sizes in ((64, 64), (97, 43), (33, 127), (62, 66))]
    check(model, *calls, dynamic_shapes=({2: H, 3: W},))


def test_axes_that_are_dynamic_where_the_program_allows_it() -> None:
    auto = Dim.AUTO
    program = export(nn.Linear(4, 2), (R(3, 4),), dynamic_shapes=([auto, auto],))
    assert program.module()(R(7, 4)).shape == (7, 2)
    with pytest.raises(AssertionError, match="Guard failed"):
        program.module()(R(7, 5))
    both = export(Of(lambda x, y: x + y), (R(3), R(3)), dynamic_shapes=([auto], [auto]))
    assert both.module()(R(5), R(5)).shape == (5,)
    with pytest.raises(AssertionError, match="in another input"):
        both.module()(R(5), R(4))
    bounded = export(nn.ReLU(), (R(3),), dynamic_shapes=({0: Dim.AUTO(min=2, max=5)},))
    with pytest.raises(AssertionError, match="from 2 to 5"):
        bounded.module()(R(6))
    with pytest.raises(ExportError, match="cannot be other than 4"):
        export(nn.Linear(4, 2), (R(3, 4),), dynamic_shapes=({1: Dim.DYNAMIC},))
    with pytest.raises(TypeError, match="takes no bounds"):
        Dim.STATIC(min=2)


def test_shapes_by_tensor_and_several_dims() -> None:
    x, y = R(3, 2), R(5)
    first, second = dims("a", "b", max=9)
    shapes = ShapesCollection()
    shapes[x] = {0: first}
    shapes[y] = (second,)
    program = export(Of(lambda x, y: x.sum() + y), (x, y), dynamic_shapes=shapes)
    assert program.module()(R(7, 2), R(2)).shape == (2,)
    assert program.range_constraints["a"].upper == 9


def test_sizes_that_are_wrong_are_refused() -> None:
    with pytest.raises(ValueError, match="static size 5, and the example's is 3"):
        export(nn.ReLU(), (R(3),), dynamic_shapes=({0: 5},))
    with pytest.raises(ExportError, match="is not between its bounds 5 and None"):
        export(nn.ReLU(), (R(3),), dynamic_shapes=({0: Dim("n", min=5)},))
    with pytest.raises(ExportError, match="branch on a size"):
        export(Of(lambda x: x * 2 if x.shape[0] > 3 else x), (R(3),), dynamic_shapes=({0: N},))


# --- Signatures and structures ------------------------------------------------------------------------


class Parts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.register_buffer("shown", adjoint.ones(2))
        self.register_buffer("hidden", adjoint.ones(2), persistent=False)
        self.__dict__["outside"] = adjoint.tensor([1.0, 2.0])

    def forward(self, x: Any, *, scale: float = 1.0, flag: bool = True) -> Any:
        y = self.layer(x) + self.shown + self.hidden * scale + self.__dict__["outside"]
        return {"out": y if flag else -y, "rest": (x, None, 3)}


@pytest.mark.parametrize("saved", [False, True])
def test_the_signature(saved: bool) -> None:
    model, x = Parts(), R(3, 4)
    program = export(model, (x,), {"scale": 2.0, "flag": True})
    program = again(program) if saved else program
    signature = program.graph_signature
    assert signature.parameters == ("layer.weight", "layer.bias") and signature.buffers == ("shown", "hidden")
    assert signature.non_persistent_buffers == ("hidden",) and "hidden" in program.constants
    assert signature.user_inputs == ("x", 2.0, True) and signature.user_outputs[1:] == ("x", None, 3)
    assert signature.inputs_to_parameters["p_layer_weight"] == "layer.weight"
    assert len(signature.lifted_tensor_constants) == 1
    assert [spec.kind.name for spec in signature.input_specs][-3:] == ["USER_INPUT"] * 3
    assert list(program.state_dict) == ["layer.weight", "layer.bias", "shown"]
    module = program.module()
    assert set(module.state_dict()) == set(model.state_dict())
    assert program.call_spec.in_spec.num_leaves == 3
    found = module(x, flag=True, scale=2.0)  # keywords in any order
    assert adjoint.allclose(found["out"], model(x, scale=2.0)["out"], atol=1e-6)
    with pytest.raises(ValueError, match="an argument was True"):
        module(x, scale=2.0, flag=False)
    with pytest.raises(ValueError, match="structure is another"):
        module(x)
    with pytest.raises(NotImplementedError, match="train"):
        module.train()


def test_a_copy_has_parameters_of_its_own() -> None:
    module = export(nn.Linear(2, 2), (R(1, 2),)).module()
    twin = copy.deepcopy(module)
    with adjoint.no_grad():
        twin.weight.zero_()
        twin.bias.zero_()
    assert twin(adjoint.ones(1, 2)).tolist() == [[0.0, 0.0]] and module(adjoint.ones(1, 2)).abs().sum() > 0


def test_structures_of_arguments_and_results() -> None:
    Pair = collections.namedtuple("Pair", "first second")
    pairs = export(Of(lambda p: Pair(p.first + p.second, [p.first])), (Pair(R(2), R(2)),))
    assert type(pairs.module()(Pair(R(2), R(2)))).__name__ == "Pair"
    named = export(Of(lambda d: d["a"] - d["b"]), ({"a": R(2), "b": R(2)},))
    one, two = R(2), R(2)
    assert adjoint.equal(named.module()({"b": two, "a": one}), one - two)  # keys in any order
    with pytest.raises(ValueError, match="structure is another"):
        named.module()({"a": one, "c": two})


def test_the_same_tensor_twice() -> None:
    x = R(3)
    module = export(Of(lambda x, y: x * 2 + y), (x, x)).module()
    one, two = R(3), R(3)
    assert adjoint.allclose(module(one, two), one * 2 + two)
