"""Committed rows on devices that a run does not have, as text."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pytest_kernelqual.model.case import id_of
from pytest_kernelqual.model.target_record import CompiledRows, TargetLaunch, TargetRecord
from pytest_kernelqual.report.phrases import and_more, clean, counted
from pytest_kernelqual.report.spills import spills_of

_LONGEST = 300
_MOST_LINES = 20
_KIB = 1024


class _Row(NamedTuple):
    """One row on one target."""

    name: str
    kernel: str
    own: bool
    record: TargetRecord
    launches: tuple[TargetLaunch, ...]
    """On all cases of its key."""

    @property
    def worst(self) -> TargetLaunch:
        """Return a launch that does not fit, or any."""
        return next((one for one in self.launches if one.outcome != "fits"), self.launches[0])


def compiled_rows_summary(files: Iterable[CompiledRows]) -> str:
    """Return a line for each target, and what needs a look; empty where nothing was compiled."""
    by_target: dict[str, list[_Row]] = {}
    for rows in files:
        for row in _rows(rows):
            by_target.setdefault(row.record.target, []).append(row)
    if not by_target:
        return ""
    lines = [line for target, rows in by_target.items() for line in _told(target, rows)]
    more = [f"  and {len(lines) - _MOST_LINES} more, which the report tells"] if len(lines) > _MOST_LINES else []
    return "\n".join(["committed configs compiled for devices that are not here", *lines[:_MOST_LINES], *more])


def _rows(rows: CompiledRows) -> Iterator[_Row]:
    found: dict[tuple[str, str], _Row] = {}
    for case in rows.cases:
        key = id_of(case.key) if case.key else "all cases"
        for record in case.targets:
            before = found.get((key, record.target))
            launches = (*(before.launches if before is not None else ()), *record.launches)
            name = f"{rows.kernel} {key} of {rows.device}"
            found[key, record.target] = _Row(name, rows.kernel, record.target == rows.target, record, launches)
    yield from (row for row in found.values() if row.launches)


def _told(target: str, rows: list[_Row]) -> Iterator[str]:
    own = [row for row in rows if row.own]
    others = [row for row in rows if not row.own]
    for group, whose in ((own, "rows"), (others, "rows of other devices")):
        if group:
            fit = sum(row.worst.outcome == "fits" for row in group)
            yield f"  {clean(f'{target}: {fit} of {len(group)} {whose} fit{_most(group)}', _LONGEST)}"
    for (outcome, reason), names in _groups(own).items():
        told = f"{target}: {outcome}: {reason} ({counted(len(names), 'row')}: {and_more(names, 2)})"
        yield f"  {clean(told, _LONGEST)}"
    for told in spills_of(((row.name, one) for row in own for one in row.launches), "rows"):
        yield f"  {clean(f'{target}: {told}', _LONGEST)}"
    refused = Counter(row.worst.outcome for row in others if row.worst.outcome != "fits")
    if refused:
        told = ", ".join(f"{count} {outcome}" for outcome, count in refused.most_common())
        yield f"  {clean(f'{target}: rows of other devices: {told}', _LONGEST)}"
    newly = [row.name for row in others if any(one.newly_fits for one in row.launches)]
    if newly:
        told = f"{target}: {counted(len(newly), 'row')} newly fit: {and_more(newly)}"
        yield f"  {clean(told, _LONGEST)}"


def _groups(rows: Iterable[_Row]) -> dict[tuple[str, str], list[str]]:
    """Return names of rows that do not fit, by how."""
    groups: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.worst.outcome != "fits":
            groups.setdefault((row.worst.outcome, row.worst.reason), []).append(row.name)
    return groups


def _most(rows: Iterable[_Row]) -> str:
    """Tell the largest needs of what fits."""
    fitting = [(row, one) for row in rows for one in row.launches if one.outcome == "fits"]
    if not fitting:
        return ""
    large, shared = max(fitting, key=lambda pair: pair[1].resources.get("shared_bytes", 0))
    wide, registers = max(fitting, key=lambda pair: pair[1].resources.get("registers", 0))
    shared_bytes, limit_bytes = shared.resources.get("shared_bytes", 0), large.record.shared_limit_bytes
    return (
        f"; the most: {shared_bytes / _KIB:.1f} of {limit_bytes / _KIB:.1f} KiB of shared memory ({large.kernel}), "
        f"{registers.resources.get('registers', 0)} registers ({wide.kernel})"
    )
