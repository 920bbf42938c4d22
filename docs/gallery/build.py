"""Make the pictures of the gallery and of the first page: python docs/gallery/build.py [NAME ...].

Each function draws one picture from a program that runs; what it returns is written beside this file.
"""

from __future__ import annotations

import io
import math
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np

import adjoint as torch
from adjoint import nn

HERE = Path(__file__).parent
PICTURES: dict[str, Callable[[], str]] = {}
plt.rcParams.update({"svg.hashsalt": "adjoint", "svg.fonttype": "none", "figure.figsize": (6.4, 3.4), "font.size": 10})


def picture(name: str) -> Callable[[Callable[[], str]], Callable[[], str]]:
    def add(function: Callable[[], str]) -> Callable[[], str]:
        PICTURES[name] = function
        return function

    return add


def svg(figure: plt.Figure) -> str:
    """Return a figure as SVG text, the same on every run."""
    figure.tight_layout()
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    plt.close(figure)
    return text.getvalue()


# --- Graphs ---------------------------------------------------------------------------------------


@picture("graph_cnn.html")
def graph_cnn() -> str:
    """The graph of a small convolutional network and its loss, as an interactive page."""
    torch.manual_seed(0)

    def block(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)
        )

    net = nn.Sequential(block(1, 8), block(8, 16), nn.Flatten(), nn.Linear(16 * 9, 10))
    x, y = torch.randn(4, 1, 12, 12), torch.arange(4)
    nn.functional.cross_entropy(net(x), y).backward()
    with torch.profiler.profile(with_modules=True) as profile:
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward(retain_graph=True)
    return str(torch.viz.graph(loss, params=net, profile=profile))


@picture("graph_tree.html")
def graph_tree() -> str:
    """The graph of a recursive network over one parse tree, as an interactive page."""
    torch.manual_seed(0)
    words = {w: torch.randn(4, requires_grad=True) for w in ("the", "cat", "sat", "down")}
    combine = nn.Linear(8, 4)

    def encode(tree: object) -> torch.Tensor:
        if isinstance(tree, str):
            return words[tree]
        left, right = tree  # type: ignore[misc]
        return torch.tanh(combine(torch.cat([encode(left), encode(right)])))

    loss = encode((("the", "cat"), ("sat", "down"))).sum()
    return str(torch.viz.graph(loss, params={**words, "combine.weight": combine.weight, "combine.bias": combine.bias}))


# --- Memory and time ------------------------------------------------------------------------------


@picture("memory.svg")
def memory() -> str:
    """Memory held by the graph while a deep network runs forward and backward: plain, checkpointed, with a budget."""
    from adjoint.utils.checkpoint import checkpoint

    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 128)) for _ in range(12)]
    x = torch.randn(256, 128)

    def held(step: Callable[[nn.Module, torch.Tensor], torch.Tensor]) -> Iterator[float]:
        import tracemalloc

        tracemalloc.start()
        y, start = x, tracemalloc.get_traced_memory()[0]
        for block in blocks:
            y = y + step(block, y)
            yield (tracemalloc.get_traced_memory()[0] - start) / 2**20
        loss, found = y.square().mean(), []
        hooks = [
            block[0].weight.register_post_accumulate_grad_hook(
                lambda p: found.append((tracemalloc.get_traced_memory()[0] - start) / 2**20)
            )
            for block in blocks
        ]
        del y
        loss.backward()
        tracemalloc.stop()
        for hook in hooks:
            hook.remove()
        yield from found

    for block in blocks:  # compile what there is to compile before memory is counted
        checkpoint(block, x, use_reentrant=False).sum().backward()
        block.zero_grad()
    fig, ax = plt.subplots()
    for label, step in {
        "plain": lambda block, y: block(y),
        "checkpoint per block": lambda block, y: checkpoint(block, y, use_reentrant=False),
    }.items():
        values = list(held(step))
        ax.plot(range(len(values)), values, "o-", ms=3, label=label)
        for block in blocks:
            for p in block.parameters():
                p.grad = None
    ax.axvline(len(blocks) - 0.5, color="gray", lw=0.8, ls=":")
    ax.text(len(blocks) - 0.8, ax.get_ylim()[0] * 0.6, "forward", ha="right")
    ax.text(len(blocks) - 0.2, ax.get_ylim()[0] * 0.6, "backward", ha="left")
    ax.set_xticks([0, 6, 11, 12, 17, 23], ["1", "7", "12", "12", "7", "1"])
    ax.set_xlabel("block")
    ax.set_ylabel("MiB in use")
    ax.legend(loc="upper left")
    return svg(fig)


@picture("flame.svg")
def flame() -> str:
    """A flame chart of one training step, from the profiler's events."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.LayerNorm(512), nn.Linear(512, 10))
    optimizer = torch.optim.AdamW(net.parameters())
    x, y = torch.randn(256, 256), torch.randint(0, 10, (256,))

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()

    def profiled() -> list[Any]:
        with torch.profiler.profile(with_modules=True) as profile:
            step()
        return sorted(profile.events(), key=lambda e: (e.time_range.start, -e.time_range.end))

    # The fastest of many: other programs on the machine make some steps slower.
    events = min(
        (profiled() for _ in range(30)),
        key=lambda found: max(e.time_range.end for e in found) - found[0].time_range.start,
    )
    fig, ax = plt.subplots(figsize=(8, 3))
    start, open_until = events[0].time_range.start, []
    whole = max(e.time_range.end for e in events) - start
    for event in events:
        begin, end = event.time_range.start - start, event.time_range.end - start
        while open_until and open_until[-1] <= begin:
            open_until.pop()
        depth = len(open_until)
        open_until.append(end)
        color = "#f59e0b" if "ackward" in event.name else "#6366f1" if "nn.Module" in event.name else "#10b981"
        ax.barh(depth, end - begin, left=begin, height=0.9, color=color, edgecolor="white", lw=0.4)
        name = event.name.removeprefix("nn.Module: ").removeprefix("aten::").split("#")[-1]
        name = name.removesuffix("Backward0") if "ackward" in event.name and event.name != "backward" else name
        if end - begin > 0.009 * len(name) * whole:
            ax.text(begin + (end - begin) / 2, depth, name, ha="center", va="center", fontsize=7, clip_on=True)
    ax.invert_yaxis()
    ax.set_yticks([])
    ax.set_xlabel("microseconds")
    return svg(fig)


# --- What models do -------------------------------------------------------------------------------


@picture("landscape.svg")
def landscape() -> str:
    """The loss of a small network in the plane of two directions, with the path that SGD took."""
    torch.manual_seed(2)
    x = torch.linspace(-2, 2, 40)[:, None]
    y = torch.sin(2 * x)
    net = nn.Sequential(nn.Linear(1, 6), nn.Tanh(), nn.Linear(6, 1))
    names = [n for n, _ in net.named_parameters()]
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.8)
    path = []
    for _ in range(150):
        path.append(torch.nn.utils.parameters_to_vector(net.parameters()).detach().clone())
        optimizer.zero_grad()
        nn.functional.mse_loss(net(x), y).backward()
        optimizer.step()
    steps = torch.stack(path) - path[-1]
    first, second = torch.linalg.svd(steps, full_matrices=False)[2][:2]

    def loss_at(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        vector, parameters, offset = path[-1] + a * first + b * second, {}, 0
        for name, p in zip(names, net.parameters(), strict=True):
            parameters[name] = vector[offset : offset + p.numel()].reshape(p.shape)
            offset += p.numel()
        return nn.functional.mse_loss(torch.func.functional_call(net, parameters, (x,)), y)

    along = np.stack([(steps @ first).numpy(), (steps @ second).numpy()])
    low, high = along.min(1) - 0.8, along.max(1) + 0.8
    a, b = (torch.linspace(float(l), float(h), 60) for l, h in zip(low, high, strict=True))
    grid = torch.vmap(torch.vmap(loss_at, in_dims=(None, 0)), in_dims=(0, None))(a, b)
    fig, ax = plt.subplots(figsize=(6, 4))
    drawn = ax.contourf(a.numpy(), b.numpy(), np.log10(grid.numpy().T), levels=18, cmap="viridis")
    ax.plot(*along, "w.-", ms=3, lw=0.8)
    ax.plot(*along[:, -1], "r*", ms=9)
    fig.colorbar(drawn, label="log10 of the loss")
    ax.set_xlabel("first direction")
    ax.set_ylabel("second direction")
    return svg(fig)


@picture("attention.svg")
def attention() -> str:
    """What a one-layer attention model looks at after it has learnt to copy the previous letter."""
    torch.manual_seed(0)
    letters, width, length = 12, 32, 10
    embed, place = nn.Embedding(letters, width), nn.Embedding(length, width)
    q, k, v, out = (nn.Linear(width, width) for _ in range(3)), None, None, nn.Linear(width, letters)
    q, k, v = q
    parameters = [p for m in (embed, place, q, k, v, out) for p in m.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=5e-3)
    mask = torch.ones(length, length).tril().bool()

    def forward(text: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = embed(text) + place(torch.arange(length))
        weights = ((q(h) @ k(h).transpose(-1, -2)) / math.sqrt(width)).masked_fill(~mask, -1e9).softmax(-1)
        return out(weights @ v(h)), weights

    for _ in range(250):
        text = torch.randint(0, letters, (64, length))
        logits, _ = forward(text)
        loss = nn.functional.cross_entropy(logits[:, 1:].reshape(-1, letters), text[:, :-1].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    text = torch.randint(0, letters, (1, length))
    with torch.no_grad():
        weights = forward(text)[1][0]
    fig, ax = plt.subplots(figsize=(4.6, 4))
    shown = ax.imshow(weights.numpy(), cmap="magma", vmin=0, vmax=1)
    ticks = [chr(97 + int(i)) for i in text[0]]
    ax.set_xticks(range(length), ticks)
    ax.set_yticks(range(length), ticks)
    ax.set_xlabel("looks at")
    ax.set_ylabel("position")
    fig.colorbar(shown, label="attention weight")
    return svg(fig)


@picture("ode.svg")
def ode() -> str:
    """Predators and prey: the rates of an ODE fitted through the solver."""
    torch.manual_seed(0)

    def solve(rates: torch.Tensor, steps: int = 80, dt: float = 0.1) -> torch.Tensor:
        a, b, c, d = rates.unbind()

        def rhs(s: torch.Tensor) -> torch.Tensor:
            return torch.stack([s[0] * (a - b * s[1]), s[1] * (c * s[0] - d)])

        y = torch.tensor([10.0, 5.0], dtype=torch.float64)
        states = [y]
        for _ in range(steps):
            k1 = rhs(y)
            k2 = rhs(y + dt / 2 * k1)
            y = y + dt * k2
            states.append(y)
        return torch.stack(states)

    with torch.no_grad():
        clean = solve(torch.tensor([1.1, 0.4, 0.1, 0.4], dtype=torch.float64))
    data = clean * (1 + 0.08 * torch.randn_like(clean))
    logs = torch.tensor([0.9, 0.5, 0.14, 0.5], dtype=torch.float64).log().requires_grad_()
    before = solve(logs.exp()).detach()
    optimizer = torch.optim.LBFGS([logs], max_iter=30, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (solve(logs.exp()).log() - data.log()).square().mean()
        loss.backward()
        return loss

    optimizer.step(closure)
    after, t = solve(logs.exp()).detach(), np.arange(81) * 0.1
    fig, ax = plt.subplots()
    for i, (name, color) in enumerate([("prey", "C0"), ("predators", "C1")]):
        ax.plot(t, data[:, i].numpy(), ".", color=color, ms=3, alpha=0.6, label=f"{name}: data")
        ax.plot(t, before[:, i].numpy(), ":", color=color, lw=1, label="first guess")
        ax.plot(t, after[:, i].numpy(), "-", color=color, label="fit")
    ax.set_xlabel("time")
    ax.legend(fontsize=8, ncols=2)
    return svg(fig)


# --- The first page: a program that runs, and its graph ---------------------------------------------

CODE = [
    "x = tensor([1., 2., 3.])",
    "y = x",
    "while y.sum() < 100:",
    "    y = y * x",
    "loss = y.sum()",
    "loss.backward()",
]


@picture("running.svg")
def running() -> str:
    """An animation: each line of a program adds to the graph; then gradients flow back through it."""
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y, values = x, []
    while y.sum() < 100:
        y = y * x
        y.retain_grad()
        values.append(y)
    loss = y.sum()
    loss.backward()

    def text_of(t: torch.Tensor) -> str:
        return "[" + ", ".join(f"{v:g}" for v in t.tolist()) + "]"

    # Each box: its column, its row, title, value, gradient. Each edge: from, to.
    boxes = [(0, 1, "x", text_of(x.detach()), text_of(x.grad))]
    for column, value in enumerate(values, 1):
        boxes.append((column, 0, "y * x", text_of(value.detach()), text_of(value.grad)))
    boxes.append((len(values) + 1, 0, "sum", f"{loss.item():g}", "1"))
    edges = [(0, 1)] + [(i, i + 1) for i in range(1, len(boxes) - 1)] + [(0, i) for i in range(2, len(values) + 1)]

    # The timeline: (what happens, line of code that is active), one per tick.
    ticks: list[tuple[str, int | None, int]] = [("box", 0, 0), ("none", None, 1)]
    for i in range(1, len(values) + 1):
        ticks += [("none", None, 2), ("box", i, 3)]
    ticks += [("none", None, 2), ("box", len(boxes) - 1, 4)]
    ticks += [("grad", i, 5) for i in range(len(boxes) - 1, -1, -1)]
    ticks += [("none", None, -1)] * 4
    total, seconds = len(ticks), 0.7 * len(ticks)
    appears = {i: t for t, (what, i, _) in enumerate(ticks) if what == "box"}
    flows = {i: t for t, (what, i, _) in enumerate(ticks) if what == "grad"}

    styles, parts = [], []

    def fade_in(name: str, tick: int) -> None:
        begin = 100 * tick / total
        styles.append(
            f"@keyframes {name}{{0%,{begin:.2f}%{{opacity:0}}{begin + 1.2:.2f}%,98.5%{{opacity:1}}100%{{opacity:0}}}}"
            f".{name}{{animation:{name} {seconds:.1f}s linear infinite}}"
        )

    def at(i: int) -> tuple[float, float]:
        column, row = boxes[i][:2]
        return 300 + 128 * column, 70 + 110 * row

    for number, line in enumerate(CODE):
        stops = []
        for t, (_, _, active) in enumerate(ticks):
            begin, end = 100 * t / total, 100 * (t + 1) / total
            stops.append(f"{begin:.2f}%,{end - 0.01:.2f}%{{fill-opacity:{int(active == number)}}}")
        styles.append(
            f"@keyframes l{number}{{{''.join(stops)}}}.l{number}{{animation:l{number} {seconds:.1f}s infinite}}"
        )
        top = 34 + 27 * number
        parts.append(f'<rect class="l{number} mark" x="10" y="{top}" width="222" height="24" rx="4" fill-opacity="0"/>')
        spaced = line.replace(" ", "\u00a0").replace("<", "&lt;")
        parts.append(f'<text class="code" x="18" y="{top + 17}">{spaced}</text>')
    for a, b in edges:
        (x1, y1), (x2, y2) = at(a), at(b)
        name = f"e{a}_{b}"
        fade_in(name, appears[b])
        start_x, end_x = (x1 + 50, x2 - 52) if y1 == y2 else (x1 + 30, x2 - 20)
        start_y, end_y = (y1, y2) if y1 == y2 else (y1 - 24, y2 + 28)
        parts.append(f'<path class="{name} edge" d="M{start_x} {start_y} L{end_x} {end_y}" marker-end="url(#arrow)"/>')
        pulse = 100 * flows[b] / total
        styles.append(
            f"@keyframes p{name}{{0%,{pulse:.2f}%{{offset-distance:100%;opacity:0}}{pulse + 0.3:.2f}%{{opacity:1;offset-distance:100%}}"
            f"{pulse + 100 / total:.2f}%{{offset-distance:0%;opacity:1}}{pulse + 100 / total + 0.3:.2f}%,100%{{opacity:0;offset-distance:0%}}}}"
            f".p{name}{{offset-path:path('M{start_x} {start_y} L{end_x} {end_y}');animation:p{name} {seconds:.1f}s linear infinite;opacity:0}}"
        )
        parts.append(f'<circle class="p{name}" r="6" fill="#ea580c"/>')
    for i, (_, _, title, value, gradient) in enumerate(boxes):
        cx, cy = at(i)
        fade_in(f"b{i}", appears[i])
        fade_in(f"g{i}", flows[i])
        parts.append(
            f'<g class="b{i}"><rect class="box" x="{cx - 50}" y="{cy - 24}" width="100" height="48" rx="8"/>'
            f'<text class="title" x="{cx}" y="{cy - 5}">{title}</text><text class="value" x="{cx}" y="{cy + 14}">{value}</text></g>'
            f'<text class="gradient g{i}" x="{cx}" y="{cy - 34 if i else cy + 44}">{gradient}</text>'
        )
    width = 300 + 128 * (len(boxes) - 1) + 70
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} 236" role="img" '
        'aria-label="A program runs line by line, its graph grows, then gradients flow back">\n<style>'
        ".code{font:14px monospace;fill:#1f2937}.title{font:bold 13px sans-serif;text-anchor:middle;fill:#3730a3}"
        ".value{font:12px monospace;text-anchor:middle;fill:#374151}.gradient{font:bold 12px monospace;text-anchor:middle;fill:#c2410c}"
        ".box{fill:#eef2ff;stroke:#6366f1;stroke-width:1.5}.edge{stroke:#6366f1;stroke-width:1.5;fill:none}"
        ".paper{fill:#ffffff;stroke:#e5e7eb}.mark{fill:#fde68a}"
        "@media(prefers-color-scheme:dark){.paper{fill:#282a35;stroke:#444654}.code,.value{fill:#e5e7eb}.title{fill:#c7d2fe}"
        ".gradient{fill:#fdba74}.box{fill:#343a5e;stroke:#818cf8}.edge{stroke:#818cf8}.mark{fill:#92700c}}"
        "@media(prefers-reduced-motion:reduce){*{animation:none!important;opacity:1!important}}"
        f"{''.join(styles)}</style>\n"
        '<defs><marker id="arrow" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#6366f1"/></marker></defs>\n'
        f'<rect x="0.5" y="0.5" width="{width - 1}" height="235" rx="10" class="paper"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def main(names: list[str]) -> None:
    for name, function in PICTURES.items():
        if not names or any(name.startswith(n) for n in names):
            start = time.perf_counter()
            (HERE / name).write_text(function())
            print(
                f"{name}: {(HERE / name).stat().st_size / 1e3:.0f} kB, {time.perf_counter() - start:.1f} s", flush=True
            )


if __name__ == "__main__":
    main(sys.argv[1:])
