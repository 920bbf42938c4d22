"""adjoint in torch's place in the Python processes that a program starts, through their environment."""

from __future__ import annotations

import os
import sys

__all__ = ["include_children"]

_STARTUP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "startup")


def include_children() -> None:
    """Have every process of this interpreter that this one starts put adjoint in torch's place as well.

    Notes
    -----
    The environment carries it: PYTHONPATH gets a folder in front whose ``sitecustomize`` installs a finder that acts
    when torch is imported. ``ADJOINT_CHILDREN=0``, here or in the environment of one process, turns it off; a process
    started with ``-E`` or ``-I``, or with an environment of its own, does not know of it.
    """
    if os.environ.get("ADJOINT_CHILDREN") == "0":
        return
    os.environ["ADJOINT_CHILDREN"] = sys.prefix
    before = os.environ.get("PYTHONPATH")
    folders = before.split(os.pathsep) if before else []
    if _STARTUP not in folders:
        os.environ["PYTHONPATH"] = os.pathsep.join([_STARTUP, *folders])
