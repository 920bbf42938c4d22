"""What Python runs first in a process that a program under ``adjoint run`` starts: adjoint takes torch's place there.

The folder of this file stands in front of PYTHONPATH. Nothing of adjoint is imported until the process imports torch.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(HERE))))
# What is torch, or looks for it while it is imported.
NAMES = ("torch", "functorch", "torchvision", "optree")


class LazyFinder:
    """Puts adjoint in torch's place when the process first imports torch, or looks for it."""

    done = False

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> object:
        """Return how to load adjoint, the one of the program that started this process, or what stands for torch."""
        if fullname == "adjoint":
            return PathFinder.find_spec(fullname, [PACKAGE])
        if self.done or fullname.partition(".")[0] not in NAMES:
            return None
        self._install()
        sys.modules.pop(fullname, None)  # the import that is under way puts it back; what it finds there it runs again
        found = (finder.find_spec(fullname, path, target) for finder in list(sys.meta_path))  # type: ignore[arg-type]
        return next((spec for spec in found if spec is not None), None)

    def find_distributions(self, context: object = None) -> object:
        """Return the metadata of the package torch, for a process that looks it up by name."""
        if self.done or getattr(context, "name", None) != "torch":
            return iter(())
        self._install()
        return sys.meta_path[0].find_distributions(context)  # type: ignore[attr-defined]

    def _install(self) -> None:
        from adjoint.compat.stand_in import install

        install()
        self.done = True  # not before: another thread may import meanwhile


def run_next() -> None:
    """Run the ``sitecustomize`` that would have been found without this one."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != HERE]
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    from importlib.util import module_from_spec

    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


# Another interpreter that reads the same PYTHONPATH is left alone.
if os.environ.get("ADJOINT_CHILDREN") == sys.prefix:
    sys.meta_path.insert(0, LazyFinder())  # type: ignore[arg-type]
run_next()
