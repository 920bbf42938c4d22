"""``torch.futures``: values that arrive later."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any, Generic, NoReturn, TypeVar

from .core.device import as_device
from .cuda import is_available

__all__ = ["Future", "collect_all", "wait_all"]


T = TypeVar("T")


class Future(Generic[T]):
    """A value that arrives later: it is set, or the first caller that waits for it fetches it.

    Callbacks are called once, by the thread that brings the value or by one that waits for theirs.

    Parameters
    ----------
    devices : list, optional
        Devices of tensors in the value; other than the CPU none is accepted.
    fetch : callable, optional
        Function without arguments that returns the value; the first `wait` calls it.

    Examples
    --------
    >>> future = adjoint.futures.Future()
    >>> doubled = future.then(lambda f: 2 * f.value())
    >>> future.set_result(3)
    >>> doubled.wait()
    6
    """

    def __init__(self, *, devices: Any = None, fetch: Callable[[], Any] | None = None) -> None:
        _check_devices(devices or ())
        self._fetch = fetch
        self._changed = threading.Condition()
        self._claimed = False  # by the thread that is about to bring the value
        self._arrived = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future[Any]], Any]] = []

    def done(self) -> bool:
        """Return whether the value, or an error in its place, is there."""
        return self._arrived

    def wait(self) -> T:
        """Wait for the value, and return it."""
        while not self._arrived:
            if self._fetch is not None and self._settle(self._fetch):
                break
            with self._changed:
                # A thread that was interrupted while it fetched leaves that to the next.
                self._changed.wait_for(lambda: self._arrived or (self._fetch is not None and not self._claimed))
        return self.value()

    def value(self) -> T:
        """Return the value that is there."""
        if not self._arrived:
            raise RuntimeError("the value of this Future has not arrived: wait() for it first")
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[no-any-return]

    def then(self, callback: Callable[[Future[T]], Any]) -> Future[Any]:
        """Return the future of ``callback(self)``, which is called once the value is there."""
        _require_function(callback, "then")
        following: Future[Any] = Future(fetch=self._followed(callback))
        self._when_done(lambda _: following._settle(lambda: _called(callback, self)))
        return following

    def add_done_callback(self, callback: Callable[[Future[T]], Any]) -> None:
        """Call ``callback(self)`` once the value is there, or now if it is; an error in it is logged."""
        _require_function(callback, "add_done_callback")

        def quietly(future: Future[T]) -> None:
            try:
                _called(callback, future)
            except RuntimeError as error:
                logging.getLogger(__name__).error("%s", error)

        self._when_done(quietly)

    def _when_done(self, callback: Callable[[Future[T]], Any]) -> None:
        with self._changed:
            if not self._arrived:
                self._callbacks.append(callback)
                return
        callback(self)

    def set_result(self, result: T) -> None:
        """Give the value."""
        self._arrive(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Give an error in place of the value: `wait` raises it."""
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._arrive(None, result)

    def _followed(self, callback: Callable[[Future[T]], Any]) -> Callable[[], Any] | None:
        if self._fetch is None:  # the caller that sets this one settles what follows
            return None

        def fetch() -> Any:
            with contextlib.suppress(Exception):  # what it is, the callback sees
                self.wait()
            return _called(callback, self)

        return fetch

    def __reduce__(self) -> NoReturn:
        raise RuntimeError("Can not pickle torch.futures.Future: what it waits for is in this process")

    def _settle(self, work: Callable[[], Any]) -> bool:
        """Bring the value that `work` returns, or its error; return False where another call is at it."""
        with self._changed:
            if self._claimed or self._arrived:
                return False
            self._claimed = True
        try:
            value, error = work(), None
        except Exception as raised:
            value, error = None, raised
        except BaseException:
            with self._changed:
                self._claimed = False
                self._changed.notify_all()
            raise
        if not self._arrived:  # a program may have set it meanwhile
            self._arrive(value, error)
        return True

    def _arrive(self, value: Any, error: BaseException | None) -> None:
        with self._changed:
            if self._arrived:
                raise RuntimeError(
                    "Attempting to mark a completed Future as complete again. Note that a Future can only be marked "
                    "completed once."
                )
            self._value, self._error = value, error
            self._arrived = True
            callbacks, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        for callback in callbacks:
            callback(self)


def _check_devices(devices: Iterable[Any]) -> None:
    for device in map(as_device, devices):
        if device.index is None:
            raise ValueError(f"Expected devices to have indices, got {device}")
        if not is_available():
            raise RuntimeError("PyTorch is not linked with support for cuda devices: no GPU is here")


def wait_all(futures: list[Future[Any]]) -> list[Any]:
    """Wait for every future; return their values."""
    return [future.wait() for future in collect_all(futures).wait()]


def collect_all(futures: list[Future[Any]]) -> Future[list[Future[Any]]]:
    """Return one future for a list of futures.

    Parameters
    ----------
    futures : list of Future
        Those to wait for.

    Returns
    -------
    Future
        Done once all are; its value is `futures`, as a list.

    Examples
    --------
    >>> from adjoint.futures import Future, collect_all
    >>> first, second = Future(), Future()
    >>> both = collect_all([first, second])
    >>> first.set_result(1)
    >>> second.set_result(2)
    >>> [future.value() for future in both.wait()]
    [1, 2]
    """
    if not isinstance(futures, list | tuple) or not all(isinstance(future, Future) for future in futures):
        raise TypeError(f"collect_all(): incompatible function arguments: {futures!r} is not a list of futures")

    def fetch() -> list[Future[Any]]:
        for future in futures:
            future.wait()
        return list(futures)

    whole: Future[list[Future[Any]]] = Future(fetch=fetch)

    def look(_: Future[Any] | None) -> None:
        if all(future.done() for future in futures):
            whole._settle(fetch)

    for future in futures:
        future._when_done(look)
    if not futures:
        look(None)
    return whole


def _require_function(callback: Any, name: str) -> None:
    if not callable(callback):
        raise TypeError(f"{name}(): incompatible function arguments: {callback!r} cannot be called")


def _called(callback: Callable[[Future[Any]], Any], future: Future[Any]) -> Any:
    """Call a function that waits for a future; its error says that it is from there."""
    try:
        return callback(future)
    except Exception as error:
        raise RuntimeError(
            f"Got the following error when running the callback: {type(error).__name__}: {error}"
        ) from error
