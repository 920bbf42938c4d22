"""Random programs."""

from __future__ import annotations

from typing import Any

from .steps import CUTS, IMPURE, OTHERS, SHAPES, VIEWS, WRITES, Rng, State, Step, perform


def start(rng: Rng) -> Step:
    """Return the first step: the leaf's shape and kind."""
    shapes = [(3, 4), (2, 3, 2), (4,), (3, 1, 2), (2, 2), (1, 4)]
    return "start", shapes[rng.integers(len(shapes))], rng.choice(["real"] * 5 + ["complex", "buffer", "leaf"]).item()


def random_step(rng: Rng) -> Step:
    """Return a step at random."""
    kind = rng.choice(["view", "write", "shape", "other"], p=[0.35, 0.35, 0.17, 0.13]).item()
    names = list({"view": VIEWS, "write": WRITES, "shape": SHAPES, "other": OTHERS}[kind])
    mode = rng.choice(["grad", "no_grad", "inference"], p=[0.88, 0.1, 0.02]).item()
    return (mode, kind, rng.choice(names).item(), *(int(n) for n in rng.integers(0, 60, 3)))


def is_pure(program: list[Step]) -> bool:
    """Return whether finite differences can judge the program: everything it computes is recorded."""
    return program[0][2] != "complex" and all(
        mode == "grad" and name not in IMPURE | CUTS | {"out", "masked_fill", "masked_scatter", "where", "clamp"}
        and not (name.startswith("set") and i % 9 == 6)
        for mode, _, name, _, i, _ in program[1:]
    )  # fmt: skip


def generate(rng: Rng, judge: Any, length: int) -> list[Step]:
    """Return a program of steps that the judge runs; sometimes the last is one that it refuses."""
    program = [start(rng)]
    state: State | None = State(judge, program)
    while len(program) <= length:
        step = random_step(rng)
        if state is None:
            state = _replayed(judge, program)
        try:
            perform(state, step)
        except Exception:
            state = None  # what it did before it raised is unknown
            if rng.random() < 0.12:
                return [*program, step]
        else:
            program.append(step)
    return program


def _replayed(T: Any, program: list[Step]) -> State:
    state = State(T, program)
    for step in program[1:]:
        perform(state, step)
    return state
