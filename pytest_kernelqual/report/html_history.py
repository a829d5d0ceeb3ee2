"""The history of committed configs as one self-contained HTML file."""

from typing import Any

from pytest_kernelqual.report.history import Course, History, Point
from pytest_kernelqual.report.html import page
from pytest_kernelqual.report.html_data import safe


def render_history(history: History) -> str:
    """Return the page of a history, in ASCII.

    Raises:
        DocumentError: There are too many runs for one page.
    """

    def data(limit: int) -> dict[str, Any]:
        told: dict[str, Any] = safe(
            {
                "reports": history.reports,
                "problems": history.problems,
                "devices": list(dict.fromkeys(course.device for course in history.courses)),
                "courses": [_course(course) for course in history.courses],
            },
            limit,
        )
        return told

    return page("history.html.j2", ("history.js",), data)


def _course(course: Course) -> dict[str, Any]:
    return {
        "device": course.device,
        "kernel": course.kernel,
        "key": course.key,
        "change": round(course.change, 5),
        "retuned": course.retuned,
        "points": [_point(point) for point in course.points],
    }


def _point(point: Point) -> dict[str, Any]:
    return {**point._asdict(), "at": point.at.timestamp()}
