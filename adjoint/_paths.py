"""PyTorch's module paths: it has a file for each class where adjoint keeps a family in one."""

from __future__ import annotations

import importlib
import sys

__all__ = ["lead_to"]


def lead_to(package: str, homes: dict[str, str]) -> None:
    """Let PyTorch's module names in a package, listed behind the module that they are in here, be imported.

    A program that says ``from torch.distributions.normal import Normal`` finds it.
    """
    for home, paths in homes.items():
        module = importlib.import_module(f"{package}.{home}")
        for path in paths.split():
            sys.modules[f"{package}.{path}"] = module
            setattr(sys.modules[package], path, module)
