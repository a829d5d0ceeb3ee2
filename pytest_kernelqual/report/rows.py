"""Committed rows as text: why one fails, what a run found of all, what a refresh did."""

from collections import Counter
from collections.abc import Iterable, Iterator
from math import isfinite

from pytest_kernelqual.committed.refusal import Refusal
from pytest_kernelqual.committed.store import RowChange, UpdateReport
from pytest_kernelqual.model.case import id_of
from pytest_kernelqual.model.config import Config, Scalar
from pytest_kernelqual.model.record import CommittedRecord, GateRecord, KernelRecord
from pytest_kernelqual.report.phrases import clean

_LONGEST = 300
_MOST_LINES = 100
_QUIET = ("ok",)
# Verdicts of which no row need be there: a config would be made up.
_WITHOUT_ROW = ("missing", "bad_file", "duplicate", "orphan")
_UNDECIDED = ("inconclusive", "unmeasurable", "not_timed")
"""Verdicts that are warnings: they fail nothing, and are no pass."""


def committed_text(record: CommittedRecord) -> str:
    """Return the verdict of a row with its reasons and gates, most telling line first."""
    lines = [f"{_name(record)}: {record.verdict}", *(f"  {clean(reason, _LONGEST)}" for reason in record.reasons)]
    return "\n".join([*lines, *(f"  {gate_line(gate)}" for gate in record.gates)])


def gate_line(gate: GateRecord) -> str:
    """Return what one gate saw, on one line."""
    head = f"{gate.gate}: {gate.b} against {gate.a}: {gate.verdict}"
    if not gate.ratio:
        return clean(f"{head}: {gate.reason}", _LONGEST)
    seen = [(ratio - 1) * 100 for ratio in gate.ratio]
    interval = f"{seen[0]:+.2f} % [{seen[1]:+.2f}, {seen[2]:+.2f}], margin {gate.margin_pct:g} %"
    times = " and ".join(f"{time_us:.2f}" for time_us in gate.time_us)
    how = f"{times} us, {gate.method}, {gate.cache}, {len(gate.rounds)} rounds of {gate.launches} launches"
    return clean(f"{head}: {interval} ({how})", _LONGEST)


def rows_summary(kernels: Iterable[KernelRecord]) -> str:
    """Return a line that counts verdicts, then every row that is not plainly ok; empty where there are no rows."""
    rows = [(kernel, row) for kernel in kernels for row in kernel.committed]
    if not rows:
        return ""
    counts = Counter(row.verdict for _, row in rows)
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
    changed = sum(row.production == "changed" for _, row in rows)
    drifted = f"; production's bytes changed in {changed}" if changed else ""
    lines = [*_notable(rows)]
    more = [f"  and {len(lines) - _MOST_LINES} more, which the report tells"] if len(lines) > _MOST_LINES else []
    return "\n".join([f"committed configs: {len(rows)} rows: {told}{drifted}", *lines[:_MOST_LINES], *more])


def undecided(row: CommittedRecord) -> bool:
    """Tell whether a row that does not fail was not found to be good either."""
    return row.passed and row.verdict in _UNDECIDED


def warned(row: CommittedRecord) -> str:
    """Return of what a row that does not fail warns, in words; empty where it warns of nothing.

    Rows that are not timed, as all are where there is no device, are told together.
    """
    if undecided(row) and row.verdict != "not_timed":
        return row.verdict
    return "with other production bytes" if row.passed and row.production == "changed" else ""


def warnings_told(rows: Iterable[CommittedRecord]) -> list[str]:
    """Return how many rows are undecided, by verdict, and in how many production's bytes changed."""
    rows = list(rows)
    counts = Counter[str](row.verdict for row in rows if undecided(row))
    changed = sum(row.production == "changed" for row in rows)
    told = [f"{counts[verdict]} {verdict}" for verdict in _UNDECIDED if counts[verdict]]
    return [*told, *([f"production's bytes changed in {changed}"] if changed else [])]


def refresh_summary(reports: Iterable[UpdateReport | Refusal]) -> str:
    """Return what a refresh kept, changed, added and dropped, with figures."""
    lines = []
    for report in reports:
        if isinstance(report, Refusal):
            lines.append(f"not written: {clean(str(report), _LONGEST)}")
            continue
        groups = {"kept": report.kept, "changed": report.changed, "added": report.added, "dropped": report.dropped}
        counts = ", ".join(f"{len(changes)} {name}" for name, changes in groups.items())
        lines.append(f"{clean(str(report.path), _LONGEST)}: {counts}")
        for name, changes in groups.items():
            lines += [_change(name, change) for change in changes if change.mentioned]
    return "\n".join(lines)


def row_name(record: CommittedRecord) -> str:
    """Name a row by its key and device."""
    return f"{id_of(record.key) if record.key else 'all cases'} on {record.device}"


def _change(name: str, change: RowChange) -> str:
    """Return what became of one row."""
    row = change.after or change.before
    if row is None:
        return f"  {name}"
    speed = f", {row.speed_up:.3f} times the fixed launch's speed" if row.speed_up else ""
    was = f" (was {_config(change.before.config)})" if name == "changed" and change.before is not None else ""
    note = f"; {row.note}" if row.note else ""
    return f"  {clean(f'{name} {id_of(row.key)}: {_config(row.config)}{was}{speed}{note}', _LONGEST)}"


def _notable(rows: list[tuple[KernelRecord, CommittedRecord]]) -> Iterator[str]:
    seen: Counter[tuple[str, str]] = Counter()
    for kernel, row in rows:
        if row.verdict in _QUIET and not row.reasons:
            continue
        # What is told of production comes first, and would else be lost.
        told = row.reasons if row.production in ("changed", "not_comparable") else row.reasons[-1:]
        reason = "; ".join(told)
        seen[row.verdict, reason] += 1
        if seen[row.verdict, reason] == 1:
            yield f"  {clean(f'{kernel.kernel} {_name(row)}: {row.verdict}: {reason}', _LONGEST)}"
    more = {key: count - 1 for key, count in seen.items() if count > 1}
    for (verdict, reason), count in more.items():
        yield f"  {clean(f'and {count} more {verdict}: {reason}', _LONGEST)}"


def config_name(record: CommittedRecord) -> str:
    """Name the config of a row; empty where there is no row."""
    return "" if record.config is None and record.verdict in _WITHOUT_ROW else _config(record.config)


def speed_up_bounds(gates: Iterable[GateRecord]) -> tuple[float, float] | None:
    """Return the lower and upper bound of the speed-up over the fixed launch; None where it was not timed."""
    for gate in gates:
        if gate.gate == "not_slower_than_fixed" and gate.ratio and min(gate.ratio) > 0:
            lower, upper = 1 / max(gate.ratio), 1 / min(gate.ratio)
            return (round(lower, 5), round(upper, 5)) if isfinite(upper) else None
    return None


def _name(record: CommittedRecord) -> str:
    told, config = row_name(record), config_name(record)
    return clean(f"{told}: {config}" if config else told, _LONGEST)


def _config(config: dict[str, Scalar] | None) -> str:
    return Config(config).id if config is not None else "fixed launch"
