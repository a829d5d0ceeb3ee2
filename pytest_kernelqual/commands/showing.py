"""A report as every command shows it."""

from shutil import get_terminal_size

from pytest_kernelqual.commands.exit_status import FAILING, OK
from pytest_kernelqual.model.record import Document
from pytest_kernelqual.report import document
from pytest_kernelqual.report.whole import whole_text


def shown(report: Document) -> tuple[str, int]:
    """Return the report as text, and the exit status that tells whether it has a failure."""
    text = whole_text(report, width=get_terminal_size((100, 24)).columns)
    return text + "\n", FAILING if document.failing(report) else OK
