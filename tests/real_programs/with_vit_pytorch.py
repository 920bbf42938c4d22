"""vit-pytorch: a vision transformer learns which corner of an image is bright."""

import torch
from torch import nn
from vit_pytorch import SimpleViT, ViT

torch.manual_seed(0)
images = torch.rand(64, 1, 16, 16) * 0.5
corner = torch.arange(64) % 4
for image, at in zip(images, corner.tolist()):
    top, left = 8 * (at // 2), 8 * (at % 2)
    image[:, top : top + 8, left : left + 8] += 0.5

for model in (
    ViT(image_size=16, patch_size=8, num_classes=4, dim=16, depth=1, heads=2, mlp_dim=32, channels=1),
    SimpleViT(image_size=16, patch_size=8, num_classes=4, dim=16, depth=1, heads=2, mlp_dim=32, channels=1),
):
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    first = None
    for step in range(40):
        loss = nn.functional.cross_entropy(model(images), corner)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        first = loss.item() if first is None else first
    model.eval()
    with torch.no_grad():
        accuracy = (model(images).argmax(-1) == corner).float().mean().item()
    print(f"{type(model).__name__}: loss {first:.3f} -> {loss.item():.3f}, accuracy {accuracy:.2f}")
    assert accuracy > 0.9 and loss.item() < first / 2
