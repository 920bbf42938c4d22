"""`Module`: the base of every layer and model."""

from __future__ import annotations

import importlib
import itertools
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from ..._typing import Tensor
from ...core.tensor import TensorBase
from ..parameter import Buffer, Parameter
from .conversion import as_tree, say_where, typename
from .hooks import (  # noqa: F401 - packages look for the dicts of hooks here
    Hooked,
    _everywhere,
    _global_backward_hooks,
    _global_backward_pre_hooks,
    _global_buffer_registration_hooks,
    _global_forward_hooks,
    _global_forward_hooks_always_called,
    _global_forward_hooks_with_kwargs,
    _global_forward_pre_hooks,
    _global_module_registration_hooks,
    _global_parameter_registration_hooks,
    _has_any_global_hook,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
    replaced,
)
from .state import REGISTRIES, Hooks, IncompatibleKeys, Members, hooks_of, load_own, load_tree

__all__ = [
    "Module", "register_module_backward_hook", "register_module_buffer_registration_hook",
    "register_module_forward_hook", "register_module_forward_pre_hook", "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook", "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]  # fmt: skip
T = TypeVar("T", bound="Module")
_IncompatibleKeys = IncompatibleKeys
_EXTRA_STATE_KEY_SUFFIX = "_extra_state"

# --- Module -----------------------------------------------------------------------------------------

_HOOKS = frozenset({
    "_backward_pre_hooks", "_backward_hooks", "_forward_hooks", "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called", "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs", "_state_dict_hooks",
    "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
})  # fmt: skip
_CALL_HOOKS = ("_backward_pre_hooks", "_backward_hooks", "_forward_hooks", "_forward_pre_hooks")
_KINDS = {"_parameters": "parameter", "_buffers": "buffer", "_modules": "module"}


def _forward_unimplemented(self: Any, *input: Any) -> None:
    """Compute the module's result: every subclass defines this, and a call of the module runs it.

    Parameters
    ----------
    input : tuple
        What the module is called with. A subclass names its own parameters.

    Raises
    ------
    NotImplementedError
        If a subclass does not define it.

    Examples
    --------
    >>> class Double(adjoint.nn.Module):
    ...     def forward(self, x):
    ...         return 2 * x
    >>> Double()(adjoint.tensor([1.0, 2.0]))
    tensor([2., 4.])
    """
    raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')


def _addindent(s_: str, numSpaces: int) -> str:
    first, *rest = s_.split("\n")
    return "\n".join([first, *(numSpaces * " " + line for line in rest)])


P = ParamSpec("P")
R = TypeVar("R", covariant=True)


class _HasForward(Protocol[P, R]):
    def forward(self, *args: P.args, **kwargs: P.kwargs) -> R: ...


class Module(Hooked):
    """Base class of all layers and models: what is assigned to its attributes is registered.

    Parameters, buffers and child modules are found by `parameters`, moved by `to`, saved by `state_dict`.
    A subclass calls ``super().__init__()`` first and defines `forward`.

    Attributes
    ----------
    training : bool
        Whether the module is in training mode, as after `train`, or in evaluation mode, as after `eval`. Dropout and
        batch norm check it.

    Examples
    --------
    >>> class Net(adjoint.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.scale = adjoint.nn.Parameter(adjoint.ones(2))
    ...
    ...     def forward(self, x):
    ...         return x * self.scale
    >>> net = Net()
    >>> [name for name, _ in net.named_parameters()]
    ['scale']
    >>> net(adjoint.tensor([3.0, 4.0])).tolist()
    [3.0, 4.0]
    """

    dump_patches: bool = False
    _version: int = 1
    training: bool
    call_super_init: bool = False
    _compiled_call_impl: Callable[..., Any] | None = None
    _is_full_backward_hook: bool | None = None
    _hooked = False  # whether the module has, or had, hooks: the one thing a call checks

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]
    _non_persistent_buffers_set: set[str]

    T_destination = TypeVar("T_destination", bound=dict[str, Any])

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init:
            if kwargs:
                name = next(iter(kwargs))
                raise TypeError(f"{type(self).__name__}.__init__() got an unexpected keyword argument '{name}'")
            if args:
                raise TypeError(
                    f"{type(self).__name__}.__init__() takes 1 positional argument but {len(args) + 1} were given"
                )
        own = self.__dict__
        own["training"] = True
        own["_non_persistent_buffers_set"] = set()
        for kind in REGISTRIES:
            own[kind] = Members(self)
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    forward: Callable[..., Any] = _forward_unimplemented

    # --- Members ---

    def _shows_members(self) -> bool:
        """Return whether members are read from ``__dict__``: where the class has no ``__getattr__`` of its own."""
        return type(self).__getattr__ is Module.__getattr__

    def _members(self, kind: str) -> Members:
        """Return the registry of one kind, made this module's own where it came with copied attributes."""
        members = self.__dict__.get(kind)
        if members is None:
            verb = "parameters" if kind == "_parameters" else _KINDS[kind]
            raise AttributeError(f"cannot assign {verb} before Module.__init__() call")
        if type(members) is not Members or not members.belongs_to(self):
            members = self.__dict__[kind] = Members(self, members)
        return members

    def _check_name(self, name: Any, kind: str) -> None:
        what = _KINDS[kind]
        if not isinstance(name, str):
            raise TypeError(f"{what} name should be a string. Got {type(name).__name__}")
        if "." in name:
            raise KeyError(f'{what} name can\'t contain "."' + (f", got: {name}" if what == "module" else ""))
        if name == "":
            raise KeyError(f'{what} name can\'t be empty string ""')
        if hasattr(self, name) and name not in self._members(kind):
            raise KeyError(f"attribute '{name}' already exists")

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is not trained, such as a running mean; it moves and is saved with the module.

        Parameters
        ----------
        name : str
            The attribute that holds it.
        tensor : Tensor or None
            None reserves the name; `state_dict` leaves it out.
        persistent : bool, default True
            Whether `state_dict` has it.

        Raises
        ------
        KeyError
            If `name` is empty, has a dot, or is an attribute already.
        TypeError
            If `tensor` is neither a tensor nor None.

        Examples
        --------
        >>> layer = adjoint.nn.Linear(2, 1)
        >>> layer.register_buffer("calls", adjoint.tensor(0))
        >>> layer.calls += 1
        >>> list(layer.state_dict())
        ['weight', 'bias', 'calls']
        >>> [name for name, _ in layer.named_parameters()]
        ['weight', 'bias']
        """
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name(name, "_buffers")
        if tensor is not None and not isinstance(tensor, TensorBase):
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        self._put_buffer(name, tensor)
        self._non_persistent_buffers_set.discard(name)
        if not persistent:
            self._non_persistent_buffers_set.add(name)

    def _put_buffer(self, name: str, tensor: Tensor | None) -> None:
        for hook in _global_buffer_registration_hooks.values():
            tensor = replaced(hook(self, name, tensor), tensor)
        self._members("_buffers")[name] = tensor

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under a name, as assigning it to an attribute does.

        Parameters
        ----------
        name : str
            The attribute that holds it.
        param : Parameter or None
            None reserves the name for a parameter that is not used, such as the bias of a layer without one.

        Raises
        ------
        KeyError
            If `name` is empty, has a dot, or is an attribute already.
        TypeError
            If `param` is neither a `Parameter` nor None.

        Examples
        --------
        >>> module = adjoint.nn.Module()
        >>> module.register_parameter("scale", adjoint.nn.Parameter(adjoint.ones(2)))
        >>> module.register_parameter("shift", None)
        >>> [name for name, _ in module.named_parameters()]
        ['scale']
        """
        members = self._members("_parameters")
        self._check_name(name, "_parameters")
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign '{typename(param)}' object to parameter '{name}' (torch.nn.Parameter or None "
                    "required)"
                )
            if param.grad_fn is not None:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created "
                    f"explicitly. To express '{name}' as a function of another Tensor, compute the value in the "
                    "forward() method."
                )
            for hook in _global_parameter_registration_hooks.values():
                param = replaced(hook(self, name, param), param)
        members[name] = param

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child module under a name, as assigning it to an attribute does.

        Parameters
        ----------
        name : str
            The attribute that holds it.
        module : Module or None
            None keeps the name for a child that is not used.

        Raises
        ------
        KeyError
            If `name` is empty, has a dot, or is an attribute already.
        TypeError
            If `module` is neither a `Module` nor None.

        Examples
        --------
        >>> model = adjoint.nn.Module()
        >>> for i in range(2):
        ...     model.add_module(f"layer{i}", adjoint.nn.Linear(2, 2))
        >>> model
        Module(
          (layer0): Linear(in_features=2, out_features=2, bias=True)
          (layer1): Linear(in_features=2, out_features=2, bias=True)
        )
        """
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{typename(module)} is not a Module subclass")
        self._check_name(name, "_modules")
        self._put_module(name, module)

    def _put_module(self, name: str, module: Module | None) -> None:
        for hook in _global_module_registration_hooks.values():
            module = replaced(hook(self, name, module), module)
        self._members("_modules")[name] = module

    def register_module(self, name: str, module: Module | None) -> None:
        """Add a child module under a name: `add_module` by another name."""
        self.add_module(name, module)

    def __getattr__(self, name: str) -> Any:
        # Members are in __dict__; this is for what is not: hook dicts before their first use, and copies of
        # attributes that a program took apart.
        own = self.__dict__
        if name in _HOOKS:
            found = own[name] = hooks_of(self)
            return found
        for kind in REGISTRIES:
            members = own.get(kind)
            if members is not None and name in members:
                return members[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if isinstance(value, TensorBase) and isinstance(value, Parameter):
            self._forget(name, "_parameters")
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            self._forget(name, "_modules")
            self._put_module(name, value)
        elif isinstance(value, TensorBase) and isinstance(value, Buffer):
            self._forget(name, "_buffers")
            self.register_buffer(name, value, value.persistent)  # type: ignore[attr-defined]
        elif name in own.get("_parameters", ()):
            self._refuse(name, value, value is not None, "parameter", "torch.nn.Parameter or None")
            self.register_parameter(name, value)
        elif name in own.get("_modules", ()):
            self._refuse(name, value, value is not None, "child module", "torch.nn.Module or None")
            self._put_module(name, value)
        elif name in own.get("_buffers", ()):
            wrong = value is not None and not isinstance(value, TensorBase)
            self._refuse(name, value, wrong, "buffer", "torch.nn.Buffer, torch.Tensor or None")
            self._put_buffer(name, value)
        else:
            self._set_plain(name, value)

    def _set_plain(self, name: str, value: Any) -> None:
        if name in REGISTRIES and value is not None:
            for member in self.__dict__.get(name, ()):  # what the old registry showed goes with it
                self.__dict__.pop(member, None)
            value = Members(self, value)
        elif name in _HOOKS and type(value) is not Hooks:
            value = hooks_of(self, value)
        object.__setattr__(self, name, value)
        if name == "__class__":
            self._show_members()

    def _show_members(self) -> None:
        """Let members be read as the module's class, which is a new one, wants it."""
        own = self.__dict__
        for kind in [kind for kind in REGISTRIES if kind in own]:
            for name in own[kind]:
                own.pop(name, None)
            own[kind] = Members(self, own[kind])

    @staticmethod
    def _refuse(name: str, value: Any, wrong: bool, kind: str, expected: str) -> None:
        if wrong:
            raise TypeError(f"cannot assign '{typename(value)}' as {kind} '{name}' ({expected} expected)")

    def _forget(self, name: str, keep: str) -> None:
        """Remove `name` from every registry except the one that it is added to."""
        self._members(keep)
        for kind in REGISTRIES:
            if kind != keep and name in self.__dict__.get(kind, ()):
                del self._members(kind)[name]
                self._non_persistent_buffers_set.discard(name)
        if name not in self.__dict__[keep]:
            self.__dict__.pop(name, None)

    def __delattr__(self, name: str) -> None:
        for kind in REGISTRIES:
            if name in self.__dict__.get(kind, ()):
                del self._members(kind)[name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        found = {*dir(type(self)), *self.__dict__, *_HOOKS}
        for kind in REGISTRIES:
            found |= set(self.__dict__.get(kind, ()))
        return sorted(name for name in found if not name[0].isdigit())

    def __getstate__(self) -> dict[str, Any]:
        own = self.__dict__
        shown = {name for kind in REGISTRIES for name in own.get(kind, ())}
        state = {name: value for name, value in own.items() if name not in shown}
        state.pop("_compiled_call_impl", None)
        state.update({kind: dict(own[kind]) for kind in REGISTRIES if kind in own})
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        own = self.__dict__
        own.update(state)
        own.setdefault("_non_persistent_buffers_set", set())
        own.setdefault("training", True)
        for kind in REGISTRIES:
            own[kind] = Members(self, own.get(kind, {}))
        for name in _HOOKS & own.keys():
            own[name] = hooks_of(self, own[name])

    # --- Access by path ---

    def get_submodule(self, target: str) -> Module:
        """Return the module at a path.

        Parameters
        ----------
        target : str
            Names joined by dots, such as ``"encoder.layers.0"``; the empty path means this module.

        Returns
        -------
        Module
            The module itself, not a copy.

        Raises
        ------
        AttributeError
            If there is no module at the path.

        Examples
        --------
        >>> model = adjoint.nn.Sequential(adjoint.nn.Sequential(adjoint.nn.Linear(2, 3), adjoint.nn.ReLU()))
        >>> model.get_submodule("0.1")
        ReLU()
        """
        found: Any = self
        for part in target.split(".") if target != "" else ():
            if not hasattr(found, part):
                raise AttributeError(f"{found._get_name()} has no attribute `{part}`")
            found = getattr(found, part)
            if not isinstance(found, Module):
                raise AttributeError(f"`{part}` is not an nn.Module")
        return found  # type: ignore[no-any-return]

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a module at a path; a `strict` call only replaces one that is there."""
        if not target:
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def _get_member(self, target: str, kind: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        if name not in module.__dict__[kind]:
            said = "an nn.Parameter" if kind == "_parameters" else "a buffer"
            raise AttributeError(f"`{name}` is not {said}")
        return getattr(module, name)

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter at a path such as ``"encoder.layers.0.weight"``."""
        return self._get_member(target, "_parameters")  # type: ignore[no-any-return]

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer at a path such as ``"encoder.norm.running_mean"``."""
        return self._get_member(target, "_buffers")

    def _named_members(
        self,
        get_members_fn: Callable[[Module], Any],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        seen = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, member in get_members_fn(module):
                if member is None or member in seen:
                    continue
                if remove_duplicate:
                    seen.add(member)
                yield f"{path}.{name}" if path else name, member

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Iterate over the parameters, for an optimizer.

        Parameters
        ----------
        recurse : bool, default True
            Include those of all modules below this one.

        Yields
        ------
        Parameter
            Each once, though several modules share it.

        Examples
        --------
        >>> model = adjoint.nn.Sequential(adjoint.nn.Linear(3, 2), adjoint.nn.Linear(2, 1))
        >>> sum(p.numel() for p in model.parameters())
        11
        >>> optimizer = adjoint.optim.SGD(model.parameters(), lr=0.1)
        """
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Go over the parameters with their paths.

        Parameters
        ----------
        prefix : str, default ""
            Put before each path, with a dot.
        recurse : bool, default True
            Include those of all modules below this one.
        remove_duplicate : bool, default True
            Yield a parameter that several modules share once only.

        Yields
        ------
        tuple of str and Parameter
            The path, such as ``"0.weight"``, and the parameter.

        Examples
        --------
        >>> model = adjoint.nn.Sequential(adjoint.nn.Linear(3, 2), adjoint.nn.Linear(2, 1))
        >>> for name, p in model.named_parameters():
        ...     print(name, tuple(p.shape))
        0.weight (2, 3)
        0.bias (2,)
        1.weight (1, 2)
        1.bias (1,)
        """
        yield from self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Iterate over the buffers: tensors that are not trained.

        Parameters
        ----------
        recurse : bool, default True
            Include those of all modules below this one.

        Yields
        ------
        Tensor
            Each once, though several modules share it.

        Examples
        --------
        >>> list(adjoint.nn.BatchNorm1d(2).buffers())
        [tensor([0., 0.]), tensor([1., 1.]), tensor(0)]
        """
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Go over the buffers with their paths.

        Parameters
        ----------
        prefix : str, default ""
            Put before each path, with a dot.
        recurse : bool, default True
            Include those of all modules below this one.
        remove_duplicate : bool, default True
            Yield a buffer that several modules share once only.

        Yields
        ------
        tuple of str and Tensor
            The path, such as ``"norm.running_mean"``, and the buffer.

        Examples
        --------
        >>> model = adjoint.nn.Sequential(adjoint.nn.Linear(3, 2), adjoint.nn.BatchNorm1d(2))
        >>> [name for name, _ in model.named_buffers()]
        ['1.running_mean', '1.running_var', '1.num_batches_tracked']
        """
        yield from self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def children(self) -> Iterator[Module]:
        """Go over the immediate child modules.

        Yields
        ------
        Module
            Each once, though it has several names.

        Examples
        --------
        >>> model = adjoint.nn.Sequential(adjoint.nn.Linear(2, 2), adjoint.nn.ReLU())
        >>> list(model.children())
        [Linear(in_features=2, out_features=2, bias=True), ReLU()]
        """
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Go over the immediate child modules with their names.

        Yields
        ------
        tuple of str and Module
            Each module once, though it has several names.

        Examples
        --------
        >>> model = adjoint.nn.Sequential(adjoint.nn.Linear(2, 2), adjoint.nn.ReLU())
        >>> [name for name, _ in model.named_children()]
        ['0', '1']
        """
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """Go over this module and all below it.

        Parameters
        ----------
        remove_duplicate : bool, default True
            Yield a module that has several places once only.

        Yields
        ------
        Module
            This module first, each module before those below it.

        Examples
        --------
        >>> model = adjoint.nn.Sequential(adjoint.nn.Sequential(adjoint.nn.Linear(2, 2)), adjoint.nn.ReLU())
        >>> [type(module).__name__ for module in model.modules()]
        ['Sequential', 'Sequential', 'Linear', 'ReLU']
        """
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Go over this module and all below it, with their paths.

        Parameters
        ----------
        memo : set of Module, optional
            Modules to leave out; those that are found are added.
        prefix : str, default ""
            The path of this module.
        remove_duplicate : bool, default True
            Yield a module that has several places once only.

        Yields
        ------
        tuple of str and Module
            The path, such as ``"encoder.layers.0"``, and the module.

        Examples
        --------
        >>> model = adjoint.nn.Sequential(adjoint.nn.Sequential(adjoint.nn.Linear(2, 2)), adjoint.nn.ReLU())
        >>> [name for name, _ in model.named_modules()]
        ['', '0', '0.0', '1']
        """
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    # --- Calling ---

    if TYPE_CHECKING:  # a call takes and gives what the class's own `forward` does

        def __call__(self: _HasForward[P, R], *args: P.args, **kwargs: P.kwargs) -> R: ...  # noqa: D102

    else:

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            """Call `forward`, and the hooks around it."""
            if self._hooked or _everywhere.hooked:
                return self._call_impl(*args, **kwargs)
            try:
                if len(args) == 1 and not kwargs:  # stars cost as much as the call itself
                    return self.forward(args[0])
                return self.forward(*args, **kwargs)
            except Exception as error:
                say_where(error, self)
                raise

        _wrapped_call_impl = __call__

    def _slow_forward(self, *input: Any, **kwargs: Any) -> Any:
        return self.forward(*input, **kwargs)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module with its hooks."""
        if self._compiled_call_impl is not None and not _COMPILING & {id(self)}:
            return self._run_compiled(*args, **kwargs)
        self._look_for_hooks()
        called: set[int] = set()
        try:
            return self._run_hooked(args, kwargs, called)
        except Exception as error:
            self._call_remaining_hooks(args, kwargs, called)
            say_where(error, self)
            raise

    def _look_for_hooks(self) -> None:
        """Note that no hooks are left, so that later calls need not look for them."""
        if not _has_any_global_hook():
            _everywhere.hooked = False
        own = self.__dict__
        if self._compiled_call_impl is None and not any(own.get(name) for name in _CALL_HOOKS):
            own["_hooked"] = False

    def _run_compiled(self, *args: Any, **kwargs: Any) -> Any:
        _COMPILING.add(id(self))
        try:
            compiled: Any = self._compiled_call_impl
            return compiled(*args, **kwargs)
        finally:
            _COMPILING.discard(id(self))

    # --- State ---

    def get_extra_state(self) -> Any:
        """Return additional state for the state_dict; a class that defines this must define `set_extra_state`, too."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called: define get_extra_state in "
            f"{type(self).__name__}"
        )

    def set_extra_state(self, state: Any) -> None:
        """Restore the state that `get_extra_state` returned."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called: define set_extra_state in "
            f"{type(self).__name__}"
        )

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name, member in itertools.chain(self._parameters.items(), self._buffers.items()):
            if member is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = member if keep_vars else member.detach()
        if type(self).get_extra_state is not Module.get_extra_state:
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """Return all parameters and persistent buffers by path, for saving.

        Parameters
        ----------
        destination : dict, optional
            Where they are put. Defaults to a new ordered dict.
        prefix : str, default ""
            Put before each path, as it is.
        keep_vars : bool, default False
            Return the parameters themselves, not detached tensors.

        Returns
        -------
        dict
            Tensors that share memory with the module: copy them before training goes on.

        Examples
        --------
        >>> layer = adjoint.nn.Linear(2, 1)
        >>> list(layer.state_dict())
        ['weight', 'bias']
        >>> list(layer.state_dict(prefix="head."))
        ['head.weight', 'head.bias']
        """
        if args:
            warnings.warn("Positional args are being deprecated, use kwargs instead.", FutureWarning, stacklevel=2)
            given = (*args, *(destination, prefix, keep_vars)[len(args) :])
            destination, prefix, keep_vars = given[0], given[1], given[2]
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            result = hook(self, destination, prefix, metadata)
            if getattr(hook, "_from_public_api", False):
                if result is not None:
                    raise RuntimeError("state_dict post-hook must return None")
            elif result is not None:
                destination = result
        return destination

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: list[str],
        unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        load_own(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Copy parameters and buffers from a result of `state_dict`.

        Parameters
        ----------
        state_dict : mapping of str to Tensor
            Tensors by path.
        strict : bool, default True
            Raise if there are keys that the module does not have, or it has keys that are missing.
        assign : bool, default False
            Take the tensors themselves, with their dtype and device, instead of copying their values.

        Returns
        -------
        named tuple of two lists
            `missing_keys` and `unexpected_keys`.

        Raises
        ------
        RuntimeError
            If a shape differs, or with `strict` the keys do.

        Examples
        --------
        >>> trained, layer = adjoint.nn.Linear(2, 1), adjoint.nn.Linear(2, 1)
        >>> layer.load_state_dict(trained.state_dict())
        <All keys matched successfully>
        >>> layer.load_state_dict({"weight": adjoint.ones(1, 2)}, strict=False).missing_keys
        ['bias']
        """
        return load_tree(self, state_dict, strict, assign)

    # --- Training ---

    def apply(self: T, fn: Callable[[Module], None]) -> T:
        """Call a function with every module below this one, then with this one.

        Parameters
        ----------
        fn : callable
            Takes a module; what it returns is ignored.

        Returns
        -------
        Module
            This module.

        Examples
        --------
        >>> def begin(module):
        ...     if isinstance(module, adjoint.nn.Linear):
        ...         adjoint.nn.init.ones_(module.weight)
        >>> model = adjoint.nn.Sequential(adjoint.nn.Linear(2, 1), adjoint.nn.ReLU()).apply(begin)
        >>> model[0].weight.tolist()
        [[1.0, 1.0]]
        """
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def train(self: T, mode: bool = True) -> T:
        """Set training mode here and in all modules below: dropout drops elements, batch norm uses the batch.

        Parameters
        ----------
        mode : bool, default True
            False sets evaluation mode, as `eval` does.

        Returns
        -------
        Module
            This module.

        Raises
        ------
        ValueError
            If `mode` is not a bool.

        Examples
        --------
        >>> model = adjoint.nn.Sequential(adjoint.nn.Linear(2, 2), adjoint.nn.Dropout())
        >>> model.training
        True
        >>> model.train(False)[1].training
        False
        """
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: T) -> T:
        """Set evaluation mode here and in all modules below.

        Dropout then does nothing, and batch norm uses its running statistics. Operations are still recorded for
        backward; `no_grad` turns that off.

        Returns
        -------
        Module
            This module.

        Examples
        --------
        >>> model = adjoint.nn.Sequential(adjoint.nn.Linear(2, 2), adjoint.nn.Dropout()).eval()
        >>> model.training, model[1].training
        (False, False)
        """
        return self.train(False)

    def requires_grad_(self: T, requires_grad: bool = True) -> T:
        """Set whether the parameters require gradients."""
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the gradients of all parameters to None, or to zero.

        Parameters
        ----------
        set_to_none : bool, default True
            Set ``.grad`` to None, which frees the memory. False writes zeros.

        Examples
        --------
        >>> layer = adjoint.nn.Linear(2, 1)
        >>> layer(adjoint.ones(2)).sum().backward()
        >>> layer.weight.grad
        tensor([[1., 1.]])
        >>> layer.zero_grad()
        >>> layer.weight.grad is None
        True
        """
        for param in self.parameters():
            if param.grad is None:
                continue
            if set_to_none:
                param.grad = None
            else:
                if param.grad.grad_fn is not None:
                    param.grad.detach_()
                else:
                    param.grad.requires_grad_(False)
                param.grad.zero_()

    def _compiled_with(self, compiled: Callable[..., Any]) -> Module:
        """Return the module that `adjoint.compile` gives for this one."""
        from ..compiled import OptimizedModule

        return OptimizedModule(self, compiled)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile what calling this module does, in place: `state_dict` and the type of the module stay.

        It takes the arguments of `adjoint.compile`.

        Examples
        --------
        >>> layer = adjoint.nn.Linear(2, 1)
        >>> layer.compile()
        >>> layer(adjoint.ones(3, 2)).shape
        adjoint.Size([3, 1])
        >>> list(layer.state_dict())
        ['weight', 'bias']
        """
        compiler = importlib.import_module("adjoint").compile  # loaded when a program first compiles
        self._compiled_call_impl = compiler(self._call_impl, *args, **kwargs)
        self.__dict__["_hooked"] = True

    def _replicate_for_data_parallel(self) -> Any:
        replica: Any = self.__new__(type(self))
        replica.__dict__.update(self.__getstate__())
        for kind in REGISTRIES:
            members = {} if kind == "_parameters" else replica.__dict__[kind]
            replica.__dict__[kind] = Members(replica, members)
        replica._is_replica = True
        return replica

    # --- Text ---

    def _get_name(self) -> str:
        return self.__class__.__name__

    def extra_repr(self) -> str:
        """Return the text in the parentheses of the module's repr. Subclasses override it.

        Returns
        -------
        str
            Empty by default.

        Examples
        --------
        >>> class Scale(adjoint.nn.Module):
        ...     def __init__(self, factor):
        ...         super().__init__()
        ...         self.factor = factor
        ...
        ...     def extra_repr(self):
        ...         return f"factor={self.factor}"
        >>> Scale(2)
        Scale(factor=2)
        """
        return ""

    def _repr_html_(self) -> str:
        return as_tree(self, self._get_name())

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): {_addindent(repr(module), 2)}" for name, module in self._modules.items()]
        if len(lines) == 1 and not children:
            return f"{self._get_name()}({lines[0]})"
        if not lines and not children:
            return f"{self._get_name()}()"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines + children) + "\n)"


_COMPILING: set[int] = set()  # modules whose compiled call is running: inside, they are called as they are
