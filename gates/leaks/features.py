"""Loops by name, and what several of them use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FEATURES: dict[str, Callable[[Any], None]] = {}
CYCLIC: set[str] = set()


def feature(run: Callable[[Any], None]) -> Callable[[Any], None]:
    """Register one iteration of a loop; it gets the package, adjoint or torch."""
    FEATURES[run.__name__] = run
    return run


def cyclic(run: Callable[[Any], None]) -> Callable[[Any], None]:
    """Register a loop whose objects refer to each other by their nature; the collector may free them."""
    CYCLIC.add(run.__name__)
    return feature(run)


def leaf(T: Any, *shape: int) -> Any:
    """Return a tensor of ones that wants a gradient."""
    return T.ones(*(shape or (3,)), requires_grad=True)


class raises:
    """Let a block fail; not by contextlib, whose frame and the error refer to each other in Python 3.12."""

    def __init__(self, *kinds: type[BaseException]) -> None:
        self.kinds = kinds

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        if kind is None:
            raise AssertionError("nothing was raised")
        return issubclass(kind, self.kinds)


def model_of(T: Any) -> Any:
    """Return a small model."""
    nn = T.nn
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 1))


own_classes: dict[Any, Any] = {}
