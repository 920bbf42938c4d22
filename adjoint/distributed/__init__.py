"""Many processes: torch.distributed's collectives, data parallel and sharded training, on MPI and NCCL."""

from __future__ import annotations

from . import distributed_c10d
from .checks import DebugLevel, get_debug_level, set_debug_level, set_debug_level_from_env
from .collectives import *  # noqa: F403
from .failures import DistBackendError, DistError, DistNetworkError, DistStoreError
from .groups import *  # noqa: F403
from .messages import *  # noqa: F403
from .objects import *  # noqa: F403
from .reductions import ReduceOp, reduce_op
from .works import Work
