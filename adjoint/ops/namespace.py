"""The public functions of all op rooms, as ``adjoint.NAME``."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import signatures

if TYPE_CHECKING:  # what the rest of this file does, in words that checkers and editors read
    from .activation import *
    from .arrange import *
    from .compare import *
    from .contraction import *
    from .conv import *
    from .copied import *
    from .create import *
    from .decomposition import *
    from .einsum import *
    from .elementwise import *
    from .embedding import *
    from .extremes import *
    from .gather import *
    from .grid import *
    from .index import *
    from .interop import *
    from .join import *
    from .kinds import *
    from .matrix import *
    from .measure import *
    from .memory import *
    from .native import *
    from .parts import *
    from .piecewise import *
    from .places import *
    from .pooling import *
    from .power import *
    from .questions import *
    from .random import *
    from .ranges import *
    from .recurrent import *
    from .reduce import *
    from .removed import *
    from .resample import *
    from .scan import *
    from .shape import *
    from .signal import *
    from .softmax import *
    from .sorting import *
    from .special import *
    from .variates import *
else:
    # A room that comes later has the last word on a name.
    _NAMES = (
        "create", "ranges", "random", "memory", "questions", "interop", "elementwise", "power", "piecewise",
        "compare", "activation", "special", "reduce", "softmax", "extremes", "scan", "measure", "shape", "index",
        "join", "arrange", "gather", "embedding", "sorting", "parts", "kinds", "copied", "contraction", "conv",
        "pooling", "resample", "grid", "einsum", "decomposition", "matrix", "signal", "native", "places", "recurrent",
        "removed", "variates",
    )  # fmt: skip
    _ROOMS = [import_module(f"{__package__}.{name}") for name in _NAMES]


def _is_public(room: Any, name: str) -> bool:
    value = getattr(room, name)
    if name.endswith("_p") or (name.startswith("_") and not hasattr(room, "__all__")):
        return False
    # A room that lists what it offers means it, even where the thing is made elsewhere (an in-place form).
    return hasattr(room, "__all__") or getattr(value, "__module__", None) == room.__name__


if not TYPE_CHECKING:
    _names = {
        name: getattr(room, name)
        for room in _ROOMS
        for name in getattr(room, "__all__", vars(room))
        if _is_public(room, name)
    }
    signatures.enforce(_names, __name__)
    globals().update(_names)
    __all__ = list(_names)
