"""Common parametrisations: orthogonal, weight norm, spectral norm."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

from ..._typing import Tensor
from ...autograd.grad_mode import no_grad
from ...core.dtypes import finfo
from ...linalg import householder_product, matrix_exp, solve
from ...ops.contraction import mv, vdot
from ...ops.create_like import empty_like
from ...ops.decomposition import geqrf
from ...ops.join import cat
from ...ops.norm import normalize
from ...ops.ranges import eye
from ..modules.module import Module
from .norms import as_matrix, check_iterations, norm_except_dim, of_norm, output_dim
from .parametrize import register_parametrization

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def _is_orthogonal(q: Tensor, eps: float | None = None) -> bool:
    n, k = q.size(-2), q.size(-1)
    identity = eye(k, dtype=q.dtype, device=q.device)
    eps = 10.0 * n * finfo(q.dtype).eps if eps is None else eps
    return bool((q.mH @ q).allclose(identity, atol=eps))


def _make_orthogonal(a: Tensor) -> Tensor:
    """Return the orthogonal factor of a tall matrix, its signs those of the diagonal of R."""
    x, tau = geqrf(a)
    q = householder_product(x, tau)
    return q * x.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _OrthMaps(Enum):
    matrix_exp = auto()
    cayley = auto()
    householder = auto()


class _Orthogonal(Module):
    base: Any

    def __init__(self, weight: Tensor, orthogonal_map: _OrthMaps, *, use_trivialization: bool = True) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == _OrthMaps.householder:
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, x: Tensor) -> Tensor:
        n, k = x.size(-2), x.size(-1)
        wide = n < k
        if wide:
            x, n, k = x.mT, k, n
        if self.orthogonal_map == _OrthMaps.householder:
            a = x.tril(diagonal=-1)
            q = householder_product(a, 2.0 / (1.0 + (a * a).sum(dim=-2)))
            q = q * x.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
        else:
            q = self._of_skew(x, n, k)
        if hasattr(self, "base") and self.base is not None:
            q = self.base @ q
        return q.mT if wide else q

    def _of_skew(self, x: Tensor, n: int, k: int) -> Tensor:
        """Map the lower triangle to a skew matrix, and that to an orthogonal one."""
        x = x.tril()
        if n != k:
            x = _with_columns(x, n)
        a = x - x.mH
        if self.orthogonal_map == _OrthMaps.matrix_exp:
            q = matrix_exp(a)
        else:
            identity = eye(n, dtype=a.dtype, device=a.device)
            q = solve(identity - 0.5 * a, identity + 0.5 * a)
        return q[..., :k] if n != k else q

    @no_grad()
    def right_inverse(self, q: Tensor) -> Tensor:
        if q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {q.shape}."
            )
        given = q
        wide = q.size(-2) < q.size(-1)
        if wide:
            q = q.mT
        n, k = q.size(-2), q.size(-1)
        if not hasattr(self, "base"):
            return self._inverse_by_householder(q, wide)
        # The base takes the value; what is trained starts at zero.
        if n == k:
            self.base = q.clone() if _is_orthogonal(q) else _make_orthogonal(q)
        else:
            full = _with_columns(q, n, random=True)
            self.base = _make_orthogonal(full)
        start = empty_like(given).zero_()
        if self.orthogonal_map == _OrthMaps.householder:
            start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)  # zeros are reflections there
        return start

    def _inverse_by_householder(self, q: Tensor, wide: bool) -> Tensor:
        if self.orthogonal_map != _OrthMaps.householder:
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                "use_trivialization=False."
            )
        a, tau = geqrf(q)
        a.diagonal(dim1=-2, dim2=-1).sign_()
        a.diagonal(dim1=-2, dim2=-1)[tau == 0.0] *= -1
        return a.mT if wide else a


def _with_columns(x: Tensor, n: int, random: bool = False) -> Tensor:
    """Return a tall matrix with columns appended to make it square."""
    extra = x.new_empty((*x.shape[:-1], n - x.size(-1)))
    extra = extra.normal_() if random else extra.zero_()
    return cat([x, extra], -1)


def orthogonal(
    module: Any, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Any:
    """Make a matrix parameter orthogonal (its rows or columns orthonormal, if it is not square).

    Examples
    --------
    >>> layer = adjoint.nn.utils.parametrizations.orthogonal(adjoint.nn.Linear(3, 3))
    >>> bool((layer.weight @ layer.weight.T).allclose(adjoint.eye(3), atol=1e-5))
    True
    """
    weight = getattr(module, name, None)
    if not hasattr(weight, "array"):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    assert weight is not None
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1) or weight.is_complex()
        orthogonal_map = "matrix_exp" if square else "householder"
    chosen = getattr(_OrthMaps, orthogonal_map, None)
    if chosen is None:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    orth = _Orthogonal(weight, chosen, use_trivialization=use_trivialization)
    return register_parametrization(module, name, orth, unsafe=True)


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return of_norm(weight_g, weight_v, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Split a weight into its norm (``original0``) and its direction (``original1``), along `dim`.

    Examples
    --------
    >>> layer = adjoint.nn.utils.parametrizations.weight_norm(adjoint.nn.Linear(2, 3))
    >>> layer.parametrizations.weight.original0.shape
    adjoint.Size([3, 1])
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    _load_old_names(module, name)
    return module


def _load_old_names(module: Any, name: str) -> None:
    """Let checkpoints of the older `nn.utils.weight_norm` load."""

    def rename(state_dict: Any, prefix: str, *rest: Any) -> None:
        old = [f"{prefix}{name}_{part}" for part in "gv"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(rename)


class _SpectralNorm(Module):
    _u: Any
    _v: Any

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{weight.ndim}, {weight.ndim - 1}] but got {dim})"
            )
        check_iterations(n_power_iterations)
        self.dim = dim if dim >= 0 else dim + weight.ndim
        self.eps = eps
        if weight.ndim > 1:
            self.n_power_iterations = n_power_iterations
            with no_grad():
                matrix = self._reshape_weight_to_matrix(weight)
                rows, columns = matrix.size()
                u, v = matrix.new_empty(rows).normal_(0, 1), matrix.new_empty(columns).normal_(0, 1)
            self.register_buffer("_u", normalize(u, dim=0, eps=self.eps))
            self.register_buffer("_v", normalize(v, dim=0, eps=self.eps))
            self._power_method(matrix, 15)

    def _reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        return as_matrix(weight, self.dim)

    @no_grad()
    def _power_method(self, matrix: Tensor, n_power_iterations: int) -> None:
        for _ in range(n_power_iterations):
            self._u.copy_(normalize(mv(matrix, self._v), dim=0, eps=self.eps))
            self._v.copy_(normalize(mv(matrix.H, self._u), dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return normalize(weight, dim=0, eps=self.eps)
        matrix = self._reshape_weight_to_matrix(weight)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        # Copies: the buffers are written by the next call, which may come before this one's backward.
        u, v = self._u.clone(), self._v.clone()
        return weight / vdot(u, mv(matrix, v))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Any:
    """Divide a weight by its greatest singular value, followed by power iteration."""
    weight: Any = getattr(module, name, None)
    if not hasattr(weight, "array"):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    dim = output_dim(module) if dim is None else dim
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
