"""``ModuleTracker``: which modules are running, forward or backward."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from ..autograd.graph import register_multi_grad_hook
from ..autograd.variable import Variable
from ..core import tasks
from ..core.tensor import TensorBase
from ..nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from ..tree import tree_leaves

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """A context that knows the modules which are running: `parents` has their paths, and always ``"Global"``.

    Examples
    --------
    >>> from adjoint.utils.module_tracker import ModuleTracker
    >>> model = adjoint.nn.Sequential(adjoint.nn.Linear(2, 2))
    >>> with ModuleTracker() as tracker:
    ...     handle = model[0].register_forward_pre_hook(lambda *_: print(sorted(tracker.parents)))
    ...     _ = model(adjoint.ones(2))
    ['Global', 'Sequential', 'Sequential.0']
    """

    def __init__(self) -> None:
        self.parents: set[str] = {"Global"}
        self._names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._seen: weakref.WeakSet[Any] = weakref.WeakSet()
        self._handles: list[Any] = []

    @property
    def is_bw(self) -> bool:
        """Whether a backward pass is running."""
        return bool(tasks.running.tasks)

    def __enter__(self) -> ModuleTracker:
        self._handles = [
            register_module_forward_pre_hook(self._begin),
            register_module_forward_hook(self._end, always_call=True),
        ]
        return self

    def __exit__(self, *error: object) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _name_of(self, module: Any) -> str:
        name = self._names.setdefault(module, type(module).__name__)
        if module not in self._seen:
            self._seen.add(module)
            for child, inner in module.named_children():
                self._names[inner] = f"{name}.{child}"
                self._name_of(inner)
        return name

    def _begin(self, module: Any, args: Any) -> None:
        name = self._name_of(module)
        self.parents.add(name)
        self._when_reached(args, lambda *_: self.parents.discard(name))

    def _end(self, module: Any, args: Any, result: Any) -> None:
        name = self._name_of(module)
        self.parents.discard(name)
        self._when_reached(result, lambda *_: self._again(name))

    def _again(self, name: str) -> None:
        """Enter a module in a backward pass, at whose end all of them are left."""
        Variable._execution_engine.queue_callback(self._leave_all)
        self.parents.add(name)

    def _leave_all(self) -> None:
        self.parents = {"Global"}

    def _when_reached(self, values: Any, function: Callable[..., Any]) -> None:
        """Call a function when a backward pass has the gradients of the tensors among some values."""
        tensors = [v for v in tree_leaves(values) if isinstance(v, TensorBase) and v.requires_grad]  # type: ignore[attr-defined]
        if tensors:
            self._handles.append(register_multi_grad_hook(tensors, function))
