"""Modules as ONNX models: outputs by onnxruntime, names, dynamic axes, files, and what is refused."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint import nn
from adjoint.export import Dim
from adjoint.tree import tree_leaves

onnx = pytest.importorskip("onnx", reason="the onnx package is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
from adjoint.onnx import OnnxExporterError, TrainingMode, export, is_in_onnx_export  # noqa: E402


def run(path: Any, *inputs: Any) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    return session.run(None, dict(zip(names, (np.asarray(i) for i in inputs), strict=True)))


def check(model: Any, path: Path, *calls: tuple[Any, ...], **options: Any) -> Any:
    """Export a model by its first call, and compare all of them with eager."""
    program = export(model, calls[0], path, **options)
    for call in calls:
        with adjoint.no_grad():
            expected = [v.numpy() for v in tree_leaves(model(*call))]
        for found, wanted in zip(run(path, *(v.numpy() for v in call)), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    return program


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2))
        self.head = nn.Linear(4 * 4 * 4, 3)

    def forward(self, image: Any) -> Any:
        return self.head(self.body(image).flatten(1))


def test_a_network_keeps_its_names_and_takes_any_batch(tmp_path: Path) -> None:
    model = Net()
    model(adjoint.randn(4, 1, 8, 8))  # running statistics other than those of a new module
    was = model.training
    calls = [(adjoint.randn(n, 1, 8, 8),) for n in (2, 1, 7)]
    path = tmp_path / "net.onnx"
    program = export(model, calls[0], path, dynamic_axes={"image": {0: "batch"}}, output_names=["scores"])
    assert model.training is was
    check(model.eval(), path, *calls, dynamic_axes={"image": [0]}, output_names=["scores"])
    assert program.input_names == ["image"] and program.output_names == ["scores"]
    assert {"body.0.weight", "body.1.running_mean", "head.weight", "head.bias"} <= set(program.weights)
    kinds = {node.op_type: node.name for node in program.model_proto.graph.node}
    assert kinds["Conv"] == "/body/0/Conv" and kinds["Gemm"] == "/head/Gemm"
    assert kinds["BatchNormalization"] == "/body/1/BatchNormalization"
    proto = onnx.load(str(path))
    assert [d.dim_param or d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim] == [
        "image_dynamic_axes_0", 1, 8, 8,
    ]  # fmt: skip
    onnx.checker.check_model(proto, full_check=True)


def test_batch_and_sequence_are_dynamic_together(tmp_path: Path) -> None:
    model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    shapes = {"src": {0: Dim("batch", max=9), 1: Dim("time")}}
    calls = [(adjoint.randn(n, t, 8),) for n, t in ((2, 5), (1, 1), (4, 11))]
    check(model, tmp_path / "m.onnx", *calls, dynamic_shapes=shapes)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(20, 8), nn.Embedding(16, 8)
        self.queries = nn.Linear(8, 24)

    def forward(self, words: Any) -> Any:
        n, t = words.shape
        x = self.words(words) + self.places(adjoint.arange(t))
        q, k, v = self.queries(x).view(n, t, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        scores = (q @ k.transpose(-2, -1)).masked_fill(adjoint.tril(adjoint.ones(t, t)) == 0, -1e9)
        return y.transpose(1, 2).reshape(n, t, 8) @ self.words.weight.T, scores.softmax(-1) * t**-0.5


def test_masks_and_positions_follow_the_sequence(tmp_path: Path) -> None:
    calls = [(adjoint.randint(0, 20, (n, t)),) for n, t in ((2, 5), (3, 16), (1, 1))]
    check(Attention().eval(), tmp_path / "m.onnx", *calls, dynamic_shapes={"words": {0: "n", 1: Dim("t", max=16)}})


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (nn.LSTM(4, 3, 2, batch_first=True, bidirectional=True), (2, 5, 4)),
        (nn.GRU(4, 3), (5, 2, 4)),
        ((nn.Conv1d(2, 3, 3, stride=2), nn.GroupNorm(3, 3), nn.GELU(), nn.Upsample(scale_factor=2)), (2, 2, 9)),
        ((nn.ConvTranspose2d(2, 3, 3, 2, output_padding=1), nn.SiLU(), nn.AdaptiveAvgPool2d(3)), (1, 2, 5, 5)),
        ((nn.ReflectionPad2d(2), nn.InstanceNorm2d(2), nn.Hardswish(), nn.AvgPool2d(3, 2, 1)), (1, 2, 6, 6)),
        ((nn.Upsample(scale_factor=2, mode="bilinear"), nn.PixelUnshuffle(2), nn.Softmax2d()), (1, 2, 4, 4)),
        ((nn.PReLU(), nn.ELU(), nn.Softplus(), nn.Mish(), nn.LogSoftmax(-1), nn.RMSNorm(4)), (3, 4)),
    ],
)  # fmt: skip
def test_layers(model: Any, shape: tuple[int, ...], tmp_path: Path) -> None:
    model = nn.Sequential(*model) if isinstance(model, tuple) else model
    check(model.eval(), tmp_path / "m.onnx", (adjoint.randn(*shape),))


def test_weights_beside_the_file(tmp_path: Path) -> None:
    model, x = nn.Sequential(nn.Linear(40, 50), nn.Linear(50, 3)).eval(), adjoint.randn(2, 40)
    check(model, tmp_path / "m.onnx", (x,), external_data=True)
    data = tmp_path / "m.onnx.data"
    assert data.stat().st_size >= 40 * 50 * 4 and (tmp_path / "m.onnx").stat().st_size < 4000
    onnx.checker.check_model(str(tmp_path / "m.onnx"))


@pytest.mark.parametrize("opset", [18, 19, 20, 21])
def test_operator_sets(opset: int, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.GELU("tanh"), nn.GELU()).eval()
    check(model, tmp_path / "m.onnx", (adjoint.randn(2, 3),), opset_version=opset)
    assert onnx.load(str(tmp_path / "m.onnx")).opset_import[0].version == opset


def test_a_function_of_several_inputs_and_nested_outputs() -> None:
    def f(x: Any, pair: Any, *, scale: float) -> Any:
        assert is_in_onnx_export()
        return {"sum": x + pair[0] * scale, "rest": [pair[1].int(), x]}

    args = (adjoint.ones(2), (adjoint.arange(2.0), adjoint.tensor([1.5, 2.5])))
    program = export(f, args, kwargs={"scale": 2.0}, verify=False)
    assert program.input_names == ["x", "pair_0", "pair_1"]
    total, whole, same = program(*args)
    assert total.tolist() == [1.0, 3.0] and whole.tolist() == [1, 2] and same.tolist() == [1.0, 1.0]
    assert not is_in_onnx_export()


def test_tied_weights_are_stored_once() -> None:
    first = nn.Linear(3, 3, bias=False)
    second = nn.Linear(3, 3, bias=False)
    second.weight = first.weight
    program = export(nn.Sequential(first, second), adjoint.randn(2, 3), verify=True)
    assert list(program.weights) == ["0.weight"]


# --- What is refused --------------------------------------------------------------------------------


def test_a_branch_on_data_is_refused_with_its_line() -> None:
    def f(x: Any) -> Any:
        if x.sum() > 0:
            return x
        return -x

    with pytest.raises(OnnxExporterError, match=r"on bool\(\) of a tensor.*test_export\.py:\d+.*adjoint\.where"):
        export(f, adjoint.ones(2))


def test_a_shape_that_depends_on_data_is_refused() -> None:
    with pytest.raises(OnnxExporterError, match=r"the shape of a result.*test_export\.py:\d+"):
        export(lambda x: x[x > 0] * 2, adjoint.ones(2))


def test_an_op_without_a_form_is_refused_by_its_name_and_line() -> None:
    with pytest.raises(OnnxExporterError, match=r"igamma at .*test_export\.py:\d+ cannot be exported.*deploy\.md"):
        export(lambda x: adjoint.special.gammainc(x, x), adjoint.ones(2))


def test_a_loop_over_a_dynamic_axis_is_refused() -> None:
    def f(x: Any) -> Any:
        total = x[0]
        for row in x[1:]:
            total = total * 0.5 + row
        return total

    with pytest.raises(OnnxExporterError, match="dynamic axes"):
        export(f, adjoint.ones(3, 2), dynamic_axes={"x": [0]})
    export(f, adjoint.ones(3, 2), verify=True)


def test_a_size_that_cannot_differ_is_refused() -> None:
    with pytest.raises(OnnxExporterError, match="'width' cannot be other than 3"):
        export(nn.Linear(3, 2), adjoint.ones(2, 3), dynamic_axes={"input": {1: "width"}})


def test_random_numbers_are_refused() -> None:
    with pytest.raises(OnnxExporterError, match="uses random numbers; export the model in eval mode"):
        export(nn.Dropout(0.5), adjoint.ones(2), training=True)
    export(nn.Dropout(0.5), adjoint.ones(2), verify=True)


def test_an_unknown_operator_set_is_refused() -> None:
    with pytest.raises(ValueError, match="opset_version must be from 18 to 23, not 11"):
        export(nn.ReLU(), adjoint.ones(2), opset_version=11)


def test_constants_are_computed_in_the_dtypes_of_tensors() -> None:
    def f(x: Any) -> Any:
        return x * (adjoint.arange(3) * -0.5).exp()

    export(f, adjoint.ones(3), verify=True)


# --- torch's arguments ----------------------------------------------------------------------------------


def test_an_open_file_is_written_to() -> None:
    model, x = nn.Linear(3, 2).eval(), adjoint.randn(4, 3)
    file = io.BytesIO()
    export(model, (x,), file, dynamo=True, verbose=False, report=False)
    session = onnxruntime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"input": x.numpy()})
    np.testing.assert_allclose(found, model(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="give a path"):
        export(model, (x,), io.BytesIO(), external_data=True)


def test_weights_may_be_inputs_or_left_out(tmp_path: Path) -> None:
    model, x = nn.Linear(3, 2).eval(), adjoint.randn(4, 3)
    both, without = tmp_path / "both.onnx", tmp_path / "without.onnx"
    export(model, (x,), both, keep_initializers_as_inputs=True)
    export(model, (x,), without, export_params=False)
    for path, count in ((both, 2), (without, 0)):
        proto = onnx.load(str(path))
        onnx.checker.check_model(proto, full_check=True)
        assert [v.name for v in proto.graph.input] == ["input", "weight", "bias"]
        assert len(proto.graph.initializer) == count
    state = {name: 2 * v.numpy() for name, v in model.state_dict().items()}
    for path in (both, without):
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        (found,) = session.run(None, {"input": x.numpy(), **state})
        np.testing.assert_allclose(found, 2 * model(x).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_weights_are_replaced() -> None:
    model, other, x = nn.Linear(3, 2).eval(), nn.Linear(3, 2).eval(), adjoint.randn(4, 3)
    program = export(model, (x,))
    program.apply_weights(other.state_dict())
    assert adjoint.allclose(program(x)[0], other(x), atol=1e-6)
    with pytest.raises(ValueError, match=r"weight is float32\[2, 4\]; the model has float32\[2, 3\]"):
        program.apply_weights({"weight": adjoint.ones(2, 4)})


def test_the_graph_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    export(nn.ReLU(), (adjoint.ones(2),), verbose=True)
    assert "Relu (input)" in capsys.readouterr().out


def test_unknown_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match="opset"):
        export(nn.ReLU(), (adjoint.ones(2),), opset=18)  # type: ignore[call-arg]
    with pytest.raises(NotImplementedError, match="custom_translation_table"):
        export(nn.ReLU(), (adjoint.ones(2),), custom_translation_table={1: 2})


def test_training_mode_and_what_is_written(tmp_path: Path) -> None:
    model, x = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)), adjoint.randn(4, 3)
    before = {name: v.clone() for name, v in model.state_dict().items()}
    with pytest.warns(UserWarning, match=r"writes to .*1\.num_batches_tracked"):
        program = export(model, (x,), training=TrainingMode.TRAINING)
    assert all(adjoint.equal(v, before[name]) for name, v in model.state_dict().items())
    assert adjoint.allclose(program(x)[0], model(x), atol=1e-5)


# --- Models with ops that ONNX has no operator for ------------------------------------------------------


def test_running_extremes_and_medians_of_dynamic_axes(tmp_path: Path) -> None:
    def f(x: Any) -> Any:
        y = x - x.median(0, keepdim=True).values
        return y.cummax(0), y.cumprod(1), y.cummin(1), y.logcumsumexp(0), x.nanmedian(), x.mode(0), x.kthvalue(2, 1)

    nan = adjoint.randn(4, 5)
    nan[1, 2] = float("nan")
    calls = [(adjoint.randint(0, 4, (n, 5)).float(),) for n in (3, 2, 7)]
    check(f, tmp_path / "m.onnx", *calls, dynamic_axes={"x": {0: "n"}})
    check(lambda x: (x.median(), x.median(0), x.nanmedian(1)), tmp_path / "n.onnx", (nan,))


def test_losses_with_labels_to_be_ignored(tmp_path: Path) -> None:
    class Loss(nn.Module):
        def forward(self, x: Any, target: Any) -> Any:
            return (
                nn.functional.cross_entropy(x, target, ignore_index=-1),
                nn.functional.nll_loss(x.log_softmax(1), target, ignore_index=-1, reduction="sum"),
                nn.functional.huber_loss(x, x * 0.5, delta=0.3),
                nn.functional.binary_cross_entropy_with_logits(x, x.sigmoid()),
            )

    calls = [(adjoint.randn(n, 4), adjoint.tensor([1, -1, 3, 0, 2][:n])) for n in (3, 5)]
    check(Loss(), tmp_path / "m.onnx", *calls, dynamic_shapes={"x": {0: "n"}, "target": {0: "n"}})


def test_labels_as_vectors(tmp_path: Path) -> None:
    calls = [(adjoint.tensor(labels),) for labels in ([1, 2], [0, 4, 3])]
    check(lambda x: nn.functional.one_hot(x, 5), tmp_path / "m.onnx", *calls, dynamic_axes={"x": [0]})


@pytest.mark.parametrize(
    "layer",
    [
        nn.Upsample(scale_factor=2), nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.Upsample(scale_factor=3, mode="bilinear", align_corners=True),
        nn.Upsample(scale_factor=2, mode="nearest-exact"), nn.ReflectionPad2d((1, 2, 3, 0)), nn.ReplicationPad2d(2),
        nn.CircularPad2d(1),
        nn.Sequential(nn.Conv2d(2, 3, 3, 2, 1), nn.MaxPool2d(3, 2, 1, ceil_mode=True), nn.Flatten(2)),
    ],
)  # fmt: skip
def test_images_of_any_size(layer: Any, tmp_path: Path) -> None:
    size = Dim("height", min=8, max=64), Dim("width", min=8, max=64)
    calls = [(adjoint.randn(1, 2, *sizes),) for sizes in ((16, 12), (24, 20), (9, 17))]
    check(layer.eval(), tmp_path / "m.onnx", *calls, dynamic_shapes=({2: size[0], 3: size[1]},))
