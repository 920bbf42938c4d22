"""Hooks: the functions of a program that run during a backward pass, and what they may replace.

Tensor hooks see the gradient of a tensor, prehooks and hooks the gradients of a node's outputs and inputs,
post-accumulate hooks a leaf whose ``.grad`` is up to date.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._typing import Kernel
from .dtypes import of
from .nodes import Cotangents, Extra, MultipleNode, wrap
from .tensor import TensorBase


def run_tensor_hooks(node: Any, extra: Extra, g: Any, lift: bool) -> Any:
    """Run the tensor hooks of a node's output, then fill the ``.grad`` of a tensor that retains it."""
    if extra.tensor_hooks:
        given = g if lift else wrap(g)
        for hook in tuple(extra.tensor_hooks.values()):
            result = hook(given)
            if result is not None:
                _check_hook_result(result, given, hook)
                given = result
        g = given if lift else given.array
    if extra.retain is not None:
        tensor = extra.retain()
        if tensor is not None:
            held = tensor._grad
            fresh = g if lift else wrap(np.array(g) if isinstance(g, np.generic) else g.copy())
            tensor._grad = fresh if held is None else held + fresh
    return g


def run_output_hooks(node: Any, outputs: list[tuple[int, Extra]], g: Any, lift: bool) -> Any:
    """Run the hooks of a node's outputs, those that have no gradient too."""
    parts: dict[int, Any] = {} if g is None else g.parts
    for index, extra in outputs:
        if extra.tensor_hooks:
            if index in parts:
                parts[index] = run_tensor_hooks(node, extra, parts[index], lift)
            else:
                run_hooks_undefined(extra.tensor_hooks)
    return g


def run_hooks_undefined(hooks: dict[int, Callable[..., Any]]) -> None:
    """Run the hooks of a tensor whose gradient is undefined, with None, which they may not replace."""
    for hook in tuple(hooks.values()):
        if hook(None) is not None:
            raise RuntimeError(
                "can't replace a None gradient with a non-None value: no gradient arrives at the tensor that "
                f"'{getattr(hook, '__name__', '<unknown>')}' is a hook of"
            )


def _check_hook_result(result: object, given: Any, hook: Kernel) -> None:
    if not isinstance(result, TensorBase):
        raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}'")
    name = getattr(hook, "__name__", "<unknown>")
    if result.array.shape != given.array.shape:
        raise RuntimeError(
            f"hook '{name}' has changed the size of value: it was {list(given.array.shape)}, "
            f"and the hook returned {list(result.array.shape)}"
        )
    if result.array.dtype != given.array.dtype:
        raise RuntimeError(
            f"hook '{name}' has changed the type of value (was torch.{of(given.array.dtype).title}Tensor got "
            f"torch.{of(result.array.dtype).title}Tensor)"
        )


def _replaced(given: tuple[Any, ...], answer: Any, hook: Kernel) -> tuple[Any, ...]:
    """Return what a node's hook has returned to replace the gradients, if it may replace them."""
    if not isinstance(answer, tuple):
        raise TypeError(f"expected tuple, but hook returned '{type(answer).__name__}'")
    if len(answer) != len(given):
        raise RuntimeError(
            f"hook '{getattr(hook, '__name__', '<unknown>')}' has returned an incorrect number of values (got "
            f"{len(answer)}, but expected {len(given)})"
        )
    for mine, theirs in zip(answer, given, strict=True):
        if mine is not None and theirs is not None:
            _check_hook_result(mine, theirs, hook)
    return answer


def _as_tensors(values: Sequence[Any], lift: bool) -> tuple[Any, ...]:
    return tuple(v if v is None or lift or isinstance(v, TensorBase) else wrap(v) for v in values)


def _as_values(tensors: Sequence[Any], lift: bool) -> list[Any]:
    return [t if t is None or lift else t.array for t in tensors]


def run_prehooks(node: Any, extra: Extra, g: Any, lift: bool) -> Any:
    """Run `Node.register_prehook` hooks on the gradients of the node's outputs."""
    assert extra.prehooks is not None
    several = isinstance(node, MultipleNode)
    gs: Any = node.gradients(g) if isinstance(node, MultipleNode) else [g]
    for hook in tuple(extra.prehooks.values()):
        given = _as_tensors(gs, lift)
        result = hook(given)
        if result is not None:
            gs = _as_values(_replaced(given, result, hook), lift)
    if several:
        return Cotangents({i: v for i, v in enumerate(gs) if v is not None})
    return gs[0]


def run_hooks(node: Any, extra: Extra, results: Sequence[Any], g: Any, lift: bool) -> Sequence[Any]:
    """Run `Node.register_hook` hooks, which may replace the gradients that the node gives."""
    assert extra.hooks is not None
    gs = node.gradients(g) if isinstance(node, MultipleNode) else [g]
    for hook in tuple(extra.hooks.values()):
        given = _as_tensors(node.seen(results) if results else (), lift)
        outcome = hook(given, _as_tensors(gs, lift))
        if outcome is not None:
            values = _as_values(_replaced(given, outcome, hook), lift)
            results = list(results)
            for i, value in zip(node.visible() or range(len(values)), values):
                results[i] = value
    return results


def run_post_hooks(leaf: Any, variable: Any) -> None:
    """Run the post-accumulate hooks of a leaf."""
    assert leaf.post_hooks is not None
    for hook in tuple(leaf.post_hooks.values()):
        result = hook(variable)
        if result is not None and not isinstance(result, TensorBase):
            raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}': it should return None")
