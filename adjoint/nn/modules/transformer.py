"""The transformer: encoder, decoder, and both."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from ..._typing import Tensor
from ...core import dtypes
from ...core.modes import is_grad_enabled
from ...core.tensor import TensorBase
from ...ops.arrange import triu
from ...ops.create import full
from .. import functional as F
from .. import init
from .activation import GELU, ReLU
from .attention import MultiheadAttention
from .container import ModuleList
from .dropout import Dropout
from .linear import Linear
from .module import Module
from .normalization import LayerNorm

__all__ = [
    "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer",
]  # fmt: skip
Activation = str | Callable[[Tensor], Tensor]


def _generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
    """Return a causal mask: minus infinity above the diagonal."""
    return triu(full((sz, sz), -math.inf, dtype=dtype, device=device), diagonal=1)


def _get_seq_len(src: Tensor, batch_first: bool) -> int | None:
    if src.dim() == 2:
        return int(src.shape[0])
    return int(src.shape[1 if batch_first else 0])


def _detect_is_causal_mask(mask: Tensor | None, is_causal: bool | None = None, size: int | None = None) -> bool:
    """Return whether a mask is causal; `is_causal` is trusted without a check."""
    if is_causal is not None:
        return is_causal
    if mask is None:
        return False
    length = size if size is not None else mask.size(-2)
    later = _generate_square_subsequent_mask(length, device=mask.device, dtype=mask.dtype)
    return tuple(mask.shape) == tuple(later.shape) and bool((mask == later).all())


def _get_clones(module: Module, N: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(N)])


def _get_activation_fn(activation: str) -> Callable[[Tensor], Tensor]:
    if activation == "relu":
        return F.relu
    if activation == "gelu":
        return F.gelu
    raise RuntimeError(f"activation should be relu/gelu, not {activation}")


def _attended(
    attention: Module, x: Tensor, memory: Tensor, mask: Tensor | None, padding: Tensor | None, is_causal: bool
) -> Tensor:
    """Return the attention of `x` to `memory`."""
    return attention(
        x, memory, memory, attn_mask=mask, key_padding_mask=padding, need_weights=False, is_causal=is_causal
    )[0]  # type: ignore[no-any-return]


class _Layer(Module):
    """Base of encoder and decoder layers: the block of two linear layers, and the residual connections."""

    def _feed_forward(
        self, d_model: int, dim_feedforward: int, dropout: float, bias: bool, device: Any, dtype: Any
    ) -> None:
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, device=device, dtype=dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, device=device, dtype=dtype)

    def _set_activation(self, activation: Activation) -> None:
        self.activation = _get_activation_fn(activation) if isinstance(activation, str) else activation

    def _sa_block(
        self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        return self.dropout1(_attended(self.self_attn, x, x, attn_mask, key_padding_mask, is_causal))

    def _inner(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "activation" not in self.__dict__ and "activation" not in self._modules:
            self.activation = F.relu  # models saved before there was a choice


class TransformerEncoderLayer(_Layer):
    """Self-attention and two linear layers, each with a residual and a norm (Vaswani et al., 2017).

    First ``x = norm1(x + attention(x))``, then ``x = norm2(x + linear2(activation(linear1(x))))``, with dropout. With
    `norm_first` it is ``x = x + attention(norm1(x))``, then ``x = x + linear2(activation(linear1(norm2(x))))``.

    Parameters
    ----------
    d_model : int
        The features of input and output.
    nhead : int
        The number of attention heads; it divides `d_model`.
    dim_feedforward : int, default 2048
        The features between the two linear layers.
    dropout : float, default 0.1
        The probability of each dropout.
    activation : {"relu", "gelu"} or callable, default relu
        Between the two linear layers.
    layer_norm_eps : float, default 1e-5
        The `eps` of the norms.
    batch_first : bool, default False
        Put the batch before the sequence.
    norm_first : bool, default False
        Normalize before attention and linear layers, not after.
    bias : bool, default True
        Add biases in linear layers, attention and norms.
    device, dtype : optional
        Of the parameters, as for `tensor`.

    Shape
    -----
    Input: (L, N, d_model), (N, L, d_model) with `batch_first`, or (L, d_model). Output: the same.

    Examples
    --------
    >>> layer = adjoint.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> x = adjoint.ones(4, 5, 8)
    >>> layer(x).shape
    adjoint.Size([4, 5, 8])
    >>> mask = adjoint.nn.Transformer.generate_square_subsequent_mask(5)  # no step sees a later one
    >>> layer(x, src_mask=mask).shape
    adjoint.Size([4, 5, 8])
    """

    __constants__ = ["norm_first"]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, device=device, dtype=dtype
        )
        self._feed_forward(d_model, dim_feedforward, dropout, bias, device, dtype)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, device=device, dtype=dtype)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, device=device, dtype=dtype)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self._set_activation(activation)
        # PyTorch's class, which may load this layer, chooses its kernel by this.
        relu = self.activation is F.relu or isinstance(self.activation, ReLU)
        gelu = self.activation is F.gelu or isinstance(self.activation, GELU)
        self.activation_relu_or_gelu = 1 if relu else 2 if gelu else 0

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Return the layer's result for `src`."""
        padding, mask = _float_masks(src, src_key_padding_mask, src_mask)
        if self.norm_first:
            x = src + self._sa_block(self.norm1(src), mask, padding, is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(src + self._sa_block(src, mask, padding, is_causal))
        return self.norm2(x + self._ff_block(x))

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout2(self._inner(x))


def _float_masks(x: Tensor, padding: Tensor | None, mask: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Return both masks as additive float masks, so that they can be summed."""
    return _float_mask(padding, x.dtype), _float_mask(mask, x.dtype)


def _float_mask(mask: Tensor | None, dtype: Any) -> Tensor | None:
    if mask is not None and not isinstance(mask, TensorBase):
        raise RuntimeError(f"a mask must be None or torch.Tensor, but got {type(mask).__name__}")
    if mask is None or mask.dtype != dtypes.bool_:
        return mask
    zeros = full(mask.shape, 0.0, dtype=dtype, device=mask.device)
    return zeros.masked_fill_(mask, -math.inf)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the output of an encoder, and two linear layers, each with a residual and a norm.

    Parameters
    ----------
    d_model : int
        The features of input and output.
    nhead : int
        The number of attention heads; it divides `d_model`.
    dim_feedforward : int, default 2048
        The features between the two linear layers.
    dropout : float, default 0.1
        The probability of each dropout.
    activation : {"relu", "gelu"} or callable, default <function relu at 0x7f4aca759120>
        Between the two linear layers.
    layer_norm_eps : float, default 1e-05
        The `eps` of the norms.
    batch_first : bool, default False
        Put the batch before the sequence.
    norm_first : bool, default False
        Normalize before attention and linear layers, not after.
    bias : bool, default True
        Add biases in linear layers, attention and norms.
    device : device, optional
        Of the parameters, as for `tensor`.
    dtype : dtype, optional
        Of the parameters, as for `tensor`.

    Shape
    -----
    Input: (L, N, d_model) and the encoder's (S, N, d_model), or with the batch first. Output: as the first.

    Examples
    --------
    >>> layer = adjoint.nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)
    >>> layer(adjoint.ones(4, 5, 8), adjoint.ones(4, 7, 8)).shape
    adjoint.Size([4, 5, 8])
    """

    __constants__ = ["norm_first"]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        options: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, **options)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, **options)
        self._feed_forward(d_model, dim_feedforward, dropout, bias, device, dtype)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, **options)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, **options)
        self.norm3 = LayerNorm(d_model, eps=layer_norm_eps, **options)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self._set_activation(activation)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return the layer's result for `tgt`, with attention to `memory`."""
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory_mask, memory_key_padding_mask, memory_is_causal)
        x = tgt
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *own)
            x = x + self._mha_block(self.norm2(x), memory, *other)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self._sa_block(x, *own))
        x = self.norm2(x + self._mha_block(x, memory, *other))
        return self.norm3(x + self._ff_block(x))

    def _mha_block(
        self,
        x: Tensor,
        mem: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        return self.dropout2(_attended(self.multihead_attn, x, mem, attn_mask, key_padding_mask, is_causal))

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout3(self._inner(x))


def _can_drop_padding(layer: Any) -> bool:
    if not isinstance(layer, TransformerEncoderLayer) or layer.norm_first or layer.norm1.eps != layer.norm2.eps:
        return False
    attention = layer.self_attn
    fits = attention.batch_first and attention._qkv_same_embed_dim and attention.num_heads % 2 == 0
    return fits and attention.in_proj_bias is not None and layer.activation in (F.relu, F.gelu)


class TransformerEncoder(Module):
    """A stack of encoder layers.

    In evaluation without gradients, padding at the end of sequences gives zeros, as in torch, unless
    `enable_nested_tensor` is off.

    Parameters
    ----------
    encoder_layer : TransformerEncoderLayer
        The layer; it is copied.
    num_layers : int
        The number of layers.
    norm : {"backward", "ortho", "forward"}, optional
        Applied to the result.
    enable_nested_tensor : bool, default True
        Whether padding gives zeros in evaluation without gradients.
    mask_check : bool, default True
        Whether to check that padding is at the end of sequences; without the check that is assumed.

    Shape
    -----
    As of `TransformerEncoderLayer`.

    Examples
    --------
    >>> layer = adjoint.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> adjoint.nn.TransformerEncoder(layer, 2)(adjoint.ones(4, 5, 8)).shape
    adjoint.Size([4, 5, 8])
    """

    __constants__ = ["norm"]

    def __init__(
        self,
        encoder_layer: TransformerEncoderLayer,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check
        self.use_nested_tensor = enable_nested_tensor and _can_drop_padding(encoder_layer)

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """Return the result of the layers for `src`."""
        dropped = self._drops(src, mask, src_key_padding_mask)
        padding, mask = _float_masks(src, src_key_padding_mask, mask)
        first = self.layers[0]
        length = _get_seq_len(src, first.self_attn.batch_first if hasattr(first, "self_attn") else False)
        causal = _detect_is_causal_mask(mask, is_causal, length)
        out = src
        for layer in self.layers:
            out = layer(out, src_mask=mask, is_causal=causal, src_key_padding_mask=padding)
        if dropped:
            out = out.masked_fill(src_key_padding_mask.unsqueeze(-1), 0.0)  # type: ignore[union-attr]
        return out if self.norm is None else self.norm(out)

    def _drops(self, src: Tensor, mask: Tensor | None, padding: Tensor | None) -> bool:
        """Return whether torch would leave the padding out here, and so return zeros in its place."""
        if not self.use_nested_tensor or self.layers[0].training or mask is not None or padding is None:
            return False
        if src.dim() != 3 or padding.dtype != dtypes.bool_ or is_grad_enabled():
            return False
        ends = padding.sort(dim=1, stable=True)[0] == padding  # padding comes last
        return bool(ends.all()) or not self.mask_check


class TransformerDecoder(Module):
    """A stack of decoder layers.

    Parameters
    ----------
    decoder_layer : TransformerDecoderLayer
        The layer; it is copied.
    num_layers : int
        The number of layers.
    norm : {"backward", "ortho", "forward"}, optional
        Applied to the result.

    Shape
    -----
    As of `TransformerDecoderLayer`.

    Examples
    --------
    >>> layer = adjoint.nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)
    >>> adjoint.nn.TransformerDecoder(layer, 2)(adjoint.ones(4, 5, 8), adjoint.ones(4, 7, 8)).shape
    adjoint.Size([4, 5, 8])
    """

    __constants__ = ["norm"]

    def __init__(self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return the result of the layers for `tgt`, with attention to `memory`."""
        first = self.layers[0]
        length = _get_seq_len(tgt, first.self_attn.batch_first if hasattr(first, "self_attn") else False)
        causal = _detect_is_causal_mask(tgt_mask, tgt_is_causal, length)
        out = tgt
        for layer in self.layers:
            out = layer(
                out,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=causal,
                memory_is_causal=memory_is_causal,
            )
        return out if self.norm is None else self.norm(out)


class Transformer(Module):
    """An encoder, and a decoder that attends to its output (Vaswani et al., 2017).

    Parameters
    ----------
    d_model : int, default 512
        The features of input and output.
    nhead : int, default 8
        The number of attention heads; it divides `d_model`.
    num_encoder_layers : int, default 6
        The number of layers of the encoder.
    num_decoder_layers : int, default 6
        The number of layers of the decoder.
    dim_feedforward : int, default 2048
        The features between the two linear layers.
    dropout : float, default 0.1
        The probability of each dropout.
    activation : {"relu", "gelu"} or callable, default <function relu at 0x7f4aca759120>
        Between the two linear layers.
    custom_encoder : Module, optional
        In place of a `TransformerEncoder`.
    custom_decoder : Module, optional
        In place of a `TransformerDecoder`.
    layer_norm_eps : float, default 1e-05
        The `eps` of the norms.
    batch_first : bool, default False
        Put the batch before the sequence.
    norm_first : bool, default False
        Normalize before attention and linear layers, not after.
    bias : bool, default True
        Add biases in linear layers, attention and norms.
    device : device, optional
        Of the parameters, as for `tensor`.
    dtype : dtype, optional
        Of the parameters, as for `tensor`.

    Shape
    -----
    Input: source (S, N, d_model) and target (L, N, d_model), or with the batch first. Output: as the target.

    Examples
    --------
    >>> model = adjoint.nn.Transformer(8, 2, 1, 1, 16, batch_first=True)
    >>> model(adjoint.ones(4, 7, 8), adjoint.ones(4, 5, 8)).shape
    adjoint.Size([4, 5, 8])
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        sizes = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)

        def norm() -> LayerNorm:
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, device=device, dtype=dtype)

        if custom_encoder is not None:
            self.encoder = custom_encoder
        else:
            self.encoder = TransformerEncoder(
                TransformerEncoderLayer(*sizes, device, dtype), num_encoder_layers, norm()
            )
        if custom_decoder is not None:
            self.decoder = custom_decoder
        else:
            self.decoder = TransformerDecoder(
                TransformerDecoderLayer(*sizes, device, dtype), num_decoder_layers, norm()
            )
        self._reset_parameters()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return the decoder's result for `tgt`, with attention to the encoder's result for `src`."""
        batched = src.dim() == 3
        if batched and src.size(0 if self.batch_first else 1) != tgt.size(0 if self.batch_first else 1):
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """Return a causal mask: minus infinity above the diagonal."""
        return _generate_square_subsequent_mask(sz, device=device, dtype=dtype)

    def _reset_parameters(self) -> None:
        for weight in self.parameters():
            if weight.dim() > 1:
                init.xavier_uniform_(weight)
