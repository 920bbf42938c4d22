"""adjoint in torch's place, in processes of its own: this one has the real torch."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from adjoint.compat.stand_in.no_ops import ADDED, MODULES
from adjoint.compat.stand_in.unsupported import Unsupported, UnsupportedModule


def run(program: str, tmp_path: Path, *arguments: str) -> str:
    """Run a program on adjoint and return what it prints."""
    script = tmp_path / "script.py"
    script.write_text(program)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "adjoint", "run", str(script), *arguments],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("module", ADDED)
def test_no_row_of_the_tables_hides_what_adjoint_has(module: str) -> None:
    """Rows are for names that adjoint's modules lack: one that is there, or is loaded when it is read, goes first."""
    home = importlib.import_module(f"adjoint.{module}".rstrip("."))
    assert [name for name in ADDED[module] if hasattr(home, name)] == []


def test_a_script_trains_on_adjoint(tmp_path: Path) -> None:
    said = run(
        """
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

assert __name__ == "__main__" and sys.argv[1:] == ["--epochs", "3"]
x = torch.linspace(-1, 1, 64).reshape(-1, 1)
w = nn.Parameter(torch.zeros(1, 1))
for epoch in range(20):
    for a, b in DataLoader(TensorDataset(x, 3 * x), batch_size=16, shuffle=True):
        loss = F.mse_loss(a @ w, b)
        loss.backward()
        with torch.no_grad():
            w -= 0.5 * w.grad
        w.grad = None
print(round(w.item(), 3), torch.__file__.split("/")[-2])
""",
        tmp_path, "--epochs", "3",
    )  # fmt: skip
    assert said.split() == ["3.0", "adjoint"]


def test_modules_versions_and_names(tmp_path: Path) -> None:
    names = [name for name in MODULES if not name.startswith("_")]
    run(
        f"""
import importlib, importlib.metadata, importlib.util, sys
import torch, adjoint
from torch.nn import functional
from torch._dynamo import allow_in_graph, disable
from torch.utils.data.distributed import DistributedSampler
import torch.distributed as dist

assert torch is adjoint and torch.nn is adjoint.nn and functional is adjoint.nn.functional
assert sys.modules["torch.nn"] is sys.modules["adjoint.nn"]
assert tuple(map(int, torch.__version__.split("+")[0].split("."))) >= (2, 0)
assert torch.version.__version__ == torch.__version__ == importlib.metadata.version("torch")
assert importlib.util.find_spec("torch") is not None and torch.nn.__spec__.name == "adjoint.nn"
for name in {names!r}:
    importlib.import_module("torch." + name)
assert torch.fx.wrap(len) is len and torch.jit.script(len) is len and not torch.jit.is_scripting()
assert not dist.is_initialized() and not torch.mps.is_available() and torch.accelerator.device_count() == 0

@disable
def f(x):
    return x

@torch.library.custom_op("mine::op", mutates_args=())
def g(x: torch.Tensor) -> torch.Tensor:
    return x

@torch.jit.ignore(drop=True)
def h(x):
    return x

class Writer(torch.onnx.Exporter):
    pass

@torch.cuda.nvtx.range("mine")
def named(target: torch.fx.node.Target) -> torch.fx.node.Argument:
    return target

assert named(1) == 1 and torch.cuda.nvtx.range_push("a") == torch.cuda.nvtx.range_pop()
assert dist.ReduceOp.RedOpType.SUM is dist.ReduceOp.SUM
number = torch._tensor_str._Formatter(torch.tensor([12.5, 1.0]))
assert number.format(1.0) == " 1.0000" and number.width() == 7
assert torch._has_compatible_shallow_copy_type(torch.ones(2), torch.ones(3))
if importlib.util.find_spec("optree"):
    import optree
    leaves, form = optree.tree_flatten([torch.nn.Linear(2, 1)._parameters])
    assert len(leaves) == 2 and list(optree.tree_unflatten(form, "ab")[0]) == ["bias", "weight"]
assert f(1) == g(1) == h(1) == 1
assert not isinstance(1, torch.fx.Node) and not hasattr(torch, "no_such_name")
for use in (lambda: torch.onnx.symbolic_opset11.add(f, 1), Writer, lambda: torch.export.unflatten(f, 1)):
    try:
        use()
    except NotImplementedError as error:
        assert "adjoint" in str(error)
    else:
        raise AssertionError(use)
try:
    import torch.no_such_module
except ModuleNotFoundError:
    pass
else:
    raise AssertionError
from adjoint import stand_in
assert stand_in.installed()
stand_in.install()  # again: nothing happens
""",
        tmp_path,
    )


def test_modules_can_be_run(tmp_path: Path) -> None:
    (tmp_path / "package.py").write_text("import torch, sys; print(torch.__version__, sys.argv[1:])")
    done = subprocess.run(
        [sys.executable, "-m", "adjoint", "run", "-m", "package", "x"], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.stdout == "2.13.0+adjoint ['x']\n", done.stderr
    asked = subprocess.run([sys.executable, "-m", "adjoint", "run"], capture_output=True, text=True)
    assert asked.returncode == 2 and "which program?" in asked.stderr


def test_the_real_torch_is_not_replaced_once_it_is_there() -> None:
    pytest.importorskip("torch", reason="must be there")
    from adjoint.compat.stand_in import install, installed

    with pytest.raises(RuntimeError, match="imported already"):
        install()
    assert not installed()


def test_absent_names() -> None:
    module = UnsupportedModule("torch.onnx", {"known": 1})
    assert module.known == 1 and repr(module.export) == "<torch.onnx.export, which adjoint does not offer>"
    assert module.a.b == Unsupported("torch.onnx.a.b") != module.c and hash(module.a) == hash(module.a)
    assert not isinstance(1, module.Node) and module.Future[int] is not None
    with pytest.raises(NotImplementedError, match=r"torch\.onnx\.export"):
        module.export()
    with pytest.raises(AttributeError):
        _ = module.__wrapped__


def test_a_suite_of_torchs_own_kind_runs(tmp_path: Path) -> None:
    """Helpers for tests are adjoint's own; a private name that is lacking hinders nobody who does not use it."""
    said = run(
        """
import io, pickle, unittest
import torch
from torch.autograd import _no_such_name
from torch.testing._internal.common_device_type import dtypes, instantiate_device_type_tests, skipOps
from torch.testing._internal.common_utils import TestCase, parametrize, scoped_load_inline
from torch.utils import _pytree, _no_such_module

class TestThings(TestCase):
    @parametrize("n", [1, 2])
    @dtypes(torch.float32)
    def test_names(self, device, dtype, n):
        x = torch.ones(n, dtype=dtype, device=device)
        self.assertEqual(x.type(), "torch.FloatTensor")
        self.assertExpectedInline(repr(x.max(0)[0]), "tensor(1.)")
        self.assertIn("torch.return_types.max", repr(x.max(0)))
        self.assertFalse(_no_such_name)
        self.assertEqual(_pytree.tree_leaves([1, [2]]), [1, 2])

    def test_whole_objects(self, device):
        file = io.BytesIO()
        torch.save(torch.nn.Linear(2, 3), file)
        file.seek(0)
        with self.assertRaisesRegex(pickle.UnpicklingError, "Weights only load failed"):
            torch.load(file)
        file.seek(0)
        self.assertEqual(torch.load(file, weights_only=False).out_features, 3)

    @scoped_load_inline
    def test_needs_a_compiler(self, device, load_inline): ...

instantiate_device_type_tests(TestThings, globals(), only_for="cpu")
done = unittest.main(exit=False, verbosity=0).result
print(done.testsRun, len(done.skipped), done.errors + done.failures)
""",
        tmp_path,
    )
    assert said.splitlines()[-1] == "4 1 []"


def test_libraries_describe_distributed_tensors_when_they_are_imported(tmp_path: Path) -> None:
    """transformers makes placements in its class bodies, and imports policies of sharding that it may not use."""
    said = run(
        """
from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
print(Replicate() == Replicate(), Shard(1).is_shard(1), Partial().reduce_op, isinstance(1, DTensor))
try:
    fully_shard(__import__("torch").nn.Linear(2, 2), offload_policy=CPUOffloadPolicy())
except NotImplementedError as error:
    print(error)
""",
        tmp_path,
    )
    assert said.splitlines() == [
        "True True sum False",
        "fully_shard: CPUOffloadPolicy is not supported; parts stay on their device",
    ]


def test_functions_are_traced_by_name(tmp_path: Path) -> None:
    said = run(
        """
import torch, torch.fx
import torch.nn.functional as F

def program(x):
    return F.relu(torch.linalg.norm(x)) + F.gelu(x)

print(torch.fx.symbolic_trace(program).code)
""",
        tmp_path,
    )
    for call in ("torch.nn.functional.relu(linalg_norm, inplace = False)", "torch.linalg.norm(x)"):
        assert call in said
