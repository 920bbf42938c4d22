"""Modules as functions of their parameters: `functional_call` and `stack_module_state`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..core.tensor import TensorBase
from ..ops.join import stack


def functional_call(
    module: Any, parameter_and_buffer_dicts: Any, args: Any = None, kwargs: dict[str, Any] | None = None, *,
    tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    """Call a module with other parameters and buffers than its own, given by name.

    The module is as before afterwards. `adjoint.func.grad` of a function that calls this gives gradients by name.

    Parameters
    ----------
    module : Module
        The module to call.
    parameter_and_buffer_dicts : dict or sequence of dict
        From names, as in `state_dict`, to tensors. Names that are missing keep the module's own tensors.
    args : tuple or any, optional
        Positional arguments; what is not a tuple is the one argument.
    kwargs : dict, optional
        Keyword arguments.
    tie_weights : bool, default True
        Whether a tensor given for one name replaces it under its other names too.
    strict : bool, default False
        Raise unless the names are exactly those of the module.

    Returns
    -------
    any
        What the module returns.

    Raises
    ------
    ValueError
        If two of the dicts share a name.

    Examples
    --------
    >>> from adjoint.func import functional_call, grad
    >>> model = adjoint.nn.Linear(2, 1)
    >>> params = {"weight": adjoint.tensor([[1.0, 2.0]]), "bias": adjoint.zeros(1)}
    >>> x = adjoint.tensor([3.0, 4.0])
    >>> functional_call(model, params, x)
    tensor([11.])
    >>> grad(lambda p: functional_call(model, p, x).sum())(params)
    {'weight': tensor([[3., 4.]]), 'bias': tensor([1.])}
    """
    tensors = _merged(parameter_and_buffer_dicts)
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    with _replaced(module, tensors, tie_weights, strict):
        return module(*arguments, **(kwargs or {}))


def _merged(dicts: Any) -> dict[str, Any]:
    if isinstance(dicts, dict):
        return dicts
    if not isinstance(dicts, list | tuple):
        raise ValueError(
            f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(dicts)}"
        )
    if not all(isinstance(d, dict) for d in dicts):
        raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
    merged: dict[str, Any] = {}
    for d in dicts:
        if repeated := sorted(merged.keys() & d.keys()):
            raise ValueError(f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous")
        merged.update(d)
    return merged


def _state(module: Any) -> dict[str, Any]:
    return dict([*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)])


@contextmanager
def _replaced(module: Any, tensors: dict[str, Any], tie: bool, strict: bool) -> Iterator[None]:
    """Replace a module's tensors during a call."""
    own = _state(module)
    wanted = {**_tied(own, tensors), **tensors} if tie else dict(tensors)
    if strict:
        _check_names(module, own, wanted)
    before: dict[str, Any] = {}
    try:
        for name, tensor in wanted.items():
            before[name] = _swapped(module, name, tensor)
        yield
    finally:
        for name in reversed(before):
            after = _swapped(module, name, before[name])
            if name in tensors:
                tensors[name] = after  # a buffer that the call has assigned anew goes to the caller's dict


_MISSING: Any = object()


def _swapped(module: Any, name: str, tensor: Any) -> Any:
    """Put a tensor where a module has that name, and return what was there; `_MISSING` takes it away."""
    path, _, last = name.rpartition(".")
    if not last:
        raise KeyError('tensor name can\'t be empty string ""')
    owner = _submodule(module, path)
    if tensor is not _MISSING and tensor is not None and not isinstance(tensor, TensorBase):
        raise TypeError(f"{tensor} is not an instance of adjoint.Tensor (given for {name!r})")
    for slots in (owner._parameters, owner._buffers):
        if last in slots:
            was = slots[last]
            if tensor is _MISSING:
                del slots[last]
            else:
                slots[last] = tensor
            return was
    was = getattr(owner, last, _MISSING)
    if was is not _MISSING and was is not None and not isinstance(was, TensorBase):
        raise TypeError(f"attribute `{last}`: {was} is not an instance of adjoint.Tensor")
    if tensor is not _MISSING:
        setattr(owner, last, tensor)
    elif was is not _MISSING:
        delattr(owner, last)
    return was


def _submodule(module: Any, path: str) -> Any:
    try:
        return module.get_submodule(path) if path else module
    except AttributeError as error:
        raise AttributeError(f"functional_call: {path!r} is no module of {_kind(module)}: {error}") from None


def _kind(module: Any) -> str:
    return type(module).__name__


def _tied(own: dict[str, Any], tensors: dict[str, Any]) -> dict[str, Any]:
    """Return the given tensors under all names of the tied tensors that they replace."""
    by_identity: dict[int, list[str]] = {}
    for name, tensor in own.items():
        by_identity.setdefault(id(tensor), []).append(name)
    tied: dict[str, Any] = {}
    for names in by_identity.values():
        given = [n for n in names if n in tensors]
        if len({id(tensors[n]) for n in given}) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(names)}, which are tied. Consider using "
                "tie_weights=False"
            )
        if given:
            tied.update(dict.fromkeys(names, tensors[given[0]]))
    return tied


def _check_names(module: Any, own: dict[str, Any], given: dict[str, Any]) -> None:
    unexpected, missing = sorted(given.keys() - own.keys()), sorted(own.keys() - given.keys())
    if unexpected or missing:
        lines = [f"Error(s) in reparametrizing for {_kind(module)}:"]
        lines += [f"\tUnexpected key(s): {', '.join(map(repr, unexpected))}."] if unexpected else []
        lines += [f"\tMissing key(s): {', '.join(map(repr, missing))}."] if missing else []
        raise RuntimeError("\n".join(lines))


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters and the buffers of several modules of one kind, stacked along a new first dimension.

    With `functional_call` and `vmap` the whole ensemble then runs as one.

    Parameters
    ----------
    models : sequence of Module
        Modules of one class and of equal shapes.

    Returns
    -------
    tuple of dict
        (parameters, buffers), by name, each with a new first dimension of size ``len(models)``.

    Examples
    --------
    >>> from adjoint.func import functional_call, stack_module_state, vmap
    >>> models = [adjoint.nn.Linear(2, 1) for _ in range(3)]
    >>> params, buffers = stack_module_state(models)
    >>> def run(params, buffers, x):
    ...     return functional_call(models[0], (params, buffers), (x,))
    >>> vmap(run, in_dims=(0, 0, None))(params, buffers, adjoint.ones(4, 2)).shape
    adjoint.Size([3, 4, 1])
    """
    if len(models) == 0:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if not (all(m.training for m in models) or not any(m.training for m in models)):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    parameters = {
        name: _stacked([dict(m.named_parameters())[name] for m in models], name)
        for name, _ in models[0].named_parameters()
    }
    buffers = {
        name: _stacked([dict(m.named_buffers())[name] for m in models], name) for name, _ in models[0].named_buffers()
    }
    return parameters, buffers


def _stacked(tensors: list[Any], name: str) -> Any:
    """Return tensors as one, a leaf that requires a gradient if they do."""
    if len({t.requires_grad for t in tensors}) > 1:
        raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
    stacked = stack(tensors)
    return stacked.detach().requires_grad_() if tensors[0].requires_grad else stacked


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Make the batch norms of a module stop tracking running statistics, in place: `vmap` cannot write to them.

    Parameters
    ----------
    root : Module
        The module.

    Returns
    -------
    Module
        `root`.

    Examples
    --------
    >>> model = adjoint.nn.Sequential(adjoint.nn.BatchNorm1d(2))
    >>> adjoint.func.replace_all_batch_norm_modules_(model)[0].running_mean is None
    True
    """
    for module in root.modules():
        is_batch_norm = any(kind.__name__ == "_BatchNorm" for kind in type(module).__mro__)
        if is_batch_norm and module.track_running_stats:
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
