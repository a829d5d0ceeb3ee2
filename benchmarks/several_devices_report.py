"""Read what `several_devices.py` has left, check it, and tell it as Markdown."""

import json
import statistics
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

Record = dict[str, Any]

# Of a case; everything else of it must be equal.
_OF_RUN = {"duration_s", "device_uuid"}
_ROW = ("config", "evidence", "production", "verdict", "passed")
_SURE_GATES = ("control", "not_slower_than_fixed")

_TIMES_FASTER = {"two": 1.7, "four": 3.0}
_MARGINS_PCT = (5, 10)
_SPREAD = ("of one key", "keys", "median", "90 % below", "largest", *(f"beyond {pct} %" for pct in _MARGINS_PCT))
_SHOWN = 10
_LISTED = 3
_EXPECTED = {
    "FAULT=illegal_access": ("fault",),
    "FAULT=endless_loop": ("timeout",),
    "FAULT=abort": ("fault",),
    "FAULT=trap": ("fault",),
    "TAKE=all": ("not_run", "out_of_resources", "launch_error", "fault"),
}
"""Outcomes of planted candidates; the others of their specs qualify."""


class Choice(NamedTuple):
    """A way to choose among two devices, and which of them it must be."""

    name: str
    visible: tuple[int, ...]
    board: int | None
    """None: no device is there, and the run must not begin."""
    more: tuple[str, ...] = ()
    workers: int = 0


CHOICES = (
    Choice("choice-index", (0, 1), 1, ("--kernelqual-device=cuda:1",)),
    Choice("choice-index-workers", (0, 1), 1, ("--kernelqual-device=cuda:1",), 2),
    Choice("choice-order", (1, 0), 1),
    Choice("choice-one-worker", (1, 0), 1, (), 1),
    Choice("choice-none", (), None, ("--kernelqual-device=cuda",)),
)
_USAGE_ERROR = 4


class Ended(NamedTuple):
    """How a run of pytest ended."""

    name: str
    devices: int
    workers: int
    code: int | None
    """None: it took too long."""
    began_at: float
    wall_s: float


class Run(NamedTuple):
    """A run of pytest with all that it left."""

    ended: Ended
    document: Record
    times: list[Record]
    use: dict[str, list[int]]

    @property
    def cases(self) -> dict[str, Record]:
        """Return the cases by node id."""
        return {case["nodeid"]: case for kernel in self.document["kernels"] for case in kernel["cases"]}

    @property
    def rows(self) -> dict[str, Record]:
        """Return the committed rows by node id."""
        return {row["nodeid"]: row for kernel in self.document["kernels"] for row in kernel["committed"]}

    @property
    def device_of(self) -> dict[str, str]:
        """Return the device of each item."""
        return {nodeid: record["device_uuid"] for nodeid, record in {**self.cases, **self.rows}.items()}

    def busy(self) -> dict[str, list[tuple[float, float]]]:
        """Return by device when any item ran on it, in seconds since the run began."""
        device_of = self.device_of
        spans: dict[str, list[tuple[float, float]]] = {}
        for line in self.times:
            device = device_of.get(line["nodeid"])
            if device:
                spans.setdefault(device, []).append(
                    (line["start"] - self.ended.began_at, line["stop"] - self.ended.began_at)
                )
        return {device: _united(found) for device, found in sorted(spans.items())}


def report(work: Path, phases: Sequence[str]) -> tuple[str, list[str]]:
    """Return the text about all runs that are there, and what is not as it must be."""
    runs: dict[str, Run] = {}
    problems: list[str] = []
    for path in sorted(work.glob("*.run")):
        ended = Ended(**json.loads(path.read_text()))
        told = _text(work / f"{ended.name}.json")
        if ended.name == "choice-none":
            if ended.code != _USAGE_ERROR or told:
                problems.append(f"`{ended.name}`: a device that is not there ends with {ended.code}, not with 4")
            continue
        if not told:
            problems.append(f"`{ended.name}` left no report (exit status {ended.code}): see {ended.name}.log")
            continue
        use = json.loads(_text(work / f"{ended.name}.use.json") or "{}")
        times = [json.loads(line) for line in _text(work / f"{ended.name}.times").splitlines()]
        runs[ended.name] = Run(ended, json.loads(told), times, use)
        if ended.code != 0 and ended.name != "faults":
            problems.append(f"`{ended.name}` ended with {'its time' if ended.code is None else ended.code}")
    one = runs.get("one")
    boards = {name: run for name, run in runs.items() if name.startswith("boards-")}
    order = {name: number for number, name in enumerate(phases)}
    whole = sorted((run for name, run in runs.items() if name in order), key=lambda run: order[run.ended.name])
    parts = [
        "## Wall times\n",
        *_walls(whole, one, problems),
        "\n## Devices\n",
        *_devices(whole),
        "\n## The same answers\n",
        *_same([*whole, *boards.values()], one, problems),
        "\n## Boards\n",
        *_boards(boards, one, problems),
        "\n## Other ways to choose\n",
        *_choices(runs, problems),
        "\n## Faults on one device\n",
        *_faults(runs.get("faults"), one, problems),
        "\n## Problems\n",
        *([f"* {problem}" for problem in problems] or ["None."]),
    ]
    return "\n".join(parts), problems


def _walls(runs: Iterable[Run], one: Run | None, problems: list[str]) -> Iterator[str]:
    yield from _head(
        "run", "devices", "workers", "wall time", "times faster", "first item after", "after the last item", "all items"
    )
    for run in runs:
        ended = run.ended
        faster = one.ended.wall_s / ended.wall_s if one is not None else 0.0
        starts = [line["start"] for line in run.times] or [ended.began_at]
        stops = [line["stop"] for line in run.times] or [ended.began_at]
        items_s = sum(line["stop"] - line["start"] for line in run.times)
        yield (
            f"| {ended.name} | {ended.devices} | {ended.workers or 'serial'} | {ended.wall_s:.1f} s | "
            f"{f'{faster:.2f}' if one else '-'} | {min(starts) - ended.began_at:.1f} s | "
            f"{ended.began_at + ended.wall_s - max(stops):.1f} s | {items_s:.1f} s |"
        )
        wanted = _TIMES_FASTER.get(ended.name)
        if wanted and one is not None and faster < wanted:
            problems.append(f"`{ended.name}` is {faster:.2f} times faster than `one`, and should be {wanted:g} times")


def _devices(runs: Iterable[Run]) -> Iterator[str]:
    yield "Idle is a device while no item runs on it: of the whole run, and between its first and its last item.\n"
    yield from _head(
        "run", "device", "items", "rows", "idle", "idle between", "done before the last", "kernels ran (driver)"
    )
    for run in runs:
        busy = run.busy()
        if not busy:
            yield f"| {run.ended.name} | none | | | | | | |"
            continue
        first = min(spans[0][0] for spans in busy.values())
        last = max(spans[-1][1] for spans in busy.values())
        for device, spans in busy.items():
            busy_s = sum(end - begin for begin, end in spans)
            items = [nodeid for nodeid, there in run.device_of.items() if there == device]
            rows = sum(nodeid in run.rows for nodeid in items)
            use = run.use.get(device, [])
            yield (
                f"| {run.ended.name} | {device[:8]} | {len(items)} | {rows} | {1 - busy_s / run.ended.wall_s:.0%} | "
                f"{1 - busy_s / (last - first):.0%} | {last - spans[-1][1]:.1f} s | "
                f"{f'{statistics.mean(use):.0f} %' if use else '-'} |"
            )


def _same(runs: Sequence[Run], one: Run | None, problems: list[str]) -> Iterator[str]:
    if one is None:
        yield "There is no serial run to compare with."
        return
    yield from _head("run", "digest", "cases unlike `one`", "rows unlike `one`", "rows timed", "rows not timed")
    shown: list[str] = []
    for run in runs:
        cases = list(_differing_cases(one, run))
        rows = list(_differing_rows(one, run))
        rows_there = {nodeid: row for nodeid, row in run.rows.items() if nodeid in one.rows}
        untimed = [nodeid for nodeid, row in rows_there.items() if not _timed(row)]
        digest = "equal" if run.document["digest"] == one.document["digest"] else "differs"
        if run.ended.name == "faults":
            digest = "of more specs"
        yield (
            f"| {run.ended.name} | {digest} | {len(cases)} of {len(one.cases)} | {len(rows)} of {len(one.rows)} | "
            f"{len(rows_there) - len(untimed)} | {len(untimed)} |"
        )
        if digest == "differs":
            problems.append(f"`{run.ended.name}` has another digest than `one`")
        for what, found in (("cases", cases), ("rows", rows)):
            if found:
                problems.append(f"`{run.ended.name}`: {len(found)} {what} differ from `one`: {found[0]}")
        if untimed and run.document["environment"]["device"]["kind"] != "interpreter":
            problems.append(f"`{run.ended.name}`: {len(untimed)} rows were not timed: {untimed[0]}")
        nowhere = [nodeid for nodeid, row in rows_there.items() if _timed(row) and not row["device_uuid"]]
        if nowhere:
            problems.append(f"`{run.ended.name}`: {len(nowhere)} rows were timed on no device: {nowhere[0]}")
        shown += [f"* `{run.ended.name}`: {told}" for told in (*cases[:_LISTED], *rows[:_LISTED])]
    if shown:
        yield ""
        yield from shown


def _differing_cases(one: Run, other: Run) -> Iterator[str]:
    for nodeid, case in one.cases.items():
        there = other.cases.get(nodeid)
        where = "is missing" if there is None else next(_paths(case, there), "")
        if where:
            yield f"{nodeid} {where}"


def _paths(a: Any, b: Any, at: str = "") -> Iterator[str]:
    """Tell where two JSON values differ."""
    if isinstance(a, dict) and isinstance(b, dict):
        for name in sorted({*a, *b} - (_OF_RUN if not at else set())):
            yield from _paths(a.get(name), b.get(name), f"{at}.{name}")
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for number, (left, right) in enumerate(zip(a, b, strict=True)):
            yield from _paths(left, right, f"{at}[{number}]")
    elif a != b:
        yield f"{at}: {str(a)[:80]} and {str(b)[:80]}"


def _differing_rows(one: Run, other: Run) -> Iterator[str]:
    for nodeid, row in one.rows.items():
        there = other.rows.get(nodeid)
        if there is None:
            yield f"{nodeid} is missing"
        elif _decided(row) != _decided(there):
            yield f"{nodeid}: {_told(row)}; and {_told(there)}"


def _decided(row: Record) -> Record:
    gates = {gate["gate"]: gate["verdict"] for gate in row["gates"] if gate["gate"] in _SURE_GATES}
    return {**{name: row[name] for name in _ROW}, "gates": gates}


def _told(row: Record) -> str:
    return f"{row['verdict']} {'; '.join(row['reasons'])}".strip()


def _timed(row: Record) -> bool:
    return bool(row["gates"]) and row["verdict"] != "not_timed"


def _boards(boards: dict[str, Run], one: Run | None, problems: list[str]) -> Iterator[str]:
    if not boards:
        yield "Not run."
        return
    first, *others = boards.values()
    outputs = {nodeid: case["fixed"]["output"] for nodeid, case in first.cases.items()}
    for run in others:
        told = {nodeid: case["fixed"]["output"] for nodeid, case in run.cases.items()}
        # What was not reached is a problem that is named elsewhere.
        other = [nodeid for nodeid, output in told.items() if output and outputs.get(nodeid, "") not in ("", output)]
        if other:
            problems.append(f"`{run.ended.name}`: output of {len(other)} fixed launches differs, first {other[0]}")
    yield f"Output digests of {len(outputs)} fixed launches compared on {len(boards)} boards.\n"
    yield from _head(*_SPREAD)
    spread = _spread([_speed_ups(run) for run in boards.values()])
    yield _line("speed-up, from board to board", spread.values())
    yield _line(
        "fixed launch's time, from board to board", _spread([_fixed_us(run) for run in boards.values()]).values()
    )
    if one is not None:
        # The serial run was on the first device.
        yield _line("speed-up, twice on one board", _spread([_speed_ups(one), _speed_ups(first)]).values())
    yield ""
    yield from _head("key", "speed-up on each board", "apart")
    for nodeid in sorted(spread, key=lambda nodeid: -spread[nodeid])[:_SHOWN]:
        told = ", ".join(f"{_speed_ups(run)[nodeid]:.3f}" for run in boards.values())
        yield f"| `{nodeid.partition('::')[2]}` | {told} | {spread[nodeid]:.1f} % |"


def _speed_ups(run: Run) -> dict[str, float]:
    return {nodeid: row["speed_up"] for nodeid, row in run.rows.items() if row["speed_up"]}


def _fixed_us(run: Run) -> dict[str, float]:
    return {
        nodeid: gate["time_us"][0]
        for nodeid, row in run.rows.items()
        for gate in row["gates"]
        if gate["gate"] == "control" and gate["time_us"]
    }


def _spread(measured: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return by key how far the largest value is above the smallest, in percent; only keys that all have."""
    keys = set(measured[0]).intersection(*measured[1:])
    return {
        key: (max(one[key] for one in measured) / min(one[key] for one in measured) - 1) * 100 for key in sorted(keys)
    }


def _line(what: str, spread: Iterable[float]) -> str:
    found = sorted(spread)
    if not found:
        return f"| {what} | 0 | | | | | |"
    high = found[min(len(found) - 1, round(0.9 * (len(found) - 1)))]
    beyond = [str(sum(one > margin for one in found)) for margin in _MARGINS_PCT]
    cells = [str(len(found)), *(f"{value:.2f} %" for value in (statistics.median(found), high, found[-1])), *beyond]
    return f"| {what} | {' | '.join(cells)} |"


def _choices(runs: dict[str, Run], problems: list[str]) -> Iterator[str]:
    yield from _head("run", "CUDA_VISIBLE_DEVICES", "options", "workers", "must be board", "was")
    uuids = [runs[name].document["environment"]["devices"] for name in ("boards-0", "boards-1") if name in runs]
    for choice in CHOICES:
        if choice.name not in runs or choice.board is None:
            continue
        used = runs[choice.name].document["environment"]["devices"]
        was = str(uuids.index(used)) if used in uuids else "unknown"
        shown = ",".join(map(str, choice.visible))
        yield f"| {choice.name} | {shown} | {' '.join(choice.more)} | {choice.workers} | {choice.board} | {was} |"
        if was != str(choice.board):
            problems.append(f"`{choice.name}` ran on board {was} ({', '.join(used)}), not on board {choice.board}")


def _faults(run: Run | None, one: Run | None, problems: list[str]) -> Iterator[str]:
    if run is None:
        yield "Not run."
        return
    known = one.cases if one is not None else {}
    planted = {nodeid: case for nodeid, case in run.cases.items() if nodeid not in known and "planted" in nodeid}
    yield from _head("planted", "outcome", "device")
    for nodeid, case in planted.items():
        for candidate in case["candidates"]:
            wanted = _EXPECTED.get(candidate["id"])
            told = f"{candidate['outcome']}: {candidate['reason'][:100]}"
            if wanted:
                yield f"| `{candidate['id']}` | {told} | {case['device_uuid'][:8]} |"
            about_faults = any(other["id"] in _EXPECTED for other in case["candidates"])
            if about_faults and candidate["outcome"] not in (wanted or ("qualified",)):
                problems.append(f"`faults`: {nodeid} {candidate['id']} is {told}")
    if not planted:
        problems.append("`faults`: no planted case ran")
    during = [line for line in run.times if line["nodeid"] in planted]
    device_of = run.device_of
    beside = [
        line["nodeid"]
        for line in run.times
        for fault in during
        if line["nodeid"] in run.rows
        and device_of[line["nodeid"]] != device_of[fault["nodeid"]]
        and line["start"] < fault["stop"]
        and fault["start"] < line["stop"]
    ]
    yield ""
    yield f"{len(set(beside))} rows were timed on other devices while planted cases ran."
    if one is not None:
        apart = _spread(
            [_speed_ups(one), {nodeid: value for nodeid, value in _speed_ups(run).items() if nodeid in beside}]
        )
        yield ""
        yield from _head(*_SPREAD)
        yield _line("speed-up of those rows, against `one`", apart.values())


def _head(*names: str) -> Iterator[str]:
    """Begin a table."""
    yield f"| {' | '.join(names)} |"
    yield f"|{' --- |' * len(names)}"


def _united(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return spans without overlaps, in their order."""
    made: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if made and begin <= made[-1][1]:
            made[-1] = made[-1][0], max(end, made[-1][1])
        else:
            made.append((begin, end))
    return made


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
