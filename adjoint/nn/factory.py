"""The device and dtype of a layer's new parameters."""

from __future__ import annotations

from typing import Any


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """Return the keyword arguments of a layer that set the device and dtype of its parameters.

    Examples
    --------
    >>> adjoint.nn.factory_kwargs({"device": "cpu"})
    {'device': 'cpu'}
    """
    if kwargs is None:
        return {}
    known = ("dtype", "device", "memory_format")
    unknown = set(kwargs) - {*known, "factory_kwargs"}
    if unknown:
        raise TypeError(f"unexpected kwargs {unknown}")
    found = dict(kwargs.get("factory_kwargs", {}))
    for name in known:
        if name in kwargs:
            if name in found:
                raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
            found[name] = kwargs[name]
    return found
