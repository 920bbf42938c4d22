"""A convolutional network learns to read drawn digits."""

from __future__ import annotations

from shared import Progress, digits, settings

import adjoint as torch
from adjoint import nn
from adjoint.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        )  # fmt: skip
        self.head = nn.Sequential(nn.Flatten(), nn.Dropout(0.2), nn.Linear(16 * 9, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(x))


args = settings(__doc__)
train, test = digits(1000 if args.short else 5000), digits(500)
model = Net().to(args.device)
epochs = 4 if args.short else 8
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
loader = DataLoader(TensorDataset(*train), batch_size=50, shuffle=True)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=epochs * len(loader))


@args.compiled
def step(images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    with args.autocast():
        loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    args.scaler.scale(loss).backward()
    args.scaler.step(optimizer)
    args.scaler.update()
    return loss


bar = Progress(epochs, "epochs")
for _ in bar:
    for images, labels in loader:
        loss = step(images.to(args.device), labels.to(args.device))
        schedule.step()
    bar.show(loss=loss.item())

model.eval()
with torch.no_grad():
    right = (model(test[0].to(args.device)).argmax(1).cpu() == test[1]).float().mean().item()
print(f"accuracy on digits it has not seen: {right:.1%}")
assert right > (0.9 if args.short else 0.97)
