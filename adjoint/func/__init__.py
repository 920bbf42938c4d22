"""Function transforms: derivatives and batches of functions, in any combination."""

from __future__ import annotations

from .arrange import rearrange
from .batch import vmap
from .forward import jvp, linearize
from .jacobian import hessian, jacfwd, jacrev
from .modules import functional_call, replace_all_batch_norm_modules_, stack_module_state
from .reverse import grad, grad_and_value, vjp
from .values import debug_unwrap, functionalize

__all__ = [
    "debug_unwrap", "functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp",
    "linearize", "rearrange", "replace_all_batch_norm_modules_", "stack_module_state", "vjp", "vmap",
]  # fmt: skip
