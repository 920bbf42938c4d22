"""Machine code of fused loops: the text that `loops.py` writes, translated for LLVM and optimised.

The text is Python of a small kind: counted loops, elements of arrays, arithmetic with numbers of a known dtype. So its
translation is a walk over the syntax tree that computes what is known (functions, dtypes, constants) and writes an
instruction for what is not. Functions of `devices/cpu/mathematics.py` are written out where they are called.

Compared with Numba, which could compile the same text: a fifth of its time, none of its import where the code is on
disk; arrays that share no memory are known not to, and a call costs as much as a call of ctypes.
"""

from __future__ import annotations

import ast
import ctypes
import functools
import inspect
import math
import operator
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import binding, ir  # type: ignore[import-untyped, unused-ignore]

from .._typing import Kernel
from .loops import Kind

_f32, _f64, _bit, _byte, _i32, _word = (
    ir.FloatType(), ir.DoubleType(), ir.IntType(1), ir.IntType(8), ir.IntType(32), ir.IntType(64)
)  # fmt: skip
_pointer = ir.PointerType()
_DTYPES = {"float32": _f32, "float64": _f64, "bool": _byte, "int8": _byte, "int32": _i32, "int64": _word}
_CASTS = {np.float32: _f32, np.float64: _f64, np.int32: _i32, np.int64: _word, np.int8: _byte}
# What a program computes is rounded after every op, as it is eagerly: `x * y - (x * y).amax()` is 0 somewhere, and
# compensated sums stay compensated. Only sums over elements are taken in any order, and functions contracted.
_ROUNDED: tuple[str, ...] = ()
_SUMMED = ("reassoc", "nsz")
_FUNCTION = ("contract", "nsz")
# In LLVM itself, and vectorised; then those of libm, which are called for each element.
_INTRINSICS = {np.sqrt: "llvm.sqrt", np.floor: "llvm.floor", np.ceil: "llvm.ceil", np.trunc: "llvm.trunc"}
_LIBM: dict[Any, str] = {
    math.exp: "exp", math.tanh: "tanh", math.erf: "erf", math.erfc: "erfc", math.sin: "sin", math.cos: "cos",
    np.log: "log", np.log1p: "log1p", np.expm1: "expm1", np.log2: "log2", np.tan: "tan", np.arctan: "atan",
    np.arcsin: "asin", np.arccos: "acos", np.sinh: "sinh", np.cosh: "cosh", np.hypot: "hypot", operator.pow: "pow",
}  # fmt: skip
_FOLDED: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Pow: operator.pow, ast.LShift: operator.lshift, ast.RShift: operator.rshift, ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
}  # fmt: skip
_FLOATING = {ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul", ast.Div: "fdiv"}
_INTEGER = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul"}
_BITS = {ast.LShift: "shl", ast.RShift: "ashr", ast.BitAnd: "and_", ast.BitOr: "or_"}
_SIGNS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
_HEAD = object.__basicsize__  # where a NumPy array's own fields begin: data, rank, sizes, strides


class _Array:
    """An array in the text: where its elements are."""

    def __init__(self, writer: Writer, kind: Kind, header: ir.Value) -> None:
        self.kind, self.writer = kind, writer
        self.dtype = _DTYPES[kind.dtype]
        self.data = writer.word_at(header, _HEAD, _pointer)
        sizes, steps = (writer.word_at(header, _HEAD + 8 * i, _pointer) for i in (2, 3))
        self.shape = [writer.word_at(sizes, 8 * i) for i in range(kind.rank)]
        self.steps = [] if kind.dense else [writer.word_at(steps, 8 * i) for i in range(kind.rank)]

    def at(self, index: Sequence[Any]) -> Any:
        """Return the address of an element."""
        build = self.writer.build
        if self.kind.dense:
            offset: Any = None
            for i, size in zip(index, self.shape, strict=True):
                offset = i if offset is None else build.add(build.mul(offset, size, flags=("nsw",)), i, flags=("nsw",))
            return self.data if offset is None else build.gep(self.data, [offset], True, source_etype=self.dtype)
        place = self.data
        for axis, i in enumerate(index):
            if axis in self.kind.unit:
                place = build.gep(place, [i], True, source_etype=self.dtype)
            else:
                jump = build.mul(i, self.steps[axis], flags=("nsw",))
                place = build.gep(place, [jump], True, source_etype=_byte)
        return place


class _Scope:
    """The names that a piece of text knows: variables with a place, values, and Python's objects behind them."""

    def __init__(self, known: Callable[[str], Any], flags: tuple[str, ...], loops: bool = False) -> None:
        self.known, self.flags, self.loops = known, flags, loops
        self.values: dict[str, Any] = {}


class Writer:
    """Translates one function of loops."""

    def __init__(self, source: str, kinds: Sequence[Kind], symbol: str, names: dict[str, Any]) -> None:
        self.module = ir.Module(symbol)
        self.module.triple = binding.get_default_triple()
        function = ir.Function(self.module, ir.FunctionType(ir.VoidType(), [_pointer]), symbol)
        function.attributes.add("nounwind")
        self.entry = ir.IRBuilder(function.append_basic_block())  # variables live here
        self.build = ir.IRBuilder(function.append_basic_block())
        first = self.build.block
        self._name_memories(kinds)
        tree: Any = ast.parse(source).body[0]
        given = [a.arg for a in tree.args.args]
        scope = _Scope(lambda name: names[name] if name in names else _BUILTINS[name], _ROUNDED, loops=True)
        self.variables: dict[str, Any] = {}
        for i, name in enumerate(given):
            word = self.word_at(function.args[0], 8 * i, _pointer if i < len(kinds) else _word)
            scope.values[name] = _Array(self, kinds[i], word) if i < len(kinds) else word
        for statement in tree.body:
            self._do(statement, scope)
        self.build.ret_void()
        self.entry.branch(first)

    def _name_memories(self, kinds: Sequence[Kind]) -> None:
        """Prepare notes for LLVM on which arrays share no memory."""
        known = sorted({k.memory for k in kinds if k.memory is not None})
        domain = self.module.add_metadata(["memories"])
        scopes = {m: self.module.add_metadata([f"memory {m}", domain]) for m in known}
        self.memories = {m: self.module.add_metadata([s]) for m, s in scopes.items()}
        self.others = {m: self.module.add_metadata([s for o, s in scopes.items() if o != m]) for m in known}

    def _noted(self, access: ir.Instruction, memory: int | None) -> ir.Value:
        if memory is not None:
            access.set_metadata("alias.scope", self.memories[memory])
            access.set_metadata("noalias", self.others[memory])
        return access

    def word_at(self, address: ir.Value, offset: int, kind: ir.Type = _word) -> ir.Value:
        """Load a field at an offset in bytes from an address."""
        place = self.build.gep(address, [ir.Constant(_word, offset)], True, source_etype=_byte)
        return self.build.load(place, typ=kind)

    # --- statements ---

    def _do(self, node: ast.AST, scope: _Scope) -> None:
        if isinstance(node, ast.Assign):
            summed = scope.loops and _is_running_sum(node)
            value = self._binop(node.value, scope, _SUMMED) if summed else self.value(node.value, scope)
            self._assign(node.targets[0], value, scope)
        elif isinstance(node, ast.For):
            self._loop(node, scope)
        else:
            raise NotImplementedError(ast.dump(node))

    def _assign(self, target: Any, value: Any, scope: _Scope) -> None:
        if isinstance(target, ast.Tuple):
            for part, v in zip(target.elts, value, strict=True):
                self._assign(part, v, scope)
        elif isinstance(target, ast.Subscript):
            self._store(self.value(target.value, scope), target.slice, value, scope)
        elif scope.loops:  # the text of loops: may be assigned again in a loop
            self._keep(target.id, value)
        else:
            scope.values[target.id] = value

    def _keep(self, name: str, value: ir.Value) -> None:
        value = _typed(value)
        place = self.variables.get(name)
        if place is None or _is_float(place.allocated_type) != _is_float(value.type):
            place = self.variables[name] = self.entry.alloca(value.type)
        self.build.store(self.cast(value, place.allocated_type), place)

    def _store(self, array: _Array, index: Any, value: ir.Value, scope: _Scope) -> None:
        build = self.build
        if isinstance(index, ast.Constant) and index.value is ...:
            self._fill(array, _typed(value), [])
            return
        stored = self.cast(_typed(value), array.dtype)
        self._noted(build.store(stored, array.at(self._index(index, scope))), array.kind.memory)

    def _fill(self, array: _Array, value: ir.Value, index: list[Any]) -> None:
        if len(index) == array.kind.rank:
            stored = self.cast(value, array.dtype)
            self._noted(self.build.store(stored, array.at(index)), array.kind.memory)
            return
        self._count(ir.Constant(_word, 0), array.shape[len(index)], lambda i: self._fill(array, value, [*index, i]))

    def _loop(self, node: Any, scope: _Scope) -> None:
        bounds = [_typed(self.value(a, scope)) for a in node.iter.args]
        start, stop = bounds if len(bounds) == 2 else (ir.Constant(_word, 0), bounds[0])

        def body(i: Any) -> None:
            scope.values[node.target.id] = i
            for statement in node.body:
                self._do(statement, scope)

        self._count(start, stop, body)

    def _count(self, start: ir.Value, stop: ir.Value, body: Callable[[Any], None]) -> None:
        """Write a loop over a range."""
        build, function = self.build, self.build.function
        before = build.block
        head, inside, after = (function.append_basic_block() for _ in range(3))
        build.branch(head)
        build.position_at_end(head)
        i = build.phi(_word)
        i.add_incoming(start, before)
        build.cbranch(build.icmp_signed("<", i, stop), inside, after)
        build.position_at_end(inside)
        body(i)
        i.add_incoming(build.add(i, ir.Constant(_word, 1), flags=("nsw",)), build.block)
        build.branch(head)
        build.position_at_end(after)

    # --- expressions ---

    def value(self, node: Any, scope: _Scope) -> Any:
        """Return what an expression is: a Python object where that is known, else an instruction's result."""
        return getattr(self, f"_{type(node).__name__.lower()}")(node, scope)

    def _constant(self, node: ast.Constant, scope: _Scope) -> Any:
        return node.value

    def _name(self, node: ast.Name, scope: _Scope) -> Any:
        if node.id in scope.values:
            return scope.values[node.id]
        if scope.loops and node.id in self.variables:
            return self.build.load(self.variables[node.id], typ=self.variables[node.id].allocated_type)
        return scope.known(node.id)

    def _attribute(self, node: ast.Attribute, scope: _Scope) -> Any:
        return getattr(self.value(node.value, scope), node.attr)

    def _tuple(self, node: ast.Tuple, scope: _Scope) -> Any:
        return tuple(self.value(e, scope) for e in node.elts)

    def _index(self, node: Any, scope: _Scope) -> list[Any]:
        parts = node.elts if isinstance(node, ast.Tuple) else [node]
        return [self.cast(_typed(self.value(part, scope)), _word) for part in parts]

    def _subscript(self, node: ast.Subscript, scope: _Scope) -> Any:
        holder = self.value(node.value, scope)
        if not isinstance(holder, _Array):
            return holder[self.value(node.slice, scope)]
        loaded = self.build.load(holder.at(self._index(node.slice, scope)), typ=holder.dtype)
        self._noted(loaded, holder.kind.memory)
        return self.cast(loaded, _bit) if holder.kind.dtype == "bool" else loaded

    def _unaryop(self, node: ast.UnaryOp, scope: _Scope) -> ir.Value:
        value = self.value(node.operand, scope)
        if not isinstance(value, ir.Value):
            return not value if isinstance(node.op, ast.Not) else -value
        if isinstance(node.op, ast.Not):
            return self.build.not_(value)
        return self.build.fneg(value, flags=scope.flags) if _is_float(value.type) else self.build.neg(value)

    def _binop(self, node: Any, scope: _Scope, flags: tuple[str, ...] = ()) -> Any:
        x, y = self.value(node.left, scope), self.value(node.right, scope)
        kind = type(node.op)
        if not isinstance(x, ir.Value) and not isinstance(y, ir.Value):
            return _FOLDED[kind](x, y)
        x, y = self._alike(x, y)
        if kind is ast.Pow:
            return self._call_libm("pow", [x, y])
        if kind in _BITS:
            return getattr(self.build, _BITS[kind])(x, y)
        if _is_float(x.type):
            return getattr(self.build, _FLOATING[kind])(x, y, flags=flags or scope.flags)
        return getattr(self.build, _INTEGER[kind])(x, y, flags=("nsw",) if x.type == _word else ())

    def _boolop(self, node: ast.BoolOp, scope: _Scope) -> ir.Value:
        join = self.build.and_ if isinstance(node.op, ast.And) else self.build.or_
        values = [self._truth(self.value(v, scope)) for v in node.values]
        return functools.reduce(join, values)

    def _truth(self, value: ir.Value) -> ir.Value:
        return self.cast(value, _bit) if isinstance(value, ir.Value) else ir.Constant(_bit, bool(value))

    def _compare(self, node: ast.Compare, scope: _Scope) -> ir.Value:
        x, y = self._alike(self.value(node.left, scope), self.value(node.comparators[0], scope))
        sign = _SIGNS[type(node.ops[0])]
        if not _is_float(x.type):
            return self.build.icmp_signed(sign, x, y)
        return (self.build.fcmp_unordered if sign == "!=" else self.build.fcmp_ordered)(sign, x, y)

    def _ifexp(self, node: ast.IfExp, scope: _Scope) -> ir.Value:
        test = self._truth(self.value(node.test, scope))
        if _calls_libm(node.body, scope) or _calls_libm(node.orelse, scope):
            return self._branch(test, node, scope)
        # Both are computed, and one is chosen: that vectorises.
        x, y = self._alike(self.value(node.body, scope), self.value(node.orelse, scope))
        return self.build.select(test, x, y)

    def _branch(self, test: ir.Value, node: ast.IfExp, scope: _Scope) -> ir.Value:
        found = []
        with self.build.if_else(test) as (then, otherwise):
            for side, part in ((then, node.body), (otherwise, node.orelse)):
                with side:
                    value = _typed(self.value(part, scope))
                    found.append((value, self.build.block))
        chosen = self.build.phi(found[0][0].type)
        for value, block in found:
            chosen.add_incoming(value, block)
        return chosen

    def _call(self, node: ast.Call, scope: _Scope) -> ir.Value:
        function = self.value(node.func, scope)
        given = [self.value(a, scope) for a in node.args]
        if function in _CASTS:
            return self._converted(given[0], _CASTS[function])
        if function is abs:
            return self._intrinsic("llvm.fabs", given)
        if function in _INTRINSICS:
            return self._intrinsic(_INTRINSICS[function], given)
        if function in _LIBM:
            return self._call_libm(_LIBM[function], [_typed(v) for v in given])
        if getattr(function, "_name", "") in ("_as_float", "_as_bits"):
            return self.build.bitcast(given[0], _f32 if function._name == "_as_float" else _i32)
        return self._written_out(function.py_func, given)

    def _converted(self, value: ir.Value, kind: ir.Type) -> ir.Value:
        if isinstance(value, ir.Value):
            return self.cast(value, kind)
        if kind is _f32:
            return ir.Constant(kind, float(np.float32(value)))
        return ir.Constant(kind, float(value) if kind is _f64 else int(value))

    def _intrinsic(self, name: str, given: list[Any]) -> ir.Value:
        value = _typed(given[0])
        function = self.module.declare_intrinsic(name, [value.type])
        return self.build.call(function, [value])

    def _call_libm(self, name: str, given: list[Any]) -> ir.Value:
        kind = given[0].type
        name = name if kind is _f64 else f"{name}f"
        function = self.module.globals.get(name)
        if function is None:
            function = ir.Function(self.module, ir.FunctionType(kind, [kind] * len(given)), name)
            function.attributes.add("nounwind")
        return self.build.call(function, [self.cast(v, kind) for v in given])

    def _written_out(self, function: Any, given: list[Any]) -> ir.Value:
        """Write the lines of a function of numbers in place of its call."""
        tree = _tree(function)
        scope = _Scope(functools.partial(_found_by, function), _FUNCTION)
        scope.values = dict(zip((a.arg for a in tree.args.args), given, strict=True))
        for statement in tree.body:
            if isinstance(statement, ast.Return):
                return self.value(statement.value, scope)
            if not isinstance(statement, ast.Expr):  # a docstring
                self._do(statement, scope)
        raise NotImplementedError(f"{function.__name__} returns nothing")

    # --- types ---

    def _alike(self, x: ir.Value, y: ir.Value) -> tuple[Any, Any]:
        """Return two operands in one type; Python's numbers take that of the other."""
        if not isinstance(x, ir.Value) and not isinstance(y, ir.Value):
            return _typed(x), _typed(y)
        if not isinstance(x, ir.Value):
            return self._converted(x, y.type), y
        if not isinstance(y, ir.Value):
            return x, self._converted(y, x.type)
        wide = max((x.type, y.type), key=_rank)
        return self.cast(x, wide), self.cast(y, wide)

    def cast(self, x: ir.Value, kind: ir.Type) -> ir.Value:
        """Convert a value to a type."""
        build, was = self.build, x.type
        if was == kind:
            return x
        if kind == _bit:
            zero = ir.Constant(was, 0)
            return build.fcmp_unordered("!=", x, zero) if _is_float(was) else build.icmp_signed("!=", x, zero)
        if _is_float(kind):
            if _is_float(was):
                return build.fpext(x, kind) if kind is _f64 else build.fptrunc(x, kind)
            return build.uitofp(x, kind) if was == _bit else build.sitofp(x, kind)
        if _is_float(was):
            return build.fptosi(x, kind)
        if was.width > kind.width:
            return build.trunc(x, kind)
        return build.zext(x, kind) if was == _bit else build.sext(x, kind)


_BUILTINS: dict[str, Any] = {"abs": abs, "np": np}


def _is_running_sum(node: ast.Assign) -> bool:
    """Return whether an assignment adds to what it assigns to."""
    value = node.value
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Add):
        return False
    return ast.unparse(value.left) == ast.unparse(node.targets[0])


def _is_float(kind: ir.Type) -> bool:
    return kind is _f32 or kind is _f64


def _rank(kind: ir.Type) -> int:
    return {_f32: 100, _f64: 101}.get(kind) or int(kind.width)


def _typed(value: ir.Value) -> ir.Value:
    if isinstance(value, ir.Value):
        return value
    if isinstance(value, bool):
        return ir.Constant(_bit, value)
    return ir.Constant(_word if isinstance(value, int) else _f64, value)


@functools.cache
def _tree(function: Kernel) -> Any:
    return ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]


def _found_by(function: Any, name: str) -> Any:
    """Return what a name means in a function: what its closure has, or its module."""
    if name in function.__code__.co_freevars:
        return function.__closure__[function.__code__.co_freevars.index(name)].cell_contents
    found = function.__globals__.get(name, _BUILTINS.get(name))
    if found is None:
        raise NotImplementedError(f"{name} in {function.__name__}")
    return found


def _calls_libm(node: ast.AST, scope: _Scope) -> bool:
    """Return whether an expression calls a function that is not written out."""
    for call in ast.walk(node):
        if isinstance(call, ast.BinOp) and isinstance(call.op, ast.Pow):
            return True
        if isinstance(call, ast.Call):
            function = _callee(call.func, scope)
            if function in _LIBM or (hasattr(function, "py_func") and _body_calls_libm(function.py_func)):
                return True
    return False


def _callee(node: Any, scope: _Scope) -> Any:
    if isinstance(node, ast.Attribute):
        return getattr(_callee(node.value, scope), node.attr)
    return scope.known(node.id)


@functools.cache
def _body_calls_libm(function: Kernel) -> bool:
    scope = _Scope(functools.partial(_found_by, function), _FUNCTION)
    return any(_calls_libm(statement, scope) for statement in _tree(function).body)


# --- from instructions to machine code ------------------------------------------------------------------------


class Machine:
    """The machine that we run on: what code is optimised for, and where it is loaded."""

    def __init__(self) -> None:
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        features = binding.get_host_cpu_features().flatten()
        processor = f"{binding.get_default_triple()} {binding.get_host_cpu_name()} {features}"
        self.name = f"{binding.llvm_version_info} {processor}"
        target = binding.Target.from_default_triple()
        self.target = target.create_target_machine(cpu=binding.get_host_cpu_name(), features=features, opt=3, jit=True)
        self.engine = binding.create_mcjit_compiler(binding.parse_assembly(""), self.target)
        library = ctypes.CDLL({"linux": "libm.so.6", "win32": "ucrtbase"}.get(sys.platform))
        for name in _LIBM.values():
            for symbol in (name, f"{name}f"):
                binding.add_symbol(symbol, ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value)

    def compile(self, module: ir.Module) -> bytes:
        """Return the machine code of a module, as an object file."""
        parsed = binding.parse_assembly(str(module))
        parsed.verify()
        options = binding.create_pipeline_tuning_options(speed_level=3)
        options.slp_vectorization, options.loop_vectorization = False, True
        passes = binding.create_pass_builder(self.target, options)
        passes.getModulePassManager().run(parsed, passes)
        return bytes(self.target.emit_object(parsed))

    def load(self, code: bytes, symbol: str) -> int:
        """Load an object file, and return the address of its function."""
        self.engine.add_object_file(binding.ObjectFileRef.from_data(code))
        self.engine.finalize_object()
        return int(self.engine.get_function_address(symbol))


@functools.cache
def machine() -> Machine:
    """Return this machine."""
    return Machine()
