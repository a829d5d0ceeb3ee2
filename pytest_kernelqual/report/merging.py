"""One report of the shards of a run."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from msgspec import structs

from pytest_kernelqual.committed.names import folder_name
from pytest_kernelqual.errors import DocumentError
from pytest_kernelqual.model.record import (
    CaseRecord,
    CommittedRecord,
    DeclaredItem,
    Document,
    Environment,
    KernelRecord,
)
from pytest_kernelqual.report.devices import OF_KIND, together
from pytest_kernelqual.report.document import build
from pytest_kernelqual.report.phrases import and_more, counted
from pytest_kernelqual.report.plan import NOTHING_SELECTED, Plan

_OF_RUN = ("started_at", "duration_s", "device", "devices", "disturbance_checks")
_MOST_NAMED = 5


class Shard(NamedTuple):
    """One report, and how messages call it."""

    name: str
    document: Document

    @property
    def selected(self) -> list[str]:
        """Return the node ids of the items that it ran."""
        return [item.nodeid for item in self.document.items if item.selected]

    @property
    def knows_all(self) -> bool:
        """Tell whether it knew of every declared item, even if it ran few of them."""
        return self.document.narrowed.keys() <= {"deselected"}


def merge(shards: Iterable[Shard], declared: Collection[str] | None = None) -> Document:
    """Return the report of the run of which these are all shards, in whatever order they come.

    `declared` are the node ids of everything that is declared; without them a shard that only left items out
    (`-k`, `-m`, a splitter) tells them, and where none does the result stays incomplete.

    Raises:
        DocumentError: They contradict each other, or one is doubled or missing; one line for each problem.
    """
    ordered = sorted(shards, key=order)
    # Each kind of problem makes nonsense of what is asked after it.
    for problems in (_unusable(ordered), _doubled(ordered), _contradictions(ordered), _missing(ordered, declared)):
        told = list(problems)
        if told:
            raise DocumentError("\n".join(told))
    proven = declared is not None or any(shard.knows_all for shard in ordered)
    items = _items(ordered)
    kernels = _kernels(ordered, items)
    narrowed = {} if proven else _narrowed(ordered)
    reasons = [*narrowed.values(), *_reasons(ordered, kernels)]
    if proven:
        reasons += _unreached(ordered)
    nodeids = [item.nodeid for item in items]
    plan = Plan(kernels=[], nodeids=nodeids, items=items, narrowed=narrowed)
    failed = list(dict.fromkeys(problem for shard in ordered for problem in shard.document.session_problems))
    merged = build(kernels, _environment(ordered), nodeids, reasons, plan, failed)
    compiled = sorted((rows for shard in ordered for rows in shard.document.compiled_rows), key=lambda one: one.nodeid)
    return structs.replace(merged, compiled_rows=compiled)


def order(shard: Shard) -> tuple[Any, ...]:
    """Return what shards are sorted by, in whatever order they are given."""
    return shard.selected, repr(shard.document.environment), shard.document.incomplete_because, shard.name


def _unusable(shards: Sequence[Shard]) -> Iterator[str]:
    if not shards:
        yield "no report is given"
    for name, document in shards:
        if not document.items:
            yield f"{name}: lists no items: nothing was collected, or an older version wrote it; run the shard again"
            continue
        of_kernel: dict[str, str] = {}
        twice = [item for item in document.items if of_kernel.setdefault(item.nodeid, item.kernel) != item.kernel]
        if twice:
            yield f"{name}: lists {twice[0].nodeid!a} as an item of two kernels; run the shard again"
            continue
        selected = {item.nodeid for item in document.items if item.selected}
        kernels = {item.kernel for item in document.items if item.selected}
        stray = [nodeid for nodeid in _decisions(document) if nodeid not in selected]
        stray += [kernel.nodeid for kernel in document.kernels if kernel.nodeid not in kernels]
        if stray:
            yield f"{name}: holds a record of {stray[0]!a}, which is none of the items that it ran; run the shard again"


def _doubled(shards: Sequence[Shard]) -> Iterator[str]:
    """Tell of every pair of shards that ran the same items."""
    first: dict[str, Shard] = {}
    both: dict[tuple[str, str], list[tuple[str, bool]]] = {}
    found = {id(shard): _decisions(shard.document) for shard in shards}
    for shard in shards:
        for nodeid in shard.selected:
            other = first.setdefault(nodeid, shard)
            if other is not shard:
                same = found[id(other)].get(nodeid) == found[id(shard)].get(nodeid)
                both.setdefault((other.name, shard.name), []).append((nodeid, same))
    for (before, after), doubled in both.items():
        differing = [nodeid for nodeid, same in doubled if not same]
        if differing:
            yield f"{before} and {after} contradict each other: they tell different things of {_told(differing)}"
        else:
            told = f"{counted(len(doubled), 'item')}: {_told([nodeid for nodeid, _ in doubled])}"
            yield f"{before} and {after} both hold {told}; give each shard once"


def _decisions(document: Document) -> dict[str, list[Any]]:
    """Return what was decided of each item."""
    found: dict[str, list[Any]] = {}
    for kernel in document.kernels:
        for case in kernel.cases:
            told = [(record.id, record.outcome, record.evidence) for record in case.candidates]
            found.setdefault(case.nodeid, []).append((case.fixed.outcome, case.passed, told))
        for row in kernel.committed:
            found.setdefault(row.nodeid, []).append((row.key, row.config, row.verdict, row.passed))
    return found


def _contradictions(shards: Sequence[Shard]) -> Iterator[str]:
    """Tell in what two shards cannot be of one run: another machine, toolchain or setting, another tree."""
    yield from _other_runs([shard for shard in shards if shard.document.environment is not None])
    yield from _other_trees(shards)
    yield from _other_kernels(shards)


def _other_runs(shards: Sequence[Shard]) -> Iterator[str]:
    for shard in shards[1:]:
        for name, one, other in _differing(shards[0].document.environment, shard.document.environment):
            yield f"{shards[0].name} and {shard.name} contradict each other: {name} is {one!a} and {other!a}"


def _other_trees(shards: Sequence[Shard]) -> Iterator[str]:
    first = min(shards, key=lambda shard: not shard.knows_all)
    known = {item.nodeid: (item.kernel, item.place) for item in first.document.items}
    for shard in shards:
        items = {item.nodeid: (item.kernel, item.place) for item in shard.document.items}
        more = [nodeid for nodeid in items if first.knows_all and nodeid not in known]
        more += [nodeid for nodeid in known if shard.knows_all and nodeid not in items]
        moved = [nodeid for nodeid, place in items.items() if known.get(nodeid, place) != place]
        for what, nodeids in (("declared in one of them alone", more), ("declared at different places", moved)):
            if nodeids:
                yield f"{first.name} and {shard.name} are of different trees: {what}: {_told(nodeids)}"


def _other_kernels(shards: Sequence[Shard]) -> Iterator[str]:
    headers: dict[str, tuple[Shard, KernelRecord]] = {}
    named: dict[str, tuple[Shard, KernelRecord]] = {}
    for shard in shards:
        for kernel in shard.document.kernels:
            before, there = headers.setdefault(kernel.nodeid, (shard, kernel))
            if _header(there) != _header(kernel):
                yield f"{before.name} and {shard.name} contradict each other: {kernel.nodeid!a} is declared differently"
            # In a run of both files the second one would be told of the first.
            if kernel.nodeid.endswith(f".py::{kernel.kernel}") and not kernel.problem:
                before, there = named.setdefault(kernel.kernel, (shard, kernel))
                if there.nodeid != kernel.nodeid:
                    both = f"{there.nodeid!a} and {kernel.nodeid!a}"
                    yield f"{before.name} and {shard.name}: two specs have one name, rename one: {both}"


def _header(kernel: KernelRecord) -> KernelRecord:
    """Return what does not follow from which cases and rows a shard ran."""
    return structs.replace(kernel, cases=[], committed=[], targets=[])


def _told(nodeids: Collection[str], shown: int = 1) -> str:
    return and_more([f"{nodeid!a}" for nodeid in nodeids], shown)


def _differing(one: Environment | None, other: Environment | None) -> Iterator[tuple[str, Any, Any]]:
    if one is None or other is None:
        return
    for name in one.__struct_fields__:
        if name not in _OF_RUN and getattr(one, name) != getattr(other, name):
            yield name, getattr(one, name), getattr(other, name)
    for name in OF_KIND:
        if getattr(one.device, name) != getattr(other.device, name):
            yield f"device {name}", getattr(one.device, name), getattr(other.device, name)


def _missing(shards: Sequence[Shard], declared: Collection[str] | None) -> Iterator[str]:
    """Tell which declared items no shard has run, and which were run without being declared."""
    known = {item.nodeid for shard in shards for item in shard.document.items}
    wanted = known if declared is None else set(declared)
    for what, nodeids in (
        (
            f"{{}} of {counted(len(wanted), 'declared item')} in no shard, so that a shard is missing",
            wanted - {nodeid for shard in shards for nodeid in shard.selected},
        ),
        ("{} of the shards not among the declared ones, so that the list is of another tree", known - wanted),
    ):
        if nodeids:
            yield f"{what.format(len(nodeids))}: {_told(sorted(nodeids), _MOST_NAMED)}"


def _items(shards: Sequence[Shard]) -> list[DeclaredItem]:
    """Return all items in declared order; each was run."""
    items = {item.nodeid: structs.replace(item, selected=True) for shard in shards for item in shard.document.items}
    return sorted(
        items.values(),
        key=lambda item: (item.nodeid.partition("::")[0], item.place[0], item.kernel, item.place[1], item.nodeid),
    )


def _kernels(shards: Sequence[Shard], items: Sequence[DeclaredItem]) -> list[KernelRecord]:
    """Return the records of all shards in declared order; what stands for a committed file comes last."""
    rank = {item.nodeid: number for number, item in enumerate(items)}
    first: dict[str, int] = {}
    for number, item in enumerate(items):
        first.setdefault(item.kernel, number)
    merged: dict[str, KernelRecord] = {}
    for kernel in (kernel for shard in shards for kernel in shard.document.kernels):
        there = merged.get(kernel.nodeid)
        merged[kernel.nodeid] = (
            kernel
            if there is None
            else structs.replace(
                there, cases=[*there.cases, *kernel.cases], committed=[*there.committed, *kernel.committed]
            )
        )

    def place(record: CaseRecord | CommittedRecord) -> int:
        return rank[record.nodeid]

    kernels = [
        structs.replace(kernel, cases=sorted(kernel.cases, key=place), committed=sorted(kernel.committed, key=place))
        for kernel in merged.values()
    ]
    return sorted(kernels, key=lambda kernel: (kernel.nodeid in rank, first[kernel.nodeid]))


def _narrowed(shards: Sequence[Shard]) -> dict[str, str]:
    """Return what still narrows the whole, since nothing tells whether more is declared."""
    told: dict[str, dict[str, None]] = {}
    for shard in shards:
        for kind, reason in shard.document.narrowed.items():
            if kind != "deselected":  # by some other shard it was selected
                told.setdefault(kind, {})[reason] = None
    return {kind: "; ".join(reasons) for kind, reasons in told.items()}


def _reasons(shards: Sequence[Shard], kernels: Sequence[KernelRecord]) -> Iterator[str]:
    for shard in shards:
        part = {*shard.document.narrowed.values(), *([NOTHING_SELECTED] if kernels else [])}
        yield from (reason for reason in shard.document.incomplete_because if reason not in part)


def _unreached(shards: Sequence[Shard]) -> Iterator[str]:
    """Tell of committed files that a shard checked without their spec: what is wrong with them it cannot know."""
    for shard in shards:
        folders = {folder_name(item.kernel.rpartition("::")[2]) for item in shard.document.items}
        for nodeid in () if shard.knows_all else shard.selected:
            path, _, name = nodeid.partition("::")
            if name == "file" and PurePosixPath(path).parent.name not in folders:
                yield f"{path} was checked without the spec of its kernel; give both to one shard"


def _environment(shards: Sequence[Shard]) -> Environment | None:
    """Return what all say; the time is from the first start, and what all took together."""
    told = [shard.document.environment for shard in shards if shard.document.environment is not None]
    whole = together(told)
    return whole and structs.replace(
        whole,
        started_at=min(environment.started_at for environment in told),
        duration_s=round(sum(environment.duration_s for environment in told), 3),
    )
