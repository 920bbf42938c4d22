"""pytorch-lightning: its trainer fits a line, with its default settings, and goes on from its checkpoint."""

import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(256, 2)
y = x @ torch.tensor([[1.0], [-2.0]]) + 0.5


class Line(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def training_step(self, batch, index):
        return torch.nn.functional.mse_loss(self.layer(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.05)


line, data = Line(), DataLoader(TensorDataset(x, y), batch_size=16)
trainer = pl.Trainer(max_epochs=10, accelerator="cpu")
trainer.fit(line, data)
again = pl.Trainer(max_epochs=11, accelerator="cpu")
again.fit(Line(), data, ckpt_path=trainer.checkpoint_callback.best_model_path)
assert again.current_epoch == 11
print(f"pytorch-lightning {pl.__version__}: {line.layer.weight.tolist()} {line.layer.bias.tolist()}")
assert torch.allclose(line.layer.weight, torch.tensor([[1.0, -2.0]]), atol=0.05)
