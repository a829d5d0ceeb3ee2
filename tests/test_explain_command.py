"""`kernelqual explain`: all that a report knows of one candidate."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from acceptance import REPORT, run
from faulty_samples import write_project
from hypothesis import given
from msgspec import structs
from report_samples import ENVIRONMENT, NODEID, candidate, case, kernel, kernels, mismatching

from pytest_kernelqual.cli import main
from pytest_kernelqual.model.record import CommittedRecord, GateRecord
from pytest_kernelqual.report.choosing import Chosen
from pytest_kernelqual.report.document import build, encode, read, write
from pytest_kernelqual.report.explanation import explain
from pytest_kernelqual.report.explanation_text import explanation_text

ROOT = Path(__file__).parent.parent


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
        (["--candidate", "?"], "no candidate '?'; there are 11 candidates: BLOCK=32, BLOCK=32,num_warps=8, "),
        (["--candidate", "BLOCK=32"], "is in 2 cases: scaled[n100], scaled[n1000]; name one by --kernel and --case"),
        (["--candidate", "PARTS=3", "--kernel", "total"], "the report has no kernel 'total'; near ones: totals"),
        (["--candidate", "PARTS=3", "--case", "\x1b[31m"], "no case '\\x1b[31m'; there are 3 cases: n100, n1000, n90"),
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


def test_report_without_cases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing can be told of it."""
    write(tmp_path / "report.json", encode(build([kernel(problem="cannot import")], ENVIRONMENT, [])))
    assert main(["explain", str(tmp_path / "report.json"), "--candidate", "a"]) == 2
    assert capsys.readouterr().err == "kernelqual: error: the report has no case at all\n"


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
        confirmations=[[[10.0, 10.6, 10.7, 10.1]]],
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
    samples = "4 samples, least 10.400, median 10.500, most 10.600 us\n"
    assert f"not_slower_than_fixed: num_warps=8 in process 1: {samples}" in told
    assert "not_slower_than_fixed: num_warps=8 in process 2: 2 samples, least 10.600, median" in told
    assert told.count("verdict") == told.count("cols=516") == 0


def test_same_bytes_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Which candidates agree with each other, told by digests."""
    records = [mismatching(name) for name in ("a", "b", "c")]
    for record, digest in zip(records, ("1", "1", "2"), strict=True):
        record.detail["output"] = f"sha256:{digest}"
    write(tmp_path / "report.json", encode(build([kernel(case(*records))], ENVIRONMENT, [NODEID])))
    assert main(["explain", str(tmp_path / "report.json"), "--candidate", "a"]) == 0
    assert "  the same bytes have: b\n" in capsys.readouterr().out


class TestCode:
    """IR, assembly and arithmetic order against the fixed launch's, compiled in a process of its own."""

    @pytest.mark.parametrize(
        ("target", "machine_code"),
        [
            ("cuda:90", "sass: 0 lines of the fixed launch's are gone, 2 are new"),
            ("hip:gfx942", "v_cvt_f16_f32_e32 0 -> 1"),
        ],
    )
    def test_difference(self, project: Path, target: str, machine_code: str) -> None:
        """The rounding stands in every stage; lines of the source and paths do not."""
        done = explained(project, "--candidate", "BLOCK=64,FAULT=rounds", "--case", "n100", "--target", target)
        assert (done.returncode, done.stderr) == (0, "")
        code = done.stdout.split("\ncode\n", 1)[1]
        assert f"  compiled for {target}, nothing launched; " in code
        assert "  arithmetic order: differs\n    arith.mulf: operand 0 load from 0 -> arith.extf\n" in code
        assert (
            "    ttgir: 1 lines of the fixed launch's are gone, 3 are new\n      arith.extf 0 -> 1, arith.trun" in code
        )
        assert re.search(
            r"^      \+    %\w+ = arith.truncf %\w+ : tensor<64xf32> to tensor<64xf16>$", code, re.MULTILINE
        )
        assert machine_code in code
        assert "ops.py" not in code
        assert "loc(" not in code

    def test_json(self, project: Path) -> None:
        """The whole difference."""
        arguments = ["--candidate", "BLOCK=32,num_warps=8", "--case", "n1000", "--target", "NVIDIA H200"]
        done = explained(project, *arguments, "--format", "json")
        code = json.loads(done.stdout)["code"]
        assert (code["target"], code["order"]) == ("cuda:90", "equal")
        (launch,) = code["launches"]
        assert launch["grid"] == [[16], [32]]  # of the declared case: no interpreter's smaller one
        assert launch["resources"]["threads"] == [128, 256]
        assert [stage["stage"] for stage in launch["stages"]] == ["ttir", "ttgir", "ptx", "sass"]
        assert launch["stages"][0]["diff"][0].startswith("@@ ")

    def test_lines_are_limited(self, project: Path) -> None:
        """So that it can be read."""
        arguments = ["--candidate", "BLOCK=32", "--case", "n100", "--target", "cuda:90", "--lines", "1"]
        told = explained(project, *arguments).stdout
        ttir = told.split("    ttir: ")[1].split("    ttgir: ")[0].splitlines()
        assert ttir[1].startswith("      @@ ")
        assert re.fullmatch(r"      and \d\d more lines; --lines 0 shows all", ttir[2])

    def test_device_of_the_report(self, project: Path) -> None:
        """It is what is compiled for."""
        report = read(project / REPORT)
        given = structs.replace(report, environment=ENVIRONMENT)
        write(project / "h200.json", encode(given))
        command = [sys.executable, "-m", "pytest_kernelqual", "explain", "h200.json", "--candidate"]
        done = subprocess.run(
            [*command, "BLOCK=128,FAULT=rounds"], cwd=project, capture_output=True, text=True, check=True
        )
        assert "  compiled for cuda:90, nothing launched; " in done.stdout
        assert "launch 2: _scale: grid (2,) -> (1,)" in done.stdout

    @pytest.mark.parametrize(
        ("candidate_id", "message"),
        [
            ("BLOCK=64,FAULT=raises", "  not compared: the candidate: compile_error: "),
            ("PARTS=3", "  not compared: neither launches a Triton kernel\n"),
        ],
    )
    def test_without_code(self, project: Path, candidate_id: str, message: str) -> None:
        """Told as what it is; all else is told as ever."""
        kernel_name = "scaled" if "BLOCK" in candidate_id else "totals"
        arguments = ["--candidate", candidate_id, "--kernel", kernel_name, "--target", "cuda:90"]
        done = explained(project, *arguments, *(["--case", "n100"] if "BLOCK" in candidate_id else []))
        assert done.returncode == 0
        assert message in done.stdout

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--target", "cuda:1"], "compile target 'cuda:1' is not known; use one of "),
            (["--target", "cuda:90", "--root", "kernels"], "is no spec of a file below 'kernels'; name the root"),
            (["--lines", "-1"], "--lines -1 is negative"),
        ],
    )
    def test_wrong_asking(self, project: Path, arguments: list[str], message: str) -> None:
        """One line, and exit status 2."""
        done = explained(project, "--candidate", "PARTS=3", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr
        assert done.stderr.count("\n") == 1

    def test_without_torch(self, project: Path, tmp_path: Path) -> None:
        """One line says so where code was asked for; else the rest is told."""
        (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')")
        command = [sys.executable, "-m", "pytest_kernelqual", "explain", REPORT, "--candidate", "PARTS=3"]
        asked = {"cwd": project, "env": {"PYTHONPATH": f"{tmp_path}:{ROOT}", "PATH": "/usr/bin"}, "text": True}
        done = subprocess.run([*command, "--target", "cuda:90"], capture_output=True, check=False, **asked)  # type: ignore[call-overload]
        assert done.returncode == 2
        assert done.stderr.startswith("kernelqual: error: torch is not installed for ")
        done = subprocess.run(command, capture_output=True, check=False, **asked)  # type: ignore[call-overload]
        assert (done.returncode, done.stderr) == (0, "")

    def test_report_cannot_name_a_file_elsewhere(self, tmp_path: Path) -> None:
        """What a report says is no reason to import it."""
        (tmp_path / "root").mkdir()
        (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
        for nodeid in (
            "../evil.py::x",
            f"{tmp_path}/evil.py::x",
            "::",
            "kernel",
            "a\0b::x",
            "\ud800::x",
            f"{'x' * 5000}::x",
        ):
            made = structs.replace(kernel(case(candidate("a"))), nodeid=nodeid)
            write(tmp_path / "root" / REPORT, encode(build([made], ENVIRONMENT, [])))
            done = explained(tmp_path / "root", "--candidate", "a", "--target", "cuda:90")
            assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
            assert "is no spec of a file below '.'" in done.stderr
        assert not (tmp_path / "ran").exists()


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
