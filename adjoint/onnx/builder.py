"""Builder: the nodes and weights of an ONNX graph, as the forms of primitives write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..compiler.graph import Value
from ..export.program import Call, Program
from ..export.sizes import Varying
from ..scalar.onnx import Unsupported

__all__ = ["END", "Builder", "Unsupported"]

END = np.iinfo(np.int64).max  # of a slice that goes to the end
_MOST_FOLDED = 1 << 20  # bytes; a larger constant is left to be computed


class Builder:
    """Writes nodes one after the other. Names of results are strings, as ONNX has them.

    `line` is the line of the program that is being written; nodes are named by its module.
    """

    def __init__(self, program: Program, opset: int) -> None:
        from onnx import helper

        self.program, self.opset, self.helper = program, opset, helper
        self.nodes: list[Any] = []
        self.weights: dict[str, Any] = {}  # by name, arrays
        self.names: dict[Value, str] = {}
        self.line: Call | None = None
        self._numbers = {v.number: v for v in program.shapes}
        self._taken: dict[str, int] = {}
        self._constants: dict[Any, str] = {}
        self._sizes: dict[Any, str] = {}

    # --- nodes ---

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Add a node of one result, and return the result's name."""
        return self.several(op, inputs, 1, **attributes)[0]

    def several(self, op: str, inputs: Sequence[str], count: int, **attributes: Any) -> list[str]:
        """Add a node of several results."""
        scope = self.line.scope.replace(".", "/") if self.line is not None else ""
        name = self.unique(f"/{scope}/{op}" if scope else f"/{op}")
        outputs = [f"{name}_output_{i}" for i in range(count)]
        node = self.helper.make_node(op, list(inputs), outputs, name, **attributes)
        self.nodes.append(node)
        return outputs

    def unique(self, name: str) -> str:
        """Return a name, numbered if it is taken."""
        number = self._taken.get(name, 0)
        self._taken[name] = number + 1
        return name if not number else self.unique(f"{name}_{number}")

    # --- operands ---

    def of(self, operand: Any, dtype: Any = None) -> str:
        """Return the name of an operand, brought to a dtype."""
        if isinstance(operand, Varying):
            return self._varying(operand, dtype)
        if not isinstance(operand, Value):
            return self.constant(operand, np.asarray(operand).dtype if dtype is None else dtype)
        name = self.names[operand]
        return name if dtype is None or operand.dtype == np.dtype(dtype) else self.cast(name, dtype)

    def _varying(self, operand: Varying, dtype: Any) -> str:
        said = operand.expression
        if isinstance(said, tuple) and said[0] == "float":
            size = self.cast(self.scalar(said[1]), np.float64 if dtype is None else dtype)
            exponent = said[2]
            if exponent == 1.0:
                return size
            root = self.node("Sqrt", size) if abs(exponent) == 0.5 else size
            return self.node("Reciprocal", root) if exponent < 0 else root
        if said is None:
            raise Unsupported(
                f"a number is {', '.join(map(str, operand.values[:3]))} at different sizes of the dynamic axes, and "
                "how it follows from them is not known"
            )
        return self.cast(self.scalar(said), np.int64 if dtype is None else dtype)

    def cast(self, name: str, dtype: Any) -> str:
        """Return a value in another dtype."""
        return self.node("Cast", name, to=self.kind(dtype))

    def kind(self, dtype: Any) -> int:
        """Return ONNX's number of a dtype."""
        try:
            return int(self.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
        except (KeyError, ValueError, TypeError):
            raise Unsupported(f"ONNX has no elements of dtype {np.dtype(dtype).name}") from None

    def constant(self, value: Any, dtype: Any = None) -> str:
        """Return the name of a constant."""
        array = np.asarray(value, dtype)
        key = (array.dtype.str, array.dtype.name, array.shape, array.tobytes())
        if key not in self._constants or array.nbytes > _MOST_FOLDED:
            self.kind(array.dtype)
            name = self.unique(_readable(array))
            self.weights[name] = array
            self._constants[key] = name
        return self._constants[key]

    # --- shapes ---

    def rank(self, operand: Any) -> int:
        """Return the number of axes of an operand."""
        return len(operand.shape) if isinstance(operand, Value) else 0

    def shape(self, value: Value) -> tuple[Any, ...]:
        """Return the sizes of a value: ints or `Varying`."""
        return self.program.shapes[value]

    def is_static(self, value: Value) -> bool:
        """Return whether a value always has the same shape."""
        return not any(isinstance(s, Varying) for s in self.shape(value))

    def ints(self, sizes: Sequence[Any]) -> str:
        """Return the name of a vector of sizes, some of which may vary."""
        if not any(isinstance(s, Varying) for s in sizes):
            return self.constant(np.asarray(sizes, np.int64).reshape(len(sizes)))
        parts, fixed = [], []
        for size in sizes:
            if not isinstance(size, Varying):
                fixed.append(size)
                continue
            if fixed:
                parts.append(self.ints(fixed))
                fixed = []
            parts.append(self.size(size))
        if fixed:
            parts.append(self.ints(fixed))
        return parts[0] if len(parts) == 1 else self.node("Concat", *parts, axis=0)

    def size(self, size: Any) -> str:
        """Return the name of a vector of one element, a size."""
        if not isinstance(size, Varying):
            return self.ints([size])
        if size.expression is None:
            raise Unsupported(
                f"a size is {', '.join(map(str, size.values[:3]))} at different sizes of the dynamic axes, and how it "
                "follows from them is not known"
            )
        return self.expression(size.expression)

    def expression(self, said: Any) -> str:
        """Return the name of a vector of one element that an expression gives (see `export.sizes`)."""
        if isinstance(said, int):
            return self.ints([said])
        if said not in self._sizes:
            kind, a, b = said
            if kind == "axis":
                name = self.names[self._numbers[a]]
                found = self.node("Shape", name, start=b, end=b + 1)
            else:
                op = {"add": "Add", "mul": "Mul", "floordiv": "Div"}[kind]
                found = self.node(op, self.expression(a), self.expression(b))
            self._sizes[said] = found
        return self._sizes[said]

    def scalar(self, said: Any) -> str:
        """Return an expression as a value without axes."""
        return self.node("Squeeze", self.expression(said), self.ints([0]))

    def reshaped(self, name: str, shape: Sequence[Any], source: Sequence[Any] = ()) -> str:
        """Return a value in another shape; `source` is the one it has, sizes of which may be copied from it."""
        same = [i < len(source) and _equal(source[i], s) for i, s in enumerate(shape)]
        unknown = [i for i, s in enumerate(shape) if isinstance(s, Varying) and not same[i]]
        if len(unknown) <= 1 and not any(s == 0 for s in shape if not isinstance(s, Varying)):
            said = [-1 if i in unknown else 0 if isinstance(s, Varying) else s for i, s in enumerate(shape)]
            return self.node("Reshape", name, self.ints(said))
        if any(isinstance(s, int) and s == 0 for s in shape):
            return self.node("Reshape", name, self.ints(shape), allowzero=1)
        return self.node("Reshape", name, self.ints(shape))

    def reversed(self, name: str, axes: Sequence[int]) -> str:
        """Return a value with the elements along some axes in reverse."""
        backwards = self.ints([-1] * len(axes))
        return self.node("Slice", name, backwards, self.ints([-END] * len(axes)), self.ints(axes), backwards)

    def transposed(self, name: str, order: Sequence[int]) -> str:
        """Return a value with its axes in another order."""
        if list(order) == list(range(len(order))):
            return name
        return self.node("Transpose", name, perm=[int(i) for i in order])


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, Varying) or isinstance(b, Varying):
        return isinstance(a, Varying) and isinstance(b, Varying) and a.values == b.values
    return bool(a == b)


def _readable(array: Any) -> str:
    if array.size == 1:
        text = f"{array.reshape(-1)[0]}"[:12]
        return f"constant_{array.dtype.name}_{text}"
    return f"constant_{array.dtype.name}_{'x'.join(map(str, array.shape))}"
