"""The names of ``torch.distributed.elastic.multiprocessing`` that programs use."""

from __future__ import annotations

from . import errors
