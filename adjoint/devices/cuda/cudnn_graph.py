"""Convolutions as graphs of cuDNN's: planned once, and then run with less ado than its older functions take."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import cupy

from ..._typing import Array
from . import sizes

__all__ = ["Graph"]

Ints = tuple[int, ...]
# cudnnBackendDescriptorType_t
_CONVOLUTION, _CONFIG, _HEURISTIC, _PLAN, _GRAPH, _PACK, _TENSOR = 1, 3, 4, 5, 15, 16, 17
_OPERATIONS = {"y": 10, "w": 11, "x": 12}
# cudnnBackendAttributeType_t
_HANDLE, _TYPE, _INT64, _FLOAT, _DOUBLE, _POINTER, _MODE, _WAY, _DESCRIPTOR = 0, 1, 3, 4, 5, 6, 7, 8, 15
# cudnnBackendAttributeName_t: of an operation the numbers of alpha, beta, the convolution, and the arrays.
_ATTRIBUTES = {
    "y": {"alpha": 700, "beta": 701, "convolution": 702, "w": 703, "x": 704, "y": 705},
    "x": {"alpha": 706, "beta": 707, "convolution": 708, "w": 709, "x": 710, "y": 711},
    "w": {"alpha": 712, "beta": 713, "convolution": 714, "w": 715, "x": 716, "y": 717},
}
_MOST_PACKS = 64  # descriptions of addresses that a plan caches
_pointer, _long = ctypes.c_void_p, ctypes.c_int64


class Graph:
    """One convolution, by which one array of three is computed: its plan, and the size of its workspace in bytes.

    Raises RuntimeError where cuDNN has no plan.
    """

    def __init__(
        self, library: Any, handle: Any, wanted: str, shapes: dict[str, Ints], windows: tuple[Ints, Ints, Ints],
        number: int, compute: int,
    ) -> None:  # fmt: skip
        self.library = library
        for name in ("SetAttribute", "GetAttribute", "CreateDescriptor", "Finalize", "DestroyDescriptor", "Execute"):
            getattr(library, f"cudnnBackend{name}").argtypes = _ARGUMENTS[name]
        self.order = [name for name in "xwy" if name != wanted] + [wanted]
        tensors = {name: self._tensor(i, shapes[name], number) for i, name in enumerate(self.order, 1)}
        before, stride, dilation = windows
        made = self._made(_CONVOLUTION)
        self._set(made, 100, _TYPE, ctypes.c_int, [compute])
        self._set(made, 101, _MODE, ctypes.c_int, [1])
        for key, values in ((102, dilation), (103, stride), (104, before), (105, before), (106, (len(stride),))):
            self._set(made, key, _INT64, _long, values)
        self._finish(made)
        operation, names = self._made(_OPERATIONS[wanted]), _ATTRIBUTES[wanted]
        for name, tensor in tensors.items():
            self._set(operation, names[name], _DESCRIPTOR, _pointer, [tensor])
        self._set(operation, names["convolution"], _DESCRIPTOR, _pointer, [made])
        wide = number == 1
        for name, value in (("alpha", 1.0), ("beta", 0.0)):
            kind: Any = ctypes.c_double if wide else ctypes.c_float
            self._set(operation, names[name], _DOUBLE if wide else _FLOAT, kind, [value])
        self._finish(operation)
        graph = self._made(_GRAPH)
        self._set(graph, 800, _HANDLE, _pointer, [handle])
        self._set(graph, 801, _DESCRIPTOR, _pointer, [operation])
        self._finish(graph)
        self.plan, self.size = self._planned(handle, graph)
        self.packs: dict[tuple[int, ...], Any] = {}
        self.execute = library.cudnnBackendExecute

    # --- descriptions ---

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self.library, f"cudnnBackend{name}")(*arguments)
        if status:
            raise RuntimeError(f"cuDNN error: cudnnBackend{name} answered {status}")

    def _made(self, kind: int) -> Any:
        made = _pointer()
        self._call("CreateDescriptor", kind, ctypes.byref(made))
        return made

    def _set(self, described: Any, name: int, kind: int, c_type: Any, values: Sequence[Any]) -> None:
        values = [v.value if isinstance(v, _pointer) else v for v in values]
        array = (c_type * len(values))(*values)
        self._call("SetAttribute", described, name, kind, len(values), array)

    def _finish(self, described: Any) -> None:
        self._call("Finalize", described)

    def _tensor(self, number: int, shape: Ints, dtype: int) -> Any:
        made, strides = self._made(_TENSOR), [1]
        for n in reversed(shape[1:]):
            strides.insert(0, strides[0] * n)
        self._set(made, 901, _TYPE, ctypes.c_int, [dtype])
        self._set(made, 902, _INT64, _long, shape)
        self._set(made, 903, _INT64, _long, strides)
        self._set(made, 906, _INT64, _long, [number])
        self._set(made, 900, _INT64, _long, [16])
        self._finish(made)
        return made

    def _planned(self, handle: Any, graph: Any) -> tuple[Any, int]:
        """Return the first plan that can be made, and its bytes of workspace."""
        asked, count = self._made(_HEURISTIC), _long()
        self._set(asked, 201, _DESCRIPTOR, _pointer, [graph])
        self._set(asked, 200, _WAY, ctypes.c_int, [0])
        self._finish(asked)
        self._call("GetAttribute", asked, 202, _DESCRIPTOR, 0, ctypes.byref(count), None)
        configs = (_pointer * max(count.value, 1))()
        for i in range(count.value):
            configs[i] = self._made(_CONFIG).value
        self._call("GetAttribute", asked, 202, _DESCRIPTOR, count.value, ctypes.byref(count), configs)
        for i in range(count.value):
            plan, size, got = self._made(_PLAN), _long(), _long()
            try:
                self._set(plan, 400, _HANDLE, _pointer, [handle])
                self._set(plan, 401, _DESCRIPTOR, _pointer, [configs[i]])
                self._finish(plan)
                self._call("GetAttribute", plan, 402, _INT64, 1, ctypes.byref(got), ctypes.byref(size))
            except RuntimeError:
                continue
            if size.value <= sizes.CUDNN_WORKSPACE:
                return plan, size.value
        raise RuntimeError("cuDNN has no plan for this convolution")

    # --- running ---

    def run(self, handle: Any, first: Array, second: Array, out: Array) -> bool:
        """Compute `out` from the two others, in the order in which they were described; return whether that worked."""
        memory = cupy.cuda.alloc(self.size) if self.size else None
        places = first.data.ptr, second.data.ptr, out.data.ptr, 0 if memory is None else memory.ptr
        pack = self.packs.get(places)
        if pack is None:
            pack = self._packed(places)
            if pack is None:
                return False
        return not self.execute(handle, self.plan, pack)

    def _packed(self, places: tuple[int, ...]) -> Any:
        """Return a cached description of addresses: training has the same ones in every step."""
        if any(place % 16 for place in places):
            return None
        if len(self.packs) >= _MOST_PACKS:
            for pack in self.packs.values():
                self.library.cudnnBackendDestroyDescriptor(pack)
            self.packs.clear()
        pack = self._made(_PACK)
        self._set(pack, 1000, _INT64, _long, (1, 2, 3))
        self._set(pack, 1001, _POINTER, _pointer, places[:3])
        self._set(pack, 1003, _POINTER, _pointer, [places[3] or None])
        self._finish(pack)
        self.packs[places] = pack
        return pack


_ARGUMENTS = {
    "CreateDescriptor": (ctypes.c_int, _pointer),
    "SetAttribute": (_pointer, ctypes.c_int, ctypes.c_int, _long, _pointer),
    "GetAttribute": (_pointer, ctypes.c_int, ctypes.c_int, _long, _pointer, _pointer),
    "Finalize": (_pointer,),
    "DestroyDescriptor": (_pointer,),
    "Execute": (_pointer, _pointer, _pointer),
}
