"""What all cases of a kernel need on a compile target together."""

from collections import Counter

from pytest_kernelqual.errors import SettingsError
from pytest_kernelqual.model.record import KernelRecord
from pytest_kernelqual.model.target_record import TargetNeeds, TargetRecord
from pytest_kernelqual.model.targets import find_target


def target_needs(kernel: KernelRecord) -> list[TargetNeeds]:
    """Return one entry for each target, in the order of the records."""
    by_target: dict[str, list[TargetRecord]] = {}
    for case in kernel.cases:
        for record in case.targets:
            by_target.setdefault(record.target, []).append(record)
    return [_of(target, records) for target, records in by_target.items()]


def _of(target: str, records: list[TargetRecord]) -> TargetNeeds:
    launches = [launch for record in records for launch in record.launches]
    taken = [launch.resources for launch in launches if launch.outcome == "fits"]
    needs = {name: max(one.get(name, 0) for one in taken) for name in sorted({name for one in taken for name in one})}
    limits = {"shared_bytes": records[0].shared_limit_bytes, **_limits(target)}
    return TargetNeeds(
        target=target,
        outcomes=dict(Counter(launch.outcome for launch in launches)),
        evidence=dict(Counter(launch.evidence for launch in launches if launch.evidence is not None)),
        needs=needs,
        headroom={name: limits[name] - need for name, need in needs.items() if limits.get(name)},
    )


def _limits(target: str) -> dict[str, int]:
    """Return the limits besides shared memory; a report of another version may hold a target that is not known here."""
    try:
        found = find_target(target)
    except SettingsError:
        return {}
    return {"threads": found.threads, "registers": found.registers, "tensor_columns": found.tensor_columns}
