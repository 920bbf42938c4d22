"""The hot path: what a call of a primitive runs.

Here alone speed outranks brevity. Each function returns the recorder of one kind of op, a closure that `recorders.py`
makes the primitive. Everything that can be decided at declaration is. A call reads two module-level flags, runs the
kernel, and, when a gradient can flow, fills one node. All other cases (`modes.unusual`, a tensor
subclass, operands of unequal dtype) go to a slower, complete path in `general` or `promotion`.

Each of the first three recorders (`unary`, `binary`, `parametric`) fills its nodes itself, because a call would cost
five percent; the others use `fill`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import CodeType, FrameType
from typing import Any

import numpy as np

from .._typing import Kernel
from ..devices.cpu.constants import (
    float32_constants,
    float32_integers,
    float64_constants,
    float64_integers,
    int64_integers,
)
from . import general as slow_path
from . import modes, primitive
from .device import held
from .general import as_floating, general, quietly, recovered, rescued, run_raw, target_of
from .modes import local, off
from .nodes import MultipleNode, Node, attach_outputs, differentiable, settle
from .overrides import plain, reflected
from .primitive import Op
from .promotion import holds_numpy, promote_beside, promote_some, python_scalars
from .promotion import promote as promote_pair
from .saved import refuse_inference
from .tensor import STALE, TensorBase, View, ours, tick
from .views import note_view, refresh, shares, unrecorded_view

# Set once, when the Tensor class exists: core makes tensors without importing it.
Tensor: type[TensorBase] = TensorBase
make: Callable[[], Any] = TensorBase

# `Tensor` while every call may take the fast path, else None: one comparison with a value's type checks both.
usual: type[TensorBase] | None = None

# The last code object seen to be the program's own: most ops come from the same function as the one before.
program: CodeType | None = None

# One entry for each backward pass that is being recorded, in any thread; and the function that returns whether this
# thread is in a rule of one, and on which line the program started it (the engine sets it).
recorded_passes: dict[Any, None] = {}
pass_place: Callable[[], tuple[CodeType | None, int] | None] = lambda: None

ndarray, generic, asarray = np.ndarray, np.generic, np.asarray
getframe = sys._getframe
f32 = np.dtype("float32")
f64 = np.dtype("float64")
i64, _WORD = np.dtype("int64"), 1 << 63
_RAW = frozenset((ndarray, float, int, np.float32, np.float64))  # what rules hand each other, but for an op's first


# A NaN or infinity is a value here, not a warning (see the filter in adjoint/__init__.py). Where the
# program has turned warnings into errors, the recorders run the kernel again without them (`quietly`).


modes.follower = sys.modules[__name__]


def outside(frame: FrameType) -> tuple[CodeType | None, int]:
    """Return the code and instruction of the innermost frame that is the program's own, from `frame` on."""
    global program
    code = frame.f_code
    if recorded_passes and code.co_filename in ours and (place := pass_place()) is not None:
        return place
    while code is not program and code.co_filename in ours:
        back = frame.f_back
        if back is None:
            break
        frame = back
        code = frame.f_code
    program = code
    return code, frame.f_lasti


def fill(
    n: Node,
    op: Op,
    edges: tuple[Any, ...],
    saved: Sequence[Any] | None,
    targets: Sequence[Any] | None,
    frame: FrameType,
) -> Any:
    """Fill the slots of the node of a call that was made from `frame`, or from a function that the program called."""
    n.op = op
    n.edges = edges
    n.stamp = tick()
    n.saved = saved
    n.targets = targets
    n.extra = None
    code = frame.f_code
    if code is program:
        n.code = code
        n.lasti = frame.f_lasti
    else:
        n.code, n.lasti = outside(frame)
    return n


slow_path.fill = fill


def unary(op: Op) -> Kernel:
    """Return the recorder of an op of one input and no parameters."""
    if op.saves.derived:
        return lambda input, out=None: _into(out, general(op, (input,), ()))
    kernel, pick, variants = op.kernel, op.saves.pickers[0], op.variants
    floating, recorded = op.traits.floating, op.rules[0] is not None

    def call(input: Any, excess: Any = None, out: Any = None) -> Any:  # on `excess` see _written
        if type(input) is not usual or out is not None or excess is not None:
            if modes.unusual or out is not None or excess is not None or type(input) not in plain:
                if type(input) is ndarray and not modes.unusual and out is None and excess is None:  # in a rule
                    try:
                        return kernel(input)
                    except Exception:
                        return run_raw(op, (input,), ())
                return _written(op, (input,), excess, out)
        a = input.array
        d = a.dtype
        if floating and d is not f32 and d is not f64:
            a = as_floating(a)
        try:
            c = kernel(a) if type(a) is ndarray else variants[type(a)].kernel(a)
        except RuntimeWarning:
            c = quietly(kernel, a)
        except Exception as error:
            return rescued(op, error, (input,), ())
        if type(c) is not ndarray:
            if isinstance(c, generic):
                c = asarray(c)
            else:
                d = None  # on a device, for whose arrays there is a variant of the op
                if type(c) not in held:
                    c = settle(c)
        out = make()
        out.array = c
        out._grad = out.lineage = out.memory = None
        e = input.node
        if e is None or (off and not local.grad) or not recorded:
            out.node = None
            return out
        if e is STALE:
            e = refresh(input)
        out.node = n = Node()
        n.op = op if d is f32 or d is f64 else op.variant(c)
        n.edges = (e,)
        n.stamp = tick()
        if pick is None:
            n.saved = None
        else:
            n.saved = (pick((a, c)),)
            if modes.inferred:
                refuse_inference(n, (input,))
        n.targets = n.extra = None
        f: Any = getframe(1)
        code = f.f_code
        if code is program:
            n.code = code
            n.lasti = f.f_lasti
        else:
            n.code, n.lasti = outside(f)
        return out

    return call


def binary_of_shapes(op: Op) -> Kernel:
    """Return the recorder of an op of two inputs that do not broadcast."""
    return binary(op, False)


def binary(op: Op, broadcast: bool = True) -> Kernel:
    """Return the recorder of an op of two inputs that promote, and no parameters."""
    unrecorded = op.rules == (None, None)
    if op.traits.promotes is not True or op.saves.derived or (None in op.rules and not unrecorded):
        return _named(op)
    pick_x, pick_y = op.saves.pickers
    kernel, saves, variants, floating = op.kernel, any(op.saves.indexes), op.variants, op.traits.floating

    def call(input: Any, other: Any, excess: Any = None, out: Any = None) -> Any:
        if type(input) is not usual or out is not None or excess is not None:
            if modes.unusual or out is not None or excess is not None or type(input) not in plain:
                return _written(op, (input, other), excess, out)
        a = input.array
        d = a.dtype
        t = type(other)
        mixed = False
        if t is Tensor or (t is not float and t is not int and t in plain):
            b = other.array
            ey = other.node
            sized = broadcast
            if d is not b.dtype:
                a, b = promote_pair(a, b)
                mixed = True
        elif d is f32 and (t is float or t is int):
            ey = None
            sized = False
            b = (float32_constants if t is float else float32_integers)[other] if type(a) is ndarray else other
        elif d is f64 and (t is float or t is int):
            ey = None
            sized = False
            b = (float64_constants if t is float else float64_integers)[other] if type(a) is ndarray else other
        elif d is i64 and t is int and type(a) is ndarray and -_WORD <= other < _WORD:
            ey = None
            sized = False
            b = int64_integers[other]
        elif isinstance(other, TensorBase):  # of a subclass, whose handler must be checked
            return general(op, (input, other), ())
        else:
            ey = None
            sized = False
            try:
                a, b = promote_beside(a, other)
            except TypeError as error:
                return reflected(op.name, input, other, error)
            mixed = True
        if floating and a.dtype is not f32 and a.dtype is not f64:
            a, b = as_floating(a), as_floating(b)
        try:
            c = kernel(a, b) if type(a) is ndarray else variants[type(a)].kernel(a, b)
        except RuntimeWarning:
            c = quietly(kernel, a, b)
        except Exception as error:
            c = recovered(op, error, (input, other), (a, b), ())
        if type(c) is not ndarray:
            if isinstance(c, generic):
                c = asarray(c)
            else:
                d = None  # on a device, for whose arrays there is a variant of the op
                if type(c) not in held:
                    c = settle(c)
        out = make()
        out.array = c
        out._grad = out.lineage = out.memory = None
        ex = input.node
        if unrecorded or (ex is None and ey is None) or (off and not local.grad):
            out.node = None
            return out
        if ex is STALE:
            ex = refresh(input)
        if ey is STALE:
            ey = refresh(other)
        if mixed and not differentiable(c.dtype):
            out.node = None
            return out
        out.node = n = Node()
        n.op = op if not mixed and (d is f32 or d is f64) else op.variant(c)
        n.edges = (ex, ey)
        n.stamp = tick()
        if saves:
            env = (a, b, c)
            n.saved = (
                None if ex is None or pick_x is None else pick_x(env),
                None if ey is None or pick_y is None else pick_y(env),
            )
            if modes.inferred:
                refuse_inference(n, (input, other))
        else:
            n.saved = None
        n.targets = (target_of(input), target_of(other)) if mixed or (sized and a.shape != b.shape) else None
        n.extra = None
        f: Any = getframe(1)
        code = f.f_code
        if code is program:
            n.code = code
            n.lasti = f.f_lasti
        else:
            n.code, n.lasti = outside(f)
        return out

    return call


def parametric(op: Op) -> Kernel:
    """Return the recorder of an op of one input and parameters."""
    if op.traits.floating:
        return _named(op)
    if op.traits.outputs or op.saves.hidden:
        return _of_any_number(op)
    kernel, pick, derived, variants = op.kernel, op.saves.pickers[0], op.saves.derived, op.variants
    view, varies = op.traits.view, op.traits.holomorphic
    only_shape, recorded, always = derived == ((0, "shape"),), op.rules[0] is not None, view == "always"

    def call(input: Any, *params: Any) -> Any:
        if modes.unusual or (type(input) is not Tensor and type(input) not in plain):
            if type(input) is ndarray and not modes.unusual:  # in a rule
                try:
                    return kernel(input, *params)
                except Exception:
                    return run_raw(op, (input,), params)
            return general(op, (input,), params)
        a = input.array
        try:
            c = kernel(a, *params) if type(a) is ndarray else variants[type(a)].kernel(a, *params)
        except RuntimeWarning:
            c = quietly(kernel, a, *params)
        except Exception as error:
            return rescued(op, error, (input,), params)
        if type(c) is not ndarray:
            c = asarray(c) if isinstance(c, generic) else settle(c)
        d = c.dtype
        if d is f64 and a.dtype is not f64 and holds_numpy(params):
            return call(input, *python_scalars(params))
        out = make()
        out.array = c
        out._grad = out.lineage = out.memory = None
        recording = not off or local.grad
        if view and (always or shares(c, a)):
            note_view(out, input, op, params, View.NORMAL if recording else View.NO_GRAD)
        e = input.node
        if e is None or not recording or not recorded:
            out.node = None if e is None or recording or out.lineage is None else unrecorded_view(out)
            return out
        if e is STALE:
            e = refresh(input)
        out.node = n = Node()
        n.op = op if type(c) is ndarray and (d is f32 or d is f64 or not varies) else op.variant(c)
        n.edges = (e,)
        n.stamp = tick()
        if pick is None:
            n.saved = None
        else:
            if only_shape:
                env: Any = (a, c, *params, a.shape)
            else:
                env = (a, c, *params, *[getattr(a, w) for _, w in derived]) if derived else (a, c, *params)
            n.saved = (pick(env),)
            if modes.inferred:
                refuse_inference(n, (input,))
        n.targets = n.extra = None
        f: Any = getframe(1)
        code = f.f_code
        if code is program:
            n.code = code
            n.lasti = f.f_lasti
        else:
            n.code, n.lasti = outside(f)
        return out

    return call


def nary(op: Op) -> Kernel:
    """Return the recorder of an op of several inputs."""
    traits = op.traits
    if traits.floating or (traits.outputs and traits.promotes) or (traits.view and not traits.outputs):
        return _named(op)
    few = len(op.inputs) in (2, 3) and not op.saves.hidden and not traits.outputs
    return _of_two_or_three(op) if few else _of_any_number(op)


_MISSING: Any = object()


def _of_two_or_three(op: Op) -> Kernel:
    """Return the recorder of an op of two or three inputs and one output: `_of_any_number` without its loops.

    The third argument is an input or the first parameter. The kernel of a `variadic` op takes its inputs in a tuple.
    """
    promoted, saves, joint, sequence, varies = _promoted(op), op.saves, op.joint, op.sequence, op.traits.holomorphic
    three, joined, saving, derived = len(op.inputs) == 3, sequence is not None, any(saves.indexes), saves.derived
    kernel = op.kernel if three or sequence is None else sequence.kernel
    pick_x, pick_y, pick_z = (*saves.pickers, None, None)[:3]
    flows_x, flows_y, flows_z = (*[rule is not None for rule in op.rules], False)[:3]
    choice = promoted == (1, 2)  # as `where`: the first input does not take part
    shape_x = derived == ((0, "shape"),)
    shapes = derived == ((0, "shape"), (1, "shape")) and len(op.params) == 1 and not three  # as `cat`

    def call(x: Any, y: Any, z: Any = _MISSING, *params: Any, out: Any = None) -> Any:
        if modes.unusual or out is not None:
            return _into(out, general(op, *_arguments(three, x, y, z, params)))
        a, b, c = x, y, z
        ex = ey = ez = None
        t = type(x)
        mine = t is Tensor or t in plain
        if mine:
            a = x.array
            if flows_x:
                ex = x.node
        elif t is ndarray and type(y) in _RAW and (type(z) in _RAW if three else not joined):  # in a rule
            try:
                return kernel(x, y) if z is _MISSING else kernel(x, y, z, *params) if params else kernel(x, y, z)
            except Exception:
                return run_raw(op, *_arguments(three, x, y, z, params))
        elif isinstance(x, TensorBase):
            return general(op, *_arguments(three, x, y, z, params))
        t = type(y)
        if t is Tensor or t in plain:
            mine = True
            b = y.array
            if flows_y:
                ey = y.node
        elif isinstance(y, TensorBase):
            return general(op, *_arguments(three, x, y, z, params))
        if three:
            t = type(z)
            if t is Tensor or t in plain:
                mine = True
                c = z.array
                if flows_z:
                    ez = z.node
            elif isinstance(z, TensorBase):
                return general(op, (x, y, z), params)
        if not mine:
            return run_raw(op, *_arguments(three, x, y, z, params))
        mixed = promoted and not (
            type(b) is ndarray
            and (choice or (type(a) is ndarray and a.dtype is b.dtype))
            and (not three or (type(c) is ndarray and c.dtype is b.dtype))
        )
        if mixed:
            if three:
                a, b, c = _one_dtype([a, b, c], promoted)
            else:
                a, b = _one_dtype([a, b], promoted)
        try:
            if joined and not three:
                run = kernel if type(a) is ndarray else sequence.kernel_for((a, b))  # type: ignore[union-attr]
                r = run((a, b)) if c is _MISSING else run((a, b), c, *params) if params else run((a, b), c)
            else:
                run = kernel if type(a) is ndarray else op.kernel_for((a, b, c))
                r = run(a, b, c, *params) if params else run(a, b) if c is _MISSING else run(a, b, c)
        except RuntimeWarning:
            inputs, given = _arguments(three, a, b, c, params)
            r = quietly(op.kernel, *inputs, *given)
        except Exception as error:
            return rescued(op, error, *_arguments(three, x, y, z, params))
        if type(r) is not ndarray:
            r = settle(r)
        d = r.dtype
        if d is f64 and a.dtype is not f64:
            inputs, given = _arguments(three, x, y, z, params)
            if given and holds_numpy(given):
                return call(*inputs, *python_scalars(given))
        out = make()
        out.array = r
        out._grad = out.lineage = out.memory = None
        if (
            (ex is None and ey is None and ez is None)
            or (off and not local.grad)
            or not (d is f32 or d is f64 or differentiable(d))
        ):
            out.node = None
            return out
        if ex is STALE:
            ex = refresh(x)
        if ey is STALE:
            ey = refresh(y)
        env: Any = None
        saved: Any = None
        targets: Any = None
        if three:
            if ez is STALE:
                ez = refresh(z)
            edges: Any = (ex, ey, ez)
            if mixed or (
                promoted and not joined and not (b.shape == c.shape == r.shape and (not flows_x or a.shape == r.shape))
            ):
                targets = (target_of(x), target_of(y), target_of(z))
            if saving:
                env = (a, b, c, r, *params) if params else (a, b, c, r)
        else:
            edges = (ex, ey)
            if mixed or (promoted and not joined and (a.shape != r.shape or b.shape != r.shape)):
                targets = (target_of(x), target_of(y))
            if shapes:
                env = (a, b, r, c, a.shape, b.shape)
            elif saving:
                env = (a, b, r, c, *params) if params else (a, b, r) if c is _MISSING else (a, b, r, c)
        if env is not None:
            if shape_x:
                env = (*env, a.shape)
            elif derived and not shapes:
                env = (*env, *[getattr((a, b, c)[i], what) for i, what in derived])
            saved = (
                (pick_x(env),)  # type: ignore[misc]
                if joint
                else (
                    None if ex is None or pick_x is None else pick_x(env),
                    None if ey is None or pick_y is None else pick_y(env),
                    None if ez is None or pick_z is None else pick_z(env),
                )
                if three
                else (
                    None if ex is None or pick_x is None else pick_x(env),
                    None if ey is None or pick_y is None else pick_y(env),
                )
            )
        used = op if type(r) is ndarray and (d is f32 or d is f64 or not varies) else op.variant(r)
        out.node = n = fill(Node(), used, edges, saved, targets, getframe(1))
        if modes.inferred and saving:
            refuse_inference(n, (x, y, z))
        return out

    return call


def _arguments(three: bool, x: Any, y: Any, z: Any, params: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the inputs and parameters of an op of two or three inputs."""
    return ((x, y, z), params) if three else ((x, y), () if z is _MISSING else (z, *params))


def _of_any_number(op: Op) -> Kernel:
    """Return the recorder of an op of any number of inputs and outputs."""
    whole, promoted, saves, rules = op.whole, _promoted(op), op.saves, op.rules
    arity, joined, varies, hides = len(op.inputs), op.sequence is not None, op.traits.holomorphic, bool(saves.hidden)
    several, view, derived, saved_outputs = op.traits.outputs, op.traits.view, saves.derived, saves.outputs
    saving, lone, only_shape = any(saves.indexes), saves.pickers[0], derived == ((0, "shape"),)
    flows = rules[0] is not None
    if len(saves.pickers) > 1:
        lone = None

    def call(*args: Any, out: Any = None, reveals: bool = False) -> Any:
        params = args[arity:]
        if modes.unusual or out is not None:
            return _into(out, general(op, args[:arity], params))
        if arity == 1 and type(x := args[0]) is Tensor:
            e = x.node if flows else None
            if e is STALE and (not off or local.grad):
                e = refresh(x)
            values, edges, live = [x.array], [e], e is not None
        else:
            taken = _taken(args, rules)
            if taken is None:
                return general(op, args[:arity], params)
            values, edges, live = taken
        if promoted:
            values = _one_dtype(values, promoted)
        try:
            c = (whole if type(values[0]) is ndarray else op.form_for(values).whole)(*values, *params)
        except RuntimeWarning:
            c = quietly(whole, *values, *params)
        except Exception as error:
            return rescued(op, error, args[:arity], params)
        if hides:
            hidden = c[1:]
            params = (*hidden, *params)
            c = c[0]
        recording = not off or local.grad
        outs: list[Any] = []
        for array in c if several else (c,):
            out = make()
            out.array = array if type(array) is ndarray else settle(array)
            out._grad = out.lineage = out.memory = out.node = None
            if view and shares(array, values[0]):
                note_view(out, args[0], op, (*params, len(outs)), View.MULTIPLE if recording else View.NO_GRAD)
                if live and not recording:
                    out.node = unrecorded_view(out)
            outs.append(out)
        if not live or not recording or not outs:
            return tuple(outs) if several else (out, hidden) if reveals else out
        first = outs[0].array
        d = first.dtype
        if not (several or d is f32 or d is f64 or differentiable(d)):
            return (out, hidden) if reveals else out
        saved = targets = None
        if saving:
            result: Any = first
            if several:
                result = tuple([
                    o.array if saved_outputs is None or i in saved_outputs else None for i, o in enumerate(outs)
                ])  # fmt: skip
            if only_shape:
                env: Any = (*values, result, *params, values[0].shape)
            else:
                env = (*values, result, *params, *[getattr(values[i], what) for i, what in derived])
            saved = (lone(env),) if lone is not None else saves.save(edges, env)
        if promoted:
            for e, x, v in zip(edges, args, values):
                if e is not None and (v.dtype is not x.array.dtype or (v.shape != first.shape and not joined)):
                    targets = tuple([target_of(x) for x in args[:arity]])
                    break
        used = op if type(first) is ndarray and (d is f32 or d is f64 or not varies) else op.variant(first)
        n = fill(MultipleNode() if several else Node(), used, tuple(edges), saved, targets, getframe(1))
        if modes.inferred and saving:
            refuse_inference(n, args)
        if not several:
            out.node = n
            return (out, hidden) if reveals else out
        n.metas = tuple([(o.array.shape, o.array.dtype) for o in outs])
        attach_outputs(n, outs)
        return tuple(outs)

    return call


def _promoted(op: Op) -> tuple[int, ...]:
    """Return the positions of the inputs that promote to one dtype."""
    promotes = op.traits.promotes
    return tuple(range(len(op.inputs))) if promotes is True else promotes or ()


def _taken(args: tuple[Any, ...], rules: Sequence[Any]) -> tuple[list[Any], list[Any], bool] | None:
    """Return the values and edges of an op's inputs, and whether a gradient can flow; None: call `general`."""
    values, edges = [], []
    mine = live = False
    for x, rule in zip(args, rules):
        t = type(x)
        if t is Tensor or t in plain:
            values.append(x.array)
            mine = True
            e = None if rule is None else x.node
            if e is not None:
                live = True
                if e is STALE and (not off or local.grad):
                    e = refresh(x)
            edges.append(e)
        elif isinstance(x, TensorBase):
            return None
        else:
            values.append(x)
            edges.append(None)
    return (values, edges, live) if mine else None


def _one_dtype(values: list[Any], which: Sequence[int]) -> list[Any]:
    """Return the operands, those at positions `which` in their common dtype."""
    dtype = None
    for i in which:
        v = values[i]
        if type(v) is ndarray:
            if dtype is None:
                dtype = v.dtype
            elif v.dtype is not dtype:
                break
        elif type(v) is not float and type(v) is not int:
            break
    else:
        if dtype is f32 or dtype is f64:
            constants = float32_constants if dtype is f32 else float64_constants
            for i in which:
                if type(values[i]) is not ndarray:
                    values[i] = constants[values[i]]
            return values
    return list(promote_some(tuple(values), tuple(which)))


def _named(op: Op) -> Kernel:
    """Return the recorder of an op that always takes the general path."""
    arity = len(op.inputs)

    def call(*args: Any, out: Any = None) -> Any:
        if arity == 1 and type(args[0]) is ndarray and out is None and not modes.unusual:  # in a rule
            try:
                return op.kernel(*args)
            except Exception:
                return run_raw(op, args[:1], args[1:])
        return _into(out, general(op, args[:arity], args[arity:]))

    return call


def _written(op: Op, args: tuple[Any, ...], excess: object, out: Any) -> Any:
    """Run an op the slow way, into `out` if there is one.

    `out` is meant to be given by name. Python binds a keyword-only parameter slowly (25 ns a call), so in
    the recorders a spare one stands before it, which takes whatever is given by position.
    """
    if excess is not None:
        count = len(args)
        raise TypeError(f"{op.name}() takes {count} positional argument{'s' * (count > 1)} but {count + 1} were given")
    if out is None and not modes.unusual and type(args[0]) is ndarray and type(args[1]) in _RAW:  # in a rule
        return run_raw(op, args, ())
    return _into(out, general(op, args, ()))


def _into(out: Any, result: Any) -> Any:
    return result if out is None else primitive.into(out, result)
