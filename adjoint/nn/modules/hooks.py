"""Hooks of modules: of one or of all, around `forward` and in the backward pass, and how a call runs them."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from ...core.handles import RemovableHandle
from ...core.tensor import TensorBase
from .backward import BackwardHook, warn_non_full_hook
from .conversion import Convertible
from .state import Hooks

# --- Hooks of all modules ---------------------------------------------------------------------------


class _Everywhere:
    """Whether any hook was ever registered for all modules: until then no call looks for one."""

    __slots__ = ("hooked",)

    def __init__(self) -> None:
        self.hooked = False

    def mark(self) -> None:
        self.hooked = True


_everywhere = _Everywhere()

_global_backward_pre_hooks = Hooks(_everywhere.mark)
_global_backward_hooks = Hooks(_everywhere.mark)
_global_is_full_backward_hook: bool | None = None
_global_forward_pre_hooks = Hooks(_everywhere.mark)
_global_forward_hooks = Hooks(_everywhere.mark)
_global_forward_hooks_always_called: dict[int, bool] = {}
_global_forward_hooks_with_kwargs: dict[int, bool] = {}
_global_buffer_registration_hooks: dict[int, Any] = OrderedDict()
_global_module_registration_hooks: dict[int, Any] = OrderedDict()
_global_parameter_registration_hooks: dict[int, Any] = OrderedDict()


def _has_any_global_hook() -> bool:
    return bool(
        _global_backward_pre_hooks or _global_backward_hooks or _global_forward_pre_hooks or _global_forward_hooks
    )


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, buffer)`` whenever a module gets a buffer; it may return another one."""
    return RemovableHandle(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, submodule)`` whenever a module gets a child; it may return another one."""
    return RemovableHandle(_global_module_registration_hooks, hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, param)`` whenever a module gets a parameter; it may return another one."""
    return RemovableHandle(_global_parameter_registration_hooks, hook)


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, args)`` before every forward of every module."""
    return RemovableHandle(_global_forward_pre_hooks, hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call ``hook(module, args, output)`` after every forward of every module."""
    marks = [_global_forward_hooks_with_kwargs, _global_forward_hooks_always_called]
    handle = RemovableHandle(_global_forward_hooks, hook, extra_dict=marks)
    if with_kwargs:
        _global_forward_hooks_with_kwargs[handle.id] = True
    if always_call:
        _global_forward_hooks_always_called[handle.id] = True
    return handle


def _use_global_backward_hooks(full: bool) -> None:
    global _global_is_full_backward_hook
    if _global_is_full_backward_hook is (not full):
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module hook. Please use only "
            "one of them."
        )
    _global_is_full_backward_hook = full


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Register an old-style backward hook for all modules; prefer `register_module_full_backward_hook`."""
    _use_global_backward_hooks(full=False)
    return RemovableHandle(_global_backward_hooks, hook)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_output)`` before the backward of every module."""
    return RemovableHandle(_global_backward_pre_hooks, hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)`` after the backward of every module."""
    _use_global_backward_hooks(full=True)
    return RemovableHandle(_global_backward_hooks, hook)


# --- Hooks of one module ----------------------------------------------------------------------------


def replaced(returned: Any, value: Any) -> Any:
    """Return what a hook gave in place of a value, or the value where it gave None."""
    return value if returned is None else returned


class Hooked(Convertible):
    """The hooks of a module: each kind has a dict, created when the first hook is registered."""

    forward: Callable[..., Any]
    _is_full_backward_hook: bool | None
    _backward_pre_hooks: dict[int, Any]
    _backward_hooks: dict[int, Any]
    _forward_hooks: dict[int, Any]
    _forward_hooks_with_kwargs: dict[int, Any]
    _forward_hooks_always_called: dict[int, Any]
    _forward_pre_hooks: dict[int, Any]
    _forward_pre_hooks_with_kwargs: dict[int, Any]
    _state_dict_hooks: dict[int, Any]
    _state_dict_pre_hooks: dict[int, Any]
    _load_state_dict_pre_hooks: dict[int, Any]
    _load_state_dict_post_hooks: dict[int, Any]

    # --- Calling ---

    def _run_hooked(self, args: Any, kwargs: Any, called: set[int]) -> Any:
        for key, hook in [*_global_forward_pre_hooks.items(), *self._forward_pre_hooks.items()]:
            args, kwargs = self._after_pre_hook(key, hook, args, kwargs)
        border = self._border()
        if border is not None:
            args = border.setup_input_hook(args)
        result = self.forward(*args, **kwargs)
        for key, hook in [*_global_forward_hooks.items(), *self._forward_hooks.items()]:
            called.add(key)
            result = replaced(self._forward_hook(key, hook, args, kwargs, result), result)
        if border is not None:
            result = border.setup_output_hook(result)
        if self._non_full_hooks():
            self._watch_result(args, result)
        return result

    def _after_pre_hook(self, key: int, hook: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
        if key not in self._forward_pre_hooks_with_kwargs:
            changed = hook(self, args)
            if changed is None:
                return args, kwargs
            return changed if isinstance(changed, tuple) else (changed,), kwargs
        changed = hook(self, args, kwargs)
        if changed is None:
            return args, kwargs
        if not (isinstance(changed, tuple) and len(changed) == 2):
            raise RuntimeError(
                f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {changed}."
            )
        return changed

    def _forward_hook(self, key: int, hook: Any, args: Any, kwargs: Any, result: Any) -> Any:
        if key in self._forward_hooks_with_kwargs or key in _global_forward_hooks_with_kwargs:
            return hook(self, args, kwargs, result)
        return hook(self, args, result)

    def _call_remaining_hooks(self, args: Any, kwargs: Any, called: set[int]) -> None:
        """Call the hooks with ``always_call=True`` that were not called; their exceptions become warnings."""
        for hooks, always in (
            (_global_forward_hooks, _global_forward_hooks_always_called),
            (self._forward_hooks, self._forward_hooks_always_called),
        ):
            for key, hook in hooks.items():
                if key in always and key not in called:
                    try:
                        self._forward_hook(key, hook, args, kwargs, None)
                    except Exception as error:
                        place = "global module " if hooks is _global_forward_hooks else "module "
                        warnings.warn(
                            f"{place}forward hook with ``always_call=True`` raised an exception that was silenced as "
                            f"another error was raised in forward: {error}",
                            stacklevel=3,
                        )

    def _border(self) -> BackwardHook | None:
        hooks, _ = self._get_backward_hooks()
        pre = self._get_backward_pre_hooks()
        return BackwardHook(self, hooks, pre) if hooks or pre else None

    def _get_backward_hooks(self) -> tuple[list[Any], list[Any]]:
        """Return the full and the old-style backward hooks."""
        full: list[Any] = []
        rest: list[Any] = []
        (full if _global_is_full_backward_hook is True else rest).extend(_global_backward_hooks.values())
        (full if self._is_full_backward_hook is True else rest).extend(self._backward_hooks.values())
        return full, rest

    def _get_backward_pre_hooks(self) -> list[Any]:
        return [*_global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()]

    def _non_full_hooks(self) -> list[Any]:
        return self._get_backward_hooks()[1]

    def _watch_result(self, args: Any, result: Any) -> None:
        found = result
        while not isinstance(found, TensorBase):
            found = next(iter(found.values())) if isinstance(found, Mapping) else found[0]
        node = getattr(found, "grad_fn", None)
        if node is not None:
            for hook in self._non_full_hooks():
                node.register_hook(lambda i, o, hook=hook: hook(self, i, o))
            warn_non_full_hook(self, args, result)

    # --- Registering ---

    def _hook(self, hooks: dict[int, Any], hook: Any, prepend: bool = False, **marks: Any) -> RemovableHandle:
        """Register a hook; each mark is a dict and whether the hook's key is added to it."""
        handle = RemovableHandle(hooks, hook, extra_dict=[where for where, _ in marks.values()])
        for where, wanted in marks.values():
            if wanted:
                where[handle.id] = True
        if prepend:
            hooks.move_to_end(handle.id, last=False)  # type: ignore[attr-defined]
        return handle

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call a function before each `forward`; it may replace the arguments.

        Parameters
        ----------
        hook : callable
            Called as ``hook(module, args)``, with the positional arguments. It returns None, or new arguments: a tuple,
            or one value.
        prepend : bool, default False
            Call it before the hooks that are registered already.
        with_kwargs : bool, default False
            Call it as ``hook(module, args, kwargs)``; it then returns None or a tuple of both.

        Returns
        -------
        RemovableHandle
            Its ``remove()`` takes the hook out.

        Examples
        --------
        >>> layer = adjoint.nn.Identity()
        >>> handle = layer.register_forward_pre_hook(lambda module, args: args[0] * 10)
        >>> layer(adjoint.tensor([1.0, 2.0]))
        tensor([10., 20.])
        >>> handle.remove()
        """
        marks = {"kwargs": (self._forward_pre_hooks_with_kwargs, with_kwargs)}
        return self._hook(self._forward_pre_hooks, hook, prepend, **marks)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call a function after each `forward`; it may replace the result.

        Parameters
        ----------
        hook : callable
            Called as ``hook(module, args, output)``, with the positional arguments. It returns None, or another result.
        prepend : bool, default False
            Call it before the hooks that are registered already.
        with_kwargs : bool, default False
            Call it as ``hook(module, args, kwargs, output)``.
        always_call : bool, default False
            Call it also if `forward` raises.

        Returns
        -------
        RemovableHandle
            Its ``remove()`` takes the hook out.

        Examples
        --------
        >>> model = adjoint.nn.Sequential(adjoint.nn.Linear(2, 3), adjoint.nn.Linear(3, 1))
        >>> shapes = []
        >>> handle = model[0].register_forward_hook(lambda module, args, output: shapes.append(output.shape))
        >>> _ = model(adjoint.ones(4, 2))
        >>> shapes
        [adjoint.Size([4, 3])]
        >>> handle.remove()
        """
        marks = {
            "kwargs": (self._forward_hooks_with_kwargs, with_kwargs),
            "always": (self._forward_hooks_always_called, always_call),
        }
        return self._hook(self._forward_hooks, hook, prepend, **marks)

    def _use_backward_hooks(self, full: bool) -> None:
        if self._is_full_backward_hook is (not full):
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. Please use only "
                "one of them."
            )
        self._is_full_backward_hook = full

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Register an old-style backward hook; prefer `register_full_backward_hook`."""
        self._use_backward_hooks(full=False)
        return self._hook(self._backward_hooks, hook)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` before each backward; what it returns replaces the gradients."""
        return self._hook(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` after each backward; a result replaces grad_input."""
        self._use_backward_hooks(full=True)
        return self._hook(self._backward_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata)`` after `state_dict`; it edits in place."""
        hook._from_public_api = True  # type: ignore[attr-defined]
        return self._hook(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was previously registered via "
                "register_state_dict_post_hook"
            )
        return self._hook(self._state_dict_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, prefix, keep_vars)`` before `state_dict`."""
        return self._hook(self._state_dict_pre_hooks, hook)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        if not with_module:
            return self._hook(self._load_state_dict_pre_hooks, hook)

        def bound(*args: Any) -> Any:
            return hook(self, *args)

        return self._hook(self._load_state_dict_pre_hooks, bound)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, ...)`` before the module's own entries are loaded."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, incompatible_keys)`` after loading; it may edit the keys."""
        return self._hook(self._load_state_dict_post_hooks, hook)
