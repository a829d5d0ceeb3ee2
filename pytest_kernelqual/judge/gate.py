"""Whether a committed config is slower than another by more than a margin: decisions over paired log ratios."""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from pytest_kernelqual.judge.statistics import LAST_LOOK, LOOKS, Estimate, estimate

Look = Literal["ok", "suspect", "continue", "inconclusive"]

# Absolute effects below this are below what any launch of a kernel can show, in microseconds.
ABSOLUTE_FLOOR_US = 0.05


# By so much the latency of a launch was seen to differ from process to process.
_LATENCY_US = 0.5


class Arm(NamedTuple):
    """How precise the two arms are, from timing one config against itself."""

    estimate: Estimate
    margin: float

    @property
    def excess(self) -> float:
        """Return how many times as wide the A/A half-width is as it may be, which is a quarter of the margin."""
        return self.estimate.half_width / (math.log1p(self.margin) / 4)

    @property
    def precise(self) -> bool:
        """Tell whether the A/A half-width is at most a quarter of the margin."""
        return self.excess <= 1

    @property
    def armed(self) -> bool:
        """Tell whether it is precise, and the ratio of the two as close to 1."""
        return self.precise and abs(self.estimate.log_ratio) <= math.log1p(self.margin) / 4


def look(log_ratios: Sequence[float], *, margin: float) -> Look:
    """Return what the rounds so far show of "B is slower than A by more than `margin`" (a fraction).

    Between looks, where no bounds are defined, it goes on.
    """
    if len(log_ratios) not in LOOKS:
        return "continue"
    found = estimate(log_ratios)
    limit = math.log1p(margin)
    if found.upper < limit:
        return "ok"
    if found.lower > limit:
        return "suspect"
    return "continue" if len(log_ratios) < LAST_LOOK else "inconclusive"


def confirmed(log_ratios: Sequence[float], *, margin: float, time_us: float, resolution_us: float) -> bool:
    """Tell whether a suspect fails: its smallest estimate exceeds the margin, and the effect can be seen at all.

    Args:
        log_ratios: Estimates of log(B / A), one from each process.
        margin: The allowed slow-down as a fraction.
        time_us: Time of one launch of A, in microseconds.
        resolution_us: Event quantum divided by the launches of a sample, in microseconds.
    """
    smallest = min(log_ratios)
    effect_us = math.expm1(smallest) * time_us
    return smallest > math.log1p(margin) and effect_us > max(resolution_us, ABSOLUTE_FLOOR_US)


def kept_speed_up(fixed_us: float, committed_us: float, fixed_now_us: float) -> float:
    """Return what is left of a speed-up, at most 1, where both launches take longer to begin than they did.

    A launch of 2 us that took 0.3 us longer to begin in this process would seem to have decayed.
    """
    later = min(max(fixed_now_us - fixed_us, 0.0), _LATENCY_US)
    return min(1.0, (fixed_us + later) / (committed_us + later) * committed_us / fixed_us)
