"""Names for annotations, as ``torch.types`` has them."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from typing import IO, Any, TypeAlias

from ..core.device import device as _device
from ..core.dtypes import dtype as _dtype
from ..core.layout import layout as _layout
from ..core.size import Size
from ..ops.memory import TypedStorage, UntypedStorage
from ..tensor import Tensor

__all__ = ["Device", "FileLike", "IntLikeType", "Number", "Storage"]

_bool: TypeAlias = builtins.bool
_int: TypeAlias = builtins.int
_float: TypeAlias = builtins.float
_complex: TypeAlias = builtins.complex

Number: TypeAlias = builtins.int | builtins.float | builtins.bool
Device: TypeAlias = _device | builtins.str | builtins.int | None
FileLike: TypeAlias = builtins.str | os.PathLike[builtins.str] | IO[bytes]
IntLikeType: TypeAlias = builtins.int
Storage: TypeAlias = UntypedStorage | TypedStorage
_size: TypeAlias = Size | Sequence[builtins.int]
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_TensorOrTensorsOrGradEdge: TypeAlias = Any
_symsize: TypeAlias = _size
_dispatchkey: TypeAlias = builtins.str
_qscheme: TypeAlias = Any
_storage_types = (UntypedStorage, TypedStorage)
_layout_type, _dtype_type = _layout, _dtype
