"""Recurrent, as users write it."""

from __future__ import annotations

import adjoint as torch
from adjoint import Tensor, nn


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.rnn = nn.LSTM(8, 16, batch_first=True)
        self.head = nn.Linear(16, 20)

    def forward(self, tokens: Tensor) -> Tensor:
        states, _ = self.rnn(self.embedding(tokens))
        return self.head(states)


print(Reader()(torch.randint(0, 20, (2, 5))).shape)
