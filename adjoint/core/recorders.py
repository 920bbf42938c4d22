"""The recorders: what turns a declaration into the function that one calls, on the hot path.

Here alone speed outranks brevity. Everything that can be decided at declaration is; a call reads two
module-level words, runs the kernel, and, when a gradient can flow, fills one node. Whatever is not the
plain case (`modes.unusual`, a tensor subclass, operands of unequal dtype) goes to a slower, complete
path in `primitive` or `promotion`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from ..devices.cpu.constants import (
    float32_constants,
    float32_integers,
    float64_constants,
    float64_integers,
    int64_integers,
)
from ..devices.cpu.derived import formula as formula
from . import modes, primitive
from .device import held
from .modes import local, off
from .nodes import MultipleNode, Node, Output, differentiable, output, refuse_inference, settle
from .overrides import answered, plain
from .primitive import (
    Op,
    _run_raw,
    _target,
    as_floating,
    by_ufunc,
    general,
    getframe,
    parameters_of,
    quietly,
    recovered,
    rescued,
)
from .primitive import (
    Primitive as Primitive,
)
from .promotion import holds_numpy, promote_beside, promote_some, python_scalars
from .promotion import promote as promote_pair
from .tensor import STALE, TensorBase, View, ours, tick
from .views import note_view, refresh, shares, unrecorded_view

# Set once, when the Tensor class exists: core makes tensors without importing it.
Tensor: type[TensorBase] = TensorBase
make: Callable[[], Any] = TensorBase

# `Tensor` while nothing unusual is on, else None: one comparison with a value's type asks both questions.
usual: type[TensorBase] | None = None

# The last code object seen to be the program's own: most ops come from the same function as the one before.
program: Any = None

# One entry for each backward pass that is being recorded, in any thread, and what tells whether the thread is in a rule
# of one, and on which line the program started it (the engine sets it).
recorded_passes: dict[Any, None] = {}
pass_place: Callable[[], tuple[Any, int] | None] = lambda: None

ndarray, generic, asarray = np.ndarray, np.generic, np.asarray
f32 = np.dtype("float32")
f64 = np.dtype("float64")
i64, _WORD = np.dtype("int64"), 1 << 63
_RAW = frozenset((ndarray, float, int, np.float32, np.float64))  # what rules hand each other, but for an op's first

Rule = Callable[..., Any]


# A NaN or infinity is a value here, not a warning (see the filter in adjoint/__init__.py). Where the
# program has turned warnings into errors, the recorders run the kernel again without them (`quietly`).


modes.follower = sys.modules[__name__]


def outside(frame: Any) -> tuple[Any, int]:
    """Return the code and instruction of the innermost frame that is the program's own, from `frame` on."""
    global program
    code = frame.f_code
    if recorded_passes and code.co_filename in ours and (place := pass_place()) is not None:
        return place
    while code is not program and code.co_filename in ours:
        frame = frame.f_back
        code = frame.f_code
    program = code
    return code, frame.f_lasti


def _name_of(kernel: Any) -> str:
    return str(kernel.__name__).strip("_")


def unary(
    kernel: Any, x: Rule | None = None, *, name: str | None = None, floating: bool = False, **options: Any
) -> Primitive:
    """Declare a primitive of one input whose output has its shape; the rule is also the jvp."""
    op = Op(
        name or _name_of(kernel), kernel, ("x",), (), {"x": x} if x else {}, floating=floating,
        **{"jvp": "elementwise", "batch": "elementwise", "holomorphic": True, **options},
    )  # fmt: skip
    kernel, pick, variants = op.kernel, op.pickers[0], op.variants
    recorded = x is not None
    if op.derived:
        return _publish(op, lambda input, out=None: _into(out, general(op, (input,), ())))

    def call(input: Any, excess: Any = None, out: Any = None) -> Any:  # on `excess` see _written
        if type(input) is not usual or out is not None or excess is not None:
            if modes.unusual or out is not None or excess is not None or type(input) not in plain:
                if type(input) is ndarray and not modes.unusual and out is None and excess is None:  # in a rule
                    try:
                        return kernel(input)
                    except Exception:
                        return _run_raw(op, (input,), ())
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

    return _publish(op, call)


def binary(
    kernel: Any,
    x: Rule | None = None,
    y: Rule | None = None,
    *,
    name: str | None = None,
    promote: bool = True,
    floating: bool = False,
    broadcast: bool = True,
    **options: Any,
) -> Primitive:
    """Declare a primitive of two inputs that broadcast against each other, unless told otherwise."""
    rules = {k: r for k, r in (("x", x), ("y", y)) if r}
    op = Op(
        name or _name_of(kernel), kernel, ("x", "y"), (), rules, promotes=promote, floating=floating,
        **{"jvp": "elementwise", "batch": "elementwise", "holomorphic": True, **options},
    )  # fmt: skip
    pick_x, pick_y = op.pickers
    kernel, keeps, variants = op.kernel, any(op.keeps), op.variants
    if x is None and y is None and promote:
        return _publish(op, _unrecorded(op, kernel, floating))
    if x is None or y is None or op.derived or not promote:
        return _publish(op, _named(op))

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
        elif isinstance(other, TensorBase):  # of a subclass that must be asked
            return general(op, (input, other), ())
        else:
            ey = None
            sized = False
            try:
                a, b = promote_beside(a, other)
            except TypeError as error:
                return _reflected(op, input, other, error)
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
        if (ex is None and ey is None) or (off and not local.grad):
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
        if keeps:
            env = (a, b, c)
            n.saved = (
                None if ex is None or pick_x is None else pick_x(env),
                None if ey is None or pick_y is None else pick_y(env),
            )
            if modes.inferred:
                refuse_inference(n, (input, other))
        else:
            n.saved = None
        n.targets = (_target(input), _target(other)) if mixed or (sized and a.shape != b.shape) else None
        n.extra = None
        f: Any = getframe(1)
        code = f.f_code
        if code is program:
            n.code = code
            n.lasti = f.f_lasti
        else:
            n.code, n.lasti = outside(f)
        return out

    return _publish(op, call)


def elementwise(
    name: str, value: Rule, *, numbers: str = "", static: str = "", check: Any = None, **options: Any
) -> Primitive:
    """Declare a primitive by a formula of its elements: kernels for every device are printed from it.

    `value` and the rules (by the inputs' names) are written with operators, NumPy's ufuncs and other primitives. The
    parameters of `value` are the inputs, then `numbers` (Python's) and `static` parameters, by whose value the formula
    may branch. `check` is called with an array that is neither of float32 nor of float64 and the op's name, and raises
    if it is refused.
    """
    parameters = parameters_of(value)
    beside = {*numbers.split(), *static.split()}
    inputs = [n for n in parameters if n not in beside]
    kernel = formula(value, name=name, numbers=numbers, static=static, check=check)
    rules: dict[str, Any] = {
        i: _formula_of(options.pop(i), f"{name}_backward", numbers, static) for i in inputs if i in options
    }
    options = {"jvp": "elementwise", **options}
    if len(inputs) == 1:
        if not beside:
            return unary(kernel, name=name, **rules, **options)
        return parametric(kernel, name=name, **rules, **{"batch": "same", **options})
    if len(inputs) == 2 and not beside:
        return binary(kernel, name=name, **rules, **options)
    return nary(
        kernel, name=name, inputs=len(inputs), **rules,
        **{"batch": "elementwise", "promotes": True, "holomorphic": True, **options},
    )  # fmt: skip


_ONE_OPERATION = 14  # bytes of code of a rule such as ``lambda g, out: g * out``, which is as fast as can be


def _formula_of(rule: Rule, name: str, numbers: str, static: str) -> Rule:
    if len(rule.__code__.co_code) <= _ONE_OPERATION:
        return rule
    return formula(rule, name=name, numbers=numbers, static=static)


def _unrecorded(op: Op, kernel: Any, floating: bool) -> Callable[[Any, Any], Any]:
    """Return the function of a primitive of two inputs that has no gradient, such as a comparison."""
    variants = op.variants

    def call(input: Any, other: Any, excess: Any = None, out: Any = None) -> Any:
        if type(input) is not usual or out is not None or excess is not None:
            if modes.unusual or out is not None or excess is not None or type(input) not in plain:
                return _written(op, (input, other), excess, out)
        a = input.array
        d = a.dtype
        if type(other) is Tensor or type(other) in plain:
            b = other.array
            if d is not b.dtype:
                a, b = promote_pair(a, b)
        else:
            t = type(other)
            if d is f32 and (t is float or t is int):
                b = (float32_constants if t is float else float32_integers)[other] if type(a) is ndarray else other
            elif d is f64 and (t is float or t is int):
                b = (float64_constants if t is float else float64_integers)[other] if type(a) is ndarray else other
            elif d is i64 and t is int and type(a) is ndarray and -_WORD <= other < _WORD:
                b = int64_integers[other]
            elif isinstance(other, TensorBase):  # of a subclass that must be asked
                return general(op, (input, other), ())
            else:
                try:
                    a, b = promote_beside(a, other)
                except TypeError as error:
                    return _reflected(op, input, other, error)
        if floating and a.dtype is not f32 and a.dtype is not f64:
            a, b = as_floating(a), as_floating(b)
        try:
            c = kernel(a, b) if type(a) is ndarray else variants[type(a)].kernel(a, b)
        except RuntimeWarning:
            c = quietly(kernel, a, b)
        except Exception as error:
            c = recovered(op, error, (input, other), (a, b), ())
        out = make()
        out.array = c if type(c) is ndarray else settle(c)
        out._grad = out.lineage = out.memory = out.node = None
        return out

    return call


_REFLECTED = {
    "add": "__radd__", "sub": "__rsub__", "mul": "__rmul__", "div": "__rtruediv__", "pow": "__rpow__",
    "div_floor": "__rfloordiv__", "remainder": "__rmod__", "lt": "__gt__", "le": "__ge__", "gt": "__lt__",
    "ge": "__le__", "bitwise_and": "__rand__", "bitwise_or": "__ror__", "bitwise_xor": "__rxor__",
}  # fmt: skip


_METHODS = {
    "rsub": "__rsub__", "div_floor": "__floordiv__", "bitwise_and": "__and__", "bitwise_or": "__or__",
    "bitwise_xor": "__xor__", "bitwise_left_shift": "__lshift__", "bitwise_right_shift": "__rshift__",
}  # fmt: skip


def _reflected(op: Op, x: Any, y: Any, error: TypeError) -> Any:
    """Let an operand that is neither tensor nor number answer the operator, as Python would ask it to."""
    name = _REFLECTED.get(op.name, "")
    method = next((vars(kind)[name] for kind in type(y).__mro__ if name in vars(kind)), None)
    result = NotImplemented if method is None or isinstance(y, str) else method(y, x)
    if result is NotImplemented:
        result = answered(_METHODS.get(op.name, op.name), (x, y))
    if result is NotImplemented:
        raise error
    return result


def _written(op: Op, args: tuple[Any, ...], excess: Any, out: Any) -> Any:
    """Run an op the slow way, into `out` if there is one.

    `out` is meant to be given by name. Python binds a keyword-only parameter slowly (25 ns a call), so in
    the recorders a spare one stands before it, which takes whatever is given by position.
    """
    if excess is not None:
        count = len(args)
        raise TypeError(f"{op.name}() takes {count} positional argument{'s' * (count > 1)} but {count + 1} were given")
    if out is None and not modes.unusual and type(args[0]) is ndarray and type(args[1]) in _RAW:  # in a rule
        return _run_raw(op, args, ())
    return _into(out, general(op, args, ()))


def _into(out: Any, result: Any) -> Any:
    return result if out is None else primitive.into(out, result)


F = TypeVar("F", bound=Callable[..., Any])


def public(primitive: Callable[..., Any]) -> Callable[[F], F]:
    """Make a primitive itself the public function that the decorated signature and docstring describe.

    The body of the decorated function is only its docstring: calls go to the recorder, with no frame in
    between. Type checkers, `help` and `inspect.signature` see what is written.
    """

    def bind(described: F) -> F:
        primitive.__doc__ = described.__doc__
        primitive.__name__ = primitive.__qualname__ = described.__name__
        primitive.__module__ = described.__module__
        primitive.__wrapped__ = described  # type: ignore[attr-defined]
        return primitive  # type: ignore[return-value]

    return bind


def _publish(op: Op, call: Callable[..., Any]) -> Primitive:
    """Return the function that users and rules call, and let NumPy's ufunc protocol find it."""
    op.call = call
    call.__name__ = call.__qualname__ = f"{op.name}_p"
    call.op = op  # type: ignore[attr-defined]
    definition = getattr(op.kernel, "__wrapped__", op.kernel)
    if isinstance(definition, np.ufunc):
        by_ufunc[definition] = call
    return cast(Primitive, call)


def _split_names(kernel: Any, inputs: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    names = tuple(parameters_of(kernel))
    return names[:inputs], names[inputs:]


def parametric(
    kernel: Any, x: Rule | None = None, *, name: str | None = None, view: bool | str = False, **options: Any
) -> Primitive:
    """Declare a primitive of one input and fixed parameters, all positional: ``sum_p(x, axes, keepdims)``.

    With ``view=True`` the result is a view where the kernel's array looks at its input's memory; with
    ``view="always"`` it always does, and nobody looks.
    """
    _, params = _split_names(kernel, 1)
    op = Op(name or _name_of(kernel), kernel, ("x",), params, {"x": x} if x else {}, view=view, **options)
    if op.floating:
        return _publish(op, _named(op))
    if op.outputs or op.hidden:
        return _publish(op, (_several if op.outputs else _fixed)(op))
    kernel, pick, derived, variants = op.kernel, op.pickers[0], op.derived, op.variants
    only_shape, recorded, always = derived == ((0, "shape"),), x is not None, view == "always"
    varies = op.holomorphic

    def call(input: Any, *params: Any) -> Any:
        if modes.unusual or (type(input) is not Tensor and type(input) not in plain):
            if type(input) is ndarray and not modes.unusual:  # in a rule
                try:
                    return kernel(input, *params)
                except Exception:
                    return _run_raw(op, (input,), params)
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

    return _publish(op, call)


def nary(kernel: Any, *, name: str | None = None, inputs: int, joint: Rule | None = None, **options: Any) -> Primitive:
    """Declare a primitive of a fixed number of inputs, then parameters; a rule per input, by its name.

    Where the gradients share work, one `joint` rule returns all of them (it may name `needs`, a tuple
    that says which are wanted). With ``outputs=True`` the kernel returns a tuple, and each rule takes the list of
    the outputs' gradients (None where none arrived) in place of `g`.
    """
    names, params = _split_names(kernel, inputs)
    named = {k: options.pop(k) for k in names if k in options}
    op = Op(name or _name_of(kernel), kernel, names, params, named, joint=joint, **options)
    if op.floating or (op.outputs and op.promotes) or (op.view and not op.outputs):
        return _publish(op, _named(op))
    return _publish(op, (_several if op.outputs else _fixed)(op))


def _one_dtype(values: list[Any], which: Any) -> list[Any]:
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


def _fixed(op: Op) -> Callable[..., Any]:
    """Return the recorder of an op of several inputs and one output."""
    if len(op.inputs) in (2, 3) and not op.hidden:
        return (_two if len(op.inputs) == 2 else _three)(op, op.kernel)
    promoted, whole, hides = _promoted(op), op.whole, bool(op.hidden)
    arity, rules, pickers, derived, joint = len(op.inputs), op.rules, op.pickers, op.derived, op.joint
    keeps, joined, varies = any(op.keeps), op.sequence is not None, op.holomorphic

    def call(*args: Any, out: Any = None, reveals: bool = False) -> Any:
        if modes.unusual or out is not None:
            return _into(out, general(op, args[:arity], args[arity:]))
        taken = _taken(args, rules)
        if taken is None:
            return general(op, args[:arity], args[arity:])
        values, edges, live = taken
        params = args[arity:]
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
        if type(c) is not ndarray:
            c = settle(c)
        out = make()
        out.array = c
        out._grad = out.lineage = out.memory = out.node = None
        d = c.dtype
        if not live or (off and not local.grad) or not (d is f32 or d is f64 or differentiable(d)):
            return (out, hidden) if reveals else out
        out.node = n = Node()
        n.op = op if type(c) is ndarray and (d is f32 or d is f64 or not varies) else op.variant(c)
        n.edges = tuple(edges)
        n.stamp = tick()
        n.targets = n.extra = None
        if promoted:
            shape = c.shape
            for e, x, v in zip(edges, args, values):
                if e is not None and (v.dtype is not x.array.dtype or (v.shape != shape and not joined)):
                    n.targets = tuple([_target(x) for x in args[:arity]])
                    break
        if keeps:
            env = (*values, c, *params, *[getattr(values[i], what) for i, what in derived])
            if joint:
                n.saved = (pickers[0](env),)  # type: ignore[misc]
            else:
                n.saved = tuple([None if e is None or pick is None else pick(env) for e, pick in zip(edges, pickers)])
            if modes.inferred:
                refuse_inference(n, args)
        else:
            n.saved = None
        f: Any = getframe(1)
        code = f.f_code
        if code is program:
            n.code = code
            n.lasti = f.f_lasti
        else:
            n.code, n.lasti = outside(f)
        return (out, hidden) if reveals else out

    return call


def revealed(primitive: Primitive, *args: Any) -> tuple[Any, tuple[Any, ...]]:
    """Call a primitive, and return its result and hidden results: none where a mode or a transform is on."""
    found: Any = primitive(*args, reveals=True)
    return found if type(found) is tuple else (found, ())


def _promoted(op: Op) -> Any:
    """Return the positions of the inputs that promote to one dtype."""
    return tuple(range(len(op.inputs))) if op.promotes is True else op.promotes


def _taken(args: Any, rules: Any) -> tuple[list[Any], list[Any], bool] | None:
    """Return the values and edges of an op's inputs, and whether a gradient can flow; None: ask `general`."""
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


def _two(op: Op, kernel: Any) -> Callable[..., Any]:
    """Return the recorder of an op of two inputs and parameters: `_fixed` without its loops.

    The kernel of a `variadic` op takes both in a tuple.
    """
    promoted, derived, joint, single = _promoted(op), op.derived, op.joint, len(op.params) == 1
    pick_x, pick_y = (op.pickers[0], None) if joint else op.pickers
    keeps, joined, varies = any(op.keeps), op.sequence is not None, op.holomorphic
    shape_x, shapes = derived == ((0, "shape"),), derived == ((0, "shape"), (1, "shape"))
    flows_x, flows_y = [rule is not None for rule in op.rules]

    def call(x: Any, y: Any, *params: Any, out: Any = None) -> Any:
        if modes.unusual or out is not None:
            return _into(out, general(op, (x, y), params))
        ex = ey = None
        t = type(x)
        mine = t is Tensor or t in plain
        if mine:
            a = x.array
            if flows_x:
                ex = x.node
        elif t is ndarray and type(y) in _RAW and not joined:  # in a rule
            try:
                return kernel(x, y, *params)
            except Exception:
                return _run_raw(op, (x, y), params)
        else:
            a = x
        t = type(y)
        if t is Tensor or t in plain:
            b = y.array
            if flows_y:
                ey = y.node
        elif isinstance(y, TensorBase):
            return general(op, (x, y), params)
        else:
            if not mine and not isinstance(x, TensorBase):
                return _run_raw(op, (x, y), params)
            b = y
        if not mine and isinstance(x, TensorBase):
            return general(op, (x, y), params)
        mixed = promoted and not (type(a) is ndarray is type(b) and a.dtype is b.dtype)
        if mixed:
            a, b = _one_dtype([a, b], promoted)
        try:
            if joined:
                run = kernel if type(a) is ndarray else op.sequence.kernel_for((a, b))  # type: ignore[union-attr]
                c = run((a, b), params[0]) if single else run((a, b), *params)  # a star costs 0.1 µs
            else:
                c = (kernel if type(a) is ndarray else op.kernel_for((a, b)))(a, b, *params)
        except RuntimeWarning:
            c = quietly(op.kernel, a, b, *params)
        except Exception as error:
            return rescued(op, error, (x, y), params)
        if type(c) is not ndarray:
            c = settle(c)
        d = c.dtype
        if d is f64 and params and a.dtype is not f64 and holds_numpy(params):
            return call(x, y, *python_scalars(params))
        out = make()
        out.array = c
        out._grad = out.lineage = out.memory = None
        if (ex is None and ey is None) or (off and not local.grad) or not (d is f32 or d is f64 or differentiable(d)):
            out.node = None
            return out
        if ex is STALE:
            ex = refresh(x)
        if ey is STALE:
            ey = refresh(y)
        out.node = n = Node()
        n.op = op if type(c) is ndarray and (d is f32 or d is f64 or not varies) else op.variant(c)
        n.edges = (ex, ey)
        n.stamp = tick()
        n.targets = n.extra = None
        if mixed or (promoted and not joined and (a.shape != c.shape or b.shape != c.shape)):
            n.targets = (_target(x), _target(y))
        if keeps:
            if shape_x:
                env: Any = (a, b, c, *params, a.shape)
            elif shapes:
                env = (a, b, c, params[0], a.shape, b.shape) if single else (a, b, c, *params, a.shape, b.shape)
            else:
                env = (a, b, c, *params, *[getattr((a, b)[i], what) for i, what in derived])
            if joint:
                n.saved = (pick_x(env),)  # type: ignore[misc]
            else:
                n.saved = (
                    None if ex is None or pick_x is None else pick_x(env),
                    None if ey is None or pick_y is None else pick_y(env),
                )
            if modes.inferred:
                refuse_inference(n, (x, y))
        else:
            n.saved = None
        f: Any = getframe(1)
        code = f.f_code
        if code is program:
            n.code = code
            n.lasti = f.f_lasti
        else:
            n.code, n.lasti = outside(f)
        return out

    return call


def _three(op: Op, kernel: Any) -> Callable[..., Any]:
    """Return the recorder of an op of three inputs and parameters: `_fixed` without its loops."""
    promoted, derived, joint = _promoted(op), op.derived, op.joint
    pick_x, pick_y, pick_z = (op.pickers[0], None, None) if joint else op.pickers
    keeps, joined, varies = any(op.keeps), op.sequence is not None, op.holomorphic
    flows_x, flows_y, flows_z = [rule is not None for rule in op.rules]
    choice = promoted == (1, 2)

    def call(x: Any, y: Any, z: Any, *params: Any, out: Any = None) -> Any:
        if modes.unusual or out is not None:
            return _into(out, general(op, (x, y, z), params))
        a, b, c = x, y, z
        ex = ey = ez = None
        mine = False
        t = type(x)
        if t is Tensor or t in plain:
            mine = True
            a = x.array
            if flows_x:
                ex = x.node
        elif t is ndarray and type(y) in _RAW and type(z) in _RAW:  # in a rule
            try:
                return kernel(x, y, z, *params)
            except Exception:
                return _run_raw(op, (x, y, z), params)
        elif isinstance(x, TensorBase):
            return general(op, (x, y, z), params)
        t = type(y)
        if t is Tensor or t in plain:
            mine = True
            b = y.array
            if flows_y:
                ey = y.node
        elif isinstance(y, TensorBase):
            return general(op, (x, y, z), params)
        t = type(z)
        if t is Tensor or t in plain:
            mine = True
            c = z.array
            if flows_z:
                ez = z.node
        elif isinstance(z, TensorBase):
            return general(op, (x, y, z), params)
        if not mine:
            return _run_raw(op, (x, y, z), params)
        mixed = promoted and not (
            type(b) is ndarray is type(c)
            and b.dtype is c.dtype
            and (choice or (type(a) is ndarray and a.dtype is b.dtype))
        )
        if mixed:
            a, b, c = _one_dtype([a, b, c], promoted)
        try:
            run = kernel if type(a) is ndarray else op.kernel_for((a, b, c))
            r = run(a, b, c, *params) if params else run(a, b, c)
        except RuntimeWarning:
            r = quietly(kernel, a, b, c, *params)
        except Exception as error:
            return rescued(op, error, (x, y, z), params)
        if type(r) is not ndarray:
            r = settle(r)
        if params and r.dtype is f64 and a.dtype is not f64 and holds_numpy(params):
            return call(x, y, z, *python_scalars(params))
        out = make()
        out.array = r
        out._grad = out.lineage = out.memory = None
        d = r.dtype
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
        if ez is STALE:
            ez = refresh(z)
        out.node = n = Node()
        n.op = op if type(r) is ndarray and (d is f32 or d is f64 or not varies) else op.variant(r)
        n.edges = (ex, ey, ez)
        n.stamp = tick()
        n.targets = n.extra = None
        if mixed or (
            promoted and not joined and not (b.shape == c.shape == r.shape and (flows_x is False or a.shape == r.shape))
        ):
            n.targets = (_target(x), _target(y), _target(z))
        if keeps:
            if derived:
                env: Any = (a, b, c, r, *params, *[getattr((a, b, c)[i], what) for i, what in derived])
            else:
                env = (a, b, c, r, *params) if params else (a, b, c, r)
            if joint:
                n.saved = (pick_x(env),)  # type: ignore[misc]
            else:
                n.saved = (
                    None if ex is None or pick_x is None else pick_x(env),
                    None if ey is None or pick_y is None else pick_y(env),
                    None if ez is None or pick_z is None else pick_z(env),
                )
            if modes.inferred:
                refuse_inference(n, (x, y, z))
        else:
            n.saved = None
        f: Any = getframe(1)
        code = f.f_code
        if code is program:
            n.code = code
            n.lasti = f.f_lasti
        else:
            n.code, n.lasti = outside(f)
        return out

    return call


def _several(op: Op) -> Callable[..., Any]:
    """Return the recorder of an op of several outputs."""
    kernel = op.kernel
    arity, rules, pickers, derived, joint = len(op.inputs), op.rules, op.pickers, op.derived, op.joint
    keeps, kept, view, lone = any(op.keeps), op.keeps_outputs, op.view, arity == 1
    flows, only_shape = rules[0] is not None, derived == ((0, "shape"),)

    def call(*args: Any) -> Any:
        x = args[0]
        params = args[arity:]
        if modes.unusual:
            return general(op, args[:arity], params)
        if lone and (type(x) is Tensor or type(x) in plain):
            e = x.node if flows else None
            if e is STALE and (not off or local.grad):
                e = refresh(x)
            values, edges, live = [x.array], [e], e is not None
        else:
            taken = _taken(args, rules)
            if taken is None:
                return general(op, args[:arity], params)
            values, edges, live = taken
        try:
            arrays = (kernel if type(values[0]) is ndarray else op.kernel_for(values))(*values, *params)
        except RuntimeWarning:
            arrays = quietly(kernel, *values, *params)
        except Exception as error:
            return rescued(op, error, args[:arity], params)
        outs: list[Any] = []
        for array in arrays:
            out = make()
            out.array = array if type(array) is ndarray else settle(array)
            out._grad = out.lineage = out.memory = out.node = None
            if view and shares(array, values[0]):
                recording = not off or local.grad
                note_view(out, x, op, (*params, len(outs)), View.MULTIPLE if recording else View.NO_GRAD)
                if live and not recording:
                    out.node = unrecorded_view(out)
            outs.append(out)
        if not live or (off and not local.grad):
            return tuple(outs)
        n = MultipleNode()
        n.op = op.variant(outs[0].array) if op.holomorphic else op
        n.edges = tuple(edges)
        n.stamp = tick()
        n.targets = n.extra = None
        n.metas = tuple([(out.array.shape, out.array.dtype) for out in outs])
        if keeps:
            results = tuple([out.array if kept is None or i in kept else None for i, out in enumerate(outs)])
            if only_shape:
                env: Any = (*values, results, *params, values[0].shape)
            else:
                env = (*values, results, *params, *[getattr(values[i], what) for i, what in derived])
            if joint or lone:
                n.saved = (pickers[0](env),)  # type: ignore[misc]
            else:
                n.saved = tuple([None if e is None or pick is None else pick(env) for e, pick in zip(edges, pickers)])
            if modes.inferred:
                refuse_inference(n, args)
        else:
            n.saved = None
        code, lasti = outside(getframe(1))
        n.code = code
        n.lasti = lasti
        whole = (n,)
        for number in range(len(outs) - 1, -1, -1):  # as `nodes.attach_outputs`, without its calls
            out = outs[number]
            d = out.array.dtype
            if d is f32 or d is f64 or differentiable(d):
                out.node = o = Output()
                o.op = output
                o.edges = whole
                o.saved = o.targets = o.extra = None
                o.stamp = tick()
                o.index = number
                o.code = code
                o.lasti = lasti
        return tuple(outs)

    return call


def _named(op: Op) -> Callable[..., Any]:
    arity = len(op.inputs)

    def call(*args: Any, out: Any = None) -> Any:
        if arity == 1 and type(args[0]) is ndarray and out is None and not modes.unusual:  # in a rule
            try:
                return op.kernel(*args)
            except Exception:
                return _run_raw(op, args[:1], args[1:])
        return _into(out, general(op, args[:arity], args[arity:]))

    return call


_MOST_ARITIES = 256


def variadic(kernel: Any, xs: Rule, *, name: str | None = None, **options: Any) -> Primitive:
    """Declare a primitive of a sequence of inputs, then parameters: ``cat_p((a, b, c), axis)``.

    The kernel takes the tuple first. The one rule returns a gradient per input; after `g` it may name
    `xs`, `out`, the parameters, `xs_shape` (the tuple of the inputs' shapes), `x0_shape` and the like, and
    `xs_from_1` or `xs_from_2` (the inputs from that one on). ``NAME_p.of_arity(n)`` is the op of n inputs.
    """
    _, params = _split_names(kernel, 1)
    name = name or _name_of(kernel)
    shown = Op(name, kernel, (), params, {}, **options)
    of_arity: dict[int, Op] = {}
    calls: dict[int, Callable[..., Any]] = {}

    def with_arity(arity: int) -> Op:
        def flat(*args: Any) -> Any:
            xs = args[:arity]
            return shown.kernel_for(xs)(xs, *args[arity:])

        inputs = tuple([f"x{i}" for i in range(arity)])
        op = Op(name, flat, inputs, params, {}, joint=xs, sequence=shown, **options)
        op.call = _two(op, shown.kernel) if arity == 2 else _fixed(op)
        if arity <= _MOST_ARITIES:  # beyond, making it anew costs no more than the call itself
            calls[arity], of_arity[arity] = op.call, op
        return op

    def call(xs: Any, *params: Any) -> Any:
        return (calls.get(len(xs)) or with_arity(len(xs)).call)(*xs, *params)

    call.of_arity = lambda arity: of_arity.get(arity) or with_arity(arity)  # type: ignore[attr-defined]
    return _publish(shown, call)
