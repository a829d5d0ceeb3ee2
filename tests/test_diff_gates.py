"""`kernelqual diff` tells what is asked less strictly as that, and nothing that passes by it as an improvement."""

import json
from pathlib import Path
from typing import Any

import pytest
from report_commands import OTHER_DEVICE, command, gate, row, stored
from report_samples import candidate, case, kernel, mismatching

from pytest_kernelqual.model.record import KernelRecord

WITHIN = candidate("a", "within_tolerance", evidence="within_tolerance", reason="1 ULP")
SCREENED = kernel(case(mismatching("a"), screen="a search"), screen="a search")
LACKING = candidate("a", lacks="identical_order", reason="identical_order is required")


def kinds(folder: Path, before: KernelRecord, after: KernelRecord) -> tuple[dict[str, int], int]:
    """Return how many changes of each kind there are, and the exit status."""
    base, head = stored(folder / "base.json", [before]), stored(folder / "head.json", [after])
    done = command("diff", base, head, "--format", "json")
    assert done.stderr == ""
    return json.loads(done.stdout)["counts"], done.returncode


@pytest.mark.parametrize(
    ("before", "after", "counts"),
    [
        (kernel(case(mismatching("a"))), SCREENED, {"weakened_gate": 1}),
        (kernel(case(candidate("a"))), kernel(case(candidate("a")), screen="a search"), {"weakened_gate": 1}),
        (kernel(case(mismatching("a"))), kernel(case(candidate("a")), screen="x"), {"weakened_gate": 1, "newly": 1}),
        (SCREENED, kernel(case(mismatching("a"))), {"failing_case": 1, "tightened_gate": 1}),
        (SCREENED, kernel(case(mismatching("a"), screen="other"), screen="other"), {}),
        (kernel(case(mismatching("a"))), kernel(case(WITHIN)), {"weakened_gate": 1}),
        (kernel(case(mismatching("a", beyond_tolerance=3))), kernel(case(WITHIN)), {"within_tolerance": 1}),
        (kernel(case(candidate("a", "fault", reason="x"))), kernel(case(WITHIN)), {"within_tolerance": 1}),
        (kernel(case(candidate("a"))), kernel(case(WITHIN)), {"lost_evidence": 1}),
        (kernel(case(LACKING)), kernel(case(candidate("a"))), {"weakened_gate": 1}),
        (
            kernel(case(LACKING)),
            kernel(case(candidate("a", evidence="identical_order"))),
            {"passing_case": 1, "gained_evidence": 1},
        ),
    ],
)
def test_what_candidates_are_held_to(
    tmp_path: Path, before: KernelRecord, after: KernelRecord, counts: dict[str, int]
) -> None:
    """A gate that was weakened is worse by itself, whatever passes by it."""
    wanted = {"newly_qualified" if kind == "newly" else kind: number for kind, number in counts.items()}
    found, status = kinds(tmp_path, before, after)
    assert found == wanted
    assert status == bool({"weakened_gate", "lost_evidence", "failing_case"} & wanted.keys())


@pytest.mark.parametrize(
    ("before", "after", "counts"),
    [
        ({"evidence": "identical_order"}, {"evidence": "identical_bytes"}, {"lost_evidence": 1}),
        ({"evidence": "identical_order"}, {"evidence": None}, {"lost_evidence": 1}),
        ({"evidence": "identical_bytes"}, {"evidence": "identical_binary"}, {"gained_evidence": 1}),
        ({"margin": 2.0}, {"margin": 10.0}, {"weakened_gate": 1}),
        ({"margin": 10.0}, {"margin": 2.0}, {"tightened_gate": 1}),
        (
            {"margin": 2.0, "verdict": "slower_than_fixed"},
            {"margin": 10.0},
            {"weakened_gate": 1, "other_verdict": 1},
        ),
        ({"margin": 2.0, "name": "control"}, {"margin": 10.0, "name": "control"}, {}),
    ],
)
def test_what_committed_configs_are_held_to(
    tmp_path: Path, before: dict[str, Any], after: dict[str, Any], counts: dict[str, int]
) -> None:
    """Weaker evidence is lost evidence; a wider margin makes nothing faster."""
    made = []
    for given in (before, after):
        margin, name = given.pop("margin", 2.0), given.pop("name", "not_slower_than_fixed")
        made.append(kernel(case(candidate("a")), committed=[row(gate(1.04, margin_pct=margin, name=name), **given)]))
    found, status = kinds(tmp_path, *made)
    assert found == counts
    assert status == bool({"weakened_gate", "lost_evidence"} & counts.keys())


def test_in_words_and_by_name(tmp_path: Path) -> None:
    """Under a heading of its own, on other devices too, and `--fail-on` knows the name."""
    base = stored(tmp_path / "base.json", [kernel(case(mismatching("a")))])
    head = stored(tmp_path / "head.json", [SCREENED])
    done = command("diff", base, head)
    assert done.returncode == 1
    assert done.stdout == (
        "worse: 1 weakened gate\n\nweakened gates: less is asked than before (1)\n"
        "  rms_norm_fwd: screened: bad candidates are only recorded now: a search\n"
    )
    assert command("diff", base, head, "--fail-on", "disqualified").returncode == 0
    assert command("diff", base, head, "--fail-on", "weakened_gate").returncode == 1
    elsewhere = stored(tmp_path / "elsewhere.json", [SCREENED], OTHER_DEVICE)
    assert "weakened gates: less is asked than before (1)\n" in command("diff", base, elsewhere).stdout
