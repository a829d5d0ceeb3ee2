"""What launches on compile targets mean for their case."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pytest_kernelqual.committed.schema import CommittedDevice
from pytest_kernelqual.model.outcome import TargetOutcome
from pytest_kernelqual.model.record import TargetRecord

FIXED = "fixed"
_FAILING: frozenset[TargetOutcome] = frozenset({"out_of_resources", "compile_error", "timeout"})


class CommittedConfig(NamedTuple):
    """What a committed file says of the key of a case."""

    device: CommittedDevice
    id: str
    """Of the config."""

    @property
    def target(self) -> str:
        """Return the compile target of the device."""
        architecture = self.device.architecture
        return f"cuda:{architecture.removeprefix('sm_')}" if self.device.vendor == "nvidia" else f"hip:{architecture}"


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
