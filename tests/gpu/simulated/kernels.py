"""Kernels written in CUDA C, compiled by g++ and run on the host, block by block."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from . import runtime

_HERE = Path(__file__).parent / "include"
_FLAGS = ("-std=c++17", "-O1", "-shared", "-fPIC", "-w", "-fno-strict-aliasing",
          "-fvisibility=hidden", "-Wl,-Bsymbolic", "-nostdinc++", "-fno-exceptions", "-fno-rtti")  # fmt: skip
# NVRTC contracts products and sums unless it is told not to; g++ does where the processor can.
_CONTRACTED = ("-ffp-contract=fast", "-fexpensive-optimizations", "-mfma")
_BOUNDS = r"(?:__launch_bounds__\s*\([^)]*\)\s*)?"
_KERNEL = re.compile(rf'extern\s+"C"\s+__global__\s+{_BOUNDS}void\s+{_BOUNDS}(\w+)\s*\(')
_MACRO = re.compile(r"^[ \t]*#[ \t]*define(?:[^\n\\]|\\\n|\\.)*", re.MULTILINE)
_DYNAMIC = re.compile(r"extern\s+__shared__\s+(?:__align__\s*\(\s*\d+\s*\)\s*)?([\w\s:<>,]+?)\s*(\w+)\s*\[\s*\]\s*;")


class CompileException(Exception):
    """NVRTC, or here g++, did not take a source."""


def compiler() -> str | None:
    """Return the C++ compiler, if there is one."""
    return shutil.which(os.environ.get("CXX", "g++"))


def _folder() -> Path:
    made = Path(tempfile.gettempdir()) / f"adjoint-simulated-gpu-{os.getuid()}"
    made.mkdir(exist_ok=True)
    return made


def _call(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:24]


@functools.cache
def _fuses() -> bool:
    found = Path("/proc/cpuinfo")
    return found.exists() and " fma " in found.read_text()


def flushes(options: tuple[str, ...]) -> bool:
    """Return whether kernels take denormal floats for zeros; NVRTC 13 refuses to be told twice, as CuPy tells it."""
    given = [o.partition("=")[2] for o in options if o.lstrip("-").startswith("ftz")]
    if len(given) > 1:
        raise CompileException("nvrtc: error: invalid value for --gpu-architecture or option 'ftz' redefined")
    return given == ["true"]


def compile_using_nvrtc(source: str, options: tuple[str, ...] = (), *_: Any, **__: Any) -> tuple[bytes, None]:
    """Return what stands for the machine code of a source."""
    flushes(options)
    return json.dumps([source, list(options)]).encode(), None


def built(source: str, options: tuple[str, ...], name: str = "") -> ctypes.CDLL:
    """Return the library made of a source; made once, in a temporary folder, and kept for other processes."""
    gxx = compiler()
    if gxx is None:
        raise CompileException("kernels on the simulated GPU are compiled by g++, which is not installed here")
    fused = "--fmad=false" not in options and _fuses()
    defines = (*(o for o in options if o.startswith(("-D", "-I"))), *(_CONTRACTED if fused else ("-ffp-contract=off",)))
    if flushes(options):
        defines = (*defines, "-DSIMULATED_FLUSHES")
    digest = _digest(*(f.read_text() for f in sorted(_HERE.iterdir())), source, *defines, *_FLAGS)
    target = _folder() / f"{digest}.{name or 'so'}"
    if not target.exists():
        text = target.with_name(f"{digest}.{os.getpid()}.cpp")
        text.write_text(source)
        made = target.with_name(f"{digest}.{os.getpid()}.tmp")
        includes = (f"-I{_HERE}", "-include", "simulated_cuda.h")
        complaint = _call(gxx, *_FLAGS, *defines, *includes, str(text), "-o", str(made))
        text.unlink()
        if complaint:
            raise CompileException(complaint[:4000])
        made.replace(target)
    return ctypes.CDLL(str(target))


def _pack(value: Any) -> Any:
    """Return an argument as a kernel finds it in its parameter: bytes that ctypes keeps."""
    if hasattr(value, "_a"):
        return ctypes.c_void_p(value.data.ptr)
    if isinstance(value, runtime.MemoryPointer):
        return ctypes.c_void_p(value.ptr)
    if isinstance(value, np.generic):
        return ctypes.create_string_buffer(value.tobytes())
    if isinstance(value, np.ndarray):  # CuPy passes such memory by value
        return ctypes.create_string_buffer(value.tobytes())
    if isinstance(value, bool):
        return ctypes.c_bool(value)
    if isinstance(value, int):
        return ctypes.c_longlong(value)
    if isinstance(value, float):
        return ctypes.c_double(value)
    if isinstance(value, complex):
        return ctypes.create_string_buffer(np.complex128(value).tobytes())
    if isinstance(value, ctypes._SimpleCData | ctypes.Structure):
        return value
    raise TypeError(f"Unsupported type {type(value)}")


def _three(size: Any) -> Any:
    size = (size,) if isinstance(size, int) else tuple(int(n) for n in size)
    return (ctypes.c_uint * 3)(*size, *(1,) * (3 - len(size)))


class Function:
    """A kernel that can be launched."""

    num_regs, local_size_bytes, max_threads_per_block, const_size_bytes = 32, 0, 1024, 0

    def __init__(self, library: ctypes.CDLL, symbol: str, name: str, barriers: bool) -> None:
        self.entry = getattr(library, symbol)
        self.entry.restype = ctypes.c_char_p
        self.name, self.barriers = name, barriers
        self.max_dynamic_shared_size_bytes = 48 << 10
        self.preferred_shared_memory_carveout = -1
        self.ptr = ctypes.cast(self.entry, ctypes.c_void_p).value

    @property
    def kernel(self) -> Function:
        return self

    @property
    def attributes(self) -> dict[str, int]:
        return {"max_threads_per_block": 1024, "num_regs": 32, "shared_size_bytes": 0, "local_size_bytes": 0}

    def compile(self, log_stream: Any = None) -> None:
        """Do nothing: it is compiled."""

    def __call__(self, grid: Any, block: Any, args: Any, shared_mem: int = 0, stream: Any = None, **_: Any) -> None:
        grid, block = _three(grid), _three(block)
        if block[0] * block[1] * block[2] > 1024 or not all((*grid, *block)) or max(grid[1:]) > 65535:
            raise runtime.CUDADriverError("CUDA_ERROR_INVALID_VALUE: invalid argument")
        if shared_mem > self.max_dynamic_shared_size_bytes or shared_mem > 227 << 10:
            raise runtime.CUDADriverError("CUDA_ERROR_INVALID_VALUE: more shared memory than was asked for")
        packed = [_pack(a) for a in args]
        pointers = (ctypes.c_void_p * max(len(packed), 1))(*[ctypes.addressof(p) for p in packed])
        kept = tuple(args)
        # While a graph is captured nothing is run: what it reads is not there yet, and what it notes stays noted.
        runtime.write([], lambda: self._run(grid, block, pointers, packed, kept), later=True)

    def _run(self, grid: Any, block: Any, pointers: Any, packed: Any, kept: Any) -> None:
        wrong = self.entry(ctypes.c_bool(self.barriers), grid, block, pointers, len(packed))
        if wrong is not None:
            raise runtime.CUDADriverError(f"CUDA_ERROR_LAUNCH_FAILED: {self.name}: {wrong.decode()}")

    def linear_launch(
        self, size: int, args: Any, shared_mem: int = 0, block_max_size: int = 128, stream: Any = None, **_: Any
    ) -> None:
        """Launch one thread for each element."""
        if size:
            self(((size + block_max_size - 1) // block_max_size,), (min(block_max_size, size),), args, shared_mem)


class RawModule:
    """A source with kernels in it."""

    def __init__(
        self,
        *,
        code: str | None = None,
        path: str | None = None,
        options: tuple[str, ...] = (),
        backend: str = "nvrtc",
        translate_cucomplex: bool = False,
        enable_cooperative_groups: bool = False,
        name_expressions: Any = None,
        jitify: bool = False,
    ) -> None:
        self.code = Path(path).read_text() if code is None else code  # type: ignore[arg-type]
        self.options = (*options, "-ftz=true")  # as CuPy does
        self.names = list(name_expressions or ())
        self._library: Any = None
        self._known: list[str] = []

    def _names(self) -> list[str]:
        return list(dict.fromkeys([*self.names, *_KERNEL.findall(_MACRO.sub("", self.code))]))

    def _build(self, name: str) -> None:
        known = self._names()
        self._known = known if name in known else [*known, name]
        text = _DYNAMIC.sub(r"static \1* const \2 = (\1*)__simulated_dynamic;", self.code)
        stubs = [
            f'extern "C" __attribute__((visibility("default"))) const char* __launch_{i}(bool _b, const unsigned* _g, '
            f"const unsigned* _k, void** _a, int _n) {{ return simulated::launch(&{known}, _b, _g, _k, _a, _n); }}"
            for i, known in enumerate(self._known)
        ]
        self._library = built("\n".join([text, *stubs]), self.options)
        self._barriers = b"_barrier" in Path(self._library._name).read_bytes()

    def compile(self, log_stream: Any = None) -> None:
        """Compile now."""
        if self._library is None:
            self._build(self._names()[0])

    def get_function(self, name: str) -> Function:
        """Return one of the kernels."""
        if self._library is None or name not in self._known:
            self._build(name)
        return Function(self._library, f"__launch_{self._known.index(name)}", name, self._barriers)


class Module:
    """Machine code that is loaded from memory."""

    def load(self, cubin: bytes) -> None:
        """Load it."""
        source, options = json.loads(cubin)
        self._module = RawModule(code=source)
        self._module.options = tuple(options)

    def get_function(self, name: str) -> Function:
        """Return one of the kernels."""
        return self._module.get_function(name)


class RawKernel:
    """One kernel and its source; compiled when first launched."""

    def __init__(self, code: str, name: str, options: tuple[str, ...] = (), **others: Any) -> None:
        self.code, self.name, self.options = code, name, options
        self._module = RawModule(code=code, options=options)
        self._kernel: Function | None = None

    @property
    def kernel(self) -> Function:
        """The kernel, compiled."""
        if self._kernel is None:
            self._kernel = self._module.get_function(self.name)
        return self._kernel

    def compile(self, log_stream: Any = None) -> None:
        """Compile now."""
        _ = self.kernel

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        return self.kernel.max_dynamic_shared_size_bytes

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, size: int) -> None:
        self.kernel.max_dynamic_shared_size_bytes = size

    def __call__(self, grid: Any, block: Any, args: Any, *, shared_mem: int = 0, **_: Any) -> None:
        self.kernel(grid, block, args, shared_mem)
