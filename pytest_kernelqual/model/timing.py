"""Messages about timing arms of the open case against each other."""

from msgspec import Struct, field

from pytest_kernelqual.model.clocks import Clocks
from pytest_kernelqual.model.config import Scalar
from pytest_kernelqual.model.outcome import Cache, Method


class OpenTiming(Struct, frozen=True, tag=True, kw_only=True):
    """Get ready to time arms of the open case against each other: compile all of them, build the input sets."""

    arms: list[dict[str, Scalar] | None] | None
    """Configs; None is the fixed launch; the same one twice is timed against itself.

    Without a list, samples of the arms that are open get longer.
    """
    target_us: float
    cache: Cache = "cold"


class Sample(Struct, frozen=True, tag=True, kw_only=True):
    """Take rounds of each pair of open arms, by index; nothing is compiled meanwhile."""

    pairs: list[tuple[int, int]]
    rounds: int
    roughly: bool = False  # samples are shorter


class TimingOpened(Struct, frozen=True, tag=True, kw_only=True):
    """How the arms will be sampled; with `reason` set they cannot be."""

    reason: str = ""
    method: Method = "graph"
    cache: Cache = "cold"
    ring: int = 0
    launches: int = 0
    footprint_bytes: int = 0
    restored: bool = False
    quantum_us: float = 0.0
    empty_us: float = 0.0


class Sampled(Struct, frozen=True, tag=True, kw_only=True):
    """Answers `Sample`: for each pair its rounds, in microseconds per launch, four a round in the order A, B, B, A."""

    rounds: list[list[list[float]]]
    clocks: list[Clocks] = field(default_factory=list)
    """Before and after."""
    reason: str = ""
