"""Names of arguments: what torch takes by keyword or by position, adjoint takes too.

torch knows the arguments of each of its operators, form by form. Each form is called in torch with values found by
trying: every argument by its name, then with each optional one, then by position. What torch takes is asked of adjoint.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

import adjoint

Value = Callable[[Any], Any]
VALUES: dict[str, list[Value]] = {
    "Tensor": [
        lambda T: T.full((3, 3), 0.1).add(T.eye(3), alpha=0.5),
        lambda T: T.ones(3, 3, dtype=T.int64), lambda T: T.tensor([0, 1, 2]),
        lambda T: T.rand(3), lambda T: T.rand(2, 3, 3), lambda T: T.ones(3, 3, dtype=T.bool), lambda T: T.tensor(1.0),
    ],
    "number": [lambda T: 2, lambda T: 0.5], "Scalar": [lambda T: 2], "int": [lambda T: 1, lambda T: 0],
    "SymInt": [lambda T: 1], "float": [lambda T: 0.5], "bool": [lambda T: True],
    "str": [lambda T: "L", lambda T: "mean", lambda T: "reflect"],
    "List[int]": [lambda T: [1], lambda T: [3, 3], lambda T: [0, 1]],
    "List[Tensor]": [lambda T: [T.rand(3, 3), T.rand(3, 3)]],
}  # fmt: skip
TRIES = 60
# Operators of TorchScript's, which have no arguments of torch's; and what would change the process.
SCRIPT = {"a", "b", "el", "t", "l"}
LEFT_OUT = {"fork", "wait", "save", "seed", "manual_seed", "backward", "set_num_threads", "set_flush_denormal"}
PLACES = {"": "", "Tensor": "", "linalg": "linalg_", "fft": "fft_", "nn.functional": ""}  # and operators' prefixes


def _values(kind: Any) -> list[Value]:
    text = str(kind)
    return VALUES.get(text[len("Optional[") : -1] if text.startswith("Optional[") else text, [])


def _at(root: Any, path: str) -> Any:
    for name in path.split(".") if path else ():
        root = getattr(root, name)
    return root


class Form:
    """One form of an operator, at one of the places it is called from."""

    def __init__(self, place: str, name: str, schema: Any) -> None:
        self.place, self.name, self.schema = place, name, schema
        self.required = [a for a in schema.arguments if not a.has_default_value()]

    def call(self, root: Any, values: dict[str, Value], by_name: bool = True) -> Any:
        """Call the operator of torch or adjoint with these values, by their names or in their order."""
        given = {name: value(root) for name, value in values.items()}
        if self.place == "Tensor":
            function = getattr(given.pop("input"), self.name)
        else:
            function = getattr(_at(root, self.place), self.name)
        return function(**given) if by_name else function(*given.values())

    def takes(self, root: Any, values: dict[str, Value], by_name: bool = True) -> Exception | None:
        """Return the error that such a call raises, None where there is none."""
        try:
            self.call(root, values, by_name)
        except Exception as error:
            return error
        return None

    def found(self) -> dict[str, Value] | None:
        """Return values for the required arguments with which torch does not complain."""
        choices = [_values(a.type) for a in self.required]
        names = ["input" if a.name == "self" else a.name for a in self.required]
        if self.place == "Tensor" and "input" not in names:
            return None
        for some in itertools.islice(itertools.product(*choices), TRIES):
            values = dict(zip(names, some, strict=True))
            if self.takes(torch, values) is None:
                return values
        return None

    def calls(self, values: dict[str, Value]) -> Iterator[tuple[str, dict[str, Value], bool]]:
        """Give the calls to be compared: a word for each, its values, and whether they go by name."""
        yield "required", values, True
        yield "in order", values, False
        for a in self.schema.arguments:
            if a.has_default_value() and a.name not in ("dtype", "layout", "device", "generator"):
                plain = isinstance(a.default_value, int | float | str)
                options = [lambda T, d=a.default_value: d] if plain else _values(a.type)[:1]
                for option in options:
                    yield a.name, {**values, a.name: option}, True


def forms() -> Iterator[Form]:
    """Give every form of every operator that both sides have a function for."""
    for place, prefix in PLACES.items():
        theirs, ours = _at(torch, place), _at(adjoint, place)
        for name in sorted(set(dir(theirs)) & set(dir(ours)) - LEFT_OUT):
            if name.startswith("_"):
                continue
            for schema in torch._C._jit_get_schemas_for_operator(f"aten::{prefix}{name}"):
                names = {a.name for a in schema.arguments}
                if not names & SCRIPT and "Dimname" not in str(schema) and not any(a.is_out for a in schema.arguments):
                    yield Form(place, name, schema)


def differences() -> dict[str, list[str]]:
    """Return what adjoint does not take, by the function's name: a line for each call."""
    wrong: dict[str, list[str]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for form in forms():
            values = form.found()
            for word, given, by_name in form.calls(values) if values else ():
                if form.takes(torch, given, by_name) is None and (error := form.takes(adjoint, given, by_name)):
                    where = f"{form.place}.{form.name}".lstrip(".")
                    wrong.setdefault(where, []).append(f"{word}: {type(error).__name__}: {error} | {form.schema}")
    return wrong


if __name__ == "__main__":
    for name, lines in sorted(differences().items()):
        print(name, *(f"    {line[:220]}" for line in lines), sep="\n")
