"""Attention, as users write it."""

from __future__ import annotations

import math

import adjoint as torch
from adjoint import Tensor


def attend(q: Tensor, k: Tensor, v: Tensor, causal: bool = False) -> Tensor:
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if causal:
        n = scores.shape[-1]
        scores = scores.masked_fill(torch.ones(n, n).triu(1) > 0, float("-inf"))
    return torch.softmax(scores, dim=-1) @ v


q, k, v = (torch.randn(2, 5, 8) for _ in range(3))
print(
    (attend(q, k, v, causal=True) - torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))
    .abs()
    .max()
)
