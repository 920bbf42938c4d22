"""A small GPT learns to write, letter by letter, from six sonnets."""

from __future__ import annotations

import math

from shared import Progress, settings, text

import adjoint as torch
from adjoint import nn
from adjoint.nn import functional as F


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.before(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.between(x))


class GPT(nn.Module):
    def __init__(self, letters: int, context: int, width: int, depth: int) -> None:
        super().__init__()
        self.context = context
        self.letter, self.place = nn.Embedding(letters, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, 4) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, letters, bias=False)
        self.head.weight = self.letter.weight  # tied

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        places = torch.arange(indices.size(1), device=indices.device)
        return self.head(self.norm(self.blocks(self.letter(indices) + self.place(places))))

    @torch.no_grad()
    def write(self, indices: torch.Tensor, count: int) -> torch.Tensor:
        for _ in range(count):
            probabilities = self(indices[:, -self.context :])[:, -1].softmax(-1)
            indices = torch.cat([indices, torch.multinomial(probabilities, 1)], 1)
        return indices


args = settings(__doc__)
sonnets = text()
letters = sorted(set(sonnets))
data = torch.tensor([letters.index(c) for c in sonnets], device=args.device)
model = GPT(len(letters), 32, 64, 2).to(args.device)
for p in model.parameters():
    if p.dim() > 1:
        nn.init.normal_(p, std=0.05)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)


@args.compiled
def step(batch: torch.Tensor) -> torch.Tensor:
    with args.autocast():
        logits = model(batch[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, len(letters)), batch[:, 1:].reshape(-1))
    optimizer.zero_grad()
    args.scaler.scale(loss).backward()
    args.scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    args.scaler.step(optimizer)
    args.scaler.update()
    return loss


bar = Progress(120 if args.short else 800, "steps")
for _ in bar:
    starts = torch.randint(0, len(data) - 33, (16,)).tolist()
    loss = step(torch.stack([data[s : s + 33] for s in starts]))
    bar.show(loss=loss.item())

written = model.write(data[:1][None], 200)[0].tolist()
print("".join(letters[i] for i in written))
print(f"loss {loss.item():.2f}; before training it is {math.log(len(letters)):.2f}")
assert loss.item() < (2.7 if args.short else 1.6)
