"""The command line: ``adjoint run script.py``, ``adjoint torchrun``, ``adjoint launch --nproc 4``, ``adjoint demo``."""

from __future__ import annotations

import argparse
import os
import runpy
import sys

__all__ = ["main"]


def _run(arguments: list[str]) -> None:
    """Run a program with adjoint in torch's place."""
    from .compat.stand_in import include_children, install

    install()
    include_children()
    if arguments[:1] == ["torchrun"] and not os.path.exists("torchrun"):  # PyTorch's command, which is a program too
        arguments = ["-m", "torch.distributed.run", *arguments[1:]]
    if arguments[:1] == ["-m"]:
        sys.argv = arguments[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = arguments
    sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
    runpy.run_path(arguments[0], run_name="__main__")


def main(arguments: list[str] | None = None) -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="adjoint", description="PyTorch's autograd in pure Python on NumPy.")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run an unmodified PyTorch program on adjoint")
    run.add_argument("program", nargs=argparse.REMAINDER, help="script.py or -m module, and its arguments")
    commands.add_parser("launch", add_help=False, help="run a program on several processes: launch --nproc 4 script.py")
    commands.add_parser("torchrun", add_help=False, help="run an unmodified PyTorch program on several processes")
    demo = commands.add_parser("demo", help="train a small model, and draw its loss and its graph")
    demo.add_argument("--out", default="adjoint-demo.html", help="where the drawing goes")
    demo.add_argument("--short", action="store_true", help="a few seconds only")
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["run"] and given[1:2] not in (["-h"], ["--help"]):  # the rest is the program's, options too
        if given[1:] in ([], ["-m"]):
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


if __name__ == "__main__":
    main()
