"""Jacobians for `gradcheck`: by finite differences, by backward, in forward mode.

Everything is compared as Jacobians of real functions. For a complex input ``x + iy`` an entry is
``d/dx + i d/dy``, which is what backward returns for a real output; a complex output counts as two
real ones, its real and its imaginary part, and starting backward from ``i`` instead of 1 gives the
gradient of the latter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from .._typing import Tensor
from ..core import device as devices
from ..core.nodes import wrap
from ..core.tensor import TensorBase
from .differentiate import grad

Jacobian = Any  # a NumPy array: entries of the input, entries of the output


NOTHING_REQUIRES = (
    "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
)


class GradcheckError(RuntimeError):
    """A gradient that `gradcheck` tested is incorrect."""


# --- The function under test ------------------------------------------------------------------------


def as_tuple(value: Any) -> tuple[Any, ...]:
    """Return what a function has returned as a tuple."""
    if isinstance(value, tuple):
        return value
    return tuple(value) if isinstance(value, list) else (value,)


def tensors_in(value: Any) -> Iterator[Any]:
    """Yield the tensors in nested tuples, lists and dicts."""
    if isinstance(value, TensorBase):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, Iterable) and not isinstance(value, str | bytes | np.ndarray):
        for item in value:
            yield from tensors_in(item)


def replaced(value: Any, new: dict[int, Any]) -> Any:
    """Return nested containers with some of their tensors (by id) exchanged."""
    if isinstance(value, TensorBase):
        return new.get(id(value), value)
    if isinstance(value, dict):
        return {k: replaced(v, new) for k, v in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, "numel"):
        items = [replaced(v, new) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def on_cpu(value: Any) -> Any:
    """Return a tensor's values, or an array's, as a flat copy on the CPU."""
    array = value.array if isinstance(value, TensorBase) else value
    return np.array(devices.place_array(array, devices.CPU), copy=True).reshape(-1)


def placed(flat: Any, like: Any) -> Tensor:
    """Return flat CPU values as a tensor of the shape, dtype and device of `like`."""
    array = np.asarray(flat).astype(like.array.dtype).reshape(like.array.shape)
    return wrap(devices.place_array(array, devices.of(like.array)))


class Subject:
    """A function, its inputs, those of them to be checked, and which outputs are differentiable."""

    def __init__(self, func: Callable[..., Any], inputs: Any) -> None:
        self.func = func
        self.inputs = as_tuple(inputs)
        self.checked = [x for x in tensors_in(self.inputs) if x.requires_grad]
        if not self.checked:  # before the function sees what may be no tensor at all
            raise ValueError(NOTHING_REQUIRES)
        self.first = [o for o in as_tuple(func(*self.inputs)) if isinstance(o, TensorBase)]
        self.where = [i for i, o in enumerate(self.first) if o.requires_grad]  # type: ignore[attr-defined]

    def outputs(self) -> list[Any]:
        """Run the function again and return its differentiable outputs."""
        found = [o for o in as_tuple(self.func(*self.inputs)) if isinstance(o, TensorBase)]
        return [found[i] for i in self.where] if self.where else found

    def outputs_of(self, inputs: tuple[Any, ...]) -> list[Any]:
        """Run the function on other inputs and return the same outputs."""
        found = [o for o in as_tuple(self.func(*inputs)) if isinstance(o, TensorBase)]
        return [found[i] for i in self.where] if self.where else found


PARTS = {"real": np.real, "imag": np.imag}


def parts_of(output: Tensor) -> tuple[str, ...]:
    """Return the real functions that an output counts as."""
    return ("imag", "real") if output.array.dtype.kind == "c" else ("real",)


def joined_parts(along_x: Any, along_y: Any, part: str) -> Jacobian:
    """Return a Jacobian from derivatives along the real and the imaginary axis of the input."""
    take = PARTS[part]
    return take(along_x) if along_y is None else take(along_x) + 1j * take(along_y)


# --- Numerical --------------------------------------------------------------------------------------


def check_step(eps: Any) -> None:
    """Raise unless the step of the differences is a number."""
    if isinstance(eps, TensorBase) and eps.is_meta:  # type: ignore[attr-defined]
        raise NotImplementedError("Cannot copy out of meta tensor; no data! The step eps is a number")
    if shape := list(getattr(eps, "shape", ())):
        raise RuntimeError(f"output with shape [] doesn't match the broadcast shape {shape}: the step eps is a number")
    if isinstance(eps, int) and abs(eps) >= 2**63:
        raise OverflowError(f"int too big to convert: the step eps is {eps}")


def difference(subject: Subject, x: Tensor, step: Any, eps: float) -> list[Any]:
    """Return the central difference of every output along `step`, an array shaped as `x`."""
    array = x.array
    kept = array.copy()
    step = devices.place_array(np.asarray(step), devices.of(array))
    try:
        # Written behind the version counter's back: the graph at hand is not gone through again.
        array[...] = kept + step
        above = [on_cpu(o) for o in subject.outputs()]
        array[...] = kept - step
        below = [on_cpu(o) for o in subject.outputs()]
    finally:
        array[...] = kept
    return [_over(a, b, 2 * eps) for a, b in zip(above, below, strict=True)]


def _over(above: Any, below: Any, width: float) -> Any:
    wide = np.complex128 if above.dtype.kind == "c" else np.float64
    return (above.astype(wide) - below.astype(wide)) / width


def numerical_jacobian(subject: Subject, x: Tensor, eps: float) -> list[tuple[Any, Any]]:
    """Return, for every output, derivatives along the real and the imaginary axis of each entry of `x`."""
    axes = []
    for unit in (1.0, 1j) if x.array.dtype.kind == "c" else (1.0,):
        rows: list[list[Any]] = []
        for i in range(x.array.size):
            step = np.zeros(x.array.size, x.array.dtype if x.array.dtype.kind == "c" else np.float64)
            step[i] = eps * unit
            rows.append(difference(subject, x, step.reshape(x.array.shape), eps))
        axes.append(rows)
    return _stacked(axes, subject, x)


def _stacked(axes: list[list[list[Any]]], subject: Subject, x: Tensor) -> list[tuple[Any, Any]]:
    outputs = subject.first if not subject.where else [subject.first[i] for i in subject.where]
    found = []
    for k, out in enumerate(outputs):
        made = [np.array([row[k] for row in rows]).reshape(x.array.size, out.array.size) for rows in axes]
        found.append((made[0], made[1] if len(made) > 1 else None))
    return found


# --- Analytical -------------------------------------------------------------------------------------


def gradients(output: Tensor, inputs: list[Tensor], start: Tensor) -> list[Any]:
    """Return the gradients of an output, None where there is none."""
    return list(grad(output, inputs, start, retain_graph=True, allow_unused=True))


def analytical_jacobian(
    output: Tensor, inputs: list[Tensor], part: str, check_dtypes: bool
) -> tuple[list[Jacobian], float]:
    """Return the Jacobian of one output for every input; and how far two backward passes differ."""
    unit = 1.0 if part == "real" else 1j
    size = output.array.size
    found = [np.zeros((x.array.size, size), _wide(x)) for x in inputs]
    apart = 0.0
    for j in range(size):
        basis = np.zeros(size, np.complex128 if part == "imag" else np.float64)
        basis[j] = unit
        start = placed(basis, output)
        passes = [gradients(output, inputs, start) for _ in range(2)]
        for i, x in enumerate(inputs):
            one, two = (checked_gradient(g[i], x, check_dtypes) for g in passes)
            found[i][:, j] = one
            apart = max(apart, distance(one, two))
    return found, apart


def _wide(x: Tensor) -> Any:
    return np.complex128 if x.array.dtype.kind == "c" else np.float64


def distance(one: Any, two: Any) -> float:
    """Return the largest difference of two arrays; NaNs are equal."""
    same = (one == two) | (np.isnan(one) & np.isnan(two))
    return float(np.where(same, 0.0, np.abs(one - two)).max(initial=0.0))


def checked_gradient(g: Any, x: Tensor, check_dtypes: bool) -> Any:
    """Return a gradient's values, zeros for None."""
    if g is None:
        return np.zeros(x.array.size, _wide(x))
    if tuple(g.array.shape) != tuple(x.array.shape):
        raise GradcheckError(
            f"grad is incorrect size: {list(g.array.shape)} for an input of shape {list(x.array.shape)}"
        )
    if check_dtypes and g.array.dtype != x.array.dtype:
        raise GradcheckError(f"Gradient has dtype mismatch: {g.dtype} for an input of {x.dtype}")
    values = on_cpu(g)
    if values.dtype.kind == "c" and x.array.dtype.kind != "c":
        raise GradcheckError(f"grad is incorrect type: {g.dtype} for an input of {x.dtype}, which is real")
    return values.astype(_wide(x))


# --- Forward mode -----------------------------------------------------------------------------------


def pushed(subject: Subject, tangents: dict[int, Tensor]) -> list[Any]:
    """Return the tangent of every output, given those of some inputs (by id); zeros where there is none."""
    from ..payloads.dual import Dual
    from . import forward_ad

    with forward_ad.dual_level():
        level = forward_ad._levels[-1][1]
        # Duals that are leaves of their own, those without a tangent too: `func` may differentiate in
        # reverse mode inside, as gradgradcheck's does.
        new = {id(x): wrap(Dual(x.detach(), tangents.get(id(x)), level)).requires_grad_() for x in subject.checked}
        outs = subject.outputs_of(replaced(subject.inputs, new))
        found = []
        for out in outs:
            value, tangent = forward_ad.unpack_dual(out)
            if tangent is None:
                found.append(np.zeros(value.array.size, _wide(value)))
                continue
            if tuple(tangent.array.shape) != tuple(value.array.shape):
                raise GradcheckError(
                    f"forward-mode tangent is incorrect size: {list(tangent.array.shape)} for an output "
                    f"of shape {list(value.array.shape)}"
                )
            found.append(on_cpu(tangent).astype(_wide(value)))
    return found


def forward_jacobian(subject: Subject, x: Tensor) -> list[tuple[Any, Any]]:
    """Return what `numerical_jacobian` does, by forward mode."""
    axes = []
    for unit in (1.0, 1j) if x.array.dtype.kind == "c" else (1.0,):
        rows = []
        for i in range(x.array.size):
            step = np.zeros(x.array.size, _wide(x))
            step[i] = unit
            rows.append(pushed(subject, {id(x): placed(step, x)}))
        axes.append(rows)
    return _stacked(axes, subject, x)
