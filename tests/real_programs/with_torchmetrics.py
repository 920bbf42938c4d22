"""torchmetrics: accuracy, area under the curve and similarity of images, counted over batches, with a gradient."""

import torch
import torchmetrics
from torchmetrics.classification import BinaryAUROC, MulticlassAccuracy

torch.manual_seed(0)
logits, labels = torch.randn(60, 3), torch.randint(0, 3, (60,))
accuracy = MulticlassAccuracy(3, average="micro")
for batch in range(3):
    accuracy.update(logits[20 * batch : 20 * batch + 20], labels[20 * batch : 20 * batch + 20])
assert abs(accuracy.compute().item() - (logits.argmax(1) == labels).float().mean().item()) < 1e-6
area = BinaryAUROC()(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1]))
assert abs(area.item() - 0.75) < 1e-6
image = torch.rand(1, 3, 16, 16, requires_grad=True)
similarity = torchmetrics.functional.structural_similarity_index_measure(
    image, torch.rand(1, 3, 16, 16), data_range=1.0
)
similarity.backward()
print(f"torchmetrics {torchmetrics.__version__}: accuracy {accuracy.compute().item():.2f}, area {area.item():.2f}")
assert image.grad.abs().sum() > 0
