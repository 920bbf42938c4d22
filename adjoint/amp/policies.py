"""Which ops autocast runs in half precision, which in single, and which in the widest of their operands.

The tables are torch's. `POLICIES` has the names of adjoint's primitives; an op that is in none runs in whatever dtype
its operands have, and one that is expressed by others follows from those. `FUNCTIONS` has the names of public functions
whose arguments are converted before they are checked (`adjoint.ops.precision`), and which then run without autocast:
`SAME` are those that take their arguments as they are, `BANNED` those that torch refuses.
"""

from __future__ import annotations

LOWER, SINGLE, WIDEST, SAME, BANNED = range(5)

_PRODUCTS = ("linear", "project", "mm", "bmm", "mv", "conv", "conv_transpose", "contract", "dot")
_LOSSES = (
    "mse_loss", "nll_loss", "nll_loss2d", "cross_entropy", "smooth_l1_loss", "huber_loss", "soft_margin_loss",
    "binary_cross_entropy_with_logits",
)  # fmt: skip
# Where half precision would overflow or cancel, and ops that no CPU has in it.
_CPU_SINGLE = (
    *_LOSSES, "binary_cross_entropy", "ctc_loss", "prod", "euclid", "fft_c2c", "fft_c2r", "fft_r2c",
    "view_as_complex", "cholesky", "cholesky_solve", "inv", "pinv", "linalg_solve", "solve_triangular", "svd",
    "svdvals", "eig", "eigh", "qr", "qr_r", "lu_factor", "singular", "matrix_rank", "avg_pool3d", "max_pool3d",
    "adaptive_avg_pool3d", "adaptive_max_pool3d", "reflect_pad1d", "reflect_pad2d", "replicate_pad1d",
    "replicate_pad2d", "replicate_pad3d",
)  # fmt: skip
_CUDA_SINGLE = (
    *_LOSSES, "acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log2", "log1p", "reciprocal", "rsqrt",
    "sinh", "tan", "pow", "power", "softplus", "layer_norm", "rms_norm", "group_norm", "vector_norm", "euclid",
    "logsumexp", "prod", "softmax", "log_softmax", "cumprod", "cumsum", "sum", "sum_all",
    "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_linear1d", "upsample_bilinear2d",
    "upsample_bicubic2d", "upsample_trilinear3d",
)  # fmt: skip

POLICIES: dict[str, dict[str, int]] = {
    "cpu": {
        **dict.fromkeys(_PRODUCTS, LOWER),
        **dict.fromkeys(_CPU_SINGLE, SINGLE),
        **dict.fromkeys(("cat", "stack", "index_copy"), WIDEST),
    },
    "cuda": {
        **dict.fromkeys((*_PRODUCTS, "flash", "prelu"), LOWER),
        **dict.fromkeys(_CUDA_SINGLE, SINGLE),
        **dict.fromkeys(("addcdiv", "addcmul", "atan2", "cat", "stack", "index_put", "scatter_add"), WIDEST),
    },
}

_SINGLE_LOSSES = (
    "l1_loss", "kl_div", "poisson_nll_loss", "soft_margin_loss", "huber_loss", "hinge_embedding_loss",
    "margin_ranking_loss", "cosine_embedding_loss", "triplet_margin_loss", "multi_margin_loss",
    "_of_probabilities",  # what cross_entropy calls where targets are probabilities of classes
    "multilabel_margin_loss", "binary_cross_entropy_with_logits", "cdist",
)  # fmt: skip
_DECOMPOSITIONS = (
    "solve", "lstsq", "solve_triangular", "matrix_rank", "tensorsolve", "tensorinv", "pinv", "pinverse", "lu_solve",
    "orgqr", "householder_product", "ormqr", "geqrf",
)  # fmt: skip
_ANYWHERE = ("scaled_dot_product_attention", "prelu", "vecdot", "addbmm")
FUNCTIONS: dict[str, dict[str, int]] = {
    "cpu": {
        **dict.fromkeys(_ANYWHERE, LOWER),
        **dict.fromkeys(
            (
                *_SINGLE_LOSSES, *_DECOMPOSITIONS, "binary_cross_entropy", "grid_sample", "polar", "quantile",
                "nanquantile", "trace", "view_as_complex", "max_unpool2d", "max_unpool3d", "fractional_max_pool2d",
                "fractional_max_pool3d", "stft",
            ),
            SINGLE,
        ),
        "index_copy": WIDEST,
        **dict.fromkeys(("mv", "addmv", "addr", "dot", "vdot", "bilinear"), SAME),
    },
    "cuda": {
        **dict.fromkeys((*_ANYWHERE, "mv", "addmv", "addr"), LOWER),
        **dict.fromkeys((*_SINGLE_LOSSES, "cosine_similarity", "dist", "pdist", "renorm"), SINGLE),
        **dict.fromkeys(
            ("bilinear", "cross", "dot", "vdot", "grid_sample", "index_put", "scatter_add", "tensordot"), WIDEST
        ),
        "binary_cross_entropy": BANNED,
    },
}  # fmt: skip
