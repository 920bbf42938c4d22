"""Functions of layers, under torch.nn.functional's names: each is defined in one of the modules of ops."""

# ruff: noqa: I001
from __future__ import annotations

from .. import subclasses as _subclasses
from ..ops import signatures as _signatures
from ..ops.activation import (
    celu as celu, celu_ as celu_, elu as elu, elu_ as elu_, gelu as gelu, glu as glu, hardshrink as hardshrink,
    hardsigmoid as hardsigmoid, hardswish as hardswish, hardtanh as hardtanh, hardtanh_ as hardtanh_,
    leaky_relu as leaky_relu, leaky_relu_ as leaky_relu_, logsigmoid as logsigmoid, mish as mish, prelu as prelu,
    relu as relu, relu6 as relu6, relu_ as relu_, rrelu as rrelu, rrelu_ as rrelu_, selu as selu, selu_ as selu_,
    silu as silu, softplus as softplus, softshrink as softshrink, softsign as softsign, tanhshrink as tanhshrink,
    threshold as threshold, threshold_ as threshold_,
)  # fmt: skip
from ..ops.contraction import linear as linear
from ..ops.conv import (
    conv1d as conv1d, conv2d as conv2d, conv3d as conv3d, conv_tbc as conv_tbc, conv_transpose1d as conv_transpose1d,
    conv_transpose2d as conv_transpose2d, conv_transpose3d as conv_transpose3d, fold as fold, unfold as unfold,
)  # fmt: skip
from ..ops.elementwise import sigmoid as sigmoid
from ..ops.trigonometry import tanh as tanh
from ..ops.embedding import one_hot as one_hot
from ..ops.measure import pdist as pdist
from ..ops.attention import (
    multi_head_attention_forward as multi_head_attention_forward,
    scaled_dot_product_attention as scaled_dot_product_attention,
)  # fmt: skip
from ..ops.bags import bilinear as bilinear, embedding as embedding, embedding_bag as embedding_bag
from ..ops.ctc import ctc_loss as ctc_loss
from ..ops.dropout import (
    alpha_dropout as alpha_dropout, dropout as dropout, dropout1d as dropout1d, dropout2d as dropout2d,
    dropout3d as dropout3d, feature_alpha_dropout as feature_alpha_dropout,
)  # fmt: skip
from ..ops.entropy import (
    cross_entropy as cross_entropy, linear_cross_entropy as linear_cross_entropy, nll_loss as nll_loss,
)  # fmt: skip
from ..ops.margin import (
    cosine_embedding_loss as cosine_embedding_loss, hinge_embedding_loss as hinge_embedding_loss,
    margin_ranking_loss as margin_ranking_loss, multi_margin_loss as multi_margin_loss,
    multilabel_margin_loss as multilabel_margin_loss, multilabel_soft_margin_loss as multilabel_soft_margin_loss,
    pairwise_distance as pairwise_distance, triplet_margin_loss as triplet_margin_loss,
    triplet_margin_with_distance_loss as triplet_margin_with_distance_loss,
)  # fmt: skip
from ..ops.loss import (
    binary_cross_entropy as binary_cross_entropy, binary_cross_entropy_with_logits as binary_cross_entropy_with_logits,
    gaussian_nll_loss as gaussian_nll_loss, huber_loss as huber_loss, kl_div as kl_div, l1_loss as l1_loss,
    mse_loss as mse_loss, poisson_nll_loss as poisson_nll_loss, smooth_l1_loss as smooth_l1_loss,
    soft_margin_loss as soft_margin_loss,
)  # fmt: skip
from ..ops.norm import (
    batch_norm as batch_norm, cosine_similarity as cosine_similarity, group_norm as group_norm,
    instance_norm as instance_norm, layer_norm as layer_norm, normalize as normalize, rms_norm as rms_norm,
)  # fmt: skip
from ..ops.softmin import (
    gumbel_softmax as gumbel_softmax, log_softmax as log_softmax, softmax as softmax, softmin as softmin,
)  # fmt: skip
from ..ops.pooling import (
    avg_pool1d as avg_pool1d, avg_pool2d as avg_pool2d, avg_pool3d as avg_pool3d,
    fractional_max_pool2d as fractional_max_pool2d,
    fractional_max_pool2d_with_indices as fractional_max_pool2d_with_indices,
    fractional_max_pool3d as fractional_max_pool3d,
    fractional_max_pool3d_with_indices as fractional_max_pool3d_with_indices, lp_pool1d as lp_pool1d,
    lp_pool2d as lp_pool2d, lp_pool3d as lp_pool3d, max_pool1d as max_pool1d,
    max_pool1d_with_indices as max_pool1d_with_indices, max_pool2d as max_pool2d,
    max_pool2d_with_indices as max_pool2d_with_indices, max_pool3d as max_pool3d,
    max_pool3d_with_indices as max_pool3d_with_indices, max_unpool1d as max_unpool1d, max_unpool2d as max_unpool2d,
    max_unpool3d as max_unpool3d,
)  # fmt: skip
from ..ops.adaptive_pooling import (
    adaptive_avg_pool1d as adaptive_avg_pool1d, adaptive_avg_pool2d as adaptive_avg_pool2d,
    adaptive_avg_pool3d as adaptive_avg_pool3d, adaptive_max_pool1d as adaptive_max_pool1d,
    adaptive_max_pool1d_with_indices as adaptive_max_pool1d_with_indices, adaptive_max_pool2d as adaptive_max_pool2d,
    adaptive_max_pool2d_with_indices as adaptive_max_pool2d_with_indices, adaptive_max_pool3d as adaptive_max_pool3d,
    adaptive_max_pool3d_with_indices as adaptive_max_pool3d_with_indices,
)  # fmt: skip
from ..ops.grid import (
    GRID_SAMPLE_INTERPOLATION_MODES as GRID_SAMPLE_INTERPOLATION_MODES,
    GRID_SAMPLE_PADDING_MODES as GRID_SAMPLE_PADDING_MODES, affine_grid as affine_grid, grid_sample as grid_sample,
)  # fmt: skip
from ..ops.resample import (
    channel_shuffle as channel_shuffle, interpolate as interpolate, local_response_norm as local_response_norm,
    native_channel_shuffle as native_channel_shuffle, pad as pad, pixel_shuffle as pixel_shuffle,
    pixel_unshuffle as pixel_unshuffle, upsample as upsample, upsample_bilinear as upsample_bilinear,
    upsample_nearest as upsample_nearest,
)  # fmt: skip

_signatures.enforce(globals(), __name__)
_subclasses.exchange_late()
