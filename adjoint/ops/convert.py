"""How a tensor becomes something else: another dtype or device, an array, Python numbers, text."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np

from .. import printing
from .._typing import Array, DeviceLike, DTypeArg, Kernel, MemoryFormat, Operand, Shape, Tangents, Tensor, Value
from ..core import device as devices
from ..core import dtypes, layout, modes, nodes, primitive
from ..core.dtypes import as_dtype, dtype
from ..core.inplace import unrecorded, write
from ..core.leaves import AccumulateGrad
from ..core.nodes import wrap
from ..core.payload import Payload, arguments, transforms, wrapped_in
from ..core.recorders import Primitive, nary, parametric
from ..core.tensor import InferenceStorage, TensorBase, note_write
from . import create
from .arguments import require_tensor
from .compare import zeros_p
from .shape import cast, clone, expand_p, reshape_p


def concrete(x: TensorBase, what: str) -> Any:
    """Return the tensor's value as an array on the CPU, or raise an error that says why it has none."""
    if modes.unusual and modes.local.observer is not None:
        modes.local.observer.read(x, what)
    return host(x.array, what)


def values_of(array: Any, what: str) -> Any:
    """Return a value as an array, on any device, or raise an error that says why there is none."""
    return array.concrete(what) if isinstance(array, Payload) else array  # type: ignore[attr-defined]


def host(array: Any, what: str) -> Any:
    """Return a value as an array on the CPU, or raise an error that says why it has none."""
    array = values_of(array, what)
    return array if isinstance(array, np.ndarray) else devices.place_array(array, devices.CPU)


# --- dtype and device -------------------------------------------------------------------------------


def _move(x: Value, place: Any, home: Any) -> Any:
    return devices.place_array(x, devices.device(place))


move_p: Primitive = parametric(
    _move,
    x=lambda g, place, home: move_p(g, home, place),
    jvp="linear",
    batch="same",
    node_name="ToCopyBackward0",
)


def to(
    input: Tensor, *args: Any, dtype: DTypeArg = None, device: DeviceLike = None, non_blocking: bool = False,
    copy: bool = False, memory_format: MemoryFormat = None, other: Any = None,
) -> Tensor:  # fmt: skip
    """Return `input` with another dtype or on another device; itself if nothing changes.

    Called as ``to(dtype)``, ``to(device)``, ``to(device, dtype)`` or ``to(other)``. It is part of the graph: gradients
    are converted back. Integers and booleans have no gradient.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    dtype : dtype, optional
        That of `input` if not given. Floats are truncated to integers; of complex numbers the real part is taken.
    device : device, optional
        That of `input` if not given.
    non_blocking : bool, default False
        Accepted and ignored.
    copy : bool, default False
        Whether to copy also if nothing changes.
    memory_format : memory_format, optional
        The memory layout; that of `input` if not given.
    other : Tensor, optional
        Take dtype and device of this tensor.

    Returns
    -------
    Tensor
        `input` itself or a copy.

    Examples
    --------
    >>> x = adjoint.ones(2)
    >>> x.to(adjoint.float64)
    tensor([1., 1.], dtype=adjoint.float64)
    >>> x.to("cpu", adjoint.int32)
    tensor([1, 1], dtype=adjoint.int32)
    >>> x.to(adjoint.float32) is x
    True
    """
    if other is not None:
        args = (other, *args)
    if len(args) > 1 or (args and type(args[0]) is bool):
        _check_places(args)
    flags: list[Any] = []
    for arg in args:
        kind = type(arg)
        if kind is dtypes.dtype:
            dtype = arg
        elif kind is bool:
            flags.append(arg)
        elif arg is not None and arg is not args[0] and kind is not type:
            raise TypeError(f"to(): argument 'dtype' (position 2) must be torch.dtype, not {kind.__name__}")
        elif isinstance(arg, TensorBase):
            dtype, device = dtypes.of(arg.array.dtype), devices.of(arg.array)
        elif isinstance(arg, type):
            dtype = as_dtype(arg)
        elif arg is not None:
            device = arg
    if len(flags) > 1:
        copy = flags[1]
    return converted(input, dtype, device, copy, memory_format)


def _check_places(args: tuple[Any, ...]) -> None:
    """Raise TypeError unless these are the arguments of ``to(device, dtype, non_blocking, copy)`` or a form of it."""
    if type(args[0]) is bool:
        raise TypeError("to(): argument 'device' (position 1) must be torch.device, not bool")
    flags = args[1:] if isinstance(args[0], dtypes.dtype | TensorBase | type) else args[2:]
    if len(args) - len(flags) > 1 and not (args[1] is None or isinstance(args[1], dtypes.dtype | type)):
        raise TypeError(f"to(): argument 'dtype' (position 2) must be torch.dtype, not {type(args[1]).__name__}")
    for name, flag in zip(("non_blocking", "copy"), flags):
        if type(flag) is not bool:
            raise TypeError(f"to(): argument '{name}' must be bool, not {type(flag).__name__}")


def converted(input: Any, dtype: DTypeArg, device: DeviceLike, copy: bool, memory_format: MemoryFormat) -> Tensor:
    """Return `input` of a dtype and on a device; None leaves either as it is."""
    out: Tensor = input
    if device is not None:
        place, here = devices.as_device(device), devices.of(out.array)
        if place.type != here.type or (place.index is not None and place.index != here.index and place.type != "cpu"):
            out = move_p(out, str(place), str(here))
    if dtype is not None:
        wanted = as_dtype(dtype).np
        if wanted != out.array.dtype:
            out = cast(out, wanted)
    if copy and out is input:
        return clone(out, memory_format=memory_format)
    if memory_format is not None and not layout.is_contiguous(out.array, memory_format):
        return clone(out, memory_format=memory_format)
    return out


def caster(wanted: dtype, name: str | None = None) -> Kernel:
    """Return a method that converts to one dtype, such as ``Tensor.float``."""

    def method(input: Tensor, memory_format: MemoryFormat = None) -> Tensor:
        if memory_format is not None:
            return converted(input, wanted, None, False, memory_format)
        return input if input.array.dtype == wanted.np else cast(input, wanted.np)

    method.__name__ = method.__qualname__ = name or wanted.name
    method.__doc__ = _described(method.__name__, wanted)
    return method


# What a caster's docstring shows: of each kind of dtype the values given, the result, and what becomes of the values.
_EXAMPLES = {
    "b": ("[0.5, 0.0]", "[ True, False]", "Every number but zero is True; the result has no gradient."),
    "i": ("[1.7, 2.0]", "[1, 2]", "Floats are truncated; the result has no gradient."),
    "f": ("[1, 2]", "[1., 2.]", "Gradients are converted back."),
    "c": ("[1, 2]", "[1.+0.j, 2.+0.j]", "Gradients are converted back."),
}


def _described(name: str, wanted: dtype) -> str:
    """Return the docstring of a caster."""
    given, shown, note = _EXAMPLES["bifc"[wanted.category]]
    title = "" if wanted.name in ("bool", "int64", "float32", "complex64") else f", dtype=adjoint.{wanted.name}"
    return f"""Return `input` as {wanted.name}; itself if it is that already.

    {note}

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    memory_format : memory_format, optional
        The memory layout; that of `input` if not given.

    Returns
    -------
    Tensor
        Of the same shape and device.

    Examples
    --------
    >>> adjoint.tensor({given}).{name}()
    tensor({shown}{title})
    """


def cpu(input: Tensor, memory_format: MemoryFormat = None) -> Tensor:
    """Return `input` in the CPU's memory; itself if it is there already.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    memory_format : memory_format, optional
        The memory layout; that of `input` if not given.

    Returns
    -------
    Tensor
        `input` itself or a copy.

    Examples
    --------
    >>> x = adjoint.ones(2)
    >>> x.cpu() is x
    True
    """
    return converted(input, None, devices.CPU, False, memory_format)


def cuda(
    input: Tensor, device: DeviceLike = None, non_blocking: bool = False, memory_format: MemoryFormat = None,
) -> Tensor:  # fmt: skip
    """Return `input` in a GPU's memory; itself if it is there already.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    device : device or int, optional
        The GPU, by default the current one.
    non_blocking : bool, default False
        Accepted and ignored.
    memory_format : memory_format, optional
        The memory layout; that of `input` if not given.

    Returns
    -------
    Tensor
        `input` itself or a copy.

    Raises
    ------
    RuntimeError
        If there is no GPU, or no CuPy.

    Examples
    --------
    >>> x = adjoint.ones(2)
    >>> x = x.cuda() if adjoint.cuda.is_available() else x
    """
    return converted(input, None, "cuda" if device is None else device, False, memory_format)


_BY_TITLE = {d.title: d for d in dtypes.ALL}


def type_name(x: Any) -> str:
    """Return the name of a tensor's type: ``adjoint.FloatTensor``, ``adjoint.cuda.LongTensor``."""
    place = "cuda." if devices.of(x.array).type == "cuda" else ""
    return f"{printing.PACKAGE}.{place}{dtypes.of(x.array.dtype).title}Tensor"


def type_(input: Tensor, dtype: DTypeArg | str = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    """Return the name of the type of `input`, or `input` converted to another type.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    dtype : dtype, str or type, optional
        The wanted type: a dtype, or a name such as "torch.LongTensor". Without it, the result is the name.
    non_blocking : bool, default False
        Accepted and ignored.

    Returns
    -------
    str or Tensor
        The name, or `input` converted; itself if nothing changes.

    Raises
    ------
    ValueError
        If there is no type of that name.

    Examples
    --------
    >>> adjoint.ones(2).type()
    'adjoint.FloatTensor'
    >>> adjoint.ones(2).type("torch.LongTensor")
    tensor([1, 1])
    >>> adjoint.ones(2).type(adjoint.float64).type()
    'adjoint.DoubleTensor'
    """
    if kwargs.keys() - {"async"}:  # the older name of non_blocking, which is a word of Python today
        raise TypeError(f"type() got an unexpected keyword argument '{next(iter(kwargs))}'")
    if dtype is None:
        return type_name(input)
    if isinstance(dtype, dtypes.dtype):
        return converted(input, dtype, None, False, None)
    name = dtype if isinstance(dtype, str) else _full_name(dtype)
    package, _, kind = name.rpartition(".")
    found = _BY_TITLE.get(kind.removesuffix("Tensor"))
    if kind == "Tensor" and package in ("torch", "adjoint"):
        found = dtypes.default()
    if found is None or package not in ("torch", "adjoint", "torch.cuda", "adjoint.cuda"):
        raise ValueError(f"invalid type: {name!r}; write 'adjoint.FloatTensor' or adjoint.float32, for instance")
    return converted(input, found, "cuda" if package.endswith("cuda") else "cpu", False, None)


def _full_name(kind: Any) -> str:
    return f"{getattr(kind, '__module__', '')}.{getattr(kind, '__name__', kind)}"


def type_as(input: Tensor, other: Tensor) -> Tensor:
    """Return `input` with the dtype and device of `other`; itself if nothing changes.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    other : Tensor
        Only its dtype and device count.

    Returns
    -------
    Tensor
        `input` itself or a copy.

    Examples
    --------
    >>> adjoint.tensor([1, 2]).type_as(adjoint.tensor(0.5))
    tensor([1., 2.])
    """
    require_tensor(other, "other", "type_as")
    return converted(input, dtypes.of(other.array.dtype), devices.of(other.array), False, None)


# --- Writing ----------------------------------------------------------------------------------------


def _copy(x: Array, y: Array) -> Any:
    if y.dtype.kind == "c" and x.dtype.kind != "c":
        y = y.real
    return devices.place_array(y, devices.of(x))


def _copy_y(g: Value, y_shape: Shape, y_dtype: Any) -> Any:
    return primitive.fit(g, y_shape, y_dtype)


copy_p = nary(
    _copy,
    inputs=2,
    x=lambda g: zeros_p(g),
    y=_copy_y,
    name="copy",
    node_name="CopyBackwards",
    jvp=lambda tangents, inputs, out, params: _copy_tangent(tangents, out),
    batch=lambda x, y: _copy_batch(x, y),
)
_copy_op = nodes.registry["copy"]


def _copy_tangent(tangents: Tangents, out: Any) -> Value:
    t = tangents[1]
    return zeros_p(out) if t is None else expand_p(primitive.cast(t, out.dtype), tuple(out.shape))


def _copy_batch(x: Any, y: Value) -> Value:
    missing = len(x.shape) - len(y.shape)
    y = reshape_p(y, (y.shape[0], *(1,) * missing, *y.shape[1:]))
    return expand_p(primitive.cast(y, x.dtype), tuple(x.shape))


def copy_(input: Tensor, src: Value | Operand, non_blocking: bool = False) -> Tensor:
    """Overwrite `input` with the values of `src`, in place.

    It is part of the graph: the gradient of the result goes to `src`.

    Parameters
    ----------
    input : Tensor
        Overwritten; its shape, dtype and device stay.
    src : Tensor or number
        Broadcast to the shape of `input`, and converted to its dtype and device.
    non_blocking : bool, default False
        Accepted and ignored.

    Returns
    -------
    Tensor
        `input` itself.

    Raises
    ------
    RuntimeError
        If `input` is a leaf that requires a gradient, or `src` does not broadcast to its shape.

    Examples
    --------
    >>> x = adjoint.zeros(2, 2)
    >>> x.copy_(adjoint.tensor([1, 2]))
    tensor([[1., 2.],
            [1., 2.]])
    """
    if not isinstance(src, TensorBase):
        if src is None or isinstance(src, list | tuple | dict | str | dtypes.dtype):
            raise TypeError(f"copy_(): argument 'other' (position 1) must be Tensor, not {type(src).__name__}")
        src = create.as_tensor(src)
    values = None if modes.unusual else unrecorded(input, (src,))
    if values is None:
        written: Tensor = write(_copy_op, input, (src,), ())
        return written
    np.copyto(*values)
    note_write(input, "copy_")
    return input


def copy_checked_(input: Tensor, src: Tensor) -> Tensor:
    """Overwrite `input` with an op's result, if that may be stored in its dtype."""
    source, target = dtypes.of(src.array.dtype), dtypes.of(input.array.dtype)
    if not dtypes.can_cast(source, target):
        raise RuntimeError(f"result type {source.title} can't be cast to the desired output type {target.title}")
    return copy_(input, src)


# --- Arrays and text --------------------------------------------------------------------------------


def as_numpy(x: TensorBase, force: bool) -> Any:
    """Return the tensor's array, refusing where gradients would be lost unnoticed."""
    if x.node is not None and modes.local.grad and not force:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
    array = x.array
    if modes.transforms and any(level.captured is not None for level in transforms()[-1:]):
        raise RuntimeError(
            "Cannot access data pointer of Tensor that doesn't have storage: inside a function that is being "
            "differentiated a tensor has no memory of its own. Read its values outside, or call tolist()."
        )
    if array.dtype.kind not in "fciub":
        raise TypeError(f"Got unsupported ScalarType {dtypes.of(array.dtype).title}: NumPy has none; use .float()")
    if isinstance(array, Payload):
        return array.concrete("numpy()")  # type: ignore[attr-defined]
    if modes.unusual and modes.local.observer is not None:
        modes.local.observer.read(x, "numpy()")
    if isinstance(array, np.ndarray):
        return array
    if not force:
        raise TypeError(
            f"can't convert {devices.of(array)} device type tensor to numpy. Use Tensor.cpu() to copy the "
            "tensor to host memory first."
        )
    return devices.place_array(array, devices.CPU)


def _text_inside(x: Any, levels: list[Any]) -> str:
    """Return a tensor as torch prints it inside of transforms: what each of them has made of it, innermost first."""
    depth, below = wrapped_in(x, levels)
    if depth < 0:
        return text_of_value(x)
    title = f"GradTrackingTensor(lvl={depth}"
    if levels[depth - 1].captured is None:
        given = [a for a in arguments.get(levels[depth - 1].number, {}).values() if a[3] is x.array]
        below, dim = given[0][:2] if given else (below, 0)
        title = f"BatchedTensor(lvl={depth}, bdim={dim}"
    text = _text_inside(below if isinstance(below, TensorBase) else wrap(below), levels[: depth - 1])
    return f"{title}, value=\n{textwrap.indent(text, '    ')}\n)"


def text_of(x: Value) -> str:
    """Return the tensor as torch prints it."""
    if modes.transforms and (levels := transforms()):
        return _text_inside(x, levels)
    return text_of_value(x)


def text_of_value(x: Any) -> str:
    """Return the tensor as it is printed outside of transforms."""
    array = x.array
    if isinstance(array, Payload) and array.level:
        return repr(array)
    place = devices.of(array)
    node = x.node
    grad_fn = None
    if node is not None and type(node) is not nodes.Hidden and type(node) is not AccumulateGrad:
        try:
            grad_fn = x.grad_fn.op.title
        except RuntimeError:
            grad_fn = "Invalid"
    # A Parameter prints as the tensor it is; other subclasses go by their name.
    ordinary = type(x) is nodes.tensor_type or "_prints_as_tensor" in vars(type(x))
    text = printing.tensor_repr(
        concrete(x, "repr()"),
        dtype=dtypes.of(array.dtype).name,
        default_dtype=dtypes.default().name,
        device=None if place.type == "cpu" and devices.current().type == "cpu" else str(place),
        grad_fn=grad_fn,
        requires_grad=node is not None,
        is_inference=type(x.memory) is InferenceStorage,
        kind="tensor" if ordinary else type(x).__name__,
    )
    return text if ordinary or not getattr(x, "_is_param", False) else f"Parameter({text})"
