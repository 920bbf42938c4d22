"""The page on adding an op runs as it stands, on the CPU and on a (simulated) GPU."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from adjoint.core.nodes import registry
from tests.gpu import simulated

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "extending" / "op.md").read_text()
CODE = "\n".join(re.findall(r"^```python\n(.*?)^```", PAGE, re.S | re.M))
ON_GPU = """
x = adjoint.randn(4, 6, device="cuda", requires_grad=True)
swish(x).sum().backward()
y = x.detach().cpu().requires_grad_()
swish(y).sum().backward()
assert adjoint.allclose(x.grad.cpu(), y.grad, atol=1e-6)
x, y = adjoint.randn(4, 6, device="cuda", requires_grad=True), None
(quiet_softmax(x) * x).sum().backward()
y = x.detach().cpu().requires_grad_()
(quiet_softmax(y) * y).sum().backward()
assert adjoint.allclose(x.grad.cpu(), y.grad, atol=1e-6)
forms = quiet_softmax_p.op.variants[type(x.array)].kernel.forms
assert "a_s0 = join_amax(a_s0, x);" in forms.kernels("walked", forms.statement.traced(), ((), (), (0,)))[0].text
"""


needs_compiler = pytest.mark.skipif(bool(simulated.why_not()), reason=simulated.why_not() or "-")


@pytest.fixture(autouse=True)
def _registry_as_it_was() -> Iterator[None]:
    before = dict(registry)
    yield
    registry.clear()
    registry.update(before)


def test_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    scope: dict[str, Any] = {}
    exec(compile(CODE, "docs/extending/op.md", "exec"), scope)
    assert "const bool t0 = x < threshold; const W t1 = beta * x;" in capsys.readouterr().out


@needs_compiler
def test_the_op_of_the_page_has_a_gpu_kernel() -> None:
    code = CODE.split("```")[0] + ON_GPU
    simulated = "import tests.gpu.simulated as s; s.install()\n"
    done = subprocess.run(
        [sys.executable, "-c", simulated + code],
        cwd=ROOT, env={**os.environ, "ADJOINT_SIMULATED_GPU": "1"}, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
