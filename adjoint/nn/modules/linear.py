"""Linear layers and embeddings."""

from __future__ import annotations

import math
from typing import Any

from ..._typing import Tensor
from ...autograd.grad_mode import no_grad
from ...ops.create import empty
from .. import functional as F
from .. import init
from ..parameter import Parameter, UninitializedParameter
from .lazy import LazyModuleMixin
from .module import Module

__all__ = ["Bilinear", "Embedding", "EmbeddingBag", "Identity", "LazyLinear", "Linear"]


class Identity(Module):
    """Return the input as it is: a placeholder for another layer. Arguments to its constructor are ignored.

    Shape
    -----
    Input: any. Output: the same tensor.

    Examples
    --------
    >>> model = adjoint.nn.Sequential(adjoint.nn.Linear(2, 3), adjoint.nn.Linear(3, 1))
    >>> model[1] = adjoint.nn.Identity()  # take the last layer out
    >>> model(adjoint.ones(2)).shape
    adjoint.Size([3])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """Return `input`."""
        return input


class Linear(Module):
    """Multiply by a matrix and add a bias: ``input @ weight.T + bias``.

    Both are initialized evenly between ``-1 / sqrt(in_features)`` and ``1 / sqrt(in_features)``.

    Parameters
    ----------
    in_features, out_features : int
        The size of the last dimension of input and output.
    bias : bool, default True
        Add a bias.
    device, dtype : optional
        Of the parameters, as for `tensor`.

    Shape
    -----
    Input: (..., in_features). Output: (..., out_features). The weight has the shape (out_features, in_features).

    Examples
    --------
    >>> layer = adjoint.nn.Linear(3, 2)
    >>> layer(adjoint.ones(5, 3)).shape
    adjoint.Size([5, 2])
    >>> layer.weight.shape, layer.bias.shape
    (adjoint.Size([2, 3]), adjoint.Size([2]))
    """

    __constants__ = ["in_features", "out_features"]
    in_features: int
    out_features: int
    weight: Tensor
    bias: Parameter

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(empty((out_features, in_features), device=device, dtype=dtype))
        offset = Parameter(empty(out_features, device=device, dtype=dtype)) if bias else None
        self.register_parameter("bias", offset)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sample weight and bias uniformly within ±1 / sqrt(in_features)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input @ weight.T + bias``."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """A `Linear` inside of attention, under the name that saved models know."""


class Bilinear(Module):
    """Multiply two inputs with a stack of matrices between them: ``input1 @ weight[k] @ input2 + bias[k]``.

    Parameters
    ----------
    in1_features : int
        The size of the first input.
    in2_features : int
        The size of the second input.
    out_features : int
        The size of the output.
    bias : bool, default True
        Add a bias.
    device : device, optional
        Of the parameters, as for `tensor`.
    dtype : dtype, optional
        Of the parameters, as for `tensor`.

    Shape
    -----
    Input: (..., in1_features) and (..., in2_features). Output: (..., out_features).

    Examples
    --------
    >>> layer = adjoint.nn.Bilinear(2, 3, 4)
    >>> layer(adjoint.ones(5, 2), adjoint.ones(5, 3)).shape
    adjoint.Size([5, 4])
    """

    __constants__ = ["in1_features", "in2_features", "out_features"]

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = Parameter(empty((out_features, in1_features, in2_features), device=device, dtype=dtype))
        offset = Parameter(empty(out_features, device=device, dtype=dtype)) if bias else None
        self.register_parameter("bias", offset)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sample weight and bias uniformly within ±1 / sqrt(in1_features)."""
        if self.in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got (in1_features={self.in1_features})")
        bound = 1 / math.sqrt(self.weight.size(1))
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """Return the bilinear form of both inputs."""
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class LazyLinear(LazyModuleMixin, Linear):
    """A `Linear` that learns `in_features` from its first input.

    Parameters
    ----------
    out_features : int
        The size of the output.
    bias : bool, default True
        Add a bias.
    device : device, optional
        Of the parameters, as for `tensor`.
    dtype : dtype, optional
        Of the parameters, as for `tensor`.

    Shape
    -----
    Input: (..., in_features). Output: (..., out_features).

    Examples
    --------
    >>> layer = adjoint.nn.LazyLinear(4)
    >>> layer(adjoint.ones(5, 3)).shape
    adjoint.Size([5, 4])
    >>> layer
    Linear(in_features=3, out_features=4, bias=True)
    """

    cls_to_become = Linear
    weight: Any  # an UninitializedParameter until the first input
    bias: Any

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(0, 0, False, device, dtype)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Initialise weight and bias, once their shapes are known."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Take the number of features from the first input."""
        if self.has_uninitialized_params():
            self.in_features = input.shape[-1]
            self.weight.materialize((self.out_features, self.in_features))
            if self.bias is not None:
                self.bias.materialize((self.out_features,))
            self.reset_parameters()
        elif self.in_features == 0:
            self.in_features = self.weight.shape[-1]


class _Table(Module):
    """Base of both embeddings: a weight whose padding row is zero."""

    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None
    max_norm: float | None
    norm_type: float
    scale_grad_by_freq: bool
    weight: Any

    def _set_padding(self, padding_idx: int | None, name: str) -> None:
        if padding_idx is not None:
            if not -self.num_embeddings <= padding_idx < self.num_embeddings:
                raise AssertionError(f"{name} must be within num_embeddings")
            padding_idx %= self.num_embeddings
        self.padding_idx = padding_idx

    def _set_weight(self, given: Tensor | None, freeze: bool, device: Any, dtype: Any) -> None:
        shape = (self.num_embeddings, self.embedding_dim)
        if given is None:
            self.weight = Parameter(empty(shape, device=device, dtype=dtype), requires_grad=not freeze)
            self.reset_parameters()
            return
        if tuple(given.shape) != shape:
            raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
        self.weight = Parameter(given, requires_grad=not freeze)

    def reset_parameters(self) -> None:
        """Initialise the table from a normal distribution; the padding row is zero."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self) -> None:
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)


def _check_table(embeddings: Tensor) -> tuple[int, int]:
    if embeddings.dim() != 2:
        raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
    rows, width = embeddings.shape
    return rows, width


class Embedding(_Table):
    """Look up vectors by index: ``output[i] = weight[input[i]]``.

    Parameters
    ----------
    num_embeddings : int
        How many vectors there are.
    embedding_dim : int
        The size of each.
    padding_idx : int, optional
        A number whose vector begins as zeros and gets no gradient.
    max_norm : float, optional
        Scale vectors that are looked up to at most this norm, in place.
    norm_type : float, default 2.0
        The p of the norm that `max_norm` bounds.
    scale_grad_by_freq : bool, default False
        Divide the gradient of each vector by how often its number occurs in the input.
    sparse : bool, default False
        Give the weight a sparse gradient.
    device, dtype : optional
        Of the weight, as for `tensor`.

    Raises
    ------
    IndexError
        When called with a number out of range.

    Shape
    -----
    Input: integers of any shape. Output: (..., embedding_dim). The weight has the shape (num_embeddings,
    embedding_dim).

    Examples
    --------
    >>> adjoint.nn.Embedding(10, 3)(adjoint.tensor([[1, 2], [3, 4]])).shape
    adjoint.Size([2, 2, 3])
    >>> table = adjoint.nn.Embedding.from_pretrained(adjoint.tensor([[0.0, 1.0], [2.0, 3.0]]))
    >>> table(adjoint.tensor([1, 0, 1]))
    tensor([[2., 3.],
            [0., 1.],
            [2., 3.]])
    """

    __constants__ = [
        "num_embeddings", "embedding_dim", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse",
    ]  # fmt: skip

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self._set_padding(padding_idx, "Padding_idx")
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        self._set_weight(_weight, _freeze, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        """Return the vectors of the indices in `input`."""
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )

    def extra_repr(self) -> str:
        """Return the sizes and the options."""
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq is not False:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        return text + (", sparse=True" if self.sparse is not False else "")

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Any:
        """Return a layer with the given table, not trained unless `freeze` is off."""
        rows, width = _check_table(embeddings)
        return cls(
            rows,
            width,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight=embeddings,
            _freeze=freeze,
        )


class EmbeddingBag(_Table):
    """Look up vectors by number, and take the sum, mean or maximum of each bag of them.

    Parameters
    ----------
    num_embeddings : int
        Number of rows of the table.
    embedding_dim : int
        Their size.
    max_norm : float, optional
        Rows of a larger norm are scaled down to it, in place.
    norm_type : float, default 2.0
        Which norm that is.
    scale_grad_by_freq : bool, default False
        Divide gradients by how often their row was looked up.
    mode : str, default "mean"
        "sum", "mean" or "max".
    sparse : bool, default False
        Make the gradient of the table sparse.
    include_last_offset : bool, default False
        Whether the last offset is the end of the last bag.
    padding_idx : int, optional
        A row that does not count and gets no gradient.
    device : device, optional
        Of the parameters, as for `tensor`.
    dtype : dtype, optional
        Of the parameters, as for `tensor`.

    Shape
    -----
    Input: (B, L) indices, or (N,) with offsets (B,). Output: (B, embedding_dim).

    Examples
    --------
    >>> layer = adjoint.nn.EmbeddingBag(10, 3, mode="sum")
    >>> layer(adjoint.tensor([[1, 2], [3, 4]])).shape
    adjoint.Size([2, 3])
    >>> layer(adjoint.tensor([1, 2, 3]), adjoint.tensor([0, 1])).shape
    adjoint.Size([2, 3])
    """

    __constants__ = [
        "num_embeddings", "embedding_dim", "max_norm", "norm_type", "scale_grad_by_freq", "mode", "sparse",
        "include_last_offset", "padding_idx",
    ]  # fmt: skip

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        self._set_padding(padding_idx, "padding_idx")
        self.mode, self.sparse, self.include_last_offset = mode, sparse, include_last_offset
        self._set_weight(_weight, False, device, dtype)

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        """Return one vector for each bag; `offsets` say where bags begin."""
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        """Return the sizes and the options."""
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq is not False:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        text += f", mode={self.mode!r}"
        return text + ("" if self.padding_idx is None else f", padding_idx={self.padding_idx}")

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """Return a layer with the given table, not trained unless `freeze` is off."""
        rows, width = _check_table(embeddings)
        bag = cls(
            rows,
            width,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            mode,
            sparse,
            _weight=embeddings,
            include_last_offset=include_last_offset,
            padding_idx=padding_idx,
        )
        bag.weight.requires_grad = not freeze
        return bag
