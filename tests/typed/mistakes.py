"""Mistakes that a type checker must see: each line marked so, and no other."""

from __future__ import annotations

import adjoint as torch
from adjoint import Tensor, nn


def never_called(x: Tensor) -> Tensor:
    x.no_such_method()  # mistake
    wrong: int = x.sum(dim=0)  # mistake
    torch.sin()  # mistake
    nn.Linear(wrong)  # mistake
    torch.optim.Adam()  # mistake
    right: Tensor = torch.sin(x) * 2
    return right
