"""Writing a file completely or not at all."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from secrets import token_hex

from pytest_kernelqual.errors import DocumentError

PathText = str | os.PathLike[str]

TEMPORARY_FILES = ".kernelqual-*.tmp"
"""Pattern of the names of files that are being written; one that was killed leaves its own behind."""

_ANY_WRITE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


def check_writable(path: PathText) -> None:
    """Make sure, before a long run, that `path` can be written at its end; never touches the file itself.

    Raises:
        DocumentError: The folder is missing or not writable, or the path is no file that may be replaced.
    """
    target = _target(path)
    try:
        descriptor, temporary = _open_beside(target)
        os.close(descriptor)
        temporary.unlink()
    except OSError as error:
        raise _not_writable(path, error) from error


def write(path: PathText, data: bytes) -> None:
    """Replace the file at `path` by `data` atomically and durably; a link is followed.

    Raises:
        DocumentError: It could not be written; what was there before is unchanged.
    """
    write_all({path: data})


def write_all(files: Mapping[PathText, bytes]) -> None:
    """Replace files as `write` does; none of them where there is no room for all.

    Raises:
        DocumentError: One could not be written.
    """
    ready: list[tuple[Path, Path]] = []
    at: PathText = ""
    try:
        for path, data in files.items():
            at, target = path, _target(path)
            ready.append((_written_beside(target, data), target))
        for at, (temporary, target) in zip(files, ready, strict=True):  # noqa: B007 - told where it fails
            temporary.replace(target)
            sync_folder(target.parent)
    except BaseException as error:
        for temporary, _ in ready:
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _not_writable(at, error) from error
        raise


def write_once(path: PathText, data: bytes) -> bool:
    """Create the file at `path` with `data` atomically; return False, and change nothing, where it exists.

    Raises:
        DocumentError: It could not be written.
    """
    target = _target(path)
    try:
        temporary = _written_beside(target, data)
        try:
            os.link(temporary, target)
        except FileExistsError:
            return False
        finally:
            temporary.unlink()
        sync_folder(target.parent)
    except OSError as error:
        raise _not_writable(path, error) from error
    return True


def _target(path: PathText) -> Path:
    """Return the file that `path` leads to, existing or not, or raise what is wrong with it."""
    given = os.fspath(path)
    if not given or "\0" in given:
        raise DocumentError(f"cannot write {given!r}: it is no path; give a file name")
    try:
        target = Path(given).resolve()
        mode = target.stat().st_mode
    except FileNotFoundError:
        if not target.parent.is_dir():
            raise DocumentError(
                f"cannot write {given!r}: there is no folder {str(target.parent)!r}; create it or give another path"
            ) from None
        if given.endswith("/"):
            raise DocumentError(f"cannot write {given!r}: it names a folder; give a file name in it") from None
        return target
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links, up to Python 3.12
        raise _not_writable(path, error) from error
    if stat.S_ISDIR(mode):
        raise DocumentError(f"cannot write {given!r}: it is a folder; give a file name in it")
    if not stat.S_ISREG(mode):
        raise DocumentError(f"cannot write {given!r}: it is no regular file; give a file name in a writable folder")
    if not mode & _ANY_WRITE or not os.access(target, os.W_OK):
        raise DocumentError(f"cannot write {given!r}: it is read-only; make it writable or give another path")
    return target


def _open_beside(target: Path) -> tuple[int, Path]:
    # The name does not grow with the target's, which may be as long as the file system allows.
    temporary = target.parent / f".kernelqual-{os.getpid()}-{token_hex(8)}.tmp"
    return os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), temporary


def _written_beside(target: Path, data: bytes) -> Path:
    descriptor, temporary = _open_beside(target)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor, not a path
            if target.exists():
                os.fchmod(descriptor, stat.S_IMODE(target.stat().st_mode))
            file.write(data)
            file.flush()
            os.fsync(descriptor)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _not_writable(path: PathText, error: Exception) -> DocumentError:
    why = (error.strerror if isinstance(error, OSError) else "") or str(error)
    return DocumentError(f"cannot write {os.fspath(path)!r}: {why}; give a path in a folder that can be written")
