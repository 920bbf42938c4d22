"""Custom functions on payloads: flattened, called by the function's own rule, and rebuilt.

A function that is recorded at a level is one node there, whose backward runs on values of that level; its
forward is the same function one level down. So it means the same under any nest of transforms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from ..core import modes
from ..core.nodes import differentiable, wrap
from ..core.payload import Level, arguments, entered, grad_at, inside, payload_of, top_payload
from ..core.tensor import TensorBase
from ..core.views import edge_of
from ..ops.create_like import zeros_like
from ..ops.dimensions import movedim
from ..ops.shape import expand_p, reshape_p
from .batched import Batched, size_of
from .dual import Dual
from .traced import Traced

_GUIDE = "a forward without ctx and a setup_context(ctx, inputs, output) staticmethod"


class VmapInfo(NamedTuple):
    """What a function's vmap rule is given."""

    batch_size: int
    randomness: str


def apply_function(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a custom function of which some argument holds a payload."""
    # Custom functions stand below payloads, which run them level by level.
    from ..autograd.function import _apply

    top = top_payload(args)
    assert top is not None
    kind, level = type(top), top.level
    if isinstance(top, Traced):
        # A function is traced through: its forward's primitives become lines, its backward's too.
        return _apply(cls, args, kwargs)
    run = _LOWER.get(kind)
    if run is None:
        raise RuntimeError(f"{cls.__name__}: custom functions do not run on {kind.__name__}")
    grad = grad_at(level)

    def lower(*args: Any, **kwargs: Any) -> Any:
        was = modes.local.grad
        modes.set_grad(grad)
        modes.set_grad(grad_at(level - 1))
        try:
            return run(cls, args, kwargs, level)
        finally:  # by stores: see modes.py
            modes.off[modes.local.key], modes.local.grad = None, was
            if was:
                modes.off.pop(modes.local.key, None)

    recorded = [_of_level(a, level) and edge_of(a) is not None for a in args]
    if not (grad and any(recorded)):
        return lower(*args, **kwargs)
    if not cls._splits and kind is Dual:
        return _apply(cls, _raised(args, kind, level), {}, forward=_dual_of_context(cls, level))
    if not cls._splits:
        raise RuntimeError(
            "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it must "
            f"override the setup_context staticmethod: give {cls.__name__} {_GUIDE}."
        )
    return _apply(cls, _raised(args, kind, level), kwargs, forward=lower)


def _raised(args: tuple[Any, ...], kind: Any, level: int) -> tuple[Any, ...]:
    """Return the arguments with all tensors at `level`."""
    return tuple(
        wrap(kind.lifted(_value(a), level)) if isinstance(a, TensorBase) and not _of_level(a, level) else a
        for a in args
    )


def _of_level(value: Any, level: int) -> bool:
    payload = payload_of(value)
    return isinstance(value, TensorBase) and payload is not None and payload.level == level


def _value(tensor: Any) -> Any:
    return tensor.array if edge_of(tensor) is None else tensor


def _tensor(value: Any) -> Any:
    return value if isinstance(value, TensorBase) else wrap(value)


# --- Forward mode -----------------------------------------------------------------------------------


def _dual(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any], level: int) -> Any:
    # Custom functions stand below payloads, which run them level by level.
    from ..autograd.function import _apply

    primals, tangents = _taken_apart(args, level)
    if all(t is None for t in tangents):
        return cls.apply(*primals, **kwargs)
    _check_jvp(cls)
    if top_payload((*primals, *tangents)) is not None and cls._splits:
        return _dual_by_parts(cls, primals, tangents, kwargs, level)
    context: list[Any] = []
    constants: list[Any] = []
    out = _apply(cls, primals, kwargs, context, constants=constants)
    (ctx,) = context
    saved, ctx.saved = ctx.saved, None  # jvp finds what was saved for it
    try:
        changes = _Changes(primals, _materialized(ctx.materialize_grads, primals, tangents), constants)
        return changes.joined(out, cls.jvp(ctx, *changes.tangents), args, level)
    finally:
        ctx.saved = saved


def _dual_of_context(cls: Any, level: int) -> Callable[..., Any]:
    """Return the forward of a function that takes ctx, for duals that are recorded: what ctx is given are duals too."""

    def forward(ctx: Any, *args: Any) -> Any:
        primals, tangents = _taken_apart(args, level)
        if all(t is None for t in tangents):
            return cls.forward(ctx, *args)
        _check_jvp(cls)
        out = cls.forward(ctx, *primals)
        changes = _Changes(primals, _materialized(ctx.materialize_grads, primals, tangents), ctx.non_differentiable)
        result = changes.joined(out, cls.jvp(ctx, *changes.tangents), args, level)
        pairs = zip((*primals, *_tuple(out)), (*args, *_tuple(result)), strict=True)
        dual = {id(value): whole for value, whole in pairs}
        for name in ("to_save", "dirty_tensors", "non_differentiable"):
            if getattr(ctx, name):
                setattr(ctx, name, tuple(dual.get(id(t), t) for t in getattr(ctx, name)))
        for name, value in ctx.__dict__.items():
            ctx.__dict__[name] = dual.get(id(value), value)
        return result

    return forward


def _check_jvp(cls: Any) -> None:
    # Custom functions stand below payloads, which run them level by level.
    from ..autograd.function import Function

    if cls.jvp is Function.jvp:
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD. "
            f"{cls.__name__} has none."
        )


def _tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _taken_apart(args: tuple[Any, ...], level: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return arguments one level down, and their tangents, None where there is none."""
    duals = [a.array if _of_level(a, level) else None for a in args]
    primals = tuple(a if d is None else _tensor(d.primal) for a, d in zip(args, duals, strict=True))
    tangents = tuple(None if d is None or d.tangent is None else _tensor(d.tangent) for d in duals)
    return primals, tangents


def _materialized(wanted: bool, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return tangents with zeros for differentiable inputs that have none, if the function requests them."""
    if not wanted:
        return tangents
    return tuple(
        zeros_like(cast(Any, p)) if t is None and isinstance(p, TensorBase) and differentiable(p.array.dtype) else t
        for p, t in zip(primals, tangents, strict=True)
    )


def _dual_by_parts(cls: Any, primals: Any, tangents: Any, kwargs: Any, level: int) -> Any:
    """Run forward one level down, where there are other payloads, and jvp beside it."""
    ctx = _Context()
    out = cls.apply(*primals, **kwargs)
    cls.setup_context(ctx, primals, out)
    ctx.saved_tensors = ctx.forward_saved or ctx.saved
    changes = _Changes(primals, _materialized(ctx.materialize, primals, tangents), ctx.constants)
    return changes.joined(out, cls.jvp(ctx, *changes.tangents), primals, level)


class _Changes(NamedTuple):
    """One call in forward mode: its inputs, their tangents, and the outputs that have none."""

    primals: tuple[Any, ...]
    tangents: tuple[Any, ...]
    constants: Sequence[Any]

    def joined(self, out: Any, changes: Any, args: tuple[Any, ...], level: int) -> Any:
        """Return the outputs with the tangents that jvp returned for them."""
        outs, moves = _tuple(out), _tuple(changes)
        if len(moves) != len(outs):
            raise RuntimeError(
                f"Function's jvp returned an invalid number of forward gradients (expected {len(outs)} but got "
                f"{len(moves)})"
            )
        results = tuple(self._one(i, *pair, args, level) for i, pair in enumerate(zip(outs, moves, strict=True)))
        return results if isinstance(out, tuple) else results[0]

    def _one(self, i: int, out: Any, move: Any, args: tuple[Any, ...], level: int) -> Any:
        if move is None:
            return out
        if not isinstance(move, TensorBase):
            raise RuntimeError(f"expected Variable or None (got {type(move).__name__}) for grad output {i}.")
        if not isinstance(out, TensorBase) or any(out is c for c in self.constants):
            raise RuntimeError(
                f"Function's jvp returned a gradient at position {i}, but  the corresponding forward output is not a "
                "differentiable Tensor. You should return None at that position instead."
            )
        if tuple(move.array.shape) != tuple(out.array.shape):
            raise RuntimeError(
                "Trying to set a forward gradient that has a different size than that of the original Tensor, this is "
                f"not supported. Tensor is of size {list(out.array.shape)} while the given forward gradient is of size "
                f"{list(move.array.shape)}."
            )
        if not differentiable(move.array.dtype):
            raise RuntimeError("Expected both tensor and its forward grad to be floating point or complex")
        written = next((k for k, p in enumerate(self.primals) if p is out), None)
        if written is not None:
            if move is not self.tangents[written]:
                raise RuntimeError(
                    "An inplace custom Function is not modifying the forward mode gradients inplace. If the forward is "
                    "modifying an input inplace, then the jvp function must modify the corresponding gradient inplace."
                )
            if _of_level(args[written], level):
                args[written].array = Dual(_value(out), _value(move), level)
                return args[written]
        elif self._is_view(out) and not any(
            t is not None and move.lineage is not None and _memory(move) is _memory(t) for t in self.tangents
        ):
            raise RuntimeError(
                "A custom Function's forward is returning a view (or an input as-is) but the jvp is not returning a "
                "view."
            )
        return _held(Dual(_value(out), _value(move), level))

    def _is_view(self, out: Any) -> bool:
        return out.lineage is not None and any(
            isinstance(p, TensorBase) and _memory(p) is _memory(out) for p in self.primals
        )


def _memory(tensor: Any) -> Any:
    return tensor.memory if tensor.memory is not None else tensor


def _held(value: Dual) -> Any:
    out = wrap(value)
    value.note_holder(out)
    return out


# --- Batches ----------------------------------------------------------------------------------------


def _batched(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any], level: int) -> Any:
    # Custom functions stand below payloads, which run them level by level.
    from ..autograd.function import Function

    around = next((at for at in inside.levels if at.number == level), None)
    size = (around.size if around is not None else 0) or size_of(tuple(payload_of(a) for a in args), level)
    parts = [_unbatched(a, level, size) for a in args]
    if cls.vmap is not Function.vmap:  # which sees the caller's dims
        parts = [_as_given(a, whole, dim, level) for a, (whole, dim) in zip(args, parts, strict=True)]
    values, dims = tuple(v for v, _ in parts), tuple(d for _, d in parts)
    if all(d is None for d in dims):
        return cls.apply(*values, **kwargs)
    own = cls.vmap is not Function.vmap
    if own and cls.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and an overridden vmap "
            "staticmethod. Please set generate_vmap_rule=False or delete the overridden vmap staticmethod to avoid "
            "ambiguity."
        )
    if own:
        info = VmapInfo(size, "error" if around is None else around.randomness)
        out, out_dims = _checked(cls.vmap(info, dims, *values))
        return _rebatched(out, out_dims, level)
    if not cls.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please override and implement "
            "the vmap staticmethod or set generate_vmap_rule=True."
        )
    if not cls._splits:
        raise RuntimeError(f"{cls.__name__}: generate_vmap_rule=True needs {_GUIDE}.")
    out = _generated(cls, dims, size).apply(*values, **kwargs)
    return _rebatched(out, 0, level)


def _checked(result: Any) -> tuple[Any, Any]:
    """Return what a vmap staticmethod has returned, or raise if that is not an output and its dims."""
    start = (
        "Expected the vmap staticmethod to have two returns, an output and out_dims with pytree structure compatible "
        "with the output. "
    )
    if not isinstance(result, tuple):
        raise RuntimeError(f"{start}Got a {type(result)} instead")
    if len(result) != 2:
        raise RuntimeError(f"{start}Got {len(result)} returns instead")
    out, dims = result
    if not _fits(dims, out):
        raise RuntimeError(
            "The autograd.Function's vmap staticmethod returned an incompatible (output, out_dims) tuple. Expected "
            f"out_dims={dims} to be compatible with the structure of `output`: one dim, or None, for each of its "
            "tensors, or one for all."
        )
    return out, dims


def _fits(dims: Any, out: Any) -> bool:
    if not isinstance(dims, tuple | list):
        return True
    if not isinstance(out, tuple | list) or len(out) != len(dims):
        return False
    return all(_fits(d, o) for d, o in zip(dims, out, strict=True))


def _unbatched(a: Any, level: int, size: int) -> tuple[Any, int | None]:
    """Return an argument one level down, and where its batch is."""
    if not _of_level(a, level):
        return a, None
    whole = _tensor(a.array.value)
    if whole.array.shape[0] == 1 != size:
        return reshape_p(whole, tuple(whole.array.shape[1:])), None
    return whole, 0


def _as_given(a: Any, whole: Any, dim: int | None, level: int) -> tuple[Any, int | None]:
    """Return an argument one level down as the caller of `vmap` gave it, if it is one of those."""
    given = arguments.get(level, {}).get(id(a))
    if dim is None or given is None or given[1] == 0 or a.array is not given[3]:
        return whole, dim
    return movedim(whole, 0, given[1]), given[1]


def _rebatched(out: Any, dims: Any, level: int) -> Any:
    if isinstance(out, tuple | list):
        each = dims if isinstance(dims, tuple | list) else (dims,) * len(out)
        return tuple(_rebatched(o, d, level) for o, d in zip(out, each, strict=True))
    if dims is None or not isinstance(out, TensorBase):
        return out
    return wrap(Batched(_value(out if dims == 0 else movedim(cast(Any, out), dims, 0)), level))


_LOWER: dict[type, Callable[..., Any]] = {Dual: _dual, Batched: _batched}


class _Context:
    """What a function's setup_context is given where its forward runs on batches."""

    def __init__(self) -> None:
        self.saved: tuple[Any, ...] = ()
        self.forward_saved: tuple[Any, ...] = ()
        self.constants: tuple[Any, ...] = ()
        self.saved_tensors: tuple[Any, ...] = ()
        self.needs_input_grad: tuple[bool, ...] = ()
        self.materialize = True

    def save_for_backward(self, *tensors: Any) -> None:
        """Save tensors for backward."""
        self.saved = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Save tensors for jvp."""
        self.forward_saved = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Say which outputs have no gradient."""
        self.constants = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Say whether backward gets zeros for outputs without a gradient."""
        self.materialize = value


class _Side:
    """Tensors on their way into a batch and out of it, at one level."""

    def __init__(self, level: int, size: int) -> None:
        self.level, self.size = level, size

    def enter(self, value: Any, dim: int | None = 0) -> Any:
        """Return a whole batch as one of its elements."""
        if dim is None or not isinstance(value, TensorBase):
            return value
        return wrap(Batched(_value(value), self.level))

    def leave(self, value: Any) -> tuple[Any, int | None]:
        """Return the whole batch behind an element, and where it is batched."""
        return _unbatched(value, self.level, self.size) if isinstance(value, TensorBase) else (value, None)

    def spread(self, value: Any) -> Any:
        """Return the whole batch behind an element, repeated if it is the same for all."""
        if not isinstance(value, TensorBase):
            return value
        whole, dim = self.leave(value)
        if dim is None:
            shape = tuple(whole.array.shape)
            return expand_p(reshape_p(whole, (1, *shape)), (self.size, *shape))
        return whole


def _each(function: Callable[[Any], Any], value: Any) -> Any:
    return tuple(function(v) for v in value) if isinstance(value, tuple) else function(value)


def _generated(cls: Any, dims: tuple[Any, ...], size: int) -> Any:
    """Return a function on whole batches that runs `cls` on one element: its forward, backward and jvp."""
    from ..autograd.function import Function  # it stands below payloads, which run it level by level

    def inward(side: _Side, inputs: tuple[Any, ...]) -> list[Any]:
        return [side.enter(v, d) for v, d in zip(inputs, dims, strict=True)]

    def forward(*values: Any, **kwargs: Any) -> Any:
        with entered(Level(Batched, size)) as level:
            side = _Side(level, size)
            return _each(side.spread, cls.forward(*inward(side, values), **kwargs))

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        with entered(Level(Batched, size)) as level:
            side = _Side(level, size)
            inner = ctx.inner = _Context()
            outs = _each(side.enter, output)
            cls.setup_context(inner, tuple(inward(side, inputs)), outs)
            kept = [side.leave(t) for t in inner.saved]
            ahead = [side.leave(t) for t in inner.forward_saved]
            ctx.kept_dims, ctx.ahead_dims = [d for _, d in kept], [d for _, d in ahead]
            ctx.save_for_backward(*(t for t, _ in kept))
            ctx.save_for_forward(*(t for t, _ in ahead))
            ctx.set_materialize_grads(inner.materialize)
            pairs = zip(outs, output, strict=True) if isinstance(output, tuple) else [(outs, output)]
            ctx.mark_non_differentiable(*(o for e, o in pairs if any(e is c for c in inner.constants)))
            for name, value in vars(inner).items():
                if isinstance(value, TensorBase):
                    setattr(inner, name, _Left(*side.leave(value)))
            inner.saved = inner.forward_saved = inner.constants = ()

    def resumed(ctx: Any, side: _Side, tensors: Any, where: list[Any]) -> Any:
        inner = _Context()
        for name, value in vars(ctx.inner).items():
            setattr(inner, name, side.enter(value.value, value.dim) if isinstance(value, _Left) else value)
        inner.saved_tensors = tuple(side.enter(t, d) for t, d in zip(tensors, where, strict=True))
        inner.needs_input_grad = ctx.needs_input_grad
        return inner

    def backward(ctx: Any, *gs: Any) -> Any:
        with entered(Level(Batched, size)) as level:
            side = _Side(level, size)
            inner = resumed(ctx, side, ctx.saved_tensors, ctx.kept_dims)
            answers = cls.backward(inner, *(side.enter(g) for g in gs))
            answers = answers if isinstance(answers, tuple) else (answers,)
            return tuple(
                a if a is None else side.spread(a).sum(0) if d is None else side.spread(a)
                for a, d in zip(answers, dims, strict=False)
            )

    def jvp(ctx: Any, *tangents: Any) -> Any:
        with entered(Level(Batched, size)) as level:
            side = _Side(level, size)
            saved = getattr(ctx, "saved_for_forward", None) or ctx.saved_tensors
            inner = resumed(ctx, side, saved, ctx.ahead_dims or ctx.kept_dims)
            return _each(side.spread, cls.jvp(inner, *(side.enter(t, d) for t, d in zip(tangents, dims))))

    methods: dict[str, Any] = {"forward": forward, "setup_context": setup_context, "backward": backward}
    if cls.jvp is not Function.jvp:
        methods["jvp"] = jvp
    return type(
        f"Vmapped{cls.__name__}",
        (Function,),
        {**{k: staticmethod(f) for k, f in methods.items()}, "generate_vmap_rule": True},
    )


class _Left(NamedTuple):
    """A tensor that setup_context has put on ctx, as a whole batch."""

    value: Any
    dim: int | None
