"""One JUnit file of the shards of a run."""

from collections.abc import Mapping, Sequence
from math import isfinite

from junitparser import JUnitXml, TestSuite

from pytest_kernelqual.errors import DocumentError
from pytest_kernelqual.model.record import Document
from pytest_kernelqual.report.junit import PER_CASE, suite_properties
from pytest_kernelqual.report.merging import Shard, order

_OURS = "kernelqual."
_COUNTS = ("tests", "errors", "failures", "skipped")


def merge_junit(files: Mapping[str, bytes], shards: Sequence[Shard], merged: Document) -> bytes:
    """Return the files of all shards as one with a single suite, which has the properties of the merged report.

    Raises:
        DocumentError: One is no JUnit file of these shards, is doubled or missing; one line for each problem.
    """
    suites: dict[int, TestSuite] = {}
    problems: list[str] = []
    wanted = {
        number: {f"{_OURS}digest": shard.document.digest, f"{_OURS}universe": shard.document.universe}
        for number, shard in enumerate(shards)
    }
    for name, data in files.items():
        suite = _suite(name, data, problems)
        if suite is None:
            continue
        told = {one.name: one.value for one in suite.properties()}
        number = next((number for number, ours in wanted.items() if ours.items() <= told.items()), None)
        if number is None:
            problems.append(f"{name}: belongs to none of the reports, or to one that another file belongs to")
            continue
        del wanted[number]
        suites[number] = suite
    problems += [f"{shards[number].name}: no JUnit file belongs to it; give that of each shard" for number in wanted]
    if problems:
        raise DocumentError("\n".join(problems))
    return _one([suites[number] for number in sorted(suites, key=lambda number: order(shards[number]))], merged)


def _one(suites: Sequence[TestSuite], merged: Document) -> bytes:
    one = TestSuite(suites[0].name)
    for name in _COUNTS:
        setattr(one, name, sum(getattr(suite, name) or 0 for suite in suites))
    one.time = round(sum(suite.time or 0 for suite in suites), 3)
    one.timestamp = min(suite.timestamp or "" for suite in suites)
    hosts = {suite.hostname for suite in suites}
    if len(hosts) == 1:
        one.hostname = hosts.pop()
    theirs = [(each.name, each.value) for suite in suites for each in suite.properties()]
    told = [pair for pair in theirs if not pair[0].startswith(_OURS)]
    # Where the family of the file lets a test case have them, those of a case stay there.
    in_suite = any(name.startswith(PER_CASE) for name, _ in theirs)
    told += [pair for pair in suite_properties(merged) if in_suite or not pair[0].startswith(PER_CASE)]
    for name, value in dict.fromkeys(told):
        one.add_property(name, value)
    for suite in suites:
        for case in suite:
            one.append(case)
    root = JUnitXml("pytest tests")
    root.append(one)
    text: bytes = root.tostring()
    return b'<?xml version="1.0" encoding="utf-8"?>' + text.removeprefix(b"<?xml version='1.0' encoding='utf-8'?>\n")


def _suite(name: str, data: bytes, problems: list[str]) -> TestSuite | None:
    try:
        root = JUnitXml.fromstring(data)
    except Exception as error:  # noqa: BLE001 - of whichever XML parser junitparser uses
        problems.append(f"{name}: cannot be read as JUnit XML: {' '.join(str(error).split())}")
        return None
    suites = list(root) if isinstance(root, JUnitXml) else [root]
    if len(suites) != 1 or not isinstance(suites[0], TestSuite):
        problems.append(f"{name}: holds {len(suites)} test suites; pytest writes one")
        return None
    suite = suites[0]
    try:
        figures = [getattr(suite, figure) or 0 for figure in (*_COUNTS, "time")]
    except ValueError as error:
        problems.append(f"{name}: a figure of its test suite is no number: {error}")
        return None
    if not all(map(isfinite, figures)) or not all(one.name for one in suite.properties()):
        problems.append(f"{name}: a property of its test suite has no name, or its time is endless")
        return None
    return suite
