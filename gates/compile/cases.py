"""Cases: a world twice, eager and compiled, compared after every call."""

from __future__ import annotations

import traceback
import warnings
from typing import Any

import numpy as np

import adjoint as torch

from .programs import Program
from .training import Training
from .world import CALLS, World

FAMILIES: dict[str, type[Any]] = {"program": Program, "training": Training}


class Wrong(AssertionError):
    """The compiled world differs from the eager one."""


def run_case(family: str, seed: int, backend: Any = None, device: str = "cpu") -> tuple[str, str]:
    """Return the verdict of a case, and why.

    It is right, wrong, crashed, eager, unused (no program ran a second time), alike (both raise) or n/a.
    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with warnings.catch_warnings(record=True), torch.device(device):
            warnings.simplefilter("always")
            return _judged(FAMILIES[family](seed), FAMILIES[family](seed), backend)
    finally:
        torch.set_default_dtype(before)


def _judged(eager: World, world: World, backend: Any) -> tuple[str, str]:
    compiled = world.compile(backend=backend)
    for number in range(CALLS):
        expected, error = _attempt(eager, number)
        found, mine = _attempt(world, number)
        if error is not None or mine is not None:
            return _raised(error, mine, number, world.way)
        try:
            compare({**found, **world.state()}, {**expected, **eager.state()}, f"call {number}")
        except Wrong as wrong:
            return "wrong", str(wrong)
        except Exception as late:  # of a GPU, which reports an error at a synchronization
            return "crashed", f"call {number}: {type(late).__name__}: {late}"[:400]
    core = _core(compiled)
    if core.refused:
        return "eager", core.refused
    return ("right", "") if any(trace.calls for trace in core.traces) else ("unused", "; ".join(core.reasons)[:200])


def _attempt(world: World, number: int) -> tuple[dict[str, Any], Exception | None]:
    try:
        return world.call(number), None
    except Exception as error:
        return {}, error


def _raised(error: Exception | None, mine: Exception | None, number: int, way: str) -> tuple[str, str]:
    """Return the verdict of a case in which eager code, or compiled code, or both, have raised."""
    if error is None:
        if way == "fullgraph" and "cannot compile" in str(mine):
            return "eager", str(mine)
        lines = "".join(traceback.format_exception(mine)[-3:])[:500]
        return "crashed", f"call {number}: {type(mine).__name__}: {str(mine)[:200]} | {lines}"
    if mine is None:
        return "wrong", f"call {number}: eager raises {type(error).__name__}: {error}"[:300]
    if type(mine) is not type(error):
        both = f"raises {type(mine).__name__}: {mine}; eager {type(error).__name__}: {error}"
        return "crashed", f"call {number}: {both}"[:400]
    return ("n/a" if number == 0 else "alike"), str(error)[:200]


def _core(compiled: Any) -> Any:
    """Return the object that has the programs."""
    for name in ("_compiled", "_compiled_call_impl", "compiled"):
        inner = getattr(compiled, name, None)
        if inner is not None:
            return inner
    return compiled


def compare(found: Any, expected: Any, where: str) -> None:
    """Raise where two trees differ by more than rounding."""
    if isinstance(expected, torch.Tensor):
        _compare_tensors(found, expected, where)
    elif isinstance(expected, dict):
        if not isinstance(found, dict) or list(found) != list(expected):
            raise Wrong(f"{where}: keys differ")
        for key in expected:
            if expected[key] is None and key.endswith(".grad") and found[key] is not None and not found[key].any():
                continue  # zeros for none, as torch has them where an op without a gradient stands in between
            compare(found[key], expected[key], f"{where}.{key}")
    elif isinstance(expected, list | tuple):
        if type(found) is not type(expected) or len(found) != len(expected):
            raise Wrong(f"{where}: another sequence")
        for i, (a, b) in enumerate(zip(found, expected, strict=True)):
            compare(a, b, f"{where}[{i}]")
    elif isinstance(expected, float) and isinstance(found, float):
        if not np.isclose(found, expected, rtol=1e-5, atol=1e-7, equal_nan=True):
            raise Wrong(f"{where}: {found}, eager {expected}")
    elif type(found) is not type(expected) or (found is not expected and not callable(expected) and found != expected):
        raise Wrong(f"{where}: {_described(found)}, eager {_described(expected)}")


def _compare_tensors(found: Any, expected: Any, where: str) -> None:
    if not isinstance(found, torch.Tensor) or _described(found) != _described(expected):
        raise Wrong(f"{where}: {_described(found)}, eager {_described(expected)}")
    if expected.is_contiguous() and not found.is_contiguous():
        raise Wrong(f"{where}: strides {found.stride()}, eager {expected.stride()}")
    a, b = (t.detach().cpu().double().numpy() for t in (found, expected))
    if not np.allclose(a, b, rtol=1e-5, atol=1e-7, equal_nan=True):
        raise Wrong(f"{where}: differs by {np.nanmax(np.abs(a - b)):.3g}")
    if found.requires_grad != expected.requires_grad:
        raise Wrong(f"{where}: requires_grad is {found.requires_grad}, eager {expected.requires_grad}")


def _described(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)} {value.device}" if isinstance(value, torch.Tensor) else repr(value)[:60]
