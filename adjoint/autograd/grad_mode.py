"""Switching recording on and off: as context managers, as decorators, on generators."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from ..core import modes
from ..core.modes import is_grad_enabled, is_with, local, off

getframe = sys._getframe
F = TypeVar("F", bound=Callable[..., Any])

__all__ = [
    "_unsafe_preserve_version_counter", "enable_grad", "enforce_grad_layout_policy", "inference_mode",
    "is_grad_enabled", "is_inference_mode_enabled", "no_grad", "set_grad_enabled", "set_multithreading_enabled",
]  # fmt: skip


_GENERATOR, _COROUTINE = 0x20, 0x80  # inspect.CO_*: importing inspect takes a tenth of our import time


def _has_flag(function: Any, flag: int) -> bool:
    """Return whether a function, or what it wraps, is a generator or coroutine function."""
    while isinstance(function, functools.partial):
        function = function.func
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    return code is not None and bool(code.co_flags & flag)


class _DecoratorContextManager:
    """A mode to enter; used as a decorator, every call (or every step of a generator) enters it again."""

    def clone(self) -> Any:
        """Return a fresh context of the same kind."""
        return type(self)()

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, *error: object) -> None:
        raise NotImplementedError

    def __call__(self, function: F) -> F:
        """Wrap a function."""
        if isinstance(function, type):
            warnings.warn(
                "Decorating classes is deprecated and will be disabled in future versions. You should only decorate "
                "functions or methods. To preserve the current behavior of class decoration, you can directly decorate "
                "the `__init__` method and nothing else.",
                FutureWarning,
                stacklevel=2,
            )
        if _has_flag(function, _GENERATOR):
            return _wrapped_generator(self.clone, function)
        if _has_flag(function, _COROUTINE):
            return _wrapped_coroutine(self.clone, function)

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return wrapper  # type: ignore[return-value]


def _wrapped_generator(context: Callable[[], Any], function: F) -> F:
    """Wrap a generator so that its body, and only its body, runs in the mode."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        generator = function(*args, **kwargs)
        try:
            with context():
                response = generator.send(None)
            while True:
                try:
                    request = yield response
                except GeneratorExit:
                    with context():
                        generator.close()
                    raise
                except BaseException as error:
                    with context():
                        response = generator.throw(error)
                else:
                    with context():
                        response = generator.send(request)
        except StopIteration as stop:
            return stop.value

    return wrapper  # type: ignore[return-value]


class _Steps:
    """An awaitable that runs every step of a coroutine in the mode, and none of its waiting."""

    def __init__(self, context: Callable[[], Any], coroutine: Any) -> None:
        self.context, self.coroutine = context, coroutine

    def __await__(self) -> Any:
        value: Any = None
        raised: BaseException | None = None
        while True:
            try:
                with self.context():
                    if raised is None:
                        request = self.coroutine.send(value)
                    else:
                        request = self.coroutine.throw(raised)
            except StopIteration as stop:
                return stop.value
            value, raised = None, None
            try:
                value = yield request
            except BaseException as error:
                raised = error


def _wrapped_coroutine(context: Callable[[], Any], function: F) -> F:
    @functools.wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        return await _Steps(context, function(*args, **kwargs))

    return wrapper  # type: ignore[return-value]


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """Base of contexts without arguments, whose class itself decorates."""

    # A `modes.Scope`, but not by inheritance: programs see the bases that torch's contexts have.
    owned: tuple[Any, int] | None = None
    prev: bool = False  # whether recording was on before

    def __new__(cls, orig_func: Any = None) -> Any:
        """Return the context, or the function given to it as a bare decorator, wrapped."""
        instance = object.__new__(cls)
        return instance if orig_func is None else instance(orig_func)

    def __del__(self) -> None:
        if self.owned is not None and self.prev and is_with(self.owned):  # else one around it has put back what was
            self.__exit__()

    def __exit__(self, *error: object) -> None:
        switches = local.__dict__  # one look at what is the thread's own
        key = switches["key"]
        if self.prev:  # by stores: see modes.py
            self.owned, switches["grad"] = None, True
            if key in off:
                del off[key]
        else:
            self.owned, off[key], switches["grad"] = None, None, False


class no_grad(_NoParamDecoratorContextManager):
    """Switch recording off in this thread: a context, or a decorator.

    Results do not require gradients and save nothing for a backward pass. New tensors made with
    ``requires_grad=True`` are still leaves.

    Parameters
    ----------
    orig_func : callable, optional
        What a bare ``@adjoint.no_grad`` decorates; ``@adjoint.no_grad()`` does the same.

    Examples
    --------
    >>> x = adjoint.ones(2, requires_grad=True)
    >>> with adjoint.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    >>> @adjoint.no_grad()
    ... def predict(x):
    ...     return x * 2
    >>> predict(x).requires_grad
    False
    """

    def __enter__(self) -> None:
        frame = getframe(1)
        place, switches = (frame.f_code, frame.f_lasti), local.__dict__
        self.prev, self.owned = switches["grad"], place
        off[switches["key"]], switches["grad"] = None, False  # by stores: see modes.py


class enable_grad(_NoParamDecoratorContextManager):
    """Switch recording on in this thread, inside of `no_grad`: a context, or a decorator.

    Parameters
    ----------
    orig_func : callable, optional
        What a bare ``@adjoint.enable_grad`` decorates.

    Examples
    --------
    >>> x = adjoint.ones(2, requires_grad=True)
    >>> with adjoint.no_grad():
    ...     with adjoint.enable_grad():
    ...         y = x * 2
    >>> y.requires_grad
    True
    """

    def __enter__(self) -> None:
        frame = getframe(1)
        place, switches = (frame.f_code, frame.f_lasti), local.__dict__
        self.prev, self.owned = switches["grad"], place
        switches["grad"] = True  # and `off` need not be exact: it is a hint


class set_grad_enabled(_DecoratorContextManager):
    """Switch recording on or off: from now on as a call, until the end of the block as a context; also a decorator.

    Parameters
    ----------
    mode : bool
        Whether to record.

    Raises
    ------
    TypeError
        If `mode` is not a bool.

    Examples
    --------
    >>> training = False
    >>> x = adjoint.ones(2, requires_grad=True)
    >>> with adjoint.set_grad_enabled(training):
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    owned: tuple[Any, int] | None = None
    own = modes.Scope.own

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(
                f"set_grad_enabled(): argument 'enabled' (position 1) must be bool, not {type(mode).__name__}"
            )
        self.prev, self.mode = modes.local.grad, mode
        self.owned = self.own()
        modes.set_grad(mode)

    def clone(self) -> Any:
        """Return a fresh context of the same kind."""
        return type(self)(self.mode)

    def __enter__(self) -> None:
        self.owned = self.own()
        modes.set_grad(self.mode)

    def __exit__(self, *error: object) -> None:
        switches = local.__dict__
        self.owned, off[switches["key"]], switches["grad"] = None, None, self.prev  # by stores: see modes.py
        if self.prev:
            off.pop(switches["key"], None)

    def __del__(self) -> None:
        if self.owned is not None and self.prev and is_with(self.owned):  # else one around it has put back what was
            self.__exit__()

    def __call__(self, function: F) -> F:
        """Wrap a function."""
        # The call that made this object already switched the mode; as a decorator it must not.
        self.owned = None
        modes.set_grad(self.prev)
        return super().__call__(function)

    def __str__(self) -> str:
        return f"{type(self).__module__}.{type(self).__name__}(mode={self.mode})"

    def __repr__(self) -> str:
        return str(self)


class inference_mode(_DecoratorContextManager):
    """Switch recording off, and make tensors that can never take part in it: a context, or a decorator.

    It is `no_grad` for code whose results never meet autograd. A tensor made inside cannot be saved for a backward pass
    later; a `clone` of it outside can.

    Parameters
    ----------
    mode : bool, default True
        False switches an enclosing inference mode off. A function is decorated.

    Examples
    --------
    >>> with adjoint.inference_mode():
    ...     x = adjoint.ones(2) * 2
    >>> x.is_inference()
    True
    >>> w = adjoint.ones(2, requires_grad=True)
    >>> w * x
    Traceback (most recent call last):
    ...
    RuntimeError: Inference tensors cannot be saved for backward...
    >>> (w * x.clone()).requires_grad
    True
    """

    owned: tuple[Any, int] | None = None
    own = modes.Scope.own
    __del__ = modes.Scope.__del__

    def __new__(cls, mode: Any = True) -> Any:
        """Return the context, or the function given to it as a bare decorator, wrapped."""
        instance = object.__new__(cls)
        if isinstance(mode, bool):
            return instance
        instance.mode = True
        return instance(mode)

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode

    def clone(self) -> Any:
        """Return a fresh context of the same kind."""
        return type(self)(self.mode)

    def __enter__(self) -> None:
        self.before = (modes.local.grad, modes.local.inference, modes.local.forward_grad)
        grad, owned = not self.mode, self.own()
        set_inference(self.mode, self.before[1])
        self.owned = owned
        # By stores, and nothing but those after the first: see modes.py.
        local.inference, local.forward_grad, modes.off[local.key], local.grad = self.mode, grad, None, grad

    def __exit__(self, *error: object) -> None:
        self.owned = None
        grad, inference, forward = self.before
        local.inference, local.forward_grad, off[local.key], local.grad = inference, forward, None, grad
        if grad:
            off.pop(local.key, None)
        set_inference(inference, self.mode)


def set_inference(value: bool, before: bool) -> None:
    """Take ops off the fast path while inference mode is on."""
    modes.note_inference()
    if value != before:
        modes.note_unusual(1 if value else -1)


def is_inference_mode_enabled() -> bool:
    """Return whether inference mode is on in this thread."""
    return modes.local.inference


class set_multithreading_enabled(_DecoratorContextManager):
    """Accepted for torch's sake: the backward pass runs in the calling thread anyway."""

    owned: tuple[Any, int] | None = None
    own = modes.Scope.own
    before = False

    def __init__(self, mode: bool) -> None:
        self.before, self.owned = modes.local.multithreading, self.own()
        self.mode = modes.local.multithreading = mode

    def clone(self) -> Any:
        """Return a fresh context of the same kind."""
        return type(self)(self.mode)

    def __enter__(self) -> None:
        self.owned = self.own()
        modes.local.multithreading = self.mode

    def __exit__(self, *error: object) -> None:
        self.owned, modes.local.multithreading = None, self.before

    def __del__(self) -> None:
        if self.owned is not None and self.before and is_with(self.owned):  # else one around it has put back what was
            self.__exit__()


def is_multithreading_enabled() -> bool:
    """Return what `set_multithreading_enabled` was given in this thread."""
    return modes.local.multithreading


class enforce_grad_layout_policy(_DecoratorContextManager):
    """Say whether ``.grad`` always gets the strides of its tensor, which costs a copy where a gradient has others."""

    owned: tuple[Any, int] | None = None
    own = modes.Scope.own
    before = False

    def __init__(self, enable: bool = True) -> None:
        self.before, self.owned = modes.local.grad_layout, self.own()
        self.mode = modes.local.grad_layout = enable

    def clone(self) -> Any:
        """Return a fresh context of the same kind."""
        return type(self)(self.mode)

    def __enter__(self) -> None:
        self.owned = self.own()
        modes.local.grad_layout = self.mode

    def __exit__(self, *error: object) -> None:
        self.owned, modes.local.grad_layout = None, self.before

    def __del__(self) -> None:
        if self.owned is not None and self.before and is_with(self.owned):  # else one around it has put back what was
            self.__exit__()


class _unsafe_preserve_version_counter(_DecoratorContextManager):
    """Let writes inside the context pass unnoticed by nodes that saved the tensors before."""

    def __init__(self, tensors: Any) -> None:
        self.tensors = tensors if isinstance(tensors, tuple | list) else (tensors,)

    def clone(self) -> Any:
        """Return a fresh context of the same kind."""
        return type(self)(self.tensors)

    def __enter__(self) -> None:
        from ..core.tensor import ledger_of, storage_of

        ledgers = [ledger_of(storage_of(t)) for t in self.tensors]
        self.before = [(ledger, ledger.version, ledger.time) for ledger in ledgers]

    def __exit__(self, *error: object) -> None:
        for ledger, version, time in self.before:
            ledger.version, ledger.time = version, time
