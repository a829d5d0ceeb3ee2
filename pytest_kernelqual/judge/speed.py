"""Whether a committed config became slower or faster against the fixed launch from one run to another."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from pytest_kernelqual.judge.gate import kept_speed_up

Movement = Literal["slower", "faster", "same"]


class Timed(NamedTuple):
    """What one run measured of a committed config against the fixed launch."""

    estimates: Sequence[float]
    """Committed to fixed time, one for each process that was asked."""
    lower: float
    """Bounds of the first of them."""
    upper: float
    fixed_us: float
    """Median times of one launch; they only tell what a longer latency makes of the ratio."""
    committed_us: float


def movement(before: Timed, after: Timed, *, margin: float) -> Movement:
    """Return what became of the ratio; swapping the runs swaps `slower` and `faster`.

    It moved where the smallest estimate of the slower run exceeds the largest of the other by more than `margin` (a
    fraction), and the bounds of their first processes do not overlap.
    """
    if _slower(before, after, margin):
        return "slower"
    return "faster" if _slower(after, before, margin) else "same"


def _slower(before: Timed, after: Timed, margin: float) -> bool:
    expected = 1 / kept_speed_up(before.fixed_us, before.committed_us, after.fixed_us)
    return (
        min(after.estimates) > max(before.estimates) * expected * (1 + margin) and after.lower > before.upper * expected
    )
