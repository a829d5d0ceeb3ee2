"""Which worker of pytest-xdist runs what: all cases first, the longest at the beginning, then the rows."""

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pytest
from msgspec import Struct, field

from pytest_kernelqual.errors import DocumentError
from pytest_kernelqual.model.record import CaseRecord, CommittedRecord
from pytest_kernelqual.report.document import read
from pytest_kernelqual.report.phrases import and_more
from pytest_kernelqual.report.plan import Plan

# A worker begins an item when it knows the next one, and should not wait for what comes after that.
_AHEAD = 2

# Seconds, where no report tells how long an item took; only their order matters.
_CANDIDATE_S = 0.05
_ROW_S = 0.2
_FILE_S = 0.001

_NAMED = 3


class Unit(NamedTuple):
    """Items that belong together, by their positions in the collection."""

    cases: list[int]
    """Items of one key, or any other item."""
    rows: list[int]
    """Rows of the same key: judged by what was found on the cases, whose code the process has loaded."""
    expected_s: float


def units(nodeids: Sequence[str], plan: Plan | None, took_s: Mapping[str, float]) -> list[Unit]:
    """Return the units of a collection, the longest first; equal ones stay in their order."""
    groups: dict[str, str] = {}
    guessed_s: dict[str, float] = {}
    rows = set()
    for kernel in plan.kernels if plan is not None else []:
        for case in kernel.cases:
            groups[case.nodeid] = _key(kernel.nodeid, case.key)
            guessed_s[case.nodeid] = _CANDIDATE_S * (2 + len(case.candidates))
        for row in kernel.rows:
            groups[row.nodeid] = _key(kernel.nodeid, row.key)
            guessed_s[row.nodeid] = _ROW_S
            rows.add(row.nodeid)
    found: dict[str, tuple[list[int], list[int]]] = {}
    for position, nodeid in enumerate(nodeids):
        found.setdefault(groups.get(nodeid, nodeid), ([], []))[nodeid in rows].append(position)

    def expected_s(items: Sequence[int]) -> float:
        return sum(took_s.get(nodeid, guessed_s.get(nodeid, _FILE_S)) for nodeid in map(nodeids.__getitem__, items))

    made = [Unit(cases, rows, expected_s([*cases, *rows])) for cases, rows in found.values()]
    return sorted(made, key=lambda unit: -unit.expected_s)


def durations(report: Any) -> dict[str, float]:
    """Return how long the items of an earlier report took, by node id; nothing where there is none that can be read."""
    try:
        document = read(report)
    except DocumentError:
        return {}
    records: list[CaseRecord | CommittedRecord] = []
    for kernel in document.kernels:
        records += [*kernel.cases, *kernel.committed]
    return {record.nodeid: record.duration_s for record in records if record.duration_s}


class Scheduling(Struct, eq=False):
    """What xdist's controller asks for: see `xdist.scheduler.protocol.Scheduling`.

    Rows come when all cases are handed out, so that what is timed on a device waits for no cases of other workers.
    A worker gets the rows of its own cases, and when it has none left those of the worker with the most.
    """

    config: pytest.Config
    workers: int
    """How many begin."""
    make_units: Callable[[Sequence[str]], list[Unit]]
    sorted_rows: bool = False
    """Rows in the order of the collection, in which a budget is spent; else as their cases."""
    _queue: deque[Unit] = field(default_factory=deque)
    _rows: dict[Any, list[int]] = field(default_factory=lambda: {None: []})
    """Rows that wait, by the worker that got the cases; those under None are anybody's."""
    _pending: dict[Any, list[int]] = field(default_factory=dict)
    """Items that were sent to a worker and have not ended, in the order in which it runs them."""
    _collections: dict[Any, list[str]] = field(default_factory=dict)
    _nodeids: list[str] | None = None

    @property
    def nodes(self) -> list[Any]:
        """Return the workers that live."""
        return list(self._pending)

    @property
    def collection_is_completed(self) -> bool:
        """Tell whether all first workers have collected."""
        return len(self._collections) >= self.workers

    @property
    def tests_finished(self) -> bool:
        """Tell whether nothing is left to hand out, and no worker waits for a next item."""
        return (
            self.collection_is_completed
            and not self._waiting
            and all(len(sent) < _AHEAD for sent in self._pending.values())
        )

    @property
    def has_pending(self) -> bool:
        """Tell whether items have not ended."""
        return self._waiting or any(self._pending.values())

    def add_node(self, node: Any) -> None:
        """Take in a worker that has started."""
        self._pending[node] = []

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        """Take in what a worker has collected; a late one that found other items gets none."""
        if self._nodeids is not None and list(collection) != self._nodeids:
            self._tell_difference(node, collection)
            node.shutdown()
            return
        self._collections[node] = list(collection)

    def schedule(self) -> None:
        """Hand out first items, or give some to a worker that came later."""
        if self._nodeids is None:
            first, *others = self._collections
            self._nodeids = self._collections[first]
            differing = [node for node in others if self._collections[node] != self._nodeids]
            for node in differing:
                self._tell_difference(node, self._collections[node])
            if differing:
                return
            made = self.make_units(self._nodeids)
            self._queue.extend(unit for unit in made if unit.cases)
            self._rows[None] += [row for unit in made if not unit.cases for row in unit.rows]
        self._feed(self.nodes)

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """Note that an item has ended."""
        del duration
        self._pending[node].remove(item_index)
        self._feed([node])

    def mark_test_pending(self, item: str) -> None:
        """Run an item again: a plugin asks for it after the item's worker has died."""
        if self._nodeids is not None:
            self._requeue([self._nodeids.index(item)])

    def remove_pending_tests_from_node(self, node: Any, indices: Sequence[int]) -> None:
        """Never called: nothing is taken back from a worker."""
        raise NotImplementedError

    def remove_node(self, node: Any) -> str | None:
        """Hand out anew what a worker had not begun; return the item that it died in, if it did."""
        sent = self._pending.pop(node)
        self._rows[None] += self._rows.pop(node, [])
        if not sent or self._nodeids is None:
            return None
        crashed, *left = sent
        self._requeue(left)
        return self._nodeids[crashed]

    def retire(self, node: Any) -> None:
        """Send a worker nothing more, as long as another one is there to take what waits."""
        others = [other for other in self._pending if other is not node and not other.shutting_down]
        if node in self._pending and others and not node.shutting_down:
            self._rows[None] += self._rows.pop(node, [])
            node.shutdown()

    @property
    def _waiting(self) -> bool:
        return bool(self._queue) or any(self._rows.values())

    def _requeue(self, items: list[int]) -> None:
        if items:
            self._queue.appendleft(Unit(items, [], 0.0))
        self._feed(self.nodes)

    def _feed(self, nodes: Sequence[Any]) -> None:
        """Keep workers busy, each in its turn, and let them end when nothing is left."""
        nodes = [node for node in nodes if node in self._collections and not node.shutting_down]
        while self._waiting and (hungry := [node for node in nodes if self._hungry(node)]):
            for node in hungry:
                if self._waiting:
                    items = self._next(node)
                    self._pending[node] += items
                    node.send_runtest_some(items)
        if not self._waiting:
            for node in nodes:
                node.shutdown()

    def _hungry(self, node: Any) -> bool:
        """Tell whether a worker would soon wait; where little is left it may, so that nobody holds what others lack."""
        left = len(self._queue) + sum(map(len, self._rows.values()))
        ahead = _AHEAD if left > _AHEAD * len(self._pending) else _AHEAD - 1
        return len(self._pending[node]) <= ahead

    def _next(self, node: Any) -> list[int]:
        """Take what a worker gets next from what waits."""
        own = self._rows.setdefault(node, [])
        if self._queue:
            unit = self._queue.popleft()
            own += unit.rows
            if self.sorted_rows:
                own.sort()
            return unit.cases
        rows = own or max(self._rows.values(), key=len)
        return [rows.pop(0)]

    def _tell_difference(self, node: Any, collection: Sequence[str]) -> None:
        """Report, which then ends the run, that a worker has collected other items than the first one."""
        first = next(iter(self._collections))
        one, other = set(self._collections[first]), set(collection)
        sides = ((first, sorted(one - other)), (node, sorted(other - one)))
        alone = [f"{side.gateway.id} alone has {and_more(nodeids, _NAMED)}" for side, nodeids in sides if nodeids]
        told = f"workers collected different items: {'; '.join(alone) or 'the same ones in another order'}"
        report = pytest.CollectReport(nodeid=node.gateway.id, outcome="failed", longrepr=told, result=[])
        self.config.hook.pytest_collectreport(report=report)


def _key(kernel: str, key: dict[str, Any]) -> str:
    return f"{kernel} {json.dumps(key, sort_keys=True)}"
