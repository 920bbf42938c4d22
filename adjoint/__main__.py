"""The command line: ``adjoint run script.py``, ``torchrun``, ``launch --nproc 4``, ``demo`` and ``doctor``."""

from __future__ import annotations

import argparse
import importlib.util
import os
import runpy
import subprocess
import sys
from typing import NoReturn

from ._version import __version__

__all__ = ["main"]


def _missing(arguments: list[str]) -> str:
    """Return what is wrong with the name of a program, or nothing."""
    name = arguments[0]
    if name in ("-m", "-c") and len(arguments) == 1:
        return f"{name} needs {'the name of a module' if name == '-m' else 'a program as its argument'}"
    if name == "-c":
        return ""
    if name == "-m":
        return _missing_module(arguments[1])
    if os.path.isdir(name) and not os.path.exists(os.path.join(name, "__main__.py")):
        return f"{name} is a folder without a file __main__.py"
    if not os.path.exists(name):
        if name.startswith("-"):
            return f"no option {name}: adjoint run takes script.py, -m module or -c program"
        return f"no such file: {name}"
    return ""


def _missing_module(name: str) -> str:
    """Return what is wrong with the name of a module; errors inside the packages above it are the program's."""
    try:
        found = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        found = None
    return "" if found is not None else f"no module named {name}"


def _run_text(arguments: list[str]) -> NoReturn:
    """Run ``-c program`` by a Python of its own, which finds adjoint in torch's place."""
    command = [sys.executable, *arguments]
    sys.stdout.flush()
    if os.name == "posix":
        os.execv(sys.executable, command)
    sys.exit(subprocess.call(command))


def _run(arguments: list[str]) -> None:
    """Run a program with adjoint in torch's place."""
    from .compat.stand_in import include_children, install

    install()
    include_children()
    if arguments[:1] == ["torchrun"] and not os.path.exists("torchrun"):  # PyTorch's command, which is a program too
        arguments = ["-m", "torch.distributed.run", *arguments[1:]]
    if arguments[:1] == ["-m"]:
        sys.path[0] = os.getcwd()
    wrong = _missing(arguments)
    if wrong:
        sys.stderr.write(f"adjoint run: {wrong}\n")
        sys.exit(2)
    if arguments[:1] == ["-c"]:
        _run_text(arguments)
    if arguments[:1] == ["-m"]:
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = arguments
    sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
    runpy.run_path(arguments[0], run_name="__main__")


def main(arguments: list[str] | None = None) -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="adjoint", description="PyTorch's autograd in pure Python on NumPy.")
    parser.add_argument("--version", action="version", version=f"adjoint {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run an unmodified PyTorch program on adjoint")
    run.add_argument("program", nargs=argparse.REMAINDER, help="script.py, -m module or -c program, and its arguments")
    commands.add_parser("launch", add_help=False, help="run a program on several processes: launch --nproc 4 script.py")
    commands.add_parser("torchrun", add_help=False, help="run an unmodified PyTorch program on several processes")
    demo = commands.add_parser("demo", help="train a small model, and plot its loss and its graph")
    demo.add_argument("--out", default="adjoint-demo.html", help="where the drawing goes")
    demo.add_argument("--short", action="store_true", help="a few seconds only")
    commands.add_parser("doctor", help="show what is installed, and which kernels, GPU, MPI and cache will be used")
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["run"] and given[1:2] not in (["-h"], ["--help"]):  # what follows is the program's, options too
        if not given[1:]:
            run.error("which program?")
        _run(given[1:])
        return
    if given[:1] == ["torchrun"]:
        _run(["-m", "torch.distributed.run", *given[1:]])
        return
    if given[:1] == ["launch"]:
        from .distributed.launch import launch

        sys.exit(launch(given[1:]))
    said = parser.parse_args(given)
    if said.command == "demo":
        from .demo import demonstrate

        demonstrate(said.out, short=said.short)
    elif said.command == "doctor":
        from .doctor import report

        print(report())


if __name__ == "__main__":
    main()
