"""`kernelqual explain`: all that a report knows of one candidate."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from acceptance import REPORT, run
from faulty_samples import write_project
from hypothesis import given
from report_samples import ENVIRONMENT, NODEID, candidate, case, kernel, kernels, mismatching

from pytest_kernelqual.cli import main
from pytest_kernelqual.model.record import CommittedRecord, GateRecord
from pytest_kernelqual.report.choosing import Chosen
from pytest_kernelqual.report.document import build, encode, write
from pytest_kernelqual.report.explanation import explain
from pytest_kernelqual.report.explanation_text import explanation_text


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run a project with broken kernels under the interpreter, and return its folder."""
    folder = write_project(tmp_path_factory.mktemp("explained"))
    assert run(folder, TRITON_INTERPRET="1").code == 1
    return folder


def explained(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    command = [sys.executable, "-m", "pytest_kernelqual", "explain", REPORT, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)


def test_mismatch(project: Path) -> None:
    """Config beside the fixed launch's, bytes, inputs, and the other cases."""
    done = explained(project, "--candidate", "BLOCK=64,FAULT=rounds", "--case", "n100")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "scaled[n100] BLOCK=64,FAULT=rounds: mismatch"
    assert "  FAULT = 'rounds' (fixed launch: '')" in lines
    assert "  num_warps = 4, as production has it" in lines
    assert "    first_index: [0]" in lines
    assert "  normal/0: other bytes" in lines or "  normal/0" in lines
    assert any(line.startswith("  n1000: mismatch: ") for line in lines)
    assert "  there is none: only a candidate that is qualified or within tolerance has evidence" in lines


def test_qualified(project: Path) -> None:
    """The evidence, and why it is not stronger; what another's run stands for."""
    done = explained(project, "--candidate", "BLOCK=32,num_warps=8", "--case", "n1000", "--kernel", "scaled")
    assert done.returncode == 0
    assert "\nevidence\n  interpreted\n  the Triton interpreter shows semantics only: no compiled code" in done.stdout
    assert "  not run itself: the run of BLOCK=32 stands for it\n" in done.stdout
    assert "  ran as: n=70\n" in done.stdout


def test_json_holds_the_records(project: Path) -> None:
    """For programs."""
    done = explained(project, "--candidate", "PARTS=3", "--format", "json")
    told = json.loads(done.stdout)
    assert told["schema"] == "kernelqual/candidate-explanation/1"
    report = json.loads((project / REPORT).read_text())
    record = next(one for one in report["kernels"] if one["kernel"] == "totals")["cases"][0]["candidates"][0]
    assert told["candidate"] == record
    assert told["digest"] == report["digest"]
    assert told["limits"] == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--candidate", "PARTS=4"], "the report has no candidate 'PARTS=4'; near ones: PARTS=3"),
        (
            ["--candidate", "FAULT=drops,BLOCK=64"],
            "no candidate 'FAULT=drops,BLOCK=64'; near ones: BLOCK=64,FAULT=drops",
        ),
        (["--candidate", "?"], "no candidate '?'; there are 9 candidates: BLOCK=32, BLOCK=32,num_warps=8, "),
        (["--candidate", "BLOCK=32"], "is in 2 cases: scaled[n100], scaled[n1000]; name one by --kernel and --case"),
        (["--candidate", "PARTS=3", "--kernel", "total"], "the report has no kernel 'total'; near ones: totals"),
        (["--candidate", "PARTS=3", "--case", "\x1b[31m"], "no case '\\x1b[31m'; there are 2 cases: n100, n1000"),
        (["--candidate", "PARTS=3", "--kernel", "scaled"], "no candidate 'PARTS=3'; there are 7 candidates: "),
    ],
)
def test_names_that_are_not_there(project: Path, arguments: list[str], message: str) -> None:
    """One line that tells what there is."""
    done = explained(project, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [(), ("--candidate",), ("--candidate", "a", "--format", "xml")])
def test_wrong_usage(project: Path, arguments: tuple[str, ...]) -> None:
    """Usage on standard error."""
    done = explained(project, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: kernelqual explain")


def test_unreadable_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line."""
    (tmp_path / "half.json").write_bytes(b'{"schema": ')
    assert main(["explain", str(tmp_path / "half.json"), "--candidate", "a"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_times_resources_and_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a GPU's report: the share of the device's limits, gates with intervals and samples, the committed verdict."""
    gate = GateRecord(
        gate="not_slower_than_fixed",
        a="fixed",
        b="num_warps=8",
        margin_pct=2.0,
        verdict="slow",
        ratio=[1.05, 1.04, 1.06],
        processes=[1.05, 1.049, 1.051],
        time_us=[10.0, 10.5],
        rounds=[[10.0, 10.5, 10.6, 10.1], [9.9, 10.4, 10.5, 10.0]],
    )
    row = CommittedRecord(
        device="nvidia_h200", key={"cols": 515}, config={"num_warps": 8}, verdict="slower_than_fixed", gates=[gate]
    )
    other = CommittedRecord(device="nvidia_h200", key={"cols": 516}, config={"num_warps": 8}, verdict="ok")
    record = candidate(
        config={"num_warps": 8},
        resources={"shared_bytes": 116224, "registers": 64},
        fragile=["tt.reduce axis 0: warps along the axis 4 -> 8"],
    )
    report = build([kernel(case(record), committed=[row, other])], ENVIRONMENT, [NODEID])
    write(tmp_path / "report.json", encode(report))
    assert main(["explain", str(tmp_path / "report.json"), "--candidate", "num_warps=8"]) == 0
    told = capsys.readouterr().out
    assert "  shared_bytes: 116224 of 232448 (50%)\n" in told
    assert "  tt.reduce axis 0: warps along the axis 4 -> 8\n" in told
    assert "num_warps=8: slower_than_fixed\n" in told
    assert "against fixed: slow: +5.00 % [+4.00, +6.00], margin 2 %" in told
    assert "not_slower_than_fixed: num_warps=8: 4 samples, least 10.400, median 10.500, most 10.600 us\n" in told
    assert told.count("verdict") == told.count("cols=516") == 0


def test_same_bytes_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Which candidates agree with each other, told by digests."""
    records = [mismatching(name) for name in ("a", "b", "c")]
    for record, digest in zip(records, ("1", "1", "2"), strict=True):
        record.detail["output"] = f"sha256:{digest}"
    write(tmp_path / "report.json", encode(build([kernel(case(*records))], ENVIRONMENT, [NODEID])))
    assert main(["explain", str(tmp_path / "report.json"), "--candidate", "a"]) == 0
    assert "  the same bytes have: b\n" in capsys.readouterr().out


@given(kernels)
def test_any_record_can_be_told(found: list[object]) -> None:
    """Hostile names, messages and facts become clean lines."""
    report = build(found, ENVIRONMENT, [])  # type: ignore[arg-type]
    for one in report.kernels:
        for own in one.cases:
            for record in own.candidates:
                text = explanation_text(explain(report, Chosen(one, own, record)))
                assert text.isascii()
                assert all(line.isprintable() for line in text.split("\n"))
