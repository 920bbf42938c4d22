"""Groups of processes: their members, their collectives, and errors when a member does not take part."""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing.util
import os
import stat
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from ..core import device as devices
from .engines.alone import Alone, AloneEngine
from .engines.mpi import Letters, MpiEngine, mpi, release_shared_memory
from .engines.sockets import SocketComm, SocketEngine
from .lifeline import hold, say_goodbye
from .meeting import meet, meets_by_store
from .watch import Check, Watch, debugging, differ, mismatch, waited
from .works import Call, DistBackendError, Work, here

__all__ = [
    "Backend", "GroupMember", "ProcessGroup", "default_pg_timeout", "destroy_process_group", "get_backend",
    "get_backend_config", "get_default_backend_for_device", "get_global_rank", "get_group_rank", "get_node_local_rank",
    "get_pg_count", "get_process_group_ranks", "get_rank", "get_world_size", "group", "init_process_group",
    "is_available", "is_backend_available", "is_gloo_available", "is_initialized", "is_mpi_available",
    "is_nccl_available", "is_torchelastic_launched", "is_ucc_available", "new_group", "new_subgroups",
    "new_subgroups_by_enumeration", "split_group",
]  # fmt: skip

default_pg_timeout = timedelta(minutes=30)
_BACKENDS = ("mpi", "nccl", "gloo")
# Who called the program: frames of theirs at the head of a traceback say nothing.
_LAUNCHING = (os.path.join(os.path.dirname(__file__), "start.py"), "<frozen runpy>")


class Backend(str):
    """The name of a backend, in small letters; ``Backend.MPI`` is "mpi"."""

    UNDEFINED, GLOO, NCCL, MPI = "undefined", "gloo", "nccl", "mpi"

    def __new__(cls, name: str) -> Backend:
        """Return the name of a backend."""
        return super().__new__(cls, name.lower())


class ProcessGroup:
    """Processes that call collectives together; `ranks` are their numbers among all processes."""

    def __init__(self, comm: Any, ranks: list[int], name: str, backend: str, timeout: timedelta, watch: Watch) -> None:
        self.comm, self.ranks, self.group_name = comm, ranks, name
        self.backend, self.group_desc = backend, name
        self.seconds = timeout.total_seconds()
        self._watch, self._count = watch, -1
        self._rank, self._size = comm.Get_rank(), comm.Get_size()
        self._engine = _engine_of(comm)
        self._nccl: dict[int, Any] = {}  # by GPU
        self._check = Check(_engine_of(comm.Dup())) if self._size > 1 else None
        self._debugging = debugging()

    def rank(self) -> int:
        """Return this process's number in the group."""
        return int(self._rank)

    def size(self) -> int:
        """Return how many processes are in the group."""
        return int(self._size)

    def name(self) -> str:
        """Return the name of the group's backend."""
        return self.backend

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the timeout of later calls."""
        self.seconds = timeout.total_seconds()

    def abort(self) -> None:
        """End the whole job."""
        end_job(1)

    def shutdown(self) -> None:
        """Leave the group."""
        destroy_process_group(self)

    def __repr__(self) -> str:
        return f"<ProcessGroup {self.group_name}: rank {self._rank} of {self._size}, {self.backend}>"

    # --- For collectives ----------------------------------------------------------------------------

    def engine_for(self, array: Any) -> Any:
        """Return the engine for an array: NCCL for GPU arrays, unless the group's backend is "mpi"; else the CPU's."""
        if type(array) is np.ndarray or "nccl" not in self.backend:
            return self._engine
        found = self._nccl.get(getattr(getattr(array, "data", None), "device_id", -1))
        if found is not None:
            return found
        place = devices.of(array)
        if place.type != "cuda" or (self.backend != "nccl" and not is_nccl_available()):
            return self._engine
        return self._nccl_on(place.index or 0)

    def _nccl_on(self, gpu: int) -> Any:
        from .engines.nccl import NcclEngine

        try:
            self._nccl[gpu] = NcclEngine(self.comm, gpu)
        except Exception as error:
            raise DistBackendError(
                f"NCCL did not begin on cuda:{gpu}, rank {self._rank} of {self._size} of group {self.group_name}: "
                f"{error}. Every rank of a machine needs a GPU of its own: torch.cuda.set_device(local_rank) before "
                "tensors are made"
            ) from error
        return self._nccl[gpu]

    def together(self, arrays: Sequence[Any]) -> Any:
        """Return the context in which sends and receives of such arrays may wait for each other."""
        stack = contextlib.ExitStack()
        for engine in dict.fromkeys(self.engine_for(array) for array in arrays):
            stack.enter_context(engine.together())
        return stack

    def follow(self, test: Any, call: Call, seconds: float) -> bool:
        """Watch a call that only a stream waits for; return False where that is unsupported."""
        return self._watch.follow(test, call, seconds, self)

    def begin(
        self,
        op: str,
        what: str,
        start: Callable[[], Any],
        finish: Callable[[], Any] | None = None,
        kept: Any = None,
        peer: int | None = None,
        waits: bool = False,
    ) -> Work:
        """Count and record a call, start it, and compare it with those of other ranks when that is due.

        Parameters
        ----------
        op, what
            The name of the collective, and what must be equal on every rank: shape, dtype, root.
        start
            Starts it, and returns a function that returns whether it has ended.
        finish
            What is left to do when it has ended; returns the tensors written.
        kept
            Memory that must live until then.
        peer
            Of a send or receive the other side, in global ranks; -1 for any rank. These are not counted.
        waits
            Whether the caller waits for the end at once: the call is then compared first, and a wrong one not begun.
        """
        if peer is not None:
            return Work(start(), here(op, -1, self.group_name, what), self, finish, kept, peer)
        self._count += 1
        call = here(op, self._count, self.group_name, what)
        self._watch.note(call)
        comparison = None
        try:
            if self._check is not None:
                if self._debugging:
                    self._check.compare(call, self)
                else:
                    comparison = self._check.begin(call, self)
                if comparison is not None and waits:
                    comparison.verify(self.seconds)
                    comparison = None
            test = start()
        except Exception as error:
            if not type(error).__module__.startswith(("mpi4py", "cupy")) and not isinstance(error, ConnectionError):
                raise
            if isinstance(error, ConnectionError):
                self.ask_left(call)
            elif comparison is not None:
                comparison.verify(self.seconds)  # which can say why
            raise DistBackendError(f"{call}, called at {call.site}: {error}") from None
        return Work(test, call, self, finish, kept, comparison=comparison)

    def waited(self, test: Any, seconds: float, call: Call) -> bool:
        """Wait for a call; raise when another rank has called something else; return False if time is over."""
        return waited(test, seconds, call, self)

    def ask_around(self, call: Call, done: Callable[[], bool]) -> None:
        """Raise if another rank has called something else at the place of this call."""
        found = self._watch.others_at(call, self.ranks, done)
        self._compare(call, found)

    def ask_left(self, call: Call) -> None:
        """Raise if a rank that has left called something else at the place of this call, or never came to it."""
        self._compare(call, self._watch.left_at(call, self.ranks))

    def earlier(self, call: Call) -> DistBackendError:
        """Return the error that says which call before this one was not the same on all ranks."""
        found = self._watch.first_difference(self.group_name, self.ranks)
        if found is not None:
            self._compare(found, self._watch.others_at(found, self.ranks, lambda: False))
        return DistBackendError(
            f"the ranks have not called the same collectives of group {self.group_name} before call #{call.number}, at "
            f"{call.site}; TORCH_DISTRIBUTED_DEBUG=DETAIL shows the first difference"
        )

    def _compare(self, call: Call, found: dict[int, list[Any]]) -> None:
        mine = [call.number, call.op, call.what[:300], call.site]
        if any(differ(said, mine) for said in found.values()):
            raise mismatch(call, {self._watch.rank: mine, **found})

    def late(self, call: Call, seconds: float, peer: int | None = None) -> DistBackendError:
        """Return the error that says who did not come in time."""
        if peer is not None:
            lines = self._watch.whereabouts(self.group_name, self.ranks if peer < 0 else [peer])
        else:
            lines = self._watch.missing(call, self.ranks)
        told = "\n  ".join(lines) or "every rank has called it: their tensors may differ, or the network is slow"
        return DistBackendError(
            f"{call} timed out after {seconds:g} s: rank {self._watch.rank} waits at {call.site}\n  {told}"
        )

    def close(self) -> None:
        """Free all communicators and engines."""
        for engine in self._nccl.values():
            engine.close()
        if self._check is not None:
            self._check.engine.close()
        self._engine.close()


def _engine_of(comm: Any) -> Any:
    kinds: dict[type, Any] = {Alone: AloneEngine, SocketComm: SocketEngine}
    return kinds.get(type(comm), MpiEngine)(comm)


class _Everyone:
    """The distributed state of a process: the group of all processes, and the groups made since."""

    def __init__(self) -> None:
        self.comm: Any = None  # the communicator of all processes
        self.store: Any = None  # through which they met, if not through MPI
        self.store_is_ours = False
        self.world: ProcessGroup | None = None
        self.groups: dict[str, ProcessGroup] = {}
        self.made = 0
        self.watch: Watch | None = None
        self.timeout = default_pg_timeout


_everyone = _Everyone()


class _GroupMeta(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        """The group of all processes; None before `init_process_group`."""
        return _everyone.world


class group(metaclass=_GroupMeta):
    """``group.WORLD`` is the group of all processes."""


class GroupMember(metaclass=_GroupMeta):
    """``GroupMember.NON_GROUP_MEMBER`` is what `new_group` returns to a process that is not in the group."""

    NON_GROUP_MEMBER: Any = -100


def resolved(given: Any) -> ProcessGroup:
    """Return the given group; by default that of all processes."""
    if given is None:
        if _everyone.world is None:
            raise ValueError(
                "Default process group has not been initialized, please make sure to call init_process_group."
            )
        return _everyone.world
    if not isinstance(given, ProcessGroup):
        raise ValueError("this process is not a member of the group: only its members call its collectives")
    return given


def is_member(given: Any) -> bool:
    """Return whether this process is in a group."""
    return given is not GroupMember.NON_GROUP_MEMBER


# --- Beginning and end ------------------------------------------------------------------------------


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
    _ranks: list[int] | None = None,
) -> None:
    """Join the other processes of the job; every process must call this.

    Parameters
    ----------
    backend : {"mpi", "nccl", "gloo"}, optional
        "mpi" carries everything through MPI; "nccl" tensors on GPUs through NCCL, the others as "gloo" does; "gloo"
        through MPI where ``mpiexec`` or ``adjoint launch`` started the processes, and by TCP where the program did.
        By default NCCL for tensors on GPUs where CuPy has it.
    timeout : timedelta, optional
        How long a collective waits for the others before it raises and says who is missing; 30 minutes by default.
    init_method, store, world_size, rank : optional
        Where processes that MPI did not start find each other ("tcp://host:port", "file:///path", "env://": the
        variables MASTER_ADDR and MASTER_PORT), how many they are, and which this one is (or WORLD_SIZE and RANK).
        MPI knows that itself; a `world_size` or `rank` that says otherwise is an error then. A process that nothing
        started together with others is one of one.
    group_name : str, default ""
        Accepted for torch's sake.
    pg_options : object, optional
        Accepted for torch's sake.
    device_id : device or int, optional
        The GPU on which this rank works: NCCL's ranks meet now, and not with the first tensor on it.

    Raises
    ------
    ValueError
        If the group exists already, or MPI's rank or number of processes is another than the one given.

    Notes
    -----
    Under MPI an exception that ends this process ends the job: its traceback is printed, and the other processes are
    stopped. Elsewhere the others' collectives raise.

    Examples
    --------
    A program that ``adjoint launch --nproc 4 train.py`` starts needs no arguments. A job of one process:

    >>> import adjoint.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> dist.get_rank(), dist.get_world_size()
    (0, 1)
    >>> dist.destroy_process_group()
    """
    if _everyone.world is not None:
        raise ValueError("trying to initialize the default process group twice!")
    backend = _backend(backend)
    _everyone.timeout = timeout or default_pg_timeout
    if meets_by_store(backend, init_method, world_size, rank, store):
        comm, _everyone.store = meet(init_method, world_size, rank, store, _everyone.timeout)
        _everyone.store_is_ours = store is None
    else:
        comm = _world(world_size)
        _check_numbers(comm, rank, world_size)
        if not isinstance(comm, Alone):
            release_shared_memory(comm)
    if isinstance(comm, SocketComm):
        backend = backend.replace("mpi", "gloo")
    _everyone.comm = comm
    hold(comm.Get_rank())
    if _everyone.watch is None:
        sys.excepthook = print_with_rank if type(comm) in (Alone, SocketComm) else abort_with_traceback
        atexit.register(_leave)
        multiprocessing.util.Finalize(None, _leave, exitpriority=100)  # children of multiprocessing run these alone
    _everyone.watch = Watch(comm.Dup() if type(comm) in (Alone, SocketComm) else Letters(comm.Dup()))
    _everyone.world = _made(comm.Dup(), list(range(comm.Get_size())), "WORLD", backend, _everyone.timeout)
    if device_id is not None and "nccl" in backend:
        _everyone.world._nccl_on(devices.as_device(device_id).index or 0)


def _backend(said: Any) -> str:
    parts = str(said or "cpu:mpi,cuda:nccl").lower().split(",")
    words = {part.partition(":")[2] or part for part in parts}
    unknown = words - set(_BACKENDS)
    if unknown:
        raise ValueError(f"Unknown c10d backend type {sorted(unknown)[0].upper()}: choose mpi, nccl or gloo")
    host = "gloo" if "gloo" in words else "mpi"
    if "nccl" not in words:
        return host
    return "nccl" if words == {"nccl"} else f"cpu:{host},cuda:nccl"


def _world(world_size: int) -> Any:
    """Return the communicator of all processes."""
    try:
        return mpi().COMM_WORLD
    except ImportError:
        started = [os.environ.get(name) for name in ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE")]
        if world_size > 1 or any(said not in (None, "1") for said in started):
            raise
        return Alone()


def _check_numbers(comm: Any, rank: int, world_size: int) -> None:
    for word, given, name in ((comm.Get_size(), world_size, "WORLD_SIZE"), (comm.Get_rank(), rank, "RANK")):
        expected = given if given >= 0 else int(os.environ.get(name, -1))
        if expected not in (-1, word):
            raise ValueError(
                f"{name} is {expected}, and MPI started this process as rank {comm.Get_rank()} of {comm.Get_size()}: "
                "processes meet through MPI here; start them with `adjoint launch --nproc N script.py` or "
                "`mpiexec -n N python script.py`"
            )


def _made(comm: Any, ranks: list[int], name: str, backend: str, timeout: timedelta) -> ProcessGroup:
    assert _everyone.watch is not None
    made = ProcessGroup(comm, ranks, name, backend, timeout, _everyone.watch)
    _everyone.groups[name] = made
    return made


def destroy_process_group(group: Any = None) -> None:
    """Leave a group, or all of them; every member must call this.

    Parameters
    ----------
    group : ProcessGroup, optional
        The group to leave; by default all of them, after which `init_process_group` may be called again.

    Raises
    ------
    ValueError
        If there is no group.

    Examples
    --------
    >>> import adjoint.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> dist.destroy_process_group()
    >>> dist.is_initialized()
    False
    """
    if group is not None and group is not _everyone.world:
        if is_member(group):
            _everyone.groups.pop(group.group_name).close()
        return
    if _everyone.world is None or _everyone.watch is None:
        raise ValueError("Invalid process group specified")
    for held in reversed(list(_everyone.groups.values())):
        held.close()
    _everyone.groups.clear()
    _everyone.watch.close()
    if isinstance(_everyone.comm, SocketComm):
        _everyone.comm.mesh.close()
    _release_store()
    say_goodbye()
    _everyone.world = _everyone.comm = None
    _everyone.made = 0


def _release_store() -> None:
    """Close the store if `init_process_group` opened it: another world may use its address."""
    store, _everyone.store = _everyone.store, None
    if _everyone.store_is_ours and hasattr(store, "close"):
        store.close()


def _leave() -> None:
    """Stop the thread before MPI ends, and let what was sent leave this process."""
    if _everyone.world is not None and _everyone.watch is not None:
        _everyone.watch.stop()
    if isinstance(_everyone.comm, SocketComm):
        _everyone.comm.mesh.close()
    say_goodbye()  # if the program raised, the exit code shows it


def print_with_rank(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    """Print what ended this process, the rank before each line: several may print at once."""
    text = "".join(traceback.format_exception(kind, error, trace))
    if _everyone.world is not None:
        before = f"[rank{_everyone.world.rank()}]: "
        text = "".join(before + line for line in text.splitlines(keepends=True))
    sys.stdout.flush()
    sys.stderr.write(text)
    sys.stderr.flush()


def end_job(code: int) -> None:
    """End all ranks, once the launcher has read what this one printed: MPI's own abort leaves unread pipes behind."""
    sys.stdout.flush()
    sys.stderr.flush()
    patience = time.monotonic() + 2
    while any(_unread(stream) for stream in (1, 2)) and time.monotonic() < patience:
        time.sleep(0.005)
    time.sleep(0.1)  # from the launcher's proxy on this host to mpiexec
    (_everyone.comm or _world(1)).Abort(code)


def _unread(stream: int) -> int:
    """Return how many bytes in a pipe are unread; for files and terminals that does not matter."""
    try:
        import fcntl
        import termios

        waiting = fcntl.ioctl(stream, termios.FIONREAD, bytes(4))
    except (ImportError, OSError):
        return 0
    return int.from_bytes(waiting, sys.byteorder) if stat.S_ISFIFO(os.fstat(stream).st_mode) else 0


def abort_with_traceback(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    """Print what ended this process, once and with its rank, and end the job: the others would wait forever."""
    world = _world(1)
    alone = isinstance(world, Alone) or mpi().Is_finalized() or world.Get_size() == 1
    while trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_filename in _LAUNCHING:
        trace = trace.tb_next
    text = "".join(traceback.format_exception(kind, error.with_traceback(trace), trace))
    sys.stdout.flush()
    sys.stderr.write(text if alone else f"rank {world.Get_rank()} raised, and ends the job:\n{text}")
    sys.stderr.flush()
    if not alone:
        end_job(1)
    elif "ADJOINT_LAUNCH" in os.environ:
        raise SystemExit(1)


# --- Groups of some ---------------------------------------------------------------------------------


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:
    """Make a group of some of the processes; every process calls this, members or not.

    Returns
    -------
    ProcessGroup, or ``GroupMember.NON_GROUP_MEMBER`` to a process that is not in it.
    """
    world = resolved(None)
    chosen = list(range(world.size())) if ranks is None else [int(rank) for rank in ranks]
    if sort_ranks:
        chosen.sort()
    if len(set(chosen)) != len(chosen):
        raise ValueError(f"the ranks of a group must be different: {chosen}")
    if chosen and not 0 <= min(chosen) <= max(chosen) < world.size():
        raise ValueError(f"the ranks of a group must be in [0, {world.size() - 1}]: {chosen}")
    _everyone.made += 1
    name = f"{_everyone.made} {chosen}" if not group_desc else f"{_everyone.made} {group_desc}"
    if world.rank() not in chosen:
        return GroupMember.NON_GROUP_MEMBER
    members = world.comm.Get_group().Incl(chosen)
    comm = world.comm.Create_group(members, _everyone.made % 30_000)
    return _made(comm, chosen, name, _backend(backend or world.backend), timeout or _everyone.timeout)


def new_subgroups(
    group_size: int | None = None,
    group: Any = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Split all processes into groups of consecutive ranks, of equal size; return this process's group, and all."""
    size = resolved(group).size()
    group_size = group_size or int(os.environ.get("MPI_LOCALNRANKS", size))
    if group_size > size or size % group_size:
        raise ValueError(f"the world size {size} must be divisible by group_size={group_size}")
    lists = [list(range(start, start + group_size)) for start in range(0, size, group_size)]
    return new_subgroups_by_enumeration(lists, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Make the listed groups; return this process's group, and all."""
    made = [new_group(ranks, timeout, backend, pg_options) for ranks in ranks_per_subgroup_list]
    own = [group for group in made if is_member(group)]
    return (own[0] if own else None), made


def split_group(
    parent_pg: Any = None,
    split_ranks: list[list[int]] | None = None,
    timeout: timedelta | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
    backend: str | None = None,
) -> Any:
    """Split a group into the given lists of ranks; return this process's group, or None."""
    parent = resolved(parent_pg)
    lists = [[parent.ranks[rank] for rank in ranks] for ranks in split_ranks or []]
    return new_subgroups_by_enumeration(lists, timeout, backend, pg_options, group_desc)[0]


def default_store() -> Any:
    """Return the store through which the processes met; None where MPI started them."""
    resolved(None)
    return _everyone.store


# --- Questions --------------------------------------------------------------------------------------


def is_available() -> bool:
    """Return True: the package for several processes is always there.

    Returns
    -------
    bool
        True.

    Examples
    --------
    >>> adjoint.distributed.is_available()
    True
    """
    return True


def is_mpi_available() -> bool:
    """Return whether mpi4py and an MPI are installed."""
    import importlib.util

    return importlib.util.find_spec("mpi4py") is not None


def is_gloo_available() -> bool:
    """Return True: "gloo" is taken as a backend; MPI or TCP does its work."""
    return True


def is_nccl_available() -> bool:
    """Return whether there are a GPU and CuPy with NCCL."""
    try:
        from cupy.cuda import nccl
    except Exception:  # CuPy without a driver raises other things than ImportError
        return False
    return bool(getattr(nccl, "available", True))


def is_ucc_available() -> bool:
    """Return False: there is no such backend."""
    return False


def is_backend_available(backend: str) -> bool:
    """Return whether a backend is available."""
    asked = {"mpi": is_mpi_available, "gloo": is_gloo_available, "nccl": is_nccl_available}.get(backend.lower())
    return asked is not None and asked()


def is_torchelastic_launched() -> bool:
    """Return whether ``adjoint launch`` or ``torchrun`` started this process."""
    return "ADJOINT_LAUNCH" in os.environ or "TORCHELASTIC_RUN_ID" in os.environ


def is_initialized() -> bool:
    """Return whether `init_process_group` was called.

    Returns
    -------
    bool
        Whether there is a default group.

    Examples
    --------
    >>> adjoint.distributed.is_initialized()
    False
    """
    return _everyone.world is not None


def get_rank(group: Any = None) -> int:
    """Return the number of this process in a group.

    Parameters
    ----------
    group : ProcessGroup, optional
        The group; all processes by default.

    Returns
    -------
    int
        From 0 to ``get_world_size(group) - 1``, or -1 if this process is not in the group.

    Raises
    ------
    ValueError
        Before `init_process_group`.

    Examples
    --------
    >>> import adjoint.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> dist.get_rank()
    0
    >>> dist.destroy_process_group()
    """
    return resolved(group).rank() if is_member(group) else -1


def get_world_size(group: Any = None) -> int:
    """Return how many processes are in a group.

    Parameters
    ----------
    group : ProcessGroup, optional
        The group; all processes by default.

    Returns
    -------
    int
        The number, or -1 if this process is not in the group.

    Raises
    ------
    ValueError
        Before `init_process_group`.

    Examples
    --------
    >>> import adjoint.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> dist.get_world_size()
    1
    >>> dist.destroy_process_group()
    """
    return resolved(group).size() if is_member(group) else -1


def get_backend(group: Any = None) -> Backend:
    """Return the name of a group's backend.

    Parameters
    ----------
    group : ProcessGroup, optional
        The group; all processes by default.

    Returns
    -------
    Backend
        A string: "mpi", "nccl" or "gloo".

    Examples
    --------
    >>> import adjoint.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> dist.get_backend()
    'gloo'
    >>> dist.destroy_process_group()
    """
    backend = resolved(group).backend
    return Backend("nccl" if backend == "nccl" else "gloo" if "gloo" in backend else "mpi")


def get_backend_config(group: Any = None) -> str:
    """Return which backend carries the tensors of which devices, as in "cpu:gloo,cuda:nccl"."""
    backend = resolved(group).backend
    return backend if ":" in backend else f"cpu:{get_backend(group) if backend != 'nccl' else 'mpi'},cuda:{backend}"


def get_default_backend_for_device(device: Any) -> str:
    """Return the backend that carries tensors of a device where none is named."""
    place = devices.as_device(device)
    known = {"cpu": "gloo", "cuda": "nccl"}
    if place.type not in known:
        raise ValueError(f"Default backend not registered for device : {device}")
    return known[place.type]


def get_process_group_ranks(group: Any = None) -> list[int]:
    """Return the numbers of a group's members among all processes."""
    return list(resolved(group).ranks)


def get_global_rank(group: Any, group_rank: int) -> int:
    """Return the number among all processes of a member of a group."""
    ranks = resolved(group).ranks
    if not 0 <= group_rank < len(ranks):
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return ranks[group_rank]


def get_group_rank(group: Any, global_rank: int) -> int:
    """Return the number in a group of one of all processes."""
    ranks = resolved(group).ranks
    if global_rank not in ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return ranks.index(global_rank)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """Return this process's number on its machine."""
    for name in ("LOCAL_RANK", "MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK"):
        if name in os.environ:
            return int(os.environ[name])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError("LOCAL_RANK is not in the environment. Consider passing fallback_rank.")


def get_pg_count() -> int:
    """Return how many groups this process is in."""
    return len(_everyone.groups)
