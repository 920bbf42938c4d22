"""Layers: text, state, first parameters, whole training runs, as torch has them."""

from __future__ import annotations

import inspect
import types
import warnings
from typing import Any

import numpy as np
import pytest

import adjoint
from tests.oracle import needs_torch, outcome, same, torch

# How layers are made: each is made in both with the same seed, and must show the same text, names and numbers.
MADE = """
Linear(3, 4)
Linear(3, 4, bias=False)
Bilinear(3, 4, 5)
Identity(3, a=4)
Conv1d(2, 4, 3)
Conv2d(2, 4, 3, stride=2, padding=1, dilation=(1, 2), groups=2, bias=False, padding_mode='reflect')
Conv2d(2, 4, 3, padding='same')
Conv3d(2, 4, (1, 2, 3))
ConvTranspose1d(2, 4, 3)
ConvTranspose2d(2, 4, 3, output_padding=1, stride=2)
ConvTranspose3d(2, 4, 3, groups=2)
MaxPool1d(2, ceil_mode=True, return_indices=True)
MaxPool2d(2)
MaxUnpool2d((2, 3), stride=1)
AvgPool1d(2)
AvgPool2d(2, ceil_mode=True, divisor_override=3)
AvgPool3d(2, 1, 1)
LPPool2d(2.0, 3)
LPPool3d(2, 3, stride=2)
AdaptiveAvgPool2d((None, 3))
AdaptiveMaxPool2d(3)
FractionalMaxPool2d(3, output_size=2)
ConstantPad1d(2, 3.5)
ZeroPad2d(1)
ReflectionPad2d((1, 2, 3, 4))
CircularPad3d(1)
BatchNorm1d(3, affine=False, track_running_stats=False, momentum=None)
BatchNorm2d(3, bias=False)
SyncBatchNorm(3)
InstanceNorm2d(3)
LayerNorm((3, 4))
LayerNorm(3, bias=False)
LayerNorm(3, elementwise_affine=False)
GroupNorm(2, 4)
RMSNorm((3, 4), eps=1e-3)
LocalResponseNorm(2)
CrossMapLRN2d(3)
Dropout()
Dropout2d(0.3, True)
AlphaDropout()
Embedding(3, 4)
Embedding(3, 4, padding_idx=-1, max_norm=1.0, norm_type=1.0, scale_grad_by_freq=True, sparse=True)
EmbeddingBag(3, 4, norm_type=1.0)
EmbeddingBag(3, 4, max_norm=1.0, mode='max', padding_idx=0, include_last_offset=True)
LSTM(3, 4)
LSTM(3, 4, 2, bias=False, batch_first=True, dropout=0.5, bidirectional=True, proj_size=2)
GRU(3, 4, bidirectional=True)
RNN(3, 4, nonlinearity='relu')
RNN(3, 4, 2, 'relu')
LSTMCell(3, 4)
RNNCell(3, 4, bias=False, nonlinearity='relu')
GRUCell(3, 4)
Upsample(2)
Upsample(scale_factor=(2, 3), mode='bilinear')
UpsamplingNearest2d(scale_factor=2)
UpsamplingBilinear2d(3)
PixelShuffle(2)
PixelUnshuffle(2)
Fold(2, 3)
Unfold((2, 3))
Flatten()
Unflatten(1, (2, 3))
ChannelShuffle(2)
CosineSimilarity()
PairwiseDistance()
AdaptiveLogSoftmaxWithLoss(16, 10, [2, 5], head_bias=True)
CrossEntropyLoss(T.ones(3))
BCEWithLogitsLoss(pos_weight=T.ones(2))
CTCLoss()
GaussianNLLLoss()
HuberLoss()
LinearCrossEntropyLoss(3, 4, out_features=(2,), bias=True)
KLDivLoss(reduction='batchmean')
L1Loss(size_average=False)
NLLLoss2d()
TransformerEncoderLayer(4, 2, 8)
TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 2, nn.LayerNorm(4))
TransformerDecoderLayer(4, 2, 8, bias=False)
Transformer(4, 2, 1, 1, 8)
MultiheadAttention(4, 2)
MultiheadAttention(4, 2, kdim=3, vdim=5, add_bias_kv=True)
ReLU(True)
Softmax2d()
Hardswish(True)
RReLU(inplace=True)
Threshold(0.1, 20)
Hardtanh(-2, 2)
ReLU6()
ELU(inplace=True)
GELU('tanh')
PReLU(3)
Softplus()
Softshrink()
Hardshrink()
GLU()
Softmax(1)
LazyLinear(3)
LazyConv2d(4, 3)
LazyConvTranspose1d(4, 3)
LazyBatchNorm1d()
LazyInstanceNorm2d()
Conv2d(3, 4, 3, groups=2)
Conv2d(4, 3, 3, groups=2)
Conv2d(4, 4, 3, groups=0)
Conv2d(2, 4, 3, padding='same', stride=2)
Conv2d(2, 4, 3, padding_mode='unknown')
ConvTranspose2d(2, 4, 3, padding_mode='reflect')
FractionalMaxPool2d(3)
FractionalMaxPool2d(3, 2, 0.5)
FractionalMaxPool2d(3, output_ratio=1.5)
GroupNorm(3, 4)
Dropout(1.5)
Embedding(3, 4, padding_idx=3)
Embedding(3, 4, _weight=T.ones(2, 2))
GRU(3, 4, proj_size=2)
RNN(3, 4, nonlinearity='unknown')
RNN(3, 4, unknown=1)
LSTM(3, 0)
LSTM(3, 4, 0)
LSTM(3, 4.0)
LSTM(3, 4, dropout=2)
LSTM(3, 4, proj_size=4)
Unflatten(1, 2)
AdaptiveLogSoftmaxWithLoss(4, 10, [5, 2])
TripletMarginLoss(margin=0)
TripletMarginWithDistanceLoss(margin=-1)
MultiMarginLoss(p=3)
MultiheadAttention(0, 2)
MultiheadAttention(5, 2)
Bilinear(0, 1, 1)
Hardtanh(2, 1)
Module(3)
Module(a=3)
""".strip().splitlines()


@needs_torch
@pytest.mark.parametrize("text", MADE)
def test_made_with_the_same_seed(text: str) -> None:
    def program(m: Any) -> Any:
        m.manual_seed(3)
        layer = eval(f"nn.{text}", {"nn": m.nn, "T": m})
        shown = [repr(layer), list(layer.state_dict())]
        if "Lazy" in text:
            return shown
        metadata = {k: dict(v) for k, v in layer.state_dict()._metadata.items()}
        return [*shown, metadata, dict(layer.state_dict()), m.rand(1)]

    same(program, 1e-6)


# Calls that torch refuses: the class of the error is compared, and the words before the first number.
REFUSED = [
    lambda m: m.nn.BatchNorm1d(3)(m.ones(2, 3, 4, 5)),
    lambda m: m.nn.BatchNorm2d(3)(m.ones(2, 3, 4)),
    lambda m: m.nn.InstanceNorm1d(3)(m.ones(2)),
    lambda m: m.nn.InstanceNorm2d(3, affine=True)(m.ones(2, 2, 2, 2)),
    lambda m: m.nn.ConvTranspose2d(3, 2, 3, stride=2)(m.ones(1, 3, 4, 4), output_size=(3, 3)),
    lambda m: m.nn.ConvTranspose2d(3, 2, 3, stride=2)(m.ones(1, 3, 4, 4), output_size=(3,)),
    lambda m: m.nn.LazyConv2d(3, 3)(m.ones(1)),
    lambda m: m.nn.CircularPad2d(1)(m.ones(2)),
    lambda m: m.nn.Softmax2d()(m.ones(2)),
    lambda m: m.nn.LSTM(3, 4)(m.ones(5, 2, 2)),
    lambda m: m.nn.LSTM(3, 4)(m.ones(5)),
    lambda m: m.nn.LSTM(3, 4)(m.ones(5, 2, 3), (m.ones(1, 3, 4), m.ones(1, 2, 4))),
    lambda m: m.nn.LSTM(3, 4)(m.ones(5, 2, 3), (m.ones(2, 4), m.ones(2, 4))),
    lambda m: m.nn.LSTM(3, 4)(m.ones(5, 3), (m.ones(1, 2, 4), m.ones(1, 2, 4))),
    lambda m: m.nn.LSTM(3, 4)(m.ones(5, 2, 3, dtype=m.float64)),
    lambda m: m.nn.GRU(3, 4)(m.ones(5, 2, 3), m.ones(1, 3, 4)),
    lambda m: m.nn.GRU(3, 4)(m.ones(5, 2, 3), m.ones(1, 4)),
    lambda m: m.nn.LSTMCell(3, 4)(m.ones(1, 1, 3)),
    lambda m: m.nn.LSTMCell(3, 4)(m.ones(2, 3), (m.ones(1, 1, 4), m.ones(2, 4))),
    lambda m: m.nn.LSTMCell(3, 4)(m.ones(2, 2)),
    lambda m: m.nn.LSTMCell(3, 4)(m.ones(3, 3), (m.ones(2, 4), m.ones(2, 4))),
    lambda m: m.nn.GRUCell(3, 4)(m.ones(1, 1, 3)),
    lambda m: m.nn.RNNCell(3, 4)(m.ones(2, 3), m.ones(1, 1, 4)),
    lambda m: m.nn.Embedding.from_pretrained(m.ones(2)),
    lambda m: m.nn.Linear(3, 4)(m.ones(2, 5)),
    lambda m: m.nn.ParameterList()(),
]


@needs_torch
@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_refused_calls(number: int) -> None:
    mine, theirs = outcome(REFUSED[number], adjoint), outcome(REFUSED[number], torch)
    assert mine[0] == theirs[0] == "error", f"adjoint: {mine}; torch: {theirs}"
    (kind, said), (expected, phrase) = mine[1], theirs[1]
    assert kind == expected
    assert said.replace("adjoint.", "torch.").startswith(phrase.partition(" (torch.")[0][:30]), f"{said!r}; {phrase!r}"


@needs_torch
def test_signatures() -> None:
    """Every layer is made and called with the arguments that torch's is."""

    def shape(f: Any) -> list[Any]:
        found = inspect.signature(f).parameters.values()
        return [(p.name, p.kind, None if callable(p.default) else p.default) for p in found]

    for name in dir(torch.nn):
        theirs, mine = getattr(torch.nn, name), getattr(adjoint.nn, name, None)
        if inspect.isclass(theirs) and issubclass(theirs, torch.nn.Module):
            assert mine is not None, name
            for method in ("__init__", "forward"):
                assert shape(getattr(mine, method)) == shape(getattr(theirs, method)), f"{name}.{method}"


@needs_torch
def test_all_names() -> None:
    quantized = {"intrinsic", "qat", "quantizable", "quantized"}
    for path in ("nn", "nn.init", "nn.modules", "nn.parallel", "nn.attention", "nn.grad"):
        theirs, mine = torch, adjoint
        for part in path.split("."):
            theirs, mine = getattr(theirs, part), getattr(mine, part)
        names = getattr(theirs, "__all__", None) or [n for n in dir(theirs) if not n.startswith("_")]
        names = [n for n in names if not isinstance(getattr(theirs, n), types.ModuleType) or path == "nn"]
        missing = {n for n in names if not hasattr(mine, n) and n not in quantized}
        later = {  # other helpers of torch's own, devices that adjoint does not drive, and other rooms
            "nn.init": {"FanMode", "NonlinearityType", "Tensor", "Literal", "TypeVar", "ParamSpec", "Callable"},
            "nn.attention": missing - {"SDPBackend", "sdpa_kernel"},
            "nn.grad": {"torch"},
            "nn.parallel": missing - {"DataParallel", "data_parallel"},
        }
        assert missing <= later.get(path, set()), path


# --- Whole programs ---------------------------------------------------------------------------------


def trained(m: Any, model: Any, inputs: Any, loss: Any, steps: int = 5) -> Any:
    losses = []
    for _ in range(steps):
        value = loss(model(inputs))
        model.zero_grad()
        value.backward()
        with m.no_grad():
            for p in model.parameters():
                if p.grad is not None:
                    p -= 0.1 * p.grad
        losses.append(value.item())
    model.eval()
    return losses, model(inputs), dict(model.state_dict())


def cnn(m: Any) -> Any:
    m.manual_seed(0)
    nn = m.nn
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.3),
        nn.Linear(36, 3),
    )  # fmt: skip
    inputs, target = m.randn(5, 1, 6, 6), m.tensor([0, 1, 2, 0, 1])
    return trained(m, model, inputs, lambda out: nn.CrossEntropyLoss(label_smoothing=0.1)(out, target))


def language(m: Any) -> Any:
    m.manual_seed(1)
    nn = m.nn

    class Model(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(7, 6)
            self.lstm = nn.LSTM(6, 5, num_layers=2, batch_first=True, bidirectional=True, dropout=0.2)
            self.head = nn.Linear(10, 7)

        def forward(self, x: Any) -> Any:
            return self.head(self.lstm(self.embed(x))[0])

    inputs = m.randint(0, 7, (3, 8))
    return trained(m, Model(), inputs, lambda out: nn.functional.cross_entropy(out.transpose(1, 2), inputs))


def transformer(m: Any) -> Any:
    m.manual_seed(2)
    nn = m.nn
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=True, activation="gelu")
    model = nn.Sequential(nn.Linear(4, 8), nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(8, 1))
    inputs = m.randn(3, 5, 4)
    return trained(m, model, inputs, lambda out: (out**2).mean())


@needs_torch
@pytest.mark.parametrize("program", [cnn, language, transformer], ids=lambda f: f.__name__)
def test_training_gives_torchs_numbers(program: Any) -> None:
    same(program, 2e-4)


@needs_torch
@pytest.mark.parametrize("name", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("reverse", [False, True])
def test_second_derivatives_of_recurrent_layers(name: str, reverse: bool) -> None:
    def program(m: Any) -> Any:
        m.manual_seed(0)
        layer = getattr(m.nn, name)(3, 4, bidirectional=reverse).double()
        x = m.randn(5, 2, 3, dtype=m.float64, requires_grad=True)
        out, state = layer(x)
        end = state[1] if name == "LSTM" else state
        (g,) = m.autograd.grad((out**2).sum() + end.sum(), x, create_graph=True)
        (g**2).sum().backward()
        return g, x.grad, [p.grad for p in layer.parameters()]

    same(program, 1e-8)


def attention(m: Any) -> Any:
    m.manual_seed(0)
    layer, x = m.nn.MultiheadAttention(8, 2, batch_first=True), m.randn(2, 5, 8)
    mask = m.nn.Transformer.generate_square_subsequent_mask(5)
    padding = m.tensor([[False] * 4 + [True], [False] * 5])
    return [
        layer(x, x, x, attn_mask=mask, average_attn_weights=False),
        layer(x, x, x, attn_mask=mask, is_causal=True, need_weights=False)[0],
        layer(x, x, x, key_padding_mask=padding),
    ]


def padded_encoder(m: Any) -> Any:
    m.manual_seed(0)
    net = m.nn.TransformerEncoder(m.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2).eval()
    x, padding = m.randn(2, 5, 8), m.tensor([[False] * 3 + [True] * 2, [False] * 5])
    with m.no_grad():
        without = net(x, src_key_padding_mask=padding), net(x)
    return net(x, src_key_padding_mask=padding), without


def moving_average(m: Any) -> Any:
    norm = m.nn.BatchNorm1d(3, momentum=None)
    for i in range(3):
        norm(m.arange(12.0).reshape(4, 3) * i)
    return norm.eval()(m.ones(2, 3)), dict(norm.state_dict())


def bags(m: Any) -> Any:
    m.manual_seed(0)
    layer = m.nn.EmbeddingBag(5, 3, mode="sum")
    out = layer(m.tensor([1, 2, 3, 4]), m.tensor([0, 2]))
    out.sum().backward()
    return out, layer.weight.grad, m.nn.Embedding.from_pretrained(m.ones(2, 2)).weight.requires_grad


def responses(m: Any) -> Any:
    x = m.arange(72.0).reshape(1, 6, 3, 4)
    return [m.nn.CrossMapLRN2d(size)(x) for size in (2, 3, 5)], m.nn.LocalResponseNorm(3)(x)


def unpooling(m: Any) -> Any:
    pooled, places = m.nn.MaxPool2d(2, return_indices=True)(m.arange(16.0).reshape(1, 1, 4, 4))
    return m.nn.MaxUnpool2d(2)(pooled, places)


def projected(m: Any) -> Any:
    m.manual_seed(0)
    out, (hidden, cell) = m.nn.LSTM(3, 4, proj_size=2, num_layers=2)(m.randn(5, 3))
    return out, hidden, cell


def whole_transformer(m: Any) -> Any:
    m.manual_seed(0)
    net = m.nn.Transformer(8, 2, 1, 1, 16, 0.0, batch_first=True)
    return net(m.randn(2, 4, 8), m.randn(2, 3, 8), tgt_mask=net.generate_square_subsequent_mask(3))


CALLED = [attention, padded_encoder, moving_average, bags, responses, unpooling, projected, whole_transformer]


@needs_torch
@pytest.mark.parametrize("program", CALLED, ids=lambda f: f.__name__)
def test_calls(program: Any) -> None:
    same(program, 1e-5)


TRANSFORMED: list[tuple[Any, tuple[int, ...]]] = [
    (lambda nn: nn.LSTM(3, 4, 2, bidirectional=True), (5, 2, 3)),
    (lambda nn: nn.GRU(3, 4), (5, 2, 3)),
    (lambda nn: nn.RNN(3, 4), (5, 2, 3)),
    (lambda nn: nn.GRUCell(3, 4), (2, 3)),
    (lambda nn: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0), (5, 2, 4)),
    (lambda nn: nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2)), (3, 1, 4, 4)),
]


@pytest.mark.parametrize("number", range(len(TRANSFORMED)))
def test_transforms_see_what_backward_sees(number: int) -> None:
    make, shape = TRANSFORMED[number]
    adjoint.manual_seed(0)
    layer, x = make(adjoint.nn).double(), adjoint.randn(shape, dtype=adjoint.float64)
    weights = {k: p.detach() for k, p in layer.named_parameters()}

    def loss(weights: Any, x: Any) -> Any:
        out = adjoint.func.functional_call(layer, weights, (x,))
        return (out[0] if isinstance(out, tuple) else out).pow(2).sum()

    loss(dict(layer.named_parameters()), x).backward()
    grads = adjoint.func.grad(loss)(weights, x)
    for name, p in layer.named_parameters():
        np.testing.assert_allclose(grads[name].tolist(), p.grad.tolist(), rtol=1e-8, atol=1e-9)
    tangents = {k: adjoint.randn_like(w) for k, w in weights.items()}
    _, change = adjoint.func.jvp(lambda w: loss(w, x), (weights,), (tangents,))
    assert change.item() == pytest.approx(sum((grads[k] * tangents[k]).sum().item() for k in grads), rel=1e-8)
    both = adjoint.stack([x, 2 * x])
    each = adjoint.func.vmap(adjoint.func.grad(loss), (None, 0))(weights, both)
    alone = adjoint.func.grad(loss)(weights, 2 * x)
    for name in alone:
        np.testing.assert_allclose(each[name][1].tolist(), alone[name].tolist(), rtol=1e-7, atol=1e-8)


def test_frozen_numbers() -> None:
    """A few of torch's numbers, for where torch is not installed."""
    adjoint.manual_seed(0)
    layer = adjoint.nn.Linear(2, 1)
    np.testing.assert_allclose(layer.weight.tolist(), [[-0.005293981172144413, 0.37932288646698]], rtol=1e-6)
    np.testing.assert_allclose(layer.bias.tolist(), [-0.5819807648658752], rtol=1e-6)


def test_lazy_modules_become_what_they_stand_for() -> None:
    net = adjoint.nn.Sequential(adjoint.nn.LazyConv2d(4, 3), adjoint.nn.LazyBatchNorm2d(), adjoint.nn.LazyLinear(2))
    assert adjoint.nn.parameter.is_lazy(net[0].weight)
    net.double()
    out = net(adjoint.ones(2, 3, 5, 5, dtype=adjoint.float64))
    assert out.shape == (2, 4, 3, 2)
    assert [type(m).__name__ for m in net] == ["Conv2d", "BatchNorm2d", "Linear"]
    assert net[0].weight.shape == (4, 3, 3, 3)
    assert net[1].running_mean.dtype == adjoint.float64
    fresh = adjoint.nn.Sequential(adjoint.nn.LazyConv2d(4, 3), adjoint.nn.LazyBatchNorm2d(), adjoint.nn.LazyLinear(2))
    fresh.double().load_state_dict(net.state_dict())
    assert (fresh[0].weight == net[0].weight).all()


def test_recurrent_layers_of_packed_sequences() -> None:
    pack = adjoint.nn.utils.rnn
    sequences = [adjoint.randn(n, 3) for n in (2, 4, 3)]
    gru = adjoint.nn.GRU(3, 5, bidirectional=True)
    out, state = gru(pack.pack_sequence(sequences, enforce_sorted=False))
    padded, lengths = pack.pad_packed_sequence(out)
    assert lengths.tolist() == [2, 4, 3]
    for i, sequence in enumerate(sequences):
        alone, end = gru(sequence)
        np.testing.assert_allclose(padded[: len(sequence), i].tolist(), alone.tolist(), atol=1e-6)
        np.testing.assert_allclose(state[:, i].tolist(), end.tolist(), atol=1e-6)


def test_adaptive_softmax_adds_up_to_one() -> None:
    adjoint.manual_seed(0)
    layer = adjoint.nn.AdaptiveLogSoftmaxWithLoss(32, 12, [3, 6])
    x, y = adjoint.randn(5, 32), adjoint.tensor([0, 3, 5, 7, 11])
    whole = layer.log_prob(x)
    np.testing.assert_allclose(whole.exp().sum(1).tolist(), [1.0] * 5, rtol=1e-5)
    out, loss = layer(x, y)
    np.testing.assert_allclose(out.tolist(), whole[range(5), y].tolist(), rtol=1e-5)
    assert loss.item() == pytest.approx(-out.mean().item())
    assert layer.predict(x).tolist() == whole.argmax(1).tolist()


@needs_torch
def test_adaptive_softmax() -> None:
    def program(m: Any) -> Any:
        m.manual_seed(0)
        layer = m.nn.AdaptiveLogSoftmaxWithLoss(16, 12, [3, 6])
        out, loss = layer(m.randn(5, 16), m.tensor([0, 3, 5, 7, 11]))
        loss.backward()
        return out, loss, [p.grad for p in layer.parameters()], layer.predict(m.randn(4, 16))

    same(program, 1e-5)


def test_sync_batchnorm_takes_the_place_of_batchnorm() -> None:
    nn = adjoint.nn
    net = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2))
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    assert type(converted[1]) is nn.SyncBatchNorm
    x = adjoint.randn(2, 1, 3, 3)
    assert converted(x).shape == (2, 2, 3, 3)


def test_data_parallel_is_the_module_on_one_device() -> None:
    layer = adjoint.nn.Linear(2, 3)
    wrapped = adjoint.nn.DataParallel(layer)
    x = adjoint.ones(1, 2)
    assert (wrapped(x) == layer(x)).all()
    assert list(wrapped.state_dict()) == ["module.weight", "module.bias"]


def test_a_warning_where_dropout_has_no_effect() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        adjoint.nn.LSTM(2, 3, dropout=0.5)
    assert "dropout option adds dropout after all but last recurrent layer" in str(caught[0].message)
