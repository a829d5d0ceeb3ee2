"""How the speed-up of each committed config moved over the reports of many runs."""

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from pytest_kernelqual.errors import DocumentError
from pytest_kernelqual.model.case import id_of
from pytest_kernelqual.model.record import SPEED_UP_GATES, CommittedRecord, Document, Environment
from pytest_kernelqual.report import document
from pytest_kernelqual.report.named import name_of
from pytest_kernelqual.report.rows import config_name, speed_up_bounds

_MOST = 1e9
"""No launch is as many times as fast as another: what tells of more was not measured."""


class Point(NamedTuple):
    """What one run found of a committed config."""

    at: datetime
    report: str
    toolchain: str
    config: str
    verdict: str
    speed_up: float
    bounds: tuple[float, float] | None
    times_us: tuple[float, float] | None
    """Median time of one launch, of the fixed one and of the committed config."""


class Course(Struct, kw_only=True):
    """The timed runs of one row of a committed file on one state of the cache, the oldest first."""

    device: str
    kernel: str
    key: str
    points: list[Point]

    @property
    def change(self) -> float:
        """Return by which part the last speed-up is more than the first one."""
        return self.points[-1].speed_up / self.points[0].speed_up - 1

    @property
    def retuned(self) -> int:
        """Return how often another config was committed."""
        configs = [point.config for point in self.points]
        return sum(before != after for before, after in pairwise(configs))


class History(NamedTuple):
    """All courses by device, kernel and key; the reports that they come from, and the files that could not be used."""

    courses: list[Course]
    reports: int
    problems: list[str]


def read_history(paths: Sequence[str]) -> History:
    """Return what the reports in files and in folders, however deep, tell of committed configs.

    Raises:
        DocumentError: There is no report that can be used.
    """
    courses: dict[tuple[str, str, str], Course] = {}
    seen: dict[tuple[datetime, str, str], str] = {}
    problems: list[str] = []
    for path in _files(paths, problems):
        name = name_of(path)
        try:
            report = _read(path, name, given=str(path) in paths)
            at = _time_of(report, name)
        except DocumentError as error:
            problems.append(str(error))
            continue
        run = (at, report.digest, report.environment.device.uuid if report.environment is not None else "")
        if run in seen:
            problems.append(f"{name}: the same run as {seen[run]}; counted once")
            continue
        seen[run] = name
        _take(courses, report, name, at)
    if not seen:
        told = "\n".join(problems) or f"no *.json in {', '.join(map(name_of, paths))}; give folders or files of reports"
        raise DocumentError(told)
    for course in courses.values():
        course.points.sort(key=lambda point: point.at)
    return History([courses[name] for name in sorted(courses)], len(seen), problems)


def _files(paths: Sequence[str], problems: list[str]) -> Iterator[Path]:
    """Yield the files that are given, and those in given folders; add the folders that cannot be read."""

    def unread(error: OSError) -> None:
        problems.append(f"cannot read {error.filename!a}: {error.strerror}")

    for path in map(Path, paths):
        if not os.path.isdir(path):  # noqa: PTH112 - False, and no error, where it is no path
            yield path
            continue
        walked = os.walk(path, onerror=unread)
        yield from sorted(Path(folder, name) for folder, _, names in walked for name in names if name.endswith(".json"))


def _read(path: Path, name: str, *, given: bool) -> Document:
    if path.is_fifo() and not given:  # one that is given by name will be written to
        raise DocumentError(f"{name}: is a pipe, of which nothing tells whether it ever ends")
    return document.read(path)


def _time_of(report: Document, name: str) -> datetime:
    """Return when the run of a report started."""
    started_at = report.environment.started_at if report.environment is not None else ""
    try:
        at = datetime.fromisoformat(started_at)
    except ValueError as error:
        raise DocumentError(f"{name}: started_at is {started_at!a}, which is no time") from error
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _take(courses: dict[tuple[str, str, str], Course], report: Document, name: str, at: datetime) -> None:
    """Add what a report tells of rows that its run timed."""
    for kernel in report.kernels:
        for row in kernel.committed:
            if row.speed_up is None or not 1 / _MOST < row.speed_up < _MOST:
                continue
            # Another state of the cache is another question.
            warm = any(gate.cache == "warm" for gate in row.gates if gate.gate in SPEED_UP_GATES)
            where = (row.device, kernel.kernel, id_of(row.key) + (", warm cache" if warm else ""))
            course = courses.setdefault(where, Course(device=where[0], kernel=where[1], key=where[2], points=[]))
            course.points.append(_point(row, report.environment, name, at))


def _point(row: CommittedRecord, environment: Environment | None, name: str, at: datetime) -> Point:
    times = next((gate.time_us for gate in row.gates if gate.gate == "not_slower_than_fixed"), [])
    return Point(
        at=at,
        report=name,
        toolchain=f"triton {environment.triton}" if environment is not None and environment.triton else "",
        config=config_name(row),
        verdict=row.verdict,
        speed_up=row.speed_up or 0.0,
        bounds=speed_up_bounds(row.gates),
        times_us=(times[0], times[1]) if len(times) == 2 else None,  # noqa: PLR2004
    )
