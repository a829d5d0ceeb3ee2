"""What a run tells of devices that are not there; like all records, a part of `qualified-configurations.json`."""

from typing import Any

from msgspec import Struct, field

from pytest_kernelqual.model.outcome import TargetOutcome


class TargetLaunch(Struct, frozen=True, kw_only=True):
    """What a launch would meet on a compile target."""

    id: str
    """Of the candidate; `fixed` is the fixed launch."""
    outcome: TargetOutcome
    reason: str = ""
    resources: dict[str, int] = field(default_factory=dict)
    """What the compiled code takes, the largest figure of each kind: `shared_bytes`, `registers`, ..."""
    newly_fits: bool = False
    """It did not fit by the last report; told of committed configs on devices that are not their own."""


class TargetRecord(Struct, frozen=True, kw_only=True):
    """A case on a compile target: nothing was launched."""

    target: str
    shared_limit_bytes: int
    launches: list[TargetLaunch] = field(default_factory=list)
    """The fixed launch, then every candidate."""


class CompiledCase(Struct, frozen=True, kw_only=True):
    """A case of a committed row, compiled for devices that the run does not have."""

    id: str
    key: dict[str, Any]
    targets: list[TargetRecord]
    """The fixed launch and the row's config on each; `unknown` where the time was over before."""


class CompiledRows(Struct, frozen=True, kw_only=True):
    """The rows of a committed file, compiled for devices that the run does not have."""

    kernel: str
    nodeid: str
    """Of the file's item."""
    device: str
    """Product name."""
    target: str
    """The compile target of that device; others are those of the devices of other files."""
    cases: list[CompiledCase]
