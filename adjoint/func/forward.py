"""Forward mode as a transform: `jvp` and `linearize`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from ..core.dtypes import of
from ..core.nodes import differentiable, wrap
from ..core.payload import Level, entered
from ..core.tensor import TensorBase, note_write
from ..core.views import edge_of
from ..ops import create, create_like
from ..payloads.dual import Dual
from ..tree import tree_flatten, tree_map
from .reverse import checked_outputs, split_aux, vjp
from .values import as_tensor, captures, normal_mode, shown, value_of


def jvp(
    func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False
) -> tuple[Any, ...]:
    """Return ``func(*primals)`` and its derivative in the direction of `tangents`.

    Parameters
    ----------
    func : callable
        A function of tensors that returns tensors; with `has_aux`, a pair of those and anything else.
    primals : tuple
        The arguments of `func`.
    tangents : tuple
        The direction, of the same structure.
    strict : bool, default False
        Whether an output that does not depend on the inputs is an error; its derivative is zero otherwise.
    has_aux : bool, default False
        Whether `func` returns a pair.

    Returns
    -------
    tuple
        (output, derivative), or with `has_aux` (output, derivative, aux).

    Examples
    --------
    >>> from adjoint.func import jvp
    >>> jvp(adjoint.sin, (adjoint.tensor(0.0),), (adjoint.tensor(2.0),))
    (tensor(0.), tensor(2.))
    """
    if not isinstance(primals, tuple):
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals to be a tuple. E.g. it should be valid to call f(*primals)."
        )
    flat, spec = tree_flatten(primals)
    directions, structure = tree_flatten(tangents)
    if spec != structure:
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals and tangents to have the same python structure. For example, "
            "if primals is a tuple of 3 tensors, tangents also must be. Got primals with structure "
            f"{spec} and tangents with structure {structure}"
        )
    for name, values in (("primals", flat), ("tangents", directions)):
        if not values:
            raise RuntimeError(f"jvp(f, primals, tangents): Expected {name} to contain at least one Tensor.")
        for v in values:
            if not isinstance(v, TensorBase):
                raise RuntimeError(
                    f"jvp(f, primals, tangents): Expected {name} to only contain Tensors, got {shown(v)}"
                )
    with normal_mode(), entered(Level(Dual, captured=captures(func))) as level:
        duals = [as_dual(p, t, level) for p, t in zip(flat, directions, strict=True)]
        held = [d.array for d in duals]
        output, aux = split_aux(func(*spec.unflatten(duals)), has_aux, "jvp(f, primals, tangents)")
        outs, out_spec = checked_outputs(output, "jvp(f, primals, tangents)")
        parts = [parted(o, level, strict) for o in outs]
        aux = tree_map(lambda a: _primal(a, level), aux) if has_aux else None
    for p, d, before in zip(flat, duals, held, strict=True):
        if d._version:  # the function has written into its argument
            value = parted(d, level, False)[0]
            if value.array is before.primal:  # in its own memory
                note_write(p, "jvp")
            else:
                p.copy_(value)
    results = out_spec.unflatten([value for value, _ in parts]), out_spec.unflatten([slope for _, slope in parts])
    return (*results, aux) if has_aux else results


def as_dual(primal: Any, tangent: Any, level: int) -> Any:
    """Return a tensor with a tangent, at a level."""
    for name, value in (("primal", primal), ("tangent", tangent)):
        _check_kind(name, value)
    if tuple(primal.array.shape) != tuple(tangent.array.shape):
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(primal.array.shape)} while the given forward gradient is of size "
            f"{list(tangent.array.shape)}."
        )
    return wrap(Dual(value_of(primal), value_of(tangent), level))


def _check_kind(name: str, value: Any) -> None:
    if not differentiable(value.array.dtype):
        raise ValueError(f"Expected {name} to be floating point or complex, but got: {of(value.array.dtype)}")


def _primal(value: Any, level: int) -> Any:
    if not isinstance(value, TensorBase):
        raise RuntimeError(
            f"Expected tensors, got unsupported type {shown(value)}: what a transform returns beside the output must "
            "be tensors too"
        )
    return parted(value, level, False)[0]


def parted(out: Any, level: int, strict: bool) -> tuple[Any, Any]:
    """Return the value and the tangent of an output, zeros if it has none."""
    edge_of(out)  # a view of what was written since becomes up to date
    array = out.array
    if isinstance(array, Dual) and array.level == level:
        primal = as_tensor(array.primal)
        if array.tangent is not None:
            return primal, as_tensor(array.tangent)
    else:
        primal = out
    if strict:
        raise RuntimeError(
            "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is not allowed "
            "with strict=True."
        )
    return primal, create_like.zeros_like(primal)


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """Return ``func(*primals)`` and its derivative there, a linear function of tangents that can be called often.

    Parameters
    ----------
    func : callable
        A function of tensors that returns tensors.
    *primals : object
        The arguments of `func`.

    Returns
    -------
    tuple
        (output, push): ``push(*tangents)`` is the derivative in the direction of `tangents`.

    Examples
    --------
    >>> from adjoint.func import linearize
    >>> out, push = linearize(adjoint.sin, adjoint.tensor(0.0))
    >>> push(adjoint.tensor(2.0))
    tensor(2.)
    """
    flat, spec = tree_flatten(primals)
    for p in flat:
        if isinstance(p, TensorBase):
            _check_kind("primal", p)
    kept: list[Any] = []

    def moving(*args: Any) -> list[Any]:
        kept[:] = tree_flatten(func(*args))
        return [*(o for o in kept[0] if _moves(o)), create.zeros(())]  # one at least

    out, pull = vjp(moving, *primals)
    outs, out_spec = kept
    # The pulled-back gradient is linear in what is pulled: its own transpose pushes tangents forward.
    push = vjp(lambda *gs: pull(list(gs)), *map(create_like.zeros_like, out))[1] if flat else None

    def pushed(*tangents: Any) -> Any:
        directions, structure = tree_flatten(tangents)
        if structure != spec:
            raise RuntimeError(f"Expected the tangents {structure} to have the same argspec as the primals {spec}")
        for i, (t, p) in enumerate(zip(directions, flat, strict=True)):
            for what in ("shape", "device", "dtype"):
                if (mine := getattr(t, what)) != (wanted := getattr(p, what)):
                    raise RuntimeError(
                        f"tangent:{i} with {what} {mine} in flattened pytree doesn't match the {what} {wanted} of the "
                        "corresponding primal."
                    )
        slopes = iter(map(create_like.zeros_like, out) if push is None else push(tangents))
        return out_spec.unflatten(
            [
                next(slopes) if _moves(o) else create_like.zeros_like(cast(Any, o)) if isinstance(o, TensorBase) else o
                for o in outs
            ]
        )

    values = iter(out)
    return out_spec.unflatten([next(values) if _moves(o) else o for o in outs]), pushed


def _moves(output: Any) -> bool:
    """Return whether an output may have a tangent."""
    return isinstance(output, TensorBase) and differentiable(output.array.dtype)
