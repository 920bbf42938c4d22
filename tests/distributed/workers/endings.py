"""Training that one rank leaves: `exit` ends rank 1 with code 0 in the middle, once; `wait` lets all train for ever.

`raise` lets rank 1 raise in the middle; `hang` lets it call nothing any more, while others wait for three seconds.
"""

from __future__ import annotations

import os
import sys
import time
from datetime import timedelta

import adjoint as torch
import adjoint.distributed as dist

if __name__ == "__main__":
    kind, folder = sys.argv[1:]
    dist.init_process_group(timeout=timedelta(seconds=3) if kind == "hang" else None)
    rank = dist.get_rank()
    with open(os.path.join(folder, f"pid{rank}.part"), "w") as file:
        file.write(str(os.getpid()))
    os.rename(file.name, file.name[:-5])
    for step in range(3 if kind != "wait" else 10**9):
        dist.all_reduce(torch.ones(4))
        if kind == "exit" and rank == 1 and step == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            os._exit(0)
        if kind == "raise" and rank == 1 and step == 1:
            raise ValueError("rank 1 has had enough")
        if kind == "hang" and rank == 1 and step == 1:
            time.sleep(10**6)
        time.sleep(0.01)
    if kind == "alone" and rank == 1:  # nobody waits for it: only the launcher can tell
        os._exit(0)
    if kind == "destroyed":
        dist.destroy_process_group()
        os._exit(0)
    print("done", flush=True)
