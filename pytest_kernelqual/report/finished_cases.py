"""What other workers of a run have found of cases, as their journals tell."""

from pathlib import Path

import msgspec
from msgspec import Struct

from pytest_kernelqual.errors import DocumentError
from pytest_kernelqual.files import strict_json
from pytest_kernelqual.model.record import CaseRecord
from pytest_kernelqual.report.journal import CaseLine


class _Head(Struct):
    line: str
    nodeid: str = ""


class FinishedCases:
    """Look cases up in a session folder that others are writing."""

    def __init__(self, folder: Path) -> None:
        """Keep the folder; nothing is read yet."""
        self._folder = folder
        self._read_bytes: dict[Path, int] = {}
        self._lines: dict[str, bytes] = {}

    def find(self, nodeid: str) -> CaseRecord | None:
        """Return the record of a case that some worker has finished, or None."""
        if nodeid not in self._lines:
            self._read_on()
        try:
            line = self._lines[nodeid]
            told: CaseLine = strict_json.convert(strict_json.parse(line, nodeid), CaseLine, nodeid)
        except (KeyError, DocumentError):
            return None
        return told.record

    def _read_on(self) -> None:
        """Take in the lines that are whole by now."""
        for path in self._folder.glob("*.jsonl"):
            try:
                with path.open("rb") as file:
                    file.seek(self._read_bytes.get(path, 0))
                    whole, end, _ = file.read().rpartition(b"\n")
            except OSError:  # then it tells nothing
                continue
            self._read_bytes[path] = self._read_bytes.get(path, 0) + len(whole) + len(end)
            for line in whole.split(b"\n"):
                try:
                    head = msgspec.json.decode(line, type=_Head)
                except msgspec.DecodeError:
                    continue
                if head.line == "case":
                    self._lines[head.nodeid] = line
