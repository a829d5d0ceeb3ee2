"""What launches of one input set showed, turned into an outcome."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pytest_kernelqual.judge.baseline import FixedFacts, judge_fixed
from pytest_kernelqual.judge.candidate import CandidateFacts, judge_candidate
from pytest_kernelqual.model.outcome import Outcome
from pytest_kernelqual.model.tolerance import Tolerance
from pytest_kernelqual.on_device.compare import mismatches, same, unwritten, written_outside
from pytest_kernelqual.on_device.executor import Run
from pytest_kernelqual.on_device.failed import LaunchFailed
from pytest_kernelqual.on_device.memory import PATTERN_A, PATTERN_B
from pytest_kernelqual.on_device.outputs import digest
from pytest_kernelqual.on_device.provocation import NOISE
from pytest_kernelqual.on_device.wording import in_words, mismatch_in_words


class Judged(NamedTuple):
    """What a candidate's launches on one input set came to."""

    outcome: Outcome
    reason: str
    detail: dict[str, Any]


def told_provocation(runs: Sequence[Run]) -> list[str]:
    """Return how each launch was provoked, `dirty+noise` for example; nothing where none was."""
    return ["+".join(run.provoked) for run in runs] if any(run.provoked for run in runs) else []


def judge_fixed_runs(first: Run, again: Run, other: Run, leaks: Callable[[], bool]) -> tuple[Outcome, str]:
    """Judge the fixed launch by two runs under the first pattern and one under the second.

    Args:
        first: Under the first pattern.
        again: Under the first pattern, beside noise.
        other: Under the second pattern.
        leaks: Launches it again to tell whether the bytes follow what is left in shared memory and registers.
    """
    both_poisons = same(first.outputs, other.outputs)
    return judge_fixed(
        FixedFacts(
            same_under_one_poison=same(first.outputs, again.outputs),
            same_under_both_poisons=both_poisons,
            surviving_poison=in_words(unwritten(first.outputs, other.outputs, PATTERN_A, PATTERN_B)),
            leaks=not both_poisons and leaks(),
            beside_noise=NOISE in again.provoked,
        )
    )


def compared(run: Run, fixed: Run, pattern: int) -> Run:
    """Return a candidate's run; where its bytes are those of the fixed launch, its own copy of them is let go."""
    if pattern == PATTERN_A:  # the fixed launch's kept outputs were made under it
        _check_outside(written_outside(fixed.outputs, run.outputs, pattern))
    return run._replace(outputs=fixed.outputs) if same(fixed.outputs, run.outputs) else run


def judge_runs(runs: list[Run], fixed: Run, leaks: Callable[[], bool], tolerance: Tolerance | None = None) -> Judged:
    """Judge a candidate by what `compared` returned, which alternates between the two patterns.

    Args:
        runs: Of the candidate.
        fixed: A run of the fixed launch.
        leaks: Launches the candidate again to tell whether its bytes follow what is left on the chip.
        tolerance: The spec's.
    """
    equal = [run.outputs is fixed.outputs for run in runs]
    under_a, under_b = runs[0::2], runs[1::2]
    one_poison = all(_agree(group[0], run) for group in (under_a, under_b) for run in group[1:])
    both_poisons = all(_agree(under_a[0], run) for run in under_b[:1])
    survived = None
    if not both_poisons:
        survived = unwritten(under_a[0].outputs, under_b[0].outputs, PATTERN_A, PATTERN_B)
    found = [] if all(equal) else mismatches(fixed.outputs, runs[equal.index(False)].outputs, tolerance)
    outcome, reason = judge_candidate(
        CandidateFacts(
            equal,
            one_poison,
            both_poisons,
            in_words(survived),
            leaks=not both_poisons and leaks(),
            beside_noise=[NOISE in run.provoked for run in runs],
            within_tolerance=all(item.beyond_tolerance == 0 for item in found),
        )
    )
    if outcome == "qualified":
        return Judged(outcome, reason, {})
    reason = "; ".join(filter(None, [reason, *(mismatch_in_words(item) for item in found[:1])]))
    detail = {"mismatches": found, "launches_differing": len(equal) - sum(equal)}
    if outcome == "mismatch":
        detail["output"] = digest(runs[0].outputs)  # tells which candidates agree with each other
    return Judged(outcome, reason, detail)


def check_aftermath(run: Run, fixed: Run, *, of_candidate: bool) -> None:
    """End an attempt where a launch that followed the candidate's gives other bytes, for what that left in memory.

    Args:
        run: The launch that followed, of the candidate or the fixed one.
        fixed: A run of the fixed launch.
        of_candidate: Whose it is.
    """
    if same(fixed.outputs, run.outputs):
        return
    found = mismatches(fixed.outputs, run.outputs)
    outcome: Outcome = "nondeterministic" if of_candidate else "out_of_bounds_write"
    who = "launched again, it" if of_candidate else "the fixed launch, launched after it,"
    left = "gives other bytes for what was left in memory that outlives a launch"
    raise LaunchFailed(outcome, f"{who} {left}: {mismatch_in_words(found[0])}", {"mismatches": found})


def _check_outside(found: dict[str, Any] | None) -> None:
    if found:
        reason = f"{found['count']} bytes were written in the storage of {found['output']} outside what is returned"
        raise LaunchFailed("out_of_bounds_write", f"{reason}, first at byte {found['first_byte']}", found)


def _agree(one: Run, other: Run) -> bool:
    return one.outputs is other.outputs or same(one.outputs, other.outputs)
