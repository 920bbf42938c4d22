"""`explain`: the answer, in words, to why a gradient is what it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.tensor import TensorBase
from ..core.views import edge_of
from ..errors import describe, place
from . import gradients, watching
from .gradients import Passage

HUGE, TINY = 1e6, 1e-10

# Why an op may give nothing though something came in.
_REASONS = {
    "Relu": "every input it saw was negative or zero",
    "Threshold": "every input it saw lay below the threshold",
    "Clamp": "every input it saw lay outside the bounds",
    "Hardtanh": "every input it saw lay outside the bounds",
    "Mul": "the other factor is zero everywhere",
    "Mm": "the other matrix is zero everywhere",
    "Sign": "its derivative is zero everywhere",
    "Round": "its derivative is zero everywhere",
    "Floor": "its derivative is zero everywhere",
    "Ceil": "its derivative is zero everywhere",
    "Trunc": "its derivative is zero everywhere",
    "Sigmoid": "it is saturated: its inputs are far from zero",
    "Tanh": "it is saturated: its inputs are far from zero",
    "Softmax": "it is saturated: one class has all of the probability",
    "Where": "none of these elements was chosen",
    "Index": "none of these elements was chosen",
    "Pow": "the base is zero",
}


class Explanation:
    """The answer of `explain`: `status` in one word, `text` in sentences, `places` the lines of the program.

    `status` is ``"none"``, ``"zero"``, ``"nan"``, ``"infinite"``, ``"huge"``, ``"vanishing"`` or ``"fine"``.
    """

    def __init__(self, status: str, text: str, places: list[str]) -> None:
        self.status, self.text, self.places = status, text, places

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Explanation({self.status}): {self.text}"


def explain(loss: Any, x: Any) -> Explanation:
    """Say why the gradient of `loss` with respect to `x` is None, zero, NaN or huge.

    Parameters
    ----------
    loss
        The tensor that was, or will be, differentiated; or a function of `x` that gives it. A function is run and
        watched, and so is what happens inside ``with adjoint.explain.watch():``; then the answer names each line at
        which history was lost. Without a watch it is found from the graph alone.
    x
        The tensor whose gradient is explained.

    Examples
    --------
    >>> x = adjoint.tensor([-1.0, -2.0], requires_grad=True)
    >>> print(adjoint.explain(lambda x: adjoint.relu(x).sum(), x).status)
    zero
    """
    if not isinstance(x, TensorBase):
        raise TypeError(f"explain(loss, x): x must be a tensor, not {type(x).__name__}")
    if not isinstance(loss, TensorBase):
        return _of_function(loss, x)
    problem = _of_leaf(x)
    if problem is not None:
        return problem
    if not gradients.leads_to(loss, x):
        return _no_way(loss, x)
    freed = gradients.is_freed(loss)
    if freed is not None:
        where = place(freed.code, freed.lasti)
        return Explanation(
            "fine" if x._grad is not None else "none",
            f"A path leads from the loss to {describe(x)}, but what it kept was freed by the backward pass started at "
            f"{where}, so gradients on the way cannot be looked at. Call explain before backward(), or use "
            "backward(retain_graph=True).",
            [where or ""],
        )
    seen, g = gradients.passages(loss, x)
    return _of_gradient(loss, x, seen, g)


def _of_function(function: Callable[..., Any], x: Any) -> Explanation:
    if not callable(function):
        raise TypeError(f"explain(loss, x): loss must be a tensor or a function, not {type(function).__name__}")
    with watching.watch():
        loss = function(x)
    if not isinstance(loss, TensorBase):
        return Explanation(
            "none",
            f"The function returned {type(loss).__name__}, not a tensor: its value left the graph."
            + _sentence("It was read into Python by", _watch_reads(x)),
            [],
        )
    return explain(loss, x)


def _of_leaf(x: Any) -> Explanation | None:
    """Return an answer that has nothing to do with the loss: `x` cannot have, or does not keep, a gradient."""
    if edge_of(x) is None:
        if x.array.dtype.kind in "iub":
            return Explanation(
                "none",
                f"{describe(x)} holds integers or truth values, which carry no gradient; convert it: x.float()",
                [],
            )
        return Explanation(
            "none",
            f"{describe(x)} does not require grad: it is neither a leaf with requires_grad=True nor computed from one, "
            "or its history was dropped. Call x.requires_grad_() before it is used." + _found_cut(x),
            [],
        )
    return None


def _found_cut(x: Any) -> str:
    for watch in watching.latest:
        origin = watch.origin(x)
        if origin.cut is not None:
            return f" It lost its history: {watching._verb(origin)} at {origin.place}."
    return ""


def _no_way(loss: Any, x: Any) -> Explanation:
    """Return why no path leads from a loss to `x`."""
    said = []
    places: list[str] = []
    for watch in watching.latest:
        cuts = watch.cuts(loss, x)
        places += [c.rpartition(" at ")[2] for c in cuts]
        if cuts:
            said.append(f"The loss was computed from {describe(x)}, but the path was cut: {'; '.join(cuts)}.")
        elif not watch.depends(loss, x):
            reads = watch.reads_of(x)
            places += [r.rpartition(" at ")[2] for r in reads]
            if reads:
                arrived = _sentence("A NumPy array came back as a tensor at", watch.arrivals)
                said.append(
                    f"A value computed from {describe(x)} was read into Python, by {'; '.join(reads)}; what is "
                    f"computed from it there has no history.{arrived} Stay in tensors."
                )
            elif loss.node is not None or watch.origins:
                said.append(f"The loss was not computed from {describe(x)} at all.")
    if not said:
        said, places = _guess(loss, x)
    return Explanation("none", " ".join(said), places)


def _guess(loss: Any, x: Any) -> tuple[list[str], list[str]]:
    """Return what the graph alone can tell of a missing path."""
    if edge_of(loss) is None:
        kind = "holds integers or truth values" if loss.array.dtype.kind in "iub" else "has no history"
        return [
            f"The loss {kind}: recording was off when it was computed (no_grad), it was detached, or nothing it was "
            "computed from requires grad. Run explain(function, x), or compute the loss inside explain.watch(), "
            "to see where."
        ], []
    users = gradients.users_without_history(loss, x)
    if users:
        titles = [gradients.titled(n) for n in users]
        return [
            f"The loss uses the memory of {describe(x)}, but without its history: {'; '.join(dict.fromkeys(titles))} "
            "took it as a constant. It was detached before that: detach(), .data, or a NumPy array that shares its "
            "memory."
        ], [t.rpartition(" at ")[2] for t in titles]
    return [
        f"No path leads from the loss to {describe(x)}: the loss was not computed from it, or the path was cut on the "
        "way (detach(), no_grad, .item(), NumPy). Run explain(function, x), or compute the loss inside "
        "explain.watch(), to see where."
    ], []


def _watch_reads(x: Any) -> list[str]:
    return [r for watch in watching.latest for r in watch.reads_of(x)]


def _sentence(start: str, items: list[str]) -> str:
    return f" {start} {'; '.join(dict.fromkeys(items))}." if items else ""


# --- A path is there ---------------------------------------------------------------------------------


def _of_gradient(loss: Any, x: Any, seen: list[Passage], g: Any) -> Explanation:
    if g is None or (any(p.refused for p in seen) and not _magnitude(g)):
        return _refused(x, seen)
    magnitude = _magnitude(g)
    if np.isnan(magnitude):
        return _nan(loss, x, seen)
    if np.isinf(magnitude):
        first = [p for p in seen if np.isfinite(p.entered) and np.isinf(p.left)]
        return _say("infinite", f"The gradient of {describe(x)} is infinite: ", "first in the backward of", first[:1])
    if magnitude == 0:
        return _zero(x, seen)
    if magnitude > HUGE or magnitude < TINY:
        return _extreme(x, seen, magnitude)
    keeps = x.is_leaf or x.retains_grad
    hint = "" if keeps else " x is no leaf, so .grad stays None unless x.retain_grad() is called before backward()."
    return Explanation("fine", f"{describe(x)} gets a gradient, of largest magnitude {magnitude:.3g}.{hint}", [])


def _magnitude(g: Any) -> float:
    return gradients.size([g])


def _say(status: str, start: str, how: str, found: list[Passage], end: str = "") -> Explanation:
    titles = [p.title for p in found]
    text = f"{start}{how} {'; '.join(titles)}.{end}" if titles else f"{start.rstrip(': ')}.{end}"
    return Explanation(status, text, [t.rpartition(" at ")[2] for t in titles])


def _refused(x: Any, seen: list[Passage]) -> Explanation:
    return _say(
        "none",
        f"No gradient arrives at {describe(x)}: ",
        "its backward returned None in",
        [p for p in seen if p.refused],
        " A custom Function's backward must return a gradient for each input that requires one.",
    )


def _nan(loss: Any, x: Any, seen: list[Passage]) -> Explanation:
    for watch in watching.latest:
        made = [o for o in watching._leading_to(watch.origin(loss), watch.origin(x)) if o.nan]
        if made:
            return Explanation(
                "nan",
                f"The gradient of {describe(x)} is NaN because the forward pass made one: {made[0].made_by} at "
                f"{made[0].place} gave NaN from inputs without one.",
                [made[0].place],
            )
    maker = gradients.first_nan(loss)
    if maker is not None:
        title = gradients.titled(maker)
        return Explanation(
            "nan", f"The gradient of {describe(x)} is NaN because the forward pass made one, in {title}.",
            [title.rpartition(" at ")[2]],
        )  # fmt: skip
    first = [p for p in seen if not np.isnan(p.entered) and np.isnan(p.left)]
    if not first:
        return _say(
            "nan", f"The gradient of {describe(x)} is NaN, because infinite gradients cancel where they meet: ",
            "first infinite in the backward of", [p for p in seen if np.isfinite(p.entered) and np.isinf(p.left)][:1],
        )  # fmt: skip
    return _say(
        "nan", f"The gradient of {describe(x)} is NaN, though the forward pass has none: ", "first in the backward of",
        first[:1], _nan_reason(first[:1]),
    )  # fmt: skip


def _nan_reason(first: list[Passage]) -> str:
    if not first:
        return ""
    name = first[0].title
    if np.isinf(first[0].entered):
        return " An infinite gradient came in, and infinity times zero is NaN."
    if name.startswith(("Sqrt", "Pow", "LinalgVectorNorm", "Norm", "Div", "Log")):
        return " Its derivative is infinite at zero, and zero times infinity is NaN: add a small number first."
    return ""


def _zero(x: Any, seen: list[Passage]) -> Explanation:
    stops = [p for p in seen if p.entered > 0 and p.left == 0]
    if not stops:
        return Explanation("zero", f"The gradient of {describe(x)} is zero: what arrives at it cancels out.", [])
    reasons = []
    for p in stops:
        why = next((r for key, r in _REASONS.items() if p.title.startswith(key)), "")
        reasons.append(f"{p.title}{f' ({why})' if why else ''}")
    return Explanation(
        "zero",
        f"The gradient of {describe(x)} is zero: it becomes zero in the backward of {'; '.join(reasons)}.",
        [p.title.rpartition(" at ")[2] for p in stops],
    )


def _extreme(x: Any, seen: list[Passage], magnitude: float) -> Explanation:
    def change(p: Passage) -> float:
        return p.left / p.entered if p.entered > 0 and p.left > 0 else 1.0

    grows = magnitude > HUGE
    steep = sorted(seen, key=change, reverse=grows)[:3]
    steep = [p for p in steep if (change(p) > 2 if grows else change(p) < 0.5)]
    steps = "; ".join(f"{p.title} (times {change(p):.2g})" for p in steep) or "many small steps"
    status, word = ("huge", "grows") if grows else ("vanishing", "shrinks")
    return Explanation(
        status,
        f"The gradient of {describe(x)} {word} to {magnitude:.3g}; most of it in the backward of {steps}, over "
        f"{len(seen)} ops.",
        [p.title.rpartition(" at ")[2] for p in steep],
    )


explain.watch = watching.watch  # type: ignore[attr-defined]
