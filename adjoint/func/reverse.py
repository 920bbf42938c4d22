"""Reverse mode as a transform: `grad`, `grad_and_value`, `vjp`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..autograd.differentiate import check_start
from ..core import engine, modes
from ..core.dtypes import of
from ..core.leaves import AccumulateGrad, end
from ..core.nodes import differentiable, wrap
from ..core.observation import lifting
from ..core.payload import Payload, innermost, inside
from ..core.tensor import InferenceStorage, TensorBase, clock, storage_of, tick
from ..core.views import edge_of
from ..ops import create, create_like
from ..ops.shape import alias
from ..tree import tree_flatten, tree_map
from .values import captures, detached, is_recorded, level_of, recording, shown, value_of

Argnums = int | tuple[int, ...]


def grad(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that computes the gradient of a scalar `func`.

    Parameters
    ----------
    func : callable
        A function that returns a tensor of one element; with `has_aux`, a pair of that and anything else.
    argnums : int or tuple of int, default 0
        Which arguments to differentiate by; a tuple gives a tuple of gradients.
    has_aux : bool, default False
        Whether `func` returns (output, aux); the result is then (gradient, aux).

    Returns
    -------
    callable
        Takes the arguments of `func`. A gradient has the structure and the shapes of its argument: a tensor, or a
        dict, list or tuple of tensors.

    Examples
    --------
    >>> from adjoint.func import grad
    >>> grad(grad(adjoint.sin))(adjoint.tensor(0.5))
    tensor(-0.4794)
    >>> grad(lambda x, y: x * y**2, argnums=(0, 1))(adjoint.tensor(2.0), adjoint.tensor(3.0))
    (tensor(9.), tensor(12.))
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        found, (_, aux) = _gradients(func, args, kwargs, argnums, has_aux)
        return (found, aux) if has_aux else found

    return wrapper


def grad_and_value(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that computes both the gradient of `func` and its value, as a pair.

    With `has_aux` the pair is (gradient, (value, aux)).

    Parameters
    ----------
    func : callable
        A function of tensors that returns a scalar; with `has_aux`, a pair of that and anything else.
    argnums : int or tuple of int, default 0
        Which arguments to differentiate by.
    has_aux : bool, default False
        Whether `func` returns a pair.

    Returns
    -------
    callable
        Takes the arguments of `func`, returns (gradient, value); the gradient is a tuple if `argnums` is.

    Examples
    --------
    >>> from adjoint.func import grad_and_value
    >>> grad_and_value(lambda x: x**2)(adjoint.tensor(3.0))
    (tensor(6.), tensor(9.))
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        found, (value, aux) = _gradients(func, args, kwargs, argnums, has_aux)
        return found, (value, aux) if has_aux else value

    return wrapper


def _gradients(func: Any, args: tuple[Any, ...], kwargs: Any, argnums: Argnums, has_aux: bool) -> Any:
    outer, start = modes.local.grad, tick()
    with recording(captured=captures(func)):
        given, (args, leaves, originals, spec) = args, leaves_of(args, argnums)
        out, aux = split_aux(func(*args, **kwargs), has_aux, "grad_and_value(f)(*args)")
        if not isinstance(out, TensorBase):
            raise RuntimeError(
                f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {shown(out)}: return the "
                "tensor itself, or (tensor, aux) with has_aux=True"
            )
        if out.array.ndim:
            raise RuntimeError(
                "grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with "
                f"{out.array.ndim} dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
            )
        tape = Tape([out], leaves, originals, outer)
        if tape.roots[0] is not None and out.array.dtype.kind != "f":
            check_start(out, None, 0)
        found = tape.pull([None], keep=False)
        tape.forget_writes((given, kwargs), start)
    found = [g if g is not None else create_like.zeros_like(detached(x)) for g, x in zip(found, leaves, strict=True)]
    return spec.unflatten(found), (tape.released(out), tape.released(aux) if has_aux else None)


def leaves_of(args: tuple[Any, ...], argnums: Argnums) -> tuple[tuple[Any, ...], list[Any], list[Any], Any]:
    """Return the arguments with the chosen ones differentiable, their tensors, what those were, and the structure."""
    numbers = checked_argnums(argnums, len(args))
    if modes.inferred:
        args = tree_map(_without_inference, args)
    chosen = args[numbers[0]] if isinstance(argnums, int) else tuple(args[i] for i in numbers)
    flat, spec = tree_flatten(chosen)
    leaves = [leaf_of(x) for x in flat]
    inside.levels[-1].leaves = frozenset(map(edge_of, leaves))
    fresh = spec.unflatten(leaves)
    replaced = list(args)
    for i, value in zip(numbers, (fresh,) if isinstance(argnums, int) else fresh, strict=True):
        replaced[i] = value
    return tuple(replaced), leaves, flat, spec


def _without_inference(x: Any) -> Any:
    """Return a tensor that was made in inference mode as one that may be recorded."""
    return wrap(x.array) if isinstance(x, TensorBase) and type(x.memory) is InferenceStorage else x


def checked_argnums(argnums: Any, count: int) -> tuple[int, ...]:
    """Return the positions of the chosen arguments, or raise."""
    if not isinstance(argnums, (int, tuple)):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    numbers = (argnums,) if isinstance(argnums, int) else argnums
    if not numbers:
        raise RuntimeError("argnums must be non-empty")
    for n in numbers:
        if not isinstance(n, int):
            raise RuntimeError(f"argnum must be int, got: {type(n)}")
        if not -count <= n < count:
            raise RuntimeError(f"Got argnum={n}, but only {count} positional inputs")
    positions = tuple(n % count for n in numbers)
    if len(set(positions)) != len(positions):
        raise RuntimeError(f"argnums elements must be unique, got {positions}")
    return positions


def leaf_of(x: Any) -> Any:
    """Return a tensor to differentiate by, with the value and the outer history of `x`."""
    if not isinstance(x, TensorBase):
        raise ValueError(f"Thing passed to transform API must be Tensor, got {shown(x)}")
    if not differentiable(x.array.dtype):
        raise RuntimeError(
            f"only Tensors of floating point dtype can require gradients, and this one is {of(x.array.dtype).name}: "
            "convert it with .float(), or leave it out of argnums"
        )
    level = innermost()
    if level is not None and level_of(x) < level.number:
        # At the level of what it will meet: its gradient is then of that level too, one per batch element.
        assert level.kind is not None
        leaf = wrap(level.kind.lifted(value_of(x), level.number))
    elif edge_of(x) is not None:
        return alias(x)
    else:
        leaf = wrap(x.array, None, None if type(x.memory) is InferenceStorage else storage_of(x))
    create.require_grad(leaf)
    return leaf


def split_aux(output: Any, has_aux: bool, where: str) -> tuple[Any, Any]:
    """Return a function's output and its auxiliary output."""
    if not has_aux:
        return output, None
    if not (isinstance(output, tuple) and len(output) == 2):
        raise RuntimeError(f"{where}: output of function f should be a tuple: (output, aux) if has_aux is True")
    return output


def checked_outputs(output: Any, where: str) -> tuple[list[Any], Any]:
    """Return the tensors that a function has returned, and their structure, or raise."""
    outs, spec = tree_flatten(output)
    if not outs or (len(outs) == 1 and outs[0] is None):
        raise RuntimeError(
            f"{where}: Expected f to be a function that has non-empty output (got output = {outs}): return a tensor, "
            "or a structure of tensors"
        )
    for o in outs:
        if not isinstance(o, TensorBase):
            raise RuntimeError(
                f"{where}: expected f(*primals) to return only tensors, got unsupported type {shown(o)}: return "
                "(output, aux) with has_aux=True for anything else"
            )
    return outs, spec


def check_cotangents(outs: Sequence[Any], roots: Sequence[Any], cotangents: Sequence[Any]) -> None:
    """Raise unless each output that is recorded has a gradient to start from."""
    for i, (o, root, g) in enumerate(zip(outs, roots, cotangents, strict=True)):
        if root is not None:
            check_start(o, g, i)


_LEAF = 2**64 - 1  # the stamp of leaves


class Tape:
    """The recorded part of the graph between some leaves and some outputs."""

    def __init__(self, outs: Sequence[Any], leaves: Sequence[Any], originals: Sequence[Any], outer: bool) -> None:
        self.outs = outs
        # An input that is returned as it is, is the caller's tensor again.
        self.originals = {id(leaf): (leaf, x) for leaf, x in zip(leaves, originals, strict=True)}
        self.level = max(map(level_of, leaves), default=0)
        self.roots = [edge_of(o) for o in outs]
        self.wanted = [edge_of(x) for x in leaves]
        # Whether anything beyond the leaves is recorded too: an outer transform's variable, a parameter.
        self.beyond = outer and _leads_beyond([r for r in self.roots if r is not None], set(self.wanted))
        end(self.wanted)

    def pull(self, gradients: Sequence[Any], keep: bool, lift: bool | None = None) -> list[Any]:
        """Return the gradients of the leaves, None where there is none, for those of the outputs."""
        pairs = [(r, o, g) for r, o, g in zip(self.roots, self.outs, gradients, strict=True) if r is not None]
        if lift is None:
            lift = self.beyond or any(is_recorded(g) for g in gradients)
        lift = lifting(lift) if modes.unusual else lift
        starts = [_start(o, g, lift) for _, o, g in pairs]
        roots, kept = [r for r, _, _ in pairs], keep or lift is True
        found = engine.backward(roots, starts, kept, lift, self.wanted, accumulating=False)
        return found if lift else [g if g is None else wrap(g) for g in found]

    def released(self, tree: Any) -> Any:
        """Return results without the history that ended with the transform."""
        return self._released(tree) if isinstance(tree, TensorBase) else tree_map(self._released, tree)

    def _released(self, value: Any) -> Any:
        if not isinstance(value, TensorBase):
            raise RuntimeError(
                f"Expected tensors, got unsupported type {shown(value)}: what a transform returns beside the output "
                "must be tensors too"
            )
        if id(value) in self.originals:
            return self.originals[id(value)][1]
        return value if self.beyond else detached(value)

    def forget_writes(self, args: Any, start: int) -> None:
        """Take the history that ended with the transform off arguments that the function has written since `start`."""
        if clock.latest <= start or self.beyond:
            return
        for x in tree_flatten(args)[0]:
            if isinstance(x, TensorBase) and x.lineage is None and start < getattr(x.node, "stamp", 0) < _LEAF:
                x.node = None


def _start(out: Any, g: Any, lift: bool) -> Any:
    """Return the gradient of an output to start from, at the level of the output."""
    array = out.array
    if g is None:
        g = wrap(engine.start_gradient(out))
    if isinstance(array, Payload) and level_of(g) < array.level:
        g = wrap(type(array).lifted(value_of(g), array.level))
    return g if lift else g.array


def _leads_beyond(roots: list[Any], wanted: set[Any]) -> bool:
    """Return whether the graph from the roots reaches anything but the wanted leaves."""
    seen = set(roots)
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node in wanted:
            if node.edges:
                return True
            continue
        if type(node) is AccumulateGrad:
            if not node.ended:
                return True
            continue
        for e in node.edges:
            if e is not None and e not in seen:
                seen.add(e)
                stack.append(e)
    return False


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Return ``func(*primals)`` and a function that multiplies vectors with the Jacobian there.

    ``pull(v)`` is ``v^T J``: the gradients of `primals` for the gradient `v` of the output.

    Parameters
    ----------
    func : callable
        A function of tensors that returns tensors; with `has_aux`, a pair of those and anything else.
    *primals : object
        The arguments of `func`.
    has_aux : bool, default False
        Whether `func` returns a pair.

    Returns
    -------
    tuple
        (output, pull), or with `has_aux` (output, pull, aux). `pull` returns a tuple, one gradient per argument.

    Examples
    --------
    >>> from adjoint.func import vjp
    >>> out, pull = vjp(adjoint.sin, adjoint.tensor([0.0, 1.0]))
    >>> pull(adjoint.ones(2))
    (tensor([1.0000, 0.5403]),)
    """
    out, pull, aux = vjp_by_position(func, primals, tuple(range(len(primals))), has_aux)
    return (out, pull, aux) if has_aux else (out, pull)


def vjp_by_position(func: Any, args: tuple[Any, ...], argnums: Argnums, has_aux: bool) -> tuple[Any, Any, Any]:
    """`vjp` with respect to chosen arguments."""
    outer, start, given = modes.local.grad, tick(), args
    leaves: list[Any] = []
    originals: list[Any] = []
    with recording(captured=captures(func)):
        if args:
            args, leaves, originals, spec = leaves_of(args, argnums)
        else:
            spec = tree_flatten(())[1]
        output, aux = split_aux(func(*args), has_aux, "vjp(f, *primals)")
        outs, out_spec = checked_outputs(output, "vjp(f, *primals)")
        for o in outs:
            if not differentiable(o.array.dtype):
                raise RuntimeError(
                    "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor with dtype "
                    f"{of(o.array.dtype)}"
                )
        tape = Tape(outs, leaves, originals, outer)
        tape.forget_writes(given, start)

    def pull(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        flat, structure = tree_flatten(cotangents)
        if structure != out_spec:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the "
                f"function. cotangents: {structure}, primal output: {out_spec}"
            )
        check_cotangents(outs, tape.roots, flat)
        recorded = modes.local.grad if create_graph is None else create_graph
        with recording(tape.level):
            found = tape.pull(flat, keep=retain_graph, lift=None if recorded else False)
        zeros = [
            g if g is not None else create_like.zeros_like(detached(x)) for g, x in zip(found, leaves, strict=True)
        ]
        return spec.unflatten(zeros)

    return tape.released(output), pull, tape.released(aux) if has_aux else None
