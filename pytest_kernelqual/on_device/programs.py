"""What the launches of an open case amount to, and which candidates need no run because that is known."""

from functools import cached_property

from msgspec import structs

from pytest_kernelqual.errors import KernelqualError
from pytest_kernelqual.judge.evidence import EvidenceFacts, grade
from pytest_kernelqual.launch import Launch, Program
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.model.messages import Tried
from pytest_kernelqual.on_device.executor import Executor, Run
from pytest_kernelqual.on_device.failed import LaunchFailed
from pytest_kernelqual.on_device.orders import Ordered, ordered


class Programs:
    """Programs of one case on one input set."""

    def __init__(self, executor: Executor, fixed: Run) -> None:
        """Keep the case, whose fixed launch has qualified."""
        self._executor = executor
        self._run = fixed
        self._tried: dict[str, tuple[Config, Tried]] = {}
        """By digest: the candidate that was first seen to be this program, and what became of it."""

    def look(self, config: Config) -> Program | None:
        """Return what a candidate would launch; None where it cannot be told.

        Where the fixed launch is the program that it was on another input set, and the launch has the same numbers at
        hand, so are the candidates: all that tells them from it is forced onto the same call.
        Only a launch that takes the config may do otherwise.

        Raises:
            LaunchFailed: It cannot be compiled.
        """
        if self._fixed is None:
            return None
        seen, key = self._executor.lasting.programs, (self._fixed.digest, self._executor.host_values, config)
        program = seen.get(key) if not self._executor.takes_config else None
        program = program or self._look(config)
        if program is not None:
            seen[key] = program
        return program

    def same_as_fixed(self, program: Program | None) -> bool:
        """Tell whether a candidate is the fixed launch's program; False where that is not known."""
        return program is not None and self._fixed is not None and program.digest == self._fixed.digest

    def order(self, program: Program | None) -> Ordered:
        """Compare the arithmetic order of a candidate with that of the fixed launch."""
        return ordered(self._fixed if program is not None else None, program)

    def without_running(self, program: Program | None) -> Tried | None:
        """Return what is known of a candidate by its program alone.

        A launch that takes the config may do with it what no trace shows, and is always run.
        """
        if program is None or self._executor.takes_config:
            return None
        if self.same_as_fixed(program):
            return Tried(
                outcome="qualified",
                reason="not run: it is the program of the fixed launch",
                evidence=grade(EvidenceFacts(same_program=True)),
                resources=self._run.launches[0].resources,
                same_as_fixed=same_configs(program.launches, self._run.launches),
                program=program.digest,
            )
        if program.digest in self._tried:
            config, tried = self._tried[program.digest]
            return structs.replace(tried, launches=0, same_program_as=config.id, fatal=False)
        return None

    def remember(self, config: Config, tried: Tried) -> None:
        """Keep what became of a candidate, for others that are the same program."""
        if tried.program and tried.outcome != "not_run":
            self._tried.setdefault(tried.program, (config, tried))

    @cached_property
    def _fixed(self) -> Program | None:
        """What the fixed launch amounts to; None where it cannot be told: then nothing is told of candidates either."""
        if self._executor.spec.kernel is None or self._executor.device.interpreted:
            return None
        try:
            program = self._look(None)
        except LaunchFailed as failed:
            if failed.fatal:
                raise
            return None
        # A launch that is kept back may lead production astray, for example past a compiled graph that was used before.
        alike = program is not None and _places(program.launches) == _places(self._run.launches)
        return program if alike else None

    def _look(self, config: Config | None) -> Program | None:
        try:
            return self._executor.look(config)
        except KernelqualError:
            return None


def same_configs(launches: list[Launch], fixed: list[Launch]) -> bool:
    """Tell whether a candidate launched exactly what production launches."""
    return bool(launches) and [launch.config for launch in launches] == [launch.config for launch in fixed]


def _places(launches: list[Launch]) -> list[object]:
    return [(launch.config, launch.grid) for launch in launches]
