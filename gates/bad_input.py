"""Calls with one wrong argument, over every operator of torch's table: the class of the error must be torch's.

``python -m gates.bad_input --minutes 5 --seed 0`` prints how many calls had the same outcome, another class, were
accepted where torch refuses, or raised what does not speak of the call (an internal attribute, NumPy's words).
`--show N` prints examples of each kind.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import random
import re
import time
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

# Words that tell of our inside, or of NumPy's, and nothing of what the caller did.
OPAQUE = re.compile(
    r"has no attribute '(array|node|dtype|shape|ndim|memory|lineage|kind|category|np)'"
    r"|object is not (subscriptable|iterable|callable)|ufunc '|could not be broadcast|truth value of an array"
    r"|not supported for the input types|setting an array element|only (0-dimensional|length-1|integer scalar) arrays"
    r"|only integers, slices|unhashable type|cannot unpack|missing .* required positional|Cannot interpret"
    r"|operands could not|data type .* not understood|NoneType"
)
# Words that name the argument, or the call.
CLEAR = re.compile(r"must be .*, not |invalid combination of arguments")
# What torch's own Python code says of an argument that it did not look at.
STUMBLED = re.compile(r"Boolean value of Tensor|truth value of an array|a value of type .* for argument")
BAD = ("class", "accepted", "opaque")
# Calls that would take the machine's memory, or hang, in either library.
_DANGEROUS = {"empty", "ones", "zeros", "full", "new_empty", "new_full", "randint", "rand", "randn", "normal", "eye"}


class Wrong(NamedTuple):
    """A value that stands in the place of a good one: what it is called, and how to make it."""

    name: str
    make: Any


def _wrongs() -> list[Wrong]:
    return [
        Wrong("None", lambda T, good: None),
        Wrong("a string", lambda T, good: "no"),
        Wrong("an object", lambda T, good: object()),
        Wrong("a list of strings", lambda T, good: ["a"]),
        Wrong("a dict", lambda T, good: {}),
        Wrong("a list", lambda T, good: [1.0]),
        Wrong("1.5", lambda T, good: 1.5),
        Wrong("-7", lambda T, good: -7),
        Wrong("99", lambda T, good: 99),
        Wrong("2**70", lambda T, good: 2**70),
        Wrong("NaN", lambda T, good: float("nan")),
        Wrong("True", lambda T, good: True),
        Wrong("1j", lambda T, good: 1j),
        Wrong("an empty tuple", lambda T, good: ()),
        Wrong("a 0-d tensor", lambda T, good: T.tensor(1.0)),
        Wrong("an empty tensor", lambda T, good: T.zeros(0)),
        Wrong("another shape", lambda T, good: T.ones(7, 3, 5)),
        Wrong("integers", lambda T, good: good.long() if hasattr(good, "long") else T.tensor([1, 2])),
        Wrong("booleans", lambda T, good: good.bool() if hasattr(good, "bool") else T.tensor([True])),
        Wrong("another dtype", lambda T, good: good.to(T.complex64) if hasattr(good, "to") else T.float32),
        Wrong("an array", lambda T, good: np.ones(3)),
        Wrong("a meta tensor", lambda T, good: T.ones(2, 2, device="meta")),
    ]


class Call(NamedTuple):
    """An operator called with one argument replaced."""

    name: str
    place: int | str
    wrong: Wrong
    theirs: tuple[str, str]
    mine: tuple[str, str]

    @property
    def verdict(self) -> str:
        """Return same, class (another one), accepted, refused (what torch takes) or opaque."""
        if self.mine[0] != "ok" and OPAQUE.search(self.mine[1]) and not CLEAR.search(self.mine[1]):
            if self.mine[0] == self.theirs[0] and OPAQUE.search(self.theirs[1]):
                return "same"
            return "opaque" if self.theirs[0] != "ok" or self.mine[0] in ("AttributeError", "ValueError") else "refused"
        if self.mine[0] == self.theirs[0]:
            return "same"
        if self.theirs[0] == "ok":
            return "refused"
        if self.mine[0] == "TypeError" and self.theirs[0] in ("AttributeError", "UnboundLocalError"):
            return "same"  # where torch's own Python code stumbles over the argument
        if self.mine[0] == "TypeError" and CLEAR.search(self.mine[1]) and STUMBLED.search(self.theirs[1]):
            return "same"
        if self.mine[0] == "ok":  # NumPy's arrays are taken by functions that are primitives: docs/pytorch.md
            return "documented" if self.wrong.name == "an array" else "accepted"
        return "class"


def _outcome(function: Any, args: Any, kwargs: Any) -> tuple[str, str]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            function(*args, **kwargs)
        except Exception as error:
            kind = next(k for k in type(error).__mro__ if k.__module__ == "builtins")
            return kind.__name__, str(error)
        return "ok", ""


def calls(dice: random.Random, names: str = "") -> Iterator[Call]:
    """Yield calls without end, each operator in turn."""
    import torch

    import adjoint
    from tests.conformance.entries import ENTRIES, function_of, why_skipped
    from tests.conformance.translate import Missing, to_adjoint

    chosen = [n for n in ENTRIES if not why_skipped(n) and re.search(names, n)]
    wrongs = _wrongs()
    while True:
        dice.shuffle(chosen)
        for name in chosen:
            op = ENTRIES[name]
            try:
                mine = function_of(op)
                dtype = torch.float32 if torch.float32 in op.dtypes else next(iter(op.dtypes), torch.bool)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    sample = dice.choice(list(itertools.islice(op.sample_inputs("cpu", dtype), 8)))
                translated: Any = to_adjoint((sample.input, sample.args, sample.kwargs))
            except (Missing, IndexError, NotImplementedError, TypeError):
                continue
            theirs = (sample.input, *sample.args), sample.kwargs
            ours = (translated[0], *translated[1]), translated[2]
            if _outcome(op.op, *theirs)[0] != "ok" or _outcome(mine, *ours)[0] != "ok":
                continue
            place = dice.choice([*range(len(theirs[0])), *theirs[1]])
            wrong = dice.choice(wrongs)
            if op.name.split(".")[-1] in _DANGEROUS and wrong.name in ("99", "2**70", "another shape"):
                continue
            try:
                bad_theirs, bad_ours = (
                    _replaced(*given, place, wrong, T) for given, T in ((theirs, torch), (ours, adjoint))
                )
            except Exception:  # this value cannot be made of that argument
                continue
            yield Call(name, place, wrong, _outcome(op.op, *bad_theirs), _outcome(mine, *bad_ours))


def _replaced(args: Any, kwargs: Any, place: int | str, wrong: Wrong, T: Any) -> tuple[Any, Any]:
    if isinstance(place, int):
        args = list(args)
        args[place] = wrong.make(T, args[place])
        return tuple(args), kwargs
    return args, {**kwargs, place: wrong.make(T, kwargs[place])}


def run(seconds: float, seed: int, names: str = "", show: int = 0, most: int | None = None) -> collections.Counter[str]:
    """Make calls for so long, or so many; return how many had which verdict."""
    end = time.monotonic() + seconds
    found: collections.Counter[str] = collections.Counter()
    for call in calls(random.Random(seed), names):
        found[call.verdict] += 1
        if call.verdict in BAD and found[call.verdict] <= show:
            print(f"{call.verdict}: {call.name}, {call.wrong.name} for argument {call.place}")
            print(f"    torch    {call.theirs[0]}: {call.theirs[1][:110]!r}")
            print(f"    adjoint  {call.mine[0]}: {call.mine[1][:110]!r}")
        if time.monotonic() > end or (most is not None and found.total() >= most):
            return found
    return found


def main() -> None:
    """Run the gate, as its arguments say."""
    parser = argparse.ArgumentParser(prog="python -m gates.bad_input", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ops", default="", help="a regular expression for names of operators")
    parser.add_argument("--show", type=int, default=10)
    given = parser.parse_args()
    found = run(60 * given.minutes, given.seed, given.ops, given.show)
    total = found.total()
    print(f"{total} calls: " + ", ".join(f"{k} {v}" for k, v in found.most_common()))
    bad = sum(found[verdict] for verdict in BAD)
    print(f"same class: {100 * (total - bad) / max(total, 1):.1f} %")


if __name__ == "__main__":
    main()
