"""What a run tells of devices that are not there; like all records, a part of `qualified-configurations.json`."""

from typing import Any

from msgspec import Struct, field

from pytest_kernelqual.model.outcome import Evidence, TargetOutcome


class TargetLaunch(Struct, frozen=True, kw_only=True):
    """What a launch would meet on a compile target."""

    id: str
    """Of the candidate; `fixed` is the fixed launch."""
    outcome: TargetOutcome
    reason: str = ""
    resources: dict[str, int] = field(default_factory=dict)
    """What the compiled code takes, the largest figure of each kind: `shared_bytes`, `registers`, ..."""
    evidence: Evidence | None = None
    """`identical_binary` or `identical_order` as the fixed launch, where either is known of a candidate that fits."""
    newly_fits: bool = False
    """It did not fit by the last report; told of committed configs on devices that are not their own."""


class TargetRecord(Struct, frozen=True, kw_only=True):
    """A case on a compile target: nothing was launched."""

    target: str
    shared_limit_bytes: int
    launches: list[TargetLaunch] = field(default_factory=list)
    """The fixed launch, then every candidate."""
    dead_axes: list[str] = field(default_factory=list)
    """Parameters of the candidates of which no value changes what is launched there."""


class TargetNeeds(Struct, frozen=True, kw_only=True):
    """All cases of a kernel on a compile target: the largest need of each kind, of all launches that fit."""

    target: str
    outcomes: dict[str, int]
    """Launches by outcome, the fixed launches among them."""
    evidence: dict[str, int] = field(default_factory=dict)
    """Candidates by evidence, the fixed launch's own config among them."""
    needs: dict[str, int] = field(default_factory=dict)
    """As in `resources`."""
    headroom: dict[str, int] = field(default_factory=dict)
    """What is left of `shared_bytes`, `threads`, `registers` and `tensor_columns`, where there is a limit."""


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
