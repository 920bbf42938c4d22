"""Saving and loading: objects of tensors to files and back, whichever of the known formats they are in."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeAlias

from . import archive, pickling, safetensors, structure, whole
from .extents import Placement, placement
from .sources import FileFormatError, Source, opened, replacing

__all__ = ["DEFAULT_PROTOCOL", "MAP_LOCATION", "get_unsafe_globals_in_checkpoint", "load", "save"]

DEFAULT_PROTOCOL = 2
MAP_LOCATION: TypeAlias = Callable[[Any, str], Any] | Any | str | dict[str, str] | None

_SAFETENSORS_SUFFIXES = (".safetensors", ".adjoint", ".adj")
_FORMATS = ("adjoint", "pt")


def save(
    obj: Any,
    f: Any,
    pickle_module: Any = None,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
    *,
    format: str | None = None,
) -> None:
    """Save tensors, and containers of tensors, to a file that `load` reads; no code is ever in it.

    A file is replaced in one step: whatever happens, the old file or the new one is there. Tensors that share memory
    share it again after loading.

    Parameters
    ----------
    obj
        Tensors, arrays, numbers, strings, bytes, dtypes, and dicts, lists, tuples or sets of them: a ``state_dict()``,
        for instance.
    f
        A path, or a file opened for writing.
    pickle_module
        Asks for a pickle of the whole object, made by this module: ``pickle_module=pickle``. Such a file runs code
        when it is loaded.
    pickle_protocol
        The protocol of such a pickle.
    format
        "pt" is a zip file that ``torch.load`` reads. "adjoint" is a safetensors file that also says how its tensors
        are nested. By default, paths that end in .safetensors, .adjoint or .adj get "adjoint"; every other path, and
        every file object, gets "pt".

    Examples
    --------
    >>> import io
    >>> f = io.BytesIO()
    >>> adjoint.save({"w": adjoint.ones(2), "step": 3}, f)
    >>> _ = f.seek(0)
    >>> adjoint.load(f)
    {'w': tensor([1., 1.]), 'step': 3}
    """
    if format is None:
        named = isinstance(f, str | os.PathLike) and os.fsdecode(f).endswith(_SAFETENSORS_SUFFIXES)
        format = "adjoint" if named else "pt"
    if format not in _FORMATS:
        raise ValueError(f"format must be one of {', '.join(_FORMATS)}, not {format!r}")
    with replacing(f) as stream:
        if pickle_module is not None:
            pickle_module.dump(obj, stream, protocol=pickle_protocol)
        elif format == "pt":
            pickling.write(obj, stream)
        else:
            structure.write(obj, stream)


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Load what `save` wrote, a file of ``torch.save``, or a safetensors file; nothing in it is run.

    Parameters
    ----------
    f : path or file
        A path, or a file opened for reading that can be sought in.
    map_location : device, dict or callable, optional
        Where the tensors shall be: a device, a dict from saved to wanted devices, or a function of storage and place.
    pickle_module : module, optional
        With ``weights_only=False``, loads the file with this module, which runs whatever is in it.
    weights_only : bool, optional
        Whatever it says, only plain data are read, unless `pickle_module` is given too.
    mmap : bool, optional
        Whether to map the file into memory, so that only what is used is read.
    **pickle_load_args
        Passed on to `pickle_module`.

    Returns
    -------
    object
        What was saved: a tensor, or a dict, list or other plain structure of tensors and values.

    Raises
    ------
    FileFormatError
        Where the file is damaged, or names things that are not plain data; the error lists all of them.

    Examples
    --------
    >>> import io
    >>> file = io.BytesIO()
    >>> adjoint.save({"weight": adjoint.ones(2), "epoch": 3}, file)
    >>> _ = file.seek(0)
    >>> adjoint.load(file)
    {'weight': tensor([1., 1.]), 'epoch': 3}
    """
    with opened(f, mmap) as source:
        if pickle_module is not None and weights_only is False:
            if source.bytes_at(0, min(source.size, 4)) == b"PK\3\4":
                return whole.read(source, placement(map_location), pickle_module, **pickle_load_args)
            source.stream.seek(source.start)
            return pickle_module.load(source.stream, **pickle_load_args)
        return _read(source, placement(map_location))


def _read(source: Source, place: Placement) -> Any:
    """Return what a file holds; whatever goes wrong with the file itself is a `FileFormatError`."""
    from_program: list[Exception] = []

    def placed(memory: Any, location: str) -> Any:
        try:
            return place(memory, location)
        except Exception as error:  # of the program's own function: not the file's fault
            from_program.append(error)
            raise

    try:
        return _reader_of(source)(source, placed)
    except Exception as error:
        if from_program:
            raise from_program[-1] from None
        if isinstance(error, FileFormatError | OSError):  # of the file's content, or of the disk
            raise
        raise FileFormatError(f"the file is damaged: {type(error).__name__}: {error}") from None


def _reader_of(source: Source) -> Any:
    start = source.bytes_at(0, min(source.size, 4))
    if start[:4] == b"PK\3\4":
        return archive.read_archive
    if safetensors.looks_like_one(source):
        return structure.read
    if start[:1] == b"\x80":
        return archive.read_stream
    if not start:
        raise FileFormatError("Ran out of input: the file is empty")
    raise FileFormatError(
        "the file is neither one that save wrote, nor one of torch.save, nor a safetensors file; or its start is lost"
    )


def get_unsafe_globals_in_checkpoint(f: Any) -> list[str]:
    """Return the names in a file of ``torch.save`` that `load` refuses."""
    with opened(f) as source:
        return archive.names_refused(source, lambda memory, location: memory)
