"""Compile targets as text: kernel by target, with the largest need and the headroom."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from tabulate import tabulate

from pytest_kernelqual.model.outcome import TargetOutcome
from pytest_kernelqual.model.record import KernelRecord
from pytest_kernelqual.model.target_record import TargetLaunch, TargetRecord
from pytest_kernelqual.report.phrases import and_more, clean

_LONGEST = 300
_LONGEST_NAME = 60
_REFUSED: tuple[TargetOutcome, ...] = ("out_of_resources", "compile_error", "timeout", "unsupported", "unknown")
_KIB = 1024


def targets_summary(kernels: Iterable[KernelRecord]) -> str:
    """Return the table of all kernels and targets, and what needs a look; empty where there are no targets."""
    rows: list[list[str]] = []
    notes: list[str] = []
    for kernel in kernels:
        by_target: dict[str, list[tuple[str, TargetRecord]]] = {}
        for case in kernel.cases:
            for record in case.targets:
                by_target.setdefault(record.target, []).append((case.id, record))
        for target, records in by_target.items():
            rows.append(
                [
                    clean(kernel.kernel, _LONGEST_NAME),
                    clean(target, _LONGEST_NAME),
                    *_figures([record for _, record in records]),
                ]
            )
            notes += _notes(kernel.kernel, target, records)
    if not rows:
        return ""
    headers = ["kernel", "target", "launches", "fit", "refused", "shared KiB", "headroom KiB", "registers"]
    align = ["left", "left", "right", "right", "left", "right", "right", "right"]
    table = tabulate(rows, headers, tablefmt="simple", disable_numparse=True, colalign=align)
    return "\n".join(["compile targets (nothing was launched there)", table, *notes])


def _figures(records: Sequence[TargetRecord]) -> list[str]:
    launches = [launch for record in records for launch in record.launches]
    counts = Counter(launch.outcome for launch in launches)
    fitting = [launch for launch in launches if launch.outcome == "fits"]
    shared_bytes = max((launch.resources.get("shared_bytes", 0) for launch in fitting), default=0)
    registers = max((launch.resources.get("registers", 0) for launch in fitting), default=0)
    return [
        str(len(launches)),
        str(counts["fits"]),
        ", ".join(f"{counts[outcome]} {outcome}" for outcome in _REFUSED if counts[outcome]),
        f"{shared_bytes / _KIB:.1f}",
        f"{(records[0].shared_limit_bytes - shared_bytes) / _KIB:.1f}",
        str(registers),
    ]


def _notes(kernel: str, target: str, records: Sequence[tuple[str, TargetRecord]]) -> Iterator[str]:
    """Yield a line for each way in which launches are refused, and one for spilled registers."""
    groups: dict[tuple[str, str], list[str]] = {}
    spills: list[TargetLaunch] = []
    for case, record in records:
        for launch in record.launches:
            if launch.outcome != "fits":
                groups.setdefault((launch.outcome, launch.reason), []).append(f"{case} {launch.id}")
            elif launch.resources.get("stack_bytes", 0):
                spills.append(launch)
    for (outcome, reason), names in groups.items():
        yield f"  {clean(f'{kernel} on {target}: {outcome}: {reason} ({and_more(names, 2)})', _LONGEST)}"
    if spills:
        most = max(spills, key=lambda launch: launch.resources["stack_bytes"])
        told = (
            f"{len(spills)} launches keep registers on the stack, up to {most.resources['stack_bytes']} bytes a thread"
        )
        yield f"  {clean(f'{kernel} on {target}: {told} ({most.id})', _LONGEST)}"
