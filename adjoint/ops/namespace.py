"""The public functions of all op modules, as ``adjoint.NAME``."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import signatures

if TYPE_CHECKING:  # what the code below does, in a form that type checkers and editors understand
    from .activation import *
    from .adaptive_pooling import *
    from .arrange import *
    from .bessel import *
    from .compare import *
    from .contraction import *
    from .conv import *
    from .copied import *
    from .create import *
    from .create_like import *
    from .decomposition import *
    from .dimensions import *
    from .eigenvalues import *
    from .einsum import *
    from .elementwise import *
    from .embedding import *
    from .extremes import *
    from .floating import *
    from .gather import *
    from .grid import *
    from .histograms import *
    from .index_put import *
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
    from .products import *
    from .questions import *
    from .random import *
    from .ranges import *
    from .recurrent import *
    from .reduce import *
    from .removed import *
    from .resample import *
    from .scan import *
    from .scatter import *
    from .shape import *
    from .signal import *
    from .slices import *
    from .softmax import *
    from .sorting import *
    from .special import *
    from .trigonometry import *
    from .variates import *
else:
    # A module that comes later overrides a name.
    _NAMES = (
        "create", "create_like", "ranges", "random", "memory", "questions", "interop", "elementwise", "trigonometry",
        "power", "piecewise", "compare", "activation", "special", "bessel", "floating", "reduce", "softmax",
        "extremes", "scan", "histograms", "measure", "shape", "dimensions", "index_put", "join", "arrange", "gather",
        "scatter", "slices", "embedding", "sorting", "parts", "kinds", "copied", "contraction", "products", "conv",
        "pooling", "adaptive_pooling", "resample", "grid", "einsum", "decomposition", "eigenvalues", "matrix",
        "signal", "native", "places", "recurrent", "removed", "variates",
    )  # fmt: skip
    _ROOMS = [import_module(f"{__package__}.{name}") for name in _NAMES]


def _is_public(room: Any, name: str) -> bool:
    value = getattr(room, name)
    if name.endswith("_p") or (name.startswith("_") and not hasattr(room, "__all__")):
        return False
    # A module that has `__all__` offers all of it, even where the thing is made elsewhere (an in-place form).
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
