"""Values at levels: what a tensor is one level down, how one is lifted, and looking through transforms."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from ..autograd.budget import memory_budget
from ..core import modes
from ..core.nodes import wrap
from ..core.observation import lifting
from ..core.payload import Level, Payload, inside, payload_of, transforms, wrapped_in
from ..core.tensor import TensorBase
from ..core.views import edge_of


def as_tensor(value: Any) -> Any:
    """Return a value of some level as a tensor of that level."""
    return value if isinstance(value, TensorBase) else wrap(value)


def value_of(tensor: Any) -> Any:
    """Return what a payload made of a tensor holds: the tensor if it has a history, else its bare value.

    While a program is captured it holds the tensor, so that every op of the transform is seen as a primitive.
    """
    return tensor.array if edge_of(tensor) is None and lifting(False) is False else tensor


def level_of(tensor: Any) -> int:
    """Return the number of a tensor's level; 0 for an ordinary one."""
    payload = payload_of(tensor)
    return 0 if payload is None else payload.level


def detached(tensor: Any) -> Any:
    """Return a tensor without its history at its own level."""
    return tensor if not isinstance(tensor, TensorBase) or edge_of(tensor) is None else wrap(tensor.array)


def is_recorded(value: Any) -> bool:
    """Return whether a tensor, or anything that its payload is made of, has a history."""
    if isinstance(value, TensorBase):
        return edge_of(value) is not None or is_recorded(value.array)
    if not isinstance(value, Payload):
        return False
    return is_recorded(value.below()) or is_recorded(getattr(value, "tangent", None))


class recording:
    """Switch recording on, whatever it was outside, and let levels below `floor` go on as they were.

    That is the level at which values are recorded, the innermost unless given. With `captured`, the tensors that a
    function has from outside, this is where the function is run: saved-tensor hooks are refused, as in torch.
    """

    __slots__ = ("before", "captured", "floor", "level")

    before: tuple[Any, ...] | None  # what to put back; None where there is nothing
    level: Level | None

    def __init__(self, floor: int | None = None, captured: tuple[Any, ...] | None = None) -> None:
        self.floor, self.captured, self.before = floor, captured, None

    def __enter__(self) -> None:
        local, levels, captured = modes.local, inside.levels, self.captured
        was, inferring = local.grad, local.inference
        if captured is not None and local.pack_hooks:
            _refuse_hooks()
        self.level = level = Level(recording=True, captured=captured) if captured is not None or levels else None
        self.before = was, local.pack_refusal, inferring, local.forward_grad, levels
        try:
            if captured is not None:
                local.pack_refusal = _HOOKS
            if inferring:
                _set_inference(False)
            if level is not None:
                level.__enter__()
                level.floor = level.floor if self.floor is None else self.floor
            if not was:
                modes.set_grad(True)
        except BaseException:  # an interrupt
            self.__exit__()
            raise

    def __exit__(self, *error: object) -> None:
        local, key, level = modes.local, modes.local.key, self.level
        on, (was, refusal, inferring, forward, levels) = local.inference, self.before  # type: ignore[misc]
        # By stores: see modes.py.
        self.before, modes.off[key], local.grad, local.pack_refusal, inside.levels = None, None, was, refusal, levels
        if inferring or not forward:
            local.inference, local.forward_grad = inferring, forward
        if was:
            del modes.off[key]
        if inferring and not on:
            modes.note_unusual(1)
        if level is not None:
            level.__exit__()

    def __del__(self) -> None:
        if self.before is None:
            return
        now, around = inside.levels, self.before[-1]
        recorder = next((level for level in reversed(around) if level.recording), None)
        if self.level is None or self.level in now:
            self.__exit__()
        elif recorder is None or recorder in now:  # a batch around it has ended since: it has put back levels alone
            self.before = (*self.before[:-1], now)
            self.__exit__()
        else:
            self.level.__exit__()


class normal_mode:
    """Switch inference mode off and leave grad mode as it is: a transform means the same in any mode around it."""

    __slots__ = ("inferring",)

    def __enter__(self) -> None:
        self.inferring = modes.local.inference
        if self.inferring:
            _set_inference(False)

    def __exit__(self, *error: object) -> None:
        if self.inferring:
            _set_inference(True)


def _set_inference(value: bool) -> None:
    modes.local.inference, modes.local.forward_grad = value, not value
    modes.note_unusual(1 if value else -1)


_HOOKS = (
    "torch.func.{grad, vjp, jacrev, hessian} don't yet support saved tensor hooks. Please open an issue with your use "
    "case."
)


def _refuse_hooks() -> None:
    """Raise if saved-tensor hooks are on, other than those of a memory budget."""
    if any(getattr(pack, "__module__", "") != memory_budget.__module__ for pack, _ in modes.local.pack_hooks):
        raise RuntimeError(_HOOKS)


_FUNC = __package__ or "adjoint.func"
_OTHERS = frozenset((FunctionType, BuiltinFunctionType, ModuleType, type, bool, int, float, str))  # hold no tensors
_MANY = 1000  # elements from which on a container holds data, through which each call would have to look


def captures(function: Any) -> tuple[Any, ...]:
    """Return the tensors that a function has from outside: its closure's, its globals', buffers of its modules.

    They are gathered before it runs: what it makes itself and stores in a captured list is its own.
    """
    found: list[Any] = []
    _gather(function, found, 4)
    return tuple(found)


def _gather(value: Any, found: list[Any], depth: int) -> None:
    if isinstance(value, TensorBase):
        found.append(value)
    elif depth and isinstance(value, FunctionType) and (value.__globals__.get("__package__") or "").startswith(_FUNC):
        _gather(getattr(value, "__wrapped__", None), found, depth - 1)  # a transform of the program's function
    elif depth and isinstance(value, FunctionType):
        for cell in value.__closure__ or ():
            try:
                _gather(cell.cell_contents, found, depth - 1)
            except ValueError:  # not assigned yet
                continue
        outside = value.__globals__
        for name in value.__code__.co_names:
            held = outside.get(name)
            if held is not None and type(held) not in _OTHERS:
                _gather(held, found, 0)
    elif depth and isinstance(value, MethodType):
        _gather(value.__func__, found, depth - 1)
        _gather(value.__self__, found, depth - 1)
    elif depth and isinstance(value, functools.partial):
        for part in (value.func, *value.args, *value.keywords.values()):
            _gather(part, found, depth - 1)
    elif depth and isinstance(value, tuple | list | dict) and len(value) <= _MANY:
        for part in value.values() if isinstance(value, dict) else value:
            _gather(part, found, depth - 1)
    elif isinstance(getattr(value, "_buffers", None), dict):
        found.extend(b for b in value.buffers() if b is not None)


def shown(items: Any) -> str:
    """Return the type of a value, as messages name it."""
    return str(type(items))


def debug_unwrap(tensor: Any, *, recurse: bool = True) -> Any:
    """Return the tensor behind a tensor inside a transform: the whole batch, the value without its tangent.

    With `recurse` all transforms are looked through, otherwise the innermost only. For printing and debugging:
    what is computed from the result is no longer part of the transform.
    """
    if not isinstance(tensor, TensorBase):
        raise ValueError(f"debug_unwrap takes a Tensor, not {type(tensor).__name__}")
    levels = transforms()
    while levels:
        depth, below = wrapped_in(tensor, levels)
        if depth < 0:
            break
        tensor, levels = as_tensor(below), levels[: depth - 1]
        if not recurse:
            break
    return tensor


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """Return a function equivalent to `func`.

    In torch this rewrites in-place ops into others before tracing; here a trace already has none, because
    values inside transforms never change: a write gives the tensor another value.
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options are: "
            "'mutations' and 'mutations_and_views'"
        )

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return wrapper
