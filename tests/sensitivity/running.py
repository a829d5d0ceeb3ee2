"""One run of the bank by the real plugin, in processes and a folder of its own."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

BANK = Path(__file__).parent / "bank"
ROOT = BANK.parents[2]


class Seen(NamedTuple):
    """What one run showed."""

    outcomes: dict[tuple[str, str, str], str]
    """By spec, case and candidate; `fixed` is the fixed launch."""
    text: str
    """What pytest printed."""


def run_bank(folder: Path, *, device: str, seed: int = 0, workers: int = 0, limit_s: float = 600.0) -> Seen:
    """Run the whole bank once in a new folder; what is not done within the limit is not among the outcomes."""
    shutil.copytree(BANK, folder / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "--kernelqual", f"--kernelqual-device={device}"]
    command += [f"--kernelqual-seed={seed}", "-p", "no:cacheprovider", "-q", "--tb=no"]
    if workers and find_spec("xdist"):
        command += ["-n", str(workers)]
    if not entry_points(group="pytest11", name="kernelqual"):  # not installed: the checkout's own
        command += ["-p", "pytest_kernelqual.plugin"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    with (folder / "output.txt").open("w+") as output:
        running = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        # Interrupted, pytest still writes what it knows; device processes end with their owner.
        for sent, wait_s in ((None, limit_s), (signal.SIGINT, 15.0), (signal.SIGKILL, None)):
            if sent is not None:
                os.killpg(running.pid, sent)
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.wait(wait_s)
                break
        output.seek(0)
        text = output.read()
    report = folder / "qualified-configurations.json"
    return Seen(_outcomes(json.loads(report.read_text())) if report.exists() else {}, text)


def _outcomes(document: dict[str, Any]) -> dict[tuple[str, str, str], str]:
    found = {}
    for kernel in document["kernels"]:
        for case in kernel["cases"]:
            found[kernel["kernel"], case["id"], "fixed"] = str(case["fixed"]["outcome"])
            for record in case["candidates"]:
                if record["reason"] == "not reached":
                    continue
                found[kernel["kernel"], case["id"], record["id"]] = _outcome(record)
    return found


def _outcome(record: dict[str, Any]) -> str:
    """Return the outcome with the diagnosis, how many attempts faulted, or why it was not run."""
    detail = record["detail"]
    more = [found["diagnosis"] for found in detail.get("mismatches", ())[:1]]
    more += [detail["attempts"]] if record["outcome"] == "fault" else []
    more += [f"({record['reason']})"] if record["outcome"] == "not_run" else []
    return " ".join([record["outcome"], *more])
