"""Checks that all ranks make the same calls, and that none waits forever.

The first calls of every kind are compared among the ranks, each while it is under way; so is every 64th, together with
a digest of all calls before it. In debug mode every call is, before it is made.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import json
import math
import os
import re
import secrets
import sys
import threading
import time
import warnings
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .works import Call, DistBackendError, main_thread_at, polled

if TYPE_CHECKING:
    from .groups import ProcessGroup

__all__ = ["DebugLevel", "get_debug_level", "set_debug_level", "set_debug_level_from_env"]


_LENGTH = 1024  # bytes in which a rank says what it calls
_FIRST = 3  # calls of a kind that are compared
_EVERY = 64  # of calls that are known one in so many is compared, with all before it
_KINDS = 4096  # that are remembered; a program whose sizes always change forgets them together


class DebugLevel(enum.Enum):
    """How much is checked."""

    OFF = 0
    INFO = 1
    DETAIL = 2


class _Level:
    """The level that is set; None until it is first read."""

    chosen: DebugLevel | None = None


def get_debug_level() -> DebugLevel:
    """Return how much is checked: what the environment variable TORCH_DISTRIBUTED_DEBUG says, or was set since."""
    if _Level.chosen is None:
        set_debug_level_from_env()
    assert _Level.chosen is not None
    return _Level.chosen


def set_debug_level(level: DebugLevel) -> None:
    """Set how much is checked in groups that are made from now on."""
    _Level.chosen = level


def set_debug_level_from_env() -> None:
    """Check as much as TORCH_DISTRIBUTED_DEBUG or ADJOINT_DISTRIBUTED_DEBUG says."""
    word = os.environ.get("ADJOINT_DISTRIBUTED_DEBUG") or os.environ.get("TORCH_DISTRIBUTED_DEBUG") or "OFF"
    word = {"1": "DETAIL", "0": "OFF"}.get(word, word.upper())
    if word not in DebugLevel.__members__:
        raise RuntimeError(f"TORCH_DISTRIBUTED_DEBUG must be OFF, INFO or DETAIL, not {word}")
    _Level.chosen = DebugLevel[word]


def debugging() -> bool:
    """Return whether calls are compared."""
    return get_debug_level() is DebugLevel.DETAIL


@functools.lru_cache(_KINDS)
def _counted(what: str) -> str:
    """Return what a call says of itself with the number of elements in place of a shape, which ranks may choose."""
    return re.sub(r"\[([\d, ]*)\]", lambda m: f"[{math.prod(int(n) for n in m[1].split(',') if n.strip())}]", what)


@functools.lru_cache(_KINDS)
def _digest(op: str, what: str) -> int:
    return zlib.crc32(f"{op}({_counted(what)})".encode())


def differ(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Return whether two calls (number, op, what) are not the same."""
    return one[:2] != other[:2] or _counted(one[2]) != _counted(other[2])


class Check:
    """Compares the calls of a group's members, with a separate engine."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self._warned: set[tuple[str, ...]] = set()
        self._seen: dict[int, int] = {}  # how often a kind of call, by its digest, has been compared
        self._history = 0

    def begin(self, call: Call, group: ProcessGroup) -> Comparison | None:
        """Begin to compare a call if it is of a new kind, or has the number of one that is compared."""
        kind, history = _digest(call.op, call.what), self._history
        self._history = (history * 1_000_003 + kind) & 0xFFFF_FFFF_FFFF
        times = self._seen.get(kind, 0)
        if times >= _FIRST and call.number % _EVERY:
            return None
        if len(self._seen) >= _KINDS:
            self._seen.clear()
        self._seen[kind] = times + 1
        said = [call.number, call.op, call.what[:300], call.site[-400:], history]
        sent = np.frombuffer(json.dumps(said).encode()[:_LENGTH].ljust(_LENGTH), np.uint8).copy()
        heard = np.empty((group.size(), _LENGTH), np.uint8)
        return Comparison(call, group, self.engine.all_gather(heard, sent), heard, sent)

    def compare(self, call: Call, group: ProcessGroup) -> None:
        """Raise on every rank if the ranks are about to call different things."""
        told = json.dumps([call.op, call.what[:300], call.site[-400:]]).encode()[:_LENGTH].ljust(_LENGTH)
        sent = np.frombuffer(told, np.uint8).copy()
        heard = np.empty((group.size(), _LENGTH), np.uint8)
        if not polled(self.engine.all_gather(heard, sent), group.seconds):
            raise group.late(call, group.seconds)
        calls = [json.loads(row.tobytes()) for row in heard]
        if any(said[:2] != calls[0][:2] for said in calls):
            raise mismatch(call, {rank: [call.number, *said] for rank, said in zip(group.ranks, calls, strict=True)})
        sites = tuple(sorted({said[2] for said in calls}))
        if len(sites) > 1 and sites not in self._warned:
            self._warned.add(sites)
            warnings.warn(
                f"the ranks call {call.op} #{call.number} of group {call.group} from different lines; if that is not "
                "meant, their tensors are mixed up:\n  " + "\n  ".join(_told(group.ranks, calls, parts=3)),
                stacklevel=5,
            )


def mismatch(call: Call, said: dict[int, list[Any]]) -> DistBackendError:
    """Return the error that says what ranks call (number, op, what, line) at the place of a call."""
    ranks = sorted(said)
    shown = []
    for number, op, what, site, *_ in map(said.__getitem__, ranks):
        shown.append([op if number == call.number else f"#{number} {op}", what, site])
    return DistBackendError(
        f"the ranks do not call the same collective as call #{call.number} of group {call.group}:\n  "
        + "\n  ".join(_told(ranks, shown, parts=2))
    )


class Comparison:
    """What the ranks say of a call that is under way."""

    def __init__(self, call: Call, group: ProcessGroup, test: Any, heard: Any, sent: Any) -> None:
        self.call, self.group, self.test, self._heard, self._sent = call, group, test, heard, sent

    def verify(self, seconds: float) -> None:
        """Wait until all ranks have said what they call; raise if it is not the same."""
        if not waited(self.test, seconds, self.call, self.group):
            raise self.group.late(self.call, seconds)
        self.judge()

    def judge(self) -> None:
        """Raise if the ranks, which have all spoken, do not call the same."""
        said = [json.loads(row.tobytes()) for row in self._heard]
        if any(differ(one, said[0]) for one in said):
            raise mismatch(self.call, dict(zip(self.group.ranks, said, strict=True)))
        if any(one[4] != said[0][4] for one in said):
            raise self.group.earlier(self.call)


_FIRST_LOOK, _LAST_LOOK = 1.0, 60.0  # seconds of waiting after which the others are queried, doubling


def waited(test: Any, seconds: float, call: Call, group: ProcessGroup) -> bool:
    """Wait for a call; raise if a rank reports that it has called something else; return False if time is over."""
    end, look = time.monotonic() + seconds, _FIRST_LOOK
    while not polled(test, min(look, left := max(end - time.monotonic(), 0))):
        if look >= left:
            return False
        group.ask_around(call, test)
        look = min(2 * look, _LAST_LOOK)
    return True


def _told(members: list[int], calls: list[list[str]], parts: int) -> list[str]:
    """Return a line for each thing that is called, with the ranks that call it; sites are those of the first."""
    callers: dict[tuple[str, ...], list[int]] = {}
    for rank, said in zip(members, calls, strict=True):
        callers.setdefault(tuple(said[:parts]), []).append(rank)
    lines = []
    for ranks in callers.values():
        op, what, site = calls[members.index(ranks[0])]
        who = "rank" if len(ranks) == 1 else "ranks"
        lines.append(f"{who} {', '.join(map(str, ranks))}: {op}({what}) at {site}")
    return lines


_QUESTION, _ANSWER, _FAREWELL = 1, 2, 3
_LAST = 16  # calls of each group that a rank reports to the others when it leaves
_PAUSE = 0.2  # seconds between polls for messages
_PATIENCE = 2.0  # seconds to wait for replies


class _Followed(NamedTuple):
    """A call that only a stream waits for."""

    test: Any
    call: Call
    deadline: float
    seconds: float
    group: ProcessGroup


class Watch:
    """Handles other ranks' queries in a separate thread, and queries them when the main thread waits too long."""

    def __init__(self, letters: Any) -> None:
        self.letters = letters
        self.rank = letters.Get_rank()
        self.recent: dict[str, deque[Call]] = {}  # of each group, the latest calls that this process made
        self._left: dict[int, dict[str, list[Any]]] = {}  # of ranks that have left, their last calls of each group
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._followed: list[_Followed] = []
        if letters.Get_size() > 1 and letters.threads:
            self._thread = threading.Thread(target=self._answer, name="adjoint-watch", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread; MPI must not end before. The others are sent the last calls: none can query them any more."""
        self._stop.set()
        if self._thread is not None:
            told = {group: [_said(call) for call in list(calls)[-_LAST:]] for group, calls in self.recent.items()}
            for rank in range(self.letters.Get_size()):
                if rank != self.rank:
                    with contextlib.suppress(Exception):  # it may have left before
                        self._post({"last": told}, rank, _FAREWELL)
            self._thread.join()
            self._thread = None

    def close(self) -> None:
        """Stop, and give the communicator back."""
        self.stop()
        self.letters.Free()

    def note(self, call: Call) -> None:
        """Remember a call."""
        held = self.recent.get(call.group)
        if held is None:
            held = self.recent[call.group] = deque(maxlen=_EVERY + 1)
        held.append(call)

    def others_at(self, call: Call, ranks: list[int], done: Callable[[], bool]) -> dict[int, list[Any]]:
        """Return what other ranks have called at the place of a call: number, op, what, line."""
        if self._thread is None:
            return {}
        others = [rank for rank in ranks if rank != self.rank]
        answers = self._ask(call.group, others, done, number=call.number)
        return {r: a["call"] for r, a in answers.items() if a.get("call")} | self.left_at(call, ranks)

    def left_at(self, call: Call, ranks: list[int]) -> dict[int, list[Any]]:
        """Return what ranks that have left called at the place of a call, or last if they never came to it."""
        self._note_farewells()
        found = {}
        for rank in set(ranks) & set(self._left):
            last = self._left[rank].get(call.group) or [[-1, "nothing", "", "?"]]
            for said in last:
                if said[0] == call.number:
                    found[rank] = said
            if last[-1][0] < call.number:  # it will never make this call
                found[rank] = [last[-1][0], f"{last[-1][1]}, and has left since: ", *last[-1][2:]]
        return found

    def first_difference(self, group: str, ranks: list[int]) -> Call | None:
        """Return the first of this rank's recent calls at whose place another rank has called something else."""
        answers = self._ask(group, [rank for rank in ranks if rank != self.rank], digests=True)
        for call in list(self.recent.get(group, ())):
            for answer in answers.values():
                if answer.get("digests", {}).get(str(call.number), mine := _digest(call.op, call.what)) != mine:
                    return call
        return None

    def missing(self, call: Call, ranks: list[int]) -> list[str]:
        """Return a line for each of the global `ranks` that has not made this call, and says so or says nothing."""
        others = [rank for rank in ranks if rank != self.rank]
        answers = self._ask(call.group, others)
        lines = []
        for rank in others:
            answer = answers.get(rank)
            if answer is None:
                lines.append(f"rank {rank} does not respond: it is dead, stopped, or has left")
            elif answer["number"] < call.number:
                lines.append(f"rank {rank} has not called it: {_where(answer)}")
            elif answer["number"] == call.number and answer["op"] != call.op:
                lines.append(f"rank {rank} calls {answer['op']} #{answer['number']} instead, at {answer['site']}")
        return lines

    def whereabouts(self, group: str, ranks: list[int]) -> list[str]:
        """Return a line for each of the global `ranks` that says where it is."""
        answers = self._ask(group, [rank for rank in ranks if rank != self.rank])
        return [
            f"rank {rank}: {_where(answers[rank])}" if rank in answers else f"rank {rank} does not respond"
            for rank in ranks
            if rank != self.rank
        ]

    # --- Streams ------------------------------------------------------------------------------------

    def follow(self, test: Any, call: Call, seconds: float, group: ProcessGroup) -> bool:
        """Watch a call that only a stream waits for; return False if there is no thread to do it."""
        if self._thread is None:
            return bool(self.letters.Get_size() == 1)  # with itself a rank always agrees
        # Streams end in order, so that looking at the oldest is enough.
        while self._followed and self._followed[0].test.event.done:
            self._followed.pop(0)
        self._followed.append(_Followed(test, call, time.monotonic() + seconds, seconds, group))
        return True

    def _end_late(self) -> None:
        """End the job if a stream waits too long: an exception cannot be raised in the program's thread."""
        for held in self._followed[:1]:
            # An event is only looked at when its time is over: another thread may be capturing a graph.
            if time.monotonic() > held.deadline and not held.test.event.done:
                sys.stderr.write(f"{held.group.late(held.call, held.seconds)}\n")
                held.group.abort()

    # --- Queries and replies ------------------------------------------------------------------------

    def _ask(
        self, group: str, others: list[int], done: Callable[[], bool] | None = None, **more: Any
    ) -> dict[int, dict[str, Any]]:
        """Return the replies of other ranks that arrive in time and before `done` is true."""
        token = secrets.token_hex(8)  # a reply to an earlier query may still arrive
        self._note_farewells()
        others = [rank for rank in others if rank not in self._left]
        for rank in others:
            self._post({"group": group, "token": token, **more}, rank, _QUESTION)
        answers: dict[int, dict[str, Any]] = {}
        end = time.monotonic() + _PATIENCE
        while len(answers) < len(others) and time.monotonic() < end:
            found = self._take(_ANSWER)
            if found is None:
                self._note_farewells()
                if done is not None and done():
                    break
                if threading.current_thread() is self._thread:  # the others may be asking at the same time
                    self._answer_all()
                time.sleep(0.005)
            elif found[1].get("token") == token:
                answers[found[0]] = found[1]
        return answers

    def _answer(self) -> None:
        while not self._stop.wait(_PAUSE):
            try:
                self._answer_all()
                self._note_farewells()
                self._end_late()
            except Exception:  # the job is ending: no rank is left to notify
                return

    def _answer_all(self) -> None:
        while (found := self._take(_QUESTION)) is not None:
            answer = self._state(found[1]) | {"token": found[1].get("token")}
            self._post(answer, found[0], _ANSWER)

    def _note_farewells(self) -> None:
        while (found := self._take(_FAREWELL)) is not None:
            last = found[1].get("last")
            self._left[found[0]] = last if isinstance(last, dict) else {}

    def _state(self, question: dict[str, Any]) -> dict[str, Any]:
        calls = list(self.recent.get(str(question.get("group")), ()))
        if question.get("digests"):
            return {"digests": {str(call.number): _digest(call.op, call.what) for call in calls}}
        told: dict[str, Any] = {"now": main_thread_at()[-500:]}
        if not calls:
            return told | {"number": -1, "op": "", "site": ""}
        for call in calls:
            if call.number == question.get("number"):
                told["call"] = _said(call)
        return told | {"number": calls[-1].number, "op": calls[-1].op, "site": calls[-1].site[-500:]}

    def _post(self, words: dict[str, Any], rank: int, tag: int) -> None:
        self.letters.post(json.dumps(words).encode(), rank, tag)

    def _take(self, tag: int) -> tuple[int, dict[str, Any]] | None:
        """Return the next message and its sender, if there is one."""
        found = self.letters.take(tag)
        if found is None:
            return None
        try:
            words = json.loads(found[1])
        except (ValueError, RecursionError):
            words = None
        return found[0], words if isinstance(words, dict) else {}


def _said(call: Call) -> list[Any]:
    return [call.number, call.op, call.what[:300], call.site[-400:]]


def _where(answer: dict[str, Any]) -> str:
    last = f"its last call is {answer['op']} #{answer['number']} at {answer['site']}" if answer["op"] else "no call yet"
    return f"it is at {answer['now']}; {last}"
