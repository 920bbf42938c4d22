"""What a program is made of: views, writes, changes of shape, and other steps, as data."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

Step = tuple[Any, ...]
Rng = np.random.Generator


class State:
    """The tensors of a running program: those it differentiates by, all others, and values read on the way."""

    def __init__(self, T: Any, program: list[Step], nudge: float = 0.0) -> None:
        _, shape, kind = program[0]
        self.T, self.read, self.hooked = T, [], []
        values = np.linspace(0.3, 1.4, int(np.prod(shape))).reshape(shape)
        if kind == "complex":
            values = values + 1j * values[::-1]
        dtype = T.complex128 if kind == "complex" else T.float64
        self.x = T.tensor((values + nudge * direction(shape)).tolist(), dtype=dtype, requires_grad=True)
        first = self.x * 1 if kind != "buffer" else T.tensor(values.tolist(), dtype=dtype)
        self.tensors: list[Any] = [first, self.x] if kind == "leaf" else [first]


def direction(shape: tuple[int, ...]) -> Any:
    """Return the direction along which finite differences are taken."""
    return np.cos(np.arange(int(np.prod(shape)))).reshape(shape)


# --- Steps -------------------------------------------------------------------------------------------

VIEWS: dict[str, Callable[[Any, int, int], Any]] = {
    "select": lambda v, i, j: v.select(i % v.dim(), j % v.shape[i % v.dim()]),
    "row": lambda v, i, j: v[j % v.shape[0]],
    "tail": lambda v, i, j: v.narrow(0, 1, v.shape[0] - 1 or 9),
    "step": lambda v, i, j: v[..., ::2],
    "transpose": lambda v, i, j: v.transpose(i % v.dim(), j % v.dim()),
    "permute": lambda v, i, j: v.permute(*np.roll(np.arange(v.dim()), i).tolist()),
    "flat": lambda v, i, j: v.view(-1),
    "reshape": lambda v, i, j: v.reshape(-1, v.shape[0]),
    "unsqueeze": lambda v, i, j: v.unsqueeze(i % (v.dim() + 1)),
    "squeeze": lambda v, i, j: v.squeeze(),
    "narrow": lambda v, i, j: v.narrow(i % v.dim(), 0, 1),
    "diagonal": lambda v, i, j: v.diagonal(i % 2),
    "unfold": lambda v, i, j: v.unfold(i % v.dim(), 1, 1),
    "expand": lambda v, i, j: v[:1].expand(2, *v.shape[1:]),
    "alias": lambda v, i, j: v.view_as(v),
    "as_strided": lambda v, i, j: _reached(v).as_strided((2,), (1,), v.storage_offset()),
    "split": lambda v, i, j: v.split(1, i % v.dim())[0],
    "chunk": lambda v, i, j: v.chunk(2)[j % len(v.chunk(2))],
    "unbind": lambda v, i, j: v.unbind(i % v.dim())[0],
    "tensor_split": lambda v, i, j: v.tensor_split(2)[0],
    "real": lambda v, i, j: v.real,
    "imag": lambda v, i, j: v.imag,
    "view_as_real": lambda v, i, j: _of(v).view_as_real(v),
    "view_as_complex": lambda v, i, j: _of(v).view_as_complex(v),
    "detach": lambda v, i, j: v.detach(),
    "data": lambda v, i, j: v.data,
    "clone": lambda v, i, j: v.clone(),
    "twice": lambda v, i, j: v * 2,
    "movedim": lambda v, i, j: v.movedim(i % v.dim(), j % v.dim()),
    "flatten": lambda v, i, j: v.flatten(),
    "unflatten": lambda v, i, j: v.unflatten(0, (1, -1)),
    "mT": lambda v, i, j: v.mT if v.dim() > 1 else v.view_as(v),
}
CUTS = {"detach", "data"}
EDGE = 0.8123  # of masks: no value that the last digit of a rounding could put on either side


def _of(tensor: Any) -> Any:
    return sys.modules[type(tensor).__module__.partition(".")[0]]


def _reached(v: Any) -> Any:
    """Return `v`; raise for a view with gaps, as torch has no gradient for memory outside of the view."""
    if v._is_view() and not (v.is_contiguous() and v.numel() > 1):
        raise RuntimeError("the tensor is a view with gaps")
    return v


def _index(v: Any, i: int) -> Any:
    T = _of(v)
    choices: list[Any] = [0, -1, ..., slice(0, 1), (..., 0), T.tensor([0]), v.real.detach() > EDGE, None, (None, 0)]
    return choices[i % len(choices)]


def _other(s: State, v: Any, i: int) -> Any:
    """Return something to write: of one element of the program's leaf, or of all of another tensor."""
    x = s.x.reshape(-1)[i % s.x.numel()].clone()
    return x.real if x.is_complex() and not v.is_complex() else x


WRITES: dict[str, Callable[[State, Any, int], Any]] = {
    "mul": lambda s, v, i: v.mul_(2.0),
    "mul_x": lambda s, v, i: v.mul_(_other(s, v, i)),
    "add_x": lambda s, v, i: v.add_(_other(s, v, i)),
    "sub": lambda s, v, i: v.sub_(0.25),
    "div_x": lambda s, v, i: v.div_(_other(s, v, i)),
    "square": lambda s, v, i: v.mul_(v.clone()),
    "self": lambda s, v, i: v.mul_(v),
    "pow": lambda s, v, i: v.pow_(2),
    "fill": lambda s, v, i: v.fill_(0.5),
    "zero": lambda s, v, i: v.zero_(),
    "copy_x": lambda s, v, i: v.copy_(_other(s, v, i) * 3),
    "copy": lambda s, v, i: v.copy_(_of(v).ones(v.shape, dtype=v.dtype) * 0.7),
    "set": lambda s, v, i: v.__setitem__(_index(v, i), 0.6),
    "set_x": lambda s, v, i: v.__setitem__(_index(v, i), _other(s, v, i)),
    "set_mul": lambda s, v, i: v.__setitem__(_index(v, i), v[_index(v, i)] * 3),
    "masked_fill": lambda s, v, i: v.masked_fill_(v.real.detach() > EDGE, 0.4),
    "masked_scatter": lambda s, v, i: v.masked_scatter_(v.real.detach() > EDGE, s.x.reshape(-1).repeat(4)),
    "index_fill": lambda s, v, i: _dense(v).index_fill_(i % v.dim(), _of(v).tensor([0]), 0.9),
    "index_add": lambda s, v, i: _dense(v).index_add_(0, _of(v).tensor([0]), v[:1].clone()),
    "index_copy": lambda s, v, i: _dense(v).index_copy_(0, _of(v).tensor([0]), v[-1:] * 2),
    "index_put": lambda s, v, i: _dense(v).index_put_((_of(v).tensor([0]),), _other(s, v, i), accumulate=bool(i % 2)),
    "scatter": lambda s, v, i: _dense(v).scatter_(0, _of(v).zeros(v.shape, dtype=_of(v).int64)[:1], v[-1:] * 2),
    "exp": lambda s, v, i: v.exp_(),
    "sin": lambda s, v, i: v.sin_(),
    "tanh": lambda s, v, i: v.tanh_(),
    "sigmoid": lambda s, v, i: v.sigmoid_(),
    "sqrt": lambda s, v, i: v.sqrt_(),
    "clamp": lambda s, v, i: v.clamp_(0.45, 1.05),
    "relu": lambda s, v, i: v.relu_(),
    "neg": lambda s, v, i: v.neg_(),
    "addcmul": lambda s, v, i: v.addcmul_(_other(s, v, i), _other(s, v, i + 1)),
    "lerp": lambda s, v, i: v.lerp_(v.clone() * 2, 0.3),
    "cumsum": lambda s, v, i: v.cumsum_(i % v.dim()),
    "imul": lambda s, v, i: v.__imul__(1.5),
    "out": lambda s, v, i: _of(v).mul(v.detach(), 2, out=v),
    "dirty": lambda s, v, i: _functions(s.T)[0].apply(v),
    "fill_diagonal": lambda s, v, i: v.fill_diagonal_(0.2),
    "where": lambda s, v, i: v.copy_(_of(v).where(v.real.detach() > EDGE, v, v * 2)),
}
SHAPES: dict[str, Callable[[State, Any, int, int], Any]] = {
    "t_": lambda s, v, i, j: v.t_(),
    "transpose_": lambda s, v, i, j: v.transpose_(i % v.dim(), j % v.dim()),
    "swapaxes_": lambda s, v, i, j: v.swapaxes_(i % v.dim(), j % v.dim()),
    "swapdims_": lambda s, v, i, j: v.swapdims_(i % v.dim(), j % v.dim()),
    "unsqueeze_": lambda s, v, i, j: v.unsqueeze_(i % (v.dim() + 1)),
    "squeeze_": lambda s, v, i, j: v.squeeze_(),
    "squeeze_dim_": lambda s, v, i, j: v.squeeze_(i % v.dim()),
    "as_strided_": lambda s, v, i, j: _reached(v).as_strided_((2,), (1,), v.storage_offset()),
    "as_strided_all_": lambda s, v, i, j: _reached(v).as_strided_((v.numel(),), (1,), v.storage_offset()),
    "resize_": lambda s, v, i, j: _dense(v).resize_(v.numel()),
    "resize_less_": lambda s, v, i, j: v.resize_(max(v.numel() // 2, 1)),
    "resize_as_": lambda s, v, i, j: _dense(v).resize_as_(v.detach().reshape(-1)),
}
OTHERS: dict[str, Callable[[State, Any, int], Any]] = {
    "detach_": lambda s, v, i: _unviewed(s, v).detach_(),
    "requires_grad_": lambda s, v, i: _unviewed(s, v).requires_grad_(),
    "freeze": lambda s, v, i: v.requires_grad_(False),
    "retain_grad": lambda s, v, i: v.retain_grad(),
    "hook": lambda s, v, i: _hookable(v).register_hook(_noting(s.hooked)),
    "hook_scale": lambda s, v, i: _hookable(v).register_hook(lambda g: g * 3),
    "read": lambda s, v, i: s.read.append((v * v).sum()),
    "read_exp": lambda s, v, i: s.read.append(v.exp().sum()),
    "numpy": lambda s, v, i: v.detach().numpy().__imul__(1.1),
    "from_numpy": lambda s, v, i: s.tensors.append(s.T.from_numpy(v.detach().numpy())),
    "asarray": lambda s, v, i: np.asarray(v.detach()).__iadd__(0.25),
    "as_tensor": lambda s, v, i: s.tensors.append(s.T.as_tensor(np.asarray(v.detach()))),
    "look": lambda s, v, i: v.grad_fn,
    "set_": lambda s, v, i: _unviewed(s, v).set_(s.tensors[i % len(s.tensors)].detach()),
    "set_data": lambda s, v, i: setattr(v, "data", _unviewed(s, v).detach().clone().mul_(2)),
    "version": lambda s, v, i: _of(v).autograd.graph.increment_version(v),
    "identity": lambda s, v, i: s.tensors.append(_functions(s.T)[1].apply(v)),
    "custom_view": lambda s, v, i: s.tensors.append(_functions(s.T)[2].apply(v)),
}
IMPURE = {
    "detach_",
    "freeze",
    "numpy",
    "from_numpy",
    "asarray",
    "as_tensor",
    "from_dlpack",
    "set_",
    "set_data",
    "hook_scale",
    "requires_grad_",
}


def _unviewed(s: State, v: Any) -> Any:
    """Return a tensor that has no views and is none: what becomes of those, when it changes, torch leaves open."""
    if s.T.is_inference_mode_enabled() or v._is_view() or any(t._base is v for t in s.tensors):
        raise RuntimeError("the tensor has views")
    return v


def _dense(v: Any) -> Any:
    """Return a tensor that has memory for each of its elements: what a longer one would have there is open."""
    if any(n > 1 and not s for s, n in zip(v.stride(), v.shape, strict=True)):
        raise RuntimeError("the tensor overlaps itself")
    return v


def _hookable(v: Any) -> Any:
    """Return a tensor that has somewhere to put a hook: with a leaf that is a view, torch 2.13 ends the process."""
    if v._is_view() and v.is_leaf:
        raise RuntimeError("the tensor is a leaf and a view")
    return v


def _noting(found: list[Any]) -> Callable[[Any], None]:
    def hook(g: Any) -> None:
        found.append(complex(g.sum().item()))

    return hook


_made: dict[Any, tuple[Any, ...]] = {}


def _functions(T: Any) -> tuple[Any, ...]:
    """Return custom functions: one that writes its input, one that returns it, one that returns a view of it."""
    if T in _made:
        return _made[T]

    class Dirty(T.autograd.Function):  # type: ignore[misc,name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            return x.mul_(4)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 4

    class Identity(T.autograd.Function):  # type: ignore[misc,name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    class Viewing(T.autograd.Function):  # type: ignore[misc,name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.unsqueeze(0)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g.squeeze(0)

    _made[T] = (Dirty, Identity, Viewing)
    return _made[T]


def perform(s: State, step: Step) -> None:
    """Run one step of a program."""
    mode, kind, name, which, i, j = step
    v = s.tensors[which % len(s.tensors)]
    T = s.T
    region = {
        "grad": contextlib.nullcontext,
        "no_grad": T.no_grad,
        "enable_grad": T.enable_grad,
        "inference": T.inference_mode,
    }
    with region[mode]():
        if kind == "view":
            s.tensors.append(VIEWS[name](v, i, j))
        elif kind == "write":
            WRITES[name](s, v, i)
        elif kind == "shape":
            SHAPES[name](s, v, i, j)
        else:
            OTHERS[name](s, v, i)
