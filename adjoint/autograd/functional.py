"""Derivatives of functions as ordinary tensors: `jacobian`, `hessian`, and their products with vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from ..core.nodes import differentiable
from ..core.tensor import TensorBase
from ..ops import create_like
from ..ops.join import stack
from ..ops.ranges import eye
from ..ops.shape import alias
from .differentiate import grad
from .grad_mode import enable_grad

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]
Tensors = tuple[Any, ...]


# --- Arguments --------------------------------------------------------------------------------------


def _as_tuple(value: Any, what: str, name: str) -> tuple[bool, Tensors]:
    """Return whether a value is a tuple, and it as one; raises unless it is tensors."""
    several = isinstance(value, tuple)
    values = value if several else (value,)
    for i, v in enumerate(values):
        if not isinstance(v, TensorBase):
            which = f"the value at index {i}" if several else f"the given {what}"
            raise TypeError(
                f"The {what} given to {name} must be either a Tensor or a tuple of Tensors but {which} has type "
                f"{type(v)}."
            )
    return several, values


def _fresh(inputs: Tensors, create_graph: bool, differentiated: bool = True) -> Tensors:
    """Return other tensors of the same values: on their graph if a graph is wanted and they have one, else leaves."""
    return tuple(
        alias(x) if create_graph and x.requires_grad else x.detach().requires_grad_(differentiated) for x in inputs
    )


def _outputs(func: Callable[..., Any], inputs: Tensors, name: str, strict: bool) -> tuple[bool, Tensors]:
    """Return what a function returns, and whether that is a tuple."""
    several, outs = _as_tuple(func(*inputs), "outputs of the user-provided function", name)
    _check_recorded(outs, "outputs", strict)
    return several, outs


def _single(func: Callable[..., Any], inputs: Tensors, name: str, strict: bool) -> Any:
    """Return a function's one output of one element."""
    several, outs = _outputs(func, inputs, name, strict)
    if several:
        raise RuntimeError(f"The function given to {name} should return a single Tensor")
    if math.prod(outs[0].array.shape) != 1:
        raise RuntimeError(f"The Tensor returned by the function given to {name} should contain a single element")
    return outs[0]


def _result(values: Sequence[Any], several: bool, create_graph: bool) -> Any:
    shown = tuple(v if create_graph else v.detach() for v in values)
    return shown if several else shown[0]


_OF_FUNCTION = "the user-provided function returns"
_OF_INPUT = "the input to the user-provided function is"


def _vector(v: Any, like: Tensors, several: bool, name: str, create_graph: bool) -> Tensors | None:
    """Return the vector to multiply by; None for 1, if it is left out where there is a single element."""
    if v is not None:
        vs = _fresh(_as_tuple(v, "v", name)[1], create_graph, differentiated=False)
        _check_vector(vs, like, several)
        return vs
    if len(like) != 1 or math.prod(like[0].array.shape) != 1:
        whose = _OF_FUNCTION if name == "vjp" else _OF_INPUT
        raise RuntimeError(f"The vector v can only be None if {whose} a single Tensor with a single element.")
    return None


def _check_vector(v: Tensors, like: Tensors, several: bool) -> None:
    if len(v) != len(like):
        if several:
            raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(v)}.")
        raise RuntimeError("The given v should contain a single Tensor.")
    for i, (a, b) in enumerate(zip(v, like, strict=True)):
        if tuple(a.array.shape) != tuple(b.array.shape):
            place = f"Entry {i} in v" if several else "v"
            raise RuntimeError(f"{place} has invalid size: should be {b.shape} but got {a.shape}.")


# --- Strict mode ------------------------------------------------------------------------------------

_STRICT = "This is not allowed in strict mode"
_INDEPENDENT = "The output of the user-provided function is independent of input {}. " + _STRICT + "."
# What is wrong with something, the i-th, that was not recorded and so depends on no input.
_UNRECORDED = {
    "outputs": "Output {} of the user-provided function does not require gradients. The outputs must be computed in a "
    "differentiable manner from the input when running in strict mode.",
    "grad_inputs": "The gradient with respect to input {} is independent of the inputs of the user-provided function. "
    + _STRICT + ".",
    "jacobian": "While computing the hessian, found that the jacobian of the user-provided function with respect to "
    "input {} is independent of the input. " + _STRICT + ". You should ensure that your function is twice "
    "differentiable and that the jacobian depends on the inputs (this would be violated by a linear function for "
    "example).",
}  # fmt: skip
# What is wrong with a gradient that is missing, and with one that has no graph of its own, by the pass it is from.
_MISSING = {
    "vjp": _INDEPENDENT,
    "jvp": "The gradient with respect to the input is independent of entry {} in the grad_outputs when using the "
    "double backward trick to compute forward mode gradients. " + _STRICT + ".",
    "vhp": "The jacobian of the user-provided function is independent of input {}. " + _STRICT + ".",
    "hvp": "The hessian of the user-provided function is independent of entry {} in the grad_jacobian. " + _STRICT
    + " as it prevents from using the double backward trick to replace forward mode AD.",
}  # fmt: skip
_CONSTANT = "The {} of the user-provided function is independent of input {}. " + _STRICT + " when create_graph=True."


def _check_recorded(values: Sequence[Any], what: str, strict: bool) -> None:
    for i, value in enumerate(values if strict else ()):
        if value is None:
            raise RuntimeError(_INDEPENDENT.format(i))
        if not value.requires_grad:
            raise RuntimeError(_UNRECORDED[what].format(i))


def _filled(gs: Sequence[Any], like: Tensors, name: str, create_graph: bool, strict: bool) -> Tensors:
    """Return gradients with zeros where there are none; in strict mode that is an error."""
    for i, g in enumerate(gs if strict else ()):
        if g is None:
            raise RuntimeError(_MISSING[name].format(i))
        if create_graph and not g.requires_grad:
            raise RuntimeError(_CONSTANT.format("hessian" if "h" in name else "jacobian", i))
    return tuple(create_like.zeros_like(x) if g is None else g for g, x in zip(gs, like, strict=True))


def _gradients(outs: Sequence[Any], inputs: Tensors, gs: Sequence[Any] | None, create_graph: bool) -> Sequence[Any]:
    """Return gradients, None where there are none; outputs may be None or require no gradient."""
    gs = [None] * len(outs) if gs is None else gs
    live = [(o, g) for o, g in zip(outs, gs, strict=True) if o is not None and o.requires_grad]
    if not live:
        return [None] * len(inputs)
    ours, theirs = zip(*live, strict=True)
    return tuple(grad(ours, inputs, theirs, retain_graph=True, create_graph=create_graph, allow_unused=True))


# --- Products ---------------------------------------------------------------------------------------


def vjp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """Return a function's value and the product of a vector with its Jacobian, ``vᵀ J``.

    Parameters
    ----------
    func : callable
        A function of tensors that returns one tensor or a tuple of them.
    inputs : Tensor or tuple of Tensor
        The arguments of `func`.
    v : Tensor or tuple of Tensor, optional
        Of the shapes of the outputs; may be left out for an output of one element.
    create_graph : bool, default False
        Record the computation, so that the result can be differentiated.
    strict : bool, default False
        Raise if an output does not depend on an input, instead of returning zeros.

    Returns
    -------
    tuple
        The value of `func`, and the product, with the structure and shapes of `inputs`.

    Examples
    --------
    >>> from adjoint.autograd.functional import vjp
    >>> vjp(lambda x: x**2, adjoint.tensor([1.0, 2.0]), adjoint.tensor([1.0, 10.0]))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    with enable_grad():
        several, ins = _as_tuple(inputs, "inputs", "vjp")
        fresh = _fresh(ins, create_graph)
        several_out, outs = _outputs(func, fresh, "vjp", strict)
        vs = _vector(v, outs, several_out, "vjp", create_graph)
        found = _filled(_gradients(outs, fresh, vs, create_graph), fresh, "vjp", create_graph, strict)
    return _result(outs, several_out, create_graph), _result(found, several, create_graph)


def jvp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """Return a function's value and the product of its Jacobian with a vector, ``J v``.

    `adjoint.func.jvp` computes the same in one pass.

    Parameters
    ----------
    func : callable
        A function of tensors that returns one tensor or a tuple of them.
    inputs : Tensor or tuple of Tensor
        The arguments of `func`.
    v : Tensor or tuple of Tensor, optional
        Of the shapes of the inputs; may be left out for an input of one element.
    create_graph : bool, default False
        Record the computation, so that the result can be differentiated.
    strict : bool, default False
        Raise if an output does not depend on an input, instead of returning zeros.

    Returns
    -------
    tuple
        The value of `func`, and the product, with the structure and shapes of the outputs.

    Examples
    --------
    >>> from adjoint.autograd.functional import jvp
    >>> jvp(lambda x: x**2, adjoint.tensor([1.0, 2.0]), adjoint.tensor([1.0, 10.0]))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    with enable_grad():
        several, ins = _as_tuple(inputs, "inputs", "jvp")
        fresh = _fresh(ins, create_graph)
        vs = _vector(v, ins, several, "jvp", create_graph)
        several_out, outs = _outputs(func, fresh, "jvp", strict)
        # A VJP is linear in its cotangent; its own VJP with respect to the cotangent is the JVP (double backward).
        seeds = tuple(create_like.zeros_like(o, requires_grad=True) for o in outs)
        pulled = _gradients(outs, fresh, seeds, True)
        _check_recorded(pulled, "grad_inputs", strict)
        found = _filled(_gradients(pulled, seeds, vs, create_graph), outs, "jvp", create_graph, strict)
    return _result(outs, several_out, create_graph), _result(found, several_out, create_graph)


def vhp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """Return the value of a scalar function and the product of a vector with its Hessian.

    Examples
    --------
    >>> from adjoint.autograd.functional import vhp
    >>> vhp(lambda x: (x**3).sum(), adjoint.tensor([1.0, 2.0]), adjoint.ones(2))
    (tensor(9.), tensor([ 6., 12.]))
    """
    with enable_grad():
        several, fresh, vs = _around_hessian(inputs, v, "vhp", create_graph)
        out = _single(func, fresh, "vhp", strict)
        slopes = _gradients((out,), fresh, None, True)
        _check_recorded(slopes, "jacobian", strict)
        found = _filled(_gradients(slopes, fresh, vs, create_graph), fresh, "vhp", create_graph, strict)
    return _result((out,), False, create_graph), _result(found, several, create_graph)


def _around_hessian(inputs: Any, v: Any, name: str, create_graph: bool) -> tuple[bool, Tensors, Tensors | None]:
    """Return whether `inputs` is a tuple, what to differentiate by, and the vector of the same shapes."""
    several, ins = _as_tuple(inputs, "inputs", name)
    return several, _fresh(ins, create_graph), _vector(v, ins, several, name, create_graph)


def hvp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """Return the value of a scalar function and the product of its Hessian with a vector.

    The Hessian is symmetric wherever it is continuous; `vhp` is then the same at less cost.

    Examples
    --------
    >>> from adjoint.autograd.functional import hvp
    >>> hvp(lambda x: (x**3).sum(), adjoint.tensor([1.0, 2.0]), adjoint.ones(2))
    (tensor(9.), tensor([ 6., 12.]))
    """
    with enable_grad():
        several, fresh, vs = _around_hessian(inputs, v, "hvp", create_graph)
        out = _single(func, fresh, "hvp", strict)
        slopes = _gradients((out,), fresh, None, True)
        _check_recorded(slopes, "jacobian", strict)
        seeds = tuple(create_like.zeros_like(x, requires_grad=True) for x in fresh)
        pulled = _gradients(slopes, fresh, seeds, True)
        found = _filled(_gradients(pulled, seeds, vs, create_graph), fresh, "hvp", create_graph, strict)
    return _result((out,), False, create_graph), _result(found, several, create_graph)


# --- Whole derivatives ------------------------------------------------------------------------------


def jacobian(
    func: Callable[..., Any], inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """Return the Jacobian of a function at `inputs`.

    Parameters
    ----------
    func : callable
        A function of tensors that returns one tensor or a tuple of them.
    inputs : Tensor or tuple of Tensor
        The arguments of `func`, which need not require gradients.
    create_graph : bool, default False
        Record the computation, so that the Jacobian can be differentiated.
    strict : bool, default False
        Raise if an output does not depend on an input, instead of returning zeros.
    vectorize : bool, default False
        Compute all rows (or columns) in one batch, with `vmap`.
    strategy : {"reverse-mode", "forward-mode"}
        Forward mode is best for few inputs and needs `vectorize`.

    Returns
    -------
    Tensor or tuple
        For an output of shape ``o`` and an input of shape ``i``, a tensor of shape ``o + i``. A tuple of outputs, of
        inputs, or of both gives a tuple, or a tuple of tuples, outputs first.

    Raises
    ------
    RuntimeError
        With `strict`, if an output does not depend on an input.

    Examples
    --------
    >>> from adjoint.autograd.functional import jacobian
    >>> jacobian(lambda x: x**2, adjoint.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    >>> jacobian(lambda x, y: x * y, (adjoint.tensor(3.0), adjoint.tensor(4.0)))
    (tensor(4.), tensor(3.))
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more outputs '
            'than inputs, "forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode".'
        )
    if strategy == "forward-mode":
        several, ins = _of_forward(inputs, create_graph, strict, vectorize)
        return _by_columns(func, ins, several)
    with enable_grad():
        several, ins = _as_tuple(inputs, "inputs", "jacobian")
        fresh = _fresh(ins, create_graph)
        several_out, outs = _outputs(func, fresh, "jacobian", strict)
        if strict and vectorize:
            raise RuntimeError(
                "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported together. "
                "Please either set `strict=False` or `vectorize=False`."
            )
        rows = _batched_rows if vectorize else _looped_rows
        found = tuple(
            _result(rows(o, fresh, i, create_graph, strict), several, create_graph) for i, o in enumerate(outs)
        )
    return found if several_out else found[0]


def _of_forward(inputs: Any, create_graph: bool, strict: bool, vectorize: bool) -> tuple[bool, Tensors]:
    """Return whether `inputs` is a tuple, and it as one, where options and inputs are fit for forward mode."""
    if create_graph or strict:
        option = "create_graph" if create_graph else "strict"
        refused: type[Exception] = NotImplementedError if create_graph else RuntimeError
        raise refused(
            f'torch.autograd.functional.jacobian: `{option}=True` and `strategy="forward-mode"` are not supported '
            f'together (yet). Please either set `{option}=False` or `strategy="reverse-mode"`.'
        )
    several, ins = _as_tuple(inputs, "inputs", "jacobian")
    if not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian is only implemented for "
            "`vectorize=True`."
        )
    if not ins:
        raise AssertionError("Expected at least one tensor")
    for x in ins:
        if not differentiable(x.array.dtype):
            raise ValueError(f"Expected primal to be floating point or complex, but got: {x.dtype}")
    return several, ins


def _looped_rows(out: Any, inputs: Tensors, number: int, create_graph: bool, strict: bool) -> list[Any]:
    """Return the derivatives of one output by each input, row by row."""
    shape = tuple(out.array.shape)
    rows = []
    for element in out.reshape(-1):
        gs = _gradients((element,), inputs, None, create_graph)
        for i, g in enumerate(gs if strict else ()):
            if g is None:
                raise RuntimeError(
                    f"Output {number} of the user-provided function is independent of input {i}. {_STRICT}."
                )
            if create_graph and not g.requires_grad:
                raise RuntimeError(_CONSTANT.format("jacobian", i))
        rows.append([create_like.zeros_like(x) if g is None else g for g, x in zip(gs, inputs, strict=True)])
    if not rows:
        return [create_like.new_zeros(x, shape + tuple(x.array.shape)) for x in inputs]
    return [
        stack(list(column)).reshape(shape + tuple(x.array.shape))
        for column, x in zip(zip(*rows, strict=True), inputs, strict=True)
    ]


def _batched_rows(out: Any, inputs: Tensors, number: int, create_graph: bool, strict: bool) -> list[Any]:
    """Return the derivatives of one output by each input, all rows in one batch."""
    shape, count = tuple(out.array.shape), math.prod(out.array.shape)
    gs: Sequence[Any] = [None] * len(inputs)
    if out.requires_grad:
        unit = eye(count, dtype=out.dtype, device=out.device).reshape((count, *shape))
        gs = grad(
            out, inputs, unit, retain_graph=True, create_graph=create_graph, allow_unused=True, is_grads_batched=True
        )
    return [
        x.new_zeros(shape + tuple(x.array.shape)) if g is None else g.reshape(shape + tuple(x.array.shape))
        for g, x in zip(gs, inputs, strict=True)
    ]


def _by_columns(func: Callable[..., Any], inputs: Tensors, several: bool) -> Any:
    # Forward mode over a batch of directions is a transform, which stands below.
    from ..func import jacfwd

    several_out: list[bool] = []

    def checked(*xs: Any) -> Tensors:
        many, outs = _outputs(func, xs, "jacobian", False)
        several_out.append(many)
        return outs

    found = jacfwd(checked, argnums=tuple(range(len(inputs))))(*inputs)
    found = tuple(row if several else row[0] for row in found)
    return found if several_out[0] else found[0]


def hessian(
    func: Callable[..., Any], inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """Return the Hessian, the matrix of second derivatives, of a function of one element.

    Parameters
    ----------
    func : callable
        A function of tensors that returns a tensor of one element.
    inputs : Tensor or tuple of Tensor
        The arguments of `func`.
    create_graph : bool, default False
        Record the computation, so that the Hessian can be differentiated.
    strict : bool, default False
        Raise if the output does not depend on an input, instead of returning zeros.
    vectorize : bool, default False
        Compute all rows in one batch, with `vmap`.
    outer_jacobian_strategy : {"reverse-mode", "forward-mode"}
        How the Jacobian of the gradient is computed; forward mode needs `vectorize`.

    Returns
    -------
    Tensor or tuple
        For an input of shape ``i``, a tensor of shape ``i + i``; for a tuple of inputs, a tuple of tuples.

    Examples
    --------
    >>> from adjoint.autograd.functional import hessian
    >>> hessian(lambda x: x.prod(), adjoint.tensor([2.0, 3.0, 4.0]))
    tensor([[0., 4., 3.],
            [4., 0., 2.],
            [3., 2., 0.]])
    """
    several, ins = _as_tuple(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')
    if outer_jacobian_strategy == "forward-mode":
        _of_forward(ins, create_graph, strict, vectorize)
        return _by_forward_over_reverse(func, ins, several)

    def slopes(*xs: Any) -> Any:
        fresh = _fresh(xs, True)
        out = _single(func, fresh, "hessian", strict)
        gs = _gradients((out,), fresh, None, True)
        found = tuple(create_like.zeros_like(x) if g is None else g for g, x in zip(gs, fresh, strict=True))
        _check_recorded(found, "jacobian", strict)
        return found

    found = jacobian(slopes, ins, create_graph=create_graph, strict=strict, vectorize=vectorize)
    return found if several else found[0][0]


def _by_forward_over_reverse(func: Callable[..., Any], inputs: Tensors, several: bool) -> Any:
    # A transform around a transform, which stand below.
    from ..func import grad as slope
    from ..func import jacfwd

    every = tuple(range(len(inputs)))
    found = jacfwd(slope(lambda *xs: _single(func, xs, "hessian", False).reshape(()), every), every)(*inputs)
    return found if several else found[0][0]


# --- Names that packages import from torch's module though they are private there ---------------------


def _construct_standard_basis_for(tensors: Sequence[Any], tensor_numels: Sequence[int]) -> Tensors:
    """Return the rows of an identity matrix, cut into one block of columns per tensor, each of its dtype."""
    total, ends = sum(tensor_numels), list(accumulate(tensor_numels))
    blocks = []
    for x, count, end in zip(tensors, tensor_numels, ends, strict=True):
        block = x.new_zeros(total, count)
        block[end - count : end].fill_diagonal_(1)
        blocks.append(block)
    return tuple(blocks)


def _grad_postprocess(inputs: Any, create_graph: bool) -> Any:
    """Detach the tensors in nested tuples, unless their graph is wanted."""
    if isinstance(inputs, tuple):
        return tuple(_grad_postprocess(x, create_graph) for x in inputs)
    return inputs if create_graph else inputs.detach()


def _tuple_postprocess(res: Any, to_unpack: Any) -> Any:
    """Take out of their tuples what was not given as one: the outer level by one flag, the inner by another."""
    if not isinstance(to_unpack, tuple):
        return res if to_unpack else res[0]
    outer, inner = to_unpack
    if not inner:
        res = tuple(x[0] for x in res)
    return res if outer else res[0]
