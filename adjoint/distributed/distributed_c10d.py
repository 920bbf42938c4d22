"""The names of ``torch.distributed.distributed_c10d``."""

from __future__ import annotations

from typing import Any

from . import collectives, engines, groups, objects, watch, works

__all__ = ["_get_default_group", "_get_default_store"]


def _get_default_group() -> groups.ProcessGroup:
    return groups.resolved(None)


def _get_default_store() -> Any:
    return groups.default_store()


for _room in (collectives, engines, groups, objects, watch, works):
    for _name in _room.__all__:
        globals()[_name] = getattr(_room, _name)
        __all__.append(_name)
