"""adjoint against torch's own table of operators: see README.md."""

from __future__ import annotations

import os

# The runner has a process per core; read when the libraries load.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
