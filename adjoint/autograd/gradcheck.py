"""Gradients against finite differences: `gradcheck` and `gradgradcheck`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .._typing import Tensor
from ..core import device as devices
from ..core.nodes import differentiable, wrap
from ..core.tensor import TensorBase
from ..ops import create, create_like
from .differentiate import grad
from .function import Function
from .jacobians import (
    NOTHING_REQUIRES,
    PARTS,
    GradcheckError,
    Subject,
    analytical_jacobian,
    as_tuple,
    check_step,
    checked_gradient,
    difference,
    distance,
    forward_jacobian,
    gradients,
    joined_parts,
    numerical_jacobian,
    on_cpu,
    parts_of,
    placed,
    pushed,
    replaced,
    tensors_in,
)

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]

# --- Comparing --------------------------------------------------------------------------------------


def _close(analytical: Any, numerical: Any, rtol: float, atol: float) -> bool:
    return bool(np.allclose(analytical, numerical, rtol, atol))


def _mismatch(
    analytical: Any, numerical: Any, output: int, index: int, part: str, is_complex: bool, mode: str = ""
) -> str:
    words = {"real": "real", "imag": "imaginary"}[part]
    start = f"While considering the {words} part of complex outputs only, " if is_complex else ""
    with np.errstate(invalid="ignore"):
        apart = np.abs(np.asarray(analytical) - np.asarray(numerical))
    worst = ""
    if apart.ndim == 2 and apart.size:
        at = np.unravel_index(int(np.argmax(np.nan_to_num(apart, nan=np.inf))), apart.shape)
        worst = (
            f"The greatest difference is {float(apart[at]):.6g}, between input element {int(at[0])} and "
            f"output element {int(at[1])}.\n"
        )
    return (
        f"{start}Jacobian {mode}mismatch for output {output} with respect to input {index},\n"
        f"numerical:{create.tensor(numerical)}\nanalytical:{create.tensor(analytical)}\n{worst}"
    )


_FORWARD = "computed with forward mode "
_NOT_REENTRANT = (
    "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives "
    "different values, although analytical gradient matches numerical gradient. "
    "The tolerance for nondeterminism was {}."
)


def _check_slow(
    subject: Subject, outputs: list[Tensor], eps: float, rtol: float, atol: float, nondet_tol: float,
    check_dtypes: bool, backward: bool, forward: bool,
) -> None:  # fmt: skip
    numerical = [numerical_jacobian(subject, x, eps) for x in subject.checked]
    if forward:
        for i, x in enumerate(subject.checked):
            pushed = forward_jacobian(subject, x)
            for k, out in enumerate(outputs):
                for part in parts_of(out):
                    a, n = joined_parts(*pushed[k], part), joined_parts(*numerical[i][k], part)
                    if not _close(a, n, rtol, atol):
                        raise GradcheckError(_mismatch(a, n, k, i, part, len(parts_of(out)) > 1, _FORWARD))
    if not backward:
        return
    for k, out in enumerate(outputs):
        for part in parts_of(out):
            analytical, apart = analytical_jacobian(out, subject.checked, part, check_dtypes)
            if apart > nondet_tol:
                raise GradcheckError(_NOT_REENTRANT.format(nondet_tol))
            for i, a in enumerate(analytical):
                n = joined_parts(*numerical[i][k], part)
                if not _close(a, n, rtol, atol):
                    raise GradcheckError(_mismatch(a, n, k, i, part, len(parts_of(out)) > 1))


# --- Fast mode: one random combination of each Jacobian ---------------------------------------------


def _direction(x: Tensor, random: np.random.Generator) -> Any:
    """Return a random unit vector with positive entries, complex where `x` is."""
    made = random.uniform(size=x.array.size)
    if x.array.dtype.kind == "c":
        made = made + 1j * random.uniform(size=x.array.size)
    length = np.linalg.norm(made)
    return made / length if length else made


def _check_fast(
    subject: Subject, outputs: list[Tensor], eps: float, rtol: float, atol: float, nondet_tol: float,
    check_dtypes: bool, backward: bool, forward: bool,
) -> None:  # fmt: skip
    random = np.random.default_rng(0)
    us = [_direction(x, random) for x in subject.checked]
    vs = [np.abs(_direction(out, random)) for out in outputs]
    pairs = list(zip(subject.checked, us, strict=True))
    numerical = [difference(subject, x, eps * u.reshape(x.array.shape), eps) for x, u in pairs]

    def compare(a: Any, i: int, k: int, part: str, mode: str) -> None:
        n = float((vs[k] * PARTS[part](numerical[i][k])).sum())
        # As if every entry of the Jacobian were off by `atol`.
        slack = atol * float(np.abs(us[i]).sum()) * float(vs[k].sum())
        if not _close(a, n, rtol, slack):
            text = _mismatch(np.float64(a), np.float64(n), k, i, part, len(parts_of(outputs[k])) > 1, mode)
            story = _slow_story(subject, outputs[k], i, k, part, eps, rtol, atol, bool(mode))
            raise GradcheckError(text + story)

    if forward:
        for i, (x, u) in enumerate(pairs):
            tangents = pushed(subject, {id(x): placed(u, x)})
            for k, out in enumerate(outputs):
                for part in parts_of(out):
                    a = float((vs[k] * PARTS[part](tangents[k])).sum())
                    compare(a, i, k, part, _FORWARD)
    if not backward:
        return
    for k, out in enumerate(outputs):
        for part in parts_of(out):
            start = placed(vs[k] * (1.0 if part == "real" else 1j), out)
            first, second = (
                [checked_gradient(g, x, check_dtypes) for g, x in zip(found, subject.checked, strict=True)]
                for found in (gradients(out, subject.checked, start) for _ in range(2))
            )
            if max(map(distance, first, second)) > nondet_tol:
                raise GradcheckError(_NOT_REENTRANT.format(nondet_tol))
            for i, one in enumerate(first):
                compare(float(np.real(np.conj(one) * us[i]).sum()), i, k, part, "")


def _slow_story(
    subject: Subject, output: Tensor, i: int, k: int, part: str, eps: float, rtol: float, atol: float,
    forward: bool,
) -> str:  # fmt: skip
    """Return what slow mode says about a pair that fast mode found wrong."""
    x = subject.checked[i]
    n = joined_parts(*numerical_jacobian(subject, x, eps)[k], part)
    a = (
        joined_parts(*forward_jacobian(subject, x)[k], part)
        if forward
        else analytical_jacobian(output, [x], part, False)[0][0]
    )
    story = (
        "\nThe above are random combinations of the entries of the Jacobians (fast mode). Entry by entry "
        f"(slow mode):\n\nNumerical:\n{create.tensor(n)}\nAnalytical:\n{create.tensor(a)}\n\n"
        f"The max per-element difference (slow mode) is: {distance(a, n)}.\n"
    )
    if _close(a, n, rtol, atol):
        story += (
            "Fast gradcheck failed but element-wise differences are small. This means that the test might've "
            "passed in slow_mode!\n"
        )
    return story


# --- What else must hold ----------------------------------------------------------------------------


def _by_values(func: Callable[..., Any], inputs: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return a function of the values that sparse inputs specify, where there are such, and these in their places."""
    given = as_tuple(inputs)
    sparse = {i: _coalesced(x) for i, x in enumerate(given) if isinstance(x, TensorBase) and _is_sparse(x)}
    if not sparse:
        return func, given
    values = [
        sparse[i].values().clone().requires_grad_(x.requires_grad) if i in sparse else x for i, x in enumerate(given)
    ]

    def of_values(*arguments: Any) -> Any:
        return func(*(_like(sparse[i], a) if i in sparse else a for i, a in enumerate(arguments)))

    return of_values, tuple(values)


def _coalesced(x: Any) -> Any:
    return x.detach().coalesce() if x.is_sparse else x.detach()


def _is_sparse(x: Any) -> bool:
    return "strided" not in str(x.layout)


def _like(pattern: Any, values: Any) -> Any:
    """Return a sparse tensor with other values where `pattern` has its own."""
    from .. import sparse  # it stands below autograd, and only sparse inputs need it

    if pattern.is_sparse:
        return sparse.sparse_coo_tensor(pattern.indices(), values, pattern.shape)
    by_rows = "csr" in str(pattern.layout) or "bsr" in str(pattern.layout)
    names = ("crow_indices", "col_indices") if by_rows else ("ccol_indices", "row_indices")
    compressed, plain = (getattr(pattern, name)() for name in names)
    return sparse.sparse_compressed_tensor(compressed, plain, values, pattern.shape, layout=pattern.layout)


def _check_inputs(subject: Subject) -> None:
    if any(_is_sparse(out) for out in subject.first):
        raise ValueError(
            "Sparse output is not supported at gradcheck yet. Please call to_dense(masked_grad=...) on the output of "
            "fn for gradcheck."
        )
    for i, x in enumerate(subject.checked):
        if x.dtype.to_real().name != "float64":
            warnings.warn(
                f"Input #{i} requires gradient and is not a double precision floating point or complex. This "
                "check will likely fail if all the inputs are not of double precision floating point or "
                "complex.",
                UserWarning,
                stacklevel=3,
            )
        if x.array.size and any(s == 0 and n > 1 for s, n in zip(x.array.strides, x.array.shape, strict=True)):
            raise RuntimeError(
                f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                "non-overlapping to be able to compute the numerical gradients correctly. You should call "
                ".contiguous on the input before passing it to gradcheck."
            )


def _check_nothing_differentiable(subject: Subject, eps: float, atol: float) -> None:
    for x in subject.checked:
        for out, (along_x, along_y) in zip(subject.first, numerical_jacobian(subject, x, eps), strict=True):
            if not differentiable(out.array.dtype):
                continue
            if not _close(along_x, 0, 0, atol) or not _close(0 if along_y is None else along_y, 0, 0, atol):
                raise GradcheckError(
                    "Numerical gradient for function expected to be zero: none of its outputs requires grad, "
                    "and yet they change with the inputs"
                )


def _check_zero_start(subject: Subject) -> None:
    outputs = subject.outputs()
    starts = [create_like.zeros_like(o) for o in outputs]
    for g, x in zip(grad(outputs, subject.checked, starts, allow_unused=True), subject.checked, strict=True):
        if g is not None and np.any(checked_gradient(g, x, False)):
            raise GradcheckError("backward not multiplied by grad_output: grad_output was zeros, the gradient is not")


class _Undefined(Function):
    """The identity, through which no gradient comes back."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: Any) -> None:
        return None


def _check_undefined(subject: Subject) -> None:
    """Check that a backward rule takes gradients that are None, for all outputs or one, as zeros."""
    count = len(subject.where)
    choices = [tuple(range(count))] + ([(k,) for k in range(count)] if count > 1 else [])
    for chosen in choices:
        outputs = subject.outputs()
        roots = [_Undefined.apply(o) if k in chosen else o for k, o in enumerate(outputs)]
        starts = [create_like.zeros_like(o) for o in roots]
        try:
            found = grad(roots, subject.checked, starts, allow_unused=True)
        except RuntimeError as error:
            _warn_of_undefined()
            raise GradcheckError(
                "Expected backward function to handle undefined output grads. Given None for the gradient of "
                f"an output that nothing depends on, it raised {type(error).__name__}: {error}"
            ) from error
        for g, x in zip(found, subject.checked, strict=True):
            if g is not None and np.any(checked_gradient(g, x, False)):
                _warn_of_undefined()
                raise GradcheckError(
                    "Expected all input grads to be undefined or zero when all output grads are undefined or zero. "
                    "A backward that gets None returns None, or zeros"
                )


def _warn_of_undefined() -> None:
    warnings.warn(
        "Backwards compatibility: New undefined gradient support checking feature is enabled by default, but it may "
        "break existing callers of this function. If this is true for you, you can call this function with "
        '"check_undefined_grad=False" to disable the feature',
        stacklevel=3,
    )


def _check_undefined_forward(subject: Subject) -> None:
    """Check that an input without a tangent counts as one with a tangent of zeros."""
    random = np.random.default_rng(2)
    tangents = {id(x): placed(_direction(x, random), x) for x in subject.checked}
    for i, x in enumerate(subject.checked):
        some = {key: t for key, t in tangents.items() if key != id(x)}
        without = pushed(subject, some)
        zeros = pushed(subject, some | {id(x): create_like.zeros_like(x.detach())})
        for k, (a, b) in enumerate(zip(without, zeros, strict=True)):
            if distance(a, b):
                raise GradcheckError(
                    f"Mismatch in tangent values for output with index: {k} when input: {i} has an undefined tangent "
                    "value. It must count as one of zeros"
                )


def _check_batched(subject: Subject, rtol: float, atol: float) -> None:
    """Check a batch of gradients gone through together against one by one."""
    random = np.random.default_rng(3)
    for k, out in enumerate(subject.outputs()):
        starts = [placed(_direction(out, random), out) for _ in range(2)]
        one_by_one = [gradients(out, subject.checked, s) for s in starts]
        both = wrap(devices.module_of(out.array).stack([s.array for s in starts]))
        try:
            together = grad(out, subject.checked, both, True, allow_unused=True, is_grads_batched=True)
        except RuntimeError as error:
            raise GradcheckError(
                f"While computing batched gradients, got: {error}\n\ngradcheck was called with "
                "check_batched_grad=True, which sends two gradients through backward together"
            ) from error
        for i, g in enumerate(together):
            pair = [p[i] for p in one_by_one]
            if g is None or None in pair:
                same = g is None and pair == [None, None]
                expected: Any = None
            else:
                expected = np.concatenate([on_cpu(p) for p in pair])
                same = _close(on_cpu(g), expected, rtol, atol)
            if not same:
                raise GradcheckError(
                    f"For output {k} and input {i}: batched gradients differ from those computed one by one"
                    f"\n\ngot:\n{g}\n\nexpected:\n{expected}\n"
                )


def _check_batched_forward(subject: Subject, rtol: float, atol: float) -> None:
    """Check a batch of tangents pushed together against one by one."""
    from .. import func  # type: ignore[attr-defined, unused-ignore]
    from . import forward_ad

    random = np.random.default_rng(4)
    for i, x in enumerate(subject.checked):
        tangents = [placed(_direction(x, random), x) for _ in range(2)]
        expected = [pushed(subject, {id(x): t}) for t in tangents]

        def push(tangent: Any, x: Any = x) -> Any:
            with forward_ad.dual_level():
                dual = forward_ad.make_dual(x.detach(), tangent)
                outs = subject.outputs_of(replaced(subject.inputs, {id(x): dual}))
                found = [forward_ad.unpack_dual(o) for o in outs]
                return tuple(create_like.zeros_like(f.primal) if f.tangent is None else f.tangent for f in found)

        both = wrap(devices.module_of(x.array).stack([t.array for t in tangents]))
        try:
            together = func.vmap(push)(both)
        except RuntimeError as error:
            raise GradcheckError(
                f"While computing batched gradients, got: {error}\n\ngradcheck was called with "
                "check_batched_forward_grad=True, which pushes two tangents together through vmap"
            ) from error
        for k, g in enumerate(together):
            if not _close(on_cpu(g), np.concatenate([e[k] for e in expected]), rtol, atol):
                raise GradcheckError(
                    f"For output {k} and input {i}: batched tangents differ from those computed one by one\n\n{g}"
                )


# --- The two public functions -----------------------------------------------------------------------


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Check the gradients of `func` against finite differences, in double precision.

    Parameters
    ----------
    func : callable
        Takes the inputs, returns a tensor or several; outputs that require no gradient are not checked.
    inputs : Tensor or tuple
        Every tensor in it, or in a list in it, that requires a gradient is checked. Use float64: differences are
        too coarse in float32.
    eps : float, default 1e-6
        The step of the central differences.
    atol, rtol : float, default 1e-5 and 1e-3
        How far the two Jacobians may differ: ``|a - n| <= atol + rtol * |n|``.
    raise_exception : bool, default True
        Raise `GradcheckError` with a description of a failure, instead of returning False.
    nondet_tol : float, default 0.0
        How far two backward passes over the same graph may differ.
    check_undefined_grad : bool, default True
        Whether an output without a gradient (None) must count as one with zeros.
    check_grad_dtypes : bool, default False
        Whether a gradient must have the dtype of its input.
    check_batched_grad, check_batched_forward_grad : bool, default False
        Check also gradients (tangents) that are propagated in a batch.
    check_forward_ad, check_backward_ad : bool, default False and True
        Which of the two modes to check.
    fast_mode : bool, default False
        Compare one random combination of each Jacobian's entries instead of all of them.
    masked : bool, optional
        For sparse inputs: only elements that they specify count, which are the only ones checked either way.

    Returns
    -------
    bool
        Whether all gradients agree.

    Raises
    ------
    GradcheckError
        If a gradient is wrong and `raise_exception` is True; a RuntimeError.

    Examples
    --------
    >>> x = adjoint.tensor([0.5, 2.0], dtype=adjoint.float64, requires_grad=True)
    >>> adjoint.autograd.gradcheck(lambda x: (x * x).exp(), (x,))
    True
    """
    assert check_forward_ad or check_backward_ad, (
        "Expected at least one of check_forward_ad or check_backward_ad to be True"
    )
    assert check_backward_ad or not check_batched_grad, (
        "Setting check_batched_grad=True requires check_backward_ad to be True"
    )
    assert check_forward_ad or not check_batched_forward_grad, (
        "Setting check_batched_forward_grad=True requires check_forward_ad to be True"
    )
    try:
        subject = Subject(*_by_values(func, inputs))
        _check_inputs(subject)
        check_step(eps)
        if not subject.where:
            _check_nothing_differentiable(subject, eps, atol)
            return True
        check = _check_fast if fast_mode else _check_slow
        outputs = subject.outputs()
        modes = check_backward_ad, check_forward_ad
        check(subject, outputs, eps, rtol, atol, nondet_tol, check_grad_dtypes, *modes)
        if check_batched_forward_grad:
            _check_batched_forward(subject, rtol, atol)
        if check_forward_ad and check_undefined_grad and len(subject.checked) > 1:
            _check_undefined_forward(subject)
        if check_backward_ad:
            if check_batched_grad:
                _check_batched(subject, rtol, atol)
            _check_zero_start(subject)
            if check_undefined_grad:
                _check_undefined(subject)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Check the gradients of the gradients of `func`, for its inputs and for `grad_outputs`.

    Parameters
    ----------
    func, inputs, eps, atol, rtol, raise_exception, nondet_tol, fast_mode
        As in `gradcheck`.
    grad_outputs
        The gradient of each output to differentiate from; random if not given.
    gen_non_contig_grad_outputs
        Make the random ones noncontiguous.
    check_fwd_over_rev, check_rev_over_rev
        Differentiate the gradient in forward mode, in reverse mode, or both.

    Examples
    --------
    >>> x = adjoint.tensor([0.5, 2.0], dtype=adjoint.float64, requires_grad=True)
    >>> adjoint.autograd.gradgradcheck(lambda x: x * x * x, x)
    True
    """
    assert check_fwd_over_rev or check_rev_over_rev, (
        "Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True"
    )
    assert check_rev_over_rev or not check_undefined_grad, (
        "Setting check_undefined_grad=True requires check_rev_over_rev to be True"
    )
    assert check_rev_over_rev or not check_batched_grad, (
        "Setting check_batched_grad=True requires check_rev_over_rev to be True"
    )
    arguments = as_tuple(inputs)
    if grad_outputs is None:
        random = np.random.default_rng(5)
        outs = [o for o in as_tuple(func(*arguments)) if isinstance(o, TensorBase)]
        chosen = [o for o in outs if o.requires_grad]  # type: ignore[attr-defined]
        starts = tuple(_random_start(o, random, gen_non_contig_grad_outputs) for o in chosen)
    else:
        starts = as_tuple(grad_outputs)
    if not any(x.requires_grad for x in tensors_in(arguments)):
        raise ValueError(NOTHING_REQUIRES)
    count = len(starts)

    def gradient(*values: Any) -> Any:
        before, after = values[: len(values) - count], values[len(values) - count :]
        outs = [o for o in as_tuple(func(*before)) if isinstance(o, TensorBase)]
        outs = [o for o in outs if o.requires_grad]  # type: ignore[attr-defined]
        wanted = [x for x in tensors_in(before) if x.requires_grad]
        found = grad(outs, wanted, after, create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(
        gradient,
        (*arguments, *starts),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
        masked=masked,
    )


def _random_start(output: Any, random: np.random.Generator, noncontiguous: bool) -> Tensor:
    """Return a random gradient for an output, itself differentiable."""
    size = output.array.size * (2 if noncontiguous else 1)
    values = random.uniform(-1, 1, size)
    if output.array.dtype.kind == "c":
        values = values + 1j * random.uniform(-1, 1, size)
    shape = tuple(output.array.shape)
    array = values.astype(output.array.dtype)
    array = array.reshape(*shape, 2)[..., 0] if noncontiguous else array.reshape(shape)
    made = wrap(devices.place_array(array, devices.of(output.array)))
    create.require_grad(made)
    return made


# --- Names that torch once showed and still has ---------------------------------------------------------


def _warn_of_private(name: str) -> None:
    warnings.warn(
        f"`{name}` was part of PyTorch's private API and not meant to be exposed. We are deprecating it and it will "
        "be removed in a future version of PyTorch.",
        FutureWarning,
        stacklevel=3,
    )


def _whole_jacobian(along_x: Any, along_y: Any) -> Tensor:
    """Return a Jacobian as a tensor; that of a complex input as torch has it, along both axes at once."""
    return wrap(along_x if along_y is None else 0.5 * (along_x + 1j * along_y))


def get_numerical_jacobian(
    fn: Callable[..., Any], inputs: Any, target: Any = None, eps: float = 1e-3, grad_out: float = 1.0
) -> list[Any]:
    """Return the Jacobians of `fn`, which takes the tuple of inputs, by finite differences: one for each input."""
    _warn_of_private("get_numerical_jacobian")
    if grad_out != 1.0:
        raise ValueError(
            "Expected grad_out to be 1.0. get_numerical_jacobian no longer supports values of grad_out != 1.0."
        )
    inputs = as_tuple(inputs)
    targets = inputs if target is None else as_tuple(target)
    subject = Subject(lambda *given: fn(given), inputs)
    return [_whole_jacobian(*pair) for x in targets if x.requires_grad for pair in numerical_jacobian(subject, x, eps)]


def get_numerical_jacobian_wrt_specific_input(
    fn: Callable[..., Any], input_idx: int, inputs: Any, eps: float, grad_out: float = 1.0
) -> list[Any]:
    """Return the Jacobians of the outputs of `fn` by one of its inputs, by finite differences."""
    _warn_of_private("get_numerical_jacobian_wrt_specific_input")
    subject = Subject(fn, inputs)
    return [_whole_jacobian(*pair) for pair in numerical_jacobian(subject, subject.inputs[input_idx], eps)]


def get_analytical_jacobian(inputs: Any, output: Any, nondet_tol: float = 0.0, grad_out: float = 1.0) -> Any:
    """Return Jacobians by the backward pass, and whether passes agree, sizes fit and dtypes do."""
    _warn_of_private("get_analytical_jacobian")
    if grad_out != 1.0:
        raise ValueError(
            "Expected grad_out to be 1.0. get_analytical_jacobian no longer supports values of grad_out != 1.0."
        )
    if output.is_complex():
        raise ValueError(
            "Expected output to be non-complex. get_analytical_jacobian no longer supports functions that return "
            "complex outputs."
        )
    checked = [x for x in tensors_in(as_tuple(inputs)) if x.requires_grad]
    found, apart = analytical_jacobian(output, checked, "real", False)
    return tuple(wrap(np.asarray(jacobian)) for jacobian in found), apart <= nondet_tol, True, True
