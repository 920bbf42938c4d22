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
            parent, _, name = f"{package}.{path}".rpartition(".")
            sys.modules[f"{parent}.{name}"] = module
            vars(sys.modules[parent]).setdefault(name, module)  # a function of the same name goes first, as in torch
