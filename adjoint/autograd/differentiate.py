"""`backward` and `grad`: checking what callers pass, and starting the engine."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np

from .._typing import Tensor
from ..core import dtypes, engine, modes
from ..core.engine import AccumulateGrad, start_gradient
from ..core.nodes import Hidden, MultipleNode, output_index, output_node, shown, wrap
from ..core.observation import lifting, observer
from ..core.payload import history_below
from ..core.size import Size
from ..core.tensor import TensorBase
from ..core.views import edge_of
from ..ops import create

ndarray = np.ndarray


class GradientEdge(NamedTuple):
    """One output of a node: where a gradient can start from, or be asked for, without the tensor."""

    node: Any
    output_nr: int
    ownership_token: Any = None


def _tuple(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    if isinstance(value, TensorBase | GradientEdge):
        return (value,)
    return tuple(value)


def _seen(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return tensors as they are to be differentiated: of a dual one, whose primal has a history, the primal."""
    if not modes.unusual:
        return values
    return tuple(_with_history(v) if isinstance(v, TensorBase) and v.node is None else v for v in values)


def _with_history(x: TensorBase) -> Any:
    below = history_below(x)
    return x if below is None else below


# What a pass starts from at outputs of a single element that `gradient_edge` was asked about.
_ones: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def gradient_edge(x: Any, node: Any) -> GradientEdge:
    """Return the edge of a tensor and its node."""
    if x.array.size == 1 and x.array.dtype.kind != "c":
        _ones[node] = start_gradient(x)
    return GradientEdge(shown(node), output_index(node), node)


def _node_of_edge(edge: GradientEdge) -> Any:
    if edge.ownership_token is not None:  # the very place in the graph, as get_gradient_edge noted it
        return edge.ownership_token
    node = edge.node
    return output_node(node, edge.output_nr) if isinstance(node, MultipleNode) else node


def _root_of(value: Any, index: int) -> Any:
    """Return the node of an output that a gradient may start from."""
    if isinstance(value, GradientEdge):
        return _node_of_edge(value)
    if not isinstance(value, TensorBase):
        raise TypeError(f"element {index} of tensors must be a Tensor or a GradientEdge, not {type(value).__name__}")
    node = edge_of(value)
    if node is None or type(node) is Hidden:
        raise RuntimeError(
            f"element {index} of tensors does not require grad and does not have a grad_fn: nothing that it was "
            "computed from requires grad, or recording was off (no_grad, detach()) when it was"
        )
    return node


def _starting_gradient(root: Any, g: Any, lift: bool, index: int = 0) -> Any:
    """Return the gradient to start a root from: the caller's, checked, or one."""
    if isinstance(root, GradientEdge):
        if g is None:
            one = _ones.get(_node_of_edge(root))
            if one is None:
                raise RuntimeError(
                    "grad can be implicitly created only for scalar outputs: a GradientEdge of another needs a gradient"
                )
            g = wrap(one.copy())
        return g if lift else g.array
    start = _usual_start(root, g)
    if start is not None:
        return start if not lift else wrap(start) if g is None else g
    if g is None:
        if root.array.size != 1:
            raise RuntimeError(
                f"grad can be implicitly created only for scalar outputs, and this one has shape "
                f"{list(root.array.shape)}: reduce it first (loss.sum() or loss.mean()), or pass the gradient "
                "of each element: backward(gradient=adjoint.ones_like(loss))"
            )
        if dtypes.of(root.array.dtype).category == 3:
            raise RuntimeError(
                f"grad can be implicitly created only for real scalar outputs but got {dtypes.of(root.array.dtype)}"
            )
        g = start_gradient(root)
        return wrap(g) if lift else g
    if not isinstance(g, TensorBase):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(g).__name__}")
    _check_gradient(root, g, index)
    return g if lift else g.array


def _check_gradient(root: Any, g: Any, index: int, batched: bool = False) -> None:
    if (root.array.dtype.kind == "c") != (g.array.dtype.kind == "c"):
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in "
            f"dtype: grad_output[{index}] has a dtype of {dtypes.of(g.array.dtype)} and output[{index}] has a dtype "
            f"of {dtypes.of(root.array.dtype)}."
        )
    shape = g.array.shape[1:] if batched else g.array.shape
    if tuple(shape) != tuple(root.array.shape):
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{index}] has a shape of {Size(shape)} and output[{index}] has a shape of "
            f"{Size(root.array.shape)}."
        )


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
    tensors
        One tensor or several; `GradientEdge`s too.
    grad_tensors
        The gradient of each; None for one of a single element starts from 1.
    retain_graph
        Keep what the graph has saved, so that it can be gone through again; default `create_graph`.
    create_graph
        Record the pass itself, for derivatives of higher order.
    inputs
        Accumulate only into these tensors.

    Examples
    --------
    >>> x = adjoint.tensor([1.0, 2.0], requires_grad=True)
    >>> adjoint.autograd.backward((x * x).sum())
    >>> x.grad
    tensor([2., 4.])
    """
    if inputs is None and not create_graph and not modes.unusual and grad_variables is None:
        start = _usual_start(tensors, grad_tensors)
        if start is not None:
            engine.backward((edge_of(tensors),), (start,), bool(retain_graph), False)
            return
    if tensors is None:
        raise TypeError("backward() takes a tensor, or several, to start from, not None")
    roots = _seen(_tuple(tensors))
    if inputs is not None:
        inputs = _seen(_tuple(inputs))
        if not inputs:
            raise RuntimeError("inputs argument to backward() cannot be empty.")
    if grad_tensors is None:
        grad_tensors = grad_variables
    gs = _tuple(grad_tensors) if grad_tensors is not None else (None,) * len(roots)
    if len(gs) != len(roots):
        raise RuntimeError(f"got {len(roots)} tensors and {len(gs)} gradients")
    keep = create_graph if retain_graph is None else retain_graph
    nodes = [_root_of(t, i) for i, t in enumerate(roots)]
    lift = lifting(create_graph) if modes.unusual else create_graph
    starts = [_starting_gradient(t, g, lift, i) for i, (t, g) in enumerate(zip(roots, gs, strict=True))]
    if inputs is not None:
        _observed(nodes, lambda: _backward_into(nodes, starts, keep, lift, inputs))
    elif modes.unusual:
        _observed(nodes, lambda: engine.backward(nodes, starts, keep, lift))
    else:
        engine.backward(nodes, starts, keep, lift)


def _observed(nodes: Any, run: Callable[[], Any]) -> Any:
    """Run a backward pass under whoever watches."""
    watching = observer()
    return run() if watching is None else watching.backward(nodes, run)


def _backward_into(nodes: Any, starts: Any, keep: bool, lift: bool, inputs: tuple[Any, ...]) -> None:
    wanted = [_input_node(x, i) for i, x in enumerate(inputs)]
    leaves = all(type(n) is AccumulateGrad for n in wanted)
    if leaves:
        engine.backward(nodes, starts, keep, lift, wanted)
        return
    results = engine.backward(nodes, starts, keep, lift, wanted, accumulating=False)
    for x, node, g in zip(inputs, wanted, results, strict=True):
        if g is None:
            continue
        if type(node) is AccumulateGrad:
            engine.accumulate(node, g, lift)
        elif isinstance(x, TensorBase) and not x.retains_grad:  # type: ignore[attr-defined]
            fresh = g if lift else wrap(g)
            x._grad = fresh if x._grad is None else x._grad + fresh


def _input_node(x: Any, index: int) -> Any:
    if isinstance(x, GradientEdge):
        return _node_of_edge(x)
    if not isinstance(x, TensorBase):
        raise TypeError(f"inputs must be Tensors or GradientEdges, not {type(x).__name__}")
    node = edge_of(x)
    if node is None:
        raise RuntimeError(f"One of the differentiated Tensors does not require grad (input {index})")
    return Hidden() if type(node) is Hidden else node  # where no gradient goes


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
) -> tuple[Tensor, ...]:
    """Return the gradients of `outputs` with respect to `inputs`, leaving every ``.grad`` alone.

    Parameters
    ----------
    outputs, inputs
        Tensors or `GradientEdge`s, one or several.
    grad_outputs
        The gradient of each output; None starts a single element from 1.
    retain_graph, create_graph
        As in `backward`.
    allow_unused
        Return None for an input that the outputs do not depend on, instead of raising.
    is_grads_batched
        Whether the first dimension of each of `grad_outputs` counts separate gradients, to be
        propagated together.
    materialize_grads
        Return zeros instead of None.

    Examples
    --------
    >>> x = adjoint.tensor(3.0, requires_grad=True)
    >>> (dx,) = adjoint.autograd.grad(x**3, x, create_graph=True)
    >>> adjoint.autograd.grad(dx, x)
    (tensor(18.),)
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    allow = materialize_grads if allow_unused is None else allow_unused
    outs, ins = _seen(_tuple(outputs)), _seen(_tuple(inputs))
    if not ins:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    if not only_inputs:
        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True).",
            FutureWarning,
            stacklevel=2,
        )
    gs = _tuple(grad_outputs) if grad_outputs is not None else (None,) * len(outs)
    if len(gs) != len(outs):
        raise RuntimeError(f"got {len(outs)} tensors and {len(gs)} gradients: one for each of the outputs, or None")
    keep = create_graph if retain_graph is None else retain_graph
    slopes, dual = _slopes(_tuple(outputs), ins, gs, create_graph) or ((), None)
    if is_grads_batched:
        from .batched import grad_batched

        results = grad_batched(outs, ins, gs, keep, create_graph)
    else:
        nodes = [_root_of(t, i) for i, t in enumerate(outs)]
        lift = lifting(create_graph) if modes.unusual else create_graph
        starts = [_starting_gradient(t, g, lift, i) for i, (t, g) in enumerate(zip(outs, gs, strict=True))]
        wanted = [_input_node(x, i) for i, x in enumerate(ins)]
        if modes.unusual:
            found = _observed(nodes, lambda: engine.backward(nodes, starts, keep, lift, wanted, accumulating=False))
        else:
            found = engine.backward(nodes, starts, keep, lift, wanted, accumulating=False)
        results = list(found) if lift else [None if g is None else wrap(g) for g in found]
    for i, g in enumerate(results):
        if g is None:
            results[i] = _unused(ins[i], i, allow, materialize_grads)
        elif dual is not None and slopes[i] is not None:
            results[i] = dual(g, slopes[i])
    return tuple(results)


def _slopes(outs: tuple[Any, ...], ins: tuple[Any, ...], gs: tuple[Any, ...], create_graph: bool) -> Any:
    """Return the tangents of gradients of dual outputs, and how a gradient gets one; None where there is none.

    The tangent of a gradient is the gradient of the tangent: the two derivatives commute.
    """
    if not modes.unusual:
        return None
    pairs = []
    for out, g in zip(outs, gs, strict=True):
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


def _unused(x: Any, index: int, allow_unused: bool, materialize: bool) -> Any:
    """Return what stands for the gradient of an input that the outputs do not depend on, or raise."""
    if not allow_unused:
        raise RuntimeError(
            f"The differentiated Tensor at index {index} appears to not have been used in the graph. Set "
            "allow_unused=True if this is the desired behavior. (One of the differentiated Tensors appears to not "
            "have been used in the graph.)"
        )
    return create.zeros_like(cast(Any, x)) if materialize and isinstance(x, TensorBase) else None
