"""Runs of pytest in processes and folders of their own, and what tests read from them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

# Product code with one kernel, which most of the suites below qualify.
OPS = """
    import torch
    import triton
    import triton.language as tl


    @triton.jit
    def double_kernel(x, y, n, BLOCK: tl.constexpr):
        offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        value = tl.load(x + offset, mask=offset < n)
        tl.store(y + offset, value + value, mask=offset < n)


    def double(x):
        y = torch.empty_like(x)
        n = x.numel()
        double_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n, BLOCK=64)
        return y
"""


class Ran(NamedTuple):
    """One finished run of pytest."""

    status: int
    output: str
    folder: Path

    @property
    def report(self) -> dict[str, Any]:
        """Return the JSON report."""
        found: dict[str, Any] = json.loads((self.folder / "qualified-configurations.json").read_text())
        return found

    @property
    def kernels(self) -> dict[str, dict[str, Any]]:
        """Return the kernels of the report by node id."""
        return {kernel["nodeid"]: kernel for kernel in self.report["kernels"]}

    @property
    def cases(self) -> dict[str, dict[str, Any]]:
        """Return the cases of the report by node id."""
        return {case["nodeid"]: case for kernel in self.report["kernels"] for case in kernel["cases"]}

    @property
    def passed(self) -> set[str]:
        """Return the node ids that `-rA` lists as passed."""
        return {line.removeprefix("PASSED ") for line in self.output.splitlines() if line.startswith("PASSED ")}

    @property
    def failed(self) -> dict[str, str]:
        """Return the node ids that `-ra` lists as failed, each with its reason."""
        lines = (line.removeprefix("FAILED ") for line in self.output.splitlines() if line.startswith("FAILED "))
        return {nodeid: reason for nodeid, _, reason in (line.partition(" - ") for line in lines)}

    @property
    def collected(self) -> list[str]:
        """Return the node ids that `--collect-only -q` lists."""
        return [line for line in self.output.splitlines() if "::" in line]


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write files, given by their paths in the folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))


def run_pytest(
    folder: Path,
    *arguments: str,
    cwd: str = ".",
    kernelqual: bool = True,
    environment: Mapping[str, str] | None = None,
    stdin: str = "",
) -> Ran:
    """Run pytest in the folder, under --kernelqual and with the interpreter unless told otherwise."""
    ours = ["--kernelqual", "--kernelqual-device=interpreter"] if kernelqual else []
    # The width keeps reasons of the short summary whole.
    env = {**os.environ, "COLUMNS": "400", **(environment or {})}
    for name in ("PYTEST_ADDOPTS", "TRITON_INTERPRET", "PYTEST_CURRENT_TEST"):
        env.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *ours, *arguments],
        cwd=folder / cwd,
        env=env,
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return Ran(done.returncode, done.stdout, folder)


class Runs:
    """Runs that go on while tests that need others already assert."""

    def __init__(self, root: Path, pool: ThreadPoolExecutor) -> None:
        """Keep where the folders are made."""
        self._root = root
        self._pool = pool
        self._started: dict[str, Future[Ran]] = {}

    def start(self, name: str, files: Mapping[str, str], *arguments: str, **options: Any) -> None:
        """Write the files into a folder of the run's own, and queue the run."""
        write(self._root / name, files)
        self._started[name] = self._pool.submit(run_pytest, self._root / name, *arguments, **options)

    def __getitem__(self, name: str) -> Ran:
        """Wait for a run."""
        return self._started[name].result()


@contextmanager
def runs(root: Path) -> Iterator[Runs]:
    """Start runs, two at a time."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        yield Runs(root, pool)
