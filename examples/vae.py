"""A variational autoencoder learns to draw digits."""

from __future__ import annotations

from shared import Progress, digits, settings

import adjoint as torch
from adjoint import nn
from adjoint.distributions import Normal, kl_divergence
from adjoint.utils.data import DataLoader


class VAE(nn.Module):
    def __init__(self, latent: int = 8) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(144, 128), nn.ReLU(), nn.Linear(128, 2 * latent))
        self.decoder = nn.Sequential(nn.Linear(latent, 128), nn.ReLU(), nn.Linear(128, 144), nn.Sigmoid())

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, Normal]:
        mean, spread = self.encoder(x).chunk(2, 1)
        code = Normal(mean, nn.functional.softplus(spread) + 1e-3)
        return self.decoder(code.rsample()).view_as(x), code


args = settings(__doc__)
images = digits(1000 if args.short else 4000)[0].clamp(0, 1)
model = VAE().to(args.device)
prior = Normal(torch.zeros((), device=args.device), torch.ones((), device=args.device))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)


@args.compiled
def step(batch: torch.Tensor) -> torch.Tensor:
    drawn, code = model(batch)
    wrong = 20 * (drawn - batch).square().flatten(1).sum(1)
    loss = (wrong + kl_divergence(code, prior).sum(1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


losses = []
bar = Progress(8 if args.short else 40, "epochs")
for _ in bar:
    for batch in DataLoader(images, batch_size=50, shuffle=True):
        losses.append(step(batch.to(args.device)).item())
    bar.show(loss=losses[-1])

with torch.no_grad():
    for row in model.decoder(torch.randn(1, 8, device=args.device)).view(12, 12).tolist():
        print("".join(" .:-=+*#%@"[min(9, int(10 * value))] * 2 for value in row))
print(f"negative evidence per image: {losses[0]:.0f} before, {losses[-1]:.0f} after")
assert losses[-1] < (0.5 if args.short else 0.35) * losses[0]
