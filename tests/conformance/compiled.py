"""Torch's operator table, compiled: every entry, its values and gradients, against adjoint itself uncompiled.

python -m tests.conformance.compiled [--ops RE] [--backend numpy] [--samples N] [--markdown docs/coverage.md]

Three ways of compiling an operator are compared: alone, without gradients (`forward`); with its backward pass outside
the compiled function (`joint`); with it inside (`step`). Each is called twice with the sample's values and then with
others, and with the same in another order, so that what was frozen by mistake shows.
"""

from __future__ import annotations

import argparse
import gc
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

import adjoint

from . import entries, runner
from .checks import Case, Mismatch, NotApplicable, array_of, compare_arrays
from .runner import COMPILED, Record, spread
from .translate import Missing, flatten, substitute, to_adjoint

WAYS = ("forward", "joint", "step")
_OTHER = 0.9375  # what values are multiplied by in the third call
_MOVED = 0.0  # the fourth call has the values in another order, integers too, and masks the other way round


class NotCompiled(Exception):
    """The operator ran, and rightly, but not as a compiled program."""


class Guarded(Exception):
    """The operator was right each time, but each set of values had a program of its own."""


class Sample:
    """One sample of an operator as a function of its tensors."""

    def __init__(self, case: Case, grad: bool) -> None:
        self.case = case
        self.call = to_adjoint(case.theirs(grad=grad))
        self.leaves = list({id(t): t for t in flatten(self.call) if isinstance(t, adjoint.Tensor)}.values())
        self.wanted = [i for i, t in enumerate(self.leaves) if t.requires_grad]

    def __call__(self, *tensors: Any) -> list[Any]:
        """Return the tensors among the operator's results."""
        memo = {id(old): new for old, new in zip(self.leaves, tensors)}
        out = self.case.run_ours(substitute(self.call, memo), bool(self.wanted))
        return [o for o in flatten(out) if isinstance(o, adjoint.Tensor)]

    def tensors(self, share: float = 1.0) -> list[Any]:
        """Return fresh tensors like those of the sample, their values multiplied by `share`, or moved."""
        made = []
        for t in self.leaves:
            fresh = _twin(t)
            if share == _MOVED:
                fresh.array[...] = ~fresh.array if fresh.array.dtype == bool else np.roll(fresh.array, 1)
            elif share != 1.0 and fresh.array.dtype.kind in "fc":
                fresh.array[...] = fresh.array * fresh.array.dtype.type(share)
            made.append(fresh.requires_grad_(t.requires_grad))
        return made


def _twin(t: Any) -> Any:
    """Return a tensor with the same values and strides, and memory of its own."""
    a = t.detach().array
    reach = [(n - 1) * s for n, s in zip(a.shape, a.strides)]
    if not a.size:
        return adjoint.from_numpy(a.copy())
    block = np.zeros(sum(reach) + a.itemsize, np.uint8)
    fresh = np.ndarray(a.shape, a.dtype, block, 0, a.strides)
    fresh[...] = a
    return adjoint.from_numpy(fresh)


def _cotangents(outs: list[Any]) -> list[Any]:
    rng = np.random.default_rng(3)
    made = []
    for o in outs:
        value = rng.standard_normal(tuple(o.shape))
        value = value + 1j * rng.standard_normal(tuple(o.shape)) if o.is_complex() else value
        made.append(adjoint.tensor(np.asarray(value).tolist(), dtype=o.dtype))  # a literal, not an array from anywhere
    return made


def _gradients(outs: list[Any], wanted: list[Any]) -> list[Any]:
    roots = [o for o in outs if o.requires_grad]
    if not roots or not wanted:
        return []
    return list(adjoint.autograd.grad(roots, wanted, _cotangents(roots), allow_unused=True))


def _run(sample: Sample, way: str, function: Any, tensors: list[Any]) -> list[Any]:
    """Return results and gradients; `function` is the compiled or the uncompiled one."""
    if way == "forward":
        with adjoint.no_grad():
            return function(*tensors)
    if way == "step":
        return function(*tensors)
    outs = function(*tensors)
    return [*(o.detach() for o in outs), *_gradients(outs, [tensors[i] for i in sample.wanted])]


def check(case: Case, way: str, backend: Any) -> None:
    """Compare one sample, compiled in one way, with itself uncompiled."""
    sample = Sample(case, way != "forward")
    if way != "forward" and not sample.wanted:
        raise NotApplicable("no input requires a gradient")

    def step(*tensors: Any) -> list[Any]:
        outs = sample(*tensors)
        return [*(o.detach() for o in outs), *_gradients(outs, [tensors[i] for i in sample.wanted])]

    function = step if way == "step" else sample
    compiled = adjoint.compile(function, backend=backend)
    rounds = [*([1.0] * (3 if way == "joint" else 2)), _OTHER, _MOVED]
    for number, share in enumerate(rounds):
        try:
            tensors = sample.tensors(share)
            expected = _run(sample, way, function, tensors)
        except Exception as error:  # the operator itself refuses such values
            if number == 0:
                raise NotApplicable(f"adjoint raises {type(error).__name__}") from None
            break
        given = sample.tensors(share)
        _compare(_run(sample, way, compiled, given), expected, f"call {number + 1}", case)
        _compare(given, tensors, f"argument after call {number + 1}", case)
    _judge(compiled)


def _judge(compiled: Any) -> None:
    if compiled.refused:
        raise NotCompiled(compiled.refused)
    if not compiled.traces:
        raise NotCompiled("no program was made")
    if not any(t.calls for t in compiled.traces):
        raise NotCompiled(f"no program ran: {compiled.reasons[-1] if compiled.reasons else ''}")
    if len(compiled.traces) > 1:
        raise Guarded(compiled.reasons[-1] if compiled.reasons else "")


def _compare(got: list[Any], expected: list[Any], what: str, case: Case) -> None:
    if len(got) != len(expected):
        raise Mismatch(f"{what}: {len(got)} results, uncompiled {len(expected)}")
    for i, (a, b) in enumerate(zip(got, expected)):
        if a is None or b is None:
            if a is not b and np.any(array_of(b if a is None else a)):
                raise Mismatch(f"{what}: a gradient in one of the two only")
        elif case.op.name not in entries.UNSET:
            compare_arrays(array_of(a), array_of(b), f"{what}, result {i}", 10 * case.loose)


def run_op(name: str, options: dict[str, Any]) -> Record:
    """Return the record of one operator: per way, how many samples are right, guarded, not compiled, wrong."""
    op = entries.ENTRIES[name]
    record: Record = {"name": name, "ways": {}, "why": {}}
    try:
        function = entries.function_of(op)
    except Missing as missing:
        return record | {"missing": str(missing)}
    dtype = next(iter(entries.dtypes_of(op, [options["dtype"]])), None)
    if dtype is None:
        return record
    backward = op.supports_autograd and dtype.is_floating_point and dtype in op.supported_backward_dtypes("cpu")
    signal.setitimer(signal.ITIMER_PROF, options["timeout"])
    try:
        torch.manual_seed(0)
        np.random.seed(0)
        taken = spread(list(op.sample_inputs("cpu", dtype, requires_grad=backward)), options["samples"])
        for way in WAYS if backward else ("forward",):
            counts = record["ways"][way] = {"right": 0, "guarded": 0, "uncompiled": 0, "wrong": 0}
            for sample in taken:
                word, why = _verdict(Case(op, sample, function), way, options["backend"])
                if word:
                    counts[word] += 1
                if why:
                    record["why"].setdefault(f"{way} {word}", why)
    except runner.OutOfTime:
        record["why"]["time"] = f"out of time after {options['timeout']:g} s"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return record


def _verdict(case: Case, way: str, backend: Any) -> tuple[str, str]:
    try:
        check(case, way, backend)
    except NotApplicable:
        return "", ""
    except Guarded as why:
        return "guarded", str(why)[:200]
    except NotCompiled as why:
        return "uncompiled", str(why)[:300]
    except Exception as error:
        kind = "" if isinstance(error, Mismatch) else f"{type(error).__name__}: "
        return "wrong", f"{kind}{str(error).strip()[:300]}{runner._origin(error)} ({runner._sketch(case)})"
    return "right", ""


def _has(record: Record, word: str) -> bool:
    return any(counts[word] for counts in record.get("ways", {}).values())


def verdict_of(record: Record) -> str:
    """Return one word for an operator: the worst that happened to a sample of it."""
    if "missing" in record or "crash" in record or "time" in record.get("why", {}):
        return "wrong"
    return next((w for w in ("wrong", "uncompiled", "guarded", "right") if _has(record, w)), "n/a")


def totals(records: list[Record]) -> list[str]:
    """Return the summary's lines."""
    words = [verdict_of(r) for r in records]
    asked = len(words) - words.count("n/a")
    lines = [
        f"{words.count('right')}/{asked} operators compile, with their gradients, and equal eager execution",
        f"{words.count('guarded')} are compiled again for each set of values, because their result depends on values",
        f"{words.count('uncompiled')} run uncompiled, as documented",
        f"{words.count('wrong')} give wrong results",
    ]
    for way in WAYS:
        found = [r["ways"][way] for r in records if way in r.get("ways", {})]
        told = ", ".join(f"{sum(c[w] for c in found)} {w}" for w in ("right", "guarded", "uncompiled", "wrong"))
        lines.append(f"samples, {way}: {told}")
    return lines


def markdown(records: list[Record], backend: str) -> str:
    """Return the part of the coverage page about compiled operators."""
    lines = [
        COMPILED.strip(), "",
        f"The same entries under `adjoint.compile`{f' (backend {backend})' if backend else ''}: alone (`forward`), "
        "with the backward pass outside (`joint`) and inside (`step`) of the compiled function, on the sample's values "
        "and on others, compared with eager execution. Written by "
        "`python -m tests.conformance.compiled --backend numpy --markdown docs/coverage.md`.", "",
        *(f"- {line}" for line in totals(records)),
    ]  # fmt: skip
    for word, heading in (("wrong", "Wrong"), ("uncompiled", "Not compiled")):
        found = [r for r in records if verdict_of(r) == word]
        if found:
            lines += ["", f"{heading}:", "", *(f"- `{r['name']}`: {_story(r, word)}" for r in found)]
    guarded = [f"`{r['name']}`" for r in records if verdict_of(r) == "guarded"]
    if guarded:
        lines += ["", f"Compiled again for each set of values: {', '.join(guarded)}."]
    return "\n".join(lines) + "\n"


def _story(record: Record, word: str) -> str:
    if "crash" in record or "missing" in record:
        return str(record.get("crash") or record["missing"])
    told = [f"{key.split()[0]}: {why}" for key, why in record["why"].items() if key.endswith((word, "time"))]
    return runner._plain(told[0] if told else "")


def main(argv: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.compiled", description=__doc__)
    parser.add_argument("--ops", help="regular expression searched for in entries' names")
    parser.add_argument("--backend", default="", help="numpy: without loops")
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--samples", type=int, default=4, help="samples per operator; 0 for all")
    parser.add_argument("--timeout", type=float, default=60, help="processor seconds per operator")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--markdown", type=Path, help="renew the part of this coverage page about compiled operators")
    args = parser.parse_args(argv)
    names, _ = runner.select(args.ops)
    options = {
        "samples": args.samples or None, "timeout": args.timeout, "backend": args.backend or None,
        "dtype": args.dtype, "run": run_op,
    }  # fmt: skip
    started = time.monotonic()

    def report(record: Record) -> None:
        word = verdict_of(record)
        if word in ("wrong", "uncompiled", "guarded"):
            print(f"{word:10} {record['name']}: {_story(record, word)}", flush=True)

    gc.collect()
    gc.freeze()  # capturing looks at every object there is: torch's own need not be among them
    warnings.simplefilter("ignore")
    records = runner.run_all(names, options, args.jobs, report)
    print(f"\n{len(records)} entries, {time.monotonic() - started:.0f} s")
    print("\n".join(totals(records)))
    if args.markdown:
        page = args.markdown.read_text()
        before = page[: len(page) - len(runner.kept_part(page))].rstrip()
        _, heading, layers = page.partition(runner.LAYERS)
        args.markdown.write_text(f"{before}\n\n{markdown(records, args.backend)}{heading}{layers}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
