"""Attention as a layer."""

from __future__ import annotations

from typing import Any

from ..._typing import Tensor
from ...ops.create import empty
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .linear import NonDynamicallyQuantizableLinear
from .module import Module

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """Attention of queries to keys, in several heads at once (Vaswani et al., 2017).

    Each head computes ``softmax(Q @ K.T / sqrt(embed_dim / num_heads)) @ V`` from its own projections of query, key and
    value. The heads' results are concatenated and projected once more.

    Parameters
    ----------
    embed_dim : int
        The features of the queries and of the result; a multiple of `num_heads`.
    num_heads : int
        How many heads there are.
    dropout : float, default 0.0
        The probability with which an attention weight is set to zero in training.
    bias : bool, default True
        Add a bias in the projections.
    add_bias_kv : bool, default False
        Append a learned key and value to the sequences.
    add_zero_attn : bool, default False
        Append a key and value of zeros to the sequences.
    kdim, vdim : int, optional
        The features of the keys and of the values. Default to `embed_dim`.
    batch_first : bool, default False
        Put the batch before the sequence.
    device, dtype : optional
        Of the parameters, as for `tensor`.

    Raises
    ------
    AssertionError
        If `embed_dim` is not a multiple of `num_heads`.

    Shape
    -----
    Query: (L, N, embed_dim), key: (S, N, kdim), value: (S, N, vdim), or (N, L, embed_dim) and so on with `batch_first`,
    or without N. Output: as the query. Weights: (N, L, S), the mean of the heads; None with ``need_weights=False``.

    Examples
    --------
    >>> attention = adjoint.nn.MultiheadAttention(8, 2, batch_first=True)
    >>> x = adjoint.ones(4, 5, 8)
    >>> out, weights = attention(x, x, x)
    >>> out.shape, weights.shape
    (adjoint.Size([4, 5, 8]), adjoint.Size([4, 5, 5]))
    """

    __constants__ = ["batch_first"]
    bias_k: Any
    bias_v: Any

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} "
                "instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads, self.dropout, self.batch_first = num_heads, dropout, batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError(
                f"embed_dim must be divisible by num_heads (got embed_dim={embed_dim}, num_heads={num_heads})"
            )

        def parameter(*shape: int) -> Parameter:
            return Parameter(empty(shape, device=device, dtype=dtype))

        same = self._qkv_same_embed_dim
        self.register_parameter("in_proj_weight", parameter(3 * embed_dim, embed_dim) if same else None)
        self.register_parameter("q_proj_weight", None if same else parameter(embed_dim, embed_dim))
        self.register_parameter("k_proj_weight", None if same else parameter(embed_dim, self.kdim))
        self.register_parameter("v_proj_weight", None if same else parameter(embed_dim, self.vdim))
        self.register_parameter("in_proj_bias", parameter(3 * embed_dim) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        if add_bias_kv:
            self.bias_k, self.bias_v = parameter(1, 1, embed_dim), parameter(1, 1, embed_dim)
        else:
            self.bias_k = self.bias_v = None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        if self._qkv_same_embed_dim:
            init.xavier_uniform_(self.in_proj_weight)
        else:
            for weight in (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def __setstate__(self, state: dict[str, Any]) -> None:
        state.setdefault("_qkv_same_embed_dim", True)  # models saved before there were other widths
        super().__setstate__(state)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the attention output, and the attention weights if requested."""
        swapped = self.batch_first and query.dim() == 3
        if swapped:  # a value that is also the key, or the query, stays so
            turned = {id(t): t.transpose(1, 0) for t in (query, key, value)}
            query, key, value = turned[id(query)], turned[id(key)], turned[id(value)]
        out, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (out.transpose(1, 0) if swapped else out), weights

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """Return one mask for both, and its kind: 0 attention, 1 padding, 2 both."""
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        batch, length = query.shape[0], query.shape[1]
        merged = attn_mask.view(batch, -1, length, length) if attn_mask.dim() == 3 else (
            attn_mask.view(1, 1, length, length).expand(batch, self.num_heads, -1, -1)
        )  # fmt: skip
        if key_padding_mask is None:
            return merged, 2
        padding = key_padding_mask.view(batch, 1, 1, length).expand(-1, self.num_heads, -1, -1)
        return merged + padding, 2
