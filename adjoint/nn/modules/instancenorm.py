"""Normalization of each channel of each sample."""

from __future__ import annotations

import warnings
from typing import Any

from ..._typing import Tensor
from .. import functional as F
from .batchnorm import _LazyNormBase, _NormBase

__all__ = [
    "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
]  # fmt: skip


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
        The weight of a batch in the running statistics.
    affine : bool, default False
        Learn `weight` and `bias`, one for each channel.
    track_running_stats : bool, default False
        Update running statistics in training, and use them in evaluation mode.
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
        The weight of a batch in the running statistics.
    affine : bool, default False
        Learn `weight` and `bias`, one for each channel.
    track_running_stats : bool, default False
        Update running statistics in training, and use them in evaluation mode.
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
    """Normalize each channel of each volume to mean 0 and variance 1.

    Parameters
    ----------
    num_features : int
        The channels, C.
    eps : float, default 1e-05
        Added to the variance.
    momentum : float, default 0.1
        Weight of a new batch in the running statistics; None for the mean of all batches.
    affine : bool, default False
        Scale and shift each channel by learned numbers.
    track_running_stats : bool, default False
        Keep running statistics, and use them in evaluation.
    device : device, optional
        Of the parameters, as for `tensor`.
    dtype : dtype, optional
        Of the parameters, as for `tensor`.
    bias : bool, default True
        Shift, too; without it the channels are only scaled.

    Shape
    -----
    Input: (N, C, D, H, W) or (C, D, H, W). Output: the same.

    Examples
    --------
    >>> layer = adjoint.nn.InstanceNorm3d(1)
    >>> layer(adjoint.arange(8.0).reshape(1, 1, 2, 2, 2)).var(correction=0).round(decimals=3)
    tensor(1.)
    """

    _ranks = (4, 5)


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    """An `InstanceNorm1d` that learns `num_features` from its first input.

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
    As of `InstanceNorm1d`.

    Examples
    --------
    >>> layer = adjoint.nn.LazyInstanceNorm1d()
    >>> layer(adjoint.ones(2, 4, 5)).shape
    adjoint.Size([2, 4, 5])
    >>> layer.num_features
    4
    """

    cls_to_become = InstanceNorm1d
    _ranks = InstanceNorm1d._ranks


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    """An `InstanceNorm2d` that learns `num_features` from its first input.

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
    As of `InstanceNorm2d`.

    Examples
    --------
    >>> layer = adjoint.nn.LazyInstanceNorm2d()
    >>> layer(adjoint.ones(2, 4, 5, 5)).shape
    adjoint.Size([2, 4, 5, 5])
    >>> layer.num_features
    4
    """

    cls_to_become = InstanceNorm2d
    _ranks = InstanceNorm2d._ranks


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    """An `InstanceNorm3d` that learns `num_features` from its first input.

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
    As of `InstanceNorm3d`.

    Examples
    --------
    >>> layer = adjoint.nn.LazyInstanceNorm3d()
    >>> layer(adjoint.ones(2, 4, 5, 5, 5)).shape
    adjoint.Size([2, 4, 5, 5, 5])
    >>> layer.num_features
    4
    """

    cls_to_become = InstanceNorm3d
    _ranks = InstanceNorm3d._ranks
