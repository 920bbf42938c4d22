"""Converting parameters: to one vector, fused with batch norm, to a memory format, replaced for one call."""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Iterable
from typing import Any

from ..._typing import Tensor
from ...core.tensor import TensorBase
from ...func.modules import functional_call as _functional_call
from ...ops.create_like import ones_like, zeros_like
from ...ops.join import cat
from ..modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from ..modules.module import Module
from ..parameter import Parameter

__all__ = [
    "convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format", "functional_call",
    "fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights",
    "parameters_to_vector", "skip_init", "vector_to_parameters",
]  # fmt: skip


def _one_device(parameters: list[Any]) -> None:
    devices = {str(p.device) for p in parameters}
    if len(devices) > 1:
        raise TypeError(
            "Found two parameters on different devices, this is currently not supported: " + ", ".join(sorted(devices))
        )


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Return all parameters as one flat vector.

    Parameters
    ----------
    parameters : iterable of Tensor
        Of any shapes.

    Returns
    -------
    Tensor
        1-D; gradients flow through it.

    Examples
    --------
    >>> adjoint.nn.utils.parameters_to_vector([adjoint.ones(2), adjoint.zeros(1, 2)])
    tensor([1., 1., 0., 0.])
    """
    parameters = list(parameters)
    _one_device(parameters)
    return cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Make each parameter a view of its part of a vector.

    Parameters
    ----------
    vec : Tensor
        1-D, as many elements as all parameters have.
    parameters : iterable of Tensor
        Their values are replaced.

    Examples
    --------
    >>> layer = adjoint.nn.Linear(2, 1)
    >>> adjoint.nn.utils.vector_to_parameters(adjoint.tensor([1.0, 2.0, 3.0]), layer.parameters())
    >>> layer.weight.detach(), layer.bias.detach()
    (tensor([[1., 2.]]), tensor([3.]))
    """
    if not isinstance(vec, TensorBase):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__module__}.{type(vec).__qualname__}")
    parameters, start = list(parameters), 0
    _one_device(parameters)
    for p in parameters:
        count = p.numel()
        p.data = vec[start : start + count].view_as(p).data  # type: ignore[index]
        start += count


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """Return a convolution that does what `conv` and then `bn` do; both must be in eval mode.

    Parameters
    ----------
    conv : Module
        The convolution.
    bn : Module
        The batch norm after it.
    transpose : bool, default False
        Whether the convolution is a transposed one.

    Returns
    -------
    Module
        A copy of `conv` with the weights of both.

    Examples
    --------
    >>> conv, bn = adjoint.nn.Conv1d(1, 2, 3).eval(), adjoint.nn.BatchNorm1d(2).eval()
    >>> x = adjoint.ones(1, 1, 5)
    >>> adjoint.allclose(adjoint.nn.utils.fuse_conv_bn_eval(conv, bn)(x), bn(conv(x)), atol=1e-6)
    True
    """
    if conv.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Return weight and bias of the convolution that a batch normalisation was folded into."""
    conv_b = zeros_like(bn_rm) if conv_b is None else conv_b
    bn_w = ones_like(bn_rm) if bn_w is None else bn_w
    bn_b = zeros_like(bn_rm) if bn_b is None else bn_b
    scale = bn_w * (bn_rv + bn_eps).rsqrt()
    shape = (1, -1) if transpose else (-1, 1)
    weight = (conv_w * scale.reshape(shape + (1,) * (conv_w.dim() - 2))).to(conv_w.dtype)
    bias = ((conv_b - bn_rm) * scale + bn_b).to(conv_b.dtype)
    return Parameter(weight.detach(), conv_w.requires_grad), Parameter(bias.detach(), conv_b.requires_grad)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """Return a linear layer that does what `linear` and then `bn` do; both must be in eval mode."""
    if linear.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError("To fuse, linear.out_features == bn.num_features or bn.num_features == 1")
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor,
    bn_b: Tensor,
) -> tuple[Parameter, Parameter]:
    """Return weight and bias of the linear layer that a batch normalisation was folded into."""
    linear_b = zeros_like(bn_rm) if linear_b is None else linear_b
    scale = bn_w * (bn_rv + bn_eps).rsqrt()
    weight = (linear_w * scale.unsqueeze(-1)).to(linear_w.dtype)
    bias = ((linear_b - bn_rm) * scale + bn_b).to(linear_b.dtype)
    return Parameter(weight.detach(), linear_w.requires_grad), Parameter(bias.detach(), linear_b.requires_grad)


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """Return a module whose parameters were never initialised; it must take a `device` argument.

    Examples
    --------
    >>> adjoint.nn.utils.skip_init(adjoint.nn.Linear, 2, 3)
    Linear(in_features=2, out_features=3, bias=True)
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    return module_cls(*args, **kwargs)


def _convert(module: Any, kinds: tuple[type, ...], memory_format: Any) -> Any:
    for part in module.modules():
        if isinstance(part, kinds):
            weight: Any = part.weight  # type: ignore[attr-defined]
            weight.data = weight.detach().clone().contiguous(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Convert the weights of all 2-d convolutions inside `module` to `memory_format`."""
    return _convert(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Convert the weights of all 3-d convolutions inside `module` to `memory_format`."""
    return _convert(module, (Conv3d, ConvTranspose3d), memory_format)


def functional_call(
    module: Any,
    parameters_and_buffers: dict[str, Any],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other parameters and buffers than its own, given by name."""
    warnings.warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be removed in a future "
        "version of PyTorch. Please use `torch.func.functional_call` instead which is a drop-in replacement.",
        FutureWarning,
        stacklevel=2,
    )
    return _functional_call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)
