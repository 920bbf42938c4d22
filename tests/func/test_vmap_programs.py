"""vmap's arguments, refusals, writes and aliasing, program by program, against torch."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable
from typing import Any

import pytest

import adjoint
from adjoint.func import batch
from tests.autograd.programs import Program
from tests.oracle import needs_torch, same

PROGRAMS: dict[str, Program] = {}
Pair = collections.namedtuple("Pair", "a b")


def numbers(T: Any, *shape: int) -> Any:
    return T.arange(1.0, float(functools.reduce(lambda x, y: x * y, shape, 1)) + 1).reshape(*shape)


def words(call: Callable[[], Any]) -> Any:
    """Return the class and the first words of an error."""
    try:
        call()
    except Exception as error:
        return type(error).__mro__[-3].__name__, str(error).replace("torch.", "adjoint.")[:40]
    return None


# --- Dimensions -------------------------------------------------------------------------------------

IN_DIMS = (0, -1, 2, -3, (0,), (0, 0), None, [0], "a", 1.0, (None,), ((0,),), {"x": 0}, ("a",), ())
ARGUMENTS: dict[str, Callable[[Any], tuple[Any, ...]]] = {
    "one": lambda T: (numbers(T, 2, 3),),
    "two": lambda T: (numbers(T, 2, 3), numbers(T, 2, 4)),
    "pair": lambda T: ((numbers(T, 2, 3), numbers(T, 2, 3)),),
    "dict": lambda T: ({"x": numbers(T, 2, 3)},),
    "number": lambda T: (3.0,),
    "0-d": lambda T: (T.tensor(2.0),),
    "with a number": lambda T: (numbers(T, 2, 3), 2.0),
}


def total(*args: Any) -> Any:
    groups = [arg.values() if isinstance(arg, dict) else arg if type(arg) is tuple else [arg] for arg in args]
    return sum(p.sum() if hasattr(p, "sum") else p for group in groups for p in group)


for _dims in IN_DIMS:
    for _name, _make in ARGUMENTS.items():

        def _run(T: Any, dims: Any = _dims, make: Any = _make) -> Any:
            call = functools.partial(T.vmap(total, in_dims=dims), *make(T))
            return words(call) or call()

        PROGRAMS[f"in_dims={_dims} {_name}"] = _run

OUT_DIMS = (0, 1, -1, 2, -3, None, (0,), (0, 1), (0, None), (0, 0, 0), [0, 1], "a", 0.5, {"a": 0, "b": 1}, True, ())
RESULTS: dict[str, Callable[[Any, Any], Any]] = {
    "one": lambda T, x: x * 2,
    "tuple": lambda T, x: (x, x * 2),
    "list": lambda T, x: [x, x * 2],
    "dict": lambda T, x: {"a": x, "b": x.sin()},
    "ordered": lambda T, x: collections.OrderedDict(a=x, b=x.sin()),
    "single": lambda T, x: (x,),
    "number": lambda T, x: 3.0,
    "with a number": lambda T, x: (x, 3.0),
    "none": lambda T, x: None,
    "scalar": lambda T, x: x.sum(),
    "empty": lambda T, x: (),
    "nested": lambda T, x: ((x,), x * 2),
}
for _dims in OUT_DIMS:
    for _name, _of in RESULTS.items():

        def _run(T: Any, dims: Any = _dims, of: Any = _of) -> Any:
            call = functools.partial(T.vmap(lambda x: of(T, x), out_dims=dims), numbers(T, 2, 3))
            return words(call) or call()

        PROGRAMS[f"out_dims={_dims} {_name}"] = _run


# --- Refusals ---------------------------------------------------------------------------------------


class Doubling:
    def __call__(self, x: Any) -> Any:
        return x * 2

    def __repr__(self) -> str:
        return "Doubling()"


REFUSED: dict[str, Callable[[Any, Any], Any]] = {
    "item": lambda T, x: x.sum().item(),
    "float": lambda T, x: float(x.sum()),
    "index": lambda T, x: [1, 2][x.sum().long()],
    "range": lambda T, x: range(x.sum().long()),
    "branch": lambda T, x: x if x.sum() > 0 else -x,
    "tolist": lambda T, x: x.tolist(),
    "numpy": lambda T, x: x.numpy(),
    "format": lambda T, x: f"{x.sum():.2f}",
    "full": lambda T, x: T.full((2,), x.sum()),
    "arange": lambda T, x: T.arange(x.sum()),
    "equal": lambda T, x: T.equal(x, x),
    "allclose": lambda T, x: T.allclose(x, x),
    "nonzero": lambda T, x: x.nonzero(),
    "masked_select": lambda T, x: x.masked_select(x > 0),
    "unique": lambda T, x: x.unique(),
    "one_hot": lambda T, x: T.nn.functional.one_hot(x.long()),
    "data": lambda T, x: x.data,
    "data_ptr": lambda T, x: x.data_ptr(),
    "storage": lambda T, x: x.untyped_storage(),
    "pickle": lambda T, x: __import__("pickle").dumps(x),
    "format of memory": lambda T, x: x.reshape(1, 1, 1, 3).is_contiguous(memory_format=T.channels_last),
    "contiguous": lambda T, x: x.reshape(1, 1, 1, 3).contiguous(memory_format=T.channels_last),
    "mm": lambda T, x: "Shape mismatch" in words(lambda: T.mm(x, x))[1],
    "bmm": lambda T, x: "Shape mismatch" in words(lambda: T.bmm(x, x))[1],
    "dot": lambda T, x: words(lambda: T.dot(x[0], x[0]))[1][:24],
    "out of bounds": lambda T, x: x[7],
    "out of bounds by a tensor": lambda T, x: x[T.tensor([9])],
    "too many": lambda T, x: x[0, 0],
    "rrelu": lambda T, x: T.nn.functional.rrelu(x),
}
for _name, _of in REFUSED.items():
    PROGRAMS[f"refused: {_name}"] = lambda T, of=_of: words(lambda: T.vmap(lambda x: of(T, x))(numbers(T, 2, 3)))
CALLS: dict[str, Callable[[Any], Any]] = {
    "no inputs": lambda T: T.vmap(lambda: T.ones(2))(),
    "sizes": lambda T: T.vmap(lambda x, y: x)(T.ones(2), T.ones(3)),
    "chunks of none": lambda T: T.vmap(lambda x: x, chunk_size=0),
    "randomness": lambda T: T.vmap(lambda x: x, randomness="any"),
    "partial": lambda T: T.vmap(functools.partial(T.mul, T.ones(3)), in_dims=3)(T.ones(2)),
    "object": lambda T: T.vmap(Doubling(), in_dims=3)(T.ones(2)),
    "not callable": lambda T: T.vmap(3)(T.ones(2)),
}
for _name, _call in CALLS.items():
    PROGRAMS[f"refused: {_name}"] = lambda T, call=_call: words(lambda: call(T))
CALLED: dict[str, Callable[[Any], Any]] = {
    "keywords are whole": lambda T: T.vmap(lambda x, y=None: x + y.sum())(numbers(T, 2, 3), y=numbers(T, 2, 3)),
    "nothing in the batch": lambda T: T.vmap(lambda x: x * 2)(T.ones(0, 3)),
    "a named tuple": lambda T: T.vmap(lambda p: Pair(p.a * 2, p.b))(Pair(numbers(T, 2, 3), numbers(T, 2))),
    "dims of a mapping": lambda T: T.vmap(lambda p: p["a"], in_dims=({"a": 0},))(
        collections.OrderedDict(a=numbers(T, 2))
    ),
    "chunks": lambda T: T.vmap(lambda x, y: x * y, in_dims=(1, None), out_dims=1, chunk_size=2)(
        numbers(T, 2, 5), numbers(T, 2)
    ),
    "strides": lambda T: seen(T, lambda x: (x.stride(), x.is_contiguous(), x.storage_offset()), 1, 2, 3, 4),
    "text": lambda T: seen(T, repr, 0, 2, 3),
    "text of two": lambda T: T.vmap(lambda y: T.tensor(len(seen_text(T, y))))(numbers(T, 2, 3)),
    "a mask of all": lambda T: T.vmap(lambda x: x.masked_select(T.tensor([True, False, True])))(numbers(T, 2, 3)),
}
PROGRAMS |= {f"called: {name}": call for name, call in CALLED.items()}


def seen(T: Any, look: Callable[[Any], Any], dim: int, *shape: int) -> Any:
    found: list[Any] = []
    T.vmap(lambda x: (found.append(look(x)), x)[1], in_dims=dim)(numbers(T, *shape))
    return found[0]


def seen_text(T: Any, y: Any) -> str:
    found: list[str] = []
    T.vmap(lambda x: (found.append(repr(x)), x)[1])(y)
    return found[0]


# --- Writes -----------------------------------------------------------------------------------------


def set_first(x: Any, y: Any) -> Any:
    x[0] = y[1]
    return x


WRITES: dict[str, Callable[[Any, Any, Any], Any]] = {
    **{
        name: lambda T, x, y, name=name: getattr(x, f"{name}_")(y)
        for name in "add sub mul div copy pow remainder fmod atan2 eq hypot floor_divide logical_and".split()
    },
    "fill": lambda T, x, y: x.fill_(y.sum()),
    "addcmul": lambda T, x, y: x.addcmul_(y, y),
    "lerp": lambda T, x, y: x.lerp_(y, 0.5),
    "index_add": lambda T, x, y: x.index_add_(0, T.tensor([0, 2]), y[:2]),
    "index_put": lambda T, x, y: x.index_put_((T.tensor([0, 2]),), y[:2]),
    "scatter_add": lambda T, x, y: x.scatter_add_(0, T.tensor([0, 0]), y),
    "item": lambda T, x, y: set_first(x, y),
    "sin": lambda T, x, y: x.sin_(),
    "relu": lambda T, x, y: T.nn.functional.relu(x, inplace=True),
    "part": lambda T, x, y: x[1:].add_(y[1:]),
}
for _name, _write in WRITES.items():
    for _dims in ((0, 0), (0, None), (None, 0), (1, 0), (0, 1)):

        def _run(T: Any, write: Any = _write, dims: Any = _dims) -> Any:
            x, y = (numbers(T, 3) if d is None else numbers(T, 3, 3) for d in dims)
            call = functools.partial(T.vmap(lambda a, b: write(T, a, b), in_dims=dims), x, y)
            if dims[0] is None and _refuses(write):
                return words(call)
            out = call()
            return out, x, out.data_ptr() == x.data_ptr(), out is x

        PROGRAMS[f"written: {_name} {_dims}"] = _run


def _refuses(write: Any) -> bool:
    return write not in (WRITES["sin"], WRITES["relu"])


def aliased(T: Any, function: Callable[[Any], Any], **dims: int) -> Any:
    """Return a tensor, and what vmap gave for it, after that was written."""
    x = numbers(T, 2, 3)
    out = T.vmap(function, **dims)(x)
    out.mul_(10)
    return x, out, out is x, out._is_view()


def base_written(a: Any) -> Any:
    b = a[1:]
    a.mul_(10)
    return b


def part_written(a: Any) -> Any:
    a[1:].mul_(10)
    return a


def through_history(T: Any, function: Callable[[Any], Any]) -> Any:
    x = numbers(T, 2, 3).requires_grad_()
    y = x * 1
    out = T.vmap(function)(y)
    out.mul_(2)
    y.sum().backward()
    return x.grad, y


PROGRAMS |= {
    "alias: itself": lambda T: aliased(T, lambda a: a),
    "alias: another dimension": lambda T: aliased(T, lambda a: a, in_dims=1, out_dims=1),
    "alias: moved": lambda T: aliased(T, lambda a: a, out_dims=1)[:2],
    "alias: a part": lambda T: aliased(T, lambda a: a[1:]),
    "alias: a view of a view": lambda T: aliased(T, lambda a: a.view(3, 1).t()),
    "alias: base written": lambda T: aliased(T, base_written),
    "alias: part written": lambda T: aliased(T, part_written),
    "alias: pieces": lambda T: T.vmap(lambda a: a.split(2))(numbers(T, 2, 3)),
    "alias: nested": lambda T: (lambda x: (T.vmap(T.vmap(lambda a: a.add_(1)))(x) is x, x))(numbers(T, 2, 3)),
    "alias: in history": lambda T: through_history(T, lambda a: a[1:]),
    "alias: written in history": lambda T: through_history(T, part_written),
    "alias: not recorded": lambda T: T.vmap(lambda a: unrecorded(T, a))(T.ones(2, 3).requires_grad_()).grad_fn,
}


def unrecorded(T: Any, a: Any) -> Any:
    with T.no_grad():
        return a[1:]


# --- Gradients and copies that had no batching rule ------------------------------------------------


def batched_grad(T: Any, function: Callable[[Any], Any]) -> Any:
    x = (numbers(T, 3, 3) / 4).requires_grad_()
    out = function(x)
    return T.autograd.grad(out, x, numbers(T, 2, *out.shape), is_grads_batched=True)[0]


PROGRAMS |= {
    "grads: cumprod": lambda T: batched_grad(T, lambda x: x.cumprod(0)),
    "grads: diagonal_scatter": lambda T: batched_grad(T, lambda x: x.diagonal_scatter(T.ones(3))),
    "grads: masked_select": lambda T: batched_grad(T, lambda x: x.masked_select(x > 1)),
    "grads: index_put": lambda T: batched_grad(T, lambda x: x.index_put((x > 1,), T.tensor(5.0))),
    "unbatched: put": lambda T: T.vmap(lambda y: numbers(T, 4).put(T.tensor([0, 2]), y))(numbers(T, 3, 2)),
}


@needs_torch
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    same(PROGRAMS[name])


LOOKS: dict[str, Callable[[Any], Any]] = {
    "inside": lambda x: x.as_strided((2,), (1,), 1),
    "overlapping": lambda x: x.as_strided((2, 2), (1, 1)),
    "of a view": lambda x: x[1:].as_strided((1,), (1,), 2),
    "beyond": lambda x: x.as_strided((5,), (1,)),
    "beyond the end": lambda x: x.as_strided((2,), (2,), 2),
    "before the start": lambda x: x.as_strided((2,), (1,), -1),
}


@needs_torch
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("name", LOOKS)
def test_as_strided_looks_at_one_element(name: str, dim: int) -> None:
    def program(T: Any) -> Any:
        call = functools.partial(T.vmap(LOOKS[name], in_dims=dim), numbers(T, 3, 3))
        return words(call) or call()

    same(program)


# --- Where torch is wrong, or refuses ---------------------------------------------------------------


def test_copies_of_what_is_no_batch_take_a_batch() -> None:
    ys = numbers(adjoint, 2, 2)
    out = adjoint.vmap(lambda y: adjoint.as_strided_scatter(adjoint.zeros(4), y, (2,), (2,)))(ys)
    assert out.tolist() == [[1, 0, 2, 0], [3, 0, 4, 0]]


def test_separated_indexes_are_written_as_by_a_loop() -> None:
    at = (adjoint.tensor([0, 1]), slice(None), adjoint.tensor([1, 0]))

    def write(x: Any, v: Any) -> Any:
        x = x.clone()
        x[at] = v
        return x

    xs, vs = numbers(adjoint, 2, 3, 4, 2), numbers(adjoint, 2, 2, 4)
    expected = adjoint.stack([write(x, v) for x, v in zip(xs, vs, strict=True)])
    assert adjoint.equal(adjoint.vmap(write)(xs, vs), expected)


# --- Containers that come apart in their own way ----------------------------------------------------


class Records:
    """A container with a batch size, as tensordict's are: a leaf, which hides its batch dimension itself."""

    def __init__(self, parts: dict[str, Any], sizes: tuple[int, ...]) -> None:
        self.parts, self.sizes = parts, sizes

    def size(self, dim: int) -> int:
        return self.sizes[dim]


def test_steps_may_be_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    def inputs(in_dims: Any, args: Any, func: Any) -> Any:
        flat, spec = batch.tree_flatten(args)
        dims: Any = batch._broadcast_to_and_flatten(in_dims, spec)
        return batch._validate_and_get_batch_size(dims, flat), dims, flat, spec

    def hidden(dims: Any, args: Any, level: int, spec: Any) -> Any:
        add = batch._add_batch_dim
        return spec.unflatten([Records({k: add(v, 0, level) for k, v in r.parts.items()}, ()) for r in args])

    def opened(out: Any, out_dims: Any, level: int, size: int, func: Any) -> Any:
        name = batch._get_name(func)
        parts = {k: batch._maybe_remove_batch_dim(name, v, level, size, 0) for k, v in out.parts.items()}
        return Records(parts, (size,))

    monkeypatch.setattr(batch, "_process_batched_inputs", inputs)
    monkeypatch.setattr(batch, "_create_batched_inputs", hidden)
    monkeypatch.setattr(batch, "_unwrap_batched", opened)
    given = Records({"a": numbers(adjoint, 3, 2), "b": adjoint.ones(3)}, (3,))

    def function(r: Records) -> Records:
        assert r.sizes == () and r.parts["a"].shape == (2,)
        r.parts["b"].add_(1)
        return Records({"c": r.parts["a"].sum()}, r.sizes)

    out = adjoint.vmap(function)(given)
    assert out.sizes == (3,) and out.parts["c"].tolist() == [3, 7, 11] and given.parts["b"].tolist() == [2, 2, 2]


def test_levels_by_hand() -> None:
    level = batch._vmap_increment_nesting(3, "error")
    try:
        x = batch._add_batch_dim(adjoint.ones(3, 2), 0, level)
        assert batch.is_batchedtensor(x) and x.shape == (2,)
        y = batch._remove_batch_dim(x * 2, level, 3, 1)
    finally:
        batch._vmap_decrement_nesting()
    assert y.shape == (2, 3)
    results, dims = batch.restore_vmap(lambda a, b: (a * 2, b), (0, None), 3, "error")(adjoint.ones(3), adjoint.ones(2))
    assert dims == (0, None) and results[0].shape == (3,) and results[1].shape == (2,)
    assert batch.chunk_vmap(lambda a: a * 2, chunks=2)(adjoint.arange(5)).tolist() == [0, 2, 4, 6, 8]
