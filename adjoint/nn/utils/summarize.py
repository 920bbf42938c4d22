"""A summary of a model as a table: modules, output shapes, parameters and bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...autograd.grad_mode import no_grad
from ...core.tensor import TensorBase

__all__ = ["Summary", "summary"]


@dataclass(frozen=True)
class Row:
    """One module: its path, its output, and its own parameters."""

    path: str
    kind: str
    shape: str
    parameters: int
    trainable: int
    bytes: int


@dataclass
class Summary:
    """The table of a model, and its totals; `str` prints it."""

    rows: list[Row] = field(default_factory=list)
    total_params: int = 0
    trainable_params: int = 0
    total_bytes: int = 0
    output_bytes: int = 0

    def __str__(self) -> str:
        head = ("module", "class", "output shape", "parameters", "trainable", "bytes")
        body = [
            (r.path or "(model)", r.kind, r.shape, f"{r.parameters:,}", f"{r.trainable:,}", f"{r.bytes:,}")
            for r in self.rows
        ]
        total = (
            "total", "", "", f"{self.total_params:,}", f"{self.trainable_params:,}", f"{self.total_bytes:,}",
        )  # fmt: skip
        widths = [max(len(line[i]) for line in (head, *body, total)) for i in range(len(head))]

        def line(cells: tuple[str, ...]) -> str:
            texts = [c.ljust(w) if i < 3 else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True))]
            return "  ".join(texts).rstrip()

        rule = "-" * (sum(widths) + 2 * len(widths) - 2)
        frozen = self.total_params - self.trainable_params
        ending = f"{self.trainable_params:,} parameters are trained, {frozen:,} are not"
        return "\n".join([line(head), rule, *map(line, body), rule, line(total), ending])

    def __repr__(self) -> str:
        return f"<summary of {len(self.rows)} modules, {self.total_params:,} parameters, {self.total_bytes:,} bytes>"


def summary(model: Any, *inputs: Any, show: bool = True, **kwargs: Any) -> Summary:
    """Print a table of a model's modules; with `inputs`, run it once and show what each module gave.

    A tensor that two modules share is counted where it is met first. The run is one in evaluation mode, without
    gradients, and leaves the model as it was.

    Parameters
    ----------
    model
        The module to describe.
    *inputs, **kwargs
        What to call it with; without any, no shapes are shown.
    show
        Whether to print the table; it is returned in any case.

    Examples
    --------
    >>> net = adjoint.nn.Sequential(adjoint.nn.Linear(4, 8), adjoint.nn.ReLU(), adjoint.nn.Linear(8, 2))
    >>> adjoint.nn.utils.summary(net, adjoint.zeros(3, 4), show=False).total_params
    58
    """
    shapes: dict[Any, str] = {}
    sizes: dict[Any, int] = {}
    if inputs or kwargs:
        _run(model, inputs, kwargs, shapes, sizes)
    found = Summary(output_bytes=sum(sizes.values()))
    seen: set[int] = set()
    for path, module in model.named_modules():
        own = [p for p in module.parameters(recurse=False) if id(p) not in seen]
        held = own + [b for b in module.buffers(recurse=False) if id(b) not in seen]
        seen.update(id(t) for t in held)
        found.rows.append(
            Row(
                path,
                type(module).__name__,
                shapes.get(module, ""),
                sum(p.numel() for p in own),
                sum(p.numel() for p in own if p.requires_grad),
                sum(t.numel() * t.element_size() for t in held),
            )
        )
    found.total_params = sum(r.parameters for r in found.rows)
    found.trainable_params = sum(r.trainable for r in found.rows)
    found.total_bytes = sum(r.bytes for r in found.rows)
    if show:
        print(found)
    return found


def _run(model: Any, inputs: Any, kwargs: Any, shapes: dict[Any, str], sizes: dict[Any, int]) -> None:
    """Call the model once, and note the output of each module."""

    def note(module: Any, args: Any, output: Any) -> None:
        shapes[module] = _shape_of(output)
        if next(module.children(), None) is None:
            sizes[module] = sizes.get(module, 0) + _bytes_of(output)

    modes = {module: module.training for module in model.modules()}
    handles = [module.register_forward_hook(note) for module in modes]
    try:
        with no_grad():
            model.eval()(*inputs, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
        for module, training in modes.items():
            module.training = training


def _shape_of(output: Any) -> str:
    if isinstance(output, TensorBase):
        return str(list(output.array.shape))
    if isinstance(output, dict):
        return "{" + ", ".join(f"{k}: {_shape_of(v)}" for k, v in output.items()) + "}"
    if isinstance(output, list | tuple):
        return "(" + ", ".join(_shape_of(v) for v in output) + ")"
    return type(output).__name__


def _bytes_of(output: Any) -> int:
    if isinstance(output, TensorBase):
        return int(output.array.nbytes) if hasattr(output.array, "nbytes") else 0
    if isinstance(output, dict):
        return sum(map(_bytes_of, output.values()))
    return sum(map(_bytes_of, output)) if isinstance(output, list | tuple) else 0
