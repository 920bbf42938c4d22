"""Tensors that a module owns: parameters, which are trained, and buffers, which are not."""

from __future__ import annotations

from typing import Any, NoReturn, Self

from ..core import device as devices
from ..core import dtypes
from ..core.leaves import AccumulateGrad
from ..core.nodes import wrap
from ..core.overrides import disabled_torch_function, dispatching, plain
from ..core.tensor import storage_of
from ..ops import copies, create
from ..tensor import Tensor

__all__ = [
    "Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "UninitializedTensorMixin", "is_lazy",
]  # fmt: skip


def _checked(data: Any, kind: str) -> Any:
    if data is None:
        return create.empty(0)
    if not isinstance(data, Tensor):
        raise AttributeError(
            f"'{type(data).__name__}' object has no attribute 'detach': a {kind} is made from a Tensor; convert with "
            "adjoint.tensor(...)"
        )
    return data


# --- Parameters -------------------------------------------------------------------------------------


class _ParameterMeta(type):
    """Lets a tensor of another class that is marked as a parameter count as one."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if super().__instancecheck__(instance):
            return True
        return cls is Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False)


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that a module trains: assigned to a module's attribute, it is registered.

    Results of ops on parameters are plain tensors. A tensor of a subclass stays of that class, and still counts as a
    Parameter.

    Parameters
    ----------
    data : Tensor, optional
        Its elements: the parameter shares their memory. Defaults to none.
    requires_grad : bool, default True
        Whether gradients are computed for it.

    Raises
    ------
    RuntimeError
        If a gradient is required of a dtype that is neither floating nor complex.

    Examples
    --------
    >>> adjoint.nn.Parameter(adjoint.ones(2))
    Parameter containing:
    tensor([1., 1.], requires_grad=True)
    >>> layer = adjoint.nn.Linear(2, 1)
    >>> layer.scale = adjoint.nn.Parameter(adjoint.ones(1))
    >>> [name for name, _ in layer.named_parameters()]
    ['weight', 'bias', 'scale']
    """

    __torch_function__ = disabled_torch_function  # type: ignore[assignment]
    _is_param = True
    _prints_as_tensor = True

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Self:
        """Make a parameter that shares the memory of `data`; without data it is empty."""
        data = _checked(data, "Parameter")
        if requires_grad is not True and requires_grad is not False:
            found = type(requires_grad).__name__
            raise TypeError(f"Parameter(): argument 'requires_grad' (position 2) must be bool, not {found}")
        if type(data) in plain and type(data) not in dispatching:
            out = copies.as_kind(wrap(data.array, None, storage_of(data)), cls)
            if requires_grad:
                # `data` is queried: a class of parameters may refuse to be.
                out.requires_grad_() if data.is_inference() else create.require_grad(out)
            return out
        out = data.detach().requires_grad_(requires_grad)
        if type(out) is not type(data):
            raise RuntimeError(
                f"Creating a Parameter from an instance of type {type(data).__name__} requires that detach() "
                "returns an "
                f"instance of the same type, but return type {type(out).__name__} was found instead."
            )
        out._is_param = True
        return out

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.data.clone(), self.requires_grad)
        return memo[id(self)]

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


# --- Buffers ----------------------------------------------------------------------------------------


class _BufferMeta(type):
    """Lets a tensor that is marked as a buffer count as one."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if super().__instancecheck__(instance):
            return True
        return cls is Buffer and isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(Tensor, metaclass=_BufferMeta):
    """A tensor that a module holds without training it; one that is `persistent` is saved with the module.

    Examples
    --------
    >>> isinstance(adjoint.nn.Buffer(adjoint.zeros(2)), adjoint.nn.Buffer)
    True
    """

    __torch_function__ = disabled_torch_function  # type: ignore[assignment]

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Self:
        """Return `data` detached, marked as a buffer."""
        out = _checked(data, "Buffer").detach().requires_grad_(False)
        out.persistent, out._is_buffer = persistent, True
        return out


# --- Not yet made -----------------------------------------------------------------------------------


class _Unset:
    """Placeholder for an array; any use of it raises an error that says what to do first."""

    __slots__ = ("_kind",)

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise ValueError(
            f"Attempted to use an uninitialized {self._kind} (its {name!r} was asked for). This error happens "
            "when you are "
            "using a `LazyModule` or explicitly manipulating `nn.parameter.UninitializedParameter` objects: call "
            "`forward` once with a real batch, or `materialize`, before anything that needs its values."
        )


class UninitializedTensorMixin:
    """Base of uninitialized parameters and buffers: they get their shape and memory later."""

    cls_to_become: Any = None
    _dtype: dtypes.dtype
    _device: devices.device
    array: Any
    memory: Any
    node: Any

    @classmethod
    def _unset(cls: Any, kind: str, requires_grad: bool, device: Any, dtype: Any) -> Any:
        out: Any = object.__new__(cls)
        out.array = _Unset(kind)
        out.node = out.memory = out.lineage = out._grad = None
        out._dtype = dtypes.default() if dtype is None else dtypes.as_dtype(dtype)
        out._device = devices.as_device(device)
        if requires_grad:
            out.node = AccumulateGrad(out)
        return out

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become a tensor of the given shape, its elements unset."""
        place = self._device if device is None else device
        made = create.empty(shape, device=place, dtype=self._dtype if dtype is None else dtype)
        self.array, self.memory = made.array, None
        del self.__dict__["_dtype"], self.__dict__["_device"]
        self.__class__ = self.cls_to_become
        if self.node is not None:
            self.node.follow(self)

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Return one that will have another dtype, or be on another device."""
        device, dtype = kwargs.get("device"), kwargs.get("dtype")
        for arg in args:
            if isinstance(arg, dtypes.dtype):
                dtype = arg
            elif arg is not None and not isinstance(arg, bool):
                device = arg
        return _remade(
            type(self),
            self.node is not None,
            str(self._device if device is None else devices.as_device(device)),
            self._dtype if dtype is None else dtype,
        )

    def become_like(self, other: Any) -> None:
        """Take the dtype and device of another one that has no shape yet."""
        self._dtype, self._device = other._dtype, other._device

    def float(self) -> Any:
        """Return one that will be float32."""
        return self.to(dtypes.float32)

    def double(self) -> Any:
        """Return one that will be float64."""
        return self.to(dtypes.float64)

    def half(self) -> Any:
        """Return one that will be float16."""
        return self.to(dtypes.float16)

    def bfloat16(self) -> Any:
        """Return one that will be bfloat16."""
        return self.to(dtypes.bfloat16)

    def cpu(self) -> Any:
        """Return one that will be on the CPU."""
        return self.to("cpu")

    def cuda(self, device: Any = None) -> Any:
        """Return one that will be on a GPU."""
        return self.to("cuda" if device is None else device)

    def is_floating_point(self) -> bool:
        """Return whether it will hold floating point numbers."""
        return self._dtype.is_floating_point

    def is_complex(self) -> bool:
        """Return whether it will hold complex numbers."""
        return self._dtype.is_complex

    @property
    def dtype(self) -> dtypes.dtype:
        """The data type it will have."""
        return self._dtype

    @property
    def device(self) -> devices.device:
        """Where it will be."""
        return self._device

    @property
    def shape(self) -> NoReturn:
        """Raise: there is none yet."""
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call "
            "`forward` to "
            "initialize the parameters before accessing their attributes."
        )

    def share_memory_(self) -> NoReturn:
        """Raise: there is no memory yet."""
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the parameters "
            "before calling `module.share_memory()`."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return (_remade, (type(self), self.node is not None, str(self._device), self._dtype))

    def __copy__(self) -> Any:
        return _remade(type(self), self.node is not None, str(self._device), self._dtype)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = _remade(type(self), self.node is not None, str(self._device), self._dtype)
        return memo[id(self)]


def _remade(cls: Any, requires_grad: bool, device: str, dtype: dtypes.dtype) -> Any:
    return cls(requires_grad=requires_grad, device=device, dtype=dtype)


class UninitializedParameter(UninitializedTensorMixin, Parameter):  # type: ignore[misc]
    """A parameter whose shape is not known yet.

    Examples
    --------
    >>> p = adjoint.nn.UninitializedParameter()
    >>> p.materialize((2, 3))
    >>> p.shape
    adjoint.Size([2, 3])
    """

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Any:
        """Make a parameter that waits for `materialize`."""
        return cls._unset("parameter", requires_grad, device, dtype)


class UninitializedBuffer(UninitializedTensorMixin, Tensor):  # type: ignore[misc]
    """A buffer whose shape is not known yet."""

    __torch_function__ = disabled_torch_function  # type: ignore[assignment]
    cls_to_become = Tensor

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> Any:
        """Make a buffer that waits for `materialize`."""
        out = cls._unset("buffer", requires_grad, device, dtype)
        out.persistent, out._is_buffer = persistent, True
        return out


def is_lazy(param: Any) -> bool:
    """Return whether a parameter or buffer has no shape yet."""
    return isinstance(param, UninitializedTensorMixin)
