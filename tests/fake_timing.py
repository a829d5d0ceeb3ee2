"""A device that times by a seeded model of noise, for tests of gates without a GPU."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from pytest_kernelqual.errors import KernelqualError
from pytest_kernelqual.gating.arms import Arms, Place
from pytest_kernelqual.model.clocks import Clocks
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.model.messages import Hello, Open, Opened, Reply, Request
from pytest_kernelqual.model.outcome import Cache
from pytest_kernelqual.model.timing import OpenTiming, Sample, Sampled, TimingOpened
from pytest_kernelqual.processes.device import Limits, OnProgress

PLACE = Place("qual_rms_norm.py", "rms_norm_fwd", "cols4096", Limits(10, 10, 10))
FIXED = "fixed"
"""Names the fixed launch among times."""


@dataclass
class Machine:
    """True times and noise; `random` is shared by all processes on it."""

    times: Mapping[str, float]
    """Microseconds of one launch by id of the config, and of the `fixed` launch."""
    seed: int = 0
    noise: float = 0.003
    """Standard deviation of the log of one sample."""
    bias: float = 0.0005
    """Standard deviation of what each arm of each process is off by, always."""
    drift: float = 0.0
    """By how much each sample takes longer than the one before."""
    quantum_us: float = 0.5
    clocks: Callable[[], list[Clocks]] = list
    refuse: str = ""
    """Why nothing can be timed."""
    only: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    """Other times that the n-th process alone sees."""
    warm: frozenset[int] = frozenset()
    """Processes that find no way to time on a cold cache."""
    fault: Exception | None = None
    """Raised in place of the first samples."""
    started: int = 0
    random: Random = field(default_factory=Random)

    def __post_init__(self) -> None:
        """Seed."""
        self.random.seed(self.seed)

    def arms(self, configs: Sequence[Config | None], **holds: Any) -> Arms:
        """Return arms in a process of their own."""
        return Arms(FakeDevice(self), PLACE, configs, **{"exclusive": Hold, "shared": Hold, **holds})

    def fresh(self, configs: Sequence[Config | None]) -> list[Arms]:
        """Return the same arms in two fresh processes."""
        return [self.arms(configs), self.arms(configs)]


class Hold:
    """A lock that nobody else wants."""

    def __enter__(self) -> None:
        """Take it."""

    def __exit__(self, *error: object) -> None:
        """Give it back."""


class FakeDevice:
    """One process on a machine."""

    last_error = None
    lost = False

    def __init__(self, machine: Machine) -> None:
        """Start; the process is numbered."""
        self._machine = machine
        self._number = machine.started
        machine.started += 1
        self._times: list[float] = []
        self._taken = 0
        self.requests: list[Request] = []

    def begin(self) -> None:
        """Start."""

    def hello(self) -> Hello:
        """Say what it runs on."""
        return Hello(kind="cuda")

    def ask(self, request: Request, limits: Limits, on_progress: OnProgress | None = None) -> Reply:
        """Answer what timing asks."""
        del limits, on_progress
        self.requests.append(request)
        match request:
            case Open():
                return Opened(outcome="qualified", output="sha256:0")
            case OpenTiming():
                return self._open(request)
            case Sample():
                return self._sample(request)
        raise KernelqualError(f"the fake does not know {request}")

    def log(self) -> str:
        """Return nothing."""
        return ""

    def close(self) -> None:
        """End."""

    def _open(self, request: OpenTiming) -> TimingOpened:
        machine = self._machine
        if machine.refuse:
            return TimingOpened(reason=machine.refuse)
        times = {**machine.times, **machine.only.get(self._number, {})}
        if request.arms is not None:
            names = [FIXED if arm is None else Config(arm).id for arm in request.arms]
            self._times = [times[name] * math.exp(machine.random.gauss(0, machine.bias)) for name in names]
            self._cache: Cache = "warm" if self._number in machine.warm else request.cache
        launches = math.ceil(request.target_us / self._times[0])
        return TimingOpened(ring=64, launches=launches, cache=self._cache, quantum_us=machine.quantum_us, empty_us=2.0)

    def _sample(self, request: Sample) -> Sampled:
        machine = self._machine
        if machine.fault is not None:
            fault, machine.fault = machine.fault, None
            raise fault
        taken = [[self._round(*pair) for _ in range(request.rounds)] for pair in request.pairs]
        return Sampled(rounds=taken, clocks=machine.clocks())

    def _round(self, first: int, second: int) -> list[float]:
        return [self._one(arm) for arm in (first, second, second, first)]

    def _one(self, arm: int) -> float:
        machine = self._machine
        self._taken += 1
        return self._times[arm] * math.exp(machine.random.gauss(0, machine.noise) + machine.drift * self._taken)
