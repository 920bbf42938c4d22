"""Factories: values, dtypes, strides, refusals and random numbers, against torch and frozen."""

from __future__ import annotations

import array
import pickle
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint

from .expressions import agree, evaluate, lines
from .oracle import needs_torch, torch

# --- From values ------------------------------------------------------------------------------------

VALUES = lines(
    """
    torch.tensor(np.float64(1.))
    torch.tensor([np.float64(1.)])
    torch.tensor([np.float32(1.), np.float64(1)])
    torch.tensor([np.int32(1)])
    torch.tensor([np.float16(1.), 1.0])
    torch.tensor([torch.tensor(1), torch.tensor(2.)])
    torch.tensor([torch.tensor(1, dtype=torch.int8), 2])
    torch.tensor([[torch.tensor(1.5), 2], [3, 4]])
    torch.tensor([np.array([1., 2.]), np.array([1., 2.])])
    torch.tensor([[1, 2], [3]])
    torch.tensor([[1, 2], 3])
    torch.tensor([1, [2]])
    torch.tensor([[[1], [2]], [[3], [4, 5]]])
    torch.tensor(['a'])
    torch.tensor('a')
    torch.tensor(b'abc')
    torch.tensor(None)
    torch.tensor([None])
    torch.tensor([None], dtype=torch.float32)
    torch.tensor({})
    torch.tensor({1, 2})
    torch.tensor(object())
    torch.tensor(iter([1]))
    torch.tensor(range(3))
    torch.tensor(2**63)
    torch.tensor([2**63])
    torch.tensor([2**64])
    torch.tensor(-2**63)
    torch.tensor([10**30])
    torch.tensor([10**30], dtype=torch.float32)
    torch.tensor([float('nan')], dtype=torch.int64)
    torch.tensor(float('nan'), dtype=torch.int64)
    torch.tensor([float('inf')], dtype=torch.int64)
    torch.tensor([1.7, -1.7], dtype=torch.int64)
    torch.tensor([1e300])
    torch.tensor(1e300)
    torch.tensor([300], dtype=torch.uint8)
    torch.tensor(300, dtype=torch.uint8)
    torch.tensor([-1], dtype=torch.uint8)
    torch.tensor(-1, dtype=torch.uint8)
    torch.tensor([-300], dtype=torch.uint8)
    torch.tensor([200], dtype=torch.int8)
    torch.tensor([1.5, 0.0], dtype=torch.bool)
    torch.tensor([1 + 2j], dtype=torch.float32)
    torch.tensor(1 + 2j, dtype=torch.float32)
    torch.tensor([1, 2.5, True])
    torch.tensor([True, 1])
    torch.tensor([True, False])
    torch.tensor([1, 2j])
    torch.tensor([])
    torch.tensor([[]])
    torch.tensor([[], []])
    torch.tensor(())
    torch.tensor([[[]]], dtype=torch.int32)
    torch.tensor(True)
    torch.tensor(3)
    torch.tensor(3.5)
    torch.tensor(3j)
    torch.tensor(torch.ones(2))
    torch.tensor(torch.ones(2, requires_grad=True))
    torch.tensor(np.ones(2))
    torch.tensor(np.array(['a']))
    torch.tensor(np.array([1, 2], dtype=object))
    torch.tensor(np.array([1, 2], dtype='>i4'))
    torch.tensor(np.ones(3)[::-1])
    torch.tensor(np.ones(2, dtype=np.float16))
    torch.tensor(np.float16(1))
    torch.tensor(np.bool_(True))
    torch.tensor(np.int8(1))
    torch.tensor([1, 2], requires_grad=True)
    torch.tensor([1., 2], requires_grad=True)
    torch.tensor([1., 2], requires_grad=1)
    torch.tensor([1., 2], device='bogus')
    torch.tensor()
    torch.tensor([1], [2])
    torch.tensor([1], bogus=2)
    torch.tensor(data=[1, 2])
    torch.tensor([1, 'a'])
    torch.tensor([[1, 'a']])
    torch.tensor([1., None])
    torch.tensor([{}])
    torch.scalar_tensor(3)
    torch.scalar_tensor(3, dtype=torch.int64)
    torch.scalar_tensor(True)
    torch.scalar_tensor(1j)
    torch.as_tensor([1, 2], dtype=torch.float32)
    torch.as_tensor(np.ones(2))
    torch.as_tensor(np.ones(2), dtype=torch.float32)
    torch.as_tensor(bytearray([1, 2]))
    torch.as_tensor(3)
    torch.asarray([1, 2])
    torch.asarray(3.)
    torch.asarray(np.ones(2), dtype=torch.float32)
    torch.asarray(np.float32(2))
    torch.asarray([1], copy=False)
    torch.asarray(torch.ones(2), copy=False, dtype=torch.float64)
    torch.asarray(bytearray(8), dtype=torch.int16)
    torch.asarray(torch.ones(2), requires_grad=True)
    torch.asarray(torch.ones(2, requires_grad=True))
    torch.from_numpy(np.ones(2, dtype='>f4'))
    torch.from_numpy([1])
    torch.from_numpy(np.array(['a']))
    torch.from_numpy(np.array(1.))
    torch.from_numpy(np.ones((2, 3))[:, ::2]).stride()
    torch.from_numpy(np.ones(3)[::-1])
    torch.from_numpy(np.zeros(5, dtype='i1,f8')['f1'])
    torch.frombuffer(bytearray(range(8)), dtype=torch.int16)
    torch.frombuffer(bytearray(range(8)), dtype=torch.int16, count=2)
    torch.frombuffer(bytearray(range(8)), dtype=torch.int16, offset=2)
    torch.frombuffer(bytearray(8), dtype=torch.int16, offset=1)
    torch.frombuffer(bytearray(8), dtype=torch.int16, offset=8)
    torch.frombuffer(bytearray(8), dtype=torch.int16, offset=-1)
    torch.frombuffer(bytearray(8), dtype=torch.int16, count=5)
    torch.frombuffer(bytearray(8), dtype=torch.int16, count=0)
    torch.frombuffer(bytearray(), dtype=torch.int16)
    torch.frombuffer(bytearray(3), dtype=torch.int16)
    torch.frombuffer([1], dtype=torch.int16)
    torch.frombuffer(bytearray(8))
    torch.frombuffer(bytearray(8), dtype=torch.float32, requires_grad=True)
    torch.complex(torch.tensor(1.), torch.tensor(2.))
    torch.polar(torch.tensor(1.), torch.tensor(2.))
    """
)


@needs_torch
@pytest.mark.parametrize("expression", VALUES)
def test_from_values_equals_torch(expression: str) -> None:
    agree(expression)


nested = st.recursive(
    st.one_of(st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.complex_numbers()),
    lambda inner: st.lists(inner, min_size=1, max_size=3),
    max_leaves=8,
)


@needs_torch
@settings(max_examples=300)
@given(nested)
def test_nested_lists_equal_torch(data: Any) -> None:
    mine, theirs = (evaluate("torch.tensor(data)", module, {"data": data}) for module in (adjoint, torch))
    # Where more than one thing is wrong, each may name another.
    assert mine == theirs or (mine.text.startswith("raised") and theirs.text.startswith("raised")), (mine, theirs)


def test_values_frozen() -> None:
    t = adjoint
    assert t.tensor([1, 2.5]).tolist() == [1.0, 2.5] and t.tensor([1, 2.5]).dtype is t.float32
    assert t.tensor([True, 2]).dtype is t.int64 and t.tensor(1j).dtype is t.complex64
    assert t.tensor([[1, 2], [3, 4]]).shape == (2, 2)
    with pytest.raises(ValueError, match="expected sequence of length 2 at dim 1"):
        t.tensor([[1, 2], [3]])
    with pytest.raises(RuntimeError, match="Could not infer dtype of NoneType"):
        t.tensor([None])


def test_tensor_copies_and_the_others_share() -> None:
    a = np.zeros(3)
    copied, shared, also, too = adjoint.tensor(a), adjoint.from_numpy(a), adjoint.as_tensor(a), adjoint.asarray(a)
    a[0] = 5
    assert copied.tolist() == [0, 0, 0]
    assert shared.tolist() == also.tolist() == too.tolist() == [5, 0, 0]
    shared.add_(1)
    assert a.tolist() == [6, 1, 1]
    x = adjoint.ones(2)
    assert adjoint.as_tensor(x) is x and adjoint.asarray(x) is x
    assert adjoint.asarray(x, copy=True).data_ptr() != x.data_ptr()
    buffer = array.array("f", [1, 2])
    adjoint.frombuffer(buffer, dtype=adjoint.float32).mul_(3)
    assert buffer.tolist() == [3, 6]


def test_read_only_memory_refuses_writes() -> None:
    a = np.ones(3)
    a.flags.writeable = False
    for t in (adjoint.from_numpy(a), adjoint.frombuffer(b"12345678", dtype=adjoint.float64)):
        assert (t + 1).shape == t.shape
        with pytest.raises(RuntimeError, match="read-only"):
            t.add_(1)


# --- Filled, ranges ---------------------------------------------------------------------------------

FILLED = lines(
    """
    torch.zeros(2, out=torch.empty(3))
    torch.zeros(2, out=torch.empty(0), dtype=torch.int64)
    torch.zeros(2, out=torch.empty(0, dtype=torch.int64))
    torch.zeros((2,), dtype=float)
    torch.zeros(size=(2,))
    torch.zeros([2])
    torch.zeros(torch.tensor(2))
    torch.zeros(2, 0, 3)
    torch.zeros(2., 3)
    torch.zeros(-1)
    torch.zeros('a')
    torch.zeros()
    torch.zeros(())
    torch.zeros(2, requires_grad=True)
    torch.zeros(2, dtype=torch.int32, requires_grad=True)
    torch.zeros(2**40, 2**40)
    torch.ones(2, 3, dtype=torch.complex64)
    torch.ones(2, dtype=torch.bool)
    torch.ones(2, dtype=torch.bfloat16)
    torch.empty(2, 3).shape
    torch.empty(2, 3, 4, 5, memory_format=torch.channels_last).stride()
    torch.empty(2, 3, memory_format=torch.channels_last)
    torch.empty(2, 3, memory_format=torch.preserve_format)
    torch.empty(2, 3, 4, 5, 6, memory_format=torch.channels_last_3d).stride()
    torch.empty_strided((2, 3), (1, 2)).stride()
    torch.empty_strided((2, 3), (1,))
    torch.empty_strided((2, 3), (-1, 1))
    torch.empty_strided((2, 3), (0, 0)).stride()
    torch.empty_strided((2, 3), (10, 1)).untyped_storage().nbytes()
    torch.empty_permuted((2, 3, 4), (0, 2, 1)).stride()
    torch.empty_permuted((2, 3), (0, 0))
    torch.full((2,), 3)
    torch.full((2,), 3.)
    torch.full((2,), True)
    torch.full((2,), 1j)
    torch.full((2,), torch.tensor(3))
    torch.full((2,), torch.tensor([3., 4]))
    torch.full((2,), 3.7, dtype=torch.int64)
    torch.full((2,), 300, dtype=torch.uint8)
    torch.full((2,), 'a')
    torch.full(2, 3)
    torch.full((2,), 1e300)
    torch.full((2,), float('inf'))
    torch.full((2,), float('nan'), dtype=torch.int32)
    torch.full(size=(2,), fill_value=1.5)
    torch.full_like(torch.ones(2, 2), 3)
    torch.full_like(torch.ones(2).long(), 3.7)
    torch.full_like(torch.ones(2), 2, dtype=torch.int64)
    torch.zeros_like(torch.ones(2, 3).t()).stride()
    torch.zeros_like(torch.ones(2, 3).t(), memory_format=torch.contiguous_format).stride()
    torch.zeros_like(torch.ones(2, 4)[:, ::2]).stride()
    torch.zeros_like(torch.ones(3).expand(2, 3)).stride()
    torch.zeros_like(torch.ones(3, 4, 5).permute(2, 0, 1)).stride()
    torch.zeros_like(torch.ones(3, 4, 5).permute(2, 0, 1)[:, ::2]).stride()
    torch.ones_like(torch.ones(2, dtype=torch.int8))
    torch.ones_like(torch.ones(2), dtype=torch.int8, requires_grad=True)
    torch.empty_like(torch.ones(2, 3, 4, 5), memory_format=torch.channels_last).stride()
    torch.zeros_like(3)
    torch.rand_like(torch.ones(3, 4).t()).stride()
    torch.ones(2).new_zeros(2, 3)
    torch.ones(2).new_zeros((2, 3), dtype=torch.int8)
    torch.ones(2).new_zeros(size=(2,))
    torch.ones(2).double().new_ones(2)
    torch.ones(2).new_full((2,), 3)
    torch.ones(2).long().new_full((2,), 3.5)
    torch.ones(2).new_empty(2).shape
    torch.ones(2).new_empty_strided((2, 3), (1, 2)).stride()
    torch.ones(2).new_tensor([1, 2])
    torch.ones(2).new_tensor(torch.ones(2))
    torch.ones(2).long().new_tensor([1.5])
    torch.ones(2).new_tensor(3, dtype=torch.int8)
    torch.ones(2).new_tensor([1, 2], requires_grad=True)
    torch.ones(2).new(2).shape
    torch.ones(2).new([1, 2])
    torch.ones(2).new().shape
    torch.ones(2).long().new([1, 2])
    torch.arange(5)
    torch.arange(1, 5, 2)
    torch.arange(1., 5)
    torch.arange(5, dtype=torch.float16)
    torch.arange(0, 1, 0.3)
    torch.arange(0, -1)
    torch.arange(0, 1, 0)
    torch.arange(float('nan'))
    torch.arange(0, float('inf'))
    torch.arange(0.5, 3, dtype=torch.int64)
    torch.arange(0.5, 3.6, 1.2, dtype=torch.int64)
    torch.arange(0.5, 3.6, 1, dtype=torch.int32)
    torch.arange(torch.tensor(3))
    torch.arange(torch.tensor(3.))
    torch.arange(end=3)
    torch.arange(start=1, end=3)
    torch.arange(1, end=3)
    torch.arange(3, step=2)
    torch.arange(1, 3, step=2)
    torch.arange(True)
    torch.arange(5, dtype=torch.bool)
    torch.arange(3, dtype=torch.complex64)
    torch.arange(3j)
    torch.arange(5, out=torch.empty(2))
    torch.arange(5, out=torch.empty(5, dtype=torch.int32))
    torch.arange(2**62, 2**62 + 3)
    torch.arange(5, 0, -2)
    torch.arange(0)
    torch.arange(300, dtype=torch.uint8)[-3:]
    torch.arange('a')
    torch.arange()
    torch.arange(3, requires_grad=True)
    torch.arange(3., requires_grad=True)
    torch.linspace(0, 1, 5)
    torch.linspace(0, 1, 1)
    torch.linspace(0, 1, 0)
    torch.linspace(0, 1, -1)
    torch.linspace(0, 10, 4, dtype=torch.int64)
    torch.linspace(-3, 10, 7, dtype=torch.int32)
    torch.linspace(0, 1j, 3)
    torch.linspace(torch.tensor(0.), torch.tensor(1.), 3)
    torch.linspace(torch.tensor([0., 1]), 1, 3)
    torch.linspace(0, 1)
    torch.linspace(0, 1, 2.5)
    torch.linspace(start=0, end=1, steps=3)
    torch.linspace(0, 1, 3, dtype=torch.bool)
    torch.linspace(0, 1, 3, out=torch.empty(0))
    torch.logspace(0, 2, 3)
    torch.logspace(0, 2, 3, base=2)
    torch.logspace(0, 2, 3, 2)
    torch.logspace(0, 2, 3, dtype=torch.int64)
    torch.logspace(-1, 1, 5)
    torch.logspace(0, 1, 1)
    torch.logspace(0, 1j, 3)
    torch.eye(2)
    torch.eye(2, 3)
    torch.eye(-1)
    torch.eye(2, -1)
    torch.eye(2, dtype=torch.bool)
    torch.eye(2.)
    torch.eye(2, out=torch.empty(0))
    torch.range(0, 2)
    torch.Tensor(2, 3).shape
    torch.Tensor([1, 2])
    torch.Tensor()
    torch.Tensor(3.5)
    torch.Tensor(np.array([1, 2]))
    torch.Tensor(torch.tensor([1, 2]))
    torch.Tensor('a')
    torch.Tensor(None)
    torch.Tensor(2, 3, dtype=torch.float32)
    torch.Tensor(2, 3, device='cpu').shape
    torch.Tensor((1, 2))
    torch.Tensor([[1, 2], [3, 4]])
    torch.Tensor(True)
    torch.Tensor(torch.Size([2])).shape
    torch.Tensor(np.int64(3)).shape
    torch.Tensor(range(3))
    torch.Tensor(-1)
    torch.FloatTensor
    torch.FloatTensor([1, 2])
    torch.FloatTensor(2, 3).shape
    torch.LongTensor([1.5])
    torch.LongTensor(torch.tensor([1, 2]))
    torch.LongTensor(torch.tensor([1., 2]))
    torch.FloatTensor(np.array([1, 2]))
    torch.BoolTensor([1, 0])
    torch.HalfTensor([1]), torch.DoubleTensor([1]), torch.ByteTensor([1]), torch.BFloat16Tensor([1])
    torch.FloatTensor(torch.Size([2, 3])).shape
    torch.FloatTensor(3.5)
    isinstance(torch.ones(2), torch.FloatTensor)
    isinstance(torch.ones(2), torch.LongTensor)
    isinstance(torch.ones(2), torch.cuda.FloatTensor)
    isinstance(torch.nn.Parameter(torch.ones(2)), torch.FloatTensor)
    isinstance(3, torch.FloatTensor)
    issubclass(torch.FloatTensor, torch.Tensor)
    torch.FloatTensor.dtype
    """
)


@needs_torch
@pytest.mark.parametrize("expression", FILLED)
def test_filled_and_ranges_equal_torch(expression: str) -> None:
    agree(expression)


@needs_torch
@settings(max_examples=200)
@given(
    st.floats(-1e6, 1e6, width=32), st.floats(-1e6, 1e6, width=32), st.integers(0, 50),
    st.sampled_from(["float32", "float64"])
)  # fmt: skip
def test_linspace_is_torchs_to_the_last_bits(start: float, end: float, steps: int, name: str) -> None:
    mine = adjoint.linspace(start, end, steps, dtype=getattr(adjoint, name)).numpy()
    theirs = torch.linspace(start, end, steps, dtype=getattr(torch, name)).numpy()
    # torch's vector kernels round once less (fused multiply-add) where the CPU has them
    spacing = np.spacing(np.abs(np.array([start, end], mine.dtype)).max() if steps else mine.dtype.type(1))
    np.testing.assert_allclose(mine, theirs, rtol=0, atol=2 * float(spacing))


@needs_torch
@settings(max_examples=200)
@given(
    st.floats(-100, 100),
    st.floats(0, 50),
    st.floats(0.01, 7),
    st.sampled_from(["float32", "float64", "int64", "int16"]),
)
def test_arange_is_torchs(start: float, length: float, step: float, name: str) -> None:
    end = start + length
    try:
        theirs = torch.arange(start, end, step, dtype=getattr(torch, name)).numpy()
    except (RuntimeError, ValueError) as error:
        with pytest.raises(type(error)):
            adjoint.arange(start, end, step, dtype=getattr(adjoint, name))
        return
    mine = adjoint.arange(start, end, step, dtype=getattr(adjoint, name)).numpy()
    assert mine.shape == theirs.shape
    # Near zero what counts is the rounding of the numbers that were added, not that of the result.
    rounding = 1e-6 if name == "float32" else 1e-14
    np.testing.assert_allclose(mine, theirs, rtol=rounding, atol=rounding * max(abs(start), abs(end), 1))


def test_filled_frozen() -> None:
    t = adjoint
    assert t.arange(1, 2, 0.5).tolist() == [1.0, 1.5] and t.arange(3).dtype is t.int64
    assert t.linspace(0, 1, 5).tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert t.logspace(0, 2, 3).tolist() == [1, 10, 100]
    assert t.eye(2).tolist() == [[1, 0], [0, 1]]
    assert t.zeros_like(t.ones(2, 3).t()).stride() == (1, 3)
    assert t.empty(2, 3, 4, 5, memory_format=t.channels_last).stride() == (60, 1, 15, 3)
    with pytest.raises(RuntimeError, match="negative dimension"):
        t.zeros(-1)


def test_out_is_resized_with_a_word() -> None:
    out = adjoint.empty(3)
    with pytest.warns(UserWarning, match="was resized since it had shape"):
        assert adjoint.add(adjoint.ones(2), 1, out=out) is out
    assert out.tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="can't be cast"):
        adjoint.add(adjoint.ones(2), 1, out=adjoint.empty(2, dtype=adjoint.int64))
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        adjoint.add(adjoint.ones(2, requires_grad=True), 1, out=out)
    with pytest.raises(TypeError, match="'out' must be Tensor"):
        adjoint.add(adjoint.ones(2), 1, out=np.ones(2))


@pytest.mark.parametrize(
    "make",
    [
        lambda layout: adjoint.zeros(2, layout=layout),
        lambda layout: adjoint.zeros_like(adjoint.ones(2), layout=layout),
        lambda layout: adjoint.ones(1).new_zeros(2, layout=layout),
        lambda layout: adjoint.ones(1).new_ones(2, layout=layout),
        lambda layout: adjoint.ones(1).new_empty(2, layout=layout),
        lambda layout: adjoint.ones(1).new_full((2,), 0.5, layout=layout),
        lambda layout: adjoint.ones(1).new_tensor([2.0], layout=layout),
        lambda layout: adjoint.ones(1).new_empty_strided((2,), (1,), layout=layout),
        lambda layout: adjoint.tril_indices(2, 2, layout=layout),
        lambda layout: adjoint.triu_indices(2, 2, layout=layout),
    ],
)
def test_a_factory_refuses_a_sparse_layout(make: Any) -> None:
    assert make(adjoint.strided).layout is adjoint.strided
    with pytest.raises(NotImplementedError, match="sparse_coo is not supported"):
        make(adjoint.sparse_coo)


# --- Inference mode ---------------------------------------------------------------------------------


def test_factories_make_inference_tensors_in_inference_mode() -> None:
    t, x = adjoint, adjoint.ones(2, requires_grad=True)
    with t.inference_mode():
        made = [
            t.ones(2), t.tensor([1.0]), t.rand(2), t.from_numpy(np.ones(2)), t.arange(3), t.zeros_like(x),
            x.clone(), x * 2,
            x.new_zeros(2), t.as_tensor([1.0]), t.eye(2), t.randperm(3),
        ]  # fmt: skip
        leaf = t.ones(2, requires_grad=True)
        views = [x.detach(), x.data, x[0], x.view(2)]
    assert all(y.is_inference() for y in made)
    assert leaf.is_inference() and leaf.requires_grad
    assert not any(v.is_inference() for v in views)
    y = made[0]
    assert y.detach().is_inference() and y.data.is_inference() and not y.clone().is_inference()
    with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor outside InferenceMode"):
        y.requires_grad_()
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        x * y
    assert (x + y).requires_grad
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
        y.add_(1)
    with pytest.raises(RuntimeError, match="do not track version counter"):
        y._version
    with t.inference_mode():
        y.add_(1)
    assert y.tolist() == [2, 2] and repr(y) == "tensor([2., 2.])"


# --- Random -----------------------------------------------------------------------------------------

RANDOM = lines(
    """
    torch.rand(3)
    torch.rand(2, 3, dtype=torch.float64)
    torch.rand((2,), dtype=torch.float16)
    torch.rand(size=(2,))
    torch.rand(2, generator=torch.Generator().manual_seed(0))
    torch.rand(2, dtype=torch.int64)
    torch.rand(2, requires_grad=True)
    torch.rand(-1)
    torch.randn(2, 2)
    torch.randn(20)
    torch.randn(2, dtype=torch.complex64)
    torch.randn(2, out=torch.empty(0, dtype=torch.float64))
    torch.randint(3, (2,))
    torch.randint(0, 3, (2,), dtype=torch.float32)
    torch.randint(3, 1, (2,))
    torch.randint(high=3, size=(2,))
    torch.randint(low=0, high=3, size=(2,))
    torch.randint(1, high=3, size=(2,))
    torch.randint(3)
    torch.randint(0, 300, (2,), dtype=torch.uint8)
    torch.randint(-5, 5, (3,), dtype=torch.int8)
    torch.randperm(5)
    torch.randperm(3, dtype=torch.float32)
    torch.randperm(-1)
    torch.randperm(300, dtype=torch.int8)
    torch.rand_like(torch.ones(2, 2))
    torch.randn_like(torch.ones(2), dtype=torch.float64)
    torch.randint_like(torch.ones(2), 3)
    torch.randint_like(torch.ones(2), 1, 3)
    torch.randint_like(torch.ones(2), low=1, high=3)
    torch.rand_like(3)
    torch.normal(0., 1., size=(2, 2))
    torch.normal(0, 1, (2, 2))
    torch.normal(0., torch.ones(2))
    torch.normal(torch.ones(2), 1)
    torch.normal(torch.ones(2, 3), torch.ones(3))
    torch.normal(torch.ones(2, requires_grad=True), torch.ones(2))
    torch.normal(torch.ones(2, requires_grad=True))
    torch.normal(0., -1., size=(2, 2))
    torch.normal(torch.ones(2), torch.tensor([-1., 1]))
    torch.normal(torch.ones(2).long(), 1.)
    torch.normal(2., 3.)
    torch.bernoulli(torch.full((5,), 0.5))
    torch.bernoulli(torch.full((5,), 0.5, requires_grad=True))
    torch.bernoulli(torch.ones(2), p=1.0)
    torch.bernoulli(torch.tensor([1.5]))
    torch.bernoulli(torch.tensor([1]))
    torch.multinomial(torch.ones(5), 2, True)
    torch.multinomial(torch.ones(3), 4)
    torch.multinomial(torch.ones(3), 0)
    torch.multinomial(torch.ones(2, 3), 2, True)
    torch.multinomial(torch.ones(2, 3, 4), 2, True)
    torch.multinomial(torch.tensor([-1., 1]), 1)
    torch.multinomial(torch.tensor([0., 0.]), 1)
    torch.multinomial(torch.tensor([1, 2]), 1)
    torch.poisson(torch.full((4,), 3.))
    torch.poisson(torch.ones(2, requires_grad=True))
    torch.poisson(torch.tensor([-1.]))
    torch.empty(3).uniform_()
    torch.empty(3).uniform_(2, 3)
    torch.empty(3).uniform_(**{'from': 2, 'to': 3})
    torch.empty(3).uniform_(3, 2)
    torch.empty(3).normal_(1, 2)
    torch.empty(3).normal_(0, -1)
    torch.empty(3).log_normal_()
    torch.empty(3).log_normal_(0, -1)
    torch.empty(3).cauchy_()
    torch.empty(3).cauchy_(0, -1)
    torch.empty(3).exponential_(-1)
    torch.empty(3).geometric_(0.3)
    torch.empty(3).geometric_(1.5)
    torch.empty(3, dtype=torch.int64).random_()
    torch.empty(3).random_(5)
    torch.empty(3).random_(2, 5)
    torch.empty(3).random_(5, 2)
    torch.empty(3).bernoulli_(torch.full((3,), 0.5))
    torch.empty(3).bernoulli_(2)
    torch.empty(3, dtype=torch.int64).uniform_()
    torch.ones(2, requires_grad=True).uniform_()
    (torch.ones(2, requires_grad=True) * 2).uniform_()
    (torch.ones(2, requires_grad=True) * 2).normal_()
    (torch.ones(2, requires_grad=True) * 2).random_(3)
    torch.empty(2)[:1].uniform_().shape
    torch.initial_seed()
    torch.random.initial_seed()
    torch.Generator().initial_seed()
    torch.Generator().manual_seed(3).initial_seed()
    torch.Generator().device
    torch.get_rng_state().shape
    torch.get_rng_state().sum()
    torch.set_rng_state(torch.ones(3))
    torch.set_rng_state(torch.ones(3).byte())
    torch.manual_seed(2**64)
    torch.manual_seed(-1).initial_seed()
    torch.manual_seed(1.7).initial_seed()
    """
)


@needs_torch
@pytest.mark.parametrize("expression", RANDOM)
def test_random_equals_torch(expression: str) -> None:
    agree(expression)


def test_random_frozen() -> None:
    adjoint.manual_seed(0)
    np.testing.assert_allclose(adjoint.randn(3).numpy(), [1.5409961, -0.2934289, -2.1787894], rtol=1e-6)
    adjoint.manual_seed(0)
    assert adjoint.randint(10, (4,)).tolist() == [4, 9, 3, 0]


def test_generators_have_states_of_their_own() -> None:
    a, b = adjoint.Generator().manual_seed(1), adjoint.Generator().manual_seed(1)
    first = adjoint.rand(3, generator=a)
    assert adjoint.equal(first, adjoint.rand(3, generator=b))
    b.set_state(a.get_state())
    clone, pickled = a.clone_state(), pickle.loads(pickle.dumps(a))
    drawn = adjoint.rand(3, generator=a)
    for other in (b, clone, pickled):
        assert adjoint.equal(drawn, adjoint.rand(3, generator=other))
    with pytest.raises(TypeError, match="ByteTensor"):
        a.set_state(adjoint.ones(3))
    assert isinstance(a.seed(), int) and isinstance(adjoint.seed(), int)


def test_fork_rng_puts_the_state_back() -> None:
    adjoint.manual_seed(0)
    expected = adjoint.rand(1).item()
    for enabled in (True, False):
        adjoint.manual_seed(0)
        with adjoint.random.fork_rng(enabled=enabled):
            adjoint.rand(5)
        assert (adjoint.rand(1).item() == expected) is enabled
    adjoint.manual_seed(0)
    with pytest.raises(KeyError), adjoint.random.fork_rng():
        adjoint.rand(5)
        raise KeyError
    assert adjoint.rand(1).item() == expected


def test_a_draw_gives_its_parameters_zero_gradients() -> None:
    for draw in (
        lambda x: adjoint.bernoulli(x),
        lambda x: adjoint.poisson(x),
        lambda x: adjoint.normal(x, 1.0),
        lambda x: adjoint.normal(0.0, x),
        lambda x: adjoint.normal(x, x),
        lambda x: (x * 1).uniform_(),
        lambda x: (x * 1).exponential_(),
    ):
        x = adjoint.full((3,), 0.5, requires_grad=True)
        draw(x).sum().backward()
        assert x.grad.tolist() == [0, 0, 0]


def test_threads_share_the_default_generator_without_repeats() -> None:
    drawn: list[float] = []
    threads = [threading.Thread(target=lambda: drawn.extend(adjoint.rand(1000).tolist())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(drawn) == 8000 and len(set(drawn)) > 7900
