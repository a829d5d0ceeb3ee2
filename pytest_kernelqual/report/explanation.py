"""All that a report knows of one candidate, and what its code is beside the fixed launch's."""

from typing import Any, Literal

from msgspec import Struct, field

from pytest_kernelqual.errors import SettingsError
from pytest_kernelqual.model.config import Scalar
from pytest_kernelqual.model.record import (
    CandidateRecord,
    CommittedRecord,
    DeviceDescriptor,
    Document,
    Environment,
    FixedRecord,
    InputSetRecord,
)
from pytest_kernelqual.model.target_record import TargetLaunch
from pytest_kernelqual.model.targets import Target, find_target
from pytest_kernelqual.report.choosing import Chosen, elsewhere
from pytest_kernelqual.report.code_differences import CodeDifference

EXPLANATION_SCHEMA = "kernelqual/candidate-explanation/1"

_NOT_STRONGER = {
    "identical_binary": "nothing is stronger",
    "identical_order": "it launches another program than the fixed launch, of the same arithmetic order",
    "identical_bytes": "the arithmetic order is another one or is not known, so that other inputs may differ",
    "within_tolerance": "the bytes differ",
    "interpreted": "the Triton interpreter shows semantics only: no compiled code was looked at",
}


class Elsewhere(Struct, frozen=True, kw_only=True):
    """The same candidate in another case."""

    case: str
    outcome: str
    reason: str = ""


class OnTarget(Struct, frozen=True, kw_only=True):
    """The candidate on a compile target."""

    target: str
    shared_limit_bytes: int
    launch: TargetLaunch


class Explanation(Struct, frozen=True, kw_only=True):
    """What `kernelqual explain` tells."""

    schema: Literal["kernelqual/candidate-explanation/1"] = EXPLANATION_SCHEMA  # type: ignore[assignment]
    digest: str
    """Of the report."""
    environment: Environment | None
    kernel: str
    nodeid: str
    """Of the item."""
    screen: str | None
    notes: list[str]
    case_id: str
    case: dict[str, Any]
    key: dict[str, Any]
    ran_as: dict[str, Any] | None
    input_sets: list[InputSetRecord]
    fixed: FixedRecord
    candidate: CandidateRecord
    not_stronger: list[str]
    """Why the evidence is not stronger, or why there is none."""
    limits: dict[str, int]
    """What the device lets a block, and a thread, have of the resources; empty where that is not tabulated."""
    same_output: list[str] = field(default_factory=list)
    """Candidates of the case whose output has the same bytes, where the report holds their digests."""
    elsewhere: list[Elsewhere] = field(default_factory=list)
    targets: list[OnTarget] = field(default_factory=list)
    committed: list[CommittedRecord] = field(default_factory=list)
    """Rows of the case's key that hold this config, or were timed against it."""
    code: CodeDifference | None = None
    no_code: str = ""
    """Why there is no code to compare."""


def explain(document: Document, chosen: Chosen, code: CodeDifference | None = None, no_code: str = "") -> Explanation:
    """Gather what a report tells of a candidate."""
    kernel, case, record = chosen
    return Explanation(
        digest=document.digest,
        environment=document.environment,
        kernel=kernel.kernel,
        nodeid=case.nodeid,
        screen=kernel.screen,
        notes=kernel.notes,
        case_id=case.id,
        case=case.case,
        key=case.key,
        ran_as=case.ran_as,
        input_sets=case.input_sets,
        fixed=case.fixed,
        candidate=record,
        not_stronger=_not_stronger(record),
        limits=_limits(document.environment),
        same_output=[
            one.id
            for one in case.candidates
            if one is not record and one.detail.get("output") and one.detail["output"] == record.detail.get("output")
        ],
        elsewhere=[
            Elsewhere(case=other.id, outcome=same.outcome, reason=same.reason)
            for other, same in elsewhere(document, chosen)
        ],
        targets=[
            OnTarget(target=one.target, shared_limit_bytes=one.shared_limit_bytes, launch=launch)
            for one in case.targets
            for launch in one.launches
            if launch.id == record.id
        ],
        committed=[
            row
            for row in kernel.committed
            if row.key == case.key
            and (_same(row.config, record.config) or any(record.id in (gate.a, gate.b) for gate in row.gates))
        ],
        code=code,
        no_code=no_code,
    )


def target_of(device: DeviceDescriptor) -> Target | None:
    """Return the compile target that a device is, if it is tabulated."""
    if device.kind == "interpreter":
        return None
    name = f"hip:{device.architecture}" if device.kind == "hip" else f"cuda:{device.architecture.removeprefix('sm_')}"
    try:
        return find_target(name)
    except SettingsError:
        return None


def _limits(environment: Environment | None) -> dict[str, int]:
    target = target_of(environment.device) if environment is not None else None
    if target is None:
        return {}
    return {
        "shared_bytes": target.shared_bytes,
        "threads": target.threads,
        **({"tensor_columns": target.tensor_columns} if target.tensor_columns else {}),
    }


def _not_stronger(record: CandidateRecord) -> list[str]:
    if record.evidence is None:
        return ["there is none: only a candidate that is qualified or within tolerance has evidence"]
    told = [record.reason] if record.evidence == "within_tolerance" and record.reason else []
    return [_NOT_STRONGER[record.evidence], *told, *record.fragile]


def _same(config: dict[str, Scalar] | None, other: dict[str, Scalar]) -> bool:
    return config is not None and [*map(repr, sorted(config.items()))] == [*map(repr, sorted(other.items()))]
