"""Function transforms over families of operators and over their own arguments, line by line, against torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint
from tests.oracle import close, needs_torch, outcome, torch

# An operator's name ("-jvp": torch has no forward derivative of it), arguments, their shapes, and the expression.
OPERATORS = """
det | a | 3x3 | L.det(a)
slogdet | a | 3x3 | L.slogdet(a)[1]
inv | a | 3x3 | L.inv(a)
solve | a, b | 3x3 3 | L.solve(a, b)
solve2 | a, b | 3x3 3x2 | L.solve(a, b)
chol | a | 3x3 | L.cholesky(spd(a))
eigvalsh | a | 3x3 | L.eigvalsh(spd(a))
svdvals | a | 3x4 | L.svdvals(a)
qr | a | 4x3 | L.qr(a)[1].abs()
pinv | a | 3x4 | L.pinv(a)
norm | a | 3x4 | L.norm(a)
mnorm | a | 3x4 | L.matrix_norm(a, 'nuc')
vnorm3 | a | 3x4 | L.vector_norm(a, 3, dim=-1)
mpow | a | 3x3 | L.matrix_power(a, 3)
mexp | a | 3x3 | L.matrix_exp(a)
multi_dot | a, b, c | 2x3 3x4 4x2 | L.multi_dot([a, b, c])
cross | a, b | 2x3 2x3 | L.cross(a, b)
tri_solve | a, b | 3x3 3x2 | L.solve_triangular(a.tril() + 3 * T.eye(3, dtype=a.dtype), b, upper=False)
lu | a | 3x3 | L.lu(a)[2]
lstsq | a, b | 4x3 4x2 | L.lstsq(a, b)[0]
cholsolve | a, b | 3x3 3x2 | T.cholesky_solve(b, L.cholesky(spd(a)))
kron | a, b | 2x2 3 | T.kron(a, b)
tensordot | a, b | 3x4 4x2 | tdot(a, b, dims=([1], [0]))
vander | a | 3 | L.vander(a)
householder | a, b | 4x3 3 | L.householder_product(a, b)
vecdot | a, b | 3x4 3x4 | L.vecdot(a, b)
cond | a | 3x3 | L.cond(a)
tensorsolve | a, b | 6x6 2x3 | L.tensorsolve(a.reshape(2, 3, 6) + T.eye(6, dtype=a.dtype).reshape(2, 3, 6), b)
fft | a | 3x4 | T.fft.fft(a).abs()
rfft | a | 3x4 | T.view_as_real(T.fft.rfft(a, dim=0))
irfft | a | 3x4 | T.fft.irfft(T.fft.rfft(a) * 2, n=4)
fft2 | a | 3x4 | T.fft.fft2(a).real
fftshift | a | 3x4 | T.fft.fftshift(a)
fftn | a | 3x4 | T.fft.ifftn(a, s=(2, 2)).imag
stft | a | 4x6 | T.stft(a.reshape(-1), 4, return_complex=True, window=T.ones(4, dtype=a.dtype)).abs()
conv1d | x, w, b | 2x2x5 4x2x3 4 | f.conv1d(x, w, b, padding=1)
conv2d | x, w | 2x2x5x5 2x2x3x3 | f.conv2d(x, w, stride=2)
conv2dg | x, w | 1x4x4x4 4x2x3x3 | f.conv2d(x, w, groups=2, padding='same')
conv2du | x, w | 2x5x5 2x2x3x3 | f.conv2d(x, w)
convT | x, w, b | 1x2x3x3 2x3x2x2 3 | f.conv_transpose2d(x, w, b, stride=2, output_padding=1)
conv3d | x, w | 1x1x3x3x3 2x1x2x2x2 | f.conv3d(x, w)
maxpool | x | 2x4x4 | f.max_pool2d(x, 2)
maxpool4 | x | 1x2x4x4 | f.max_pool2d(x, 2, padding=1)
maxpooli | x | 2x4x4 | f.max_pool2d(x, 2, return_indices=True)[0]
avgpool | x | 2x4x4 | f.avg_pool2d(x, 2)
aap | x | 2x5x5 | f.adaptive_avg_pool2d(x, 3)
amp | x | 2x5x5 | f.adaptive_max_pool2d(x, 2)
lppool | x | 2x6 | f.lp_pool1d(x.abs(), 2, 2)
maxpool1 | x | 2x6 | f.max_pool1d(x, 2)
unpool | x | 2x6 | f.max_unpool1d(*f.max_pool1d(x, 2, return_indices=True), 2)
interp | x | 1x2x3x3 | f.interpolate(x, scale_factor=2, mode='bilinear')
interpn | x | 1x2x3 | f.interpolate(x, size=(5,))
gridsample -jvp | x, g | 1x2x3x3 1x2x2x2 | f.grid_sample(x, g.tanh(), align_corners=False)
affineg | a | 1x2x3 | f.affine_grid(a, (1, 1, 2, 2), align_corners=False)
pixsh | x | 1x4x2x2 | f.pixel_shuffle(x, 2)
unfold | x | 1x2x3x3 | f.unfold(x, 2)
fold | x | 1x8x4 | f.fold(x, (3, 3), 2)
padr | x | 2x4 | f.pad(x, (1, 1), mode='reflect')
padc | x | 2x4 | f.pad(x, (1, 1), mode='circular')
padrep | x | 1x2x3x3 | f.pad(x, (1, 1, 1, 1), mode='replicate')
ln | x, w, b | 3x4 4 4 | f.layer_norm(x, (4,), w, b)
gn | x, w | 2x4x3 4 | f.group_norm(x, 2, w)
in | x | 2x4x3 | f.instance_norm(x)
bn | x, w, b | 3x4 4 4 | f.batch_norm(x, None, None, w, b, True)
rms | x, w | 3x4 4 | f.rms_norm(x, (4,), w)
lrn | x | 2x4x3 | f.local_response_norm(x, 2)
normalize | x | 3x4 | f.normalize(x)
l1 | x, y | 3x4 3x4 | f.l1_loss(x, y, reduction='sum')
kl | x, y | 3x4 3x4 | f.kl_div(x, y.softmax(-1), reduction='batchmean')
bcel | x, y | 3x4 3x4 | f.binary_cross_entropy_with_logits(x, y.sigmoid())
bce | x, y | 3x4 3x4 | f.binary_cross_entropy(x.sigmoid(), y.sigmoid())
ce | x | 3x4 | f.cross_entropy(x, t([0, 2, 1]))
cels | x | 3x4 | f.cross_entropy(x, t([0, 2, 1]), label_smoothing=0.1, reduction='sum')
cep | x, y | 3x4 3x4 | f.cross_entropy(x, y.softmax(-1))
nll | x | 3x4 | f.nll_loss(x.log_softmax(-1), t([0, -100, 1]))
nll2 | x | 2x2x2 | f.nll_loss(x, t([[0, 1], [1, 0]]))
cos_emb | x, y | 3x4 3x4 | f.cosine_embedding_loss(x, y, t([1, -1, 1]))
margin | x, y | 3x4 3x4 | f.margin_ranking_loss(x, y, T.ones(3, 4, dtype=x.dtype))
triplet | x, y, z | 3x4 3x4 3x4 | f.triplet_margin_loss(x, y, z)
mlm -jvp | x | 3x4 | f.multi_margin_loss(x, t([0, 2, 1]))
hinge | x | 3x4 | f.hinge_embedding_loss(x, t([1.0, -1.0, 1.0, 1.0]))
gnll | x, y, v | 3x4 3x4 3x4 | f.gaussian_nll_loss(x, y, v.abs() + 0.5)
pnll | x, y | 3x4 3x4 | f.poisson_nll_loss(x, y.abs())
ctc -jvp | x | 5x1x4 | f.ctc_loss(x.log_softmax(-1), t([[1, 2]]), t([5]), t([2]))
softmargin | x | 3x4 | f.soft_margin_loss(x, T.ones(3, 4, dtype=x.dtype))
mlsm | x, y | 3x4 3x4 | f.multilabel_soft_margin_loss(x, y.sigmoid())
cossim | x, y | 3x4 3x4 | f.cosine_similarity(x, y, dim=-1)
pdist -jvp | x | 3x4 | f.pdist(x)
pwd | x, y | 3x4 3x4 | f.pairwise_distance(x, y)
emb | w | 3x4 | f.embedding(t([[0, 1], [2, 1]]), w)
embpad | w | 3x4 | f.embedding(t([0, 1, 1]), w, padding_idx=1)
bag -jvp | w | 3x4 | f.embedding_bag(t([[0, 1], [2, 1]]), w, mode='sum')
bagm -jvp | w | 3x4 | f.embedding_bag(t([0, 1, 2]), w, t([0, 2]), mode='mean')
bagx -jvp | w | 3x4 | f.embedding_bag(t([[0, 1], [2, 1]]), w, mode='max')
sdpa | q, k, v | 2x3x4 2x3x4 2x3x4 | f.scaled_dot_product_attention(q, k, v)
sdpac -jvp | q, k, v | 1x2x3x4 1x2x3x4 1x2x3x4 | f.scaled_dot_product_attention(q, k, v, is_causal=True)
bilinear | x, y, w | 2x3 2x4 2x3x4 | f.bilinear(x, y, w)
linear | x, w, b | 3x4 2x4 2 | f.linear(x, w, b)
glu | x | 3x4 | f.glu(x)
prelu | x, w | 3x4 4 | f.prelu(x, w)
gumbelfree | x | 3x4 | f.softmin(x, dim=0)
gather | x | 3x4 | x.gather(1, t([[0, 1], [2, 3], [1, 1]]))
scatter | x, s | 3x4 3x2 | x.scatter(1, t([[0, 1], [2, 3], [1, 0]]), s)
scatter_add | x, s | 3x4 3x2 | x.scatter_add(0, t([[0, 1], [2, 2], [1, 1]]), s)
scatter_reduce | x, s | 3x4 3x2 | x.scatter_reduce(0, t([[0, 1], [2, 2], [1, 1]]), s, 'amax')
index_add | x, s | 3x4 2x4 | x.index_add(0, t([0, 0]), s)
index_copy | x, s | 3x4 3x2 | x.index_copy(1, t([0, 3]), s)
index_fill | x | 3x4 | x.index_fill(0, t([0, 2]), 2.0)
index_select | x | 3x4 | x.index_select(1, t([0, 0, 3]))
index_put | x, v | 3x4 2 | x.index_put((t([0, 1]), t([1, 1])), v)
index_puta | x, v | 3x4 2x4 | x.index_put((t([0, 0]),), v, accumulate=True)
take | x | 3x4 | x.take(t([0, 5, 5]))
put | x, v | 3x4 2 | x.put(t([0, 5]), v)
take_along | x | 3x4 | x.take_along_dim(x.argsort(1), 1)
mfill | x | 3x4 | x.masked_fill(x > 0.1, 0.0)
mscatter | x, s | 3x4 3x4 | x.masked_scatter(t([True, False, True, True]), s)
mscatterb | x, s | 3x4 3x4 | x.masked_scatter(x > 0.1, s)
sel_scat | x, s | 3x4 4 | x.select_scatter(s, 0, 1)
sli_scat | x, s | 3x4 3x2 | x.slice_scatter(s, 1, 1, 3)
diag_scat | x, s | 3x4 3 | x.diagonal_scatter(s)
asst | x | 3x4 | x.as_strided((2, 2), (1, 2))
adv | x | 3x4 | x[[0, 2], 1:]
adv2 | x | 3x4 | x[:, t([[0, 1], [2, 3]])]
neg | x | 3x4 | x[-1, ..., None]
maskconst | x | 3x4 | x[t([True, False, True])]
where | x, y | 3x4 3x4 | T.where(x > y, x, y)
sort | x | 3x4 | x.sort(0, descending=True)[0]
argsort | x | 3x4 | x.argsort(-1)
topk | x | 3x4 | x.topk(2)[0]
kth | x | 3x4 | x.kthvalue(2, 0)[0]
median | x | 3x4 | x.median()
mediand | x | 3x4 | x.median(0)[0]
mode | x | 3x4 | x.round().mode(-1)[0]
quant | x | 3x4 | x.quantile(0.3, dim=1)
nanmed | x | 3x4 | x.nanmedian()
cumsum | x | 3x4 | x.cumsum(0)
cumprod | x | 3x4 | x.cumprod(1)
cummax | x | 3x4 | x.cummax(0)[0]
logcs | x | 3x4 | x.logcumsumexp(1)
msort | x | 3x4 | x.msort()
search | x, v | 3x4 3x2 | T.searchsorted(x.sort(-1)[0], v)
bucket | x | 3x4 | T.bucketize(x, t([-0.5, 0.0, 0.5], dtype=x.dtype))
histc | x | 3x4 | T.histc(x, 3, -1, 1)
unique_free | x | 3x4 | x.renorm(2, 0, 1.0)
diff | x | 3x4 | x.diff(dim=1)
trapz | x | 3x4 | T.trapezoid(x)
roll | x | 3x4 | x.roll((1, -1), (0, 1))
rollf | x | 3x4 | x.roll(1)
flip | x | 3x4 | x.flip(0, 1)
rot90 | x | 3x4 | x.rot90()
tril | x | 3x4 | x.tril(-1)
diag | x | 3 | x.diag()
diag_embed | x | 3x4 | x.diag_embed(1)
trace | x | 3x3 | x.trace()
var | x | 3x4 | x.var(0)
std_mean | x | 3x4 | T.std_mean(x)[0]
logsumexp | x | 3x4 | x.logsumexp((0, 1))
prod | x | 3x4 | x.prod(0)
amax | x | 3x4 | x.amax((0, 1))
aminmax | x | 3x4 | x.aminmax(dim=0)[1]
norm2 | x | 3x4 | x.norm(dim=1)
cov | x | 3x4 | T.cov(x)
corr | x | 3x4 | T.corrcoef(x)
nansum | x | 3x4 | x.nansum(0)
count | x | 3x4 | (x > 0).count_nonzero(0)
all | x | 3x4 | (x > 0).any(0)
rep_int | x | 3x4 | x.repeat_interleave(2, dim=0)
repeat | x | 3x4 | x.repeat(2, 1, 2)
tile | x | 3x4 | x.tile(2)
unflatten | x | 3x4 | x.unflatten(1, (2, 2))
movedim | x | 3x4 | x.movedim(0, -1)
hstack | x, y | 3x4 3x4 | T.hstack([x, y])
stack | x, y | 3x4 3x4 | T.stack([x, y], -1)
meshgrid | x, y | 3 2 | T.meshgrid(x, y, indexing='ij')[0]
cartesian | x, y | 3 2 | T.cartesian_prod(x, y)
combos | x | 3 | T.combinations(x)
block_diag | x, y | 3x4 2 | T.block_diag(x, y)
einsum | x, y | 3x4 3x4 | T.einsum('ij,kj->ik', x, y)
addmm | x, y, z | 3x2 3x4 4x2 | T.addmm(x, y, z, beta=0.5)
baddbmm | x, y, z | 2x3x2 2x3x4 2x4x2 | T.baddbmm(x, y, z)
addcdiv | x, y, z | 3x4 3x4 3x4 | T.addcdiv(x, y, z.abs() + 1)
lerp | x, y, z | 3x4 3x4 3x4 | T.lerp(x, y, z)
clamp | x, y | 3x4 3x4 | x.clamp(min=y)
isin | x | 3x4 | T.isin(x.round(), t([0.0, 1.0]))
polyg | x | 3x4 | T.polygamma(1, x.abs() + 1)
frexp | x | 3x4 | T.frexp(x)[0]
tensor_split | x | 3x4 | x.tensor_split(3, 1)[2]
chunk | x | 3x4 | x.chunk(2, 1)[1]
split | x | 3x4 | x.split([1, 2])[1]
unbind | x | 3x4 | x.unbind(1)[2]
expand | x | 3x4 | x.expand(2, 3, 4)
ztype | x | 3x4 | x.to(T.float32).type(T.float64)
newz | x | 3x4 | x.new_zeros(2, 2) + x[:2, :2]
newf | x | 3x4 | x.new_full((2,), 3.0) * x[0, 0]
zlike | x | 3x4 | T.zeros_like(x).add_(x)
oneslike_ip | x | 3x4 | T.ones_like(x).mul_(x)
addmv | x, y, z | 3 3x4 4 | T.addmv(x, y, z)
ger | x, y | 3 4 | T.outer(x, y)
dot | x, y | 3 3 | x.dot(y)
gradient | x | 3x4 | T.gradient(x)[0]
complex | x, y | 3x4 3x4 | T.complex(x, y).angle()
polar | x, y | 3x4 3x4 | T.polar(x.abs(), y).real
vdot | x, y | 3 3 | T.vdot(x, y)
float_pow | x, y | 3x4 3x4 | x.abs().float_power(y)
ldexp | x, y | 3x4 3x4 | T.ldexp(x, y)
nantonum -jvp | x | 3x4 | T.nan_to_num(x / 0)
dist | x, y | 3x4 3x4 | T.dist(x, y)
"""

# A name, and an expression of T, F (``T.func``), nn and a few tensors.
PROGRAMS = r"""
grad_argnum_tuple: F.grad(lambda a,b:(a*b).sum(),argnums=(0,1))(x,y)
grad_argnum_list: F.grad(lambda a,b:(a*b).sum(),argnums=[0,1])(x,y)
grad_neg: F.grad(lambda a,b:(a*b*b).sum(),argnums=-1)(x,y)
grad_dup: F.grad(lambda a,b:(a*b).sum(),argnums=(0,0))(x,y)
grad_dupneg: F.grad(lambda a,b:(a*b).sum(),argnums=(0,-2))(x,y)
grad_oob: F.grad(lambda a,b:(a*b).sum(),argnums=2)(x,y)
grad_oobn: F.grad(lambda a,b:(a*b).sum(),argnums=-3)(x,y)
grad_empty: F.grad(lambda a,b:(a*b).sum(),argnums=())(x,y)
grad_float: F.grad(lambda a,b:(a*b).sum(),argnums=0.)(x,y)
grad_tree: F.grad(lambda d:(d['a']*d['b'][0]).sum())({'a':x,'b':[y]})
grad_treeint: F.grad(lambda d:(d['a']*d['b']).sum())({'a':x,'b':3})
grad_none: F.grad(lambda d:(d[0]).sum())([x,None])
grad_aux: F.grad(lambda a:((a*a).sum(),a.sin()),has_aux=True)(x)
grad_auxt: F.grad(lambda a:((a*a).sum(),{'k':a.sin(),'z':[a]}),has_aux=True)(x)
grad_auxbad: F.grad(lambda a:((a*a).sum(),3),has_aux=True)(x)
grad_auxnone: F.grad(lambda a:((a*a).sum(),None),has_aux=True)(x)
grad_auxshape: F.grad(lambda a:(a*a).sum(),has_aux=True)(x)
grad_aux3: F.grad(lambda a:((a*a).sum(),a,a),has_aux=True)(x)
grad_auxlist: F.grad(lambda a:[(a*a).sum(),a],has_aux=True)(x)
gav: F.grad_and_value(lambda a:(a*a).sum())(x)
gav_aux: F.grad_and_value(lambda a:((a*a).sum(),a*3),has_aux=True)(x)
grad_nonscalar: F.grad(lambda a:a*a)(x)
grad_one: F.grad(lambda a:a.sum().reshape(1))(x)
grad_tuple: F.grad(lambda a:(a.sum(),))(x)
grad_float_out: F.grad(lambda a:3.)(x)
grad_none_out: F.grad(lambda a:None)(x)
grad_int_in: F.grad(lambda a:a.sum())(T.tensor([1,2]))
grad_int_out: F.grad(lambda a:(a>0).sum())(x)
grad_complex: F.grad(lambda a:(a*a.conj()).real.sum())(T.complex(x,y))
grad_complexout: F.grad(lambda a:(a*a).sum())(T.complex(x,y))
grad_pyfloat: F.grad(lambda a:a*a)(3.)
grad_noargs: F.grad(lambda:T.ones(()))()
grad_kw: F.grad(lambda a,b=None:(a*b).sum())(x,b=y)
grad_kwonly: F.grad(lambda a,*,k=2:(a**k).sum())(x,k=3)
grad_kwarg0: F.grad(lambda a:(a**2).sum())(a=x)
grad_name: F.grad(T.sin).__name__
vjp_basic: (lambda o,f:(o,f(y)))(*F.vjp(T.sin,x))
vjp_two: (lambda o,f:(o,f(y)))(*F.vjp(T.mul,x,y))
vjp_tree: (lambda o,f:(o,f({'a':y,'b':x})))(*F.vjp(lambda a:{'a':a.sin(),'b':a.cos()},x))
vjp_treebad: (lambda o,f:f((y,x)))(*F.vjp(lambda a:{'a':a.sin(),'b':a.cos()},x))
vjp_list_tuple: (lambda o,f:f((y,x)))(*F.vjp(lambda a:[a.sin(),a.cos()],x))
vjp_shape: (lambda o,f:f(v))(*F.vjp(T.sin,x))
vjp_dtype: (lambda o,f:f(y.double()))(*F.vjp(T.sin,x))
vjp_aux: (lambda o,f,a:(o,f(y),a))(*F.vjp(lambda a:(a.sin(),a*2),x,has_aux=True))
vjp_nonet: F.vjp(lambda a:None,x)
vjp_intout: F.vjp(lambda a:(a>0).long(),x)
vjp_float: F.vjp(lambda a:1.,x)
vjp_empty: F.vjp(lambda a:(),x)
vjp_twice: (lambda o,f:(f(y),f(x)))(*F.vjp(T.sin,x))
vjp_noret: (lambda o,f:(f(y,retain_graph=False),f(x)))(*F.vjp(T.sin,x))
vjp_create: (lambda o,f:f(y,create_graph=True)[0].requires_grad)(*F.vjp(T.sin,x))
vjp_none_cot: (lambda o,f:f(None))(*F.vjp(T.sin,x))
vjp_vmap: F.vmap(F.vjp(T.sin,x)[1])(T.stack([x,y]))
jvp_list: F.jvp(T.sin,[x],[y])
jvp_bare: F.jvp(T.sin,x,y)
jvp_shape: F.jvp(T.sin,(x,),(v,))
jvp_dtype: F.jvp(T.sin,(x,),(y.double(),))
jvp_struct: F.jvp(T.mul,(x,y),(y,))
jvp_tan_bare: F.jvp(T.sin,(x,),y)
jvp_none: F.jvp(T.sin,(x,),(None,))
jvp_float: F.jvp(T.sin,(3.,),(1.,))
jvp_empty: F.jvp(T.sin,(),())
jvp_strict: F.jvp(lambda a:T.ones(2),(x,),(y,),strict=True)
jvp_indep: F.jvp(lambda a:T.ones(2),(x,),(y,))
jvp_aux: F.jvp(lambda a:(a.sin(),a*2),(x,),(y,),has_aux=True)
jvp_auxbad: F.jvp(lambda a:a.sin(),(x,),(y,),has_aux=True)
jvp_tree: F.jvp(lambda d:{'o':d['a']*2,'p':d['a'].sum()},({'a':x},),({'a':y},))
jvp_noneout: F.jvp(lambda a:None,(x,),(y,))
jvp_intout: F.jvp(lambda a:(a>0),(x,),(y,))
jvp_int_in: F.jvp(lambda a:a*2,(T.tensor([1]),),(T.tensor([1]),))
jacrev_args: F.jacrev(lambda a,b:(a*b).sum(0),argnums=(0,1))(x,y)
jacrev_tree: F.jacrev(lambda d:{'o':d['a'].sum(0)})({'a':x})
jacrev_aux: F.jacrev(lambda a:(a.sin(),a*2),has_aux=True)(v)
jacrev_chunk: F.jacrev(T.sin,chunk_size=2)(v)
jacrev_chunk1: F.jacrev(T.sin,chunk_size=1)(v)
jacrev_chunkbad: F.jacrev(T.sin,chunk_size=0)(v)
jacrev_chunkneg: F.jacrev(T.sin,chunk_size=-1)(v)
jacrev_pre: F.jacrev(T.sin,chunk_size=1,_preallocate_and_copy=True)(v)
jacrev_none: F.jacrev(lambda a:None)(v)
jacrev_float: F.jacrev(lambda a:3.)(v)
jacrev_empty: F.jacrev(lambda a:())(v)
jacrev_int: F.jacrev(lambda a:(a>0))(v)
jacrev_oob: F.jacrev(T.sin,argnums=3)(v)
jacrev_unrel: F.jacrev(lambda a,b:b.sin())(v,v)
jacrev_0d: F.jacrev(lambda a:a.sum())(v)
jacrev_in0d: F.jacrev(lambda a:a*v)(T.tensor(2.))
jacrev_multi: F.jacrev(lambda a:(a.sin(),a.sum()))(v)
jacrev_tuplein: F.jacrev(lambda t:t[0]*t[1])((v,v))
jacfwd_args: F.jacfwd(lambda a,b:(a*b).sum(0),argnums=(0,1))(x,y)
jacfwd_tree: F.jacfwd(lambda d:{'o':d['a'].sum(0)})({'a':x})
jacfwd_aux: F.jacfwd(lambda a:(a.sin(),a*2),has_aux=True)(v)
jacfwd_auxbad: F.jacfwd(lambda a:a.sin(),has_aux=True)(v)
jacfwd_none: F.jacfwd(lambda a:None)(v)
jacfwd_float: F.jacfwd(lambda a:3.)(v)
jacfwd_float2: F.jacfwd(lambda a:(a,3.))(v)
jacfwd_int: F.jacfwd(lambda a:(a>0))(v)
jacfwd_rand: F.jacfwd(lambda a:a*T.rand(3))(v)
jacfwd_rand2: F.jacfwd(lambda a:a*T.rand(3),randomness='same')(v)
jacfwd_rand3: F.jacfwd(lambda a:a*T.rand(3),randomness='different')(v)
jacrev_rand: F.jacrev(lambda a:a*T.rand(3))(v)
jacfwd_badrand: F.jacfwd(T.sin,randomness='x')(v)
jacrev_notensor: F.jacrev(T.sin)(2.)
jacfwd_multi: F.jacfwd(lambda a:(a.sin(),a.sum()))(v)
hess_args: F.hessian(lambda a,b:(a**2*b).sum(),argnums=(0,1))(v,v)
hess_tree: F.hessian(lambda d:(d['a']**3).sum())({'a':v})
hess_vec: F.hessian(lambda a:a**3)(v)
hess_dict_out: F.hessian(lambda a:{'z':(a**3).sum()})(v)
functionalize: F.functionalize(lambda a:a.clone().mul_(2))(x)
stack: F.stack_module_state([nn.Linear(3,2),nn.Linear(3,2)])[0]['weight'].shape
stack_empty: F.stack_module_state([])
stack_mix: F.stack_module_state([nn.Linear(3,2),nn.Linear(3,2).eval()])
stack_types: F.stack_module_state([nn.Linear(3,2),nn.ReLU()])
stack_list: F.stack_module_state(nn.Linear(3,2))
fc: F.functional_call(nn.Linear(3,2),{'weight':T.ones(2,3),'bias':T.zeros(2)},(x,))
fc_missing: F.functional_call(nn.Linear(3,2),{'weight':T.ones(2,3)},(x,)).shape
fc_strict: F.functional_call(nn.Linear(3,2),{'weight':T.ones(2,3)},(x,),strict=True)
fc_unknown: F.functional_call(nn.Linear(3,2),{'wt':T.ones(2,3)},(x,),strict=True)
fc_dup: F.functional_call(nn.Linear(3,2),({'weight':T.ones(2,3)},{'weight':T.ones(2,3)}),(x,))
fc_two: F.functional_call(nn.Linear(3,2),({'weight':T.ones(2,3)},{'bias':T.ones(2)}),x)
fc_badtype: F.functional_call(nn.Linear(3,2),[1],(x,))
vmap_str: F.vmap(lambda a:'s')(x)
vmap_int: F.vmap(lambda a:3)(x)
vmap_nonet: F.vmap(lambda a:None)(x)
vmap_tupnone: F.vmap(lambda a:(a,None))(x)
vmap_tupnone_od: F.vmap(lambda a:(a,None),out_dims=(0,None))(x)
vmap_item: F.vmap(lambda a:a.sum().item())(x)
vmap_float: F.vmap(lambda a:float(a.sum()))(x)
vmap_int_: F.vmap(lambda a:int(a.sum()))(x)
vmap_bool: F.vmap(lambda a:a if a.sum()>0 else -a)(x)
vmap_not: F.vmap(lambda a:not a.sum())(x)
vmap_and: F.vmap(lambda a:a.sum() and a)(x)
vmap_index: F.vmap(lambda a:[1,2][a.sum().long()])(x)
vmap_len: F.vmap(lambda a:a*len(a))(x)
vmap_iter: F.vmap(lambda a:sum(list(a)))(x)
vmap_nonzero: F.vmap(lambda a:a.nonzero())(x)
vmap_unique: F.vmap(lambda a:a.unique())(x)
vmap_mask: F.vmap(lambda a:a[a>0])(x)
vmap_msel: F.vmap(lambda a:a.masked_select(a>0))(x)
vmap_where1: F.vmap(lambda a:T.where(a>0))(x)
vmap_repint: F.vmap(lambda a:a.repeat_interleave((a>0).long()))(x)
vmap_equal: F.vmap(lambda a:T.equal(a,a))(x)
vmap_tolist: F.vmap(lambda a:a.tolist())(x)
vmap_numpy: F.vmap(lambda a:a.numpy())(x)
vmap_dataptr: F.vmap(lambda a:a.data_ptr())(x)
vmap_storage: F.vmap(lambda a:a.untyped_storage())(x)
vmap_arange: F.vmap(lambda a:T.arange(a.sum()))(x)
vmap_repr: F.vmap(lambda a:(repr(a),a)[1])(x)
vmap_inpl_unb: F.vmap(lambda a,b:b.add_(a),in_dims=(0,None))(x,T.zeros(3))
vmap_inpl_cap: (lambda z:F.vmap(lambda a:z.mul_(a))(x))(T.zeros(3))
vmap_inpl_copy: (lambda z:F.vmap(lambda a:z.copy_(a))(x))(T.zeros(3))
vmap_inpl_set: (lambda z:F.vmap(lambda a:z.__setitem__(0,a[0]))(x))(T.zeros(3))
vmap_inpl_set2: (lambda z:F.vmap(lambda a:(z.__setitem__(0,a[0]),z)[1])(x))(T.zeros(3))
vmap_inpl_set3: (lambda z:F.vmap(lambda a:(z.__setitem__(T.tensor([0]),a[:1]),z)[1])(x))(T.zeros(3))
vmap_fill: (lambda z:F.vmap(lambda a:z.fill_(a[0]))(x))(T.zeros(3))
vmap_scatter: (lambda z:F.vmap(lambda a:z.scatter_(0,T.tensor([0]),a[:1]))(x))(T.zeros(3))
vmap_scatadd: (lambda z:F.vmap(lambda a:z.scatter_add_(0,T.tensor([0]),a[:1]))(x))(T.zeros(3))
vmap_idxadd: (lambda z:F.vmap(lambda a:z.index_add_(0,T.tensor([0]),a[:1]))(x))(T.zeros(3))
vmap_idxput: (lambda z:F.vmap(lambda a:z.index_put_((T.tensor([0]),),a[:1]))(x))(T.zeros(3))
vmap_idxcopy: (lambda z:F.vmap(lambda a:z.index_copy_(0,T.tensor([0]),a[:1]))(x))(T.zeros(3))
vmap_zero: (lambda z:F.vmap(lambda a:z.zero_())(x))(T.ones(3))
vmap_rand: F.vmap(lambda a:a+T.rand(3))(x)
vmap_randd: F.vmap(lambda a:a+T.rand(3),randomness='different')(x)
vmap_rands: F.vmap(lambda a:a+T.rand(3),randomness='same')(x)
vmap_drop: F.vmap(lambda a:T.nn.functional.dropout(a))(x)
vmap_dropd: F.vmap(lambda a:T.nn.functional.dropout(a),randomness='different')(x)
vmap_drops: F.vmap(lambda a:T.nn.functional.dropout(a),randomness='same')(x)
vmap_dropeval: F.vmap(lambda a:T.nn.functional.dropout(a,training=False))(x)
vmap_adrop: F.vmap(lambda a:T.nn.functional.alpha_dropout(a,training=True),randomness='different')(x)
vmap_bern: F.vmap(lambda a:a.abs().clamp(0,1).bernoulli(),randomness='different')(x)
vmap_bernp: F.vmap(lambda a:T.bernoulli(a,p=.5),randomness='same')(x)
vmap_randn_like: F.vmap(T.randn_like,randomness='same')(x)
vmap_randn_liked: F.vmap(T.randn_like,randomness='different')(x)
vmap_randn_likee: F.vmap(T.randn_like)(x)
vmap_perm: F.vmap(lambda a:a[T.randperm(3)],randomness='different')(x)
vmap_multi: F.vmap(lambda a:T.multinomial(a.abs()+.1,2),randomness='different')(x)
vmap_multis: F.vmap(lambda a:T.multinomial(a.abs()+.1,2),randomness='same')(x)
vmap_seed: F.vmap(lambda a:(T.manual_seed(0),a+T.rand(3))[1],randomness='different')(x)
vmap_norm_: F.vmap(lambda a:a.clone().normal_(),randomness='different')(x)
vmap_norm_s: F.vmap(lambda a:a.clone().normal_(),randomness='same')(x)
vmap_uni_cap: (lambda z:F.vmap(lambda a:z.uniform_(),randomness='different')(x))(T.ones(3))
vmap_uni_caps: (lambda z:F.vmap(lambda a:z.uniform_()+a,randomness='same')(x))(T.ones(3))
vmap_chunkrand: F.vmap(lambda a:a+T.rand(3),randomness='same',chunk_size=1)(x)
vmap_chunkrandd: F.vmap(lambda a:a+T.rand(3),randomness='different',chunk_size=1)(x)
vmap_badrand: F.vmap(T.sin,randomness='foo')(x)
vmap_gumbel: F.vmap(lambda a:T.nn.functional.gumbel_softmax(a),randomness='different')(x)
vmap_rrelu: F.vmap(lambda a:T.nn.functional.rrelu(a,training=True),randomness='different')(x)
vmap_bn: F.vmap(lambda a:nn.BatchNorm1d(3)(a[None].expand(2,3)))(x)
vmap_bn_nostat: F.vmap(lambda a:nn.BatchNorm1d(3,track_running_stats=False)(a[None].expand(2,3)))(x)
vmap_bncap: (lambda m:F.vmap(lambda a:m(a[None].expand(2,3)))(x))(nn.BatchNorm1d(3))
vmap_bneval: (lambda m:F.vmap(lambda a:m(a[None]))(x))(nn.BatchNorm1d(3).eval())
vmap_incap: (lambda m:F.vmap(lambda a:m(a.expand(1,3,3)))(x))(nn.InstanceNorm1d(3,track_running_stats=True))
grad_bncap: (lambda m:F.grad(lambda a:m(a).pow(2).sum())(x))(nn.BatchNorm1d(3))
patch: F.replace_all_batch_norm_modules_(nn.Sequential(nn.BatchNorm1d(3)))[0].track_running_stats
vmap_mha: (lambda m:F.vmap(lambda a:m(a[None],a[None],a[None])[0]*0)(x))(nn.MultiheadAttention(3,1))
vmap_emb: (lambda m:F.vmap(lambda i:m(i)*0)(T.tensor([[0,1],[1,2]])))(nn.Embedding(3,2))
nest_level: F.vmap(lambda a:F.vmap(lambda b:a*b)(y))(x)
nest_in: F.vmap(F.vmap(lambda a,b:a*b,in_dims=(0,None)),in_dims=(0,0))(x,v[:2])
nest_od: F.vmap(F.vmap(lambda a:a*2,out_dims=0),out_dims=1)(x)
nest_od2: F.vmap(lambda a:F.vmap(lambda b:b.expand(2),out_dims=1)(a),in_dims=1,out_dims=2)(x)
nest_rand: F.vmap(lambda a:F.vmap(lambda b:b+T.rand(()),randomness='different')(a),randomness='same')(x)
nest_rand2: F.vmap(lambda a:F.vmap(lambda b:b+T.rand(()),randomness='same')(a),randomness='different')(x)
nest_rand3: F.vmap(lambda a:F.vmap(lambda b:b+T.rand(()),randomness='error')(a),randomness='different')(x)
nest_rand4: F.vmap(lambda a:F.vmap(lambda b:b+T.rand(()),randomness='same')(a),randomness='error')(x)
psg: F.vmap(F.grad(lambda w,a,b:((w*a).sum()-b)**2),in_dims=(None,0,0))(v,x,v[:2])
psg_aux: F.vmap(F.grad(lambda w,a:((w*a).sum()**2,w*a),has_aux=True),in_dims=(None,0))(v,x)
psg_gav: F.vmap(F.grad_and_value(lambda w,a:((w*a).sum()**2)),in_dims=(None,0))(v,x)
hvp: F.jvp(F.grad(lambda a:(a**3).sum()),(v,),(v,))
hvp2: F.vjp(F.grad(lambda a:(a**3).sum()),v)[1](v)
jj: F.jacfwd(F.jacrev(lambda a:(a**3).sum()))(v)
j3: F.jacrev(F.jacfwd(F.jacrev(lambda a:(a**4).sum())))(v)
vj: F.vmap(F.jacrev(lambda a:a.sin()))(x)
vjf: F.vmap(F.jacfwd(lambda a:a.sin()))(x)
vh: F.vmap(F.hessian(lambda a:(a.sin()*a).sum()))(x)
vh1: F.vmap(F.hessian(lambda a:(a.sin()*a).sum()),in_dims=1,out_dims=-1)(x)
bwd_after: (lambda w:(F.vmap(lambda a:(a*w).sum())(x).sum().backward(),w.grad)[1])(v.clone().requires_grad_())
bwd_grad: (lambda w:(F.grad(lambda a:(a*w).pow(2).sum())(v).sum().backward(),w.grad)[1])(v.clone().requires_grad_())
bwd_inside: F.grad(lambda a:((a*a).sum().backward(),a.sum())[1])(v)
ag_inside: F.grad(lambda a:T.autograd.grad((a*a).sum(),a)[0].sum())(v)
ag_inside2: F.grad(lambda a:T.autograd.grad((a**3).sum(),a,create_graph=True)[0].sum())(v)
ag_vmap: (lambda z:F.vmap(lambda g:T.autograd.grad(z.sin(),z,g)[0])(T.eye(3)))(v.clone().requires_grad_())
ag_batched: (lambda z:T.autograd.grad(z.sin(),z,T.eye(3),is_grads_batched=True))(v.clone().requires_grad_())
ag_batched_bad: (lambda z:T.autograd.grad(z.sin(),z,v,is_grads_batched=True))(v.clone().requires_grad_())
reqgrad_inside: F.grad(lambda a:a.requires_grad_().sum())(v)
reqgrad_vmap: F.vmap(lambda a:(a*1).requires_grad_().sum())(x)
tensor_rg: F.grad(lambda a:(a*T.ones(3,requires_grad=True)).sum())(v)
retain_inside: F.grad(lambda a:((a*2).retain_grad(),a.sum())[1])(v)
detach_in: F.grad(lambda a:(a.detach()*a).sum())(v)
nograd_in: F.grad(lambda a:(lambda z:(z*a).sum())(silent(lambda:a*2)))(v)
nograd_out: silent(lambda:F.grad(lambda a:(a*a).sum())(v))
nograd_vmap: silent(lambda:F.vmap(lambda a:a*w)(x)).requires_grad
mut_grad: (lambda z:(F.grad(lambda a:(a.mul_(2)*3).sum())(z),z))(v.clone())
mut_vmap: (lambda z:(F.vmap(lambda a:a.mul_(2))(z),z))(x.clone())
mut_vmap1: (lambda z:(F.vmap(lambda a:a.mul_(2),in_dims=1)(z),z))(x.clone())
mut_twice: (lambda z:(F.vmap(lambda a,b:(a.mul_(2),b*1)[1])(z,z),z))(x.clone())
mut_twice2: (lambda z:(F.vmap(lambda a,b:(a.mul_(2),b.add_(1))[1])(z,z),z))(x.clone())
mut_view: (lambda z:(F.vmap(lambda a:(a[0].mul_(2),a)[1])(z),z))(x.clone())
mut_unsq: (lambda z:(F.vmap(lambda a:a.unsqueeze_(0))(z).shape,z.shape))(x.clone())
mut_t: (lambda z:(F.vmap(lambda a:a.t_())(z).shape,z.shape))(T.ones(2,3,4))
mut_sq: (lambda z:(F.vmap(lambda a:a.squeeze_())(z).shape,z.shape))(T.ones(2,1,4))
mut_ver: (lambda z:(F.vmap(lambda a:a.mul_(2))(z),z._version)[1])(x.clone())
mut_jvp: (lambda z:(F.jvp(lambda a:a.mul_(2),(z,),(y,)),z))(x.clone())
mut_vjp: (lambda z:(F.vjp(lambda a:a.mul_(2),z)[0],z))(x.clone())
mut_cap: (lambda z:F.grad(lambda a:(z.mul_(2)*a).sum())(v))(v.clone())
mut_caplist: (lambda l:F.grad(lambda a:(l[0].mul_(2)*a).sum())(v))([v.clone()])
zl_unif0: F.vmap(lambda a:T.zeros_like(a).uniform_(),in_dims=0,randomness='different')(x)
zl_unif1: F.vmap(lambda a:a.clone().uniform_(),in_dims=1,randomness='different')(x)
zl_unif2: F.vmap(lambda a:(a*2).uniform_(),in_dims=1,randomness='different')(x)
inb: F.vmap(lambda a:T.tensor([1.,2.,3.])*a)(x)
dbl: F.vmap(lambda a:a.double())(x)
shape_: F.vmap(lambda a:T.tensor(list(a.shape))+0*a.sum().long())(x)
stride_: F.vmap(lambda a:T.tensor(list(a.stride())))(x)
isc: F.vmap(lambda a:T.tensor(a.is_contiguous()),in_dims=1)(x)
size0: F.vmap(lambda a:a*2)(T.ones(0,3))
size0r: F.vmap(lambda a:a.sum())(T.ones(0,3))
size0m: F.vmap(lambda a:a@a)(T.ones(0,3,3))
diffsize: F.vmap(lambda a,b:a*b)(x,T.ones(3,3))
odlist: F.vmap(lambda a:[a,a*2],out_dims=[0,1])(x)
odtuple_list: F.vmap(lambda a:[a,a*2],out_dims=(0,1))(x)
oddict: F.vmap(lambda a:{'p':a},out_dims={'p':1})(x)
odoob: F.vmap(lambda a:a,out_dims=2)(x)
odneg: F.vmap(lambda a:a,out_dims=-2)(x)
odoobn: F.vmap(lambda a:a,out_dims=-3)(x)
odfloat: F.vmap(lambda a:a,out_dims=1.)(x)
odstr: F.vmap(lambda a:a,out_dims='0')(x)
idlist: F.vmap(lambda a,b:a*b,in_dims=[0,0])(x,y)
iddict: F.vmap(lambda d:d['a']*d['b'],in_dims=({'a':0,'b':None},))({'a':x,'b':v})
iddictbad: F.vmap(lambda d:d['a'],in_dims=({'b':0},))({'a':x})
idstr: F.vmap(T.sin,in_dims='0')(x)
idnone: F.vmap(T.sin,in_dims=None)(x)
idnones: F.vmap(T.sin,in_dims=(None,))(x)
idshort: F.vmap(lambda a,b:a*b,in_dims=(0,))(x,y)
kwb: F.vmap(lambda a,k=None:a*k)(x,k=v)
kwonly: F.vmap(lambda a:a)(a=x)
nt: F.vmap(lambda a,k:a*k,in_dims=(0,None))(x,3)
ntbad: F.vmap(lambda a,k:a*k)(x,3)
retdict: F.vmap(lambda a:{'p':a*2,'q':(a,a.sum())})(x)
rettype: str(type(F.vmap(lambda a:[a,(a,)])(x)[1]))
retsame: (lambda z:F.vmap(lambda a:a)(z) is z)(x)
part: F.vmap(__import__('functools').partial(T.mul,v))(x)
vmapname: F.vmap(T.sin).__name__
debug: F.debug_unwrap(x) is x
"""


def _lines(text: str) -> Any:
    lines = text.strip().split("\n")
    return pytest.mark.parametrize("line", lines, ids=[line.replace(":", " ").split(" ")[0] for line in lines])


def _tensors(T: Any, shapes: list[list[int]], dims: tuple[int | None, ...]) -> list[Any]:
    """Return tensors with a dimension of 3 added where `dims` say so."""
    found = []
    for k, (shape, dim) in enumerate(zip(shapes, dims, strict=True), 1):
        size = list(shape)
        if dim is not None:
            size.insert(dim if dim >= 0 else len(size) + 1 + dim, 3)
        count = int(np.prod(size))
        found.append(T.tensor(np.random.RandomState(count + 7 * k).uniform(-1.2, 1.2, count).reshape(size)))
    return found


def _weighed(T: Any, out: Any) -> Any:
    if not out.is_floating_point():
        return out.double().sum()
    return (out * T.arange(1.0, out.numel() + 1, dtype=out.dtype).reshape(out.shape).sin()).sum()


def _variants(line: str) -> dict[str, Any]:
    """Return programs in which an operator is inside transforms, by a name."""
    name, arguments, sizes, expression = (part.strip() for part in line.split("|", 3))
    code = compile(f"lambda {arguments}: {expression}", name, "eval")
    shapes = [[int(n) for n in size.split("x")] for size in sizes.split()]
    count = len(shapes)
    first, last = (0, *(None,) * (count - 1)), (*(None,) * (count - 1), -1)
    forward = "-jvp" not in name

    def op(T: Any) -> Any:
        return eval(code, {"T": T, "f": T.nn.functional, "L": T.linalg, "t": T.tensor, "spd": lambda a: _spd(T, a)})

    def vmapped(dims: Any, out_dims: int = 0) -> Any:
        return lambda T: T.func.vmap(op(T), dims, out_dims)(*_tensors(T, shapes, dims))

    def gradients(dims: Any) -> Any:
        def program(T: Any) -> Any:
            gradient = T.func.grad(lambda *a: _weighed(T, op(T)(*a)), tuple(range(count)))
            return T.func.vmap(gradient, dims)(*_tensors(T, shapes, dims))

        return program

    def tangents(T: Any) -> Any:
        xs = tuple(_tensors(T, shapes, (0,) * count))
        return T.func.vmap(lambda a, b: T.func.jvp(op(T), a, b))(xs, tuple(x.cos() for x in xs))

    def nested(T: Any) -> Any:
        return T.func.vmap(T.func.vmap(op(T)), out_dims=1)(*_tensors(T, [[2, *s] for s in shapes], (0,) * count))

    def around(T: Any) -> Any:
        xs = _tensors(T, shapes, (0,) * count)
        return T.func.grad(lambda *a: _weighed(T, T.func.vmap(op(T))(*a)))(*xs)

    def jacobian(kind: str) -> Any:
        return lambda T: getattr(T.func, kind)(op(T))(*_tensors(T, shapes, (None,) * count))

    programs = {
        "in_dims=-1": vmapped((-1,) * count, -1), "last": vmapped(last), "grad": gradients((0,) * count),
        "grad_first": gradients(first), "grad_last": gradients(last), "nested": nested, "around": around,
        "jacrev": jacobian("jacrev"),
    }  # fmt: skip
    return programs | {"jvp": tangents, "jacfwd": jacobian("jacfwd")} if forward else programs


def _spd(T: Any, a: Any) -> Any:
    return a @ a.mT + 3 * T.eye(a.shape[-1], dtype=a.dtype)


@needs_torch
@_lines(OPERATORS)
def test_operator_inside_transforms_is_torchs(line: str) -> None:
    for name, program in _variants(line).items():
        (kind, mine), (expected, theirs) = outcome(program, adjoint), outcome(program, torch)
        assert kind == expected, f"{name}: adjoint {mine}; torch {theirs}"
        close(mine[:1] if kind == "error" else mine, theirs[:1] if kind == "error" else theirs, 1e-5)


@needs_torch
@_lines(PROGRAMS)
def test_program_is_torchs(line: str) -> None:
    code = compile(line.split(": ", 1)[1], "<program>", "eval")

    def program(T: Any) -> Any:
        x, y = T.tensor([[0.1, -0.2, 0.3], [0.4, 0.5, -0.6]]), T.tensor([[1.0, 2.0, 3.0], [-1.0, 0.5, 2.0]])
        names = {"T": T, "F": T.func, "nn": T.nn, "x": x, "y": y, "v": T.tensor([0.5, -1.0, 2.0])}

        def silent(function: Any) -> Any:
            with T.no_grad():
                return function()

        T.manual_seed(0)
        out = eval(code, {**names, "w": T.ones(3, requires_grad=True), "silent": silent})
        return "a function" if callable(out) and not isinstance(out, T.Tensor) else out

    (kind, mine), (expected, theirs) = outcome(program, adjoint), outcome(program, torch)
    assert kind == expected, f"adjoint {mine}; torch {theirs}"
    close(mine[:1] if kind == "error" else mine, theirs[:1] if kind == "error" else theirs, 1e-5)


@needs_torch
@pytest.mark.parametrize("repeated", ["p.reshape(1, 1, 2, 3, 3)", "p[None]", "p.unsqueeze(0)", "p.view(1, 1, 2, 3, 3)"])
def test_convolution_of_a_weight_that_was_repeated(repeated: str) -> None:
    """Each element of the batch has a gradient of its own, though the memory is one."""

    def program(T: Any) -> Any:
        p = (T.arange(18.0).reshape(1, 2, 3, 3) / 10).requires_grad_()
        x = (T.arange(96.0).reshape(3, 1, 2, 4, 4) / 10).requires_grad_()
        many = eval(repeated, {"p": p * 1}).expand(3, 1, 2, 3, 3)
        out = T.func.vmap(T.nn.functional.conv2d)(x, many)
        return T.autograd.grad((out * T.arange(out.numel() * 1.0).reshape(out.shape)).sum(), [p, many, x])

    close(outcome(program, adjoint), outcome(program, torch), 1e-4)


@needs_torch
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_a_batch_have_gradients(mode: str) -> None:
    def program(T: Any) -> Any:
        def loss(w: Any, i: Any) -> Any:
            return (T.nn.functional.embedding_bag(i[None], w, mode=mode) ** 2).sum()

        numbers = T.tensor([[0, 1], [2, 3]])
        return T.func.vmap(T.func.grad(loss), in_dims=(None, 0))(T.arange(12.0).reshape(4, 3), numbers)

    close(outcome(program, adjoint), outcome(program, torch), 1e-6)


@needs_torch
def test_vmap_staticmethod_sees_the_dims_of_the_caller() -> None:
    def program(T: Any) -> Any:
        seen = []

        class Scaled(T.autograd.Function):  # type: ignore[misc, name-defined]
            @staticmethod
            def forward(x: Any, k: Any) -> Any:
                return x * k

            @staticmethod
            def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
                pass

            @staticmethod
            def vmap(info: Any, in_dims: Any, x: Any, k: Any) -> Any:
                seen.append([*in_dims, info.batch_size, list(x.shape)])
                return x * k, in_dims[0]

        x = T.arange(6.0).reshape(2, 3)
        return [T.func.vmap(lambda a: Scaled.apply(a, 2.0), dim)(x) for dim in (0, 1, -1)], seen

    close(outcome(program, adjoint), outcome(program, torch), 1e-6)


@needs_torch
@pytest.mark.parametrize("transform", ["grad", "jvp", "vjp"])
def test_memory_is_refused_inside_derivatives(transform: str) -> None:
    def program(T: Any) -> Any:
        x, captured, told = T.ones(3), T.ones(3), []

        def function(a: Any) -> Any:
            for tensor in (captured, captured * 2, a.detach()):
                with pytest.raises(RuntimeError) as error:
                    tensor.numpy()
                told.append(str(error.value)[:50])
            return a.sum()

        F = T.func
        {"grad": F.grad(function), "vjp": lambda x: F.vjp(function, x), "jvp": lambda x: F.jvp(function, (x,), (x,))}[
            transform
        ](x)
        return told

    assert outcome(program, adjoint) == outcome(program, torch)
