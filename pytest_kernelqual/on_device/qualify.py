"""Run the fixed launch and candidates of one case on one input set."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

import torch

from pytest_kernelqual.errors import (
    DeclarationError,
    InputError,
    KernelqualError,
    UnprovedLaunchError,
    UnsupportedConfigError,
)
from pytest_kernelqual.judge.baseline import FixedFacts, judge_fixed
from pytest_kernelqual.judge.candidate import CandidateFacts, judge_candidate
from pytest_kernelqual.launch import Launch, Launches, classify, observed, pinned
from pytest_kernelqual.model.case import Case
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.model.messages import Opened, OutputBytes, Tried
from pytest_kernelqual.model.outcome import Outcome, Phase
from pytest_kernelqual.model.spec import KernelSpec
from pytest_kernelqual.on_device.compare import mismatches, same, unwritten, written_outside
from pytest_kernelqual.on_device.environment import Device
from pytest_kernelqual.on_device.guards import Buffer
from pytest_kernelqual.on_device.inputs import SeededInputs
from pytest_kernelqual.on_device.loader import user_traceback
from pytest_kernelqual.on_device.memory import PATTERN_A, PATTERN_B, Memory
from pytest_kernelqual.on_device.outputs import Output, collect, digest, to_messages
from pytest_kernelqual.on_device.survivors import Survivors
from pytest_kernelqual.on_device.wording import first_line, in_words, mismatch_in_words

OnProgress = Callable[[Phase, int], None]


class _Run(NamedTuple):
    """One launch that ended well."""

    outputs: list[Output]
    launches: list[Launch]
    changed: frozenset[str]
    """Names of the inputs that the launch changed."""


class _LaunchFailed(Exception):  # noqa: N818 - carries an outcome, is no error of ours
    """A launch that ended otherwise."""

    def __init__(self, outcome: Outcome, reason: str, detail: dict[str, Any], *, fatal: bool = False) -> None:
        super().__init__(reason)
        self.outcome: Outcome = outcome
        self.reason = reason
        self.detail = detail
        self.fatal = fatal


class OpenCase:
    """Hold the inputs of a case for one seed and the outputs of its fixed launch."""

    def __init__(
        self,
        spec: KernelSpec,
        case: Case,
        *,
        stream: str,
        device: Device,
        repeats: int,
        on_progress: OnProgress,
        survivors: Sequence[Buffer] = (),
    ) -> None:
        """Prepare; nothing is built before `open`.

        Args:
            spec: What to launch.
            case: Its workload.
            stream: Names the seed; equal streams give equal input bytes everywhere.
            device: What to run on.
            repeats: Launches of each candidate, alternating between the two poison patterns; at least 2.
            survivors: What launches of earlier cases left alive.
            on_progress: Told the phase and the number of finished launches whenever a phase begins.
        """
        self.spec = spec
        self.case = case
        self.device = device
        self._repeats = repeats
        self._on_progress = on_progress
        self.memory = Memory(device.torch_device, survivors=survivors)
        self._survivors = Survivors()
        self.inputs = SeededInputs(
            stream=stream,
            device=device.torch_device,
            interpreted=device.interpreted,
            allocate=self.memory.allocate,
        )
        self._launch: Callable[..., Any] = _never
        self.takes_config = False
        self._phase: Phase = "inputs"
        self._launched = 0
        self._fixed: _Run | None = None
        self._mutated: frozenset[str] = frozenset()
        self.last_error: BaseException | None = None

    def open(self) -> Opened:
        """Build the inputs, run the fixed launch three times and judge it."""
        try:
            self._enter("inputs")
            with self._failures():
                self._build()
            first = self._execute(None, PATTERN_A)
            self._mutated = first.changed
            again = self._execute(None, PATTERN_A)
            other = self._execute(None, PATTERN_B)
            self._enter("compare")
            with self._failures():
                outcome, reason = judge_fixed(
                    FixedFacts(
                        same_under_one_poison=same(first.outputs, again.outputs),
                        same_under_both_poisons=same(first.outputs, other.outputs),
                        surviving_poison=in_words(unwritten(first.outputs, other.outputs, PATTERN_A, PATTERN_B)),
                    )
                )
                self._fixed = first
                launches = self._launched
                if outcome == "qualified":
                    self.inputs.restore()  # lets gradients go, which outlive a launch and are outputs
                    self._survivors.settle(self.memory.survivors(), lambda: self._gives_again(first))
                return Opened(
                    outcome=outcome,
                    reason=reason,
                    config=first.launches[0].config if first.launches else {},
                    output=digest(first.outputs),
                    inputs=self.inputs.descriptions(),
                    launches=launches,
                )
        except _LaunchFailed as failed:
            return Opened(
                outcome=failed.outcome,
                reason=failed.reason,
                detail={**failed.detail, "phase": self._phase},
                launches=self._launched,
                fatal=failed.fatal,
            )

    def open_for_timing(self) -> Opened:
        """Build the inputs and run the fixed launch once: enough to time the case, and nothing to compare with."""
        try:
            self._enter("inputs")
            with self._failures():
                self._build()
            self._fixed = self._execute(None, PATTERN_A)
            self._mutated = self._fixed.changed
        except _LaunchFailed as failed:
            return Opened(outcome=failed.outcome, reason=failed.reason, detail=failed.detail, fatal=failed.fatal)
        return Opened(outcome="qualified", launches=self._launched)

    def attempt(self, config: Config) -> Tried:
        """Run one candidate `repeats` times and judge it against the fixed launch."""
        if self._fixed is None:
            raise KernelqualError("a candidate was tried before its case was opened; this is a fault of the tool")
        self._launched = 0
        try:
            with self._failures():
                excluded = self._excluded(config)
            if excluded:
                return Tried(outcome="unsupported", reason=excluded)
            fixed = self._fixed
            runs = [
                self._compared(config, fixed, (PATTERN_A, PATTERN_B)[repeat % 2]) for repeat in range(self._repeats)
            ]
            with self._failures():
                return self._judge(runs, fixed)
        except _LaunchFailed as failed:
            return Tried(
                outcome=failed.outcome,
                reason=failed.reason,
                phase=self._phase,
                detail=failed.detail,
                launches=self._launched,
                fatal=failed.fatal,
            )

    def output(self) -> list[OutputBytes]:
        """Return the bytes of the fixed launch."""
        return to_messages(self._fixed.outputs) if self._fixed is not None else []

    def observed(self, config: Config | None) -> AbstractContextManager[Launches]:
        """Return the context in which launches take the config; None is the fixed launch."""
        if self.spec.kernel is None:
            return _pinned(Launches(kernel="", config=config))
        return observed(
            self.spec.kernel,
            config,
            fixed=self.spec.fixed,
            force=not self.takes_config,
            grid=self.spec.grid,
            grid_independent=self.spec.grid_independent,
            on_phase=self._enter,
        )

    @property
    def output_bytes(self) -> int:
        """Count the bytes that the fixed launch gave; 0 before the case was opened."""
        return sum(output.tensor.numel() for output in self._fixed.outputs) if self._fixed is not None else 0

    @property
    def mutates(self) -> bool:
        """Tell whether the fixed launch changes its inputs."""
        return bool(self._mutated)

    def _build(self) -> None:
        launch = self.spec.builder(self.case, self.inputs)
        if not callable(launch):
            raise InputError(
                f"the builder returned {type(launch).__name__}, not a launch; end it with `return lambda: my_op(...)`"
            )
        self.takes_config = _takes_config(launch)
        if self.spec.kernel is None and not self.takes_config:
            raise InputError(
                "without kernel= the launch must take the config: `return lambda config: my_op(..., config)`"
            )
        self._launch = launch
        self.inputs.freeze(launch)

    def _execute(self, config: Config | None, pattern: int) -> _Run:
        """Launch once on fresh inputs, in poisoned memory, and collect what came out."""
        with self._failures():
            self.inputs.restore()
            self._survivors.prepare()
            self.memory.begin_launch()
            self._enter("run")
            with self.observed(config) as launches:
                with self.memory.poisoned(pattern):
                    returned = self._launch(config) if self.takes_config else self._launch()
                self.device.synchronize()
            if self.spec.kernel is not None:
                launches.prove()
            self._launched += 1
            changed = frozenset(item.name for item in self.inputs.changed())
            self._check_damage(changed - self._mutated if config is not None else frozenset())
            outputs = collect(
                returned,
                [(item.name, item.tensor) for item in self.inputs.tensors if item.name in changed | self._mutated],
                [(item.name, item.tensor.grad) for item in self.inputs.tensors if item.tensor.grad is not None],
            )
            return _Run(outputs, launches.launches, changed)

    def _gives_again(self, first: _Run) -> bool:
        """Tell whether the fixed launch gives the same bytes again; one that fails does not."""
        try:
            return same(first.outputs, self._execute(None, PATTERN_A).outputs)
        except _LaunchFailed as failed:
            if failed.fatal:
                raise
            return False

    def _check_damage(self, undeclared: frozenset[str]) -> None:
        """End the launch when guard bytes, or inputs that the fixed launch leaves alone, have changed."""
        damage = [str(item) for item in self.memory.damage()]
        damage += [f"input {name} was changed, which the fixed launch leaves alone" for name in sorted(undeclared)]
        if damage:
            raise _LaunchFailed("out_of_bounds_write", damage[0], {"damage": damage})

    def _check_outside(self, found: dict[str, Any] | None) -> None:
        if found:
            reason = f"{found['count']} bytes were written in the storage of {found['output']} outside what is returned"
            raise _LaunchFailed("out_of_bounds_write", f"{reason}, first at byte {found['first_byte']}", found)

    def _compared(self, config: Config, fixed: _Run, pattern: int) -> _Run:
        """Launch a candidate once; where its bytes are those of the fixed launch, its own copy of them is let go."""
        run = self._execute(config, pattern)
        self._enter("compare")
        with self._failures():
            if pattern == PATTERN_A:  # the fixed launch's kept outputs were made under it
                self._check_outside(written_outside(fixed.outputs, run.outputs, pattern))
            return run._replace(outputs=fixed.outputs) if same(fixed.outputs, run.outputs) else run

    def _judge(self, runs: list[_Run], fixed: _Run) -> Tried:
        equal = [run.outputs is fixed.outputs for run in runs]
        under_a, under_b = runs[0::2], runs[1::2]
        one_poison = all(_agree(group[0], run) for group in (under_a, under_b) for run in group[1:])
        both_poisons = _agree(under_a[0], under_b[0])
        survived = None
        if not both_poisons:
            survived = unwritten(under_a[0].outputs, under_b[0].outputs, PATTERN_A, PATTERN_B)
        outcome, reason = judge_candidate(CandidateFacts(equal, one_poison, both_poisons, in_words(survived)))
        detail: dict[str, Any] = {}
        if outcome != "qualified":
            wrong = runs[equal.index(False)]
            found = mismatches(fixed.outputs, wrong.outputs)
            reason = "; ".join(filter(None, [reason, *(mismatch_in_words(item) for item in found[:1])]))
            detail = {"mismatches": found, "launches_differing": len(equal) - sum(equal)}
        launches = runs[0].launches
        return Tried(
            outcome=outcome,
            reason=reason,
            phase=None if outcome == "qualified" else "compare",
            evidence=("interpreted" if self.device.interpreted else "identical_bytes")
            if outcome == "qualified"
            else None,
            detail=detail,
            resources=launches[0].resources if launches else {},
            launches=self._launched,
            same_as_fixed=self._is_fixed(launches, fixed.launches),
        )

    def _is_fixed(self, launches: list[Launch], fixed: list[Launch]) -> bool:
        """Tell whether the candidate launched exactly what production launches; the interpreter does not know."""
        return (
            not self.device.interpreted
            and bool(launches)
            and [launch.config for launch in launches] == [launch.config for launch in fixed]
        )

    def _excluded(self, config: Config) -> str:
        if self.spec.exclude is None:
            return ""
        try:
            reason = self.spec.exclude(config, self.case)
        except Exception as error:
            raise DeclarationError(f"exclude= raised {type(error).__name__}: {first_line(error)}") from error
        return (
            f"excluded by the spec: {reason}" if isinstance(reason, str) else "excluded by the spec" if reason else ""
        )

    def _enter(self, phase: Phase) -> None:
        self._phase = phase
        self._on_progress(phase, self._launched)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Turn whatever a builder or launch raises into an outcome."""
        try:
            yield
        except _LaunchFailed:
            raise
        except Exception as error:
            if self.device.interpreted:  # its frames hold tensors, and a device has no memory to spare
                self.last_error = error
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> _LaunchFailed:
        failed = self._named(error)
        try:
            self.device.synchronize()
        except Exception as sticky:  # noqa: BLE001 - whatever the driver reports
            told = classify(sticky, "run")
            reason = told[1] if told else first_line(sticky)
            return _LaunchFailed("fault", reason, {**failed.detail, "error": type(sticky).__name__}, fatal=True)
        return failed

    def _named(self, error: Exception) -> _LaunchFailed:
        if isinstance(error, UnsupportedConfigError):
            return _LaunchFailed("unsupported", str(error), {})
        if isinstance(error, UnprovedLaunchError | KernelqualError):
            return _LaunchFailed("not_run", str(error), {})
        traceback = {"traceback": user_traceback(error)}
        told = classify(error, self._phase)
        if isinstance(error, torch.OutOfMemoryError):
            self.device.release_memory()
        if self._phase == "inputs" and (told is None or told[0] != "not_run"):
            return _LaunchFailed(
                "not_run", f"the builder raised {type(error).__name__}: {first_line(error)}", traceback
            )
        if told is not None:
            return _LaunchFailed(told[0], told[1], told[2], fatal=told[0] == "fault")
        return _LaunchFailed(
            "launch_error", f"the launch raised {type(error).__name__}: {first_line(error)}", traceback
        )


@contextmanager
def _pinned(launches: Launches) -> Iterator[Launches]:
    with pinned():
        yield launches


def _takes_config(launch: Callable[..., Any]) -> bool:
    """Tell whether the launch takes the config as its argument; InputError for any other signature."""
    try:
        parameters = list(inspect.signature(launch).parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature
        return False
    required = [
        item
        for item in parameters
        if item.default is item.empty and item.kind not in (item.VAR_POSITIONAL, item.VAR_KEYWORD)
    ]
    if len(required) > 1 or any(item.kind is item.KEYWORD_ONLY for item in required):
        names = ", ".join(item.name for item in required)
        raise InputError(f"the launch takes ({names}); it must take nothing or the config alone")
    return bool(required) or any(item.name == "config" for item in parameters)


def _agree(one: _Run, other: _Run) -> bool:
    return one.outputs is other.outputs or same(one.outputs, other.outputs)


def _never() -> None:
    raise KernelqualError("launched before the case was built; this is a fault of the tool")
