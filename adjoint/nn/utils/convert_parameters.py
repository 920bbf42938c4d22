"""Parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..._typing import Tensor
from ...core.tensor import TensorBase
from ...ops.join import cat

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def _one_device(parameters: list[Any]) -> None:
    devices = {str(p.device) for p in parameters}
    if len(devices) > 1:
        raise TypeError(
            "Found two parameters on different devices, this is currently not supported: " + ", ".join(sorted(devices))
        )


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Return all parameters as one flat vector.

    Examples
    --------
    >>> adjoint.nn.utils.parameters_to_vector([adjoint.ones(2), adjoint.zeros(1, 2)])
    tensor([1., 1., 0., 0.])
    """
    parameters = list(parameters)
    _one_device(parameters)
    return cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Make each parameter look at its part of the vector."""
    if not isinstance(vec, TensorBase):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__module__}.{type(vec).__qualname__}")
    parameters, start = list(parameters), 0
    _one_device(parameters)
    for p in parameters:
        count = p.numel()
        p.data = vec[start : start + count].view_as(p).data  # type: ignore[index]
        start += count
