"""State dicts of models and optimizers whose parameters may be sharded, under the names of the parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...core import device as devices
from ...core.tensor import TensorBase, note_write
from ...ops.create_like import zeros_like
from ..shards import ShardedParameter, gathered

__all__ = [
    "StateDictOptions", "get_model_state_dict", "get_optimizer_state_dict", "get_state_dict", "set_model_state_dict",
    "set_optimizer_state_dict", "set_state_dict",
]  # fmt: skip


@dataclass
class StateDictOptions:
    """Options for the contents of a state dict.

    `full_state_dict` requests whole tensors, on every rank, in place of each rank's parts.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False


def _plain(name: str) -> str:
    return name.removeprefix("module.")


def get_model_state_dict(
    model: Any, *, submodules: Any = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """Return a model's state: its parts of sharded parameters, or the whole ones."""
    full = options is not None and options.full_state_dict
    skipped = (
        {n for n, p in model.named_parameters() if not p.requires_grad}
        if options and options.ignore_frozen_params
        else set()
    )
    found: dict[str, Any] = {}
    for name, value in model.state_dict(keep_vars=True).items():
        if name not in skipped:
            found[_plain(name)] = (
                _whole(value, value) if full else value if isinstance(value, ShardedParameter) else value.detach()
            )
    return found


def set_model_state_dict(
    model: Any, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> Any:
    """Fill a model from parts, or from whole tensors."""
    own = model.state_dict(keep_vars=True)
    given = {_plain(name): value for name, value in model_state_dict.items()}
    missing = [name for name in own if _plain(name) not in given]
    unexpected = sorted(set(given) - {_plain(name) for name in own})
    if (missing or unexpected) and (options is None or options.strict):
        raise RuntimeError(f"the state dict lacks {missing[:5]} and has, unexpected, {unexpected[:5]}")
    for name, held in own.items():
        if _plain(name) in given:
            _put(held, held, given[_plain(name)])
    return missing, unexpected


def get_optimizer_state_dict(
    model: Any, optimizers: Any, *, submodules: Any = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """Return an optimizer's state, with the names of parameters instead of their indices."""
    full = options is not None and options.full_state_dict
    names = {id(p): _plain(n) for n, p in model.named_parameters()}
    state: dict[str, Any] = {}
    groups: list[dict[str, Any]] = []
    for optimizer in optimizers if isinstance(optimizers, list | tuple) else [optimizers]:
        _begin(optimizer)
        for group in optimizer.param_groups:
            groups.append({**group, "params": [names[id(p)] for p in group["params"]]})
            for p in group["params"]:
                held = optimizer.state.get(p, {})
                state[names[id(p)]] = {key: _state(value, p, full) for key, value in held.items()}
    return {"state": state, "param_groups": groups}


def set_optimizer_state_dict(
    model: Any, optimizers: Any, optim_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> None:
    """Fill an optimizer's state from parts, or from whole tensors."""
    names = {id(p): _plain(n) for n, p in model.named_parameters()}
    given = iter(optim_state_dict["param_groups"])
    for optimizer in optimizers if isinstance(optimizers, list | tuple) else [optimizers]:
        _begin(optimizer)
        for group in optimizer.param_groups:
            group.update({key: value for key, value in next(given).items() if key != "params"})
            for p in group["params"]:
                saved = optim_state_dict["state"].get(names[id(p)], {})
                held = optimizer.state[p] if saved else {}
                for key, value in saved.items():
                    if isinstance(held.get(key), TensorBase) and isinstance(value, TensorBase):
                        _put(held[key], p, value)
                    else:
                        held[key] = value


def get_state_dict(
    model: Any, optimizers: Any, *, submodules: Any = None, options: StateDictOptions | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the states of a model and its optimizer, as `save` writes them."""
    return get_model_state_dict(model, options=options), get_optimizer_state_dict(model, optimizers, options=options)


def set_state_dict(
    model: Any,
    optimizers: Any,
    *,
    model_state_dict: dict[str, Any],
    optim_state_dict: dict[str, Any],
    options: StateDictOptions | None = None,
) -> Any:
    """Fill a model and its optimizer."""
    found = set_model_state_dict(model, model_state_dict, options=options)
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return found


# --- Parts ------------------------------------------------------------------------------------------


def _begin(optimizer: Any) -> None:
    """Let an optimizer that has not taken a step make its state: by one that changes nothing, and does not count."""
    params = [p for group in optimizer.param_groups for p in group["params"]]
    if optimizer.state or any(p._grad is not None for p in params):
        return
    rates = [group.get("lr") for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    for p in params:
        if p.requires_grad:
            p.grad = zeros_like(p)
    optimizer.step()
    optimizer.zero_grad()
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
    for state in optimizer.state.values():
        for key, value in state.items():
            if isinstance(value, TensorBase):
                value.zero_()  # type: ignore[attr-defined]
            elif isinstance(value, int):
                state[key] = 0


def _state(value: Any, p: Any, full: bool) -> Any:
    """Return a value of a parameter's state; one for each element is a part as the parameter is."""
    if not isinstance(value, TensorBase) or not isinstance(p, ShardedParameter) or value.array.shape != p.array.shape:
        return value
    if full:
        return gathered(value, p)
    part = ShardedParameter(value, requires_grad=False)
    part.full_shape, part.start, part.group = p.full_shape, p.start, p.group
    return part


def _whole(value: Any, place: Any) -> Any:
    return gathered(value, place) if isinstance(place, ShardedParameter) else value.detach()


def _put(held: Any, place: Any, given: Any) -> None:
    """Write a value, or of a whole one the part that belongs here, into a tensor."""
    values = given.array
    if (
        isinstance(place, ShardedParameter)
        and tuple(values.shape) == place.full_shape
        and not isinstance(given, ShardedParameter)
    ):
        if held.array.shape == place.array.shape:
            values = values.reshape(-1)[place.start : place.start + place.array.size]
    if values is not held.array:
        held.array[...] = devices.place_array(values, devices.of(held.array))
    note_write(held, "load")
