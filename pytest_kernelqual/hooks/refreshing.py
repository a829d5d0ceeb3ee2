"""What is told of all committed rows at the end of a run: whether any was timed, and what a refresh writes."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

import msgspec

from pytest_kernelqual.committed.membership import Declared, row_refusals
from pytest_kernelqual.committed.refusal import Refusal
from pytest_kernelqual.committed.schema import CommittedDevice, CommittedFile, Key, Row, Toolchain, key_text
from pytest_kernelqual.committed.store import Changes, Store, UpdateReport
from pytest_kernelqual.model.record import Environment, KernelRecord, Proposal

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
    """Merge measured rows into their files, one update a file, and never from a failed case.

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
    failed = {key_text(case.key) for case in kernel.cases if not case.passed}
    return [row.proposal for row in kernel.committed if row.proposal and row.passed and key_text(row.key) not in failed]


def _by_file(proposals: Sequence[Proposal]) -> list[list[Proposal]]:
    groups: dict[str, list[Proposal]] = {}
    for proposal in proposals:
        groups.setdefault(msgspec.json.encode([proposal.kernel, proposal.device]).decode(), []).append(proposal)
    return list(groups.values())
