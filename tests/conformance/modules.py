"""torch's `module_db` on adjoint: every layer with torch's own arguments and inputs, side by side in float64.

    python -m tests.conformance.modules                         # all layers, a line each, totals
    python -m tests.conformance.modules --modules 'Conv' --failing
    python -m tests.conformance.modules --markdown docs/coverage.md

A layer is made in both with the same arguments and seed, gets torch's parameters, and is called in training and in
evaluation. Compared are: the text and the names of the state (`text`), the parameters it began with (`init`), what it
returns (`forward`), the gradients of its inputs and parameters (`grad`), and its buffers afterwards (`state`).
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import adjoint

from . import translate
from .checks import Mismatch, array_of, compare, compare_arrays
from .runner import LAYERS
from .translate import Missing, flatten, lookup, substitute, to_adjoint, to_numpy

CHECKS = ("text", "init", "forward", "grad", "state")
Record = dict[str, Any]


def database() -> dict[str, Any]:
    """Return torch's layers by name."""
    from torch.testing._internal.common_modules import module_db

    return {info.name.removeprefix("nn."): info for info in module_db}


def inputs_of(info: Any, training: bool) -> list[Any]:
    """Return torch's own arguments and inputs for a layer."""
    torch.manual_seed(0)
    np.random.seed(0)
    given = info.module_inputs_func(info, device="cpu", dtype=torch.float64, requires_grad=True, training=training)
    return [g for g in given if g.forward_input is not None]


# --- From torch to adjoint --------------------------------------------------------------------------


def _argument(value: Any) -> Any:
    """Return an argument in adjoint's words; a module among the arguments is rebuilt."""
    if isinstance(value, torch.nn.Module):
        return _transplanted(value)
    if isinstance(value, torch.nn.utils.rnn.PackedSequence):
        return adjoint.nn.utils.rnn.PackedSequence(*(None if v is None else to_adjoint(v) for v in value))
    if isinstance(value, tuple | list) and any(isinstance(v, torch.nn.Module) for v in value):
        return type(value)(_argument(v) for v in value)
    return to_adjoint(value)


def _transplanted(module: Any) -> Any:
    """Return an adjoint module with the attributes, members and values of a torch module."""
    out = object.__new__(lookup(f"{type(module).__module__.removeprefix('torch.')}.{type(module).__name__}"))
    adjoint.nn.Module.__init__(out)
    registries = ("_parameters", "_buffers", "_modules")
    for name, value in vars(module).items():
        if name not in registries and "hooks" not in name and not name.startswith("_is_full"):
            setattr(out, name, _argument(value))
    for name, value in module._parameters.items():
        out.register_parameter(name, None if value is None else adjoint.nn.Parameter(to_adjoint(value.detach())))
    for name, value in module._buffers.items():
        out.register_buffer(name, None if value is None else to_adjoint(value))
    for name, value in module._modules.items():
        out.add_module(name, None if value is None else _transplanted(value))
    return out


class Pair:
    """One layer, made by torch and by adjoint with the same arguments, and one set of inputs for both."""

    def __init__(self, info: Any, given: Any, training: bool) -> None:
        made = given.constructor_input
        torch.manual_seed(3)
        self.theirs = info.module_cls(*made.args, **made.kwargs).to(torch.float64).train(training)
        kind = lookup(info.name)
        adjoint.manual_seed(3)
        kwargs = {k: _argument(v) for k, v in made.kwargs.items()}
        self.ours = kind(*map(_argument, made.args), **kwargs).to(translate.place, adjoint.float64).train(training)
        self.call = given.forward_input
        self.lazy = info.is_lazy

    def load(self) -> None:
        """Give both the same parameters and buffers."""
        state = {k: to_adjoint(v.detach()) for k, v in self.theirs.state_dict().items()}
        self.ours.load_state_dict(state)

    def run(self) -> tuple[Any, Any, list[Any], list[Any]]:
        """Return both results, and the tensors that both were given."""
        args, kwargs = _leaves_of_the_graph((self.call.args, self.call.kwargs))
        memo: dict[int, Any] = {}
        translated = [_call_argument(a, memo) for a in args]
        named = {k: _call_argument(v, memo) for k, v in kwargs.items()}
        torch.manual_seed(7)
        theirs = self.theirs(*args, **kwargs)
        adjoint.manual_seed(7)
        ours = self.ours(*translated, **named)
        return ours, theirs, leaves((translated, named)), leaves((args, kwargs))


def _leaves_of_the_graph(value: Any) -> Any:
    """Return torch's inputs cut off from how they were made, so that each gets its own gradient."""
    twins = {id(t): t.detach().requires_grad_(t.requires_grad) for t in flatten(value) if isinstance(t, torch.Tensor)}
    return substitute(value, twins)


def _call_argument(value: Any, memo: dict[int, Any]) -> Any:
    if isinstance(value, torch.nn.utils.rnn.PackedSequence):
        return _argument(value)
    return to_adjoint(value, memo)


def leaves(value: Any) -> list[Any]:
    """Return the tensors in nested containers that gradients can reach."""
    return [v for v in flatten(value) if isinstance(v, torch.Tensor | adjoint.Tensor) and v.requires_grad]


# --- Checks -----------------------------------------------------------------------------------------


def text(pair: Pair) -> None:
    """The module's text, and the names in its state."""
    if repr(pair.ours).replace("adjoint", "torch") != repr(pair.theirs):
        raise Mismatch(f"text: {pair.ours!r}, torch has {pair.theirs!r}")
    if list(pair.ours.state_dict()) != list(pair.theirs.state_dict()):
        raise Mismatch(f"state: {list(pair.ours.state_dict())}, torch has {list(pair.theirs.state_dict())}")


def init(pair: Pair) -> None:
    """The parameters it begins with under the same seed."""
    if pair.lazy:
        return
    for (name, a), (_, b) in zip(pair.ours.named_parameters(), pair.theirs.named_parameters(), strict=True):
        compare_arrays(array_of(a), to_numpy(b.detach()), name, loose=100.0)  # drawn in float32


def behaviour(pair: Pair) -> dict[str, Callable[[], None]]:
    """Return the checks of one call: what it returns, gradients, buffers afterwards."""
    if pair.lazy:  # made by the first call
        with torch.no_grad(), adjoint.no_grad():
            pair.run()
    pair.load()
    ours, theirs, given, expected_given = pair.run()
    return {
        "forward": lambda: compare(ours, theirs),
        "grad": lambda: gradients(pair, ours, theirs, given, expected_given),
        "state": lambda: state(pair),
    }


def gradients(pair: Pair, ours: Any, theirs: Any, given: list[Any], expected_given: list[Any]) -> None:
    """The gradients of inputs and parameters under a random cotangent."""
    outs = leaves(theirs)
    mine = leaves(ours)
    if len(outs) != len(mine):
        raise Mismatch(f"{len(mine)} results require grad, torch has {len(outs)}")
    if not outs:
        return
    torch.manual_seed(11)
    cotangents = [torch.randn_like(o) for o in outs]
    torch.autograd.backward(outs, cotangents)
    adjoint.autograd.backward(mine, [to_adjoint(c) for c in cotangents])
    for i, (a, b) in enumerate(zip(given, expected_given, strict=True)):
        _compare_grads(f"gradient of input {i}", a, b)
    for (name, a), (_, b) in zip(pair.ours.named_parameters(), pair.theirs.named_parameters(), strict=True):
        _compare_grads(f"gradient of {name}", a, b)


def _compare_grads(what: str, a: Any, b: Any) -> None:
    if (a.grad is None) != (b.grad is None):
        raise Mismatch(
            f"{what}: {'none' if a.grad is None else 'one'}, torch has {'none' if b.grad is None else 'one'}"
        )
    if b.grad is not None:
        compare_arrays(array_of(a.grad), to_numpy(b.grad), what)


def state(pair: Pair) -> None:
    """Running statistics and other buffers after the call."""
    for (name, a), (_, b) in zip(pair.ours.named_buffers(), pair.theirs.named_buffers(), strict=True):
        compare_arrays(array_of(a), to_numpy(b), name)


def run_module(name: str, info: Any) -> Record:
    """Return the record of one layer: how often each check passed, and the first thing that did not."""
    record: Record = {"name": name, "passed": dict.fromkeys(CHECKS, 0), "failed": dict.fromkeys(CHECKS, 0), "why": {}}

    def note(check: str, training: bool, number: int, action: Callable[[], Any]) -> Any:
        try:
            answer = action()
        except Exception as error:
            record["failed"][check] += 1
            kind = "" if isinstance(error, Mismatch | Missing) else f"{type(error).__name__}: "
            mode = "training" if training else "evaluation"
            record["why"].setdefault(check, f"{kind}{str(error)[:400]} ({mode}, input {number})")
            return None
        record["passed"][check] += 1
        return answer

    for training in (True, False):
        for number, given in enumerate(inputs_of(info, training)):
            try:
                pair = Pair(info, given, training)
            except Exception as error:
                note("text", training, number, lambda error=error: _raise(error))
                continue
            note("text", training, number, lambda: text(pair))
            note("init", training, number, lambda: init(pair))
            found = {"forward": lambda: behaviour(pair)}
            actions = note("forward", training, number, found["forward"])
            if actions is not None:
                record["passed"]["forward"] -= 1
                for check, action in actions.items():
                    note(check, training, number, action)
    return record


def _raise(error: Exception) -> None:
    raise error


def passes(record: Record) -> bool:
    """Return whether a layer agrees in everything."""
    return not any(record["failed"].values()) and record["passed"]["forward"] > 0


def run_all(pattern: str | None = None, report: Callable[[Record], None] = lambda record: None) -> list[Record]:
    """Return the records of all layers whose name matches."""
    records = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, info in sorted(database().items()):
            if pattern is None or re.search(pattern, name):
                records.append(run_module(name, info))
                report(records[-1])
    return records


# --- Reports ----------------------------------------------------------------------------------------


def totals(records: list[Record]) -> str:
    """Return the summary's line."""
    good = sum(map(passes, records))
    samples = sum(r["passed"]["forward"] + r["failed"]["forward"] for r in records)
    return (
        f"{good}/{len(records)} layers ({100 * good / max(len(records), 1):.1f}%) agree in everything, {samples} calls"
    )


def _mark(record: Record, check: str) -> str:
    return "**no**" if record["failed"][check] else "yes" if record["passed"][check] else ""


def markdown(records: list[Record]) -> str:
    """Return the part of the coverage page about layers."""
    version = torch.__version__.partition("+")[0]
    lines = [
        LAYERS.strip(), "",
        f"Every entry of torch {version}'s table of layers, made in both with the same arguments and seed and called "
        "in training and evaluation (float64). Written by `python -m tests.conformance.modules --markdown "
        "docs/coverage.md`.", "",
        f"- {totals(records)}", "",
        "| layer | calls | text | init | forward | grad | state |", "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for r in records:
        calls = r["passed"]["forward"] + r["failed"]["forward"]
        lines.append(f"| `{r['name']}` | {calls} | " + " | ".join(_mark(r, c) for c in CHECKS) + " |")
    problems = [(r["name"], check, why) for r in records for check, why in r["why"].items()]
    if problems:
        lines += ["", *(f"- `{name}` {check}: {' '.join(why.split())}" for name, check, why in problems)]
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.modules", description=__doc__.partition("\n")[0])
    parser.add_argument("--modules", help="regular expression searched for in layers' names")
    parser.add_argument("--failing", action="store_true", help="print only layers with a problem")
    parser.add_argument("--markdown", type=Path, help="renew the part of this coverage page about layers")
    parser.add_argument("--device", default="cpu", help="where adjoint computes: cpu or cuda (torch: on the host)")
    args = parser.parse_args(argv)
    translate.place = args.device

    def report(record: Record) -> None:
        if not (args.failing and passes(record)):
            print(f"{record['name']:32} " + " ".join(f"{c}={record['passed'][c]}" for c in CHECKS))
        for check, why in record["why"].items():
            print(f"    {check} {record['failed'][check]}: {why}", flush=True)

    records = run_all(args.modules, report)
    print(totals(records))
    if args.markdown:
        page = args.markdown.read_text().partition(LAYERS)[0].rstrip() + "\n\n"
        args.markdown.write_text(page + markdown(records))
    return 0


if __name__ == "__main__":
    sys.exit(main())
