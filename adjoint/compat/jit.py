"""``torch.jit`` for programs that script themselves: functions and modules run as the Python they are."""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from ..export.exported import ExportedProgram
from ..export.files import load as load_program
from ..export.files import save as save_program
from ..export.tracing import traced
from ..nn import Module

__all__ = [
    "Attribute", "Final", "RecursiveScriptModule", "ScriptFunction", "ScriptModule", "TracedModule", "annotate",
    "enable_onednn_fusion",
    "export", "fork", "freeze", "fuser", "ignore", "interface", "is_scripting", "is_tracing", "isinstance", "load",
    "optimize_for_inference", "optimized_execution", "save", "script", "script_if_tracing", "script_method",
    "set_fusion_strategy", "strict_fusion", "trace", "trace_module", "unused", "wait",
]  # fmt: skip

_T = TypeVar("_T")


def script(obj: _T, *args: Any, **kwargs: Any) -> _T:
    """Return the function or module as it is: it runs as Python.

    Parameters
    ----------
    obj : callable or Module
        What to script.

    Returns
    -------
    callable or Module
        `obj`.

    Examples
    --------
    >>> def double(x):
    ...     return x * 2
    >>> adjoint.jit.script(double)(adjoint.ones(2))
    tensor([2., 2.])
    >>> adjoint.jit.script(double) is double
    True
    """
    return obj


class ScriptModule(Module):
    """A module whose class programs derive from or test for; it runs as Python, as every `Module` does.

    Examples
    --------
    >>> class Double(adjoint.jit.ScriptModule):
    ...     @adjoint.jit.script_method
    ...     def forward(self, x):
    ...         return x * 2
    >>> Double()(adjoint.ones(2))
    tensor([2., 2.])
    """


class TracedModule(ScriptModule):
    """A traced module or function: its parameters and buffers, and the list of what it computed; see `trace`."""

    def __init__(self, program: ExportedProgram) -> None:
        super().__init__()
        inner = program.module()
        self.__dict__["_program"], self.__dict__["_runs"] = program, inner
        for name, child in inner.named_children():
            self.add_module(name, child)
        for name, parameter in inner.named_parameters(recurse=False):
            self.register_parameter(name, parameter)
        for name, buffer in inner.named_buffers(recurse=False):
            self.register_buffer(name, buffer)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the list."""
        return self.__dict__["_runs"](*args, **kwargs)

    @property
    def graph(self) -> Any:
        """The list, as a graph."""
        return self.__dict__["_program"].graph

    def save(self, f: Any, _extra_files: Any = None) -> None:
        """Write the traced module to a file, which `load` reads without the class that it was made of."""
        save_program(self.__dict__["_program"], f, extra_files=_extra_files)


def trace(
    func: Any, example_inputs: Any = None, optimize: Any = None, check_trace: bool = True, check_inputs: Any = None,
    check_tolerance: float = 1e-5, strict: bool = True, *, example_kwarg_inputs: Any = None, **ignored: Any,
) -> TracedModule:  # fmt: skip
    """Run a module or function on example inputs, and return what it computed as a module that can be saved.

    Sizes may differ later where the program is the same for them: axes of equal size in the example stay equal. A
    program that branches on values is refused, where torch takes the branch of the example for good.

    Parameters
    ----------
    func : Module or callable
        What to trace.
    example_inputs : Tensor or tuple
        Arguments to call it with.
    optimize : object, optional
        Accepted for torch's sake.
    check_trace, check_inputs, check_tolerance, strict : optional
        Accepted for torch's sake: no second run is compared, as programs that another run could change are refused.
    example_kwarg_inputs : dict, optional
        Arguments by keyword.

    Returns
    -------
    TracedModule
        A module with the parameters and buffers of `func`. `save` writes it, `graph` shows its operations.

    Examples
    --------
    >>> traced = adjoint.jit.trace(lambda x: x * 2 + 1, adjoint.ones(3))
    >>> traced(adjoint.zeros(5))
    tensor([1., 1., 1., 1., 1.])
    """
    args = (example_inputs,) if example_inputs is not None else ()
    if builtins.isinstance(example_inputs, tuple):
        args = example_inputs
    return TracedModule(traced(func, args, dict(example_kwarg_inputs or {})))


def trace_module(mod: Any, inputs: Any = None, *args: Any, **kwargs: Any) -> TracedModule:
    """Trace the forward pass of a module; `inputs` maps ``"forward"`` to its example inputs."""
    if set(inputs) != {"forward"}:
        raise NotImplementedError(f"trace_module traces forward only, not {sorted(set(inputs) - {'forward'})}")
    return trace(mod, inputs["forward"])


def freeze(mod: _T, *args: Any, **kwargs: Any) -> _T:
    """Return the module as it is."""
    return mod


def _same(fn: _T) -> _T:
    return fn


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Return a function as it is; a decorator, with or without arguments.

    Parameters
    ----------
    drop : callable or bool, default False
        The function, or torch's option, which changes nothing here.

    Returns
    -------
    callable
        The function, or a decorator that returns its function.

    Examples
    --------
    >>> @adjoint.jit.ignore
    ... def log(x):
    ...     print(x.shape)
    >>> log(adjoint.ones(2))
    adjoint.Size([2])
    """
    return drop if callable(drop) else _same


def unused(fn: _T) -> _T:
    """Return a method as it is; a decorator for methods that a script does not call.

    Parameters
    ----------
    fn : callable
        The method.

    Returns
    -------
    callable
        `fn`.

    Examples
    --------
    >>> class Net(adjoint.nn.Module):
    ...     @adjoint.jit.unused
    ...     def describe(self):
    ...         return "a net"
    >>> Net().describe()
    'a net'
    """
    return fn


def annotate(the_type: Any, the_value: _T) -> _T:
    """Return the value: the type is for a compiler."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Return whether an object is of a type."""
    return builtins.isinstance(obj, target_type)


def is_scripting() -> bool:
    """Return False: everything runs as Python.

    Returns
    -------
    bool
        False.

    Examples
    --------
    >>> adjoint.jit.is_scripting()
    False
    """
    return False


def is_tracing() -> bool:
    """Return False, also while `trace` runs: traced programs take the same path as others.

    Returns
    -------
    bool
        False.

    Examples
    --------
    >>> adjoint.jit.is_tracing()
    False
    """
    return False


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call the function immediately, and return its result, for `wait`."""
    return func(*args, **kwargs)


def wait(future: _T) -> _T:
    """Return the result of `fork`."""
    return future


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """Write a traced module to a file; see `trace`."""
    if not builtins.isinstance(m, TracedModule):
        raise NotImplementedError(
            "jit.save writes what jit.trace returned: script leaves a module the Python that it is, whose "
            "state_dict() can be saved"
        )
    m.save(f, _extra_files)


def load(f: Any, map_location: Any = None, _extra_files: Any = None, **ignored: Any) -> TracedModule:
    """Load a traced module that `save` wrote.

    Archives that torch wrote hold programs for C++ and are refused.

    Parameters
    ----------
    f : path or file
        What to read.
    map_location : object, optional
        Accepted for torch's sake: the tensors are on the CPU.

    Returns
    -------
    TracedModule
        The module; it needs no class of the program that was traced.

    Examples
    --------
    >>> import io
    >>> file = io.BytesIO()
    >>> adjoint.jit.save(adjoint.jit.trace(adjoint.sin, adjoint.ones(2)), file)
    >>> _ = file.seek(0)
    >>> adjoint.jit.load(file)(adjoint.zeros(3))
    tensor([0., 0., 0.])
    """
    return TracedModule(load_program(f, extra_files=_extra_files))


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """Enclose a block, and do nothing else."""
    yield


@contextlib.contextmanager
def fuser(name: str) -> Iterator[None]:
    """Enclose a block, and do nothing else."""
    yield


@contextlib.contextmanager
def strict_fusion() -> Iterator[None]:
    """Enclose a block, and do nothing else."""
    yield


def set_fusion_strategy(strategy: Any) -> list[Any]:
    """Do nothing; return the strategy before, which is none."""
    return []


def enable_onednn_fusion(enabled: bool) -> None:
    """Do nothing."""


script_if_tracing = export = interface = script_method = _same
optimize_for_inference = freeze
_overload = _overload_method = _script_if_tracing = _same


class RecursiveScriptModule(ScriptModule):
    """A class that no module has: for ``isinstance``."""


class ScriptFunction:
    """A class that no function has: for ``isinstance``."""


class Attribute:
    """A value and its type, for a compiler."""

    def __init__(self, value: Any, type: Any) -> None:
        self.value, self.type = value, type
