"""The names of ``torch.distributed.distributed_c10d``."""

from __future__ import annotations

from . import collectives, engines, groups, objects, watch, works

__all__ = ["_get_default_group"]


def _get_default_group() -> groups.ProcessGroup:
    return groups.resolved(None)


for _room in (collectives, engines, groups, objects, watch, works):
    for _name in _room.__all__:
        globals()[_name] = getattr(_room, _name)
        __all__.append(_name)
