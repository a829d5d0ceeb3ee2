"""What is told of all committed rows at the end of a run: whether any was timed, and what a refresh writes."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

import msgspec
from msgspec import structs

from pytest_kernelqual.committed.membership import Declared, row_refusals
from pytest_kernelqual.committed.refusal import Refusal
from pytest_kernelqual.committed.schema import CommittedDevice, CommittedFile, Key, Row, Toolchain, key_text
from pytest_kernelqual.committed.store import Changes, Store, UpdateReport
from pytest_kernelqual.model.record import CommittedRecord, Environment, KernelRecord, Proposal

BUDGET = "budget: "
"""How the reason of a row begins that was not timed because the time for it is spent."""


def untimed(kernels: Iterable[KernelRecord], environment: Environment | None) -> list[str]:
    """Return what is wrong with a run on a device that passes without having timed a single row."""
    rows = [row for kernel in kernels for row in kernel.committed]
    untold = [row for row in rows if row.verdict in ("not_timed", "unmeasurable")]
    if environment is None or environment.device.kind == "interpreter" or not untold:
        return []
    if any(gate.verdict == "ok" for row in rows for gate in row.gates) or not all(row.passed for row in rows):
        return []
    why = untold[0].reasons[-1] if untold[0].reasons else untold[0].verdict
    return [f"no committed config was timed on {environment.device.name}: {len(untold)} rows, the first one: {why}"]


def uncollected(store: Store, root: Path, nodeids: Iterable[str]) -> list[str]:
    """Return what is wrong with entries of the folder of which no item tells it; `root` is what node ids count from."""
    files = {nodeid.removesuffix("::file") for nodeid in nodeids if nodeid.endswith("::file")}
    # A folder matters by its files.
    told = files | {str(parent) for file in files for parent in PurePosixPath(file).parents}
    found = store.read_all().refusals
    return [str(refusal) for refusal in found if Path(os.path.relpath(refusal.path, root)).as_posix() not in told]


def over_budget(kernels: Iterable[KernelRecord]) -> list[str]:
    """Return what a budget of timing left out, by which a run is not complete."""
    rows = [row for kernel in kernels for row in kernel.committed]
    left = sum(row.verdict == "not_timed" and any(why.startswith(BUDGET) for why in row.reasons) for row in rows)
    return [f"--kernelqual-budget left {left} of {len(rows)} committed rows untimed"] if left else []


def write_proposals(
    store: Store, kernels: Iterable[KernelRecord], environment: Environment | None, *, complete: bool
) -> list[UpdateReport | Refusal]:
    """Merge measured rows into their files, one update a file, and never from a case that failed or did not run.

    Rows that were not measured stay.
    Only where nothing narrowed the run (`complete`), and every row of a spec was measured, rows that nothing reaches
    are dropped from its file.
    """
    if environment is None:
        return []
    reports: list[UpdateReport | Refusal] = []
    for kernel in kernels:
        for proposals in _by_file(_writable(kernel)):
            first = proposals[0]
            device = msgspec.convert(first.device, CommittedDevice)
            rows = tuple(msgspec.convert(proposal.row, Row) for proposal in proposals)
            changes = Changes(
                space=first.space,
                toolchain=toolchain_of(environment),
                rows=rows,
                drop=_orphans(store, kernel, first, device, rows) if complete else (),
            )
            reports.append(store.update(first.kernel, device, changes))
    return reports


def with_writing_told(kernels: Iterable[KernelRecord]) -> list[KernelRecord]:
    """Return kernels whose measured rows say it where they are not written."""

    def told(kernel: KernelRecord) -> Iterator[CommittedRecord]:
        for row in kernel.committed:
            why = _kept_back(kernel, row)
            yield structs.replace(row, reasons=[*row.reasons, f"not written: {why}"]) if why else row

    return [structs.replace(kernel, committed=[*told(kernel)]) for kernel in kernels]


def without_their_cases(kernels: Iterable[KernelRecord]) -> list[str]:
    """Return which rows were measured and are not written, since cases of their keys were left out of the run."""
    left = [
        f"{row.nodeid}: {_kept_back(kernel, row)}"
        for kernel in kernels
        for row in kernel.committed
        if row.passed and _unselected(kernel, row)
    ]
    todo = "leave out -k, --deselect and whatever else narrows the run, or select the cases of the rows too"
    return [f"{len(left)} rows were measured and not written: {todo}: {left[0]}"] if left else []


def toolchain_of(environment: Environment) -> Toolchain:
    """Return the versions that rows are measured with."""
    return Toolchain(
        driver=environment.driver,
        runtime=environment.runtime,
        torch=environment.torch,
        triton=environment.triton,
        python=environment.python,
    )


def undropped(files: Iterable[KernelRecord], reports: Iterable[UpdateReport | Refusal]) -> list[str]:
    """Return which rows an update set out to drop, and did not."""
    dropped = {
        (report.path.parent.name, report.path.stem, key_text(change.key))
        for report in reports
        if isinstance(report, UpdateReport)
        for change in report.dropped
    }
    left = [
        row
        for file in files
        for row in file.committed
        if row.verdict == "orphan" and row.passed and (file.kernel, row.device, key_text(row.key)) not in dropped
    ]
    why = "only an update that measured every row of their specs drops them"
    return [f"{len(left)} rows that nothing reaches were not dropped: {why}: {left[0].reasons[0]}"] if left else []


def _orphans(
    store: Store, kernel: KernelRecord, first: Proposal, device: CommittedDevice, rows: Sequence[Row]
) -> tuple[Key, ...]:
    """Return the keys of rows that no case reaches; none unless all rows of the kernel on this device were measured."""
    stem = store.path_for(first.kernel, device).stem
    keys = [row.key for row in kernel.committed if row.device == stem]
    file = store.read(first.kernel, device)
    if len(keys) != len(rows) or not isinstance(file, CommittedFile):
        return ()
    today = Declared(space=first.space, candidates=(), keys=keys)
    refusals = row_refusals(file, "", today)
    return tuple(refusal.key for refusal in refusals if refusal.code == "unknown_key" and refusal.key is not None)


def _writable(kernel: KernelRecord) -> list[Proposal]:
    return [row.proposal for row in kernel.committed if row.proposal and not _kept_back(kernel, row)]


def _kept_back(kernel: KernelRecord, row: CommittedRecord) -> str:
    """Say why a row that was measured is not written; empty where it is."""
    if row.proposal is None:
        return ""
    if not row.passed:
        return "its item failed"
    failed = [case.id for case in kernel.cases if not case.passed and key_text(case.key) == key_text(row.key)]
    if failed:
        return f"its case {failed[0]} did not pass"
    unselected = _unselected(kernel, row)
    return f"its case {unselected[0]} was not selected" if unselected else ""


def _unselected(kernel: KernelRecord, row: CommittedRecord) -> list[str]:
    """Return the cases of a measured row's key that the run left out."""
    ran = {case.id for case in kernel.cases}
    return [id_ for id_ in row.proposal.cases if id_ not in ran] if row.proposal is not None else []


def _by_file(proposals: Sequence[Proposal]) -> list[list[Proposal]]:
    groups: dict[str, list[Proposal]] = {}
    for proposal in proposals:
        groups.setdefault(msgspec.json.encode([proposal.kernel, proposal.device]).decode(), []).append(proposal)
    return list(groups.values())
