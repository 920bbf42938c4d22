"""Tuples with named fields, as ops of several results return them."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import Any

from . import printing


class Result(tuple[Any, ...]):
    """A tuple whose elements have names too, and which prints them."""

    __slots__ = ()
    _fields: tuple[str, ...] = ()

    def __new__(cls, values: Iterable[Any], dict: Any = None) -> Result:
        """Make one from its elements, in order."""
        self = tuple.__new__(cls, values)
        if len(self) != len(cls._fields):
            raise TypeError(f"{cls.__name__}() takes a {len(cls._fields)}-sequence ({len(self)}-sequence given)")
        return self

    def __repr__(self) -> str:
        fields = ",\n".join(f"{name}={value!r}" for name, value in zip(self._fields, self))
        return f"{printing.PACKAGE}.return_types.{type(self).__name__}(\n{fields})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self).__name__, tuple(self)))


def _rebuild(name: str, values: tuple[Any, ...]) -> Any:
    return globals()[name](values)


def _structure(name: str, *fields: str) -> Any:
    members: dict[str, Any] = {"__slots__": (), "__module__": __name__, "__doc__": f"What `{name}` returns."}
    members.update({field: property(itemgetter(i), doc=f"Element {i}.") for i, field in enumerate(fields)})
    members["_fields"] = fields
    return type(name, (Result,), members)


max = _structure("max", "values", "indices")
min = _structure("min", "values", "indices")
median = _structure("median", "values", "indices")
nanmedian = _structure("nanmedian", "values", "indices")
mode = _structure("mode", "values", "indices")
sort = _structure("sort", "values", "indices")
topk = _structure("topk", "values", "indices")
kthvalue = _structure("kthvalue", "values", "indices")
cummax = _structure("cummax", "values", "indices")
cummin = _structure("cummin", "values", "indices")
aminmax = _structure("aminmax", "min", "max")
histogram = _structure("histogram", "hist", "bin_edges")
histogramdd = _structure("histogramdd", "hist", "bin_edges")
frexp = _structure("frexp", "mantissa", "exponent")

svd = _structure("svd", "U", "S", "V")
qr = _structure("qr", "Q", "R")
geqrf = _structure("geqrf", "a", "tau")
slogdet = _structure("slogdet", "sign", "logabsdet")
triangular_solve = _structure("triangular_solve", "solution", "cloned_coefficient")
lu_unpack = _structure("lu_unpack", "P", "L", "U")
linalg_svd = _structure("linalg_svd", "U", "S", "Vh")
linalg_qr = _structure("linalg_qr", "Q", "R")
linalg_eig = _structure("linalg_eig", "eigenvalues", "eigenvectors")
linalg_eigh = _structure("linalg_eigh", "eigenvalues", "eigenvectors")
linalg_slogdet = _structure("linalg_slogdet", "sign", "logabsdet")
linalg_lstsq = _structure("linalg_lstsq", "solution", "residuals", "rank", "singular_values")
linalg_cholesky_ex = _structure("linalg_cholesky_ex", "L", "info")
linalg_inv_ex = _structure("linalg_inv_ex", "inverse", "info")
linalg_solve_ex = _structure("linalg_solve_ex", "result", "info")
linalg_lu = _structure("linalg_lu", "P", "L", "U")
linalg_lu_factor = _structure("linalg_lu_factor", "LU", "pivots")
linalg_lu_factor_ex = _structure("linalg_lu_factor_ex", "LU", "pivots", "info")
linalg_ldl_factor = _structure("linalg_ldl_factor", "LD", "pivots")
linalg_ldl_factor_ex = _structure("linalg_ldl_factor_ex", "LD", "pivots", "info")
