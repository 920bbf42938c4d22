"""Optimizers of several processes: each holds the state of a part of the parameters."""

from __future__ import annotations

from typing import Any

from .._paths import lead_to
from ..core import device as devices
from ..core.tensor import note_write
from ..errors import describe
from ..optim.optimizer import Optimizer
from .algorithms import Join, Joinable, JoinHook
from .groups import get_group_rank, resolved
from .objects import gather_object

__all__ = ["ZeroRedundancyOptimizer"]


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """An optimizer whose state is sharded across the processes (Rajbhandari et al., 2020, stage 1).

    Parameters
    ----------
    params
        The parameters, whose gradients are the same everywhere: as `DistributedDataParallel` leaves them.
    optimizer_class
        The optimizer that updates the parameters of each process.
    defaults
        Its options.

    Examples
    --------
    ::

        optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.Adam, lr=1e-3)
    """

    def __init__(
        self,
        params: Any,
        optimizer_class: Any,
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        if overlap_with_ddp:
            raise NotImplementedError("overlap_with_ddp: the update begins when the backward pass has ended")
        self.process_group = resolved(process_group)
        self._class, self._options = optimizer_class, defaults
        self._local: Any = None
        self._gathered: list[Any] | None = None
        Joinable.__init__(self)
        super().__init__(params, dict(defaults))
        self._share()

    # --- Parts of the state -------------------------------------------------------------------------

    def _share(self) -> None:
        """Assign each parameter to a rank, the largest first to the rank with the least; make this rank's optimizer."""
        size = self.process_group.size()
        params = [p for group in self.param_groups for p in group["params"]]
        self._owner: dict[int, int] = {}
        held = [0] * size
        for p in sorted(params, key=lambda p: -p.numel()):
            rank = held.index(min(held))
            held[rank] += p.numel()
            self._owner[id(p)] = rank
        self._parts = [[p for p in params if self._owner[id(p)] == rank] for rank in range(size)]
        me = self.process_group.rank()
        groups = [
            {**{k: v for k, v in g.items() if k != "params"}, "params": [p for p in g["params"] if self._mine(p, me)]}
            for g in self.param_groups
        ]
        state = self._local.state if self._local is not None else {}
        self._local = self._class(groups, **self._options)
        for p in self._parts[me]:
            if p in state:
                self._local.state[p] = state[p]
        for group, local in zip(self.param_groups, self._local.param_groups, strict=True):
            for key, value in local.items():
                group.setdefault(key, value)

    def _mine(self, p: Any, rank: int) -> bool:
        return self._owner[id(p)] == rank

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters."""
        super().add_param_group(param_group)
        if self._local is not None:
            self._share()

    # --- Steps --------------------------------------------------------------------------------------

    def step(self, closure: Any = None, **kwargs: Any) -> Any:
        """Update this rank's parameters, and receive those of the other ranks."""
        Join.notify_join_context(self)
        for group, local in zip(self.param_groups, self._local.param_groups, strict=True):
            local.update({key: value for key, value in group.items() if key != "params"})
        loss = self._local.step(closure=closure, **kwargs) if closure is not None else self._local.step(**kwargs)
        self._exchange()
        for group, local in zip(self.param_groups, self._local.param_groups, strict=True):
            group.update({key: value for key, value in local.items() if key != "params"})
        return loss

    def _exchange(self) -> None:
        """Broadcast the updated parameters of every rank."""
        group, on_their_way = self.process_group, []
        for rank, params in enumerate(self._parts):
            for alike in _by_dtype(params):
                flat = devices.module_of(alike[0].array).concatenate([p.array.reshape(-1) for p in alike])
                start = lambda flat=flat, rank=rank: group.engine_for(flat).broadcast(flat, rank)
                on_their_way.append(
                    (group.begin("updated parameters", describe(flat), start, None, flat), flat, alike, rank)
                )
        for work, flat, alike, rank in on_their_way:
            work.wait()
            if rank == group.rank():
                continue
            at = 0
            for p in alike:
                p.array[...] = flat[at : at + p.array.size].reshape(p.array.shape)
                note_write(p, "step")
                at += p.array.size

    # --- State --------------------------------------------------------------------------------------

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Gather the state on rank `to`, where `state_dict` can be called afterwards; every rank calls this."""
        group = self.process_group
        mine = self._local.state_dict()
        mine["state"] = {str(key): value for key, value in mine["state"].items()}
        here = group.rank() == get_group_rank(group, to)
        found: list[Any] | None = [None] * group.size() if here else None
        gather_object(mine["state"], found, dst=to, group=group)
        self._gathered = found

    def state_dict(self) -> dict[str, Any]:
        """Return the whole state, as an optimizer in one process would; on the rank that has gathered it."""
        if self._gathered is None:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call `consolidate_state_dict(to="
                f"{self.process_group.ranks[self.process_group.rank()]})` on all ranks beforehand if you meant to "
                "save the global state."
            )
        whole = super().state_dict()
        numbers = {id(p): n for n, p in enumerate(p for g in self.param_groups for p in g["params"])}
        whole["state"] = {}
        for rank, state in enumerate(self._gathered):
            order = [p for group in self.param_groups for p in group["params"] if self._mine(p, rank)]
            for key, value in state.items():
                whole["state"][numbers[id(order[int(key)])]] = value
        whole["state"] = dict(sorted(whole["state"].items()))
        return whole

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the options, and this rank's part of the whole state."""
        params = [p for group in self.param_groups for p in group["params"]]
        me = self.process_group.rank()
        mine = [n for n, p in enumerate(params) if self._mine(p, me)]
        place = {n: at for at, n in enumerate(mine)}
        groups, at = [], 0
        for own, saved in zip(self.param_groups, state_dict["param_groups"], strict=True):
            numbers = range(at, at + len(own["params"]))
            at += len(own["params"])
            own.update({key: value for key, value in saved.items() if key != "params"})
            groups.append({**saved, "params": [place[n] for n in numbers if n in place]})
        state = {place[n]: value for n, value in state_dict["state"].items() if n in place}
        self._local.load_state_dict({"state": state, "param_groups": groups})

    # --- Uneven inputs ------------------------------------------------------------------------------

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return what a rank without data does: update its parameters; gradients are equal on all ranks."""
        return _Follow(self)

    @property
    def join_device(self) -> Any:
        """Where the parameters are."""
        return self.param_groups[0]["params"][0].device

    @property
    def join_process_group(self) -> Any:
        """The process group that trains together."""
        return self.process_group


class _Follow(JoinHook):
    """A rank without data still updates its part of the parameters."""

    def __init__(self, optimizer: ZeroRedundancyOptimizer) -> None:
        self.optimizer = optimizer

    def main_hook(self) -> None:
        """Take a step."""
        self.optimizer.step()


def _by_dtype(params: list[Any]) -> list[list[Any]]:
    alike: dict[Any, list[Any]] = {}
    for p in params:
        alike.setdefault(p.array.dtype, []).append(p)
    return list(alike.values())


lead_to("adjoint.distributed", {"optim": "optim.zero_redundancy_optimizer"})
