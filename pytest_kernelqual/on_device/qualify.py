"""Qualify candidates of one case on one input set: open the case, attempt its candidates one by one."""

from contextlib import AbstractContextManager
from functools import cached_property, partial
from typing import NamedTuple

from msgspec import structs

from pytest_kernelqual.errors import DeclarationError, KernelqualError
from pytest_kernelqual.judge.candidate import judge_invariance
from pytest_kernelqual.judge.evidence import EvidenceFacts, grade
from pytest_kernelqual.launch import Launches, Program
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.model.messages import Opened, OutputBytes, Tried
from pytest_kernelqual.model.outcome import PASSING, Evidence, Outcome
from pytest_kernelqual.model.record import Deviation
from pytest_kernelqual.on_device.batch import BatchCheck
from pytest_kernelqual.on_device.compare import forms, same
from pytest_kernelqual.on_device.distances import nothing_finite
from pytest_kernelqual.on_device.executor import Executor, Run
from pytest_kernelqual.on_device.failed import LaunchFailed
from pytest_kernelqual.on_device.guards import Buffer
from pytest_kernelqual.on_device.judging import (
    check_aftermath,
    compared,
    judge_fixed_runs,
    judge_runs,
    told_provocation,
)
from pytest_kernelqual.on_device.layouts import PLAIN
from pytest_kernelqual.on_device.memory import PATTERN_A, PATTERN_B
from pytest_kernelqual.on_device.oracle import References, consult, deviations
from pytest_kernelqual.on_device.orders import Ordered
from pytest_kernelqual.on_device.outputs import digest, to_messages
from pytest_kernelqual.on_device.programs import Programs, same_configs
from pytest_kernelqual.on_device.wording import deviation_in_words, first_line


class ToTime(NamedTuple):
    """What timing must know of a case's fixed launch."""

    output_bytes: int
    """How many it gives."""
    mutates: bool
    """It changes its inputs."""
    takes_config: bool
    """The launch takes the config as its argument."""


class OpenCase:
    """Hold the inputs of a case for one seed and the outputs of its fixed launch."""

    def __init__(self, executor: Executor, *, repeats: int) -> None:
        """Prepare; nothing is built before `open`.

        Args:
            executor: Launches the case. Unless its inputs are plain, a candidate is launched once, and repeated only
                where bytes differ: another profile shows more than the same one again.
            repeats: Launches of each candidate, alternating between the two poison patterns; at least 2.
        """
        self.executor = executor
        self.spec = executor.spec
        self.case = executor.case
        self.device = executor.device
        self._repeats = repeats
        self._exposing = executor.exposure != PLAIN
        self._batch: BatchCheck | None = None
        self._fixed: Run | None = None
        self.to_time: ToTime | None = None
        """Known when the fixed launch has run."""
        self._references: References | None = None
        """What the oracle says, where the fixed launch says otherwise."""

    def open(self, *, ask_oracle: bool = True, check_batch: bool = False) -> Opened:
        """Build the inputs, run the fixed launch twice or three times and judge it.

        Args:
            ask_oracle: Hold the fixed launch against the spec's oracle.
            check_batch: Run parts of the batch too, of candidates as well, where the spec names its axis.
        """
        executor = self.executor
        if check_batch and self.spec.batch_axis is not None:
            self._batch = BatchCheck(executor, self.spec.batch_axis)
        try:
            executor.build()
            if self._exposing and not executor.inputs.exposed:
                return Opened(outcome="not_run", set_aside=executor.exposure.not_taken)
            first = self._run_fixed()
            again = None if self._exposing else executor.execute(None, PATTERN_A, noise=True)
            other = executor.execute(None, PATTERN_B)
            if again is None and not same(first.outputs, other.outputs):
                again = executor.execute(None, PATTERN_A, noise=True)
            executor.enter("compare")
            with executor.failures():
                outcome, reason = judge_fixed_runs(first, again or first, other, partial(self._leaks, None, first))
                self._fixed = first
                launches = executor.launched
                if outcome == "qualified":
                    executor.settle(lambda: self._gives_again(first))
                found = self._from_oracle(first) if outcome == "qualified" and ask_oracle else []
                if any(item.beyond for item in found):
                    told = deviation_in_words(found, self.spec.oracle_tolerance)
                    outcome, reason = "mismatch", f"differs from the oracle: {told}"
                    self._batch = None  # candidates are then only asked with whom they agree
            invariant, note = self._invariance(None, first) if outcome == "qualified" else (None, "")
            with executor.failures():
                return Opened(
                    outcome=outcome,
                    reason=reason,
                    oracle=found,
                    config=first.launches[0].config if first.launches else {},
                    output=digest(first.outputs),
                    inputs=executor.inputs.descriptions(),
                    resources=first.launches[0].resources if first.launches else {},
                    launches=launches,
                    provocation=told_provocation([run for run in (first, again, other) if run is not None]),
                    set_aside=self._set_aside(first) if outcome == "qualified" else "",
                    batch_invariant=invariant,
                    batch_note=note,
                )
        except LaunchFailed as failed:
            return Opened(
                outcome=failed.outcome,
                reason=failed.reason,
                detail={**failed.detail, "phase": executor.phase},
                launches=executor.launched,
                fatal=failed.fatal,
            )

    def open_for_timing(self, known: ToTime | None) -> Opened:
        """Open the case to be timed, with nothing to compare with: build and run the fixed launch once if need be.

        Args:
            known: What this process has learnt when it qualified the case.
        """
        if known is not None:
            self.to_time, self.executor.takes_config = known, known.takes_config
            return Opened(outcome="qualified")
        try:
            self.executor.build()
            self._fixed = self._run_fixed()
        except LaunchFailed as failed:
            return Opened(outcome=failed.outcome, reason=failed.reason, detail=failed.detail, fatal=failed.fatal)
        return Opened(outcome="qualified", launches=self.executor.launched)

    def attempt(self, config: Config, *, look: bool = False) -> Tried:
        """Run one candidate `repeats` times, judge it against the fixed launch, and check its batch.

        With `look`, what it would launch is told first, and one of which the answer is known by that is not run.
        """
        tried = self._attempted(config, look=look)
        try:
            return self._with_invariance(config, tried)
        except LaunchFailed as failed:
            return self._failed(failed, tried.program)

    def _attempted(self, config: Config, *, look: bool) -> Tried:
        if self._fixed is None:
            raise KernelqualError("a candidate was tried before its case was opened; this is a fault of the tool")
        executor = self.executor
        executor.launched = 0
        program = None
        try:
            with executor.failures():
                excluded = self.excluded(config)
            if excluded:
                return Tried(outcome="unsupported", reason=excluded)
            fixed = self._fixed
            program = self._programs.look(config) if look else None
            told = self._programs.without_running(program)
            if told is not None:
                with executor.failures():
                    self.device.synchronize()  # what the look did wrong is this candidate's, and no later one's
                return told
            runs = [self._run_candidate(config, fixed, 0)]
            if not self._exposing or runs[0].outputs is not fixed.outputs:
                runs += [self._run_candidate(config, fixed, repeat) for repeat in range(1, self._repeats)]
            with executor.failures():
                tried = self._tried(config, runs, fixed, program)
            if tried.outcome == "qualified" and executor.keeps_memory and not self._exposing:
                self._follow(config, fixed)
        except LaunchFailed as failed:
            tried = self._failed(failed, program.digest if program is not None else "")
        self._programs.remember(config, tried)
        return tried

    def output(self) -> list[OutputBytes]:
        """Return the bytes of the fixed launch."""
        return to_messages(self._fixed.outputs) if self._fixed is not None else []

    def observed(self, config: Config | None) -> AbstractContextManager[Launches]:
        """Return the context in which launches take the config; None is the fixed launch."""
        return self.executor.observed(config)

    def close(self) -> list[Buffer]:
        """Let go of what an error held, and return what the launches left alive."""
        self.executor.last_error = None  # its frames hold tensors
        of_parts = self._batch.survivors() if self._batch is not None else []
        return [*self.executor.memory.survivors(), *of_parts]

    def excluded(self, config: Config) -> str:
        """Say why the spec rules a candidate out; an empty text where it does not."""
        if self.spec.exclude is None:
            return ""
        try:
            reason = self.spec.exclude(config, self.case)
        except Exception as error:
            raise DeclarationError(f"exclude= raised {type(error).__name__}: {first_line(error)}") from error
        return (
            f"excluded by the spec: {reason}" if isinstance(reason, str) else "excluded by the spec" if reason else ""
        )

    @cached_property
    def _programs(self) -> Programs:
        if self._fixed is None:
            raise KernelqualError("programs were asked for before the case was opened; this is a fault of the tool")
        return Programs(self.executor, self._fixed)

    def _run_fixed(self) -> Run:
        run = self.executor.execute(None, PATTERN_A)
        self.executor.mutated = run.changed
        output_bytes = sum(output.tensor.numel() for output in run.outputs)
        self.to_time = ToTime(output_bytes, bool(run.changed), self.executor.takes_config)
        return run

    def _from_oracle(self, fixed: Run) -> list[Deviation]:
        """Ask the oracle how far the fixed launch is off; its references are kept only where that is too far."""
        spec, executor = self.spec, self.executor
        if spec.oracle is None or self._exposing:  # its tolerance is for values as the builder asks for them
            return []
        executor.enter("oracle")
        references = consult(spec.oracle, self.case, executor.inputs.tensors, fixed.outputs)
        found = deviations(fixed.outputs, references, spec.oracle_tolerance)
        if any(item.beyond for item in found):
            self._references = references
        return found

    def _within_oracle(self, run: Run, fixed: Run) -> bool | None:
        if self._references is None:
            return None
        if forms(run.outputs) != forms(fixed.outputs):
            return False
        return not any(item.beyond for item in deviations(run.outputs, self._references, self.spec.oracle_tolerance))

    def _gives_again(self, first: Run) -> bool:
        """Tell whether the fixed launch gives the same bytes again; one that fails does not."""
        try:
            return same(first.outputs, self.executor.execute(None, PATTERN_A).outputs)
        except LaunchFailed as failed:
            if failed.fatal:
                raise
            return False

    def _set_aside(self, fixed: Run) -> str:
        """Return why nothing can be told from this input set; empty where something can."""
        if self._exposing and nothing_finite(fixed.outputs):
            return "every element of the fixed launch's output is infinite or NaN"
        return ""

    def _run_candidate(self, config: Config, fixed: Run, repeat: int) -> Run:
        pattern = (PATTERN_A, PATTERN_B)[repeat % 2]
        # Every other pair of repeats, so that each pattern is seen with and without noise.
        run = self.executor.execute(config, pattern, noise=repeat // 2 % 2 == 1)
        self.executor.enter("compare")
        with self.executor.failures():
            return compared(run, fixed, pattern)

    def _follow(self, config: Config, fixed: Run) -> None:
        """Launch the candidate and the fixed launch after the candidate, in kept memory as that has left it."""
        for follower in (config, None):
            run = self.executor.execute(follower, PATTERN_A, follows=True)
            self.executor.enter("compare")
            with self.executor.failures():
                check_aftermath(run, fixed, of_candidate=follower is not None)

    def _leaks(self, config: Config | None, under_a: Run) -> bool:
        """Tell whether the bytes follow what is left in shared memory and registers, memory staying as it was.

        What differs from launch to launch anyway follows nothing.
        """
        if not under_a.provoked:
            return False
        others = [self.executor.execute(config, PATTERN_A, leftover=left).outputs for left in (PATTERN_B, PATTERN_A)]
        return [same(under_a.outputs, outputs) for outputs in others] == [False, True]

    def _tried(self, config: Config, runs: list[Run], fixed: Run, program: Program | None) -> Tried:
        leaks = partial(self._leaks, config, runs[0])
        outcome, reason, detail = judge_runs(runs, fixed, leaks, self.spec.tolerance)
        launches = runs[0].launches
        qualified = outcome == "qualified"
        same_program = qualified and self._programs.same_as_fixed(program)
        ordered: Ordered | None = None
        if qualified and not same_program and not self.device.interpreted:
            ordered = self._programs.order(program)
        return Tried(
            outcome=outcome,
            reason=reason,
            phase=None if outcome in PASSING else "compare",
            evidence=self._evidence(outcome, ordered, same_program=same_program),
            detail=detail,
            resources=launches[0].resources if launches else {},
            launches=self.executor.launched,
            provocation=told_provocation(runs),
            # The interpreter does not know.
            same_as_fixed=not self.device.interpreted and same_configs(launches, fixed.launches),
            program=program.digest if program is not None else "",
            within_oracle=self._within_oracle(runs[0], fixed),
            order=ordered.candidate if ordered else "",
            fixed_order=ordered.fixed if ordered else "",
            fragile=list(ordered.order.reasons) if ordered else [],
        )

    def _invariance(self, config: Config | None, run: Run) -> tuple[bool | None, str]:
        """Tell whether the rows of a run have the same bytes alone, and what differs or why it cannot be told."""
        return self._batch.check(config, run) if self._batch is not None else (None, "")

    def _failed(self, failed: LaunchFailed, program: str) -> Tried:
        return Tried(
            outcome=failed.outcome,
            reason=failed.reason,
            phase=self.executor.phase,
            detail=failed.detail,
            launches=self.executor.launched,
            program=program,
            fatal=failed.fatal,
        )

    def _with_invariance(self, config: Config, tried: Tried) -> Tried:
        """Check the batch of a candidate that passes; what the spec requires of it is part of its outcome.

        One that was not run is checked as well: with other shapes its program may be another one.
        """
        judging = self._references is None  # else only the oracle's word counts
        if tried.outcome not in PASSING or self._batch is None or self._fixed is None or not judging:
            return tried
        # The outputs of one that qualified are those of the fixed launch.
        run = self._fixed if tried.outcome == "qualified" else self.executor.execute(config, PATTERN_A)
        invariant, note = self._invariance(config, run)
        tried = structs.replace(tried, batch_invariant=invariant, batch_note=note)
        if invariant or not self.spec.batch_invariant:
            return tried
        outcome, reason = judge_invariance(invariant, note)
        return structs.replace(tried, outcome=outcome, reason=reason, phase="compare", evidence=None)

    def _evidence(self, outcome: Outcome, ordered: Ordered | None, *, same_program: bool) -> Evidence | None:
        """Grade what a candidate that passes has shown."""
        if outcome == "within_tolerance":
            return "within_tolerance"
        if outcome != "qualified":
            return None
        same_order = ordered is not None and ordered.order.verdict == "equal"
        return grade(EvidenceFacts(self.device.interpreted, same_program=same_program, same_order=same_order))
