"""autocast: ops of a block run in half precision where that is safe, and in single where it is not.

While it is on, `modes.unusual` sends every op through the general recorder (the slow path), where `_cast` converts
the inputs; while it is off, nothing is checked.
"""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable
from typing import Any

from ..core import device as devices
from ..core import dtypes, modes, primitive
from ..core.nodes import differentiable
from ..core.tensor import TensorBase
from ..core.writable import is_leaf_node
from ..cuda.devices import is_available as has_gpu
from ..devices.contract import by_class
from ..ops.literals import depth_outside
from .policies import BANNED, FUNCTIONS, LOWER, POLICIES, SAME, WIDEST

__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

HALVES = (dtypes.bfloat16, dtypes.float16)


class _Thread(threading.local):
    """What a thread has switched on, and the weights it has converted already."""

    depth = 0
    caching = True

    def __init__(self) -> None:
        self.enabled = {"cpu": False, "cuda": False}
        self.dtypes = {"cpu": dtypes.bfloat16, "cuda": dtypes.float16}
        # By the weight's identity: the weight (so that the number stays its own), its version, the converted one.
        self.cache: dict[tuple[int, Any], tuple[Any, int, Any]] = {}


_thread = _Thread()


_NAMED = frozenset(name for policies in POLICIES.values() for name in policies)

# --- Casting -------------------------------------------------------------------------------------------


def _cast(op: Any, inputs: tuple[Any, ...]) -> Any:
    """Return the inputs of an op in its autocast dtype.

    For a public function, which is given by its name, None stands for "as it is, and so are the ops that it calls".
    """
    if isinstance(op, str):
        return _cast_arguments(op, inputs)
    if op.name not in _NAMED:
        return inputs
    place = next((_place(x) for x in inputs if isinstance(x, TensorBase)), None)
    policy = POLICIES[place].get(op.name) if place is not None and _thread.enabled.get(place) else None
    return inputs if policy is None else _by_policy(policy, place, inputs)


def _cast_arguments(name: str, tensors: tuple[Any, ...]) -> Any:
    places = [_place(x) for x in tensors]
    place = next((p for p in places if _thread.enabled.get(p)), None)
    policy = FUNCTIONS[place].get(name) if place is not None else None
    if policy is None:
        return None
    if policy == BANNED:
        raise RuntimeError(
            f"torch.nn.functional.{name} and torch.nn.BCELoss are unsafe to autocast.\nMany models use a sigmoid layer "
            "right before the binary cross entropy layer.\nIn this case, combine the two layers using "
            "torch.nn.functional.binary_cross_entropy_with_logits\nor torch.nn.BCEWithLogitsLoss: these are safe to "
            "autocast."
        )
    return tensors if policy == SAME else _by_policy(policy, place, tensors)


def _by_policy(policy: int, place: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    if policy == WIDEST:
        return _widest(inputs)
    wanted = _thread.dtypes[place].np if policy == LOWER else dtypes.float32.np
    return tuple(_converted(x, wanted) if isinstance(x, TensorBase) else x for x in inputs)


def _place(x: TensorBase) -> str:
    found = by_class.get(type(x.array))
    return devices.of(x.array).type if found is None else found.name


_known: dict[Any, bool] = {}


def _eligible(x: Any) -> bool:
    """Return whether a tensor is one that autocast converts: real, and no wider than single precision."""
    dtype = x.array.dtype
    found = _known.get(dtype)
    if found is None:
        found = _known[dtype] = differentiable(dtype) and dtype.kind != "c" and dtype.itemsize <= 4
    return found


def _widest(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    kinds = {x.array.dtype for x in inputs if isinstance(x, TensorBase) and _eligible(x)}
    if len(kinds) < 2:
        return inputs
    return tuple(_converted(x, dtypes.float32.np) if isinstance(x, TensorBase) else x for x in inputs)


def _converted(x: Any, wanted: Any) -> Any:
    if not _eligible(x) or x.array.dtype == wanted:
        return x
    weight = _thread.caching and x.array.dtype == dtypes.float32.np and is_leaf_node(x.node) and x.lineage is None
    if not weight or not modes.is_grad_enabled():
        return primitive.cast(x, wanted)
    key = id(x), wanted
    known = _thread.cache.get(key)
    if known is not None and known[1] == x._version:
        return known[2]
    made = primitive.cast(x, wanted)
    _thread.cache[key] = (x, x._version, made)
    return made


# --- Switches ------------------------------------------------------------------------------------------


def _device_type(name: Any) -> str:
    if not isinstance(name, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(name)}`")
    return devices.device(name).type


_NOWHERE: frozenset[str] = frozenset()


def _switch(place: str, enabled: bool) -> None:
    local, wanted = modes.local, bool(enabled)
    others = frozenset([name for name, on in _thread.enabled.items() if on and name != place])
    after = others | {place} if wanted else others
    was, cast = local.autocast is not None, _cast if after else None
    if after and not was:
        modes.note_unusual(1)
    _thread.enabled[place], local.autocast_on, local.autocast = wanted, after, cast  # by stores: see modes.py
    if was and not after:
        modes.note_unusual(-1)


def is_autocast_available(device_type: str) -> bool:
    """Return whether autocast knows a kind of device.

    Examples
    --------
    >>> adjoint.amp.is_autocast_available("cpu")
    True
    """
    return _device_type(device_type) in POLICIES


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Return whether autocast is on for a kind of device, in this thread.

    Parameters
    ----------
    device_type : str, default "cuda"
        ``"cpu"`` or ``"cuda"``.

    Returns
    -------
    bool
        True inside of an enabled `autocast` block.

    Examples
    --------
    >>> with adjoint.autocast("cpu"):
    ...     adjoint.is_autocast_enabled("cpu"), adjoint.is_autocast_enabled("cuda")
    (True, False)
    """
    return _thread.enabled[_known_type(device_type)]


def set_autocast_enabled(*args: Any) -> None:
    """Switch autocast: ``set_autocast_enabled("cpu", True)``; without a device the GPU is meant."""
    *place, enabled = args
    _switch(_known_type(place[0]) if place else "cuda", enabled)


def _known_type(name: Any) -> str:
    place = _device_type(name)
    if place not in _thread.enabled:
        raise RuntimeError(
            f"unknown device type for autocast in get_autocast_dispatch_key_from_device_type: '{place}'; adjoint has "
            "cpu and cuda"
        )
    return place


def get_autocast_dtype(device_type: str) -> dtypes.dtype:
    """Return the dtype that autocast lowers to on a kind of device."""
    place = _device_type(device_type)
    if place not in _thread.dtypes:
        raise RuntimeError(f"unsupported device type for autocast: '{device_type}'; adjoint has cpu and cuda")
    return _thread.dtypes[place]


def set_autocast_dtype(device_type: str, dtype: dtypes.dtype) -> None:
    """Set the dtype that autocast lowers to on a kind of device."""
    if not isinstance(dtype, dtypes.dtype):
        raise TypeError(
            f"set_autocast_dtype(): argument 'dtype' (position 2) must be adjoint.dtype, not {type(dtype).__name__}"
        )
    _thread.dtypes[_device_type(device_type)] = dtype


def is_autocast_cache_enabled() -> bool:
    """Return whether weights are converted once per block."""
    return _thread.caching


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Set whether weights are converted once per block."""
    _thread.caching = bool(enabled)


def clear_autocast_cache() -> None:
    """Forget the converted weights."""
    _thread.cache.clear()


def autocast_increment_nesting() -> int:
    """Enter a block; return the nesting depth."""
    _thread.depth += 1
    return _thread.depth


def autocast_decrement_nesting() -> int:
    """Leave a block; return the nesting depth."""
    _thread.depth -= 1
    return _thread.depth


def _deprecated(old: str, new: str) -> None:
    warnings.warn(
        f"torch.{old} is deprecated. Please use torch.{new} instead.", DeprecationWarning, stacklevel=depth_outside()
    )


def is_autocast_cpu_enabled() -> bool:
    """Return whether autocast is on for the CPU."""
    _deprecated("is_autocast_cpu_enabled()", "is_autocast_enabled('cpu')")
    return is_autocast_enabled("cpu")


def get_autocast_cpu_dtype() -> dtypes.dtype:
    """Return the dtype that autocast lowers to on the CPU."""
    _deprecated("get_autocast_cpu_dtype()", "get_autocast_dtype('cpu')")
    return get_autocast_dtype("cpu")


def get_autocast_gpu_dtype() -> dtypes.dtype:
    """Return the dtype that autocast lowers to on a GPU."""
    _deprecated("get_autocast_gpu_dtype()", "get_autocast_dtype('cuda')")
    return get_autocast_dtype("cuda")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Switch autocast for the CPU."""
    _deprecated("set_autocast_cpu_enabled(enabled)", "set_autocast_enabled('cpu', enabled)")
    _switch("cpu", enabled)


def set_autocast_cpu_dtype(dtype: dtypes.dtype) -> None:
    """Set the dtype that autocast lowers to on the CPU."""
    _deprecated("set_autocast_cpu_dtype(dtype)", "set_autocast_dtype('cpu', dtype)")
    set_autocast_dtype("cpu", dtype)


def set_autocast_gpu_dtype(dtype: dtypes.dtype) -> None:
    """Set the dtype that autocast lowers to on a GPU."""
    _deprecated("set_autocast_gpu_dtype(dtype)", "set_autocast_dtype('cuda', dtype)")
    set_autocast_dtype("cuda", dtype)


# --- The context ---------------------------------------------------------------------------------------


class autocast(modes.Scope):
    """A ``with`` block, or a decorated function, in which each op chooses its precision.

    Matrix multiplications and convolutions run in `dtype`, losses and delicate ops in float32, others in the dtype
    of their operands. Parameters stay as they are, and so do their gradients. Run `backward` outside of the block.

    Parameters
    ----------
    device_type : str
        ``"cpu"`` or ``"cuda"``: tensors on other devices are left alone.
    dtype : dtype, optional
        bfloat16 or float16. Defaults to bfloat16 on the CPU and float16 on a GPU.
    enabled : bool, default True
        False switches autocast off inside of the block.
    cache_enabled : bool, optional
        Convert each parameter once per block, not once per use. Defaults to True.

    Raises
    ------
    RuntimeError
        If `device_type` is neither ``"cpu"`` nor ``"cuda"``.

    Examples
    --------
    >>> x = adjoint.ones(2, 2)
    >>> with adjoint.autocast("cpu"):
    ...     y = x @ x
    ...     loss = adjoint.nn.functional.mse_loss(y, x)
    >>> y.dtype, loss.dtype
    (adjoint.bfloat16, adjoint.float32)
    """

    def __init__(
        self,
        device_type: str,
        dtype: dtypes.dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        self.device = _device_type(device_type)
        if self.device not in POLICIES:
            raise RuntimeError(f"User specified an unsupported autocast device_type '{self.device}'")
        self.fast_dtype = _thread.dtypes[self.device] if dtype is None else dtype
        self._cache_enabled = _thread.caching if cache_enabled is None else cache_enabled
        self._enabled = bool(enabled) and self._usable()

    def _usable(self) -> bool:
        if self.device == "cuda" and not has_gpu():
            warnings.warn(
                "CUDA is not available or torch_xla is imported. Disabling autocast.", UserWarning, stacklevel=3
            )
            return False
        if self.fast_dtype not in HALVES:
            place = self.device.upper()
            warnings.warn(
                f"In {place} autocast, but the target dtype is not supported. Disabling autocast.\n{place} Autocast "
                "only supports dtypes of adjoint.bfloat16, adjoint.float16 currently.",
                UserWarning,
                stacklevel=3,
            )
            return False
        return True

    def __enter__(self) -> autocast:
        self._before = _thread.enabled[self.device], _thread.dtypes[self.device], _thread.caching, _thread.depth
        owned = self.own()
        try:
            _switch(self.device, self._enabled)
        except BaseException:  # an interrupt
            _thread.enabled[self.device] = self._before[0]
            raise
        # By stores: see modes.py.
        _thread.dtypes[self.device], _thread.caching = self.fast_dtype, self._cache_enabled
        _thread.depth += 1
        self.owned = owned
        return self

    def __exit__(self, *error: object) -> None:
        self.owned = None
        enabled, _thread.dtypes[self.device], _thread.caching, _thread.depth = self._before
        _thread.enabled[self.device] = enabled
        if not enabled and modes.local.autocast_on == {self.device}:
            modes.local.autocast_on, modes.local.autocast = _NOWHERE, None
            modes.note_unusual(-1)
        else:
            _switch(self.device, enabled)
        if _thread.depth == 0:
            clear_autocast_cache()

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function: every call is a block."""

        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            # Of its own, so that a function that calls itself leaves what it entered.
            with type(self).__new__(type(self))._like(self):
                return func(*args, **kwargs)

        return wrapper

    def _like(self, other: autocast) -> autocast:
        self.__dict__.update(other.__dict__)
        return self


# --- Custom functions ----------------------------------------------------------------------------------


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: dtypes.dtype | None = None
) -> Callable[..., Any]:
    """Decorate the `forward` of a custom function: set the dtype in which it runs under autocast.

    With `cast_inputs` its floating inputs are converted, and autocast is off inside; without, it runs as the
    block says, and `custom_bwd` brings the same to its backward.
    """
    place = _device_type(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(*args: Any, **kwargs: Any) -> Any:
        context, enabled = args[0], is_autocast_enabled(place)
        context._dtype = get_autocast_dtype(place)
        if cast_inputs is None or not enabled:
            context._fwd_used_autocast = enabled
            return fwd(*args, **kwargs)
        context._fwd_used_autocast = False
        with autocast(place, enabled=False):
            return fwd(*_deeply_cast(args, place, cast_inputs), **_deeply_cast(kwargs, place, cast_inputs))

    return forward


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Callable[..., Any]:
    """Decorate the `backward` of a custom function whose `forward` has `custom_fwd`: it runs as that did."""
    place = _device_type(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(*args: Any, **kwargs: Any) -> Any:
        with autocast(place, enabled=args[0]._fwd_used_autocast, dtype=args[0]._dtype):
            return bwd(*args, **kwargs)

    return backward


def _deeply_cast(value: Any, place: str, dtype: dtypes.dtype) -> Any:
    if isinstance(value, TensorBase):
        eligible = value.is_floating_point() and value.dtype is not dtypes.float64 and _place(value) == place  # type: ignore[attr-defined]
        return value.to(dtype) if eligible else value  # type: ignore[attr-defined]
    if isinstance(value, dict):
        return {k: _deeply_cast(v, place, dtype) for k, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_deeply_cast(v, place, dtype) for v in value)
    return value
