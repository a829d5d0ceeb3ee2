"""Items about committed configs and their files under the interpreter, with real kernels."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from acceptance import BASIC, REPORT, Ended, cases_of, failed_in_junit, junit_name, run, stub
from committed_runs import GPU, OTHER, agree, chosen, commit, declared, model, project, rows_of, verdicts_of
from committed_samples import H200, row
from msgspec import structs
from stub_timing import space_of
from test_xdist import plain

from pytest_kernelqual.model.config import Scalar
from pytest_kernelqual.model.messages import Describe, Described
from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.processes.device import Limits
from pytest_kernelqual.processes.device_process import DeviceProcess

SPECS = """
from scale import copy, faulty_kernel, scale, scale_kernel

from pytest_kernelqual import Case, grid, kernel_spec

CASES = [Case(n=33, dtype="float32"), Case(n=20, dtype="bfloat16")]
GRID = grid(BLOCK=[32, 128], num_warps=[1, 4])


@kernel_spec(kernel=scale_kernel, candidates=GRID, cases=CASES, key=("dtype",))
def good(case, seeded):
    x = seeded.normal((case.n,), dtype=case.dtype, name="x")
    return lambda: scale(x)


@kernel_spec(kernel=scale_kernel, candidates=GRID, cases=CASES[:1], key=())
def edited(case, seeded):
    x = seeded.normal((case.n,), name="x")
    return lambda: scale(x, 3.0)


@kernel_spec(kernel=faulty_kernel, candidates=grid(FAULT=["mismatch", "none"]), cases=[Case(n=30)], screen="search")
def screened(case, seeded):
    x = seeded.normal((case.n,), name="x")
    return lambda: copy(x)
"""
ON = "NVIDIA_H200]"
INTERPRETED = ("--kernelqual-device=interpreter", "--kernelqual-target-budget=5min", "-p", "no:xdist")
CONFIG: dict[str, Scalar] = {"BLOCK": 32, "num_warps": 4}


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project with kernels, and committed files of every kind."""
    folder = tmp_path_factory.mktemp("real")
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "kernels").mkdir()
    shutil.copy(BASIC / "scale.py", folder / "kernels")
    (folder / "kernels" / "qual_rows.py").write_text(SPECS)
    device = DeviceProcess(Settings(root_dir=str(folder), device="interpreter"))
    described = device.ask(Describe(path=str(folder / "kernels" / "qual_rows.py")), Limits(300, 300, 300))
    device.close()
    assert isinstance(described, Described)
    spaces = {one.name: one.space for one in described.specs}
    good = [row({"dtype": "float32"}, CONFIG), row({"dtype": "float16"}, CONFIG)]
    path = commit(folder, "good", *good, device=H200, space=spaces["good"])
    commit(
        folder, "good", row({"dtype": "bfloat16"}, {"BLOCK": 512, "num_warps": 4}), device=OTHER, space=spaces["good"]
    )
    commit(folder, "edited", row({}, CONFIG), device=H200, space=space_of("before an edit"))
    commit(folder, "screened", row({}, {"FAULT": "mismatch"}), device=H200, space=spaces["screened"])
    commit(folder, "renamed", row({}, CONFIG), device=H200, space=spaces["good"])
    text, root = path.read_text(), folder / "committed_configs"
    wrong = {
        "screened/nvidia_a100.json": f"<<<<<<< ours\n{text}",
        "screened/nvidia_b200.json": text.replace('"num_warps": 4', '"num_warps": true, "num_warps": 4'),
        "screened/nvidia_h100.json": text.replace('"speed_up": 1.25', '"speed_up": "fast"'),
        "edited/other_gpu.json": text.replace("NVIDIA H200", "OTHER GPU"),
        "notes.txt": "best of May",
        "good/deep/nvidia_h200.json": text,
        "README.md": "what a README says",
        "good/.hidden": "",
    }
    for name, content in wrong.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(content)
    (root / "screened" / "nvidia_gone.json").symlink_to("nowhere")
    return folder


@pytest.fixture(scope="module")
def ended(real: Path) -> Ended:
    """Run all of it."""
    return run(real, *INTERPRETED, "-ra", COLUMNS="400")


def test_static_verdicts(ended: Ended) -> None:
    """Each row by itself, without a GPU; the fixed launches and candidates qualify all the same."""
    found = {name: one.verdict for name, one in rows_of(ended).items() if not name.startswith("committed_configs")}
    assert found == {
        f"good::test_committed[float32-{ON}": "not_timed",
        f"good::test_committed[bfloat16-{ON}": "missing",
        "good::test_committed[float32-OTHER_GPU]": "missing",
        "good::test_committed[bfloat16-OTHER_GPU]": "stale",
        f"edited::test_committed[default-{ON}": "stale",
        "edited::test_committed[default-OTHER_GPU]": "bad_file",
        "screened::test_committed[default-OTHER_GPU]": "missing",
        f"screened::test_committed[default-{ON}": "not_qualified",
    }
    assert all(case.passed for case in ended.cases.values())
    agree(ended)
    reasons = {name.partition("::")[0]: one.reasons[0] for name, one in rows_of(ended).items() if ON in name}
    assert reasons["screened"].startswith("FAULT=mismatch: mismatch: ")
    assert reasons["edited"].startswith("the candidates, the kernel or its launch code changed")


@pytest.mark.parametrize(
    ("name", "verdict", "reason"),
    [
        ("good/nvidia_h200.json", "orphan", "no case has key {'dtype': 'float16'}; remove the row or declare the case"),
        ("renamed/nvidia_h200.json", "orphan", "no spec is called 'renamed'; remove the file, or name the spec so"),
        ("screened/nvidia_a100.json", "bad_file", "merge-conflict marker <<<<<<< in line 1; resolve it"),
        ("screened/nvidia_b200.json", "duplicate", "num_warps"),
        ("screened/nvidia_h100.json", "bad_file", "speed_up"),
        ("edited/other_gpu.json", "bad_file", "kernel 'good' belongs into folder 'good'"),
        ("notes.txt", "bad_file", "nothing reads it: committed configs are in <kernel>/<device>.json"),
        ("good/deep/nvidia_h200.json", "bad_file", "is not where a kernel and device would be looked for"),
    ],
)
def test_files_that_nothing_can_use(ended: Ended, name: str, verdict: str, reason: str) -> None:
    """One failing item a file, with one plain reason and no row that was made up."""
    (found,) = [
        one
        for kernel in ended.document.kernels
        for one in kernel.committed
        if kernel.nodeid == f"committed_configs/{name}::file"
    ]
    assert (found.verdict, found.passed, found.config) == (verdict, False, None)
    assert reason in found.reasons[0]
    (line,) = [line for line in ended.text.splitlines() if line.startswith(f"FAILED committed_configs/{name}::file")]
    assert "fixed launch" not in line
    assert verdict in line


def test_files_that_are_fine_pass(ended: Ended) -> None:
    """Hidden and Markdown files are let alone; a file whose rows are all reached is no row of its own."""
    items = {junit for case in cases_of(ended.junit) for junit in [f"{case.classname}.{case.name}"]}
    files = {item for item in items if item.startswith("committed_configs")}
    assert len(files) == 11
    assert junit_name("committed_configs/good/other_gpu.json::file") not in failed_in_junit(ended.junit)
    assert junit_name("committed_configs/screened/nvidia_h200.json::file") in files


def test_a_file_that_is_missing_is_found_as_on_its_device(tmp_path: Path) -> None:
    """For every device of which another kernel has a file; a project without any has nothing to miss."""
    folder = project(tmp_path, {name: declared() for name in ("first", "second")})
    assert rows_of(stub(folder)) == {}
    partition = structs.replace(GPU, compute_units=66)
    for device in (GPU, OTHER, partition):  # the partition's file has a name of its own
        commit(folder, "first", chosen("a"), device=device)
    ended = stub(folder, "-ra", "-k", "second")
    row_of = "second::test_committed[default-{}_GPU]"  # the stub without a device has no keys
    assert verdicts_of(ended) == {row_of.format(name): "missing" for name in ("STUB", "OTHER")}
    assert rows_of(ended)[row_of.format("OTHER")].reasons == [
        "no committed configs for OTHER GPU; measure it with --kernelqual-update"
    ]
    agree(ended)
    assert verdicts_of(model(folder, "-k", "second")) == {"second::test_committed[a-STUB_GPU]": "missing"}


def test_not_timed_is_told_in_header_summary_and_json(ended: Ended) -> None:
    """No reader takes an interpreted run for a timed one."""
    header, _, rest = ended.text.partition("qual_rows.py")
    assert "no GPU is used: the Triton interpreter checks bytes and semantics; nothing is timed" in header
    assert (
        "good float32 on nvidia_h200: BLOCK=32,num_warps=4: not_timed: "
        "no device: kernels are interpreted, and nothing is timed"
    ) in rest
    assert rows_of(ended)[f"good::test_committed[float32-{ON}"].gates == []
    assert "was not" not in ended.because


def test_junit_tells_each_row(ended: Ended) -> None:
    """Verdict, config, the ratio where it was timed, and the evidence; no name occurs twice."""
    properties = [(one.name, one.value) for one in next(iter(ended.junit)).properties()]
    assert len(dict(properties)) == len(properties)
    told = dict(properties)
    prefix = "kernelqual.committed kernels/qual_rows.py::good::test_committed"
    assert told[f"{prefix}[float32-{ON}"] == "not_timed;BLOCK=32,num_warps=4;;interpreted"
    assert told["kernelqual.committed committed_configs/notes.txt::file"].startswith("bad_file;")


def test_selection_listing_and_workers(real: Path, ended: Ended, tmp_path: Path) -> None:
    """`-k` picks rows and files, --collect-only lists what a run has, and two workers write the same report."""
    copy = shutil.copytree(
        real, tmp_path / "copy", symlinks=True, ignore=shutil.ignore_patterns(REPORT, ".pytest_cache")
    )
    listed = run(copy, *INTERPRETED, "--collect-only", "-q").text.splitlines()
    nodeids = {line for line in listed if "::" in line}
    assert {one.nodeid for one in rows_of(ended).values()} <= nodeids
    assert len(nodeids) + len(["kernelqual::session"]) == len(cases_of(ended.junit))
    spread = run(copy, *INTERPRETED[:2], "-n", "2", "-ra", COLUMNS="400")
    assert placeless(spread) == placeless(ended)
    agree(spread)
    alone = run(copy, *INTERPRETED, "-ra", "-k", "float32 and test_committed and H200", COLUMNS="400")
    assert verdicts_of(alone) == {f"good::test_committed[float32-{ON}": "not_timed"}
    assert "deselected" in alone.because


def placeless(ended: Ended) -> Any:
    """Return the JSON of a run, times and its folder aside."""
    return json.loads(json.dumps(plain(ended)).replace(str(ended.folder), ""))


def test_what_pytest_does_not_collect_fails_the_session(ended: Ended) -> None:
    """A link that leads nowhere is no file to pytest, and is told all the same."""
    (line,) = [line for line in ended.text.splitlines() if line.startswith("FAILED kernelqual::session")]
    assert line.endswith("screened/nvidia_gone.json: a link that leads nowhere; remove it")
