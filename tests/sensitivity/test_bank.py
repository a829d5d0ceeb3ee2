"""Every broken kernel of the bank gets the outcome that it must get, and every sound one qualifies."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BANK = Path(__file__).parent / "bank"

EXPECTED = {
    ("copies", "n301"): {
        "FAULT=none": "qualified",
        "FAULT=dropped_mask": "out_of_bounds_write",
        "FAULT=mask_one_too_long": "out_of_bounds_write",
        "FAULT=mask_one_too_short": "incomplete_write",
        "FAULT=writes_before_start": "out_of_bounds_write",
        "FAULT=every_other_program": "incomplete_write",
        "FAULT=reads_output": "nondeterministic",
        "FAULT=changes_input": "out_of_bounds_write",
        "FAULT=sign_of_zero": "mismatch sign_of_zero",
        "FAULT=one_element": "mismatch structural",
    },
    ("one_block", "n301"): {
        "BLOCK=32,FAULT=wrong_for_one_block": "qualified",
        "BLOCK=64,FAULT=wrong_for_one_block": "qualified",
        "BLOCK=128,FAULT=wrong_for_one_block": "mismatch rounding",
    },
    ("rows", "rows5-cols40-stride40"): {"MASKED=True": "qualified", "MASKED=False": "out_of_bounds_write"},
    ("rows", "rows5-cols40-stride70"): {"MASKED=True": "qualified", "MASKED=False": "out_of_bounds_write"},
    ("products", "m17-n16-k40"): {
        "FAULT=none": "qualified",
        "FAULT=missing_tail": "mismatch structural",
        "FAULT=narrow_accumulator": "mismatch structural",
    },
    ("scales", "n256"): {"BLOCK=32": "qualified", "BLOCK=64": "qualified", "BLOCK=128": "mismatch structural"},
    ("dirty_workspace", "n256"): {"BLOCK=64": "nondeterministic"},
    ("gradients", "n100"): {"FACTOR=2.0": "qualified", "FACTOR=2.5": "mismatch structural"},
    ("cached_buffers", "n301"): {
        "FAULT=none": "qualified",
        "FAULT=every_other_program": "mismatch structural",
        "FAULT=mask_one_too_short": "mismatch structural",
    },
    ("cached_buffers", "n302"): {
        "FAULT=none": "qualified",
        "FAULT=every_other_program": "mismatch structural",
        "FAULT=mask_one_too_short": "mismatch structural",
    },
    ("cached_tables", "n301"): {
        "FAULT=none": "qualified",
        "FAULT=spoils_table": "qualified",
        "FAULT=none_again": "qualified",
    },
    ("remembered", "n301"): {"BLOCK=32": "not_run", "BLOCK=128": "not_run"},
    ("answers", "n40"): {
        "FAULT=none": "qualified",
        "FAULT=dtype": "mismatch shape",
        "FAULT=shape": "mismatch shape",
        "FAULT=strides": "mismatch shape",
        "FAULT=one_more": "mismatch shape",
        "FAULT=nan_payload": "mismatch nan_payload",
        "FAULT=random": "qualified",
    },
    ("in_place", "n40"): {"A=1": "qualified", "A=2": "qualified"},
    ("second_call", "n40"): {"A=1": "nondeterministic"},
}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], dict[str, str]]:
    """Run the bank once and return what each candidate got."""
    folder = tmp_path_factory.mktemp("bank")
    shutil.copytree(BANK, folder / "kernels")
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--kernelqual",
        "--kernelqual-device=interpreter",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    document = json.loads((folder / "qualified-configurations.json").read_text())
    return {
        (kernel["kernel"], case["id"]): {record["id"]: _outcome(record) for record in case["candidates"]}
        for kernel in document["kernels"]
        for case in kernel["cases"]
    }


def _outcome(record: dict[str, Any]) -> str:
    found = record["detail"].get("mismatches") if record["outcome"] == "mismatch" else None
    return f"mismatch {found[0]['diagnosis']}" if found else str(record["outcome"])


def test_bank_is_complete(seen: dict[tuple[str, str], dict[str, str]]) -> None:
    """Every kernel of the bank has an expected outcome, and the other way round."""
    assert seen.keys() == EXPECTED.keys()


@pytest.mark.parametrize("name", EXPECTED, ids="-".join)
def test_outcomes(seen: dict[tuple[str, str], dict[str, str]], name: tuple[str, str]) -> None:
    """The tool names the fault, and clears what is sound."""
    assert seen[name] == EXPECTED[name]
