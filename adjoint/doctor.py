"""What an installation has: packages, the kernels that will compute, GPU, MPI, cache. ``adjoint doctor`` prints it."""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
import sys
import warnings
from importlib import metadata
from pathlib import Path

import numpy as np

from ._version import __version__
from .devices.cpu import disk, onednn, provider, threads
from .devices.cuda.device import found as cupy_with_a_gpu

__all__ = ["report", "sections"]

Row = tuple[str, str]

# The packages that adjoint can use: distribution, module, what it brings.
_PACKAGES = [
    ("numba", "numba", "compiled loops on the CPU, fused programs in adjoint.compile"),
    ("onednn-cpu-gomp", "", "convolutions, pooling and matrix multiplication by oneDNN"),
    ("scipy", "scipy", "special functions, SobolEngine, ldl_factor"),
    ("opt_einsum", "opt_einsum", "contraction orders for einsum"),
    ("cupy-cuda13x", "cupy", "tensors on an NVIDIA GPU (CUDA 12: cupy-cuda12x)"),
    ("triton", "triton", "attention on a GPU"),
    ("nvidia-cudnn-cu13", "nvidia.cudnn", "convolutions on a GPU"),
    ("mpi4py", "mpi4py", "several processes by MPI"),
    ("tqdm", "tqdm", "nicer progress bars"),
]


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _installed(distribution: str, module: str) -> str | None:
    """Return the version of a package, under whatever distribution name it was installed; None where it is missing."""
    version = _version(distribution)
    if version is not None or not module:
        return version
    try:
        if importlib.util.find_spec(module) is None:
            return None
    except ImportError:  # of the package above it
        return None
    named = metadata.packages_distributions().get(module.partition(".")[0], [])
    versions = [f"{_version(name)} ({name})" for name in named]
    return versions[0] if versions else "of unknown version"


def _packages() -> list[Row]:
    rows = [("numpy", f"{np.__version__}  ({_blas()})"), ("ml_dtypes", _version("ml_dtypes") or "missing")]
    for distribution, module, purpose in _PACKAGES:
        version = _installed(distribution, module)
        rows.append((distribution, version or f"not installed: pip install {distribution}  ({purpose})"))
    return rows


def _blas() -> str:
    config = np.show_config(mode="dicts")
    blas = (config or {}).get("Build Dependencies", {}).get("blas", {})
    return f"BLAS: {blas.get('name', 'unknown')} {blas.get('version', '')}".strip()


def _kernels() -> list[Row]:
    """Return what computes large float32 arrays on the CPU; small arrays always use NumPy."""
    library, numba = onednn.library(), provider.compiles()
    convolution = f"oneDNN ({library.dll._name})" if library is not None else "NumPy: pip install onednn-cpu-gomp"
    loops = "loops compiled by Numba" if numba else "NumPy: pip install numba"
    return [
        ("threads", f"{threads.count} of {os.cpu_count()} processors"),
        ("convolution, pooling", convolution),
        ("matrix multiplication", "NumPy's BLAS" + (", oneDNN for several threads" if library is not None else "")),
        ("softmax, norms, losses", loops),
        ("adjoint.compile", "fused loops compiled by Numba" if numba else "NumPy calls: pip install numba"),
    ]


def _gpu() -> list[Row]:
    if importlib.util.find_spec("cupy") is None:
        return [("GPU", "none: CuPy is not installed; pip install cupy-cuda13x (CUDA 12: cupy-cuda12x)")]
    cupy = cupy_with_a_gpu()
    if cupy is None:
        return [("GPU", f"none: {_why_no_gpu()}")]
    rows = []
    for i in range(cupy.cuda.runtime.getDeviceCount()):
        found = cupy.cuda.runtime.getDeviceProperties(i)
        memory = found["totalGlobalMem"] / 2**30
        rows.append((f"cuda:{i}", f"{found['name'].decode()}, {memory:.0f} GiB, {found['major']}.{found['minor']}"))
    from .devices.cuda import cudnn

    rows.append(("CUDA driver", str(cupy.cuda.runtime.driverGetVersion())))
    rows.append(("cuDNN", str(cudnn.version() or "not found: pip install nvidia-cudnn-cu13")))
    return rows


def _why_no_gpu() -> str:
    """Return what CuPy says where it is installed and finds no GPU."""
    try:
        import cupy  # type: ignore[import-not-found, unused-ignore]

        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # a broken installation, no driver: CuPy says which
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
    return f"CuPy finds {count} devices"


def _mpi() -> list[Row]:
    if importlib.util.find_spec("mpi4py") is None:
        return [("MPI", "none: pip install mpi4py mpich (Windows: mpi4py impi-rt); torchrun by TCP works without")]
    # In a process of its own: an MPI that fails to load may end the process, and nothing here is to start one.
    program = "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; print(MPI.Get_library_version())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    if done.returncode:
        why = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        return [("MPI", f"mpi4py finds no MPI library: {why}; pip install mpich (Windows: impi-rt)")]
    return [("MPI", " ".join(done.stdout.replace("\0", "").splitlines()[0].split()))]


def _cache() -> list[Row]:
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        folder = disk.folder()
    if folder is None:
        return [
            ("compiled loops", str(noted[-1].message) if noted else "no folder is safe to use; they are not cached")
        ]
    files = [p for p in Path(folder).glob("*") if p.is_file()]
    size = sum(p.stat().st_size for p in files) / 1e6
    return [("compiled loops", f"{folder}  ({len(files)} files, {size:.1f} MB)")]


def sections() -> dict[str, list[Row]]:
    """Return everything that is known about this installation, by heading."""
    python = f"{platform.python_version()} at {sys.executable}"
    machine = f"{platform.system()} {platform.release()}, {platform.machine()}"
    return {
        f"adjoint {__version__}": [
            ("folder", os.path.dirname(__file__)), ("Python", python), ("machine", machine)
        ],
        "Packages": _packages(),
        "Kernels for large arrays on the CPU": _kernels(),
        "GPU": _gpu(),
        "Several processes": [*_mpi(), ("mpiexec", _mpiexec())],
        "Cache": _cache(),
    }  # fmt: skip


def _mpiexec() -> str:
    import shutil

    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])
    return shutil.which("mpiexec", path=path) or "not found: pip install mpich (Windows: impi-rt)"


def report() -> str:
    """Return the page that ``adjoint doctor`` prints.

    Examples
    --------
    >>> from adjoint.doctor import report
    >>> "Packages" in report()
    True
    """
    blocks = []
    for heading, rows in sections().items():
        width = max(len(name) for name, _ in rows)
        blocks.append("\n".join([heading, *(f"  {name:<{width}}  {value}" for name, value in rows)]))
    return "\n\n".join(blocks)
