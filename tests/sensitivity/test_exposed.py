"""Faults that normal inputs do not show: each is found by the profile or probe that is there for it, by that alone."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXPOSED = Path(__file__).parent / "exposed"

# Spec and case; the faulty candidate, its outcome, and the only input set on which it fails.
EXPECTED = {
    ("denormals", "n300"): ("flushes_denormals", "mismatch structural", "denormals/0"),
    ("zeros", "n300"): ("loses_sign_of_zero", "mismatch sign_of_zero", "denormals/0"),
    ("largest", "n300"): ("saturates", "mismatch structural", "boundaries/0"),
    ("payloads", "n300"): ("loses_payload", "mismatch nan_payload", "nonfinite/0"),
    ("ties", "n300"): ("half_up", "mismatch structural", "ties/0"),
    ("magnitudes", "n300"): ("squares", "mismatch rounding", "exponents/0"),
    ("overflow", "rows6-cols40"): ("narrow_accumulator", "mismatch structural", "constant/0"),
    ("padded_maximum", "rows6-cols40"): ("pads_with_zero", "mismatch structural", "equal_rows/0"),
    ("padding_nan", "rows6-cols40"): ("keeps_padding", "mismatch structural", "equal_rows/0"),
    ("tied_positions", "rows6-cols40"): ("last_of_ties", "mismatch structural", "equal_rows/0"),
    ("empty_rows", "rows6-cols40"): ("asks_first_element", "mismatch structural", "one_hot/0"),
    ("order", "rows6-cols40"): ("other_order", "mismatch rounding", "cancelling/0"),
    ("repeats", "n40"): ("reads_then_writes", "mismatch structural", "repeats/0"),
    ("wrapping", "n40"): ("int32", "mismatch structural", "extremes/0"),
    ("descents", "n40"): ("at_least_one", "mismatch structural", "sorted/0"),
    ("ascents", "n40"): ("at_least_one", "mismatch structural", "reversed/0"),
    ("strides", "rows6-cols40"): ("ignores_stride", "nondeterministic", "strided/0"),
    ("far_rows", "rows6-cols40"): ("int32", "qualified", None),
    ("addresses", "rows6-cols40"): ("rounds_address", "mismatch structural", "misaligned/0"),
    ("rounds", "rows8-cols10"): ("two_rounds", "qualified", None),
    ("rounds", "rows128-cols10-more_rows"): ("two_rounds", "incomplete_write", "normal/0"),
    ("last_tiles", "n300"): ("forgets_one", "qualified", None),
    ("last_tiles", "n257-last_tile_of_one"): ("forgets_one", "incomplete_write", "normal/0"),
}


# What one input set of mixed values leaves to the others.
BEYOND_MIXED = {"largest", "payloads", "order", "descents", "ascents"}

Cases = dict[tuple[str, str], dict[str, Any]]


def run_bank(folder: Path, profile: str | None = None) -> Cases:
    """Run the bank and return its cases; with a profile in place of each spec's own."""
    shutil.copytree(EXPOSED, folder / "kernels")
    if profile is not None:
        file = folder / "kernels" / "qual_hidden.py"
        file.write_text(re.sub(r"profiles=\([^)]+\)", f"profiles=({profile!r},)", file.read_text()))
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "--kernelqual", "--kernelqual-device=interpreter"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    document = json.loads((folder / "qualified-configurations.json").read_text())
    return {(kernel["kernel"], case["id"]): case for kernel in document["kernels"] for case in kernel["cases"]}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Cases:
    """Run the bank once."""
    return run_bank(tmp_path_factory.mktemp("exposed"))


def test_bank_is_complete(seen: Cases) -> None:
    """Every case of the bank has an expected outcome, and the other way round."""
    assert seen.keys() == EXPECTED.keys()


@pytest.mark.parametrize("name", EXPECTED, ids="-".join)
def test_fault_is_found_on_its_inputs_alone(seen: Cases, name: tuple[str, str]) -> None:
    """Normal inputs let the fault pass, and the sound candidate qualifies on all of them."""
    sound, faulty = seen[name]["candidates"]
    fault, outcome, input_set = EXPECTED[name]
    assert (sound["id"], sound["outcome"]) == ("FAULT=none", "qualified")
    detail = faulty["detail"]
    diagnosis = f" {detail['mismatches'][0]['diagnosis']}" if faulty["outcome"] == "mismatch" else ""
    assert (faulty["id"], faulty["outcome"] + diagnosis) == (f"FAULT={fault}", outcome)
    assert detail.get("input_set") == input_set
    assert detail.get("input_sets_differing", [input_set]) == [input_set]


def test_beyond_2_31_is_told_where_it_cannot_be_probed(seen: Cases) -> None:
    """What was asked for and not done is never silent."""
    told = {made["profile"]: made["set_aside"] for made in seen["far_rows", "rows6-cols40"]["input_sets"]}
    assert told == {"normal": "", "beyond_2_31": "beyond_2_31 is probed on GPUs only"}


def test_mixed_values_find_most_causes_at_once(tmp_path: Path) -> None:
    """The profile that is on by default does for one input set what most others do for one each."""
    cases = run_bank(tmp_path, "mixed")
    profiled = {
        name for name, (_, _, made) in EXPECTED.items() if made not in (None, "strided/0", "misaligned/0", "normal/0")
    }
    missed = {name for name, case in cases if (name, case) in profiled and cases[name, case]["passed"]}
    assert missed == BEYOND_MIXED
    assert len(profiled) - len(missed) == 11
