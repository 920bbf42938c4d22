"""Selective checkpointing: a policy says of which ops the results are saved; the others run again."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager
from enum import Enum
from typing import Any

from ..core.observation import Observer
from ..core.tensor import TensorBase, tick, written_ledger
from ..errors import place

__all__ = [
    "SAC_IGNORED_OPS", "CheckpointError", "CheckpointPolicy", "SelectiveCheckpointContext",
    "create_selective_checkpoint_contexts",
]  # fmt: skip


class CheckpointError(RuntimeError):
    """The second run of a checkpointed part did not save the same values as the first."""


class CheckpointPolicy(Enum):
    """What selective checkpointing does with the result of an op."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


class SelectiveCheckpointContext:
    """What a policy is given besides the op: whether this is the second run."""

    def __init__(self, *, is_recompute: bool) -> None:
        self.is_recompute = is_recompute


_SAVED = frozenset(CheckpointPolicy) - {CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE}
SAC_IGNORED_OPS: set[Any] = {"detach"}  # ops for which selective checkpointing does not call the policy


class _Storing(Observer):
    """Saves the results of the ops for which the policy says so."""

    def __init__(self, policy: Callable[..., Any], storage: dict[str, list[Any]]) -> None:
        self.policy, self.storage, self.told = policy, storage, SelectiveCheckpointContext(is_recompute=False)

    def call(self, op: Any, inputs: tuple[Any, ...], params: tuple[Any, ...], run: Callable[..., Any]) -> Any:
        out = self.proceed(op, inputs, params, run)
        if _is_kept(self.policy, self.told, op, inputs, params, out):
            arrays = tuple(o.array for o in out) if isinstance(out, tuple) else out.array
            self.storage[op.name].append((arrays, tick()))
        return out


class _Reusing(Observer):
    """Returns the saved results of the first run, without computing them."""

    def __init__(self, policy: Callable[..., Any], storage: dict[str, list[Any]], mutable: bool) -> None:
        self.policy, self.storage, self.told = policy, storage, SelectiveCheckpointContext(is_recompute=True)
        self.mutable = mutable
        self.next: dict[str, int] = {}

    def __enter__(self) -> Any:
        self.next = defaultdict(int)
        return super().__enter__()

    def call(self, op: Any, inputs: tuple[Any, ...], params: tuple[Any, ...], run: Callable[..., Any]) -> Any:
        if not any(isinstance(v, TensorBase) for v in inputs) or not _wants(self.policy, self.told, op, inputs, params):
            return self.proceed(op, inputs, params, run)
        number = self.next[op.name]
        if number >= len(self.storage[op.name]):
            raise CheckpointError(
                f"selective checkpointing: {op.name} is called more often in the second run than in the first"
            )
        self.next[op.name] = number + 1
        stored = self.storage[op.name][number]
        if stored is None:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on any region computed under "
                "selective activation checkpoint."
            )
        arrays, stamp = stored
        self.storage[op.name][number] = None  # its memory goes as soon as the pass has used it
        for array in arrays if isinstance(arrays, tuple) else (arrays,):
            ledger = written_ledger(array)
            if ledger is not None and ledger.time > stamp and not self.mutable:
                raise RuntimeError(
                    "Tensor cached during selective activation checkpoint has been mutated: the result of "
                    f"{op.name} was overwritten by {ledger.operation} at {place(ledger.code, ledger.lasti)}"
                )
        known = copy.copy(op)  # the same op, recorded the same way, that knows its result already
        known.kernel = lambda *values: arrays
        return self.proceed(known, inputs, params, run)


def _wants(policy: Any, told: Any, op: Any, inputs: Any, params: Any) -> bool:
    if op.name in SAC_IGNORED_OPS:
        return False
    answer = policy(told, op, *inputs, *params)
    if isinstance(answer, bool):
        return answer
    if not isinstance(answer, CheckpointPolicy):
        raise TypeError(f"a checkpoint policy returns a CheckpointPolicy, not {answer!r}")
    return answer in _SAVED


def _is_kept(policy: Any, told: Any, op: Any, inputs: Any, params: Any, out: Any) -> bool:
    tensors = isinstance(out, TensorBase) or (isinstance(out, tuple) and all(isinstance(o, TensorBase) for o in out))
    return tensors and not op.view and _wants(policy, told, op, inputs, params)


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Any, allow_cache_entry_mutation: bool = False
) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """Return the two contexts of a checkpoint that saves the results of some ops and recomputes the others.

    Parameters
    ----------
    policy_fn_or_list
        ``policy(ctx, op, *args)``, which returns a `CheckpointPolicy`, or a list of ops whose results are saved:
        functions such as ``adjoint.matmul``, or their names.
    allow_cache_entry_mutation
        Whether a saved result may be overwritten in between; it is an error otherwise.

    Examples
    --------
    >>> from functools import partial
    >>> from adjoint.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
    >>> x = adjoint.ones(2, 2, requires_grad=True)
    >>> contexts = partial(create_selective_checkpoint_contexts, ["matmul"])
    >>> checkpoint(lambda x: (x @ x).exp().sum(), x, use_reentrant=False, context_fn=contexts).backward()
    """
    policy: Callable[..., Any] = policy_fn_or_list
    if isinstance(policy_fn_or_list, list | tuple):
        names = frozenset(map(_op_name, policy_fn_or_list))

        def policy(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
            return CheckpointPolicy.MUST_SAVE if op.name in names else CheckpointPolicy.PREFER_RECOMPUTE

    elif not callable(policy_fn_or_list):
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    storage: dict[str, list[Any]] = defaultdict(list)
    return _Storing(policy, storage), _Reusing(policy, storage, allow_cache_entry_mutation)


def _op_name(op: Any) -> str:
    if isinstance(op, str):
        return op
    inner = getattr(op, "op", op)
    name = getattr(inner, "name", None) or getattr(op, "__name__", None)
    if not isinstance(name, str):
        raise TypeError(f"Expected op in `op_list` to be an adjoint op or its name but got: {op} of type {type(op)}.")
    return name
