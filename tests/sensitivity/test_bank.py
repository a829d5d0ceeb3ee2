"""Every broken kernel of the bank gets the outcome that it must get, and nothing else is flagged."""

from pathlib import Path

from expectations import BROKEN, DELICATE, QUALIFIED, agrees, expected
from running import ROOT, run_bank


def test_bank_is_large() -> None:
    """The bank cannot silently shrink: 60 kinds of broken kernels and 20 delicate ones, each in the table once."""
    broken = {(row.spec, row.candidate) for row in BROKEN if row.gpu != QUALIFIED}
    assert len(broken) >= 120
    assert len({row.kind for row in BROKEN}) >= 60
    assert len(set(DELICATE)) >= 30
    assert len({(row.spec, row.candidate) for row in BROKEN}) == len(BROKEN)
    assert not {row.spec for row in BROKEN} & set(DELICATE)


def test_what_the_interpreter_cannot_show_has_a_reason() -> None:
    """A row that expects something else of the interpreter says why."""
    assert all(row.why for row in BROKEN if row.interpreter)


# One test, so that parallel workers do not each run the bank.
def test_outcomes(tmp_path: Path) -> None:
    """The tool names every fault that the interpreter can show, and clears what is sound."""
    seen = run_bank(tmp_path, device="interpreter")
    specs = {row.spec for row in BROKEN} | set(DELICATE)
    assert {spec for spec, _, _ in seen.outcomes} == specs, seen.text
    assert {(row.spec, row.candidate) for row in BROKEN} <= {(spec, name) for spec, _, name in seen.outcomes}
    wrong = {
        place: outcome
        for place, outcome in seen.outcomes.items()
        if not agrees(outcome, expected(place[0], place[2], interpreted=True))
    }
    assert wrong == {}


def test_documentation_names_the_kinds() -> None:
    """`docs/evidence.md` lists all kinds, once, and counts the kernels."""
    text = (ROOT / "docs" / "evidence.md").read_text()
    section = text.partition("## What the tool finds\n")[2].partition("\n## ")[0]
    cells = [line.split("|")[2].strip() for line in section.splitlines() if line.startswith("| ")][2:]
    assert sorted("; ".join(cells).split("; ")) == sorted({row.kind for row in BROKEN})
    broken = [row for row in BROKEN if row.gpu != QUALIFIED]
    assert f"{len(broken)} broken kernels of {len({row.kind for row in BROKEN})} kinds" in section
    assert f"{len(DELICATE)} launches that are right" in section
