"""NumPy's words for arguments: ``axis`` for ``dim``, ``keepdims`` for ``keepdim``, as torch understands them."""

from __future__ import annotations

import inspect
import operator
from typing import Any

import numpy as np
import pytest

import adjoint
from tests.oracle import needs_torch, torch

ROWS = [[3.0, 1.0, 2.0], [4.0, 6.0, 5.0]]


def _places(T: Any) -> Any:
    return T.tensor([[1, 0, 1]])


def _rows(T: Any) -> Any:
    return T.tensor([1, 0])


def _ones(T: Any) -> Any:
    return T.ones(2, 3)


# Names, and what they are called with beside `axis`; functions of the library make what must be one of its tensors.
TABLE: list[tuple[str, dict[str, Any]]] = [
    (
        """
        all amax amin aminmax any argmax argmin argsort count_nonzero cummax cummin cumprod cumsum diff
        fft.fft fft.fftn fft.fftshift fft.hfft fft.hfftn fft.ifft fft.ifftn fft.ifftshift fft.ihfft fft.ihfftn
        fft.irfft fft.irfftn fft.rfft fft.rfftn frobenius_norm gradient hash_tensor linalg.norm linalg.vector_norm
        log_softmax logcumsumexp logsumexp max mean median min mode nanmean nanmedian nansum prod softmax sort
        special.log_softmax special.logsumexp special.softmax squeeze squeeze_copy std std_mean sum unbind
        unbind_copy unsqueeze unsqueeze_copy var var_mean
        """,
        {},
    ),
    ("cat concat concatenate stack", {"tensors": lambda T: (_ones(T), _ones(T))}),
    ("trapezoid trapz cumulative_trapezoid", {"y": _ones}),
    ("chunk unsafe_chunk", {"chunks": 2}),
    ("topk kthvalue", {"k": 1}),
    ("quantile nanquantile", {"q": 0.5}),
    ("split_with_sizes unsafe_split_with_sizes", {"split_sizes": [1, 1]}),
    ("unsafe_split", {"split_size": 1}),
    ("select select_copy", {"index": 1}),
    ("narrow narrow_copy", {"start": 1, "length": 1}),
    ("gather", {"index": _places}),
    ("take_along_dim", {"indices": _places}),
    ("scatter scatter_add", {"index": _places, "src": _ones}),
    ("scatter_reduce", {"index": _places, "src": _ones, "reduce": "sum"}),
    ("index_select", {"index": _rows}),
    ("index_add index_copy", {"index": _rows, "source": _ones}),
    ("index_fill", {"index": _rows, "value": 7.0}),
    ("index_reduce", {"index": _rows, "source": _ones, "reduce": "prod"}),
    ("select_scatter", {"src": lambda T: T.ones(3), "index": 1}),
    ("slice_copy", {"start": 1}),
    ("slice_scatter", {"src": lambda T: T.ones(1, 3), "start": 1}),
    ("cross linalg.cross", {"other": lambda T: T.tensor([[0.0], [1.0], [2.0]])}),
    ("linalg.vecdot", {"x": _ones, "y": _ones}),
    ("cosine_similarity", {"x1": _ones, "x2": _ones}),
    ("norm_except_dim", {"v": _ones}),
    ("renorm", {"p": 2, "maxnorm": 1.0}),
    ("repeat_interleave", {"repeats": 2}),
    ("unflatten", {"sizes": (2, 1)}),
]
FUNCTIONS = {name: words for names, words in TABLE for name in names.split()}
KEPT = """
    all amax amin aminmax any argmax argmin frobenius_norm hash_tensor kthvalue linalg.norm linalg.vector_norm logsumexp
    max mean median min mode nanmean nanmedian nanquantile nansum prod quantile std std_mean sum var var_mean
""".split()
# Methods that change the tensor, called as their twins that do not.
CHANGING = """
    cumprod_ cumsum_ index_add_ index_copy_ index_fill_ index_reduce_ renorm_ scatter_ scatter_add_ scatter_reduce_
    squeeze_ unsqueeze_
""".split()
# Functions that torch writes in Python, and which therefore know the one word only.
ONE_WORD = {
    "Tensor.norm", "Tensor.split", "Tensor.unique", "Tensor.unique_consecutive", "norm", "split", "unique",
    "unique_consecutive",
}  # fmt: skip


_QUIET = pytest.mark.filterwarnings("ignore:at..frobenius_norm is deprecated", "ignore:index_reduce.. is in beta")


def _input(T: Any, name: str) -> Any:
    x = T.tensor(ROWS)
    return x.reshape(3, 2) if name.endswith("cross") else x


def _called(T: Any, name: str, words: dict[str, Any], method: bool = False) -> Any:
    """Return what ``T.name`` gives when called with these words."""
    rest = {key: value(T) if callable(value) else value for key, value in words.items()}
    if method:
        return getattr(_input(T, name), name)(**rest)
    function = operator.attrgetter(name)(T)
    return function(**rest) if {"tensors", "x", "x1", "y", "v"} & set(rest) else function(_input(T, name), **rest)


def _arrays(value: Any) -> list[np.ndarray]:
    parts = value if isinstance(value, tuple | list) else (value,)
    return [part.detach().resolve_conj().numpy() for part in parts]


def _same(found: Any, wanted: Any) -> None:
    for f, w in zip(_arrays(found), _arrays(wanted), strict=True):
        assert f.shape == w.shape
        np.testing.assert_allclose(f, w, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_axis_is_dim(name: str) -> None:
    rest = FUNCTIONS[name]
    _same(_called(adjoint, name, {**rest, "axis": 0}), _called(adjoint, name, {**rest, "dim": 0}))


@pytest.mark.parametrize("name", ["fft2", "hfft2", "ifft2", "ihfft2", "irfft2", "rfft2"])
def test_axes_of_two_are_a_dim_too(name: str) -> None:
    x = adjoint.tensor(ROWS)
    _same(getattr(adjoint.fft, name)(x, axis=(1, 0)), getattr(adjoint.fft, name)(x, dim=(1, 0)))


@needs_torch
@_QUIET
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_agree_with_torch(name: str) -> None:
    words = {**FUNCTIONS[name], "axis": 0}
    _same(_called(adjoint, name, words), _called(torch, name, words))


@needs_torch
@pytest.mark.parametrize("name", [n for n in FUNCTIONS if hasattr(adjoint.Tensor, n)])
def test_methods_agree_with_torch(name: str) -> None:
    words = {**FUNCTIONS[name], "axis": 0}
    if name == "unflatten":
        words = {"dim": 0, "sizes": (2, 1)}  # torch's method is written in Python
    _same(_called(adjoint, name, words, method=True), _called(torch, name, words, method=True))


@needs_torch
@pytest.mark.parametrize("name", CHANGING)
def test_changing_methods_agree_with_torch(name: str) -> None:
    words = {**FUNCTIONS[name.removesuffix("_")], "axis": 0}
    _same(_called(adjoint, name, words, method=True), _called(torch, name, words, method=True))


@needs_torch
@_QUIET
@pytest.mark.parametrize("name", KEPT)
def test_keepdims_is_keepdim(name: str) -> None:
    rest = FUNCTIONS[name]
    found = _called(adjoint, name, {**rest, "axis": 1, "keepdims": True})
    _same(found, _called(adjoint, name, {**rest, "dim": 1, "keepdim": True}))
    _same(found, _called(torch, name, {**rest, "axis": 1, "keepdims": True}))


@needs_torch
def test_matrices_distances_and_pieces() -> None:
    for T in (adjoint, torch):
        x = T.tensor(ROWS)
        assert [len(piece) for piece in T.tensor_split(x, 2, axis=0)] == [1, 1]
        assert T.linalg.matrix_norm(x, axis=(1, 0), keepdims=True).shape == (1, 1)
        assert T.nn.functional.pairwise_distance(x, x, keepdims=True).shape == (2, 1)


@needs_torch
@pytest.mark.parametrize("name", ["cumsum", "gather", "max", "mean", "select", "sort", "squeeze", "sum", "topk"])
def test_both_words_at_once_are_refused(name: str) -> None:
    words = {**FUNCTIONS[name], "axis": 1, "dim": 0}
    for T in (adjoint, torch):
        with pytest.raises(TypeError):
            _called(T, name, words)


@pytest.mark.parametrize("name", ["squeeze", "unsqueeze", "cumsum", "select", "narrow", "gather", "sort"])
def test_axis_is_no_further_place(name: str) -> None:
    words = [value(adjoint) if callable(value) else value for value in FUNCTIONS[name].values()]
    with pytest.raises(TypeError):
        getattr(adjoint.tensor(ROWS), name)(0, *words, *[False] * (2 if name == "sort" else 0), 0)


REQUIRED = """
    cummax cummin cumprod cumsum gather index_add index_copy index_fill index_reduce index_select log_softmax
    logcumsumexp logsumexp narrow narrow_copy renorm scatter scatter_add scatter_reduce select select_scatter softmax
    unflatten unsqueeze
""".split()


@needs_torch
@pytest.mark.parametrize("name", REQUIRED)
def test_what_is_left_out_is_named_or_refused(name: str) -> None:
    words = {**FUNCTIONS[name], "axis": 0}
    for left in words:
        rest = {key: value for key, value in words.items() if key != left}
        for T in (adjoint, torch):
            with pytest.raises(TypeError):
                _called(T, name, rest)


def test_a_function_that_knows_dim_knows_axis() -> None:
    """Every public function, so that a new one is not forgotten."""
    rooms = {"": adjoint, "Tensor.": adjoint.Tensor, "linalg.": adjoint.linalg, "fft.": adjoint.fft}
    lacking = set()
    for prefix, room in rooms.items():
        for name in dir(room):
            function = getattr(room, name, None)
            if name.startswith("_") or not (inspect.isroutine(function) or hasattr(function, "__wrapped__")):
                continue
            words = inspect.signature(function).parameters
            for word, synonym in (("dim", "axis"), ("keepdim", "keepdims")):
                if word in words and synonym not in words:
                    lacking.add(prefix + name)
    assert lacking == ONE_WORD
