"""Nested tensors: a batch of tensors whose sizes differ along one dimension (``jagged``), or along any (``strided``).

The elements of all of them are in one ordinary tensor, one part after another, and gradients flow through it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from .core import layout as layouts
from .core.nodes import registry, wrap
from .core.overrides import SubclassesOff
from .core.size import Size
from .core.tensor import TensorBase
from .nn import functional
from .ops import namespace
from .sparse.tensor import ByValues, Scattered
from .tensor import Tensor

__all__ = [
    "NestedTensor", "as_nested_tensor", "masked_select", "narrow", "nested_tensor", "nested_tensor_from_jagged",
    "to_padded_tensor",
]  # fmt: skip

words: Any = namespace  # every public function by name
_numbers = itertools.count(1)


class NestedInt:
    """The size of a dimension along which parts differ; it is equal only to itself."""

    def __init__(self) -> None:
        self.number = next(_numbers)

    def __repr__(self) -> str:
        return f"j{self.number}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NestedInt) and other.number == self.number

    def __hash__(self) -> int:
        return hash(("nested", self.number))


class NestedTensor(ByValues):
    """A batch of tensors of unequal sizes.

    Examples
    --------
    >>> x = adjoint.nested.nested_tensor([[1.0, 2.0], [3.0]], layout=adjoint.jagged)
    >>> (x * 2).to_padded_tensor(0.0)
    tensor([[2., 4.],
            [6., 0.]])
    """

    __module__ = "adjoint.nested"

    _shapes: list[tuple[int, ...]]
    _ragged: Any  # of a jagged tensor, what stands for the size that differs

    @classmethod
    def made(cls, values: Any, shapes: Sequence[tuple[int, ...]], ragged: Any = None) -> NestedTensor:
        """Return a nested tensor of values, one part after the other, and the shape of each part."""
        most = tuple(map(max, zip(*shapes, strict=True))) if shapes else ()
        out: Any = wrap(Scattered((len(shapes), *most), values))
        out.__class__ = cls
        out._held, out._shapes, out._ragged = values, list(shapes), ragged
        return out  # type: ignore[no-any-return]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = func.__name__, kwargs or {}
        if name in _RULES:
            return _RULES[name](*args, **kwargs)
        if name in _elementwise():
            return _each_element(func, args, kwargs)
        if name in _DESCRIBING:
            with SubclassesOff():
                return func(*args, **kwargs)
        _refuse(name)

    def _with(self, values: Any) -> NestedTensor:
        """Return other values in parts of the same sizes."""
        tail = tuple(values.shape[1:])
        if self._ragged is None or tail == tuple(self._held.shape[1:]):
            return NestedTensor.made(values, self._shapes, self._ragged)
        return NestedTensor.made(values, [(shape[0], *tail) for shape in self._shapes], self._ragged)

    # --- What it is -----------------------------------------------------------------------------------

    @property
    def is_nested(self) -> bool:  # type: ignore[override]
        """True."""
        return True

    @property
    def layout(self) -> Any:  # type: ignore[override]
        """``jagged`` where sizes differ along one dimension, else ``strided``."""
        return layouts.strided if self._ragged is None else layouts.jagged

    @property
    def dtype(self) -> Any:
        """The data type."""
        return self._held.dtype

    @property
    def device(self) -> Any:
        """Where the memory is."""
        return self._held.device

    @property
    def shape(self) -> Size:
        """The size of each dimension; that along which parts differ has a name."""
        if self._ragged is None:
            raise RuntimeError("Internal error: NestedTensorImpl doesn't support sizes: ask size(dim), or each part")
        return tuple.__new__(Size, (len(self._shapes), self._ragged, *self._shapes[0][1:]))

    def size(self, dim: int | None = None, axis: int | None = None) -> Any:
        """Return the shape, or the size of one dimension."""
        dim = dim if axis is None else axis
        if dim is None or self._ragged is not None:
            return self.shape if dim is None else self.shape[dim]
        dim %= self.array.ndim
        sizes = {len(self._shapes)} if dim == 0 else {shape[dim - 1] for shape in self._shapes}
        if len(sizes) > 1:
            raise RuntimeError(f"Given dimension {dim} is irregular and does not have a size.")
        return sizes.pop()

    def numel(self) -> int:
        """Return the number of elements of all parts."""
        return int(self._held.numel())

    def __len__(self) -> int:
        return len(self._shapes)

    def __iter__(self) -> Any:
        return iter(self.unbind())

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        graph = f", grad_fn=<{self.grad_fn.op.title}>" if self.grad_fn is not None else ""
        graph = graph or (", requires_grad=True" if self.requires_grad else "")
        if self._ragged is not None:
            shown = f"size={tuple(self.shape)}, offsets={self.offsets()}{graph}, contiguous=True"
            return f"NestedTensor({shown})"
        parts = [repr(part.detach()).replace("\n", "\n  ") for part in self.unbind()]
        return "nested_tensor([\n  " + ",\n  ".join(parts) + f"\n]{graph})"

    # --- Its parts ------------------------------------------------------------------------------------

    def values(self) -> Any:
        """Return the elements of all parts, one after the other."""
        return self._held

    def offsets(self) -> Any:
        """Return where each part begins among the values; one number more than there are parts."""
        if self._ragged is None:
            raise AttributeError("'Tensor' object has no attribute 'offsets'")
        return wrap(np.concatenate([[0], np.cumsum([s[0] for s in self._shapes])]).astype(np.int64))

    def lengths(self) -> None:
        """Return None: between parts there are no gaps."""

    def unbind(self, dim: int = 0, *, axis: int | None = None) -> tuple[Any, ...]:
        """Return the parts."""
        dim = dim if axis is None else axis
        if dim not in (0, -self.array.ndim):
            raise RuntimeError("unbind(): only supported for NestedTensor on dim=0")
        if self._ragged is not None:
            return tuple(self._held.split([shape[0] for shape in self._shapes]))
        pieces = self._held.split([math.prod(shape) for shape in self._shapes])
        return tuple(piece.view(shape) for piece, shape in zip(pieces, self._shapes, strict=True))

    def to_padded_tensor(self, padding: float, output_size: Any = None, out: Any = None) -> Any:
        """Return an ordinary tensor in which short parts are filled up with a number."""
        whole = tuple(self.array.shape) if output_size is None else tuple(output_size)
        if any(n < m for n, m in zip(whole, self.array.shape, strict=True)):
            raise RuntimeError(
                "Value in output_size is less than NestedTensor padded size. Truncation is not supported: "
                f"{list(whole)} for parts that need {list(self.array.shape)}"
            )
        filled = []
        for part in self.unbind():
            widths = [w for n, m in zip(reversed(whole[1:]), reversed(part.shape), strict=True) for w in (0, n - m)]
            filled.append(functional.pad(part, widths, value=padding) if part.array.ndim else part)
        return words.stack(filled)

    def numpy(self, *, force: bool = False) -> NoReturn:
        """Raise: the elements are not in one array."""
        raise RuntimeError(".numpy() is not supported for tensor subclasses: look at values(), or at each part")

    def tolist(self) -> NoReturn:
        """Raise: say it of each part."""
        raise RuntimeError(".tolist() is not supported for tensor subclasses, got NestedTensor: say it of each part")

    def backward(self, gradient: Any = None, *args: Any, **kwargs: Any) -> None:
        """Compute gradients of the values."""
        self._held.backward(gradient._held if isinstance(gradient, NestedTensor) else gradient, *args, **kwargs)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _rebuilt, (self._held, self._shapes, self._ragged is not None)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        import copy

        return NestedTensor.made(copy.deepcopy(self._held, memo), self._shapes, self._ragged)


def _rebuilt(values: Any, shapes: list[tuple[int, ...]], jagged: bool) -> NestedTensor:
    """Return a nested tensor from its parts, as a pickle has them."""
    return NestedTensor.made(values, shapes, NestedInt() if jagged else None)


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(f"{name} is not offered for nested tensors; compute with each part (unbind), or values()")


# --- Making -----------------------------------------------------------------------------------------


def _packed(parts: Sequence[Any], jagged: bool) -> NestedTensor:
    """Return a nested tensor of parts, with their history."""
    shapes = [tuple(part.shape) for part in parts]
    if not jagged:
        held = words.cat([part.reshape(-1) for part in parts]) if parts else words.empty(0)
        return NestedTensor.made(held, shapes)
    if len({shape[1:] for shape in shapes}) > 1 or not all(shapes):
        raise RuntimeError(
            "Cannot represent given tensor list as a nested tensor with the jagged layout. Note that the jagged layout "
            f"only represents shapes of the form (B, *_1, D_0, ..., D_N), with only *_1 allowed to be ragged: {shapes}"
        )
    return NestedTensor.made(words.cat(list(parts)), shapes, NestedInt())


def as_nested_tensor(ts: Any, dtype: Any = None, device: Any = None, layout: Any = None) -> NestedTensor:
    """Return a nested tensor of some tensors, with their history."""
    parts = [part if isinstance(part, TensorBase) else words.tensor(part) for part in ts]
    moved = [part.to(dtype=dtype or part.dtype, device=device or part.device) for part in parts]  # type: ignore[union-attr, attr-defined]
    return _packed(moved, layout is layouts.jagged)


def nested_tensor(
    tensor_list: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> NestedTensor:  # fmt: skip
    """Make a nested tensor by copying a list of tensors; it has no history."""
    parts = [part.detach() if isinstance(part, TensorBase) else part for part in tensor_list]  # type: ignore[attr-defined]
    made = as_nested_tensor(parts, dtype, device, layout)
    return made._with(made._held.detach().clone().requires_grad_(requires_grad))


def nested_tensor_from_jagged(
    values: Any, offsets: Any = None, lengths: Any = None, jagged_dim: int | None = None, min_seqlen: Any = None,
    max_seqlen: Any = None,
) -> NestedTensor:  # fmt: skip
    """Return a nested tensor that looks at values; offsets say where each part begins, or lengths how long it is."""
    if offsets is None and lengths is None:
        raise RuntimeError("nested_tensor_from_jagged(): At least one of offsets or lengths is required.")
    if jagged_dim not in (None, 1):
        _refuse(f"nested_tensor_from_jagged(jagged_dim={jagged_dim})")
    starts = None if offsets is None else offsets.tolist()
    sizes = lengths.tolist() if starts is None else [b - a for a, b in itertools.pairwise(starts)]
    if starts is not None and lengths is not None and lengths.tolist() != sizes:  # with gaps between parts
        return _packed([values[a : a + n] for a, n in zip(starts, lengths.tolist(), strict=False)], True)
    return NestedTensor.made(values, [(n, *values.shape[1:]) for n in sizes], NestedInt())


def narrow(tensor: Any, dim: int, start: Any, length: Any, layout: Any = layouts.strided) -> NestedTensor:
    """Return, of each row of a tensor, the part that begins at `start` and is so long."""
    if dim != 1:
        raise RuntimeError("torch.nested.narrow only supports dim=1")
    count = tensor.shape[0]
    if layout is not layouts.jagged and any(isinstance(x, TensorBase) for x in (start, length)):
        raise RuntimeError("start and length must be integers for the strided layout NT impl")
    starts = start.tolist() if isinstance(start, TensorBase) else [start] * count  # type: ignore[attr-defined]
    lengths = length.tolist() if isinstance(length, TensorBase) else [length] * count  # type: ignore[attr-defined]
    parts = [row[a : a + n] for row, a, n in zip(tensor.unbind(0), starts, lengths, strict=True)]
    return _packed(parts, layout is layouts.jagged)


def masked_select(tensor: Any, mask: Any) -> NestedTensor:
    """Return, of each row of a tensor, the elements where a mask is true."""
    whole = mask.expand(tensor.shape)
    return _packed([row[chosen] for row, chosen in zip(tensor.unbind(0), whole.unbind(0), strict=True)], True)


def to_padded_tensor(input: Any, padding: float, output_size: Any = None, out: Any = None) -> Any:
    """Return an ordinary tensor in which short parts are filled up with a number."""
    return input.to_padded_tensor(padding, output_size)


# --- What functions do with nested operands ----------------------------------------------------------

_COMPOSED = [
    "relu", "gelu", "silu", "dropout", "clone", "detach", "contiguous", "to", "float", "double", "half",
    "bfloat16", "int", "long", "bool", "abs", "neg", "sigmoid", "tanh", "leaky_relu", "elu", "softplus",
    "logical_not", "masked_fill", "clamp", "clamp_min", "clamp_max", "nan_to_num", "where", "zeros_like",
    "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "add", "sub", "mul", "div", "pow",
    "true_divide", "rsub", "__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__",
    "__rtruediv__", "__pow__", "__neg__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "rdiv",
    "__rdiv__", "alpha_dropout", "feature_dropout", "cpu", "cuda", "type", "square", "hardtanh", "relu6",
    "hardswish", "threshold", "requires_grad_", "fill_", "zero_", "add_", "sub_", "mul_", "div_", "relu_",
    "abs_", "neg_", "copy_",
]  # fmt: skip
_names: set[str] = set()


def _elementwise() -> set[str]:
    """Return the names of functions that treat every element alike."""
    if not _names:
        _names.update(_COMPOSED, (op.name for op in registry.values() if op.batch == "elementwise" and not op.view))
    return _names


def _each_element(func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call an elementwise function on the values."""
    nested = [a for a in (*args, *kwargs.values()) if isinstance(a, NestedTensor)]
    first = nested[0]
    for other in nested[1:]:
        if other._shapes != first._shapes or other._ragged != first._ragged:
            raise RuntimeError(
                f"cannot call binary pointwise function {func.__name__} with inputs of shapes {_shown(first)} and "
                f"{_shown(other)}"
            )
    with SubclassesOff():
        given = [_beside(a, first) for a in args]
        result = func(*given, **{k: _beside(v, first) for k, v in kwargs.items()})
    return first if result is first._held else first._with(result)


def _shown(x: NestedTensor) -> Any:
    return x._shapes if x._ragged is None else tuple(x.shape)


def _beside(value: Any, nested: NestedTensor) -> Any:
    """Return an operand as it stands beside the values of a nested one."""
    if isinstance(value, NestedTensor):
        return value._held
    if not isinstance(value, TensorBase) or value.array.ndim == 0:
        return value
    if nested._ragged is None:
        raise RuntimeError("Expected both self and other to be nested, but got a nested self and non-nested other")
    if value.array.ndim < nested.array.ndim:
        return value
    counts = wrap(np.array([shape[0] for shape in nested._shapes]))
    return words.repeat_interleave(value.squeeze(1), counts, 0)  # type: ignore[attr-defined]


def _each_part(func: Callable[..., Any], x: NestedTensor, *args: Any, **kwargs: Any) -> NestedTensor:
    """Call a function on each part."""
    made = _packed([func(part, *args, **kwargs) for part in x.unbind()], x._ragged is not None)
    same = [s[0] for s in made._shapes] == [s[0] for s in x._shapes]
    made._ragged = x._ragged if same else made._ragged
    return made


def _by_rows(name: str) -> Callable[..., Any]:
    """Return the rule of a function of the last dimension, which all rows of all parts have alike."""

    def rule(x: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(x, NestedTensor):
            _refuse(name)
        function = getattr(functional, name)
        return x._with(function(x._held, *args, **kwargs)) if x._ragged else _each_part(function, x, *args, **kwargs)

    return rule


def _reduction(name: str) -> Callable[..., Any]:
    def rule(x: NestedTensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
        method, options = getattr(Tensor, name), {} if dtype is None else {"dtype": dtype}
        if dim is None:
            return method(x._held, **options)
        dims = sorted(d % x.array.ndim for d in (dim if isinstance(dim, tuple | list) else (dim,)))
        if dims[0] == 0:
            raise RuntimeError(
                f"{name}(): reducing along the batch dimension but not the ragged dimension is not supported for "
                "nested tensors"
            )
        if dims[0] > 1 and x._ragged is not None:
            return x._with(method(x._held, tuple(d - 1 for d in dims), keepdim, **options))
        if dims == [1]:
            return words.stack([method(part, 0, keepdim, **options) for part in x.unbind()])
        raise RuntimeError(
            f"{name}(): reducing along a ragged and non-batch dimension is not supported for nested tensors"
        )

    return rule


def _softmax(name: str) -> Callable[..., Any]:
    def rule(x: NestedTensor, dim: int | None = None, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("_stacklevel", None)
        at = (-1 if dim is None else dim) % x.array.ndim
        if at == 0:
            raise RuntimeError(f"{name}(): not supported when dim=0 for NestedTensor")
        return _each_part(getattr(words, name), x, at - 1, **kwargs)

    return rule


def _matmul(x: Any, other: Any) -> Any:
    if isinstance(x, NestedTensor) and isinstance(other, NestedTensor):
        return _packed([a @ b for a, b in zip(x.unbind(), other.unbind(), strict=True)], x._ragged is not None)
    if not isinstance(x, NestedTensor):
        raise RuntimeError("Expected both to be nested, but got a non-nested self and nested other")
    return _each_part(words.matmul, x, other) if other.array.ndim == 2 else _refuse("matmul of a batch")


def _attention(query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
    parts = zip(query.unbind(), key.unbind(), value.unbind(), strict=True)
    return _packed(
        [functional.scaled_dot_product_attention(q, k, v, *args, **kwargs) for q, k, v in parts],
        query._ragged is not None,
    )


def _part(x: NestedTensor, index: Any) -> Any:
    first, *rest = index if isinstance(index, tuple) else (index,)
    if not isinstance(first, int):
        _refuse("indexing by other than the number of a part")
    part = x.unbind()[first]
    return part[tuple(rest)] if rest else part


def _same_part(name: str) -> Callable[..., Any]:
    """Return the rule of a function of dimensions beside the first, as a part has them one less."""

    def rule(x: NestedTensor, *dims: int) -> Any:
        added = name == "unsqueeze"
        return _each_part(getattr(words, name), x, *(d % (x.array.ndim + added) - 1 for d in dims))

    return rule


def _cat(tensors: Any, dim: int = 0) -> Any:
    if dim != 0 or tensors[0]._ragged is not None:
        raise RuntimeError(f"cat(): not supported for NestedTensor on dim={dim}")
    return _packed([part for t in tensors for part in t.unbind()], False)


_RULES: dict[str, Callable[..., Any]] = {
    **{name: _reduction(name) for name in ("sum", "mean", "amax", "amin", "any", "all", "prod")},
    "max": lambda x: x._held.max(),
    "min": lambda x: x._held.min(),
    "softmax": _softmax("softmax"),
    "log_softmax": _softmax("log_softmax"),
    **{name: _by_rows(name) for name in ("linear", "layer_norm", "rms_norm", "embedding")},
    "matmul": _matmul,
    "__matmul__": _matmul,
    "bmm": _matmul,
    "scaled_dot_product_attention": _attention,
    "__getitem__": _part,
    "unsqueeze": _same_part("unsqueeze"),
    "squeeze": _same_part("squeeze"),
    "transpose": _same_part("transpose"),
    "cat": _cat,
    "is_contiguous": lambda x, memory_format=None: True,
    "_nested_tensor_size": lambda x: wrap(np.array(x._shapes)),
}  # fmt: skip

# Methods of Tensor that read nothing but dimensions and dtype.
_DESCRIBING = {
    "dim", "ndimension", "element_size", "is_floating_point", "is_complex", "is_signed", "get_device", "__get__",
    "__hash__", "is_pinned", "is_shared", "is_conj", "is_neg", "is_inference", "__dir__", "nelement",
    "__bool__", "item",
}  # fmt: skip
