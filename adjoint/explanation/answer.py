"""`explain`: describe in words why a gradient is what it is."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.tensor import TensorBase
from ..core.views import edge_of
from ..errors import place
from ..notebook import preformatted
from . import gradients, reasons, watching
from .gradients import Passage
from .naming import Names
from .watching import Watch

HUGE, TINY = 1e6, 1e-10


class Explanation:
    """The result of `explain`: `status` in one word, `text` in sentences, `places` the lines of the program.

    `status` is ``"none"``, ``"zero"``, ``"nan"``, ``"infinite"``, ``"huge"``, ``"vanishing"`` or ``"fine"``.
    """

    def __init__(self, status: str, text: str, places: list[str]) -> None:
        self.status, self.text, self.places = status, text, places

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return preformatted(f"Gradient: {self.status}", self.text)

    def __repr__(self) -> str:
        return f"Explanation({self.status}): {self.text}"


def explain(loss: Any, x: Any) -> Explanation:
    """Say why the gradient of `loss` with respect to `x` is None, zero, NaN or huge.

    Parameters
    ----------
    loss
        The tensor that was, or will be, differentiated; or a function of `x` that gives it. A function is run and
        watched, and so is what happens inside ``with adjoint.explain.watch():``; then the result names each line at
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
    names = Names(sys._getframe(1))
    if not isinstance(loss, TensorBase):
        return _of_function(loss, x, names)
    return _of_tensor(loss, x, names, [w for w in watching.latest if w.knows(loss)])


def _of_tensor(loss: Any, x: Any, names: Names, watches: list[Watch]) -> Explanation:
    """Explain with the watches that saw the loss being made; an older one knows nothing of it."""
    problem = _of_leaf(x, names)
    if problem is not None:
        return problem
    if not gradients.leads_to(loss, x):
        return _no_path(loss, x, names, watches)
    freed = gradients.is_freed(loss)
    if freed is not None:
        where = place(freed.code, freed.lasti)
        return Explanation(
            "fine" if x._grad is not None else "none",
            f"A path leads from the loss to {names.of(x)}, but the values it saved were freed by the backward pass "
            f"started at {where}, so the gradients along it cannot be computed again. Call explain before "
            f"backward(), or use "
            "backward(retain_graph=True).",
            [where or ""],
        )
    seen, g = gradients.passages(loss, x)
    return _of_gradient(loss, x, seen, g, names, watches)


def _of_function(function: Callable[..., Any], x: Any, names: Names) -> Explanation:
    if not callable(function):
        raise TypeError(f"explain(loss, x): loss must be a tensor or a function, not {type(function).__name__}")
    with watching.watch() as watch:
        loss = function(x)
    if not isinstance(loss, TensorBase):
        return Explanation(
            "none",
            f"The function returned {type(loss).__name__}, not a tensor: its value left the graph."
            + _sentence("It was read into Python by", watch.reads_of(x)),
            [],
        )
    return _of_tensor(loss, x, names, [watch])


def _of_leaf(x: Any, names: Names) -> Explanation | None:
    """Return an explanation that does not depend on the loss: `x` cannot have a gradient, or does not retain it."""
    if edge_of(x) is None:
        if x.array.dtype.kind in "iub":
            return Explanation(
                "none",
                f"{names.of(x)} holds integers or booleans, which carry no gradient; convert it: x.float()",
                [],
            )
        return Explanation(
            "none",
            f"{names.of(x)} does not require grad: it is neither a leaf with requires_grad=True nor computed from one, "
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


def _no_path(loss: Any, x: Any, names: Names, watches: list[Watch]) -> Explanation:
    """Return why no path leads from a loss to `x`."""
    said = []
    places: list[str] = []
    for watch in watches:
        cuts = watch.cuts(loss, x)
        places += [c.rpartition(" at ")[2] for c in cuts]
        if cuts:
            said.append(f"The loss was computed from {names.of(x)}, but the path was cut: {'; '.join(cuts)}.")
        elif not watch.depends(loss, x):
            said.append(_unrelated(loss, x, names, watch))
            places += [r.rpartition(" at ")[2] for r in watch.reads_of(x)]
    if not said:
        said, places = _guess(loss, x, names)
    return Explanation("none", " ".join(said), places)


def _unrelated(loss: Any, x: Any, names: Names, watch: Watch) -> str:
    """Return what a watch knows of a loss that no op it saw computed from `x`."""
    sources = list(dict.fromkeys(names.of(t) for t in watch.sources(loss)))
    shown = ", ".join(sources[:4]) + (f" and {len(sources) - 4} more" if len(sources) > 4 else "")
    text = f"While it was watched, the loss was not computed from {names.of(x)} by any op"
    text += f"; it was computed from {shown}." if sources else "."
    reads = watch.reads_of(x)
    if not reads:
        return text
    arrived = _sentence("A NumPy array came back as a tensor at", watch.arrivals)
    return (
        f"{text} Values computed from {names.of(x)} were read into Python, by {'; '.join(reads)}: what is "
        f"computed from "
        f"them there has no history.{arrived} If the loss uses them, stay in tensors."
    )


def _guess(loss: Any, x: Any, names: Names) -> tuple[list[str], list[str]]:
    """Return what the graph alone shows of a missing path."""
    if edge_of(loss) is None:
        kind = "holds integers or booleans" if loss.array.dtype.kind in "iub" else "has no history"
        return [
            f"The loss {kind}: recording was off when it was computed (no_grad), it was detached, or nothing it was "
            "computed from requires grad. Run explain(function, x), or compute the loss inside explain.watch(), "
            "to see where."
        ], []
    users = gradients.users_without_history(loss, x)
    if users:
        titles = [gradients.titled(n) for n in users]
        return [
            f"The loss uses the memory of {names.of(x)}, but without its history: {'; '.join(dict.fromkeys(titles))} "
            "took it as a constant. Before that it was detached (detach(), .data, a NumPy array that shares its "
            f"memory), or "
            "it did not require grad yet."
        ], [t.rpartition(" at ")[2] for t in titles]
    return [
        f"No path leads from the loss to {names.of(x)}: the loss was not computed from it, or the path was cut on the "
        "way (detach(), no_grad, .item(), NumPy). Run explain(function, x), or compute the loss inside "
        "explain.watch(), to see where."
    ], []


def _sentence(start: str, items: list[str]) -> str:
    return f" {start} {'; '.join(dict.fromkeys(items))}." if items else ""


# --- A path is there ---------------------------------------------------------------------------------


def _of_gradient(loss: Any, x: Any, seen: list[Passage], g: Any, names: Names, watches: list[Watch]) -> Explanation:
    if g is None or (any(p.refused for p in seen) and not _magnitude(g)):
        return _refused(x, seen, names)
    magnitude = _magnitude(g)
    if np.isnan(magnitude):
        return _nan(loss, x, seen, names, watches)
    if np.isinf(magnitude):
        first = [p for p in seen if np.isfinite(p.entered) and np.isinf(p.left)]
        return _say("infinite", f"The gradient of {names.of(x)} is infinite: ", "first in the backward of", first[:1])
    if magnitude == 0:
        return _zero(x, seen, names)
    if magnitude > HUGE or magnitude < TINY:
        return _extreme(x, seen, magnitude, names)
    keeps = x.is_leaf or x.retains_grad
    hint = "" if keeps else " x is no leaf, so .grad stays None unless x.retain_grad() is called before backward()."
    return Explanation("fine", f"{names.of(x)} gets a gradient, of largest magnitude {magnitude:.3g}.{hint}", [])


def _magnitude(g: Any) -> float:
    return gradients.size([g])


def _say(status: str, start: str, how: str, found: list[Passage], end: str = "") -> Explanation:
    titles = [p.title for p in found]
    text = f"{start}{how} {'; '.join(titles)}.{end}" if titles else f"{start.rstrip(': ')}.{end}"
    return Explanation(status, text, [t.rpartition(" at ")[2] for t in titles])


def _refused(x: Any, seen: list[Passage], names: Names) -> Explanation:
    return _say(
        "none",
        f"No gradient arrives at {names.of(x)}: ",
        "its backward returned None in",
        [p for p in seen if p.refused],
        " A custom Function's backward must return a gradient for each input that requires one.",
    )


def _nan(loss: Any, x: Any, seen: list[Passage], names: Names, watches: list[Watch]) -> Explanation:
    for watch in watches:
        made = [o for o in watching._leading_to(watch.origin(loss), watch.origin(x)) if o.nan]
        if made:
            return Explanation(
                "nan",
                f"The gradient of {names.of(x)} is NaN because the forward pass made one: {made[0].made_by} at "
                f"{made[0].place} gave NaN from inputs without one.",
                [made[0].place],
            )
    maker = gradients.first_nan(loss)
    if maker is not None:
        title = gradients.titled(maker)
        return Explanation(
            "nan", f"The gradient of {names.of(x)} is NaN because the forward pass made one, in {title}.",
            [title.rpartition(" at ")[2]],
        )  # fmt: skip
    first = [p for p in seen if not np.isnan(p.entered) and np.isnan(p.left)]
    if not first:
        return _say(
            "nan", f"The gradient of {names.of(x)} is NaN, because infinite gradients cancel where they meet: ",
            "first infinite in the backward of", [p for p in seen if np.isfinite(p.entered) and np.isinf(p.left)][:1],
        )  # fmt: skip
    return _say(
        "nan", f"The gradient of {names.of(x)} is NaN, though the forward pass has none: ", "first in the backward of",
        first[:1], reasons.of_nan(first[0]),
    )  # fmt: skip


def _zero(x: Any, seen: list[Passage], names: Names) -> Explanation:
    if not x.array.size:
        return Explanation("zero", f"{names.of(x)} has no elements.", [])
    stops = [p for p in seen if p.entered > 0 and p.left == 0]
    if not stops:
        return Explanation("zero", f"The gradient of {names.of(x)} is zero: what arrives at it cancels out.", [])
    said = [f"{p.title}{f' ({why})' if (why := reasons.of_zero(p, x)) else ''}" for p in stops]
    end = edge_of(x)
    others = any(p.left > 0 and end in p.node.edges for p in seen)
    return Explanation(
        "zero",
        f"The gradient of {names.of(x)} is zero: it becomes zero in the backward of {'; '.join(dict.fromkeys(said))}."
        + (" What arrives by other paths cancels out." if others else ""),
        list(dict.fromkeys(p.title.rpartition(" at ")[2] for p in stops)),
    )


def _extreme(x: Any, seen: list[Passage], magnitude: float, names: Names) -> Explanation:
    """Say which lines made a gradient huge or tiny: those whose ops changed it most, together."""
    grows = magnitude > HUGE
    changes: dict[str, list[float]] = {}
    for p in seen:
        changes.setdefault(p.title, []).append(math.log10(p.left / p.entered) if p.entered > 0 and p.left > 0 else 0.0)
    steep = sorted(changes, key=lambda title: sum(changes[title]), reverse=grows)[:3]
    limit = math.log10(2)
    steep = [t for t in steep if (sum(changes[t]) > limit if grows else sum(changes[t]) < -limit)]
    steps = "; ".join(f"{title} ({_factors(changes[title])})" for title in steep)
    status, word = ("huge", "grows") if grows else ("vanishing", "shrinks")
    by = f", most in the backward of {steps}" if steps else ", a little in each op"
    return Explanation(
        status,
        f"The gradient of {names.of(x)} {word} to {magnitude:.3g} over {len(seen)} ops{by}.",
        [title.rpartition(" at ")[2] for title in steep],
    )


def _factors(logs: list[float]) -> str:
    """Return by what factor the ops of one line changed a gradient."""
    total = sum(logs)
    product = f"{10**total:.2g}" if abs(total) < 300 else f"10^{total:.0f}"
    if len(logs) == 1:
        return f"times {product}"
    if max(logs) - min(logs) < 0.01:
        return f"times {10 ** logs[0]:.2g}, {len(logs)} times"
    return f"times {product}, by {len(logs)} ops together"


explain.watch = watching.watch  # type: ignore[attr-defined]
