"""Find the config to commit for one key: screen by successive halving, confirm in three processes."""

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from pytest_kernelqual.committed.reading import row_problem
from pytest_kernelqual.committed.refusal import Refusal
from pytest_kernelqual.committed.schema import LONGEST_TEXT, CommittedFile, Row, Times
from pytest_kernelqual.errors import UnmeasurableError
from pytest_kernelqual.gating.arms import Arms
from pytest_kernelqual.gating.gates import comparison, control, estimated_log_ratio, halve, medians_us
from pytest_kernelqual.gating.row import Bench, drift
from pytest_kernelqual.judge.statistics import LAST_LOOK
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.model.record import FixedRecord, GateRecord, ProductionBytes
from pytest_kernelqual.model.values import encodable

# A challenger replaces the incumbent only when it is faster by more than this in each of three processes.
REPLACE_MARGIN = 0.02


class Refreshed(NamedTuple):
    """The row to write, or why there is none."""

    row: Row | None
    reason: str
    control: GateRecord | None = None
    decided: Sequence[GateRecord] = ()
    """The comparisons that chose the config and measured its speed-up, in three processes each."""
    production: ProductionBytes = "unknown"
    """The fixed launch's bytes against those of the row that is replaced."""
    drift: str = ""
    """What changed them."""


def refresh(bench: Bench, *, fixed: Callable[[], FixedRecord | None]) -> Refreshed:
    """Return the row for a key.

    The incumbent is the committed config while it is valid and qualified, else the fixed launch.
    Its challenger is the best of all others by screening, the fixed launch included.

    Args:
        bench: What the row is measured with.
        fixed: The fixed launch of the case that is timed, with the digest of its output, which that of every
            qualified candidate equals; None where it did not qualify on every case of the key.
            Asked after the candidates were qualified.
    """
    if bench.arms is None:
        return Refreshed(None, bench.untimed)
    production, told = _drift(bench)
    return _refreshed(bench, bench.arms, fixed)._replace(production=production, drift=told)


def _drift(bench: Bench) -> tuple[ProductionBytes, str]:
    """Hold production against the row that was measured before; a changed kernel may give what it likes."""
    file = bench.store.read(bench.kernel, bench.device)
    if isinstance(file, CommittedFile):
        row = file.row(bench.key)
        if row is not None and file.space_of(row) == bench.spec.space:
            return drift(bench, file, row)
    return "unknown", ""


def _refreshed(
    bench: Bench, make: Callable[[Sequence[Config | None]], Arms], fixed: Callable[[], FixedRecord | None]
) -> Refreshed:
    incumbent = _incumbent(bench)
    able = bench.programs(incumbent)
    production = fixed()
    if production is None:
        return Refreshed(None, "not written: the fixed launch did not qualify on every case of the key")
    configs: list[Config | None] = [None, None, *able]
    arms = make(configs)
    armed = control(arms, margin=bench.margins.fixed, qualify=True)
    if armed.verdict != "ok":
        if incumbent is not None or arms.disturbed:
            return Refreshed(None, f"not written: {armed.reason}", armed)
        # As it would be every time; without a row the key would be missing for good.
        return Refreshed(_unmeasured(bench, production, armed.reason), armed.reason, armed)
    decided: list[GateRecord] = []
    try:
        old = configs.index(incumbent) if incumbent is not None else 0
        # Arm 1 stands for the fixed launch where that is a challenger.
        order = halve(arms, 0, list(range(2 if old == 0 else 1, len(configs))))
        rivals = [arm for arm in order if arm != old]
        row, note = _decided(bench, arms, configs, old, rivals[:1], production, decided)
        told = row_problem(row)
        if told:  # its file would be refused, and with it every other row that this run measured
            return Refreshed(None, f"not written: {told}", armed, decided=decided)
        return Refreshed(row, note, armed, decided=decided)
    except UnmeasurableError as error:
        return Refreshed(None, f"not written: {error}", armed, decided=decided)


def _unmeasured(bench: Bench, fixed: FixedRecord, reason: str) -> Row:
    """Return the row of a key whose launches cannot be timed well enough to choose."""
    return Row(
        key=bench.key,
        config=None,
        fixed_output=fixed.output,
        fixed_inputs=fixed.inputs,
        note=_noted(f"fixed launch kept, not measured: {reason}"),
        measured_at=datetime.now(UTC).date().isoformat(),
    )


def _incumbent(bench: Bench) -> Config | None:
    file = bench.store.read(bench.kernel, bench.device)
    row = file.row(bench.key) if file is not None and not isinstance(file, Refusal) else None
    config = Config(row.config) if row is not None and row.config is not None else None
    info = bench.candidate(config) if config is not None else None
    return config if info is not None and bench.qualified(info) is None else None


def _decided(
    bench: Bench,
    arms: Arms,
    configs: Sequence[Config | None],
    old: int,
    rivals: Sequence[int],
    fixed: FixedRecord,
    decided: list[GateRecord],
) -> tuple[Row, str]:
    """Confirm the best challenger against the incumbent in three processes, and measure the winner's speed-up.

    Both comparisons are added to `decided`, the first one also where the second cannot be made.
    """
    wanted = [0, 0, old, *rivals]
    places = [arms, *bench.fresh([configs[arm] for arm in wanted])]
    time_us = min(medians_us(arms.sample(0, 1, 1)))
    for place in places[1:]:
        place.open_like(arms, time_us)
    indices = [
        dict(zip(wanted, wanted, strict=True)),
        *({arm: at for at, arm in enumerate(wanted)} for _ in places[1:]),
    ]

    def rounds(first: int, second: int) -> list[list[list[float]]]:
        """Return the rounds of two arms that each process takes."""
        return [
            place.sample(index[first], index[second], LAST_LOOK) for place, index in zip(places, indices, strict=True)
        ]

    against_old = [rounds(old, rival) for rival in rivals]
    gains = [max(map(estimated_log_ratio, taken)) for taken in against_old]
    replaced = bool(gains) and gains[0] < math.log1p(-REPLACE_MARGIN)
    chosen = rivals[0] if replaced else old
    best = (
        f"best challenger {_name(configs[rivals[0]])} {-math.expm1(gains[0]) * 100:+.1f} %"
        if gains
        else "no challenger"
    )
    what = f"replaces {_name(configs[old])}" if replaced else "kept"
    note = f"{what}, {best}" if configs[chosen] is not None else f"fixed launch {what}, {best}"
    decided += [
        comparison("challenger", arms, (old, rival), margin=REPLACE_MARGIN, taken=taken, reason=note)
        for rival, taken in zip(rivals, against_old, strict=True)
    ]
    ratios = []
    if configs[chosen] is not None:
        taken = rounds(0, chosen)
        ratios = [math.exp(-estimated_log_ratio(of_process)) for of_process in taken]
        decided.append(comparison("speed_up", arms, (0, chosen), margin=0.0, taken=taken, reason=""))
        times_us = medians_us(taken[ratios.index(min(ratios))])  # of the process whose speed-up is stored
    else:
        times_us = medians_us(arms.sample(0, 1, 2))
    fixed_us, chosen_us = times_us
    config = configs[chosen]
    info = bench.candidate(config) if config is not None else None
    evidence = bench.evidence(info) if info is not None else None
    return Row(
        key=bench.key,
        config=dict(config) if config is not None else None,
        evidence=evidence,
        # What is only within tolerance has other bytes, of which no digest is at hand.
        output=fixed.output if config is not None and evidence != "within_tolerance" else None,
        fixed_output=fixed.output,
        fixed_inputs=fixed.inputs,
        times_us=Times(fixed=round(fixed_us, 4), committed=round(chosen_us, 4) if config is not None else None),
        speed_up=round(min(ratios), 4) if ratios else None,
        speed_up_samples=[round(ratio, 4) for ratio in ratios],
        method=arms.plan.method,
        cache=arms.plan.cache,
        note=_noted(note),
        measured_at=datetime.now(UTC).date().isoformat(),
    ), note


def _noted(text: str) -> str:
    """Return a note as files take it, whatever a launch that cannot be timed says, or a config is called."""
    text = encodable(text)
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 3]}..."


def _name(config: Config | None) -> str:
    return config.id if config is not None else "the fixed launch"
