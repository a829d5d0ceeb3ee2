"""The store: updates that lose nothing and tell what they did."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from committed_samples import (
    H200,
    KERNEL,
    NEWER,
    OTHER_SPACE,
    SPACE,
    TOOLCHAIN,
    changes,
    configs,
    file,
    keys,
    many_rows,
    null_row,
    refused,
    row,
    stored,
    updated,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kernelqual.committed.refusal import Refusal
from pytest_kernelqual.committed.schema import Key, Row, encode, key_text
from pytest_kernelqual.committed.store import Contents, Store
from pytest_kernelqual.model.config import Scalar

# Each example writes files durably.
on_disk = settings(max_examples=25, deadline=None)


@contextmanager
def new_store() -> Iterator[Store]:
    """Give an empty store for one example of a property."""
    with tempfile.TemporaryDirectory() as folder:
        yield Store(Path(folder) / "committed_configs")


def test_an_update_reports_each_row(tmp_path: Path) -> None:
    """Kept, changed, added and dropped rows are told with what was before and after."""
    store = Store(tmp_path / "committed_configs")
    same, other, gone, quiet = ({"cols": cols} for cols in (4096, 1024, 64, 8))
    first = updated(store.update(KERNEL, H200, changes(row(same), row(other), null_row(gone), row(quiet))))
    assert [change.key for change in first.added] == [quiet, gone, other, same]
    assert (first.kept, first.changed, first.dropped) == ((), (), ())
    new = {"cols": 2048}
    report = updated(
        store.update(
            KERNEL, H200, changes(row(same, speed_up=1.5), row(other, {"num_warps": 4}), row(new), drop=(gone,))
        )
    )
    assert [(change.key, change.mentioned) for change in report.kept] == [(quiet, False), (same, True)]
    assert [change.after and change.after.speed_up for change in report.kept] == [1.25, 1.5]
    assert [
        (change.before and change.before.config, change.after and change.after.config) for change in report.changed
    ] == [({"num_warps": 8}, {"num_warps": 4})]
    assert [change.key for change in report.added] == [new]
    assert [change.key for change in report.dropped] == [gone]
    assert report.path == store.path_for(KERNEL, H200)
    assert [item.key for item in stored(store).rows] == [quiet, other, new, same]


def test_a_config_of_another_type_is_a_change(tmp_path: Path) -> None:
    """`true` is not 1, and a null is not a config."""
    store = Store(tmp_path)
    types: list[tuple[dict[str, Scalar], dict[str, Scalar]]] = [
        ({"fast": True}, {"fast": 1}),
        ({"fast": 1}, {"fast": 1.0}),
    ]
    for before, after in types:
        updated(store.update(KERNEL, H200, changes(row({"cols": 1}, before))))
        assert updated(store.update(KERNEL, H200, changes(row({"cols": 1}, after)))).changed
    assert updated(store.update(KERNEL, H200, changes(null_row({"cols": 1})))).changed
    assert updated(store.update(KERNEL, H200, changes(null_row({"cols": 1})))).kept


def test_rows_of_an_older_space_stay_stale(tmp_path: Path) -> None:
    """An update of one row under a new kernel does not make the others look fresh."""
    store = Store(tmp_path)
    updated(store.update(KERNEL, H200, changes(row({"cols": 1}), row({"cols": 2}))))
    updated(store.update(KERNEL, H200, changes(row({"cols": 2}), space=OTHER_SPACE, toolchain=NEWER)))
    found = stored(store)
    assert found.space == OTHER_SPACE
    assert [found.space_of(item) for item in found.rows] == [SPACE, OTHER_SPACE]
    assert [found.toolchain_of(item) for item in found.rows] == [TOOLCHAIN, NEWER]
    updated(store.update(KERNEL, H200, changes(row({"cols": 1}), space=OTHER_SPACE, toolchain=NEWER)))
    assert [(item.space, item.toolchain) for item in stored(store).rows] == [(None, None), (None, None)]


@on_disk
@given(many_rows, many_rows)
def test_unmentioned_rows_stay_and_updates_are_idempotent(old: list[Row], new: list[Row]) -> None:
    """After any update each key has the new row, else the old one; the same update again changes no byte."""
    with new_store() as store:
        updated(store.update(KERNEL, H200, changes(*old)))
        updated(store.update(KERNEL, H200, changes(*new)))
        wanted = {key_text(item.key): item for item in [*old, *new]}
        if not wanted:
            assert store.read(KERNEL, H200) is None
            return
        assert encode(stored(store)) == encode(file(*wanted.values()))
        data, inode = store.path_for(KERNEL, H200).read_bytes(), store.path_for(KERNEL, H200).stat().st_ino
        report = updated(store.update(KERNEL, H200, changes(*new)))
        assert store.path_for(KERNEL, H200).read_bytes() == data
        assert store.path_for(KERNEL, H200).stat().st_ino == inode
        assert (report.changed, report.added, report.dropped) == ((), (), ())
        assert len(report.kept) == len(wanted)


@on_disk
@given(many_rows, st.randoms(use_true_random=False))
def test_order_of_changes_is_irrelevant(rows: list[Row], random: object) -> None:
    """The same rows in any order, at once or one by one, give the same bytes."""
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    with new_store() as store, new_store() as other:
        updated(store.update(KERNEL, H200, changes(*rows)))
        for item in shuffled:
            updated(other.update(KERNEL, H200, changes(item)))
        paths = [each.path_for(KERNEL, H200) for each in (store, other)]
        assert [path.read_bytes() for path in paths if rows] == ([paths[0].read_bytes()] * 2 if rows else [])


@on_disk
@given(st.lists(st.tuples(keys, configs | st.none()), max_size=8))
def test_reports_add_up(steps: list[tuple[Key, dict[str, object] | None]]) -> None:
    """Added less dropped rows is what is there; a config of None drops the key here."""
    with new_store() as store:
        here: set[str] = set()
        for key, config in steps:
            change = changes(drop=(key,)) if config is None else changes(row(key, config))  # type: ignore[arg-type]
            report = updated(store.update(KERNEL, H200, change))
            here |= {key_text(item.key) for item in report.added}
            here -= {key_text(item.key) for item in report.dropped}
            found = store.read(KERNEL, H200)
            assert not isinstance(found, Refusal)
            assert here == {key_text(item.key) for item in (found.rows if found else [])}


def test_a_file_without_rows_is_removed(tmp_path: Path) -> None:
    """Dropping the last row leaves no file that nobody could place."""
    store = Store(tmp_path)
    updated(store.update(KERNEL, H200, changes(row({"cols": 1}))))
    assert updated(store.update(KERNEL, H200, changes(drop=({"cols": 1},)))).dropped
    assert store.read(KERNEL, H200) is None
    assert store.read_all() == Contents()


def test_an_update_that_contradicts_itself_is_refused(tmp_path: Path) -> None:
    """One key cannot have two rows, or a row and none."""
    store = Store(tmp_path)
    for change in (changes(row({"a": 1}), null_row({"a": 1})), changes(row({"a": 1}), drop=({"a": 1},))):
        assert refused(store.update(KERNEL, H200, change)).code == "duplicate_key"
    assert store.read(KERNEL, H200) is None


def test_an_update_that_could_not_be_read_back_is_refused(tmp_path: Path) -> None:
    """A value that no file can hold costs this update, never the file."""
    store = Store(tmp_path)
    updated(store.update(KERNEL, H200, changes(row({"cols": 1}))))
    data = store.path_for(KERNEL, H200).read_bytes()
    for bad in (
        row({"cols": 1}, speed_up=float("nan")),
        row({"cols": float("inf")}),
        row({"cols": "\ud800"}),
        row({"cols": object()}),  # type: ignore[dict-item]
        row({"cols": 1}, measured_at="today"),
        row({"cols": 1}, note="x" * 2000),
    ):
        assert refused(store.update(KERNEL, H200, changes(bad))).code in {"wrong_type", "unwritable"}
        assert store.path_for(KERNEL, H200).read_bytes() == data
