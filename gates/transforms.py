"""Random functions of views and writes under transforms: vmap equals a loop, jvp and func.grad the backward pass.

adjoint is its own judge here: what a function does outside of a transform, which `gates.aliasing` compares with torch,
it does inside.

    python -m gates.transforms --minutes 5 --seed 0
"""

from __future__ import annotations

import argparse
import re
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint

from .aliasing import steps
from .aliasing.steps import Rng, State, Step, direction, perform
from .summary import summary

NOT_HERE = ("view_as_real", "view_as_complex", "real", "imag", "as_strided")
VIEWS = [name for name in steps.VIEWS if name not in NOT_HERE]
WRITES = [name for name in steps.WRITES if name not in ("dirty", "out", "masked_scatter")]
WITH_HISTORY = {"mul_x", "add_x", "div_x", "copy_x", "set_x", "set_mul", "index_put", "addcmul"}
SHAPES = ["t_", "transpose_", "swapaxes_", "swapdims_", "unsqueeze_", "squeeze_", "squeeze_dim_"]
# What a transform refuses, with a reason: shapes that depend on values, and memory that a batch has not.
REFUSALS = re.compile(
    "vmap: |inside a transform|dynamic shape|can't be cast|unsupported operation|view of a leaf|leaf Variable|"
    "is a view|the tensor overlaps itself|`data` under vmap"
)


class Function:
    """A program of `gates.aliasing` as a function of its first tensor."""

    def __init__(self, program: list[Step]) -> None:
        self.program = program

    def outputs(self, x: Any) -> tuple[Any, ...]:
        """Return all tensors that the program has made, and two of each before the last write."""
        state = State.__new__(State)
        state.T, state.read, state.hooked, state.x = adjoint, [], [], x
        state.tensors = [x * 1]
        for step in self.program[1:]:
            perform(state, step)
        return tuple(t * 1 for t in state.tensors)

    def __call__(self, x: Any) -> Any:
        """Return one number that depends on all outputs."""
        return sum((o * o).sum() + o.sum() for o in self.outputs(x))


def random_step(rng: Rng) -> Step:
    """Return a step that may stand inside a transform."""
    kind = rng.choice(["view", "write", "shape"], p=[0.45, 0.45, 0.1]).item()
    names = {"view": VIEWS, "write": WRITES, "shape": SHAPES}[kind]
    return ("grad", kind, rng.choice(names).item(), *(int(n) for n in rng.integers(0, 60, 3)))


def generate(rng: Rng, length: int) -> list[Step]:
    """Return a program that runs outside of transforms."""
    shapes = [(3, 4), (2, 3, 2), (4,), (3, 1, 2), (2, 2)]
    program: list[Step] = [("start", shapes[rng.integers(len(shapes))], "real")]
    x = adjoint.tensor(np.linspace(0.3, 1.4, int(np.prod(program[0][1]))).reshape(program[0][1]))
    while len(program) <= length:
        step = random_step(rng)
        try:
            Function([*program, step]).outputs(x)
        except Exception:
            continue
        program.append(step)
    return program


def judge(program: list[Step]) -> dict[str, str]:
    """Return what came of each comparison: "same", "refused", "wrong" or "crashed"."""
    shape, names = program[0][1], {step[2] for step in program}
    batch = np.linspace(0.3, 1.4, 3 * int(np.prod(shape))).reshape(3, *shape)
    rows = [adjoint.tensor(row) for row in batch]
    f, x, whole = Function(program), rows[0], adjoint.tensor(batch)
    found = {"vmap": _compared(lambda: _numbers(adjoint.func.vmap(f.outputs)(whole)), lambda: _looped(f, rows))}
    if "data" in names:  # whose writes change what a backward pass has saved, unnoticed
        return found
    if not {"zero", "sqrt"} <= names:  # of sqrt at zero a tangent of zeros is NaN, as in torch
        found["jvp"] = _compared(lambda: [_pushed(f, x)], lambda: [(_gradient(f, x) * direction(shape)).sum()], f, x)
    found["grad"] = _compared(lambda: _numbers([adjoint.func.grad(f)(x)]), lambda: [_gradient(f, x)])
    if "detach" in names and names & WITH_HISTORY:  # outside of a transform what was detached changes, unrecorded
        return found
    found["vmap(grad)"] = _compared(
        lambda: _numbers([adjoint.func.vmap(adjoint.func.grad(f))(whole)]),
        lambda: [np.stack([_gradient(f, row) for row in rows])],
    )
    return found


def _numbers(values: Any) -> list[Any]:
    return [v.detach().numpy() for v in values]


def _looped(f: Function, rows: list[Any]) -> list[Any]:
    found = [_numbers(f.outputs(row)) for row in rows]
    return [np.stack(parts) for parts in zip(*found, strict=True)]


def _pushed(f: Function, x: Any) -> Any:
    return adjoint.func.jvp(f, (x,), (adjoint.tensor(direction(tuple(x.shape))),))[1].numpy()


def _gradient(f: Function, x: Any) -> Any:
    leaf = x.clone().requires_grad_()
    return adjoint.autograd.grad(f(leaf), leaf)[0].numpy()


def _compared(inside: Callable[[], list[Any]], outside: Callable[[], list[Any]], f: Any = None, x: Any = None) -> str:
    """Return a verdict; of derivatives, what is far below the rounding errors of the function `f` of `x` is zero."""
    try:
        scale = 1.0 if f is None else max(1.0, abs(float(f(x))))
        expected = outside()
    except RuntimeError:
        return "refused"
    try:
        found = inside()
    except RuntimeError as error:
        return "refused" if REFUSALS.search(str(error)) else f"crashed: {error}"
    except Exception:
        return f"crashed: {traceback.format_exc(limit=-2)}"
    if not all(np.isfinite(v).all() for v in expected):  # 0 times infinity, in one order or the other
        return "refused"
    same = all(np.allclose(a, b, 1e-7, 1e-9 * scale) for a, b in zip(found, expected, strict=True))
    return "same" if same else "wrong"


def shortened(program: list[Step], which: str, verdict: str) -> list[Step]:
    """Return a program without the steps that its verdict does not need."""
    i = len(program) - 1
    while i > 0:
        shorter = program[:i] + program[i + 1 :]
        try:
            if judge(shorter)[which].partition(":")[0] == verdict:
                program = shorter
        except Exception as error:
            print("    not shortened:", error)
        i -= 1
    return program


def main(argv: list[str] | None = None) -> int:
    """Run functions until the time is over, and print a table of what came of them."""
    parser = argparse.ArgumentParser(description="Random functions of views and writes, inside transforms and outside.")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--length", type=int, default=8)
    parser.add_argument("--show", type=int, default=10, help="how many of the programs that differ are printed")
    given = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    table, cases, shown = Counter[tuple[str, str]](), 0, 0
    end = time.monotonic() + 60 * given.minutes
    while time.monotonic() < end:
        rng = np.random.default_rng([given.seed, cases])
        program = generate(rng, int(rng.integers(2, given.length + 1)))
        cases += 1
        for which, verdict in judge(program).items():
            kind, _, detail = verdict.partition(":")
            table[which, kind] += 1
            if kind in ("wrong", "crashed") and shown < given.show:
                shown += 1
                print(f"--- {which}: {kind}, seed {[given.seed, cases - 1]}{detail}")
                for line in shortened(program, which, kind):
                    print("   ", line)
                sys.stdout.flush()
    print(f"{'':12}{'cases':>8} {'wrong':>8} {'refused':>8} {'crashed':>8}")
    for which in ("vmap", "jvp", "grad", "vmap(grad)"):
        print(f"{which:12}{cases:>8} " + " ".join(f"{table[which, k]:>8}" for k in ("wrong", "refused", "crashed")))
    wrong, crashed = (sum(n for (_, kind), n in table.items() if kind == word) for word in ("wrong", "crashed"))
    print(summary("transforms", cases, wrong=wrong, crashed=crashed))
    return int(wrong + crashed > 0)


if __name__ == "__main__":
    sys.exit(main())
