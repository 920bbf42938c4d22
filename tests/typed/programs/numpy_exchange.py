"""Numpy exchange, as users write it."""

from __future__ import annotations

import numpy as np

import adjoint as torch

array = np.linspace(0, 1, 5, dtype=np.float32)
x = torch.from_numpy(array)
y = torch.tensor(np.ones((2, 2)))
z = torch.as_tensor([1.0, 2.0], dtype=torch.float64)
print(x.numpy().sum(), y.dtype, z.tolist(), np.asarray(z).shape)
