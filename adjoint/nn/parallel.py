"""One model on several devices: `DataParallel`, and the place of `DistributedDataParallel` in torch."""

from __future__ import annotations

from typing import Any

from .._paths import lead_to
from ..core import device as devices
from ..core.tensor import TensorBase
from .modules.module import Module

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]  # noqa: F822


def _moved(value: Any, place: Any) -> Any:
    if isinstance(value, TensorBase):
        return value.to(place)  # type: ignore[attr-defined]
    if isinstance(value, dict):
        return {k: _moved(v, place) for k, v in value.items()}
    return type(value)(_moved(v, place) for v in value) if type(value) in (list, tuple) else value


class DataParallel(Module):
    """Call a model as torch's class of this name does, but with the whole batch on the first device.

    The results are the same as those of several GPUs. To train on several, use `DistributedDataParallel`.

    Parameters
    ----------
    module : Module
        The model; it becomes the attribute `module`, so that keys of the state dict begin with ``module.``.
    device_ids : list, optional
        Inputs are moved to the first of these. By default they stay where they are.
    output_device : device, int or str, optional
        Where results are moved. Defaults to the first of `device_ids`.
    dim : int, default 0
        Accepted and not used: the batch is not split.

    Examples
    --------
    >>> model = adjoint.nn.DataParallel(adjoint.nn.Linear(2, 1))
    >>> model(adjoint.ones(3, 2)).shape
    adjoint.Size([3, 1])
    >>> list(model.state_dict())
    ['module.weight', 'module.bias']
    """

    def __init__(self, module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        self.dim, self.module = dim, module
        self.device_ids = [] if device_ids is None else list(device_ids)
        self.output_device = output_device if output_device is not None or not self.device_ids else self.device_ids[0]

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Return what the model returns."""
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        place = devices.as_device(self.device_ids[0])
        out = self.module(*_moved(inputs, place), **_moved(kwargs, place))
        return _moved(out, devices.as_device(self.output_device))


def data_parallel(
    module: Any,
    inputs: Any,
    device_ids: Any = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """Call a model as `DataParallel` would."""
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*inputs, **(module_kwargs or {}))


def __getattr__(name: str) -> Any:
    if name == "DistributedDataParallel":
        # It stands on layers and on processes: the second package is loaded when a program first uses it.
        from ..distributed.data_parallel import DistributedDataParallel

        return DistributedDataParallel
    raise AttributeError(f"module 'adjoint.nn.parallel' has no attribute '{name}'")


lead_to("adjoint.nn", {"parallel": "parallel.data_parallel parallel.distributed"})
