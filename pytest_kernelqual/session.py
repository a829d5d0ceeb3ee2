"""From a declared case to its record: the pipeline."""

import time
from functools import cached_property
from typing import Protocol

from msgspec import structs

from pytest_kernelqual.errors import DeviceProcessError, KernelqualError
from pytest_kernelqual.judge.dead_axes import Launched, dead_axes
from pytest_kernelqual.judge.evidence import held_to
from pytest_kernelqual.judge.reference import disowned, judge_rejected, worst_deviations
from pytest_kernelqual.judge.verdict import (
    ALWAYS_FAIL,
    FINAL,
    REFUSALS,
    UNRELIABLE,
    Attempt,
    case_failures,
    combine,
    worth_trying,
)
from pytest_kernelqual.model.messages import (
    CandidateInfo,
    CaseInfo,
    CompileFailure,
    InputInfo,
    Open,
    Opened,
    Output,
    OutputBytes,
    ReadOutput,
    SpecInfo,
    Tried,
    Try,
    inputs_digest,
)
from pytest_kernelqual.model.outcome import Phase
from pytest_kernelqual.model.profiles import FIRST, NORMAL, InputSet
from pytest_kernelqual.model.record import CandidateRecord, CaseRecord, FixedRecord, InputSetRecord
from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.processes.compile_farm import CaseName, CompileFarm
from pytest_kernelqual.processes.device import Device, Limits
from pytest_kernelqual.processes.endings import counted, told, with_log

# A candidate that faults is tried again, in new device processes, to tell a certainty from a chance.
_MOST_ATTEMPTS = 3


class Listener(Protocol):
    """Hears of results as soon as they are final."""

    def fixed(self, record: FixedRecord) -> None:
        """Take the fixed launch's outcome."""

    def candidate(self, record: CandidateRecord) -> None:
        """Take a candidate's outcome."""

    def progress(self, candidate: str, done: int, total: int) -> None:
        """Hear which candidate is running."""


class CaseSession:
    """Qualify one case of one spec on a device that may die at any time."""

    def __init__(
        self,
        path: str,
        spec: SpecInfo,
        case: CaseInfo,
        *,
        device: Device,
        settings: Settings,
        listener: Listener,
        farm: CompileFarm | None = None,
    ) -> None:
        """Keep what to run; `path` is the spec's file, `farm` knows what does not compile."""
        self._farm = farm
        self._path = path
        self._spec = spec
        self._case = case
        self._device = device
        self._settings = settings
        self._listener = listener
        self._required = spec.require_evidence or settings.require_evidence
        self._limits = Limits(
            inputs_s=settings.start_timeout_s,
            compile_s=spec.compile_timeout_s or settings.compile_timeout_s,
            run_s=spec.run_timeout_s or settings.run_timeout_s,
        )
        self._began = time.monotonic()
        self._held: InputSet | None = None
        """What the device holds now."""
        self._opened: dict[InputSet, Opened] = {}
        self._broken: Opened | None = None
        self._records: dict[str, CandidateRecord] = {}
        self._attempts: dict[str, list[Attempt]] = {}
        """By candidate, one per input set."""
        self._restarts = 0

    @cached_property
    def input_sets(self) -> tuple[InputSet, ...]:
        """Return the input sets of this case; one where no device can be had, which its opening will tell."""
        try:
            kind = self._device.hello().kind
        except KernelqualError:
            return (FIRST,)
        return self._settings.input_sets(kind, self._spec.seeds, self._spec.profiles, self._spec.probes)

    def run(self) -> CaseRecord:
        """Run the fixed launch and every candidate on every input set; never raises for what a kernel does."""
        representatives = {info.program: info for info in reversed(self._spec.candidates)}
        todo = [info for info in self._spec.candidates if representatives[info.program] is info]
        attempts = self._attempts = {info.id: [] for info in todo}
        total, last = len(self.input_sets) * len(todo), self.input_sets[-1]
        for position, input_set in enumerate(self.input_sets):
            for done, info in enumerate(todo):
                tried = attempts[info.id]
                if not worth_trying(tried, input_set) or not self._open(input_set):
                    continue
                self._listener.progress(info.id, done + position * len(todo), total)
                tried.append(Attempt(input_set, self._attempt(info, input_set)))
                if input_set == last or tried[-1].tried.outcome in FINAL:
                    self._finish(info, tried)
        if self._broken is not None and self._broken.outcome == "mismatch":
            self._hear(self._broken, [info for info in todo if info.id not in self._records])
        elif self._broken is None:
            for info in todo:
                if info.id not in self._records:
                    self._finish(info, attempts[info.id])
        return self.record()

    def _hear(self, rejected: Opened, todo: list[CandidateInfo]) -> None:
        """Try candidates on the input set on which the oracle rejects the fixed launch: which of the two is suspect?"""
        input_set = next(one for one, opened in self._opened.items() if opened.outcome == "mismatch")
        heard = []
        for info in todo:
            if self._held != input_set and self._ask_open(input_set, ask_oracle=True).outcome != "mismatch":
                break
            self._held = input_set
            heard.append(counted(self._try(info), "1 of 1"))
        self._broken = judge_rejected(rejected, heard)
        self._listener.fixed(self._fixed())
        for info, tried in zip(todo, heard, strict=False):
            self._finish(info, [*self._attempts[info.id], Attempt(input_set, disowned(tried))])

    def qualify(self, info: CandidateInfo) -> CandidateRecord:
        """Qualify one candidate on every input set, for a hand-written test."""
        tried = self._attempts[info.id] = []
        for input_set in self.input_sets:
            if not worth_trying(tried, input_set):
                continue
            if self._open(input_set):
                tried.append(Attempt(input_set, self._attempt(info, input_set)))
            elif self._broken is not None:
                tried.append(Attempt(input_set, Tried(outcome="not_run", reason=self._no_baseline())))
                break
        record = held_to(combine(info, tried), self._required)
        self._records[info.id] = record
        self._listener.candidate(record)
        return record

    def fixed(self) -> FixedRecord:
        """Return the fixed launch on the first input set."""
        self._open(FIRST)
        return self._fixed()

    def fixed_output(self) -> list[OutputBytes]:
        """Return the fixed launch's output bytes for the first input set; KernelqualError when it did not qualify."""
        if not self._open(FIRST):
            raise KernelqualError(f"the fixed launch gives no output: {self._no_baseline()}")
        reply = self._device.ask(ReadOutput(), self._limits)
        return reply.outputs if isinstance(reply, Output) else []

    def inputs(self) -> list[InputInfo]:
        """Return what the builder made for the first input set."""
        self._open(FIRST)
        return self._opened[FIRST].inputs if FIRST in self._opened else []

    def record(self) -> CaseRecord:
        """Return what is known so far; candidates that were not reached are `not_run`."""
        fixed = self._fixed()
        reason = self._no_baseline() if fixed.outcome != "qualified" else "not reached"
        candidates = [
            self._records.get(info.id)
            or CandidateRecord(id=info.id, config=info.config, outcome="not_run", reason=reason)
            for info in self._spec.candidates
        ]
        declared = {info.id for info in self._spec.candidates}
        candidates += [record for id_, record in self._records.items() if id_ not in declared]
        failures = case_failures(
            fixed,
            candidates,
            screen=self._spec.screen,
            fail_on=self._settings.fail_on,
            batch_required=self._spec.batch_invariant,
        )
        return CaseRecord(
            id=self._case.id,
            case=self._case.axes,
            key=self._case.key,
            ran_as=self._case.ran_as,
            inputs=inputs_digest(self._opened.values()),
            input_sets=[
                InputSetRecord(
                    profile=made.profile,
                    seed=made.seed,
                    set_aside=opened.set_aside,
                    declared=made.profile in (*(self._spec.profiles or ()), *self._spec.probes),
                )
                for made, opened in self._opened.items()
            ],
            fixed=fixed,
            candidates=candidates,
            dead_axes=dead_axes([self._launched(info) for info in self._spec.candidates]),
            passed=not failures,
            failures=failures,
            restarts=self._restarts,
            duration_s=round(time.monotonic() - self._began, 3),
        )

    def _open(self, input_set: InputSet) -> bool:
        """Have the device hold the case on this input set; False where nothing can be compared on it.

        That is the end of the case, unless the input set is put aside: the kernel cannot take its profile.
        """
        known = self._opened.get(input_set)
        if self._broken is not None or (known is not None and known.set_aside):
            return False
        if self._held == input_set:
            return True
        self._held = None
        opened = self._ask_open(input_set, ask_oracle=input_set not in self._opened)
        if opened.outcome in UNRELIABLE and self._spoilt:
            self._device.close()
            self._lost()
            opened = self._ask_open(input_set, ask_oracle=input_set not in self._opened)
        before = self._opened.setdefault(input_set, opened)
        if opened.set_aside:
            return False
        where = "" if input_set.profile == NORMAL else f" (inputs: {input_set})"
        if opened.outcome == "qualified" and before.output != opened.output:
            reason = "the fixed launch gave other bytes in a new device process"
            opened = structs.replace(opened, outcome="nondeterministic", reason=reason)
        if opened.outcome != "qualified":
            self._broken = structs.replace(opened, reason=f"{opened.reason}{where}")
        if opened.outcome in ("qualified", "mismatch"):  # the device holds it
            self._held = input_set
        if before is opened or self._broken is not None:
            self._listener.fixed(self._fixed())
        return self._broken is None

    @property
    def _spoilt(self) -> bool:
        """Tell whether a candidate failed, which may have left behind what no launch after it can put back."""
        return any(one.tried.outcome in ALWAYS_FAIL for attempts in self._attempts.values() for one in attempts)

    def _ask_open(self, input_set: InputSet, *, ask_oracle: bool) -> Opened:
        known = self._compile_failure(None)
        if known is not None:
            detail = {**known.detail, "phase": "compile"}
            return counted(Opened(outcome=known.outcome, reason=known.reason, detail=detail), "1 of 1")
        request = Open(
            path=self._path,
            spec=self._spec.name,
            case=self._case.id,
            seed_index=input_set.seed,
            profile=input_set.profile,
            ask_oracle=ask_oracle,
        )
        try:
            reply = self._device.ask(request, self._limits)
        except DeviceProcessError as death:
            self._lost()
            outcome, reason, detail = told(death)
            return counted(Opened(outcome=outcome, reason=reason, detail=detail, launches=death.launches), "1 of 1")
        except KernelqualError as error:
            return Opened(outcome="not_run", reason=str(error))
        if not isinstance(reply, Opened):
            raise KernelqualError(f"Open was answered by {type(reply).__name__}; this is a fault of the tool")
        if reply.fatal:
            self._lost()
        if input_set.profile != NORMAL and reply.outcome in REFUSALS:
            return structs.replace(reply, set_aside=reply.set_aside or reply.reason)
        return reply

    def _attempt(self, info: CandidateInfo, input_set: InputSet) -> Tried:
        """Try a candidate on the open input set; one that faulted stays a fault, whatever further attempts give."""
        began = time.monotonic()
        first = last = self._try(info, look=self._worth_a_look(info))
        if first.outcome in ("fault", "timeout") and first.phase == "inputs" and self._open(input_set):
            first = last = self._try(info)  # it was looked at, and not run: of the candidate nothing is known by that
        outcomes = [first.outcome]
        # What takes as long to fault as a launch may take at most is not waited for again.
        patient = time.monotonic() - began < self._limits.run_s
        while (
            patient
            and "fault" in outcomes
            and last.outcome != "timeout"
            and len(outcomes) < _MOST_ATTEMPTS
            and self._open(input_set)
            and (last := self._try(info)).outcome != "not_run"
        ):
            outcomes.append(last.outcome)
        return counted(first, f"{outcomes.count(first.outcome)} of {len(outcomes)}")

    def _worth_a_look(self, info: CandidateInfo) -> bool:
        """Tell whether to ask what a candidate launches: not where that can prove no more than is lost already."""
        attempts = self._attempts[info.id]
        if not attempts:
            return True
        first = attempts[0].tried
        programs = [of[0].tried.program for of in self._attempts.values() if of and of[0].tried.program]
        return (
            attempts[-1].tried.evidence in ("identical_binary", "identical_order") or programs.count(first.program) > 1
        )

    def _try(self, info: CandidateInfo, *, look: bool = False) -> Tried:
        known = self._compile_failure(info.id)
        if known is not None:
            return Tried(outcome=known.outcome, reason=known.reason, phase="compile", detail=known.detail)
        try:
            reply = self._device.ask(Try(config=info.config, look=look), self._limits)
        except DeviceProcessError as death:
            self._lost()
            outcome, reason, detail = told(death)
            phases: dict[str, Phase] = {"inputs": "inputs", "compile": "compile"}
            phase = phases.get(death.phase, "run")
            return Tried(outcome=outcome, reason=reason, phase=phase, detail=detail, launches=death.launches)
        except KernelqualError as error:
            return Tried(outcome="not_run", reason=str(error))
        if not isinstance(reply, Tried):
            raise KernelqualError(f"Try was answered by {type(reply).__name__}; this is a fault of the tool")
        if reply.fatal:
            self._lost()
        return reply

    def _compile_failure(self, config: str | None) -> CompileFailure | None:
        """Return what the farm knows of a candidate, by its id, or of the fixed launch (None)."""
        if self._farm is None:
            return None
        failure = self._farm.failure(CaseName(self._path, self._spec.name, self._case.id), config)
        return failure and structs.replace(failure, detail=with_log(failure.detail, failure.detail.get("log", "")))

    def _lost(self) -> None:
        """Note that the device process is gone; the next `_open` starts another and rebuilds from the seeds."""
        self._held = None
        self._restarts += 1

    def _finish(self, info: CandidateInfo, tried: list[Attempt]) -> None:
        """Record a candidate, and those that are the same program."""
        for twin in self._spec.candidates:
            if twin.program == info.program:
                record = held_to(combine(twin, tried), self._required)
                if twin is not info:
                    record = structs.replace(record, same_program_as=info.id, launches=0)
                self._records[twin.id] = record
                self._listener.candidate(record)

    def _launched(self, info: CandidateInfo) -> Launched:
        """Return what is known of a candidate's programs."""
        tried = self._attempts.get(info.id, [])
        programs = tuple(one.tried.program for one in tried)
        ran = not tried or tried[0].tried.outcome not in ("unsupported", "compile_error")
        return Launched(info.config, programs if all(programs) else (), ran)

    def _fixed(self) -> FixedRecord:
        first = self._broken or self._opened.get(FIRST)
        if first is None:
            return FixedRecord(outcome="not_run", reason="not reached")
        # What did not qualify is no reference: its bytes say nothing, least of all the same on the next run.
        reference = self._opened.get(FIRST) if first.outcome == "qualified" else None
        return FixedRecord(
            outcome=first.outcome,
            reason=first.reason,
            config=first.config,
            output=reference.output if reference is not None else None,
            oracle=worst_deviations(self._opened.values()),
            inputs=inputs_digest([reference]) if reference is not None else None,
            detail=first.detail,
            resources=first.resources,
            order=next(
                (one.tried.fixed_order for of in self._attempts.values() for one in of if one.tried.fixed_order), ""
            ),
            launches=sum(opened.launches for opened in self._opened.values()),
            provocation=first.provocation,
            batch_invariant=self._opened[FIRST].batch_invariant if FIRST in self._opened else None,
            batch_note=self._opened[FIRST].batch_note if FIRST in self._opened else "",
        )

    def _no_baseline(self) -> str:
        fixed = self._fixed()
        return f"no baseline: the fixed launch is {fixed.outcome}: {fixed.reason}"
