"""PyTorch's module paths: it has a file for each class where adjoint keeps a family in one."""

from __future__ import annotations

import importlib
import sys

__all__ = ["home_of", "lead_to"]


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


# --- Where PyTorch keeps a class that is in another module here -----------------------------------------

# PyTorch's module -> classes that a family's file has here. (Of optimizers and distributions, each has a module there
# that is called as the class is.)
_HOMES = {
    "_C": "Generator", "autograd.graph": "GradientEdge", "autograd.profiler": "record_function",
    "distributions.exp_family": "ExponentialFamily",
    "distributions.one_hot_categorical": "OneHotCategoricalStraightThrough",
    "distributions.relaxed_categorical": "RelaxedOneHotCategorical",
    "nn.modules.batchnorm": "_BatchNorm _NormBase BatchNorm1d BatchNorm2d BatchNorm3d LazyBatchNorm1d "
                            "LazyBatchNorm2d LazyBatchNorm3d SyncBatchNorm",
    "nn.modules.channelshuffle": "ChannelShuffle", "nn.modules.distance": "CosineSimilarity PairwiseDistance",
    "nn.modules.dropout": "AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout",
    "nn.modules.flatten": "Flatten Unflatten", "nn.modules.fold": "Fold Unfold",
    "nn.modules.instancenorm": "InstanceNorm1d InstanceNorm2d InstanceNorm3d LazyInstanceNorm1d LazyInstanceNorm2d "
                               "LazyInstanceNorm3d",
    "nn.modules.padding": "CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d "
                          "ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d "
                          "ReplicationPad3d ZeroPad1d ZeroPad2d ZeroPad3d",
    "nn.modules.pixelshuffle": "PixelShuffle PixelUnshuffle", "nn.modules.sparse": "Embedding EmbeddingBag",
    "nn.modules.upsampling": "Upsample UpsamplingBilinear2d UpsamplingNearest2d",
    "nn.parallel.data_parallel": "DataParallel", "nn.parallel.distributed": "DistributedDataParallel",
    "nn.utils.spectral_norm": "SpectralNorm", "nn.utils.weight_norm": "WeightNorm",
    "optim": "Adafactor Muon", "profiler.profiler": "ProfilerAction profile",
    "storage": "TypedStorage UntypedStorage", "utils.data.distributed": "DistributedSampler",
    "utils.hooks": "RemovableHandle",
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
    path = module.removeprefix("adjoint").lstrip(".")
    package = path.partition(".")[0]
    home = _BY_NAME.get(name)
    if home is not None and (package in ("ops", "distributed", "hooks") or home.partition(".")[0] == package):
        path = home
    elif package in ("optim", "distributions"):
        file = _files(package).get(name.lower())
        path = path if file is None else f"{package}.{file}"
    return f"torch.{path}".rstrip(".")
