"""SparseTensor: places and values. The values are an ordinary tensor, and gradients flow through them."""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np

from .. import printing
from ..core import layout as layouts
from ..core.device import device as Device
from ..core.device import of as place_of
from ..core.dtypes import dtype as Dtype
from ..core.dtypes import of as dtype_of
from ..core.nodes import wrap
from ..core.overrides import SubclassesOff
from ..core.payload import Payload
from ..core.size import Size
from ..ops import namespace
from ..tensor import Tensor
from .compression import BY_BLOCKS, BY_ROWS, COMPRESSED, blocks_of, compressed

__all__ = ["ByValues", "Scattered", "SparseTensor", "ops"]

words: Any = namespace  # every public function by name

BY_COLUMNS = (layouts.sparse_csc, layouts.sparse_bsc)


class Scattered(Payload):
    """What a sparse tensor holds in the place of an array: its shape and dtype; no kernel can read it."""

    __slots__ = ("dtype", "place", "shape")

    __array_ufunc__ = None

    def __init__(self, shape: tuple[int, ...], values: Tensor) -> None:
        self.level, self.shape = 0, shape
        self.dtype, self.place = values.array.dtype, place_of(values.array)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements, zeros among them."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return int(self.dtype.itemsize)

    @classmethod
    def apply(cls, op: Any, level: int, values: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        """Raise: a primitive takes dense tensors."""
        refuse(op.name)

    def concrete(self, what: str) -> NoReturn:
        """Raise: the elements are not in one array."""
        refuse(what)


def refuse(name: str) -> NoReturn:
    """Raise: something is not offered for sparse tensors."""
    raise NotImplementedError(f"{name} is not offered for sparse tensors; convert with .to_dense() first")


# What functions and methods do with sparse operands, by name; filled by `rules`.
ops: dict[str, Any] = {}


class ByValues(Tensor):
    """A tensor that holds another, its values, and whose graph is theirs."""

    _held: Any

    def _with(self, values: Any) -> Any:
        """Return other values in the same arrangement."""
        raise NotImplementedError

    @property
    def requires_grad(self) -> bool:
        """Whether operations on the values are recorded."""
        return bool(self._held.requires_grad)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._held.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Start (or stop) recording operations on the values."""
        self._held.requires_grad_(requires_grad)
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded op made the values."""
        return bool(self._held.is_leaf)

    @property
    def grad_fn(self) -> Any:
        """The node that recorded the values."""
        return self._held.grad_fn

    @property
    def grad(self) -> Any:
        """The gradient of the values, in the same arrangement."""
        g = self._held.grad
        return None if g is None else self._with(g)

    @grad.setter
    def grad(self, value: Any) -> None:
        self._held.grad = None if value is None else value._held

    def detach(self) -> Any:
        """Return the same elements without their history."""
        return self._with(self._held.detach())


class SparseTensor(ByValues):
    """A tensor that stores only some of its elements: ``sparse_coo_tensor(indices, values, size)`` makes one.

    Examples
    --------
    >>> s = adjoint.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
    >>> s.to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 0.]])
    >>> s @ adjoint.ones(3)
    tensor([3., 4.])
    """

    __module__ = "adjoint.sparse"

    _at: Any
    _held: Any
    _sorted: bool
    _kind: Any
    _block: Any = None  # the size of a block, if the layout has blocks

    @classmethod
    def made(
        cls, indices: Any, values: Any, size: tuple[int, ...], coalesced: bool = False, kind: Any = layouts.sparse_coo,
        block: Any = None,
    ) -> SparseTensor:  # fmt: skip
        """Return a sparse tensor of places and values."""
        if block is None and kind in BY_BLOCKS:  # places have changed: what is left of blocks is not known
            kind = layouts.sparse_csr if kind is layouts.sparse_bsr else layouts.sparse_csc
        out: Any = wrap(Scattered(tuple(size), values))
        out.__class__ = cls
        if block is not None:
            out._block = block
        out._at, out._held, out._sorted, out._kind = indices, values, coalesced, kind
        return out  # type: ignore[no-any-return]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.__name__
        if name in ops:
            return ops[name](*args, **(kwargs or {}))
        if name in _DESCRIBING:
            with SubclassesOff():
                return func(*args, **(kwargs or {}))
        refuse(name)

    # --- Properties -----------------------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        """The size of each dimension."""
        return Size(self.array.shape)

    @property
    def dtype(self) -> Dtype:
        """The data type."""
        return dtype_of(self.array.dtype)

    @property
    def device(self) -> Device:
        """Where the memory is."""
        return self.array.place  # type: ignore[no-any-return]

    @property
    def is_sparse(self) -> bool:  # type: ignore[override]
        """Whether the layout is COO (coordinates)."""
        return self._kind is layouts.sparse_coo

    @property
    def is_sparse_csr(self) -> bool:  # type: ignore[override]
        """Whether the layout is CSR (compressed rows)."""
        return self._kind is layouts.sparse_csr

    @property
    def layout(self) -> Any:  # type: ignore[override]
        """``sparse_coo``, or a compressed form: ``sparse_csr``, ``sparse_csc``, ``sparse_bsr``, ``sparse_bsc``."""
        return self._kind

    def stride(self, dim: int | None = None, axis: int | None = None) -> Any:
        """Return zeros: a sparse tensor has no strides."""
        return (0,) * self.array.ndim if dim is None is axis else 0

    def is_coalesced(self) -> bool:
        """Return whether every place is named once, in order."""
        return self._sorted

    def sparse_dim(self) -> int:
        """Return the number of dimensions that places name."""
        return int(self._at.shape[0])

    def dense_dim(self) -> int:
        """Return the number of dimensions of each value."""
        return self.array.ndim - self.sparse_dim()

    def _nnz(self) -> int:
        return int(self._at.shape[1]) // math.prod(self._block or (1,))

    def _indices(self) -> Any:
        return self._at

    def _values(self) -> Any:
        return self._held

    def indices(self) -> Any:
        """Return the places, one column each."""
        self._require_coalesced("indices")
        return self._at

    def values(self) -> Any:
        """Return the values."""
        self._require_coalesced("values")
        return self._held if self._kind in (layouts.sparse_coo, layouts.sparse_csr) else compressed(self)[2]

    def _require_coalesced(self, what: str) -> None:
        if not self._sorted:
            raise RuntimeError(f"Cannot get {what} on an uncoalesced tensor, please call .coalesce() first")

    def crow_indices(self) -> Any:
        """Return the index of each row's first value, and the number of values at the end."""
        self._require("crow_indices", "row", BY_ROWS)
        return compressed(self)[0]

    def col_indices(self) -> Any:
        """Return the column of each value, or block of values."""
        self._require("col_indices", "row", BY_ROWS)
        return compressed(self)[1]

    def ccol_indices(self) -> Any:
        """Return the index of each column's first value, and the number of values at the end."""
        self._require("ccol_indices", "column", BY_COLUMNS)
        return compressed(self)[0]

    def row_indices(self) -> Any:
        """Return the row of each value, or block of values."""
        self._require("row_indices", "column", BY_COLUMNS)
        return compressed(self)[1]

    def _require(self, what: str, which: str, kinds: tuple[Any, ...]) -> None:
        if self._kind not in kinds:
            title = "".join(word.title() for word in repr(self._kind).rpartition(".")[2].split("_"))
            raise RuntimeError(f"{what} expected sparse {which} compressed tensor layout but got {title}")

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        parts = [f"size={tuple(self.shape)}", f"nnz={self._nnz()}", f"layout={self._kind}"]
        if self._kind in COMPRESSED:
            names = ("crow_indices", "col_indices") if self._kind in BY_ROWS else ("ccol_indices", "row_indices")
            shown = dict(zip((*names, "values"), compressed(self), strict=True))
        else:
            shown = {"indices": self._at, "values": self._held.detach()}
        lines = []
        for name, value in shown.items():
            indent = " " * (len(name) + 8)
            first, *rest = repr(value.detach()).split("\n")
            lines.append("\n".join([f"{name}={first}", *(indent + line if line else line for line in rest)]))
        if self.grad_fn is not None:
            parts.append(f"grad_fn=<{self.grad_fn.op.title}>")
        elif self.requires_grad:
            parts.append("requires_grad=True")
        text = "tensor(" + ",\n       ".join(lines)
        if self._kind in COMPRESSED:
            return printing.closed(text, parts, 7)
        return text + ",\n       " + ", ".join(parts) + ")"

    @property
    def T(self) -> Any:
        """The matrix with rows and columns exchanged."""
        return self.t()

    @property
    def mT(self) -> Any:
        """The matrices of the last two dimensions with rows and columns exchanged."""
        return self.transpose(-2, -1)

    def _with(self, values: Any) -> SparseTensor:
        """Return other values at the same places."""
        return SparseTensor.made(self._at, values, tuple(self.shape), self._sorted, self._kind, self._block)

    # --- Other forms ------------------------------------------------------------------------------------

    def coalesce(self) -> SparseTensor:
        """Return the same tensor with every place named once, in order; values of one place are added."""
        if self._sorted:
            return self
        if not self._nnz():
            return SparseTensor.made(self._at, self._held, tuple(self.shape), True, self._kind)
        sizes = self.shape[: self.sparse_dim()]
        flat = np.ravel_multi_index(tuple(self._at.array), tuple(sizes))
        places, where = np.unique(flat, return_inverse=True)
        indices = wrap(np.stack(np.unravel_index(places, tuple(sizes))).astype(np.int64))
        if len(places) == len(flat):
            values = self._held[wrap(np.argsort(flat, kind="stable"))]
        else:
            empty = words.zeros((len(places), *self._held.shape[1:]), dtype=self.dtype, device=self.device)
            values = empty.index_add(0, wrap(where.reshape(-1)), self._held)
        return SparseTensor.made(indices, values, tuple(self.shape), True, self._kind)

    def to_dense(self, dtype: Any = None, *, masked_grad: Any = None) -> Any:
        """Return an ordinary tensor."""
        empty = words.zeros(tuple(self.shape), dtype=self.dtype, device=self.device)
        dense = empty.index_put(tuple(self._at.unbind(0)), self._held, accumulate=True) if self.sparse_dim() else empty
        return dense if dtype is None else dense.to(dtype)

    def to_sparse(self, *args: Any, layout: Any = None, blocksize: Any = None, **kwargs: Any) -> Any:
        """Return the tensor in coordinates, or in another sparse form."""
        wanted = layout or next((a for a in args if isinstance(a, layouts.layout)), layouts.sparse_coo)
        if wanted is self._kind:
            return self
        whole = self.coalesce()
        if wanted in COMPRESSED and self.sparse_dim() != 2:
            refuse(f"to_sparse(layout={wanted}) of other than matrices")
        if wanted in BY_BLOCKS:
            if blocksize is None:
                raise RuntimeError(f"conversion from {self._kind} to {wanted} requires blocksize")
            block = (int(blocksize[0]), int(blocksize[1]))
            return SparseTensor.made(*blocks_of(whole, block), tuple(self.shape), True, wanted, block)
        return SparseTensor.made(whole._at, whole._held, tuple(self.shape), True, wanted)

    def to_sparse_coo(self) -> Any:
        """Return the tensor in coordinates."""
        return self.to_sparse(layout=layouts.sparse_coo)

    def to_sparse_csr(self, dense_dim: int | None = None) -> Any:
        """Return the tensor in compressed rows."""
        return self.to_sparse(layout=layouts.sparse_csr)

    def to_sparse_csc(self, dense_dim: int | None = None) -> Any:
        """Return the tensor in compressed columns."""
        return self.to_sparse(layout=layouts.sparse_csc)

    def to_sparse_bsr(self, blocksize: Any, dense_dim: int | None = None) -> Any:
        """Return the tensor in compressed rows of blocks."""
        return self.to_sparse(layout=layouts.sparse_bsr, blocksize=blocksize)

    def to_sparse_bsc(self, blocksize: Any, dense_dim: int | None = None) -> Any:
        """Return the tensor in compressed columns of blocks."""
        return self.to_sparse(layout=layouts.sparse_bsc, blocksize=blocksize)

    def type(self, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
        """Return the name of the kind of tensor, or the tensor with another dtype."""
        if dtype is not None:
            return self._with(self._held.type(dtype))
        return f"{printing.PACKAGE}.sparse.{self._held.dtype.title}Tensor"

    def numpy(self, *, force: bool = False) -> NoReturn:
        """Raise: the elements are not in one array."""
        raise TypeError("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.")

    def backward(self, gradient: Any = None, *args: Any, **kwargs: Any) -> None:
        """Compute gradients of the values."""
        self._held.backward(None if gradient is None else gradient.coalesce()._held, *args, **kwargs)

    def __reduce_ex__(self, protocol: Any) -> Any:
        parts = self._at, self._held, tuple(self.shape), self._sorted, repr(self._kind).rpartition(".")[2], self._block
        return _rebuilt, parts

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        import copy

        memo[id(self)] = made = SparseTensor.made(
            self._at, copy.deepcopy(self._held, memo), tuple(self.shape), self._sorted, self._kind, self._block
        )
        return made


def _rebuilt(
    indices: Any, values: Any, size: tuple[int, ...], coalesced: bool, kind: str, block: Any = None
) -> SparseTensor:
    """Return a sparse tensor from its parts, as a pickle has them."""
    form = getattr(layouts, kind.rpartition(".")[2], layouts.sparse_coo)
    return SparseTensor.made(indices, values, size, coalesced, form, block)


# Methods of Tensor that read nothing but shape and dtype.
_DESCRIBING = {
    "size", "dim", "ndimension", "numel", "nelement", "element_size", "is_floating_point", "is_complex", "is_signed",
    "get_device", "__get__", "__len__", "is_same_size", "__hash__", "is_pinned", "is_shared", "is_conj", "is_neg",
    "is_inference", "__dir__", "__format__", "is_contiguous", "register_hook",
}  # fmt: skip
