"""Which worker gets which item, without workers: the law is that each item runs once, whatever dies."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from report_samples import ENVIRONMENT, case, kernel

from pytest_kernelqual.hooks.scheduling import Scheduling, Unit, durations, units
from pytest_kernelqual.model.record import CommittedRecord
from pytest_kernelqual.report.document import build, encode
from pytest_kernelqual.report.plan import Plan, PlannedCase, PlannedKernel, PlannedRow


class Worker:
    """A worker of xdist as its controller sees it: it begins an item when it knows the next one, or that none comes."""

    def __init__(self, name: str) -> None:
        """Wait."""
        self.name = name
        self.sent: list[int] = []
        self.ran: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        """Take items."""
        assert not self.shutting_down
        self.sent += indices

    def shutdown(self) -> None:
        """Expect no more."""
        self.shutting_down = True

    @property
    def runs(self) -> bool:
        """Tell whether it is at an item."""
        return len(self.sent) >= (1 if self.shutting_down else 2)


def scheduling(made: list[Unit], workers: int, **options: Any) -> tuple[Scheduling, list[Worker]]:
    """Return a scheduling that has begun."""
    count = sum(len(unit.cases) + len(unit.rows) for unit in made)
    found = Scheduling(cast("pytest.Config", None), workers, lambda _nodeids: made, **options)
    nodes = [Worker(f"gw{number}") for number in range(workers)]
    for node in nodes:
        found.add_node(node)
    for node in nodes:
        assert not found.collection_is_completed
        found.add_node_collection(node, [f"item{number}" for number in range(count)])
    found.schedule()
    return found, nodes


def finish_one(found: Scheduling, node: Worker) -> None:
    """Let a worker finish the item that it is at."""
    node.ran.append(node.sent.pop(0))
    found.mark_test_complete(node, node.ran[-1])


def run_out(found: Scheduling, nodes: list[Worker]) -> None:
    """Let all workers go on in turn until none can."""
    while any(node.runs for node in nodes):
        for node in nodes:
            if node.runs:
                finish_one(found, node)
    assert found.tests_finished
    assert not found.has_pending


def test_cases_come_first_and_rows_go_where_their_cases_ran() -> None:
    """With equal times every worker gets its own rows, in the order of its cases."""
    made = [Unit([number], [number + 4], 1.0) for number in range(4)]
    found, nodes = scheduling(made, 2)
    run_out(found, nodes)
    assert [node.ran for node in nodes] == [[0, 2, 4, 6], [1, 3, 5, 7]]


def test_who_is_done_takes_rows_of_the_one_with_the_most() -> None:
    """No worker is idle while another has rows that wait."""
    made = [Unit([0], list(range(2, 12)), 10.0), Unit([1], [], 1.0)]
    found, (first, second) = scheduling(made, 2)
    run_out(found, [first, second])
    assert len(second.ran) >= 5


def test_a_retired_worker_gets_nothing_more() -> None:
    """Unless it is the last one."""
    found, (first, second) = scheduling([Unit([number], [number + 6], 1.0) for number in range(6)], 2)
    first_had = [*first.sent]
    found.retire(first)
    run_out(found, [first, second])
    assert first.ran == first_had
    assert sorted([*first.ran, *second.ran]) == list(range(12))
    found, (alone,) = scheduling([Unit([number], [], 1.0) for number in range(6)], 1)
    found.retire(alone)
    run_out(found, [alone])
    assert len(alone.ran) == 6


def test_rows_of_a_budget_keep_their_order() -> None:
    """The most doubtful ones were put first in the collection, whatever their cases took."""
    made = [Unit([0], [5], 9.0), Unit([1], [3], 8.0), Unit([2], [4], 7.0)]
    found, nodes = scheduling(made, 1, sorted_rows=True)
    run_out(found, nodes)
    assert nodes[0].ran == [0, 1, 2, 3, 4, 5]


def test_rows_without_cases_are_spread() -> None:
    """As after `-k committed`."""
    found, nodes = scheduling([Unit([], [number], 1.0) for number in range(6)], 3)
    run_out(found, nodes)
    assert sorted(len(node.ran) for node in nodes) == [2, 2, 2]


@given(st.data())
def test_every_item_runs_once_whoever_dies(data: st.DataObject) -> None:
    """But for the one that a worker died in, which is named; a replacement gets the rest."""
    sizes = data.draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=8))
    made: list[Unit] = []
    position = 0
    for cases, rows in sizes:
        made.append(
            Unit([*range(position, position + cases)], [*range(position + cases, position + cases + rows)], 0.0)
        )
        position += cases + rows
    workers = data.draw(st.integers(1, 4))
    if position == 0:
        return
    found, nodes = scheduling(made, workers)
    everyone, crashed = [*nodes], list[int]()
    for _ in range(data.draw(st.integers(0, 3))):
        running = [node for node in nodes if node.runs]
        if not running:
            break
        for node in data.draw(st.lists(st.sampled_from(running), max_size=5)):
            if node.runs:
                finish_one(found, node)
        dead = data.draw(st.sampled_from(nodes))
        nodes.remove(dead)
        item = found.remove_node(dead)
        if item is not None:
            crashed.append(int(item.removeprefix("item")))
            assert crashed[-1] == dead.sent[0]
        # As xdist does: a worker that was lost is replaced, unless nothing was left for it.
        replacement = Worker(f"gw{len(everyone)}")
        nodes.append(replacement)
        everyone.append(replacement)
        found.add_node(replacement)
        found.add_node_collection(replacement, [f"item{number}" for number in range(position)])
        found.schedule()
    run_out(found, nodes)
    assert sorted([*crashed, *(item for node in everyone for item in node.ran)]) == list(range(position))


def planned() -> tuple[list[str], Plan]:
    """Return node ids and the plan of two kernels with a row for each key, and a file."""
    kernels = [
        PlannedKernel(
            kernel=name,
            nodeid=f"q.py::{name}",
            cases=[
                PlannedCase(
                    id=f"{n}", case={}, key={"n": n % 2}, nodeid=f"{name}[{n}]", candidates=[("c", {})] * candidates
                )
                for n in range(3)
            ],
            rows=[PlannedRow(nodeid=f"{name}-row{key}", device="d", key={"n": key}) for key in range(2)],
        )
        for name, candidates in (("small", 1), ("large", 9))
    ]
    nodeids = ["file"]
    for one in kernels:
        nodeids += [*(item.nodeid for item in one.cases), *(row.nodeid for row in one.rows)]
    return nodeids, Plan(kernels=kernels, nodeids=nodeids)


def named(nodeids: list[str], made: list[Unit]) -> list[tuple[list[str], list[str]]]:
    """Return units with node ids."""
    return [([nodeids[item] for item in unit.cases], [nodeids[item] for item in unit.rows]) for unit in made]


def test_units_are_keys_and_the_longest_comes_first() -> None:
    """Many candidates take longer, unless an earlier report knows better."""
    nodeids, plan = planned()
    assert named(nodeids, units(nodeids, plan, {})) == [
        (["large[0]", "large[2]"], ["large-row0"]),
        (["large[1]"], ["large-row1"]),
        (["small[0]", "small[2]"], ["small-row0"]),
        (["small[1]"], ["small-row1"]),
        (["file"], []),
    ]
    assert named(nodeids, units(nodeids, plan, {"small-row1": 60.0}))[0] == (["small[1]"], ["small-row1"])
    assert len(units(nodeids, None, {})) == len(nodeids)


def test_durations_are_those_of_the_last_report(tmp_path: Path) -> None:
    """Of cases and rows; a file that is none tells nothing."""
    row = CommittedRecord(device="d", key={}, nodeid="row", duration_s=0.5)
    known = structs.replace(case(), nodeid="case", duration_s=2.5)
    path = tmp_path / "report.json"
    path.write_bytes(encode(build([structs.replace(kernel(known), committed=[row])], ENVIRONMENT, [])))
    assert durations(path) == {"case": 2.5, "row": 0.5}
    path.write_text("{")
    assert durations(path) == {}
    assert durations(tmp_path / "missing") == {}
