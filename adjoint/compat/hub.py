"""``torch.hub``: downloading weights into a cache folder. Downloaded code is never run."""

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
    """Return the folder of downloads."""
    return _chosen or os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Set the folder of downloads."""
    global _chosen
    _chosen = os.path.expanduser(os.fspath(d))


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Download a file; it appears under its name when all of it is there.

    Parameters
    ----------
    url : str
        Address, ``https:``, ``http:`` or ``file:``.
    dst : str
        Path to write to.
    hash_prefix : str, optional
        How the SHA-256 of the file must start, in hexadecimal digits.
    progress : bool, default True
        Accepted for torch's sake: no progress bar is shown.

    Raises
    ------
    ValueError
        If the address is of another kind.
    RuntimeError
        If the hash differs; `dst` is then not written.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     source, copy = pathlib.Path(folder, "a.txt"), pathlib.Path(folder, "b.txt")
    ...     _ = source.write_text("weights")
    ...     adjoint.hub.download_url_to_file(source.as_uri(), str(copy))
    ...     copy.read_text()
    'weights'
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
    """Download a checkpoint, unless it is there already, and load it; nothing in it is run.

    Parameters
    ----------
    url : str
        Address of the file.
    model_dir : str, optional
        Folder to save it in; ``checkpoints`` in `get_dir` by default.
    map_location : device, dict or callable, optional
        Where the tensors shall be; as in `adjoint.load`.
    progress : bool, default True
        Accepted for torch's sake: no progress bar is shown.
    check_hash : bool, default False
        Whether the file must have the SHA-256 whose first digits are in its name, as in ``net-5c106cde.pth``.
    file_name : str, optional
        Name to save the file under; by default the last part of the address.
    weights_only : bool, default False
        Accepted for torch's sake: only plain data are ever read.

    Returns
    -------
    dict
        Names and tensors, for `Module.load_state_dict`.

    Raises
    ------
    FileFormatError
        If the file holds something else than a dict of plain data.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "net.pth")
    ...     adjoint.save({"weight": adjoint.ones(2)}, file)
    ...     adjoint.hub.load_state_dict_from_url(file.as_uri(), model_dir=f"{folder}/cache")
    {'weight': tensor([1., 1.])}
    """
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
