"""Compile targets as text: kernel by target, with the largest need and the headroom."""

from collections.abc import Iterable, Iterator, Sequence

from tabulate import tabulate

from pytest_kernelqual.model.outcome import TargetOutcome
from pytest_kernelqual.model.record import KernelRecord
from pytest_kernelqual.model.target_record import TargetNeeds, TargetRecord
from pytest_kernelqual.report.phrases import and_more, clean
from pytest_kernelqual.report.spills import spills_of
from pytest_kernelqual.report.target_needs import target_needs

_LONGEST = 300
_LONGEST_NAME = 60
_REFUSED: tuple[TargetOutcome, ...] = (
    "out_of_resources", "compile_error", "launch_error", "timeout", "unsupported", "unknown",
)  # fmt: skip
_KIB = 1024
_HEADERS = (
    "kernel", "target", "fit", "shared KiB (free)", "registers (free)", "threads", "stack bytes", "spilled bytes",
    "tensor columns", "same program", "same order", "refused",
)  # fmt: skip
# Left out where no kernel has anything to tell there.
_OPTIONAL = ("stack bytes", "spilled bytes", "tensor columns", "same program", "same order", "refused")
_TEXTS = ("kernel", "target", "refused")


def targets_summary(kernels: Iterable[KernelRecord]) -> str:
    """Return the table of all kernels and targets, and what needs a look; empty where there are no targets."""
    rows: list[tuple[str, ...]] = []
    refused: dict[tuple[str, str, str], list[str]] = {}
    notes: list[str] = []
    for kernel in kernels:
        by_target: dict[str, list[tuple[str, TargetRecord]]] = {}
        for case in kernel.cases:
            for record in case.targets:
                by_target.setdefault(record.target, []).append((case.id, record))
        for needs in target_needs(kernel):
            records = by_target[needs.target]
            names = (clean(name, _LONGEST_NAME) for name in (kernel.kernel, needs.target))
            rows.append((*names, *_figures(needs)))
            notes += _notes(kernel.kernel, needs.target, records)
            for case_id, record in records:
                for launch in record.launches:
                    if launch.outcome != "fits":
                        name = f"{kernel.kernel}[{case_id}] {launch.id}"
                        refused.setdefault((needs.target, launch.outcome, launch.reason), []).append(name)
    if not rows:
        return ""
    lines = [
        f"  {clean(f'{target}: {outcome}: {reason} ({and_more(names, 2)})', _LONGEST)}"
        for (target, outcome, reason), names in refused.items()
    ]
    return "\n".join(["compile targets (nothing was launched there)", _table(rows), *lines, *notes])


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    kept = [
        number
        for number, name in enumerate(_HEADERS)
        if name not in _OPTIONAL or any(row[number] not in ("", "0") for row in rows)
    ]
    return tabulate(
        [[row[number] for number in kept] for row in rows],
        [_HEADERS[number] for number in kept],
        tablefmt="simple",
        disable_numparse=True,
        colalign=["left" if _HEADERS[number] in _TEXTS else "right" for number in kept],
    )


def _figures(needs: TargetNeeds) -> list[str]:
    outcomes, taken, free = needs.outcomes, needs.needs, needs.headroom
    return [
        f"{outcomes.get('fits', 0)} of {sum(outcomes.values())}",
        f"{taken.get('shared_bytes', 0) / _KIB:.1f} ({free.get('shared_bytes', 0) / _KIB:.1f})" if taken else "",
        f"{taken['registers']} ({free.get('registers', '?')})" if "registers" in taken else "",
        *(str(taken.get(name, "")) for name in ("threads", "stack_bytes", "spill_bytes", "tensor_columns")),
        *(str(needs.evidence.get(name, "")) for name in ("identical_binary", "identical_order")),
        ", ".join(f"{outcomes[outcome]} {outcome}" for outcome in _REFUSED if outcomes.get(outcome)),
    ]


def _notes(kernel: str, target: str, records: Sequence[tuple[str, TargetRecord]]) -> Iterator[str]:
    """Yield lines for spilled registers, and one for parameters that change nothing on any case."""
    named = [(f"{case}: {one.id}", one) for case, record in records for one in record.launches]
    for told in spills_of(named, "launches"):
        yield f"  {clean(f'{kernel} on {target}: {told}', _LONGEST)}"
    dead = sorted(set.intersection(*(set(record.dead_axes) for _, record in records)))
    if dead:
        told = f"{', '.join(dead)} changes nothing in what is launched"
        yield f"  {clean(f'{kernel} on {target}: {told}', _LONGEST)}"
