"""Names that programs use are there: a census of public repositories, and torch's own lists where it is installed.

`census.txt` holds the names that at least two of 48 public repositories use. What is missing must stand in an
exception list below, and what stands there must be missing: a name that arrives leaves the list.
"""

from __future__ import annotations

import importlib
import pkgutil
import types
from pathlib import Path
from typing import Any

import pytest

import adjoint
from tests.oracle import needs_torch, torch


def _read(path: Path) -> dict[str, list[str]]:
    rooms: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        if line.startswith("["):
            names = rooms[line.strip("[]")] = []
        elif not line.startswith("#"):
            names += line.split()
    return rooms


CENSUS = _read(Path(__file__).with_name("census.txt"))

# `index` is counted on objects that are no tensors.
MISSING = {"Tensor": "index"}

# Of all public names: sparse, quantized and legacy ones, other devices, and torch's own helpers.
LEFT_OUT = {
    "Tensor": "ccol_indices chalf const_data_ptr eig "
    "hash_tensor index ipu lstsq mtia "
    "reinforce resize resize_as "
    "resize_as_sparse_ row_indices slice_inverse smm solve sparse_resize_ "
    "sparse_resize_and_clear_ sspaddmm storage_type symeig to_mkldnn to_padded_tensor "
    "to_sparse_bsc to_sparse_bsr to_sparse_csc volatile xpu",
    "nn.functional": "BroadcastingList1 BroadcastingList2 BroadcastingList3 Callable DType Optional ScalingType "
    "SwizzleType TYPE_CHECKING Tensor assert_int_or_pair boolean_dispatch grouped_mm "
    "handle_torch_function has_torch_function has_torch_function_unary "
    "has_torch_function_variadic reproducibility_notes scaled_grouped_mm scaled_mm "
    "sparse_support_notes tf32_notes",
    "nn": "",
    "nn.Module": "ipu mtia xpu",
    "linalg": "common_notes",
    "fft": "Tensor common_args factory_common_args",
    "special": "Tensor common_args multi_dim_common",
}


def room(module: Any, path: str) -> Any:
    for part in path.split("."):
        module = module if part == "torch" else getattr(module, part)
    return module


@pytest.mark.parametrize("path", CENSUS)
def test_names_in_use(path: str) -> None:
    missing = {n for n in CENSUS[path] if not hasattr(room(adjoint, path), n)}
    assert missing == set(MISSING.get(path, "").split())


@needs_torch
@pytest.mark.parametrize("path", LEFT_OUT)
def test_all_public_names(path: str) -> None:
    theirs = room(torch, path)
    names = {n for n in dir(theirs) if not n.startswith("_")}
    names -= {n for n in names if isinstance(getattr(theirs, n, None), types.ModuleType)}
    missing = {n for n in names if not hasattr(room(adjoint, path), n)}
    assert missing <= set(LEFT_OUT[path].split())


# Modules of torch that programs import classes from; here one file may hold a family, and the paths lead to it.
SPECTRAL = {"SpectralNormLoadStateDictPreHook", "SpectralNormStateDictHook"}  # for files of torch 1.0


@needs_torch
@pytest.mark.parametrize("room", ["distributions", "optim", "nn.modules", "nn.utils"])
def test_module_paths_lead_to_what_torch_has_there(room: str) -> None:
    for module in pkgutil.iter_modules(importlib.import_module(f"torch.{room}").__path__):
        if not module.name.startswith("_"):
            theirs = importlib.import_module(f"torch.{room}.{module.name}")
            mine = importlib.import_module(f"adjoint.{room}.{module.name}")
            missing = {n for n in getattr(theirs, "__all__", ()) if not hasattr(mine, n)} - SPECTRAL
            assert not missing, module.name
