"""Sums of products over named dims: einsum, and tensordot as a case of it."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from .._typing import Out, Tensor, Value
from ..core.recorders import Primitive, nary
from ..core.tensor import TensorBase
from .arguments import dim_in, require_tensor
from .contraction import check_dtypes, matmul_p, mm_p
from .create import into
from .dimensions import permute_p
from .precision import autocasting
from .reduce import sum_p
from .shape import cast_p, expand_p, reshape_p

__all__ = ["einsum", "tensordot"]

# --- Two operands --------------------------------------------------------------------------------

Labels = tuple[int, ...]


def _contract(x: Any, y: Any, left: Labels, right: Labels, result: Labels) -> Any:
    """Return the sum over the labels missing in `result` of the products of `x` and `y`.

    Labels are distinct within an operand, and each stands in two of the three places at least.
    """
    both = [i for i in left if i in right]
    batch = [i for i in both if i in result]
    summed = [i for i in both if i not in result]
    mine = [i for i in left if i not in right]
    theirs = [i for i in right if i not in left]
    x = x.transpose([left.index(i) for i in (*batch, *mine, *summed)])
    y = y.transpose([right.index(i) for i in (*batch, *summed, *theirs)])
    b, m = len(batch), len(mine)
    lead, rows, columns = x.shape[:b], x.shape[b : b + m], y.shape[b + len(summed) :]
    if summed:
        inner = math.prod(x.shape[b + m :])
        x = x.reshape((*lead, math.prod(rows), inner))
        y = y.reshape((*lead, inner, math.prod(columns)))
        product: Any = (mm_p if b == 0 else matmul_p)(x, y)
        out = product.reshape((*lead, *rows, *columns))
    else:
        x = x.reshape((*lead, *rows, *(1,) * len(theirs)))
        y = y.reshape((*lead, *(1,) * m, *columns))
        out = x * y
    have = [*batch, *mine, *theirs]
    return out.transpose([have.index(i) for i in result])


contract_p: Primitive = nary(
    _contract,
    inputs=2,
    x=lambda g, y, left, right, result: contract_p(g, y, result, right, left),
    y=lambda g, x, left, right, result: contract_p(g, x, result, left, right),
    jvp="bilinear",
    batch=lambda x, y, left, right, result: _contract_batch(x, y, left, right, result),
    holomorphic=True,
    name="contract",
    node_name="BmmBackward0",
)


def _contract_batch(x: Value, y: Value, left: Labels, right: Labels, result: Labels) -> Value:
    fresh = min((-1, *left, *right)) - 1  # each batch around another has a label of its own
    return contract_p(*_same_batch(x, y), (fresh, *left), (fresh, *right), (fresh, *result))


def _same_batch(x: Value, y: Value) -> tuple[Any, Any]:
    """Return two batched values with batch axes of one size."""
    n = max(x.shape[0], y.shape[0]) if 0 not in (x.shape[0], y.shape[0]) else 0
    return _batch_of(x, n), _batch_of(y, n)


def _batch_of(x: Value, n: int) -> Value:
    return x if x.shape[0] == n else expand_p(x, (n, *x.shape[1:]))


def _presummed(x: Tensor, labels: Labels, others: Labels) -> tuple[Tensor, Labels]:
    """Return `x` summed over the dims that no other operand has."""
    alone = tuple(i for i, label in enumerate(labels) if label not in others)
    if not alone:
        return x, labels
    return sum_p(x, alone, False), tuple(label for label in labels if label in others)


def einsum(*args: Any) -> Tensor:
    """Sum products of operands over dimensions that are named by letters.

    A letter that occurs in two operands pairs their dimensions; a letter that the result does not have is summed
    over. ``"ij,jk->ik"`` is ``out[i, k] = sum over j of a[i, j] * b[j, k]``.

    Parameters
    ----------
    *args
        An equation and its operands, as in ``einsum("ij,jk->ik", a, b)``. The equation lists the letters of each
        operand's dimensions and, after ``->``, those of the result; ``...`` stands for dimensions that broadcast.
        Without ``->`` the result has the letters that occur once, in alphabetical order. Lists of numbers may stand in
        place of letters: ``einsum(a, [0, 1], b, [1, 2], [0, 2])``, where the last list is the result's.

    Returns
    -------
    Tensor
        A tensor with one dimension for each letter of the result.

    Examples
    --------
    >>> x = adjoint.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> adjoint.einsum("ij,jk->ik", x, x)
    tensor([[ 7., 10.],
            [15., 22.]])
    >>> adjoint.einsum("ii", x)
    tensor(5.)
    >>> adjoint.einsum("bi,bj->bij", x, x).shape
    adjoint.Size([2, 2, 2])
    """
    if args and isinstance(args[0], str):
        equation, *operands = args
        if len(operands) == 1 and isinstance(operands[0], list | tuple):
            operands = list(operands[0])
        labels, result = _parsed(equation, tuple([_rank(x) for x in operands]))
    elif args and not isinstance(args[0], TensorBase) and not hasattr(type(args[0]), "__torch_function__"):
        raise TypeError(f"einsum(): argument 'equation' (position 1) must be str, not {type(args[0]).__name__}")
    else:
        operands, inputs, output = _sublists(args)
        labels, result = _labelled(inputs, output, tuple([_rank(x) for x in operands]))
    sizes = _sizes(operands, labels)
    terms = []
    for x, ls in zip(operands, labels):
        x, ls = _diagonals(x, ls)
        terms.append(_without_ones(x, ls, sizes))
    return _contract_all(terms, result, sizes)


_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_DOTS = len(_LETTERS)  # labels from here on are the dims under an ellipsis, from the last one backwards


def _rank(x: Any) -> int:
    require_tensor(x, "operands", "einsum")
    return int(x.array.ndim)


def _sublists(args: tuple[Any, ...]) -> tuple[list[Any], list[list[Any]], list[Any] | None]:
    """Return operands, the numbers that follow each, and those of the result (None if not given)."""
    if not args:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one "
            "operand and its "
            "subscripts list"
        )
    count = len(args) // 2
    lists = [[_number_label(n) for n in args[2 * i + 1]] for i in range(count)]
    result = [_number_label(n) for n in args[-1]] if len(args) % 2 else None
    return list(args[: 2 * count : 2]), lists, result


@lru_cache(512)
def _parsed(equation: str, ranks: tuple[int, ...]) -> tuple[list[Labels], Labels]:
    """Return the labels of each operand's dims, and of the result's."""
    if not ranks:
        raise ValueError("einsum(): must specify at least one operand")
    left, arrow, right = equation.replace(" ", "").partition("->")
    parts = [_letter_labels(part, equation) for part in left.split(",")]
    if len(parts) != len(ranks):
        fewer = "fewer" if len(ranks) < len(parts) else "more"
        raise RuntimeError(f"einsum(): {fewer} operands were provided than specified in the equation {equation!r}")
    return _labelled(parts, _letter_labels(right, equation) if arrow else None, ranks)


def _labelled(inputs: list[list[Any]], output: list[Any] | None, ranks: tuple[int, ...]) -> tuple[list[Labels], Labels]:
    """Return subscripts with an ellipsis replaced by a label for each dim that it covers."""
    dots = max((rank - len(s) + 1 for rank, s in zip(ranks, inputs) if Ellipsis in s), default=0)
    labels = [_labels(i, rank, s, dots) for i, (rank, s) in enumerate(zip(ranks, inputs))]
    return labels, _result_labels(labels, output, dots)


def _number_label(n: Any) -> Any:
    if n is Ellipsis:
        return n
    if not 0 <= int(n) < 52:
        raise ValueError(f"einsum(): subscript {n} is not within the valid range [0, 52)")
    return int(n)


def _letter_labels(part: str, equation: str) -> list[Any]:
    labels: list[Any] = []
    i = 0
    while i < len(part):
        if part.startswith("...", i):
            if Ellipsis in labels:
                raise RuntimeError(
                    f"einsum(): found '...' in {equation!r} for an operand for which an ellipsis was already found"
                )
            labels.append(Ellipsis)
            i += 3
            continue
        if part[i] == ".":
            raise RuntimeError(f"einsum(): found '.' in {equation!r} that is not part of any ellipsis")
        if part[i] not in _LETTERS:
            raise RuntimeError(
                f"einsum(): invalid subscript given at index {equation.index(part[i])} in the equation "
                "string "
                f"{equation!r}, subscripts must be in [a-zA-Z]"
            )
        labels.append(_LETTERS.index(part[i]))
        i += 1
    return labels


def _labels(number: int, rank: int, subscripts: list[Any], dots: int) -> Labels:
    """Return one label per dim of an operand."""
    if Ellipsis not in subscripts:
        if len(subscripts) != rank:
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({len(subscripts)}) does not match "
                "the number "
                f"of dimensions ({rank}) for operand {number} and no ellipsis was given"
            )
        return tuple(subscripts)
    covered = rank - len(subscripts) + 1
    if covered < 0:
        raise RuntimeError(
            f"einsum(): the number of subscripts in the equation ({len(subscripts) - 1}) is more than "
            "the number of "
            f"dimensions ({rank}) for operand {number}"
        )
    at = subscripts.index(Ellipsis)
    return (*subscripts[:at], *(_DOTS + i for i in range(dots - covered, dots)), *subscripts[at + 1 :])


def _result_labels(labels: list[Labels], output: list[Any] | None, dots: int) -> Labels:
    every = [label for ls in labels for label in ls]
    under = tuple(_DOTS + i for i in range(dots))
    if output is None:
        return (*under, *sorted(label for label in set(every) if label < _DOTS and every.count(label) == 1))
    result: list[int] = []
    for label in output:
        if label is Ellipsis:
            result += under
            continue
        if label in result:
            raise RuntimeError(f"einsum(): output subscript {_LETTERS[label]} appears more than once in the output")
        if label not in every:
            raise RuntimeError(
                f"einsum(): output subscript {_LETTERS[label]} does not appear in the equation for any input operand"
            )
        result.append(label)
    return tuple(result)


def _sizes(operands: list[Any], labels: list[Labels]) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for number, (x, ls) in enumerate(zip(operands, labels)):
        mine: dict[int, int] = {}
        for label, n in zip(ls, x.array.shape):
            if mine.setdefault(label, n) != n:
                raise RuntimeError(
                    f"einsum(): subscript {_LETTERS[label]} is repeated for operand {number} but the "
                    "sizes don't "
                    f"match, {n} != {mine[label]}"
                )
            seen = sizes.setdefault(label, n)
            if seen == 1:
                sizes[label] = n
            elif n not in (1, seen):
                name = _LETTERS[label] if label < _DOTS else "..."
                raise RuntimeError(
                    f"einsum(): subscript {name} has size {n} for operand {number} which does not "
                    "broadcast with "
                    f"previously seen size {seen}"
                )
    return sizes


def _diagonals(x: Tensor, labels: Labels) -> tuple[Tensor, Labels]:
    """Return `x` with each repeated label's dims replaced by their diagonal."""
    while len(set(labels)) < len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        first = labels.index(twice)
        second = labels.index(twice, first + 1)
        x = x.diagonal(0, first, second)
        labels = (*(label for i, label in enumerate(labels) if i not in (first, second)), twice)
    return x, labels


def _without_ones(x: Tensor, labels: Labels, sizes: dict[int, int]) -> tuple[Tensor, Labels]:
    """Return `x` without the dims of size 1 that broadcast against other operands."""
    shape = x.array.shape
    kept = [i for i, label in enumerate(labels) if not (shape[i] == 1 and sizes[label] != 1)]
    if len(kept) == len(labels):
        return x, labels
    return reshape_p(x, tuple(shape[i] for i in kept)), tuple(labels[i] for i in kept)


def _contract_all(terms: list[tuple[Tensor, Labels]], result: Labels, sizes: dict[int, int]) -> Tensor:
    for i, (x, labels) in enumerate(terms):
        others = (*result, *(label for j, (_, ls) in enumerate(terms) if j != i for label in ls))
        terms[i] = _presummed(x, labels, others)
    if any(x.array.dtype == np.int64 for x, _ in terms):  # a sum of small integers is a large one
        terms[:] = [(x if x.array.dtype == np.int64 else cast_p(x, np.int64), labels) for x, labels in terms]
    for i, j in _path(terms, result, sizes):
        (y, right), (x, left) = terms.pop(j), terms.pop(i)
        later = {*result, *(label for _, ls in terms for label in ls)}
        if terms:
            both = (*left, *(label for label in right if label not in left))
            kept = tuple(label for label in both if label in later)
        else:
            kept = result
        check_dtypes(x.array, y.array)
        terms.append((contract_p(x, y, left, right, kept), kept))
    ((x, labels),) = terms
    if labels != result:
        x = permute_p(x, tuple(labels.index(label) for label in result))
    return x


def _path(terms: list[tuple[Any, Labels]], result: Labels, sizes: dict[int, int]) -> list[tuple[int, int]]:
    """Return which two terms to contract at each step; the product goes to the end of the list."""
    if len(terms) < 3:
        return [(0, 1)] * (len(terms) - 1)
    try:
        import opt_einsum
    except ImportError:
        return _greedy_path([set(labels) for _, labels in terms], set(result), sizes)
    found = opt_einsum.paths.greedy if len(terms) > 8 else opt_einsum.paths.optimal
    path = found([frozenset(labels) for _, labels in terms], frozenset(result), sizes)
    return [pair for step in path for pair in _pairs(tuple(sorted(step)))]


def _pairs(step: tuple[int, ...]) -> list[tuple[int, int]]:
    if len(step) < 2:
        return []
    if len(step) == 2:
        return [(step[0], step[1])]
    raise NotImplementedError(f"a contraction of {len(step)} operands at once")


def _greedy_path(terms: list[set[int]], result: set[int], sizes: dict[int, int]) -> list[tuple[int, int]]:
    """Return a path that at each step makes the smallest product compared with its factors."""

    def size(labels: set[int]) -> int:
        return math.prod(sizes[label] for label in labels)

    path = []
    terms = list(terms)
    while len(terms) > 1:
        best: Any = None
        for i in range(len(terms)):
            for j in range(i + 1, len(terms)):
                later = result.union(*(t for k, t in enumerate(terms) if k not in (i, j)))
                kept = (terms[i] | terms[j]) & later
                gain = size(kept) - size(terms[i]) - size(terms[j])
                if best is None or gain < best[0]:
                    best = (gain, i, j, kept)
        _, i, j, kept = best
        path.append((i, j))
        terms = [t for k, t in enumerate(terms) if k not in (i, j)] + [kept]
    return path


@autocasting
def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: Out = None) -> Tensor:
    """Sum products of `a` and `b` over pairs of dimensions.

    Parameters
    ----------
    a, b : Tensor
        Tensors of one dtype.
    dims : int or pair of lists of int, default 2
        A number n pairs the last n dimensions of `a` with the first n of `b`, in order. Two lists name the dimensions
        of `a` and those of `b` that they are paired with.
    out : Tensor, optional
        Tensor to write the result into.

    Returns
    -------
    Tensor
        The remaining dimensions of `a`, then those of `b`.

    Examples
    --------
    >>> a, b = adjoint.arange(6.0).reshape(2, 3), adjoint.ones(3, 4)
    >>> adjoint.tensordot(a, b, dims=1).shape
    adjoint.Size([2, 4])
    >>> adjoint.tensordot(a, a, dims=([0, 1], [0, 1]))
    tensor(55.)
    """
    require_tensor(a, "a", "tensordot")
    require_tensor(b, "b", "tensordot")
    rank_a, rank_b = a.array.ndim, b.array.ndim
    if isinstance(dims, TensorBase):
        if dims.array.ndim == 1 and dims.array.size > 1:
            raise TypeError("tensordot(): argument 'dims_self' (position 3) must be tuple of ints, not int")
        dims = dims.array.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(rank_a, rank_b):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        dims_a, dims_b = list(range(-dims, 0)), list(range(dims))
    else:
        if not isinstance(dims, tuple | list):
            raise RuntimeError(f"tensordot expects dims to be int or two lists of ints, but got dims={dims}")
        first, second = dims
        dims_a = [first] if isinstance(first, int) else list(first)
        dims_b = [second] if isinstance(second, int) else list(second)
    if len(dims_a) != len(dims_b):
        raise RuntimeError("both dimension lists should have same length")
    left, right = list(range(rank_a)), list(range(rank_a, rank_a + rank_b))
    for i, j in zip(dims_a, dims_b):
        m, n = a.array.shape[dim_in(i, rank_a)], b.array.shape[dim_in(j, rank_b)]
        if m != n and 1 in (m, n):  # size 1 broadcasts, so the other is summed by itself
            a = a.sum(i, True, dtype=a.dtype) if n == 1 else a
            b = b.sum(j, True, dtype=b.dtype) if m == 1 else b
        elif m != n:
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {m} in dim {i} and second has "
                f"size {n} "
                f"in dim {j}"
            )
        right[dim_in(j, rank_b)] = left[dim_in(i, rank_a)]
    result = tuple(i for i in left if i not in right) + tuple(i for i in right if i not in left)
    check_dtypes(a.array, b.array, "both inputs should have same dtype, but got {} and {}")
    return into(out, contract_p(a, b, tuple(left), tuple(right), result))
