"""Many threads, forks, spawned processes and signals: a short run of each case of the gate."""

from __future__ import annotations

import random
import sys
import threading
import warnings

import pytest

import adjoint
from gates.threads import __main__ as gate

HERE = (
    "shared_leaves", "shared_graph", "one_module", "modes", "generators", "optimizers", "hooks", "endings", "futures",
)  # fmt: skip


@pytest.mark.parametrize("case", [c for c in gate.CASES if c.__name__ in HERE], ids=lambda c: c.__name__)
def test_threads(case: gate.Case) -> None:
    case(random.Random(0), 20)


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork and signals")
@pytest.mark.parametrize("case", [c for c in gate.CASES if c.__name__ not in HERE], ids=lambda c: c.__name__)
def test_processes(case: gate.Case, capsys: pytest.CaptureFixture[str]) -> None:
    table = gate.watched(case, seed=0, seconds=0.0, calls=20)
    wrong = {name: n for name, n in table.items() if n and name not in ("cases", "late")}  # a busy machine is late
    assert not wrong, (wrong, capsys.readouterr().out)


def test_a_capture_does_not_disturb_tuples_that_other_threads_build() -> None:
    stop, errors = threading.Event(), []

    def build() -> None:
        try:
            while not stop.is_set():
                tuple(i for i in range(200))
        except SystemError as error:
            errors.append(error)

    builders = [threading.Thread(target=build) for _ in range(3)]
    before = sys.getswitchinterval()
    try:
        sys.setswitchinterval(1e-5)
        for builder in builders:
            builder.start()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for k in range(3):
                adjoint.compile(lambda x, k=k: x * k + 1)(adjoint.ones(3))
    finally:
        sys.setswitchinterval(before)
        stop.set()
        for builder in builders:
            builder.join()
    assert errors == []
