"""Recurrent layers and cells."""

from __future__ import annotations

import math
import numbers
import warnings
from typing import Any

from ..._typing import Tensor
from ...core import modes
from ...ops import recurrent
from ...ops.create import empty, zeros
from .. import init
from ..parameter import Parameter
from ..utils.rnn import PackedSequence
from .module import Module

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
_FUNCTIONS = {
    "LSTM": recurrent.lstm, "GRU": recurrent.gru, "RNN_TANH": recurrent.rnn_tanh, "RNN_RELU": recurrent.rnn_relu,
}  # fmt: skip


def _apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    return tensor.index_select(dim, permutation)


def apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    """Return a tensor reordered along a dimension; `index_select` by an older name."""
    warnings.warn(
        "`apply_permutation` is deprecated, please use `tensor.index_select(dim, permutation)` instead",
        FutureWarning,
        stacklevel=2,
    )
    return _apply_permutation(tensor, permutation, dim)


# --- Layers over sequences --------------------------------------------------------------------------


class RNNBase(Module):
    """What `RNN`, `LSTM` and `GRU` have in common: the weights of each layer and direction. It has no `forward`.

    Layer k has the parameters `weight_ih_lk`, `weight_hh_lk`, `bias_ih_lk` and `bias_hh_lk`, with ``_reverse`` appended
    for the second direction. They are initialized evenly between ``-1 / sqrt(hidden_size)`` and
    ``1 / sqrt(hidden_size)``.

    Parameters
    ----------
    mode : {"LSTM", "GRU", "RNN_TANH", "RNN_RELU"}
        The kind of the layer.
    input_size : int
        The features of the input.
    hidden_size : int
        The features of the state.
    num_layers : int, default 1
        How many layers follow one another.
    bias : bool, default True
        Add biases.
    batch_first : bool, default False
        Put the batch before time in input and output.
    dropout : float, default 0.0
        The probability with which a layer's output is set to zero in training, except after the last.
    bidirectional : bool, default False
        Let a second direction go from the end to the start.
    proj_size : int, default 0
        Project the state of an LSTM to this size.
    device, dtype : optional
        Of the parameters, as for `tensor`.

    Raises
    ------
    ValueError
        If a size is not positive, `dropout` not between 0 and 1, or `mode` unknown.

    Examples
    --------
    >>> gru = adjoint.nn.GRU(3, 4)
    >>> isinstance(gru, adjoint.nn.RNNBase)
    True
    >>> {name: tuple(p.shape) for name, p in gru.named_parameters()}
    {'weight_ih_l0': (12, 3), 'weight_hh_l0': (12, 4), 'bias_ih_l0': (12,), 'bias_hh_l0': (12,)}
    """

    __constants__ = [
        "mode", "input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional",
        "proj_size",
    ]  # fmt: skip
    __jit_unused_properties__ = ["all_weights"]

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _check_sizes(mode, hidden_size, num_layers, dropout, proj_size)
        _check_kinds(bias=(bias, bool), batch_first=(batch_first, bool), input_size=(input_size, int))
        if input_size <= 0:
            raise ValueError("input_size must be greater than zero")
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size = bidirectional, proj_size
        gates = _GATES[mode] * hidden_size
        state = hidden_size if proj_size <= 0 else proj_size
        directions = 2 if bidirectional else 1
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            given = input_size if layer == 0 else state * directions
            shapes: dict[str, tuple[int, ...]] = {"weight_ih": (gates, given), "weight_hh": (gates, state)}
            if bias:
                shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}
            if proj_size:
                shapes["weight_hr"] = (proj_size, hidden_size)
            for direction in range(directions):
                suffix = f"_l{layer}" + ("_reverse" if direction else "")
                for name, shape in shapes.items():
                    setattr(self, name + suffix, Parameter(empty(shape, device=device, dtype=dtype)))
                self._all_weights.append([name + suffix for name in shapes])
        self._flat_weights_names = [name for names in self._all_weights for name in names]
        self.reset_parameters()

    @property
    def _flat_weights(self) -> list[Any]:
        given = self.__dict__.get("_given_weights")
        return [getattr(self, name, None) for name in self._flat_weights_names] if given is None else given

    @_flat_weights.setter
    def _flat_weights(self, weights: list[Any]) -> None:
        """Compute with these weights until one of the module's own is set anew; libraries that drop weights do so."""
        self.__dict__["_given_weights"] = list(weights)

    def __setattr__(self, name: str, value: Any) -> None:
        if "_given_weights" in self.__dict__ and name in self._flat_weights_names:
            del self.__dict__["_given_weights"]
        super().__setattr__(name, value)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        self.__dict__.pop("_given_weights", None)
        return super()._apply(fn, recurse)

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The weights of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self) -> None:
        """Do nothing: the weights need not be contiguous in memory here."""

    def reset_parameters(self) -> None:
        """Sample all weights uniformly within ±1 / sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Raise if the input's dtype, rank or last size is wrong."""
        weight = self.weight_ih_l0
        if input.dtype != weight.dtype and input.device.type not in modes.local.autocast_on:
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). Convert input: "
                f"input.to({weight.dtype}), or convert model: model.to({input.dtype})"
            )
        rank = 3 if batch_sizes is None else 2
        if input.dim() != rank:
            raise RuntimeError(f"input must have {rank} dimensions, got {input.dim()}")
        if input.size(-1) != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}"
            )

    def _expected_size(self, input: Tensor, batch_sizes: Tensor | None, width: int) -> tuple[int, int, int]:
        if batch_sizes is not None:
            batch = int(batch_sizes[0])
        else:
            batch = input.size(0) if self.batch_first else input.size(1)
        return self.num_layers * (2 if self.bidirectional else 1), batch, width

    def get_expected_hidden_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """Return the shape that the hidden state must have."""
        return self._expected_size(input, batch_sizes, self.proj_size if self.proj_size > 0 else self.hidden_size)

    def check_hidden_size(
        self, hx: Tensor, expected_hidden_size: tuple[int, ...], msg: str = "Expected hidden size {}, got {}"
    ) -> None:
        """Raise if a state has another shape."""
        if tuple(hx.shape) != tuple(expected_hidden_size):
            raise RuntimeError(msg.format(tuple(expected_hidden_size), list(hx.shape)))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raise if the shapes of input and state do not match."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """Return the state with the batch in another order."""
        return hx if permutation is None else _apply_permutation(hx, permutation)

    def extra_repr(self) -> str:
        """Return the sizes and the options."""
        text = f"{self.input_size}, {self.hidden_size}"
        if self.proj_size != 0:
            text += f", proj_size={self.proj_size}"
        if self.num_layers != 1:
            text += f", num_layers={self.num_layers}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if self.batch_first is not False:
            text += f", batch_first={self.batch_first}"
        if self.dropout != 0:
            text += f", dropout={self.dropout}"
        return text + (f", bidirectional={self.bidirectional}" if self.bidirectional is not False else "")

    # --- One call ---

    def _zero_state(self, input: Tensor, batch_sizes: Tensor | None) -> Any:
        shape = self.get_expected_hidden_size(input, batch_sizes)
        return zeros(shape, dtype=input.dtype, device=input.device)

    def _batched_state(self, hx: Any, batched: bool) -> Any:
        """Return the state with a batch dimension, or raise if it does not fit the input."""
        if hx.dim() != (3 if batched else 2):
            kind = "batched 3-D" if batched else "unbatched 2-D"
            need = "3-D" if batched else "2-D"
            raise RuntimeError(f"For {kind} input, hx should also be {need} but got {hx.dim()}-D tensor")
        return hx if batched else hx.unsqueeze(1)

    def _run(self, input: Tensor, hx: Any, batch_sizes: Tensor | None) -> tuple[Tensor, Any]:
        options = (self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        function = _FUNCTIONS[self.mode]
        if batch_sizes is None:
            out, *state = function(input, hx, self._flat_weights, *options, self.batch_first)
        else:
            out, *state = function(input, batch_sizes, hx, self._flat_weights, *options)
        return out, tuple(state) if len(state) > 1 else state[0]

    def _forward(self, input: Any, hx: Any) -> tuple[Any, Any]:
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        if input.dim() not in (2, 3):
            raise ValueError(f"{self._get_name()}: Expected input to be 2D or 3D, got {input.dim()}D instead")
        batched = input.dim() == 3
        batch_dim = 0 if self.batch_first else 1
        if not batched:
            input = input.unsqueeze(batch_dim)
        hx = self._zero_state(input, None) if hx is None else self._batched_state(hx, batched)
        self.check_forward_args(input, hx, None)
        out, state = self._run(input, hx, None)
        if batched:
            return out, state
        squeezed = tuple(s.squeeze(1) for s in state) if isinstance(state, tuple) else state.squeeze(1)
        return out.squeeze(batch_dim), squeezed

    def _forward_packed(self, packed: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        input, batch_sizes, order, back = packed
        # A given state is in the caller's order, the data in that of the packing.
        hx = self._zero_state(input, batch_sizes) if hx is None else self.permute_hidden(hx, order)
        self.check_forward_args(input, hx, batch_sizes)
        out, state = self._run(input, hx, batch_sizes)
        return PackedSequence(out, batch_sizes, order, back), self.permute_hidden(state, back)


def _check_kinds(**given: tuple[Any, type]) -> None:
    for name, (value, kind) in given.items():
        if not isinstance(value, kind):
            raise TypeError(f"{name} should be of type {kind.__name__}, got: {type(value).__name__}")


def _check_sizes(mode: str, hidden_size: Any, num_layers: int, dropout: Any, proj_size: int) -> None:
    if not isinstance(dropout, numbers.Number) or isinstance(dropout, bool) or not 0 <= dropout <= 1:  # type: ignore[operator]
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
        )
    if dropout > 0 and num_layers == 1:  # type: ignore[operator]
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers "
            f"greater than 1, but got dropout={dropout} and num_layers={num_layers}",
            stacklevel=4,
        )
    if not isinstance(hidden_size, int):
        raise TypeError(f"hidden_size should be of type int, got: {type(hidden_size).__name__}")
    if hidden_size <= 0:
        raise ValueError("hidden_size must be greater than zero")
    if num_layers <= 0:
        raise ValueError("num_layers must be greater than zero")
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if proj_size >= hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")
    if mode not in _GATES:
        raise ValueError(f"Unrecognized RNN mode: {mode}")


class RNN(RNNBase):
    """A recurrent layer: the state is the tanh, or relu, of what input and state before give.

    Examples
    --------
    >>> out, state = adjoint.nn.RNN(3, 4)(adjoint.ones(5, 2, 3))
    >>> out.shape, state.shape
    (adjoint.Size([5, 2, 4]), adjoint.Size([1, 2, 4]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if len(args) > 3:
            self.nonlinearity = args[3]
            args = args[:3] + args[4:]
        else:
            self.nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if self.nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{self.nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(f"RNN_{self.nonlinearity.upper()}", *args, **kwargs)

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """Return the outputs of all steps, and the last state."""
        return self._forward(input, hx)


class GRU(RNNBase):
    """A gated recurrent unit over sequences (Cho et al., 2014).

    At each step, with W and b for the input and U and c for the state: ``r = sigmoid(W_r x + b_r + U_r h + c_r)``,
    ``z = sigmoid(W_z x + b_z + U_z h + c_z)``, ``n = tanh(W_n x + b_n + r * (U_n h + c_n))``,
    ``h = (1 - z) * n + z * h``.

    Parameters
    ----------
    input_size : int
        The features of the input.
    hidden_size : int
        The features H of the state.
    num_layers : int, default 1
        How many layers follow one another.
    bias : bool, default True
        Add biases.
    batch_first : bool, default False
        Put the batch before time in input and output.
    dropout : float, default 0.0
        The probability with which a layer's output is set to zero in training, except after the last.
    bidirectional : bool, default False
        Let a second direction go from the end to the start.
    device, dtype : optional
        Of the parameters, as for `tensor`.

    Shape
    -----
    Input: (L, N, input_size), (N, L, input_size) with `batch_first`, (L, input_size), or a `PackedSequence`. State:
    (num_layers * directions, N, H), zeros if it is not given. Output: all states of the last layer, (L, N, directions *
    H), and the last state of every layer.

    Examples
    --------
    >>> gru = adjoint.nn.GRU(3, 4, num_layers=2, batch_first=True)
    >>> out, state = gru(adjoint.ones(2, 5, 3))
    >>> out.shape, state.shape
    (adjoint.Size([2, 5, 4]), adjoint.Size([2, 2, 4]))
    >>> adjoint.equal(out[:, -1], state[-1])
    True
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """Return the outputs of all steps, and the last state."""
        return self._forward(input, hx)


class LSTM(RNNBase):
    """Long short-term memory over sequences (Hochreiter and Schmidhuber, 1997).

    Examples
    --------
    >>> lstm = adjoint.nn.LSTM(3, 4, num_layers=2, batch_first=True)
    >>> out, (hidden, cell) = lstm(adjoint.ones(2, 5, 3))
    >>> out.shape, hidden.shape
    (adjoint.Size([2, 5, 4]), adjoint.Size([2, 2, 4]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """Return the shape that the cell state must have."""
        return self._expected_size(input, batch_sizes, self.hidden_size)

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raise if the shapes of input and states do not match."""
        self.check_input(input, batch_sizes)
        expected = self.get_expected_hidden_size(input, batch_sizes)
        self.check_hidden_size(hidden[0], expected, "Expected hidden[0] size {}, got {}")
        expected = self.get_expected_cell_size(input, batch_sizes)
        self.check_hidden_size(hidden[1], expected, "Expected hidden[1] size {}, got {}")

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """Return the states with the batch in another order."""
        return hx if permutation is None else tuple(_apply_permutation(h, permutation) for h in hx)

    def _zero_state(self, input: Tensor, batch_sizes: Tensor | None) -> Any:
        shape = self.get_expected_cell_size(input, batch_sizes)
        return super()._zero_state(input, batch_sizes), zeros(shape, dtype=input.dtype, device=input.device)

    def _batched_state(self, hx: Any, batched: bool) -> Any:
        try:
            hidden, cell = hx[0], hx[1]
        except (TypeError, IndexError) as error:
            raise type(error)(f"hx of an LSTM must be two Tensors (h_0, c_0), not {type(hx).__name__}") from None
        rank = 3 if batched else 2
        if hidden.dim() != rank or cell.dim() != rank:
            kind = "batched 3-D" if batched else "unbatched 2-D"
            raise RuntimeError(
                f"For {kind} input, hx and cx should also be {rank}-D but got ({hidden.dim()}-D, {cell.dim()}-D) "
                "tensors"
            )
        return (hidden, cell) if batched else (hidden.unsqueeze(1), cell.unsqueeze(1))

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """Return the outputs of all steps, and the last hidden and cell states."""
        return self._forward(input, hx)


# --- Cells ------------------------------------------------------------------------------------------


class RNNCellBase(Module):
    """Base of recurrent cells: the weights of one step."""

    __constants__ = ["input_size", "hidden_size", "bias"]
    weight_ih: Any
    weight_hh: Any
    bias_ih: Any
    bias_hh: Any

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(empty((rows, input_size), device=device, dtype=dtype))
        self.weight_hh = Parameter(empty((rows, hidden_size), device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(empty(rows, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sample all weights uniformly within ±1 / sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        """Return the sizes and the options."""
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        nonlinearity = getattr(self, "nonlinearity", "tanh")
        return text + ("" if nonlinearity == "tanh" else f", nonlinearity={nonlinearity}")

    def _check(self, tensor: Tensor, name: str) -> None:
        if tensor.dim() not in (1, 2):
            raise ValueError(f"{self._get_name()}: Expected {name} to be 1D or 2D, got {tensor.dim()}D instead")

    def _zero_state(self, input: Tensor) -> Tensor:
        return zeros((input.size(0), self.hidden_size), dtype=input.dtype, device=input.device)

    def _step(self, function: Any, input: Tensor, hx: Tensor | None) -> Tensor:
        self._check(input, "input")
        if hx is not None:
            self._check(hx, "hidden")
        batched = input.dim() == 2
        if not batched:
            input, hx = input.unsqueeze(0), None if hx is None else hx.unsqueeze(0)
        if hx is None:
            hx = self._zero_state(input)
        out = function(input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return out if batched else out.squeeze(0)


class RNNCell(RNNCellBase):
    """One step of a recurrent layer: ``tanh(W_ih @ x + b_ih + W_hh @ h + b_hh)``.

    Parameters
    ----------
    input_size : int
        The features of the input.
    hidden_size : int
        The features of the state.
    bias : bool, default True
        Add biases.
    nonlinearity : str, default "tanh"
        "tanh" or "relu".
    device : device, optional
        Of the parameters, as for `tensor`.
    dtype : dtype, optional
        Of the parameters, as for `tensor`.

    Shape
    -----
    Input: (N, input_size) or (input_size,), and the state (N, hidden_size), zeros by default. Output: the next state.

    Examples
    --------
    >>> cell = adjoint.nn.RNNCell(3, 4)
    >>> cell(adjoint.ones(2, 3), adjoint.zeros(2, 4)).shape
    adjoint.Size([2, 4])
    """

    __constants__ = ["input_size", "hidden_size", "bias", "nonlinearity"]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the next state."""
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        function = recurrent.rnn_tanh_cell if self.nonlinearity == "tanh" else recurrent.rnn_relu_cell
        return self._step(function, input, hx)


class GRUCell(RNNCellBase):
    """One step of a gated recurrent unit; the formula is that of `GRU`.

    Parameters
    ----------
    input_size : int
        The features of the input.
    hidden_size : int
        The features of the state.
    bias : bool, default True
        Add biases.
    device, dtype : optional
        Of the parameters, as for `tensor`.

    Shape
    -----
    Input: (N, input_size) or (input_size,). State: (N, hidden_size) or (hidden_size,), zeros if it is not given.
    Output: the next state.

    Examples
    --------
    >>> cell = adjoint.nn.GRUCell(3, 4)
    >>> state = adjoint.zeros(2, 4)
    >>> for x in adjoint.ones(5, 2, 3):
    ...     state = cell(x, state)
    >>> state.shape
    adjoint.Size([2, 4])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the next state."""
        return self._step(recurrent.gru_cell, input, hx)


class LSTMCell(RNNCellBase):
    """One step of long short-term memory.

    With W, b for the input and U, c for the state, the gates are ``i, f, g, o = W x + b + U h + c``. Then
    ``cell = sigmoid(f) * cell + sigmoid(i) * tanh(g)`` and ``h = sigmoid(o) * tanh(cell)``.

    Parameters
    ----------
    input_size : int
        The features of the input.
    hidden_size : int
        The features of the state.
    bias : bool, default True
        Add biases.
    device, dtype : optional
        Of the parameters, as for `tensor`.

    Shape
    -----
    Input: (N, input_size) or (input_size,). States: a tuple of hidden and cell state, each (N, hidden_size) or
    (hidden_size,), zeros if it is not given. Output: the next two.

    Examples
    --------
    >>> cell = adjoint.nn.LSTMCell(3, 4)
    >>> states = None
    >>> for x in adjoint.ones(5, 2, 3):
    ...     states = cell(x, states)
    >>> states[0].shape, states[1].shape
    (adjoint.Size([2, 4]), adjoint.Size([2, 4]))
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """Return the next hidden and cell states."""
        rank = len(input.array.shape)
        if rank not in (1, 2):
            self._check(input, "input")
        if hx is None:
            state = self._zero_state(input if rank == 2 else input.unsqueeze(0))
            hx = (state, state)
        else:
            for i, state in enumerate(hx):
                if len(state.array.shape) not in (1, 2):
                    self._check(state, f"hx[{i}]")
            if rank == 1:
                hx = (hx[0].unsqueeze(0), hx[1].unsqueeze(0))
        if rank == 2:
            return recurrent.lstm_cell(input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        hidden, cell = recurrent.lstm_cell(
            input.unsqueeze(0), hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        )
        return hidden.squeeze(0), cell.squeeze(0)
