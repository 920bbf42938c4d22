"""One test, many variants: `parametrize`, `subtest`, `decorateIf`, and how a class gets its tests."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ...core import dtypes

__all__ = [
    "compose_parametrize_fns", "decorateIf", "dtype_name", "instantiate_parametrized_tests", "parametrize",
    "reparametrize", "subtest",
]  # fmt: skip

# A variant: the test, the end of its name, its arguments, and which decorators it gets.
Variant = tuple[Any, str, dict[str, Any], Callable[[dict[str, Any]], Iterable[Any]]]


def dtype_name(dtype: Any) -> str:
    """Return the name of a dtype without its module."""
    return str(dtype).rpartition(".")[2]


def no_decorators(_: dict[str, Any]) -> list[Any]:
    """Return no decorators."""
    return []


def compose_parametrize_fns(old_parametrize_fn: Any, new_parametrize_fn: Any) -> Callable[..., Iterator[Variant]]:
    """Return what makes each variant of one parametrization with each of another."""

    def composed(test: Any, generic_cls: Any, device_cls: Any) -> Iterator[Variant]:
        for _, inner, given, decorators in old_parametrize_fn(test, generic_cls, device_cls):
            for made, outer, more, more_decorators in new_parametrize_fn(test, generic_cls, device_cls):
                twice = given.keys() & more.keys()
                if twice:
                    raise RuntimeError(f"{test.__name__}: {sorted(twice)} set by more than one parametrization")
                name = "_".join(part for part in (outer, inner) if part)
                yield made, name, {**given, **more}, _both(decorators, more_decorators)

    return composed


def _both(first: Any, second: Any) -> Callable[[dict[str, Any]], list[Any]]:
    return lambda kwargs: [*first(kwargs), *second(kwargs)]


class _TestParametrizer:
    """Base of decorators that make variants of a test: a subclass yields them in ``_parametrize_test``."""

    def _parametrize_test(self, test: Any, generic_cls: Any, device_cls: Any) -> Iterator[Variant]:
        raise NotImplementedError

    def __call__(self, fn: Any) -> Any:
        """Put this parametrization on a test, around those that it has."""
        own = self._parametrize_test
        before = getattr(fn, "parametrize_fn", None)
        fn.parametrize_fn = own if before is None else compose_parametrize_fns(before, own)
        return fn


class subtest:
    """The arguments of one variant, with its name and decorators."""

    __slots__ = ("arg_values", "decorators", "name")

    def __init__(self, arg_values: Any, name: str | None = None, decorators: Any = None) -> None:
        self.arg_values, self.name, self.decorators = arg_values, name, decorators or []


class parametrize(_TestParametrizer):
    """Make one test for each of several values of its arguments.

    Parameters
    ----------
    arg_str
        The names of the arguments, with commas between them.
    arg_values
        For each variant the value, a tuple of values where there are several names, or a `subtest`.
    name_fn
        Gives the end of a variant's name, from the values.
    """

    def __init__(self, arg_str: str, arg_values: Iterable[Any], name_fn: Callable[..., str] | None = None) -> None:
        self.arg_names = [name.strip() for name in arg_str.split(",") if name.strip()]
        self.arg_values, self.name_fn = arg_values, name_fn

    def _name(self, number: int, values: tuple[Any, ...]) -> str:
        if self.name_fn is not None:
            return self.name_fn(*values)
        return "_".join(_shown(n, v, number) for n, v in zip(self.arg_names, values, strict=True))

    def _parametrize_test(self, test: Any, generic_cls: Any, device_cls: Any) -> Iterator[Variant]:
        if not self.arg_names:
            yield test, "", {}, no_decorators
            return
        for number, given in enumerate(self.arg_values):
            variant = given if isinstance(given, subtest) else subtest(given)
            values = tuple(variant.arg_values) if len(self.arg_names) > 1 else (variant.arg_values,)
            if len(values) != len(self.arg_names):
                raise RuntimeError(f"Expected # values == # arg names, but got: {values} for {self.arg_names}")
            name = variant.name if variant.name is not None else self._name(number, values)
            kwargs = dict(zip(self.arg_names, values, strict=True))
            yield test, name, kwargs, functools.partial(_always, variant.decorators)


def _always(decorators: list[Any], _: dict[str, Any]) -> list[Any]:
    return list(decorators)


def _shown(name: str, value: Any, number: int) -> str:
    """Return how a value stands in the name of a test: itself where it is short, else its number."""
    if isinstance(value, dtypes.dtype):
        return dtype_name(value)
    if isinstance(value, bool | int | float | str):
        return f"{name}_{str(value).replace('.', '_')}"
    return f"{name}{number}"


class decorateIf(_TestParametrizer):
    """Decorate those variants of a test for whose arguments a predicate holds."""

    def __init__(self, decorator: Any, predicate_fn: Callable[[dict[str, Any]], bool]) -> None:
        self.decorator, self.predicate_fn = decorator, predicate_fn

    def _chosen(self, kwargs: dict[str, Any]) -> list[Any]:
        return [self.decorator] if self.predicate_fn(kwargs) else []

    def _parametrize_test(self, test: Any, generic_cls: Any, device_cls: Any) -> Iterator[Variant]:
        yield test, "", {}, self._chosen


def reparametrize(parametrizer: Any, adapter_fn: Callable[[str, dict[str, Any]], Any]) -> Any:
    """Return a parametrization whose variants are changed, or left out, by `adapter_fn`."""

    class Reparametrized(_TestParametrizer):
        def _parametrize_test(self, test: Any, generic_cls: Any, device_cls: Any) -> Iterator[Variant]:
            for made, name, kwargs, decorators in parametrizer._parametrize_test(test, generic_cls, device_cls):
                for changed_name, changed in adapter_fn(name, kwargs):
                    yield made, changed_name, changed, decorators

    return Reparametrized()


def variants_of(test: Any, generic_cls: Any, device_cls: Any = None) -> Iterator[Variant]:
    """Yield the variants of a test; of one that has no parametrization, itself."""
    make = getattr(test, "parametrize_fn", None)
    if make is None:
        yield test, "", {}, no_decorators
    else:
        yield from make(test, generic_cls, device_cls)


def bound(test: Any, kwargs: dict[str, Any], decorators: Iterable[Any]) -> Any:
    """Return a test with its arguments given."""

    @functools.wraps(test)
    def variant(self: Any, *args: Any, **more: Any) -> Any:
        return test(self, *args, **kwargs, **more)

    # pytest reads the signature through what is wrapped, and would take arguments for fixtures.
    del variant.__wrapped__
    vars(variant).pop("parametrize_fn", None)
    for decorator in decorators:
        variant = decorator(variant)
    return variant


def instantiate_parametrized_tests(generic_cls: Any) -> Any:
    """Put in the place of each parametrized test of a class its variants."""
    for name, test in inspect.getmembers(generic_cls, inspect.isfunction):
        if not name.startswith("test") or not hasattr(test, "parametrize_fn"):
            continue
        if name in vars(generic_cls):
            delattr(generic_cls, name)
        else:
            setattr(generic_cls, name, None)  # a base's, which is not to run here
        for made, suffix, kwargs, decorators in variants_of(test, generic_cls):
            full = f"{name}_{suffix}" if suffix else name
            if vars(generic_cls).get(full) is not None:
                raise RuntimeError(f"Redefinition of test {full}")
            variant = bound(made, kwargs, decorators(kwargs))
            variant.__name__, variant.__qualname__ = full, f"{generic_cls.__qualname__}.{full}"
            setattr(generic_cls, full, variant)
    return generic_cls
