"""How many launches and input sets make a sample: inputs are cold, or the record says that they are not."""

from hypothesis import given
from hypothesis import strategies as st

from pytest_kernelqual.on_device.sample_size import MOST_SETS, sample_size

L2 = 60 << 20


@given(st.integers(1, 50_000), st.integers(0, 1 << 34), st.booleans(), st.booleans())
def test_cold_means_cold(wanted: int, footprint: int, mutates: bool, cold: bool) -> None:  # noqa: FBT001 - drawn
    """A cold sample never meets a set that is still in the cache: evicted by others, or used once after a flush."""
    size = sample_size(wanted, footprint, L2, mutates=mutates, cold=cold)
    assert 1 <= size.ring <= min(size.launches, MOST_SETS)
    if size.cache == "cold":
        assert (size.flushed and size.ring == size.launches) or size.ring * footprint >= 2 * L2
    if mutates:
        assert size.ring == size.launches
    if not cold:
        assert (size.cache == "warm") is (not mutates or size.ring * footprint <= L2 / 2)  # the cache holds them
        assert size.flushed is (size.cache == "cold")


def test_samples_stay_short() -> None:
    """A slow kernel on small inputs is not launched hundreds of times to fill a ring."""
    assert sample_size(5, 200_000, L2, mutates=False, cold=True) == (5, 5, True, "cold")
    assert sample_size(20, 64 << 20, L2, mutates=False, cold=True) == (20, 2, False, "cold")
    assert sample_size(8, 96 << 20, L2, mutates=True, cold=True) == (8, 8, True, "cold")
    assert sample_size(5_000, 1_000, L2, mutates=False, cold=True) == (5_000, 1, False, "warm")
    assert sample_size(5, 200_000, L2, mutates=False, cold=False) == (5, 1, False, "warm")
