"""Modules that learn the shapes of their parameters from their first input."""

from __future__ import annotations

from typing import Any

from ..parameter import is_lazy

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin:
    """Base of lazy modules: parameters without a shape, made at the first call.

    The class that mixes it in defines `initialize_parameters`, and `cls_to_become` for what it is afterwards.

    Examples
    --------
    >>> layer = adjoint.nn.LazyLinear(2)
    >>> layer(adjoint.ones(5, 3)).shape, type(layer).__name__
    (adjoint.Size([5, 2]), 'Linear')
    """

    cls_to_become: type[Any] | None = None
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        module: Any = self
        self._load_hook: Any = module._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook: Any = module.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        # What has no shape is saved as it is: it cannot be detached.
        for name, param in self._parameters.items():
            if param is not None:
                destination[prefix + name] = param if is_lazy(param) or keep_vars else param.detach()
        left_out: set[str] = getattr(self, "_non_persistent_buffers_set", set())
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in left_out:
                destination[prefix + name] = buffer if is_lazy(buffer) or keep_vars else buffer.detach()

    def _lazy_load_hook(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: list[str],
        unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        """Set the shapes of members that have a shape in the state_dict."""
        for name, member in [*self._parameters.items(), *self._buffers.items()]:
            given = state_dict.get(prefix + name)
            if given is not None and member is not None and is_lazy(member) and not is_lazy(given):
                member.materialize(given.shape)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Make the parameters from the arguments of the first call."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Return whether any parameter or buffer has no shape yet."""
        return any(is_lazy(member) for member in [*self._parameters.values(), *self._buffers.values()])

    def _infer_parameters(self, module: Any, args: Any, kwargs: Any = None) -> None:
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")  # type: ignore[attr-defined]
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _replicate_for_data_parallel(self) -> Any:
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. Run a dummy forward pass to "
            "correctly initialize the modules"
        )
