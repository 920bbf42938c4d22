"""Optimizer: parameter groups, state, hooks and state dicts; subclasses define the update."""

from __future__ import annotations

import functools
import math
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from itertools import chain
from types import MappingProxyType
from typing import Any, ClassVar, TypeAlias

import numpy as np

from ..autograd.grad_mode import enable_grad, set_grad_enabled
from ..core import dtypes, modes
from ..core.device import module_of
from ..core.handles import RemovableHandle
from ..core.interrupts import came, deliver, hold, mark, release
from ..core.nodes import wrap
from ..core.observation import literal
from ..core.payload import Payload
from ..core.tensor import TensorBase, ledger_of, note_write, storage_of, written_ledger
from ..ops import create_like
from ..ops.kinds import view_as_real

__all__ = ["Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook"]

ParamsT: TypeAlias = Iterable[Any]
Closure: TypeAlias = Callable[[], Any] | None

_global_optimizer_pre_hooks: dict[int, Callable[..., Any]] = OrderedDict()
_global_optimizer_post_hooks: dict[int, Callable[..., Any]] = OrderedDict()
named_ranges: list[Callable[[str], AbstractContextManager[Any]]] = []  # of profiles that are on


class _RequiredParameter:
    """Placeholder in `defaults` for an option that every group must have."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` before every step of every optimizer."""
    return RemovableHandle(_global_optimizer_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` after every step of every optimizer."""
    return RemovableHandle(_global_optimizer_post_hooks, hook)


def _named(name: str) -> AbstractContextManager[Any]:
    """Return the context in which a profile, if there is one, gives a stretch of the program a name."""
    return named_ranges[-1](name) if named_ranges else nullcontext()


def _step_with_hooks(func: Callable[..., Any], optimizer: Any, args: Any, kwargs: Any) -> Any:
    """Call a class's `step`, and before and after it the hooks; the first of `args` is the optimizer."""
    for hook in [*_global_optimizer_pre_hooks.values(), *optimizer._optimizer_step_pre_hooks.values()]:
        returned = hook(optimizer, args, kwargs)
        if returned is None:
            continue
        if not (isinstance(returned, tuple) and len(returned) == 2):
            raise RuntimeError(f"{func} must return None or a tuple of (new_args, new_kwargs), but got {returned}.")
        args, kwargs = returned
    result = func(*args, **kwargs)
    for hook in [*optimizer._optimizer_step_post_hooks.values(), *_global_optimizer_post_hooks.values()]:
        hook(optimizer, args, kwargs)
    return result


def _explain(optimizer: Any, at: int, error: BaseException) -> None:
    """Add a note that says which parameter groups an interrupted step has updated."""
    sudden = not isinstance(error, Exception) or isinstance(error, MemoryError)
    if not (at > 0 or (sudden and at == 0)):
        return
    group = optimizer.param_groups[at]
    names = group.get("param_names")
    error.add_note(
        f"{type(optimizer).__name__}.step() was interrupted in parameter group {at}: its {len(group['params'])} "
        f"parameters{f' ({names[0]} to {names[-1]})' if names else ''} and their state may be updated in part; the "
        "groups before it are updated, those after it are not. Load a checkpoint before training goes on."
    )


def _forget_gradients(groups: list[dict[str, Any]], set_to_none: bool) -> None:
    for group in groups:
        for p in group["params"]:
            if p._grad is None:
                continue
            if set_to_none:
                p._grad = None
            else:
                if p._grad.grad_fn is not None:
                    p._grad.detach_()
                else:
                    p._grad.requires_grad_(False)
                p._grad.zero_()


class Optimizer:
    """Base of all optimizers: holds parameters in groups with their options, and a state for each.

    A subclass defines `step`. `param_groups` is a list of dicts, each with ``"params"`` and the options of the group,
    such as ``"lr"``; `state` maps a parameter to a dict; `defaults` has the options of groups that do not name them. A
    schedule of learning rates (`lr_scheduler.LRScheduler`) sets ``"lr"`` and has `base_lrs`, `last_epoch` and
    `get_last_lr`.

    Parameters
    ----------
    params : iterable
        The parameters; or pairs of name and parameter; or dicts, each with ``"params"`` and its options.
    defaults : dict
        Options of groups that do not name them.

    Raises
    ------
    TypeError
        If `params` is a tensor, or holds something else than tensors.
    ValueError
        If there are no parameters, one is not a leaf, or one is in two groups.

    Examples
    --------
    >>> class Descent(adjoint.optim.Optimizer):
    ...     def __init__(self, params, lr):
    ...         super().__init__(params, {"lr": lr})
    ...
    ...     @adjoint.no_grad()
    ...     def step(self):
    ...         for group in self.param_groups:
    ...             for p in group["params"]:
    ...                 p -= group["lr"] * p.grad
    >>> a, b = adjoint.tensor(1.0, requires_grad=True), adjoint.tensor(1.0, requires_grad=True)
    >>> optimizer = Descent([{"params": [a]}, {"params": [b], "lr": 0.2}], lr=0.1)
    >>> (a + b).backward()
    >>> optimizer.step()
    >>> a.item(), b.item()
    (0.8999999761581421, 0.800000011920929)
    """

    OptimizerPreHook: TypeAlias = Callable[..., Any]
    OptimizerPostHook: TypeAlias = Callable[..., Any]
    # Of an optimizer that wraps another and never calls `__init__`, as libraries have them.
    _optimizer_step_pre_hooks: Any = MappingProxyType({})
    _optimizer_step_post_hooks: Any = MappingProxyType({})
    # What checkpoints lack that are older than an option, and the numbers in a state that are not tensors in them.
    _later_options: ClassVar[dict[str, Any]] = {}
    _counts: ClassVar[tuple[str, ...]] = ()

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._prepare()
        if isinstance(params, TensorBase):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                f"{_typename(params)}; put it in a list"
            )
        self.state: defaultdict[Any, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in vars(cls):
            cls.step = cls.profile_hook_step(vars(cls)["step"])  # type: ignore[method-assign]

    def _prepare(self) -> None:
        """Make the dicts of hooks, which a pickle does not carry."""
        for name in (
            "_optimizer_step_pre_hooks", "_optimizer_step_post_hooks", "_optimizer_state_dict_pre_hooks",
            "_optimizer_state_dict_post_hooks", "_optimizer_load_state_dict_pre_hooks",
            "_optimizer_load_state_dict_post_hooks",
        ):  # fmt: skip
            if name not in self.__dict__:
                setattr(self, name, OrderedDict())
        self._patch_step_function()

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()
        self.defaults.setdefault("differentiable", False)
        for group in self.param_groups:
            for name, value in self._later_options.items():
                group.setdefault(name, value)
            for state in [self.state[p] for p in group["params"] if self.state.get(p)]:
                for name in self._counts:
                    if not isinstance(state[name], TensorBase):
                        state[name] = scalar(float(state[name]))

    def __repr__(self) -> str:
        groups = []
        for number, group in enumerate(self.param_groups):
            lines = [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
            groups.append("\n".join([f"\nParameter Group {number}", *lines, ""]))
        return f"{type(self).__name__} ({''.join(groups)})"

    # --- Stepping ----------------------------------------------------------------------------------

    @staticmethod
    def profile_hook_step(func: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a class's `step` so that the hooks of the optimizer, and of all optimizers, are called."""
        if getattr(func, "hooked", False):
            return func

        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            self = args[0]
            if not (
                self._optimizer_step_pre_hooks or self._optimizer_step_post_hooks
                or _global_optimizer_pre_hooks or _global_optimizer_post_hooks or named_ranges
            ):  # fmt: skip
                return func(*args, **kwargs)
            with _named(f"Optimizer.step#{type(self).__name__}.step"):
                return _step_with_hooks(func, self, args, kwargs)

        wrapper.hooked = True  # type: ignore[attr-defined]
        return wrapper

    def _patch_step_function(self) -> None:
        """Wrap a `step` that was given to the class after it was made."""
        kind: Any = type(self)
        self._zero_grad_profile_name = f"Optimizer.zero_grad#{kind.__name__}.zero_grad"  # libraries look at it
        if not getattr(kind.step, "hooked", False):
            kind.step = self.profile_hook_step(kind.step)

    def step(self, closure: Closure = None) -> Any:
        """Update the parameters by their gradients. Parameters without a gradient stay as they are.

        Parameters
        ----------
        closure : callable, optional
            Recomputes the loss and returns it; called before the update, with gradients recorded. `LBFGS` needs it.

        Returns
        -------
        Tensor or None
            What `closure` returned.

        Examples
        --------
        >>> w = adjoint.tensor([1.0, 2.0], requires_grad=True)
        >>> optimizer = adjoint.optim.SGD([w], lr=0.1)
        >>> for _ in range(3):
        ...     optimizer.zero_grad()
        ...     loss = (w**2).sum()
        ...     loss.backward()
        ...     optimizer.step()
        >>> w
        tensor([0.5120, 1.0240], requires_grad=True)
        """
        raise NotImplementedError

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the gradients of all parameters to None, or to zero.

        Parameters
        ----------
        set_to_none : bool, default True
            Set ``.grad`` to None: a parameter without a new gradient is then not updated. False writes zeros.

        Examples
        --------
        >>> w = adjoint.tensor([1.0, 2.0], requires_grad=True)
        >>> optimizer = adjoint.optim.SGD([w], lr=0.1)
        >>> w.sum().backward()
        >>> optimizer.zero_grad(set_to_none=False)
        >>> w.grad
        tensor([0., 0.])
        >>> optimizer.zero_grad()
        >>> w.grad is None
        True
        """
        if named_ranges:
            with named_ranges[-1](f"Optimizer.zero_grad#{type(self).__name__}.zero_grad"):
                _forget_gradients(self.param_groups, set_to_none)
        else:
            _forget_gradients(self.param_groups, set_to_none)

    # --- Hooks -------------------------------------------------------------------------------------

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before `step`; it may return other arguments for it."""
        return RemovableHandle(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after `step`."""
        return RemovableHandle(self._optimizer_step_post_hooks, hook)  # type: ignore[attr-defined]

    def register_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` before `state_dict`."""
        return self._registered("_optimizer_state_dict_pre_hooks", hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` after `state_dict`; it may return another."""
        return self._registered("_optimizer_state_dict_post_hooks", hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` before `load_state_dict`; it may return another state dict."""
        return self._registered("_optimizer_load_state_dict_pre_hooks", hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` after `load_state_dict`."""
        return self._registered("_optimizer_load_state_dict_post_hooks", hook, prepend)

    def _registered(self, kind: str, hook: Callable[..., Any], prepend: bool) -> RemovableHandle:
        hooks = getattr(self, kind)
        handle = RemovableHandle(hooks, hook)
        if prepend:
            hooks.move_to_end(handle.id, last=False)
        return handle

    # --- Groups ------------------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters; options that it does not name get the defaults."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        self._take_params(param_group)
        for p in param_group["params"]:
            if not isinstance(p, TensorBase):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {_typename(p)}")
            if not self.defaults.get("differentiable", None) and not (p.is_leaf or p.retains_grad):  # type: ignore[attr-defined]
                raise ValueError(
                    "can't optimize a non-leaf Tensor: an op computed it, so its update would be lost; optimize the "
                    "leaf it came from, or detach() it and set requires_grad_()"
                )
        for name, value in self.defaults.items():
            if value is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, value)
        self._refuse_repeated(param_group)
        self.param_groups.append(param_group)

    def _take_params(self, group: dict[str, Any]) -> None:
        """Make a group's ``"params"`` a list, and put names, if given, into ``"param_names"``."""
        params = group["params"]
        if isinstance(params, TensorBase):
            params = [params]
        elif isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets "
                "will change between runs. Please use a list instead."
            )
        group["params"] = params = list(params)
        named = [isinstance(p, tuple) for p in params]
        if any(named):
            if not all(named):
                raise ValueError("all optimizer params should be with/without names. Some param names are missing")
            group["param_names"] = [name for name, _ in params]
            group["params"] = [p for _, p in params]

    def _refuse_repeated(self, group: dict[str, Any]) -> None:
        params = group["params"]
        if len(params) != len({id(p) for p in params}):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause an error; "
                "see github.com/pytorch/pytorch/issues/40967 for more information. Each of them is updated once for "
                "every time it is named",
                UserWarning,
                stacklevel=4,
            )
        for other in self.param_groups:
            if ("param_names" in other) != ("param_names" in group):
                word = "with" if "param_names" in group else "without"
                raise ValueError(
                    "all optimizer param groups should be with/without names. cannot add param group "
                    f"{word} names to the optimizer"
                )
        known = {id(p) for other in self.param_groups for p in other["params"]}
        if not known.isdisjoint(map(id, params)):
            raise ValueError("some parameters appear in more than one parameter group")

    # --- State dicts -------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the state and the options, with an index in place of each parameter."""
        for hook in list(self._optimizer_state_dict_pre_hooks.values()):  # type: ignore[attr-defined]
            hook(self)
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for p in group["params"]:
                numbers.setdefault(id(p), len(numbers))
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [numbers[id(p)] for p in group["params"]]
            groups.append(packed)
        state = {numbers[id(k)] if isinstance(k, TensorBase) else k: v for k, v in self.state.items()}
        result: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in list(self._optimizer_state_dict_post_hooks.values()):  # type: ignore[attr-defined]
            returned = hook(self, result)
            result = result if returned is None else returned
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load state and options from a result of `state_dict`.

        Parameters are matched by their order, and by their names where both sides have the same ones.
        """
        state_dict = state_dict.copy()
        for hook in list(self._optimizer_load_state_dict_pre_hooks.values()):  # type: ignore[attr-defined]
            returned = hook(self, state_dict)
            state_dict = state_dict if returned is None else returned
        saved = deepcopy(state_dict["param_groups"])
        groups = self.param_groups
        if len(groups) != len(saved):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(g["params"]) != len(s["params"]) for g, s in zip(groups, saved)):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
            )
        numbers = chain.from_iterable(s["params"] for s in saved)
        params = dict(zip(numbers, chain.from_iterable(_in_saved_order(g, s) for g, s in zip(groups, saved))))
        options = {n: s for s in saved for n in s["params"]}
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in params:
                state[params[key]] = _fitted(params[key], value, options[key])
            else:
                state[key] = value
        self._check_loaded(state)
        merged = [self._merged(old, new) for old, new in zip(groups, saved)]
        self.__setstate__({"state": state, "param_groups": merged})
        for hook in list(self._optimizer_load_state_dict_post_hooks.values()):  # type: ignore[attr-defined]
            hook(self)

    @staticmethod
    def _merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
        new["params"] = old["params"]
        names = old.get("param_names")
        if names is not None and sorted(new.get("param_names", names)) == sorted(names):
            new["param_names"] = names
        return new

    def _check_loaded(self, state: dict[Any, Any]) -> None:
        """Raise if loaded state does not fit the parameters; nothing has been modified yet."""

    # --- For subclasses ----------------------------------------------------------------------------

    def _cuda_graph_capture_health_check(self) -> None:
        """Do nothing: there are no graphs of CUDA's that a step could be captured into unawares."""

    _accelerator_graph_capture_health_check = _cuda_graph_capture_health_check

    @staticmethod
    def _process_value_according_to_param_policy(
        param: Any, value: Any, param_id: int, param_groups: list[dict[Any, Any]], key: Any = None
    ) -> Any:
        """Return a tensor of a loaded state in its parameter's dtype and on its device."""
        group = next((g for g in param_groups if param_id in g["params"]), {})
        return _fitted(param, value, group, key)

    def _loss_of(self, closure: Closure) -> Any:
        if closure is None:
            return None
        with enable_grad():
            return closure()


class ByGroup(Optimizer):
    """An optimizer that updates one group after the other; its subclasses say how, in `_apply`."""

    def step(self, closure: Closure = None) -> Any:
        """Update every parameter that has a gradient; `closure` recomputes the loss and returns it."""
        loss = None if closure is None else self._loss_of(closure)
        replaced = hold()
        try:
            self._update_groups()
        finally:
            release(replaced)
            if came:
                deliver()
        return loss

    @mark
    def _update_groups(self) -> None:
        at = -1
        try:
            for at, group in enumerate(self.param_groups):  # noqa: B007 - of the group that failed
                params = [p for p in group["params"] if p._grad is not None]
                if params:
                    self._apply(params, [p._grad for p in params], group)
        except BaseException as error:
            _explain(self, at, error)
            raise

    def _apply(self, params: list[Any], grads: list[Any], group: dict[str, Any]) -> None:
        """Update parameters by the gradients given, and their state."""
        raise NotImplementedError


def _in_saved_order(group: dict[str, Any], saved: dict[str, Any]) -> list[Any]:
    """Return the parameters of a group in the order in which they were saved, if their names determine it."""
    params: list[Any] = group["params"]
    names, theirs = group.get("param_names"), saved.get("param_names")
    if names is None or theirs is None or names == theirs or sorted(names) != sorted(theirs):
        return params
    by_name = dict(zip(names, params))
    return [by_name[name] for name in theirs]


def _typename(value: Any) -> str:
    return value.type() if isinstance(value, TensorBase) else type(value).__name__  # type: ignore[attr-defined, no-any-return]


def _fitted(p: Any, value: Any, options: dict[str, Any], key: str | None = None) -> Any:
    """Return saved state in a parameter's dtype and on its device, except for step counts."""
    if isinstance(value, TensorBase):
        if key == "step":
            if options.get("capturable") or options.get("fused"):
                return value.to(dtype=dtypes.float32, device=p.device)  # type: ignore[attr-defined]
            return value
        if p.is_floating_point():
            return value.to(dtype=p.dtype, device=p.device)  # type: ignore[attr-defined]
        return value.to(device=p.device)  # type: ignore[attr-defined]
    if isinstance(value, dict):
        return {k: _fitted(p, v, options, key=k) for k, v in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return type(value)(_fitted(p, v, options) for v in value)  # type: ignore[call-arg]
    return value


# --- Helper functions of optimizers ---------------------------------------------------------------------


def check_lr(lr: Any, text: str = "Invalid learning rate: {}") -> None:
    """Raise if a learning rate is negative, or a tensor of more than one element."""
    if isinstance(lr, TensorBase) and lr.array.size != 1:
        raise ValueError("Tensor lr must be 1-element")
    check(0.0 <= lr, text.format(lr))  # noqa: SIM300 - of what is no number, Python names the types in this order


def check(holds: Any, problem: str) -> None:
    """Raise a ValueError that states the problem unless a condition holds."""
    if not holds:
        raise ValueError(problem)


def check_positive(**options: float) -> None:
    """Refuse options below zero."""
    for name, value in options.items():
        check(0.0 <= value, f"Invalid {name} value: {value}")  # noqa: SIM300


def check_betas(betas: tuple[Any, Any]) -> None:
    """Raise if one of two decay rates is not in [0, 1)."""
    for i in range(2):
        beta = betas[i]
        check(0.0 <= beta < 1.0, f"Invalid beta parameter at index {i}: {beta}")


def check_fused(fused: bool | None, foreach: bool | None, differentiable: bool) -> None:
    """Raise for options that exclude each other."""
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


def scalar(value: float) -> Any:
    """Return a scalar as optimizers have it in their state: a tensor, at least in single precision."""
    wide = dtypes.default() is dtypes.float64
    return wrap(literal(np.array(value, np.float64 if wide else np.float32)))


def zeros_like(p: Any) -> Any:
    """Return a tensor of zeros in new memory, with a parameter's memory layout."""
    if isinstance(p.array, Payload):  # without elements, or inside a transform
        return create_like.zeros_like(p.detach())
    return wrap(literal(module_of(p.array).zeros_like(p.array)))


def note_written(params: list[Any], operation: str) -> None:
    """Record that parameters were written, as an in-place op does: stale saved values will be detected."""
    if modes.unusual:  # an observer may be on
        for p in params:
            note_write(p, operation)
        return
    first = params[0]
    note_write(first, operation)
    done: Any = ledger_of(storage_of(first))
    for p in params[1:]:
        ledger: Any = p.memory.ledger if p.memory is not None else None
        known: Any = written_ledger(p.array)
        if ledger is None or known is not ledger:
            note_write(p, operation)  # the first write to some memory is also registered with it
            continue
        ledger.version += 1
        ledger.time, ledger.code, ledger.lasti, ledger.operation = done.time, done.code, done.lasti, operation


# --- Names that packages import from torch's module though they are private there ---------------------

_params_doc = "params: parameters, named parameters, or dicts of parameter groups."
_foreach_doc = "foreach: accepted; all parameters are updated together in any case."
_fused_doc = "fused: accepted; an update is one loop in any case."
_capturable_doc = "capturable: accepted for parameters on a GPU."
_differentiable_doc = "differentiable: whether the step is recorded, so that it can be differentiated."
_maximize_doc = "maximize: whether to go up the gradient."


def _use_grad_for_differentiable(func: Callable[..., Any]) -> Callable[..., Any]:
    """Run a `step` with grad mode as the optimizer's option `differentiable` says."""

    @functools.wraps(func)
    def with_mode(self: Any, *args: Any, **kwargs: Any) -> Any:
        with set_grad_enabled(self.defaults["differentiable"]):
            return func(self, *args, **kwargs)

    return with_mode


def _get_value(x: Any) -> Any:
    """Return the number in a tensor of one element."""
    return x.item() if isinstance(x, TensorBase) else x  # type: ignore[attr-defined]


def _dispatch_sqrt(x: Any) -> Any:
    """Return the square root of a number or a tensor."""
    return x.sqrt() if isinstance(x, TensorBase) else math.sqrt(x)  # type: ignore[attr-defined]


def _stack_if_compiling(x: Any) -> Any:
    return x


def _to_scalar(x: Any) -> Any:
    """Return a tensor of one element without its dimensions."""
    return x.squeeze() if isinstance(x, TensorBase) and x.array.ndim else x  # type: ignore[attr-defined]


def _get_scalar_dtype(is_fused: bool | None = None) -> Any:
    """Return the dtype of step counts."""
    return dtypes.float64 if dtypes.default() is dtypes.float64 and not is_fused else dtypes.float32


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    return ["cuda", "xpu", "hpu", "privateuseone", *(["xla"] if supports_xla else [])]


def _default_to_fused_or_foreach(params: list[Any], differentiable: bool, use_fused: bool = False) -> tuple[bool, bool]:
    """Return whether to take a package's fused or its foreach step: the one for single tensors is as fast here."""
    return False, False


def _disable_dynamo_if_unsupported(single_tensor_fn: Any = None) -> Callable[..., Any]:
    return lambda func: func


def _device_dtype_check_for_fused(p: Any, cuda_unsupported: bool = False) -> None:
    """Raise if a parameter cannot be updated by a fused step."""
    if not p.is_floating_point():
        raise RuntimeError(
            "`fused=True` requires all the params to be floating point Tensors of supported devices: ['mps', 'cuda', "
            f"'xpu', 'hpu', 'cpu', 'mtia', 'privateuseone'] but {p.dtype} and {p.device.type}"
        )


def _view_as_real(params: list[Any], *state_and_grads: list[Any]) -> None:
    """Put pairs of real numbers in place of the complex tensors in lists."""
    for i, p in enumerate(params):
        if p.is_complex():
            for tensors in (params, *state_and_grads):
                tensors[i] = view_as_real(tensors[i])
