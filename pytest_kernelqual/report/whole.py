"""A whole report as text, with what a run prints in sections of its own."""

from pytest_kernelqual.model.record import Document
from pytest_kernelqual.report.compiled_rows import compiled_rows_summary
from pytest_kernelqual.report.rows import rows_summary
from pytest_kernelqual.report.targets import targets_summary
from pytest_kernelqual.report.text import summary


def whole_text(document: Document, width: int = 100) -> str:
    """Return what the end of a run tells: the summary, compile targets and committed configs."""
    parts = [
        summary(document, width=width),
        targets_summary(document.kernels),
        compiled_rows_summary(document.compiled_rows),
        rows_summary(document.kernels),
    ]
    return "\n\n".join(part for part in parts if part)
