"""torch's tables of operators, layers and optimizers for tests: here they are empty, so that a test of each is of none.

Where torch's own tables are at hand they can replace these: they run on adjoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...ops.random import randn
from ..testing.parametrization import _TestParametrizer

__all__ = ["TABLES"]


class ofTable(_TestParametrizer):
    """Run a test for each row of a table: for none, where the table is empty."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take what torch's take."""

    def _parametrize_test(self, test: Any, generic_cls: Any, device_cls: Any) -> Iterator[Any]:
        yield from ()


class SampleInput:
    """Arguments of a call: the first, and the others."""

    def __init__(
        self,
        input: Any,
        *var_args: Any,
        args: Any = None,
        kwargs: dict[str, Any] | None = None,
        output_process_fn_grad: Any = None,
        broadcasts_input: bool = False,
        name: str = "",
        **var_kwargs: Any,
    ) -> None:
        self.input, self.args, self.kwargs = input, args if args is not None else var_args, kwargs or var_kwargs
        self.output_process_fn_grad = output_process_fn_grad or (lambda x: x)
        self.broadcasts_input, self.name = broadcasts_input, name


class ErrorInput:
    """Arguments that a call refuses, and how."""

    def __init__(self, sample_input: SampleInput, *, error_type: Any = RuntimeError, error_regex: str) -> None:
        self.sample_input, self.error_type, self.error_regex = sample_input, error_type, error_regex


class DecorateInfo:
    """Decorators for some tests of a row of a table."""

    def __init__(self, decorators: Any, *args: Any, **kwargs: Any) -> None:
        self.decorators = list(decorators) if isinstance(decorators, list | tuple) else [decorators]


def _mask_not_all_zeros(shape: Any) -> Any:
    """Return a random mask that is True somewhere."""
    assert len(shape) > 0
    while True:
        mask = randn(shape).gt(0)
        if mask.sum() > 0:
            return mask


_SAMPLES = {"SampleInput": SampleInput, "ErrorInput": ErrorInput, "DecorateInfo": DecorateInfo}
_OPERATORS = (
    "op_db unary_ufuncs binary_ufuncs reduction_ops spectral_funcs shape_funcs sparse_unary_ufuncs "
    "sparse_masked_reduction_ops sparse_csr_unary_ufuncs sparse_reduction_ops ops_and_refs python_ref_db "
    "foreach_unary_op_db foreach_binary_op_db foreach_pointwise_op_db foreach_reduce_op_db foreach_other_op_db "
    "binary_ufuncs_and_refs ops_and_refs_with_no_numpy_ref custom_op_db"
)
_HOME = "testing._internal"
TABLES: dict[str, dict[str, Any]] = {
    f"{_HOME}.common_methods_invocations": {
        **{name: [] for name in _OPERATORS.split()}, **_SAMPLES, "mask_not_all_zeros": _mask_not_all_zeros,
        "S": 5, "M": 10, "L": 20, "XS": 3, "skip": DecorateInfo, "xfail": DecorateInfo,
    },
    f"{_HOME}.common_modules": {"module_db": [], "modules": ofTable},
    f"{_HOME}.common_optimizers": {"optim_db": [], "optims": ofTable},
    f"{_HOME}.autograd_function_db": {"autograd_function_db": []},
    f"{_HOME}.custom_op_db": {"custom_op_db": []},
    f"{_HOME}.hop_db": {"hop_db": []},
    f"{_HOME}.common_subclass": {"subclass_db": {}},
    f"{_HOME}.opinfo.core": _SAMPLES,
}  # fmt: skip
