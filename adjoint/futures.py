"""``torch.futures``: values that arrive later."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, NoReturn

from .cuda import is_available

__all__ = ["Future", "collect_all", "wait_all"]


class Future:
    """A value that arrives later: somebody sets it, or `wait` fetches it.

    Examples
    --------
    >>> future = adjoint.futures.Future()
    >>> doubled = future.then(lambda f: 2 * f.value())
    >>> future.set_result(3)
    >>> doubled.wait()
    6
    """

    def __class_getitem__(cls, item: Any) -> Any:
        """Return the class: ``Future[Tensor]`` in an annotation."""
        return cls

    def __init__(self, *, devices: Any = None, fetch: Callable[[], Any] | None = None) -> None:
        if devices and not is_available():
            raise RuntimeError("PyTorch is not linked with support for cuda devices: no GPU is here")
        self._fetch = fetch
        self._arrived = threading.Event()
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future], Any]] = []

    def done(self) -> bool:
        """Return whether the value, or an error in its place, is there."""
        return self._arrived.is_set()

    def wait(self) -> Any:
        """Wait for the value, and return it."""
        if not self._arrived.is_set():
            if self._fetch is None:
                self._arrived.wait()
            else:
                self._settle(self._fetch)
        return self.value()

    def value(self) -> Any:
        """Return the value that is there."""
        if not self._arrived.is_set():
            raise RuntimeError("the value of this Future has not arrived: wait() for it first")
        if self._error is not None:
            raise self._error
        return self._value

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """Return the future of ``callback(self)``, which is called once the value is there."""
        _require_function(callback, "then")
        following = Future(fetch=self._followed(callback))

        def settle(_: Future) -> None:
            if not following.done():
                following._settle(lambda: _called(callback, self))

        self._when_done(settle)
        return following

    def add_done_callback(self, callback: Callable[[Future], Any]) -> None:
        """Call ``callback(self)`` once the value is there, or now if it is; an error in it is logged."""
        _require_function(callback, "add_done_callback")

        def quietly(future: Future) -> None:
            try:
                _called(callback, future)
            except RuntimeError as error:
                logging.getLogger(__name__).error("%s", error)

        self._when_done(quietly)

    def _when_done(self, callback: Callable[[Future], Any]) -> None:
        if self._arrived.is_set():
            callback(self)
        else:
            self._callbacks.append(callback)

    def set_result(self, result: Any) -> None:
        """Give the value."""
        self._arrive(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Give an error in place of the value: `wait` raises it."""
        if not isinstance(result, BaseException):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._arrive(None, result)

    def _followed(self, callback: Callable[[Future], Any]) -> Callable[[], Any] | None:
        if self._fetch is None:  # whoever sets this one settles what follows
            return None

        def fetch() -> Any:
            self.wait()
            return _called(callback, self)

        return fetch

    def __reduce__(self) -> NoReturn:
        raise RuntimeError("Can not pickle torch.futures.Future: what it waits for is in this process")

    def _settle(self, work: Callable[[], Any]) -> None:
        try:
            value = work()
        except Exception as error:
            if not self.done():
                self._arrive(None, error)
            return
        if not self.done():  # waiting for the first may have settled this one on the way
            self._arrive(value, None)

    def _arrive(self, value: Any, error: BaseException | None) -> None:
        if self._arrived.is_set():
            raise RuntimeError(
                "Attempting to mark a completed Future as complete again. Note that a Future can only be marked "
                "completed once."
            )
        self._value, self._error = value, error
        self._arrived.set()
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)


def wait_all(futures: list[Future]) -> list[Any]:
    """Wait for every future; return their values."""
    return [future.wait() for future in futures]


def collect_all(futures: list[Future]) -> Future:
    """Return the future of the list of these futures, there once all of them are."""

    def fetch() -> list[Future]:
        for future in futures:
            future.wait()
        return futures

    whole = Future(fetch=fetch)
    missing = [len(futures)]

    def count(_: Future | None) -> None:
        missing[0] -= 1
        if missing[0] <= 0 and not whole.done():
            whole._settle(fetch)

    for future in futures:
        future._when_done(count)
    if not futures:
        count(None)
    return whole


def _require_function(callback: Any, name: str) -> None:
    if not callable(callback):
        raise TypeError(f"{name}(): incompatible function arguments: {callback!r} cannot be called")


def _called(callback: Callable[[Future], Any], future: Future) -> Any:
    """Call a function that waits for a future; its error says that it is from there."""
    try:
        return callback(future)
    except Exception as error:
        raise RuntimeError(
            f"Got the following error when running the callback: {type(error).__name__}: {error}"
        ) from error
