"""Sequences of different lengths in one batch: padded, and packed without the padding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._typing import Tensor
from ...core.dtypes import int64
from ...core.layout import contiguous_format
from ...core.nodes import wrap
from ...core.tensor import TensorBase
from ...ops.arguments import dim_in, require_all_tensors, require_bool, require_tensor
from ...ops.create import as_tensor
from ...ops.create_like import empty_like
from ...ops.join import stack
from ...ops.literals import scalar_of
from ...ops.packed import put_rows_p, rows_of, take_rows_p
from ...ops.signatures import checks

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence",
    "pad_sequence", "unpack_sequence", "unpad_sequence",
]  # fmt: skip


class _Fields(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


_Fields.__name__ = "PackedSequence_"


class PackedSequence(_Fields):
    """A batch of sequences without padding, time step by time step; recurrent layers take it as their input.

    `pack_padded_sequence` and `pack_sequence` make it, `pad_packed_sequence` and `unpack_sequence` undo that.

    Parameters
    ----------
    data : Tensor
        The elements of all sequences: those of the first time step, then those of the second, and so on.
    batch_sizes : Tensor
        How many sequences there are at each time step: integers, on the CPU.
    sorted_indices : Tensor, optional
        How the batch was reordered to let the longest come first.
    unsorted_indices : Tensor, optional
        How to undo that. Computed from `sorted_indices` if it is not given.

    Raises
    ------
    ValueError
        If `batch_sizes` is not on the CPU.

    Examples
    --------
    >>> packed = adjoint.nn.utils.rnn.pack_sequence([adjoint.tensor([1, 2, 3]), adjoint.tensor([4, 5])])
    >>> packed.data, packed.batch_sizes
    (tensor([1, 4, 2, 5, 3]), tensor([2, 2, 1]))
    """

    __slots__ = ()

    def __new__(
        cls, data: Tensor, batch_sizes: Any = None, sorted_indices: Any = None, unsorted_indices: Any = None
    ) -> PackedSequence:
        """Make one directly; programs use `pack_sequence` and `pack_padded_sequence`."""
        if batch_sizes is None:  # PackedSequence((data, batch_sizes)), an old form
            data, batch_sizes = data
        if batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be created manually. "
                "They should be instantiated by functions like pack_sequence and pack_padded_sequence in "
                "nn.utils.rnn."
            )
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def _with(self, data: Tensor, indices: Any) -> PackedSequence:
        return type(self)(data, self.batch_sizes, indices(self.sorted_indices), indices(self.unsorted_indices))

    def pin_memory(self) -> PackedSequence:
        """Return it in page-locked memory, as far as the tensors offer that."""
        return self._with(self.data.pin_memory(), lambda i: None if i is None else i.pin_memory())

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Return it with the data of another dtype or on another device; itself if nothing changes."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        options = {k: v for k, v in kwargs.items() if k in ("device", "non_blocking", "copy")}
        return self._with(
            data, lambda i: None if i is None else i.to(data.device, **{**options, "device": data.device})
        )

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Return it on a GPU."""
        device = args[0] if args else kwargs.pop("device", "cuda")
        return self.to(device, **kwargs)

    def cpu(self) -> PackedSequence:
        """Return it on the CPU."""
        return self.to("cpu")

    def _cast(self, name: str) -> PackedSequence:
        data = getattr(self.data, name)()
        return self if data is self.data else self._with(data, lambda i: i)

    def double(self) -> PackedSequence:
        """Return it with float64 data."""
        return self._cast("double")

    def float(self) -> PackedSequence:
        """Return it with float32 data."""
        return self._cast("float")

    def half(self) -> PackedSequence:
        """Return it with float16 data."""
        return self._cast("half")

    def long(self) -> PackedSequence:
        """Return it with int64 data."""
        return self._cast("long")

    def int(self) -> PackedSequence:
        """Return it with int32 data."""
        return self._cast("int")

    def short(self) -> PackedSequence:
        """Return it with int16 data."""
        return self._cast("short")

    def char(self) -> PackedSequence:
        """Return it with int8 data."""
        return self._cast("char")

    def byte(self) -> PackedSequence:
        """Return it with uint8 data."""
        return self._cast("byte")

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a GPU."""
        return bool(self.data.is_cuda)

    def is_pinned(self) -> bool:
        """Return whether the data is in page-locked memory."""
        return bool(self.data.is_pinned())


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Return the permutation that undoes `permutation`.

    Examples
    --------
    >>> adjoint.nn.utils.rnn.invert_permutation(adjoint.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    if permutation is None:
        return None
    out = empty_like(permutation)
    places = np.arange(permutation.numel())
    out.array[permutation.array] = places if type(out.array) is np.ndarray else out.array.__class__(places)
    return out


def _lengths_of(lengths: Any) -> Any:
    found = as_tensor(lengths, dtype=int64, device="cpu")
    if found.array.ndim != 1:
        raise RuntimeError(
            f"'lengths' argument should be a 1D CPU int64 tensor, but got {found.array.ndim}D cpu Long tensor"
        )
    return found


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack a padded batch of sequences by their lengths: the padding is left out.

    Parameters
    ----------
    input : Tensor
        (time, batch, ...), or (batch, time, ...) with `batch_first`.
    lengths : Tensor or list of int
        How long each sequence is; at least 1.
    batch_first : bool, default False
        Whether the batch comes before time in `input`.
    enforce_sorted : bool, default True
        Expect the longest sequence first. False sorts them.

    Returns
    -------
    PackedSequence
        With the elements of all sequences, time step by time step.

    Raises
    ------
    RuntimeError
        If a length is not positive, or lengths increase and `enforce_sorted` is set.

    Examples
    --------
    >>> padded = adjoint.tensor([[1, 2, 3], [4, 5, 0]])
    >>> packed = adjoint.nn.utils.rnn.pack_padded_sequence(padded, [3, 2], batch_first=True)
    >>> packed.data
    tensor([1, 4, 2, 5, 3])
    >>> packed.batch_sizes
    tensor([2, 2, 1])
    """
    require_tensor(input, "input", "pack_padded_sequence")
    lengths = _lengths_of(lengths)
    if input.array.size == 0:
        raise RuntimeError("Cannot pack empty tensors.")
    require_bool(batch_first, "batch_first", "pack_padded_sequence")
    dim_in(0 if batch_first else 1, input.array.ndim)
    if enforce_sorted:
        order = None
    else:
        lengths, order = lengths.sort(descending=True)
        order = order.to(input.device)
        input = input.index_select(0 if batch_first else 1, order)
    if batch_first:
        input = input.transpose(0, 1)
    sizes = _batch_sizes(lengths.cpu().numpy(), tuple(input.shape))
    rows = rows_of(sizes, input.shape[1])
    flat = input.reshape(-1, *input.shape[2:])
    return PackedSequence(take_rows_p(flat, rows), wrap(sizes), order, None)


def _batch_sizes(lengths: Any, shape: tuple[int, ...]) -> Any:
    """Return how many sequences reach each time step."""
    if lengths.ndim != 1 or lengths.size != shape[1]:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {lengths.size} (batch_size={shape[1]})"
        )
    if lengths.size == 0:
        raise RuntimeError("Cannot pack empty tensors.")
    if lengths.min() <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if (lengths[1:] > lengths[:-1]).any():
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if you "
            "do not need ONNX exportability."
        )
    if lengths[0] > shape[0]:
        raise RuntimeError(f"the longest of the lengths is {lengths[0]}, but the input has {shape[0]} time steps")
    return (lengths[None] > np.arange(int(lengths[0]))[:, None]).sum(axis=1).astype(np.int64)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """Return the padded batch that `pack_padded_sequence` had packed, and the lengths.

    Parameters
    ----------
    sequence : PackedSequence
        The packed batch.
    batch_first : bool, default False
        Put the batch before time in the result.
    padding_value : float, default 0.0
        What is put after the end of shorter sequences.
    total_length : int, optional
        Pad to this length. Defaults to that of the longest sequence.

    Returns
    -------
    tuple of Tensor
        The batch, (time, batch, ...) or with `batch_first` (batch, time, ...), and the lengths as integers, on the CPU;
        both in the order of before packing.

    Raises
    ------
    ValueError
        If `total_length` is less than the longest length.

    Examples
    --------
    >>> rnn = adjoint.nn.utils.rnn
    >>> packed = rnn.pack_sequence([adjoint.tensor([1, 2, 3]), adjoint.tensor([4, 5])])
    >>> rnn.pad_packed_sequence(packed, batch_first=True)
    (tensor([[1, 2, 3],
            [4, 5, 0]]), tensor([3, 2]))
    """
    data, sizes = sequence.data, sequence.batch_sizes.numpy()
    steps, width = len(sizes), int(sizes[0])
    if total_length is not None:
        if total_length < steps:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {steps}"
            )
        steps = total_length
    require_bool(batch_first, "batch_first", "pad_packed_sequence")
    if isinstance(scalar_of(padding_value, "padding_value", "pad_packed_sequence"), complex):
        raise RuntimeError(f"value cannot be converted to type float without overflow: {padding_value}")
    padded = put_rows_p(data, rows_of(sizes, width), steps * width, padding_value)
    padded = padded.reshape(steps, width, *data.shape[1:])
    lengths = wrap((sizes[None] > np.arange(width)[:, None]).sum(axis=1).astype(np.int64))
    if batch_first:
        padded = padded.transpose(0, 1)
    if sequence.unsorted_indices is not None:
        order = sequence.unsorted_indices
        return padded.index_select(0 if batch_first else 1, order), lengths[order.cpu()]
    return padded, lengths


@checks
def pad_sequence(
    sequences: Any, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Stack sequences of different lengths, padded to the longest.

    Parameters
    ----------
    sequences : iterable of Tensor
        Each (length, ...): all other dimensions agree.
    batch_first : bool, default False
        Put the batch before time in the result.
    padding_value : float, default 0.0
        What shorter sequences are filled up with.
    padding_side : {"right", "left"}, default "right"
        Where they are filled up.

    Returns
    -------
    Tensor
        (time, batch, ...), or (batch, time, ...) with `batch_first`.

    Raises
    ------
    RuntimeError
        If there are no sequences.

    Examples
    --------
    >>> sequences = [adjoint.tensor([1, 2]), adjoint.tensor([3])]
    >>> adjoint.nn.utils.rnn.pad_sequence(sequences, batch_first=True)
    tensor([[1, 2],
            [3, 0]])
    >>> adjoint.nn.utils.rnn.pad_sequence(sequences, batch_first=True, padding_value=-1, padding_side="left")
    tensor([[ 1,  2],
            [-1,  3]])
    """
    if isinstance(sequences, TensorBase):
        sequences = tuple(sequences)  # type: ignore[arg-type]
    elif not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    sequences = tuple(sequences)
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    require_all_tensors(sequences)
    require_bool(batch_first, "batch_first", "pad_sequence")
    if not all(s.array.ndim for s in sequences):
        raise RuntimeError("ArrayRef: invalid slice: a sequence is a tensor of at least one dimension, not a 0-d one")
    longest = max(s.shape[0] for s in sequences)
    left = padding_side == "left"
    return stack([_padded(s, longest, padding_value, left) for s in sequences], 0 if batch_first else 1)


def _padded(sequence: Tensor, length: int, value: float, left: bool) -> Tensor:
    own = sequence.shape[0]
    start = length - own if left else 0
    return put_rows_p(sequence, np.arange(start, start + own), length, value)


@checks
def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """Return the sequences of a padded batch, each cut to its length.

    Examples
    --------
    >>> padded = adjoint.tensor([[1, 2], [3, 0]])
    >>> adjoint.nn.utils.rnn.unpad_sequence(padded, adjoint.tensor([2, 1]), batch_first=True)
    [tensor([1, 2]), tensor([3])]
    """
    if lengths.is_complex():
        raise NotImplementedError(f"\"lt_cpu\" not implemented for '{lengths.dtype.title}': lengths are integers")
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    # Copies, as from indexing by a mask: writing into a sequence does not change the batch.
    rows = [row[: int(n)] for row, n in zip(padded_sequences, lengths, strict=True)]
    return [row.clone(memory_format=contiguous_format) for row in rows]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences of different lengths.

    Examples
    --------
    >>> adjoint.nn.utils.rnn.pack_sequence([adjoint.tensor([1, 2, 3]), adjoint.tensor([4, 5])]).batch_sizes
    tensor([2, 2, 1])
    """
    require_all_tensors(sequences)
    lengths = [s.size(0) for s in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Return the sequences that were packed.

    Examples
    --------
    >>> rnn = adjoint.nn.utils.rnn
    >>> rnn.unpack_sequence(rnn.pack_sequence([adjoint.tensor([1, 2]), adjoint.tensor([3])]))
    [tensor([1, 2]), tensor([3])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
