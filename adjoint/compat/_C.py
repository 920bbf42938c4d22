"""The names of torch's C++ module that programs use."""

from __future__ import annotations

import enum
from types import SimpleNamespace
from typing import Any

from ..core import engine, leaves, modes, pruning, tasks
from ..core.device import device
from ..core.dtypes import dtype
from ..core.overrides import EverythingOff, SubclassesOff, disabled_torch_function
from ..core.payload import transforming
from ..core.size import Size
from ..core.tensor import TensorBase
from ..errors import LinAlgError
from ..ops.random import Generator

DisableTorchFunctionSubclass, DisableTorchFunction = SubclassesOff, EverythingOff
_TensorBase, _LinAlgError = TensorBase, LinAlgError
_disabled_torch_function_impl = disabled_torch_function


def _log_api_usage_once(event: str) -> None:
    """Do nothing: calls are not counted here."""


def _get_tracing_state() -> None:
    """Return None: nothing is being traced for a script."""


def _are_functorch_transforms_active() -> bool:
    """Return whether a transform of `adjoint.func` is running in this thread."""
    return transforming()


def _is_torch_function_mode_enabled() -> bool:
    """Return whether this thread is inside of a function mode."""
    return bool(modes.local.function_modes)


def _len_torch_function_stack() -> int:
    """Return the depth of this thread's stack of function modes."""
    return len(modes.local.function_modes)


def _get_function_stack_at(level: int) -> Any:
    """Return the function mode at a depth, the outermost first."""
    return modes.local.function_modes[level]


def _current_graph_task_id() -> int:
    """Return the number of the backward pass that this thread is inside of; -1 outside."""
    task = tasks.current_task()
    return -1 if task is None else task.number


def _current_autograd_node() -> Any:
    """Return the node whose backward or hook is running in this thread."""
    return engine.current_node()


def _current_graph_task_execution_order() -> list[Any]:
    """Return the nodes of the backward pass that is running, in the order in which they run."""
    task = tasks.current_task()
    if task is None:
        raise RuntimeError("get_current_graph_task_execution_order should only be called during the backward pass")
    if modes.local.multithreading:
        raise RuntimeError(
            "get_current_graph_task_execution_order expects the current backward to be executed with multithreading "
            "disabled, e.g. by running:\n\n>>> with torch.autograd.set_multithreading_enabled(False):\n"
            "...     torch.autograd.grad(...)\n"
        )
    return pruning.order_of_execution(task)


def _will_engine_execute_node(node: Any) -> bool:
    """Return whether the backward pass that is running gives `node` a gradient."""
    task = tasks.current_task()
    if task is None:
        raise RuntimeError("_get_should_execute_nodes should only be called during the backward pass")
    if task.captured is not None and type(node) is leaves.AccumulateGrad:
        raise RuntimeError(
            "A leaf node was passed to _will_engine_execute_node but we are currently running autograd.grad(). This is "
            "currently not supported."
        )
    return task.will_reach(node)


def _is_multithreading_enabled() -> bool:
    """Return the last argument of `set_multithreading_enabled` in this thread."""
    return modes.local.multithreading


def _set_multithreading_enabled(enabled: bool) -> None:
    modes.local.multithreading = enabled


def _get_current_graph_task_keep_graph() -> bool:
    """Return whether the running backward pass retains the graph; True outside of one."""
    task = tasks.current_task()
    return True if task is None else bool(task.keep)


def _push_saved_tensors_default_hooks(pack_hook: Any, unpack_hook: Any) -> None:
    if modes.local.pack_refusal is not None:
        raise RuntimeError(modes.local.pack_refusal)
    modes.local.pack_hooks = (*modes.local.pack_hooks, (pack_hook, unpack_hook))
    modes.note_unusual(1)


def _pop_saved_tensors_default_hooks() -> None:
    modes.note_unusual(-1)
    modes.local.pack_hooks = modes.local.pack_hooks[:-1]


_autograd = SimpleNamespace(
    _get_current_graph_task_keep_graph=_get_current_graph_task_keep_graph,
    _push_saved_tensors_default_hooks=_push_saved_tensors_default_hooks,
    _pop_saved_tensors_default_hooks=_pop_saved_tensors_default_hooks,
    _saved_tensors_hooks_get_disabled_error_message=lambda: modes.local.pack_refusal,
    _saved_tensors_hooks_is_enabled=lambda: modes.local.pack_refusal is None,
)


class _TorchFunctionState(enum.Enum):
    """Which handlers see functions: all, modes alone, none."""

    ENABLED = 0
    SUBCLASSES_DISABLED = 1
    ALL_DISABLED = 2


def _get_torch_function_state() -> _TorchFunctionState:
    """Return which handlers see functions in this thread."""
    off = modes.local.subclasses_off
    return _TorchFunctionState.SUBCLASSES_DISABLED if off else _TorchFunctionState.ENABLED


def _set_torch_function_state(state: _TorchFunctionState) -> None:
    """Set which handlers see functions in this thread."""
    modes.local.subclasses_off = state is not _TorchFunctionState.ENABLED
    if state is _TorchFunctionState.ALL_DISABLED:
        modes.local.function_modes = ()


def _is_torch_function_enabled() -> bool:
    """Return whether subclasses are queried before ops run."""
    return not modes.local.subclasses_off


__all__ = [
    "DisableTorchFunction", "DisableTorchFunctionSubclass", "Generator", "Size", "TensorBase", "device", "dtype",
]  # fmt: skip
