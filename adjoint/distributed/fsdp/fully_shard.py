"""`fully_shard`: parameters, gradients and optimizer state are sharded across the processes, layer by layer."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ...core import device as devices
from ...core import dtypes, modes
from ...core.tasks import running
from ...core.tensor import TensorBase
from ...nn.modules.module import Module
from ...ops.create import finish
from ..data_parallel import _tensors_in
from ..engines import ReduceOp
from ..groups import resolved
from .flats import Entry, Flat

__all__ = [
    "CPUOffloadPolicy", "FSDPModule", "FullyShardedDataParallel", "MixedPrecisionPolicy", "OffloadPolicy",
    "UnshardHandle", "fully_shard",
]  # fmt: skip


class FullyShardedDataParallel(Module):
    """The older API, for ``isinstance`` only: no module is an instance; use `fully_shard`."""

    def __init__(self, module: Any, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("FullyShardedDataParallel is not supported: shard the module with fully_shard")


@dataclasses.dataclass(frozen=True)
class MixedPrecisionPolicy:
    """The dtypes of a unit: of its parameters in computations, of gradients in reductions, and of its output.

    Parameters are trained in the dtype that they have.
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclasses.dataclass
class OffloadPolicy:
    """Where sharded parameters are stored: always on their device here."""


@dataclasses.dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Parameters wait in the CPU's memory; `fully_shard` refuses it, since parts stay on their device here."""

    pin_memory: bool = True


class UnshardHandle:
    """What ``unshard(async_op=True)`` returns."""

    def __init__(self, unit: Unit) -> None:
        self._unit = unit

    def wait(self) -> None:
        """Wait until the parameters are there."""
        self._unit.ready()


class _Pass:
    """Where the forward pass of this process is: units inside each other, and the one before."""

    depth = 0
    last: Unit | None = None


class Unit:
    """A module whose parameters are gathered for its forward and its backward pass, and freed after each."""

    def __init__(self, module: Any, flats: list[Flat], policy: MixedPrecisionPolicy, reshard: bool) -> None:
        self.module, self.flats, self.policy, self.reshard = module, flats, policy, reshard
        self.after: Unit | None = None  # whose turn it was after this one, last time
        self.before: Unit | None = None
        module.register_forward_pre_hook(self._enter, prepend=True, with_kwargs=True)
        module.register_forward_hook(self._leave, always_call=True)

    def gather(self) -> None:
        """Begin to gather the parameters."""
        for flat in self.flats:
            flat.gather()

    def ready(self) -> None:
        """Gather the parameters."""
        for flat in self.flats:
            flat.ready()

    def release(self) -> None:
        """Free the gathered parameters."""
        for flat in self.flats:
            flat.release()

    # --- Around forward and backward ------------------------------------------------------------------

    def _enter(self, module: Any, args: Any, kwargs: Any) -> Any:
        if not running.tasks:
            self._follow()
        self.ready()
        for flat in self.flats:
            flat.show(whole=True)
        if self.after is not None and not running.tasks:
            self.after.gather()
        _Pass.depth += 1
        if self.policy.param_dtype is None or not self.policy.cast_forward_inputs:
            return None
        return _cast(args, self.policy.param_dtype), _cast(kwargs, self.policy.param_dtype)

    def _follow(self) -> None:
        """Note whose turn it was before: that order is what is fetched ahead by."""
        if _Pass.depth == 0:
            _Pass.last = None
        before = _Pass.last
        if before is not None and before is not self:
            before.after, self.before = self, before
        _Pass.last = self

    def _leave(self, module: Any, args: Any, out: Any) -> Any:
        _Pass.depth -= 1
        if _Pass.depth == 0:
            _Pass.last = None  # its last pass does not keep a deleted model alive
        for flat in self.flats:
            flat.show(whole=False)
        if running.tasks:  # computed again in the backward pass, which needs the parameters still
            return out
        recording = modes.is_grad_enabled()
        if self.reshard or not recording:
            self.release()
        if self.policy.output_dtype is not None:
            out = _cast(out, self.policy.output_dtype)
        if recording:
            for tensor in _tensors_in(out):
                if tensor.requires_grad:  # type: ignore[attr-defined]
                    tensor.register_hook(self._before_backward)  # type: ignore[attr-defined]
        return out

    def _before_backward(self, gradient: Any) -> None:
        for flat in self.flats:
            flat.arm()
        self.ready()
        if self.before is not None:
            self.before.gather()


def _cast(value: Any, dtype: Any) -> Any:
    if isinstance(value, TensorBase):
        floating = dtypes.of(value.array.dtype).is_floating_point
        return value.to(dtype) if floating else value  # type: ignore[attr-defined]
    if isinstance(value, dict):
        return {key: _cast(part, dtype) for key, part in value.items()}
    return type(value)(_cast(part, dtype) for part in value) if type(value) in (list, tuple) else value


# --- What a program calls -----------------------------------------------------------------------------


class FSDPModule:
    """Additional methods of a module after `fully_shard` was applied to it."""

    _unit: Unit

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Gather the parameters before they are needed."""
        self._unit.gather()
        handle = UnshardHandle(self._unit)
        if async_op:
            return handle
        handle.wait()
        return None

    def reshard(self) -> None:
        """Free the gathered parameters."""
        self._unit.release()

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Set whether backward passes reduce gradients; without, unsharded gradients accumulate until one does."""
        for unit in _units(self) if recurse else [self._unit]:
            for flat in unit.flats:
                flat.syncs = requires_gradient_sync

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Set whether the gathered parameters are freed between forward and backward."""
        for unit in _units(self) if recurse else [self._unit]:
            unit.reshard = reshard_after_forward

    def set_gradient_divide_factor(self, factor: float) -> None:
        """Divide the sum of the ranks' gradients by another number than that of the ranks."""
        for flat in self._unit.flats:
            flat.divisor = factor  # type: ignore[assignment]

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Do nothing: every backward pass ends by itself."""

    def set_modules_to_forward_prefetch(self, modules: list[Any]) -> None:
        """Fetch these modules' parameters ahead in the forward pass."""
        self._unit.after = modules[0]._unit if modules else None

    def set_modules_to_backward_prefetch(self, modules: list[Any]) -> None:
        """Fetch these modules' parameters ahead in the backward pass."""
        self._unit.before = modules[0]._unit if modules else None

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Any:
        """Scale all gradients so that their norm over all ranks is at most `max_norm`; return what it was."""
        parts = [p for p in self.parameters() if p._grad is not None]  # type: ignore[attr-defined]
        power = float(norm_type)
        arrays = [np.abs(p._grad.array.astype(np.float64)) for p in parts if p._grad.array.size]
        largest = power == np.inf
        mine = [float(a.max() if largest else (a**power).sum()) for a in arrays]
        total = np.array([max(mine, default=0.0) if largest else sum(mine)])
        group = self._unit.flats[0].group if self._unit.flats else resolved(None)
        start = lambda: group._engine.all_reduce(total, ReduceOp.MAX if largest else ReduceOp.SUM)
        group.begin("norm of gradients", "", start, None, total).wait()
        norm = float(total[0]) if largest else float(total[0]) ** (1 / power)
        scale = min(1.0, max_norm / (norm + 1e-6))
        for p in parts:
            p._grad.mul_(scale)
        place = devices.of(parts[0].array) if parts else devices.CPU
        return finish(devices.adopt(devices.place_array(np.array(norm, np.float32), place)))


def _units(module: Any) -> list[Unit]:
    return [child._unit for child in module.modules() if isinstance(child, FSDPModule)]


def fully_shard(
    module: Any,
    *,
    mesh: Any = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Any = None,
    mp_policy: MixedPrecisionPolicy = MixedPrecisionPolicy(),
    offload_policy: OffloadPolicy = OffloadPolicy(),  # noqa: B008
    ignored_params: set[Any] | None = None,
    dp_mesh_dims: Any = None,
) -> Any:
    """Shard a module's parameters across the processes; each stores one part of them, their gradients and their state.

    Apply it to the layers first, then to the model. The parameters of a layer are gathered before it computes, while
    those of the next layer are already being sent; afterwards they are freed. Gradients are averaged, and each rank
    gets its part. Make the optimizer afterwards: it updates the parts.

    Parameters
    ----------
    reshard_after_forward
        Whether whole parameters go between forward and backward; by default all but those of the outermost module.
    mp_policy
        The dtypes in which it works.
    ignored_params
        Parameters that stay whole, and whose gradients are not averaged.

    Notes
    -----
    Parts are runs of elements, as vectors (`ShardedParameter`): elementwise optimizers (SGD, Adam, ...) work;
    those that need matrices (Muon, Adafactor) do not.

    Examples
    --------
    In a program of several processes::

        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)
        optimizer = torch.optim.AdamW(model.parameters())
    """
    if isinstance(module, FSDPModule):
        raise ValueError(f"fully_shard has already been applied to {type(module).__name__}")
    if isinstance(offload_policy, CPUOffloadPolicy):
        raise NotImplementedError("fully_shard: CPUOffloadPolicy is not supported; parts stay on their device")
    group = resolved(mesh.get_group() if mesh is not None else None)
    entries = _entries(module, ignored_params or set())
    _check_carried(entries, group)
    by_kind: dict[Any, list[Entry]] = {}
    for entry in entries:
        array = entry.original.array
        alike = by_kind.setdefault((array.dtype, devices.of(array)), [])
        entry.start = alike[-1].start + alike[-1].size if alike else 0
        alike.append(entry)
    _equalise([entry.original for entry in entries], group)
    flats = [Flat(alike, group, mp_policy) for alike in by_kind.values()]
    nested = any(isinstance(child, FSDPModule) for child in module.modules())
    reshard = not nested if reshard_after_forward is None else bool(reshard_after_forward)
    kind = type(module)
    module.__class__ = type(f"FSDP{kind.__name__}", (FSDPModule, kind), {"__module__": kind.__module__})
    module._unit = Unit(module, flats, mp_policy, reshard)
    return module


def _entries(module: Any, ignored: set[Any]) -> list[Entry]:
    """Return the parameters of a module that are not in a nested unit."""
    found: dict[int, Entry] = {}

    def visit(owner: Module, prefix: str) -> None:
        for name, param in owner._parameters.items():
            if param is None or any(param is other for other in ignored):
                continue
            if id(param) in found:
                found[id(param)].owners.append((owner, name))
            else:
                found[id(param)] = Entry(prefix + name, param, [(owner, name)], 0)
        for name, child in owner._modules.items():
            if child is not None and not isinstance(child, FSDPModule):
                visit(child, f"{prefix}{name}.")

    visit(module, "")
    return list(found.values())


def _check_carried(entries: list[Entry], group: Any) -> None:
    """Raise if parameters on a GPU would have to be sent through CPU memory."""
    for entry in entries:
        array = entry.original.array
        place = devices.of(array).type
        if place not in ("cpu", "cuda") or (place == "cuda" and group.engine_for(array).name != "nccl"):
            raise RuntimeError(
                f"fully_shard: {entry.name} is on {devices.of(array)}, and the group's backend is {group.backend}: "
                'parameters on a GPU are gathered by NCCL; init_process_group("nccl"), or move the model to the CPU'
            )


def _equalise(params: list[Any], group: Any) -> None:
    """Start from the parameters of the group's first rank."""
    for param in params:
        array = param.array
        array = array if array.flags.c_contiguous else array.copy(order="C")
        start = lambda array=array: group.engine_for(array).broadcast(array, 0)
        group.begin("broadcast of a parameter", "", start, None, array).wait()
        if array is not param.array:
            param.array[...] = array
