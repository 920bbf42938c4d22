"""The former package of torch's transforms: old names, with torch's warnings, and queries of its internals."""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ... import func
from ...core.payload import transforms, wrapped_in
from ...core.tensor import TensorBase
from ...func.values import as_tensor
from ...ops.join import stack

__all__ = ["DEPRECATED", "MODULES_AS_FUNCTIONS", "QUERIES"]


def _deprecated(function: Callable[..., Any], name: str, instead: str) -> Callable[..., Any]:
    """Return a function that warns, as torch's does, that it has moved."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(
            f"We've integrated functorch into PyTorch. As the final step of the integration, `functorch.{name}` is "
            "deprecated as of PyTorch 2.0 and will be deleted in a future version of PyTorch >= 2.3. Please use "
            f"`{instead}` instead; see the PyTorch 2.0 release notes and/or the `torch.func` migration guide for more "
            "details https://pytorch.org/docs/main/func.migrating.html",
            FutureWarning,
            stacklevel=2,
        )
        return function(*args, **kwargs)

    return wrapper


# --- Modules as functions -----------------------------------------------------------------------------


class FunctionalModuleWithBuffers:
    """A stateless module: called with parameters, buffers and arguments."""

    def __init__(self, module: Any, parameters: Sequence[str], buffers: Sequence[str]) -> None:
        self.stateless_model, self.param_names, self.buffer_names = module, tuple(parameters), tuple(buffers)

    def __call__(self, params: Any, buffers: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the module with parameters and buffers, in the order of the original's."""
        state = {**dict(zip(self.param_names, params)), **dict(zip(self.buffer_names, buffers))}
        return func.functional_call(self.stateless_model, state, args, kwargs)

    forward = __call__


class FunctionalModule(FunctionalModuleWithBuffers):
    """A module without parameters: called with parameters and arguments."""

    def __call__(self, params: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the module with parameters, in the order of the original's."""
        return super().__call__(params, (), *args, **kwargs)

    forward = __call__


def _taken_apart(model: Any, disable_autograd_tracking: bool) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    parameters, buffers = dict(model.named_parameters()), dict(model.named_buffers())
    if disable_autograd_tracking:
        parameters = {name: p.detach() for name, p in parameters.items()}
    return copy.deepcopy(model), parameters, buffers


def make_functional(model: Any, disable_autograd_tracking: bool = False) -> tuple[FunctionalModule, tuple[Any, ...]]:
    """Return a module as a function of its parameters, and those."""
    stateless, parameters, buffers = _taken_apart(model, disable_autograd_tracking)
    if buffers:
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead."
        )
    return FunctionalModule(stateless, tuple(parameters), ()), tuple(parameters.values())


def make_functional_with_buffers(
    model: Any, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, tuple[Any, ...], tuple[Any, ...]]:
    """Return a module as a function of its parameters and buffers, and those."""
    stateless, parameters, buffers = _taken_apart(model, disable_autograd_tracking)
    function = FunctionalModuleWithBuffers(stateless, tuple(parameters), tuple(buffers))
    return function, tuple(parameters.values()), tuple(buffers.values())


def combine_state_for_ensemble(models: Any) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    """Return a function for an ensemble of modules of one kind, and their parameters and buffers, each stacked."""
    where = "combine_state_for_ensemble: "
    if len(models) == 0:
        raise RuntimeError(f"{where}Expected at least one model, got 0.")
    if len({m.training for m in models}) > 1:
        raise RuntimeError(f"{where}Expected all models to have the same training/eval mode.")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError(f"{where}Expected all models to be of the same class.")
    functions, parameters, buffers = zip(*[make_functional_with_buffers(m) for m in models])
    return functions[0], _stacked(parameters), _stacked(buffers)


def _stacked(states: tuple[tuple[Any, ...], ...]) -> tuple[Any, ...]:
    return tuple(stack(list(each)).detach() for each in zip(*states))


MODULES_AS_FUNCTIONS: dict[str, Any] = {
    "make_functional": make_functional, "make_functional_with_buffers": make_functional_with_buffers,
    "combine_state_for_ensemble": combine_state_for_ensemble, "FunctionalModule": FunctionalModule,
    "FunctionalModuleWithBuffers": FunctionalModuleWithBuffers,
}  # fmt: skip

DEPRECATED: dict[str, Any] = {
    "vmap": _deprecated(func.vmap, "vmap", "torch.vmap"),
    **{
        name: _deprecated(getattr(func, name), name, f"torch.func.{name}")
        for name in ("functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "vjp")
    },
    **{
        name: _deprecated(MODULES_AS_FUNCTIONS[name], name, "torch.func.functional_call")
        for name in ("make_functional", "make_functional_with_buffers")
    },
    "combine_state_for_ensemble": _deprecated(
        combine_state_for_ensemble, "combine_state_for_ensemble", "torch.func.stack_module_state"
    ),
}


# --- torch._C._functorch ------------------------------------------------------------------------------


def _level_of(tensor: Any) -> tuple[int, Any, Any]:
    """Return the depth of the innermost transform that has made something of a tensor, it, and the value below it."""
    levels = transforms()
    depth, below = wrapped_in(tensor, levels)
    return depth, levels[depth - 1] if depth > 0 else None, below


def _is_batchedtensor(tensor: Any) -> bool:
    level = _level_of(tensor)[1]
    return level is not None and level.captured is None


def _is_gradtrackingtensor(tensor: Any) -> bool:
    level = _level_of(tensor)[1]
    return level is not None and level.captured is not None


def _get_unwrapped(tensor: Any) -> Any:
    _, level, below = _level_of(tensor)
    if level is None:
        raise RuntimeError("No wrappers present!")
    return as_tensor(below)


def _current_level() -> int:
    levels = transforms()
    if not levels:
        raise RuntimeError("maybe_layer.has_value() INTERNAL ASSERT FAILED: no function transform is on")
    return len(levels)


QUERIES: dict[str, Any] = {
    "is_batchedtensor": _is_batchedtensor, "is_gradtrackingtensor": _is_gradtrackingtensor,
    "is_functorch_wrapped_tensor": lambda tensor: isinstance(tensor, TensorBase) and _level_of(tensor)[1] is not None,
    "is_functionaltensor": lambda tensor: False, "maybe_get_level": lambda tensor: _level_of(tensor)[0],
    "maybe_get_bdim": lambda tensor: 0 if _is_batchedtensor(tensor) else -1, "get_unwrapped": _get_unwrapped,
    "current_level": _current_level, "maybe_current_level": lambda: len(transforms()) or None,
}  # fmt: skip
