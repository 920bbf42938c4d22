"""Tensors that tests are run on: matrices of a kind, copies with other strides, dtypes of NumPy and back."""

from __future__ import annotations

import copy
import inspect
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ... import linalg
from ...core import dtypes
from ...core.nodes import wrap
from ...core.tensor import TensorBase
from ...ops import namespace
from ...sparse import sparse_coo_tensor
from ...testing.creation import make_tensor

words: Any = namespace  # every public function by name

__all__ = [
    "bytes_to_scalar", "clone_input_helper", "first_sample", "get_function_arglist", "get_tensors_from",
    "has_corresponding_torch_dtype", "is_coalesced_indices", "is_iterable", "is_iterable_of_tensors", "iter_indices",
    "make_fullrank_matrices_with_distinct_singular_values", "make_symmetric_matrices", "make_symmetric_pd_matrices",
    "noncontiguous_like", "numpy_to_torch_dtype", "numpy_to_torch_dtype_dict", "random_hermitian_matrix",
    "random_hermitian_pd_matrix", "random_hermitian_psd_matrix", "random_lowrank_matrix", "random_matrix",
    "random_matrix_with_scaled_reduction_dim", "random_sparse_matrix", "random_sparse_pd_matrix",
    "random_square_matrix_of_rank", "random_symmetric_matrix", "random_symmetric_pd_matrix",
    "random_symmetric_psd_matrix", "random_well_conditioned_matrix", "to_gpu", "torch_to_numpy_dtype_dict",
]  # fmt: skip

_NUMPY = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64",
          "complex64", "complex128")  # fmt: skip
numpy_to_torch_dtype_dict: dict[Any, Any] = {
    np.bool_: dtypes.bool_,
    **{getattr(np, name): getattr(dtypes, name) for name in _NUMPY},
}
torch_to_numpy_dtype_dict: dict[Any, Any] = {ours: theirs for theirs, ours in numpy_to_torch_dtype_dict.items()}
torch_to_numpy_dtype_dict[dtypes.bfloat16] = np.float32


def numpy_to_torch_dtype(np_dtype: Any) -> dtypes.dtype:
    """Return the dtype that holds NumPy's."""
    found: dtypes.dtype = numpy_to_torch_dtype_dict[np.dtype(np_dtype).type]
    return found


def has_corresponding_torch_dtype(np_dtype: Any) -> bool:
    """Return whether a dtype of NumPy has one here."""
    return np.dtype(np_dtype).type in numpy_to_torch_dtype_dict


# --- Containers and copies ----------------------------------------------------------------------------


def is_iterable(obj: Any) -> bool:
    """Return whether a loop can go over `obj`."""
    return isinstance(obj, Iterable)


def is_iterable_of_tensors(iterable: Any, include_empty: bool = False) -> bool:
    """Return whether `iterable`, which is no tensor, holds tensors alone."""
    if isinstance(iterable, TensorBase) or not isinstance(iterable, Iterable):
        return False
    values = list(iterable)
    return all(isinstance(v, TensorBase) for v in values) if values else include_empty


def iter_indices(tensor: Any) -> Iterator[Any]:
    """Yield the index of each element."""
    if tensor.dim() == 1:
        return iter(range(tensor.size(0)))
    return itertools.product(*(range(n) for n in tensor.size()))


def first_sample(self: Any, samples: Iterable[Any]) -> Any:
    """Return the first of several samples; a test without one is left out."""
    for sample in samples:
        return sample
    return self.skipTest("Skipped! Need at least 1 sample input")


def clone_input_helper(input: Any) -> Any:
    """Return copies of the tensors in a sequence, or of one."""
    if isinstance(input, TensorBase):
        return input.clone()  # type: ignore[attr-defined]
    if isinstance(input, list | tuple):
        return type(input)(clone_input_helper(v) for v in input)
    return input


def get_tensors_from(args: Any, kwargs: dict[str, Any]) -> set[Any]:
    """Return the tensors among the arguments of a call."""
    return {v for v in (*args, *kwargs.values()) if isinstance(v, TensorBase)}


def get_function_arglist(func: Any) -> list[str]:
    """Return the names of a function's arguments."""
    return list(inspect.getfullargspec(func).args)


def bytes_to_scalar(byte_list: list[int], dtype: Any, device: Any) -> Any:
    """Return a tensor without axes whose bytes are given."""
    value = np.frombuffer(bytes(byte_list), dtype.np)[0]
    return words.tensor(value.item(), device=device, dtype=dtype)


def to_gpu(obj: Any, type_map: dict[Any, Any] | None = None) -> Any:
    """Return tensors, in containers too, on the GPU."""
    if isinstance(obj, TensorBase):
        kind = (type_map or {}).get(obj.dtype, obj.dtype)  # type: ignore[attr-defined]
        return obj.detach().to("cuda", kind).requires_grad_(obj.requires_grad)  # type: ignore[attr-defined]
    if isinstance(obj, list | tuple):
        return type(obj)(to_gpu(v, type_map) for v in obj)
    if isinstance(obj, dict):
        return {key: to_gpu(v, type_map) for key, v in obj.items()}
    return copy.deepcopy(obj)


def is_coalesced_indices(s: Any) -> bool:
    """Return whether no index of a sparse tensor is there twice."""
    rows = s._indices().numpy()
    return rows.shape[1] == np.unique(rows, axis=1).shape[1]


def noncontiguous_like(t: Any) -> Any:
    """Return a non-contiguous tensor of the same values."""
    if not t.is_contiguous():
        return t
    spread = np.zeros((*t.shape, 2), t.array.dtype)
    result = wrap(spread)[..., 0]  # type: ignore[index]
    result.copy_(t.detach())
    if t.dim():
        result = result.detach()
    return result.requires_grad_(t.requires_grad)


# --- Matrices -----------------------------------------------------------------------------------------


def _options(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {"dtype": kwargs.get("dtype", dtypes.float64), "device": kwargs.get("device", "cpu")}


def _square(size: int, batches: tuple[int, ...], kwargs: dict[str, Any]) -> Any:
    return words.randn(*batches, size, size, **_options(kwargs))


def random_symmetric_matrix(l: int, *batches: int, **kwargs: Any) -> Any:
    """Return a random symmetric matrix, or a batch of them."""
    a = _square(l, batches, kwargs)
    return (a + a.mT) / 2


def random_hermitian_matrix(l: int, *batches: int, **kwargs: Any) -> Any:
    """Return a random Hermitian matrix, or a batch of them."""
    a = _square(l, batches, kwargs)
    return (a + a.mH) / 2


def random_symmetric_psd_matrix(l: int, *batches: int, **kwargs: Any) -> Any:
    """Return a random symmetric matrix without negative eigenvalues."""
    a = _square(l, batches, kwargs)
    return a @ a.mT


def random_hermitian_psd_matrix(
    matrix_size: int, *batch_dims: int, dtype: Any = dtypes.float64, device: Any = "cpu"
) -> Any:
    """Return a random Hermitian matrix without negative eigenvalues."""
    a = _square(matrix_size, batch_dims, {"dtype": dtype, "device": device})
    return a @ a.mH


def random_symmetric_pd_matrix(matrix_size: int, *batch_dims: int, **kwargs: Any) -> Any:
    """Return a random symmetric matrix whose eigenvalues are positive."""
    a = _square(matrix_size, batch_dims, kwargs)
    return a @ a.mT + words.eye(matrix_size, **_options(kwargs)) * 1e-5


def random_hermitian_pd_matrix(matrix_size: int, *batch_dims: int, dtype: Any, device: Any) -> Any:
    """Return a random Hermitian matrix whose eigenvalues are positive."""
    a = _square(matrix_size, batch_dims, {"dtype": dtype, "device": device})
    return a @ a.mH + words.eye(matrix_size, dtype=dtype, device=device)


def _with_singular_values(rows: int, columns: int, batches: tuple[int, ...], values: Any, kwargs: Any) -> Any:
    u, _, vh = linalg.svd(words.randn(*batches, rows, columns, **_options(kwargs)), full_matrices=False)
    return (u * values.to(u.dtype).unsqueeze(-2)) @ vh


def random_matrix(rows: int, columns: int, *batch_dims: int, **kwargs: Any) -> Any:
    """Return a random matrix that is well conditioned, or with ``singular=True`` one that has no inverse."""
    k = min(rows, columns)
    if k == 0:
        return words.ones(*batch_dims, rows, columns, **_options(kwargs))
    values = words.linspace(1 / (k + 1), 1 - 1 / (k + 1), k, dtype=dtypes.float64)
    if kwargs.get("singular", False):
        values = words.cat([words.zeros(min(2, k), dtype=dtypes.float64), values[min(2, k) :]])
    return _with_singular_values(rows, columns, batch_dims, values, kwargs)


def random_lowrank_matrix(rank: int, rows: int, columns: int, *batch_dims: int, **kwargs: Any) -> Any:
    """Return the product of two random matrices of `rank` columns and rows."""
    left = random_matrix(rows, rank, *batch_dims, **kwargs)
    return left @ random_matrix(rank, columns, *batch_dims, **kwargs)


def random_matrix_with_scaled_reduction_dim(
    rows: int, columns: int, *batch_dims: int, reduction_dim: int = -1, **kwargs: Any
) -> Any:
    """Return a random matrix scaled so that sums over an axis of it stay of size one."""
    size = (rows, columns)[reduction_dim]
    return random_matrix(rows, columns, *batch_dims, **kwargs) / max(size, 1) ** 0.5


def random_sparse_matrix(rows: int, columns: int, density: float = 0.01, **kwargs: Any) -> Any:
    """Return a random sparse matrix in which every row has an element, and the diagonal dominates."""
    count = max(min(rows, columns), int(rows * columns * density))
    i = np.arange(count) % rows
    j = np.where(np.arange(count) < rows, i % columns, np.random.randint(0, columns, count))
    values = words.randn(count, **_options(kwargs)) * words.as_tensor(np.exp(-((i - j) ** 2.0))).to(**_options(kwargs))
    return sparse_coo_tensor(np.stack([i, j]), values, (rows, columns), device=kwargs.get("device", "cpu")).coalesce()


def random_sparse_pd_matrix(matrix_size: int, density: float = 0.01, **kwargs: Any) -> Any:
    """Return a random sparse symmetric matrix whose eigenvalues are ``arange(1, n + 1) / n``."""
    n = matrix_size
    matrix = np.diag(np.arange(1, n + 1) / n)
    while n > 1 and np.count_nonzero(matrix) < density * n * n:
        i, j = np.random.choice(n, 2, replace=False)
        angle = np.random.uniform(0, 2 * np.pi)
        turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        matrix[[i, j]] = turn @ matrix[[i, j]]
        matrix[:, [i, j]] = matrix[:, [i, j]] @ turn.T
    at = np.stack(np.nonzero(matrix))
    return sparse_coo_tensor(at, words.as_tensor(matrix[tuple(at)]).to(**_options(kwargs)), (n, n)).coalesce()


def random_square_matrix_of_rank(l: int, rank: int, dtype: Any = dtypes.float64, device: Any = "cpu") -> Any:
    """Return a random square matrix of a given rank."""
    assert rank <= l
    values = words.where(words.arange(l) < rank, words.rand(l, dtype=dtypes.float64) + 0.5, 0.0)
    return _with_singular_values(l, l, (), values, {"dtype": dtype, "device": device})


def random_well_conditioned_matrix(
    *shape: int, dtype: Any, device: Any, mean: float = 1.0, sigma: float = 0.001
) -> Any:
    """Return a random matrix whose singular values are all close to `mean`."""
    rows, columns = shape[-2:]
    values = words.randn(*shape[:-2], min(rows, columns), dtype=dtypes.float64) * sigma + mean
    values = values.sort(-1, descending=True)[0]
    return _with_singular_values(rows, columns, tuple(shape[:-2]), values, {"dtype": dtype, "device": device})


def make_fullrank_matrices_with_distinct_singular_values(
    *shape: int, device: Any, dtype: Any, requires_grad: bool = False
) -> Any:
    """Return random matrices whose singular values are all different."""
    k = min(shape[-2:])
    values = words.arange(2, k + 2, dtype=dtypes.float64)
    values = values * (-1.0) ** words.arange(k, dtype=dtypes.float64)
    made = _with_singular_values(
        shape[-2], shape[-1], tuple(shape[:-2]), 1 + 1 / values, {"dtype": dtype, "device": device}
    )
    return made.detach().requires_grad_(requires_grad)


def make_symmetric_matrices(*shape: int, device: Any, dtype: Any) -> Any:
    """Return random symmetric matrices."""
    a = make_tensor(shape, device=device, dtype=dtype)
    return (a + a.mH).div_(2)


def make_symmetric_pd_matrices(*shape: int, device: Any, dtype: Any) -> Any:
    """Return random symmetric matrices whose eigenvalues are positive."""
    a = make_tensor(shape, device=device, dtype=dtype)
    return a @ a.mH + words.eye(shape[-1], device=device, dtype=dtype) * 1e-5
