"""Who is missing: a thread that tells other processes how far this one has come, even while it computes."""

from __future__ import annotations

import json
import secrets
import threading
import time
from typing import Any

from .calls import Call, main_thread_at
from .engines.mpi import mpi

__all__ = ["Watch"]

_QUESTION, _ANSWER = 1, 2
_LONGEST = 4096  # bytes of a message; nobody's answer is longer
_PAUSE = 0.2  # seconds between two looks at the letter box
_PATIENCE = 2.0  # seconds for answers to come


class Watch:
    """Answers other ranks' questions in a thread of its own, and asks for the main thread when it waits in vain."""

    def __init__(self, comm: Any) -> None:
        self.comm = comm
        self.rank = comm.Get_rank()
        self.last: dict[str, Call] = {}  # of each group, the latest call that this process made
        self._stop = threading.Event()
        self._sent: list[Any] = []
        self._thread: threading.Thread | None = None
        if mpi().Query_thread() == mpi().THREAD_MULTIPLE:
            self._thread = threading.Thread(target=self._answer, name="adjoint-watch", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread; MPI must not end before."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def close(self) -> None:
        """Stop, and give the communicator back."""
        self.stop()
        for request in self._sent:
            request.Test()
        self.comm.Free()

    def missing(self, call: Call, ranks: list[int]) -> list[str]:
        """Return a line for each of the global `ranks` that has not made this call, and says so or says nothing."""
        others = [rank for rank in ranks if rank != self.rank]
        answers = self._ask(call.group, others)
        lines = []
        for rank in others:
            answer = answers.get(rank)
            if answer is None:
                lines.append(f"rank {rank} does not answer: it is dead, stopped, or has left")
            elif answer["number"] < call.number:
                lines.append(f"rank {rank} has not called it: {_where(answer)}")
            elif answer["number"] == call.number and answer["op"] != call.op:
                lines.append(f"rank {rank} calls {answer['op']} #{answer['number']} instead, at {answer['site']}")
        return lines

    def whereabouts(self, group: str, ranks: list[int]) -> list[str]:
        """Return a line for each of the global `ranks` that says where it is."""
        answers = self._ask(group, [rank for rank in ranks if rank != self.rank])
        return [
            f"rank {rank}: {_where(answers[rank])}" if rank in answers else f"rank {rank} does not answer"
            for rank in ranks
            if rank != self.rank
        ]

    # --- Questions and answers ----------------------------------------------------------------------

    def _ask(self, group: str, others: list[int]) -> dict[int, dict[str, Any]]:
        token = secrets.token_hex(8)  # an answer to an earlier question may still be on its way
        for rank in others:
            self._post({"group": group, "token": token}, rank, _QUESTION)
        answers: dict[int, dict[str, Any]] = {}
        end = time.monotonic() + _PATIENCE
        while len(answers) < len(others) and time.monotonic() < end:
            found = self._take(_ANSWER)
            if found is None:
                time.sleep(0.005)
            elif found[1].get("token") == token:
                answers[found[0]] = found[1]
        return answers

    def _answer(self) -> None:
        while not self._stop.wait(_PAUSE):
            try:
                while (found := self._take(_QUESTION)) is not None:
                    answer = self._state(str(found[1].get("group"))) | {"token": found[1].get("token")}
                    self._post(answer, found[0], _ANSWER)
            except Exception:  # the job is going down: nobody is left to tell
                return

    def _state(self, group: str) -> dict[str, Any]:
        last = self.last.get(group)
        told = {"now": main_thread_at()[-500:]}
        if last is None:
            return told | {"number": -1, "op": "", "site": ""}
        return told | {"number": last.number, "op": last.op, "site": last.site[-500:]}

    def _post(self, words: dict[str, Any], rank: int, tag: int) -> None:
        text = bytearray(json.dumps(words).encode())
        self._sent = [request for request in self._sent if not request.Test()]
        self._sent.append(self.comm.Isend([text, mpi().BYTE], rank, tag))

    def _take(self, tag: int) -> tuple[int, dict[str, Any]] | None:
        """Return the next message and its sender, if there is one."""
        MPI = mpi()
        status = MPI.Status()
        if not self.comm.Iprobe(MPI.ANY_SOURCE, tag, status):
            return None
        text = bytearray(min(status.Get_count(MPI.BYTE), _LONGEST))
        source = status.Get_source()
        self.comm.Recv([text, MPI.BYTE], source, tag)
        try:
            words = json.loads(bytes(text))
        except (ValueError, RecursionError):
            words = None
        return source, words if isinstance(words, dict) else {}


def _where(answer: dict[str, Any]) -> str:
    last = f"its last call is {answer['op']} #{answer['number']} at {answer['site']}" if answer["op"] else "no call yet"
    return f"it is at {answer['now']}; {last}"
