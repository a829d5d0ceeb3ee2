"""Kinds of changes from one report to another, and which of them make it worse."""

from typing import Literal, NamedTuple, get_args

from msgspec import Struct, field

from pytest_kernelqual.report.pairing import Changes, Pair

DIFF_SCHEMA = "kernelqual/diff/1"

ChangeKind = Literal[
    "not_comparable",
    "failing_session",
    "broken_kernel",
    "disqualified",
    "out_of_resources",
    "failing_case",
    "failing_row",
    "slower",
    "lost_evidence",
    "weakened_gate",
    "dropped_kernel",
    "dropped_case",
    "dropped_row",
    "not_run",
    "production_bytes",
    "fixed_launch",
    "retuned",
    "baseline_moved",
    "dropped_candidate",
    "other_outcome",
    "other_verdict",
    "within_tolerance",
    "tightened_gate",
    "moved_kernel",
    "newly_qualified",
    "passing_session",
    "repaired_kernel",
    "passing_case",
    "passing_row",
    "faster",
    "gained_evidence",
    "added_kernel",
    "added_case",
    "added_row",
    "added_candidate",
]

KINDS: tuple[ChangeKind, ...] = get_args(ChangeKind)
"""Gravest first."""

WORSE: tuple[ChangeKind, ...] = KINDS[: KINDS.index("production_bytes")]
"""What makes a report worse, unless the user says otherwise."""

TITLES: dict[ChangeKind, str] = {
    "not_comparable": "not comparable",
    "failing_session": "what fails the session now",
    "broken_kernel": "kernels of which nothing can run any more",
    "disqualified": "disqualified",
    "out_of_resources": "out of resources",
    "failing_case": "cases that fail now",
    "failing_row": "committed configs that fail now",
    "slower": "slower",
    "lost_evidence": "lost evidence",
    "weakened_gate": "weakened gates: less is asked than before",
    "dropped_kernel": "dropped kernels",
    "dropped_case": "dropped cases",
    "dropped_row": "dropped rows of committed configs",
    "not_run": "not run",
    "production_bytes": "other bytes of production's own launch",
    "fixed_launch": "production launches another config",
    "retuned": "re-tuned",
    "baseline_moved": "baseline moved: the fixed launch became faster",
    "dropped_candidate": "dropped candidates",
    "other_outcome": "other outcomes, qualified neither before nor now",
    "other_verdict": "other verdicts of committed configs",
    "within_tolerance": "other bytes, which pass by the spec's tolerance now",
    "tightened_gate": "tightened gates: more is asked than before",
    "moved_kernel": "kernels declared in another place",
    "newly_qualified": "newly qualified",
    "passing_session": "what failed the session, and does not now",
    "repaired_kernel": "kernels that can run again",
    "passing_case": "cases that pass now",
    "passing_row": "committed configs that pass now",
    "faster": "faster",
    "gained_evidence": "gained evidence",
    "added_kernel": "new kernels",
    "added_case": "new cases",
    "added_row": "new rows of committed configs",
    "added_candidate": "new candidates",
}


class Turn(NamedTuple):
    """How one thing changed, wherever it stands."""

    kind: ChangeKind
    before: str = ""
    after: str = ""
    why: str = ""


class Change(Struct, frozen=True, kw_only=True):
    """One thing that changed."""

    kind: ChangeKind
    nodeid: str = ""
    """Of the kernel."""
    kernel: str = ""
    case: str = ""
    what: str = ""
    """Id of the candidate, `fixed launch`, or key and device of a committed row; empty for kernels and cases."""
    before: str = ""
    """In BASE: outcome, evidence, verdict, config or ratio."""
    after: str = ""
    """In HEAD."""
    why: str = ""


class Diff(Struct, frozen=True, kw_only=True):
    """What changed from BASE to HEAD."""

    schema: str = DIFF_SCHEMA
    worse: bool
    """A change of a kind in `fail_on` was found."""
    fail_on: list[ChangeKind]
    digests: Pair
    """Of the decisions of BASE and HEAD."""
    environment: Changes = field(default_factory=dict)
    """What differs of device, versions and effort, by name."""
    notes: list[str] = field(default_factory=list)
    """What of the reports cannot be compared, one line each."""
    counts: dict[str, int] = field(default_factory=dict)
    """Changes by kind, gravest first."""
    changes: list[Change] = field(default_factory=list)
    """Gravest first, then in declared order."""
