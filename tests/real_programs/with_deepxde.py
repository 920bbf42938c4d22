"""deepxde with its PyTorch backend: a network solves Poisson's equation -u'' = pi^2 sin(pi x) on [-1, 1]."""

import os

os.environ["DDE_BACKEND"] = "pytorch"
import deepxde as dde
import numpy as np
import torch

dde.config.set_random_seed(1)


def pde(x, y):
    dy_xx = dde.grad.hessian(y, x)
    return -dy_xx - np.pi**2 * torch.sin(np.pi * x)


def func(x):
    return np.sin(np.pi * x)


geom = dde.geometry.Interval(-1, 1)
bc = dde.icbc.DirichletBC(geom, func, lambda _, on_boundary: on_boundary)
data = dde.data.PDE(geom, pde, bc, 16, 2, solution=func, num_test=100)
net = dde.nn.FNN([1, 32, 32, 1], "tanh", "Glorot uniform")
model = dde.Model(data, net)
model.compile("adam", lr=0.005, metrics=["l2 relative error"])
losses, _ = model.train(iterations=1200, display_every=400)
model.compile("L-BFGS", metrics=["l2 relative error"])
losses, _ = model.train(display_every=400) if os.environ.get("LONG") else (losses, None)
error = float(losses.metrics_test[-1][0])
print(f"deepxde {dde.__version__} on {torch.__version__}: relative error {error:.4f}")
assert error < 0.05
x = geom.uniform_points(50, True)
assert np.abs(model.predict(x) - func(x)).max() < 0.1
