"""What ``adjoint launch`` runs in each process: set the rank, run the program; if it fails, end all processes."""

from __future__ import annotations

import os
import runpy
import sys

from .engines.mpi import mpi, release_shared_memory
from .groups import abort_with_traceback, end_job
from .lifeline import hold, say_goodbye

__all__ = ["main"]


def _tell_environment() -> None:
    """Set the environment variables that programs written for torchrun read."""
    world = mpi().COMM_WORLD
    release_shared_memory(world)
    host = os.environ.get("PMI_HOSTNAME") or "127.0.0.1"
    os.environ.update(RANK=str(world.Get_rank()), WORLD_SIZE=str(world.Get_size()))
    os.environ.setdefault("LOCAL_RANK", os.environ.get("MPI_LOCALRANKID", str(world.Get_rank())))
    os.environ.setdefault("LOCAL_WORLD_SIZE", os.environ.get("MPI_LOCALNRANKS", str(world.Get_size())))
    os.environ.setdefault("MASTER_ADDR", host)
    os.environ.setdefault("MASTER_PORT", "29500")


def main() -> None:
    """Run the program given on the command line."""
    arguments = sys.argv[1:]
    if arguments[0] == "--torch":
        # The package of stand-ins imports all others; only this command puts adjoint in torch's place.
        from ..compat.stand_in import include_children, install

        arguments = arguments[1:]
        install()
        include_children()
    _tell_environment()
    hold(int(os.environ["RANK"]))
    try:
        if arguments[0] == "-m":
            sys.argv = arguments[1:]
            sys.path[0] = os.getcwd()
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = arguments
            sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
            runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as left:
        if left.code not in (None, 0):  # the others would wait for this one
            code = left.code if isinstance(left.code, int) else 1
            if not isinstance(left.code, int):
                print(left.code, file=sys.stderr)
            end_job(code)
        say_goodbye()
        raise
    except BaseException as error:
        abort_with_traceback(type(error), error, error.__traceback__)
    else:
        say_goodbye()


if __name__ == "__main__":
    main()
