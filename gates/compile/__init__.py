"""Random programs and training runs, compiled against eager: nothing that a program computes may become a constant.

A case is a world made twice from one seed: once it runs eagerly, once compiled, call by call on new data. After every
call results, gradients, parameters, buffers and optimizer state must agree. What is not compiled counts as `eager`
(and must be right too); what only the compiled world raises counts as `crashed`.

    python -m gates.compile --minutes 5 --seed 0
"""

from __future__ import annotations

from .cases import run_case

__all__ = ["run_case"]
