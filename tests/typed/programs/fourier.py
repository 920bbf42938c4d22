"""Fourier, as users write it."""

from __future__ import annotations

import adjoint as torch

t = torch.arange(64) / 64
signal = torch.sin(2 * torch.pi * 5 * t) + 0.5 * torch.cos(2 * torch.pi * 9 * t)
spectrum = torch.fft.rfft(signal)
print(spectrum.abs().argmax(), torch.fft.irfft(spectrum, n=64).shape, torch.special.erf(t).sum(), spectrum.real.mean())
