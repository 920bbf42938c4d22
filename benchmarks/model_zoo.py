"""Models of many kinds, each as its users write it, in words that adjoint and torch both have.

An entry is `def name(T, device="cpu", **sizes) -> Case`, where `T` is adjoint or torch. Sizes are small enough for two
cores; `models_gpu.py` passes larger ones. Weights and data come from the seed that the caller has set, on the CPU, so
both sides start alike on every device.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MODELS: dict[str, Callable[..., Case]] = {}


@dataclass
class Case:
    """A training step: `step(*modules, *data)` takes modules that may be compiled, and returns the loss."""

    modules: tuple[Any, ...]
    step: Callable[..., Any]
    data: tuple[Any, ...]

    def compiled(self, T: Any, what: str) -> Callable[[], Any]:
        """Return a call of the step: eager, with the model compiled, or compiled as a whole."""
        modules, data = self.modules, self.data
        if what == "model":
            modules = tuple(map(T.compile, modules))
        if what != "step":
            return lambda: self.step(*modules, *data)
        whole = T.compile(lambda *given: self.step(*modules, *given))
        return lambda: whole(*data)


def model(name: str) -> Callable[[Callable[..., Case]], Callable[..., Case]]:
    """Declare an entry."""

    def declare(build: Callable[..., Case]) -> Callable[..., Case]:
        MODELS[name] = build
        return build

    return declare


def descent(optimizer: Any, loss_of: Callable[..., Any]) -> Callable[..., Any]:
    """Return the step that nearly every program takes."""

    def step(net: Any, *data: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_of(net, *data)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def classifier(T: Any, net: Any, optimizer: Any, x: Any, classes: int, device: Any) -> Case:
    """Return the step of a classifier."""
    criterion = T.nn.CrossEntropyLoss()
    y = T.randint(0, classes, (x.shape[0],)).to(device)
    return Case((net,), descent(optimizer, lambda net, x, y: criterion(net(x), y)), (x.to(device), y))


def next_word(T: Any, optimizer: Any) -> Callable[..., Any]:
    """Return the step of a language model."""

    def loss_of(net: Any, words: Any) -> Any:
        scores = net(words[:, :-1])
        return T.nn.functional.cross_entropy(scores.reshape(-1, scores.shape[-1]), words[:, 1:].reshape(-1))

    return descent(optimizer, loss_of)


# --- Multilayer perceptrons and images ----------------------------------------------------------------


@model("small MLP")
def small_mlp(T: Any, device: Any = "cpu", batch: int = 32) -> Case:
    nn = T.nn
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).to(device)
    return classifier(T, net, T.optim.SGD(net.parameters(), lr=0.01), T.randn(batch, 64), 10, device)


@model("MNIST MLP")
def mnist_mlp(T: Any, device: Any = "cpu", batch: int = 128, width: int = 512) -> Case:
    nn = T.nn
    net = nn.Sequential(
        nn.Flatten(), nn.Linear(784, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)
    ).to(device)
    return classifier(T, net, T.optim.Adam(net.parameters(), lr=1e-3), T.randn(batch, 1, 28, 28), 10, device)


@model("LeNet")
def lenet(T: Any, device: Any = "cpu", batch: int = 64) -> Case:
    nn, F = T.nn, T.nn.functional

    class LeNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
            self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

        def forward(self, x: Any) -> Any:
            x = F.max_pool2d(F.relu(self.conv1(x)), 2)
            x = F.max_pool2d(F.relu(self.conv2(x)), 2)
            x = x.view(x.size(0), -1)
            return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))

    net = LeNet().to(device)
    return classifier(T, net, T.optim.SGD(net.parameters(), lr=0.01), T.randn(batch, 1, 28, 28), 10, device)


@model("ResNet")
def resnet(T: Any, device: Any = "cpu", batch: int = 16, width: int = 16, blocks: tuple[int, ...] = (1, 1, 1)) -> Case:
    nn, F = T.nn, T.nn.functional

    class Block(nn.Module):
        def __init__(self, inner: int, outer: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
            self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
            self.bn1, self.bn2 = nn.BatchNorm2d(outer), nn.BatchNorm2d(outer)
            self.short = nn.Sequential()
            if stride != 1 or inner != outer:
                self.short = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

        def forward(self, x: Any) -> Any:
            out = F.relu(self.bn1(self.conv1(x)))
            return F.relu(self.bn2(self.conv2(out)) + self.short(x))

    layers, channels = [nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()], width
    for i, count in enumerate(blocks):
        for j in range(count):
            layers.append(Block(channels, width << i, 2 if i and not j else 1))
            channels = width << i
    net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10)).to(device)
    optimizer = T.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    return classifier(T, net, optimizer, T.randn(batch, 3, 32, 32), 10, device)


@model("ViT")
def vit(T: Any, device: Any = "cpu", batch: int = 16, width: int = 96, layers: int = 3, heads: int = 4) -> Case:
    nn = T.nn

    class ViT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, width, 4, 4)
            self.token = nn.Parameter(T.zeros(1, 1, width))
            self.places = nn.Parameter(T.randn(1, 65, width) * 0.02)
            layer = nn.TransformerEncoderLayer(
                width, heads, 4 * width, dropout=0.1, activation="gelu", batch_first=True, norm_first=True
            )
            self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

        def forward(self, x: Any) -> Any:
            x = self.patches(x).flatten(2).transpose(1, 2)
            x = T.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.places
            return self.head(self.norm(self.encoder(x)[:, 0]))

    net = ViT().to(device)
    return classifier(T, net, T.optim.AdamW(net.parameters(), lr=3e-4), T.randn(batch, 3, 32, 32), 10, device)


@model("MLP-Mixer")
def mixer(T: Any, device: Any = "cpu", batch: int = 16, width: int = 128, layers: int = 4) -> Case:
    nn = T.nn

    def mlp(inner: int, hidden: int) -> Any:
        return nn.Sequential(nn.Linear(inner, hidden), nn.GELU(), nn.Linear(hidden, inner))

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.tokens, self.channels = mlp(64, 64), mlp(width, 4 * width)

        def forward(self, x: Any) -> Any:
            x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
            return x + self.channels(self.norm2(x))

    class Mixer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, width, 4, 4)
            self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

        def forward(self, x: Any) -> Any:
            x = self.patches(x).flatten(2).transpose(1, 2)
            return self.head(self.norm(self.blocks(x)).mean(dim=1))

    net = Mixer().to(device)
    return classifier(T, net, T.optim.Adam(net.parameters(), lr=1e-3), T.randn(batch, 3, 32, 32), 10, device)


@model("DCGAN")
def dcgan(T: Any, device: Any = "cpu", batch: int = 16, width: int = 16) -> Case:
    nn = T.nn
    generator = nn.Sequential(
        nn.ConvTranspose2d(64, 4 * width, 4, 1, 0, bias=False), nn.BatchNorm2d(4 * width), nn.ReLU(True),
        nn.ConvTranspose2d(4 * width, 2 * width, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * width), nn.ReLU(True),
        nn.ConvTranspose2d(2 * width, width, 4, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
        nn.ConvTranspose2d(width, 3, 4, 2, 1, bias=False), nn.Tanh(),
    ).to(device)  # fmt: skip
    critic = nn.Sequential(
        nn.Conv2d(3, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(width, 2 * width, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * width), nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(2 * width, 4 * width, 4, 2, 1, bias=False), nn.BatchNorm2d(4 * width),
        nn.LeakyReLU(0.2, inplace=True), nn.Conv2d(4 * width, 1, 4, 1, 0, bias=False), nn.Flatten(0),
    ).to(device)  # fmt: skip
    forger = T.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    judge = T.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
    criterion = nn.BCEWithLogitsLoss()

    def step(generator: Any, critic: Any, real: Any, noise: Any) -> Any:
        ones, zeros = T.ones(real.shape[0], device=device), T.zeros(real.shape[0], device=device)
        fake = generator(noise)
        judge.zero_grad()
        loss = criterion(critic(real), ones) + criterion(critic(fake.detach()), zeros)
        loss.backward()
        judge.step()
        forger.zero_grad()
        deceit = criterion(critic(fake), ones)
        deceit.backward()
        forger.step()
        return (loss + deceit).detach()

    return Case((generator, critic), step, (T.randn(batch, 3, 32, 32).to(device), T.randn(batch, 64, 1, 1).to(device)))


@model("diffusion U-Net")
def unet(T: Any, device: Any = "cpu", batch: int = 8, width: int = 16, side: int = 32) -> Case:
    nn, F = T.nn, T.nn.functional

    class Block(nn.Module):
        def __init__(self, inner: int, outer: int) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.GroupNorm(8, inner), nn.GroupNorm(8, outer)
            self.conv1, self.conv2 = nn.Conv2d(inner, outer, 3, padding=1), nn.Conv2d(outer, outer, 3, padding=1)
            self.time = nn.Linear(4 * width, outer)
            self.short = nn.Conv2d(inner, outer, 1) if inner != outer else nn.Identity()

        def forward(self, x: Any, t: Any) -> Any:
            h = self.conv1(F.silu(self.norm1(x))) + self.time(t)[:, :, None, None]
            return self.short(x) + self.conv2(F.silu(self.norm2(h)))

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.time = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, 4 * width))
            self.first = nn.Conv2d(3, width, 3, padding=1)
            self.down1, self.down2 = Block(width, width), Block(width, 2 * width)
            self.shrink1, self.shrink2 = nn.Conv2d(width, width, 3, 2, 1), nn.Conv2d(2 * width, 2 * width, 3, 2, 1)
            self.middle = Block(2 * width, 2 * width)
            self.up2, self.up1 = Block(4 * width, width), Block(2 * width, width)
            self.last = nn.Sequential(nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, 3, 3, padding=1))

        def forward(self, x: Any, t: Any) -> Any:
            rates = T.exp(T.arange(width // 2, device=x.device) * (-math.log(10000) / (width // 2 - 1)))
            angles = t[:, None].float() * rates[None]
            t = self.time(T.cat([angles.sin(), angles.cos()], dim=-1))
            one = self.down1(self.first(x), t)
            two = self.down2(self.shrink1(one), t)
            x = self.middle(self.shrink2(two), t)
            x = self.up2(T.cat([F.interpolate(x, scale_factor=2, mode="nearest"), two], dim=1), t)
            return self.last(self.up1(T.cat([F.interpolate(x, scale_factor=2, mode="nearest"), one], dim=1), t))

    net = UNet().to(device)
    optimizer = T.optim.AdamW(net.parameters(), lr=1e-3)
    signal = T.cumprod(1 - T.linspace(1e-4, 0.02, 1000), dim=0).to(device)

    def loss_of(net: Any, x: Any, noise: Any, t: Any) -> Any:
        a = signal[t][:, None, None, None]
        return F.mse_loss(net(a.sqrt() * x + (1 - a).sqrt() * noise, t), noise)

    shape = batch, 3, side, side
    data = T.randn(*shape).to(device), T.randn(*shape).to(device), T.randint(0, 1000, (batch,)).to(device)
    return Case((net,), descent(optimizer, loss_of), data)


# --- Sequences ----------------------------------------------------------------------------------------


@model("LSTM language model")
def lstm_lm(
    T: Any, device: Any = "cpu", batch: int = 16, length: int = 33, width: int = 128, words: int = 1000
) -> Case:
    nn = T.nn

    class Language(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(words, width), nn.Linear(width, words)
            self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True)

        def forward(self, x: Any) -> Any:
            out, _ = self.lstm(self.embed(x))
            return self.head(out)

    net = Language().to(device)
    step = next_word(T, T.optim.Adam(net.parameters(), lr=1e-3))
    return Case((net,), step, (T.randint(0, words, (batch, length)).to(device),))


@model("LSTM loop")
def lstm_loop(T: Any, device: Any = "cpu", batch: int = 16, length: int = 50, width: int = 64) -> Case:
    wx, wh = (T.randn(4 * width, 32) * 0.1).to(device), (T.randn(4 * width, width) * 0.1).to(device)
    b, head = T.zeros(4 * width).to(device), (T.randn(10, width) * 0.1).to(device)
    parameters = [p.requires_grad_() for p in (wx, wh, b, head)]
    optimizer = T.optim.SGD(parameters, lr=0.01)

    def net(xs: Any) -> Any:
        h = T.zeros(xs.shape[1], width, device=xs.device)
        c = T.zeros(xs.shape[1], width, device=xs.device)
        for t in range(xs.shape[0]):
            i, f, g, o = (xs[t] @ wx.T + h @ wh.T + b).chunk(4, dim=1)
            c = T.sigmoid(f) * c + T.sigmoid(i) * T.tanh(g)
            h = T.sigmoid(o) * T.tanh(c)
        return h @ head.T

    loss_of = lambda net, xs, y: T.nn.functional.cross_entropy(net(xs), y)
    data = T.randn(length, batch, 32).to(device), T.randint(0, 10, (batch,)).to(device)
    return Case((net,), descent(optimizer, loss_of), data)


@model("GRU speech")
def gru_speech(T: Any, device: Any = "cpu", batch: int = 8, frames: int = 100, width: int = 96) -> Case:
    nn, F = T.nn, T.nn.functional

    class Speech(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv1d(40, width, 5, stride=2, padding=2)
            self.norm = nn.BatchNorm1d(width)
            self.gru = nn.GRU(width, width, batch_first=True, bidirectional=True)
            self.head = nn.Linear(2 * width, 29)

        def forward(self, x: Any) -> Any:
            x = F.relu(self.norm(self.conv(x))).transpose(1, 2)
            out, _ = self.gru(x)
            return F.log_softmax(self.head(out), dim=-1)

    net = Speech().to(device)
    optimizer = T.optim.Adam(net.parameters(), lr=1e-3)

    def loss_of(net: Any, x: Any, y: Any) -> Any:
        scores = net(x).transpose(0, 1)
        lengths = T.full((x.shape[0],), scores.shape[0], dtype=T.long)
        return F.ctc_loss(scores, y, lengths, T.full((x.shape[0],), y.shape[1], dtype=T.long))

    data = T.randn(batch, 40, frames).to(device), T.randint(1, 29, (batch, 12)).to(device)
    return Case((net,), descent(optimizer, loss_of), data)


@model("recursive trees")
def trees(T: Any, device: Any = "cpu", count: int = 8, leaves: int = 16, width: int = 32) -> Case:
    emb, w = (T.randn(20, width) * 0.3).to(device), (T.randn(width, 2 * width) * 0.1).to(device)
    b, head = T.zeros(width).to(device), (T.randn(2, width) * 0.1).to(device)
    parameters = [p.requires_grad_() for p in (emb, w, b, head)]
    optimizer = T.optim.SGD(parameters, lr=0.01)
    state = 7

    def tree(size: int) -> Any:
        nonlocal state
        state = (state * 1103515245 + 12345) % (1 << 31)
        if size == 1:
            return state % 20
        left = 1 + state // 8 % (size - 1)
        return tree(left), tree(size - left)

    forest = [tree(leaves) for _ in range(count)]

    def encode(node: Any) -> Any:
        if isinstance(node, int):
            return emb[node]
        return T.tanh(w @ T.cat([encode(node[0]), encode(node[1])]) + b)

    def net() -> Any:
        return T.stack([head @ encode(tree) for tree in forest])

    loss_of = lambda net, y: T.nn.functional.cross_entropy(net(), y)
    return Case((net,), descent(optimizer, loss_of), (T.randint(0, 2, (count,)).to(device),))


def attention_block(T: Any, width: int, heads: int, cross: bool = False) -> Any:
    """Return attention over `heads` heads, of a sequence to itself or to another."""
    nn, F = T.nn, T.nn.functional

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
            self.v, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)

        def forward(self, x: Any, memory: Any = None, bias: Any = None) -> Any:
            memory = x if memory is None else memory
            split = lambda z: z.view(z.shape[0], -1, heads, width // heads).transpose(1, 2)
            q, k, v = split(self.q(x)), split(self.k(memory)), split(self.v(memory))
            scores = q @ k.transpose(2, 3)
            if bias is not None:
                scores = scores + bias
            return self.o((F.softmax(scores.float(), dim=-1) @ v).transpose(1, 2).reshape(x.shape))

    return Attention()


@model("T5-style encoder-decoder")
def t5(T: Any, device: Any = "cpu", batch: int = 8, length: int = 32, width: int = 96, layers: int = 2) -> Case:
    nn, F = T.nn, T.nn.functional
    heads, words = 4, 500

    class RMSNorm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(T.ones(width))

        def forward(self, x: Any) -> Any:
            return self.weight * (x * T.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))

    class Layer(nn.Module):
        def __init__(self, decodes: bool) -> None:
            super().__init__()
            self.norms = nn.ModuleList(RMSNorm() for _ in range(3))
            self.self_attention = attention_block(T, width, heads)
            self.cross_attention = attention_block(T, width, heads) if decodes else None
            self.gate, self.up = nn.Linear(width, 2 * width, bias=False), nn.Linear(width, 2 * width, bias=False)
            self.down = nn.Linear(2 * width, width, bias=False)

        def forward(self, x: Any, bias: Any, memory: Any = None) -> Any:
            x = x + self.self_attention(self.norms[0](x), bias=bias)
            if self.cross_attention is not None:
                x = x + self.cross_attention(self.norms[1](x), memory)
            h = self.norms[2](x)
            return x + self.down(F.gelu(self.gate(h), approximate="tanh") * self.up(h))

    class T5(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(words, width)
            self.distances = nn.Embedding(2 * 64, heads)
            self.encoder = nn.ModuleList(Layer(False) for _ in range(layers))
            self.decoder = nn.ModuleList(Layer(True) for _ in range(layers))
            self.norm = RMSNorm()

        def bias(self, size: int, device: Any) -> Any:
            places = T.arange(size, device=device)
            return self.distances(places[None] - places[:, None] + 64).permute(2, 0, 1)[None]

        def forward(self, source: Any, target: Any) -> Any:
            x, bias = self.embed(source), self.bias(source.shape[1], source.device)
            for layer in self.encoder:
                x = layer(x, bias)
            y, size = self.embed(target), target.shape[1]
            mask = T.full((size, size), float("-inf"), device=target.device).triu(1)
            bias = self.bias(size, target.device) + mask
            for layer in self.decoder:
                y = layer(y, bias, x)
            return self.norm(y) @ self.embed.weight.T * width**-0.5

    net = T5().to(device)
    optimizer = T.optim.AdamW(net.parameters(), lr=1e-3)

    def loss_of(net: Any, source: Any, target: Any) -> Any:
        scores = net(source, target[:, :-1])
        return F.cross_entropy(scores.flatten(0, 1), target[:, 1:].flatten())

    data = T.randint(0, words, (batch, length)).to(device), T.randint(0, words, (batch, length + 1)).to(device)
    return Case((net,), descent(optimizer, loss_of), data)


@model("Llama-style")
def llama(
    T: Any, device: Any = "cpu", batch: int = 4, length: int = 65, width: int = 128, layers: int = 2, words: int = 500
) -> Case:
    nn, F = T.nn, T.nn.functional
    heads = width // 32 if width < 512 else width // 64
    size = width // heads

    class RMSNorm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(T.ones(width))

        def forward(self, x: Any) -> Any:
            y = x.float()
            return (y * T.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * self.weight

    def rotated(x: Any, cos: Any, sin: Any) -> Any:
        one, two = x.chunk(2, dim=-1)
        return x * cos + T.cat([-two, one], dim=-1) * sin

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = RMSNorm(), RMSNorm()
            self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
            self.gate, self.up = nn.Linear(width, 2 * width, bias=False), nn.Linear(width, 2 * width, bias=False)
            self.down = nn.Linear(2 * width, width, bias=False)

        def forward(self, x: Any, cos: Any, sin: Any) -> Any:
            b, t, c = x.shape
            h = self.norm1(x)
            q, k, v = (m(h).view(b, t, heads, size).transpose(1, 2) for m in (self.q, self.k, self.v))
            a = F.scaled_dot_product_attention(rotated(q, cos, sin), rotated(k, cos, sin), v, is_causal=True)
            x = x + self.o(a.transpose(1, 2).reshape(b, t, c))
            h = self.norm2(x)
            return x + self.down(F.silu(self.gate(h)) * self.up(h))

    class Llama(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.norm = nn.Embedding(words, width), RMSNorm()
            self.layers = nn.ModuleList(Layer() for _ in range(layers))
            self.head = nn.Linear(width, words, bias=False)

        def forward(self, i: Any) -> Any:
            x = self.embed(i)
            rates = 10000.0 ** (-T.arange(0, size, 2, device=i.device).float() / size)
            angles = T.arange(i.shape[1], device=i.device).float()[:, None] * rates[None]
            angles = T.cat([angles, angles], dim=-1)
            cos, sin = angles.cos(), angles.sin()
            for layer in self.layers:
                x = layer(x, cos, sin)
            return self.head(self.norm(x))

    net = Llama().to(device)
    step = next_word(T, T.optim.AdamW(net.parameters(), lr=3e-4))
    return Case((net,), step, (T.randint(0, words, (batch, length)).to(device),))


# --- Science, reinforcement, graphs -------------------------------------------------------------------


@model("PINN")
def pinn(T: Any, device: Any = "cpu", points: int = 256, width: int = 32) -> Case:
    nn = T.nn
    net = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))
    net = net.to(device)
    optimizer = T.optim.Adam(net.parameters(), lr=1e-3)

    def loss_of(net: Any, x: Any, t: Any) -> Any:
        x, t = x.clone().requires_grad_(), t.clone().requires_grad_()
        u = net(T.cat([x, t], dim=1))
        u_x, u_t = T.autograd.grad(u, (x, t), grad_outputs=T.ones_like(u), create_graph=True)
        (u_xx,) = T.autograd.grad(u_x, x, grad_outputs=T.ones_like(u_x), create_graph=True)
        return ((u_t + u * u_x - 0.01 / math.pi * u_xx) ** 2).mean()

    data = T.rand(points, 1).to(device), T.rand(points, 1).to(device)
    return Case((net,), descent(optimizer, loss_of), data)


@model("PPO")
def ppo(T: Any, device: Any = "cpu", batch: int = 64, width: int = 64) -> Case:
    nn = T.nn

    class Agent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layers = lambda out: nn.Sequential(
                nn.Linear(8, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, out)
            )
            self.actor, self.critic = layers(4), layers(1)

        def forward(self, x: Any) -> Any:
            return self.actor(x), self.critic(x)

    net = Agent().to(device)
    optimizer = T.optim.Adam(net.parameters(), lr=3e-4, eps=1e-5)

    def step(net: Any, x: Any, action: Any, old: Any, advantage: Any, returns: Any) -> Any:
        scores, value = net(x)
        chosen = T.distributions.Categorical(logits=scores)
        ratio = (chosen.log_prob(action) - old).exp()
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        policy = T.max(-advantage * ratio, -advantage * T.clamp(ratio, 0.8, 1.2)).mean()
        loss = policy - 0.01 * chosen.entropy().mean() + 0.5 * 0.5 * ((value.view(-1) - returns) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 0.5)
        optimizer.step()
        return loss.detach()

    parameters = list(net.parameters())
    data = T.randn(batch, 8), T.randint(0, 4, (batch,)), T.randn(batch) * 0.1 - 1.4, T.randn(batch), T.randn(batch)
    return Case((net,), step, tuple(d.to(device) for d in data))


@model("normalizing flow")
def flow(T: Any, device: Any = "cpu", batch: int = 256, width: int = 64, layers: int = 6) -> Case:
    nn = T.nn

    class Coupling(nn.Module):
        def __init__(self, first: bool) -> None:
            super().__init__()
            self.net = nn.Sequential(
                nn.Linear(2, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4)
            )
            self.register_buffer("mask", T.tensor([1.0, 0.0] if first else [0.0, 1.0]))

        def forward(self, x: Any) -> Any:
            scale, shift = self.net(x * self.mask).chunk(2, dim=1)
            scale = T.tanh(scale) * (1 - self.mask)
            return x * T.exp(scale) + shift * (1 - self.mask), scale.sum(dim=1)

    class Flow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(Coupling(i % 2 == 0) for i in range(layers))

        def forward(self, x: Any) -> Any:
            total = T.zeros(x.shape[0], device=x.device)
            for layer in self.layers:
                x, change = layer(x)
                total = total + change
            return x, total

    net = Flow().to(device)
    optimizer = T.optim.Adam(net.parameters(), lr=1e-3)

    def loss_of(net: Any, x: Any) -> Any:
        z, change = net(x)
        base = T.distributions.Normal(T.zeros(2, device=x.device), T.ones(2, device=x.device))
        return -(base.log_prob(z).sum(dim=1) + change).mean()

    return Case((net,), descent(optimizer, loss_of), (T.randn(batch, 2).to(device),))


@model("neural ODE")
def neural_ode(T: Any, device: Any = "cpu", batch: int = 64, width: int = 50, steps: int = 20) -> Case:
    nn = T.nn

    class Slope(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, 2))

        def forward(self, t: Any, y: Any) -> Any:
            return self.net(y**3)

    class Solver(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.slope = Slope()

        def forward(self, y: Any) -> Any:
            found, h = [y], 1.0 / steps
            for i in range(steps):
                t = i * h
                a = self.slope(t, y)
                b = self.slope(t + h / 2, y + h / 2 * a)
                c = self.slope(t + h / 2, y + h / 2 * b)
                d = self.slope(t + h, y + h * c)
                y = y + h / 6 * (a + 2 * b + 2 * c + d)
                found.append(y)
            return T.stack(found)

    net = Solver().to(device)
    optimizer = T.optim.RMSprop(net.parameters(), lr=1e-3)
    loss_of = lambda net, y, truth: (net(y) - truth).abs().mean()
    data = T.randn(batch, 2).to(device), T.randn(steps + 1, batch, 2).to(device)
    return Case((net,), descent(optimizer, loss_of), data)


@model("graph attention")
def graph_attention(T: Any, device: Any = "cpu", nodes: int = 500, edges: int = 3000, width: int = 16) -> Case:
    nn, F = T.nn, T.nn.functional
    heads = 4

    class Attention(nn.Module):
        def __init__(self, inner: int, outer: int) -> None:
            super().__init__()
            self.lin = nn.Linear(inner, heads * outer, bias=False)
            self.source = nn.Parameter(T.randn(heads, outer) * 0.1)
            self.target = nn.Parameter(T.randn(heads, outer) * 0.1)
            self.outer = outer

        def forward(self, x: Any, edge: Any) -> Any:
            src, dst = edge[0], edge[1]
            h = self.lin(x).view(-1, heads, self.outer)
            score = F.leaky_relu((h * self.source).sum(-1)[src] + (h * self.target).sum(-1)[dst], 0.2)
            score = (score - score.max().detach()).exp()
            total = T.zeros(x.shape[0], heads, device=x.device).index_add(0, dst, score)
            weight = score / (total[dst] + 1e-16)
            out = T.zeros(x.shape[0], heads, self.outer, device=x.device)
            return out.index_add(0, dst, h[src] * weight.unsqueeze(-1)).flatten(1)

    class GAT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = Attention(64, width), Attention(heads * width, 7)

        def forward(self, x: Any, edge: Any) -> Any:
            x = F.elu(self.one(x, edge))
            return self.two(x, edge).view(-1, heads, 7).mean(1)

    net = GAT().to(device)
    optimizer = T.optim.Adam(net.parameters(), lr=5e-3, weight_decay=5e-4)
    loss_of = lambda net, x, edge, y: F.cross_entropy(net(x, edge), y)
    data = T.randn(nodes, 64), T.randint(0, nodes, (2, edges)), T.randint(0, 7, (nodes,))
    return Case((net,), descent(optimizer, loss_of), tuple(d.to(device) for d in data))


@model("graph convolution")
def graph_convolution(T: Any, device: Any = "cpu", nodes: int = 2000, edges: int = 10000, width: int = 64) -> Case:
    nn, F = T.nn, T.nn.functional

    class GCN(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(64, width), nn.Linear(width, 7)

        def spread(self, x: Any, edge: Any, weight: Any) -> Any:
            return T.zeros_like(x).index_add(0, edge[1], x[edge[0]] * weight[:, None])

        def forward(self, x: Any, edge: Any, weight: Any) -> Any:
            x = F.relu(self.spread(self.one(x), edge, weight))
            return self.spread(self.two(x), edge, weight)

    net = GCN().to(device)
    optimizer = T.optim.Adam(net.parameters(), lr=1e-2)
    loss_of = lambda net, x, edge, weight, y: F.cross_entropy(net(x, edge, weight), y)
    data = T.randn(nodes, 64), T.randint(0, nodes, (2, edges)), T.rand(edges), T.randint(0, 7, (nodes,))
    return Case((net,), descent(optimizer, loss_of), tuple(d.to(device) for d in data))
