"""Whether a committed config became slower or faster from run to run."""

from hypothesis import given
from hypothesis import strategies as st

from pytest_kernelqual.judge.speed import Timed, movement

ratios = st.floats(0.2, 5.0)
times_us = st.floats(0.5, 1e4)
margins = st.floats(0.0, 0.5)


@st.composite
def timed(draw: st.DrawFn) -> Timed:
    """Make what a run measured: the first process has bounds, further ones only estimates."""
    first, width, fixed_us = draw(ratios), draw(st.floats(0.0, 0.1)), draw(times_us)
    others = draw(st.lists(st.floats(0.9, 1.1), max_size=2))
    estimates = [first, *(first * factor for factor in others)]
    return Timed(estimates, first * (1 - width), first * (1 + width), fixed_us, fixed_us * first)


def with_times(one: Timed, fixed_us: float) -> Timed:
    """Return the same ratios at another speed of the machine."""
    return one._replace(fixed_us=fixed_us, committed_us=fixed_us * one.estimates[0])


@given(timed(), timed(), margins)
def test_swapping_the_runs_swaps_slower_and_faster(before: Timed, after: Timed, margin: float) -> None:
    """No side is favoured."""
    swapped = {"slower": "faster", "faster": "slower", "same": "same"}
    assert movement(after, before, margin=margin) == swapped[movement(before, after, margin=margin)]


@given(timed(), margins)
def test_nothing_moves_by_itself(one: Timed, margin: float) -> None:
    """Whatever its processes say of each other."""
    assert movement(one, one, margin=margin) == "same"


@given(timed(), timed(), margins, times_us, times_us)
def test_absolute_times_decide_nothing(before: Timed, after: Timed, margin: float, one: float, other: float) -> None:
    """Where launches begin as soon as before, only ratios count."""
    seen = {
        movement(with_times(before, fixed_us), with_times(after, fixed_us), margin=margin) for fixed_us in (one, other)
    }
    assert len(seen) == 1


@given(timed(), timed(), margins)
def test_one_process_that_does_not_see_it_acquits(before: Timed, after: Timed, margin: float) -> None:
    """However slow the others are."""
    acquitted = after._replace(estimates=[*after.estimates, min(before.estimates)])
    assert movement(before, acquitted, margin=margin) != "slower"


@given(timed(), margins, st.floats(1.01, 3.0))
def test_a_clear_effect_is_seen(before: Timed, margin: float, factor: float) -> None:
    """Beyond the margin, the spread of the processes and the bounds, nothing hides it."""
    spread = max(before.estimates) / min(before.estimates) * (before.upper / before.lower) * (1 + margin) * factor
    after = before._replace(
        estimates=[estimate * spread for estimate in before.estimates],
        lower=before.lower * spread,
        upper=before.upper * spread,
        committed_us=before.committed_us * spread,
    )
    assert movement(before, after, margin=margin) == "slower"
