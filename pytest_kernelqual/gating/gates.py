"""What is decided over samples of arms: control, gates with confirmation, screening."""

import math
import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec import structs

from pytest_kernelqual.errors import UnmeasurableError
from pytest_kernelqual.gating.arms import LONGEST_SAMPLE_US, Arms
from pytest_kernelqual.judge.gate import Arm, confirmed, look
from pytest_kernelqual.judge.statistics import LAST_LOOK, Estimate, estimate, log_ratios, means_of, next_look
from pytest_kernelqual.model.record import GateName, GateRecord, GateVerdict

# The shortest sample; up to the longest it grows by this factor, or more, until the control is narrow enough.
SHORTEST_SAMPLE_US = 150.0
_LENGTHENED = 2.6
# The means of so many rounds count as one round where the longest samples are too noisy.
_NOISY_ROUNDS = 3
# So often arms are built anew when samples can get no longer.
_MOST_REBUILT = 2


class Outcome(NamedTuple):
    """Rounds of one gate and what they show."""

    verdict: str
    found: Estimate
    rounds: list[list[float]]


def control(arms: Arms, *, margin: float, qualify: bool) -> GateRecord:
    """Arm the gate: time arm 0 against arm 1, the same config, and lengthen samples until that is precise enough.

    Arms that differ though that is precise may differ by where they lie, and no longer do when they are built anew.
    """
    target_us, anew, rebuilt = SHORTEST_SAMPLE_US, True, 0
    while True:
        longest = target_us >= LONGEST_SAMPLE_US
        try:
            if anew:
                arms.open(target_us, qualify=qualify)
            else:
                arms.lengthen(target_us)
            rounds = arms.sample(0, 1, LAST_LOOK)
            arm = Arm(estimate(log_ratios(rounds)), margin)
            if longest and not arm.armed:  # noise of whole samples: longer ones would not average it out
                rounds += arms.sample(0, 1, LAST_LOOK * (_NOISY_ROUNDS - 1))
                arm = Arm(estimate(means_of(_NOISY_ROUNDS, log_ratios(rounds))), margin)
        except UnmeasurableError as error:
            return unmeasurable("control", arms, (0, 1), margin, str(error))
        if arm.armed or (longest and not (arm.precise and rebuilt < _MOST_REBUILT)):
            break
        anew = arm.precise  # noise alone is no reason
        rebuilt += longest
        # Noise that is independent averages out by the root of the length.
        target_us = min(target_us * max(_LENGTHENED, arm.excess**2), LONGEST_SAMPLE_US)
        qualify = False
    reason = "" if arm.armed else f"timing is too noisy: {_interval(arm.estimate)} for one config against itself"
    outcome = Outcome("ok" if arm.armed else "unmeasurable", arm.estimate, rounds)
    return _told("control", arms, (0, 1), margin, outcome, reason=reason)


def gate(
    name: GateName,
    arms: Arms,
    pair: tuple[int, int],
    *,
    margin: float,
    fresh: Callable[[], Sequence[Arms]],
) -> GateRecord:
    """Decide whether arm B is slower than arm A by more than `margin`, a fraction.

    Samples are taken until the bounds decide.
    A suspect is timed again in fresh processes, and fails only by the smallest of all estimates.
    """
    try:
        outcome = _sampled(arms, pair, margin)
    except UnmeasurableError as error:
        return unmeasurable(name, arms, pair, margin, str(error))
    if outcome.verdict != "suspect":
        verdict: GateVerdict = "ok" if outcome.verdict == "ok" else "inconclusive"
        reason = "" if verdict == "ok" else f"undecided after {LAST_LOOK} rounds: {_interval(outcome.found)}"
        return _told(name, arms, pair, margin, outcome._replace(verdict=verdict), reason=reason)
    time_us = medians_us(outcome.rounds)[0]
    others = in_fresh_processes(fresh(), arms, time_us)
    if others.failed:
        reason = f"a suspect ({_interval(outcome.found)}) that could not be confirmed: {others.failed}"
        told = _told(name, arms, pair, margin, outcome._replace(verdict="unmeasurable"), reason=reason)
        return with_confirmations(told, others.rounds)
    estimates = [outcome.found.log_ratio, *map(estimated_log_ratio, others.rounds)]
    resolution_us = arms.plan.quantum_us / max(arms.plan.launches, 1)
    slow = confirmed(estimates, margin=margin, time_us=time_us, resolution_us=resolution_us)
    told = _told(name, arms, pair, margin, outcome._replace(verdict="slow" if slow else "ok"))
    return _with_reason(with_confirmations(told, others.rounds), slow=slow)


class FreshRounds(NamedTuple):
    """All rounds of arm 0 and arm 1 that fresh processes took."""

    rounds: list[list[list[float]]]
    """Of each process."""
    failed: str = ""
    """Why the next process could not time its arms; empty where all could."""


def in_fresh_processes(places: Sequence[Arms], first: Arms, time_us: float) -> FreshRounds:
    """Time arm 0 against arm 1 in each process as the first one does, until one of them cannot."""
    taken: list[list[list[float]]] = []
    try:
        for place in places:
            place.open_like(first, time_us)
            taken.append(place.sample(0, 1, LAST_LOOK))
    except UnmeasurableError as error:
        return FreshRounds(taken, str(error))
    return FreshRounds(taken)


def with_confirmations(record: GateRecord, taken: Sequence[Sequence[Sequence[float]]]) -> GateRecord:
    """Return the record with the rounds of fresh processes, and their estimates after that of the first one."""
    ratios = [round(math.exp(estimated_log_ratio(rounds)), 6) for rounds in taken]
    return structs.replace(
        record, processes=[*record.processes, *ratios], confirmations=[_rounded(rounds) for rounds in taken]
    )


def comparison(
    name: GateName,
    arms: Arms,
    pair: tuple[int, int],
    *,
    margin: float,
    taken: Sequence[list[list[float]]],
    reason: str,
) -> GateRecord:
    """Return the record of rounds that every process took, `arms` first, to choose and not to judge."""
    own, *others = taken
    outcome = Outcome("ok", estimate(log_ratios(own)), own)
    return with_confirmations(_told(name, arms, pair, margin, outcome, reason=reason), others)


def screen(
    arms: Arms, first: int, candidates: Sequence[int], *, rounds: int, roughly: bool = False
) -> dict[int, float]:
    """Return the rough log ratio of each candidate to arm `first`: a median, for choosing and not for judging."""
    taken = arms.sample_pairs([(first, arm) for arm in candidates], rounds, roughly=roughly)
    return {arm: statistics.median(log_ratios(told)) for arm, told in zip(candidates, taken, strict=True)}


def halve(arms: Arms, first: int, candidates: Sequence[int], *, rounds: int = 2) -> list[int]:
    """Return the candidates from the fastest on by successive halving: half of them get twice the rounds each time."""
    alive, out = list(candidates), list[int]()
    while len(alive) > 1:
        ratios = screen(arms, first, alive, rounds=rounds)
        alive.sort(key=lambda arm: ratios[arm])
        keep = (len(alive) + 1) // 2
        out = alive[keep:] + out
        alive, rounds = alive[:keep], min(rounds * 2, LAST_LOOK)
    return alive + out


def _sampled(arms: Arms, pair: tuple[int, int], margin: float) -> Outcome:
    rounds: list[list[float]] = []
    verdict = "continue"
    while verdict == "continue":
        upto = next_look(len(rounds)) or LAST_LOOK
        rounds += arms.sample(*pair, upto - len(rounds))
        verdict = look(log_ratios(rounds), margin=margin)
    return Outcome(verdict, estimate(log_ratios(rounds)), rounds)


def _told(
    name: GateName, arms: Arms, pair: tuple[int, int], margin: float, outcome: Outcome, *, reason: str = ""
) -> GateRecord:
    verdict: GateVerdict = outcome.verdict  # type: ignore[assignment]  # one of the gate's own by now
    return GateRecord(
        gate=name,
        a=arms.name(pair[0]),
        b=arms.name(pair[1]),
        margin_pct=round(margin * 100, 3),
        verdict=verdict,
        reason=reason,
        ratio=[round(value, 6) for value in outcome.found.ratios],
        processes=[round(math.exp(outcome.found.log_ratio), 6)],
        time_us=[round(time_us, 4) for time_us in medians_us(outcome.rounds)],
        method=arms.plan.method,
        cache=arms.plan.cache,
        ring=arms.plan.ring,
        launches=arms.plan.launches,
        rounds=_rounded(outcome.rounds),
    )


def _rounded(rounds: Sequence[Sequence[float]]) -> list[list[float]]:
    return [[round(sample, 5) for sample in abba] for abba in rounds]


def estimated_log_ratio(rounds: Sequence[Sequence[float]]) -> float:
    """Return the estimate over all rounds."""
    return estimate(log_ratios(rounds)).log_ratio


def unmeasurable(name: GateName, arms: Arms, pair: tuple[int, int], margin: float, reason: str) -> GateRecord:
    """Return the record of a gate that could not be decided because of `reason`."""
    return GateRecord(
        gate=name,
        a=arms.name(pair[0]),
        b=arms.name(pair[1]),
        margin_pct=round(margin * 100, 3),
        verdict="unmeasurable",
        reason=reason,
    )


def _with_reason(record: GateRecord, *, slow: bool) -> GateRecord:
    ratios = record.processes
    smallest = (min(ratios) - 1) * 100
    if slow:
        reason = (
            f"{record.b} is slower than {record.a} by {smallest:.2f} % or more in each of {len(ratios)} processes, "
            f"more than {record.margin_pct:g} %"
        )
    elif smallest > record.margin_pct:
        reason = f"{smallest:.2f} % of {record.time_us[0]:.3g} us is too little to be sure of"
    else:
        reason = f"a suspect that is not confirmed: one process saw {smallest:+.2f} %"
    return structs.replace(record, reason=reason)


def medians_us(rounds: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Return the median time of one launch of A and of B, in microseconds."""
    first, second = (statistics.median(abba[place] for abba in rounds for place in pair) for pair in ((0, 3), (1, 2)))
    return first, second


def _interval(found: Estimate) -> str:
    low, high = (math.expm1(value) * 100 for value in (found.lower, found.upper))
    return f"between {low:+.2f} % and {high:+.2f} %"
