"""Dtypes that public functions refuse though their kernels would take them: PyTorch has no kernel for these."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..core.failures import title_of
from ..core.payload import Payload
from ..core.tensor import TensorBase


class Refusal(NamedTuple):
    """Parameters, the kinds of dtypes they must not have, and the error; a name alone is that of a kernel."""

    parameters: str
    kinds: str
    words: str
    error: type[Exception] = NotImplementedError


REFUSALS = {
    "binary_cross_entropy_with_logits": Refusal("input", "biuc", "log_sigmoid_cpu"),
    "kl_div": Refusal("input target", "biu", "kl_div: Integral inputs not supported.", RuntimeError),
    "multi_margin_loss": Refusal("input", "biuc", "multi_margin_loss_cpu_kernel"),
    "multilabel_margin_loss": Refusal("input", "biuc", "multilabel_margin_loss_forward_out_frame"),
    "soft_margin_loss": Refusal(
        "input", "biu", "result type Float can't be cast to the desired output type {}", RuntimeError
    ),
    "glu": Refusal("input", "c", "glu_cpu"),
    "huber_loss": Refusal("input target", "c", "huber_cpu"),
    "mse_loss": Refusal("input target", "c", "mse_cpu"),
    "nll_loss": Refusal("input", "biu", "nll_loss_out_frame"),
    "smooth_l1_loss": Refusal("input target", "c", "smooth_l1_cpu"),
    "local_response_norm": Refusal("input", "c", "avg_pool3d_out_frame"),
    "max_unpool3d": Refusal("input", "biuc", "max_unpool3d"),
    "max_unpool2d": Refusal("input", "biuc", "max_unpool2d"),
    "poisson": Refusal("input", "biuc", "poisson_cpu"),
    "searchsorted": Refusal("sorted_sequence input", "c", "searchsorted_out_cpu"),
    "isin": Refusal("elements test_elements", "bc", "Unsupported input type encountered for isin(): {}", RuntimeError),
    "vander": Refusal(
        "x", "b", "linalg.vander supports floating point, complex, and integer tensors, but got {}", RuntimeError
    ),
    "logit": Refusal("input", "c", "logit_cpu"),
    "bernoulli": Refusal("input", "c", "bernoulli_tensor_cpu_self_"),
    "kthvalue": Refusal("input", "bc", "kthvalue_cpu"),
    "bucketize": Refusal("input boundaries", "c", "searchsorted_out_cpu"),
    "cummax": Refusal("input", "c", "cummax_cpu"),
    "cummin": Refusal("input", "c", "cummin_cpu"),
    "fractional_max_pool2d": Refusal("input", "biuc", "fractional_max_pool2d_out_frame"),
    "fractional_max_pool3d": Refusal("input", "biuc", "fractional_max_pool3d_out_frame"),
    "geometric_": Refusal("input", "bc", "geometric_cpu"),
    "hash_tensor": Refusal("input", "c", "xor_sum_cpu"),
    "cross_entropy": Refusal("input", "c", "log_softmax_lastdim_kernel_impl"),
    "logit_": Refusal("input", "c", "logit_cpu"),
    "max_unpool1d": Refusal("input", "biuc", "max_unpool2d"),
    "trace": Refusal("input", "b", "trace"),
    "unique": Refusal("input", "c", "unique"),
    "unique_consecutive": Refusal("input", "c", "unique"),
}
_OF_NUMBERS = {bool: ("b", "Bool"), complex: ("c", "ComplexDouble")}


# Functions that do without their kernel where there is nothing to do, and which then take any dtype.
_OF_NOTHING = {"bucketize": "input", "cummax": "input", "cummin": "input", "searchsorted": "input"}


def refuse_dtypes(name: str, given: dict[str, Any]) -> None:
    """Raise for the first argument of a function, by parameter, that has a dtype which is refused."""
    refusal = REFUSALS[name]
    looked_at: Any = given.get(_OF_NOTHING.get(name, ""))
    if isinstance(looked_at, TensorBase) and (not looked_at.array.size or (not looked_at.array.ndim and "cum" in name)):
        return
    for parameter in refusal.parameters.split():
        value: Any = given.get(parameter)
        if isinstance(value, TensorBase | Payload):
            stored: Any = getattr(value, "array", value)
            dtype = stored.dtype
            kind, title = dtype.kind, title_of(dtype)
        else:
            kind, title = _OF_NUMBERS.get(type(value), (None, ""))
        if kind is not None and kind in refusal.kinds:
            words = refusal.words
            words = words.format(title) if " " in words else f"\"{words}\" not implemented for '{title}'"
            raise refusal.error(f"{words} Convert the argument '{parameter}' of {name}() with .to(dtype) first.")
