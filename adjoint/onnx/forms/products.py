"""Matrix multiplications, convolutions and losses."""

from __future__ import annotations

import string
from typing import Any

from ...export.sizes import Varying
from ..builder import Builder, Unsupported
from .table import form

__all__: list[str] = []


@form("mm", "bmm", "dot", "mv")
def _matmul(b: Builder, x: Any, y: Any) -> str:
    assert b.line is not None
    dtype = b.line.outputs[0].dtype
    return b.node("MatMul", b.of(x, dtype), b.of(y, dtype))


@form("linear", "project")
def _linear(b: Builder, x: Any, weight: Any, bias: Any = None) -> str:
    assert b.line is not None
    dtype = b.line.outputs[0].dtype
    rows, name = len(x.shape), b.of(x, dtype)
    if rows == 2 and len(weight.shape) == 2:
        return b.node("Gemm", name, b.of(weight, dtype), *([] if bias is None else [b.of(bias, dtype)]), transB=1)
    order = [*range(len(weight.shape) - 2), *range(len(weight.shape))[: -3 if len(weight.shape) > 1 else None : -1]]
    out = b.node("MatMul", name, b.transposed(b.of(weight, dtype), order))
    return out if bias is None else b.node("Add", out, b.of(bias, dtype))


@form("contract")
def _contract(b: Builder, x: Any, y: Any, left: Any, right: Any, result: Any) -> str:
    assert b.line is not None
    letters: dict[Any, str] = {}
    for label in (*left, *right, *result):
        letters.setdefault(label, string.ascii_letters[len(letters)])
    first, second, out = ("".join(letters[label] for label in labels) for labels in (left, right, result))
    dtype = b.line.outputs[0].dtype
    return b.node("Einsum", b.of(x, dtype), b.of(y, dtype), equation=f"{first},{second}->{out}")


@form("cross")
def _cross(b: Builder, x: Any, y: Any, axis: int) -> str:
    assert b.line is not None
    axis %= len(b.line.outputs[0].shape)

    def turned(name: str, rank: int, by: int) -> str:
        order = [(i + by) % 3 for i in range(3)]
        return b.node("Gather", name, b.ints(order), axis=axis - len(b.line.outputs[0].shape) + rank)  # type: ignore[union-attr]

    left, right = (b.of(v, b.line.outputs[0].dtype) for v in (x, y))
    p, q = len(x.shape), len(y.shape)
    return b.node(
        "Sub",
        b.node("Mul", turned(left, p, 1), turned(right, q, 2)),
        b.node("Mul", turned(left, p, 2), turned(right, q, 1)),
    )


def _after(x: Any, w: Any, stride: Any, before: Any, dilation: Any, size: Any, lengths: Any) -> list[int]:
    """Return how many zeros come after each axis of a convolution's input, given those before and the output's size."""
    after = []
    for n, k, s, p, d, out in zip(lengths, w.shape[2:], stride, before, dilation, size, strict=True):
        pairs = zip(n.values, out.values, strict=True) if isinstance(n, Varying) else [(n, out)]
        if all(m == (i + 2 * p - (k - 1) * d - 1) // s + 1 for i, m in pairs):
            after.append(p)
        elif isinstance(n, Varying):
            raise Unsupported("a convolution whose padding depends on a dynamic size")
        else:
            after.append(max((out - 1) * s + (k - 1) * d + 1 - n - p, 0))
    return after


@form("conv")
def _conv(
    b: Builder, x: Any, w: Any, bias: Any, stride: Any, before: Any, dilation: Any, groups: int, size: Any
) -> str:
    assert b.line is not None
    rank = len(w.shape) - 2
    dtype = b.line.outputs[0].dtype
    after = _after(x, w, stride, before, dilation, b.shape(b.line.outputs[0])[-rank:], b.shape(x)[-rank:])
    given = [b.of(x, dtype), b.of(w, dtype), *([] if bias is None else [b.of(bias, dtype)])]
    batch = len(x.shape) == rank + 2
    if not batch:
        given[0] = b.node("Unsqueeze", given[0], b.ints([0]))
    out = b.node(
        "Conv", *given, kernel_shape=list(w.shape[2:]), strides=list(stride), pads=[*before, *after],
        dilations=list(dilation), group=groups,
    )  # fmt: skip
    return out if batch else b.node("Squeeze", out, b.ints([0]))


@form("conv_transpose")
def _conv_transpose(
    b: Builder, x: Any, w: Any, bias: Any, stride: Any, before: Any, dilation: Any, groups: int, size: Any
) -> str:  # fmt: skip
    assert b.line is not None
    rank, dtype = len(w.shape) - 2, b.line.outputs[0].dtype
    after = []
    lengths, outs = b.shape(x)[-rank:], b.shape(b.line.outputs[0])[-rank:]
    for n, k, s, p, d, out in zip(lengths, w.shape[2:], stride, before, dilation, outs, strict=True):
        pairs = zip(n.values, out.values, strict=True) if isinstance(n, Varying) else [(n, out)]
        found = {(i - 1) * s + (k - 1) * d + 1 - p - m for i, m in pairs}
        if len(found) > 1:
            raise Unsupported("a transposed convolution whose padding depends on a dynamic size")
        after.append(found.pop())
    extra = [max(-a, 0) for a in after]
    given = [b.of(x, dtype), b.of(w, dtype), *([] if bias is None else [b.of(bias, dtype)])]
    return b.node(
        "ConvTranspose", *given, kernel_shape=list(w.shape[2:]), strides=list(stride), output_padding=extra,
        pads=[*before, *(max(a, 0) for a in after)], dilations=list(dilation), group=groups,
    )  # fmt: skip


@form("det")
def _det(b: Builder, x: Any) -> str:
    return b.node("Det", b.of(x))


@form("euclid")
def _euclid(b: Builder, x: Any, y: Any, direct: bool) -> str:
    gap = b.node("Sub", b.node("Unsqueeze", b.of(x), b.ints([-2])), b.node("Unsqueeze", b.of(y), b.ints([-3])))
    return b.node("ReduceL2", gap, b.ints([-1]), keepdims=0)
