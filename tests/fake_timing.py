"""A device that times by a seeded model of noise, and benches on it, for tests of gates without a GPU."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from committed_samples import H200, SPACE, changes, null_row, row, updated

from pytest_kernelqual.committed.schema import Row, Times
from pytest_kernelqual.committed.store import Store
from pytest_kernelqual.errors import KernelqualError
from pytest_kernelqual.gating.arms import Arms, Place
from pytest_kernelqual.gating.row import Bench, Margins
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.model.messages import (
    CandidateInfo,
    CaseInfo,
    Clocks,
    Hello,
    Open,
    Opened,
    OpenTiming,
    Reply,
    Request,
    Sample,
    Sampled,
    SpecInfo,
    TimingOpened,
)
from pytest_kernelqual.model.record import CandidateRecord
from pytest_kernelqual.processes.device import Limits, OnProgress

PLACE = Place("qual_rms_norm.py", "rms_norm_fwd", "cols4096", Limits(10, 10, 10))
KEY = {"cols": 4096}
FIXED = "fixed"


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

    def __init__(self, machine: Machine) -> None:
        """Start; the process is numbered."""
        self._machine = machine
        self._number = machine.started
        machine.started += 1
        self._times: list[float] = []
        self._taken = 0
        self.requests: list[Request] = []

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
        names = [FIXED if arm is None else Config(arm).id for arm in request.arms]
        self._times = [times[name] * math.exp(machine.random.gauss(0, machine.bias)) for name in names]
        launches = math.ceil(request.target_us / self._times[0])
        return TimingOpened(ring=64, launches=launches, quantum_us=machine.quantum_us, empty_us=2.0)

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


def bench(folder: Path, machine: Machine | None, **given: Any) -> Bench:
    """Return a bench of a spec that has every config of the machine, all qualified; None: nothing is timed."""
    times = machine.times if machine is not None else {FIXED: 10.0, "A=1": 9.0}
    configs = [config_of(name) for name in times if name != FIXED]
    case = CaseInfo(id="cols4096", axes={"cols": 4096}, key=KEY)
    candidates = [CandidateInfo(id=config.id, config=dict(config), program=config.id) for config in configs]
    values: dict[str, Any] = {
        "store": Store(folder),
        "kernel": "rms_norm_fwd",
        "device": H200,
        "spec": SpecInfo(name="rms_norm_fwd", line=1, space=SPACE, cases=[case], candidates=candidates),
        "key": KEY,
        "cases": [case],
        "qualify": lambda _case, info: CandidateRecord(id=info.id, config=info.config, outcome="qualified"),
        "arms": machine.arms if machine is not None else None,
        "fresh": machine.fresh if machine is not None else lambda _configs: [],
        "margins": Margins(),
    }
    return Bench(**{**values, **given})


def config_of(name: str) -> Config:
    """Return the config of an id such as `A=1`."""
    axis, _, value = name.partition("=")
    return Config({axis: int(value)})


def commit(folder: Path, name: str | None, **more: Any) -> Row:
    """Write the committed row of the key; None keeps the fixed launch."""
    made = null_row(KEY) if name is None else row(KEY, dict(config_of(name)), **more)
    updated(Store(folder).update("rms_norm_fwd", H200, changes(made)))
    return made


def stored_times(fixed: float, committed: float) -> dict[str, Any]:
    """Return what a row says that was measured at these times."""
    ratio = round(fixed / committed, 4)
    return {"speed_up": ratio, "speed_up_samples": [ratio] * 3, "times_us": Times(fixed=fixed, committed=committed)}
