"""Pytest's own JUnit writer: where it is, and the test cases of items that were cut short."""

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from pytest_kernelqual.model.record import CaseRecord, Document
from pytest_kernelqual.report.junit import case_properties

# Setup reports of items that have not ended, by node id and worker.
Running = Mapping[tuple[str, Any], pytest.TestReport]


def junit_log(config: pytest.Config) -> Any:
    """Return pytest's JUnit writer, or None without --junitxml."""
    from _pytest.junitxml import xml_key  # noqa: PLC0415 - private, and needed by this function alone

    return config.stash.get(xml_key, None)


def close_testcases(log: Any, document: Document, running: Running, reported: Collection[str], why: str) -> None:
    """Fail the test cases of items that were cut short; pytest leaves them nameless, which is no valid JUnit.

    Args:
        log: Pytest's writer.
        document: What is known of the items.
        running: Of which a setup was reported, and no end.
        reported: Node ids of which anything was reported: a worker may have begun an item of which nothing was heard.
        why: What cut them short.
    """
    cases = {case.nodeid: case for kernel in document.kernels for case in kernel.cases}
    begun = {(nodeid, node): report.location for (nodeid, node), report in running.items()}
    for case in cases.values():
        if case.nodeid not in reported and _began(case):
            begun[case.nodeid, None] = (case.nodeid.partition("::")[0], None, case.nodeid)
    for (nodeid, node), location in begun.items():
        report = pytest.TestReport(nodeid, location, {}, "failed", why, "call")
        if node is not None:
            report.node = node  # type: ignore[attr-defined]  # by which the writer tells workers apart
        if nodeid in cases and log.family == "xunit1":
            report.user_properties.extend(case_properties(cases[nodeid]))
        reporter = log.node_reporter(report)
        reporter.record_testreport(report)
        reporter.append_failure(report)
        log.finalize(report)


def _began(case: CaseRecord) -> bool:
    return case.fixed.outcome != "not_run" or any(record.outcome != "not_run" for record in case.candidates)
