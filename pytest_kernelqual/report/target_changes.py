"""What changed of launches on compile targets, which does not depend on the device of a run."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pytest_kernelqual.judge.evidence import strength
from pytest_kernelqual.model.target_record import CompiledRows, TargetLaunch, TargetRecord
from pytest_kernelqual.report.change import Change, ChangeKind


class TargetChange(NamedTuple):
    """A change of one launch on one target."""

    kind: ChangeKind
    what: str
    before: str
    after: str
    why: str


def target_changes(before: Iterable[TargetRecord], after: Iterable[TargetRecord]) -> Iterator[TargetChange]:
    """Yield what changed of one case."""
    a, b = _launches(before), _launches(after)
    for (target, name), two in b.items():
        one = a.get((target, name))
        what = f"{'fixed launch' if name == 'fixed' else name} on {target}"
        if one is None:
            continue
        if one.outcome != two.outcome:
            yield TargetChange(_kind(one, two), what, one.outcome, two.outcome, two.reason)
        elif one.evidence and two.evidence and one.evidence != two.evidence:
            better = strength(two.evidence) > strength(one.evidence)
            kind: ChangeKind = "gained_evidence" if better else "lost_evidence"
            yield TargetChange(kind, what, one.evidence, two.evidence, "")


def compiled_row_changes(before: Iterable[CompiledRows], after: Iterable[CompiledRows]) -> Iterator[Change]:
    """Yield what changed of committed rows on devices that a run does not have.

    They are compiled in what time there is, so that nothing is told of what either run does not know.
    """
    a = {(rows.nodeid, case.id): case for rows in before for case in rows.cases}
    for rows in after:
        for case in rows.cases:
            one = a.get((rows.nodeid, case.id))
            for found in target_changes(one.targets if one is not None else [], case.targets):
                if "unknown" not in (found.before, found.after):
                    yield Change(
                        kind=found.kind,
                        nodeid=rows.nodeid,
                        kernel=rows.kernel,
                        case=case.id,
                        what=found.what,
                        before=found.before,
                        after=found.after,
                        why=found.why,
                    )


def _launches(records: Iterable[TargetRecord]) -> dict[tuple[str, str], TargetLaunch]:
    return {(record.target, launch.id): launch for record in records for launch in record.launches}


def _kind(before: TargetLaunch, after: TargetLaunch) -> ChangeKind:
    if after.outcome == "fits":
        return "newly_qualified"
    if before.outcome != "fits":
        return "other_outcome"
    if after.outcome == "unknown":
        return "not_run"
    return "out_of_resources" if after.outcome == "out_of_resources" else "disqualified"
