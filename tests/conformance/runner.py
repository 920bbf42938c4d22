"""Drive torch's operator table through adjoint and say what agrees; see README.md for usage."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import multiprocessing.connection
import os
import re
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from . import checks as checking
from . import entries, layouts, translate
from .translate import Missing

Record = dict[str, Any]
COMPILED = "\n## Compiled\n"  # the heading of what `compiled.py` writes into the coverage page
LAYERS = "\n## Layers\n"  # the heading of what `modules.py` writes there
GPU = "\n## On a GPU\n"  # written by hand


_SIMULATED = bool(os.environ.get("ADJOINT_SIMULATED_GPU"))
if _SIMULATED:
    from tests.gpu import simulated

    simulated.install()


class OutOfTime(BaseException):
    """The operator's share of processor time is used up."""


# --- One operator -----------------------------------------------------------------------------------


def spread(items: list[Any], count: int | None) -> list[Any]:
    """Return at most `count` items, evenly spread, the first included."""
    if count is None or len(items) <= count:
        return items
    return [items[int(i)] for i in np.linspace(0, len(items) - 1, count).round()]


def _origin(error: BaseException) -> str:
    """Return where in adjoint an exception came from."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "/adjoint/" in f.filename]
    return f" [{Path(ours[-1].filename).name}:{ours[-1].lineno}]" if ours else ""


def _is_missing(error: BaseException) -> bool:
    text = str(error)
    return isinstance(error, Missing) or (
        isinstance(error, AttributeError)
        and bool(re.search(r"(module 'adjoint[\w.]*'|'Tensor' object|type object 'Tensor') has no attribute", text))
    )


def run_check(check: str, cases: list[Any]) -> Record:
    """Return how one check went over the samples of one dtype."""
    passed = failed = 0
    why, status = "", ""
    reasons: dict[str, int] = {}
    for i, case in enumerate(cases):
        try:
            checking.SAMPLE_CHECKS[check](case)
        except checking.NotApplicable as reason:
            reasons[str(reason)] = reasons.get(str(reason), 0) + 1
            why = why or ("" if failed else str(reason))
            continue
        except Exception as error:
            if translate.reversed and "read-only" in str(error):  # rightly refused
                reasons["read-only memory"] = reasons.get("read-only memory", 0) + 1
                continue
            failed += 1
            if failed == 1:
                status = "missing" if _is_missing(error) else "fail"
                kind = "" if isinstance(error, checking.Mismatch | Missing) else f"{type(error).__name__}: "
                why = f"{kind}{str(error).strip()[:300]}{_origin(error)} (sample {i}: {_sketch(case)})"
            if status == "missing" and failed >= 3:
                break
            continue
        passed += 1
    found: Record = {"status": status, "passed": passed, "failed": failed, "why": why, "not applicable": reasons}
    if failed:
        return found
    return found | ({"status": "pass", "why": ""} if passed else {"status": "n/a"})


def _sketch(case: Any) -> str:
    """Return a sample in a few words."""

    def show(v: Any) -> str:
        if isinstance(v, torch.Tensor):
            layout = "" if v.is_contiguous() else " strided"
            return f"{str(v.dtype).removeprefix('torch.')}{list(v.shape)}{layout}"
        if isinstance(v, list | tuple):
            return f"[{', '.join(map(show, v))}]"
        return repr(v)[:40]

    s = case.sample
    parts = [show(s.input), *map(show, s.args), *(f"{k}={show(v)}" for k, v in s.kwargs.items())]
    return ", ".join(parts)[:240]


def run_op(
    name: str,
    wanted: list[str],
    dtypes: list[str],
    samples: int | None,
    budget: float,
    reference: bool = False,
    more: tuple[str, ...] = (),
    layout: str = "plain",
) -> Record:
    """Return the record of one operator: a status for every check and dtype; of dtypes in `more`, for values only."""
    op = entries.ENTRIES[name]
    record: Record = {"name": name, "checks": {}}
    try:
        function = entries.function_of(op)
    except Missing as missing:
        return record | {"missing": str(missing)}
    signal.setitimer(signal.ITIMER_PROF, budget)
    try:
        for dtype in entries.dtypes_of(op, dtypes):
            _run_dtype(record, op, function, dtype, wanted, samples, reference, layout)
            if "missing" in record:
                return record
        for dtype in entries.taken_of(op, more):
            further = ["forward", "grad"] if dtype.is_complex else ["forward"]
            _run_dtype(record, op, function, dtype, further, samples, reference, layout, extra=True)
        if "errors" in wanted and op.error_inputs_func is not None and not name.startswith("__"):
            told = checking.errors(op, function)
            bad = [text for fine, text in told if not fine]
            if told:
                record["checks"]["errors"] = {
                    "status": "fail" if bad else "pass", "passed": len(told) - len(bad), "failed": len(bad),
                    "why": bad[0] if bad else "",
                }  # fmt: skip
    except OutOfTime:
        why = f"out of time after {budget:g} s"
        record["checks"]["time"] = {"status": "fail", "passed": 0, "failed": 1, "why": why}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return record


def _run_dtype(
    record: Record,
    op: Any,
    function: Any,
    dtype: Any,
    wanted: list[str],
    samples: int | None,
    reference: bool,
    layout: str,
    extra: bool = False,
) -> None:
    floating = dtype.is_floating_point or dtype.is_complex
    backward = op.supports_autograd and floating and dtype in op.supported_backward_dtypes("cpu")
    torch.manual_seed(0)
    np.random.seed(0)
    make = op.reference_inputs if reference else op.sample_inputs
    taken = spread(list(make("cpu", dtype, requires_grad=backward)), samples)
    cases = [checking.Case(op, layouts.arranged(sample, layout), function) for sample in taken]
    label = str(dtype).removeprefix("torch.")
    told: set[str] = set()
    for check in wanted:
        if check == "errors" or (checking.is_differentiating(check) and not backward):
            continue
        if layout == layouts.READ_ONLY and check in ("inplace", "out"):
            continue
        found = run_check(check, cases)
        if check == "forward" and found["status"] == "missing" and not found["passed"] and not extra:
            record["missing"] = found["why"]
            return
        story = found["why"].partition(" (sample")[0]
        if story and story in told:
            found["why"] = "as above"
        told.add(story)
        record["checks"][f"{check} in {label}:{label}" if extra else f"{check}:{label}"] = found


def _further(more: tuple[str, ...]) -> list[str]:
    """Return what the checks in further dtypes are called: values, and gradients of complex numbers."""
    return [f"{c} in {d}" for d in more for c in (("forward", "grad") if d.startswith("complex") else ("forward",))]


# --- The pool ---------------------------------------------------------------------------------------


def _ring(*_: Any) -> None:
    raise OutOfTime


def _work(pipe: Any, options: Any) -> None:
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    torch.set_num_threads(1)
    signal.signal(signal.SIGPROF, _ring)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    translate.place = options.get("device", "cpu")
    if translate.place == "privateuseone":
        import tests.devices.boxes  # noqa: F401 - registers the device
    keys = ("checks", "dtypes", "samples", "timeout", "reference")
    while (name := pipe.recv()) is not None:
        try:
            if "run" in options:  # another runner's
                pipe.send(options["run"](name, options))
            else:
                further = options.get("more", ()), options.get("layout", "plain")
                pipe.send(run_op(name, *(options[k] for k in keys), *further))
        except BaseException as error:
            pipe.send(_crash(name, f"{type(error).__name__}: {error}"[:300]))


def _crash(name: str, why: str) -> Record:
    return {"name": name, "checks": {}, "crash": why}


class _Worker:
    def __init__(self, options: Any) -> None:
        # A process that has looked for a GPU (torch's table does) has children that cannot use it.
        context = multiprocessing.get_context("spawn" if options.get("device") == "cuda" and not _SIMULATED else "fork")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, options), daemon=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # forking beside threads: they are idle
            self.process.start()
        theirs.close()
        self.task: str | None = None
        self.since = 0.0

    def give(self, name: str) -> None:
        self.task, self.since = name, time.monotonic()
        self.pipe.send(name)

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def run_all(names: list[str], options: Any, jobs: int, report: Callable[[Record], None]) -> list[Record]:
    """Return the records of all operators; a crash or a hang costs one operator, not the run."""
    todo = list(reversed(names))
    workers = [_Worker(options) for _ in range(max(1, min(jobs, len(names))))]
    done: list[Record] = []
    # The soft limit counts processor time; this one is for what never returns to Python.
    hard = 10 * options["timeout"] + 30
    try:
        while len(done) < len(names):
            for worker in workers:
                if worker.task is None and todo:
                    worker.give(todo.pop())
            ready = multiprocessing.connection.wait([w.pipe for w in workers if w.task], timeout=1.0)
            for i, worker in enumerate(workers):
                if worker.task is None:
                    continue
                record: Record | None = None
                if worker.pipe in ready:
                    try:
                        record = worker.pipe.recv()
                    except (EOFError, ConnectionResetError):
                        worker.process.join()
                        record = _crash(worker.task, f"the process died ({worker.process.exitcode})")
                elif time.monotonic() - worker.since > hard:
                    record = _crash(worker.task, f"hung for {hard:g} s")
                if record is None:
                    continue
                if "crash" in record:
                    worker.stop()
                    workers[i] = _Worker(options)
                worker.task = None
                done.append(record)
                report(record)
    finally:
        for worker in workers:
            worker.stop()
    return sorted(done, key=lambda r: r["name"])


# --- Reports ----------------------------------------------------------------------------------------


def status_of(record: Record, check: str) -> str:
    """Return one word for a check over all its dtypes: pass, fail, missing, n/a."""
    if "missing" in record:
        return "missing"
    if "crash" in record:
        return "crash"
    found = [c["status"] for key, c in record["checks"].items() if key.partition(":")[0] == check]
    for word in ("fail", "missing", "pass"):
        if word in found:
            return word
    return "fail" if "time" in record["checks"] and not found else "n/a"


def problems_of(record: Record) -> list[tuple[str, str]]:
    """Return what is wrong with an operator: (check, why) pairs."""
    if "missing" in record:
        return [("missing", record["missing"])]
    if "crash" in record:
        return [("crash", record["crash"])]
    return [
        (f"{key} {c['failed']}/{c['failed'] + c['passed']}", c["why"])
        for key, c in record["checks"].items()
        if c["status"] in ("fail", "missing")
    ]


def passes(record: Record, *checks: str) -> bool:
    """Return whether none of the checks failed and at least one of them passed."""
    words = [status_of(record, c) for c in checks]
    return all(w in ("pass", "n/a") for w in words) and "pass" in words


def totals(records: list[Record], checks: list[str]) -> list[str]:
    """Return the summary's lines."""
    lines = []
    count = len(records)
    first = sum(passes(r, "forward", "grad") for r in records)
    if "forward" in checks:
        lines.append(f"forward and first order: {first}/{count} ({100 * first / max(count, 1):.1f}%)")
    for check in checks:
        words = [status_of(r, check) for r in records]
        asked = [w for w in words if w != "n/a"]
        good, bad = asked.count("pass"), asked.count("fail") + asked.count("crash")
        lines.append(
            f"{check:>12}: {good}/{len(asked)} ({100 * good / max(len(asked), 1):.1f}%)   "
            f"fail {bad}, missing {asked.count('missing')}, n/a {len(words) - len(asked)}"
        )
    return lines


_MARKS = {"pass": "yes", "fail": "**no**", "missing": "missing", "crash": "**crash**", "n/a": ""}


def markdown(
    records: list[Record], skipped: dict[str, str], checks: list[str], dtypes: list[str], more: tuple[str, ...] = ()
) -> str:
    """Return the page of coverage."""
    version = torch.__version__.partition("+")[0]
    lines = [
        "# Operator coverage", "",
        f"Every entry of torch {version}'s operator table, run through adjoint and "
        f"compared with torch on torch's own sample inputs ({', '.join(dtypes)}). Written by "
        "`python -m tests.conformance.runner --more all --markdown docs/coverage.md`.", "",
        "In the table, an empty cell means that the check does not apply to the operator. [What "
        "differs](#what-differs) explains each failure.", "",
        *(f"- {' '.join(line.split())}" for line in totals(records, [*checks, *_further(more)])), "",
        "| operator | " + " | ".join(checks) + " |",
        "|---|" + "---|" * len(checks),
    ]  # fmt: skip
    for r in records:
        lines.append(f"| `{r['name']}` | " + " | ".join(_MARKS[status_of(r, c)] for c in checks) + " |")
    bad = [(r["name"], p) for r in records for p in problems_of(r) if "missing" not in r]
    if bad:
        lines += ["", "## What differs", ""]
        lines += [f"- `{name}` {check}: {_plain(why)}" for name, (check, why) in bad]
    lines += ["", "## Not tested", ""]
    for reason in sorted(set(skipped.values())):
        names = ", ".join(f"`{n}`" for n, why in skipped.items() if why == reason)
        lines.append(f"- {reason}: {names}")
    return "\n".join(lines) + "\n"


def kept_part(written: str) -> str:
    """Return what other runners have written at the end of the coverage page."""
    found = [at for at in map(written.find, (GPU, COMPILED, LAYERS)) if at >= 0]
    return written[min(found) :] if found else ""


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def select(pattern: str | None) -> tuple[list[str], dict[str, str]]:
    """Return the entries to drive, and those that are not with the reason."""
    names, skipped = [], {}
    for name in sorted(entries.ENTRIES):
        if pattern and not re.search(pattern, name):
            continue
        reason = entries.why_skipped(name)
        if reason:
            skipped[name] = reason
        else:
            names.append(name)
    return names, skipped


def main(argv: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.runner", description=__doc__)
    parser.add_argument("--ops", help="regular expression searched for in entries' names (^add$: exactly one)")
    parser.add_argument("--checks", default=",".join(checking.CHECKS), help="comma-separated; default: all")
    parser.add_argument("--dtypes", default="float64", help="comma-separated, or 'all'")
    parser.add_argument("--more", default="", help="dtypes in which only values are compared, or 'all'")
    parser.add_argument("--samples", type=int, default=30, help="samples per operator and dtype; 0 for all")
    parser.add_argument("--reference", action="store_true", help="torch's larger set of samples, where it has one")
    parser.add_argument("--layout", default="plain", choices=layouts.LAYOUTS, help="how the samples' memory lies")
    parser.add_argument("--timeout", type=float, default=30, help="processor seconds per operator")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--device", default="cpu", help="where adjoint computes: cpu or cuda (torch: on the host)")
    parser.add_argument("--markdown", type=Path, help="write the coverage page here")
    parser.add_argument("--json", type=Path, help="write the records here")
    parser.add_argument("--failing", action="store_true", help="print only operators with a problem")
    parser.add_argument("--quiet", action="store_true", help="print only the totals")
    args = parser.parse_args(argv)
    wanted = args.checks.split(",")
    if unknown := set(wanted) - set(checking.CHECKS):
        parser.error(f"no such check: {', '.join(unknown)}; there are {', '.join(checking.CHECKS)}")
    everything = "float64,float32,complex128,int64,bool"
    dtypes = (everything if args.dtypes == "all" else args.dtypes).split(",")
    others = "float32,complex128,int64,bool" if args.more == "all" else args.more
    more = tuple(filter(None, others.split(",")))
    names, skipped = select(args.ops)
    options = {
        "checks": wanted, "dtypes": dtypes, "samples": args.samples or None, "timeout": args.timeout,
        "reference": args.reference, "more": more, "device": args.device,
        "layout": args.layout,
    }  # fmt: skip
    started = time.monotonic()

    def report(record: Record) -> None:
        problems = problems_of(record)
        if args.quiet or (args.failing and not problems):
            return
        words = {c: status_of(record, c) for c in wanted}
        told = " ".join(f"{c}={w}" for c, w in words.items() if w not in ("n/a", "missing"))
        print(f"{record['name']:40} {'MISSING' if 'missing' in record else told}")
        for check, why in problems:
            print(f"    {check}: {why}")
        sys.stdout.flush()

    records = run_all(names, options, args.jobs, report)
    missing = [r["name"] for r in records if "missing" in r]
    if missing and not args.quiet:
        print("\nmissing:", ", ".join(missing))
    print(f"\n{len(records)} entries, {len(skipped)} not tested, {time.monotonic() - started:.0f} s")
    print("\n".join(totals(records, [*wanted, *_further(more)])))
    if args.markdown:
        page = markdown(records, skipped, wanted, dtypes, more)
        written = args.markdown.read_text() if args.markdown.exists() else ""
        args.markdown.write_text(page + kept_part(written))
    if args.json:
        args.json.write_text(json.dumps(records, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
