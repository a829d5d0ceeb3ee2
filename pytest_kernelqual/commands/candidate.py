"""The arguments that name one candidate of a report."""

import argparse

from pytest_kernelqual.commands.completion import from_report
from pytest_kernelqual.model.record import Document
from pytest_kernelqual.report import document
from pytest_kernelqual.report.choosing import Chosen, candidate_ids, choose


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare them."""
    parser.add_argument("file", metavar="FILE", help="a qualified-configurations.json")
    ids = parser.add_argument("--candidate", metavar="ID", required=True, help="the candidate, as reports name it")
    kernel = parser.add_argument(
        "--kernel", metavar="NAME", help="its kernel, where several have such a candidate: name or node id"
    )
    case = parser.add_argument("--case", metavar="ID", help="its case, where several have: id or node id")
    ids.completer = from_report(lambda report, told: candidate_ids(report, told.kernel, told.case))  # type: ignore[attr-defined]
    kernel.completer = from_report(lambda report, _: [one.kernel for one in report.kernels])  # type: ignore[attr-defined]
    case.completer = from_report(  # type: ignore[attr-defined]
        lambda report, told: [
            case.id for one in report.kernels if told.kernel in (None, one.kernel, one.nodeid) for case in one.cases
        ]
    )


def add_root(parser: argparse.ArgumentParser) -> None:
    """Declare where the spec files of the report are looked for."""
    parser.add_argument(
        "--root", metavar="DIR", default=".", help="root folder of the run, where its spec files are (default: here)"
    )


def chosen(options: argparse.Namespace) -> tuple[Document, Chosen]:
    """Return the report and the candidate that is meant."""
    report = document.read(options.file)
    return report, choose(report, options.candidate, options.kernel, options.case)
