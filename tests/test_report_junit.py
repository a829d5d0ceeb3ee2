"""JUnit properties: one per candidate, in both families alike, with nothing that XML forbids."""

import xml.etree.ElementTree as ET

from hypothesis import given, settings
from msgspec.structs import replace
from report_samples import ENVIRONMENT, NODEID, candidate, case, cases, kernel, kernels, mismatching

from pytest_kernelqual.model.record import CaseRecord, KernelRecord
from pytest_kernelqual.report.document import build
from pytest_kernelqual.report.junit import case_properties, suite_properties


def test_candidates_are_told_by_outcome_evidence_and_ratio() -> None:
    """The ratio is empty where nothing is timed."""
    assert case_properties(case(candidate("num_warps=8"), mismatching("num_warps=16"))) == [
        (f"kernelqual.fixed {NODEID}", "qualified"),
        (f"kernelqual.candidate {NODEID} num_warps=8", "qualified;identical_bytes;"),
        (f"kernelqual.candidate {NODEID} num_warps=16", "mismatch;;"),
    ]


def test_suite_tells_environment_and_digest() -> None:
    """A reader of the XML alone knows what ran where, and which JSON belongs to it."""
    document = build(
        [kernel(case(candidate())), kernel(name="broken", problem="no\nimport")], ENVIRONMENT, [NODEID], ["-k"]
    )
    told = dict(suite_properties(document))
    assert told["kernelqual.digest"] == document.digest
    assert told["kernelqual.universe"] == document.universe
    assert told["kernelqual.complete"] == "false"
    assert told["kernelqual.compared"] == "1"
    assert told["kernelqual.device"] == "cuda;NVIDIA H200;sm_90"
    assert told["kernelqual.torch"] == "2.13.0"
    assert told["kernelqual.problem kernels/qual_broken.py::broken"] == "no#x0Aimport"


def test_suite_without_a_device_says_so() -> None:
    """No device process ever answered."""
    assert ("kernelqual.device", "none") in suite_properties(build([], None, []))


@settings(deadline=None)
@given(cases)
def test_suite_holds_the_properties_of_every_case(one: CaseRecord) -> None:
    """Both families of JUnit tell the same."""
    told = suite_properties(build([kernel(one)], None, []))
    of_case = case_properties(one)
    assert told[len(told) - len(of_case) :] == of_case


@settings(deadline=None)
@given(kernels)
def test_properties_survive_xml(records: list[KernelRecord]) -> None:
    """Names and values, whatever they hold, come back from a parser as they went in."""
    environment = replace(ENVIRONMENT, torch="\x00\x1b[0m\ud800\ufffe<&\"'\U0001f600")
    told = suite_properties(build(records, environment, []))
    root = ET.Element("properties")
    for name, value in told:
        ET.SubElement(root, "property", name=name, value=value)
    text = ET.tostring(root, encoding="utf-8")
    back = [(found.attrib["name"], found.attrib["value"]) for found in ET.fromstring(text)]  # noqa: S314 - our own text
    assert back == told
