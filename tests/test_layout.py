"""The layout: which package may import whom, what the package never does, what every function has."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from adjoint import _paths
from adjoint.core.nodes import registry

PACKAGE = Path(__file__).resolve().parent.parent / "adjoint"
FILES = sorted(p for p in PACKAGE.rglob("*.py") if "__pycache__" not in p.parts)

# From the bottom up. A file imports from its own package and from packages that stand before it in this list.
PACKAGES = [
    "_version", "_typing", "_paths", "notebook", "errors", "printing", "scalar", "devices", "core", "return_types",
    "ops", "methods", "subclasses", "tensor", "quasirandom", "settings", "overrides", "random", "payloads", "autograd",
    "library", "tree", "func", "compiler", "fft", "linalg", "special", "signal", "sparse", "masked", "cuda",
    "accelerator", "backends", "amp", "nn", "nested", "optim", "distributions", "serialization", "utils", "profiler",
    "explanation", "viz", "multiprocessing", "futures", "distributed", "testing", "fx", "export", "onnx", "compat",
    "demo", "doctor", "__main__",
]  # fmt: skip
RANK = {package: number for number, package in enumerate(PACKAGES)}

# Words that must not be spoken when adjoint is imported.
HEAVY = [
    "numba",
    "cupy",
    "scipy",
    "triton",
    "torch",
    "mpi4py",
    "opt_einsum",
    "optree",
    "safetensors",
    "graphviz",
    "onnx",
    "onnxruntime",
]


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def package_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def name_of(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def imported_packages(path: Path, node: ast.stmt) -> Iterator[str]:
    """Yield the packages that an import statement of a file names."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.split(".")[0] == "adjoint":
                yield (alias.name.split(".") + [""])[1]
        return
    assert isinstance(node, ast.ImportFrom)
    here = list(path.relative_to(PACKAGE).parent.parts)
    if node.level == 0:
        if node.module is None or node.module.split(".")[0] != "adjoint":
            return
        target = node.module.split(".")[1:]
    else:
        target = here[: len(here) - (node.level - 1)] + (node.module.split(".") if node.module else [])
    if target == ["core", "device"] and package_of(path) == "devices":
        return  # whose arrays are these: that much a kernel may ask
    if target:
        yield target[0]
    else:
        for alias in node.names:
            yield alias.name


def is_for_checkers(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def top_level(module: ast.Module) -> Iterator[ast.stmt]:
    """Yield the statements that run when a module is imported, imports inside of try or if among them."""
    stack: list[ast.stmt] = list(module.body)
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With) and not is_for_checkers(node):
            for part in ("body", "orelse", "finalbody"):
                stack += getattr(node, part, [])
            for handler in getattr(node, "handlers", []):
                stack += handler.body


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_file_imports_only_from_its_own_package_and_packages_above(path: Path) -> None:
    package = package_of(path)
    if package == "__init__":
        return
    assert package in RANK, f"{package} has no place in the list of packages"
    for node in top_level(tree(path)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for target in imported_packages(path, node):
                assert target in RANK, f"{name_of(path)}:{node.lineno} imports {target}, which is no package"
                assert RANK[target] <= RANK[package], f"{name_of(path)}:{node.lineno}: {package} stands before {target}"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_an_import_against_the_direction_says_why(path: Path) -> None:
    """Inside a function a file may import from a package below; a comment there, or right above, says why."""
    lines, rank = path.read_text().splitlines(), RANK.get(package_of(path), len(PACKAGES))
    for function in ast.walk(tree(path)):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for node in ast.walk(function):
            if not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            if any(RANK[target] > rank for target in imported_packages(path, node)):
                before = node.lineno - 2
                while before > function.lineno and lines[before].lstrip().startswith(("import ", "from ")):
                    before -= 1
                said = "#" in lines[node.lineno - 1] or lines[before].lstrip().startswith("#")
                assert said, f"{name_of(path)}:{node.lineno}: {lines[node.lineno - 1].strip()}"


FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_ATTRIBUTES = {
    ("pickle", "load"),
    ("pickle", "loads"),
    ("pickle", "Unpickler"),
    ("marshal", "loads"),
    ("os", "system"),
}


# Compiled, printed and traced programs; frames with the parameters of the function inside.
RUNS_ITS_OWN_TEXT = {
    "compiler/program.py", "devices/cpu/sources.py", "scalar/arrays.py", "fx/graph_module.py", "ops/signatures.py",
}  # fmt: skip


@pytest.mark.parametrize("path", [p for p in FILES if name_of(p) not in RUNS_ITS_OWN_TEXT], ids=name_of)
def test_no_file_runs_text_or_unpickles(path: Path) -> None:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Name):
                assert called.id not in FORBIDDEN_CALLS, f"{name_of(path)}:{node.lineno} calls {called.id}"
            if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
                spoken = (called.value.id, called.attr)
                assert spoken not in FORBIDDEN_ATTRIBUTES, f"{name_of(path)}:{node.lineno} calls {'.'.join(spoken)}"


# What changes the process behind a program's back: the C library's allocator, where threads run, NumPy's own loops.
CHANGES_THE_PROCESS = re.compile(r"mallopt|sched_setaffinity|pthread_setaffinity|ReplaceLoop|_UFUNC_API|SetHandler")


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_nothing_outside_the_package_is_changed(path: Path) -> None:
    found = CHANGES_THE_PROCESS.search(path.read_text())
    assert found is None, f"{name_of(path)} names {found and found.group()}"
    for node in ast.walk(tree(path)):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            written = isinstance(target, ast.Attribute) and target.attr == "cell_contents"
            assert not written, f"{name_of(path)}:{node.lineno} writes into a closure's cell"  # type: ignore[attr-defined]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("setattr", "delattr"):
            written = isinstance(node.args[1], ast.Constant) and node.args[1].value == "cell_contents"
            assert not written, f"{name_of(path)}:{node.lineno} writes into a closure's cell"


# --- One formula, one text; one device, one folder --------------------------------------------------
# What is not at 0 yet has its present number here, which may only shrink.

_THREADS_OR_SIZES = r"^_?[A-Z][A-Z_]* = (?:\d+ << \d+|\d[\d_]*)\b(?!\.)(?!\s*[/*])"
NAMED_IN_OPS = {
    r"\bis (?:not )?(?:np\.)?ndarray\b|\bcupy\b": 5,
    r"\bprovider\b|\.gpu\(|\bLARGE\b|\bfused\.": 0,
    _THREADS_OR_SIZES: 0,
    r"^\s*from \.\.devices": 0,
}
# Primitives with a formula of their own there; the second has named scalar functions in the CPU's language.
FORMULAS_OUTSIDE = {"devices/cpu/mathematics.py": 11}
ACROSS_DEVICES = 3  # imports between the folders of CPU and CUDA
SHARE_OF_ANY = 0.125  # of the annotations in the packages below, those that are bare `Any`
TYPED = ("core", "ops", "devices", "scalar", "compiler")
LONGEST = 700  # lines of a file without its docstrings
LONGER = {"tensor.py": 760}  # the table of methods
# A size that was measured, outside of the two tables.
MEASURED_SIZE = re.compile(r"^_?[A-Z][A-Z_0-9]* = .*# (?:bytes|elements)\b.*(?:from which|up to|worth|faster)", re.M)
# Constants of formulas, each of which has one text: gelu's by tanh, and softplus in CUDA C.
FORMULA_CONSTANTS = (r"0\.044715|0\.7978845|0\.0713548", r"log1p\(exp")


def texts(*packages: str) -> Iterator[tuple[Path, str]]:
    return ((path, path.read_text()) for path in FILES if package_of(path) in packages)


@pytest.mark.parametrize("pattern", NAMED_IN_OPS)
def test_ops_name_no_array_class_provider_or_size(pattern: str) -> None:
    found = [
        f"{name_of(path)}: {line.strip()}"
        for path, text in texts("ops")
        for line in text.splitlines()
        if re.search(pattern, line)
    ]
    assert len(found) <= NAMED_IN_OPS[pattern], "\n".join(found)


def formulas_in(module: ast.Module) -> set[str]:
    """Return the primitives for which tables of a module have a function of its own, where a table has several."""
    own = {node.name for node in module.body if isinstance(node, ast.FunctionDef)}
    found: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Dict):
            pairs = [(k.value, v) for k, v in zip(node.keys, node.values, strict=True) if isinstance(k, ast.Constant)]
            named = {
                k for k, v in pairs if k in registry and (isinstance(v, ast.Lambda) or getattr(v, "id", None) in own)
            }
            found |= named if len(named) > 3 else set()
    return found


@pytest.mark.parametrize("path", [p for p in FILES if package_of(p) not in ("ops", "scalar")], ids=name_of)
def test_no_table_of_formulas_outside_of_ops(path: Path) -> None:
    found = formulas_in(tree(path))
    assert len(found) <= FORMULAS_OUTSIDE.get(name_of(path), 0), sorted(found)


def test_the_cpu_and_cuda_do_not_know_each_other() -> None:
    found = [
        f"{name_of(path)}:{node.lineno}"
        for path, other in ((p, {"cpu": "cuda", "cuda": "cpu"}.get(p.parent.name)) for p in FILES)
        if path.parent.parent.name == "devices"
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ImportFrom) and node.level == 2 and (node.module or "").split(".")[0] == other
    ]
    assert len(found) <= ACROSS_DEVICES, found


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_file_is_no_longer_than_one_can_hold(path: Path) -> None:
    nodes = (n for n in ast.walk(tree(path)) if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef))
    docstrings = [n.body[0] for n in nodes if ast.get_docstring(n) is not None]
    count = path.read_text().count("\n") - sum((d.end_lineno or 0) - d.lineno + 1 for d in docstrings)
    assert count <= LONGER.get(name_of(path), LONGEST)


def test_measured_sizes_stand_in_the_tables() -> None:
    """The tables are `devices/cpu/sizes.py` and `devices/cuda/sizes.py`, which benchmarks/sizes.py measures."""
    found = [
        f"{name_of(path)}: {line.group()}"
        for path, text in texts("core", "ops", "devices", "scalar", "compiler")
        if path.name != "sizes.py"
        for line in MEASURED_SIZE.finditer(text)
    ]
    assert not found, found


@pytest.mark.parametrize("constant", FORMULA_CONSTANTS)
def test_the_constant_of_a_formula_stands_once(constant: str) -> None:
    found = [name_of(path) for path in FILES if re.search(constant, path.read_text())]
    assert len(found) == 1, found


def test_the_share_of_any() -> None:
    annotations = [
        found
        for path in FILES
        if package_of(path) in TYPED
        for node in ast.walk(tree(path))
        if (found := getattr(node, "annotation", None) or getattr(node, "returns", None)) is not None
    ]
    bare = sum(isinstance(a, ast.Name) and a.id == "Any" for a in annotations)
    assert bare <= SHARE_OF_ANY * len(annotations), f"{bare} of {len(annotations)}, {bare / len(annotations):.3f}"


# Who writes to modules outside of the package, and what.
WRITES_OUTSIDE = {
    "__main__.py": "the arguments of a program that it runs",
    "_paths.py": "names of our own modules",
    "compat/": "torch's names, for programs that ask for the stand-in",
    "devices/forks.py": "in a forked child, modules that a thread of its parent had imported halfway",
    "devices/cpu/sources.py": "modules of our own compiled text",
    "distributed/groups.py": "an excepthook that ends the group, and calls the one before",
    "distributed/start.py": "the arguments of a program that it runs",
    "fx/graph_module.py": "the text of a printed function, for tracebacks",
    "multiprocessing/spawn.py": "the environment of its children",
    "scalar/arrays.py": "the text of a printed function, for tracebacks",
}


def outside_names(module: ast.Module) -> set[str]:
    """Return what a file calls modules, and parts of them, that are not of the package."""
    names = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            names |= {(a.asname or a.name).split(".")[0] for a in node.names if not a.name.startswith("adjoint")}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").split(".")[0] != "adjoint":
            names |= {a.asname or a.name for a in node.names}
    return names


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_nothing_outside_the_package_is_patched(path: Path) -> None:
    if any(name_of(path).startswith(known) for known in WRITES_OUTSIDE):
        return
    outside = outside_names(tree(path))
    for node in ast.walk(tree(path)):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign | ast.Delete):
            targets = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("setattr", "delattr"):
            targets = [ast.Attribute(node.args[0], "written")]
        for target in targets:
            root = target
            while isinstance(root, ast.Attribute | ast.Subscript):
                root = root.value
            patched = root is not target and isinstance(root, ast.Name) and root.id in outside
            assert not patched, f"{name_of(path)}:{node.lineno} writes to {ast.unparse(target)}"  # type: ignore[attr-defined]


def public_functions(path: Path) -> Iterator[ast.FunctionDef]:
    """Yield the public functions of a module and the public methods of its public classes."""
    for node in top_level(tree(path)):
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield node
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            for member in node.body:
                if isinstance(member, ast.FunctionDef) and not member.name.startswith("_"):
                    yield member


def is_repeated(function: ast.FunctionDef) -> bool:
    """Return whether a function says again what was said where it is first defined: setters, overloads."""
    marks = {ast.unparse(d).rpartition(".")[2] for d in function.decorator_list}
    return bool(marks & {"setter", "deleter", "overload"})


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_every_public_function_says_what_it_does(path: Path) -> None:
    inherited = {"apply", "concrete", "remove", "clone", "lifted", "verify", "kept_cells", "gradients"}
    if package_of(path) == "devices":
        return
    for function in public_functions(path):
        if function.name in inherited or is_repeated(function):
            continue
        text = ast.get_docstring(function)
        assert text, f"{name_of(path)}:{function.lineno} {function.name} has no docstring"
        assert text.splitlines()[0].rstrip().endswith((".", ":", ")")), (
            f"{name_of(path)}:{function.lineno} {function.name}"
        )


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_every_function_is_annotated(path: Path) -> None:
    for function in ast.walk(tree(path)):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        where = f"{name_of(path)}:{function.lineno} {function.name}"
        assert function.returns is not None, f"{where} does not say what it returns"
        args = function.args
        named = [*args.posonlyargs, *args.args, *args.kwonlyargs, *filter(None, (args.vararg, args.kwarg))]
        for number, arg in enumerate(named):
            implied = number == 0 and arg.arg in ("self", "cls")
            assert implied or arg.annotation is not None, f"{where}: {arg.arg} has no annotation"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_every_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(tree(path)), name_of(path)


def test_the_top_level_shows_the_product() -> None:
    """What exists only so that programs written for torch find a name is in `compat`."""
    assert {package_of(path) for path in FILES} == {*PACKAGES, "__init__"}


@pytest.mark.parametrize("name", sorted(_paths._FILES))
def test_a_name_of_compat_has_no_file_of_its_own_and_can_be_imported(name: str) -> None:
    old = PACKAGE.joinpath(*name.split("."))
    assert not [path for path in FILES if path == old.with_suffix(".py") or old in path.parents]
    assert import_module(f"adjoint.{name}") is import_module(f"adjoint.{_paths._FILES[name]}")


def test_import_is_light() -> None:
    """Importing adjoint imports none of the heavy packages, and leaves the public functions as they are."""
    program = (
        "import sys, types, adjoint\n"
        f"print([m for m in {HEAVY} if m in sys.modules])\n"
        "print([m for m in sys.modules if m.startswith('adjoint.compat')])\n"
        "print(type(adjoint.sin) is types.FunctionType and type(adjoint.cat) is types.FunctionType)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=PACKAGE.parent, timeout=60, check=True
    )
    assert run.stdout.split("\n")[:3] == ["[]", "[]", "True"], run.stdout


def test_asking_for_a_gpu_where_cupy_is_missing_imports_nothing() -> None:
    program = (
        "import sys, adjoint\nadjoint.cuda.is_available()\nprint('torch' in sys.modules, 'numba' in sys.modules)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=PACKAGE.parent, timeout=60, check=True
    )
    assert run.stdout.strip() == "False False"
