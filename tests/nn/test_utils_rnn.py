"""Packed and padded sequences against torch: values, gradients, orders, refusals."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint
import adjoint.nn.utils.rnn
from tests.oracle import needs_torch, same


def sequences(m: Any, lengths: tuple[int, ...], width: int = 3) -> list[Any]:
    total = sum(lengths) * width
    values = m.arange(total, dtype=m.float64).reshape(-1, width) + 1
    return list(values.split(list(lengths)))


@needs_torch
@pytest.mark.parametrize("lengths", [(4, 2, 1), (1,), (3, 3), (2, 4, 1)])
@pytest.mark.parametrize("batch_first", [False, True])
def test_pack_and_pad(lengths: tuple[int, ...], batch_first: bool) -> None:
    def program(m: Any) -> Any:
        rnn = m.nn.utils.rnn
        parts = [s.requires_grad_() for s in sequences(m, lengths)]
        padded = rnn.pad_sequence(parts, batch_first, -1.0)
        packed = rnn.pack_padded_sequence(padded, m.tensor(lengths), batch_first, enforce_sorted=False)
        again, found = rnn.pad_packed_sequence(packed, batch_first, padding_value=7.0, total_length=6)
        grads = m.autograd.grad((again**2).sum(), parts)
        unpacked = rnn.unpack_sequence(packed)
        return [padded, packed.data, packed.batch_sizes, packed.sorted_indices, again, found, grads, unpacked,
                packed.unsorted_indices, repr(packed), packed.double().data is packed.data]  # fmt: skip

    same(program)


@needs_torch
def test_second_order_and_left_padding() -> None:
    def program(m: Any) -> Any:
        rnn = m.nn.utils.rnn
        parts = [s.requires_grad_() for s in sequences(m, (3, 1))]
        packed = rnn.pack_sequence(parts)
        (g,) = m.autograd.grad((packed.data**3).sum(), parts[:1], create_graph=True)
        return [rnn.pad_sequence(parts, padding_side="left"), m.autograd.grad(g.sum(), parts[0]), packed.float().data]

    same(program)


@needs_torch
@pytest.mark.parametrize(
    "program",
    [
        lambda m: m.nn.utils.rnn.pack_sequence(sequences(m, (2, 4))),
        lambda m: m.nn.utils.rnn.pack_padded_sequence(m.ones(3, 2), [3, 0]),
        lambda m: m.nn.utils.rnn.pack_padded_sequence(m.ones(3, 2), [3]),
        lambda m: m.nn.utils.rnn.pad_packed_sequence(m.nn.utils.rnn.pack_sequence([m.ones(4)]), total_length=2),
        lambda m: m.nn.utils.rnn.pad_sequence(sequences(m, (4, 2)), padding_side="up"),
        lambda m: m.nn.utils.rnn.pad_sequence(3),
        lambda m: m.nn.utils.rnn.pad_sequence([]),
        lambda m: m.nn.utils.rnn.invert_permutation(None) is None,
        lambda m: m.nn.utils.rnn.invert_permutation(m.tensor([2, 0, 1])),
        lambda m: m.nn.utils.rnn.PackedSequence(m.ones(5, 2), m.tensor([3, 2])),
    ],
)  # fmt: skip
def test_refusals_and_small_things(program: Any) -> None:
    same(program)


def test_round_trip() -> None:
    rnn = adjoint.nn.utils.rnn
    parts = sequences(adjoint, (2, 5, 3))
    for mine, given in zip(rnn.unpack_sequence(rnn.pack_sequence(parts, enforce_sorted=False)), parts, strict=True):
        assert mine.equal(given)
