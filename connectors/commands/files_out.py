"""Files that a command writes: refused before the work if they cannot be, and never left half written."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from ...errors import InvalidInput
from ..outputs import RejectsFile

__all__ = ["check_writable", "open_rejects"]


def check_writable(path: Path, option: str) -> None:
    """Refuse a path that cannot become a file.

    Raises
    ------
    InvalidInput
        If it is a folder, a device or a pipe, if its folder is not there, or if there is no permission.
    """
    folder = path.absolute().parent
    if path.exists() and not path.is_file():
        raise InvalidInput(f"{option} = {str(path)!r}: must be a file, and there is something else")
    if not folder.is_dir():
        raise InvalidInput(f"{option} = {str(path)!r}: its folder is not there")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise InvalidInput(f"{option} = {str(path)!r}: no permission to write there")


def open_rejects(path: Path | None, *, append: bool = False) -> AbstractContextManager[RejectsFile | None]:
    """Open a file for what cannot be used; without a path, a context that gives None."""
    return nullcontext() if path is None else RejectsFile(path, append=append)
