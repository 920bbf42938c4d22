"""Who may talk to a job's processes: those that prove, both ways, that they know the secret of the job.

``torchrun``, ``adjoint launch`` and `spawn` make a secret and hand it to the processes that they start, in the
environment variable ADJOINT_JOB_SECRET. A program whose processes were started otherwise may set it itself, to the same
words everywhere. A secret of `spawn` is known on one machine only, and used at addresses of this machine only.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import secrets
import socket

__all__ = ["PATIENCE", "SECRET", "challenge", "exactly", "is_loopback", "make_secret", "prove", "secret_for"]

SECRET = "ADJOINT_JOB_SECRET"
_OF_SPAWN = "spawn:"  # multiprocessing/spawn.py
_MAGIC = b"adjoint1"
_NONCE = 32
_DIGEST = 32
_CHUNK = 1 << 20  # bytes that are read at once: memory grows with what arrives, not with what was announced
PATIENCE = 10.0  # seconds for a new connection to prove itself


def make_secret() -> str:
    """Return the secret of this process's job, and make one where there is none."""
    return os.environ.setdefault(SECRET, secrets.token_hex(32))


def is_loopback(host: str) -> bool:
    """Return whether an address, or all addresses of a name, can be reached from this machine only."""
    if not host:
        return False
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError):
        return False
    return all(ipaddress.ip_address(at.partition("%")[0]).is_loopback for at in found)


def secret_for(host: str) -> bytes | None:
    """Return the secret that processes at an address must know; None where there is none."""
    said = os.environ.get(SECRET)
    if not said or (said.startswith(_OF_SPAWN) and not is_loopback(host)):
        return None
    return said.encode()


def exactly(line: socket.socket, size: int) -> bytearray:
    """Return so many bytes; memory is taken as they come."""
    data = bytearray()
    while len(data) < size:
        more = line.recv(min(size - len(data), _CHUNK))
        if not more:
            raise ConnectionError("Connection was likely closed. Did the remote server shutdown or crash?")
        data += more
    return data


def _digest(secret: bytes, who: bytes, *nonces: bytes) -> bytes:
    return hmac.digest(secret, who + b"".join(nonces), "sha256")


def challenge(line: socket.socket, secret: bytes | None) -> bool:
    """Have the caller prove that it knows the secret, and prove the same to it; return whether it did."""
    nonce = secrets.token_bytes(_NONCE)
    line.sendall(_MAGIC + (b"\1" if secret else b"\0") + nonce)
    answer = exactly(line, _NONCE + _DIGEST)
    theirs, proof = bytes(answer[:_NONCE]), answer[_NONCE:]
    if secret is None:
        line.sendall(bytes(_DIGEST))
        return True
    known = hmac.compare_digest(proof, _digest(secret, b"caller", nonce, theirs))
    line.sendall(_digest(secret, b"listener", theirs, nonce) if known else bytes(_DIGEST))
    return known


def prove(line: socket.socket, secret: bytes | None) -> None:
    """Prove to the listening process that this one knows the secret, and have it prove the same.

    Raises
    ------
    PermissionError
        Where one of the two does not know it.
    ConnectionError
        Where no process of this job listens, or the connection is lost.
    """
    head = exactly(line, len(_MAGIC) + 1 + _NONCE)
    if not head.startswith(_MAGIC):
        raise ConnectionError("what listens there is not a process of adjoint")
    challenges, nonce = head[len(_MAGIC)] == 1, bytes(head[len(_MAGIC) + 1 :])
    if challenges != (secret is not None):
        has, lacks = ("who listens", "this process") if challenges else ("this process", "who listens")
        raise PermissionError(f"{has} has a secret ({SECRET}) that {lacks} has not: set it alike for all processes")
    mine = secrets.token_bytes(_NONCE)
    line.sendall(mine + (bytes(_DIGEST) if secret is None else _digest(secret, b"caller", nonce, mine)))
    proof = exactly(line, _DIGEST)
    if secret is not None and not hmac.compare_digest(proof, _digest(secret, b"listener", mine, nonce)):
        raise PermissionError(f"who listens has another secret ({SECRET}): set it alike for all processes")
