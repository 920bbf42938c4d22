"""Module paths: the file of each public name, where PyTorch's module differs from adjoint's."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

__all__ = ["Known", "home_of", "lead_to", "module_path", "public_path"]

# --- Modules that are imported by one name, and whose file is in another package ------------------------

# Name in `adjoint` -> path of the file. Programs written for torch, and pickles, name these modules; most of them are
# in `compat`, which `import adjoint` does not load.
_FILES = {
    "_C": "compat._C", "_checks": "compat.checks", "_ops": "ops.overloads", "amp.older": "compat.device_amp",
    "backends.mkl": "compat.unavailable", "backends.mps": "compat.unavailable", "backends.openmp": "compat.unavailable",
    "cpu": "compat.cpu", "cuda.amp": "compat.cuda_amp", "functional": "compat.functional", "hooks": "core.handles",
    "hub": "compat.hub", "jit": "compat.jit", "stand_in": "compat.stand_in", "storage": "compat.storage",
    "testing._internal": "compat.testing", "typed": "compat.typed", "types": "compat.types",
    "version": "compat.version",
}  # fmt: skip
_PUBLIC = {file: name for name, file in _FILES.items()}


def _replaced(path: str, table: dict[str, str]) -> str:
    """Return a path of adjoint's with the longest beginning that a table knows replaced."""
    parts = path.split(".")
    for count in range(min(len(parts), 3), 1, -1):
        found = table.get(".".join(parts[1:count]))
        if found is not None:
            return ".".join(("adjoint", found, *parts[count:]))
    return path


def module_path(name: str) -> str:
    """Return the path of the file of a module: ``adjoint.jit`` is ``adjoint.compat.jit``."""
    return _replaced(name, _FILES) if name.startswith("adjoint.") else name


def public_path(name: str) -> str:
    """Return the name by which programs import a module: ``adjoint.compat.jit`` is ``adjoint.jit``."""
    return _replaced(name, _PUBLIC) if name.startswith("adjoint.") else name


class Known(importlib.abc.Loader):
    """Gives a module that is loaded already under a second name."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._spec = getattr(module, "__spec__", None)

    def create_module(self, spec: Any) -> ModuleType:
        """Return the module."""
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its own spec back, if it has one, in place of the one of the second name."""
        if self._spec is not None:
            module.__spec__ = self._spec

    def get_code(self, fullname: str) -> Any:
        """Return the code of the module, for ``python -m``."""
        loader: Any = getattr(self._spec, "loader", None)
        return loader.get_code(getattr(self._spec, "name", "")) if hasattr(loader, "get_code") else None


class _Finder(importlib.abc.MetaPathFinder):
    """Finds modules of adjoint whose file is elsewhere; no other name concerns it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return how to load a module from its file's path, so that there is one of it whatever its name."""
        file = module_path(fullname)
        if file == fullname or importlib.util.find_spec(file) is None:
            return None
        module = importlib.import_module(file)
        return importlib.util.spec_from_loader(fullname, Known(module), is_package=hasattr(module, "__path__"))


# First: the path of a package that is known by a second name would let its modules be loaded twice.
sys.meta_path.insert(0, _Finder())


# --- PyTorch has a file for each class where adjoint has one for a family ---------------------------------


def lead_to(package: str, homes: dict[str, str]) -> None:
    """Let PyTorch's module names in a package, listed behind the module that they are in here, be imported.

    A program that says ``from torch.distributions.normal import Normal`` finds it.
    """
    for home, paths in homes.items():
        module = importlib.import_module(f"{package}.{home}")
        for path in paths.split():
            parent, _, name = f"{package}.{path}".rpartition(".")
            sys.modules[f"{parent}.{name}"] = module
            vars(sys.modules[parent]).setdefault(name, module)  # a function of the same name comes first, as in torch


# --- Classes that are in another module of PyTorch ---------------------------------------------------

# PyTorch's module -> classes that a family's file has here. (Of optimizers and distributions, each has a module there
# that is called as the class is.)
_HOMES = {
    "_C": "Generator", "autograd.graph": "GradientEdge", "autograd.profiler": "record_function",
    "distributions.exp_family": "ExponentialFamily",
    "distributions.one_hot_categorical": "OneHotCategoricalStraightThrough",
    "distributions.relaxed_categorical": "RelaxedOneHotCategorical",
    "nn.modules.activation": "MultiheadAttention", "nn.modules.channelshuffle": "ChannelShuffle",
    "nn.modules.flatten": "Flatten Unflatten", "nn.modules.fold": "Fold Unfold",
    "nn.modules.padding": "CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d "
                          "ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d "
                          "ReplicationPad3d ZeroPad1d ZeroPad2d ZeroPad3d",
    "nn.modules.pixelshuffle": "PixelShuffle PixelUnshuffle", "nn.modules.sparse": "Embedding EmbeddingBag",
    "nn.modules.upsampling": "Upsample UpsamplingBilinear2d UpsamplingNearest2d",
    "nn.parallel.data_parallel": "DataParallel", "nn.parallel.distributed": "DistributedDataParallel",
    "nn.utils.spectral_norm": "SpectralNorm", "nn.utils.weight_norm": "WeightNorm",
    "optim": "Adafactor Muon", "profiler.profiler": "ProfilerAction profile",
    "storage": "TypedStorage UntypedStorage", "utils.data.distributed": "DistributedSampler",
    "utils.checkpoint": "CheckpointError CheckpointPolicy SelectiveCheckpointContext", "utils.hooks": "RemovableHandle",
}  # fmt: skip
_BY_NAME = {name: home for home, names in _HOMES.items() for name in names.split()}


def _files(package: str) -> dict[str, str]:
    """Return PyTorch's modules of a package, by their names without underscores."""
    inside = [
        name.removeprefix(f"adjoint.{package}.") for name in sys.modules if name.startswith(f"adjoint.{package}.")
    ]
    return {name.replace("_", "").lower(): name for name in inside if "." not in name}


def home_of(module: str, name: str) -> str:
    """Return the module in which PyTorch has the class that is called `name` in a module of adjoint."""
    path = public_path(module).removeprefix("adjoint").lstrip(".")
    package = path.partition(".")[0]
    home = _BY_NAME.get(name)
    if home is not None and (package in ("ops", "distributed", "hooks") or home.partition(".")[0] == package):
        path = home
    elif package in ("optim", "distributions"):
        file = _files(package).get(name.lower())
        path = path if file is None else f"{package}.{file}"
    return f"torch.{path}".rstrip(".")
