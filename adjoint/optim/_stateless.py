"""Steps with replaced parameters and state; the optimizer's own stay unchanged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..core.tensor import TensorBase
from .optimizer import Optimizer

_NAME = "swap_in_optimizer_params_and_state"


def _check(truth: Any, problem: str) -> None:
    if not truth:
        raise RuntimeError(problem)


def _requires(truth: Any, what: str) -> None:
    _check(truth, f"{_NAME} requires {what}")


def _checked_state(state: Any) -> dict[Any, Any]:
    """Return the state of each parameter, by its index in a state dict."""
    _requires(
        isinstance(state, dict),
        "swapin_optim_state['state'] to be a dict mapping packed parameter ids to per-param state dicts, got "
        f"{type(state).__name__}.",
    )
    _requires(
        not any(isinstance(key, TensorBase) for key in state),
        "optimizer.state_dict()-style state keyed by packed parameter ids.",
    )
    _requires(
        all(isinstance(value, dict) for key, value in state.items() if isinstance(key, int)),
        "per-parameter optimizer state entries to be dictionaries.",
    )
    return dict(state)


def _checked_group(index: int, group: dict[str, Any], given: Any) -> list[int]:
    """Return the numbers of the parameters in a group that takes the place of the optimizer's."""
    _requires(isinstance(given, dict), "each optimizer param group to be a dictionary.")
    numbers = given.get("params")
    _requires(
        isinstance(numbers, list) and all(isinstance(n, int) for n in numbers),
        "optimizer.state_dict()-style param_groups[*]['params'] entries keyed by packed parameter ids.",
    )
    _check(
        len(group["params"]) == len(numbers),
        f"swapin_optim_state param group {index} has a different number of params than the live optimizer param group.",
    )
    more, less = [k for k in given if k not in group], [k for k in group if k not in given]
    _requires(
        not more and not less,
        "optimizer.state_dict()-style param group keys to exactly match the live optimizer group keys for group "
        f"{index}. Keys only in swap-in: {more}. Keys only in live: {less}.",
    )
    return list(numbers)


def _paired(optimizer: Any, parameters: dict[str, Any], groups: Any) -> list[list[tuple[int, Any]]]:
    """Return for each group its parameters' numbers, and the tensors that come in their place."""
    _requires(
        isinstance(groups, list),
        f"swapin_optim_state['param_groups'] to be a list of param-group dicts, got {type(groups).__name__}.",
    )
    _check(
        len(optimizer.param_groups) == len(groups),
        "swapin_optim_state has a different number of parameter groups than the live optimizer.",
    )
    tensors, found = list(parameters.values()), []
    for i, (group, given) in enumerate(zip(optimizer.param_groups, groups, strict=True)):
        numbers = _checked_group(i, group, given)
        _requires(
            len(numbers) <= len(tensors), "the explicit parameter state to match optimizer.param_groups ordering."
        )
        found.append(list(zip(numbers, tensors)))
        tensors = tensors[len(numbers) :]
    return found


@contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer, swapin_parameters: dict[str, Any], swapin_optim_state: dict[str, Any]
) -> Iterator[None]:
    """Let an optimizer work on other parameters with another state, until the context ends.

    Parameters
    ----------
    optimizer
        One that has a state, its own.
    swapin_parameters
        Tensors in the order of the optimizer's parameters.
    swapin_optim_state
        What `Optimizer.state_dict` returns. Its tensors are written in place; the dicts are not changed.
    """
    _requires(optimizer.state, "initialized optimizer state.")
    _requires(isinstance(swapin_optim_state, dict), "a DCP-style optimizer state_dict.")
    state = _checked_state(swapin_optim_state.get("state"))
    groups = swapin_optim_state.get("param_groups")
    pairs = _paired(optimizer, swapin_parameters, groups)
    extra = [key for key in state if key not in {number for rows in pairs for number, _ in rows}]
    _requires(
        not extra,
        "swapin_optim_state['state'] to be keyed only by packed parameter ids from param_groups[*]['params']; got "
        f"extra keys {extra!r}.",
    )
    kept, before = optimizer.state, [dict(group) for group in optimizer.param_groups]
    try:
        swapped: defaultdict[Any, Any] = defaultdict(dict)
        for group, given, rows in zip(optimizer.param_groups, groups or (), pairs, strict=True):
            group.update(given, params=[tensor for _, tensor in rows])
            swapped.update({tensor: dict(state.get(number, {})) for number, tensor in rows})
        optimizer.state = swapped
        yield
    finally:
        for group, old in zip(optimizer.param_groups, before, strict=True):
            group.clear()
            group.update(old)
        optimizer.state = kept
