"""adjoint in torch's place in the processes that a program starts, however it starts them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

PROGRAM = """
import multiprocessing, os, subprocess, sys
import torch

def who(*_):
    import torch
    return torch.__version__

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, i):
        return who()

def run(code, **env):
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True).stdout.strip()

if __name__ == "__main__":
    for method in ("spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        loader = torch.utils.data.DataLoader(Data(), batch_size=None, num_workers=1, multiprocessing_context=method)
        print(method, list(loader))
    show = "import torch, sys; print(torch.__version__, torch.__name__, sys.modules['adjoint'] is torch)"
    print("nested", run(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {show!r}])"))
    print("shell", os.popen(f'"{sys.executable}" -c "import torch; print(torch.__version__)"').read().strip())
    print("asked", run("import importlib.metadata as m, importlib.util as u; print(m.version('torch'), bool(u.find_spec('torch')))"))
    print("submodule", run("from torch.nn.functional import relu; print(relu.__module__.startswith('adjoint.'))"))
    print("untouched", run("import sys; print('adjoint' in sys.modules, 'numpy' in sys.modules, 'startup' in sys.path[1])"))
    try_real = "try:\\n import torch\\n print(torch.__version__)\\nexcept ImportError:\\n print('none')"
    for off in ({"ADJOINT_CHILDREN": "0"}, {"ADJOINT_CHILDREN": "/another/python"}):
        print("off", "adjoint" in run(try_real, **off))
"""  # noqa: E501
VERSION = "2.13.0+adjoint"
EXPECTED = f"""\
spawn ['{VERSION}', '{VERSION}']
forkserver ['{VERSION}', '{VERSION}']
nested {VERSION} torch True
shell {VERSION}
asked {VERSION} True
submodule True
untouched False False False
off False
off False
"""


def run(program: Path, cwd: Path, *arguments: str, **env: str) -> str:
    command = [sys.executable, "-m", "adjoint", "run", str(program), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **env}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment, cwd=cwd, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_python_process_of_the_program(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    assert run(program, tmp_path) == EXPECTED


@pytest.mark.parametrize("on", [True, False])
def test_the_sitecustomize_of_others_still_runs(on: bool, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "sitecustomize.py").write_text("import sys; sys.theirs = __name__, __file__")
    program = tmp_path / "program.py"
    program.write_text(
        "import os, subprocess, sys\n"
        "show = 'import sys; import sitecustomize; print(*sys.theirs, sitecustomize.__file__ == sys.theirs[1])'\n"
        "subprocess.run([sys.executable, '-c', show])\n"
        "print('startup' in os.environ['PYTHONPATH'])\n"
    )
    path = os.pathsep.join([str(ROOT), str(tmp_path / "theirs")])
    out = run(program, tmp_path, PYTHONPATH=path, PYTHONUNBUFFERED="1", **({} if on else {"ADJOINT_CHILDREN": "0"}))
    assert out == f"sitecustomize {tmp_path / 'theirs' / 'sitecustomize.py'} True\n{on}\n"
