"""Layers that normalise: by batch, instance, group, layer, root mean square."""

from __future__ import annotations

import warnings
from typing import Any

from ..._typing import Tensor
from ...core import dtypes
from ...ops.create import empty, ones, tensor, zeros
from .. import functional as F
from .. import init
from ..parameter import Parameter, UninitializedBuffer, UninitializedParameter
from .lazy import LazyModuleMixin
from .module import Module

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "CrossMapLRN2d", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d",
    "InstanceNorm3d", "LayerNorm", "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyInstanceNorm1d",
    "LazyInstanceNorm2d", "LazyInstanceNorm3d", "LocalResponseNorm", "RMSNorm", "SyncBatchNorm",
]  # fmt: skip


class _Affine(Module):
    """What norms share: a scale and a shift for each normalised value."""

    weight: Any
    bias: Any

    def _register_affine(self, shape: Any, weight: bool, bias: bool, device: Any, dtype: Any) -> None:
        for name, wanted in (("weight", weight), ("bias", weight and bias)):
            self.register_parameter(name, Parameter(empty(shape, device=device, dtype=dtype)) if wanted else None)

    def reset_parameters(self) -> None:
        """Scale by one, shift by zero."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class _NormBase(_Affine):
    """What batch and instance norms share: scale and shift, and running statistics."""

    _version = 2
    __constants__ = ["track_running_stats", "momentum", "eps", "num_features", "affine"]
    _ranks: tuple[int, ...] = ()
    running_mean: Any
    running_var: Any
    num_batches_tracked: Any

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        self._register_affine(num_features, affine, bias, device, dtype)
        tracked = track_running_stats
        self.register_buffer("running_mean", zeros(num_features, device=device, dtype=dtype) if tracked else None)
        self.register_buffer("running_var", ones(num_features, device=device, dtype=dtype) if tracked else None)
        count = tensor(0, dtype=dtypes.int64, device=device) if tracked else None
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forget the running mean and variance."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Scale by one, shift by zero, forget the running statistics."""
        self.reset_running_stats()
        super().reset_parameters()

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in self._ranks:
            said = " or ".join(f"{rank}D" for rank in self._ranks)
            raise ValueError(f"expected {said} input (got {input.dim()}D input)")

    def extra_repr(self) -> str:
        """Return the number of channels and the options."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: list[str],
        unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        key = prefix + "num_batches_tracked"
        if (local_metadata.get("version") or 0) < 2 and self.track_running_stats and key not in state_dict:
            # Models saved before batches were counted.
            count = self.num_batches_tracked
            state_dict[key] = tensor(0, dtype=dtypes.int64) if count is None else count
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


class _BatchNorm(_NormBase):
    """Normalise each channel over the batch."""

    def _momentum(self) -> float:
        """Count a batch in training; return the weight of its statistics among the running ones."""
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                return 1.0 / float(self.num_batches_tracked)
        return momentum

    def forward(self, input: Tensor) -> Tensor:
        """Return `input`, normalised by the batch in training, by the running statistics otherwise."""
        self._check_input_dim(input)
        momentum = self._momentum()
        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        used = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if used else None,
            self.running_var if used else None,
            self.weight,
            self.bias,
            by_batch,
            momentum,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    """Normalize each feature over the batch (Ioffe and Szegedy, 2015).

    The result is ``(x - mean) / sqrt(var + eps) * weight + bias``.

    In training, mean and (biased) variance are those of the batch. The running statistics follow them by
    ``running = (1 - momentum) * running + momentum * batch``, with the unbiased variance. They are used in evaluation
    mode.

    Parameters
    ----------
    num_features : int
        The number C of features, or channels.
    eps : float, default 1e-5
        Added to the variance.
    momentum : float or None, default 0.1
        The share of a batch in the running statistics; None averages all batches equally.
    affine : bool, default True
        Learn `weight` and `bias`, which begin as ones and zeros.
    track_running_stats : bool, default True
        Keep running statistics. Without them, evaluation uses the batch, too.
    device, dtype : optional
        Of parameters and buffers, as for `tensor`.
    bias : bool, default True
        False learns a `weight` only.

    Raises
    ------
    ValueError
        When called in training with one value per channel, or with an input of another number of dimensions.

    Shape
    -----
    Input: (N, C) or (N, C, L). Output: the same.

    Examples
    --------
    >>> norm = adjoint.nn.BatchNorm1d(2)
    >>> x = adjoint.tensor([[1.0, 10.0], [3.0, 30.0]])
    >>> norm(x).detach()
    tensor([[-1.0000, -1.0000],
            [ 1.0000,  1.0000]])
    >>> norm.running_mean, norm.running_var
    (tensor([0.2000, 2.0000]), tensor([ 1.1000, 20.9000]))
    """

    _ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Normalize each channel of images over the batch: ``(x - mean) / sqrt(var + eps) * weight + bias``.

    In training, mean and (biased) variance are those of the batch. The running statistics follow them by
    ``running = (1 - momentum) * running + momentum * batch``, with the unbiased variance. They are used in evaluation
    mode.

    Parameters
    ----------
    num_features : int
        The number C of channels.
    eps : float, default 1e-5
        Added to the variance.
    momentum : float or None, default 0.1
        The share of a batch in the running statistics; None averages all batches equally.
    affine : bool, default True
        Learn `weight` and `bias`, which begin as ones and zeros.
    track_running_stats : bool, default True
        Keep running statistics. Without them, evaluation uses the batch, too.
    device, dtype : optional
        Of parameters and buffers, as for `tensor`.
    bias : bool, default True
        False learns a `weight` only.

    Raises
    ------
    ValueError
        When called in training with one value per channel, or with an input of another number of dimensions.

    Shape
    -----
    Input: (N, C, H, W). Output: the same.

    Examples
    --------
    >>> norm = adjoint.nn.BatchNorm2d(1)
    >>> image = adjoint.tensor([[[[1.0, 3.0], [1.0, 3.0]]]])
    >>> norm(image).detach()
    tensor([[[[-1.0000,  1.0000],
              [-1.0000,  1.0000]]]])
    >>> norm.num_batches_tracked.item()
    1
    >>> norm.eval()(image).detach()  # by the running mean, 0.2, and variance, 1.0333
    tensor([[[[0.7870, 2.7545],
              [0.7870, 2.7545]]]])
    """

    _ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Normalize each channel of volumes over the batch: ``(x - mean) / sqrt(var + eps) * weight + bias``.

    In training, mean and (biased) variance are those of the batch. The running statistics follow them by
    ``running = (1 - momentum) * running + momentum * batch``, with the unbiased variance. They are used in evaluation
    mode.

    Parameters
    ----------
    num_features : int
        The number C of channels.
    eps : float, default 1e-5
        Added to the variance.
    momentum : float or None, default 0.1
        The share of a batch in the running statistics; None averages all batches equally.
    affine : bool, default True
        Learn `weight` and `bias`, which begin as ones and zeros.
    track_running_stats : bool, default True
        Keep running statistics. Without them, evaluation uses the batch, too.
    device, dtype : optional
        Of parameters and buffers, as for `tensor`.
    bias : bool, default True
        False learns a `weight` only.

    Raises
    ------
    ValueError
        When called in training with one value per channel, or with an input of another number of dimensions.

    Shape
    -----
    Input: (N, C, D, H, W). Output: the same.

    Examples
    --------
    >>> norm = adjoint.nn.BatchNorm3d(3)
    >>> out = norm(adjoint.arange(48.0).reshape(2, 3, 2, 2, 2))
    >>> out.shape
    adjoint.Size([2, 3, 2, 2, 2])
    >>> adjoint.allclose(out.mean(dim=(0, 2, 3, 4)), adjoint.zeros(3), atol=1e-6)
    True
    """

    _ranks = (5,)


class SyncBatchNorm(_BatchNorm):
    """Batch norm over the batches of all processes: ``(x - mean) / sqrt(var + eps) * weight + bias``.

    In one process it is batch norm of an input of any number of dimensions. ``convert_sync_batchnorm`` puts it in the
    place of each batch norm of a model.

    Parameters
    ----------
    num_features : int
        The number C of channels.
    eps : float, default 1e-5
        Added to the variance.
    momentum : float or None, default 0.1
        The share of a batch in the running statistics; None averages all batches equally.
    affine : bool, default True
        Learn `weight` and `bias`, which begin as ones and zeros.
    track_running_stats : bool, default True
        Keep running statistics. Without them, evaluation uses the batch, too.
    process_group : ProcessGroup, optional
        The processes whose batches are taken together. Defaults to all.
    device, dtype : optional
        Of parameters and buffers, as for `tensor`.
    bias : bool, default True
        False learns a `weight` only.

    Shape
    -----
    Input: (N, C, ...). Output: the same.

    Examples
    --------
    >>> model = adjoint.nn.Sequential(adjoint.nn.Linear(4, 2), adjoint.nn.BatchNorm1d(2))
    >>> adjoint.nn.SyncBatchNorm.convert_sync_batchnorm(model)
    Sequential(
      (0): Linear(in_features=4, out_features=2, bias=True)
      (1): SyncBatchNorm(2, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    )
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")
        if input.size(1) == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    def forward(self, input: Tensor) -> Tensor:
        """Return `input`, normalised in training by the batches of all processes."""
        if self.training or self.running_mean is None:
            # The package of processes imports this one; without a running group there is nothing to query.
            from ... import distributed

            if distributed.is_initialized() and distributed.get_world_size(self.process_group) > 1:
                from ...distributed.nn import synchronised  # the same package

                self._check_input_dim(input)
                return synchronised(self, input, self._momentum())
        return super().forward(input)

    @classmethod
    def convert_sync_batchnorm(cls, module: Any, process_group: Any = None) -> Any:
        """Return a model with each batch norm in it replaced by this one."""
        out = module
        if isinstance(module, _BatchNorm):
            out = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            out.weight, out.bias = module.weight, module.bias
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                setattr(out, name, getattr(module, name))
            out.training = module.training
        for name, child in module.named_children():
            out.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return out


# --- Lazy -------------------------------------------------------------------------------------------


class _LazyNormBase(LazyModuleMixin, _NormBase):
    """A norm that learns the number of its channels from its first input."""

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype, bias=bias)
        self.affine, self.track_running_stats = affine, track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = tensor(0, dtype=dtypes.int64, device=device)

    def reset_parameters(self) -> None:
        """Scale by one, shift by zero, once the shapes are known."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Take the number of channels from the first input."""
        if self.has_uninitialized_params():
            self.num_features = input.shape[1]
            for member in (self.weight, self.bias, self.running_mean, self.running_var):
                if member is not None:
                    member.materialize((self.num_features,))
            self.reset_parameters()


class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    """A `BatchNorm1d` that learns `num_features` from its first input."""

    cls_to_become = BatchNorm1d
    _ranks = BatchNorm1d._ranks


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    """A `BatchNorm2d` that learns `num_features` from its first input."""

    cls_to_become = BatchNorm2d
    _ranks = BatchNorm2d._ranks


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    """A `BatchNorm3d` that learns `num_features` from its first input."""

    cls_to_become = BatchNorm3d
    _ranks = BatchNorm3d._ranks


class _InstanceNorm(_NormBase):
    """Normalise each channel of each sample."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: list[str],
        unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        if local_metadata.get("version") is None and not self.track_running_stats:
            # Models saved when these layers had statistics unasked.
            stray = [prefix + n for n in ("running_mean", "running_var") if prefix + n in state_dict]
            if stray:
                error_msgs.append(
                    f"Unexpected running stats buffer(s) {' and '.join(repr(n) for n in stray)} for "
                    f"{type(self).__name__} with track_running_stats=False. If state_dict is a checkpoint saved "
                    "before 0.4.0, this may be expected because it does not track running stats by default since "
                    "0.4.0. Please remove these keys from state_dict."
                )
                for name in stray:
                    state_dict.pop(name)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def forward(self, input: Tensor) -> Tensor:
        """Return `input`, each channel of each sample normalised."""
        self._check_input_dim(input)
        unbatched = input.dim() == self._ranks[0]
        channels = input.dim() - self._ranks[0]
        if input.size(channels) != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={channels} to match num_features ({self.num_features}), but got: "
                    f"{input.size(channels)}."
                )
            warnings.warn(
                f"input's size at dim={channels} does not match num_features. You can silence this warning by not "
                "passing in num_features, which is not used because affine=False",
                stacklevel=2,
            )
        out = F.instance_norm(
            input.unsqueeze(0) if unbatched else input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return out.squeeze(0) if unbatched else out


class InstanceNorm1d(_InstanceNorm):
    """Normalize each channel of each sequence: ``(x - mean) / sqrt(var + eps) * weight + bias`` (Ulyanov et al., 2016).

    Mean and (biased) variance are those of one channel of one sample.

    Parameters
    ----------
    num_features : int
        The number C of channels.
    eps : float, default 1e-5
        Added to the variance.
    momentum : float, default 0.1
        The share of a batch in the running statistics.
    affine : bool, default False
        Learn `weight` and `bias`, one for each channel.
    track_running_stats : bool, default False
        Keep running statistics in training, and use them in evaluation mode.
    device, dtype : optional
        Of parameters and buffers, as for `tensor`.
    bias : bool, default True
        With `affine`, False learns a `weight` only.

    Shape
    -----
    Input: (N, C, L) or (C, L). Output: the same.

    Examples
    --------
    >>> adjoint.nn.InstanceNorm1d(2)(adjoint.tensor([[[1.0, 3.0], [10.0, 30.0]]]))
    tensor([[[-1.0000,  1.0000],
             [-1.0000,  1.0000]]])
    """

    _ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Normalize each channel of each image: ``(x - mean) / sqrt(var + eps) * weight + bias`` (Ulyanov et al., 2016).

    Mean and (biased) variance are those of one channel of one sample.

    Parameters
    ----------
    num_features : int
        The number C of channels.
    eps : float, default 1e-5
        Added to the variance.
    momentum : float, default 0.1
        The share of a batch in the running statistics.
    affine : bool, default False
        Learn `weight` and `bias`, one for each channel.
    track_running_stats : bool, default False
        Keep running statistics in training, and use them in evaluation mode.
    device, dtype : optional
        Of parameters and buffers, as for `tensor`.
    bias : bool, default True
        With `affine`, False learns a `weight` only.

    Shape
    -----
    Input: (N, C, H, W) or (C, H, W). Output: the same.

    Examples
    --------
    >>> adjoint.nn.InstanceNorm2d(1)(adjoint.tensor([[[[1.0, 3.0], [1.0, 3.0]]]]))
    tensor([[[[-1.0000,  1.0000],
              [-1.0000,  1.0000]]]])
    """

    _ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Bring each channel of each volume to mean 0 and variance 1."""

    _ranks = (4, 5)


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    """An `InstanceNorm1d` that learns `num_features` from its first input."""

    cls_to_become = InstanceNorm1d
    _ranks = InstanceNorm1d._ranks


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    """An `InstanceNorm2d` that learns `num_features` from its first input."""

    cls_to_become = InstanceNorm2d
    _ranks = InstanceNorm2d._ranks


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    """An `InstanceNorm3d` that learns `num_features` from its first input."""

    cls_to_become = InstanceNorm3d
    _ranks = InstanceNorm3d._ranks


class _ByNeighbours(Module):
    """What the norms by neighbouring channels share: their numbers."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def extra_repr(self) -> str:
        """Return the numbers."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class LocalResponseNorm(_ByNeighbours):
    """Divide each channel by a power of the mean of squares of its neighbours (Krizhevsky et al., 2012)."""

    __constants__ = ["size", "alpha", "beta", "k"]

    def forward(self, input: Tensor) -> Tensor:
        """Return `input`, normalised."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)


def _lua_windows(channels: int, size: int) -> list[list[float]]:
    """Return which channels each one is divided by: a running sum that drops a channel one step late."""
    reach = int((size - 1) / 2 + 1)
    weights = [1.0 if other < reach else 0.0 for other in range(channels)]
    rows = [weights]
    for channel in range(1, channels):
        weights = list(weights)
        if channel < channels - reach + 1:
            weights[channel + reach - 1] += 1
        if channel > reach:
            weights[channel - reach] -= 1
        rows.append(weights)
    return rows


class CrossMapLRN2d(_ByNeighbours):
    """`LocalResponseNorm` of images, with the windows that Lua Torch had."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)

    def forward(self, input: Tensor) -> Tensor:
        """Return `input`, normalised."""
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        count = input.shape[1]
        windows = tensor(_lua_windows(count, self.size), dtype=input.dtype, device=input.device)
        sums = (windows @ (input * input).flatten(2)).reshape(input.shape)
        return input * (self.k + self.alpha / self.size * sums) ** -self.beta


def _as_shape(normalized_shape: Any) -> tuple[int, ...]:
    return (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)


class LayerNorm(_Affine):
    """Normalize over the last dimensions: ``(x - mean) / sqrt(var + eps) * weight + bias`` (Ba et al., 2016).

    Mean and (biased) variance are those of the last dimensions of each sample.

    Parameters
    ----------
    normalized_shape : int or tuple of int
        The sizes of the last dimensions.
    eps : float, default 1e-5
        Added to the variance.
    elementwise_affine : bool, default True
        Learn `weight` and `bias`, of `normalized_shape`, which begin as ones and zeros.
    bias : bool, default True
        False learns a `weight` only.
    device, dtype : optional
        Of the parameters, as for `tensor`.

    Shape
    -----
    Input: (..., *normalized_shape). Output: the same.

    Examples
    --------
    >>> adjoint.nn.LayerNorm(2)(adjoint.tensor([[1.0, 3.0], [10.0, 30.0]])).detach()
    tensor([[-1.0000,  1.0000],
            [-1.0000,  1.0000]])
    """

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self._register_affine(self.normalized_shape, elementwise_affine, bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        """Return `input`, normalised."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the shape and the options."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Divide the last dimensions by the root of their mean square, then scale them (Zhang and Sennrich, 2019)."""

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]

    def __init__(
        self,
        normalized_shape: Any,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        weight = Parameter(empty(self.normalized_shape, device=device, dtype=dtype)) if elementwise_affine else None
        self.register_parameter("weight", weight)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Scale by one."""
        if self.elementwise_affine:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Return `x`, normalised."""
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """Return the shape and the options."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(_Affine):
    """Normalize groups of channels of each sample: ``(x - mean) / sqrt(var + eps) * weight + bias`` (Wu and He, 2018).

    Mean and (biased) variance are those of a group; `weight` and `bias` have one element for each channel.

    Parameters
    ----------
    num_groups : int
        How many groups there are; it divides `num_channels`.
    num_channels : int
        The number C of channels.
    eps : float, default 1e-5
        Added to the variance.
    affine : bool, default True
        Learn `weight` and `bias`, which begin as ones and zeros.
    device, dtype : optional
        Of the parameters, as for `tensor`.
    bias : bool, default True
        False learns a `weight` only.

    Raises
    ------
    ValueError
        If `num_groups` does not divide `num_channels`.

    Shape
    -----
    Input: (N, C, ...). Output: the same.

    Examples
    --------
    >>> adjoint.nn.GroupNorm(2, 4)(adjoint.tensor([[1.0, 3.0, 10.0, 30.0]])).detach()
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """

    __constants__ = ["num_groups", "num_channels", "eps", "affine"]

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        self._register_affine(num_channels, affine, bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        """Return `input`, normalised."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the sizes and the options."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )
