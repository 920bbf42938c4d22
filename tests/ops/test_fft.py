"""Fourier transforms: against torch, forward against reverse, batched against a loop."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import adjoint
from tests.ops import checks
from tests.oracle import needs_torch, same

rng = np.random.default_rng(3)
REAL = rng.standard_normal((3, 4, 5))
COMPLEX = rng.standard_normal((3, 4, 5)) + 1j * rng.standard_normal((3, 4, 5))
NORMS = (None, "backward", "forward", "ortho")

# name: (program, input)
PROGRAMS: dict[str, tuple[Any, np.ndarray]] = {}
for _name in ("fft", "ifft", "hfft", "irfft"):
    for _norm in NORMS:
        PROGRAMS[f"{_name} {_norm}"] = (lambda m, x, f=_name, n=_norm: getattr(m.fft, f)(x, norm=n), COMPLEX)
    PROGRAMS[f"{_name} n dim"] = (lambda m, x, f=_name: getattr(m.fft, f)(x, 6, 1), COMPLEX)
    PROGRAMS[f"{_name} shorter"] = (lambda m, x, f=_name: getattr(m.fft, f)(x, n=3, dim=0), COMPLEX)
    PROGRAMS[f"{_name} of reals"] = (lambda m, x, f=_name: getattr(m.fft, f)(x), REAL)
for _name in ("rfft", "ihfft"):
    for _norm in NORMS:
        PROGRAMS[f"{_name} {_norm}"] = (lambda m, x, f=_name, n=_norm: getattr(m.fft, f)(x, norm=n), REAL)
    PROGRAMS[f"{_name} n dim"] = (lambda m, x, f=_name: getattr(m.fft, f)(x, 7, 1), REAL)
    PROGRAMS[f"{_name} even"] = (lambda m, x, f=_name: getattr(m.fft, f)(x, dim=1), REAL)
for _name in ("fftn", "ifftn", "irfftn", "hfftn"):
    PROGRAMS[f"{_name}"] = (lambda m, x, f=_name: getattr(m.fft, f)(x), COMPLEX)
    PROGRAMS[f"{_name} s"] = (lambda m, x, f=_name: getattr(m.fft, f)(x, s=(3, 6), norm="ortho"), COMPLEX)
    PROGRAMS[f"{_name} dim"] = (lambda m, x, f=_name: getattr(m.fft, f)(x, s=(-1, 4), dim=(2, 0)), COMPLEX)
for _name in ("rfftn", "ihfftn"):
    PROGRAMS[f"{_name}"] = (lambda m, x, f=_name: getattr(m.fft, f)(x, norm="forward"), REAL)
    PROGRAMS[f"{_name} dim"] = (lambda m, x, f=_name: getattr(m.fft, f)(x, s=(2, 6), dim=(0, 1)), REAL)
for _name in ("fft2", "ifft2", "irfft2", "hfft2"):
    PROGRAMS[_name] = (lambda m, x, f=_name: getattr(m.fft, f)(x), COMPLEX)
for _name in ("rfft2", "ihfft2"):
    PROGRAMS[_name] = (lambda m, x, f=_name: getattr(m.fft, f)(x), REAL)
PROGRAMS["fftshift"] = (lambda m, x: m.fft.fftshift(x), REAL)
PROGRAMS["ifftshift"] = (lambda m, x: m.fft.ifftshift(x, dim=(0, 2)), COMPLEX)

SIGNAL = np.sin(np.arange(24.0)).reshape(2, 12)
PROGRAMS["stft"] = (lambda m, x: m.stft(x, 4, return_complex=True), SIGNAL)
PROGRAMS["stft with a window"] = (
    lambda m, x: m.stft(x, 6, 2, 4, m.hann_window(4, dtype=m.float64), False, normalized=True, return_complex=True),
    SIGNAL,
)
PROGRAMS["stft both sides"] = (
    lambda m, x: x.stft(4, 1, onesided=False, pad_mode="constant", return_complex=True),
    SIGNAL,
)
PROGRAMS["istft"] = (
    lambda m, x: m.istft(
        m.stft(x, 4, window=m.hann_window(4).double(), return_complex=True), 4, window=m.hann_window(4).double()
    ),
    SIGNAL,
)
PROGRAMS["istft length"] = (lambda m, x: m.istft(x[:, :3], 4, 2, length=7), COMPLEX)


@needs_torch
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients(name: str) -> None:
    f, value = PROGRAMS[name]
    same(lambda m: f(m, *checks.tensors(m, [value])))
    same(lambda m: checks.gradients(m, f, [value]), 1e-9)


OF_REALS = [n for n, (_, v) in PROGRAMS.items() if v is REAL]


@pytest.mark.parametrize("name", OF_REALS)
def test_forward_matches_reverse(name: str) -> None:
    f, value = PROGRAMS[name]
    checks.forward_matches_reverse(f, value)


@pytest.mark.parametrize("name", OF_REALS)
def test_batched_matches_loop(name: str) -> None:
    f, value = PROGRAMS[name]
    checks.batched_matches_loop(f, value)


VALUES: dict[str, Any] = {
    "float32 gives complex64": lambda m: m.fft.fft(m.ones(4)),
    "float32 and back": lambda m: m.fft.irfft(m.fft.rfft(m.ones(5)), 5),
    "ints": lambda m: m.fft.rfft(m.arange(4)),
    "fftfreq": lambda m: [m.fft.fftfreq(5, 0.5), m.fft.fftfreq(4), m.fft.rfftfreq(5, dtype=m.float64)],
    "windows": lambda m: [
        getattr(m.signal.windows, n)(5, sym=s)
        for n in ("bartlett", "blackman", "cosine", "exponential", "gaussian", "hamming", "hann", "kaiser", "nuttall")
        for s in (True, False)
    ],
    "general windows": lambda m: [
        m.signal.windows.general_cosine(6, a=[0.5, 0.3, 0.2]),
        m.signal.windows.general_hamming(1, alpha=0.6, dtype=m.float64),
    ],
    "no dims": lambda m: m.fft.fftn(m.ones(3), dim=()),
}
REFUSALS: dict[str, Any] = {
    "rfft of complex": lambda m: m.fft.rfft(m.ones(4, dtype=m.complex64)),
    "half": lambda m: m.fft.fft(m.ones(4).half()),
    "no points": lambda m: m.fft.fft(m.ones(0)),
    "n": lambda m: m.fft.fft(m.ones(4), 0),
    "norm": lambda m: m.fft.fft(m.ones(4), norm="x"),
    "dim": lambda m: m.fft.fft(m.ones(4), dim=1),
    "scalar": lambda m: m.fft.fft(m.ones(())),
    "dims twice": lambda m: m.fft.fftn(m.ones(2, 2), dim=(0, 0)),
    "lengths": lambda m: m.fft.fftn(m.ones(2, 2), s=(1, 2), dim=(0,)),
    "too many": lambda m: m.fft.fftn(m.ones(2), s=(1, 2)),
    "stft of ints": lambda m: m.stft(m.ones(10).int(), 4, return_complex=True),
    "stft hop": lambda m: m.stft(m.ones(10), 4, hop_length=0, return_complex=True),
    "stft window": lambda m: m.stft(m.ones(10), 4, window=m.ones(3), return_complex=True),
    "stft says what it returns": lambda m: m.stft(m.ones(10), 4),
    "istft of reals": lambda m: m.istft(m.ones(3, 5), 4),
    "window length": lambda m: m.signal.windows.hann(-1),
    "nothing to transform": lambda m: m.fft.rfftn(m.ones(2, 2), dim=()),
}


@needs_torch
@pytest.mark.parametrize("name", VALUES)
def test_values(name: str) -> None:
    same(VALUES[name])


@needs_torch
@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name: str) -> None:
    same(REFUSALS[name])


@given(st.integers(1, 9), st.sampled_from(NORMS))
@settings(max_examples=40)
def test_there_and_back(n: int, norm: str | None) -> None:
    x = adjoint.tensor(rng.standard_normal((2, n)), requires_grad=True)
    for there, back in ((adjoint.fft.fft, adjoint.fft.ifft), (adjoint.fft.rfft, adjoint.fft.irfft)):
        y = back(there(x, norm=norm), n, norm=norm)
        np.testing.assert_allclose(y.detach().real.numpy(), x.detach().numpy(), atol=1e-12)
        (g,) = adjoint.autograd.grad((y.real**2).sum(), x)
        np.testing.assert_allclose(g.numpy(), 2 * x.detach().numpy(), atol=1e-12)


def test_frozen_values() -> None:
    assert adjoint.fft.fft(adjoint.tensor([1.0, 2.0, 3.0, 4.0])).tolist() == [10, -2 + 2j, -2, -2 - 2j]
    assert adjoint.fft.fft(adjoint.ones(2)).dtype is adjoint.complex64
    assert adjoint.fft.rfft(adjoint.ones(3, requires_grad=True)).grad_fn.name() == "FftR2CBackward0"
