"""The kernels of matrix products, attention, scans, quantisation and counting against plain torch."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKS_FILE = Path(__file__).with_name("kernels_b_checks.py")
KERNELS = Path(__file__).parents[1] / "kernels"


def _declared_checks() -> list[str]:
    """Read the names in CHECKS without importing the script, which imports triton."""
    for statement in ast.parse(CHECKS_FILE.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "CHECKS":
            assert isinstance(statement.value, ast.Tuple)
            return [ast.unparse(name) for name in statement.value.elts]
    raise AssertionError(f"{CHECKS_FILE.name} declares no CHECKS")


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str | None]:
    """Run the script once: triton takes longer to import than all its checks take to run."""
    done = subprocess.run(
        [sys.executable, str(CHECKS_FILE), str(KERNELS)],
        env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result: dict[str, str | None] = json.loads(done.stdout)
    return result


@pytest.mark.parametrize("name", _declared_checks())
def test_entry_point(name: str, outcomes: dict[str, str | None]) -> None:
    """Each check of the script passes, and was run."""
    assert name in outcomes
    assert outcomes[name] is None, outcomes[name]


def test_every_check_is_declared(outcomes: dict[str, str | None]) -> None:
    """A check that is written but not in CHECKS would never run."""
    source = ast.parse(CHECKS_FILE.read_text(encoding="utf-8"))
    written = [item for item in source.body if isinstance(item, ast.FunctionDef) and not ast.unparse(item.args)]
    assert {item.name for item in written} - {"main"} == outcomes.keys()
