"""`kernelqual merge`: shards of real runs make the report of the whole one."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from acceptance import JENKINS, REPORT, Ended, cases_of, spec, stub, suite
from committed_samples import H200, changes, null_row
from hypothesis import given, settings
from hypothesis import strategies as st
from junitparser import JUnitXml
from msgspec import structs
from report_samples import ENVIRONMENT, candidate, case, kernel

from pytest_kernelqual.cli import main
from pytest_kernelqual.committed.store import Store
from pytest_kernelqual.errors import DocumentError
from pytest_kernelqual.model.record import DeclaredItem, Document
from pytest_kernelqual.model.target_record import CompiledRows, TargetLaunch, TargetRecord
from pytest_kernelqual.report.document import build, encode, read, write
from pytest_kernelqual.report.merging import Shard, merge
from pytest_kernelqual.report.plan import NOTHING_SELECTED, Plan

A = {
    "zeta": spec("z", "y", "x", ok="qualified", bad="mismatch"),
    "alpha": spec("x", "y"),
}
B = {"gamma": spec("q", "p", "r"), "broken": {**spec(), "problem": "the declaration is wrong"}}

# What a plugin that splits a suite does: items in turn.
SPLITTER = """
    import os, pytest

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(config, items):
        number, of = map(int, os.environ.get("SHARD", "0/1").split("/"))
        left_out = [item for index, item in enumerate(items) if index % of != number]
        items[:] = [item for index, item in enumerate(items) if index % of == number]
        config.hook.pytest_deselected(items=left_out)
"""
BY_TURNS: list[tuple[tuple[str, ...], dict[str, str]]] = [((), {"SHARD": f"{number}/4"}) for number in range(4)]
BY_WORDS: list[tuple[tuple[str, ...], dict[str, str]]] = [
    (("-k", "zeta and y"), {}),
    (("-k", "zeta and not y"), {}),
    (("-k", "not zeta and not gamma"), {}),
    (("-k", "gamma and not zeta"), {}),
]
MISSING_ROW = "qual_b.py::gamma::test_committed[default-NVIDIA_H200]"
# A committed file is checked together with its spec.
BY_PATHS: list[tuple[tuple[str, ...], dict[str, str]]] = [
    (("qual_b.py::gamma::test_candidates[r]", "qual_b.py::broken"), {}),
    (("committed_configs", "qual_a.py::zeta"), {}),
    (("qual_b.py::gamma::test_candidates[p]", "qual_b.py::gamma::test_candidates[q]", MISSING_ROW), {}),
    (("qual_a.py::alpha",), {}),
]
SPLITS = {"turns": BY_TURNS, "words": BY_WORDS, "paths": BY_PATHS}


class Runs:
    """One suite, run whole and in shards, each once."""

    def __init__(self, folder: Path) -> None:
        """Write the suite."""
        self.folder = suite(folder / "suite", A, name="qual_a.py")
        suite(self.folder, B, name="qual_b.py")
        (self.folder / "conftest.py").write_text(dedent(SPLITTER))
        # One row of a key that no case has, which the item of the file tells; those of the other kernels are missing.
        Store(self.folder / "committed_configs").update("zeta", H200, changes(null_row({}), null_row({"cols": 64})))
        self._ended: dict[str, list[Ended]] = {}

    def whole(self) -> Ended:
        """Return the whole run."""
        return self._runs("whole", [((), {})])[0]

    def shards(self, split: str) -> list[Ended]:
        """Return the runs of a split."""
        return self._runs(split, SPLITS[split])

    def declared(self) -> Path:
        """Return what pytest says is declared."""
        path = self.folder / "declared.txt"
        if not path.exists():
            path.write_text(stub(self.folder, "--collect-only", "-q").text)
        return path

    def _runs(self, name: str, split: list[tuple[tuple[str, ...], dict[str, str]]]) -> list[Ended]:
        if name not in self._ended:
            self._ended[name] = []
            for number, (arguments, environment) in enumerate(split):
                ended = stub(self.folder, *arguments, **environment)
                kept = self.folder / f"{name}-{number}"
                kept.mkdir()
                for file in (REPORT, "junit.xml"):
                    shutil.move(self.folder / file, kept / file)
                self._ended[name].append(Ended(kept, ended.code, ended.text))
        return self._ended[name]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Return the runs, which take place when they are asked for."""
    return Runs(tmp_path_factory.mktemp("runs"))


def timeless(path: Path) -> str:
    """Return a report without the times of runs and cases."""

    def of(plain: Any) -> Any:
        if isinstance(plain, dict):
            return {name: of(value) for name, value in plain.items() if name not in ("started_at", "duration_s")}
        return list(map(of, plain)) if isinstance(plain, list) else plain

    return json.dumps(of(json.loads(path.read_text())), indent=1)


def told_of(xml: JUnitXml) -> tuple[Any, ...]:
    """Return what a JUnit file tells, apart from times and order."""
    (one,) = list(xml)
    properties = sorted((each.name, each.value) for each in one.properties())
    cases = sorted((each.classname, each.name, [type(result).__name__ for result in each.result]) for each in one)
    return one.name, one.tests, one.failures, one.errors, one.skipped, properties, cases


@pytest.mark.parametrize("split", SPLITS)
def test_four_shards_make_the_report_of_the_whole_run(
    runs: Runs, split: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Byte for byte apart from times, complete, in any order, and so does JUnit."""
    shards = runs.shards(split)
    assert not any(read(shard.folder / REPORT).complete for shard in shards)
    files = [str(shard.folder / file) for shard in shards for file in (REPORT, "junit.xml")]
    files = files[3:] + files[:3]
    declared = ["--declared", str(runs.declared())] if split == "paths" else []
    out, xml = tmp_path / "merged.json", tmp_path / "merged.xml"
    assert main(["merge", *files, "--json", str(out), "--junitxml", str(xml), *declared]) == 1
    told = capsys.readouterr()
    assert told.out.endswith(f"4 reports merged into {out}\n")
    assert "report: complete\n" in told.out
    assert told.err == ""
    whole = runs.whole()
    assert whole.document.complete
    assert timeless(out) == timeless(whole.folder / REPORT)
    JENKINS.validate(xml)
    assert told_of(JUnitXml.fromfile(str(xml))) == told_of(whole.junit)
    assert len(cases_of(whole.junit)) == 13
    assert main(["merge", *reversed(files), "--json", f"{out}.2", "--junitxml", f"{xml}.2", *declared]) == 1
    assert (Path(f"{out}.2").read_bytes(), Path(f"{xml}.2").read_bytes()) == (out.read_bytes(), xml.read_bytes())
    took = sum(shard.document.environment.duration_s for shard in shards if shard.document.environment)
    environment = read(out).environment
    assert environment is not None
    assert environment.duration_s == pytest.approx(took)


def refusal(capsys: pytest.CaptureFixture[str], tmp_path: Path, *arguments: object) -> str:
    """Return what a merge that must fail says; it writes nothing."""
    out, xml = tmp_path / "merged.json", tmp_path / "merged.xml"
    junit = ["--junitxml", str(xml)] if any(str(name).endswith(".xml") for name in arguments) else []
    assert main(["merge", *map(str, arguments), "--json", str(out), *junit]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert not out.exists()
    assert not xml.exists()
    assert all(line.startswith("kernelqual: error: ") for line in told.err.splitlines())
    return told.err


def test_a_missing_shard_is_named_by_its_items(runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whether the others knew of them, or a list tells."""
    for split, more in (("turns", []), ("words", []), ("paths", ["--declared", runs.declared()])):
        shards = runs.shards(split)
        gone = [item.nodeid for item in read(shards[2].folder / REPORT).items if item.selected]
        files = [shard.folder / REPORT for shard in shards if shard is not shards[2]]
        told = refusal(capsys, tmp_path, *files, *more)
        assert told.startswith(f"kernelqual: error: {len(gone)} of 13 declared items in no shard, so that a shard is")
        assert all(repr(nodeid) in told for nodeid in gone)


def test_shards_by_path_alone_stay_incomplete(runs: Runs, tmp_path: Path) -> None:
    """Nothing tells what else is declared."""
    out = tmp_path / "merged.json"
    shards = runs.shards("paths")[2:]
    assert main(["merge", *(str(shard.folder / REPORT) for shard in shards), "--json", str(out)]) == 1
    document = read(out)
    assert not document.complete
    assert "paths were given: qual_a.py::alpha" in document.incomplete_because[0]
    assert [each.kernel for each in document.kernels] == ["alpha", "gamma"]


def test_a_doubled_shard_is_named(runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With one of its items; so is a shard beside the whole."""
    one, other, *_ = (shard.folder / REPORT for shard in runs.shards("turns"))
    (tmp_path / "copy.json").write_bytes(one.read_bytes())
    assert "both hold 4 items: 'committed_configs/" in refusal(capsys, tmp_path, one, other, tmp_path / "copy.json")
    assert f"{one} is given twice; give each shard once" in refusal(capsys, tmp_path, one, one)
    (tmp_path / "link.json").symlink_to(one)
    told = refusal(capsys, tmp_path, one, other, tmp_path / "link.json")
    assert f"{tmp_path / 'link.json'} is given twice, as {one} too; give each shard once" in told
    told = refusal(capsys, tmp_path, one, runs.whole().folder / REPORT)
    assert str(one) in told
    assert "both hold 4 items" in told


def test_junit_files_must_be_those_of_the_shards(
    runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Missing, doubled, foreign and damaged files are named, and none is merged without a place to write it."""
    shards = runs.shards("turns")
    reports = [shard.folder / REPORT for shard in shards]
    xml = [shard.folder / "junit.xml" for shard in shards]
    assert f"{reports[3]}: no JUnit file belongs to it" in refusal(capsys, tmp_path, *reports, *xml[:3])
    (tmp_path / "copy.xml").write_bytes(xml[0].read_bytes())
    told = refusal(capsys, tmp_path, *reports, *xml, tmp_path / "copy.xml")
    assert f"{tmp_path / 'copy.xml'}: belongs to none of the reports" in told
    told = refusal(capsys, tmp_path, *reports, *xml, xml[2])
    assert told == f"kernelqual: error: {xml[2]} is given twice; give each shard once\n"
    for text in ("", xml[0].read_text()[:200], "<html/>", "<testsuites/>"):
        (tmp_path / "copy.xml").write_text(text)
        told = refusal(capsys, tmp_path, *reports, tmp_path / "copy.xml", *xml[1:])
        assert f"{tmp_path / 'copy.xml'}: " in told.splitlines()[0]
    assert main(["merge", *map(str, reports), str(xml[0]), "--json", str(tmp_path / "x.json")]) == 2
    assert main(["merge", *map(str, reports), "--json", str(tmp_path / "x.json"), "--junitxml", "x.xml"]) == 2
    assert not (tmp_path / "x.json").exists()


def test_a_shard_without_items_is_given_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two such shards are merged, and one that is given twice is named."""
    for name, document in (("all", shard(0, 1, 2)), ("none", shard()), ("nothing", shard())):
        write(tmp_path / f"{name}.json", encode(document))
    paths = [str(tmp_path / f"{name}.json") for name in ("all", "none", "nothing")]
    assert main(["merge", *paths, "--json", str(tmp_path / "x.json")]) == 0
    assert "3 reports merged" in capsys.readouterr().out
    (tmp_path / "x.json").unlink()
    assert refusal(capsys, tmp_path, *paths[:2], paths[1]) == (
        f"kernelqual: error: {paths[1]} is given twice; give each shard once\n"
    )


def test_a_splitter_that_comes_before_all_others_hides_nothing(tmp_path: Path) -> None:
    """Even one in a folder below, which pytest asks first, leaves a run that says what it is a part of."""
    suite(tmp_path, {}, name="qual_empty.txt")
    suite(tmp_path / "below", A)
    (tmp_path / "below" / "pytest.ini").unlink()
    (tmp_path / "below" / "conftest.py").write_text(dedent(SPLITTER))
    document = stub(tmp_path, SHARD="0/2").document
    assert document.incomplete_because == ["2 of 5 items were deselected"]
    assert [item.selected for item in document.items].count(False) == 2


# Shards made of records.

NODEIDS = [f"qual_a.py::a::test_candidates[{name}]" for name in "xyz"]
ITEMS = [DeclaredItem(nodeid=nodeid, kernel="qual_a.py::a", place=(0, index)) for index, nodeid in enumerate(NODEIDS)]


def shard(*ran: int, **more: Any) -> Document:
    """Return the report of a run that selected some of three items."""
    items = more.pop("items", None) or [
        structs.replace(item, selected=index in ran) for index, item in enumerate(ITEMS)
    ]
    cases = [case(candidate(), id_=NODEIDS[index], nodeid=NODEIDS[index]) for index in ran]
    kernels = (
        [structs.replace(kernel(*cases, name="a"), nodeid="qual_a.py::a", **more.pop("header", {}))] if ran else []
    )
    narrowed = {"deselected": f"{3 - len(ran)} of 3 items were deselected"} if len(ran) < len(ITEMS) else {}
    plan = Plan(kernels=[], nodeids=[], items=items, narrowed=more.pop("narrowed", narrowed))
    because = [*plan.narrowed.values(), *more.pop("because", ()), *([] if kernels else [NOTHING_SELECTED])]
    environment = more.pop("environment", ENVIRONMENT)
    if environment is not None:
        environment = structs.replace(environment, **more)
    return build(kernels, environment, [item.nodeid for item in items], because, plan)


def merged(*documents: Document, declared: list[str] | None = None) -> Document:
    """Return the merged report."""
    return merge([Shard(f"{index}.json", one) for index, one in enumerate(documents)], declared)


def device(**more: Any) -> dict[str, Any]:
    """Return an environment on another device."""
    return {"device": structs.replace(ENVIRONMENT.device, **more)}


CONTRADICTIONS: dict[str, tuple[Document, str]] = {
    "toolchain": (shard(1, 2, triton="3.6.0"), "triton is '3.7.1' and '3.6.0'"),
    "device": (shard(1, 2, **device(name="NVIDIA H100")), "device name is 'NVIDIA H200' and 'NVIDIA H100'"),
    "kind of device": (shard(1, 2, **device(kind="hip")), "device kind is 'cuda' and 'hip'"),
    "seed": (shard(1, 2, seed=7), "seed is 0 and 7"),
    "settings": (shard(1, 2, repeats=2), "repeats is 4 and 2"),
    "profiles": (shard(1, 2, profiles=["mixed"]), r"profiles is \[\] and \['mixed'\]"),
    "declaration": (shard(1, 2, header={"screen": "why"}), "'qual_a.py::a' is declared differently"),
    "an item less": (
        shard(1, items=[structs.replace(ITEMS[0], selected=False), ITEMS[1]]),
        r"declared in one of them alone: 'qual_a.py::a::test_candidates\[z\]'",
    ),
    "moved items": (
        shard(1, 2, items=[structs.replace(item, place=(1, 0), selected=item is not ITEMS[0]) for item in ITEMS]),
        "declared at different places",
    ),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_shards_that_contradict_each_other_are_named(name: str) -> None:
    """With the two values, whichever comes first."""
    other, why = CONTRADICTIONS[name]
    with pytest.raises(DocumentError, match=rf"^0\.json and 1\.json .*{why}"):
        merged(shard(0), other)
    with pytest.raises(DocumentError, match=r"1\.json and 0\.json "):
        merged(other, shard(0))


def test_two_different_records_of_one_item_are_a_contradiction() -> None:
    """Not a doubled shard, which one could leave out."""
    other = shard(0, 1, 2)
    failed = structs.replace(other.kernels[0].cases[0], passed=False)
    told = structs.replace(other.kernels[0], cases=[failed, *other.kernels[0].cases[1:]])
    with pytest.raises(DocumentError, match=r"0.json and 1.json contradict each other: .*candidates\[x\]'$"):
        merged(shard(0), structs.replace(other, kernels=[told]))


def test_machines_of_one_kind_are_no_contradiction() -> None:
    """What they differ in is left out, and the first start is the start of all."""
    one = shard(0, started_at="2025-01-01T00:00:05Z", duration_s=1.5, **device(uuid="GPU-1", memory_bytes=5))
    other = shard(1, 2, started_at="2025-01-01T00:00:03Z", duration_s=2.0, **device(uuid="GPU-2", memory_bytes=5))
    found = merged(one, other).environment
    assert found is not None
    assert (found.device.uuid, found.device.memory_bytes) == ("", 5)
    assert (found.started_at, found.duration_s) == ("2025-01-01T00:00:03Z", 3.5)


def test_what_was_compiled_for_targets_is_that_of_all_shards() -> None:
    """Each kernel's needs of all its cases, and the rows of all files."""
    files = [
        CompiledRows(
            kernel="a", nodeid=f"committed_configs/a/{name}.json::file", device=name, target="cuda:90", cases=[]
        )
        for name in ("h100", "h200")
    ]

    def compiled(number: int, shared_bytes: int) -> Document:
        """Return the report of a shard of one case and one file."""
        document = shard(number)
        (header,) = document.kernels
        launch = TargetLaunch(id="fixed", outcome="fits", resources={"shared_bytes": shared_bytes})
        record = TargetRecord(target="cuda:90", shared_limit_bytes=232448, launches=[launch])
        cases = [structs.replace(one, targets=[record]) for one in header.cases]
        built = build(
            [structs.replace(header, cases=cases)],
            document.environment,
            NODEIDS,
            document.incomplete_because,
            Plan(kernels=[], nodeids=[], items=document.items, narrowed=document.narrowed),
        )
        return structs.replace(built, compiled_rows=files[number : number + 1])

    whole = merged(compiled(1, 1000), compiled(0, 3000), compiled(2, 2000))
    assert whole.compiled_rows == files
    (needs,) = whole.kernels[0].targets
    assert (needs.outcomes, needs.needs, needs.headroom) == (
        {"fits": 3},
        {"shared_bytes": 3000},
        {"shared_bytes": 229448},
    )


def test_a_shard_to_which_nothing_fell_changes_nothing() -> None:
    """No device answered there."""
    empty = shard(environment=None)
    assert NOTHING_SELECTED in empty.incomplete_because
    assert merged(empty, shard(0, 1, 2), empty) == shard(0, 1, 2)
    assert merged(empty, shard(0, 1), shard(2)).complete


def test_reasons_that_are_no_part_of_sharding_stay() -> None:
    """A shard that was interrupted makes the whole incomplete."""
    found = merged(shard(0, because=["the run was ended by SIGTERM"]), shard(1, 2))
    assert (found.complete, found.incomplete_because) == (False, ["the run was ended by SIGTERM"])
    assert not merged(shard(0, 1, 2, narrowed={"lf": "--lf ran only what failed last"})).complete


def test_a_list_of_another_tree_is_no_proof() -> None:
    """Items that it does not name, and items that are nowhere else."""
    with pytest.raises(DocumentError, match=r"^1 of the shards not among the declared ones"):
        merged(shard(0, 1, 2), declared=NODEIDS[:2])
    with pytest.raises(DocumentError, match=r"^1 of 4 declared items in no shard.*'b.py::b'$"):
        merged(shard(0, 1, 2), declared=[*NODEIDS, "b.py::b"])


def test_a_committed_file_that_was_checked_without_its_spec_is_told() -> None:
    """Such a shard does not know what of the file is wrong."""
    path = "committed_configs/a/nvidia_h200.json"
    alone = DeclaredItem(nodeid=f"{path}::file", kernel=f"{path}::file", place=(0, 0))
    plan = Plan(kernels=[], nodeids=[], items=[alone], narrowed={"paths": "paths were given: committed_configs"})
    files = build([], None, [alone.nodeid], list(plan.narrowed.values()), plan)
    specs = shard(0, 1, 2, narrowed={"paths": "paths were given: qual_a.py"})
    found = merged(files, specs, declared=[*NODEIDS, alone.nodeid])
    assert found.incomplete_because == [f"{path} was checked without the spec of its kernel; give both to one shard"]
    together = shard(0, 1, 2, items=[*ITEMS, alone], narrowed={"paths": "paths were given: ."})
    assert merged(together, declared=[*NODEIDS, alone.nodeid]).complete


def test_specs_of_one_name_in_two_shards_are_told() -> None:
    """A run of both files would have told it."""
    there = [structs.replace(item, nodeid=item.nodeid.replace("_a", "_b"), kernel="qual_b.py::a") for item in ITEMS]
    cases = [case(candidate(), id_=item.nodeid, nodeid=item.nodeid) for item in there]
    plan = Plan(kernels=[], nodeids=[], items=there, narrowed={"paths": "paths were given: qual_b.py"})
    kernels = [structs.replace(kernel(*cases, name="a"), nodeid="qual_b.py::a")]
    other = build(kernels, ENVIRONMENT, [item.nodeid for item in there], [*plan.narrowed.values()], plan)
    with pytest.raises(DocumentError, match="two specs have one name"):
        merged(shard(0, 1, 2, narrowed={"paths": "paths were given: qual_a.py"}), other)


@given(st.integers(1, 3), st.data())
def test_a_whole_merged_with_nothing_is_itself(runs: int, data: st.DataObject) -> None:
    """Whatever else it says; and any split of it, in any order, makes it again."""
    because = data.draw(st.lists(st.text(max_size=5).filter(lambda text: text != NOTHING_SELECTED), unique=True))
    whole = shard(0, 1, 2, because=because, duration_s=runs * 0.5)
    assert merged(whole) == whole
    numbers = [data.draw(st.integers(0, runs - 1)) for _ in ITEMS]
    parts = [
        shard(*(index for index, number in enumerate(numbers) if number == run), because=because, duration_s=0.5)
        for run in range(runs)
    ]
    assert merged(*data.draw(st.permutations(parts))) == whole


@settings(max_examples=30)
@given(st.permutations([shard(0), shard(1), shard(2), shard(0, 1)]))
def test_messages_do_not_depend_on_the_order_of_shards(documents: list[Document]) -> None:
    """Nor does what is found."""
    with pytest.raises(DocumentError) as raised:
        merged(*documents)
    assert len(str(raised.value).splitlines()) == 2


def _truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:300])


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _write(text: str) -> Callable[[Path], None]:
    def edit(path: Path) -> None:
        path.write_text(text)

    return edit


def _text(old: str, new: str) -> Callable[[Path], None]:
    def edit(path: Path) -> None:
        path.write_text(path.read_text().replace(old, new))

    return edit


BAD: dict[str, tuple[Callable[[Path], None], str]] = {
    "truncated": (_truncated, ""),
    "empty": (_write(""), ""),
    "foreign": (_write('{"tests": []}'), "schema is None"),
    "newer": (
        _text("configurations/1", "configurations/2"),
        "this version reads 'kernelqual/qualified-configurations/1'",
    ),
    "other universe": (_text('"universe": "sha256:', '"universe": "sha256:0'), "universe is not that of its items"),
    "other items": (_text('"selected": true', '"selected": false'), "which is none of the items that it ran"),
    "other decisions": (_text('"outcome": "qualified"', '"outcome": "fault"'), "edited or damaged"),
    "a folder": (_folder, "Is a directory"),
    "missing": (Path.unlink, "No such file"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_is_no_report_is_named(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line, and nothing is written."""
    write(tmp_path / "good.json", encode(shard(0)))
    write(tmp_path / "bad.json", encode(shard(1, 2)))
    edit, why = BAD[name]
    edit(tmp_path / "bad.json")
    told = refusal(capsys, tmp_path, tmp_path / "good.json", tmp_path / "bad.json")
    assert told.count("\n") == 1
    assert str(tmp_path / "bad.json") in told
    assert why in told


def test_reports_without_items_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of a version that knew no shards, and those of a run that collected nothing."""
    write(tmp_path / "old.json", encode(structs.replace(shard(0, 1, 2), items=[])))
    assert f"{tmp_path / 'old.json'}: lists no items" in refusal(capsys, tmp_path, tmp_path / "old.json")


def test_outputs_that_cannot_be_written_are_told_before_either_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is no report is not lost."""
    write(tmp_path / "good.json", encode(shard(0, 1, 2)))
    (tmp_path / "notes.txt").write_text("precious")
    for out in (tmp_path / "notes.txt", tmp_path / "missing" / "out.json", tmp_path):
        assert main(["merge", str(tmp_path / "good.json"), "--json", os.fspath(out)]) == 2
        assert capsys.readouterr().err.startswith("kernelqual: error: cannot write ")
    assert (tmp_path / "notes.txt").read_text() == "precious"
    assert "names no item" in refusal(capsys, tmp_path, tmp_path / "good.json", "--declared", tmp_path / "notes.txt")
