"""Run pytest as a user does, and hold every run to the same laws: valid files that agree with the exit code."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

import jsonschema
import xmlschema
from junitparser import Error, Failure, JUnitXml, TestCase

from pytest_kernelqual.model.record import CandidateRecord, CaseRecord, Document
from pytest_kernelqual.report.document import failing, read
from pytest_kernelqual.report.schema import SCHEMA_FILE

HERE = Path(__file__).parent
BASIC = HERE / "suites" / "basic"
SHIPPED_SCHEMA = json.loads((HERE.parent / "pytest_kernelqual" / "report" / SCHEMA_FILE).read_text())
JENKINS = xmlschema.XMLSchema(HERE / "junit-xunit2.xsd")
REPORT = "qualified-configurations.json"
JOURNAL = f"{REPORT}.journal"
# What an earlier run may have left in the place of the report.
EARLIER = '{"schema": "kernelqual/qualified-configurations/0"}'
LIMIT_S = 300.0

STUB = ("-p", "stub_device", "-p", "pytest_kernelqual.plugin")


class Ended(NamedTuple):
    """A run that has ended, and where it ran."""

    folder: Path
    code: int
    text: str

    @property
    def document(self) -> Document:
        """Read the JSON report, which must be valid by the shipped schema."""
        path = self.folder / REPORT
        jsonschema.validate(json.loads(path.read_text()), SHIPPED_SCHEMA)
        return read(path)

    @property
    def because(self) -> str:
        """Return why the report is incomplete, as one text; it says so exactly when there is a reason."""
        document = self.document
        assert document.complete is not bool(document.incomplete_because)
        return "\n".join(document.incomplete_because)

    @property
    def cases(self) -> dict[str, CaseRecord]:
        """Return the cases by node id."""
        return {case.nodeid: case for kernel in self.document.kernels for case in kernel.cases}

    @property
    def junit(self) -> JUnitXml:
        """Read the JUnit file of the default family, which must be valid for Jenkins."""
        path = self.folder / "junit.xml"
        JENKINS.validate(path)
        return JUnitXml.fromfile(str(path))

    def outcomes(self, nodeid: str) -> dict[str, str]:
        """Return the outcome of each candidate of a case."""
        return {record.id: record.outcome for record in self.cases[nodeid].candidates}


def suite(folder: Path, specs: dict[str, dict[str, Any]], *, name: str = "qual_stub.py", ini: str = "") -> Path:
    """Write a spec file for the stub, and a project around it."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(repr(specs))
    (folder / "pytest.ini").write_text(f"[pytest]\nkernelqual_paths = .\n{ini}")
    return folder


def spec(*cases: str, **candidates: str) -> dict[str, Any]:
    """Declare a spec of the stub."""
    return {"cases": list(cases or ("a",)), "candidates": candidates or {"ok": "qualified"}}


def conftest(folder: Path, text: str) -> None:
    """Write the project's conftest.py."""
    (folder / "conftest.py").write_text(f"import os, pytest, resource, shutil, signal\n{dedent(text)}")


def start(folder: Path, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
    """Start pytest on real kernels; STUB among the arguments makes them the stub's and loads no other plugin."""
    told = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "TRITON_", "CUDA_"))}
    if STUB[1] in arguments:
        told["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    told["PYTHONPATH"] = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "pytest", "--kernelqual", "--junitxml=junit.xml", *arguments]
    if STUB[1] not in arguments:
        command += ["-p", "no:randomly"]
    return subprocess.Popen(
        command,
        cwd=folder,
        env={**told, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def finish(running: "subprocess.Popen[str]", folder: Path) -> Ended:
    """Wait for the end of a run; nothing that it started may be left."""
    text, _ = running.communicate(timeout=LIMIT_S)
    wait_until(lambda: not of_session(folder), "processes of the run are left")
    return Ended(folder, running.returncode, text)


def run(folder: Path, *arguments: str, **environment: str) -> Ended:
    """Run pytest to its end."""
    return finish(start(folder, *arguments, **environment), folder)


def stub(folder: Path, *arguments: str, **environment: str) -> Ended:
    """Run pytest on the stub to its end."""
    return run(folder, *STUB, *arguments, **environment)


def of_session(folder: Path) -> list[int]:
    """Return the processes that work in a folder; device processes are in sessions of their own."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                if (process / "cwd").resolve(strict=True) == folder.resolve() and _state(process) != "Z":
                    found.append(int(process.name))
            except OSError:  # it has just ended
                continue
    return found


def _state(process: Path) -> str:
    return (process / "stat").read_text().rpartition(")")[2].split()[0]


def wait_until(condition: Any, problem: str) -> None:
    """Wait until a condition holds; the limit is only there for a test that fails."""
    deadline = time.monotonic() + LIMIT_S / 4
    while not condition():
        assert time.monotonic() < deadline, problem
        time.sleep(0.02)


def failed_in_junit(xml: JUnitXml) -> set[str]:
    """Return the test cases that JUnit calls failed."""
    return {_name(case) for case in cases_of(xml) if any(isinstance(one, Failure | Error) for one in case.result)}


def cases_of(xml: JUnitXml) -> list[TestCase]:
    """Return the test cases of all suites."""
    return [case for one in xml for case in one]


def _name(case: TestCase) -> str:
    return f"{case.classname}.{case.name}"


def junit_name(nodeid: str) -> str:
    """Return a node id as JUnit writes it."""
    return nodeid.replace(".py::", ".").replace("::", ".").replace("/", ".")


def assert_agree(ended: Ended) -> None:
    """Exit code, JSON, JUnit and summary tell the same of a run that was not cut short."""
    document = ended.document
    in_json = {junit_name(case.nodeid) for case in ended.cases.values() if not case.passed}
    in_json |= {junit_name(kernel.nodeid) for kernel in document.kernels if kernel.problem}
    session = {"kernelqual.session"} if "FAILED kernelqual::session" in ended.text else set()
    named = {name.removesuffix(".test_declaration") for name in failed_in_junit(ended.junit)}
    assert named == in_json | session
    assert ended.code == (1 if in_json or session else 0)
    assert bool(document.session_problems) is bool(session)
    assert failing(document) is bool(in_json | session)
    assert ("report: complete" in ended.text) is document.complete
    assert document.digest in ended.text
    wrong = f"{len(in_json | session)} failed" if in_json or session else ""
    assert wrong in ended.text.splitlines()[-1]
    assert not (ended.folder / JOURNAL).exists()


def candidate(case: CaseRecord, id_: str) -> CandidateRecord:
    """Return one candidate of a case."""
    return next(record for record in case.candidates if record.id == id_)
