"""dtypes, devices, sizes, layouts: their names, limits and rules, against torch and frozen."""

from __future__ import annotations

import copy
import itertools
import os
import pickle
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint.core import device as devices
from adjoint.core import dtypes
from adjoint.devices.cpu import blas

from .expressions import agree, lines
from .oracle import needs_torch, torch

NAMES = [d.name for d in dtypes.ALL]
STORED = [d.name for d in dtypes.STORED]


# --- dtypes -----------------------------------------------------------------------------------------


@needs_torch
@pytest.mark.parametrize("name", NAMES + STORED)
def test_attributes_equal_torch(name: str) -> None:
    mine, theirs = getattr(adjoint, name), getattr(torch, name)
    for what in ("itemsize", "is_signed", "is_floating_point", "is_complex"):
        assert getattr(mine, what) == getattr(theirs, what), what
    assert repr(mine) == repr(theirs).replace("torch", "adjoint")


@needs_torch
@pytest.mark.parametrize("a", NAMES + STORED)
def test_promotion_and_casting_equal_torch(a: str) -> None:
    for b in NAMES + STORED:
        agree(f"torch.promote_types(torch.{a}, torch.{b})")
        agree(f"torch.can_cast(torch.{a}, torch.{b})")


@needs_torch
@pytest.mark.parametrize("a", NAMES)
def test_result_type_equals_torch(a: str) -> None:
    for b, left, right in itertools.product(NAMES, ("[1]", "1"), ("[1]", "1")):
        if "float16" in (a, b) and "complex" in a + b and left != right:
            continue  # torch makes complex32, which NumPy does not have
        agree(f"torch.result_type(torch.tensor({left}).to(torch.{a}), torch.tensor({right}).to(torch.{b}))")
    for number in ("True", "1", "1.5", *(() if a == "float16" else ("1j",))):
        for shape in ("[1]", "1"):
            agree(f"torch.result_type(torch.tensor({shape}).to(torch.{a}), {number})")


EXPRESSIONS = lines(
    """
    torch.finfo(torch.float32)
    torch.finfo(torch.float16)
    torch.finfo(torch.bfloat16)
    torch.finfo(torch.float64)
    torch.finfo(torch.complex64)
    torch.finfo(torch.complex128).dtype
    torch.finfo(torch.float8_e4m3fn)
    torch.finfo()
    torch.finfo(float)
    torch.finfo(torch.int32)
    torch.finfo(torch.float32) == torch.finfo(torch.float32)
    torch.finfo(torch.float16).resolution, torch.finfo(torch.bfloat16).resolution
    torch.finfo(torch.float32).tiny, torch.finfo(torch.float32).max, torch.finfo(torch.float32).bits
    torch.iinfo(torch.int32)
    torch.iinfo(torch.uint8)
    torch.iinfo(torch.uint64).max
    torch.iinfo(torch.int64).min
    torch.iinfo(torch.bool)
    torch.iinfo(torch.float32)
    torch.iinfo()
    torch.dtype()
    torch.int32.to_complex()
    torch.bool.to_complex()
    torch.bfloat16.to_complex()
    torch.float64.to_complex()
    torch.complex128.to_real()
    torch.float16.to_real()
    torch.int32.to_real()
    torch.float, torch.double, torch.half, torch.long, torch.int, torch.short, torch.cfloat, torch.cdouble
    torch.bool, torch.uint8, torch.int8, torch.bfloat16
    torch.promote_types(float, torch.float32)
    torch.promote_types(1, torch.float32)
    torch.result_type(1, 2)
    torch.result_type(1, 2.5)
    torch.tensor([1, 2], dtype=float)
    torch.tensor([1, 2], dtype=int)
    torch.tensor([1, 2], dtype=bool)
    torch.tensor([1, 2], dtype=complex)
    torch.tensor([1, 2], dtype=np.float32)
    torch.tensor([1, 2], dtype='float32')
    torch.set_default_dtype(torch.int32)
    torch.set_default_dtype(torch.complex64)
    torch.set_default_dtype(float)
    torch.set_default_dtype('float32')
    torch.get_default_dtype()
    torch.strided, torch.sparse_coo, torch.sparse_csr
    torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d
    type(torch.strided), type(torch.contiguous_format), type(torch.float32), type(torch.device('cpu'))
    torch.layout()
    torch.ones(2).layout
    """
)


@needs_torch
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions_equal_torch(expression: str) -> None:
    agree(expression)


@pytest.mark.parametrize("dtype", [adjoint.int64, adjoint.uint8, adjoint.bool])
def test_whole_numbers_have_no_history(dtype: dtypes.dtype) -> None:
    whole = (adjoint.ones(3, requires_grad=True) * 2).to(dtype)
    assert not whole.requires_grad and whole.grad_fn is None
    assert not adjoint.arange(256.0)[whole.long()].requires_grad


def test_dtypes_survive_copies_and_pickles() -> None:
    for d in (*dtypes.ALL, *dtypes.STORED):
        assert pickle.loads(pickle.dumps(d)) is copy.copy(d) is copy.deepcopy(d) is d
        assert dtypes.of(d.np) is d


def test_default_dtype_decides_what_floats_become() -> None:
    adjoint.set_default_dtype(adjoint.float64)
    try:
        assert adjoint.tensor(1.5).dtype is adjoint.float64
        assert adjoint.tensor(1j).dtype is adjoint.complex128
        assert adjoint.zeros(1).dtype is adjoint.linspace(0, 1, 2).dtype is adjoint.rand(1).dtype is adjoint.float64
        assert repr(adjoint.tensor(1.5)) == "tensor(1.5000)"
        assert adjoint.tensor(3).sqrt().dtype is adjoint.float64
    finally:
        adjoint.set_default_dtype(adjoint.float32)
    assert adjoint.tensor(1.5).dtype is adjoint.float32


def test_default_tensor_type_sets_the_dtype() -> None:
    with pytest.warns(UserWarning, match="deprecated"):
        adjoint.set_default_tensor_type(adjoint.DoubleTensor)
    with pytest.warns(UserWarning, match="deprecated"):
        assert adjoint.get_default_dtype() is adjoint.float64
        adjoint.set_default_tensor_type("torch.FloatTensor")
    assert adjoint.get_default_dtype() is adjoint.float32
    with pytest.warns(UserWarning), pytest.raises(TypeError, match="invalid type"):
        adjoint.set_default_tensor_type("FloatTensor")


def test_frozen_promotions() -> None:
    t = adjoint
    assert t.promote_types(t.uint8, t.int8) is t.int16
    assert t.promote_types(t.float16, t.bfloat16) is t.float32
    assert t.promote_types(t.float64, t.complex64) is t.complex128
    assert t.result_type(t.tensor([1, 2]), 1.0) is t.float32
    assert t.result_type(t.tensor([1], dtype=t.int8), t.tensor(1000)) is t.int8
    with pytest.raises(RuntimeError, match="Promotion for uint16, uint32, uint64 types is not supported"):
        t.promote_types(t.uint16, t.int32)


def test_a_numpy_type_without_counterpart_is_refused() -> None:
    with pytest.raises(TypeError, match="can't convert np"):
        adjoint.from_numpy(np.ones(2, np.longdouble))


# --- Devices ----------------------------------------------------------------------------------------

DEVICES = lines(
    """
    torch.device('cuda', 0)
    torch.device('cpu', index=0)
    torch.device('cuda:0', 1)
    torch.device('cuda:')
    torch.device('cuda:-1')
    torch.device('cpu', -1)
    torch.device('cuda:01')
    torch.device('mps')
    torch.device('meta')
    torch.device('bogus')
    torch.device()
    torch.device(None)
    torch.device(1.5)
    torch.device(torch.device('cpu'))
    torch.device(type='cuda', index=1)
    torch.device('cpu') == 'cpu'
    torch.device('cpu') == torch.device('cpu')
    torch.device('cpu') == torch.device('cpu', 0)
    str(torch.device('cuda', 1))
    hash(torch.device('cpu')) == hash(torch.device('cpu'))
    torch.device('cpu').type, torch.device('cpu').index
    torch.zeros(2, device='cpu').device
    torch.zeros(2, device=torch.device('cpu')).device
    torch.zeros(2, device=1.5)
    torch.get_default_device()
    """
)


@needs_torch
@pytest.mark.parametrize("expression", DEVICES)
def test_devices_equal_torch(expression: str) -> None:
    agree(expression)


def test_devices_survive_copies_and_pickles() -> None:
    place = adjoint.device("cuda:1")
    assert pickle.loads(pickle.dumps(place)) == copy.deepcopy(place) == place
    assert {place: 1}[adjoint.device("cuda", 1)] == 1


def test_a_device_context_chooses_for_factories_of_its_thread() -> None:
    seen = []
    with adjoint.device("cuda"):
        assert devices.current() == adjoint.device("cuda")
        with adjoint.device("cpu"):
            assert adjoint.get_default_device() == adjoint.device("cpu")
            assert adjoint.zeros(2).is_cpu
        thread = threading.Thread(target=lambda: seen.append(devices.current()))
        thread.start()
        thread.join()
    assert devices.current() == seen[0] == adjoint.device("cpu")


def test_default_device_is_remembered() -> None:
    adjoint.set_default_device("cuda")
    try:
        assert adjoint.get_default_device() == adjoint.device("cuda")
        assert adjoint.zeros(2, device="cpu").is_cpu
    finally:
        adjoint.set_default_device(None)
    assert adjoint.get_default_device() == adjoint.device("cpu")


def test_a_device_decorates_functions() -> None:
    @adjoint.device("cpu")
    def make() -> Any:
        return adjoint.get_default_device()

    assert make() == adjoint.device("cpu")


def test_unsupported_places_say_so() -> None:
    with pytest.raises(NotImplementedError, match="cannot be made on device 'mps'"):
        adjoint.zeros(2, device="mps")


@pytest.mark.skipif(adjoint.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_cuda_answers_and_refuses() -> None:
    assert adjoint.cuda.device_count() == 0
    assert adjoint.cuda.memory_allocated() == adjoint.cuda.max_memory_allocated() == 0
    assert adjoint.cuda.is_bf16_supported() is adjoint.cuda.is_initialized() is False
    adjoint.cuda.empty_cache()
    adjoint.cuda.manual_seed_all(0)
    with pytest.raises(RuntimeError, match="CUDA"):
        adjoint.zeros(2, device="cuda")
    with pytest.raises(RuntimeError, match="CUDA"):
        adjoint.cuda.current_device()
    with adjoint.cuda.device(0), adjoint.cuda.stream(None):
        pass


# --- Size -------------------------------------------------------------------------------------------

SIZES = lines(
    """
    torch.Size([2, 3]) + (1,)
    (1,) + torch.Size([2, 3])
    torch.Size([2]) + [1]
    torch.Size([2]) + torch.Size([1])
    torch.Size([2]) * 2
    2 * torch.Size([2])
    torch.Size([1, 2, 3])[1:]
    torch.Size([1, 2, 3])[1]
    torch.Size(['a'])
    torch.Size([2.5])
    torch.Size([True])
    torch.Size(3)
    torch.Size((torch.tensor(2), 3))
    torch.Size((torch.tensor(2.), 3))
    torch.Size((np.int64(2), 3))
    torch.Size()
    torch.Size([2, 3]).numel(), torch.Size([]).numel()
    torch.Size([2, 3]) == (2, 3)
    torch.Size([-1])
    type(torch.Size([2]) + (1,))
    hash(torch.Size([2, 3])) == hash((2, 3))
    """
)


@needs_torch
@pytest.mark.parametrize("expression", SIZES)
def test_sizes_equal_torch(expression: str) -> None:
    agree(expression)


def test_sizes_are_tuples_and_survive_pickles() -> None:
    size = adjoint.zeros(2, 3).shape
    assert isinstance(size, tuple) and type(pickle.loads(pickle.dumps(size))) is adjoint.Size
    a, b = size
    assert (a, b) == (2, 3) and repr(size) == "adjoint.Size([2, 3])"


# --- Layouts ----------------------------------------------------------------------------------------


def test_constants_survive_copies_and_pickles() -> None:
    for constant in (adjoint.strided, adjoint.sparse_coo, adjoint.channels_last, adjoint.preserve_format):
        assert pickle.loads(pickle.dumps(constant)) is copy.deepcopy(constant) is constant


def test_other_layouts_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="sparse_coo is not supported"):
        adjoint.zeros(2, layout=adjoint.sparse_coo)


# --- Settings ---------------------------------------------------------------------------------------


@needs_torch
@pytest.mark.parametrize(
    "expression",
    lines(
        """
        torch.inf, torch.nan, torch.pi, torch.e, torch.newaxis
        torch.are_deterministic_algorithms_enabled()
        torch.is_deterministic_algorithms_warn_only_enabled()
        torch.get_float32_matmul_precision()
        torch.get_deterministic_debug_mode()
        torch.set_float32_matmul_precision('bogus')
        torch.set_num_threads(0)
        torch.set_num_threads('a')
        torch.version.cuda, torch.version.hip
        torch.cuda.is_available()
        """
    ),
)
def test_settings_equal_torch(expression: str) -> None:
    agree(expression)


def test_settings_are_remembered() -> None:
    threads = adjoint.get_num_threads()
    for number in (1, 2):
        adjoint.set_num_threads(number)
        assert adjoint.get_num_threads() == number
        if (functions := blas._functions()) is not None:
            assert functions[0]() == number
    adjoint.set_num_threads(threads)

    adjoint.use_deterministic_algorithms(True, warn_only=True)
    assert adjoint.are_deterministic_algorithms_enabled() and adjoint.get_deterministic_debug_mode() == 1
    adjoint.set_deterministic_debug_mode("default")
    assert not adjoint.are_deterministic_algorithms_enabled()
    adjoint.set_float32_matmul_precision("high")
    assert adjoint.get_float32_matmul_precision() == "high"
    adjoint.set_float32_matmul_precision("highest")


def test_openmp_s_variable_says_how_many_threads_there_are() -> None:
    command = [sys.executable, "-c", "import adjoint; print(adjoint.get_num_threads())"]
    told = subprocess.run(
        command, env=os.environ | {"OMP_NUM_THREADS": "3"}, capture_output=True, text=True, check=True
    )
    assert told.stdout == "3\n"
