"""A digit reader is trained, and exported for onnxruntime: ``digits.onnx``, and ``digits.pt2`` for adjoint itself."""

from __future__ import annotations

import argparse
from pathlib import Path

import adjoint as torch
from adjoint import nn
from adjoint.demo import digits
from adjoint.export import Dim
from adjoint.nn import functional as F
from adjoint.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--short", action="store_true", help="a few seconds only")
parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="the folder to write to")
args = parser.parse_args()
torch.manual_seed(0)


class Reader(nn.Module):
    """Reads images of 12 x 12 points, and returns the probability of each digit."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        )  # fmt: skip
        self.head = nn.Linear(32 * 9, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        scores = self.head(self.features(image).flatten(1))
        return scores if self.training else scores.softmax(1)


model = Reader()
images, labels = digits(1500 if args.short else 8000)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for _ in range(4 if args.short else 10):
    for x, y in DataLoader(TensorDataset(images, labels), batch_size=50, shuffle=True):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

model.eval()
test, answers = digits(500)
with torch.no_grad():
    right = (model(test).argmax(1) == answers).float().mean().item()
print(f"accuracy on digits it has not seen: {right:.1%}")
assert right > 0.95

batch = {"image": {0: Dim("batch", min=1)}}
program = torch.onnx.export(
    model, (test[:2],), args.out / "digits.onnx", output_names=["probabilities"], dynamic_shapes=batch, verify=True
)
torch.export.save(torch.export.export(model, (test[:2],), dynamic_shapes=batch), args.out / "digits.pt2")
print(f"{program} written to {args.out / 'digits.onnx'}")
