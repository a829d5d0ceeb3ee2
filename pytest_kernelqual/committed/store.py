"""The folder `committed_configs/`: read without trust, updated without loss."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock, Timeout
from msgspec import structs

from pytest_kernelqual.committed import reading, schema
from pytest_kernelqual.committed.names import file_name, folder_name, full_file_name
from pytest_kernelqual.committed.refusal import Refusal
from pytest_kernelqual.committed.schema import (
    CommittedDevice,
    CommittedFile,
    Key,
    Row,
    Toolchain,
    device_order,
    key_order,
    key_text,
)
from pytest_kernelqual.errors import DocumentError
from pytest_kernelqual.files import atomic
from pytest_kernelqual.model.config import Config, Scalar
from pytest_kernelqual.model.values import shown

LOCK_FILE = ".lock"
_LOCK_TIMEOUT_S = 60.0
_LOCK_POLL_S = 0.01
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What an update says of one file; rows that it does not mention stay."""

    space: str
    """Selection-space token that the rows were chosen under."""
    toolchain: Toolchain
    rows: tuple[Row, ...] = ()
    """Rows to add or to put in place of those of the same key."""
    drop: tuple[Key, ...] = ()
    """Keys whose rows go."""


@dataclass(frozen=True)
class RowChange:
    """One row before and after an update."""

    before: Row | None
    after: Row | None
    mentioned: bool
    """The update named the key; False: the row stayed because it did not."""

    @property
    def key(self) -> Key:
        """Return the key of the row."""
        row = self.after or self.before
        return row.key if row else {}


@dataclass(frozen=True, kw_only=True)
class UpdateReport:
    """What an update did to each row of a file, in order of the keys."""

    path: Path
    kept: tuple[RowChange, ...] = ()
    """The config is as before: not mentioned, or measured anew."""
    changed: tuple[RowChange, ...] = ()
    """Another config, or the fixed launch, took the place of the config."""
    added: tuple[RowChange, ...] = ()
    dropped: tuple[RowChange, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Contents:
    """Everything in a store: files that say what their place says, and refusals of all others."""

    files: dict[Path, CommittedFile] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)


class Store:
    """Read and update one folder of committed configs.

    Methods return a refusal instead of raising, whatever a file or the file system does.
    """

    def __init__(self, root: Path, *, steers_production: bool = False) -> None:
        """Take the folder, existing or not.

        Args:
            root: The folder `committed_configs`.
            steers_production: Refuse files that another user could have written.
        """
        self.root = root
        self._steers_production = steers_production

    def path_for(self, kernel: str, device: CommittedDevice) -> Path:
        """Return the file of a kernel and device, existing or not; different devices never share one.

        It is named by the product.
        Where another device of that name, with other compute units say, has that file, the name tells all of the
        device, and keeps doing so.
        """
        folder = self.root / folder_name(kernel)
        full = folder / full_file_name(device.name, device.vendor, device.architecture, str(device.compute_units))
        if os.path.lexists(full):
            return full
        plain = folder / file_name(device.name)
        found = self._file(plain)
        taken = isinstance(found, CommittedFile) and found.device.name == device.name and found.device != device
        return full if taken else plain

    def read(self, kernel: str, device: CommittedDevice) -> CommittedFile | Refusal | None:
        """Return the file of a kernel and device, why it is refused, or None where there is none."""
        path = self.path_for(kernel, device)
        found = self._file(path)
        if isinstance(found, CommittedFile):
            return _foreign(found, path, kernel, device) or found
        return found

    def read_all(self) -> Contents:
        """Return every file; refuse what is in no place where it would be read.

        Hidden files and Markdown files are let alone.
        """
        contents = Contents()
        for path in self._entries(contents.refusals):
            if path.parent == self.root or path.suffix != ".json" or _is_folder(path):
                text = "nothing reads it: committed configs are in <kernel>/<device>.json; remove or rename it"
                contents.refusals.append(Refusal(code="misplaced", path=str(path), text=text))
                continue
            found = self._file(path)
            if isinstance(found, CommittedFile):
                found = self._elsewhere(found, path) or found
            if isinstance(found, Refusal):
                contents.refusals.append(found)
            elif found:
                contents.files[path] = found
        return contents

    def places_without_file(self, kernel: str, contents: Contents) -> dict[Path, CommittedDevice]:
        """Return where a kernel has no file that can be used, and other kernels have one of the device."""
        own = {file.device for file in contents.files.values() if file.kernel == kernel}
        others = {file.device for file in contents.files.values()} - own
        taken = {self.path_for(kernel, device) for device in own}
        # Two devices of one name would share the place; the first one stands for it.
        places = {self.path_for(kernel, device): device for device in sorted(others, key=device_order, reverse=True)}
        return {path: device for path, device in places.items() if path not in taken}

    def check_writable(self) -> None:
        """Make sure, before a long measurement, that files can be made in the folder, or it where it is not yet.

        Raises:
            DocumentError: They cannot.
        """
        there = next(folder for folder in (self.root, *self.root.parents) if os.path.lexists(folder))
        atomic.check_writable(there / LOCK_FILE)

    def update(self, kernel: str, device: CommittedDevice, changes: Changes) -> UpdateReport | Refusal:
        """Merge rows into the file of a kernel and device, completely or not at all.

        A file that is refused is never overwritten.
        A file without rows is removed.
        """
        path = self.path_for(kernel, device)
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            with FileLock(self.root / LOCK_FILE, timeout=_LOCK_TIMEOUT_S, poll_interval=_LOCK_POLL_S):
                path = self.path_for(kernel, device)  # another update may have taken the place
                old = self.read(kernel, device)
                if isinstance(old, Refusal):
                    return old
                new = _new(kernel, device, changes)
                return reading.problem(new, str(path)) or self._merge(path, old, new, changes)
        except Timeout:
            text = f"another update holds {LOCK_FILE!r} for more than {_LOCK_TIMEOUT_S:.0f} s; try again when it ended"
            return Refusal(code="unwritable", path=str(path), text=text)
        except DocumentError as error:
            cause = error.__cause__
            told = f"cannot be updated: {_why(cause)}; nothing changed" if isinstance(cause, OSError) else str(error)
            return Refusal(code="unwritable", path=str(path), text=told)
        except (OSError, NotImplementedError) as error:  # NotImplementedError: no locks on this file system
            return Refusal(code="unwritable", path=str(path), text=f"cannot be updated: {_why(error)}; nothing changed")

    def _merge(
        self, path: Path, old: CommittedFile | None, new: CommittedFile, changes: Changes
    ) -> UpdateReport | Refusal:
        before = {key_text(row.key): row for row in old.rows} if old else {}
        dropped = {key_text(key) for key in changes.drop}
        after = {text: _explicit(row, old) for text, row in before.items() if text not in dropped} if old else {}
        measured = {key_text(row.key): _explicit(row, new) for row in new.rows}
        both = next((row.key for text, row in measured.items() if text in dropped), None)
        if both is not None:
            text = f"the update both measures and drops key {shown(both)}; nothing changed"
            return Refusal(code="duplicate_key", path=str(path), text=text, key=both)
        after |= measured
        merged = schema.canonical(structs.replace(new, rows=list(after.values())))
        data = schema.encode(merged)
        refusal = reading.decode(data, str(path))  # what could not be read back is not written
        if isinstance(refusal, Refusal):
            return refusal
        if not merged.rows:
            _remove(path)
        elif old is None or data != _bytes(path):
            _make_folder(path.parent)
            _remove_leftovers(path.parent)
            atomic.write(path, data)
        return _report(path, before, {key_text(row.key): row for row in merged.rows}, {*measured, *dropped})

    def _file(self, path: Path) -> CommittedFile | Refusal | None:
        try:
            with _opened(path) as descriptor:
                refusal = self._untrusted(descriptor, path)
                if refusal:
                    return refusal
                with open(descriptor, "rb", closefd=False) as file:
                    return reading.decode(file.read(reading.MAX_BYTES + 1), str(path))
        except FileNotFoundError:
            if not path.is_symlink():
                return None
            return Refusal(code="unreadable", path=str(path), text="a link that leads nowhere; remove it")
        except (OSError, MemoryError) as error:
            text = f"cannot be read: {_why(error)}; make it a readable file or remove it"
            return Refusal(code="unreadable", path=str(path), text=text)

    def _untrusted(self, descriptor: int, path: Path) -> Refusal | None:
        """Refuse a file, or a folder that it lies in, that another user could have written."""
        if not self._steers_production:
            return None
        for where, status in ((path, os.fstat(descriptor)), *((at, at.stat()) for at in (path.parent, self.root))):
            if status.st_uid not in (0, os.geteuid()):
                told = f"{where.name!r} belongs to user {status.st_uid}, not to user {os.geteuid()} or root; chown it"
            elif status.st_mode & _OTHERS_WRITE:
                told = f"{where.name!r} has mode {stat.S_IMODE(status.st_mode):o}, others may write it; chmod go-w it"
            else:
                continue
            return Refusal(code="untrusted", path=str(path), text=f"{told}, since this file steers production")
        return None

    def _entries(self, refusals: list[Refusal]) -> Iterator[Path]:
        """Yield what lies directly in the root or in a folder of it, except those folders themselves."""
        for path in _listed(self.root, refusals):
            if leads_back(path):
                text = "a link that leads back to a folder above it; remove it"
                refusals.append(Refusal(code="misplaced", path=str(path), text=text))
            elif _is_folder(path):
                yield from _listed(path, refusals)
            else:
                yield path

    def _elsewhere(self, file: CommittedFile, path: Path) -> Refusal | None:
        """Refuse a file that is not where its kernel and device would be looked for."""
        wanted = self.path_for(file.kernel, file.device)
        if path.parent.name != wanted.parent.name:
            text = f"kernel {shown(file.kernel)} belongs into folder {wanted.parent.name!r}; move or remove the file"
            return Refusal(code="other_kernel", path=str(path), text=text)
        if path.name != wanted.name:
            text = f"device {shown(file.device.name)} belongs into {wanted.name!r}; move or remove the file"
            return Refusal(code="other_device", path=str(path), text=text)
        return None


def _foreign(file: CommittedFile, path: Path, kernel: str, device: CommittedDevice) -> Refusal | None:
    """Refuse a file of another kernel or device."""
    if file.kernel != kernel:
        text = f"kernel {shown(file.kernel)} is not {shown(kernel)}; was the file copied? Remove it and update again"
        return Refusal(code="other_kernel", path=str(path), text=text)
    for name in device.__struct_fields__:
        theirs, ours = getattr(file.device, name), getattr(device, name)
        if theirs != ours:
            text = f"device {name} {shown(theirs)} is not {shown(ours)}; was the file copied? Remove it and update here"
            return Refusal(code="other_device", path=str(path), text=text)
    return None


def _new(kernel: str, device: CommittedDevice, changes: Changes) -> CommittedFile:
    return CommittedFile(
        kernel=kernel,
        device=device,
        space=changes.space,
        toolchain=changes.toolchain,
        rows=list(changes.rows),
    )


def _explicit(row: Row, file: CommittedFile) -> Row:
    """Return the row with what it leaves to its file, so that it can move to another."""
    return structs.replace(row, space=file.space_of(row), toolchain=file.toolchain_of(row))


def _report(path: Path, before: dict[str, Row], after: dict[str, Row], named: set[str]) -> UpdateReport:
    texts = before.keys() | after.keys()
    changes = [RowChange(before.get(text), after.get(text), text in named) for text in texts]
    changes.sort(key=lambda change: key_order(change.key))
    both = [(change, change.before.config, change.after.config) for change in changes if change.before and change.after]
    return UpdateReport(
        path=path,
        kept=tuple(change for change, old, new in both if _same(old, new)),
        changed=tuple(change for change, old, new in both if not _same(old, new)),
        added=tuple(change for change in changes if not change.before),
        dropped=tuple(change for change in changes if not change.after),
    )


def _same(one: dict[str, Scalar] | None, other: dict[str, Scalar] | None) -> bool:
    return Config(one) == Config(other) if one is not None and other is not None else one is other


def is_looked_at(path: Path) -> bool:
    """Tell whether a file or folder of a store must be one that is read; hidden and Markdown files need not."""
    return not path.name.startswith(".") and path.suffix.lower() != ".md"


def leads_back(path: Path) -> bool:
    """Tell whether a path is a link to a folder that it lies in, so that no walk along it would end."""
    with suppress(OSError, RuntimeError):  # RuntimeError: a link to itself, up to Python 3.12
        return path.is_symlink() and path.parent.resolve().is_relative_to(path.resolve(strict=True))
    return False


def _listed(folder: Path, refusals: list[Refusal]) -> list[Path]:
    try:
        found = sorted(folder.iterdir())
    except FileNotFoundError:
        if folder.is_symlink():
            refusals.append(Refusal(code="unreadable", path=str(folder), text="a link that leads nowhere; remove it"))
        return []
    except OSError as error:
        text = f"the folder cannot be read: {_why(error)}; make it readable"
        refusals.append(Refusal(code="unreadable", path=str(folder), text=text))
        return []
    return [path for path in found if is_looked_at(path)]


def _is_folder(path: Path) -> bool:
    with suppress(OSError):
        return stat.S_ISDIR(path.stat().st_mode)
    return False


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """Open a regular file; anything else would block or never end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        yield descriptor
    finally:
        os.close(descriptor)


def _bytes(path: Path) -> bytes | None:
    with suppress(FileNotFoundError):
        return path.read_bytes()
    return None


def _make_folder(folder: Path) -> None:
    if not folder.is_dir():
        folder.mkdir()
        atomic.sync_folder(folder.parent)


def _remove(path: Path) -> None:
    if path.exists():
        path.unlink()
        atomic.sync_folder(path.parent)


def _remove_leftovers(folder: Path) -> None:
    """Remove temporary files of updates that were killed; the lock is held, so none is in use."""
    for leftover in folder.glob(atomic.TEMPORARY_FILES):
        leftover.unlink(missing_ok=True)


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else "") or str(error) or type(error).__name__
