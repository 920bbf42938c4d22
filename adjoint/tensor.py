"""class Tensor: the table of its methods, and its attributes."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, overload

from . import subclasses
from .core import device as devices
from .core import dtypes, fast_path, modes, nodes, overrides
from .core import layout as layouts
from .core.handles import warn_if_has_hooks
from .core.nodes import output_index, shown, wrap
from .core.payload import Payload, has_seen_history, history_below
from .core.recorders import public
from .core.size import Size
from .core.tensor import STALE, InferenceStorage, TensorBase, retaining, storage_of
from .core.views import edge_of, has_history
from .core.writable import is_bare, is_leaf_node
from .methods import geometry, graph, protocols
from .ops import (
    activation,
    bessel,
    compare,
    contraction,
    convert,
    copied,
    copies,
    create_like,
    decomposition,
    dimensions,
    elementwise,
    extremes,
    floating,
    forms,
    histograms,
    interop,
    kinds,
    matrix,
    measure,
    parts,
    piecewise,
    places,
    products,
    questions,
    random,
    removed,
    scan,
    signal,
    sorting,
    special,
    subscript,
    trigonometry,
)
from .ops import arrange as arranging
from .ops import gather as gathering
from .ops import index_put as writing
from .ops import join as joining
from .ops import memory as memories
from .ops import power as powers
from .ops import reduce as reductions
from .ops import scatter as scattering
from .ops import shape as shapes
from .ops import slices as slicing
from .ops import softmax as exponentials

if TYPE_CHECKING:
    from typing import Self

    from ._typing import Array, Extremes, Operand


class Tensor(TensorBase):
    """An array of numbers that records what is computed from it.

    Programs make tensors by `tensor`, `zeros`, `rand` and the like. The class itself makes tensors of the default
    dtype, from sizes or from data.

    Parameters
    ----------
    *args : int or sequence
        ``Tensor(2, 3)`` is uninitialized memory of shape (2, 3), ``Tensor([2, 3])`` has the elements 2 and 3.
    device : device or str, optional
        Where to make it; the CPU by default.
    **kwargs
        Those of subclasses.

    Examples
    --------
    >>> x = adjoint.tensor(2.0, requires_grad=True)
    >>> (x**2 * 2 + 1).backward()
    >>> x.grad
    tensor(8.)
    >>> adjoint.Tensor([2, 3])
    tensor([2., 3.])
    """

    __module__ = "adjoint"

    __slots__ = ("__dict__",)
    __array_priority__ = 1000.0

    def __new__(cls, *args: Any, device: Any = None, **kwargs: Any) -> Any:
        """Make a tensor of the default dtype: ``Tensor(2, 3)`` unset, ``Tensor([1.0, 2.0])`` of values."""
        if cls is Tensor and kwargs:
            raise TypeError(f"new() received an invalid combination of arguments: {sorted(kwargs)}")
        if len(args) == 1 and isinstance(args[0], TensorBase):
            out = wrap(args[0].array, None, storage_of(args[0]))
        else:
            out = create_like.constructed(dtypes.default(), device, args)
        return out if cls is Tensor else protocols.of_kind(out, cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: `__new__` has made the tensor."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        subclasses.prepare(cls, Tensor)

    # --- Identity, shape, memory -------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        """The size of each dimension, a tuple.

        Examples
        --------
        >>> x = adjoint.zeros(2, 3)
        >>> x.shape
        adjoint.Size([2, 3])
        >>> rows, columns = x.shape
        >>> x.shape[-1]
        3
        """
        return tuple.__new__(Size, self.array.shape)

    @property
    def ndim(self) -> int:
        """The number of dimensions.

        Examples
        --------
        >>> adjoint.tensor(1.0).ndim, adjoint.zeros(2, 3).ndim
        (0, 2)
        """
        return self.array.ndim  # type: ignore[no-any-return]

    def dim(self) -> int:
        """Return the number of dimensions: the method form of `ndim`.

        Returns
        -------
        int
            0 for a scalar.

        Examples
        --------
        >>> adjoint.tensor(1.0).dim(), adjoint.zeros(2, 3).dim()
        (0, 2)
        """
        return self.array.ndim  # type: ignore[no-any-return]

    ndimension = dim

    def numel(self) -> int:
        """Return the number of elements: the product of the sizes.

        Returns
        -------
        int
            1 for a scalar, 0 if a dimension is empty.

        Examples
        --------
        >>> adjoint.zeros(2, 3).numel(), adjoint.zeros(2, 0).numel()
        (6, 0)
        """
        return math.prod(self.array.shape)

    nelement = numel

    @property
    def dtype(self) -> dtypes.dtype:
        """The data type of the elements.

        Examples
        --------
        >>> adjoint.tensor([1.0]).dtype, adjoint.tensor([1]).dtype
        (adjoint.float32, adjoint.int64)
        """
        return dtypes.of(self.array.dtype)

    @property
    def device(self) -> devices.device:
        """The device whose memory holds the elements.

        Examples
        --------
        >>> x = adjoint.zeros(2)
        >>> x.device
        device(type='cpu')
        >>> adjoint.ones(3, device=x.device).device.type
        'cpu'
        """
        return devices.of(self.array)

    @property
    def is_cuda(self) -> bool:
        """Whether the memory is on a GPU.

        Examples
        --------
        >>> adjoint.zeros(2).is_cuda
        False
        """
        return self.device.type == "cuda"

    @property
    def is_cpu(self) -> bool:
        """Whether the memory is the CPU's.

        Examples
        --------
        >>> adjoint.zeros(2).is_cpu
        True
        """
        return self.device.type == "cpu"

    @property
    def is_meta(self) -> bool:
        """Whether the tensor has a shape and no elements."""
        return self.device.type == "meta"

    is_mps = is_sparse = is_sparse_csr = is_quantized = is_mkldnn = is_nested = is_xpu = False
    is_ipu = is_maia = is_mtia = is_vulkan = is_xla = False
    layout = layouts.strided
    name = None

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self.array.itemsize  # type: ignore[no-any-return]

    def element_size(self) -> int:
        """Return the bytes per element.

        Returns
        -------
        int
            Of the dtype, whatever the number of elements.

        Examples
        --------
        >>> adjoint.zeros(5).element_size(), adjoint.zeros(5, dtype=adjoint.float64).element_size()
        (4, 8)
        """
        return self.array.itemsize  # type: ignore[no-any-return]

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.numel() * self.itemsize

    size, stride, storage_offset = geometry.size, geometry.stride, geometry.storage_offset
    data_ptr = const_data_ptr = geometry.data_ptr
    is_contiguous, get_device, module_load = geometry.is_contiguous, geometry.get_device, geometry.module_load
    untyped_storage, storage = memories.untyped_storage, memories.storage
    _typed_storage = memories.typed_storage
    dim_order, is_set_to = memories.dim_order, memories.is_set_to
    pin_memory, share_memory_ = memories.pin_memory, memories.share_memory_
    is_same_size = questions.is_same_size

    is_floating_point, is_complex, is_signed = geometry.is_floating_point, geometry.is_complex, geometry.is_signed
    is_conj = is_neg = is_pinned = is_distributed = geometry.is_conj
    is_shared = memories.is_shared
    is_nonzero = questions.truth_of

    def record_stream(self, stream: Any) -> None:
        """Do nothing: CuPy's memory pool knows which streams use a tensor."""

    to_sparse = to_sparse_coo = forms.to_sparse
    to_sparse_csc, to_sparse_bsr, to_sparse_bsc = forms.to_sparse_csc, forms.to_sparse_bsr, forms.to_sparse_bsc
    ccol_indices, row_indices = forms.ccol_indices, forms.row_indices
    to_sparse_csr, sparse_mask, to_dense = forms.to_sparse_csr, forms.sparse_mask, forms.to_dense
    dense_dim, sparse_dim = forms.dense_dim, forms.sparse_dim
    is_coalesced, coalesce, indices, values = forms.is_coalesced, forms.coalesce, forms.indices, forms.values
    crow_indices, col_indices, dequantize = forms.crow_indices, forms.col_indices, forms.dequantize
    int_repr, q_scale, q_zero_point, qscheme = forms.int_repr, forms.q_scale, forms.q_zero_point, forms.qscheme
    q_per_channel_axis, q_per_channel_scales = forms.q_per_channel_axis, forms.q_per_channel_scales
    q_per_channel_zero_points = forms.q_per_channel_zero_points

    # --- Graph -------------------------------------------------------------------------------------

    _require_grad, requires_grad_, _rest = graph.require_grad, graph.requires_grad_, graph.rest
    retain_grad, backward, detach, detach_ = graph.retain_grad, graph.backward, graph.detach, graph.detach_
    register_hook = graph.register_hook
    register_post_accumulate_grad_hook = graph.register_post_accumulate_grad_hook

    @property
    def requires_grad(self) -> bool:
        """Whether ops on this tensor are recorded, so that `backward` computes its gradient.

        It may be set for a leaf of a floating or complex dtype. The result of an op requires a gradient if an operand
        does.

        Examples
        --------
        >>> x = adjoint.tensor([1.0, 2.0])
        >>> x.requires_grad = True
        >>> (x * 2).requires_grad
        True
        """
        if modes.transforms and self.node is not None:
            node = edge_of(self)
            return node is not None and has_seen_history(node)
        if modes.unusual and (self.node is None or (self.node is STALE and isinstance(self.array, Payload))):
            return has_history(self)
        return self.node is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        graph.set_requires_grad(self, value)

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded op made this tensor: `backward` puts gradients into the ``.grad`` of leaves.

        A tensor that requires no gradient is a leaf, too.

        Examples
        --------
        >>> x = adjoint.tensor([1.0, 2.0], requires_grad=True)
        >>> x.is_leaf, (x * 2).is_leaf, (x * 2).detach().is_leaf
        (True, False, True)
        """
        node = self.node
        if node is None:
            return not modes.unusual or history_below(self) is None
        node = edge_of(self) if node is STALE else node
        return is_leaf_node(node) or (modes.transforms > 0 and graph.looks_like_leaf(node))

    @property
    def grad_fn(self) -> Any:
        """The graph node of the op that made this tensor; None for a leaf.

        Examples
        --------
        >>> x = adjoint.tensor([1.0, 2.0], requires_grad=True)
        >>> y = x.exp().sum()
        >>> y.grad_fn.name()
        'SumBackward0'
        >>> y.grad_fn.next_functions[0][0].name()
        'ExpBackward0'
        >>> x.grad_fn is None
        True
        """
        node = self.node
        if node is None and modes.unusual:
            below = history_below(self)
            return None if below is None else below.grad_fn
        if node is None or is_leaf_node(node):
            return None
        node = edge_of(self)
        if modes.transforms and graph.looks_like_leaf(node):
            return None
        nodes.note_form(node, self)
        return shown(node)

    @property
    def output_nr(self) -> int:
        """Which output of `grad_fn` this is."""
        return 0 if self.node is None else output_index(edge_of(self))

    @property
    def grad(self) -> Any:
        """The gradient that backward passes have added up; None before the first.

        Only leaves that require a gradient get one, and tensors whose `retain_grad` was called. It may be set to None,
        or to a tensor of the same shape, dtype and device.

        Examples
        --------
        >>> x = adjoint.tensor([1.0, 2.0], requires_grad=True)
        >>> (x**2).sum().backward()
        >>> x.grad
        tensor([2., 4.])
        >>> (x**2).sum().backward()
        >>> x.grad
        tensor([4., 8.])
        >>> x.grad = None
        """
        if modes.unusual and self.node is None:
            below = history_below(self)
            if below is not None:
                return below.grad
        if self._grad is None and not is_bare(self) and not self.retains_grad:
            graph.warn_grad_of_non_leaf()
        return self._grad

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is not None:
            graph.check_grad(self, value)
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self._grad = None

    @property
    def grad_dtype(self) -> Any:
        """The dtype that gradients of this leaf are given: its own unless set; None leaves each as it is."""
        return graph.get_grad_dtype(self)

    @grad_dtype.setter
    def grad_dtype(self, value: Any) -> None:
        graph.set_grad_dtype(self, value)

    @property
    def retains_grad(self) -> bool:
        """Whether `retain_grad` was called."""
        node = self.node
        if id(self) in retaining:
            return True
        if node is STALE or node is None or node.extra is None or node.extra.retain is None:
            return False
        return node.extra.retain() is self

    @property
    def _version(self) -> int:
        storage = self.memory
        if type(storage) is InferenceStorage:
            raise RuntimeError("Inference tensors do not track version counter.")
        return 0 if storage is None or storage.ledger is None else storage.ledger.version

    @property
    def _base(self) -> Any:
        if self.lineage is None:
            below = self.array.below() if modes.unusual and type(self.array).__name__ == "Dual" else None
            return None if below is None else getattr(below, "_base", None)
        return None if self.is_inference() else self.lineage.base

    def _is_view(self) -> bool:
        return self._base is not None

    def is_inference(self) -> bool:
        """Return whether this tensor was made in inference mode."""
        return type(self.memory) is InferenceStorage

    @property
    def data(self) -> Tensor:
        """The elements without history, sharing memory with this tensor.

        Writes to it change this tensor, and the backward pass does not notice them. `detach` gives a tensor whose
        writes it does notice. Assigning a tensor makes this one hold its elements.

        Examples
        --------
        >>> w = adjoint.tensor([1.0, 2.0], requires_grad=True)
        >>> w.data -= 0.5
        >>> w
        tensor([0.5000, 1.5000], requires_grad=True)
        >>> w.data.requires_grad
        False
        """
        return graph.get_data(self)

    @data.setter
    def data(self, value: Tensor) -> None:
        graph.set_data(self, value)

    # --- Other forms -------------------------------------------------------------------------------

    item, tolist, numpy = protocols.item, protocols.tolist, protocols.numpy
    __array__, __array_wrap__ = protocols.as_array, protocols.wrap_array
    __array_ufunc__, __array_function__ = protocols.from_ufunc, protocols.from_function
    __dlpack__, __dlpack_device__ = interop.export, protocols.dlpack_device
    __copy__, __deepcopy__ = copies.shallow_copy, copies.deep_copy
    __bool__ = __nonzero__ = protocols.as_bool
    __int__, __float__, __complex__ = protocols.as_int, protocols.as_float, protocols.as_complex
    __index__, __delitem__ = protocols.as_index, protocols.delete_item
    __len__, __iter__, __reversed__ = protocols.length, protocols.iterate, protocols.reverse
    __contains__ = protocols.contains
    as_subclass = protocols.as_subclass
    _make_subclass = staticmethod(protocols.make_subclass)
    _make_wrapper_subclass = staticmethod(protocols.make_wrapper_subclass)

    def __hash__(self) -> int:
        return id(self)

    def __format__(self, format_spec: str) -> str:
        plain = not isinstance(self.array, Payload) or self.array.level > 0  # a batch says why it has no number
        if self.array.ndim == 0 and self.__class__ is Tensor and plain:
            return format(self.item(), format_spec)
        return object.__format__(self, format_spec)

    def __repr__(self) -> str:
        return convert.text_of(self)

    def _repr_html_(self) -> str:
        return protocols.as_html(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        warn_if_has_hooks(self)
        return copies.reduce_tensor(self)

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state)

    def __dir__(self) -> list[str]:
        return sorted({*dir(self.__class__), *self.__dict__})

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return overrides.default_torch_function(cls, func, types, args, kwargs)

    # --- Names that torch's own code and suites use --------------------------------------------------

    _is_zerotensor, _is_all_true, _is_any_true = is_conj, protocols.is_all_true, protocols.is_any_true
    _conj, xpu = shapes.conj, protocols.xpu

    @property
    def _grad_fn(self) -> Any:
        return self.grad_fn

    @property
    def _backward_hooks(self) -> Any:
        extra = getattr(self.node, "extra", None)
        return getattr(extra, "tensor_hooks", None) or None

    @property
    def _post_accumulate_grad_hooks(self) -> Any:
        return getattr(self.node, "post_hooks", None)

    @property
    def _cdata(self) -> int:
        return id(self)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with protocols.dispatched().HandlersOff():
            return func(*args, **(kwargs or {}))

    # --- Operators: what checkers see, and the rows, which are primitives that take and give anything ---
    if TYPE_CHECKING:

        def __add__(self, other: Operand, /) -> Tensor: ...
        def __radd__(self, other: Operand, /) -> Tensor: ...
        def __sub__(self, other: Operand, /) -> Tensor: ...
        def __rsub__(self, other: Operand, /) -> Tensor: ...
        def __mul__(self, other: Operand, /) -> Tensor: ...
        def __rmul__(self, other: Operand, /) -> Tensor: ...
        def __truediv__(self, other: Operand, /) -> Tensor: ...
        def __rtruediv__(self, other: Operand, /) -> Tensor: ...
        def __floordiv__(self, other: Operand, /) -> Tensor: ...
        def __rfloordiv__(self, other: Operand, /) -> Tensor: ...
        def __mod__(self, other: Operand, /) -> Tensor: ...
        def __rmod__(self, other: Operand, /) -> Tensor: ...
        def __pow__(self, other: Operand, /) -> Tensor: ...
        def __rpow__(self, other: Operand, /) -> Tensor: ...
        def __matmul__(self, other: Tensor | Array, /) -> Tensor: ...
        def __rmatmul__(self, other: Tensor | Array, /) -> Tensor: ...
        def __lt__(self, other: Operand, /) -> Tensor: ...
        def __le__(self, other: Operand, /) -> Tensor: ...
        def __gt__(self, other: Operand, /) -> Tensor: ...
        def __ge__(self, other: Operand, /) -> Tensor: ...
        def __and__(self, other: Operand, /) -> Tensor: ...
        def __rand__(self, other: Operand, /) -> Tensor: ...
        def __or__(self, other: Operand, /) -> Tensor: ...
        def __ror__(self, other: Operand, /) -> Tensor: ...
        def __xor__(self, other: Operand, /) -> Tensor: ...
        def __rxor__(self, other: Operand, /) -> Tensor: ...
        def __lshift__(self, other: Operand, /) -> Tensor: ...
        def __rlshift__(self, other: Operand, /) -> Tensor: ...
        def __rshift__(self, other: Operand, /) -> Tensor: ...
        def __rrshift__(self, other: Operand, /) -> Tensor: ...
        def __eq__(self, other: object, /) -> Tensor: ...  # type: ignore[override]
        def __ne__(self, other: object, /) -> Tensor: ...  # type: ignore[override]
        def __iadd__(self, other: Operand, /) -> Self: ...
        def __isub__(self, other: Operand, /) -> Self: ...
        def __imul__(self, other: Operand, /) -> Self: ...
        def __itruediv__(self, other: Operand, /) -> Self: ...
        def __ifloordiv__(self, other: Operand, /) -> Self: ...
        def __imod__(self, other: Operand, /) -> Self: ...
        def __ipow__(self, other: Operand, /) -> Self: ...
        def __iand__(self, other: Operand, /) -> Self: ...
        def __ior__(self, other: Operand, /) -> Self: ...
        def __ixor__(self, other: Operand, /) -> Self: ...
        def __ilshift__(self, other: Operand, /) -> Self: ...
        def __irshift__(self, other: Operand, /) -> Self: ...
        def __getitem__(self, index: Any, /) -> Tensor: ...
        @overload
        def max(self) -> Tensor: ...
        @overload
        def max(self, dim: int, keepdim: bool = False) -> Extremes: ...
        @overload
        def max(self, other: Tensor, /) -> Tensor: ...
        def max(self, *args: Any, **kwargs: Any) -> Any: ...  # noqa: D102
        @overload
        def min(self) -> Tensor: ...
        @overload
        def min(self, dim: int, keepdim: bool = False) -> Extremes: ...
        @overload
        def min(self, other: Tensor, /) -> Tensor: ...
        def min(self, *args: Any, **kwargs: Any) -> Any: ...  # noqa: D102
    else:
        __add__ = __radd__ = elementwise.add_p
        __sub__ = elementwise.sub_p
        __rsub__ = elementwise.rsub
        __mul__ = __rmul__ = elementwise.mul
        __truediv__ = elementwise.div_p
        __rtruediv__ = __rdiv__ = powers.rdiv
        __floordiv__, __rfloordiv__ = elementwise.div_floor_p, elementwise.rfloordiv
        __mod__, __rmod__ = elementwise.remainder_p, elementwise.rremainder
        __pow__, __rpow__ = powers.power, powers.rpow
        __eq__, __ne__ = compare.eq_operator, compare.ne_operator
        __lt__, __le__, __gt__, __ge__ = compare.lt_p, compare.le_p, compare.gt_p, compare.ge_p
        __and__ = __rand__ = compare.bitwise_and_p
        __or__ = __ror__ = compare.bitwise_or_p
        __xor__ = __rxor__ = compare.bitwise_xor_p
        __lshift__, __rlshift__ = compare.bitwise_left_shift_p, compare.rlshift
        __rshift__, __rrshift__ = compare.bitwise_right_shift_p, compare.rrshift
        __matmul__ = contraction.matmul_operator
        __rmatmul__ = contraction.rmatmul_operator
        __getitem__ = subscript.getitem
        max, min = extremes.max, extremes.min
        __iadd__ = elementwise.add_
        __isub__ = elementwise.sub_
        __imul__ = elementwise.mul_
        __itruediv__ = __idiv__ = elementwise.div_
        __ifloordiv__ = elementwise.floor_divide_
        __imod__ = elementwise.remainder_
        __ipow__ = powers.pow_
        __iand__ = compare.bitwise_and_
        __ior__ = compare.bitwise_or_
        __ixor__ = compare.bitwise_xor_
        __ilshift__ = compare.bitwise_left_shift_
        __irshift__ = compare.bitwise_right_shift_

    # Primitives themselves, with no frame of a public function in between.
    @public(compare.isnan_p)
    def isnan(self) -> Tensor:
        """Return for each element whether it is NaN, not a number.

        Returns
        -------
        Tensor
            Of dtype bool and the shape of this tensor. A complex number is NaN if one of its parts is.

        Examples
        --------
        >>> adjoint.tensor([1.0, float("nan"), float("inf")]).isnan()
        tensor([False,  True, False])
        """

    @public(compare.isinf_p)
    def isinf(self) -> Tensor:
        """Return for each element whether it is infinite, of either sign.

        Returns
        -------
        Tensor
            Of dtype bool and the shape of this tensor. A complex number is infinite if one of its parts is.

        Examples
        --------
        >>> adjoint.tensor([1.0, float("-inf"), float("nan")]).isinf()
        tensor([False,  True, False])
        """

    @public(compare.isfinite_p)
    def isfinite(self) -> Tensor:
        """Return for each element whether it is neither infinite nor NaN.

        Returns
        -------
        Tensor
            Of dtype bool and the shape of this tensor. A complex number is finite if both of its parts are.

        Examples
        --------
        >>> adjoint.tensor([1.0, float("inf"), float("nan")]).isfinite()
        tensor([ True, False, False])
        """

    @public(activation.relu_p)
    def relu(self) -> Tensor:
        """Return the positive part of each element: ``max(0, x)``.

        Returns
        -------
        Tensor
            Of the same shape and dtype. The gradient at zero is zero.

        Examples
        --------
        >>> adjoint.tensor([-1.0, 0.0, 2.0]).relu()
        tensor([0., 0., 2.])
        """

    # --- The table of methods: one row per op, in the order of the modules ---------------------------
    # elementwise
    __neg__ = neg = negative = elementwise.neg
    __pos__ = positive = elementwise.positive
    add_ = elementwise.add_
    sub_ = subtract_ = elementwise.sub_
    mul_ = multiply_ = elementwise.mul_
    div_ = divide_ = true_divide_ = elementwise.div_
    floor_divide_ = elementwise.floor_divide_
    remainder_ = elementwise.remainder_
    pow_ = powers.pow_
    neg_ = negative_ = elementwise.neg_
    add = elementwise.add
    sub = subtract = elementwise.sub
    mul = multiply = elementwise.mul
    div = divide = true_divide = elementwise.div
    floor_divide = elementwise.floor_divide
    remainder = elementwise.remainder
    fmod, fmod_ = elementwise.fmod, elementwise.fmod_
    pow = powers.pow
    float_power, float_power_ = powers.float_power, powers.float_power_
    square, square_ = powers.square, powers.square_
    addcmul, addcmul_ = elementwise.addcmul, elementwise.addcmul_
    addcdiv, addcdiv_ = elementwise.addcdiv, elementwise.addcdiv_
    lerp, lerp_ = elementwise.lerp, elementwise.lerp_
    sqrt, sqrt_ = powers.sqrt, powers.sqrt_
    rsqrt, rsqrt_ = powers.rsqrt, powers.rsqrt_
    reciprocal, reciprocal_ = powers.reciprocal, powers.reciprocal_
    exp, exp_ = elementwise.exp, elementwise.exp_
    exp2, exp2_ = elementwise.exp2, elementwise.exp2_
    expm1, expm1_ = elementwise.expm1, elementwise.expm1_
    log, log_ = elementwise.log, elementwise.log_
    log2, log2_ = elementwise.log2, elementwise.log2_
    log10, log10_ = elementwise.log10, elementwise.log10_
    log1p, log1p_ = elementwise.log1p, elementwise.log1p_
    sigmoid, sigmoid_ = elementwise.sigmoid, elementwise.sigmoid_
    sin, sin_ = trigonometry.sin, trigonometry.sin_
    cos, cos_ = trigonometry.cos, trigonometry.cos_
    tan, tan_ = trigonometry.tan, trigonometry.tan_
    sinh, sinh_ = trigonometry.sinh, trigonometry.sinh_
    cosh, cosh_ = trigonometry.cosh, trigonometry.cosh_
    tanh, tanh_ = trigonometry.tanh, trigonometry.tanh_
    asin = arcsin = trigonometry.asin
    asin_ = arcsin_ = trigonometry.asin_
    acos = arccos = trigonometry.acos
    acos_ = arccos_ = trigonometry.acos_
    atan = arctan = trigonometry.atan
    atan_ = arctan_ = trigonometry.atan_
    asinh = arcsinh = trigonometry.asinh
    asinh_ = arcsinh_ = trigonometry.asinh_
    acosh = arccosh = trigonometry.acosh
    acosh_ = arccosh_ = trigonometry.acosh_
    atanh = arctanh = trigonometry.atanh
    atanh_ = arctanh_ = trigonometry.atanh_
    atan2 = arctan2 = trigonometry.atan2
    atan2_ = arctan2_ = trigonometry.atan2_
    hypot, hypot_ = trigonometry.hypot, trigonometry.hypot_
    deg2rad, deg2rad_ = trigonometry.deg2rad, trigonometry.deg2rad_
    rad2deg, rad2deg_ = trigonometry.rad2deg, trigonometry.rad2deg_
    angle = trigonometry.angle
    conj_physical_ = trigonometry.conj_physical_
    zero_ = elementwise.zero_
    fill_ = elementwise.fill_
    apply_, map_, map2_ = elementwise.apply_, elementwise.map_, elementwise.map2_

    # piecewise
    where = piecewise.where_method
    masked_fill, masked_fill_ = piecewise.masked_fill, piecewise.masked_fill_
    maximum, minimum = piecewise.maximum, piecewise.minimum
    fmax, fmin = piecewise.fmax, piecewise.fmin
    clamp = clip = piecewise.clamp
    clamp_ = clip_ = piecewise.clamp_
    clamp_min, clamp_min_ = piecewise.clamp_min, piecewise.clamp_min_
    clamp_max, clamp_max_ = piecewise.clamp_max, piecewise.clamp_max_
    __abs__ = abs = absolute = piecewise.abs
    abs_ = absolute_ = piecewise.abs_
    sign, sign_ = piecewise.sign, piecewise.sign_
    sgn, sgn_ = piecewise.sgn, piecewise.sgn_
    floor, floor_ = piecewise.floor, piecewise.floor_
    ceil, ceil_ = piecewise.ceil, piecewise.ceil_
    trunc = fix = piecewise.trunc
    trunc_ = fix_ = piecewise.trunc_
    round, round_ = piecewise.round, piecewise.round_
    frac, frac_ = piecewise.frac, piecewise.frac_
    nan_to_num, nan_to_num_ = piecewise.nan_to_num, piecewise.nan_to_num_

    # compare
    eq, ne, lt, le, gt, ge = compare.eq, compare.ne, compare.lt, compare.le, compare.gt, compare.ge
    eq_, ne_, lt_, le_, gt_, ge_ = compare.eq_, compare.ne_, compare.lt_, compare.le_, compare.gt_, compare.ge_
    not_equal, less, less_equal, greater, greater_equal = ne, lt, le, gt, ge
    not_equal_, less_, less_equal_, greater_, greater_equal_ = ne_, lt_, le_, gt_, ge_
    __invert__ = bitwise_not = compare.bitwise_not
    bitwise_and_ = compare.bitwise_and_
    bitwise_or_ = compare.bitwise_or_
    bitwise_xor_ = compare.bitwise_xor_
    bitwise_left_shift_ = compare.bitwise_left_shift_
    bitwise_right_shift_ = compare.bitwise_right_shift_
    bitwise_not_ = compare.bitwise_not_
    bitwise_and, bitwise_or, bitwise_xor = compare.bitwise_and, compare.bitwise_or, compare.bitwise_xor
    bitwise_left_shift, bitwise_right_shift = compare.bitwise_left_shift, compare.bitwise_right_shift
    logical_and, logical_and_ = compare.logical_and, compare.logical_and_
    logical_or, logical_or_ = compare.logical_or, compare.logical_or_
    logical_xor, logical_xor_ = compare.logical_xor, compare.logical_xor_
    logical_not, logical_not_ = compare.logical_not, compare.logical_not_
    signbit = compare.signbit
    isposinf, isneginf, isreal = compare.isposinf, compare.isneginf, compare.isreal
    isclose, allclose, equal = compare.isclose, compare.allclose, compare.equal

    # activation and special
    relu_ = activation.relu_
    prelu, hardshrink = activation.prelu, activation.hardshrink
    erf, erf_ = special.erf, special.erf_
    erfc, erfc_ = special.erfc, special.erfc_
    erfinv, erfinv_ = special.erfinv, special.erfinv_
    lgamma, lgamma_ = special.lgamma, special.lgamma_
    digamma, digamma_ = special.digamma, special.digamma_
    polygamma, polygamma_ = special.polygamma_method, special.polygamma_
    mvlgamma, mvlgamma_ = special.mvlgamma, special.mvlgamma_
    igamma, igamma_ = special.igamma, special.igamma_
    igammac, igammac_ = special.igammac, special.igammac_
    i0, i0_ = bessel.i0, bessel.i0_
    sinc, sinc_ = bessel.sinc, bessel.sinc_
    logit, logit_ = special.logit, special.logit_
    xlogy, xlogy_ = special.xlogy, special.xlogy_
    logaddexp, logaddexp2 = special.logaddexp, special.logaddexp2
    copysign, copysign_ = floating.copysign, floating.copysign_
    nextafter, nextafter_ = floating.nextafter, floating.nextafter_
    heaviside, heaviside_ = floating.heaviside, floating.heaviside_
    gcd, gcd_ = floating.gcd, floating.gcd_
    lcm, lcm_ = floating.lcm, floating.lcm_
    ldexp, ldexp_ = floating.ldexp, floating.ldexp_
    frexp = floating.frexp

    # reductions
    sum, nansum = reductions.sum, reductions.nansum
    sum_to_size = reductions.sum_to_size
    mean, nanmean = reductions.mean, reductions.nanmean
    prod = reductions.prod
    var, std = reductions.var, reductions.std
    logsumexp = exponentials.logsumexp
    softmax, log_softmax = exponentials.softmax, exponentials.log_softmax
    all, any = reductions.all, reductions.any
    count_nonzero = reductions.count_nonzero
    amax, amin, aminmax = extremes.amax, extremes.amin, extremes.aminmax
    argmax, argmin = extremes.argmax, extremes.argmin
    median, nanmedian, mode = extremes.median, extremes.nanmedian, extremes.mode
    quantile, nanquantile = extremes.quantile, extremes.nanquantile
    cumsum, cumsum_ = scan.cumsum, scan.cumsum_
    cumprod, cumprod_ = scan.cumprod, scan.cumprod_
    logcumsumexp = scan.logcumsumexp
    cummax, cummin = scan.cummax, scan.cummin
    diff = scan.diff
    histc, bincount, histogram = histograms.histc, histograms.bincount, histograms.histogram
    hash_tensor = histograms.hash_tensor
    norm, dist = measure.norm, measure.dist
    renorm, renorm_ = measure.renorm, measure.renorm_
    cov, corrcoef = measure.cov, measure.corrcoef
    stft, istft = signal.stft, signal.istft

    # shapes
    clone = shapes.clone
    contiguous = shapes.contiguous
    conj, conj_physical = shapes.conj, shapes.conj_physical
    resolve_conj, resolve_neg = shapes.resolve_conj, shapes.resolve_neg
    view, view_as = shapes.view, shapes.view_as
    reshape, reshape_as = shapes.reshape, shapes.reshape_as
    flatten, unflatten, ravel = shapes.flatten, shapes.unflatten, shapes.ravel
    squeeze, squeeze_ = dimensions.squeeze, dimensions.squeeze_
    unsqueeze, unsqueeze_ = dimensions.unsqueeze, dimensions.unsqueeze_
    expand, expand_as, broadcast_to = shapes.expand, shapes.expand_as, shapes.broadcast_to
    permute = dimensions.permute
    transpose, transpose_ = dimensions.transpose, dimensions.transpose_
    swapaxes, swapaxes_ = dimensions.swapaxes, dimensions.swapaxes_
    swapdims, swapdims_ = dimensions.swapdims, dimensions.swapdims_
    t, t_ = dimensions.t, dimensions.t_
    T = property(dimensions.numpy_transpose)
    mT = property(dimensions.matrix_transpose)
    H = property(dimensions.conjugate_transpose)
    mH = property(dimensions.adjoint)
    adjoint = dimensions.adjoint
    movedim, moveaxis = dimensions.movedim, dimensions.moveaxis
    diagonal, diag_embed, diag = parts.diagonal, parts.diag_embed, parts.diag
    diagflat, trace = parts.diagflat, parts.trace
    unfold = parts.unfold
    real = property(kinds.real)
    imag = property(kinds.imag)

    # arranging
    repeat, tile, repeat_interleave = arranging.repeat, arranging.tile, arranging.repeat_interleave
    flip, fliplr, flipud = arranging.flip, arranging.fliplr, arranging.flipud
    roll, rot90 = arranging.roll, arranging.rot90
    tril, tril_ = arranging.tril, arranging.tril_
    triu, triu_ = arranging.triu, arranging.triu_
    as_strided, as_strided_ = parts.as_strided, parts.as_strided_

    # joining and splitting
    split, split_with_sizes, chunk = joining._split_method, joining.split_with_sizes, joining.chunk
    unsafe_split, unsafe_chunk = joining.unsafe_split, joining.unsafe_chunk
    unsafe_split_with_sizes, fill_diagonal_ = places.unsafe_split_with_sizes, places.fill_diagonal_
    tensor_split = joining.tensor_split
    hsplit, vsplit, dsplit = joining.hsplit, joining.vsplit, joining.dsplit
    unbind = joining.unbind

    # indexing
    __setitem__ = writing.setitem
    select, narrow, narrow_copy = parts.select, parts.narrow, parts.narrow_copy
    select_scatter, slice_scatter = parts.select_scatter, parts.slice_scatter
    diagonal_scatter, as_strided_scatter = copied.diagonal_scatter, copied.as_strided_scatter
    index_put, index_put_ = writing.index_put, writing.index_put_
    gather, take_along_dim = gathering.gather, gathering.take_along_dim
    scatter, scatter_ = scattering.scatter, scattering.scatter_
    scatter_add, scatter_add_ = scattering.scatter_add, scattering.scatter_add_
    scatter_reduce, scatter_reduce_ = scattering.scatter_reduce, scattering.scatter_reduce_
    index_select = slicing.index_select
    index_add, index_add_ = slicing.index_add, slicing.index_add_
    index_copy, index_copy_ = slicing.index_copy, slicing.index_copy_
    index_fill, index_fill_ = slicing.index_fill, slicing.index_fill_
    index_reduce, index_reduce_ = slicing.index_reduce, slicing.index_reduce_
    take, put, put_ = gathering.take, scattering.put, scattering.put_
    masked_select = gathering.masked_select
    masked_scatter, masked_scatter_ = scattering.masked_scatter, scattering.masked_scatter_

    # sorting
    sort, argsort, msort = sorting.sort, sorting.argsort, sorting.msort
    topk, kthvalue = sorting.topk, sorting.kthvalue
    unique, unique_consecutive = sorting.unique, sorting.unique_consecutive
    nonzero, argwhere = sorting.nonzero, sorting.argwhere
    isin, nonzero_static = sorting.isin, sorting.nonzero_static

    # linalg
    matmul = contraction.matmul
    mm, bmm, mv = contraction.mm, contraction.bmm, contraction.mv
    dot, vdot, inner = contraction.dot, contraction.vdot, contraction.inner
    outer, ger, kron, cross = contraction.outer, contraction.ger, products.kron, products.cross
    addmm, addmm_ = products.addmm, products.addmm_
    addmv, addmv_ = products.addmv, products.addmv_
    addbmm, addbmm_ = products.addbmm, products.addbmm_
    baddbmm, baddbmm_ = products.baddbmm, products.baddbmm_
    addr, addr_ = products.addr, products.addr_
    inverse, pinverse = matrix.inverse, matrix.pinverse
    det, logdet, slogdet = matrix.det, matrix.logdet, matrix.slogdet
    matrix_power, matrix_exp = matrix.matrix_power, matrix.matrix_exp
    cholesky, cholesky_solve = matrix.cholesky, matrix.cholesky_solve
    cholesky_inverse = matrix.cholesky_inverse
    qr, svd, lu, lu_solve = matrix.qr, matrix.svd, matrix.lu, matrix.lu_solve
    triangular_solve, orgqr = matrix.triangular_solve, matrix.orgqr
    geqrf, ormqr = decomposition.geqrf, decomposition.ormqr

    # create
    new, new_tensor = create_like.new, create_like.new_tensor
    new_zeros, new_ones, new_full = create_like.new_zeros, create_like.new_ones, create_like.new_full
    new_empty, new_empty_strided = create_like.new_empty, create_like.new_empty_strided

    # random
    uniform_, normal_, random_ = random.uniform_, random.normal_, random.random_
    bernoulli, bernoulli_ = random.bernoulli, random.bernoulli_
    exponential_, geometric_ = random.exponential_, random.geometric_
    cauchy_, log_normal_ = random.cauchy_, random.log_normal_
    multinomial = random.multinomial

    # convert
    copy_ = convert.copy_
    copy_checked_ = convert.copy_checked_
    to = convert.to
    type = convert.type_
    type_as = convert.type_as
    cpu = convert.cpu
    cuda = convert.cuda
    resize_, resize_as_, set_ = memories.resize_, memories.resize_as_, memories.set_
    resize, resize_as = memories.resize, memories.resize_as
    eig, lstsq, solve, symeig = removed.eig, removed.lstsq, removed.solve, removed.symeig
    float = convert.caster(dtypes.float32, "float")
    double = convert.caster(dtypes.float64, "double")
    half = convert.caster(dtypes.float16, "half")
    bfloat16 = convert.caster(dtypes.bfloat16)
    long = convert.caster(dtypes.int64, "long")
    int = convert.caster(dtypes.int32, "int")
    short = convert.caster(dtypes.int16, "short")
    char = convert.caster(dtypes.int8, "char")
    byte = convert.caster(dtypes.uint8, "byte")
    bool = convert.caster(dtypes.bool_)
    cfloat = convert.caster(dtypes.complex64, "cfloat")
    cdouble = convert.caster(dtypes.complex128, "cdouble")
    chalf = convert.caster(dtypes.complex64, "chalf")  # NumPy has no narrower one


overrides.plain.add(Tensor)
overrides.tensor, overrides.notice = Tensor, subclasses.exchange_now
nodes.tensor_type = fast_path.Tensor = Tensor
modes.note_unusual(0)
nodes.make = fast_path.make = partial(object.__new__, Tensor)
