"""One-line programs for `ops.py`: what users write, as text, run forward and backward on both sides.

An expression without a mark is summed up and differentiated; ``!`` marks one without a gradient, ``@`` one that
writes into `a`. The names that may occur are those of `inputs`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

Program = Callable[[], object]
LEAVES = ("x", "y", "z", "v", "w", "b3", "b3t", "b3b", "c3", "d3")

SMALL = {
    "arithmetic": """
        x + y; x - y; x * y; x / y; x + 1.5; 2.0 - x; x * 3; x / 2.0; 1.0 / x; -x; x ** 2; x ** 3; x ** 0.5;
        x ** y; x ** 2.5; 2.0 ** x; x % 0.7; T.add(x, y); T.add(x, y, alpha=2); T.sub(x, y); T.mul(x, y);
        T.div(x, y); T.pow(x, 2); x.add(1.0); x.pow(2); T.addcmul(x, y, z); T.addcdiv(x, y, z);
        T.lerp(x, y, 0.3); T.lerp(x, y, z)
    """,
    "elementwise": """
        T.exp(x); T.log(x); T.exp2(x); T.expm1(x); T.log2(x); T.log10(x); T.log1p(x); T.sqrt(x); T.rsqrt(x);
        T.square(x); T.reciprocal(x)
    """,
    "trigonometry": """
        T.sin(x); T.cos(x); T.tan(x); T.asin(x*0.5); T.acos(x*0.5); T.atan(x); T.sinh(x); T.cosh(x); T.tanh(x);
        T.asinh(x); T.acosh(x+1); T.atanh(x*0.5); T.atan2(x, y); T.hypot(x, y); T.logaddexp(x, y)
    """,
    "activations": """
        T.erf(x); T.erfc(x); T.erfinv(x*0.5); T.lgamma(x); T.digamma(x); T.sigmoid(x); T.relu(x); F.relu(x);
        x.relu(); F.gelu(x); F.silu(x); F.softplus(x); F.elu(x); F.leaky_relu(x); F.hardtanh(x); F.relu6(x);
        F.logsigmoid(x); F.mish(x); F.selu(x); F.hardswish(x); F.hardsigmoid(x); F.softsign(x); F.tanhshrink(x)
    """,
    "pieces": """
        T.abs(x); T.sign(x); x.abs(); T.floor(x); T.ceil(x); T.round(x); T.trunc(x); T.frac(x);
        T.clamp(x, 0.2, 0.8); x.clamp(min=0.5); x.clamp(max=0.5); T.clip(x, 0., 1.); T.clamp(x, y, z)
    """,
    "choices": """
        T.maximum(x, y); T.minimum(x, y); T.fmax(x, y); T.where(m, x, y); T.where(x>y, x, y);
        T.where(m, x, 0.0); T.where(m, 0.0, x); x.masked_fill(m, 0.0); T.nan_to_num(x); T.sinc(x);
        T.copysign(x, y); T.xlogy(x, y); T.fmod(x, 0.7)
    """,
    "questions": """
        !x > y; !x < 0.5; !x == y; !x != y; !x >= 0.3; !T.eq(x, y); !T.gt(x, y); !T.isnan(x); !T.isfinite(x);
        !T.isinf(x); !T.logical_and(m, n); !T.logical_not(m); !m & n; !m | n; !~m; !T.equal(x, y);
        !T.allclose(x, x); !T.isclose(x, y); !(x>y).all(); !(x>y).any(); !i + 1; !i * j; !i // 2; !i % 3;
        !i & j; !i << 1
    """,
    "sums": """
        x.sum(); T.sum(x); x.sum(0); x.sum(1); x.sum(-1); x.sum(dim=1); x.sum(1, keepdim=True); x.sum((0, 1));
        T.sum(x, dim=0); x.mean(); x.mean(0); x.mean(dim=-1); x.mean(1, keepdim=True); T.mean(x)
    """,
    "reductions": """
        x.var(); x.var(1); x.std(); x.std(0); x.var(1, unbiased=False); x.norm();
        T.linalg.norm(x); T.linalg.vector_norm(x, dim=1); x.norm(p=1); x.prod(); x.prod(1); T.logsumexp(x, 1);
        x.max(); x.min(); x.max(1)[0]; x.max(dim=1).values; x.min(0)[0]; x.amax(1); x.amin(0); x.amax();
        !x.argmax(); !x.argmax(1); !x.argmin(0); x.median(); x.median(1)[0]; x.nansum(); x.cumsum(0);
        x.cumsum(1); x.cumprod(1); x.cummax(1)[0]; T.diff(x); !x.count_nonzero(); T.aminmax(x)[0]; x.nanmean();
        T.logcumsumexp(x, 1); T.trapezoid(x)
    """,
    "softmax": """
        T.softmax(x, 1); F.softmax(x, dim=-1); F.log_softmax(x, 1); x.softmax(-1); F.normalize(x, dim=1);
        F.cosine_similarity(x, y); T.cdist(x, y); F.pairwise_distance(x, y)
    """,
    "views": """
        x.view(-1); x.reshape(-1); x.reshape(S1, S0); x.view(S1, S0); x.t(); x.T; x.transpose(0, 1);
        x.permute(1, 0); x.unsqueeze(0); x.unsqueeze(-1); x.unsqueeze(1).squeeze(1); x[None]; x.flatten();
        x.expand(3, S0, S1); x.unsqueeze(0).expand(3, -1, -1); x.expand_as(y); x.contiguous(); x.clone();
        x.detach()*y; x.movedim(0, 1); x.unflatten(1, (1, -1)); T.flatten(x); x.view_as(y); x.swapaxes(0, 1);
        x.mT; x.ravel(); x.float(); x.double(); x.to(T.float64); x.half(); !x.long(); !x.bool(); x.type_as(y);
        x.squeeze(); T.squeeze(x); T.unsqueeze(x, 0); T.transpose(x, 0, 1); T.reshape(x, (-1, ))
    """,
    "indexing": """
        x[0]; x[0, 0]; x[1:]; x[:, 1]; x[:, 1:]; x[..., 0]; x[:, ::2]; x[-1]; x[None, :, 0]; x[1:3, 2:4]; x[ix];
        x[ix, iy]; x[m]; x[:, iy]; x[x>0.5]; x.select(0, 1); x.narrow(1, 0, 2); x.index_select(0, ix);
        x.gather(1, gi); T.take_along_dim(x, gi, 1); x.masked_select(m); x.take(iy); T.gather(x, 0, gi)
    """,
    "joining": """
        T.cat([x, y]); T.cat([x, y], 1); T.cat((x, y, z), dim=-1); T.stack([x, y]); T.stack([x, y, z], -1);
        T.hstack([x, y]); T.vstack([x, y]); x.split(2)[0]; x.split(2, 1)[1]; x.chunk(2)[0]; x.chunk(2, 1)[1];
        x.unbind()[0]; x.unbind(1)[1]; sum(x.unbind(0)); sum(x.chunk(4, 0)); T.cat(x.split(2, 0));
        T.tensor_split(x, 2)[0]; x.repeat(2, 1); T.tile(x, (2, 1)); x.repeat_interleave(2, 0); T.roll(x, 1, 0);
        T.flip(x, [0]); x.flip(0); T.rot90(x); F.pad(x, (1, 1)); F.pad(x, (1, 1, 1, 1)); T.tril(x); T.triu(x);
        T.diag(v); x.diagonal(); T.diag(x); T.diag_embed(v); T.meshgrid(v, v, indexing='ij')[0]*1;
        T.block_diag(x, y); T.trace(x)
    """,
    "matmul": """
        x @ y.T; x @ w; T.matmul(x, w); T.mm(x, w); x.mm(w); T.mv(w, v); w @ v; T.dot(v, v); T.bmm(b3, b3t);
        b3 @ b3t; T.outer(v, v); T.einsum("ij,jk->ik", x, w); T.addmm(v, x, w); F.linear(x, w, v);
        F.linear(x, w); T.tensordot(x, w, 1); T.inner(v, v); T.baddbmm(b3b, b3, b3t); T.kron(b3[0], b3[1]);
        T.linalg.multi_dot([x, w, w]); T.cross(c3, d3, dim=1); T.ger(v, v)
    """,
    "factories": """
        !T.zeros(S0, S1); !T.ones(S0, S1); !T.empty(S0, S1); !T.full((S0, S1), 2.0); !T.zeros_like(x);
        !T.ones_like(x); !T.empty_like(x); !T.full_like(x, 1.0); !T.arange(10); !T.arange(0, 10, 2);
        !T.linspace(0, 1, 10); !T.eye(S0); !T.tensor(1.0); !T.tensor([1., 2., 3.]); !T.tensor(lst);
        !T.rand(S0, S1); !T.randn(S0, S1); !T.rand_like(x); !T.randn_like(x); !T.randint(0, 10, (S0, S1));
        !T.randperm(S1); !T.bernoulli(p); !T.normal(x, 1.0); !T.multinomial(v.abs().detach(), 3);
        !x.new_zeros(S0, S1); !T.from_numpy(npx); !x.tolist(); !x.detach().numpy(); !x.shape; !x.size();
        !x.size(0); !x.dim(); !x.numel(); !x.dtype; !x.device; !x.is_contiguous(); !T.is_tensor(x);
        !T.zeros(S0, S1, requires_grad=True); F.dropout(x, 0.5); !len(x); !T.as_tensor(npx); !v[0].item()
    """,
    "losses": """
        F.mse_loss(x, y); F.l1_loss(x, y); F.smooth_l1_loss(x, y); F.huber_loss(x, y); F.cross_entropy(x, tc);
        F.nll_loss(x, tc); F.binary_cross_entropy(p*x.sigmoid(), y.detach().sigmoid());
        F.binary_cross_entropy_with_logits(x, p); F.kl_div(x, p); F.hinge_embedding_loss(x, sgn);
        F.cosine_embedding_loss(x, y, sg1); F.margin_ranking_loss(x, y, sgn); F.triplet_margin_loss(x, y, z);
        F.poisson_nll_loss(x, p); F.gaussian_nll_loss(x, p, z*z+.1); F.soft_margin_loss(x, sgn);
        F.layer_norm(x, (S1, )); F.embedding(gi[0], w); F.multi_margin_loss(x, tc);
        F.mse_loss(x, y, reduction='sum'); F.mse_loss(x, y, reduction='none')
    """,
    "inplace": """
        @x.detach().clone().add_(1.0); @x.detach().clone().mul_(y.detach()); @a.zero_(); @a.add_(b);
        @a.mul_(0.99); @a.add_(b, alpha=0.1); @a.copy_(b); @a.fill_(1.0); @a.clamp_(0, 1);
        @a.uniform_(); @a.normal_(); @a.__setitem__(0, 1.0); @a.__setitem__((slice(None), 0), 0.0);
        @a.__setitem__(n, 0.0); @a.addcmul_(b, b, value=.1); @a.addcdiv_(b, b, value=.1); @a.sqrt_();
        @a.lerp_(b, .1); @a.sub_(b); @a.div_(2.0); @a.exp_(); @a.__setitem__((ix, ), 0.5);
        @a.masked_fill_(n, .5); @a.scatter_(1, gi, .5); @a.scatter_add_(1, gi, b);
        @a.index_add_(0, ix, b[:3]); @a.index_fill_(0, ix, .1); @a.index_copy_(0, ix, b[:3])
    """,
    "scatter": """
        T.scatter(x, 1, gi, y); T.scatter_add(x, 1, gi, y); T.index_add(x, 0, ix, y[:3]);
        x.index_fill(0, ix, .5); x.index_put((ix, ), y[0]); x.masked_scatter(m, y); x.sort(1)[0]; x.sort()[0];
        !x.argsort(1); x.topk(2, 1)[0]; x.kthvalue(2, 1)[0]; !T.searchsorted(v.sort()[0].detach(), v.detach());
        !T.unique(i); !T.bincount(i.view(-1)); !m.nonzero(); !T.nonzero(m, as_tuple=True); !T.histc(x.detach());
        !T.bucketize(x.detach(), v.sort()[0].detach())
    """,
}

LARGE = {
    "elementwise": """
        x + y; x - y; x * y; x / y; x + 1.5; 2.0 - x; x * 3; 1.0 / x; -x; x ** 2; x ** 3; x ** 2.5; x ** y; x + v;
        T.exp(x); T.log(x); T.log1p(x); T.expm1(x); T.sqrt(x); T.rsqrt(x); T.sin(x); T.cos(x); T.tanh(x); T.atan(x);
        T.sigmoid(x); T.relu(x); F.silu(x); F.softplus(x); F.elu(x); F.leaky_relu(x); T.erf(x); T.abs(x);
        T.clamp(x, 0.2, 0.8); T.maximum(x, y); T.where(m, x, y); x.masked_fill(m, 0.0); T.hypot(x, y);
        T.logaddexp(x, y); T.addcmul(x, y, z); T.addcdiv(x, y, z); T.lerp(x, y, 0.3); T.lerp(x, y, z); T.floor(x);
        T.atan2(x, y); x % 0.7
    """,
    "reductions": """
        x.sum(); x.sum(0); x.sum(1); x.mean(); x.mean(0); x.mean(1); x.var(); x.var(1); x.std(0); x.norm();
        x.norm(dim=1); x.prod(1); T.logsumexp(x, 1); x.max(); x.amax(1); x.max(1)[0]; x.min(0)[0]; x.cumsum(0);
        x.cumsum(1); x.cumprod(1); F.mse_loss(x, y); F.l1_loss(x, y); F.smooth_l1_loss(x, y); F.huber_loss(x, y);
        F.binary_cross_entropy_with_logits(x, p); F.kl_div(x, p); F.normalize(x, dim=1); F.cosine_similarity(x, y)
    """,
    "moved": """
        x.t() * y.t(); x.clone(); T.cat([x, y]); T.cat([x, y], 1); T.stack([x, y]); x[:, 1:]; x[ix]; x[:, ::2];
        x.index_select(0, rows); x.gather(1, gi); T.scatter_add(x, 1, gi, y); x.index_put((rows,), y); T.flip(x, [0]);
        T.tril(x); F.pad(x, (1, 1)); T.roll(x, 1, 0); x.double(); F.embedding(rows, x); x.sort(1)[0]; x.topk(5, 1)[0]
    """,
}


def expressions(table: str) -> list[str]:
    """Return the expressions of a table."""
    return [text.strip() for text in table.split(";") if text.strip()]


def inputs(T: Any, text: str, rows: int, columns: int) -> dict[str, Any]:
    """Return what an expression names: the same numbers for both sides."""
    import numpy as np  # late: `ops.py` first says how many threads BLAS may have

    def values(name: str, *shape: int) -> Any:
        seed = sum(name.encode())
        return np.random.default_rng(seed).uniform(0.3, 0.9, shape or (rows, columns)).astype(np.float32)

    def numbers(name: str, high: int, *shape: int) -> Any:
        return np.random.default_rng(sum(name.encode())).integers(0, high, shape or (rows, columns))

    shapes = {"v": (columns,), "w": (columns, columns), "b3": (4, 5, 6), "b3t": (4, 6, 5), "b3b": (4, 5, 5)}
    shapes |= {"c3": (rows, 3), "d3": (rows, 3)}
    made: dict[str, Callable[[str], Any]] = {
        **{name: lambda n: T.tensor(values(n, *shapes.get(n, ())), requires_grad=True) for name in LEAVES},
        **{name: lambda n: T.tensor(values(n)) for name in ("a", "b", "p")},
        **{name: lambda n: T.tensor(values(n) > 0.6) for name in ("m", "n")},
        **{name: lambda n: T.tensor(numbers(n, 9) + 1) for name in ("i", "j")},
        "ix": lambda n: T.tensor([0, 3, 2]),
        "iy": lambda n: T.tensor([1, 0, 1]),
        "rows": lambda n: T.tensor(numbers(n, rows, rows)),
        "gi": lambda n: T.tensor(numbers(n, min(rows, columns))),
        "tc": lambda n: T.tensor(numbers(n, columns, rows)),
        "sgn": lambda n: T.tensor(np.sign(values(n) - 0.6)),
        "sg1": lambda n: T.tensor(np.sign(values(n, rows) - 0.6)),
        "npx": lambda n: values(n),
        "lst": lambda n: values(n).tolist(),
    }
    found = {name: make(name) for name, make in made.items() if re.search(rf"\b{name}\b", text)}
    return {"T": T, "F": T.nn.functional, "S0": rows, "S1": columns, **found}


def program(T: Any, text: str, rows: int, columns: int) -> Program:
    """Return the program of an expression."""
    names = inputs(T, text, rows, columns)
    run: Any = eval(f"lambda: {text.lstrip('!@')}", names)
    if text[0] in "!@":
        return run  # type: ignore[no-any-return]
    leaves = [names[name] for name in LEAVES if name in names]

    def differentiate() -> None:
        for x in leaves:
            x.grad = None
        run().sum().backward()

    return differentiate
