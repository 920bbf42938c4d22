"""Normalization of each channel over a batch, and running statistics, which instance norms use, too."""

from __future__ import annotations

from typing import Any

from ..._typing import Tensor
from ...core import dtypes
from ...ops.create import ones, tensor, zeros
from .. import functional as F
from ..parameter import UninitializedBuffer, UninitializedParameter
from .lazy import LazyModuleMixin
from .normalization import _Affine

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d",
    "SyncBatchNorm",
]  # fmt: skip


class _NormBase(_Affine):
    """Base of batch and instance norms: scale and shift, and running statistics."""

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
        """Reset the running mean to zero, the running variance to one and the count of batches to zero."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Set the scale to one and the shift to zero, and reset the running statistics."""
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
        The weight of a batch in the running statistics; None averages all batches equally.
    affine : bool, default True
        Learn `weight` and `bias`, which begin as ones and zeros.
    track_running_stats : bool, default True
        Track running statistics. Without them, evaluation mode uses those of the batch, too.
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
        The weight of a batch in the running statistics; None averages all batches equally.
    affine : bool, default True
        Learn `weight` and `bias`, which begin as ones and zeros.
    track_running_stats : bool, default True
        Track running statistics. Without them, evaluation mode uses those of the batch, too.
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
        The weight of a batch in the running statistics; None averages all batches equally.
    affine : bool, default True
        Learn `weight` and `bias`, which begin as ones and zeros.
    track_running_stats : bool, default True
        Track running statistics. Without them, evaluation mode uses those of the batch, too.
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
        The weight of a batch in the running statistics; None averages all batches equally.
    affine : bool, default True
        Learn `weight` and `bias`, which begin as ones and zeros.
    track_running_stats : bool, default True
        Track running statistics. Without them, evaluation mode uses those of the batch, too.
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
        """Set the scale to one and the shift to zero, once the shapes are known."""
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
    """A `BatchNorm1d` that learns `num_features` from its first input.

    Parameters
    ----------
    eps : float, default 1e-05
        Added to the variance.
    momentum : float, default 0.1
        Weight of a new batch in the running statistics; None for the mean of all batches.
    affine : bool, default True
        Scale and shift each channel by learned numbers.
    track_running_stats : bool, default True
        Keep running statistics, and use them in evaluation.
    device : device, optional
        Of the parameters, as for `tensor`.
    dtype : dtype, optional
        Of the parameters, as for `tensor`.
    bias : bool, default True
        Shift, too; without it the channels are only scaled.

    Shape
    -----
    As of `BatchNorm1d`.

    Examples
    --------
    >>> layer = adjoint.nn.LazyBatchNorm1d()
    >>> layer(adjoint.ones(2, 4, 5)).shape
    adjoint.Size([2, 4, 5])
    >>> layer.num_features
    4
    """

    cls_to_become = BatchNorm1d
    _ranks = BatchNorm1d._ranks


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    """A `BatchNorm2d` that learns `num_features` from its first input.

    Parameters
    ----------
    eps : float, default 1e-05
        Added to the variance.
    momentum : float, default 0.1
        Weight of a new batch in the running statistics; None for the mean of all batches.
    affine : bool, default True
        Scale and shift each channel by learned numbers.
    track_running_stats : bool, default True
        Keep running statistics, and use them in evaluation.
    device : device, optional
        Of the parameters, as for `tensor`.
    dtype : dtype, optional
        Of the parameters, as for `tensor`.
    bias : bool, default True
        Shift, too; without it the channels are only scaled.

    Shape
    -----
    As of `BatchNorm2d`.

    Examples
    --------
    >>> layer = adjoint.nn.LazyBatchNorm2d()
    >>> layer(adjoint.ones(2, 4, 5, 5)).shape
    adjoint.Size([2, 4, 5, 5])
    >>> layer.num_features
    4
    """

    cls_to_become = BatchNorm2d
    _ranks = BatchNorm2d._ranks


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    """A `BatchNorm3d` that learns `num_features` from its first input.

    Parameters
    ----------
    eps : float, default 1e-05
        Added to the variance.
    momentum : float, default 0.1
        Weight of a new batch in the running statistics; None for the mean of all batches.
    affine : bool, default True
        Scale and shift each channel by learned numbers.
    track_running_stats : bool, default True
        Keep running statistics, and use them in evaluation.
    device : device, optional
        Of the parameters, as for `tensor`.
    dtype : dtype, optional
        Of the parameters, as for `tensor`.
    bias : bool, default True
        Shift, too; without it the channels are only scaled.

    Shape
    -----
    As of `BatchNorm3d`.

    Examples
    --------
    >>> layer = adjoint.nn.LazyBatchNorm3d()
    >>> layer(adjoint.ones(2, 4, 5, 5, 5)).shape
    adjoint.Size([2, 4, 5, 5, 5])
    >>> layer.num_features
    4
    """

    cls_to_become = BatchNorm3d
    _ranks = BatchNorm3d._ranks
