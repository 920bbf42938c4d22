"""What `DistributedDataParallel` sends in place of its buckets."""

from __future__ import annotations

from . import default_hooks
