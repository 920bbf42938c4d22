"""``FlopCounterMode``: the floating-point operations of a program's matrix multiplications and convolutions.

Primitives are counted as they run, those of backward passes too, under the names of ATen's operators that do the same.
"""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from ..core import tasks
from ..core.observation import Observer
from ..core.tensor import TensorBase
from ..ops import overloads
from ..tree import tree_leaves, tree_map
from ._python_dispatch import aten_name
from .module_tracker import ModuleTracker

__all__ = ["FlopCounterMode", "register_flop_formula"]

aten: Any = overloads.namespace("aten")
Size = Sequence[int]

# How many operations an operator takes, a function of the shapes of its arguments and of its result, ``out_shape``.
flop_registry: dict[Any, Callable[..., int]] = {}


def get_shape(value: Any) -> Any:
    """Return the shape of a tensor, and anything else as it is."""
    return value.shape if isinstance(value, TensorBase) else value  # type: ignore[attr-defined]


def shape_wrapper(formula: Callable[..., int]) -> Callable[..., int]:
    """Return a formula of tensors, given one of their shapes."""

    @wraps(formula)
    def of_tensors(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        shapes, named, out_shape = tree_map(get_shape, (args, kwargs, out_val))
        return formula(*shapes, out_shape=out_shape, **named)

    return of_tensors


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Let a function say how many operations an operator, or each of several, takes.

    It gets the shapes of the operator's arguments and ``out_shape``; with `get_raw`, the arguments and ``out_val``.

    Examples
    --------
    >>> from adjoint.utils.flop_counter import FlopCounterMode, register_flop_formula
    >>> @register_flop_formula(adjoint.ops.aten.tan)
    ... def tan_flop(x_shape, *args, out_shape=None, **kwargs):
    ...     return x_shape.numel()
    >>> with FlopCounterMode(display=False) as counter:
    ...     _ = adjoint.ones(2, 3).tan()
    >>> counter.get_total_flops()
    6
    """

    def register(formula: Callable[..., int]) -> Callable[..., int]:
        formula = formula if get_raw else shape_wrapper(formula)
        for target in tree_leaves(targets):
            if not isinstance(target, overloads.OpOverloadPacket):
                raise ValueError(
                    "register_flop_formula(targets): expected each target to be OpOverloadPacket (i.e. "
                    f"torch.ops.mylib.foo), JitFunction, or HigherOrderOperator, got {target} which is of type "
                    f"{type(target)}"
                )
            if target in flop_registry:
                raise RuntimeError(f"duplicate registrations for {target}")
            flop_registry[target] = formula
        return formula

    return register


@register_flop_formula([aten.mm, aten.bmm])
def mm_flop(a_shape: Size, b_shape: Size, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Count the operations of a matrix multiplication, or of a batch of them."""
    return 2 * math.prod(a_shape) * b_shape[-1]


bmm_flop = mm_flop


@register_flop_formula([aten.addmm, aten.baddbmm])
def addmm_flop(self_shape: Size, a_shape: Size, b_shape: Size, out_shape: Any = None, **kwargs: Any) -> int:
    """Count the operations of a matrix multiplication; the addition is not counted."""
    return 2 * math.prod(a_shape) * b_shape[-1]


def conv_flop_count(x_shape: Size, w_shape: Size, out_shape: Size, transposed: bool = False) -> int:
    """Count the operations of a convolution: each weight is used at each place of the smaller image."""
    return 2 * x_shape[0] * math.prod((x_shape if transposed else out_shape)[2:]) * math.prod(w_shape)


@register_flop_formula([aten.convolution, aten._convolution])
def conv_flop(
    x_shape: Size, w_shape: Size, _bias: Any, _stride: Any, _padding: Any, _dilation: Any, transposed: bool,
    *args: Any, out_shape: Any = None, **kwargs: Any,
) -> int:  # fmt: skip
    """Count the operations of a convolution."""
    return conv_flop_count(x_shape, w_shape, out_shape, transposed)


@register_flop_formula(aten.convolution_backward)
def conv_backward_flop(
    grad_out_shape: Size, x_shape: Size, w_shape: Size, _bias: Any, _stride: Any, _padding: Any, _dilation: Any,
    transposed: bool, _output_padding: Any, _groups: int, output_mask: Sequence[bool], out_shape: Any = None,
    **kwargs: Any,
) -> int:  # fmt: skip
    """Count the operations of the gradients of a convolution: for the input, and for the weight, as for the value."""
    return sum(output_mask[:2]) * conv_flop_count(x_shape, w_shape, grad_out_shape, transposed)


# --- The primitives, as operators of ATen ---------------------------------------------------------------


def _product(x: Any, y: Any, out: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the operator that multiplies matrices, and the shapes it gets."""
    a, b = get_shape(x), get_shape(y)
    if len(a) > 2 and len(b) > 2:
        shape = get_shape(out)
        batch = math.prod(shape[:-2])
        return aten.bmm, ((batch, a[-2], a[-1]), (batch, b[-2], b[-1]))
    if len(a) == 2 and len(b) > 2:
        return aten.mm, (a, (b[-2], math.prod(b) // b[-2]))
    return aten.mm, ((math.prod(a[:-1]), a[-1]), b)


def _linear(x: Any, weight: Any, *bias: Any) -> tuple[Any, tuple[Any, ...]]:
    rows = (math.prod(get_shape(x)[:-1]), get_shape(x)[-1])
    columns = tuple(get_shape(weight))[::-1]
    return (aten.addmm, (get_shape(bias[0]), rows, columns)) if bias else (aten.mm, (rows, columns))


def _contraction(x: Any, y: Any, x_axes: Any, y_axes: Any, kept: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return a sum of products over axes that have names as a batch of matrix multiplications."""
    sizes = dict(zip((*x_axes, *y_axes), (*get_shape(x), *get_shape(y))))
    shared = [axis for axis in x_axes if axis in y_axes]

    def size(axes: Any) -> int:
        return math.prod(sizes[axis] for axis in axes)

    batch = [axis for axis in shared if axis in kept]
    summed = [axis for axis in shared if axis not in kept]
    m, n = (size([axis for axis in axes if axis not in shared]) for axes in (x_axes, y_axes))
    if not summed:
        return aten.mul, ()
    a, b = (m, size(summed)), (size(summed), n)
    return (aten.bmm, ((size(batch), *a), (size(batch), *b))) if batch else (aten.mm, (a, b))


def _convolution(op: Any, inputs: Any, params: Any, out: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return a convolution; inside of a backward pass, a gradient of one."""
    x, y = inputs[0], inputs[1]
    stride, padding, dilation = params[0], params[1], params[2]
    transposed = op.name == "conv_transpose"
    if op.name == "conv_weight":  # the gradient for a weight, of an image and the gradient of its convolution
        image = (get_shape(y), get_shape(x), get_shape(out))
        return aten.convolution_backward, (*image, None, stride, padding, dilation, False, 0, 1, [False, True, False])
    if tasks.running.tasks:  # the gradient for an image is the opposite convolution of that of its convolution
        image = (get_shape(x), get_shape(out), get_shape(y))
        mask = [True, False, False]
        return aten.convolution_backward, (*image, None, stride, padding, dilation, not transposed, 0, 1, mask)
    bias = get_shape(inputs[2]) if len(inputs) > 2 else None
    return aten.convolution, (get_shape(x), get_shape(y), bias, stride, padding, dilation, transposed)


def _operator(op: Any, inputs: Any, params: Any, out: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return what ATen calls a primitive, and the arguments it gets there."""
    if op.name in ("mm", "bmm", "matmul"):
        return _product(inputs[0], inputs[1], out)
    if op.name in ("linear", "project"):
        return _linear(*inputs)
    if op.name == "contract":
        return _contraction(*inputs[:2], *params[:3])
    if op.name in ("conv", "conv_transpose", "conv_weight"):
        return _convolution(op, inputs, params, out)
    return getattr(aten, aten_name(op)), (*inputs, *params)


class _Counter(Observer):
    """Counts the primitives that run, for a `FlopCounterMode`."""

    lifts = True

    def __init__(self, count: Callable[..., None]) -> None:
        self.count = count

    def call(self, op: Any, inputs: tuple[Any, ...], params: tuple[Any, ...], run: Callable[..., Any]) -> Any:
        """Run a primitive and count it, unless it is part of another's kernel: then its operands are arrays."""
        out = self.proceed(op, inputs, params, run)
        if not any(isinstance(x, TensorBase) for x in inputs):
            return out
        self.count(*_operator(op, inputs, params, out), out)
        return out


# --- The mode -------------------------------------------------------------------------------------------

suffixes = ["", "K", "M", "B", "T"]


def get_suffix_str(number: int) -> str:
    """Return the letter that a number is best written with."""
    return suffixes[max(0, min(len(suffixes) - 1, (len(str(number)) - 2) // 3))]


def convert_num_with_suffix(number: int, suffix: str) -> str:
    """Return a number in thousands, millions and so on."""
    return f"{number / 1000 ** suffixes.index(suffix):.3f}{suffix}"


def convert_to_percent_str(num: int, denom: int) -> str:
    """Return a fraction in percent."""
    return "0%" if denom == 0 else f"{num / denom:.2%}"


class FlopCounterMode:
    """A context that counts floating-point operations, module by module.

    Parameters
    ----------
    mods
        Not needed.
    depth
        How deep the table that is printed goes into modules.
    display
        Whether to print a table at the end.
    custom_mapping
        Further formulas, each a function of the shapes of an operator's arguments and of ``out_shape``.

    Examples
    --------
    >>> from adjoint.utils.flop_counter import FlopCounterMode
    >>> model = adjoint.nn.Linear(4, 5)
    >>> with FlopCounterMode() as counter:
    ...     model(adjoint.ones(3, 4)).sum().backward()
    Module           FLOP    % Total
    -------------  ------  ---------
    Linear            240    100.00%
     - aten.addmm     120     50.00%
     - aten.mm        120     50.00%
    >>> counter.get_total_flops()
    240
    """

    def __init__(
        self, mods: Any = None, depth: int = 2, display: bool = True, custom_mapping: dict[Any, Any] | None = None
    ) -> None:
        if mods is not None:
            warnings.warn("mods argument is not needed anymore, you can stop passing it", stacklevel=2)
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        self.depth, self.display = depth, display
        custom = {
            op: formula if getattr(formula, "_get_raw", False) else shape_wrapper(formula)
            for op, formula in (custom_mapping or {}).items()
        }
        self.flop_registry = {**flop_registry, **custom}
        self.mod_tracker = ModuleTracker()
        self.mode: _Counter | None = None

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts.clear()
        self.mod_tracker.__enter__()
        self.mode = _Counter(self._count)
        self.mode.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        assert self.mode is not None, "this context has not been entered"
        self.mode.__exit__(*error)
        self.mode = None
        self.mod_tracker.__exit__(*error)
        if self.display:
            print(self.get_table(self.depth))

    def _count(self, operator: Any, args: tuple[Any, ...], out: Any) -> None:
        formula = self.flop_registry.get(operator)
        if formula is not None:
            count = formula(*args, out_val=out)
            for name in self.mod_tracker.parents:
                self.flop_counts[name][operator] += count

    def get_total_flops(self) -> int:
        """Return how many operations there were."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """Return, for each module's path, how many operations each operator took."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """Return the counts as a table of modules, `depth` levels deep."""
        depth = self.depth if depth is None else depth
        total = self.get_total_flops()
        names = [name for name in sorted(self.flop_counts) if name != "Global"]
        shown = [name for name in names if depth is None or name.count(".") < depth]
        rows = [row for name in shown for row in self._rows(name, name.count("."), total)]
        if "Global" in self.flop_counts and not any(sum(self.flop_counts[name].values()) >= total for name in shown):
            rows = [*self._rows("Global", 0, total), *((f" {first}", *rest) for first, *rest in rows)]
        return _table([("Module", "FLOP", "% Total"), *(rows or [("Global", "0", "0%")])])

    def _rows(self, name: str, indent: int, total: int) -> list[tuple[str, ...]]:
        counts = self.flop_counts[name]
        titles = [(name, sum(counts.values())), *((f" - {operator}", count) for operator, count in counts.items())]
        suffix = get_suffix_str(total)
        numbers = [convert_num_with_suffix(n, suffix) if suffix else str(n) for _, n in titles]
        return [
            (" " * indent + title, number, convert_to_percent_str(n, total))
            for (title, n), number in zip(titles, numbers)
        ]


def _table(rows: list[tuple[str, ...]]) -> str:
    """Return rows under their header; all columns but the first are aligned on the right."""
    widths = [max(len(column[0]) + 2, *map(len, column)) for column in zip(*rows)]
    lines = ["  ".join("-" * width for width in widths)]
    cells = [[row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:]))] for row in rows]
    texts = ["  ".join(cell).rstrip() for cell in cells]
    return "\n".join([texts[0], *lines, *texts[1:]])
