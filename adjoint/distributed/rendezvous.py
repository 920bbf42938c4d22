"""How processes that a program started itself find each other: ``tcp://``, ``file://`` and ``env://`` addresses."""

from __future__ import annotations

import numbers
import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from .store import FileStore, Store, TCPStore

__all__ = ["register_rendezvous_handler", "rendezvous"]

_Found = tuple[Store, int, int]  # where processes leave words for each other, who this one is, and how many there are
_PATIENCE = timedelta(minutes=30)
_handlers: dict[str, Callable[..., Iterator[_Found]]] = {}


def register_rendezvous_handler(scheme: str, handler: Callable[..., Iterator[_Found]]) -> None:
    """Let addresses that begin with ``scheme://`` be handled by a generator of (store, rank, world size)."""
    if scheme in _handlers:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    _handlers[scheme] = handler


def rendezvous(url: str, rank: int = -1, world_size: int = -1, **kwargs: Any) -> Iterator[_Found]:
    """Return the iterator that gives the store behind an address, this process's rank and the world size."""
    if not isinstance(url, str | bytes):
        raise RuntimeError(f"`url` must be a string. {type(url)}: {url}")
    for name, given in (("rank", rank), ("world_size", world_size)):
        if not isinstance(given, numbers.Integral):
            raise RuntimeError(f"`{name}` must be an integer. {given}")
    parts = urlsplit(url if isinstance(url, str) else url.decode())
    query = dict(parse_qsl(parts.query))
    said = {name: str(given) for name, given in (("rank", rank), ("world_size", world_size)) if given != -1}
    if said and ("rank" in query or "world_size" in query):
        raise AssertionError(f"The url: {parts.geturl()} has node-specific arguments(rank, world_size) already.")
    if parts.scheme not in _handlers:
        raise RuntimeError(f"No rendezvous handler for {parts.scheme}://")
    text = "&".join(f"{name}={value}" for name, value in {**query, **said}.items())
    return _handlers[parts.scheme](parts._replace(query=text).geturl(), **kwargs)


def _error(scheme: str, message: str) -> ValueError:
    return ValueError(f"Error initializing torch.distributed using {scheme}:// rendezvous: {message}")


def _numbers(scheme: str, query: dict[str, str]) -> tuple[int, int]:
    for name, shown in (("rank", "rank"), ("world_size", "world size")):
        if name not in query:
            raise _error(scheme, f"{shown} parameter missing")
    return int(query["rank"]), int(query["world_size"])


def _store_at(host: str, port: int, rank: int, world_size: int, timeout: timedelta) -> Store:
    """Return the store at an address; rank 0 holds it, unless the launcher does."""
    if not 0 <= port < 2**16:
        raise ValueError(f"port must have value from 0 to 65535 but was {port}.")
    keeps = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    return TCPStore(host, port, world_size, is_master=keeps, timeout=timeout, wait_for_workers=False)


def _tcp(url: str, timeout: timedelta = _PATIENCE, **kwargs: Any) -> Iterator[_Found]:
    parts = urlsplit(url)
    if parts.port is None:
        raise _error("tcp", "port number missing")
    rank, world_size = _numbers("tcp", dict(parse_qsl(parts.query)))
    yield _store_at(parts.hostname or "", parts.port, rank, world_size, timeout), rank, world_size


def _file(url: str, timeout: timedelta = _PATIENCE, **kwargs: Any) -> Iterator[_Found]:
    parts = urlsplit(url)
    if not parts.path:
        raise _error("file", "path missing")
    rank, world_size = _numbers("file", dict(parse_qsl(parts.query)))
    yield FileStore(parts.path, world_size), rank, world_size


def _env(url: str, timeout: timedelta = _PATIENCE, **kwargs: Any) -> Iterator[_Found]:
    query = dict(parse_qsl(urlsplit(url).query))

    def said(name: str) -> str:
        if not os.environ.get(name):
            raise _error("env", f"environment variable {name} expected, but not set")
        return os.environ[name]

    rank = int(query["rank"] if "rank" in query else said("RANK"))
    world_size = int(query["world_size"] if "world_size" in query else said("WORLD_SIZE"))
    host, port = said("MASTER_ADDR"), int(said("MASTER_PORT"))
    yield _store_at(host, port, rank, world_size, timeout), rank, world_size


for _scheme, _handler in (("tcp", _tcp), ("file", _file), ("env", _env)):
    register_rendezvous_handler(_scheme, _handler)
