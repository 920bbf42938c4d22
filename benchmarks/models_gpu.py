"""Models of many kinds on a GPU, adjoint beside torch: eager, the model compiled, the whole step compiled.

    python benchmarks/models_gpu.py [ROW ...] [--ways "torch eager,adjoint eager,..."] [--json FILE] [--profile]

The models are those of `model_zoo.py` in sizes for a GPU; (b) marks bfloat16 autocast. Each way to run one has a
process of its own. All take their first steps at the same time, and are then timed one after another. Of each:
milliseconds of a step, the peak of memory in the first steps and in later ones, what the process holds of the device at
last (the library's own share of it included), and the loss of the twentieth step. `--profile` prints where the CPU
spends an eager step.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import json
import os
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.compiled_gpu import gpt2  # noqa: E402
from benchmarks.model_zoo import MODELS, Case  # noqa: E402

STEPS = 20
WAYS = ("torch eager", "torch model", "adjoint eager", "adjoint model", "adjoint step")
GIB = 2**30


def _gpt2(T: Any, device: Any, batch: int = 16) -> Case:
    step, data = gpt2(T, batch)
    return Case((), step, data)


# By row: the model, its sizes, and whether it runs under autocast.
ROWS: dict[str, tuple[Any, dict[str, Any], bool]] = {
    "ResNet-18 (b)": (MODELS["ResNet"], {"batch": 128, "width": 64, "blocks": (2, 2, 2, 2)}, True),
    "ViT-S (b)": (MODELS["ViT"], {"batch": 64, "width": 384, "layers": 8, "heads": 6}, True),
    "LSTM language model": (
        MODELS["LSTM language model"], {"batch": 64, "length": 65, "width": 512, "words": 10000}, False,
    ),
    "GRU speech": (MODELS["GRU speech"], {"batch": 32, "frames": 200, "width": 256}, False),
    "diffusion U-Net": (MODELS["diffusion U-Net"], {"batch": 16, "width": 64, "side": 64}, False),
    "graph convolution": (MODELS["graph convolution"], {"nodes": 20000, "edges": 200000, "width": 256}, False),
    "graph attention": (MODELS["graph attention"], {"nodes": 20000, "edges": 100000}, False),
    "PINN": (MODELS["PINN"], {"points": 8192, "width": 64}, False),
    "Llama-style (b)": (
        MODELS["Llama-style"], {"batch": 8, "length": 1025, "width": 1024, "layers": 8, "words": 32000}, True,
    ),
    "MLP-Mixer (b)": (MODELS["MLP-Mixer"], {"batch": 128, "width": 384, "layers": 8}, True),
    "DCGAN": (MODELS["DCGAN"], {"batch": 128, "width": 64}, False),
    "T5-style (b)": (MODELS["T5-style encoder-decoder"], {"batch": 32, "length": 64, "width": 512, "layers": 4}, True),
    "normalizing flow": (MODELS["normalizing flow"], {"batch": 4096, "width": 256}, False),
    "neural ODE": (MODELS["neural ODE"], {"batch": 1024, "width": 128}, False),
    "PPO": (MODELS["PPO"], {"batch": 2048, "width": 256}, False),
    "MNIST MLP": (MODELS["MNIST MLP"], {}, False),
    "GPT-2 124M (b)": (_gpt2, {}, False),  # its step enters autocast itself
}  # fmt: skip


def autocast(T: Any, net: Any) -> Any:
    """Return a module that runs another in bfloat16 and returns single precision."""

    class Autocast(T.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, *args: Any) -> Any:
            with T.autocast("cuda", dtype=T.bfloat16):
                return self.net(*args).float()

    return Autocast()


def held() -> float:
    """Return how many GiB of the device this process holds, as the driver counts."""
    query = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
    with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError):
        for line in subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines():
            pid, used = line.split(",")
            if int(pid) == os.getpid():
                return float(used) / 1024
    return float("nan")


def best_of(T: Any, step: Any) -> float:
    """Return the seconds that a step takes at best."""
    best, loops = float("inf"), 1
    for _ in range(7):
        T.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(loops):
            step()
        T.cuda.synchronize()
        taken = (time.perf_counter() - start) / loops
        best, loops = min(best, taken), max(1, min(50, int(0.15 / taken)))
    return best


def profiled(T: Any, step: Any, lines: int = 45) -> str:
    """Return where the CPU spends eager steps, in microseconds of a step."""
    import cProfile
    import pstats

    count, profile = 10, cProfile.Profile()
    T.cuda.synchronize()
    gc.disable()
    start = time.perf_counter()
    for _ in range(count):
        step()
    queued = (time.perf_counter() - start) / count
    T.cuda.synchronize()
    whole = (time.perf_counter() - start) / count
    profile.enable()
    for _ in range(count):
        step()
    profile.disable()
    gc.enable()
    found: Any = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    rows = sorted(found.items(), key=lambda item: -item[1][2])[:lines]
    text = [
        f"CPU {queued * 1e3:.2f} ms until the last launch, {whole * 1e3:.2f} in all; a step: calls, µs own, µs in all"
    ]
    for (path, line, name), (_, calls, own, total, _) in rows:
        at = f"{Path(path).name}:{line}" if line else ""
        text.append(f"{calls / count:>7.0f} {own / count * 1e6:>8.0f} {total / count * 1e6:>8.0f}  {name} {at}")
    return "\n".join(text)


def serve(row: str, way: str, profile: bool) -> None:
    """Take the first steps, say so, and measure when told."""
    side, what = way.split()
    T = importlib.import_module(side)
    found: dict[str, Any] = {}
    try:
        build, sizes, amp = ROWS[row]
        T.manual_seed(0)
        case = build(T, "cuda", **sizes)
        if amp:
            case.modules = tuple(autocast(T, net) for net in case.modules)
        step = case.compiled(T, what)
        start = time.perf_counter()
        losses = [step() for _ in range(STEPS)]
        found |= {"loss": float(losses[-1]), "begun": time.perf_counter() - start}
        del losses
        T.cuda.synchronize()
        found["first"] = T.cuda.max_memory_allocated() / GIB
        print("ready", flush=True)
        sys.stdin.readline()
        T.cuda.reset_peak_memory_stats()
        found["ms"] = best_of(T, step) * 1e3
        found |= {"peak": T.cuda.max_memory_allocated() / GIB, "held": held()}
        if profile and what == "eager":
            found["profile"] = profiled(T, step)
    except Exception as error:
        traceback.print_exc()
        found["error"] = f"{type(error).__name__}: {error}"[:300]
        print("ready", flush=True)
    print("found", json.dumps(found), flush=True)


def said(process: Any, word: str) -> str:
    """Return the rest of the line of a process that begins with a word; other lines are passed on."""
    for line in process.stdout:
        if line.startswith(word):
            return line[len(word) :]
        print(line, end="", flush=True)
    return ""


def shown(row: str, ways: list[str], found: dict[str, Any]) -> str:
    """Return the lines of one model."""
    base = found.get(ways[0], {}).get("ms", float("nan"))
    text = []
    for way in ways:
        f = found[way]
        if "ms" not in f:
            text.append(f"{row:<22}{way:<15} {f.get('error', 'ended early')}")
            continue
        text.append(
            f"{row:<22}{way:<15}{f['ms']:>9.3f} ms ({f['ms'] / base:4.2f})  GiB {f['peak']:6.2f} "
            f"first {f['first']:6.2f} held {f['held']:6.2f}  loss {f['loss']:.5f}  first {STEPS} in {f['begun']:.0f} s"
        )
    return "\n".join(text)


def main() -> None:
    """Measure the rows that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", help="texts that the names of rows contain")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--json")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve:
        serve(*chosen.serve, chosen.profile)
        return
    ways = chosen.ways.split(",")
    names = [n for n in ROWS if not chosen.rows or any(t.lower() in n.lower() for t in chosen.rows)]
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "TORCHINDUCTOR_COMPILE_THREADS": "2"}
    flags = ["--profile"] if chosen.profile else []
    processes = {
        (name, way): subprocess.Popen(
            [sys.executable, __file__, "--serve", name, way, *flags], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env=environment,
        )
        for name in names for way in ways
    }  # fmt: skip
    for process in processes.values():
        said(process, "ready")
    everything: dict[str, Any] = {}
    for name in names:
        found = everything[name] = {}
        for way in ways:
            process = processes[name, way]
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write("go\n")
                process.stdin.flush()
            found[way] = json.loads(said(process, "found") or "{}")
            process.wait()
            if "profile" in found[way]:
                print(f"--- {name}, {way}\n{found[way].pop('profile')}", flush=True)
    print("\n".join(shown(name, ways, found) for name, found in everything.items()), flush=True)
    if chosen.json:
        Path(chosen.json).write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
