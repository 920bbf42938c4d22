"""Observers: they see every primitive that a thread calls, every write, and every value that Python reads.

A captured program, a profile and a watch for lost gradients have the same need: to intercept the calls between a
program and its primitives. While an observer is on, `modes.unusual` is non-zero, so every call goes to
`general.general`, which passes it to the innermost observer; that passes it on with `proceed`. While
none is on, nothing is checked.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

from .._typing import Op, Params
from . import modes
from .tensor import TensorBase


class Observer:
    """Base class of observers; as a context, it is on in this thread until the end.

    Each method is called in place of what it is named after and does that thing with `self.inner` or
    the function given, so that observers stand one inside another.
    """

    captures: bool = False  # whether what is called is written down as a program
    lifts: bool = False  # whether backward passes run their rules on tensors, so that each op is seen

    def __enter__(self) -> Self:
        self.inner: Observer | None = modes.local.observer
        modes.note_unusual(1)
        modes.local.observer = self
        return self

    def __exit__(self, *error: object) -> None:
        modes.local.observer = self.inner
        modes.note_unusual(-1)

    def call(self, op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...], run: Callable[..., Any]) -> Any:
        """Call a primitive; without observers, ``run(op, inputs, params)`` is the call."""
        return self.proceed(op, inputs, params, run)

    def proceed(self, op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...], run: Callable[..., Any]) -> Any:
        """Hand a call to the next observer out, or run it."""
        return run(op, inputs, params) if self.inner is None else self.inner.call(op, inputs, params, run)

    def compute_into(
        self, op: Op, x: TensorBase, inputs: Sequence[Any], params: Params, run: Callable[[], None]
    ) -> None:
        """Compute an op into the array of `x`; `run` does it."""
        run() if self.inner is None else self.inner.compute_into(op, x, inputs, params, run)

    def function(self, name: str, run: Callable[[], Any]) -> Any:
        """Call a custom function; `run` does it."""
        return run() if self.inner is None else self.inner.function(name, run)

    def written(self, x: TensorBase, operation: str) -> None:
        """Called when the memory of `x` was written."""
        if self.inner is not None:
            self.inner.written(x, operation)

    def read(self, x: TensorBase, what: str) -> None:
        """Called before Python reads the value of `x`: ``item()``, ``bool()``, ``numpy()``."""
        if self.inner is not None:
            self.inner.read(x, what)

    def item(self, x: TensorBase) -> Any:
        """Return what stands for the only element of `x`; None: `read` is called, and Python gets the element."""
        return None if self.inner is None else self.inner.item(x)

    def opaque(self, name: str, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Call a function of arrays that is no primitive; tensors among `args` stand for their arrays."""
        return run_opaque(function, args) if self.inner is None else self.inner.opaque(name, function, args)

    def lent(self, x: TensorBase) -> None:
        """Note that `x` is a view of memory that was made elsewhere, by NumPy for example."""
        if self.inner is not None:
            self.inner.lent(x)

    def literal(self, array: Any) -> None:
        """Called for an array that depends only on scalars and shapes, and is the same on every run."""
        if self.inner is not None:
            self.inner.literal(array)

    def saved_inputs(self, inputs: tuple[Any, ...], values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return what an in-place op saves of its inputs: some are copies, made before it writes."""
        return values if self.inner is None else self.inner.saved_inputs(inputs, values)

    def number(self, container: Any, key: Any, often: bool) -> Any:
        """Return a scalar, or several, that a program stores and may change, such as a learning rate."""
        return container[key] if self.inner is None else self.inner.number(container, key, often)

    def pattern(self, tensors: list[Any]) -> object:
        """Begin to note what is done to some tensors, to be noted of others too; None where ops must be seen."""
        return None

    def cut(self, x: TensorBase, out: Any, how: str) -> None:
        """Called when `out` has the value of `x` but not its history, for example after `detach()`."""
        if self.inner is not None:
            self.inner.cut(x, out, how)

    def backward(self, roots: Sequence[Any], run: Callable[[], Any]) -> Any:
        """Run a backward pass from `roots`."""
        return run() if self.inner is None else self.inner.backward(roots, run)


def observer() -> Observer | None:
    """Return the innermost observer of this thread."""
    return modes.local.observer if modes.unusual else None


def lifting(create_graph: bool) -> Any:
    """Return how a backward pass runs: recorded, on bare arrays, or ``"quiet"``, on tensors but unrecorded."""
    if create_graph or not modes.unusual:
        return create_graph
    watching = modes.local.observer
    while watching is not None:
        if watching.lifts:
            return "quiet"
        watching = watching.inner
    return "quiet" if modes.local.inference else False  # its gradients are tensors made in inference mode


def is_captured() -> bool:
    """Return whether what this thread calls is written down as a program."""
    watching = modes.local.observer if modes.unusual else None
    while watching is not None and not watching.captures:
        watching = watching.inner
    return watching is not None


def number(container: Any, key: Any, often: bool = True) -> Any:
    """Return ``container[key]``; where a program is captured, a tensor that has its value on every run.

    What does not change `often` becomes one when it has changed.
    """
    watching = modes.local.observer if modes.unusual else None
    return container[key] if watching is None else watching.number(container, key, often)


def pattern(tensors: list[Any]) -> Any:
    """Return what notes how tensors are changed from now on, or None; see `compiler.capture.Pattern`."""
    watching = modes.local.observer if modes.unusual else None
    return None if watching is None else watching.pattern(tensors)


def literal(array: Any) -> Any:
    """Return `array`, which follows from Python's numbers and from shapes alone: a constant of a captured program.

    What is neither that, nor an input of the program, nor the result of a line, cannot be captured.
    """
    watching = modes.local.observer if modes.unusual else None
    if watching is not None:
        watching.literal(array)
    return array


@contextlib.contextmanager
def unseen() -> Iterator[None]:
    """Run without recording: the capture already contains these operations."""
    watching, modes.local.observer = modes.local.observer, None
    try:
        yield
    finally:
        modes.local.observer = watching


def opaque(name: str, function: Callable[..., Any], *args: object) -> Any:
    """Return ``function(*args)`` with tensors as arrays: a computation that is no primitive, but may be observed."""
    watching = modes.local.observer if modes.unusual else None
    return run_opaque(function, args) if watching is None else watching.opaque(name, function, args)


def run_opaque(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Call a function with the arrays of tensors."""
    return function(*(a.array if isinstance(a, TensorBase) else a for a in args))


def note_read(what: str, *values: object) -> None:
    """Notify observers that code that is not a primitive is about to use the elements of tensors."""
    watching = modes.local.observer if modes.unusual else None
    if watching is not None:
        for value in values:
            if isinstance(value, TensorBase):
                watching.read(value, what)
