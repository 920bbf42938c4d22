"""Hooks on a module's backward pass: they see the gradients of its inputs and outputs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

from ...autograd.function import Function
from ...core import modes
from ...core.tensor import TensorBase
from ...core.views import has_history

__all__ = ["BackwardHook"]


class BackwardHookFunction(Function):
    """The identity: a node at a module's input or output, where hooks can be set."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:  # type: ignore[override]
        """Return the tensors as they are."""
        ctx.mark_non_differentiable(*[a for a in args if not has_history(a)])
        return args

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:  # type: ignore[override]
        """Return the gradients as they are."""
        return grads


class BackwardHook:
    """Runs a module's backward hooks in one call of the module.

    Its inputs and outputs pass through separate nodes. The node of the outputs notes their gradients and
    runs the pre-hooks; the node of the inputs, which is the last to run, knows both sides and runs the hooks.
    """

    def __init__(self, module: Any, user_hooks: Iterable[Any], user_pre_hooks: Iterable[Any]) -> None:
        self.module = module
        self.user_hooks = list(user_hooks)
        self.user_pre_hooks = list(user_pre_hooks)
        self.grad_outputs: Any = None
        self.input_positions: list[int] | None = None
        self.input_count = 0

    def setup_input_hook(self, args: tuple[Any, ...]) -> Any:
        """Return the arguments, their tensors seen through a node that runs the hooks."""
        args, positions = self._through_node(args, self._set_input_hook)
        self.input_count = len(args)
        self.input_positions = positions
        return args

    def setup_output_hook(self, args: Any) -> Any:
        """Return the module's result, its tensors seen through a node that notes their gradients."""
        single = not isinstance(args, tuple)
        found, positions = self._through_node((args,) if single else args, self._set_output_hook)
        self.output_count, self.output_positions = len(found), positions
        return found[0] if single else found

    def _through_node(
        self, args: tuple[Any, ...], attach: Callable[[Any], None]
    ) -> tuple[tuple[Any, ...], list[int] | None]:
        positions = [i for i, a in enumerate(args) if isinstance(a, TensorBase)]
        if not modes.is_grad_enabled() or not any(args[i].requires_grad for i in positions):
            return args, None
        seen = BackwardHookFunction.apply(*(args[i] for i in positions))
        node = next(t.grad_fn for t in seen if t.grad_fn is not None)
        if node.name() != "BackwardHookFunctionBackward":
            raise RuntimeError(f"Error while setting up backward hooks: got {node.name()} as the module's own node")
        attach(node)
        out = list(args)
        for i, value in zip(positions, seen, strict=True):
            out[i] = value
        return type(args)(*out) if hasattr(args, "_fields") else tuple(out), positions

    def _set_input_hook(self, node: Any) -> None:
        def hook(grad_input: Any, _: Any) -> Any:
            if self.grad_outputs is None:
                return None  # none of the outputs took part in this backward pass
            full = _spread(grad_input, self.input_positions, self.input_count)
            found = self._run_hooks(full, self.grad_outputs)
            self.grad_outputs = None
            if found is full:
                return None
            return tuple(found[i] for i in self.input_positions or ())

        node.register_hook(hook)

    def _set_output_hook(self, node: Any) -> None:
        def hook(grad_output: Any) -> Any:
            full = before = _spread(grad_output, self.output_positions, self.output_count)
            for user_hook in self.user_pre_hooks:
                result = user_hook(self.module, full)
                if result is not None:
                    full = _checked(result, full, "grad_output", "Backward pre hook")
            self.grad_outputs = full
            if self.input_positions is None:  # no input needs a gradient: nothing will run later
                warnings.warn(
                    "Full backward hook is firing when gradients are computed with respect to module outputs since no "
                    "inputs require gradients. A pass that comes through an input calls it later, with both.",
                    stacklevel=5,
                )
                self._run_hooks(_spread((), None, self.input_count), full, replaces=False)
                self.grad_outputs = None
            return None if full is before else tuple(full[i] for i in self.output_positions or ())

        node.register_prehook(hook)

    def _run_hooks(self, grad_input: Any, grad_output: Any, replaces: bool = True) -> Any:
        for user_hook in self.user_hooks:
            result = user_hook(self.module, grad_input, grad_output)
            if result is None:
                continue
            if not replaces:
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always return None or None "
                    "for all gradients."
                )
            grad_input = _checked(result, grad_input, "grad_input", "Backward hook")
        return grad_input


def _spread(values: tuple[Any, ...], positions: list[int] | None, count: int) -> tuple[Any, ...]:
    out: list[Any] = [None] * count
    for i, value in zip(positions or (), values, strict=True):
        out[i] = value
    return tuple(out)


def _checked(result: Any, before: tuple[Any, ...], what: str, kind: str) -> tuple[Any, ...]:
    found = result if isinstance(result, tuple) else (result,)
    if len(found) != len(before):
        raise RuntimeError(f"{kind} returned an invalid number of {what}, got {len(found)}, but expected {len(before)}")
    return found


def warn_non_full_hook(module: Any, inputs: Any, result: Any) -> None:
    """Warn where an old-style backward hook will not see what its author expects."""
    results = result if isinstance(result, tuple) else (result,)
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    text = None
    if not all(isinstance(r, TensorBase) for r in results):
        text = (
            "Using non-full backward hooks on a Module that does not return a single Tensor or a tuple of Tensors is "
            "deprecated and will be removed in future versions. This hook will be missing some of the grad_output."
        )
    elif not all(isinstance(i, TensorBase) for i in inputs):
        text = (
            "Using non-full backward hooks on a Module that does not take as input a single Tensor or a tuple of "
            "Tensors is deprecated and will be removed in future versions. This hook will be missing some of the "
            "grad_input."
        )
    elif len({r.grad_fn for r in results} - {None}) == 1:
        ahead = {node for node, _ in next(r.grad_fn for r in results if r.grad_fn is not None).next_functions}
        if {i.grad_fn for i in inputs if i.grad_fn is not None} != ahead:
            text = (
                "Using a non-full backward hook when the forward contains multiple autograd Nodes is deprecated and "
                "will be removed in future versions. This hook will be missing some grad_input."
            )
    elif len(results) > 1:
        text = (
            "Using a non-full backward hook when outputs are generated by different autograd Nodes is deprecated "
            "and will be removed in future versions. This hook will be missing some grad_output."
        )
    if text is not None:
        warnings.warn(f"{text} Please use register_full_backward_hook to get the documented behavior.", FutureWarning,
                      stacklevel=4)  # fmt: skip
