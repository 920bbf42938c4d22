"""`backward` and `grad`: checking what callers pass, and starting the engine."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from ..core import dtypes, engine, modes, pruning
from ..core.engine import start_gradient
from ..core.nodes import (
    Form,
    Hidden,
    MultipleNode,
    Output,
    note_form,
    output_index,
    output_node,
    shown,
    wrap,
)
from ..core.observation import lifting, observer
from ..core.payload import history_below, transforming
from ..core.primitive import cast as cast_to
from ..core.size import Size
from ..core.tensor import TensorBase
from ..core.views import edge_of
from ..ops import create, create_like
from ..ops.arguments import is_int
from ..ops.literals import depth_outside

ndarray = np.ndarray


class GradientEdge(NamedTuple):
    """One output of a node: a root of a backward pass, or an input of `grad`, without the tensor."""

    node: Any
    output_nr: int
    ownership_token: Any = None


_DIFFERENTIABLE = (TensorBase, GradientEdge)


def _tuple(value: Any) -> tuple[Any, ...]:
    return (value,) if isinstance(value, _DIFFERENTIABLE) else tuple(value)


def _inputs(value: Any, caller: str) -> tuple[Any, ...]:
    """Return what to differentiate by, at least one: the values of a dict, or as `_tuple` has it."""
    if not isinstance(value, (TensorBase, tuple, list)) and isinstance(value, Mapping):
        if type(value) is not dict:
            raise TypeError(
                f"`inputs` argument to `{caller}` must be a dict, not {type(value).__name__}. Other Mapping types are "
                "not supported."
            )
        value = value.values()
    found = _seen(_tuple(value))
    if not found:
        raise RuntimeError(f"`inputs` argument to `{caller}` cannot be empty.")
    return found


def _seen(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return tensors as they are to be differentiated: of a dual one, whose primal has a history, the primal."""
    if not modes.unusual:
        return values
    return tuple(_with_history(v) if isinstance(v, TensorBase) and v.node is None else v for v in values)


def _with_history(x: TensorBase) -> Any:
    below = history_below(x)
    return x if below is None else below


def gradient_edge(x: Any, node: Any) -> GradientEdge:
    """Return the edge of a tensor and its node."""
    note_form(node, x)
    # A node of several outputs is shown whole: the token is the place of this one.
    return GradientEdge(shown(node), output_index(node), node if isinstance(node, Output | MultipleNode) else None)


def _node_of_edge(edge: GradientEdge, roots: Sequence[Any] = ()) -> Any:
    """Return the place in the graph that an edge names; of several outputs, the one that is reached from `roots`."""
    if edge.ownership_token is not None:  # the very place in the graph, as get_gradient_edge noted it
        return edge.ownership_token
    node, number = edge.node, edge.output_nr
    count = len(node.metas) if isinstance(node, MultipleNode) else 1
    if not 0 <= number < count:
        raise IndexError(
            f"tuple index out of range: {node.name()} has {count} outputs, and {number} is no number of one"
        )
    if not isinstance(node, MultipleNode) or getattr(node, "single", False):
        return node
    outputs = (n for n in pruning.reach(roots) if type(n) is Output and n.edges[0] is node and n.index == number)
    return next(outputs, None) or output_node(node, number)


def _root_of(value: Any, index: int) -> Any:
    """Return the node of an output that a gradient may start from."""
    node = _node_of_edge(value) if isinstance(value, GradientEdge) else edge_of(value)
    if node is None or type(node) is Hidden:
        raise RuntimeError(
            f"element {index} of tensors does not require grad and does not have a grad_fn: nothing that it was "
            "computed from requires grad, or recording was off (no_grad, detach()) when it was"
        )
    return node


def _form_of(root: Any) -> Form | None:
    """Return the shape, dtype and device of an output; None for an edge whose tensor no caller has requested."""
    if isinstance(root, GradientEdge):
        _node_of_edge(root)
        return cast(Form | None, root.node._input_metadata[root.output_nr])
    if not isinstance(root, TensorBase):
        raise AssertionError(f"Expected output to be a torch.Tensor or a GradientEdge, not {type(root).__name__}")
    return Form.of(root)


def _starts(roots: tuple[Any, ...], gs: Any, batched: bool = False) -> list[Any]:
    """Return the gradient to start each root from, a tensor: the caller's, checked, or one."""
    gs = (None,) * len(roots) if gs is None else _tuple(gs)
    starts = [_start(root, g, i, batched) for i, (root, g) in enumerate(zip(roots, gs, strict=False))]
    if len(gs) < len(roots):
        raise RuntimeError(f"got {len(roots)} tensors and {len(gs)} gradients: one for each of the outputs, or None")
    return starts


def _start(root: Any, g: Any, index: int, batched: bool) -> Any:
    if not batched and not modes.unusual:
        usual = _usual_start(root, g)
        if usual is not None:
            return wrap(usual) if g is None else g
    form = _form_of(root)
    if g is not None and not isinstance(g, TensorBase):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(g).__name__}")
    if g is not None:
        return g if form is None else _checked(form, g, index, batched)
    _root_of(root, index)  # a root that cannot be differentiated at all is reported first
    if form is None or math.prod(form.shape) != 1:
        raise RuntimeError(
            "grad can be implicitly created only for scalar outputs"
            + ("" if form is None else f", and this one has shape {list(form.shape)}")
            + ": reduce it first (loss.sum() or loss.mean()), or pass the gradient of each element: "
            "backward(gradient=adjoint.ones_like(loss))"
        )
    if not form.dtype.is_floating_point:
        raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {form.dtype}")
    if isinstance(root, TensorBase):
        return wrap(start_gradient(root))
    return create.ones(form.shape, dtype=form.dtype, device=form.device)


def check_start(root: Any, g: Any, index: int) -> None:
    """Raise unless a pass may start from `root` with the gradient `g`; None, for a real scalar, is one."""
    _start(root, g, index, False)


def _checked(form: Form, g: Any, index: int, batched: bool) -> Any:
    """Return a gradient that was given for an output, in the output's dtype."""
    shape = g.array.shape[1:] if batched else g.array.shape
    if tuple(shape) != tuple(form.shape):
        where = (
            f"grad_output[{index}] has a shape of {Size(shape)} and output[{index}] has a shape of {Size(form.shape)}."
        )
        if batched:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch "
                "dimension. The sizes of the remaining dimensions are expected to match the shape of corresponding "
                f"output, but a mismatch was detected: {where} If you only want some tensors in `grad_output` to be "
                "considered batched, consider using vmap."
            )
        raise RuntimeError(f"Mismatch in shape: {where}")
    if form.dtype.is_complex != (g.array.dtype.kind == "c"):
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in "
            f"dtype: grad_output[{index}] has a dtype of {dtypes.of(g.array.dtype)} and output[{index}] has a dtype "
            f"of {form.dtype}."
        )
    return g if g.array.dtype == form.dtype.np else cast_to(g, form.dtype.np)


_ONES = {np.dtype(d): np.ones((), d) for d in ("float32", "float64")}


def _usual_start(root: Any, g: Any) -> Any:
    """Return the gradient to start from where there is nothing to check; else None."""
    if not isinstance(root, TensorBase) or root.node is None:
        return None
    a = root.array
    one = _ONES.get(a.dtype)
    if one is None or type(a) is not ndarray:
        return None
    if g is None:
        return one.copy() if a.ndim == 0 else None
    if isinstance(g, TensorBase) and type(g.array) is ndarray and g.array.dtype is a.dtype and g.array.shape == a.shape:
        return g.array
    return None


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Add the gradients of `tensors` to the ``.grad`` of the leaves they depend on.

    Parameters
    ----------
    tensors : Tensor, GradientEdge or sequence
        What to differentiate.
    grad_tensors : Tensor, None or sequence, optional
        The gradient of each; None for one of a single element starts from 1.
    retain_graph : bool, optional
        Do not free the saved values, so that a second backward pass can run; default `create_graph`.
    create_graph : bool, default False
        Record the pass itself, for derivatives of higher order.
    grad_variables : optional
        The old name of `grad_tensors`.
    inputs : Tensor, GradientEdge or sequence, optional
        Accumulate only into these.

    Raises
    ------
    RuntimeError
        If a tensor of several elements has no gradient to start from, if nothing requires a gradient, or if an earlier
        pass freed the graph.

    Examples
    --------
    >>> x = adjoint.tensor([1.0, 2.0], requires_grad=True)
    >>> adjoint.autograd.backward((x * x).sum())
    >>> x.grad
    tensor([2., 4.])
    >>> adjoint.autograd.backward(x * x, grad_tensors=adjoint.tensor([1.0, 0.0]))
    >>> x.grad  # accumulated
    tensor([4., 4.])
    """
    if modes.transforms and transforming():
        raise RuntimeError(
            "backward() called inside a functorch transform. This is not supported, please use functorch.grad or "
            "functorch.vjp instead or call backward() outside of functorch transforms."
        )
    if inputs is None and not create_graph and not modes.unusual and grad_variables is None:
        start = _usual_start(tensors, grad_tensors)
        node = None if start is None else edge_of(tensors)
        if node is not None and type(node) is not Hidden:
            keep = retain_graph if retain_graph is None or type(retain_graph) is bool else _flag(retain_graph)
            engine.backward((node,), (start,), bool(keep), False)
            return
    if grad_variables is not None:
        grad_tensors = _older_name(grad_tensors, grad_variables)
    ins = None if inputs is None else _inputs(inputs, "backward()")
    roots = _seen(_tuple(tensors))
    starts = _starts(roots, grad_tensors)
    if type(create_graph) is not bool or (retain_graph is not None and type(retain_graph) is not bool):
        create_graph, retain_graph = _flag(create_graph), retain_graph if retain_graph is None else _flag(retain_graph)
    keep = create_graph if retain_graph is None else retain_graph
    nodes = [_root_of(t, i) for i, t in enumerate(roots)]
    lift = lifting(create_graph) if modes.unusual else create_graph
    wanted = None if ins is None else [n for x in ins for n in _filled_at(x, nodes)]
    values = starts if lift else [g.array for g in starts]
    if create_graph:
        _warn_of_cycle()
    _observed(nodes, lambda: engine.backward(nodes, values, keep, lift, wanted))


def _older_name(grad_tensors: Any, grad_variables: Any) -> Any:
    warnings.warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning, stacklevel=3)
    if grad_tensors is not None:
        raise RuntimeError(
            "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. Please only use "
            "`grad_tensors`."
        )
    return grad_variables


_warned: list[bool] = []


def _warn_of_cycle() -> None:
    """Warn, once in a process unless `set_warn_always` is on, that a recorded gradient leads to its own tensor."""
    if not _warned or modes.warn_always:
        _warned.append(True)
        warnings.warn(
            "Using backward() with create_graph=True will create a reference cycle between the parameter and its "
            "gradient which can cause a memory leak. We recommend using autograd.grad when creating the graph to "
            "avoid this. If you have to use this function, make sure to reset the .grad fields of your parameters to "
            "None after use to break the cycle and avoid the leak.",
            UserWarning,
            stacklevel=depth_outside(),
        )


def _filled_at(x: Any, roots: Sequence[Any]) -> tuple[Any, ...]:
    """Return the nodes to stop at, so that the ``.grad`` of an input is filled; of a non-leaf, it is retained."""
    if isinstance(x, TensorBase):
        x.retain_grad()  # type: ignore[attr-defined]
    node = _input_node(x, roots)
    return (node, node.edges[0]) if type(node) is Output else (node,)


def _observed(nodes: Any, run: Callable[[], Any]) -> Any:
    """Run a backward pass under the active observers."""
    watching = observer()
    return run() if watching is None else watching.backward(nodes, run)


def _input_node(x: Any, roots: Sequence[Any]) -> Any:
    if isinstance(x, GradientEdge):
        return _node_of_edge(x, roots)
    if not isinstance(x, TensorBase):
        raise RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {type(x).__name__}")
    node = edge_of(x)
    if node is None:
        raise RuntimeError("One of the differentiated Tensors does not require grad")
    return Hidden() if type(node) is Hidden else node  # which no gradient reaches


def _flag(value: Any) -> bool:
    """Return an argument that is a bool; integers stand for one, as in PyTorch."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, TensorBase):
        if value.array.size != 1 or value.array.dtype.kind not in "iub":
            raise TypeError("only integer tensors of a single element can be converted to an index: give True or False")
        return bool(value)
    if not is_int(value):
        raise TypeError(f"'{type(value).__name__}' object cannot be interpreted as an integer: give True or False")
    if not 0 <= operator.index(value) < 256:
        raise OverflowError(f"a flag is one byte, and {value} is too large or less than minimum: give True or False")
    return bool(value)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """Return the gradients of `outputs` with respect to `inputs`, leaving every ``.grad`` alone.

    Parameters
    ----------
    outputs : Tensor, GradientEdge or sequence
        What to differentiate; the gradients of several are summed.
    inputs : Tensor, GradientEdge, sequence or dict
        What to differentiate by; a dict gives a dict of gradients.
    grad_outputs : Tensor, None or sequence, optional
        The gradient of each output; None starts a single element from 1.
    retain_graph : bool, optional
        Do not free the saved values, so that a second pass can run; default `create_graph`.
    create_graph : bool, default False
        Record the pass itself, for derivatives of higher order.
    only_inputs : bool, default True
        Ignored; False warns.
    allow_unused : bool, optional
        Return None for an input that the outputs do not depend on, instead of raising; default `materialize_grads`.
    is_grads_batched : bool, default False
        Whether the first dimension of each of `grad_outputs` counts separate gradients, to be
        propagated together.
    materialize_grads : bool, default False
        Return zeros instead of None.

    Returns
    -------
    tuple of Tensor
        One gradient for each input, of its shape and dtype; a dict if `inputs` is one.

    Raises
    ------
    RuntimeError
        If an input is not part of the graph and `allow_unused` is not set, or if an earlier pass freed the graph.

    Examples
    --------
    >>> x = adjoint.tensor(3.0, requires_grad=True)
    >>> (dx,) = adjoint.autograd.grad(x**3, x, create_graph=True)
    >>> adjoint.autograd.grad(dx, x)
    (tensor(18.),)
    """
    if not (modes.unusual or is_grads_batched or materialize_grads or allow_unused) and only_inputs:
        found = _grad_of_one(outputs, inputs, grad_outputs, retain_graph, create_graph)
        if found is not None:
            return found
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    allow = materialize_grads if allow_unused is None else _flag(allow_unused)
    outs, ins = _seen(_tuple(outputs)), _inputs(inputs, "grad()")
    if not only_inputs:
        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for "
            "other parts of the graph, please use torch.autograd.backward.",
            FutureWarning,
            stacklevel=2,
        )
    starts = _starts(outs, grad_outputs, is_grads_batched)
    if type(create_graph) is not bool or (retain_graph is not None and type(retain_graph) is not bool):
        create_graph, retain_graph = _flag(create_graph), retain_graph if retain_graph is None else _flag(retain_graph)
    keep = create_graph if retain_graph is None else retain_graph
    nodes = [_root_of(t, i) for i, t in enumerate(outs)]
    wanted = [_input_node(x, nodes) for x in ins]
    gs = (None,) * len(outs) if grad_outputs is None else _tuple(grad_outputs)
    slopes, dual = _slopes(_tuple(outputs), tuple(ins), gs, create_graph) or ((), None)
    if is_grads_batched:
        from .batched import grad_batched

        results = grad_batched(nodes, wanted, starts, keep, create_graph)
    else:
        lift = lifting(create_graph) if modes.unusual else create_graph
        values = starts if lift else [g.array for g in starts]
        if modes.unusual:
            found = _observed(nodes, lambda: engine.backward(nodes, values, keep, lift, wanted, accumulating=False))
        else:
            found = engine.backward(nodes, values, keep, lift, wanted, accumulating=False)
        results = list(found) if lift else _as_given(found, starts)
    for i, g in enumerate(results):
        if g is None:
            results[i] = _unused(ins[i], i, allow, materialize_grads, create_graph)
        elif dual is not None and slopes[i] is not None:
            results[i] = dual(g, slopes[i])
    return dict(zip(inputs, results, strict=True)) if isinstance(inputs, dict) else tuple(results)


def _grad_of_one(outputs: Any, inputs: Any, grad_outputs: Any, retain_graph: object, create_graph: object) -> Any:
    """Return the gradients of one tensor by tensors, where there is nothing to check or convert; else None."""
    one = _lone(outputs)
    given = None if grad_outputs is None else _lone(grad_outputs)
    start = _usual_start(one, given)
    if start is None or type(create_graph) is not bool or type(retain_graph) not in (bool, type(None)):
        return None
    ins = inputs if type(inputs) in (tuple, list) else (inputs,)
    wanted = [edge_of(x) if isinstance(x, TensorBase) else None for x in ins]
    node = edge_of(one)
    if not wanted or None in wanted or type(node) is Hidden or Hidden in map(type, wanted):
        return None
    g = wrap(start) if given is None else given
    keep = create_graph if retain_graph is None else bool(retain_graph)
    found = engine.backward(
        (node,), (g if create_graph else start,), keep, create_graph, wanted, accumulating=False
    )  # fmt: skip
    results = found if create_graph else _as_given(found, [g])
    return tuple([_unused(ins[i], i, False, False, False) if r is None else r for i, r in enumerate(results)])


def _lone(values: Any) -> Any:
    """Return a value that is given by itself or in a sequence of one."""
    return values[0] if type(values) in (tuple, list) and len(values) == 1 else values


def _as_given(found: Any, starts: list[Any]) -> list[Any]:
    """Return gradients as tensors: one that arrives as it started is that very tensor, and equal ones are one."""
    tensors = {id(g.array): g for g in starts}
    for g in found:
        if g is not None and id(g) not in tensors:
            tensors[id(g)] = wrap(g)
    return [None if g is None else tensors[id(g)] for g in found]


def _slopes(outs: tuple[Any, ...], ins: tuple[Any, ...], gs: tuple[Any, ...], create_graph: bool) -> Any:
    """Return the tangents of gradients of dual outputs, and how a gradient gets one; None where there is none.

    The tangent of a gradient is the gradient of the tangent: the two derivatives commute.
    """
    if not modes.unusual:
        return None
    pairs = []
    for out, g in zip(outs, gs, strict=False):
        below = history_below(out) if isinstance(out, TensorBase) and out.node is None else None
        tangent = None if below is None else out.array.tangent
        if isinstance(tangent, TensorBase) and tangent.node is not None:
            pairs.append((out, tangent, g))
    if not pairs:
        return None
    kind, level = type(pairs[0][0].array), pairs[0][0].array.level

    def dual(g: Any, slope: Any) -> Any:
        value = kind(g, slope, level)
        out = wrap(value)
        value.note_holder(out)
        return out

    tangents, starts = [t for _, t, _ in pairs], [g for _, _, g in pairs]
    return grad(tangents, ins, starts, True, create_graph, allow_unused=True), dual


def _unused(x: Any, index: int, allow_unused: bool, materialize: bool, create_graph: bool) -> Any:
    """Return what stands for the gradient of an input that the outputs do not depend on, or raise."""
    if not allow_unused:
        raise RuntimeError(
            f"The differentiated Tensor at index {index} appears to not have been used in the graph. Set "
            "allow_unused=True if this is the desired behavior. (One of the differentiated Tensors appears to not "
            "have been used in the graph.)"
        )
    if not materialize:
        return None
    if not isinstance(x, TensorBase):
        raise RuntimeError("materialize_grads cannot be used when the given input is a GradientEdge")
    return create_like.zeros_like(cast(Any, x), requires_grad=create_graph)
