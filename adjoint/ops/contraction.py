"""Products of vectors, matrices and batches of them: ``matmul`` and related ops, and ``linear``."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from .._typing import Array, Inputs, Kernel, Operand, Out, Params, Tangents, Tensor, Value
from ..core import dtypes, modes
from ..core.folding import Unfolded, fold, part, reveal, shaping, split
from ..core.nodes import Node, Special, saved_arrays
from ..core.overrides import answered
from ..core.payload import broadcasting, is_batch
from ..core.primitive import by_ufunc
from ..core.recorders import Primitive, binary, nary
from ..core.saved import saved_input
from ..core.tensor import TensorBase
from .arguments import require_tensor, require_tensors
from .create import into
from .dimensions import t_p
from .elementwise import mul_p
from .precision import autocasting
from .reduce import sum_p
from .shape import reshape_p

__all__ = [
    "bmm", "dot", "ger", "inner", "matmul", "mm", "mv", "outer", "vdot",
]  # fmt: skip

f32 = np.dtype("float32")

# --- Products of two ----------------------------------------------------------------------------------


def multiply(x: Any, y: Any) -> Any:
    """Return the matrix multiplication of arrays; half precision is summed in single."""
    d = x.dtype
    if d.kind == "b" and x.size and y.size:
        raise NotImplementedError(
            "\"addmm_impl_cpu_\" not implemented for 'Bool': matrix multiplication of bools is not supported; "
            "convert with .int() or .float()"
        )
    if d.itemsize == 2 and d.kind not in "iu":
        return multiply(x.astype(f32), y.astype(f32)).astype(d)
    return x @ y


def _matmul_x(g: Value, y: Value) -> Any:
    # Which operand was a vector shows in the ranks: the rule need not save a shape for it.
    if y.ndim == 1:
        return g.reshape((*g.shape, 1)) * y if g.ndim else g * y
    if g.ndim < y.ndim:
        return product(y, g.reshape((*g.shape, 1))).reshape(y.shape[:-1])
    return product(g, y.swapaxes(-1, -2))


def _matmul_y(g: Value, x: Value) -> Any:
    if x.ndim == 1:
        return g * x if g.ndim == 0 else x.reshape((-1, 1)) * g.reshape((*g.shape[:-1], 1, g.shape[-1]))
    if g.ndim < x.ndim:
        return product(x.swapaxes(-1, -2), g.reshape((*g.shape, 1))).reshape((*x.shape[:-2], x.shape[-1]))
    return product(x.swapaxes(-1, -2), g)


@broadcasting
def _batched_product(x: Value, y: Value) -> Value:
    # Here every operand has a batch axis in front (perhaps of size 1), and its own axes behind.
    vector_x, vector_y = x.ndim == 2, y.ndim == 2
    if y.ndim == 3 and y.shape[0] == 1 and x.shape[0] != 1:  # one matrix for the whole batch: one product
        return matmul_p(x, y.reshape(y.shape[1:]))
    if vector_y and x.ndim == 3 and x.shape[0] == 1 and y.shape[0] != 1:
        return matmul_p(y, x.reshape(x.shape[1:]).swapaxes(0, 1))
    if vector_x:
        x = x.reshape((x.shape[0], 1, x.shape[1]))
    if vector_y:
        y = y.reshape((*y.shape, 1))
    rank = max(x.ndim, y.ndim)
    x, y = with_rank(x, rank), with_rank(y, rank)
    out = matmul_p(x, y)
    if vector_y:
        out = out.reshape(out.shape[:-1])
    if vector_x:
        out = out.reshape((*out.shape[:-2], out.shape[-1])) if not vector_y else out.reshape(out.shape[:-1])
    return out


def with_rank(x: Value, rank: int) -> Value:
    """Return a batched value with axes of size 1 put after its batch axis."""
    return x if x.ndim == rank else x.reshape((x.shape[0], *(1,) * (rank - x.ndim), *x.shape[1:]))


def _split_product(node: Node) -> None:
    from .steps import split_product  # only for code that reads the graph

    split_product(node)


def _explain_mm(error: Exception, x: Value, y: Value) -> Exception | None:
    if x.ndim == 2 == y.ndim and x.shape[1] != y.shape[0]:
        return cannot_multiply(x.shape, y.shape)
    return None


def cannot_multiply(a: Sequence[int], b: Sequence[int]) -> RuntimeError:
    """Return torch's error for two matrices whose shapes do not fit."""
    return RuntimeError(
        f"mat1 and mat2 shapes cannot be multiplied ({a[0]}x{a[1]} and {b[0]}x{b[1]}): the columns of "
        "the first "
        "must be as many as the rows of the second; transpose one (x.T), or check the layer's in_features"
    )


def cannot_expand(have: tuple[int, ...], want: tuple[int, ...]) -> RuntimeError:
    """Return the error of a term that does not expand to the shape of a product."""
    lead = len(want) - len(have)
    if lead < 0:
        return RuntimeError(
            f"expand(adjoint.FloatTensor{{{list(have)}}}, size={list(want)}): the number of sizes provided "
            f"({len(want)}) must be greater or equal to the number of dimensions in the tensor ({len(have)})"
        )
    dim = next(i for i in reversed(range(len(have))) if have[i] not in (1, want[lead + i]))
    return RuntimeError(
        f"The expanded size of the tensor ({want[lead + dim]}) must match the existing size ({have[dim]}) at "
        f"non-singleton dimension {lead + dim}.  Target sizes: {list(want)}.  Tensor sizes: {list(have)}"
    )


def _explain_mv(error: Exception, x: Value, y: Value) -> Exception | None:
    if x.shape[1] == y.shape[0]:
        return None
    return RuntimeError(f"size mismatch, got input ({x.shape[0]}), mat ({x.shape[0]}x{x.shape[1]}), vec ({y.shape[0]})")


def _explain_dot(error: Exception, x: Value, y: Value) -> Exception | None:
    return RuntimeError(
        f"inconsistent tensor size, expected tensor [{x.shape[0]}] and src [{y.shape[0]}] to have the "
        "same number "
        f"of elements, but got {x.shape[0]} and {y.shape[0]} elements respectively"
    )


def _explain_matmul(error: Exception, x: Value, y: Value) -> Exception | None:
    if isinstance(error, NotImplementedError):
        return error
    a = (1, *x.shape) if x.ndim == 1 else tuple(x.shape)
    b = (*y.shape, 1) if y.ndim == 1 else tuple(y.shape)
    if a[-1] != b[-2]:
        if len(b) == 2 or len(a) == 2:
            return cannot_multiply((math.prod(a[:-1]), a[-1]), b[-2:])
        return RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{b[0]}, {a[-1]}] but got: "
            f"[{b[0]}, {b[-2]}]: the shapes {list(x.shape)} and {list(y.shape)} cannot be multiplied"
        )
    from ..core.failures import broadcast_error

    return broadcast_error(a[:-2], b[:-2])


mm_p: Primitive = binary(
    multiply,
    name="mm",
    x=lambda g, y: project_p(g, y),
    y=lambda g, x: product(x.swapaxes(-1, -2), g),
    jvp="bilinear",
    batch=_batched_product,
    saved={"y": "mat2"},
    broadcast=False,
    explain=_explain_mm,
    accumulates=True,
)
mv_p: Primitive = binary(
    multiply,
    x=_matmul_x,
    y=_matmul_y,
    name="mv",
    jvp="bilinear",
    batch=_batched_product,
    saved={"y": "vec"},
    broadcast=False,
    explain=_explain_mv,
    accumulates=True,
)
dot_p: Primitive = binary(
    multiply,
    x=lambda g, y: g * y,
    y=lambda g, x: g * x,
    name="dot",
    jvp="bilinear",
    batch=_batched_product,
    saved={"y": "tensor"},
    explain=_explain_dot,
)
# What `bmm` has recorded, one node in torch too; what `matmul` has goes through views there (steps.py).
whole: weakref.WeakSet[Node] = weakref.WeakSet()
# Everything else that can be multiplied: batches, and vectors with them.
matmul_p: Primitive = binary(
    multiply,
    x=_matmul_x,
    y=_matmul_y,
    name="bmm",
    jvp="bilinear",
    batch=_batched_product,
    saved={"y": "mat2"},
    explain=_explain_matmul,
    split=_split_product,
    accumulates=True,
)


def check_dtypes(
    a: Value, b: Value, sentence: str = "expected m1 and m2 to have the same dtype, but got: {} != {}"
) -> None:
    """Raise if two operands differ in dtype, unless autocast is about to make them equal."""
    if a.dtype != b.dtype and (modes.local.autocast is None or 8 in (a.dtype.itemsize, b.dtype.itemsize)):
        raise RuntimeError(
            sentence.format(_c_name(a.dtype), _c_name(b.dtype)) + "; convert one of them with .to(dtype)"
        )


_C_NAMES = {
    "float32": "float", "float64": "double", "int64": "long long", "int32": "int", "int16": "short", "int8":
    "signed char", "uint8": "unsigned char", "float16": "c10::Half", "bfloat16": "c10::BFloat16",
    "complex64": "c10::complex<float>", "complex128": "c10::complex<double>",
}  # fmt: skip


def _c_name(dtype: Any) -> str:
    name = dtypes.of(dtype).name
    return _C_NAMES.get(name, name)


def matmul(input: Tensor, other: Tensor, *, out: Out = None) -> Tensor:
    """Multiply matrices, vectors, or batches of them.

    Parameters
    ----------
    input, other : Tensor
        Operands of one dtype. Two vectors give their dot product, a matrix and a vector a vector. With more
        dimensions the last two are matrices and the others broadcast.
    out : Tensor, optional
        Tensor to write the result into.

    Returns
    -------
    Tensor
        ``(n, m) @ (m, p)`` has shape ``(n, p)``, ``(n, m) @ (m,)`` has ``(n,)``, ``(m,) @ (m,)`` is a scalar, and
        ``(b, 1, n, m) @ (c, m, p)`` has ``(b, c, n, p)``.

    Raises
    ------
    RuntimeError
        If shapes or dtypes do not fit.

    Examples
    --------
    >>> a = adjoint.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> adjoint.matmul(a, adjoint.tensor([1.0, 10.0]))
    tensor([21., 43.])
    >>> (adjoint.ones(5, 1, 2, 3) @ adjoint.ones(4, 3, 6)).shape
    adjoint.Size([5, 4, 2, 6])
    """
    try:
        a, b = input.array, other.array
    except AttributeError:
        result = answered("matmul", (input, other))
        if result is not NotImplemented:
            return result  # type: ignore[no-any-return]
        require_tensor(input, "input", "matmul")
        require_tensor(other, "other", "matmul")
        raise
    if a.dtype is not b.dtype:
        check_dtypes(a, b)
    result = _choose(a.ndim, b.ndim)(input, other)
    return result if out is None else into(out, result)


def _choose(rank_x: int, rank_y: int) -> Kernel:
    if rank_x == 2 == rank_y:
        return mm_p
    if rank_x == 0 or rank_y == 0:
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D, but they are {rank_x}D and {rank_y}D; "
            "multiply by a scalar with *"
        )
    if rank_x > 2 or rank_y > 2:
        return matmul_p
    if rank_x == 2 and rank_y == 1:
        return mv_p
    return dot_p if rank_y == 1 else matmul_p


def product(x: Any, y: Any) -> Any:
    """Multiply two values of any kind and rank, tensors or not: what ``np.matmul`` becomes on them."""
    return _choose(x.ndim, y.ndim)(x, y)


by_ufunc[np.matmul] = product


def matmul_operator(input: Tensor, other: Operand | Array) -> Any:
    """Return ``input @ other``."""
    if type(other) is type(input):  # the fast path: two plain tensors
        a, b = input.array, other.array
        if a.dtype is b.dtype:
            return mm_p(input, other) if a.ndim == 2 == b.ndim else _choose(a.ndim, b.ndim)(input, other)
    elif isinstance(other, np.ndarray):
        return matmul(input, input.new_tensor(other))
    elif not isinstance(other, TensorBase):
        return answered("matmul", (input, other))
    return matmul(input, other)


def rmatmul_operator(input: Tensor, other: Operand | Array) -> Any:
    """Return ``other @ input``."""
    if isinstance(other, TensorBase):
        return matmul(cast(Any, other), input)
    if isinstance(other, np.ndarray):
        return matmul(input.new_tensor(other), input)
    return answered("__rmatmul__", (input, other))


def _check_ranks(name: str, x: Tensor, y: Tensor, ranks: tuple[int, int]) -> None:
    """Raise, inside a batch, because operands have other dimensions than a product of one element takes."""
    found = x.array.ndim, y.array.ndim
    if modes.unusual and (is_batch(x) or is_batch(y)):
        start = "Got wrong shapes for dot. " if name == "dot" else ""
        raise RuntimeError(
            f"{start}Shape mismatch: Got incorrect dims for {name}(a, b). a has dim {found[0]} and b has dim "
            f"{found[1]} but expected them to have dim {ranks[0]} and dim {ranks[1]}"
        )


def mm(input: Tensor, mat2: Tensor, *, out: Out = None) -> Tensor:
    """Multiply two matrices.

    Parameters
    ----------
    input, mat2 : Tensor
        Matrices of shapes ``(n, m)`` and ``(m, p)`` and of one dtype. `matmul` also takes vectors and batches.
    out : Tensor, optional
        Tensor to write the result into.

    Returns
    -------
    Tensor
        The product, ``(n, p)``.

    Raises
    ------
    RuntimeError
        If an operand is not a matrix, or shapes or dtypes do not fit.

    Examples
    --------
    >>> a = adjoint.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> adjoint.mm(a, a)
    tensor([[ 7., 10.],
            [15., 22.]])
    """
    try:
        ranks = input.array.ndim, mat2.array.ndim
    except AttributeError:
        require_tensors("mm", input=input, mat2=mat2)
        raise
    if modes.unusual and ranks != (2, 2):
        _check_ranks("mm", input, mat2, (2, 2))
    if ranks[0] != 2:
        raise RuntimeError(f"self must be a matrix, but it has shape {list(input.array.shape)}; see matmul for batches")
    if ranks[1] != 2:
        raise RuntimeError(f"mat2 must be a matrix, but it has shape {list(mat2.array.shape)}; see matmul for batches")
    check_dtypes(input.array, mat2.array)
    return into(out, mm_p(input, mat2))


def bmm(input: Tensor, mat2: Tensor, *, out: Out = None) -> Tensor:
    """Multiply two batches of matrices, matrix by matrix.

    Parameters
    ----------
    input, mat2 : Tensor
        Batches of shapes ``(b, n, m)`` and ``(b, m, p)`` and of one dtype. `matmul` broadcasts batches; this does not.
    out : Tensor, optional
        Tensor to write the result into.

    Returns
    -------
    Tensor
        ``out[i] = input[i] @ mat2[i]``, of shape ``(b, n, p)``.

    Raises
    ------
    RuntimeError
        If an operand does not have three dimensions, or shapes or dtypes do not fit.

    Examples
    --------
    >>> a = adjoint.tensor([[[1.0, 2.0]], [[3.0, 4.0]]])
    >>> adjoint.bmm(a, adjoint.ones(2, 2, 1))
    tensor([[[3.]],
    <BLANKLINE>
            [[7.]]])
    """
    try:
        a, b = input.array.shape, mat2.array.shape
    except AttributeError:
        require_tensors("bmm", input=input, mat2=mat2)
        raise
    if len(a) != 3 or len(b) != 3:
        _check_ranks("bmm", input, mat2, (3, 3))
    if len(a) != 3:
        raise RuntimeError(f"batch1 must be a 3D tensor, but it has shape {list(a)}; matmul broadcasts batches")
    if len(b) != 3:
        raise RuntimeError(f"batch2 must be a 3D tensor, but it has shape {list(b)}; matmul broadcasts batches")
    if a[0] != b[0] or a[2] != b[1]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{a[0]}, {a[2]}] but got: "
            f"[{b[0]}, {b[1]}]."
        )
    check_dtypes(input.array, mat2.array, "expected scalar type {} but found {}")
    found = matmul_p(input, mat2)
    if found.node is not None:
        whole.add(found.node)
    return into(out, found)


@autocasting
def mv(input: Tensor, vec: Tensor, *, out: Out = None) -> Tensor:
    """Multiply a matrix by a vector.

    Parameters
    ----------
    input : Tensor
        Matrix, ``(n, m)``.
    vec : Tensor
        Vector, ``(m,)``, of the same dtype.
    out : Tensor, optional
        Tensor to write the result into.

    Returns
    -------
    Tensor
        The product, ``(n,)``.

    Examples
    --------
    >>> adjoint.mv(adjoint.tensor([[1.0, 2.0], [3.0, 4.0]]), adjoint.tensor([1.0, 10.0]))
    tensor([21., 43.])
    """
    if input.array.ndim != 2 or vec.array.ndim != 1:
        _check_ranks("mv", input, vec, (2, 1))
        raise RuntimeError(f"vector + matrix @ vector expected, got 1, {input.array.ndim}, {vec.array.ndim}")
    check_dtypes(input.array, vec.array, "addmv input tensors must have the same dtype, but got {} and {}")
    return into(out, mv_p(input, vec))


@autocasting
def dot(input: Tensor, tensor: Tensor, *, out: Out = None) -> Tensor:
    """Return the dot product of two vectors, the sum of ``input[i] * tensor[i]``.

    Complex vectors are not conjugated; `vdot` conjugates the first.

    Parameters
    ----------
    input, tensor : Tensor
        Vectors of one length and dtype.
    out : Tensor, optional
        Tensor to write the result into.

    Returns
    -------
    Tensor
        A scalar.

    Examples
    --------
    >>> adjoint.dot(adjoint.tensor([1.0, 2.0]), adjoint.tensor([3.0, 4.0]))
    tensor(11.)
    """
    _check_vectors(input, tensor, "dot")
    return into(out, dot_p(input, tensor))


def _check_vectors(input: Tensor, tensor: Tensor, name: str) -> None:
    a, b = input.array, tensor.array
    if a.ndim != 1 or b.ndim != 1:
        _check_ranks("dot", input, tensor, (1, 1))
        raise RuntimeError(f"1D tensors expected, but got {a.ndim}D and {b.ndim}D tensors")
    check_dtypes(a, b, name + " : expected both vectors to have same dtype, but found {} and {}")
    if a.shape != b.shape:
        error = _explain_dot(ValueError(), a, b)
        assert error is not None
        raise error


@autocasting
def vdot(input: Tensor, other: Tensor, *, out: Out = None) -> Tensor:
    """Multiply the conjugate of a vector by another one and add up.

    Parameters
    ----------
    input : Tensor
        Vector, (n,), conjugated if complex.
    other : Tensor
        Vector, (n,).
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Scalar: ``sum(conj(input) * other)``.

    Examples
    --------
    >>> adjoint.vdot(adjoint.tensor([1j, 2.0]), adjoint.tensor([1j, 1.0]))
    tensor(3.+0.j)
    """
    _check_vectors(input, other, "vdot")
    found = dot_p(input.conj() if input.array.dtype.kind == "c" else input, other)
    return into(out, fold(found, "VdotBackward0", input, other, self=(0,), other=(1,)))


def inner(input: Tensor, other: Tensor, *, out: Out = None) -> Tensor:
    """Take the dot products of the last dims of both.

    Parameters
    ----------
    input : Tensor
        (..., n), or a scalar.
    other : Tensor
        (..., n), or a scalar.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        ``input.shape[:-1] + other.shape[:-1]``; the product if one is a scalar.

    Examples
    --------
    >>> x = adjoint.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> adjoint.inner(x, adjoint.tensor([1.0, 1.0]))
    tensor([3., 7.])
    """
    a, b = input.array, other.array
    if a.ndim == 0 or b.ndim == 0:
        return into(out, mul_p(input, other))
    if a.shape[-1] != b.shape[-1]:
        raise RuntimeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{list(a.shape)} and {list(b.shape)}"
        )
    check_dtypes(a, b)
    if a.ndim == 1 == b.ndim:
        return into(out, dot_p(input, other))
    from .einsum import tensordot

    return into(out, tensordot(input, other, ([a.ndim - 1], [b.ndim - 1])))


def outer(input: Tensor, vec2: Tensor, *, out: Out = None) -> Tensor:
    """Return the outer product of two vectors: ``out[i, j] = input[i] * vec2[j]``.

    Parameters
    ----------
    input, vec2 : Tensor
        Vectors of lengths n and m.
    out : Tensor, optional
        Tensor to write the result into.

    Returns
    -------
    Tensor
        A matrix, ``(n, m)``, of the promoted dtype.

    Examples
    --------
    >>> adjoint.outer(adjoint.tensor([1.0, 2.0]), adjoint.tensor([3.0, 4.0, 5.0]))
    tensor([[ 3.,  4.,  5.],
            [ 6.,  8., 10.]])
    """
    for rank, name in ((input.array.ndim, "self"), (vec2.array.ndim, "vec2")):
        if rank != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {rank}-D")
    return into(out, mul_p(reshape_p(input, (input.array.shape[0], 1)), vec2))


def ger(input: Tensor, vec2: Tensor, *, out: Out = None) -> Tensor:
    """Return the outer product of two vectors; the old name of `outer`.

    Parameters
    ----------
    input, vec2 : Tensor
        Vectors of lengths n and m.
    out : Tensor, optional
        Tensor to write the result into.

    Returns
    -------
    Tensor
        A matrix, ``(n, m)``.

    Examples
    --------
    >>> adjoint.ger(adjoint.tensor([1.0, 2.0]), adjoint.tensor([3.0, 4.0]))
    tensor([[3., 4.],
            [6., 8.]])
    """
    return outer(input, vec2, out=out)


# --- linear ---------------------------------------------------------------------------------------------


def _project(x: Value, weight: Value) -> Any:
    return multiply(x, weight.swapaxes(-1, -2) if weight.ndim > 1 else weight)


def _linear(x: Value, weight: Value, bias: Value) -> Any:
    return _project(x, weight) + bias


def _linear_x(g: Value, y: Value) -> Value:
    return product(g, y) if y.ndim > 1 else g.reshape((*g.shape, 1)) * y


def _linear_weight(g: Value, x: Value) -> Any:
    count = math.prod(x.shape[:-1])
    rows = x.reshape((count, x.shape[-1]))
    if g.ndim < x.ndim:  # the weight is a vector
        return product(g.reshape((1, count)), rows).reshape((x.shape[-1],))
    return product(g.reshape((count, g.shape[-1])).swapaxes(0, 1), rows)


def _linear_back(
    g: Value, x: Value, weight: Value, needs: tuple[bool, ...],
) -> tuple[Value | None, Tensor | None, Value | None]:  # fmt: skip
    gx = _linear_x(g, weight) if needs[0] else None
    gw = _linear_weight(g, x) if needs[1] else None
    gb = None
    if needs[2]:
        rank = g.ndim - 1 if weight.ndim > 1 else g.ndim
        gb = sum_p(g, tuple(range(rank)), False) if rank else g
    return gx, gw, gb


def _linear_jvp(tangents: Tangents, inputs: Inputs, out: Value, params: Params) -> Value | None:
    (tx, tw, tb), (x, weight, _) = tangents, inputs
    total = None
    for term in (
        None if tx is None else product(tx, weight.swapaxes(-1, -2) if weight.ndim > 1 else weight),
        None if tw is None else product(x, tw.swapaxes(-1, -2) if tw.ndim > 1 else tw),
        tb,
    ):
        total = term if total is None else total if term is None else total + term
    return total


@broadcasting
def _linear_batch(x: Value, weight: Value, bias: Value) -> Any:
    out = _batched_product(x, weight.swapaxes(-1, -2) if weight.ndim > 2 else weight)
    return out + with_rank(bias, out.ndim)


def _run_unfolded(node: Any, g: Value, edges: tuple[Any, ...], saved: Any) -> tuple[Any, ...]:
    (*b, x, turned), shadow = edges, node.extra.shadow
    gx, gw, *gb = shadow.op.run(shadow, g, (x, turned, *b), saved)
    return (*gb, gx, None if gw is None else t_p(gw))


_addmm, _mm = (Special(title, _run_unfolded, Unfolded) for title in ("AddmmBackward0", "MmBackward0"))


def _unfold_linear(node: Node) -> None:
    """Show the transpose of the weight that torch multiplies by, and the edges in torch's order."""
    x, w, *b = node.edges
    reveal(node, _addmm if b else _mm, (*b, x, None if w is None else part(node, t_p.op, (w,))))


def _split_linear(node: Node) -> None:
    """Show the views of the input and of the result that torch multiplies matrices between."""
    x = _kept(node, 0)
    if x is None or x.ndim == 2 or x.size == 0:
        return
    (ex, ew, *b), rows = node.edges, (math.prod(x.shape[:-1]), x.shape[-1])
    lone = x.ndim == 1 and not b
    ahead = "SqueezeBackward4" if lone else "ViewBackward0" if b else "UnsafeViewBackward0"
    flat = None if ex is None else shaping(node, "UnsqueezeBackward0" if lone else "ViewBackward0", ex, x.shape, 0.25)
    turned = None if ew is None else part(node, t_p.op, (ew,))
    op = _flat_addmm if b else _flat_mm
    out = len(_kept(node, 1)) if _kept(node, 1) is not None else -1
    split(node, ahead, op, (rows[0], out), (*b, flat, turned))


def _kept(node: Node, position: int) -> Any:
    """Return an operand that a node has saved unchanged; None if it has not."""
    if type(node.saved) is not tuple or node.targets is not None:
        return None
    return dict(saved_arrays(node, node.saved)).get(position)


def _run_flat(node: Any, g: Value, edges: tuple[Any, ...], saved: Any) -> tuple[Any, ...]:
    """Run the rule of an input of other than two dimensions between the views of it and of the result."""
    (*b, x, turned), shadow = edges, node.extra.shadow
    given = _operand(saved, shadow, 0)
    gx, gw, *gb = shadow.op.run(shadow, g.reshape((*given.shape[:-1], g.shape[-1])), (x, turned, *b), saved)
    if gx is not None:
        gx = gx.reshape((g.shape[0], given.shape[-1]))
    return (*gb, gx, None if gw is None else t_p(gw))


def _pairs(kept: Any, indexes: tuple[int, ...]) -> Any:
    return ((kept, indexes[0]),) if len(indexes) == 1 else zip(kept, indexes, strict=True)


_flat_addmm, _flat_mm = (Special(title, _run_flat, Unfolded) for title in ("AddmmBackward0", "MmBackward0"))


def _operand(saved: Any, node: Any, position: int) -> Any:
    """Return an operand among the saved values of a node."""
    pairs = (
        pair
        for kept, indexes in zip(saved, node.op.saves.indexes)
        if kept is not None
        for pair in _pairs(kept, indexes)
    )
    return next((value for value, i in pairs if i == position), None)


def _matrix(x: Any) -> Any:
    return x if x is None or x.ndim == 2 else x.reshape(-1, x.shape[-1])


def _explain_linear(error: Exception, x: Value, weight: Value, bias: Value | None = None) -> Exception | None:
    if weight.ndim == 2 and x.shape[-1:] != weight.shape[-1:]:
        return cannot_multiply((math.prod(x.shape[:-1]), x.shape[-1]), weight.shape[::-1])
    if bias is not None and weight.ndim == 2 and tuple(bias.shape) != (weight.shape[0],):
        return cannot_expand(tuple(bias.shape), (*x.shape[:-1], weight.shape[0]))
    return None


linear_p: Primitive = nary(
    _linear,
    inputs=3,
    joint=_linear_back,
    jvp=_linear_jvp,
    batch=_linear_batch,
    holomorphic=True,
    node_name="AddmmBackward0",
    accumulates=True,
    unfold=_unfold_linear,
    split=_split_linear,
    explain=_explain_linear,
    saves_for={0: 1, 1: 0},
    finish_order=(2, 0, 1),  # the weight's gradient is still to be transposed then
)


project_p: Primitive = binary(
    _project,
    x=_linear_x,
    y=_linear_weight,
    jvp="bilinear",
    batch=broadcasting(lambda x, weight: _batched_product(x, weight.swapaxes(-1, -2) if weight.ndim > 2 else weight)),
    node_name="MmBackward0",
    saved={"x": "self", "y": "mat2"},
    broadcast=False,
    accumulates=True,
    unfold=_unfold_linear,
    split=_split_linear,
    explain=_explain_linear,
)


for _kind in (linear_p.op.node, _addmm.node, _flat_addmm.node):  # under torch's names, of its operands
    _kind._saved_mat1 = property(lambda node: _matrix(saved_input(node, 0)))
    _kind._saved_mat2 = property(lambda node: t_p(saved_input(node, 1)))
    _kind._saved_alpha = _kind._saved_beta = 1
for _kind in (_mm.node, _flat_mm.node):
    _kind._saved_self = property(lambda node: _matrix(saved_input(node, 0)))
    _kind._saved_mat2 = property(lambda node: t_p(saved_input(node, 1)))


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Out = None) -> Tensor:
    """Apply an affine map: ``input @ weight.T + bias``, what ``nn.Linear`` computes.

    Parameters
    ----------
    input : Tensor
        Rows of features, ``(*, in_features)``, with any number of leading dimensions.
    weight : Tensor
        Matrix, ``(out_features, in_features)``, of the same dtype.
    bias : Tensor, optional
        Vector, ``(out_features,)``.
    out : Tensor, optional
        Tensor to write the result into.

    Returns
    -------
    Tensor
        ``(*, out_features)``.

    Examples
    --------
    >>> weight, bias = adjoint.tensor([[1.0, 0.0], [1.0, 1.0]]), adjoint.tensor([0.0, 10.0])
    >>> adjoint.nn.functional.linear(adjoint.tensor([[2.0, 3.0]]), weight, bias)
    tensor([[ 2., 15.]])
    """
    if out is not None:
        return into(out, linear(input, weight, bias))
    try:
        a, w = input.array, weight.array
    except AttributeError:
        require_tensors("linear", input=input, weight=weight)
        raise
    if not a.shape or w.ndim != 2:
        _check_linear(a.ndim, w.ndim)
    if a.dtype is not w.dtype:
        check_dtypes(a, w, "mat1 and mat2 must have the same dtype, but got {} and {}")
    if bias is None:
        return project_p(input, weight)
    try:
        b = bias.array
    except AttributeError:
        require_tensor(bias, "bias", "linear")
        raise
    if a.dtype is not b.dtype:
        check_dtypes(a, b, "mat1 and bias must have the same dtype, but got {} and {}")
    return linear_p(input, weight, bias)


def _check_linear(input: int, weight: int) -> None:
    if not input or not weight:
        raise RuntimeError(f"both arguments to linear need to be at least 1D, but they are {input}D and {weight}D")
    if weight > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {weight}D: the weight of linear()")
