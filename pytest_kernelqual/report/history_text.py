"""The history of committed configs as plain ASCII text."""

from collections.abc import Sequence
from itertools import groupby

from tabulate import tabulate

from pytest_kernelqual.report.history import Course, History
from pytest_kernelqual.report.phrases import clean, counted

_LONGEST_NAME = 50
_LEVELS = "_.-=*#"
_MOST_LEVELS = 24
_HEADERS = ("kernel", "key", "runs", "first", "last", "change", "course", "config of the last run", "verdict")


def history_text(history: History) -> str:
    """Return a table for each device, the largest loss first, and the files that could not be used."""
    parts = [counted(history.reports, "report") + (", nothing timed in any" if not history.courses else "")]
    for device, courses in groupby(history.courses, key=lambda course: course.device):
        rows = [_row(course) for course in sorted(courses, key=lambda course: course.change)]
        table = tabulate(rows, _HEADERS, tablefmt="simple", disable_numparse=True, colalign=_ALIGNED)
        parts.append(f"{clean(device, _LONGEST_NAME)}: speed-up of committed configs over the fixed launch\n\n{table}")
    if history.problems:
        parts.append("\n".join(["not used:", *(f"  {clean(problem, 300)}" for problem in history.problems)]))
    return "\n\n".join(parts) + "\n"


_ALIGNED = ("left", "left", "right", "right", "right", "right", "left", "left", "left")


def _row(course: Course) -> list[str]:
    first, last = course.points[0], course.points[-1]
    retuned = f" (re-tuned {counted(course.retuned, 'time')})" if course.retuned else ""
    return [
        clean(course.kernel, _LONGEST_NAME),
        clean(course.key, _LONGEST_NAME),
        str(len(course.points)),
        f"{first.speed_up:.3f}",
        f"{last.speed_up:.3f}",
        f"{course.change * 100:+.1f} %",
        _levels([point.speed_up for point in course.points]),
        clean(last.config, _LONGEST_NAME) + retuned,
        clean(last.verdict, _LONGEST_NAME),
    ]


def _levels(values: Sequence[float]) -> str:
    """Draw the last values between their least and their largest; a course that hardly moves stays in the middle."""
    shown = values[-_MOST_LEVELS:]
    least, most = min(shown), max(shown)
    if most / least < 1.01:  # noqa: PLR2004 - what timing tells apart
        return _LEVELS[len(_LEVELS) // 2] * len(shown)
    return "".join(_LEVELS[round((value - least) / (most - least) * (len(_LEVELS) - 1))] for value in shown)
