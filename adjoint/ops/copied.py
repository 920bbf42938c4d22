"""Views as copies (`select_copy`, `view_copy`, ...), and views written into a copy (`diagonal_scatter`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._typing import DType, Ints, Out, Shape, Tensor
from ..core import dtypes
from ..core.folding import fold
from ..core.tensor import TensorBase
from . import create, create_like, dimensions, join, kinds, parts, shape, subscript
from .arguments import dim_in, either
from .bounds import check_size

_SIZED = {"expand_copy": "size", "permute_copy": "dims", "split_with_sizes_copy": "split_sizes", "view_copy": "size"}


def _copying(name: str, view: Callable[..., Any]) -> Callable[..., Any]:
    def function(input: Tensor, *args: Ints, out: Out = None, **kwargs: Any) -> Tensor | tuple[Tensor, ...]:
        if args and args[0] is None:
            raise TypeError(f"{name}() received an invalid combination of arguments - got (Tensor, NoneType)")
        if name in _SIZED:
            _check_sizes_given(name, _SIZED[name], args, kwargs)
        seen = view(input, *args, **kwargs)
        if isinstance(seen, TensorBase):
            copy = shape.contiguous_p(seen)
            if seen.node is not None:
                fold(copy, f"{seen.node.op.title}_copy", input)
            return create.into(out, copy)
        copies = tuple(shape.contiguous_p(s) for s in seen)
        return copies if out is None else tuple(map(create.into, out, copies))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Return what `{name.removesuffix('_copy')}` shows, as a copy."
    return function


def _check_sizes_given(name: str, parameter: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise TypeError where the functions, unlike the methods they stand for, are given sizes one by one, or none."""
    if not args and not kwargs:
        raise TypeError(f'{name}() missing 1 required positional arguments: "{parameter}"')
    if args and not isinstance(args[0], list | tuple | dtypes.dtype):
        found = type(args[0]).__name__
        raise TypeError(f"{name}(): argument '{parameter}' (position 2) must be tuple of ints, not {found}")


def _slice(
    input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1, *,
    axis: int | None = None,
) -> Tensor:  # fmt: skip
    dim = dim if axis is None else either(dim, axis, 0)
    axis = dim_in(dim, input.array.ndim)
    return subscript.getitem(input, (*(slice(None),) * axis, slice(start, end, step)))


def _viewed(input: Tensor, *sizes: Ints, dtype: DType | None = None, size: Shape | None = None) -> Tensor:
    if dtype is not None or (len(sizes) == 1 and isinstance(sizes[0], dtypes.dtype)):
        return shape.view(input, *sizes, dtype=dtype)
    return shape.reshape(input, *sizes) if size is None else shape.reshape(input, size)


alias_copy = _copying("alias_copy", shape.alias)
as_strided_copy = _copying("as_strided_copy", parts.as_strided)
detach_copy = _copying("detach_copy", lambda input: input.detach())
diagonal_copy = _copying("diagonal_copy", parts.diagonal)
expand_copy = _copying("expand_copy", shape.expand)
permute_copy = _copying("permute_copy", dimensions.permute)
select_copy = _copying("select_copy", parts.select)
slice_copy = _copying("slice_copy", _slice)
split_copy = _copying("split_copy", join.split)
split_with_sizes_copy = _copying("split_with_sizes_copy", join.split_with_sizes)
squeeze_copy = _copying("squeeze_copy", dimensions.squeeze)
t_copy = _copying("t_copy", dimensions.t)
transpose_copy = _copying("transpose_copy", dimensions.transpose)
unbind_copy = _copying("unbind_copy", join.unbind)
unfold_copy = _copying("unfold_copy", parts.unfold)
unsqueeze_copy = _copying("unsqueeze_copy", dimensions.unsqueeze)
view_copy = _copying("view_copy", _viewed)
view_as_complex_copy = _copying("view_as_complex_copy", kinds.view_as_complex)
view_as_real_copy = _copying("view_as_real_copy", kinds.view_as_real)


def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Return `input` with `src` on the diagonal between two dimensions.

    Examples
    --------
    >>> adjoint.diagonal_scatter(adjoint.zeros(2, 2), adjoint.tensor([1.0, 2.0]))
    tensor([[1., 0.],
            [0., 2.]])
    """
    check_size(parts.diagonal(input, offset, dim1, dim2), src, "diagonal_scatter")
    rank = input.array.ndim
    return parts.set_diagonal_p(input, src, offset, dim_in(dim1, rank), dim_in(dim2, rank))


def as_strided_scatter(
    input: Tensor, src: Tensor, size: Ints, stride: Ints, storage_offset: int | None = None,
) -> Tensor:  # fmt: skip
    """Return `input` with `src` where `as_strided` looks."""
    out = create_like.copy_for(src, shape.contiguous(input))
    part = parts.as_strided(out, size, stride, storage_offset)
    check_size(part, src, "as_strided_scatter")
    part.copy_(src)
    return out
