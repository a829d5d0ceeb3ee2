"""`docs/gate-example.md` shows the numbers that the code gets from the rounds on that page."""

import math
from collections.abc import Iterator
from pathlib import Path

from test_packaging import table_after

from pytest_kernelqual.judge.gate import look
from pytest_kernelqual.judge.statistics import LOOKS, estimate, log_ratio_of_round, walsh_averages

PAGE = (Path(__file__).parent.parent / "docs" / "gate-example.md").read_text()
ROUNDS = list(table_after(PAGE, "<!-- rounds -->"))
LOG_RATIOS = [log_ratio_of_round([float(sample) for sample in samples]) for _, *samples, _ in ROUNDS]
MARGIN = 0.05


def percent(log_ratio: float) -> str:
    """Return a log ratio as the page shows it."""
    return f"{math.expm1(log_ratio) * 100:+.2f} %"


def test_each_round_has_its_log_ratio() -> None:
    """Four samples, and what they give."""
    assert [round_[-1] for round_ in ROUNDS] == [f"{value * 100:.3f}" for value in LOG_RATIOS]


def looks() -> Iterator[list[str]]:
    """Yield what the code says at each look."""
    for rounds, k in LOOKS.items():
        if rounds <= len(LOG_RATIOS):
            found = estimate(LOG_RATIOS[:rounds])
            shown = [percent(value) for value in (found.lower, found.log_ratio, found.upper)]
            averages = len(walsh_averages(LOG_RATIOS[:rounds]))
            yield [str(rounds), str(averages), str(k), *shown, look(LOG_RATIOS[:rounds], margin=MARGIN)]


def test_each_look_decides_as_shown() -> None:
    """The gate goes on until a bound is on one side of the margin."""
    told = list(table_after(PAGE, "<!-- looks -->"))
    assert told == list(looks())
    assert [decision for *_, decision in told] == ["continue", "continue", "ok"]
    assert look(LOG_RATIOS[:6], margin=0.04) == "suspect"
