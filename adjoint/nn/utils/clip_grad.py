"""Clipping gradients: by their norm, or element by element."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from ..._typing import Tensor
from ...autograd.grad_mode import no_grad
from ...core.interrupts import whole
from ...core.nodes import wrap
from ...core.observation import lifting, literal
from ...core.tensor import TensorBase, note_write
from ...devices.contract import multi_tensor
from ...linalg import vector_norm
from ...ops.arguments import require_tensor
from ...ops.join import stack

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]


def _listed(tensors: Any) -> list[Any]:
    return [tensors] if isinstance(tensors, TensorBase) else list(tensors)


def _gradients(parameters: Any) -> list[Any]:
    return [g for p in _listed(parameters) if (g := p.grad) is not None]


def _plain(tensors: list[Any]) -> bool:
    """Return whether all are NumPy arrays of one real dtype of at least single precision, and nothing observes ops."""
    if lifting(False) is not False:
        return False
    first = tensors[0].array.dtype
    if first.kind != "f" or first.itemsize < 4:
        return False
    for t in tensors:
        array = t.array
        if type(array) is not np.ndarray or array.dtype != first or t.node is not None:
            return False
    return True


def _on_gpu(tensors: list[Any]) -> Any:
    """Return the kernels over many arrays, if tensors without a history hold such on a GPU, else None."""
    if lifting(False) is not False or any(t.node is not None or t.is_sparse for t in tensors):
        return None
    return multi_tensor([t.array for t in tensors])


@no_grad()
def get_total_norm(
    tensors: Any, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """Return the norm of all tensors together, as if they were one vector.

    Parameters
    ----------
    tensors : Tensor or iterable of Tensor
        The tensors.
    norm_type : float, default 2.0
        Which norm.
    error_if_nonfinite : bool, default False
        Raise if the norm is NaN or infinite.
    foreach : bool, optional
        Accepted and not used.

    Returns
    -------
    Tensor
        Scalar.

    Examples
    --------
    >>> adjoint.nn.utils.get_total_norm([adjoint.tensor([3.0]), adjoint.tensor([4.0])])
    tensor(5.)
    """
    tensors, norm_type = _listed(tensors), float(norm_type)
    if not tensors:
        return wrap(literal(np.zeros((), np.float32)))
    require_tensor(tensors[0], "tensors", "get_total_norm")
    if norm_type == 2.0 and _plain(tensors):
        # One pass over each, in BLAS.
        squares = [float(np.vdot(a, a)) for a in [t.array.ravel(order="K") for t in tensors]]
        dtype = tensors[0].array.dtype
        total = wrap(np.asarray(math.sqrt(sum(squares)), dtype))
    elif norm_type == 2.0 and _on_gpu(tensors) is not None:
        squares_on_gpu = wrap(_on_gpu(tensors).sum_of_squares([t.array for t in tensors]))
        total = squares_on_gpu.sqrt().to(tensors[0].dtype)
    else:
        total = vector_norm(stack([vector_norm(t, norm_type).to(tensors[0].device) for t in tensors]), norm_type)
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be "
            "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total


@no_grad()
def clip_grads_with_norm_(parameters: Any, max_norm: float, total_norm: Tensor, foreach: bool | None = None) -> None:
    """Scale the gradients of `parameters` by ``max_norm / total_norm`` where that is less than one.

    Parameters
    ----------
    parameters : Tensor or iterable of Tensor
        Their gradients are scaled, in place.
    max_norm : float
        Largest norm.
    total_norm : Tensor
        The norm, as of `get_total_norm`.
    foreach : bool, optional
        Accepted and not used.

    Examples
    --------
    >>> w = adjoint.zeros(2, requires_grad=True)
    >>> w.grad = adjoint.tensor([3.0, 4.0])
    >>> adjoint.nn.utils.clip_grads_with_norm_([w], 2.5, adjoint.tensor(5.0))
    >>> w.grad
    tensor([1.5000, 2.0000])
    """
    grads = _gradients(parameters)
    if not grads:
        return
    scale = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
    if lifting(False) is not False:  # captured: the factor is another on every run
        for g in grads:
            g.mul_(scale.to(g.device))
        return
    gpu = _on_gpu(grads)
    if gpu is not None:  # the CPU does not wait for the factor
        gpu.scale([g.array for g in grads], scale.to(grads[0].device).array)
        for g in grads:
            note_write(g, "clip_grads_with_norm_")
        return
    factor = scale.item()
    if factor == 1.0:  # what is multiplied by one stays as it is
        return
    _scale(grads, factor, scale)


@whole
def _scale(grads: list[Any], factor: float, scale: Any) -> None:
    for g in grads:
        array = g.array
        if type(array) is np.ndarray and g.node is None and array.flags.writeable:
            np.multiply(array, array.dtype.type(factor), out=array)
            note_write(g, "clip_grads_with_norm_")
        else:
            g.mul_(scale.to(g.device))


@no_grad()
def clip_grad_norm_(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients together so that their norm is at most `max_norm`.

    The norm is that of all gradients as one vector. Where it is larger, each gradient is multiplied in place by
    ``max_norm / (norm + 1e-6)``.

    Parameters
    ----------
    parameters : Tensor or iterable of Tensor
        Those whose ``.grad`` is scaled.
    max_norm : float
        The bound.
    norm_type : float, default 2.0
        The p of the norm; ``inf`` takes the largest absolute value.
    error_if_nonfinite : bool, default False
        Raise if the norm is infinite or NaN.
    foreach : bool, optional
        Accepted and not used.

    Returns
    -------
    Tensor
        The norm before scaling, a scalar.

    Raises
    ------
    RuntimeError
        If the norm is not finite and `error_if_nonfinite` is set.

    Examples
    --------
    >>> w = adjoint.tensor([3.0, 4.0], requires_grad=True)
    >>> (w * w / 2).sum().backward()
    >>> adjoint.nn.utils.clip_grad_norm_(w, 1.0)
    tensor(5.)
    >>> w.grad
    tensor([0.6000, 0.8000])
    """
    parameters = _listed(parameters)
    if not parameters:
        warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=3)
    max_norm = float(max_norm)
    total = get_total_norm(_gradients(parameters), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(parameters, max_norm, total, foreach)
    return total


def clip_grad_norm(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Old name of `clip_grad_norm_`."""
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


@no_grad()
@whole
def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:
    """Clamp every gradient to [-clip_value, clip_value], in place.

    Parameters
    ----------
    parameters : Tensor or iterable of Tensor
        Their gradients are changed.
    clip_value : float
        Largest absolute value.
    foreach : bool, optional
        Accepted and not used.

    Examples
    --------
    >>> w = adjoint.zeros(2, requires_grad=True)
    >>> w.grad = adjoint.tensor([3.0, -4.0])
    >>> adjoint.nn.utils.clip_grad_value_([w], 1.0)
    >>> w.grad
    tensor([ 1., -1.])
    """
    clip_value = float(clip_value)
    grads = _gradients(parameters)
    plain = bool(grads) and _plain(grads)
    for g in grads:
        if plain and g.array.flags.writeable:
            np.minimum(np.maximum(g.array, -clip_value, out=g.array), clip_value, out=g.array)
            note_write(g, "clip_grad_value_")
        else:
            g.clamp_(min=-clip_value, max=clip_value)
