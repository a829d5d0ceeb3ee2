"""Reports on disk, and the command that reads them in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from report_samples import ENVIRONMENT, candidate, case, kernel

from pytest_kernelqual.model.record import CommittedRecord, Environment, GateRecord, KernelRecord
from pytest_kernelqual.report.document import build, encode, write

Done = subprocess.CompletedProcess[str]

OTHER_DEVICE = replace(
    ENVIRONMENT, device=replace(ENVIRONMENT.device, name="NVIDIA B200", architecture="sm_100", compute_units=148)
)


def command(*arguments: object) -> Done:
    """Run `kernelqual` in a process of its own, on a terminal of 100 columns."""
    return subprocess.run(
        [sys.executable, "-m", "pytest_kernelqual", *map(str, arguments)],
        env={**os.environ, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        check=False,
    )


def stored(
    path: Path,
    kernels: Sequence[KernelRecord],
    environment: Environment | None = ENVIRONMENT,
    incomplete: Sequence[str] = (),
) -> Path:
    """Write the report of a run, and return its path."""
    cases = [case.nodeid for kernel in kernels for case in kernel.cases]
    nodeids = [*cases, *(row.nodeid for kernel in kernels for row in kernel.committed)]
    write(path, encode(build(kernels, environment, nodeids, incomplete)))
    return path


def gate(*processes: float, name: Any = "not_slower_than_fixed", fixed_us: float = 20.0, **more: Any) -> GateRecord:
    """Return what a gate saw of a committed config: committed to fixed time, one estimate for each process."""
    first = processes[0]
    given = {
        "gate": name,
        "a": "fixed",
        "b": "num_warps=8",
        "margin_pct": 2.0,
        "verdict": "ok",
        "ratio": [first, first - 0.002, first + 0.002],
        "processes": list(processes),
        "time_us": [fixed_us, fixed_us * first],
        "method": "graph",
        "cache": "cold",
        **more,
    }
    return GateRecord(**given)


def row(*gates: GateRecord, verdict: Any = "ok", **more: Any) -> CommittedRecord:
    """Return what became of a committed row."""
    given = {
        "device": "nvidia_h200",
        "key": {"cols": 515},
        "nodeid": "kernels/qual_rms_norm.py::rms_norm_fwd::test_committed[cols515-NVIDIA_H200]",
        "config": {"num_warps": 8},
        "verdict": verdict,
        "gates": list(gates),
        "passed": verdict in ("ok", "inconclusive", "unmeasurable"),
        **more,
    }
    return CommittedRecord(**given)


def bad_reports(folder: Path) -> dict[str, tuple[Path, str]]:
    """Write files that are no reports of this version beside a good one; return them, and what is said of each."""
    good = stored(folder / "good.json", [kernel(case(candidate("a")))])
    text = good.read_text()
    texts = {
        "truncated": (text[: len(text) // 2], "is cut off after "),
        "nothing in it": ("\n", "is empty; give a qualified-configurations.json, or run again"),
        "foreign": ('{"name": "junit"}', "schema is None; this version reads 'kernelqual/qualified-configurations/1'"),
        "another tool's list": ("[1, 2]", "holds a list, not the object of a report"),
        "older": (
            text.replace("configurations/1", "configurations/0"),
            "this version reads 'kernelqual/qualified-configurations/1': run again with this version",
        ),
        "newer": (
            text.replace("configurations/1", "configurations/2"),
            "this version reads 'kernelqual/qualified-configurations/1': update pytest-kernelqual",
        ),
        "edited": (text.replace('"outcome": "qualified"', '"outcome": "fault"'), "edited or damaged; run again"),
        "twice": (
            text.replace('"complete": true', '"complete": false,\n"complete": true'),
            "key 'complete' occurs twice",
        ),
        "a wrong type": (text.replace('"complete": true', '"complete": "yes"'), "Expected `bool`, got `str`"),
    }
    found = {}
    for name, (written, told) in texts.items():
        assert written != text, name
        (folder / f"{name}.json").write_text(written)
        found[name] = (folder / f"{name}.json", told)
    (folder / "binary.json").write_bytes(b"\x89PNG\xff")
    return {
        **found,
        "binary": (folder / "binary.json", "not UTF-8 at byte 0"),
        "missing": (folder / "missing.json", "cannot read "),
        "a folder": (folder, "cannot read "),
    }
