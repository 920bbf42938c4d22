"""What a device provides: one class to implement, one registry, one lookup by the class of an array.

NumPy is the reference. A device has arrays with NumPy's interface (operators, methods, ``__array_ufunc__`` and
``__array_function__``), and a module that makes them. That is enough: every op's value and gradients are defined by
this interface. Everything else is for speed, or for what the hardware has besides:

==================================  ==================================================================================
what                                where
==================================  ==================================================================================
array classes, array module         `classes`, `module`; both may wait for `load`
allocation, creation                `module`: ``empty``, ``zeros``, ``arange``, ``asarray``, ..., inside of `at`
copies                              `from_host`, `to_host`; `through_host` computes on the CPU what a device cannot
adopting results                    `adopt`: a result of the array module as tensors hold it
elementwise programs                `elementwise`: kernels printed from formulas (`adjoint/scalar`); optional
reductions, rows, scans, sorting,   rows of `override`, each with the condition under which it applies; what has none
gather and scatter, products,       is computed by the op's definition
convolution, attention, ...
many arrays in one launch           `multi_tensor`: optimizers, gradient scaling, norms of all gradients; optional
linear algebra, special functions   `linalg`, `special`
compiled programs                   `program`: runs a captured graph; without `has_programs` the function runs eagerly
random numbers                      `samples`, `random`: by a seed of the generator; without, the CPU samples
streams, synchronisation            `synchronize`; a public module, `frontend`, may have ``Stream`` and ``Event``
memory layout                       `address_of`, `as_strided`: not part of NumPy's interface
memory                              `memory_stats`, `empty_cache`; `is_sole`, `spare_references` for reusing gradients
==================================  ==================================================================================

A device registers itself once; from then on ``device(name)`` and ``x.to(name)`` know it. See docs/extending/device.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache, wraps
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from .._typing import Array, DType, Kernel, Shape
from ..scalar.special import function, libraries
from .overrides import Overrides

if TYPE_CHECKING:
    from ..compiler.graph import Graph

__all__ = [
    "Device",
    "by_class",
    "by_name",
    "held",
    "loaded",
    "multi_tensor",
    "of",
    "register",
    "through_host",
    "through_host_names",
]


class Device:
    """A kind of device: subclass it, give it a name, array classes and an array module, and `register` one."""

    name: ClassVar[str]  # as in ``device("cuda:0")``
    classes: tuple[type, ...] = ()  # the class that tensors hold first, then others that `adopt` takes
    module: Any = None  # a module, or an object with the same functions
    override: Overrides  # the kernels attached to primitives
    has_programs: ClassVar[bool] = False  # whether `compile` captures functions of its tensors
    is_host: ClassVar[bool] = False  # whether the CPU computes, and pointers are addresses there
    frontend: ClassVar[str] = ""  # the public module, as "adjoint.cuda": Stream, Event, current_device, ...; optional

    def __init__(self) -> None:
        self.override = Overrides()

    def load(self) -> None:
        """Import what the device needs and set `classes` and `module`: called once, before an array is made.

        A device that cannot be used here raises RuntimeError and says what to install.
        """

    def is_available(self) -> bool:
        """Return whether arrays can be made here."""
        return True

    def count(self) -> int:
        """Return how many devices of this kind there are."""
        return 1

    # --- Arrays -------------------------------------------------------------------------------------

    def adopt(self, value: Array) -> Array:
        """Return a result of the array module as tensors hold it, looking at the same memory."""
        return value

    def index_of(self, array: Array) -> int | None:
        """Return the number of the device, among those of this kind, that holds an array."""
        return 0

    def at(self, index: int | None) -> AbstractContextManager[object]:
        """Return a context in which the module makes arrays on one of the devices of this kind."""
        return nullcontext()

    def from_host(self, array: Array, index: int | None = None) -> Array:
        """Return a copy, here, of a NumPy array, or of an array of another device of this kind."""
        with self.at(index):
            return self.adopt(self.module.asarray(array))

    def to_host(self, array: Array) -> np.ndarray[Any, Any]:
        """Return a copy of an array as NumPy's."""
        raise NotImplementedError(f"{type(self).__name__}.to_host")

    def ones_like(self, array: Array) -> Array:
        """Return ones in the shape and dtype of an array."""
        with self.at(self.index_of(array)):
            return self.adopt(self.module.ones(array.shape, array.dtype))

    def address_of(self, array: Array) -> int:
        """Return the address, on the device, of an array's first element."""
        raise NotImplementedError(f"{type(self).__name__}.address_of")

    def as_strided(self, array: Array, shape: Shape, strides: Shape, offset: int) -> Array:
        """Return a view, strides and offset in bytes, of the memory that an array looks at; its `base` owns that."""
        raise NotImplementedError(f"{type(self).__name__}.as_strided")

    # --- Kernels ------------------------------------------------------------------------------------

    def elementwise(self, op: object, saved: tuple[tuple[str, ...], ...], fit_all: Kernel) -> dict[str, Any]:
        """Return what computes a primitive that is a formula of elements, by the names of an `Op`'s attributes.

        `saved` names what the rule of each input saves; `fit_all` brings gradients to the inputs' shapes and dtypes.
        Empty, as for a device without programs of its own, leaves the primitive to `override` and its definition.
        """
        return {}

    def program(self, graph: Graph, kernels: Any) -> object:
        """Return what runs a captured graph of arrays of this device, if it `has_programs`."""
        raise NotImplementedError(f"{type(self).__name__}.program")

    def samples(self, kind: str, shape: Shape, dtype: DType) -> bool:
        """Return whether `random` makes these numbers; else the CPU does, by the generator itself.

        Kinds are "uniform" (between two bounds), "normal" (a mean and a deviation) and "bernoulli" (a probability).
        """
        return False

    def random(self, kind: str, shape: Shape, dtype: DType, seed: int, index: int | None, *params: float) -> Array:
        """Return random numbers by a seed that was taken from the generator."""
        raise NotImplementedError(f"{type(self).__name__}.random")

    @property
    def multi_tensor(self) -> Any:
        """Kernels over many arrays in one launch, as of all parameters: a module like `cuda/many.py`, or None."""
        return None

    @property
    def linalg(self) -> ModuleType:
        """The functions of ``numpy.linalg``, which raise where a matrix has no solution."""
        return self.module.linalg

    @property
    def special(self) -> ModuleType | None:
        """The functions of ``scipy.special`` that the device has; others are computed on the CPU."""
        return None

    # --- Streams and memory -------------------------------------------------------------------------

    def synchronize(self, index: int | None = None) -> None:
        """Wait until all that was started has finished; raise what kernels found on the way."""

    def empty_cache(self) -> None:
        """Give memory back that is held for new arrays."""

    def memory_stats(self, index: int | None = None) -> dict[str, int]:
        """Return bytes in use and reserved, now and at most, under torch's names."""
        return {}

    def spare_references(self, array: Array) -> int:
        """Return how many references to an array the device itself holds, to use the memory again."""
        return 0

    def is_sole(self, array: Array) -> bool:
        """Return whether no other array looks at the memory of this one, which has no gaps.

        If so, the backward pass may store a gradient without a copy; False costs a copy.
        """
        return False


D = TypeVar("D", bound=Device)

by_name: dict[str, Device] = {}
by_class: dict[type, Device] = {}  # of loaded devices
held: set[type] = set()  # the classes of arrays that tensors hold as they are, which `adopt` returns


def register(device: D) -> D:
    """Make a device known by its name, and by its array classes once these are set; return it."""
    known = by_name.get(device.name)
    if known is not None and known is not device:
        raise ValueError(f"there is a device '{device.name}' already: {type(known).__name__}")
    by_name[device.name] = device
    by_class.update(dict.fromkeys(device.classes, device))
    held.update(device.classes[:1])
    if not device.is_host:
        libraries.update(dict.fromkeys(device.classes, _special_functions(device)))
    return device


def loaded(name: str) -> Device:
    """Return the device of a name, ready to make arrays."""
    device = by_name[name]
    if not device.classes:
        device.load()
        register(device)
    return device


def of(array: Array) -> Device | None:
    """Return the device whose array this is; None of payloads, scalars and classes that no device has."""
    return by_class.get(type(array))


def multi_tensor(arrays: Sequence[Array]) -> Any:
    """Return kernels over many arrays if their device has some and each array is dense, else None."""
    device = by_class.get(type(arrays[0]))
    kernels = None if device is None else device.multi_tensor
    return kernels if kernels is not None and kernels.are_dense(arrays) else None


# --- What a device cannot compute --------------------------------------------------------------------

through_host_names: set[str] = set()  # of what runs on the CPU, wherever its arrays are


def through_host(name: str) -> Callable[[Kernel], Kernel]:
    """Return a decorator for a kernel that NumPy or SciPy computes: other arrays go to the CPU, results come back.

    `name` is the op's, for the list in docs/coverage.md of those that make this trip.
    """
    through_host_names.add(name)
    return _on_cpu


def _on_cpu(kernel: Kernel) -> Kernel:
    @wraps(kernel)
    def call(*values: Array) -> Any:
        for v in values:
            device = by_class.get(type(v))
            if device is not None and not device.is_host:
                found = kernel(*_on_host(values))
                return _back(found, device, device.index_of(v))
        return kernel(*values)

    return call


def _on_host(values: Iterable[Array]) -> list[Array]:
    found = [(v, by_class.get(type(v))) for v in values]
    return [v if device is None or device.is_host else device.to_host(v) for v, device in found]


def _back(result: Any, device: Device, index: int | None) -> Any:
    """Return arrays, or a tuple of them, on the device they came from."""
    if isinstance(result, tuple):
        return tuple(_back(r, device, index) for r in result)
    return device.from_host(result, index)


def _special_functions(device: Device) -> Callable[[str], Kernel]:
    """Return what finds a function of ``scipy.special`` for arrays of a device: its own, else SciPy's on the CPU."""

    @cache
    def find(name: str) -> Kernel:
        if device.special is None:
            return _on_cpu(function(name))
        found: Kernel | None = getattr(device.special, name, None)
        return through_host(f"special.{name}")(function(name)) if found is None else _in_double(found)

    return find


def _in_double(found: Kernel) -> Kernel:
    """Return a device's function that computes in double precision: in single, CuPy's flush denormals to 0."""

    def widened(*arrays: Array) -> Array:
        return found(*[a.astype(np.float64) if getattr(a, "dtype", np.float64) == np.float32 else a for a in arrays])

    return widened
