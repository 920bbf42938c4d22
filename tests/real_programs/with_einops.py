"""einops with its torch backend: rearranging, reducing, packing, its layers, and a network of them that learns."""

import einops
import torch
from einops import einsum, pack, rearrange, reduce, repeat, unpack
from einops.layers.torch import EinMix, Rearrange, Reduce
from torch import nn

torch.manual_seed(0)
x = torch.arange(24.0, requires_grad=True).reshape(2, 3, 4)
assert rearrange(x, "b c d -> b (c d)").shape == (2, 12)
assert (
    rearrange(x, "b c (h w) -> b h w c", h=2).tolist()
    == x.detach().numpy().reshape(2, 3, 2, 2).transpose(0, 2, 3, 1).tolist()
)
assert reduce(x, "b c d -> b", "max").tolist() == [11, 23]
assert reduce(x, "b c d -> b d", "mean").shape == (2, 4)
assert repeat(x, "b c d -> b c d r", r=2).shape == (2, 3, 4, 2)
assert einsum(x, x, "b c d, b e d -> b c e").shape == (2, 3, 3)
packed, shapes = pack([x, x[:, :1]], "b * d")
assert packed.shape == (2, 4, 4) and [part.shape for part in unpack(packed, shapes, "b * d")] == [(2, 3, 4), (2, 1, 4)]
assert einops.parse_shape(x, "b _ d") == {"b": 2, "d": 4}
leaf = torch.ones(2, 6, requires_grad=True)
rearrange(leaf, "b (c d) -> d c b", d=2).pow(2).sum().backward()
assert leaf.grad.tolist() == [[2.0] * 6] * 2

# A mixer over the patches of tiny images: is the bright quarter on the left?
images = torch.rand(128, 1, 8, 8) * 0.5
side = torch.randint(0, 2, (128,))
for image, right in zip(images, side):
    image[:, :, 4 * right : 4 * right + 4] += 0.4
net = nn.Sequential(
    Rearrange("b c (h p) (w q) -> b (h w) (c p q)", p=4, q=4),
    EinMix("b n i -> b n o", weight_shape="i o", bias_shape="o", i=16, o=8),
    nn.GELU(),
    EinMix("b n c -> b m c", weight_shape="n m", bias_shape="m", n=4, m=4),
    Reduce("b n c -> b c", "mean"),
    nn.Linear(8, 2),
)
optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
for step in range(60):
    loss = nn.functional.cross_entropy(net(images), side)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
accuracy = (net(images).argmax(1) == side).float().mean().item()
print(f"{einops.__version__} on {torch.__version__}: accuracy {accuracy:.2f}")
assert accuracy > 0.9
