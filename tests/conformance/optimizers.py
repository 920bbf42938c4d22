"""torch's `optim_db` on adjoint: every optimizer with every option set, 50 steps, side by side in float64.

    python -m tests.conformance.optimizers

prints a line for each optimizer and, for what differs, where and by how much.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

STEPS = 50
TOLERANCE = 1e-9
# Muon makes its steps orthogonal in bfloat16, whose last bit depends on the order of a sum: a step of size lr
# may differ by one part in 256, and differences add up.
BFLOAT16 = {"Muon": 2.0**-8}


@dataclass
class Case:
    """One optimizer with one set of options, as the database gives them."""

    name: str
    kwargs: dict[str, Any]
    description: str
    closure: bool
    sparse: bool
    error: Any = None  # of a case that must fail: the database's error input

    def __str__(self) -> str:
        return f"{self.name}({self.description})"


def database() -> list[Any]:
    from torch.testing._internal.common_optimizers import optim_db

    return list(optim_db)


# Ways of running a step that torch offers, which must not change it: option, and the optimizers that take it.
FORMS: dict[str, Callable[[Any], bool]] = {
    "foreach": lambda info: "foreach" in info.supported_impls,
    "differentiable": lambda info: "differentiable" in info.supported_impls,
    "fused": lambda info: "fused" in info.supported_impls,
}


def cases() -> Iterator[Case]:
    """Yield every option set of every optimizer, plain and in the other forms of the step."""
    for info in database():
        name = info.optim_cls.__name__
        for given in info.optim_inputs_func(device="cpu"):
            plain = Case(name, given.kwargs, given.desc, info.step_requires_closure, info.only_supports_sparse_grads)
            yield plain
            for form, takes in FORMS.items():
                if takes(info) and not ("lr" in given.kwargs and not isinstance(given.kwargs["lr"], float)):
                    yield Case(name, {**given.kwargs, form: True}, f"{given.desc}, {form}", plain.closure, plain.sparse)


def error_cases() -> Iterator[Case]:
    """Yield every input that an optimizer must refuse."""
    import torch

    for info in database():
        for wrong in info.optim_error_inputs_func("cpu", torch.float64):
            given = wrong.optimizer_error_input
            name = info.optim_cls.__name__
            yield Case(name, given.kwargs, given.desc, info.step_requires_closure, False, wrong)


def shapes_for(case: Case) -> list[tuple[int, ...]]:
    if case.name == "Muon":
        return [(3, 4), (5, 2), (1, 1)]
    # Small ones, which are packed, a scalar among them; and, in the plain form of a step, one of several blocks.
    small: list[tuple[int, ...]] = [(3, 4), (5,), (), (2, 2, 2)]
    return small if case.closure or any(form in case.kwargs for form in FORMS) else [*small, (210, 160)]


def translated(module: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    def translate(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(translate, value))
        if not hasattr(value, "detach"):
            return value
        return module.tensor(value.tolist(), dtype=getattr(module, str(value.dtype).split(".")[1]))

    return {key: translate(value) for key, value in kwargs.items()}


def starts(case: Case) -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    return [rng.normal(size=shape) for shape in shapes_for(case)]


def loss_of(module: Any, params: list[Any], step: int) -> Any:
    """A smooth loss that changes from step to step, as with batches."""
    total = 0.0
    for i, p in enumerate(params):
        total = total + ((p - 0.3 * i) ** 2).sum() * (1 + 0.1 * (step % 3)) + module.sin(3.0 * p + step).sum()
    return total


def convex_loss_of(params: list[Any]) -> Any:
    """A loss for methods that guess its curvature: where it is not convex, they amplify the last bit."""
    return sum(((1 + i) * (p - 0.3 * i) ** 2).sum() + (p**4).sum() for i, p in enumerate(params))


def trajectory(module: Any, case: Case) -> list[list[np.ndarray]]:
    """Return the parameters after every step.

    In double precision throughout: in some of its forms torch computes with step counts, which are tensors of the
    default dtype, and in single precision would round there what the plain form does not.
    """
    default = module.get_default_dtype()
    module.set_default_dtype(module.float64 if any(form in case.kwargs for form in FORMS) else default)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The .grad attribute of a Tensor that is not a leaf", UserWarning)
            return _trajectory(module, case)
    finally:
        module.set_default_dtype(default)


def _trajectory(module: Any, case: Case) -> list[list[np.ndarray]]:
    kwargs = translated(module, case.kwargs)
    if case.sparse:
        return sparse_trajectory(module, case, kwargs)
    params = [module.tensor(a, dtype=module.float64, requires_grad=True) for a in starts(case)]
    if kwargs.get("differentiable"):
        params = [p.clone() for p in params]  # an update that is recorded needs what is not a leaf
    optimizer = getattr(module.optim, case.name)(params, **kwargs)
    path = []
    for step in range(10 if any(form in kwargs for form in FORMS) else STEPS):
        if case.closure:

            def closure() -> Any:
                optimizer.zero_grad()
                loss = convex_loss_of(params)
                loss.backward()
                return loss

            optimizer.step(closure)
        else:
            leaves = [p.detach().clone().requires_grad_() for p in params]
            grads = module.autograd.grad(loss_of(module, leaves, step), leaves)
            for p, g in zip(params, grads):
                p.grad = g
            if step % 5 == 4:
                params[1].grad = None  # a parameter that a batch does not touch falls behind
            optimizer.step()
        path.append([p.detach().numpy().copy() for p in params])
    return path


def sparse_trajectory(module: Any, case: Case, kwargs: dict[str, Any]) -> list[list[np.ndarray]]:
    rng = np.random.default_rng(3)
    table = module.tensor(rng.normal(size=(10, 3)), dtype=module.float64, requires_grad=True)
    optimizer = getattr(module.optim, case.name)([table], **kwargs)
    path = []
    for _ in range(STEPS):
        rows, values = rng.integers(0, 10, 4), rng.normal(size=(4, 3))
        table.grad = module.sparse_coo_tensor(
            module.tensor(rows[None]), module.tensor(values, dtype=module.float64), (10, 3)
        )
        optimizer.step()
        path.append([table.detach().numpy().copy()])
    return path


def difference(ours: Any, theirs: Any, case: Case) -> str | None:
    """Return where two runs part, or None."""
    mine, other = trajectory(ours, case), trajectory(theirs, case)
    lr = float(translated(theirs, case.kwargs).get("lr", 1e-3))
    allowed = TOLERANCE if case.name not in BFLOAT16 else STEPS * lr * BFLOAT16[case.name]
    for step, (a, b) in enumerate(zip(mine, other, strict=True)):
        for index, (x, y) in enumerate(zip(a, b, strict=True)):
            gap = float(np.max(np.abs(x - y) / np.maximum(1.0, np.abs(y)), initial=0.0))
            if not gap <= allowed:
                return f"step {step}, parameter {index}: {gap:.2e} apart"
    return None


def refusal(module: Any, case: Case) -> str | None:
    """Return what is wrong with how an input is refused, or None."""
    given = case.error.optimizer_error_input
    kwargs = translated(module, given.kwargs)
    params = [] if given.params is None else _translated_params(module, given.params)
    if given.params is None or (isinstance(params, list) and not params):
        params = [module.nn.Parameter(module.ones(2, 2))]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            optimizer = getattr(module.optim, case.name)(params, **kwargs)
            optimizer.step()
    except Exception as error:
        wanted = case.error.error_type
        if not isinstance(error, wanted):
            return f"{type(error).__name__} instead of {wanted.__name__}: {error}"
        return None if re.search(case.error.error_regex, str(error)) else f"says {error}"
    return "no error"


def _translated_params(module: Any, params: Any) -> Any:
    known: dict[int, Any] = {}

    def translate(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: translate(v) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(map(translate, value))
        if not hasattr(value, "detach"):
            return value
        if id(value) not in known:
            if value.is_sparse:
                value = value.coalesce()
                made = module.sparse_coo_tensor(
                    module.tensor(value.indices().tolist()), module.tensor(value.values().tolist()), tuple(value.shape)
                )
            else:
                dtype = getattr(module, str(value.dtype).split(".")[1])
                made = module.tensor(value.tolist(), dtype=dtype, requires_grad=value.requires_grad)
                if value.grad is not None:
                    made.grad = module.tensor(value.grad.tolist(), dtype=dtype)
            known[id(value)] = made
        return known[id(value)]

    return translate(params)


def main() -> None:
    import torch

    import adjoint

    totals: dict[str, list[int]] = {}
    checks = [(c, difference) for c in cases()] + [(c, lambda o, t, c: refusal(o, c)) for c in error_cases()]
    for case, check in checks:
        try:
            problem = check(adjoint, torch, case)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        count = totals.setdefault(case.name, [0, 0])
        count[0] += problem is None
        count[1] += 1
        if problem is not None:
            print(f"{case}: {problem[:300]}")
    for name, (passed, total) in totals.items():
        print(f"{name:12} {passed:3} of {total:3}")
    print(f"{sum(p for p, _ in totals.values())} of {sum(t for _, t in totals.values())} checks")


if __name__ == "__main__":
    main()
