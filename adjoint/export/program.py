"""`captured`: a forward pass as a list of primitives for all sizes of its dynamic axes, with the names of its modules.

The pass runs on real values, once for its own sizes and once more for each dynamic size, each run being written down by
the compiler's capture. Numbers that differ between the runs follow from sizes of inputs or of values (sizes.py). What
does not is refused with the line of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from .. import tree
from ..autograd.grad_mode import no_grad
from ..compiler.capture import Tracer
from ..compiler.graph import GUARD, WRITE, Graph, Step, Value
from ..core import nodes
from ..core.nodes import wrap
from ..core.observation import run_opaque
from ..core.payload import top_payload
from ..core.tensor import TensorBase
from ..nn.modules.hooks import register_module_forward_hook, register_module_forward_pre_hook
from ..nn.modules.module import Module
from ..ops.rows import is_class_p
from ..ops.shape import cast_p, reshape_p
from ..ops.windows import Taps
from .constants import Generated, generated
from .sizes import Dim, Expression, Solver, Varying, near

__all__ = ["DETACH", "Call", "ExportError", "Program", "captured"]


class ExportError(RuntimeError):
    """A program cannot be exported: the message names the op and the line of the program."""


class Call:
    """One line of a program: ``outputs = op(*operands, *params)``.

    Attributes
    ----------
    op
        A primitive or a `Step`.
    operands, params
        As in the compiler's graph, with `Varying` where a number differs between runs.
    place, scope
        The line of the program, and the path of the module that ran it.
    """

    __slots__ = ("op", "operands", "outputs", "params", "place", "scope")

    def __init__(self, op: Any, operands: Any, params: Any, outputs: Sequence[Value], place: str, scope: str) -> None:
        self.op, self.operands, self.params, self.outputs = op, tuple(operands), tuple(params), tuple(outputs)
        self.place, self.scope = place, scope

    @property
    def name(self) -> str:
        """The name of the op."""
        return str(self.op.name)

    @property
    def inputs(self) -> list[Value]:
        """The operands that are values."""
        return [o for o in self.operands if isinstance(o, Value)]


class Program:
    """A forward pass, for all sizes of its dynamic axes.

    Attributes
    ----------
    inputs, input_names
        The values of the tensors among the arguments.
    dims
        By input, the dynamic axes and their `Dim`.
    state
        The value of each parameter and buffer that is used, by its name.
    constants
        By value, an array or a `Generated`.
    calls, outputs
        The list, and what is returned, flattened: values, numbers, and `Varying` for sizes.
    writes
        Pairs of the value of an input, parameter or buffer that the program writes in place, and what it holds then.
    takes, returns, given
        The trees of arguments and result, and the flattened arguments, with values for tensors.
    shapes
        By value, sizes: ints or `Varying`.
    """

    def __init__(self) -> None:
        self.inputs: list[Value] = []
        self.input_names: list[str] = []
        self.dims: list[dict[int, Dim]] = []
        self.state: dict[str, Value] = {}
        self.constants: dict[Value, Any] = {}
        self.calls: list[Call] = []
        self.outputs: list[Any] = []
        self.writes: list[tuple[Value, Value]] = []
        self.given: list[Any] = []
        self.takes: Any = None
        self.returns: Any = None
        self.shapes: dict[Value, tuple[Any, ...]] = {}
        self.tensors: dict[str, Any] = {}  # the parameters and buffers themselves
        self.alike: dict[str, str] = {}  # of tied parameters, the name under which the other is in `state`

    def prune(self) -> set[Value]:
        """Leave the calls that the outputs and writes need, and return the values that these do."""
        wanted = {o for o in self.outputs if isinstance(o, Value)} | {v for pair in self.writes for v in pair}
        left = []
        for call in reversed(self.calls):
            if any(v in wanted for v in call.outputs):
                wanted.update(call.inputs)
                left.append(call)
        self.calls = left[::-1]
        return wanted


DETACH = Step("detach", lambda array: array)  # the same elements, without history


class _Pass(Tracer):
    """Records a forward pass, also inside of `vmap`, and which module ran each line."""

    def __init__(self, args: Any, kwargs: Any, paths: Mapping[int, str]) -> None:
        super().__init__(args, kwargs)
        self.paths, self.scope = paths, [""]
        self.scopes: dict[Value, str] = {}
        self.detached: list[Any] = []  # arrays

    def call(self, op: Any, inputs: tuple[Any, ...], params: tuple[Any, ...], run: Callable[..., Any]) -> Any:
        """Write down a call; of bare arrays, too, as the level inside of a transform computes with these."""
        bare = not self.depth and top_payload(inputs) is None and not any(isinstance(v, TensorBase) for v in inputs)
        if not bare or not any(self.knows(v) for v in inputs):
            return super().call(op, inputs, params, run)
        operands = tuple(map(self.operand, inputs))
        self.depth += 1
        try:
            result = self.proceed(op, inputs, params, run)
        finally:
            self.depth -= 1
        self.record(op, operands, params, result if op.outputs else (result,), inputs)
        return result

    def record(self, op: Any, operands: Any, params: Any, results: Any, inputs: Any) -> None:
        """Add the line of a call, and note its module."""
        start = len(self.graph.lines)
        super().record(op, operands, params, results, inputs)
        for line in self.graph.lines[start:]:
            for value in line.outputs:
                self.scopes[value] = self.scope[-1]

    def opaque(self, name: str, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Write down a function of arrays; `one_hot` of a given number of classes as the comparison that it is."""
        if name != "one_hot" or self.depth or args[1] < 0 or not isinstance(args[0], TensorBase):
            return super().opaque(name, function, args)
        self.depth += 1
        try:
            run_opaque(function, args)  # which raises for labels that are no classes
        finally:
            self.depth -= 1
        labels, classes = args
        hot: Any = is_class_p(reshape_p(labels, (*labels.shape, 1)), classes)
        return cast_p(hot, np.dtype(np.int64)).array

    def cut(self, x: Any, out: Any, how: str) -> None:
        """Record that gradients stop: the result of `detach` gets separate memory, by which it is recognised."""
        super().cut(x, out, how)
        if self.depth or how != "detach()" or type(x.array) is not np.ndarray or type(out.array) is not np.ndarray:
            return
        memory = self.memories.find(x.array)
        if not x.requires_grad and (memory is None or memory.origin is not None or memory.constant):
            return  # no gradient flows there in any case
        value = self.operand(x)
        out.array = x.array.copy(order="K")
        self.detached.append(out.array)
        self.record(DETACH, (value,), (), (out.array,), (x,))

    def writes_to_detached(self) -> bool:
        """Return whether the program wrote in place to a result of `detach`, which shares its source's memory."""
        return any(m is not None and m.written for m in map(self.memories.find, self.detached))

    def enter(self, module: Any, *_: Any) -> None:
        """Note that a module begins."""
        self.scope.append(self.paths.get(id(module), self.scope[-1]))

    def leave(self, *_: Any) -> None:
        """Note that a module ends."""
        if len(self.scope) > 1:
            self.scope.pop()


def _run(module: Any, arguments: Any, paths: Mapping[int, str]) -> _Pass:
    args, kwargs = arguments
    tracer = _Pass(args, kwargs, paths)
    hooks = (
        register_module_forward_pre_hook(tracer.enter),
        register_module_forward_hook(tracer.leave, always_call=True),
    )
    try:
        with tracer, no_grad():
            result = module(*args, **kwargs)
    finally:
        for hook in hooks:
            hook.remove()
    tracer.finish(result)
    if tracer.writes_to_detached():
        raise ExportError("the program writes in place to the result of detach(): write to the tensor, or to a clone")
    if tracer.unable:
        raise ExportError(tracer.unable)
    return tracer


def captured(
    module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Sequence[Mapping[int, Dim]] | None = None
) -> Program:
    """Return a forward pass as a program; `dynamic` has the dynamic axes of each tensor among the arguments."""
    tensors = named_tensors(module)
    paths = {id(m): name for name, m in module.named_modules()} if isinstance(module, Module) else {}
    leaves, spec = tree.tree_flatten((args, kwargs))
    axes = list(dynamic or [])
    with _unchanged(module):
        first, others, start = _runs(module, _copied(leaves), spec, axes, paths)
        merger = _Merger(first, others, axes, tensors)
        tried = {(root, size) for root, size in start.items()}
        while more := merger.sizes_to_check(start) - tried:
            tried |= more
            for root, size in sorted(more, key=lambda pair: pair[1]):
                given = spec.unflatten(_resized(leaves, axes, {**start, root: size}))
                try:
                    others.append(_run(module, given, paths))
                except Exception:  # the program takes no such size
                    continue
            merger = _Merger(first, others, axes, tensors)
    return merger.program


def named_tensors(module: Any) -> dict[str, Any]:
    """Return the parameters and buffers of a module by their names, tied ones under each of theirs."""
    if not isinstance(module, Module):
        return {}
    parameters = dict(module.named_parameters(remove_duplicate=False))
    return {**parameters, **dict(module.named_buffers(remove_duplicate=False))}


def _runs(
    module: Any, leaves: list[Any], spec: Any, axes: Any, paths: Any
) -> tuple[_Pass, list[_Pass], dict[Dim, int]]:  # fmt: skip
    """Run the program at its own sizes, and at others of each dynamic size; return the runs and the first sizes."""
    roots, sizes = _roots(leaves, axes)
    start = {root: max(size, 2, root.min or 0) for root, size in sizes.items()}
    given = _resized(leaves, axes, start) if roots else leaves
    first = _run(module, spec.unflatten(given), paths)
    if not roots:
        return first, [], {}
    others, last = [], dict(start)
    for root in roots:
        pair, run = _other_size(module, leaves, spec, axes, paths, start, root)
        others.append(run)
        last[root] = pair
    # once more with all of them different: what was concluded must hold there, too
    others.append(_run(module, spec.unflatten(_resized(leaves, axes, last)), paths))
    return first, others, start


def _other_size(
    module: Any, leaves: Any, spec: Any, axes: Any, paths: Any, start: dict[Dim, int], root: Dim
) -> tuple[int, _Pass]:  # fmt: skip
    """Run with one size changed; return a third size for it, and the run."""
    error: Exception | None = None
    for one, two in near(start[root], root):
        try:
            return two, _run(module, spec.unflatten(_resized(leaves, axes, {**start, root: one})), paths)
        except Exception as problem:  # the program takes no such size
            error = error or problem
    raise ExportError(
        f"the dynamic size {root.__name__!r} cannot be other than {start[root]}: with another, the program raised "
        f"{type(error).__name__}: {error}" if error else
        f"the dynamic size {root.__name__!r} has no value between its bounds {root.min} and {root.max}"
    ) from error  # fmt: skip


def _roots(leaves: list[Any], axes: Any) -> tuple[list[Dim], dict[Dim, int]]:
    tensors = [leaf for leaf in leaves if isinstance(leaf, TensorBase)]
    sizes: dict[Dim, int] = {}
    for tensor, dims in zip(tensors, axes, strict=False):
        for axis, dim in dims.items():
            size = tensor.array.shape[axis]
            found = dim.root_of(size)
            _check_bounds(dim, found)
            if found is None or sizes.get(dim.root, found) != found:
                raise ExportError(
                    f"the sizes of the example do not agree with the dynamic size {dim.__name__!r}: an axis that has "
                    f"it is {size} long"
                )
            sizes[dim.root] = found
    return list(sizes), sizes


def _fits(dim: Dim, size: int) -> bool:
    """Return whether a size, of at least two, is within the bounds."""
    return max(dim.min or 0, 2) <= size and (dim.max is None or size <= dim.max)


def _check_bounds(dim: Dim, size: int | None) -> None:
    low, high = dim.root.min, dim.root.max
    if size is not None and ((low is not None and size < low) or (high is not None and size > high)):
        raise ExportError(
            f"{size}, the size of {dim.root.__name__!r} in the example, is not between its bounds {low} and {high}"
        )


def _resized(leaves: list[Any], axes: Any, sizes: Mapping[Dim, int]) -> list[Any]:
    """Return the arguments with other sizes: their elements again from the start, or fewer of them."""
    made, number = [], 0
    for leaf in leaves:
        if isinstance(leaf, TensorBase):
            dims = axes[number] if number < len(axes) else {}
            number += 1
            array = leaf.array
            for axis, dim in dims.items():
                array = array.take(np.arange(dim.size(sizes[dim.root])) % max(array.shape[axis], 1), axis)
            leaf = wrap(array) if dims else _copied([leaf])[0]
        made.append(leaf)
    return made


def _copied(leaves: list[Any]) -> list[Any]:
    """Return copies of the arguments, to which the program may write."""
    return [wrap(v.array.copy(order="K")) if type(v) is nodes.tensor_type else v for v in leaves]


@contextmanager
def _unchanged(module: Any) -> Iterator[None]:
    """Give the buffers of a module their elements back at the end: a run for export leaves no traces."""
    buffers = list(module.buffers()) if isinstance(module, Module) else []
    arrays = [np.copy(b.array) if type(b.array) is np.ndarray else None for b in buffers]
    try:
        yield
    finally:
        for buffer, array in zip(buffers, arrays, strict=True):
            if array is not None and not _same(buffer.array, array):
                with no_grad():
                    buffer.copy_(wrap(array))


class _Merger:
    """Makes one program of several runs."""

    def __init__(self, first: _Pass, others: list[_Pass], axes: Any, tensors: Mapping[str, Any]) -> None:
        self.first, self.graphs = first, [first.graph, *(o.graph for o in others)]
        self.program, self.solver = Program(), Solver()
        self.tensors, self.axes = tensors, axes
        self.now: dict[Value, tuple[Value, ...]] = {}  # by value of the first run, those of all
        lines = [self._lines(g) for g in self.graphs]
        self._inputs()
        self._body(lines)
        self._prune()

    def sizes_to_check(self, start: Mapping[Dim, int]) -> set[tuple[Dim, int]]:
        """Return other sizes at which the program must be checked, because a number was taken for a quotient of a size.

        One or two runs cannot distinguish quotients; as many consecutive sizes as the divisor can.
        """
        found: set[tuple[Dim, int]] = set()
        numbers = {v.number: dims for v, dims in zip(self.program.inputs, self.program.dims, strict=True)}
        steps = [(numbers[number][axis].root, step) for number, axis, step in self.solver.quotients]
        if self.solver.exact:  # of windows: formulas of their numbers differ at sizes further away
            found = {(root, size + by) for root, size in start.items() for by in (2, 5, 16, 33, size)}
        for root, step in steps:
            sizes = [start[root] + by for near in range(1, 4 * step) for by in (near, -near)]
            found |= {(root, size) for size in [s for s in sizes if _fits(root, s)][: 2 * step + 2]}
        return {(root, size) for root, size in found if _fits(root, size)}

    def _lines(self, graph: Graph) -> list[Any]:
        """Return the lines that compute; raise for one that reads values that depend on the arguments."""
        depends = set(graph.arguments)
        for line in graph.lines:
            if line.op is GUARD and line.operands[0] in depends:
                what = "the shape of a result" if line.params[0] == "shape" else f"{line.params[0]} of a tensor"
                raise ExportError(
                    f"the program depends on {what} that is computed of its inputs, at {line.place}: a file has one "
                    "path for all inputs; compute with tensors there (adjoint.where), or pass a Python number"
                )
            if any(v in depends for v in line.inputs):
                depends.update(line.outputs)
        self._note_writes(graph)
        return [line for line in graph.lines if line.is_call]

    def _note_writes(self, graph: Graph) -> None:
        written = {line.operands[0]: line.operands[1] for line in graph.lines if line.op is WRITE}
        graph.outputs = [written.get(o, o) if isinstance(o, Value) else o for o in graph.outputs]
        if graph is self.graphs[0]:
            self.program.writes = list(written.items())

    def _inputs(self) -> None:
        program, graph = self.program, self.graphs[0]
        for values in zip(*(g.arguments for g in self.graphs), strict=True):
            program.inputs.append(values[0])
            self._know(values, is_input=True)
        program.dims = [dict(self.axes[i]) if i < len(self.axes) else {} for i in range(len(program.inputs))]
        program.given, program.takes, program.returns = graph.given, graph.takes, graph.returns
        names: dict[int, str] = {}
        for name, tensor in self.tensors.items():
            first = names.setdefault(id(tensor), name)
            if first != name:
                program.alike[name] = first
        by_tensor = [{id(r.tensor): r for r in g.outside} for g in self.graphs]
        for reference in graph.outside:
            found = [by.get(id(reference.tensor)) for by in by_tensor]
            if None in found:
                continue  # of the other runs, one does not use it: then its line differs
            values = tuple(r.value for r in found if r is not None)
            name = names.get(id(reference.tensor), "")
            if not name or reference.attribute:
                name = f"constant_{len(program.state)}"
                names[id(reference.tensor)] = name
            program.state[name] = values[0]
            program.tensors[name] = reference.tensor
            self._know(values)

    def _know(self, values: tuple[Value, ...], is_input: bool = False) -> None:
        first = values[0]
        self.now[first] = values
        ranks = {len(v.shape) for v in values}
        if len(ranks) > 1:
            raise ExportError("a value has another number of axes at another size of the inputs")
        shape = tuple(self._merged(sizes, None) for sizes in zip(*(v.shape for v in values), strict=True))
        for axis, size in enumerate(shape):
            if isinstance(size, Varying) and size.expression is None:
                size.expression = ("axis", first.number, axis)  # it follows from nothing before
        self.program.shapes[first] = shape
        self.solver.know(first.number, shape, is_input)

    def _body(self, lines: list[list[Any]]) -> None:
        if len({len(found) for found in lines}) > 1:
            self._refuse_paths(lines)
        for same in zip(*lines, strict=True):
            first = same[0]
            if len({line.op.name for line in same}) > 1:
                self._refuse_paths(lines)
            for operands in zip(*(line.operands for line in same), strict=True):
                if isinstance(operands[0], Value) and operands[0] not in self.now:
                    self._constant(operands, first)
            self._suggest(same)
            given = [self._operand(o, first) for o in zip(*(line.operands for line in same), strict=True)]
            params = [self._merged(p, first) for p in zip(*(line.params for line in same), strict=True)]
            if len({len(line.outputs) for line in same}) > 1:
                self._refuse_paths(lines)
            for values in zip(*(line.outputs for line in same), strict=True):
                self._know(values)
            scope = self.first.scopes.get(first.outputs[0], "") if first.outputs else ""
            self.program.calls.append(Call(first.op, given, params, first.outputs, first.place, scope))
        for outputs in zip(*(g.outputs for g in self.graphs), strict=True):
            if isinstance(outputs[0], Value) and outputs[0] not in self.now:
                self._constant(outputs, None)
            if not isinstance(outputs[0], Value):
                outputs = (self._merged(outputs, None),)
            self.program.outputs.append(outputs[0])
        for _, value in self.program.writes:
            if value not in self.now:
                self._constant(tuple(self._written_like(value)), None)

    def _written_like(self, value: Value) -> Iterator[Value]:
        """Yield the values of the runs that are written where the first one writes `value`, a constant."""
        at = [v for _, v in self.program.writes].index(value)
        for graph in self.graphs:
            yield [line.operands[1] for line in graph.lines if line.op is WRITE][at]

    def _suggest(self, same: Sequence[Any]) -> None:
        """Suggest the numbers of windows along the axes of a convolution or pooling to the solver."""
        self.solver.suggested.clear()
        first = same[0]
        places = [_windows_of(line) for line in same]
        if not all(places) or first.operands[0] not in self.now:
            return
        x = first.operands[0]
        for i, parts in enumerate(zip(*places, strict=True)):
            axis = len(x.shape) - len(places[0]) + i
            if isinstance(self.program.shapes[x][axis], Varying):
                lengths = tuple(line.operands[0].shape[axis] for line in same)
                self.solver.suggest(tuple(p[0] for p in parts), lengths, ("axis", x.number, axis), *parts[0][1:])

    def _refuse_paths(self, lines: list[list[Any]]) -> None:
        for same in zip(*lines, strict=False):
            if len({(line.op.name, len(line.outputs)) for line in same}) > 1:
                other = next((line.op.name for line in same if line.op.name != same[0].op.name), "")
                raise ExportError(
                    f"the program calls {same[0].op.name} at {same[0].place} with some sizes of its dynamic axes, and "
                    f"{other or 'takes another number of results of it'} with others (a loop over a dynamic axis, or a "
                    "branch on a size): make that axis static"
                )
        last = max(lines, key=len)[-1]
        raise ExportError(
            "the program makes more calls with some sizes of its dynamic axes than with others, as a loop over a "
            f"dynamic axis or a branch on a size does; the last call at {last.place}: make that axis static"
        )

    def _operand(self, operands: tuple[Any, ...], line: Any) -> Any:
        if not isinstance(operands[0], Value):
            return self._merged(operands, line)
        if self.now[operands[0]] != operands:
            raise ExportError(
                f"{line.op.name} at {line.place} computes with other values at other sizes of the dynamic axes"
            )
        return operands[0]

    def _constant(self, values: tuple[Any, ...], line: Any) -> None:
        """Take in a constant: the same array in all runs, or one that can be generated for any size."""
        first = values[0]
        if first.kind != "constant":
            raise ExportError(f"a tensor is found outside in one run and not in another, at {line.place}")
        arrays = [v.array for v in values]
        if all(a is arrays[0] or _same(a, arrays[0]) for a in arrays):
            self._know(values)
            self.program.constants[first] = arrays[0]
            return
        found = generated(arrays, lambda numbers: self._merged(numbers, line))
        self._know(values)  # now: its sizes must follow from others than its own
        if found is None:
            raise ExportError(
                f"a constant {first.described}{f' at {line.place}' if line else ''} differs with the sizes of the "
                "dynamic axes, and is neither filled with one number, nor a range, nor a triangle: compute it with "
                "ops of the inputs, or make the axis static"
            )
        self.program.constants[first] = found

    def _merged(self, values: Sequence[Any], line: Any) -> Any:
        """Return the parameters of the runs merged: `Varying` where they differ."""
        first = values[0]
        if all(type(v) is type(first) for v in values):
            if isinstance(first, tuple | list):
                if len({len(v) for v in values}) == 1:
                    return type(first)(self._merged(v, line) for v in zip(*values, strict=True))
                return Varying(values)
            if isinstance(first, slice):
                parts = [(v.start, v.stop, v.step) for v in values]
                return slice(*(self._merged(p, line) for p in zip(*parts, strict=True)))
            if isinstance(first, np.ndarray):
                return first if all(_same(v, first) for v in values) else Varying(values)
            if all(v is first or v == first or (v != v and first != first) for v in values):
                return first
            if isinstance(first, int | np.integer) and not isinstance(first, bool):
                return Varying(values, self.solver.solve(tuple(int(v) for v in values)))
        return Varying(values, self._recipe(values, line) or _of_number(values, self.solver))

    def _recipe(self, values: Sequence[Any], line: Any) -> Expression | None:
        """Return how windows are made again: ``("taps", name of a function, arguments)``."""
        if not all(isinstance(v, Taps) and v.recipe is not None for v in values):
            return None
        kinds, args = zip(*(v.recipe for v in values), strict=True)
        if len(set(kinds)) > 1:
            return None
        merged = tuple(self._merged(parts, line) for parts in zip(*args, strict=True))
        known = all(not isinstance(a, Varying) or a.expression is not None for a in merged)
        return ("taps", kinds[0], merged) if known else None

    def _prune(self) -> None:
        """Remove lines that neither outputs nor writes need."""
        program = self.program
        wanted = program.prune()
        program.constants = {v: c for v, c in program.constants.items() if v in wanted}
        program.state = {name: v for name, v in program.state.items() if v in wanted}


def _windows_of(line: Any) -> list[tuple[int, int, int]]:
    """Return, for each axis, the number of windows, their stride, and what to add to the length before the division."""
    if line.op.name == "conv":
        stride, before, dilation, _, size = line.params
        kernel = line.operands[1].shape[2:]
        parts = zip(size, stride, before, dilation, kernel, strict=True)
        return [(n, s, 2 * p - d * (k - 1) - 1) for n, s, p, d, k in parts]
    plans = line.params[0] if line.params and isinstance(line.params[0], tuple) else ()
    found = []
    for plan in plans:
        if not isinstance(plan, Taps) or plan.recipe is None or plan.recipe[0] not in ("windows", "averages"):
            return []
        kind, (_, kernel, stride, padding, *rest) = plan.recipe
        dilation = rest[0] if kind == "windows" else 1
        found.append((plan.n_out, stride, 2 * padding - dilation * (kernel - 1) - 1))
    return found


def _of_number(values: Sequence[Any], solver: Solver) -> Expression | None:
    """Return how floats follow from a size, as the scale of attention does: ``("float", size, exponent)``."""
    if not all(type(v) is float and v > 0 for v in values):
        return None
    for exponent in (1.0, -1.0, 0.5, -0.5):
        roots = [round(v ** (1 / exponent)) for v in values]
        if all(abs(r**exponent - v) <= 1e-14 * v for r, v in zip(roots, values, strict=True) if r) and 0 not in roots:
            found = solver.solve(tuple(roots))
            if found is not None:
                return ("float", found, exponent)
    return None


def _same(a: Any, b: Any) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")


def names_of_inputs(module: Any, args: Any, kwargs: Any, count: int) -> list[str]:
    """Return what the tensors among the arguments go by: the parameters of `forward`, numbered inside of containers."""
    import inspect

    try:
        bound = inspect.signature(module.forward if isinstance(module, Module) else module).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return [f"input_{i + 1}" for i in range(count)]
    names: list[str] = []
    for name, value in bound.arguments.items():
        tensors = [v for v in tree.tree_leaves(value) if isinstance(v, TensorBase)]
        single = len(tensors) == 1 and isinstance(value, TensorBase)
        names += [name] if single else [f"{name}_{i}" for i in range(len(tensors))]
    return _unique(names) if len(names) == count else [f"input_{i + 1}" for i in range(count)]


def _unique(names: Iterable[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        number = sum(other == name or other.startswith(f"{name}_") for other in found)
        found.append(f"{name}_{number}" if name in found else name)
    return found


def is_step(op: Any) -> bool:
    """Return whether an op is none of the primitives, but a function that a capture has written down."""
    return isinstance(op, Step)


__all__ += ["Generated", "Varying", "is_step", "named_tensors", "names_of_inputs"]
