"""The import hook: ``torch.x.y`` is ``adjoint.x.y``, the same module object, or a stand-in that raises on use."""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import sys
import types
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

from ... import printing, return_types, serialization, subclasses
from ..._paths import Known, home_of, module_path, public_path
from ...core import dtypes
from ...core.layout import layout, memory_format
from ...core.size import Size
from ...nn.modules.state import Members
from ...ops import overloads
from .. import _C, storage, version
from . import files
from .compiled import REFERENCES, VARIABLE_FUNCTIONS
from .functorch import DEPRECATED, MODULES_AS_FUNCTIONS
from .no_ops import ADDED, MODULES, offered
from .unsupported import UnsupportedModule, unsupported

__all__ = ["TORCH_VERSION", "install", "installed"]

# The version that programs see: that of the torch whose semantics adjoint follows.
TORCH_VERSION = "2.13.0+adjoint"
# What ``python -m`` runs: no packages.
_COMMANDS = frozenset({"distributed.launch", "distributed.run"})


class Finder(importlib.abc.MetaPathFinder):
    """Finds modules under the name of torch."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return how to load ``torch`` or a module in it."""
        root, _, rest = fullname.partition(".")
        if fullname == "optree":
            return _told(importlib.machinery.PathFinder.find_spec(fullname, path))
        if root == "adjoint":
            if module_path(fullname) != fullname:
                return None  # the finder of `_paths` has it
            return _renamed(importlib.machinery.PathFinder.find_spec(fullname, path))
        if root not in ("torch", "functorch"):
            return None
        module = _module_of(rest) if root == "torch" else _functorch(fullname)
        if module is None:
            return None
        is_package = hasattr(module, "__path__")
        return importlib.util.spec_from_loader(fullname, Known(module), is_package=is_package)

    def find_distributions(self, context: Any = None) -> Iterable[importlib.metadata.Distribution]:
        """Return the distribution, for programs that query the installed version."""
        name = getattr(context, "name", None)
        if name is None or name.lower() == "torch":
            yield _Distribution()


def _told(spec: importlib.machinery.ModuleSpec | None) -> importlib.machinery.ModuleSpec | None:
    """Let optree know ``module._parameters`` for a dict once it is imported: it takes subclasses for leaves."""
    loader: Any = spec.loader if spec is not None else None
    if loader is None:
        return spec
    run = loader.exec_module

    def run_and_tell(module: Any) -> None:
        run(module)
        everywhere = getattr(module.registry, "__GLOBAL_NAMESPACE")  # a class would mangle the name
        module.register_pytree_node(
            Members,
            lambda members: ([members[k] for k in sorted(members)], tuple(sorted(members))),
            lambda names, values: Members(dict(zip(names, values, strict=True))),
            namespace=everywhere,
        )

    loader.exec_module = run_and_tell
    return spec


class _LastFinder(importlib.abc.MetaPathFinder):
    """Finds a stand-in for torchvision if it is not installed: programs import names that they may never use."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return how to load a stand-in."""
        if fullname.partition(".")[0] != "torchvision":
            return None
        return importlib.util.spec_from_loader(fullname, Known(UnsupportedModule(fullname, {})), is_package=True)


class _Distribution(importlib.metadata.Distribution):
    """The metadata of the package."""

    def read_text(self, filename: str) -> str | None:
        """Return the text of a file of metadata."""
        if filename == "METADATA":
            return f"Metadata-Version: 2.1\nName: torch\nVersion: {TORCH_VERSION}\nSummary: adjoint in torch's place\n"
        return None

    def locate_file(self, path: Any) -> Any:
        """Return the path that a file would have."""
        return path


# Modules whose functions packages replace by their own, which adjoint then calls.
_ELSEWHERE = {"_functorch.vmap": "adjoint.func.batch"}


def _module_of(rest: str) -> types.ModuleType | None:
    """Return adjoint's module of a name, a stand-in for one that it does not have, or None."""
    # Packages of which torch has a vendored copy come from the package itself.
    name = rest.removeprefix("_vendor.") if rest.startswith("_vendor.") else f"adjoint.{rest}".rstrip(".")
    name = _ELSEWHERE.get(rest, name)
    try:
        module = importlib.import_module(name)
        if getattr(module, "__file__", None) is None:  # a folder without code
            raise ModuleNotFoundError(name=name)
        for added, value in ADDED.get(rest, {}).items():
            module.__dict__.setdefault(added, value)
        if rest and rest not in _COMMANDS:
            module.__dict__.setdefault("__path__", [])  # torch may have a package where adjoint has one file
            _answer_missing(module, rest)
        return module
    except ModuleNotFoundError as error:
        # Only where it is this module that is missing, or one on the way to it.
        if error.name is None or not (name + ".").startswith(error.name + "."):
            raise
    if rest in REFERENCES:
        return REFERENCES[rest]
    names = offered(rest)
    return None if names is None else UnsupportedModule(f"torch.{rest}", names, _inside)


# What a program sees no classes of, or sees under other names already.
_OWN_PACKAGES = ("core", "ops", "devices", "payloads", "compiler", "stand_in", "explanation", "viz", "serialization")


def _renamed(spec: importlib.machinery.ModuleSpec | None) -> importlib.machinery.ModuleSpec | None:
    """Set `__module__` of the classes of a module to torch's, once it is imported."""
    loader: Any = spec.loader if spec is not None else None
    if loader is None or spec is None:
        return spec
    run = loader.exec_module

    def run_and_rename(module: Any) -> None:
        run(module)
        above = sys.modules.get(spec.name.rpartition(".")[0])
        if not getattr(getattr(above, "__spec__", None), "_initializing", False):  # else when the package is complete
            _rename_classes(spec.name)

    loader.exec_module = run_and_rename
    return spec


def _rename_classes(name: str) -> None:
    """Set `__module__` of classes to torch's modules: libraries and files read where a class is from."""
    for path, module in list(sys.modules.items()):
        if path == name or path.startswith(name + "."):
            package = public_path(path).split(".")[1:2]
            for kind in list(vars(module).values()) if not package or package[0] not in _OWN_PACKAGES else ():
                if isinstance(kind, type) and kind.__module__ == path:
                    kind.__module__ = home_of(path, kind.__name__)


def _functorch(name: str) -> types.ModuleType:
    """Return the package `functorch`, the former home of torch's transforms, which is installed with torch."""
    names = {**DEPRECATED, **{k: v for k, v in MODULES_AS_FUNCTIONS.items() if k.startswith("Functional")}}
    if name == "functorch.experimental":
        func = importlib.import_module("adjoint.func")
        names = {"chunk_vmap": func.batch.chunk_vmap, **{word: getattr(func, word) for word in func.__all__}}
    return UnsupportedModule(name, names if name in ("functorch", "functorch.experimental") else {})


def _inside(name: str) -> types.ModuleType | None:
    """Return a module in one that is not offered, where that is known as a module."""
    return importlib.import_module(name) if name.removeprefix("torch.") in MODULES else None


def installed() -> bool:
    """Return whether adjoint stands in torch's place."""
    return sys.modules.get("torch") is sys.modules["adjoint"]


def install() -> None:
    """Put adjoint in torch's place until this process ends.

    Afterwards ``import torch`` imports adjoint, and ``torch.nn`` is the same module as ``adjoint.nn``. Names that
    adjoint does not have can be imported; they raise when they are used. An installed torch is not modified.

    Raises
    ------
    RuntimeError
        Where the real torch was imported already.
    """
    present = sys.modules.get("torch")
    if present is not None:
        if installed():
            return
        raise RuntimeError("torch is imported already: put adjoint in its place before anything imports it")
    adjoint = sys.modules["adjoint"]
    sys.meta_path.insert(0, Finder())
    sys.modules["torch"] = adjoint
    adjoint.__version__ = version.__version__ = TORCH_VERSION  # type: ignore[attr-defined]
    _C.__path__ = []  # torch's has modules in it
    _module_of("")
    for name in [*sys.modules, *(f"adjoint.{package}" for package in ADDED if package)]:
        if name.startswith("adjoint."):
            rest = public_path(name).removeprefix("adjoint.")
            sys.modules[f"torch.{rest}"] = _module_of(rest) or sys.modules[name]
    adjoint.__dict__.setdefault("torch", adjoint)
    adjoint.__name__ = "torch"
    sys.modules["adjoint.nn.modules"].__name__ = "torch.nn.modules"  # suites name their tests after it
    for kind in (adjoint.Tensor, adjoint.Size, adjoint.device, adjoint.dtype):  # libraries check a value's class
        kind.__module__ = "torch"
    adjoint.Generator.__module__ = "torch._C"
    _rename_classes("adjoint")
    dtypes.dtype.__repr__ = lambda self: f"torch.{self.name}"  # type: ignore[method-assign]
    Size.__repr__ = lambda self: f"torch.Size({list(self)})"  # type: ignore[method-assign]
    for named in (layout, memory_format):
        named.__repr__ = lambda self: f"torch.{self.name}"  # type: ignore[method-assign]
    for result in vars(return_types).values():
        if isinstance(result, type) and issubclass(result, return_types.Result):
            result.__module__ = "torch.return_types"
    printing.PACKAGE = "torch"
    for home in (adjoint, serialization):
        home.__dict__.update(save=files.save, load=files.load)
    sys.meta_path.append(_LastFinder())
    subclasses.exchange_now()
    _stay_quiet()
    for kind in (storage.TypedStorage, storage.UntypedStorage):
        kind.__module__ = "torch.storage"
    overloads.namespace("mkldnn").__dict__["_is_mkldnn_acl_supported"] = lambda: False
    adjoint.__dict__["_VF"] = sys.modules["torch._VF"] = VARIABLE_FUNCTIONS
    adjoint.__all__ = [name for name in dir(adjoint) if not name.startswith("_")]  # type: ignore[attr-defined]
    _answer_missing(adjoint, "")
    for package in ("utils", "backends", "distributed", "nn"):
        _answer_missing(importlib.import_module(f"adjoint.{package}"), package)


def _stay_quiet() -> None:
    """Suppress NumPy's warnings about infinities in adjoint's own files, whatever filters a program sets."""

    def keeping(function: Any) -> Any:
        @functools.wraps(function)
        def set_filters(*args: Any, **kwargs: Any) -> None:
            function(*args, **kwargs)
            quiet("ignore", category=RuntimeWarning, module=r"adjoint\.")

        return set_filters

    quiet = warnings.filterwarnings
    for name in ("simplefilter", "filterwarnings", "resetwarnings"):
        setattr(warnings, name, keeping(getattr(warnings, name)))


def _answer_missing(module: types.ModuleType, rest: str) -> None:
    """Give a module a `__getattr__` for missing names: submodules that torch's has, and names that may stay unused.

    Suites import dozens of names from torch's helpers for tests at once, and private names from everywhere; a
    program may never use the missing one.
    """
    own = module.__dict__.get("__getattr__")
    if getattr(own, "_answers_missing", False):
        return
    lenient = rest.startswith("testing._internal.")
    shown = f"torch.{rest}".rstrip(".")

    def found(name: str) -> Any:
        if own is not None:
            try:
                return own(name)
            except AttributeError:
                pass
        inside = f"{rest}.{name}".lstrip(".")
        if inside in MODULES:
            return importlib.import_module(f"torch.{inside}")
        private = bool(rest) and name.startswith("_")
        if name.startswith("__") or not (lenient or private):
            raise AttributeError(f"module '{shown}' has no attribute '{name}'")
        if private and importlib.util.find_spec(f"adjoint.{inside}") is not None:
            return importlib.import_module(f"torch.{inside}")
        return unsupported(f"{shown}.{name}")

    found._answers_missing = True  # type: ignore[attr-defined]
    module.__dict__["__getattr__"] = found
