"""entmax: attention that is exactly zero somewhere, and its gradient, by functions with a backward of their own."""

import torch
from entmax import entmax15, entmax_bisect, sparsemax

torch.manual_seed(0)
scores = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
for function in (sparsemax, entmax15):
    weights = function(scores, dim=-1)
    assert torch.allclose(weights.sum(-1), torch.ones(3, dtype=torch.float64)) and (weights == 0).any()
    assert torch.autograd.gradcheck(lambda x, f=function: f(x, dim=-1), (scores,))
sharpness = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)
found = entmax_bisect(scores, sharpness)
found.pow(2).sum().backward()
print(f"entmax: {(found == 0).double().mean().item():.0%} of the weights are zero")
assert torch.allclose(found, entmax15(scores), atol=1e-6) and sharpness.grad.abs() > 0
