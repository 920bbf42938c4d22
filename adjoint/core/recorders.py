"""The declarations of primitives: a kernel and its rules become the function that one calls.

Which of the recorders in `fast_path.py` that function is follows from the number of inputs and parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from .._typing import Kernel
from ..devices.cpu.derived import formula as formula
from . import fast_path, modes
from .general import lowered
from .modes import local
from .primitive import Op, by_ufunc, parameters_of
from .primitive import Primitive as Primitive

Rule = Callable[..., Any]  # from the gradient of an output, and what is saved, to that of an input


def unary(kernel: Kernel, x: Rule | None = None, *, name: str | None = None, **options: Any) -> Primitive:
    """Declare a primitive of one input whose output has its shape; the rule is also the jvp."""
    options = {"jvp": "elementwise", "batch": "elementwise", "holomorphic": True, **options}
    return _declare(kernel, name, ("x",), (), {"x": x}, fast_path.unary, options)


def binary(
    kernel: Kernel,
    x: Rule | None = None,
    y: Rule | None = None,
    *,
    name: str | None = None,
    promote: bool = True,
    broadcast: bool = True,
    **options: Any,
) -> Primitive:
    """Declare a primitive of two inputs, which broadcast against each other by default."""
    options = {"jvp": "elementwise", "batch": "elementwise", "holomorphic": True, "promotes": promote, **options}
    recorder = fast_path.binary if broadcast else fast_path.binary_of_shapes
    return _declare(kernel, name, ("x", "y"), (), {"x": x, "y": y}, recorder, options)


def parametric(kernel: Kernel, x: Rule | None = None, *, name: str | None = None, **options: Any) -> Primitive:
    """Declare a primitive of one input and fixed parameters, all positional: ``sum_p(x, axes, keepdims)``.

    With ``view=True`` the result is a view where the kernel's array looks at its input's memory; with
    ``view="always"`` it always does, and nothing is checked.
    """
    return _declare(kernel, name, ("x",), _split_names(kernel, 1)[1], {"x": x}, fast_path.parametric, options)


def nary(kernel: Kernel, *, name: str | None = None, inputs: int, **options: Any) -> Primitive:
    """Declare a primitive of a fixed number of inputs, then parameters; a rule per input, by its name.

    Where the gradients share work, one `joint` rule returns all of them (it may name `needs`, a tuple
    that says which are wanted). With ``outputs=True`` the kernel returns a tuple, and each rule takes the list of
    the outputs' gradients (None where none arrived) in place of `g`.
    """
    names, params = _split_names(kernel, inputs)
    rules = {k: options.pop(k) for k in names if k in options}
    return _declare(kernel, name, names, params, rules, fast_path.nary, options)


_MOST_ARITIES = 256


def variadic(kernel: Kernel, xs: Rule, *, name: str | None = None, **options: Any) -> Primitive:
    """Declare a primitive of a sequence of inputs, then parameters: ``cat_p((a, b, c), axis)``.

    The kernel takes the tuple first. The one rule returns a gradient per input; after `g` it may name
    `xs`, `out`, the parameters, `xs_shape` (the tuple of the inputs' shapes), `x0_shape` and the like, and
    `xs_from_1` or `xs_from_2` (the inputs from that one on). ``NAME_p.of_arity(n)`` is the op of n inputs.
    """
    _, params = _split_names(kernel, 1)
    of_arity: dict[int, Op] = {}
    calls: dict[int, Kernel] = {}

    def with_arity(arity: int) -> Op:
        def flat(*args: object) -> Any:
            xs = args[:arity]
            return sequence.kernel_for(xs)(xs, *args[arity:])

        inputs = tuple([f"x{i}" for i in range(arity)])
        op = Op(sequence.name, flat, inputs, params, {}, fast_path.nary, joint=xs, sequence=sequence, **options)
        if arity <= _MOST_ARITIES:  # beyond, making it anew costs no more than the call itself
            calls[arity], of_arity[arity] = op.call, op
        return op

    def call(xs: Any, *params: object) -> Any:
        return (calls.get(len(xs)) or with_arity(len(xs)).call)(*xs, *params)

    call.of_arity = lambda arity: of_arity.get(arity) or with_arity(arity)  # type: ignore[attr-defined]
    made = _declare(kernel, name, (), params, {}, lambda op: call, options)
    sequence = made.op
    return made


def _declare(
    kernel: Kernel, name: str | None, inputs: tuple[str, ...], params: tuple[str, ...],
    rules: dict[str, Rule | None], recorder: Callable[[Op], Kernel], options: dict[str, Any],
) -> Primitive:  # fmt: skip
    """Return the function that users and rules call, and let NumPy's ufunc protocol find it."""
    given = {k: rule for k, rule in rules.items() if rule is not None}
    op = Op(name or str(kernel.__name__).strip("_"), kernel, inputs, params, given, recorder, **options)
    call: Any = op.call
    call.__name__ = call.__qualname__ = f"{op.name}_p"
    call.op = op
    definition = getattr(op.kernel, "__wrapped__", op.kernel)
    if isinstance(definition, np.ufunc):
        by_ufunc[definition] = call
    return cast(Primitive, call)


def _split_names(kernel: Kernel, inputs: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    names = tuple(parameters_of(kernel))
    return names[:inputs], names[inputs:]


def elementwise(
    name: str, value: Rule, *, numbers: str = "", static: str = "", check: Kernel | None = None, **options: Any
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


def _formula_of(rule: Rule, name: str, numbers: str, static: str) -> Kernel:
    if len(rule.__code__.co_code) <= _ONE_OPERATION:
        return rule
    return formula(rule, name=name, numbers=numbers, static=static)


def revealed(primitive: Primitive, *args: Any) -> tuple[Any, tuple[Any, ...]]:
    """Call a primitive, and return its result and hidden results: none where a mode but autocast is on."""
    found: Any
    if modes.unusual == 1 and local.autocast is not None and local.observer is None:
        inputs, params = args[: len(primitive.op.inputs)], args[len(primitive.op.inputs) :]
        found = lowered(primitive.op, local.autocast(primitive.op, inputs), params, reveals=True)
    else:
        found = primitive(*args, reveals=True)
    return found if type(found) is tuple else (found, ())


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
