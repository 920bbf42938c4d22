"""The declaration of a primitive, apart from its kernel and rules, in three parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .nodes import Node

Picker = Callable[[Sequence[Any]], Any]


class Saves(NamedTuple):
    """Which values of a call the rules of an op save.

    The environment has one order for every op: inputs, output, hidden results, parameters, then the shapes and dtypes
    of inputs that some rule names (`x_shape`).
    """

    indexes: tuple[tuple[int, ...], ...] = ()  # by rule, the positions in the environment of what it saves
    pickers: tuple[Picker | None, ...] = ()  # the same as functions of the environment; None: the rule saves nothing
    derived: tuple[tuple[int, str], ...] = ()  # the input and attribute of each shape and dtype at the end
    spans: tuple[int, ...] = ()  # of one rule for all inputs: how many values each of its parameters takes
    hidden: tuple[str, ...] = ()  # names of results that the kernel returns for rules alone
    outputs: tuple[int, ...] | None = None  # of several outputs, those that `out` means in a rule; None: all
    # Of one rule for all inputs: by input, the other one whose gradient alone it is saved for.
    only_for: Mapping[int, int] = MappingProxyType({})

    @classmethod
    def of_rules(
        cls, inputs: Sequence[str], params: Sequence[str], named: Sequence[Sequence[str]], hidden: tuple[str, ...],
        outputs: tuple[int, ...] | None, only_for: dict[int, int] | None,
    ) -> Saves:  # fmt: skip
        """Return what rules save whose parameters, after the gradient, have these names."""
        names = [*inputs, "out", *hidden, *params]
        spans: dict[str, list[str]] = {
            "xs": list(inputs),
            "xs_from_1": list(inputs[1:]),
            "xs_from_2": list(inputs[2:]),
            "xs_shape": [f"{i}_shape" for i in inputs],
        }
        places = {n: i for i, n in reversed(list(enumerate(names)))}  # of thousands of inputs, a list is slow to search
        flat = [[n for w in ws for n in ([w] if w in places else spans.get(w, [w]))] for ws in named]
        shapes = sorted({n for w in flat for n in w if n not in places}, key=_by_number)
        derived = tuple([(places[n.rpartition("_")[0]], n.rpartition("_")[2]) for n in shapes])
        places.update({n: len(names) + i for i, n in enumerate(shapes)})
        indexes = tuple([tuple([places[n] for n in w]) for w in flat])
        lengths = tuple([len(spans[w]) if w in spans and w not in names else 0 for w in named[0]]) if named else ()
        pickers = tuple([itemgetter(*i) if i else None for i in indexes])
        return cls(indexes, pickers, derived, lengths, hidden, outputs, MappingProxyType(only_for or {}))

    def names(self, inputs: Sequence[str], params: Sequence[str]) -> list[str]:
        """Return the names of the values in the environment."""
        return [*inputs, "out", *self.hidden, *params, *(f"{inputs[i]}_{what}" for i, what in self.derived)]

    def save(self, edges: Sequence[Any], env: Sequence[Any]) -> tuple[Any, ...] | None:
        """Return what a node with these edges saves of the environment of its call."""
        pickers = self.pickers
        if len(pickers) == 1:
            pick = pickers[0]
            return None if pick is None else (pick(env),)
        return tuple([None if e is None or pick is None else pick(env) for e, pick in zip(edges, pickers)])


def _by_number(name: str) -> tuple[int, str]:
    digits = "".join(c for c in name if c.isdigit())
    return (int(digits) if digits else 0, name)


class Display(NamedTuple):
    """How programs see the nodes of an op."""

    node: Any = None  # the class that a node takes when a program first looks at it
    names: Mapping[str, str] = MappingProxyType({})  # what torch calls the saved values
    visible: tuple[int, ...] | None = None  # inputs in `next_functions`, where some can have no gradient; None: all
    written: str | None = None  # the title of nodes where the op writes in place, if it is another
    unfold: Callable[[Node], None] | None = None  # turns a node into those that torch has
    split: Callable[[Node], None] | None = None  # the same, where the first of those is none of this op
    finish_order: tuple[int, ...] | None = None  # the order in which gradients of leaves are done; None: as inputs


class Traits(NamedTuple):
    """How an op treats values."""

    promotes: bool | tuple[int, ...] = False  # whether inputs get one dtype: all, or those at these positions
    floating: bool = False  # whether integers become floats
    view: bool | str = False  # whether the result may be a view of the first input; "always": it is one
    outputs: bool = False  # whether the kernel returns a tuple of outputs
    holomorphic: bool = False  # whether, on complex values, rules run between two conjugations
    # Whether it is made of straight lines: its gradient does not change with its input, and in a recorded pass has
    # the derivative zero rather than none.
    flat: bool = False
    accumulates: bool = False  # whether rules add up many products: NumPy's half precision does that in single
    takes_undefined: bool = False  # whether it runs without a gradient, as a custom function does
    explain: Callable[..., Exception | None] | None = None  # a better error for a kernel's exception
