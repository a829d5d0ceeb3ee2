"""One committed row: from its file to a verdict."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from msgspec import Struct, structs

from pytest_kernelqual.committed.refusal import Refusal
from pytest_kernelqual.committed.schema import CommittedDevice, CommittedFile, Row, Toolchain
from pytest_kernelqual.committed.store import Store
from pytest_kernelqual.errors import UnmeasurableError
from pytest_kernelqual.gating.arms import Arms
from pytest_kernelqual.gating.gates import control, gate, in_fresh_processes, screen, unmeasurable, with_confirmations
from pytest_kernelqual.judge.drift import judge_production
from pytest_kernelqual.judge.evidence import falls_short, strength, weakest
from pytest_kernelqual.judge.gate import kept_speed_up
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.model.messages import CandidateInfo, CaseInfo, SpecInfo
from pytest_kernelqual.model.outcome import PASSING, Evidence
from pytest_kernelqual.model.record import (
    CandidateRecord,
    CommittedRecord,
    CommittedVerdict,
    FixedRecord,
    GateRecord,
    GateVerdict,
    ProductionBytes,
)

# Verdicts that fail an item; the others pass or warn.
FAILING: frozenset[CommittedVerdict] = frozenset(
    {
        "slower_than_fixed",
        "slower_than_best",
        "decayed",
        "not_qualified",
        "drifted",
        "stale",
        "orphan",
        "missing",
        "duplicate",
        "bad_file",
    }
)

_SCREENING_ROUNDS = 2


class Margins(NamedTuple):
    """How much slower a committed config may be, as fractions."""

    fixed: float = 0.02
    best: float = 0.05
    decay_warn: float = 0.05
    decay_fail: float = 0.10
    control: float = 0.02
    """The narrowest that was asked for: launches must be timed precisely enough for it."""


class Bench(Struct, frozen=True):
    """What a row is checked with."""

    store: Store
    kernel: str
    device: CommittedDevice
    spec: SpecInfo
    key: dict[str, Any]
    cases: list[CaseInfo]
    """The cases with this key; the first one is timed."""
    qualify: Callable[[CaseInfo, CandidateInfo], CandidateRecord]
    """Byte-qualifies a candidate in this run, or returns what this run found before."""
    arms: Callable[[Sequence[Config | None]], Arms] | None
    """Makes arms on the first case; None where nothing can be timed."""
    fresh: Callable[[Sequence[Config | None]], list[Arms]]
    """Makes the same arms in two fresh processes."""
    margins: Margins
    fixed: Callable[[CaseInfo], FixedRecord | None] = lambda _case: None
    """Returns what this run found of the fixed launch, or runs it."""
    toolchain: Toolchain | None = None
    """What this run uses; None where its bytes are not those of the row's device."""
    drift_fails: bool = False
    """Other bytes of the fixed launch than when the row was committed fail the row."""
    untimed: str = "no device: kernels are interpreted, and nothing is timed"
    """Why nothing can be timed, where `arms` is None."""
    elsewhere: bool = False
    """Another device runs the kernels: whether the config fits it tells nothing about the row."""

    def candidate(self, config: Config) -> CandidateInfo | None:
        """Return the declared candidate with this config."""
        return next((info for info in self.spec.candidates if Config(info.config) == config), None)

    def qualified(self, info: CandidateInfo) -> CandidateRecord | None:
        """Return the record that keeps a candidate from being used on any case of the key, or None."""
        records = (self.qualify(case, info) for case in self.cases)
        return next((record for record in records if record.outcome not in PASSING or falls_short(record)), None)

    def evidence(self, info: CandidateInfo) -> Evidence | None:
        """Return what the cases of the key prove together of a candidate."""
        return weakest(self.qualify(case, info).evidence for case in self.cases)

    def programs(self, own: Config | None) -> list[Config]:
        """Return the qualified candidates, one for each program that the timed case launches.

        `own`, which is timed in any case, stands for its program, and the fixed launch for its.
        """
        chosen: dict[str | None, Config] = {}
        for info in self.spec.candidates:
            if self.qualified(info) is not None:
                continue
            record, config = self.qualify(self.cases[0], info), Config(info.config)
            program = None if record.evidence == "identical_binary" else record.same_program_as or info.id
            if config == own or (program is not None and program not in chosen):
                chosen[program] = config
        return list(chosen.values())


def check(bench: Bench) -> CommittedRecord:
    """Return what becomes of the row: it starts at `not_timed` and is upgraded by evidence only."""
    blank = CommittedRecord(device=bench.store.path_for(bench.kernel, bench.device).stem, key=bench.key)
    found = _row(bench)
    if isinstance(found, CommittedRecord):
        return structs.replace(found, device=blank.device, key=blank.key)
    file, row = found
    record = structs.replace(blank, config=row.config)
    wrong = _static(bench, file, row)
    if wrong is not None:
        return verdict(record, *wrong)
    if bench.elsewhere:
        return verdict(record, "not_timed", bench.untimed)
    info = bench.candidate(Config(row.config)) if row.config is not None else None
    if info is not None:
        against = bench.qualified(info)
        if against is not None:
            return verdict(record, "not_qualified", f"{against.id}: {against.outcome}: {against.reason}")
        record = _graded(record, bench.evidence(info), row)
    production, told = drift(bench, file, row)
    record = structs.replace(record, production=production, reasons=[*record.reasons, *filter(None, [told])])
    if production == "changed" and bench.drift_fails:
        return verdict(record, "drifted")
    return _gated(bench, bench.arms, record, row) if bench.arms else verdict(record, "not_timed", bench.untimed)


def drift(bench: Bench, file: CommittedFile, row: Row) -> tuple[ProductionBytes, str]:
    """Tell whether production's own bytes are those stored in a row, and what changed."""
    fixed = bench.fixed(bench.cases[0]) if bench.toolchain is not None and row.fixed_output is not None else None
    if bench.toolchain is None or fixed is None:
        return "unknown", ""
    return judge_production(row, file.toolchain_of(row), fixed, bench.toolchain)


def verdict(record: CommittedRecord, name: CommittedVerdict, *reasons: str) -> CommittedRecord:
    """Return the record with a verdict, its reasons, and whether it passes."""
    return structs.replace(
        record, verdict=name, reasons=[*record.reasons, *filter(None, reasons)], passed=name not in FAILING
    )


def refused(record: CommittedRecord, refusal: Refusal) -> CommittedRecord:
    """Return the record of a file that is not used."""
    return verdict(record, "duplicate" if refusal.code == "duplicate_key" else "bad_file", str(refusal))


def _row(bench: Bench) -> tuple[CommittedFile, Row] | CommittedRecord:
    blank = CommittedRecord(device="", key=bench.key)
    file = bench.store.read(bench.kernel, bench.device)
    if isinstance(file, Refusal):
        return refused(blank, file)
    row = file.row(bench.key) if file is not None else None
    if file is None or row is None:
        what = f"no committed configs for {bench.device.name}" if file is None else "no row for this key"
        return verdict(blank, "missing", f"{what}; measure it with --kernelqual-update")
    return file, row


def _graded(record: CommittedRecord, evidence: Evidence | None, row: Row) -> CommittedRecord:
    """Note the evidence of this run, and say where it is no equality of bytes or less than was committed."""
    told = []
    if evidence == "within_tolerance":
        told.append("its bytes are not the fixed launch's: within the spec's tolerance")
    elif evidence != "interpreted" and strength(evidence) < strength(row.evidence):
        told.append(f"committed as {row.evidence}, now {evidence}")
    return structs.replace(record, evidence=evidence, reasons=[*record.reasons, *told])


def _static(bench: Bench, file: CommittedFile, row: Row) -> tuple[CommittedVerdict, str] | None:
    """Return what is wrong with a row that can be told without running anything."""
    if file.space_of(row) != bench.spec.space:
        return "stale", (
            "the candidates, the kernel or its launch code changed since the row was measured; "
            "measure it again with --kernelqual-update"
        )
    if row.config is not None and bench.candidate(Config(row.config)) is None:
        return "stale", f"{Config(row.config).id} is no candidate any more; measure again with --kernelqual-update"
    return None


def _gated(
    bench: Bench, make: Callable[[Sequence[Config | None]], Arms], record: CommittedRecord, row: Row
) -> CommittedRecord:
    """Run the gates; arm 0 and 1 are the fixed launch, arm 2 is the committed config where there is one."""
    committed = Config(row.config) if row.config is not None else None
    rivals = [config for config in bench.programs(committed) if config != committed]
    configs: list[Config | None] = [None, None, *([] if committed is None else [committed]), *rivals]
    arms = make(configs)
    margins = bench.margins
    gates: list[GateRecord] = [control(arms, margin=margins.control, qualify=True)]
    if gates[0].verdict != "ok":
        return verdict(structs.replace(record, gates=gates), "unmeasurable", gates[0].reason)
    if committed is not None:
        judged = gate(
            "not_slower_than_fixed",
            arms,
            (0, 2),
            margin=margins.fixed,
            fresh=lambda: bench.fresh([None, committed]),
        )
        record = structs.replace(record, speed_up=round(1 / judged.ratio[0], 4) if judged.ratio else None)
        gates += [judged, *_decay(bench, arms, judged, row)]
    own, first_rival = (0, 2) if committed is None else (2, 3)
    gates += _near_best(bench, arms, own, list(range(first_rival, len(configs))), configs)
    return _judged(structs.replace(record, gates=gates))


def _decay(bench: Bench, arms: Arms, judged: GateRecord, row: Row) -> Iterator[GateRecord]:
    """Compare the speed-up with the stored one, where it is lower by more than the margin of the warning.

    A loss that would fail is measured again in two fresh processes, and the best of all speed-ups counts.
    A fixed launch that became faster is said, and is no decay.
    """
    if row.speed_up is None or not judged.ratio or judged.verdict in ("slow", "unmeasurable"):
        return
    margins = bench.margins
    # The same samples are judged by another question.
    measured = structs.replace(
        judged, gate="decay", margin_pct=round(margins.decay_fail * 100, 3), verdict="ok", reason="", ratio=[]
    )
    if row.cache is not None and row.cache != arms.plan.cache:
        told = (
            f"warning: committed on a {row.cache} L2 cache, and timed on a {arms.plan.cache} one now: no decay is told"
        )
        yield structs.replace(measured, verdict="warned", reason=told)
        return
    expected = _expected_speed_up(row, row.speed_up, judged.time_us[0])
    if _lost(measured.processes, expected) > margins.decay_fail and len(measured.processes) == 1:
        committed = Config(row.config) if row.config is not None else None
        others = in_fresh_processes(bench.fresh([None, committed]), arms, judged.time_us[0])
        measured = with_confirmations(measured, others.rounds)
        if others.failed:
            told = f"a lower speed-up, not confirmed: {others.failed}"
            yield structs.replace(measured, verdict="unmeasurable", reason=told)
            return
    ratios = measured.processes
    lost = _lost(ratios, expected)
    if lost <= margins.decay_warn:
        return
    told = f"speed-up {row.speed_up:.3f} when committed, {1 / min(ratios):.3f} now ({-lost * 100:+.1f} %)"
    stored = row.times_us.committed if row.times_us is not None else None
    found: tuple[GateVerdict, str] = ("warned", f"warning: {told}")
    if stored is not None and judged.time_us[1] <= stored * (1 + margins.decay_warn):
        found = "ok", f"baseline moved: the fixed launch became faster: {told}"
    elif lost > margins.decay_fail:
        found = "slow", told
    yield structs.replace(measured, verdict=found[0], reason=found[1])


def _expected_speed_up(row: Row, stored: float, fixed_us: float) -> float:
    """Return the stored speed-up less what a latency that grew for both arms alike takes from it."""
    if row.times_us is None or row.times_us.committed is None:
        return stored
    return stored * kept_speed_up(row.times_us.fixed, row.times_us.committed, fixed_us)


def _lost(ratios: Sequence[float], expected: float) -> float:
    """Return which part of the expected speed-up is lost by the best of the measured ratios of times."""
    return 1 - 1 / min(ratios) / expected


def _near_best(
    bench: Bench, arms: Arms, own: int, rivals: list[int], configs: Sequence[Config | None]
) -> Iterator[GateRecord]:
    """Hold the committed config against the best candidate: chosen on screening data, judged on new samples."""
    if not rivals:
        return
    margin = bench.margins.best
    try:
        ratios = screen(arms, own, rivals, rounds=_SCREENING_ROUNDS, roughly=True)
    except UnmeasurableError as error:
        yield unmeasurable("near_best", arms, (rivals[0], own), margin, f"the best is not known: {error}")
        return
    best = min(ratios, key=lambda arm: ratios[arm])
    if math.expm1(-ratios[best]) < margin / 2:  # far from the margin even on rough data
        return
    yield gate("near_best", arms, (best, own), margin=margin, fresh=lambda: bench.fresh([configs[best], configs[own]]))


_SLOW: dict[str, CommittedVerdict] = {
    "not_slower_than_fixed": "slower_than_fixed",
    "near_best": "slower_than_best",
    "decay": "decayed",
}


def _judged(record: CommittedRecord) -> CommittedRecord:
    """Return the verdict of the first gate that found a slow config, else of the first that could not tell."""
    gates = record.gates
    told: list[tuple[CommittedVerdict, str]] = [
        (_SLOW[item.gate], item.reason) for item in gates if item.verdict == "slow"
    ]
    told += [("inconclusive", item.reason) for item in gates if item.verdict == "inconclusive"]
    told += [("unmeasurable", item.reason) for item in gates if item.verdict == "unmeasurable"]
    notes = [item.reason for item in gates if item.gate == "decay" and item.verdict in ("ok", "warned")]
    name, reason = told[0] if told else ("ok", "")
    return verdict(record, name, *notes, reason)
