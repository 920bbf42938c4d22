"""Overrides: kernels that a device attaches to primitives, by their names and from its own side.

A primitive's kernel and rules are its definition: they use NumPy's interface, run on any class of arrays that
supports them, and name no device. Where a measurement asks for something faster, a device has a row in its table::

    @override("softmax", least=sizes.ROWS, when=by_rows)
    def softmax_rows(x, axis): ...


    @override("softmax", gradient="x", when=by_rows_backward)
    def softmax_backward(g, out, axis): ...


    @override.around("mm")
    def mm(definition):
        def kernel(x, y): ...  # calls `definition` where it does not apply

An override takes the arguments of what it stands for. Rows are tried in order where the first argument is an array of
the device with at least `least` elements and `when` holds; one that returns NotImplemented lets the next try. Tensors,
batched, dual and traced values only ever meet the definition. This choice costs 0.2 µs a call. For ops where that
counts, `around` wraps the definition in a function that makes the choice, which must check its arguments' classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from .._typing import Array, Kernel

K = TypeVar("K", bound=Callable[..., Any])


class Row(NamedTuple):
    """A kernel, and when it applies."""

    kernel: Callable[..., Any]
    least: int  # elements of the first array
    when: Callable[..., bool] | None


class Overrides:
    """The overrides of one device, by a primitive's name and the input whose gradient is meant ("": the value)."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], list[Row]] = {}
        self.makers: dict[tuple[str, str], Callable[[Any], Any]] = {}
        self.of_statement: Callable[[Any, Any], Any] | None = None

    def around(self, name: str, gradient: str = "") -> Callable[[K], K]:
        """Attach the decorated function, which is given a definition and returns what is called instead."""

        def attach(make: K) -> K:
            self.makers[name, gradient] = make
            return make

        return attach

    def rowwise(self, make: K) -> K:
        """Attach the decorated function to all row-wise primitives: it makes a kernel of statement and definition."""
        self.of_statement = make
        return make

    def _derived(self, definition: Callable[..., Any]) -> Callable[..., Any]:
        """Return what the device prints from a row-wise statement; else the definition."""
        statement = getattr(definition, "statement", None)
        if statement is None or self.of_statement is None:
            return definition
        return _as(definition, self.of_statement(statement, definition))

    def __call__(
        self, name: str, gradient: str = "", *, least: int = 0, when: Callable[..., bool] | None = None
    ) -> Callable[[K], K]:
        """Attach the decorated kernel to a primitive's value, or to its rule for the input named `gradient`.

        ``gradient="joint"`` stands for the one rule of all inputs.
        """

        def attach(kernel: K) -> K:
            self.rows.setdefault((name, gradient), []).append(Row(kernel, least, when))
            return kernel

        return attach

    def writing(self, name: str, *, least: int = 0, when: Callable[..., bool] | None = None) -> Callable[[K], K]:
        """Attach a kernel that writes into its first argument: to an op's in-place form, and on a copy to its value.

        The in-place form of an op (`Op.into`) is overridden by the op's name with an underscore.
        """

        def attach(kernel: K) -> K:
            def value(x: Any, *rest: object) -> Any:
                x, rest = (x[0], (*x[1:], *rest)) if type(x) is tuple else (x, rest)
                out = x.copy(order="C")
                return NotImplemented if kernel(out, *rest) is NotImplemented else out

            self(f"{name}_", least=least, when=when)(kernel)
            self(name, least=least, when=when)(value)
            return kernel

        return attach

    def applies(self, name: str, x: Any, *params: object) -> bool:
        """Return whether some row for a primitive's value applies to these arguments, the first an array."""
        for _, least, when in self.rows.get((name, ""), ()):
            if x.size >= least and (when is None or when(x, *params)):
                return True
        return False

    def kernel(self, name: str, definition: Callable[..., Any], classes: Iterable[type]) -> Callable[..., Any]:
        """Return what computes a primitive's value on arrays of the device: its definition, if there are no rows."""
        rows, make = self.rows.get((name, "")), self.makers.get((name, ""))
        definition = self._derived(definition)
        if rows is not None:
            definition = _with_rows(definition, tuple(rows), *_two(classes))
        return definition if make is None else _as(definition, make(definition))

    def rule(
        self,
        name: str,
        gradient: str,
        rule: Kernel,
        classes: Iterable[type],
        saved: Sequence[str],
        arrays: Sequence[str],
    ) -> Kernel | None:
        """Return what computes a gradient on arrays of the device: the rule itself, if there are no rows.

        `saved` names what the rule takes after `g`, and `arrays` those of an op's values that are arrays.
        """
        rows, make = self.rows.get((name, gradient)), self.makers.get((name, gradient))
        rule = self._derived(rule)
        if rows is not None:
            places = tuple([i for i, n in enumerate(saved) if n in arrays])
            choosing = _joint_with_rows if gradient == "joint" else _rule_with_rows
            rule = choosing(rule, tuple(rows), places, *_two(classes))
        return rule if make is None else _as(rule, make(rule))


def _two(classes: Iterable[type]) -> tuple[type, type]:
    """Return the one or two classes of a device's arrays as a pair: two identity tests are faster than a search."""
    found = tuple(classes)
    return found[0], found[-1]


def _with_rows(
    definition: Callable[..., Any], rows: tuple[Row, ...], cls: type[Any], other: type[Any]
) -> Callable[..., Any]:
    least = min(row.least for row in rows)

    def kernel(x: Any, *params: object) -> Any:
        first: Any = x[0] if type(x) is tuple else x  # of a sequence, as for `cat`
        if (type(first) is cls or type(first) is other) and (size := first.size) >= least:
            for override, smallest, when in rows:
                if size >= smallest and (when is None or when(x, *params)):
                    out = override(x, *params)
                    if out is not NotImplemented:
                        return out
        return definition(x, *params)

    return _as(definition, kernel)


def _rule_with_rows(
    rule: Callable[..., Any], rows: tuple[Row, ...], places: tuple[int, ...], cls: type[Any], other: type[Any]
) -> Callable[..., Any]:
    least = min(row.least for row in rows)

    def chosen(g: Array, *saved: Array) -> Array:
        if (type(g) is cls or type(g) is other) and (size := g.size) >= least:
            for i in places:
                v = saved[i]
                if v is not None and type(v) is not cls and type(v) is not other:
                    return rule(g, *saved)
            for override, smallest, when in rows:
                if size >= smallest and (when is None or when(g, *saved)):
                    out = override(g, *saved)
                    if out is not NotImplemented:
                        return out
        return rule(g, *saved)

    return _as(rule, chosen)


def _joint_with_rows(
    rule: Callable[..., Any], rows: tuple[Row, ...], places: tuple[int, ...], cls: type[Any], other: type[Any]
) -> Callable[..., Any]:
    least = min(row.least for row in rows)

    def chosen(g: Any, *saved: Any, **needs: bool) -> Any:
        several = type(g) is list or type(g) is tuple
        first: Any = next((v for v in g if v is not None), None) if several else g
        values = (first, *[saved[i] for i in places])
        plain = all([v is None or type(v) is cls or type(v) is other for v in values])  # noqa: C419 - no generator
        if plain and first is not None and first.size >= least:
            for override, smallest, when in rows:
                if first.size >= smallest and (when is None or when(g, *saved)):
                    out = override(g, *saved, **needs)
                    if out is not NotImplemented:
                        return out
        return rule(g, *saved, **needs)

    return _as(rule, chosen)


def _as(definition: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function under the name and with the attributes of the definition that it stands for."""
    function.__dict__.update({**getattr(definition, "__dict__", {}), **function.__dict__})
    function.__name__ = getattr(definition, "__name__", function.__name__)
    function.__wrapped__ = definition  # type: ignore[attr-defined]
    return function
