"""Messages between the pytest process and the device process: one JSON object a line, tagged by type."""

from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from pytest_kernelqual.model.code import CodeRead, ReadCode
from pytest_kernelqual.model.config import Scalar
from pytest_kernelqual.model.outcome import Cache, Evidence, Outcome, Phase
from pytest_kernelqual.model.record import Deviation, Environment
from pytest_kernelqual.model.repro import InputsSaved, LaunchSaved, SaveInputs, SaveLaunch
from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.model.target_record import TargetLaunch
from pytest_kernelqual.model.timing import OpenTiming, Sample, Sampled, TimingOpened
from pytest_kernelqual.model.values import encodable


class Start(Struct, frozen=True, tag=True, kw_only=True):
    """First line to a new device process."""

    settings: Settings


class Describe(Struct, frozen=True, tag=True, kw_only=True):
    """Import a spec file and tell what it declares; touches no device."""

    path: str


class ReadEnvironment(Struct, frozen=True, tag=True, kw_only=True):
    """Tell the device and the versions; touches the device."""


class Open(Struct, frozen=True, tag=True, kw_only=True):
    """Build the inputs of a case for one seed and run the fixed launch; replaces what was open."""

    path: str
    spec: str
    case: str
    seed_index: int = 0
    profile: str = "normal"
    """A profile or a layout probe."""
    for_timing: bool = False
    """Run the fixed launch once and digest nothing: what is needed to time, and no baseline."""
    ask_oracle: bool = True
    """False where the oracle was asked about this input set before."""
    inputs: str = ""
    """A file of inputs that take the place of those that the builder makes."""


class Try(Struct, frozen=True, tag=True, kw_only=True):
    """Run one candidate of the open case."""

    config: dict[str, Scalar]
    look: bool = False
    """Tell first what it would launch, and run only what is not known by that."""


class ReadOutput(Struct, frozen=True, tag=True, kw_only=True):
    """Send the output bytes of the fixed launch of the open case."""


class Survey(Struct, frozen=True, tag=True, kw_only=True):
    """Find out what cases would launch, without launching, and compile it in parallel; replaces what was open."""

    path: str
    cases: list[tuple[str, str]]
    """Names of specs and ids of their cases."""
    configs: list[list[dict[str, Scalar]]] | None = None
    """Of each case, what to look at beside the fixed launch; None: all candidates."""
    quiet: bool = False  # tells no progress: nobody reads it meanwhile
    beside: "list[Survey]" = field(default_factory=list)  # of other files, compiled together with this one


Request = (
    Describe
    | ReadEnvironment
    | Survey
    | Open
    | Try
    | ReadOutput
    | OpenTiming
    | Sample
    | ReadCode
    | SaveInputs
    | SaveLaunch
)


class Hello(Struct, frozen=True, tag=True, kw_only=True):
    """The device process is ready; `kind` is what it will run kernels on."""

    kind: Literal["cuda", "hip", "interpreter"]
    devices: list[str] = field(default_factory=list)
    """Names of the devices that workers share out, as the visibility variable takes them."""
    show: str = ""
    """The device that the environment must show from the start: it was too late to hide the others."""


class Progress(Struct, frozen=True, tag=True, kw_only=True):
    """Sent when a phase begins; each phase has its own time limit."""

    phase: Phase
    launches: int = 0
    compiled: tuple[int, int] | None = None
    """How many code objects a survey has compiled so far, and of how many."""


class CaseInfo(Struct, frozen=True, kw_only=True):
    """A declared case, or one that a probe derives, as data."""

    id: str
    axes: dict[str, Any]
    key: dict[str, Any]
    ran_as: dict[str, Any] | None = None
    derived: bool = False
    """Made by a probe: no committed config is kept for it."""


class CandidateInfo(Struct, frozen=True, kw_only=True):
    """A declared candidate as data; equal `program` means that one run stands for both."""

    id: str
    config: dict[str, Scalar]
    program: str


class MarkInfo(Struct, frozen=True, kw_only=True):
    """A pytest mark as data."""

    name: str
    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)


class SpecInfo(Struct, frozen=True, kw_only=True):
    """A declared spec as data; with `problem` set, the rest may be empty."""

    name: str
    line: int
    problem: str = ""
    doc: str = ""
    space: str = ""
    """Selection-space token: candidates, kernel and launch code."""
    cases: list[CaseInfo] = field(default_factory=list)
    candidates: list[CandidateInfo] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    screen: str | None = None
    marks: list[MarkInfo] = field(default_factory=list)
    seeds: int | None = None
    repeats: int | None = None
    profiles: tuple[str, ...] | None = None
    probes: tuple[str, ...] = ()
    run_timeout_s: float | None = None
    compile_timeout_s: float | None = None
    tolerance_pct: float | None = None
    near_best_pct: float | None = None
    decay_pct: float | None = None
    cache: Cache = "cold"
    batch_invariant: bool = False
    """Rows must have the same bytes alone and in the batch."""
    require_evidence: Evidence | None = None


class Described(Struct, frozen=True, tag=True, kw_only=True):
    """What a spec file declares; `problem` tells why it could not be imported, with the user's traceback."""

    module: str
    specs: list[SpecInfo] = field(default_factory=list)
    problem: str = ""


class InputInfo(Struct, frozen=True, kw_only=True):
    """One tensor that the builder made."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...]
    digest: str


class Opened(Struct, frozen=True, tag=True, kw_only=True):
    """The fixed launch of the case on one seed; unless `qualified`, nothing can be compared with it.

    `mismatch`: it differs from the oracle, and candidates can be tried in order to tell which of the two is suspect.
    """

    outcome: Outcome
    reason: str = ""
    config: dict[str, Scalar] = field(default_factory=dict)
    output: str | None = None
    inputs: list[InputInfo] = field(default_factory=list)
    oracle: list[Deviation] = field(default_factory=list)
    detail: dict[str, Any] = field(default_factory=dict)
    resources: dict[str, int] = field(default_factory=dict)
    launches: int = 0
    provocation: list[str] = field(default_factory=list)
    """Of each launch; see `FixedRecord`."""
    set_aside: str = ""
    """Why nothing can be told from an input set of a profile; empty where something can."""
    batch_invariant: bool | None = None
    batch_note: str = ""
    fatal: bool = False
    """The device is unusable in this process, which ends after this reply."""


class Tried(Struct, frozen=True, tag=True, kw_only=True):
    """One candidate on one seed."""

    outcome: Outcome
    reason: str = ""
    phase: Phase | None = None
    evidence: Evidence | None = None
    detail: dict[str, Any] = field(default_factory=dict)
    resources: dict[str, int] = field(default_factory=dict)
    launches: int = 0
    provocation: list[str] = field(default_factory=list)
    """Of each launch; see `CandidateRecord`."""
    batch_invariant: bool | None = None
    batch_note: str = ""
    same_as_fixed: bool = False
    program: str = ""
    """Digest of what it launches; empty where that was not asked for or is not known."""
    order: str = ""
    """Digest of its arithmetic order; empty where it is unknown or was not asked for."""
    fixed_order: str = ""
    """The same of the fixed launch."""
    fragile: list[str] = field(default_factory=list)
    """What differs in the order, or why it is unknown, although the bytes are equal."""
    same_program_as: str | None = None
    """Id of the candidate whose attempt on this input set stands for this one."""
    within_oracle: bool | None = None
    """It agrees with the oracle; only told where the fixed launch does not."""
    fatal: bool = False


class CompileFailure(Struct, frozen=True, kw_only=True):
    """A launch whose kernel does not compile."""

    spec: str
    case: str
    config: str | None
    """Id of the candidate; None is the fixed launch."""
    outcome: Outcome
    reason: str
    detail: dict[str, Any] = field(default_factory=dict)


class CompiledFor(Struct, frozen=True, kw_only=True):
    """One launch on a compile target."""

    spec: str
    case: str
    launch: TargetLaunch
    dead_axes: list[str] = field(default_factory=list)  # of the case, beside its fixed launch


class Surveyed(Struct, frozen=True, tag=True, kw_only=True):
    """Answers `Survey`; what could not be found out is compiled by the launches themselves."""

    failures: list[CompileFailure] = field(default_factory=list)
    launches: int = 0
    """Dry launches that were looked at."""
    cached: int = 0
    """Code objects that Triton's cache had."""
    compiled: int = 0
    """Code objects that were compiled, here or by another process meanwhile."""
    failed: int = 0
    """Code objects that do not compile, or of which nothing is known."""
    launched: list[CompiledFor] = field(default_factory=list)
    """For targets: the fixed launch and every candidate of each case."""
    not_surveyed: list[str] = field(default_factory=list)
    """Launches that could not be looked at, one line each."""
    tainted: bool = False
    """Something of the dry launches was kept, which later launches in this process could find."""
    fatal: bool = False
    """The device is unusable in this process, which ends after this reply."""


class OutputBytes(Struct, frozen=True, kw_only=True):
    """The addressable bytes of one output, in row-major order."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    data: bytes


class Output(Struct, frozen=True, tag=True, kw_only=True):
    """Answers `ReadOutput`."""

    outputs: list[OutputBytes]


class EnvironmentRead(Struct, frozen=True, tag=True, kw_only=True):
    """Answers `ReadEnvironment`."""

    environment: Environment


class Refused(Struct, frozen=True, tag=True, kw_only=True):
    """The request could not be answered: a wrong device, a fault of the tool itself."""

    message: str


Reply = (
    Hello
    | Progress
    | Described
    | Surveyed
    | Opened
    | Tried
    | Output
    | TimingOpened
    | Sampled
    | EnvironmentRead
    | CodeRead
    | InputsSaved
    | LaunchSaved
    | Refused
)


def inputs_digest(opened: Iterable[Opened]) -> str | None:
    """Return the digest of the inputs of input sets, in their order; None where none were made."""
    made = [item for one in opened for item in one.inputs]
    if not made:
        return None
    lines = "\n".join(f"{item.name} {[*item.shape]} {item.dtype} {[*item.strides]} {item.digest}" for item in made)
    return f"sha256:{sha256(lines.encode()).hexdigest()}"


_encoder = msgspec.json.Encoder()
decode_start = msgspec.json.Decoder(Start).decode
decode_request = msgspec.json.Decoder(Request).decode
decode_reply = msgspec.json.Decoder(Reply).decode


def encode(message: Start | Request | Reply) -> bytes:
    """Return the line of a message, with its newline; halves of surrogate pairs in its texts are spelt out."""
    try:
        return _encoder.encode(message) + b"\n"
    except UnicodeEncodeError:  # a file name, or what a user's code raised
        return _encoder.encode(_encodable(msgspec.to_builtins(message))) + b"\n"


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, dict):
        return {_encodable(name): _encodable(item) for name, item in value.items()}
    return [_encodable(item) for item in value] if isinstance(value, list | tuple) else value
