"""The names of ``torch.distributed.distributed_c10d``."""

from __future__ import annotations

from . import checks, collectives, failures, groups, messages, objects, reductions, works

__all__ = ["_get_default_group"]


def _get_default_group() -> groups.ProcessGroup:
    return groups.resolved(None)


for _room in (checks, collectives, failures, groups, messages, objects, reductions, works):
    for _name in _room.__all__:
        globals()[_name] = getattr(_room, _name)
        __all__.append(_name)
