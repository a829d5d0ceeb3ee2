"""What launches on compile targets mean for their case."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import structs

from pytest_kernelqual.committed.schema import CommittedDevice
from pytest_kernelqual.model.outcome import TargetOutcome
from pytest_kernelqual.model.target_record import TargetLaunch, TargetRecord

FIXED = "fixed"
_FAILING: frozenset[TargetOutcome] = frozenset({"out_of_resources", "compile_error", "launch_error", "timeout"})


def target_of(device: CommittedDevice) -> str:
    """Return the compile target of a device; it need not be known."""
    architecture = device.architecture
    return f"cuda:{architecture.removeprefix('sm_')}" if device.vendor == "nvidia" else f"hip:{architecture}"


class CommittedConfig(NamedTuple):
    """What a committed file says of the key of a case."""

    device: CommittedDevice
    id: str
    """Of the config."""

    @property
    def target(self) -> str:
        """Return the compile target of the device."""
        return target_of(self.device)


def target_failures(records: Iterable[TargetRecord], committed: Sequence[CommittedConfig]) -> list[str]:
    """Return why a case fails: what production launches, or would launch on a device of its own, cannot be there.

    Other candidates are only recorded.
    """
    failures = []
    for record in records:
        names = {FIXED: [f"fixed launch on {record.target}"]}
        for config in committed:
            if config.target == record.target:
                names.setdefault(config.id, []).append(f"committed config {config.id} of {config.device.name}")
        failures += [
            f"{name}: {launch.outcome}: {launch.reason}"
            for launch in record.launches
            if launch.outcome in _FAILING
            for name in names.get(launch.id, [])
        ]
    return failures


def row_failures(case: str, launches: Iterable[TargetLaunch], target: str) -> list[str]:
    """Return why a committed row fails by what a case of it meets on the row's own device."""
    return [
        f"{case}: {'fixed launch' if launch.id == FIXED else launch.id} on {target}: {launch.outcome}: {launch.reason}"
        for launch in launches
        if launch.outcome in _FAILING
    ]


def newly_fitting(launch: TargetLaunch, before: TargetOutcome | None) -> TargetLaunch:
    """Return a launch that says so where it fits and did not before."""
    return structs.replace(launch, newly_fits=True) if launch.outcome == "fits" and before in _FAILING else launch
