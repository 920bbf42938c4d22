"""A network of three layers learns to read drawn digits."""

from __future__ import annotations

from shared import Progress, digits, settings

import adjoint as torch
from adjoint import nn
from adjoint.utils.data import DataLoader, TensorDataset

args = settings(__doc__)
train, test = digits(1500 if args.short else 6000), digits(500)
model = nn.Sequential(nn.Flatten(), nn.Linear(144, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
model.to(args.device)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
loader = DataLoader(TensorDataset(*train), batch_size=64, shuffle=True)


@args.compiled
def step(images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    with args.autocast():
        loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    args.scaler.scale(loss).backward()
    args.scaler.step(optimizer)
    args.scaler.update()
    return loss


bar = Progress(10 if args.short else 15, "epochs")
for _ in bar:
    for images, labels in loader:
        loss = step(images.to(args.device), labels.to(args.device))
    bar.show(loss=loss.item())

with torch.no_grad():
    right = (model(test[0].to(args.device)).argmax(1).cpu() == test[1]).float().mean().item()
print(f"accuracy on digits it has not seen: {right:.1%}")
assert right > (0.75 if args.short else 0.93)
