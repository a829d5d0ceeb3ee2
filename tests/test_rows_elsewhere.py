"""Committed rows on devices that a run does not have: compiled on any machine, and held against their limits."""

import json
import os
import signal
from pathlib import Path

import pytest
from acceptance import REPORT, Ended, conftest, finish, run, start, wait_until
from committed_runs import agree, commit
from committed_samples import H200, null_row, row
from msgspec import structs

from pytest_kernelqual.committed.schema import CommittedDevice
from pytest_kernelqual.model.config import Scalar
from pytest_kernelqual.model.messages import Describe, Described
from pytest_kernelqual.model.record import CommittedRecord
from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.model.target_record import CompiledRows
from pytest_kernelqual.processes.device import Limits
from pytest_kernelqual.processes.device_process import DeviceProcess

L40S = structs.replace(H200, name="NVIDIA L40S", architecture="sm_89", compute_units=142)
MI300X = CommittedDevice(vendor="amd", name="AMD Instinct MI300X", architecture="gfx942", compute_units=304)
V100 = structs.replace(H200, name="Tesla V100", architecture="sm_70", compute_units=80)

SPEC = """
import os, time
import torch, triton, triton.language as tl
from pytest_kernelqual import Case, Config, kernel_spec

TARGET = os.environ.get("TRITON_INTERPRET") != "1"
with open(os.environ["IMPORTED"], "a") as log:
    log.write(f"{os.getpid()} {TARGET}\\n")
if TARGET:
    exec(os.environ.get("IN_TARGET", ""))

@triton.jit
def _gemm(a, b, c, N, K, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inner = tl.arange(0, 32)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for k in range(0, K, 32):
        left = tl.load(a + rows[:, None] * K + (k + inner)[None, :])
        right = tl.load(b + (k + inner)[:, None] * N + columns[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(tl.float16))

def gemm(a):
    n = a.shape[0]
    c = torch.empty_like(a)
    grid = lambda meta: (triton.cdiv(n, meta["BLOCK"]), triton.cdiv(n, meta["BLOCK"]))
    _gemm[grid](a, a, c, n, n, BLOCK=64, num_warps=4, num_stages=2)
    return c

@kernel_spec(
    kernel=_gemm,
    candidates=[Config(BLOCK=128, num_warps=8, num_stages=8), Config(BLOCK=64, num_stages=3)],
    cases=[Case(n=4096, interpreter={"n": 128}), Case(n=8192, interpreter={"n": 128})],
    key=("n",),
)
def product(case, seeded):
    a = seeded.normal((case.n, case.n), dtype="float16")
    return lambda: gemm(a)
"""
DEEP: dict[str, Scalar] = {"BLOCK": 128, "num_warps": 8, "num_stages": 8}
DEEP_ID = "BLOCK=128,num_warps=8,num_stages=8"
FLAT: dict[str, Scalar] = {"BLOCK": 64, "num_stages": 3}
SERIAL = ("-p", "no:xdist", "-ra")


def project(folder: Path) -> Path:
    """Write a spec without committed files."""
    (folder / "kernels").mkdir(parents=True)
    (folder / "kernels" / "qual_gemm.py").write_text(SPEC)
    (folder / "pytest.ini").write_text("[pytest]\nkernelqual_target_budget = 10min\n")
    (folder / "committed_configs").mkdir()
    return folder


def space(folder: Path) -> str:
    """Return the token of the selection space."""
    device = DeviceProcess(Settings(root_dir=str(folder), device="interpreter"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IMPORTED", os.devnull)
        described = device.ask(Describe(path=str(folder / "kernels" / "qual_gemm.py")), Limits(300, 300, 300))
    device.close()
    assert isinstance(described, Described)
    return described.specs[0].space


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of runs, with a cache and a log of their own."""
    return {"TRITON_CACHE_DIR": str(folder / "cache"), "IMPORTED": str(folder / "imported.log"), "COLUMNS": "400"}


def ran(folder: Path, *arguments: str, **more: str) -> Ended:
    """Run pytest under the interpreter, or on what the arguments say."""
    return run(folder, *arguments, **{**environment(folder), **more})


def imports(folder: Path) -> list[bool]:
    """Return for each process that imported the spec whether it was one of a compile target."""
    return [line.endswith("True") for line in (folder / "imported.log").read_text().splitlines()]


def compiled(ended: Ended) -> dict[str, CompiledRows]:
    """Return what was compiled, by device."""
    return {rows.device: rows for rows in ended.document.compiled_rows}


def outcomes(rows: CompiledRows) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """Return ids and outcomes by case and target."""
    return {
        (case.id, record.target): [(launch.id, launch.outcome) for launch in record.launches]
        for case in rows.cases
        for record in case.targets
    }


def refused(ended: Ended) -> list[CommittedRecord]:
    """Return the rows that items of files tell."""
    return [one for kernel in ended.document.kernels for one in kernel.committed if one.nodeid.endswith("::file")]


class TestThreeDevices:
    """Rows of an H200, of an L40S, for which one is too large, and of two more."""

    @pytest.fixture(scope="class")
    @staticmethod
    def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
        """Commit rows for three devices, and for one that no target stands for."""
        made = project(tmp_path_factory.mktemp("three"))
        token = space(made)
        commit(made, "product", row({"n": 4096}, DEEP), null_row({"n": 8192}), device=H200, space=token)
        commit(made, "product", row({"n": 4096}, DEEP), null_row({"n": 8192}), device=L40S, space=token)
        commit(made, "product", null_row({"n": 4096}), row({"n": 8192}, FLAT), device=MI300X, space=token)
        commit(made, "product", row({"n": 4096}, FLAT), null_row({"n": 8192}), device=V100, space=token)
        return made

    @pytest.fixture(scope="class")
    @staticmethod
    def ended(folder: Path) -> Ended:
        """Run once."""
        return ran(folder, *SERIAL)

    def test_row_that_its_own_device_cannot_take_fails(self, ended: Ended) -> None:
        """With the figures, and no other row."""
        assert ended.code == 1
        (failed,) = refused(ended)
        assert (failed.device, failed.verdict, failed.config) == ("nvidia_l40s", "not_qualified", DEEP)
        wanted = compiled(ended)["NVIDIA L40S"].cases[0].targets[0].launches[1].resources["shared_bytes"]
        assert failed.reasons == [
            f"n4096: {DEEP_ID} on cuda:89: out_of_resources: shared memory: required {wanted}, limit {99 * 1024}"
        ]
        failing = [line for line in ended.text.splitlines() if line.startswith("FAILED ")]
        assert len(failing) == 1
        assert failing[0].startswith("FAILED committed_configs/product/nvidia_l40s.json::file - ")
        agree(ended)

    def test_every_row_on_every_named_target(self, ended: Ended) -> None:
        """The row's own first; a device that no target stands for is said."""
        found = compiled(ended)
        assert outcomes(found["NVIDIA H200"]) == {
            ("n4096", "cuda:90"): [("fixed", "fits"), (DEEP_ID, "fits")],
            ("n4096", "cuda:89"): [("fixed", "fits"), (DEEP_ID, "out_of_resources")],
            ("n4096", "hip:gfx942"): [("fixed", "fits"), (DEEP_ID, "out_of_resources")],
            ("n4096", "cuda:70"): [("fixed", "unknown")],
            ("n8192", "cuda:90"): [("fixed", "fits")],
            ("n8192", "cuda:89"): [("fixed", "fits")],
            ("n8192", "hip:gfx942"): [("fixed", "fits")],
            ("n8192", "cuda:70"): [("fixed", "unknown")],
        }
        assert outcomes(found["AMD Instinct MI300X"])["n8192", "hip:gfx942"] == [
            ("fixed", "fits"),
            ("BLOCK=64,num_stages=3", "fits"),
        ]
        case, _ = found["Tesla V100"].cases
        assert case.targets[0].launches[0].reason.startswith("compile target 'cuda:70' is not known; use one of ")

    def test_summary(self, ended: Ended) -> None:
        """A line for each target, and one for each way in which rows do not fit."""
        text = ended.text.partition("committed configs compiled for devices that are not here\n")[2]
        assert "  cuda:90: 2 of 2 rows fit; the most: " in text
        assert "  cuda:89: 1 of 2 rows fit" in text
        assert "  cuda:89: 5 of 6 rows of other devices fit" in text
        assert "  cuda:70: unknown: compile target 'cuda:70' is not known" in text

    def test_what_newly_fits_another_device_is_said(self, folder: Path, ended: Ended) -> None:
        """By what the last report tells; whatever else it tells is not changed by that."""
        report = folder / REPORT
        document = json.loads(report.read_text())
        rows = next(one for one in document["compiled_rows"] if one["device"] == "AMD Instinct MI300X")
        launches = next(one for one in rows["cases"][1]["targets"] if one["target"] == "cuda:89")["launches"]
        launches[1]["outcome"] = "out_of_resources"
        report.write_text(json.dumps(document))
        again = ran(folder, *SERIAL)
        told = "cuda:89: 1 row newly fit: product n8192 of AMD Instinct MI300X"
        assert told in again.text
        assert told not in ended.text
        assert again.document.digest == ended.document.digest
        case = compiled(again)["AMD Instinct MI300X"].cases[1]
        (record,) = [one for one in case.targets if one.target == "cuda:89"]
        assert [launch.newly_fits for launch in record.launches] == [False, True]

    def test_xdist_tells_the_same(self, folder: Path, ended: Ended) -> None:
        """Whichever process has the file's item."""
        spread = ran(folder, "-n2", "-ra")
        assert spread.code == 1
        assert spread.document.compiled_rows == ended.document.compiled_rows
        assert refused(spread) == refused(ended)

    def test_targets_that_are_asked_for_are_left_to_the_cases(self, folder: Path) -> None:
        """Nothing is told twice."""
        named = ran(folder, *SERIAL, "--kernelqual-target=cuda:89,hip:gfx942,cuda:90")
        assert {record.target for rows in compiled(named).values() for record in rows.cases[0].targets} == {"cuda:70"}
        assert [case.passed for case in named.cases.values()] == [False, True]
        (failure,) = next(iter(named.cases.values())).failures
        assert failure.startswith(f"committed config {DEEP_ID} of NVIDIA L40S: out_of_resources: ")

    def test_on_a_device_rows_of_other_devices_are_checked(self, folder: Path) -> None:
        """And its own are left to it."""
        here = structs.replace(H200, name="NVIDIA Stand-in")
        commit(folder, "product", row({"n": 4096}, FLAT), null_row({"n": 8192}), device=here, space=space(folder))
        ended = ran(folder, *SERIAL, "-p", "gpu_stand_in", "--kernelqual-provocation=off", "-k", "json")
        found = outcomes(compiled(ended)["NVIDIA Stand-in"])
        assert {target for _, target in found} == {"cuda:89", "hip:gfx942", "cuda:70"}
        assert outcomes(compiled(ended)["NVIDIA H200"])["n4096", "cuda:90"] == [("fixed", "fits"), (DEEP_ID, "fits")]
        assert [one.device for one in refused(ended)] == ["nvidia_l40s"]


class TestOneDevice:
    """A row of an H200."""

    @pytest.fixture
    @staticmethod
    def folder(tmp_path: Path) -> Path:
        """Commit it."""
        made = project(tmp_path / "one")
        commit(made, "product", row({"n": 4096}, FLAT), null_row({"n": 8192}), device=H200, space=space(made))
        return made

    def test_what_the_budget_cut_off_is_said_and_fails_nothing(self, folder: Path) -> None:
        """A process that compiles nothing ever."""
        ended = ran(folder, *SERIAL, "--kernelqual-target-budget=500ms", IN_TARGET="time.sleep(3600)")
        assert ended.code == 0
        told = "cuda:90: unknown: --kernelqual-target-budget=0.5s was over (2 rows: "
        assert told in ended.text
        assert "cuda:90: 0 of 2 rows fit" in ended.text

    def test_nothing_is_compiled_while_a_device_is_timed(self, folder: Path) -> None:
        """When the budget is spent only the run's own device process is left, and no other one is begun."""
        commit(folder, "product", row({"n": 4096}, FLAT), null_row({"n": 8192}), device=L40S, space=space(folder))
        conftest(
            folder,
            """
            import pathlib

            def pytest_runtest_teardown(item):
                found = set()
                for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
                    try:
                        if int(stat.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                            found.add(stat.parent.name)
                    except OSError:
                        continue
                with open("children", "a") as told:
                    print(item.name, len(found), file=told)
            """,
        )
        stand_in = ("-p", "gpu_stand_in", "--kernelqual-provocation=off", "--kernelqual-target-budget=500ms")
        but_the_first = "os.path.exists('device') and time.sleep(3600); open('device', 'w')"
        ended = ran(folder, *SERIAL, *stand_in, "-k", "json", IN_TARGET=but_the_first)
        assert "cuda:90: unknown: --kernelqual-target-budget=0.5s was over" in ended.text
        assert "cuda:89: unknown: --kernelqual-target-budget=0.5s was over" in ended.text
        assert (folder / "children").read_text().splitlines() == ["file 1", "file 1"]

    def test_zero_starts_nothing(self, folder: Path) -> None:
        """No process, no entry."""
        (folder / "pytest.ini").write_text("[pytest]\nkernelqual_target_budget = 0\n")
        ended = ran(folder, *SERIAL)
        assert (ended.code, ended.document.compiled_rows, imports(folder)) == (0, [], [False])

    def test_without_the_files_item_nothing_starts(self, folder: Path) -> None:
        """A run of one case does not pay for it."""
        ended = ran(folder, *SERIAL, "-k", "test_candidates and n4096")
        assert (ended.code, ended.document.compiled_rows, imports(folder)) == (0, [], [False])

    def test_kernel_that_needs_a_gpu_to_be_imported(self, folder: Path) -> None:
        """One line, and everything else goes on."""
        ended = ran(folder, *SERIAL, IN_TARGET="raise RuntimeError('no GPU')")
        (line,) = [one for one in ended.text.splitlines() if "cuda:90: unknown: " in one]
        assert f"cannot import {folder / 'kernels' / 'qual_gemm.py'}: RuntimeError: no GPU (2 rows: " in line
        assert ended.code == 0

    def test_process_that_dies_costs_its_answer_only(self, folder: Path) -> None:
        """It is said, and nothing fails."""
        ended = ran(folder, *SERIAL, IN_TARGET="os.abort()")
        assert ended.code == 0
        assert "cuda:90: unknown: the device process was ended by SIGABRT (2 rows: " in ended.text

    def test_interruption_ends_what_compiles(self, folder: Path) -> None:
        """Nothing is left behind."""
        running = start(
            folder,
            *SERIAL,
            "--kernelqual-target-budget=1h",
            **{**environment(folder), "IN_TARGET": "time.sleep(3600)"},
        )
        log = folder / "imported.log"
        wait_until(lambda: log.exists() and True in imports(folder), "no process of a target")
        os.kill(running.pid, signal.SIGINT)
        assert finish(running, folder).code == 2
