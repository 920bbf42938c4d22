"""Function modes: what they see, in which order, and that nothing stays behind."""

from __future__ import annotations

import importlib
import operator
import threading
from typing import Any

import pytest

import adjoint
from adjoint.overrides import TorchFunctionMode


@pytest.fixture(params=["adjoint", "torch"])
def torch(request: Any) -> Any:
    return pytest.importorskip(request.param, reason="torch is the second opinion on its own modes")


def logging_mode(torch: Any, log: list[str], tag: str = "") -> Any:
    overrides = importlib.import_module(f"{torch.__name__}.overrides")

    class Log(overrides.TorchFunctionMode):  # type: ignore[misc, name-defined]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = str(overrides.resolve_name(func))
            log.append(tag + name.removeprefix("torch.").removeprefix("adjoint."))
            return func(*args, **(kwargs or {}))

    return Log()


def test_a_mode_sees_functions_methods_and_attributes(torch: Any) -> None:
    log: list[str] = []
    functional = importlib.import_module(f"{torch.__name__}.nn.functional")
    x = torch.ones(3, requires_grad=True)
    with logging_mode(torch, log):
        y = x + 1
        y = 2 * y * 2
        y = 2 - y
        y.sum().backward()
        functional.relu(x).shape
        x[0].dtype
        torch.add(torch.zeros(2), torch.tensor([1.0]))
        -x @ x
        x.reshape(3, 1)
    assert log == [
        "Tensor.add", "Tensor.mul", "Tensor.mul", "Tensor.__rsub__", "Tensor.sum", "Tensor.backward",
        "nn.functional.relu", "Tensor.shape.__get__", "Tensor.__getitem__", "Tensor.dtype.__get__", "zeros", "tensor",
        "add", "Tensor.neg", "Tensor.matmul", "Tensor.reshape",
    ]  # fmt: skip
    assert x.grad.tolist() == [-4.0, -4.0, -4.0]


def test_modes_inside_modes(torch: Any) -> None:
    log: list[str] = []
    x = torch.ones(2)
    with logging_mode(torch, log, "a "), logging_mode(torch, log, "b "):
        x.sin()
        x.shape
    x.cos()
    assert log == ["b Tensor.sin", "a Tensor.sin", "b Tensor.shape.__get__", "a Tensor.shape.__get__"]


def test_a_mode_answers_in_the_place_of_a_function(torch: Any) -> None:
    overrides = importlib.import_module(f"{torch.__name__}.overrides")
    known = {torch.Tensor.mul: "product", torch.mul: "product"}  # made before the mode is on

    class Swap(overrides.TorchFunctionMode):  # type: ignore[misc, name-defined]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.add or func is torch.Tensor.add:
                return torch.sub(*args, **(kwargs or {}))
            return known.get(func) or func(*args, **(kwargs or {}))

    with Swap():
        found = [torch.add(torch.ones(1), 3).item(), (torch.ones(1) + 3).item(), torch.ones(1) * 2, torch.mul(2, 3)]
    assert found == [-2.0, -2.0, "product", "product"]


def test_a_mode_goes_before_the_class_of_an_argument(torch: Any) -> None:
    log: list[str] = []

    class Sub(torch.Tensor):  # type: ignore[misc, name-defined]
        pass

    x = torch.ones(2).as_subclass(Sub)
    with logging_mode(torch, log):
        y = x + 1
    assert log == ["Tensor.add"]
    assert type(y) is Sub


def test_modes_can_be_switched_off(torch: Any) -> None:
    log: list[str] = []
    x = torch.ones(2)
    with logging_mode(torch, log):
        with torch._C.DisableTorchFunction():
            x + 1
        with torch._C.DisableTorchFunctionSubclass():
            x - 1
        assert torch.overrides.has_torch_function((x,))
    assert log == ["Tensor.sub"]
    assert not torch.overrides.has_torch_function((x,))


def test_the_same_mode_twice_and_errors(torch: Any) -> None:
    log: list[str] = []
    mode = logging_mode(torch, log)
    with mode, mode:
        torch.zeros(1)
    assert log == ["zeros", "zeros"]
    with pytest.raises(NotImplementedError), torch.overrides.TorchFunctionMode():
        torch.zeros(1)
    with torch.overrides.BaseTorchFunctionMode():
        assert (torch.ones(1) + 1).item() == 2
    log.clear()
    torch.zeros(1)
    assert log == []


def test_nothing_stays_behind_and_other_threads_hear_nothing() -> None:
    before = dict(vars(adjoint.Tensor))
    log: list[str] = []
    with logging_mode(adjoint, log):
        assert adjoint.overrides._get_current_function_mode() is not None
        worker = threading.Thread(target=lambda: adjoint.ones(2) * 2)
        worker.start()
        worker.join()
    assert log == []
    assert dict(vars(adjoint.Tensor)) == before
    assert adjoint.overrides._get_current_function_mode_stack() == []


def test_a_class_that_is_defined_inside_a_mode_is_asked_after_it() -> None:
    asked = []
    with logging_mode(adjoint, []):

        class Late(adjoint.Tensor):
            @classmethod
            def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                asked.append(func.__name__)
                return super().__torch_function__(func, types, args, kwargs or {})

    x = adjoint.ones(2).as_subclass(Late)
    asked.clear()
    assert type(x + 1) is Late
    assert asked == ["add"]


def test_second_derivatives_and_modules_run_inside_a_mode() -> None:
    x = adjoint.tensor([0.3, 0.7], dtype=adjoint.float64, requires_grad=True)
    with logging_mode(adjoint, []):
        (g,) = adjoint.autograd.grad((x.sin() * x).sum(), x, create_graph=True)
        (h,) = adjoint.autograd.grad(g.sum(), x)
        layer = adjoint.nn.Linear(2, 2)
        layer(x.detach().float()).sum().backward()
    (g0,) = adjoint.autograd.grad((x.sin() * x).sum(), x, create_graph=True)
    assert h.equal(adjoint.autograd.grad(g0.sum(), x)[0])
    assert layer.weight.grad is not None


def test_what_can_be_overridden() -> None:
    known = adjoint.overrides.get_overridable_functions()
    assert adjoint.add in known[adjoint]
    assert adjoint.Tensor.add in known[adjoint.Tensor]
    assert adjoint.overrides.get_testing_overrides()[adjoint.add](1, 2) == -1
    assert adjoint.is_tensor in adjoint.overrides.get_ignored_functions()
    assert isinstance(TorchFunctionMode.push(), TorchFunctionMode)


def test_objects_that_are_no_tensors_are_asked_too(torch: Any) -> None:
    class Sub(torch.Tensor):  # type: ignore[misc, name-defined]
        """From the first class on, functions ask."""

    class Wrapper:
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func.__name__, [t.__name__ for t in types]

    assert torch.stack([Wrapper(), torch.ones(1)]) == ("stack", ["Wrapper"])
    assert torch.add(torch.ones(1), Wrapper()) == ("add", ["Wrapper"])
    assert torch.matmul(Wrapper(), torch.ones(1).as_subclass(Sub)) == ("matmul", ["Wrapper", "Sub"])


OPERATORS = [
    *"add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift eq ne lt le gt ge".split(),
    *"iadd isub imul itruediv imod ipow iand ior ixor".split(),
]


CALLS: dict[str, Any] = {
    "relu": lambda T, x: T.nn.functional.relu(x),
    "dropout": lambda T, x: T.nn.functional.dropout(x, 0.2, training=False),
    "cross_entropy": lambda T, x: T.nn.functional.cross_entropy(x, T.tensor([0, 1]), reduction="sum"),
    "layer_norm": lambda T, x: T.nn.functional.layer_norm(x, (3,)),
    "linear": lambda T, x: T.nn.functional.linear(x, T.ones(2, 3)),
    "norm": lambda T, x: T.norm(x, 2),
    "split": lambda T, x: T.split(x, 1),
    "unique": lambda T, x: T.unique(x, return_counts=True),
    "sum": lambda T, x: T.sum(x, dim=0),
    "linalg_norm": lambda T, x: T.linalg.norm(x),
    "fft_rfft": lambda T, x: T.fft.rfft(x),
    "special_erf": lambda T, x: T.special.erf(x),
    "Tensor.norm": lambda T, x: x.norm(1),
    "Tensor.split": lambda T, x: x.split(1),
    "Tensor.unique": lambda T, x: x.unique(dim=0),
    "Tensor.sum": lambda T, x: x.sum(0, keepdim=True),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_handler_gets_options_by_name_where_torchs_function_is_python(torch: Any, name: str) -> None:
    """The calls are written down for torch in the golden lines below, so that both sides are held to them."""
    seen = []

    class Seen(torch.Tensor):  # type: ignore[misc, name-defined]
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            options = {k: v for k, v in (kwargs or {}).items() if v is not None and v is not False}
            seen.append((func.__name__, len(args), options))
            return None

    CALLS[name](torch, torch.ones(2, 3).as_subclass(Seen))
    assert seen == [GOLDEN[name]]


GOLDEN: dict[str, Any] = {
    "relu": ("relu", 1, {}),
    "dropout": ("dropout", 1, {"p": 0.2}),
    "cross_entropy": ("cross_entropy", 2, {"reduction": "sum", "ignore_index": -100, "label_smoothing": 0.0}),
    "layer_norm": ("layer_norm", 2, {"eps": 1e-5}),
    "linear": ("linear", 2, {}),
    "norm": ("norm", 1, {"p": 2}),
    "split": ("split", 2, {"dim": 0}),
    "unique": ("unique", 1, {"sorted": True, "return_counts": True}),
    "sum": ("sum", 1, {"dim": 0}),
    "linalg_norm": ("linalg_norm", 1, {}),
    "fft_rfft": ("fft_rfft", 1, {}),
    "special_erf": ("special_erf", 1, {}),
    "Tensor.norm": ("norm", 1, {"p": 1}),
    "Tensor.split": ("split", 2, {"dim": 0}),
    "Tensor.unique": ("unique", 1, {"sorted": True, "dim": 0}),
    "Tensor.sum": ("sum", 2, {"keepdim": True}),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_ask_operands_that_are_no_tensors(torch: Any, name: str) -> None:
    class Wrapper:
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return "answered", [type(a).__name__ for a in args]

    apply = getattr(operator, name)
    for tensor in (torch.ones(2), torch.ones(2, dtype=torch.int64)):
        assert apply(tensor, Wrapper()) == ("answered", ["Tensor", "Wrapper"])
        assert apply(Wrapper(), tensor)[0] == "answered"
        with pytest.raises(TypeError):
            operator.add(tensor, object())


@pytest.mark.parametrize("name", ["add_", "mul_", "copy_", "pow_", "floor_divide_", "eq_"])
def test_writes_ask_the_class_of_what_is_written(torch: Any, name: str) -> None:
    log: list[str] = []

    class Logged(torch.Tensor):  # type: ignore[misc, name-defined]
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            log.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    x = torch.full((2,), 3.0)
    getattr(x, name)(torch.full((2,), 2.0).as_subclass(Logged))
    plain = getattr(torch.full((2,), 3.0), name)(torch.full((2,), 2.0))
    assert log == [name] and x.tolist() == plain.tolist()


def test_a_parameter_is_made_without_asking_its_class(torch: Any) -> None:
    class Refusing(torch.nn.Parameter):  # type: ignore[misc, name-defined]
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise TypeError("not asked")

    made = Refusing(torch.ones(2))
    with pytest.raises(TypeError, match="not asked"):
        made.sum()
