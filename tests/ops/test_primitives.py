"""Every check for every primitive, driven by the table in `samples.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import adjoint
from adjoint import func
from adjoint.autograd import gradcheck, gradgradcheck
from adjoint.compiler import capture
from adjoint.core.nodes import registry, wrap
from adjoint.core.observation import Observer
from adjoint.errors import InPlaceError

from .samples import SAMPLES, Sample, samples, unit

NAMES = sorted(registry)

_DRAWS = dict.fromkeys(
    (
        "bernoulli binomial cauchy exponential geometric log_normal normal normal_of_both normal_of_mean normal_of_std "
        "poisson random random_below random_between sample_dirichlet standard_gamma uniform"
    ).split(),
    "random: what a draw is inside vmap must be said, below",
)
_SLOPES = dict.fromkeys(
    ("standard_gamma_grad", "dirichlet_grad"), "is itself the derivative of a random draw, and has none"
)
_QR = {"qr_r": "torch refuses the derivative, which needs the Q that is not computed"}

# What a check cannot say of a primitive, and why.
EXEMPT: dict[str, dict[str, str]] = {
    "derivative": {
        **dict.fromkeys(
            ("normal_of_mean", "normal_of_std", "normal_of_both", "binomial"), "a draw's gradient is zero, as in torch"
        ),
        **dict.fromkeys(
            ("standard_gamma", "sample_dirichlet"), "moves at a fixed quantile; a seed fixes other numbers"
        ),
        **_SLOPES,
        **_QR,
    },
    "second derivative": {
        **dict.fromkeys(("standard_gamma", "sample_dirichlet"), "of first order only, as in torch"),
        **_SLOPES,
        **_QR,
    },
    "forward mode": {**_SLOPES, **_QR},
    "vmap": _DRAWS,
    "single precision": {
        **dict.fromkeys(("cast", "view_dtype"), "is asked for another dtype"),
        **dict.fromkeys(("bernoulli", "random", "uniform"), "takes other bits of the stream for other dtypes"),
    },
    "half precision": {
        **dict.fromkeys(("cast", "view_dtype"), "is asked for another dtype"),
        **dict.fromkeys(("complex", "view_as_complex"), "NumPy has no complex numbers of half precision"),
        **dict.fromkeys(("cofactors", "det", "svdvals"), "is refused by its public function, not by itself"),
    },
    "in place": {**_SLOPES, **_QR},
    "layouts": {
        "as_strided": "reads memory, not elements",
        **dict.fromkeys(
            (
                "bernoulli cauchy exponential geometric log_normal normal random random_below random_between uniform"
            ).split(),
            "fills in the order of memory, as torch does: see test_fills_follow_the_memory",
        ),
    },
    "gradients of layouts": {**_SLOPES, **_QR},
}

# Primitives without a batching rule: vmap runs them in a loop and says so.
LOOPED = {"ctc_loss", "masked_scatter", "masked_select"}
# Fused layers, which inside transforms are several primitives instead.
STEPPED = {"gru_cell", "gru_layer", "lstm_cell", "lstm_layer", "rnn_layer"}


def checked(check: str) -> Any:
    """Run a test for each primitive, except those whose names stand in EXEMPT with a reason."""
    return pytest.mark.parametrize("name", [n for n in NAMES if n not in EXEMPT.get(check, {})])


# --- Words ------------------------------------------------------------------------------------------


def tensors(arrays: Any, grad: bool = False) -> list[Any]:
    return [adjoint.tensor(a, requires_grad=grad and is_floating(a)) for a in arrays]


def is_floating(a: Any) -> bool:
    return a.dtype.kind in "fc"


def parts(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple | list) else [result]


def numbers(result: Any) -> list[np.ndarray]:
    return [np.array(p.detach().resolve_conj().numpy()) for p in parts(result)]


def equal(found: Any, expected: Any, message: str = "", tolerance: float = 1e-12) -> None:
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape, f"{message}: {a.shape} instead of {b.shape}"
        assert a.dtype == b.dtype, f"{message}: {a.dtype} instead of {b.dtype}"
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=message)


def differentiable(name: str) -> Iterator[tuple[Callable[..., Any], list[Any]]]:
    """Yield, for each sample, a function of the inputs that have gradients, giving the outputs that do; and inputs."""
    for sample in samples(name):
        fixed = tensors(sample.arrays)
        slots = [i for i, a in enumerate(sample.arrays) if is_floating(a)]

        def function(*xs: Any, sample: Sample = sample, fixed: Any = fixed, slots: Any = slots) -> Any:
            args = list(fixed)
            for i, x in zip(slots, xs, strict=True):
                args[i] = x
            return tuple([p for p in parts(sample.program(*args)) if p.dtype.is_floating_point or p.dtype.is_complex])

        leaves = [adjoint.tensor(sample.arrays[i], requires_grad=True) for i in slots]
        if leaves and any(p.requires_grad for p in function(*leaves)):
            yield function, leaves


class Heard(Observer):
    """Writes down the names of the primitives that are called, those of backward passes too."""

    lifts = True

    def __init__(self) -> None:
        self.names: set[str] = set()

    def call(self, op: Any, inputs: Any, params: Any, run: Any) -> Any:
        self.names.add(op.name)
        return super().call(op, inputs, params, run)

    def compute_into(self, op: Any, x: Any, inputs: Any, params: Any, run: Any) -> None:
        self.names.add(op.name)
        super().compute_into(op, x, inputs, params, run)


# --- The table --------------------------------------------------------------------------------------


def test_every_primitive_has_a_row_and_every_row_a_primitive() -> None:
    assert set(registry) == set(SAMPLES)


def test_what_is_exempt_exists() -> None:
    assert not {n for names in EXEMPT.values() for n in names} - set(registry)


def test_all_but_a_few_have_a_batching_rule() -> None:
    assert {name for name, op in registry.items() if op.batch is None} - LOOPED == STEPPED


@pytest.mark.parametrize("name", NAMES)
def test_a_row_calls_its_primitive(name: str) -> None:
    for sample in samples(name):
        with Heard() as heard:
            sample.program(*tensors(sample.arrays))
        assert name in heard.names | recorded(sample.program(*tensors(sample.arrays, grad=True)))


def recorded(result: Any) -> set[str]:
    """Return the names of the primitives in the graph of a result: fused ones stand aside while somebody listens."""
    names, stack = set(), [p.grad_fn for p in parts(result)]
    while stack:
        node = stack.pop()
        if node is not None:
            names.add(node.op.name)
            stack += [edge for edge, _ in node.next_functions]
    return names


# --- The checks -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_values_are_finite_and_the_same_each_time(name: str) -> None:
    for sample in samples(name):
        xs = tensors(sample.arrays)
        first = numbers(sample.program(*xs))
        assert all(np.isfinite(a).all() for a in first if is_floating(a))
        equal(numbers(sample.program(*xs)), first, tolerance=0)
        equal([x.numpy() for x in xs], sample.arrays, "an input was written", 0)


@checked("derivative")
def test_first_derivative_equals_finite_differences(name: str) -> None:
    for function, leaves in differentiable(name):
        assert gradcheck(function, leaves, fast_mode=True)


@checked("second derivative")
def test_second_derivative_equals_finite_differences(name: str) -> None:
    for function, leaves in differentiable(name):
        assert gradgradcheck(function, leaves, fast_mode=True)


@checked("forward mode")
def test_jvp_is_the_transpose_of_vjp(name: str) -> None:
    """Check that <v, J t> = <J^T v, t>."""
    for function, leaves in differentiable(name):
        xs = tuple(x.detach() for x in leaves)
        along = tuple(adjoint.tensor(np.cos(np.arange(x.numel()) + 0.5).reshape(x.shape)).to(x.dtype) for x in xs)
        out, pushed = func.jvp(function, xs, along)
        v = tuple(adjoint.tensor(np.sin(np.arange(p.numel()) + 0.3).reshape(p.shape)).to(p.dtype) for p in out)
        pulled = func.vjp(function, *xs)[1](v)
        left, right = inner(v, pushed), inner(pulled, along)
        assert left == pytest.approx(right, rel=1e-8, abs=1e-10)


def inner(xs: Any, ys: Any) -> float:
    """Return the inner product of two lists of tensors, as real vectors."""
    return sum(float((x.conj() * y).real.sum()) if x.is_complex() else float((x * y).sum()) for x, y in zip(xs, ys))


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@checked("vmap")
def test_vmap_equals_a_loop(name: str) -> None:
    for sample in samples(name):
        floating = [i for i, a in enumerate(sample.arrays) if is_floating(a)]
        slots = floating or list(range(len(sample.arrays)))
        for chosen in {(*slots,), (slots[0],), (slots[-1],), (*range(len(sample.arrays)),)}:
            check_vmap(sample, chosen, (1.0, 0.95, 0.9))
        check_vmap(sample, (*slots,), (0.9,))


def check_vmap(sample: Sample, chosen: tuple[int, ...], scales: tuple[float, ...]) -> None:
    """Compare a batch of the chosen inputs, one element per scale, with its elements one by one."""
    rows = [
        tensors([a * s if i in chosen and is_floating(a) else a for i, a in enumerate(sample.arrays)]) for s in scales
    ]
    dims = tuple(0 if i in chosen else None for i in range(len(sample.arrays)))
    batch = [adjoint.stack([r[i] for r in rows]) if i in chosen else rows[0][i] for i in range(len(sample.arrays))]
    found = numbers(func.vmap(sample.program, in_dims=dims)(*batch))
    one_by_one = [numbers(sample.program(*row)) for row in rows]
    equal(found, [np.stack(p) for p in zip(*one_by_one, strict=True)], f"batched inputs {chosen}", 1e-10)


@pytest.mark.parametrize("draw", ["bernoulli", "poisson", "_standard_gamma", "_sample_dirichlet"])
def test_different_draws_of_a_batch_are_those_of_the_whole(draw: str) -> None:
    x, function = adjoint.tensor(unit(3, 4)), getattr(adjoint, draw)
    adjoint.manual_seed(5)
    expected = numbers(function(x))
    adjoint.manual_seed(5)
    equal(numbers(func.vmap(function, randomness="different")(x)), expected)


@checked("single precision")
def test_single_precision_stays_single(name: str) -> None:
    """Check that nothing on the way, forward or backward, is of another dtype than the inputs are."""
    single = {np.dtype(np.float64): np.float32, np.dtype(np.complex128): np.complex64}
    for sample in samples(name):
        arrays = [a.astype(single.get(a.dtype, a.dtype)) for a in sample.arrays]
        expected = [a.astype(single.get(a.dtype, a.dtype)) for a in numbers(sample.program(*tensors(sample.arrays)))]
        xs = tensors(arrays, grad=True)
        out = parts(sample.program(*xs))
        equal(numbers(out), expected, "value", 2e-3)
        out = [p for p in out if p.requires_grad]
        if out and name not in EXEMPT["derivative"]:
            leaves = [x for x in xs if x.requires_grad]
            found = adjoint.autograd.grad(out, leaves, cotangents(out), allow_unused=True, create_graph=True)
            assert all(g is None or g.dtype == x.dtype for g, x in zip(found, leaves, strict=True))


@checked("half precision")
@pytest.mark.parametrize("dtype", [adjoint.float16, adjoint.bfloat16], ids=str)
def test_half_precision_stays_half_or_is_refused(name: str, dtype: Any) -> None:
    for sample in samples(name):
        if any(a.dtype.kind == "c" for a in sample.arrays):
            continue
        xs = [x.to(dtype) if x.is_floating_point() else x for x in tensors(sample.arrays)]
        try:
            out = parts(sample.program(*xs))
        except RuntimeError as error:
            assert registry[name].kernel.__module__.endswith(
                ("linalg", "decomposition", "eigenvalues", "matrix_functions", "fft")
            ), error
            continue
        assert all(p.dtype == dtype for p in out if p.is_floating_point())


@checked("capture")
def test_captured_and_replayed_equals_eager(name: str) -> None:
    for sample in samples(name):
        captured = capture(sample.program)(*tensors(sample.arrays))
        equal(numbers(captured.result), numbers(sample.program(*tensors(sample.arrays))), "captured")
        other = [a * 0.97 if is_floating(a) else a for a in sample.arrays]
        equal(numbers(captured(*tensors(other))), numbers(sample.program(*tensors(other))), "replayed")


@checked("in place")
def test_a_kept_value_that_is_written_is_refused_or_not_needed(name: str) -> None:
    """Write over each input and output after the call: the gradient is refused or is the right one."""
    for function, leaves in differentiable(name):
        expected = gradients(function, leaves)
        for written in range(len(leaves)):
            mine = [x * 1 for x in leaves]
            out = function(*mine)
            overwrite(mine[written])
            refused_or_right(out, leaves, expected, f"input {written}")
        for i in range(len(function(*leaves))):
            out = function(*[x * 1 for x in leaves])
            overwrite(out[i])
            refused_or_right(out, leaves, expected, f"output {i}")


def overwrite(x: Any) -> None:
    """Write into the memory of a tensor, past the graph."""
    memory = x.detach()
    if x.grad_fn.name() in ("ExpandBackward0", "UnfoldBackward0"):  # elements share memory
        memory = memory[(0,) * x.dim()]
    memory.mul_(3.0)


def cotangents(out: Any) -> list[Any]:
    return [adjoint.tensor(np.cos(np.arange(p.numel()) * 0.9).reshape(p.shape)).to(p.dtype) for p in out]


def gradients(function: Any, leaves: list[Any]) -> list[Any]:
    out = [p for p in function(*leaves) if p.requires_grad]
    return list(adjoint.autograd.grad(out, leaves, cotangents(out), allow_unused=True))


@checked("derivative")
def test_gradients_that_can_be_differentiated_are_those_that_cannot(name: str) -> None:
    for function, leaves in differentiable(name):
        out = [p for p in function(*leaves) if p.requires_grad]
        found = adjoint.autograd.grad(out, leaves, cotangents(out), allow_unused=True, create_graph=True)
        for a, b in zip(found, gradients(function, leaves), strict=True):
            if a is not None and b is not None:
                equal(numbers(a), numbers(b), "gradient")


def refused_or_right(out: Any, leaves: list[Any], expected: list[Any], message: str) -> None:
    out = [p for p in out if p.requires_grad]
    try:
        found = adjoint.autograd.grad(out, leaves, cotangents(out), allow_unused=True, retain_graph=True)
    except InPlaceError:
        return
    except RuntimeError as error:  # as torch refuses the history of one view of several, once their memory was written
        assert "its base or another view of its base has been modified inplace" in str(error), error
        return
    for a, b in zip(found, expected, strict=True):
        assert (a is None) == (b is None), message
        if a is not None:
            equal(numbers(a), numbers(b), f"{message} was written, and the gradient is wrong")


# --- Shapes, strides and dtypes, drawn --------------------------------------------------------------

ELEMENTWISE = [name for name in NAMES if registry[name].batch == "elementwise" and not registry[name].params]
_LANES = "sum mean nansum logsumexp amax amin all any count_nonzero prod var std argmax argmin max min median".split()
_SCANS = "softmax log_softmax cumsum cumprod logcumsumexp cummax cummin".split()


@st.composite
def laid_out(draw: Any, shape: tuple[int, ...], dtype: str, k: int = 0) -> np.ndarray:
    """Draw an array of some layout: contiguous, transposed, with steps, with negative ones, expanded, read-only."""
    a = unit(*shape, k=k) if dtype.startswith(("f", "c")) else np.arange(1, 1 + int(np.prod(shape))).reshape(shape)
    a = a.astype(dtype)
    layout = draw(st.sampled_from([np.copy, transposed, strided, backwards, read_only, expanded]))
    return layout(a)


def expanded(a: np.ndarray) -> np.ndarray:
    return np.broadcast_to(a[:1], a.shape) if a.ndim and a.size else a


shapes = st.lists(st.integers(0, 3), max_size=3).map(tuple)
dtypes = st.sampled_from(["float64", "float32", "complex128", "int64", "uint8", "bool"])


@settings(max_examples=600)
@given(st.data())
def test_an_elementwise_op_does_to_all_what_it_does_to_each(data: Any) -> None:
    op = registry[data.draw(st.sampled_from(ELEMENTWISE), "op")]
    shape, dtype = data.draw(shapes, "shape"), data.draw(dtypes, "dtype")
    arrays = [data.draw(laid_out(shape, dtype, k)) for k in range(len(op.inputs))]
    whole = outcome(op.call, [wrap(a) for a in arrays])
    for index in np.ndindex(*shape):
        one = outcome(op.call, [wrap(np.array(a[index])) for a in arrays])
        if isinstance(one, type):
            assert whole is one
        else:
            equal([w[index] for w in whole], one, f"{op.name} at {index}", 1e-5 if dtype == "float32" else 1e-12)
    if not isinstance(whole, type):
        assert all(w.shape == shape for w in whole)


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@settings(max_examples=300)
@given(st.data())
def test_a_reduction_does_to_all_lanes_what_it_does_to_each(data: Any) -> None:
    name = data.draw(st.sampled_from(_LANES + _SCANS), "op")
    shape = data.draw(shapes.filter(lambda s: len(s) > 0), "shape")
    axis, dtype = data.draw(st.integers(0, len(shape) - 1), "axis"), data.draw(dtypes, "dtype")
    array = data.draw(laid_out(shape, dtype))
    function = getattr(adjoint, name)
    whole = outcome(function, [wrap(array), axis])
    others = shape[:axis] + shape[axis + 1 :]
    for index in np.ndindex(*others):
        lane = (*index[:axis], slice(None), *index[axis:])
        one = outcome(function, [wrap(array[lane].copy()), 0])
        if isinstance(one, type):
            assert whole is one
        else:
            at = index if name in _LANES else lane
            equal([w[at] for w in whole], one, f"{name} at {index}", 1e-5 if dtype == "float32" else 1e-12)
    if not isinstance(whole, type):
        assert all(w.shape == (others if name in _LANES else shape) for w in whole)


# --- Layouts ----------------------------------------------------------------------------------------


def transposed(a: np.ndarray) -> np.ndarray:
    return a.T.copy().T


def strided(a: np.ndarray) -> np.ndarray:
    wide = np.zeros((*a.shape, 2), a.dtype)
    wide[..., 0] = a
    return wide[..., 0]


def backwards(a: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(a[..., ::-1])[..., ::-1] if a.ndim else a


def read_only(a: np.ndarray) -> np.ndarray:
    a = a.copy()
    a.flags.writeable = False
    return a


@checked("layouts")
@pytest.mark.parametrize("layout", [transposed, strided, backwards, read_only])
def test_other_layouts_give_the_contiguous_result(name: str, layout: Any) -> None:
    for sample in samples(name):
        expected = numbers(sample.program(*tensors(sample.arrays)))
        laid_out = [layout(a) for a in sample.arrays]
        equal(numbers(sample.program(*[wrap(a) for a in laid_out])), expected, "value")
        equal(laid_out, sample.arrays, "an input was written", 0)
    for function, leaves in [] if name in EXEMPT["gradients of layouts"] else differentiable(name):
        expected = gradients(function, leaves)
        others = [wrap(layout(x.detach().numpy())).requires_grad_() for x in leaves]
        found = gradients(function, others)
        for a, b in zip(found, expected, strict=True):
            if b is not None:
                equal(numbers(a), numbers(b), "gradient")


@checked("layouts")
def test_expanded_inputs_give_the_contiguous_result(name: str) -> None:
    for sample in samples(name):
        for i, a in enumerate(sample.arrays):
            if a.ndim and a.shape[0] > 1 and is_floating(a):
                thin = adjoint.tensor(a[:1])
                args = tensors(sample.arrays)
                args[i] = thin.expand(a.shape)
                found = outcome(sample.program, args)
                args[i] = thin.expand(a.shape).contiguous()
                expected = outcome(sample.program, args)
                assert type(found) is type(expected)
                if not isinstance(found, type):
                    equal(found, expected, f"input {i}", 1e-10)


def outcome(program: Any, args: list[Any]) -> Any:
    """Return the numbers of a result, or the class of the error."""
    try:
        return numbers(program(*args))
    except (RuntimeError, IndexError, TypeError) as error:
        return type(error)
