"""Projects with committed files, runs on them, and what is read from these."""

from pathlib import Path
from typing import Any

from acceptance import Ended, run, spec, suite
from committed_samples import TOOLCHAIN, row, updated
from fake_bench import stored_times
from msgspec import structs
from stub_timing import NAME, space_of

from pytest_kernelqual.committed.schema import CommittedDevice, Row
from pytest_kernelqual.committed.store import Changes, Store
from pytest_kernelqual.model.record import CommittedRecord
from pytest_kernelqual.report.document import failing

GPU = CommittedDevice(vendor="nvidia", name=NAME, architecture="sm_90", compute_units=132)
OTHER = structs.replace(GPU, name="OTHER GPU")
MODEL = ("-p", "stub_timing", "-p", "pytest_kernelqual.plugin", "-ra")
TIMES = {"fixed": 10.0, "x": 8.0, "y": 9.0}


def declared(*cases: str, **more: Any) -> dict[str, Any]:
    """Declare a spec whose committed config should be `x`."""
    return {**spec(*(cases or ("a",)), x="qualified", y="qualified"), "times": TIMES, **more}


def project(folder: Path, specs: dict[str, dict[str, Any]]) -> Path:
    """Write a spec file of the stub and a project that takes committed configs too."""
    made = suite(folder, specs)
    (made / "pytest.ini").write_text("[pytest]\nkernelqual_paths = qual_stub.py committed_configs\n")
    (made / "committed_configs").mkdir()
    return made


def commit(folder: Path, kernel: str, *rows: Row, device: CommittedDevice = GPU, space: str | None = None) -> Path:
    """Write a committed file."""
    store = Store(folder / "committed_configs")
    changes = Changes(space=space or space_of(kernel), toolchain=TOOLCHAIN, rows=rows)
    updated(store.update(kernel, device, changes))
    return store.path_for(kernel, device)


def chosen(case: str, config: str = "x", **more: Any) -> Row:
    """Return the row of a case of the stub."""
    return row({"n": case}, {"C": config}, **{**stored_times(10.0, 8.0), **more})


def model(folder: Path, *arguments: str, **environment: str) -> Ended:
    """Run pytest on the modelled GPU."""
    return run(folder, *MODEL, *arguments, **{**alone(folder), **environment})


def alone(folder: Path) -> dict[str, str]:
    """Return an environment without other plugins, in which the modelled GPU is no other run's."""
    return {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "400", "TMPDIR": str(folder.parent)}


def rows_of(ended: Ended) -> dict[str, CommittedRecord]:
    """Return the last row of each item, by node id without its file."""
    return {
        one.nodeid.partition("::")[2] if "::file" not in one.nodeid else one.nodeid: one
        for kernel in ended.document.kernels
        for one in kernel.committed
    }


def verdicts_of(ended: Ended) -> dict[str, str]:
    """Return the verdict of each row that is not about a file."""
    return {name: one.verdict for name, one in rows_of(ended).items()}


def agree(ended: Ended) -> None:
    """Exit code, JSON, JUnit and summary tell the same of rows."""
    failed = {one.nodeid for one in rows_of(ended).values() if not one.passed}
    listed = {
        line.removeprefix("FAILED ").partition(" - ")[0]
        for line in ended.text.splitlines()
        if line.startswith("FAILED ")
    }
    of_rows = {nodeid for nodeid in listed if "test_candidates" not in nodeid} - {"kernelqual::session"}
    assert sorted(of_rows ^ failed) == []
    assert ended.code == (1 if listed else 0)
    assert failing(ended.document) is bool(listed)
