"""Checks of gradients as suites run them: the quick method, batches too, entries of a table of operators."""

from __future__ import annotations

import functools
from typing import Any

from ... import tree
from ...autograd.gradcheck import gradcheck as _gradcheck
from ...autograd.gradcheck import gradgradcheck as _gradgradcheck
from ...core.tensor import TensorBase
from . import flags
from .case import TestCase

__all__ = ["TestGradients", "compare_equal_outs_and_grads", "gradcheck", "gradgradcheck", "outs_and_grads"]


def gradcheck(fn: Any, inputs: Any, **kwargs: Any) -> bool:
    """Compare gradients with finite differences, those of batches too; in fast mode by default."""
    options = {"check_batched_grad": True, "fast_mode": not flags.TEST_WITH_SLOW_GRADCHECK, **kwargs}
    return _gradcheck(fn, inputs, **options)


def gradgradcheck(fn: Any, inputs: Any, grad_outputs: Any = None, **kwargs: Any) -> bool:
    """Compare gradients of gradients with finite differences."""
    options = {"check_batched_grad": True, "fast_mode": not flags.TEST_WITH_SLOW_GRADCHECK, **kwargs}
    return _gradgradcheck(fn, inputs, grad_outputs, **options)


class TestGradients(TestCase):
    """A test case that checks the gradients of an entry of a table of operators."""

    __test__ = False

    def _get_safe_inplace(self, inplace_variant: Any) -> Any:
        """Return a function that writes into a copy of its first argument."""

        @functools.wraps(inplace_variant)
        def safe(t: Any, *args: Any, **kwargs: Any) -> Any:
            return inplace_variant(t.clone(), *args, **kwargs)

        return safe

    def _check_helper(
        self,
        device: Any,
        dtype: Any,
        op: Any,
        variant: Any,
        check: str,
        *,
        check_batched_grad: bool | None = None,
        **kwargs: Any,
    ) -> None:
        if variant is None:
            self.skipTest("Skipped! Variant not implemented.")
        if not op.supports_dtype(dtype, str(device).partition(":")[0]):
            self.skipTest(f"Skipped! {op.name} does not support dtype {dtype}")
        written = getattr(variant, "__wrapped__", variant) is op.get_inplace()
        batched = bool(op.check_batched_grad if check_batched_grad is None else check_batched_grad)
        for sample in op.sample_inputs(device, dtype, requires_grad=True):
            if sample.broadcasts_input and written:
                continue
            fn, inputs = _of_tensors(op, variant, sample)
            if check == "gradcheck":
                self.assertTrue(gradcheck(fn, inputs, check_grad_dtypes=True, check_batched_grad=batched, **kwargs))
                continue
            ahead = check == "fwgrad_bwgrad"
            options = {"check_batched_grad": not ahead and bool(op.check_batched_gradgrad)}
            options |= {"check_fwd_over_rev": ahead, "check_rev_over_rev": not ahead}
            self.assertTrue(gradgradcheck(fn, inputs, gen_non_contig_grad_outputs=True, **options))

    def _grad_test_helper(self, device: Any, dtype: Any, op: Any, variant: Any, **kwargs: Any) -> None:
        self._check_helper(device, dtype, op, variant, "gradcheck", **kwargs)

    def _skip_helper(self, op: Any, device: Any, dtype: Any) -> None:
        if dtype not in op.supported_backward_dtypes(str(device).partition(":")[0]):
            self.skipTest("Skipped! Op doesn't support autograd for this dtype.")
        if not op.supports_autograd and not op.supports_forward_ad:
            self.skipTest("Skipped! autograd not supported.")


def _of_tensors(op: Any, variant: Any, sample: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return a call of an operator as a function of those tensors of a sample that require a gradient, and these."""
    leaves, shape = tree.tree_flatten((sample.input, sample.args, sample.kwargs))
    at = [i for i, x in enumerate(leaves) if isinstance(x, TensorBase) and x.node is not None]

    def fn(*inputs: Any) -> Any:
        given = list(leaves)
        for place, value in zip(at, inputs, strict=True):
            given[place] = value
        first, args, kwargs = tree.tree_unflatten(given, shape)
        made = op.gradcheck_wrapper(variant, first, *args, **kwargs)
        return made if sample.output_process_fn_grad is None else sample.output_process_fn_grad(made)

    return fn, tuple(leaves[i] for i in at)


def outs_and_grads(fn: Any, graph_inps: Any, inps: Any) -> tuple[Any, list[Any]]:
    """Return what a function gives, and the gradients of the sums of it by the inputs."""
    outs = fn(*graph_inps)
    for out in (x for x in tree.tree_leaves(outs) if isinstance(x, TensorBase) and x.node is not None):
        out.sum().backward(retain_graph=True)  # type: ignore[attr-defined]
    tensors: list[Any] = [x for x in tree.tree_leaves(inps) if isinstance(x, TensorBase)]
    grads = [x.grad for x in tensors]
    for x in tensors:
        x.grad = None
    return outs, grads


def compare_equal_outs_and_grads(test: Any, m1: Any, m2: Any, inps: Any) -> None:
    """Fail unless two functions give the same values and gradients."""
    first, second = outs_and_grads(m1, inps, inps), outs_and_grads(m2, inps, inps)
    test.assertEqual(first[0], second[0])
    test.assertEqual(first[1], second[1])
