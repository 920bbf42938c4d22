"""Calls with a wrong argument raise PyTorch's class of error, in words that name the argument or the call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint.nn import functional as F
from adjoint.ops import signatures

X = adjoint.ones(2, 3)
W = adjoint.ones(2, requires_grad=True)
I, G = adjoint.ones(1, 1, 2, 2), adjoint.zeros(1, 1, 1, 2)
NAN = float("nan")

RNN = adjoint.nn.utils.rnn


def _optimizer(name: str, **options: Any) -> Any:
    return getattr(adjoint.optim, name)([adjoint.ones(2, requires_grad=True)], **options)


def _schedule(name: str, option: Any) -> Any:
    return getattr(adjoint.optim.lr_scheduler, name)(_optimizer("SGD"), option)


def _weight_norm(dim: Any) -> Any:
    return adjoint.nn.utils.parametrizations.weight_norm(adjoint.nn.Linear(3, 2), "weight", dim)


def _segments(count: Any) -> Any:
    layers = [adjoint.nn.Linear(3, 3), adjoint.nn.Linear(3, 3)]
    return adjoint.utils.checkpoint.checkpoint_sequential(layers, count, X, use_reentrant=False)


def _ctc(lengths: Any) -> Any:
    return F.ctc_loss(adjoint.zeros(3, 1, 2), adjoint.tensor([[1]]), lengths, [1])


REFUSED: list[tuple[str, Any, type[Exception], str]] = [
    ("sin of a list", lambda: adjoint.sin([1.0]), TypeError, r"argument 'input' .* must be Tensor, not list"),
    ("ndtr of None", lambda: adjoint.special.ndtr(None), TypeError, "must be Tensor, not NoneType"),
    ("digamma of a dict", lambda: adjoint.digamma({}), TypeError, "must be Tensor, not dict"),
    (
        "tril by 1.5",
        lambda: adjoint.tril(X, 1.5),
        TypeError,
        r"tril\(\): .* must be int, not float",
    ),
    ("tril as a method", lambda: X.tril(1.5), TypeError, "'diagonal' .* must be int, not float"),
    (
        "Linear of None",
        lambda: adjoint.nn.Linear(2, 3)(None),
        TypeError,
        r"linear\(\): .*, not NoneType",
    ),
    ("outer of None", lambda: adjoint.outer(None, X[0]), TypeError, r"outer\(\): argument 'input' .* not NoneType"),
    ("addmm of True", lambda: adjoint.addmm(X, True, X), TypeError, "must be Tensor, not bool"),
    ("cross_entropy of None", lambda: F.cross_entropy(None, None), TypeError, "must be Tensor, not NoneType"),
    ("mm of an array", lambda: adjoint.mm(np.ones((2, 2)), X), TypeError, "must be Tensor, not numpy.ndarray"),
    ("keepdim of amax", lambda: adjoint.amax(X, 0, keepdim=()), TypeError, "'keepdim' must be bool, not tuple"),
    ("keepdim is a tensor", lambda: adjoint.median(X, 0, keepdim=X), TypeError, "'keepdim' must be bool, not Tensor"),
    ("decimals", lambda: adjoint.round(X, decimals=True), TypeError, "'decimals' must be int, not bool"),
    ("kernel size", lambda: F.max_pool2d(X[None], X), TypeError, "'kernel_size' .* must be tuple of ints, not Tensor"),
    ("a norm's shape", lambda: F.rms_norm(X, 3), TypeError, "'normalized_shape' .* must be tuple of ints, not int"),
    ("too many for arange", lambda: adjoint.arange(0, 1, 1, 5), TypeError, r"arange\(\) takes 3 positional arguments"),
    ("an unknown keyword", lambda: X.clone().uniform_(nonsense=1), TypeError, "unexpected keyword argument 'nonsense'"),
    ("mul_ of nothing", lambda: X.clone().mul_(), TypeError, r"mul_\(\) missing 1 required positional argument"),
    ("logical_and_ of None", lambda: X.clone().logical_and_(None), TypeError, r"logical_and_\(\) missing"),
    ("tile of nothing", lambda: X.tile(), TypeError, r"tile\(\) missing 1 required positional argument: 'dims'"),
    ("compile of a number", lambda: adjoint.compile(5), AssertionError, "A callable function is expected"),
    ("a huge dim", lambda: X.transpose(2**70, 0), ValueError, "Overflow when unpacking long long"),
    ("a huge count", lambda: adjoint.diff(X, 2**70), ValueError, "Overflow when unpacking long long"),
    ("a float for dims", lambda: X.sum(1.5), TypeError, "must be tuple of ints, not float"),
    ("a bool for a size", lambda: X.reshape(True), TypeError, "must be tuple of ints, not bool"),
    ("a tensor for a size", lambda: X.new_zeros(X), TypeError, "must be tuple of ints"),
    ("keepdim of sum", lambda: X.sum(0, keepdim=[1]), TypeError, "'keepdim' must be bool, not list"),
    ("cat of a number", lambda: adjoint.cat(5), TypeError, "'tensors' .* must be tuple of Tensors, not int"),
    ("matmul by a scalar", lambda: adjoint.ones(2, 2, 2) @ adjoint.tensor(1.0), RuntimeError, "at least 1D"),
    ("elu of complex numbers", lambda: F.elu(X + 0j), NotImplementedError, "not implemented for 'ComplexFloat'"),
    ("erfcx of complex", lambda: adjoint.special.erfcx(X + 0j), NotImplementedError, "'ComplexFloat'"),
    (
        "create_graph",
        lambda: adjoint.autograd.grad(W.sum(), W, create_graph=1.5),
        TypeError,
        "interpreted as an integer",
    ),
    ("a reduction", lambda: F.mse_loss(X, X, reduction=[1]), ValueError, "is not a valid value for reduction"),
    ("masked_fill", lambda: X.masked_fill(X[:, :2] > 0, 0.0), RuntimeError, "must match the size of tensor"),
    ("reshape of a float", lambda: adjoint.reshape(1.5, (1,)), TypeError, "must be Tensor, not float"),
    ("hypot_ of a number", lambda: X.clone().hypot_(1.5), TypeError, r"hypot_\(\): argument 'other' .* not float"),
    ("logical_or_ of a number", lambda: X.clone().logical_or_(1), TypeError, "must be Tensor, not int"),
    ("nextafter_ of a number", lambda: X.clone().nextafter_(0), TypeError, "must be Tensor, not int"),
    ("topk of booleans", lambda: adjoint.topk(X > 0, 1), RuntimeError, "topk does not support bool dtypes"),
    ("fill_ of a number", lambda: adjoint.fill_(True, 0), TypeError, "'input' must be Tensor, not bool"),
    ("addcdiv_ of a number", lambda: X.clone().addcdiv_(0, X), TypeError, "'tensor1' .* must be Tensor, not int"),
    ("ge_ of a complex number", lambda: X.clone().ge_(1j), NotImplementedError, "ge_cpu"),
    ("round to decimals", lambda: adjoint.round(X.long(), decimals=1), NotImplementedError, "'Long'"),
    ("round_ to a fraction", lambda: X.clone().round_(decimals=1.5), TypeError, "'decimals' must be int, not float"),
    ("relu of complex", lambda: adjoint.relu(X + 0j), NotImplementedError, "not supported for complex types"),
    ("a loss of integers", lambda: F.multilabel_margin_loss(X.long(), X.long()), NotImplementedError, "'Long'"),
    ("a divergence of integers", lambda: F.kl_div(X.long(), X), RuntimeError, "Integral inputs not supported"),
    ("dropout of integers", lambda: F.dropout(X.long()), RuntimeError, "can't be cast to the desired output type Long"),
    ("accumulate", lambda: adjoint.index_put(X, (X[0].long(),), X, accumulate=99), TypeError, "'accumulate'"),
    ("beta is a tensor", lambda: adjoint.addmm(X, X, X.T, beta=X > 0), TypeError, "must be Number, not Tensor"),
    ("alpha is complex", lambda: adjoint.addmm(X, X, X.T, alpha=1j), RuntimeError, "without overflow"),
    ("no threshold", lambda: F.threshold(X, 1.0, None), TypeError, "'value' .* not NoneType"),
    ("a huge stride", lambda: F.unfold(X[None, None], 1, stride=2**70), TypeError, "Overflow when unpacking long long"),
    ("a huge padding", lambda: F.pad(X, (2**70, 1)), TypeError, "Overflow when unpacking long long"),
    ("a huge layer", lambda: adjoint.nn.LayerNorm(2**70), TypeError, "Overflow when unpacking long long"),
    ("a layer of True", lambda: adjoint.nn.LayerNorm(True), TypeError, "found element of type bool"),
    ("to of two places", lambda: adjoint.nn.Linear(1, 1).to("cpu", X), TypeError, r"got \(str, Tensor\)"),
    ("atleast_2d of a string", lambda: adjoint.atleast_2d("no"), TypeError, "expected a Tensor"),
    ("meshgrid of an array", lambda: adjoint.meshgrid(np.ones(3), [X]), TypeError, "expected Tensor as element 0"),
    ("a memory format", lambda: X.bool(memory_format={}), TypeError, "must be adjoint.memory_format, not dict"),
    ("a rounding mode", lambda: adjoint.div(X, X, rounding_mode=[1]), TypeError, "rounding_mode=list"),
    ("retain_graph", lambda: W.sum().backward(retain_graph="no"), TypeError, "interpreted as an integer"),
    ("scatter of a number", lambda: X.scatter_add(0, X.long(), 1.0), TypeError, "'src' .*must be Tensor"),
    ("narrow by True", lambda: X.narrow(0, True, 1), TypeError, "'start' must be int, not bool"),
    ("linear of a 0-d tensor", lambda: F.linear(X.sum(), X), RuntimeError, "at least 1D, but they are 0D and 2D"),
    ("grid_sampler's flag", lambda: adjoint.grid_sampler_2d(I, G, 0, 0, 99), TypeError, "'align_corners' .*be bool"),
    ("grid_sample's flag", lambda: F.grid_sample(I, G, align_corners={}), TypeError, "must be bool, not dict"),
    ("a sampler's mode", lambda: adjoint.grid_sampler_2d(I, G, -7, 0, True), TypeError, "'interpolation_mode' must be"),
    ("log_target", lambda: F.kl_div(X, X, log_target=1.5), TypeError, "'log_target' must be bool, not float"),
    ("cumsum_ by a dtype", lambda: X.clone().cumsum_(0, dtype=99), TypeError, "must be torch.dtype, not int"),
    ("cumsum_ of another", lambda: X.clone().cumsum_(0, dtype=adjoint.int64), RuntimeError, "Bad in-place call"),
    ("a layout", lambda: adjoint.normal(0.0, 1.0, (2,), layout="no"), TypeError, "must be torch.layout, not str"),
    ("sizes of a transform", lambda: adjoint.fft.fftn(X, s={}), TypeError, "'s' .*must be tuple of ints, not dict"),
    ("no values to search", lambda: adjoint.searchsorted(X[0], None), TypeError, "invalid combination"),
    ("a huge tensor", lambda: adjoint.cartesian_prod(2**70), TypeError, "expected Tensor as element 0"),
    ("a huge grid", lambda: adjoint.meshgrid([2**70]), TypeError, "expected Tensor as element 0"),
    ("addcdiv of a number", lambda: adjoint.addcdiv(X, X, 1.5), TypeError, "'tensor2' .*must be Tensor, not float"),
    ("clamp to complex", lambda: adjoint.clamp(X, 1j), NotImplementedError, "not supported for complex"),
    ("clamp to both kinds", lambda: adjoint.clamp(X, X, 0), TypeError, "invalid combination"),
    ("scatter of a list", lambda: X.scatter(0, X.long(), [1.0]), TypeError, "invalid combination"),
    ("scatter of 1j", lambda: X.scatter(0, X.long(), 1j), RuntimeError, "without overflow"),
    ("copy_ of a list", lambda: X.clone().copy_([1.0, 2.0, 3.0]), TypeError, "'other' .*must be Tensor, not list"),
    ("to by a flag", lambda: X.to("cpu", True), TypeError, "'dtype' .*must be torch.dtype, not bool"),
    ("a copy, or not", lambda: X.to("cpu", adjoint.int64, False, None), TypeError, "'copy' must be bool"),
    ("select by True", lambda: X.select(0, True), TypeError, "'index' must be int, not bool"),
    ("sections", lambda: X.tensor_split(True), TypeError, "'sections' must be int, not bool"),
    ("randint to True", lambda: adjoint.randint(True, (2,)), TypeError, "got bool"),
    ("a tolerance", lambda: adjoint.linalg.pinv(X, rtol=1j), TypeError, "a tolerance is complex"),
    ("a NaN tolerance", lambda: adjoint.allclose(X, X, rtol=NAN), RuntimeError, "rtol must be greater than or equal"),
    ("drop of NaN", lambda: F.dropout(X, NAN), RuntimeError, "between 0 and 1, but got nan"),
    ("eps of NaN", lambda: F.cosine_similarity(X, X, eps=NAN), RuntimeError, "eps must be non-negative"),
    ("one statistic", lambda: F.batch_norm(X, None, X[0]), ValueError, "must either both be None or neither"),
    ("a reduction's number", lambda: F.mse_loss(X, X, reduction=0), ValueError, "0 is not a valid value"),
    ("a squared error", lambda: F.mse_loss(X + 0j, X), NotImplementedError, "mse_cpu"),
    ("j0 of complex", lambda: adjoint.special.spherical_bessel_j0(X + 0j), NotImplementedError, "'ComplexFloat'"),
    ("unique of complex", lambda: adjoint.unique(X + 0j), NotImplementedError, "'ComplexFloat'"),
    ("a power of matrices", lambda: adjoint.matrix_power(X[:, :2], 2**70), ValueError, "unpacking long long"),
    ("ignored", lambda: F.nll_loss(X, X[:, 0].long(), ignore_index=1.5), TypeError, "must be int, not float"),
    ("padding_idx", lambda: F.embedding(X.long(), X, padding_idx=True), TypeError, "must be int, not bool"),
    ("a dict of indices", lambda: adjoint.index_put(X, {}, X), TypeError, "must be tuple of Tensors, not dict"),
    ("least squares", lambda: adjoint.linalg.lstsq(X, adjoint.ones(7, 3, 5)), RuntimeError, r"input.dim\(\) must be"),
    ("unpooling a number", lambda: F.max_unpool2d(X[0, 0], X.long(), 2), IndexError, "the input of max_unpool2d"),
    ("a mask of masked", lambda: adjoint.masked.norm(X, None), TypeError, "'ord' must be Number, not NoneType"),
    ("reshape to nothing", lambda: X.reshape(), TypeError, "missing 1 required positional argument"),
    ("linear by a 3-d weight", lambda: F.linear(X, X[None]), RuntimeError, "<= 2 dimensions, but self is 3D"),
    ("a huge index", lambda: X[2**70], ValueError, "Overflow when unpacking long long"),
    ("a huge range", lambda: adjoint.arange(2**63), RuntimeError, "without overflow"),
    ("a range beyond 64 bits", lambda: adjoint.arange(0, 2**64), OverflowError, "int too big to convert"),
    ("a step of NaN", lambda: adjoint.arange(0, 5, float("nan")), RuntimeError, "step must be nonzero"),
    ("a step of None", lambda: adjoint.arange(0, 5, None), TypeError, r"got \(int, int, NoneType\)"),
    ("bounds of randint", lambda: adjoint.randint(True, 5, (2,)), TypeError, "invalid combination"),
    ("a float for randint", lambda: adjoint.randint(0, adjoint.tensor(5.0), (2,)), TypeError, "invalid combination"),
    ("an equation", lambda: adjoint.einsum(2**70, X), TypeError, "'equation' .* must be str, not int"),
    ("a seed of letters", lambda: adjoint.manual_seed("no"), ValueError, "invalid literal"),
    ("a device's type", lambda: adjoint.device(99, 0), TypeError, "'type' .* must be str, not int"),
    ("a device's index", lambda: adjoint.device("cpu", X), TypeError, "'index' .* must be int, not Tensor"),
    ("a huge index of a device", lambda: adjoint.device("cpu", 2**70), ValueError, "Overflow when unpacking"),
    ("a huge device string", lambda: adjoint.device("cuda:99999999999"), RuntimeError, "Could not parse device index"),
    ("a flag of one float", lambda: W.sum().backward(retain_graph=X.sum()), TypeError, "only integer tensors of a si"),
    ("allow_unused", lambda: adjoint.autograd.grad(W.sum(), W, allow_unused="no"), TypeError, "as an integer"),
    ("gradcheck of None", lambda: adjoint.autograd.gradcheck(lambda x: x * x, None), ValueError, "at least one input"),
    (
        "gradcheck by a tensor",
        lambda: adjoint.autograd.gradcheck(lambda x: x * x, W.detach().double().requires_grad_(), eps=X),
        RuntimeError,
        "doesn't match the broadcast shape",
    ),
    ("chunks of NaN", lambda: adjoint.func.jacrev(lambda x: x, chunk_size=float("nan")), ValueError, "greater than 0"),
    (
        "a batch of meta tensors",
        lambda: adjoint.vmap(lambda x, y: x * y, (0, None))(adjoint.ones(2, 2, device="meta"), X[0]),
        RuntimeError,
        "must match the size",
    ),
    ("a schedule by a number", lambda: _schedule("MultiplicativeLR", 0.5), TypeError, "lr_lambda should be a function"),
    ("a mode of a schedule", lambda: _schedule("ReduceLROnPlateau", ["min"]), TypeError, "unhashable type"),
    (
        "a start of Adagrad",
        lambda: _optimizer("Adagrad", initial_accumulator_value=X[:1, 0]),
        TypeError,
        "must be Number",
    ),
    ("a norm's bound", lambda: adjoint.nn.utils.clip_grad_norm_([W], X), ValueError, "only one element tensors"),
    ("a norm's dim", lambda: _weight_norm(99), IndexError, "Dimension out of range"),
    ("a padding value", lambda: RNN.pad_sequence([X, X], padding_value=None), TypeError, "must be float, not NoneType"),
    ("packed scalars", lambda: RNN.pack_padded_sequence(X.sum(), [1]), IndexError, "Dimension out of range"),
    ("packed nothing", lambda: RNN.pack_padded_sequence(X[:0], [1]), RuntimeError, "Cannot pack empty tensors"),
    ("lengths", lambda: RNN.pack_padded_sequence(X, "no"), TypeError, "invalid data type 'str'"),
    ("a flag of padding", lambda: RNN.pad_packed_sequence(RNN.pack_sequence([X]), "no"), TypeError, "must be bool"),
    ("more segments", lambda: _segments(3), ValueError, "range.. arg 3 must not be zero"),
    ("a truncated normal", lambda: adjoint.nn.init.trunc_normal_(X, a=float("nan")), RuntimeError, "out of bounds"),
    ("a window of 0", lambda: adjoint.nn.FractionalMaxPool3d(0, 1), ValueError, "kernel_size must be greater than 0"),
    ("a size of Bilinear", lambda: adjoint.nn.Bilinear([1], 2, 3), TypeError, "must be tuple of ints"),
    ("the state of an LSTM", lambda: adjoint.nn.LSTM(3, 2)(X, [X]), IndexError, "must be two Tensors"),
    ("half a state", lambda: adjoint.nn.LSTMCell(3, 2)(X, (X,)), RuntimeError, "expects two hidden states"),
    ("a projection", lambda: adjoint.nn.LSTM(3, 2, proj_size=float("nan")), TypeError, "must be tuple of ints"),
    ("a norm of fewer dims", lambda: F.rms_norm(X[0], (5, 5)), ValueError, "must have at least 2 dimensions"),
    ("mse of complex numbers", lambda: F.mse_loss(X, X + 0j), NotImplementedError, "mse_cpu.*ComplexFloat"),
    ("glu of complex numbers", lambda: F.glu(X[:, :2] + 0j), NotImplementedError, "glu_cpu"),
    ("nll of integers", lambda: F.nll_loss(X.long(), X[:, 0].long()), NotImplementedError, "nll_loss_out_frame"),
    ("kl_div of True", lambda: F.kl_div(True, X), TypeError, "must be Tensor, not bool"),
    ("a bound of uniform_", lambda: X.clone().uniform_(adjoint.tensor([True])), TypeError, "must be float, not Tensor"),
    ("a bound of random_", lambda: X.clone().random_(True), TypeError, "must be int, not bool"),
    ("lengths of ctc_loss", lambda: _ctc({}), TypeError, "invalid combination of arguments"),
]


@pytest.mark.parametrize(("call", "error", "words"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_wrong_argument_is_named(call: Any, error: type[Exception], words: str) -> None:
    """The argument, what it must be and what it is are in the message."""
    with pytest.raises(error, match=words):
        call()


def test_numbers_of_numpy_and_tensors_of_one_element_are_numbers() -> None:
    """What PyTorch takes for an int is not refused."""
    one = adjoint.tensor(1)
    assert adjoint.tril(X, np.int64(1)).equal(adjoint.tril(X, one))
    assert adjoint.topk(X, one, dim=one).values.shape == (2, 1)


def test_numbers_may_be_tensors_without_dimensions() -> None:
    """Draws, windows and activations take them, as PyTorch does."""
    two = adjoint.tensor(2.0)
    assert adjoint.ones(3).cauchy_(two, two).shape == adjoint.ones(3).exponential_(two).shape == (3,)
    assert adjoint.signal.windows.kaiser(5, beta=two).equal(adjoint.signal.windows.kaiser(5, beta=2.0))
    assert F.softplus(X, two).equal(F.softplus(X, 2.0))
    assert adjoint.ones(2, device="meta").resize_(3, 3).shape == (3, 3)
    assert adjoint.index_put(X, (), X[0]).equal(X)


def test_what_is_unusual_and_right_is_taken() -> None:
    """Tensors of one element for numbers, a mean far away from the bounds, an integer tensor for a size."""
    init = adjoint.nn.init
    assert init.normal_(adjoint.ones(3), adjoint.tensor(1.0)).shape == (3,)
    with pytest.warns(UserWarning, match="mean is more than 2 std"):
        assert init.trunc_normal_(adjoint.ones(3), 1e20).tolist() == [2.0] * 3
        assert init.trunc_normal_(adjoint.ones(3), 0.0, -7.0).abs().max() <= 2
    assert adjoint.nn.Conv1d(1, 1, adjoint.tensor([2])).weight.shape == (1, 1, 2)
    assert adjoint.empty((2, adjoint.tensor([1]))).shape == (2, 1)
    packed = RNN.pack_padded_sequence(adjoint.ones(3, 2), adjoint.tensor([3.0, 2.0]))
    assert packed.batch_sizes.tolist() == [2, 2, 1]


def test_a_checked_function_keeps_its_signature_and_its_name() -> None:
    """`help`, `inspect.signature` and pickles know the function as it was written."""
    import inspect
    import pickle

    assert list(inspect.signature(adjoint.tril).parameters) == ["input", "diagonal", "out"]
    assert pickle.loads(pickle.dumps(adjoint.tril)) is adjoint.tril
    assert adjoint.tril.__name__ == "tril"


def test_random_wrong_arguments_have_pytorchs_class() -> None:
    """A slice of the gate: hardly any call is told otherwise than by PyTorch."""
    pytest.importorskip("torch")
    from gates import bad_input

    found = bad_input.run(120, seed=3, names="^[a-l]", most=80)
    bad = sum(found[verdict] for verdict in bad_input.BAD)
    assert bad <= 0.04 * found["calls"], dict(found)
    assert found["opaque"] == 0, dict(found)
    assert found["accepted"] == 0, dict(found)


def test_a_frame_has_the_parameters_of_its_function() -> None:
    """It is written at the first call: the text of each is Python, and passes what it is given."""
    for function, call in signatures._checked.items():
        text = signatures._Signature(function, function.__name__, False).written()
        assert text is None or compile(text, function.__name__, "exec"), function.__name__
        assert call.__wrapped__ is function  # type: ignore[attr-defined]
    for _ in range(2):  # the frame that writes, and the one that was written
        assert adjoint.nansum(X, dim=0, keepdim=True).shape == (1, 3)
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'target'"):
            F.huber_loss(X)  # type: ignore[call-arg]
