"""Files between torch and ``adjoint run``: each loads what the other saved, whole objects too, and says its names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.oracle import needs_torch, torch

ROOT = Path(__file__).resolve().parents[3]

LIBRARY = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Dropout(0.1))
        self.norm, self.rnn = torch.nn.BatchNorm1d(4), torch.nn.LSTM(4, 2)
        self.block = torch.nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True)
        self.register_buffer("scale", torch.tensor(2.0))
        self.shape, self.kind, self.place = torch.Size([1, 2]), torch.float16, torch.device("cpu")

    def forward(self, x):
        return self.rnn(self.block(self.norm(self.layers(x))[None]))[0] * self.scale


def things():
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    net.train()(torch.ones(5, 3).cumsum(0)).sum().backward()
    optimizer.step()
    whole = torch.arange(6.0)
    return {
        "net": net.eval(), "optimizer": optimizer, "schedule": torch.optim.lr_scheduler.StepLR(optimizer, 2),
        "state": {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3},
        "views": [whole, whole[1:3]], "normal": torch.distributions.Normal(torch.zeros(1), torch.ones(1)),
        "named": [torch.nn.Linear, torch.nn.functional.relu, torch.strided, torch.nn.Parameter(torch.ones(2))],
    }


def seen(name, thing):
    if name == "net":
        shown = [thing(torch.ones(2, 3)), len(thing.rnn._flat_weights), thing.shape, thing.kind, thing.place]
    elif name == "optimizer":
        shown = [type(thing).__name__, len(thing.state), thing.param_groups[0]["momentum"]]
    elif name == "schedule":
        shown = [type(thing).__name__, thing.last_epoch, thing.get_last_lr()]
    elif name == "state":
        shown = [sorted(thing["model"]), len(thing["optimizer"]["state"]), thing["epoch"]]
    elif name == "views":
        thing[0].zero_()
        shown = thing
    elif name == "normal":
        shown = [thing.log_prob(torch.zeros(1)), repr(thing)]
    else:
        shown = [thing[0], thing[1](torch.tensor([-1.0, 2.0])), thing[2], thing[3], type(thing[3])]
    numbers = [v.detach().double().numpy().round(4).tolist() if isinstance(v, torch.Tensor) else v for v in shown]
    return " ".join(map(str, numbers))
"""
PROGRAM = """
import sys, torch, library
for name, thing in library.things().items():
    print(library.seen(name, torch.load(f"{sys.argv[1]}/{name}.pt", weights_only=False)))
    torch.save(thing, f"{sys.argv[2]}/{name}.pt")
allowed = [library.Net, torch.nn.Sequential, torch.nn.Linear, torch.nn.ReLU, torch.nn.Dropout, torch.nn.BatchNorm1d,
           torch.nn.LSTM, torch.nn.TransformerEncoderLayer, torch.nn.MultiheadAttention, torch.nn.LayerNorm,
           torch.nn.modules.linear.NonDynamicallyQuantizableLinear, torch.nn.functional.relu]
for folder in sys.argv[1:]:
    try:
        torch.load(f"{folder}/net.pt")
    except Exception as error:
        print("Weights only load failed" in str(error), "library.Net" in str(error))
    with torch.serialization.safe_globals(allowed):
        print(library.seen("net", torch.load(f"{folder}/net.pt")))
"""


def run(folder: Path, *command: str) -> list[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)]), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *command], capture_output=True, text=True, cwd=folder, env=environment
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.splitlines()


@needs_torch
def test_each_loads_what_the_other_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "library.py").write_text(LIBRARY)
    (tmp_path / "program.py").write_text(PROGRAM)
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.mkdir()
    ours.mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    library: Any = __import__("library")
    try:
        things = library.things()
        for name, thing in things.items():
            torch.save(thing, theirs / f"{name}.pt")
        expected = [library.seen(name, torch.load(theirs / f"{name}.pt", weights_only=False)) for name in things]
        said = run(tmp_path, "-m", "adjoint", "run", "program.py", "theirs", "ours")
        assert said[: len(things)] == expected  # what torch saved
        assert said[len(things) :] == ["True True", expected[0]] * 2
        loaded = [library.seen(name, torch.load(ours / f"{name}.pt", weights_only=False)) for name in things]
        assert loaded == expected  # what adjoint saved
    finally:
        del sys.modules["library"]


NAMES = """
import torch
print(torch.nn.Linear, torch.nn.Dropout, torch.nn.Embedding, torch.nn.Module, torch.nn.Parameter, torch.Tensor)
print(torch.optim.SGD, torch.optim.NAdam, torch.optim.Optimizer, torch.optim.lr_scheduler.StepLR, torch.optim.LBFGS)
print(torch.distributions.Normal, torch.distributions.RelaxedOneHotCategorical, torch.utils.data.DataLoader)
print(torch.Size([2]), torch.float32, torch.device("cpu"), type(torch.device("cpu")), type(torch.float32), torch.Size)
print(type(torch.Generator()), torch.autograd.Function, torch.no_grad, torch.strided, torch.channels_last)
"""


@needs_torch
def test_classes_say_where_torch_has_them(tmp_path: Path) -> None:
    (tmp_path / "names.py").write_text(NAMES)
    assert run(tmp_path, "-m", "adjoint", "run", "names.py") == run(tmp_path, "names.py")
