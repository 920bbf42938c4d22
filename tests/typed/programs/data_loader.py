"""Data loader, as users write it."""

from __future__ import annotations

import adjoint as torch
from adjoint import Tensor
from adjoint.utils.data import DataLoader, Dataset, TensorDataset


class Squares(Dataset[tuple[Tensor, Tensor]]):
    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        x = torch.tensor(float(index))
        return x, x**2


for x, y in DataLoader(Squares(), batch_size=4, shuffle=True):
    print(x.shape, (x * y).sum())
pairs = TensorDataset(torch.zeros(4, 2), torch.ones(4))
print(len(pairs), len(DataLoader(pairs, batch_size=2)))
