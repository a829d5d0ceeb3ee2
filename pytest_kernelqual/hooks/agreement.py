"""That records and pytest tell the same of every item."""

from msgspec import structs

from pytest_kernelqual.model.record import CaseRecord, CommittedRecord, KernelRecord


def agreeing(kernels: list[KernelRecord], failed: dict[str, str]) -> tuple[list[KernelRecord], list[str]]:
    """Fail the cases whose items failed, and tell what failed that no case or declaration stands for."""
    left = dict(failed)

    def case(record: CaseRecord) -> CaseRecord:
        told = left.pop(record.nodeid, None)
        if told is None or not record.passed:
            return record
        return structs.replace(record, passed=False, failures=[f"the item failed: {told}"])

    def row(record: CommittedRecord) -> CommittedRecord:
        told = failed.get(record.nodeid)
        left.pop(record.nodeid, None)
        if told is None or not record.passed:
            return record
        return structs.replace(record, passed=False, reasons=[*record.reasons, f"the item failed: {told}"])

    changed = [
        structs.replace(
            kernel,
            cases=[case(record) for record in kernel.cases],
            committed=[row(record) for record in kernel.committed],
        )
        for kernel in kernels
    ]
    broken = tuple(kernel.nodeid for kernel in kernels if kernel.problem)
    return changed, [f"{nodeid} failed: {told}" for nodeid, told in left.items() if not nodeid.startswith(broken)]


def hidden(kernels: list[KernelRecord], failed: dict[str, str]) -> list[str]:
    """Return what the records call failed and pytest does not."""
    cases = [
        f"{case.nodeid}: {case.failures[0] if case.failures else 'failed'}"
        for kernel in kernels
        for case in kernel.cases
        if not case.passed and case.nodeid not in failed
    ]
    rows = [
        f"{row.nodeid}: {row.verdict}: {'; '.join(row.reasons)}"
        for kernel in kernels
        for row in kernel.committed
        if not row.passed and row.nodeid not in failed
    ]
    return [*cases, *rows] + [
        f"{kernel.nodeid}: {kernel.problem}"
        for kernel in kernels
        if kernel.problem and not any(nodeid.startswith(kernel.nodeid) for nodeid in failed)
    ]
