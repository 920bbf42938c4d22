"""Linear algebra: ``adjoint.linalg``.

Every function takes a matrix or a batch of them, the last two dims being the matrices.
"""

from .errors import LinAlgError
from .ops import namespace as _namespace  # noqa: F401  # what it has too goes by its own name
from .ops import signatures as _signatures
from .ops.contraction import matmul
from .ops.decomposition import (
    cholesky,
    cholesky_ex,
    householder_product,
    ldl_factor,
    ldl_factor_ex,
    ldl_solve,
    lu,
    lu_factor,
    lu_factor_ex,
    lu_solve,
    qr,
)
from .ops.eigenvalues import eig, eigh, eigvals, eigvalsh, svd, svdvals
from .ops.linalg import det, inv, inv_ex, slogdet, solve, solve_ex, solve_triangular
from .ops.matrix_functions import (
    cond,
    cross,
    diagonal,
    lstsq,
    matrix_exp,
    matrix_power,
    matrix_rank,
    multi_dot,
    pinv,
    tensorinv,
    tensorsolve,
    vander,
    vecdot,
)
from .ops.measure import linalg_norm as norm
from .ops.measure import matrix_norm, vector_norm

__all__ = [
    "LinAlgError", "cholesky", "cholesky_ex", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh",
    "householder_product", "inv", "inv_ex", "ldl_factor", "ldl_factor_ex", "ldl_solve", "lstsq", "lu", "lu_factor",
    "lu_factor_ex", "lu_solve", "matmul", "matrix_exp", "matrix_norm", "matrix_power", "matrix_rank", "multi_dot",
    "norm", "pinv", "qr", "slogdet", "solve", "solve_ex", "solve_triangular", "svd", "svdvals", "tensorinv",
    "tensorsolve", "vander", "vecdot", "vector_norm",
]  # fmt: skip

_signatures.enforce(globals(), __name__, "linalg_")
