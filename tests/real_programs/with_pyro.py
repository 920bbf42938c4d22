"""pyro: the posterior of a coin by variational inference and by Hamiltonian sampling."""

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from pyro.optim import Adam

pyro.set_rng_seed(0)
data = torch.tensor([1.0, 1, 1, 0, 1, 1, 0, 1, 1, 1])


def model(data):
    p = pyro.sample("p", dist.Beta(10.0, 10.0))
    with pyro.plate("throws", len(data)):
        pyro.sample("seen", dist.Bernoulli(p), obs=data)


def guide(data):
    a = pyro.param("a", torch.tensor(15.0), constraint=dist.constraints.positive)
    b = pyro.param("b", torch.tensor(15.0), constraint=dist.constraints.positive)
    pyro.sample("p", dist.Beta(a, b))


inference = SVI(model, guide, Adam({"lr": 0.01}), Trace_ELBO())
for _ in range(300):
    inference.step(data)
a, b = pyro.param("a").item(), pyro.param("b").item()
sampler = MCMC(NUTS(model), num_samples=60, warmup_steps=30, disable_progbar=True)
sampler.run(data)
sampled = sampler.get_samples()["p"].mean().item()
print(f"pyro {pyro.__version__}: {a / (a + b):.3f} and {sampled:.3f}, exactly 0.600")
assert abs(a / (a + b) - 0.6) < 0.05 and abs(sampled - 0.6) < 0.07
