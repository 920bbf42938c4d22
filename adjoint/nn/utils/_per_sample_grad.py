"""Per-sample gradients: a module is called with separate weights for every sample."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ...core.tensor import TensorBase
from ...func import functional_call, vmap
from ...tree import tree_leaves, tree_map
from ..modules.module import Module

__all__ = ["call_for_per_sample_grads"]


def call_for_per_sample_grads(
    module: Any, *, batch_size: int | None = None, loss_reduction: str = "sum", batch_first: bool = True
) -> Callable[..., Any]:
    """Return the module's forward function; a backward pass from its result gives each parameter a ``grad_sample``.

    Parameters
    ----------
    module
        The module whose trainable parameters get ``grad_sample``, with the samples in front; their ``grad`` stays.
    batch_size
        The number of samples, if the arguments do not determine it.
    loss_reduction
        "sum", or "mean" of the losses of samples: then gradients are multiplied by their number.
    batch_first
        Whether samples are counted along the first dimension, or the second.

    Examples
    --------
    >>> model = adjoint.nn.Linear(4, 3)
    >>> from adjoint.nn.utils._per_sample_grad import call_for_per_sample_grads
    >>> call_for_per_sample_grads(model)(adjoint.randn(5, 4)).sum().backward()
    >>> model.weight.grad_sample.shape, model.weight.grad
    (adjoint.Size([5, 3, 4]), None)
    """
    _check(module, batch_size, loss_reduction)
    dim = 0 if batch_first else 1

    @functools.wraps(module.forward)
    def call(*args: Any, **kwargs: Any) -> Any:
        count = batch_size if batch_size is not None else _batch_size((args, kwargs), dim)
        weights = {name: _for_samples(p, count, loss_reduction) for name, p in module.named_parameters()}

        def one(weights: Any, args: Any, kwargs: Any) -> Any:
            args, kwargs = _each(lambda v: v.unsqueeze(dim), (args, kwargs))
            return _each(lambda v: v.squeeze(dim), functional_call(module, weights, args, kwargs))

        dims = tree_map(lambda v: dim if isinstance(v, TensorBase) else None, (args, kwargs))
        batched = {
            name: 0 if w.ndim > p.ndim else None for (name, p), w in zip(module.named_parameters(), weights.values())
        }
        return vmap(one, (batched, *dims), dim, randomness="different")(weights, args, kwargs)

    return call


def _each(function: Callable[[Any], Any], values: Any) -> Any:
    """Return nested values with a function applied to the tensors among them."""
    return tree_map(lambda v: function(v) if isinstance(v, TensorBase) else v, values)


def _for_samples(p: Any, count: int, reduction: str) -> Any:
    """Return a parameter once for every sample; its gradient becomes ``p.grad_sample``."""
    if not p.requires_grad:
        return p
    weights = p.detach().expand(count, *p.shape).requires_grad_()

    def keep(grad: Any) -> None:
        p.grad_sample = grad * count if reduction == "mean" else grad

    weights.register_hook(keep)
    return weights


def _batch_size(values: Any, dim: int) -> int:
    sizes = [v.array.shape[dim] for v in tree_leaves(values) if isinstance(v, TensorBase)]
    if not sizes:
        raise RuntimeError(
            "Unable to find a tensor in the passed args and kwargs. They may not be pytree-able and so ExpandedWeights "
            "cannot compute the batch size from the inputs. Please specify it explicitly"
        )
    for size in sizes:
        if size != sizes[0]:
            raise RuntimeError(
                f"When computing batch size, found at least one input with batch size {sizes[0]} and one with batch "
                f"size {size}. Please specify it explicitly using the batch size kwarg in call_for_per_sample_grads"
            )
    return int(sizes[0])


def _check(module: Any, batch_size: Any, loss_reduction: str) -> None:
    if loss_reduction not in ("sum", "mean"):
        raise RuntimeError(f"Expected loss_reduction argument to be sum or mean, got {loss_reduction}")
    if not isinstance(module, Module):
        raise RuntimeError(f"Module passed must be nn.Module, got {type(module).__name__}")
    if not (batch_size is None or isinstance(batch_size, int)):
        raise RuntimeError(f"Batch size passed must be None or an integer, got {type(batch_size).__name__}")
    if batch_size is not None and batch_size < 1:
        raise RuntimeError(f"Batch size must be positive, got {batch_size}")
    for name, p in module.named_parameters():
        if getattr(p, "grad_sample", None) is not None:
            raise RuntimeError(
                "Current Expanded Weights accumulates the gradients, which will be incorrect for multiple calls "
                f"without clearing gradients. Please clear out the grad_sample parameter of '{name}'"
            )
