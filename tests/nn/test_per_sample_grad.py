"""Gradients of each sample, and weights of recurrent modules that a program replaces, against torch."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from tests.autograd.programs import Programs, refusal
from tests.oracle import needs_torch, same

program = Programs()

MODULES: dict[str, Any] = {
    "linear": (lambda T: T.nn.Linear(4, 3), (5, 4)),
    "conv2d": (lambda T: T.nn.Conv2d(2, 3, 2), (4, 2, 5, 5)),
    "sequential": (lambda T: T.nn.Sequential(T.nn.Conv1d(2, 3, 2), T.nn.ReLU(), T.nn.Linear(4, 2)), (3, 2, 5)),
    "group norm": (lambda T: T.nn.GroupNorm(2, 4), (5, 4, 3)),
}


def per_sample(T: Any, name: str, reduction: str) -> Any:
    make, shape = MODULES[name]
    module = make(T)
    with T.no_grad():
        for i, p in enumerate(module.parameters()):
            p.copy_((T.arange(float(p.numel())).reshape(p.shape) * 0.1 + i).sin())
    count = 1
    for size in shape:
        count *= size
    x = (T.arange(float(count)).reshape(shape) * 0.3).cos()
    call = import_module(f"{T.__name__}.nn.utils._per_sample_grad").call_for_per_sample_grads
    out = call(module, loss_reduction=reduction)(x)
    getattr(out**2, reduction)().backward()
    return out, [(p.grad, p.grad_sample) for p in module.parameters()]


@program
def refusals(T):
    call = import_module(f"{T.__name__}.nn.utils._per_sample_grad").call_for_per_sample_grads
    module = T.nn.Linear(2, 2)
    call(module)(T.ones(3, 2)).sum().backward()
    return [
        refusal(lambda: call(3)),
        refusal(lambda: call(module, loss_reduction="max")),
        refusal(lambda: call(module, batch_size=0)),
        refusal(lambda: call(module))[0],
        refusal(lambda: call(T.nn.Linear(2, 2))(3)),
    ]


@program
def weights_of_a_recurrent_module(T):
    module, x = T.nn.LSTM(2, 3), T.ones(4, 1, 2)
    with T.no_grad():
        for p in module.parameters():
            p.fill_(0.1)
    found = [module(x)[0]]
    module._flat_weights = [w * 2 for w in module._flat_weights]
    found.append(module(x)[0])
    module.weight_hh_l0 = T.nn.Parameter(T.zeros(12, 3))
    found.append(module(x)[0])
    return found, len(list(module.parameters())), sorted(module.state_dict())


@program
def a_batch_of_convolutions_with_one_weight_repeated(T):
    weight = T.arange(12.0).reshape(3, 2, 2).expand(4, 3, 2, 2).detach().requires_grad_()
    x = T.arange(40.0).reshape(4, 1, 2, 5).cos()
    out = T.func.vmap(lambda w, x: T.nn.functional.conv1d(x, w))(weight, x)
    return T.autograd.grad((out**2).sum(), weight)


@program
def memory_of_padded_sequences(T):
    utils, found = T.nn.utils.rnn, []
    for batch_first in (False, True):
        padded = utils.pad_sequence([T.ones(3, 2), T.ones(4, 2)], batch_first=batch_first)
        found += [padded.clone(), padded.stride(), list(padded.view(-1).shape)]
        apart = utils.unpad_sequence(padded.clone(), T.tensor([3, 4]), batch_first=batch_first)
        found += [apart, [v.stride() for v in apart], [v._is_view() for v in apart]]
    return found


@program
def switches_of_attention(T):
    cuda, q = T.backends.cuda, T.ones(1, 1, 2, 2)
    params = cuda.SDPAParams(q, q, q, None, 0.0, False, False)
    cuda.enable_flash_sdp(False)
    off = cuda.flash_sdp_enabled()
    cuda.enable_flash_sdp(True)
    can = [cuda.can_use_flash_attention(params), cuda.can_use_efficient_attention(params)]
    return params.dropout, params.attn_mask, can, off, cuda.flash_sdp_enabled(), cuda.math_sdp_enabled()


@needs_torch
@pytest.mark.parametrize("function", program, ids=lambda f: f.__name__)
def test_program_does_what_it_does_on_torch(function: Any) -> None:
    same(function, 1e-5)


@needs_torch
@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("name", MODULES)
def test_gradients_of_samples_are_torchs(name: str, reduction: str) -> None:
    same(lambda T: per_sample(T, name, reduction), 1e-5)
