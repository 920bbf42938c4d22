"""An LSTM learns to predict the next letter of six sonnets."""

from __future__ import annotations

from shared import Progress, settings, text

import adjoint as torch
from adjoint import nn
from adjoint.nn import functional as F


class Writer(nn.Module):
    def __init__(self, letters: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(letters, 32)
        self.lstm = nn.LSTM(32, width, batch_first=True)
        self.head = nn.Linear(width, letters)

    def forward(
        self, indices: torch.Tensor, state: tuple[torch.Tensor, ...] | None = None
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
        hidden, after = self.lstm(self.embedding(indices), state)
        return self.head(hidden), after

    @torch.no_grad()
    def write(self, index: torch.Tensor, count: int) -> list[int]:
        state, written = None, []
        for _ in range(count):
            logits, state = self(index, state)
            index = torch.multinomial(logits[:, -1].softmax(-1), 1)
            written.append(index.item())
        return written


args = settings(__doc__)
sonnets = text()
letters = sorted(set(sonnets))
data = torch.tensor([letters.index(c) for c in sonnets], device=args.device)
rows = data[: len(data) // 16 * 16].view(16, -1)  # 16 strands of text, read side by side
model = Writer(len(letters), 96).to(args.device)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)


@args.compiled
def step(seen: torch.Tensor, coming: torch.Tensor, state: tuple[torch.Tensor, ...] | None):
    logits, after = model(seen, state)
    loss = F.cross_entropy(logits.flatten(0, 1), coming.flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss, tuple(s.detach() for s in after)  # gradients go back 32 letters, the memory goes on


bar, state, at = Progress(100 if args.short else 600, "steps"), None, 0
for _ in bar:
    if at + 33 > rows.size(1):
        state, at = None, 0
    loss, state = step(rows[:, at : at + 32], rows[:, at + 1 : at + 33], state)
    bar.show(loss=loss.item())
    at += 32

print("".join(letters[i] for i in model.write(data[:1][None], 200)))
print(f"loss {loss.item():.2f}")
assert loss.item() < (2.6 if args.short else 1.5)
