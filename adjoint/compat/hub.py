"""``torch.hub``: where downloaded weights are kept, and downloading them. Code from elsewhere is never run."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import urllib.request
from typing import Any, NoReturn
from urllib.parse import urlparse

from ..serialization import FileFormatError
from ..serialization import load as _load
from ..serialization.sources import replacing

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

_chosen: str | None = None
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")  # in a file's name: how its SHA-256 begins


def _get_torch_home() -> str:
    cache = os.environ.get("XDG_CACHE_HOME", os.path.join("~", ".cache"))
    return os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(cache, "torch")))


def get_dir() -> str:
    """Return the folder in which downloads are kept."""
    return _chosen or os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Choose the folder in which downloads are kept."""
    global _chosen
    _chosen = os.path.expanduser(os.fspath(d))


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Download a file; it is there when all of it is, and its SHA-256 starts as told.

    Only ``https:``, ``http:`` and ``file:`` addresses are opened.
    """
    if urlparse(url).scheme not in ("https", "http", "file"):
        raise ValueError(f"not an address of a file to download: {url}")
    digest = hashlib.sha256()
    with urllib.request.urlopen(url) as response, replacing(dst) as file:
        while chunk := response.read(1 << 16):
            digest.update(chunk)
            file.write(chunk)
        if hash_prefix is not None and not digest.hexdigest().startswith(hash_prefix):
            raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{digest.hexdigest()}")')


def load_state_dict_from_url(
    url: str, model_dir: str | None = None, map_location: Any = None, progress: bool = True, check_hash: bool = False,
    file_name: str | None = None, weights_only: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Download a checkpoint, unless it is there already, and load it; nothing in it is run."""
    folder = model_dir or os.path.join(get_dir(), "checkpoints")
    os.makedirs(folder, exist_ok=True)
    name = file_name or os.path.basename(urlparse(url).path)
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        sys.stderr.write(f'Downloading: "{url}" to {path}\n')
        found = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, found.group(1) if found else None, progress)
    loaded = _load(path, map_location=map_location)
    if not isinstance(loaded, dict):
        raise FileFormatError(f"{path} holds a {type(loaded).__name__}, not a dict of tensors")
    return loaded


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    raise NotImplementedError(
        "torch.hub runs code of other people's repositories, which is written for torch; import the model's package, "
        "and use hub.load_state_dict_from_url for its weights"
    )


load = list = help = _refuse
