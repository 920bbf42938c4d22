"""What a tensor says of itself, how it prints, and what becomes of it in a subclass; against torch and frozen."""

from __future__ import annotations

import copy
import gc
import multiprocessing
import warnings
import weakref
from typing import Any

import numpy as np
import pytest

import adjoint

from .expressions import agree, lines
from .oracle import needs_torch, torch

# --- Metadata ---------------------------------------------------------------------------------------

METADATA = lines(
    """
    torch.ones(2, 3).stride(), torch.ones(2, 3).stride(0), torch.ones(2, 3).stride(-1), torch.ones(2, 3).stride(dim=1)
    torch.ones(2, 3).stride(2)
    torch.ones(2, 3).size(2)
    torch.ones(2, 3).size(dim=0), torch.ones(2, 3).size(-1), torch.ones(2, 3).size()
    torch.ones(()).size(0)
    torch.ones(2, 3).shape, torch.ones(()).shape, torch.ones(0, 3).shape
    torch.zeros(2, 0).stride(), torch.zeros(0, 3).stride(), torch.zeros(3, 0, 2).stride()
    torch.ones(1, 3).t().stride(), torch.ones(2, 3)[:, :1].stride(), torch.ones(3).unsqueeze(0).stride()
    torch.ones(3).unsqueeze(1).stride(), torch.ones(2, 3).unsqueeze(1).stride(), torch.ones(3).expand(2, 3).stride()
    torch.ones(2, 3).is_contiguous(memory_format=torch.channels_last)
    torch.ones(2, 3).is_contiguous(memory_format=torch.preserve_format)
    torch.zeros(1, 3, 2, 2).is_contiguous(memory_format=torch.channels_last)
    torch.zeros(1, 1, 2, 2).is_contiguous(memory_format=torch.channels_last)
    torch.empty(1, 3, 2, 2, memory_format=torch.channels_last).is_contiguous(memory_format=torch.channels_last)
    torch.ones(2, 3).t().is_contiguous(), torch.zeros(0, 3).t().is_contiguous(), torch.ones(1, 3).t().is_contiguous()
    torch.arange(6).reshape(2, 3)[:, 1:].storage_offset(), torch.arange(6)[2:][1:].storage_offset()
    torch.arange(6)[2:].data.storage_offset(), torch.arange(6)[2:].detach().storage_offset()
    torch.ones(4)[1:3].untyped_storage().nbytes()
    len(torch.ones(2, 3).untyped_storage()), torch.ones(2).untyped_storage().size()
    torch.ones(2).untyped_storage().tolist(), torch.ones(2).untyped_storage()[3], torch.ones(2).untyped_storage().device
    torch.ones(2).storage().tolist()
    torch.is_storage(torch.ones(2).untyped_storage())
    torch.ones(2, 3).dim_order(), torch.ones(2, 3).t().dim_order(), torch.ones(2, 3, 4).permute(1, 2, 0).dim_order()
    torch.ones(2, 3).is_same_size(torch.ones(3, 2)), torch.ones(2, 3).is_same_size(torch.zeros(2, 3))
    torch.ones(2).get_device(), torch.ones(2).element_size(), torch.ones(2).itemsize, torch.ones(2).nbytes
    torch.ones(2, 3).ndimension(), torch.ones(2, 3).nelement(), torch.ones(2, 3).dim(), torch.ones(2, 3).ndim
    torch.ones(2).is_pinned(), torch.ones(2).is_shared(), torch.ones(2).is_sparse, torch.ones(2).is_quantized
    torch.ones(2).is_conj(), torch.ones(2).is_neg(), torch.ones(2).is_meta, torch.ones(2).is_cuda, torch.ones(2).is_cpu
    torch.ones(2).is_mkldnn, torch.ones(2).is_nested, torch.ones(2).is_xpu, torch.ones(2).is_mps, torch.ones(2).is_xla
    torch.ones(2).is_coalesced()
    torch.ones(2).is_distributed(), torch.ones(2).is_signed(), torch.ones(2).byte().is_signed()
    torch.ones(2).is_inference(), torch.ones(2).dense_dim(), torch.ones(2).sparse_dim(), torch.ones(2).name
    torch.ones(2).is_floating_point(), torch.ones(2).is_complex(), torch.ones(2).cfloat().is_complex()
    torch.ones(2).output_nr, torch.ones(2)._version, torch.ones(2)._is_view(), torch.ones(2)._base
    torch.ones(2).to_dense()
    torch.is_tensor(1), torch.is_tensor(torch.ones(1)), torch.is_storage(1)
    torch.is_complex(2)
    torch.is_floating_point(2)
    torch.is_nonzero(torch.tensor([1.])), torch.is_nonzero(torch.tensor([0.]))
    torch.is_nonzero(torch.tensor([1., 2]))
    torch.numel(torch.ones(2, 3)), torch.ones(2, 3).numel()
    torch.numel(3)
    torch.typename(torch.ones(2)), torch.typename(3), torch.typename(torch.ones(2, dtype=torch.bool)),
    torch.typename(dict)
    torch.ones(2).type(), torch.ones(2).bool().type(), torch.ones(2).cfloat().type(),
    torch.ones(2).to(torch.uint16).type()
    torch.ones(2).type(torch.LongTensor), torch.ones(2).type('torch.LongTensor'), torch.ones(2).type(torch.int8)
    torch.ones(2).type('bogus')
    torch.ones(2).type(int)
    torch.ones(2).to(torch.float64), torch.ones(2).to('cpu', torch.int32), torch.ones(2).to(torch.ones(1).half())
    torch.ones(2).to(dtype=torch.float64, device='cpu'), torch.ones(2).to(int), torch.ones(2).to(float)
    torch.ones(2).type_as(torch.ones(1).long())
    torch.ones(2).float(), torch.ones(2).double(), torch.ones(2).half(), torch.ones(2).bfloat16(), torch.ones(2).long()
    torch.ones(2).int(), torch.ones(2).short(), torch.ones(2).char(), torch.ones(2).byte(), torch.ones(2).bool()
    torch.ones(2).cfloat(), torch.ones(2).cdouble()
    torch.ones(2).resize_(3).shape
    torch.ones(2, 3).resize_(1, 2)
    torch.ones(2, requires_grad=True).resize_(3)
    torch.arange(6.)[2:].resize_(2)
    torch.ones(2).set_(torch.arange(3.))
    torch.ones(2).set_().shape
    torch.ones(2).set_(torch.arange(6.).untyped_storage(), 1, (2, 2), (2, 1))
    torch.ones(2).set_(torch.arange(3))
    """
)


@needs_torch
@pytest.mark.parametrize("expression", METADATA)
def test_metadata_equals_torch(expression: str) -> None:
    agree(expression)


NUMBERS = lines(
    """
    torch.ones(2, 3).item()
    torch.ones(1, 1).item(), torch.tensor(True).item(), torch.tensor(3).item(), torch.tensor(1j).item()
    torch.ones(0).item()
    torch.ones(2, requires_grad=True).tolist(), torch.tensor([[1, 2], [3, 4]]).tolist(), torch.tensor(1.5).tolist()
    torch.tensor([1.5]).bfloat16().tolist(), torch.tensor([True]).tolist()
    bool(torch.ones(2))
    bool(torch.ones(0))
    bool(torch.ones(1)), bool(torch.zeros(1)), bool(torch.tensor(float('nan')))
    int(torch.tensor(2.7)), float(torch.tensor([1 + 0j])), complex(torch.tensor(1.)), float(torch.tensor(True))
    int(torch.ones(2))
    float(torch.ones(0))
    float(torch.tensor(1 + 2j))
    int(torch.tensor(float('inf')))
    torch.tensor(1.).__index__()
    [1, 2, 3][torch.tensor(1)], [1, 2, 3][torch.tensor(True)], range(torch.tensor([2]))
    len(torch.tensor(1.))
    len(torch.ones(3, 2)), len(torch.ones(0))
    list(torch.tensor(1.))
    list(torch.ones(2, 1))
    list(reversed(torch.arange(3)))
    reversed(torch.arange(3))
    1 in torch.ones(2), 2 in torch.ones(2), torch.tensor(1.) in torch.ones(2)
    'a' in torch.ones(2)
    f"{torch.tensor(1.5):.3f}", f"{torch.tensor(1.5)}", f"{torch.tensor([1.5])}", f"{torch.tensor(3):d}"
    f"{torch.ones(2):.3f}"
    torch.ones(2).bogus
    setattr(torch.ones(2), 'shape', (1,))
    setattr(torch.ones(2), 'anything', 1)
    """
)


@needs_torch
@pytest.mark.parametrize("expression", NUMBERS)
def test_numbers_and_protocols_equal_torch(expression: str) -> None:
    agree(expression)


def test_metadata_frozen() -> None:
    x = adjoint.arange(6.0).reshape(2, 3)
    assert x[:, 1:].stride() == (3, 1) and x[:, 1:].storage_offset() == 1
    assert x.t().untyped_storage().data_ptr() == x.data_ptr() and x.t().untyped_storage() == x.untyped_storage()
    assert x.is_set_to(x.view(2, 3)) and not x.is_set_to(x.view(3, 2))
    with pytest.raises(IndexError, match=r"Dimension out of range \(expected to be in range of \[-2, 1\], but got 2\)"):
        x.size(2)
    with pytest.raises(RuntimeError, match="a Tensor with 6 elements cannot be converted to Scalar"):
        x.item()
    with pytest.raises(RuntimeError, match="Boolean value of Tensor with more than one value is ambiguous"):
        bool(x)
    assert {x: 1}[x] == 1 and x.layout is adjoint.strided


def test_storage_of_a_tensor_can_be_written() -> None:
    x = adjoint.zeros(2, dtype=adjoint.uint8)
    storage = x.untyped_storage()
    storage[0] = 7
    storage.copy_(storage.clone().fill_(3))
    assert x.tolist() == [3, 3]
    typed = adjoint.ones(2)._typed_storage()
    assert (typed.size(), len(typed), typed.element_size(), typed[1], typed.dtype) == (2, 2, 4, 1.0, adjoint.float32)


# --- Grad and friends -------------------------------------------------------------------------------

GRADS = lines(
    """
    setattr(torch.ones(2), 'grad', 1)
    setattr(torch.ones(2), 'grad', torch.ones(3))
    setattr(torch.ones(2), 'grad', torch.ones(2).double())
    setattr(torch.ones(2), 'grad', torch.ones(2))
    setattr(torch.ones(2), 'requires_grad', 1)
    setattr(torch.ones(2), 'requires_grad', True)
    setattr(torch.ones(2).long(), 'requires_grad', True)
    torch.ones(2).requires_grad_(1)
    torch.ones(2).requires_grad_('a')
    torch.ones(2).long().requires_grad_()
    torch.ones(2).long().requires_grad_(False)
    torch.ones(2).requires_grad_().requires_grad
    (torch.ones(2, requires_grad=True) * 2).requires_grad_(False)
    setattr(torch.ones(2, requires_grad=True) * 2, 'requires_grad', False)
    (torch.ones(2, requires_grad=True) * 2).requires_grad_(True)
    torch.ones(2).retain_grad()
    torch.ones(2, requires_grad=True).retain_grad()
    torch.ones(2).register_hook(lambda g: g)
    (torch.ones(2, requires_grad=True) * 2).register_post_accumulate_grad_hook(lambda g: g)
    torch.ones(2).register_post_accumulate_grad_hook(lambda g: g)
    setattr(torch.ones(2), 'data', 3)
    setattr(torch.ones(2, requires_grad=True), 'data', torch.ones(2).long())
    setattr(torch.ones(2, requires_grad=True), 'data', torch.ones(3))
    (torch.ones(2, requires_grad=True) * 2).view(2).detach_()
    (torch.ones(2, requires_grad=True) * 2).detach_()
    torch.ones(2).grad, torch.ones(2, requires_grad=True).grad
    (torch.ones(2, requires_grad=True) * 2).grad
    torch.ones(2).grad_dtype
    (torch.ones(2, requires_grad=True) * 2).grad_dtype
    torch.ones(2, requires_grad=True).is_leaf, (torch.ones(2, requires_grad=True) * 2).is_leaf, torch.ones(2).is_leaf
    torch.ones(2, requires_grad=True).retains_grad
    (torch.ones(2, requires_grad=True) * 2).detach().requires_grad, torch.ones(2, requires_grad=True).data.requires_grad
    """
)


@needs_torch
@pytest.mark.parametrize("expression", GRADS)
def test_grad_properties_equal_torch(expression: str) -> None:
    agree(expression)


def test_a_tensor_is_not_its_own_gradient() -> None:
    x = adjoint.ones(2)
    with pytest.raises(RuntimeError, match="can't assign Variable as its own grad"):
        x.grad = x
    x.grad = adjoint.zeros(2)
    del x.grad
    assert x.grad is None


def test_the_grad_of_a_non_leaf_warns_once_per_line() -> None:
    y = adjoint.ones(2, requires_grad=True) * 2
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            y.grad
        y.grad
    assert len(caught) == 2 and all(w.filename == __file__ for w in caught)
    assert "not a leaf Tensor is being accessed" in str(caught[0].message)
    y.retain_grad()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert y.grad is None


def test_hooks_survive_a_leaf_that_rests() -> None:
    x = adjoint.ones(2, requires_grad=True)
    seen: list[Any] = []
    x.register_hook(seen.append)
    x.requires_grad_(False)
    x.requires_grad_(True)
    (x * 2).sum().backward()
    assert [g.tolist() for g in seen] == [[2, 2]] and x.grad.tolist() == [2, 2]


# --- Text -------------------------------------------------------------------------------------------

TEXTS = lines(
    """
    torch.tensor(1.5), torch.tensor(3), torch.tensor(True), torch.tensor(1j), torch.tensor([]), torch.zeros(0, 3)
    torch.tensor([1.5, -2, 3e10]), torch.tensor([1, -2]), torch.tensor([True, False]), torch.tensor([1 + 2j, -3.5j])
    torch.tensor([1e-5, 1.]), torch.tensor([float('nan'), float('inf'), 1.]), torch.tensor([0.1, 0.123456789])
    torch.arange(2000), torch.arange(2000.).reshape(40, 50), torch.zeros(20, 20, 20)
    torch.ones(2, dtype=torch.float64), torch.ones(2, dtype=torch.float16), torch.ones(2, dtype=torch.bfloat16)
    torch.ones(2, dtype=torch.int32), torch.ones(2, dtype=torch.uint8), torch.ones(2, dtype=torch.complex128)
    torch.ones(2, requires_grad=True)
    torch.ones(2, requires_grad=True) * 2
    torch.ones(2, requires_grad=True).sum(), torch.ones(2, 2, requires_grad=True).t()
    torch.ones(2, requires_grad=True).unbind()
    torch.ones(2, 2, requires_grad=True).max(0)[0]
    torch.ones(2, 2, requires_grad=True).split(1)
    (torch.ones(2, requires_grad=True) * 2).add_(1)
    (torch.ones(2, requires_grad=True) * 2).detach()
    torch.ones(2, requires_grad=True).double(), torch.ones(2, requires_grad=True).clone()
    torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2), requires_grad=False), torch.nn.Parameter()
    torch.nn.Parameter(torch.arange(2000.)), [torch.nn.Parameter(torch.ones(1))]
    torch.nn.Buffer(torch.ones(2))
    torch.nn.UninitializedParameter(), torch.nn.UninitializedBuffer()
    torch.ones(2).shape, torch.float32, torch.device('cpu'), torch.strided
    """
)


@needs_torch
@pytest.mark.parametrize("expression", TEXTS)
def test_text_equals_torch(expression: str) -> None:
    agree(expression)


def _texts(module: Any) -> list[str]:
    class Square(module.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    class Mine(module.Tensor):  # type: ignore[misc, name-defined]
        pass

    class Special(module.nn.Parameter):  # type: ignore[misc, name-defined]
        pass

    x = module.ones(2, requires_grad=True)
    base = x * 1
    view = base[:1]
    view.mul_(5)
    with module.no_grad():
        odd = base.view(2)
        odd.mul_(2)
    with module.inference_mode():
        inference = [module.ones(2), module.ones(2) * 2, x.view(2)]
    return [
        repr(Square.apply(x)), repr(base), repr(inference[:2]), repr(Mine([1.0, 2.0])),
        repr(x.as_subclass(Mine)), repr(Mine([1.0]) + 1), repr(module.nn.Parameter(Mine([1.0]))),
        repr(Special(module.ones(1))),
        repr(module.zeros(2000).as_subclass(Mine)), repr(module.ones(2, 2).as_subclass(Mine)),
        str(x), f"{x}", repr({"a": x}),
    ]  # fmt: skip


@needs_torch
def test_text_of_special_tensors_equals_torch() -> None:
    for mine, theirs in zip(_texts(adjoint), _texts(torch), strict=True):
        assert mine == theirs.replace("torch.", "adjoint.")


def test_text_frozen() -> None:
    x = adjoint.ones(2, requires_grad=True)
    assert repr(x) == "tensor([1., 1.], requires_grad=True)"
    assert repr(x * 2) == "tensor([2., 2.], grad_fn=<MulBackward0>)"
    assert repr(x.double()) == "tensor([1., 1.], dtype=adjoint.float64, grad_fn=<ToCopyBackward0>)"
    assert repr(adjoint.zeros(0, 3)) == "tensor([], size=(0, 3))"
    assert repr(adjoint.nn.Parameter(x)) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"


# --- Subclasses -------------------------------------------------------------------------------------


class Mine(adjoint.Tensor):
    """A subclass that says nothing."""


class Other(adjoint.Tensor):
    """Another, unrelated one."""


class Deeper(Mine):
    """A subclass of a subclass."""


def test_results_keep_the_subclass() -> None:
    s, plain = adjoint.ones(2, 2).as_subclass(Mine), adjoint.ones(2, 2)
    kept = [
        s + 1, 1 + s, s * s, plain + s, s + plain, plain.add(s), plain.matmul(s), s[0], s[0, 0], s.t(), s.sum(),
        s.clone(),
        s.detach(), s.data, s == 1, s.new_zeros(2), s.to(adjoint.float64), s.long(), s.reshape(4), s.max(), s.argmax(),
        s.view(-1), s.T, adjoint.sin(s), adjoint.zeros_like(s), adjoint.cat([plain, s]), adjoint.stack((s, s)),
        adjoint.where(s > 0, s, plain), adjoint.rand_like(s), np.sin(s), np.ones((2, 2)) * s, s.unbind()[0],
        s.max(0).values,
        next(iter(s)), s.split(1)[1], adjoint.einsum("ij->i", s), -s, abs(s), s @ plain, s.softmax(0),
    ]  # fmt: skip
    assert [type(x).__name__ for x in kept] == ["Mine"] * len(kept)
    for other in (s.numpy(), s.shape, s.dtype, s.tolist(), s.numel(), s.is_leaf, repr(s)):
        assert not isinstance(other, adjoint.Tensor)
    deeper = adjoint.ones(2, 2).as_subclass(Deeper)
    assert type(s + deeper) is type(deeper + s) is Deeper and type(deeper.sum()) is Deeper
    with pytest.raises(TypeError):
        s + adjoint.ones(2, 2).as_subclass(Other)
    assert s.add_(1) is s and type(s) is Mine


def test_gradients_flow_through_subclasses() -> None:
    leaf = adjoint.ones(2, requires_grad=True)
    s = leaf.as_subclass(Mine)
    ((s * 3).sin() * s).sum().backward()
    expected = 3 * np.cos(3.0) + np.sin(3.0)
    np.testing.assert_allclose(leaf.grad.numpy(), [expected] * 2, rtol=1e-6)
    assert type(leaf.grad) is adjoint.Tensor
    own = adjoint.Tensor._make_subclass(Mine, adjoint.ones(2), True)
    assert own.requires_grad and own.is_leaf and type(own) is Mine
    (own * own).sum().backward()
    assert own.grad.tolist() == [2, 2] and type(own.grad) is adjoint.Tensor
    (g,) = adjoint.autograd.grad((own**3).sum(), own, create_graph=True)
    (h,) = adjoint.autograd.grad(g.sum(), own)
    assert h.tolist() == [6, 6]


def test_a_subclass_shares_memory_with_its_source() -> None:
    x = adjoint.zeros(2)
    for s in (x.as_subclass(Mine), Mine(x), adjoint.Tensor._make_subclass(Mine, x)):
        s.add_(1)
    assert x.tolist() == [3, 3]
    assert type(Mine([1, 2])) is Mine and Mine(2, 3).shape == (2, 3) and Mine([1, 2]).dtype is adjoint.float32


def test_constructors_of_subclasses_are_theirs() -> None:
    class Named(adjoint.Tensor):
        def __new__(cls, data: Any, name: str) -> Any:
            return adjoint.Tensor._make_subclass(cls, adjoint.as_tensor(data))

        def __init__(self, data: Any, name: str) -> None:
            super().__init__()
            self.label = name

    x = Named([1.0, 2.0], "n")
    assert x.label == "n" and type(x * 2) is Named and not hasattr(x * 2, "label")


class Logging(adjoint.Tensor):
    """A subclass that hears of every function."""

    heard: list[str] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.heard.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs)


def heard(call: Any) -> list[str]:
    Logging.heard.clear()
    call(adjoint.ones(2, 2).as_subclass(Logging))
    return list(Logging.heard)


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda x: x + 1, ["add"]), (lambda x: 1 + x, ["add"]), (lambda x: adjoint.ones(2, 2) + x, ["add"]),
        (lambda x: adjoint.add(x, 1), ["add"]), (lambda x: x.shape, ["__get__"]), (lambda x: x.sum(), ["sum"]),
        (lambda x: adjoint.ones(2, 2).add(x), ["add"]), (lambda x: adjoint.cat([x, x]), ["cat"]),
        (lambda x: x[0], ["__getitem__"]), (lambda x: x.__setitem__(0, 1), ["__setitem__"]),
        (lambda x: x.add_(1), ["add_"]),
        (repr, ["__repr__"]), (lambda x: x.exp(), ["exp"]), (lambda x: adjoint.exp(x), ["exp"]),
        (lambda x: x.requires_grad_(), ["requires_grad_"]), (lambda x: x.grad, ["__get__"]), (len, ["__len__"]),
        (lambda x: bool(x.sum()), ["sum", "__bool__"]), (lambda x: adjoint.zeros_like(x), ["zeros_like"]),
        (lambda x: adjoint.is_tensor(x), []), (lambda x: adjoint.numel(x), ["numel"]),
        (lambda x: x.softmax(0), ["softmax"]),
        (lambda x: adjoint.where(x > 0, x, x), ["gt", "where"]),
        (lambda x: adjoint.stack((adjoint.ones(2, 2), x)), ["stack"]),
        (lambda x: adjoint.max(x, dim=0), ["max"]), (lambda x: x.numpy(), ["numpy"]), (lambda x: x @ x, ["matmul"]),
        (lambda x: setattr(x, "grad", None), ["__set__"]), (lambda x: adjoint.allclose(x, x), ["allclose"]),
    ],
)  # fmt: skip
def test_an_overridden_handler_hears_of_functions_and_methods(call: Any, names: list[str]) -> None:
    assert heard(call) == names


def test_handlers_see_public_functions_and_may_answer() -> None:
    handled: dict[Any, Any] = {adjoint.mean: lambda x: "my mean", adjoint.Tensor.add: lambda x, y: "my add"}

    class Answering(adjoint.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func not in handled:
                return NotImplemented
            return handled[func](*args, **(kwargs or {}))

    handled[adjoint.sum] = lambda x: "my sum"
    x = adjoint.ones(2).as_subclass(Answering)
    assert adjoint.mean(x) == "my mean" and adjoint.sum(x) == "my sum" and x + 1 == "my add" and x.add(1) == "my add"
    with pytest.raises(TypeError, match="Multiple dispatch failed"):
        adjoint.exp(x)
    assert adjoint.mean(adjoint.ones(2)).item() == 1


def test_a_handler_may_switch_itself_off() -> None:
    class Unwrapping(adjoint.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            with adjoint._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))

    class Silent(adjoint.Tensor):
        __torch_function__ = adjoint._C._disabled_torch_function_impl

    for kind in (Unwrapping, Silent):
        x = adjoint.ones(2).as_subclass(kind)
        assert type(x + 1) is type(adjoint.exp(x)) is type(x.sum()) is adjoint.Tensor


def test_overrides_module() -> None:
    x, plain = adjoint.ones(2).as_subclass(Logging), adjoint.ones(2)
    assert adjoint.overrides.has_torch_function((plain, x)) and not adjoint.overrides.has_torch_function((plain,))
    assert adjoint.overrides.is_tensor_like(x) and not adjoint.overrides.is_tensor_like(3)
    assert adjoint.overrides.is_tensor_method_or_property(adjoint.Tensor.add)
    assert adjoint.overrides.resolve_name(adjoint.Tensor.add) == "adjoint.Tensor.add"

    @adjoint.overrides.wrap_torch_function(lambda a: (a,))
    def mine(a: Any) -> Any:
        return a.sum()

    Logging.heard.clear()
    assert mine(x).item() == 2 and "mine" in Logging.heard
    assert mine(plain).item() == 2


def test_functions_pickle_and_stay_equal_after_a_subclass_was_defined() -> None:
    assert adjoint.sin.__name__ == "sin" and adjoint.sin.__doc__
    assert {adjoint.sin: 1}[adjoint.sin] == 1
    assert adjoint.sin(adjoint.zeros(1)).item() == 0


# --- Parameters -------------------------------------------------------------------------------------


def test_parameters() -> None:
    data = adjoint.ones(2)
    p = adjoint.nn.Parameter(data)
    assert p.requires_grad and p.is_leaf and p.data_ptr() == data.data_ptr()
    assert (
        isinstance(p, adjoint.nn.Parameter)
        and isinstance(p, adjoint.Tensor)
        and not isinstance(data, adjoint.nn.Parameter)
    )
    for x in (p * 2, p.data, p.detach(), p.clone(), p[0], adjoint.cat([p, p]), p.sum(), -p, 1 / p):
        assert type(x) is adjoint.Tensor
    assert not adjoint.nn.Parameter(data, requires_grad=False).requires_grad
    assert adjoint.nn.Parameter().shape == (0,)
    assert adjoint.nn.Parameter(p * 2).is_leaf and type(adjoint.nn.Parameter(p)) is adjoint.nn.Parameter
    with pytest.raises(AttributeError, match="made from a Tensor"):
        adjoint.nn.Parameter([1.0])
    with pytest.raises(RuntimeError, match="floating point"):
        adjoint.nn.Parameter(adjoint.ones(2).long())
    own = adjoint.nn.Parameter(data.as_subclass(Mine))
    assert isinstance(own, adjoint.nn.Parameter) and type(own) is Mine and own.requires_grad


def test_buffers() -> None:
    b = adjoint.nn.Buffer(adjoint.ones(2), persistent=False)
    assert isinstance(b, adjoint.nn.Buffer) and not b.requires_grad and not b.persistent
    assert not isinstance(adjoint.ones(2), adjoint.nn.Buffer)


def test_uninitialized_parameters_wait_for_their_shape() -> None:
    p = adjoint.nn.UninitializedParameter(dtype=adjoint.float64)
    assert adjoint.nn.parameter.is_lazy(p) and p.requires_grad and p.dtype is adjoint.float64 and p.device.type == "cpu"
    assert isinstance(p, adjoint.nn.Parameter)
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized parameter"):
        p.shape
    for use in (lambda: p + 1, lambda: adjoint.sin(p), lambda: adjoint.ones(2) * p, lambda: p.sum()):
        with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter"):
            use()
    p.materialize((2, 3))
    assert type(p) is adjoint.nn.Parameter and p.shape == (2, 3) and p.dtype is adjoint.float64 and not p.__dict__
    p.data.fill_(2)
    (p * p).sum().backward()
    assert p.grad.tolist() == [[4, 4, 4], [4, 4, 4]]
    b = adjoint.nn.UninitializedBuffer()
    b.materialize((2,))
    assert type(b) is adjoint.Tensor and b.shape == (2,) and isinstance(b, adjoint.nn.Buffer)


# --- Lifetime ---------------------------------------------------------------------------------------


def test_nothing_here_makes_cycles() -> None:
    gc.collect()
    gc.disable()
    try:
        made = [
            adjoint.ones(2, requires_grad=True), adjoint.nn.Parameter(adjoint.ones(2)),
            adjoint.ones(2).as_subclass(Mine) + 1,
            copy.deepcopy(adjoint.ones(2, requires_grad=True)), adjoint.from_numpy(np.ones(2)),
            adjoint.from_dlpack(np.ones(2)), np.sin(adjoint.ones(2, requires_grad=True)),
        ]  # fmt: skip
        refs = [weakref.ref(x) for x in made]
        del made
        assert [r() for r in refs] == [None] * len(refs)
    finally:
        gc.enable()


def test_shared_memory_is_seen_by_a_forked_process() -> None:
    x = adjoint.zeros(2, 2).share_memory_()
    process = multiprocessing.get_context("fork").Process(target=x[0].fill_, args=(5.0,))
    process.start()
    process.join()
    assert x.tolist() == [[5.0, 5.0], [0.0, 0.0]]
    assert x.is_shared() and x[1].untyped_storage().is_shared() and not adjoint.zeros(1).is_shared()


def test_a_subclass_cannot_redefine_a_slot() -> None:
    with pytest.warns(UserWarning, match="Image.array is left out: `array` is an attribute of every tensor of adjoint"):

        class Image(adjoint.Tensor):
            @property
            def array(self) -> Any:
                return self.numpy()

    class Numbered:
        node = 3

    with pytest.warns(UserWarning, match=r"Graph.node is left out: .* where its gradient goes"):

        class Graph(Numbered, adjoint.Tensor):
            pass

    x = adjoint.ones(2, requires_grad=True)
    (x.as_subclass(Graph) * 2).sum().backward()
    assert x.grad is not None
    image = adjoint.ones(2).as_subclass(Image)
    assert isinstance(image.array, np.ndarray) and (image * 2).array.tolist() == [2.0, 2.0]
