"""What a run produces: one record per candidate, case and kernel, and the document that holds them.

The structs are the JSON fields of `qualified-configurations.json`; a change here is a change of a promise.
"""

from typing import Any, Literal

from msgspec import Struct, field

from pytest_kernelqual.model.config import Scalar
from pytest_kernelqual.model.outcome import Evidence, Outcome, Phase
from pytest_kernelqual.model.target_record import CompiledRows, TargetNeeds, TargetRecord

DOCUMENT_SCHEMA = "kernelqual/qualified-configurations/1"

Diagnosis = Literal["shape", "sign_of_zero", "nan_payload", "rounding", "structural"]


class Mismatch(Struct, frozen=True, kw_only=True):
    """How one output of a candidate differs from the fixed launch."""

    output: str
    """Which output: `return`, `return[1]`, `input x`, `input x.grad`."""
    elements: int
    """Addressable elements of the output."""
    differing: int
    """Elements of which any byte differs."""
    first_index: tuple[int, ...] | None = None
    """Index of the first differing element in row-major order."""
    expected: str | None = None
    """The first differing element of the fixed launch, as text."""
    actual: str | None = None
    """The same element of the candidate, as text."""
    max_absolute: float | None = None
    """Largest absolute difference over elements finite in both; None where there is none."""
    max_relative: float | None = None
    """Largest absolute difference divided by the absolute expected value, over nonzero expected values."""
    max_ulp: int | None = None
    """Largest distance in units in the last place over elements finite in both; floating types only."""
    nonfinite_expected: int = 0
    """NaN and infinite elements of the fixed launch."""
    nonfinite_actual: int = 0
    """NaN and infinite elements of the candidate."""
    diagnosis: Diagnosis = "structural"
    """`rounding` when every differing element is finite in both and within a few ULP or a small relative difference."""
    note: str = ""
    """The difference of shape, dtype or strides, in words."""
    beyond_tolerance: int | None = None
    """Differing elements that are not within the spec's tolerance; None where it declares none."""


class Deviation(Struct, frozen=True, kw_only=True):
    """How far one output of the fixed launch is from the oracle's reference."""

    output: str
    elements: int
    beyond: int
    """Elements that are not within the oracle's tolerance."""
    worst_index: tuple[int, ...] | None = None
    """Index of the element that is furthest off, among those beyond where there are any."""
    expected: str | None = None
    """That element of the reference, as text."""
    actual: str | None = None
    """The same element of the fixed launch, as text."""
    max_absolute: float | None = None
    """Largest absolute difference over elements finite in both."""
    max_relative: float | None = None
    """Largest absolute difference divided by the absolute reference, over nonzero references."""
    max_ulp: int | None = None
    """Largest distance from the rounded reference in units in the last place of the output; floating types only."""


class CandidateRecord(Struct, frozen=True, kw_only=True):
    """The outcome of one candidate of one case."""

    id: str
    config: dict[str, Scalar]
    outcome: Outcome
    reason: str = ""
    """One line for people; empty for a plain `qualified`."""
    evidence: Evidence | None = None
    """Only a candidate that is qualified or within tolerance has evidence."""
    lacks: Evidence | None = None
    """The evidence that is required, where `evidence` is weaker."""
    phase: Phase | None = None
    """Where a candidate that did not qualify ended."""
    detail: dict[str, Any] = field(default_factory=dict)
    """Facts by outcome: `mismatches`, `required`, `limit`, `kind`, `input_set`, `input_sets_differing`, `attempts`,
    `log`."""
    resources: dict[str, int] = field(default_factory=dict)
    """What the compiled code needs: `shared_bytes`, `num_warps`, `registers`, `spills`; empty under the interpreter."""
    seeds: int = 0
    """Input sets on which the candidate was tried."""
    launches: int = 0
    """Times that the candidate was launched."""
    order: str = ""
    """Digest of the arithmetic order of a qualified candidate; empty where it is unknown or was not asked for."""
    fragile: list[str] = field(default_factory=list)
    """Why equal bytes may be luck: what differs in the arithmetic order, or could not be read of it."""
    provocation: list[str] = field(default_factory=list)
    """Of each launch on an input set: `dirty`, `dirty+noise`, or empty text; no entries where none was provoked."""
    batch_invariant: bool | None = None
    """Rows alone and inside the whole batch gave the same bytes; None where it was not asked for or cannot be told."""
    batch_note: str = ""
    """What differs, or why it cannot be told."""
    same_program_as: str | None = None
    """Id of the candidate whose run stands for this one, which launches the same program."""
    same_as_fixed: bool = False
    """The config is the fixed launch's own, so that its equality proves nothing."""


GateName = Literal["control", "not_slower_than_fixed", "near_best", "decay", "challenger", "speed_up"]
"""The last two are of a refresh: the best challenger against the incumbent, and what is committed against fixed."""
SPEED_UP_GATES: tuple[GateName, ...] = ("not_slower_than_fixed", "speed_up")
"""Gates of which one gave the speed-up of a row: in a check, and in an update."""
GateVerdict = Literal["ok", "slow", "warned", "inconclusive", "unmeasurable"]


class GateRecord(Struct, frozen=True, kw_only=True):
    """One comparison of two arms, A and B, and what it decided."""

    gate: GateName
    a: str
    """Id of the config of arm A, or `fixed`."""
    b: str
    margin_pct: float
    verdict: GateVerdict
    reason: str = ""
    ratio: list[float] = field(default_factory=list)
    """Time of B / time of A: estimate, lower and upper bound of the first process."""
    processes: list[float] = field(default_factory=list)
    """The estimate of every process that was asked; a suspect is judged by the smallest."""
    time_us: list[float] = field(default_factory=list)
    """Median time of one launch of A and of B, in microseconds."""
    method: str = ""
    cache: str = ""
    ring: int = 0
    launches: int = 0
    rounds: list[list[float]] = field(default_factory=list)
    """Raw samples in microseconds per launch, four a round in the order A, B, B, A; of the first process."""
    confirmations: list[list[list[float]]] = field(default_factory=list)
    """The rounds of each fresh process that measured the same."""


CommittedVerdict = Literal[
    "ok",
    "slower_than_fixed",
    "slower_than_best",
    "decayed",
    "not_qualified",
    "drifted",
    "stale",
    "orphan",
    "missing",
    "duplicate",
    "bad_file",
    "inconclusive",
    "unmeasurable",
    "not_timed",
]


ProductionBytes = Literal["same", "changed", "not_comparable", "unknown"]


class Proposal(Struct, frozen=True, kw_only=True):
    """A row that a refresh measured, as it is written into the committed file."""

    kernel: str
    device: dict[str, Any]
    space: str
    row: dict[str, Any]
    cases: list[str] = field(default_factory=list)
    """Ids of all cases with its key: it is written only if each of them ran and passed in the same run."""


class CommittedRecord(Struct, frozen=True, kw_only=True):
    """What became of one row of a committed file, or of the row that is missing."""

    device: str
    """File name of the device, without its suffix."""
    key: dict[str, Any]
    nodeid: str = ""
    file: str = ""
    """Path of the committed file from where node ids start; empty where there is none, or it lies elsewhere."""
    line: int = 0
    """Of the row in its file; 0 where it is not known."""
    config: dict[str, Scalar] | None = None
    """None: the fixed launch is kept."""
    evidence: Evidence | None = None
    """The weakest that this run found on the cases of the key."""
    verdict: CommittedVerdict = "not_timed"
    reasons: list[str] = field(default_factory=list)
    production: ProductionBytes = "unknown"
    """The fixed launch's bytes against those stored in the row; `not_comparable` where the inputs are others."""
    gates: list[GateRecord] = field(default_factory=list)
    speed_up: float | None = None
    """Fixed time / committed time of this run."""
    timed_at: str = ""
    """UTC, ISO 8601: start of the run that timed the row last; under a budget from the report before, if need be."""
    proposal: Proposal | None = None
    """What --kernelqual-update found."""
    passed: bool = False
    device_uuid: str = ""
    """The device of the process that checked it."""
    duration_s: float = 0.0


class FixedRecord(Struct, frozen=True, kw_only=True):
    """The outcome of the fixed launch of one case."""

    outcome: Outcome
    reason: str = ""
    config: dict[str, Scalar] = field(default_factory=dict)
    """What production launched: values of the meta-parameters and launch options that are known."""
    output: str | None = None
    """`sha256:` digest of the output bytes, shapes, dtypes and strides for the first seed."""
    oracle: list[Deviation] = field(default_factory=list)
    """How far the output is from the spec's oracle: for each output that it judges, the worst of all input sets."""
    inputs: str | None = None
    """`sha256:` digest of the inputs that gave `output`."""
    detail: dict[str, Any] = field(default_factory=dict)
    resources: dict[str, int] = field(default_factory=dict)
    """What the compiled code needs, as for candidates."""
    order: str = ""
    """Digest of its arithmetic order, as for candidates."""
    launches: int = 0
    provocation: list[str] = field(default_factory=list)
    """Of the three launches that were compared, as for candidates."""
    batch_invariant: bool | None = None
    """Rows alone and inside the whole batch gave the same bytes; None where it was not asked for or cannot be told."""
    batch_note: str = ""
    """What differs, or why it cannot be told."""


class InputSetRecord(Struct, frozen=True, kw_only=True):
    """One set of inputs of a case; with the run's seed, enough to make them again."""

    profile: str
    """A profile, or a layout probe."""
    seed: int
    """Counts the sets of one profile."""
    set_aside: str = ""
    """Why nothing was tried on it; empty where something was."""
    declared: bool = False
    """The spec itself names the profile or probe."""


class CaseRecord(Struct, frozen=True, kw_only=True):
    """Everything that one case produced."""

    id: str
    case: dict[str, Any]
    key: dict[str, Any]
    ran_as: dict[str, Any] | None = None
    """The smaller axes that the interpreter ran, where they differ from `case`."""
    nodeid: str = ""
    inputs: str | None = None
    """`sha256:` digest of the input bytes, shapes, dtypes and strides over all seeds."""
    input_sets: list[InputSetRecord] = field(default_factory=list)
    """The sets of inputs that were made, in their order."""
    fixed: FixedRecord
    candidates: list[CandidateRecord] = field(default_factory=list)
    targets: list[TargetRecord] = field(default_factory=list)
    """What the launches of the case would meet on compile targets."""
    dead_axes: list[str] = field(default_factory=list)
    """Parameters of the candidates of which no value changes what is launched."""
    passed: bool = False
    failures: list[str] = field(default_factory=list)
    """Why the item failed, one line each; empty when it passed."""
    restarts: int = 0
    """Times that the device process had to be started again."""
    device_uuid: str = ""
    """The device that ran it."""
    duration_s: float = 0.0


class KernelRecord(Struct, frozen=True, kw_only=True):
    """One spec with its cases."""

    kernel: str
    nodeid: str
    line: int = 0
    """Of the spec, or of the hand-written test, in its file; 0 where it is not known."""
    screen: str | None = None
    """Why bad candidates are only recorded, where the spec says so."""
    notes: list[str] = field(default_factory=list)
    """What a reader must know, for example which config of an autotuned kernel is the fixed launch."""
    cases: list[CaseRecord] = field(default_factory=list)
    committed: list[CommittedRecord] = field(default_factory=list)
    targets: list[TargetNeeds] = field(default_factory=list)
    """What its launches need on compile targets, all cases together."""
    problem: str = ""
    """Why nothing ran: a file that does not import, a wrong declaration."""


class DeviceDescriptor(Struct, frozen=True, kw_only=True):
    """The device that ran the kernels; `kind` is `cuda`, `hip` or `interpreter`."""

    kind: Literal["cuda", "hip", "interpreter"]
    name: str
    architecture: str
    compute_units: int = 0
    memory_bytes: int = 0
    uuid: str = ""
    """Empty in the report of a run that used several: `devices` of the environment tells them."""


class Environment(Struct, frozen=True, kw_only=True):
    """Provenance of a run; versions that are not installed are empty."""

    device: DeviceDescriptor
    devices: list[str] = field(default_factory=list)
    """UUIDs of all devices that were used, sorted."""
    driver: str = ""
    runtime: str = ""
    torch: str = ""
    triton: str = ""
    python: str = ""
    kernelqual: str = ""
    seed: int = 0
    seeds: int = 0
    repeats: int = 0
    provocation: str = ""
    """What was done to launches to provoke faults, or why nothing was; empty under the interpreter."""
    disturbance_checks: str = ""
    """`on` where clock, throttling and other processes are looked at around samples; else what is not, and why."""
    profiles: list[str] = field(default_factory=list)
    """Profiles of further input sets, unless a spec says otherwise."""
    started_at: str = ""
    """UTC, ISO 8601."""
    duration_s: float = 0.0


class Controls(Struct, frozen=True, kw_only=True):
    """How much was really done."""

    compared: int = 0
    """Candidate and case pairs whose bytes were compared with the fixed launch (its own config not counted)."""
    pairs: int = 0
    """Kernel and config pairs with at least one comparison."""
    outcomes: dict[str, int] = field(default_factory=dict)
    """Candidate and case pairs by outcome."""
    evidence: dict[str, int] = field(default_factory=dict)
    """Qualified candidate and case pairs by evidence; the fixed launch's own config is not counted."""


class DeclaredItem(Struct, frozen=True, kw_only=True):
    """One item that the run knew of, selected or not."""

    nodeid: str
    kernel: str
    """Node id of its kernel."""
    place: tuple[int, int]
    """Of its spec in the file, and of the item in its spec: items are declared by file, place and node id."""
    selected: bool = True


class Document(Struct, frozen=True, kw_only=True):
    """`qualified-configurations.json`."""

    schema: Literal["kernelqual/qualified-configurations/1"] = DOCUMENT_SCHEMA  # type: ignore[assignment]
    digest: str
    """`sha256:` over decisions only: no times, paths, dates or seeds."""
    complete: bool
    """Every declared item has a record and nothing narrowed the run."""
    incomplete_because: list[str] = field(default_factory=list)
    session_problems: list[str] = field(default_factory=list)
    """What failed the session as a whole (pytest's item `kernelqual::session`); each is a reason above too."""
    universe: str
    """`sha256:` over the sorted node ids of the run."""
    environment: Environment | None
    """None where no device process ever answered."""
    controls: Controls
    kernels: list[KernelRecord]
    compiled_rows: list[CompiledRows] = field(default_factory=list)
    """What rows of committed files would meet on devices that the run does not have, one entry per file."""
    items: list[DeclaredItem] = field(default_factory=list)
    """What the universe is made of, in declared order; empty in reports of before there were shards."""
    narrowed: dict[str, str] = field(default_factory=dict)
    """Reasons for being incomplete that go away where all shards are merged: `paths`, `deselected`, `lf`, `ignore`."""
