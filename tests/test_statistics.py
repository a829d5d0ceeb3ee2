"""Laws of the paired comparison."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kernelqual.judge.gate import Arm, confirmed, look
from pytest_kernelqual.judge.statistics import (
    LOOKS,
    Estimate,
    estimate,
    log_ratio_of_round,
    means_of,
    next_look,
    one_sided_error,
    walsh_averages,
)

times = st.floats(1e-3, 1e6)
rounds = st.sampled_from(sorted(LOOKS)).flatmap(lambda n: st.lists(st.floats(-1, 1), min_size=n, max_size=n))


def test_exact_errors() -> None:
    """The error of each look is what enumerating all signs gives."""
    assert {n: round(one_sided_error(n, k), 5) for n, k in LOOKS.items()} == {
        6: 0.01562,
        8: 0.00391,
        12: 0.00464,
        16: 0.00459,
    }
    for n, k in ((6, 1), (8, 1), (8, 4)):
        below = sum(
            sum(rank for rank, sign in enumerate(signs, 1) if sign) <= k - 1
            for signs in itertools.product([0, 1], repeat=n)
        )
        assert one_sided_error(n, k) == below / 2**n


@given(st.integers(1, 5), st.lists(st.floats(-1, 1), max_size=10))
def test_means_of_a_value_taken_so_many_times_are_the_values(count: int, values: list[float]) -> None:
    """And none may be left over."""
    told = means_of(count, [value for value in values for _ in range(count)])
    assert told == pytest.approx(values)
    if count > 1:
        with pytest.raises(ValueError, match="shorter"):
            means_of(count, [0.0] * (count + 1))


@given(rounds)
def test_estimate_is_the_median_of_walsh_averages(values: list[float]) -> None:
    """The estimate lies between its bounds, and is the middle of the averages of all pairs."""
    found = estimate(values)
    averages = walsh_averages(values)
    assert len(averages) == len(values) * (len(values) + 1) // 2
    assert found.lower <= found.log_ratio <= found.upper
    below = sum(average < found.log_ratio for average in averages)
    above = sum(average > found.log_ratio for average in averages)
    assert max(below, above) <= len(averages) / 2


@given(rounds, st.randoms(use_true_random=False))
def test_order_of_rounds_changes_nothing(values: list[float], random) -> None:  # noqa: ANN001 - hypothesis gives it
    """Rounds are exchangeable."""
    shuffled = list(values)
    random.shuffle(shuffled)
    assert estimate(shuffled) == estimate(values)


@given(rounds)
def test_swapping_arms_mirrors(values: list[float]) -> None:
    """A against B is B against A with the sign changed."""
    found, mirrored = estimate(values), estimate([-value for value in values])
    assert math.isclose(mirrored.log_ratio, -found.log_ratio, abs_tol=1e-12)
    assert math.isclose(mirrored.lower, -found.upper, abs_tol=1e-12)
    assert math.isclose(mirrored.upper, -found.lower, abs_tol=1e-12)


@given(st.tuples(times, times, times, times), st.floats(1e-3, 1e3))
def test_scale_of_time_changes_nothing(abba: tuple[float, ...], factor: float) -> None:
    """Microseconds or seconds: the ratio is the same."""
    scaled = [sample * factor for sample in abba]
    assert math.isclose(log_ratio_of_round(scaled), log_ratio_of_round(abba), abs_tol=1e-9)


@given(times, st.floats(0.5, 2.0), st.floats(-0.01, 0.01))
def test_linear_drift_cancels(time: float, ratio: float, drift: float) -> None:
    """A clock that slows by the same factor at each sample leaves the ratio alone."""
    abba = [time * math.exp(drift * i) * (ratio if i in (1, 2) else 1.0) for i in range(4)]
    assert math.isclose(log_ratio_of_round(abba), math.log(ratio), abs_tol=1e-9)


@pytest.mark.parametrize("abba", [(1, 2, 3), (1, 2, 3, 0), (1, 2, 3, -1), (1, 2, 3, math.nan), (1, 2, 3, math.inf)])
def test_wrong_rounds_are_refused(abba: tuple[float, ...]) -> None:
    """A sample that is no time is an error, not a ratio."""
    with pytest.raises(ValueError, match="four positive samples"):
        log_ratio_of_round(abba)


def test_looks_in_order() -> None:
    """Looks come after 6, 8, 12 and 16 rounds, and there is none after the last."""
    assert [next_look(n) for n in (0, 6, 7, 8, 12, 15, 16)] == [6, 8, 8, 12, 16, 16, None]
    with pytest.raises(ValueError, match="not after 7"):
        estimate([0.0] * 7)


@given(rounds, st.floats(0.001, 0.5))
def test_verdicts_are_exclusive_and_monotone(values: list[float], margin: float) -> None:
    """What is ok stays ok when B gets faster; what is suspect stays suspect when B gets slower."""
    verdict = look(values, margin=margin)
    if verdict == "ok":
        assert look([value - 0.1 for value in values], margin=margin) == "ok"
    if verdict == "suspect":
        assert look([value + 0.1 for value in values], margin=margin) == "suspect"
    assert verdict in {"ok", "suspect", "continue" if len(values) < max(LOOKS) else "inconclusive"}


def test_clear_cases_are_decided_at_the_first_look() -> None:
    """No difference is ok, a large one is suspect, after six quiet rounds."""
    assert look([0.0001, -0.0001, 0.0, 0.0002, -0.0002, 0.0001], margin=0.02) == "ok"
    assert look([0.05, 0.051, 0.049, 0.05, 0.052, 0.05], margin=0.02) == "suspect"
    assert look([0.05] * 7, margin=0.02) == "continue"
    assert look([0.0, 0.04] * 8, margin=0.02) == "inconclusive"


def test_confirmation_takes_the_smallest_of_all_processes() -> None:
    """One process that does not see the effect acquits; so does an effect too small to be seen."""
    slow = math.log(1.05)
    assert confirmed([slow, slow, slow], margin=0.02, time_us=10, resolution_us=0.01)
    assert not confirmed([slow, slow, math.log(1.01)], margin=0.02, time_us=10, resolution_us=0.01)
    assert not confirmed([slow, slow, slow], margin=0.02, time_us=0.9, resolution_us=0.01)
    assert not confirmed([slow, slow, slow], margin=0.02, time_us=10, resolution_us=0.6)


def test_arming_needs_narrow_and_unbiased_controls() -> None:
    """A gate of 2 % is armed by a control of half a percent, and not by a wide or a biased one."""
    assert Arm(Estimate(0.0, -0.004, 0.004, 16), 0.02).armed
    assert not Arm(Estimate(0.0, -0.006, 0.006, 16), 0.02).armed
    assert not Arm(Estimate(0.006, 0.003, 0.009, 16), 0.02).armed
