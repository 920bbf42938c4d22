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
    """Compute the module's result: every subclass says how."""
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
        """Add a tensor that is not trained; a `persistent` one is part of the state_dict."""
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
        """Add a parameter; None keeps the name for one that is not there."""
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
        """Add a child module under a name."""
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
        """Take `name` out of wherever it is, but for the registry it goes into."""
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

    # --- Finding one's way ---

    def get_submodule(self, target: str) -> Module:
        """Return the module at a path such as ``"encoder.layers.0"``."""
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
        """Go over the parameters, those of children included unless `recurse` is off."""
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Go over the parameters with their paths."""
        yield from self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Go over the buffers, those of children included unless `recurse` is off."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Go over the buffers with their paths."""
        yield from self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def children(self) -> Iterator[Module]:
        """Go over the immediate child modules."""
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Go over the immediate child modules with their names."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """Go over this module and everything below it."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Go over this module and everything below it, with paths."""
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
        """Forget that there were hooks when none are left: later calls need not look again."""
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
        """Return what else belongs into the state_dict; a class that defines this defines set_extra_state too."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called: define get_extra_state in "
            f"{type(self).__name__}"
        )

    def set_extra_state(self, state: Any) -> None:
        """Take back what `get_extra_state` gave."""
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
        """Return all parameters and persistent buffers by path, detached unless `keep_vars`.

        Examples
        --------
        >>> list(adjoint.nn.Linear(2, 1).state_dict())
        ['weight', 'bias']
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
        """Copy parameters and buffers from a state_dict; with `assign` take its tensors themselves.

        A `strict` call refuses keys that are missing or not known. Returns both lists of keys.
        """
        return load_tree(self, state_dict, strict, assign)

    # --- Training ---

    def apply(self: T, fn: Callable[[Module], None]) -> T:
        """Call `fn` on every module below, then on this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def train(self: T, mode: bool = True) -> T:
        """Set training mode here and below: dropout drops, batch norm uses the batch."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: T) -> T:
        """Set evaluation mode here and below."""
        return self.train(False)

    def requires_grad_(self: T, requires_grad: bool = True) -> T:
        """Say whether the parameters are to be trained."""
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or set them to zero."""
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
        """Compile what calling this module does; arguments are those of `adjoint.compile`."""
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
        """Return what the text of the module says in its brackets."""
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
