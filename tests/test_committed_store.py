"""The store: names that never meet, refusals instead of tracebacks, updates that lose nothing."""

import json
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from committed_samples import (
    H200,
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
    row,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import structs

from pytest_kernelqual.committed.refusal import Refusal
from pytest_kernelqual.committed.schema import CommittedFile, Key, Row, canonical, encode, key_text
from pytest_kernelqual.committed.store import LOCK_FILE, Contents, Store, UpdateReport
from pytest_kernelqual.model.config import Scalar

KERNEL = "rms_norm_fwd"
HERE = Path(__file__).parent

# Each example writes files durably.
on_disk = settings(max_examples=25, deadline=None)


def updated(found: UpdateReport | Refusal) -> UpdateReport:
    """Return the report of an update that must succeed."""
    assert isinstance(found, UpdateReport), str(found)
    return found


def stored(store: Store) -> CommittedFile:
    """Return the file that must be there."""
    found = store.read(KERNEL, H200)
    assert isinstance(found, CommittedFile), str(found)
    return found


def refused(found: object) -> Refusal:
    """Return a refusal that must be there, in one line."""
    assert isinstance(found, Refusal)
    assert "\n" not in str(found)
    return found


@contextmanager
def new_store() -> Iterator[Store]:
    """Give an empty store for one example of a property."""
    with tempfile.TemporaryDirectory() as folder:
        yield Store(Path(folder) / "committed_configs")


# --- names ---

NASTY = [
    "NVIDIA H200", "NVIDIA H200 NVL", "NVIDIA_H200", "nvidia h200", "nvidia_h200", "NVIDIA  H200", "NVIDIA H200 ",
    " NVIDIA H200", "NVIDIA H200 MIG 1g.18gb", "NVIDIA H200 MIG 2g.35gb", "NVIDIA A100-SXM4-80GB", "NVIDIA/H200",
    "NVIDIA\\H200", "AMD Instinct MI300X", "", ".", "..", "../..", "/", "/etc/passwd", "~", "-rf", "CON", "con",
    "NUL.JSON", "COM1", "LPT9.X", "a\0b", "a\nb", "a:b", "a*b?", "ä", "a\u0308", "Ä", "ß", "SS", "ss", "\u0131", "I",
    "i", "İ", "ﬁ", "fi", "\u202eabc", "\ud800", "😀", ".hidden", ".lock", "x" * 300, "x" * 301, "X" * 100, "X" * 101,
    "rms_norm+0123456789ab", "rms_norm", "_rms_norm", "RMS_norm", "readme.md", "X.MD", "H200.JSON", "H200.", "%20",
    "NVIDIA%20H200",
]  # fmt: skip

any_name = st.sampled_from(NASTY) | st.text(max_size=12) | st.text("aAbB _+.-/", max_size=6)


@settings(deadline=None)
@given(any_name, any_name, any_name, any_name)
@example("k", "NVIDIA H200", "k", "NVIDIA H200 NVL")
@example("rms", "NVIDIA H200", "RMS", "NVIDIA H200")
def test_names_never_meet(kernel: str, device: str, other_kernel: str, other_device: str) -> None:
    """Different names have different files, also where upper and lower case are one; equal names one file."""
    store = Store(Path("root"))
    one, other = str(store.path_for(kernel, device)), str(store.path_for(other_kernel, other_device))
    assert (one.casefold() == other.casefold()) == ((kernel, device) == (other_kernel, other_device))


@settings(deadline=None)
@given(any_name, any_name)
def test_names_stay_in_the_folder(kernel: str, device: str) -> None:
    """No name leaves the folder, hides, or asks more of a file system than ASCII and 255 bytes."""
    root, folder, name = Store(Path("root")).path_for(kernel, device).parts
    assert root == "root"
    for part in (folder, name):
        assert part.isascii()
        assert len(part) <= 128
        assert set(part) <= set("abcdefghijklmnopqrstuvwxyz0123456789_.+-")
        assert part[0] not in ".-+"
        assert part.split(".")[0] not in {"con", "nul", "prn", "aux", "com1", "lpt9"}
    assert name.endswith(".json")
    assert not name.endswith(".md")


def test_names_are_stable_and_readable() -> None:
    """These names are on users' disks: a change of them is a change of a promise."""
    store = Store(Path())
    assert [
        str(store.path_for(*names))
        for names in [
            ("rms_norm_fwd", "NVIDIA H200"),
            ("rms_norm_fwd", "NVIDIA H200 NVL"),
            ("rms_norm_fwd", "NVIDIA H200 MIG 1g.18gb"),
            ("_rmsNorm", "AMD Instinct MI300X"),
        ]
    ] == [
        "rms_norm_fwd/nvidia_h200.json",
        "rms_norm_fwd/nvidia_h200_nvl.json",
        "rms_norm_fwd/nvidia_h200_mig_1g_18gb+9fc9504a1165.json",
        "rmsnorm+ca1983a4e2c6/amd_instinct_mi300x+7afa9e384ea3.json",
    ]


# --- updates ---


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
    assert report.path == store.path_for(KERNEL, H200.name)
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
        data, inode = store.path_for(KERNEL, H200.name).read_bytes(), store.path_for(KERNEL, H200.name).stat().st_ino
        report = updated(store.update(KERNEL, H200, changes(*new)))
        assert store.path_for(KERNEL, H200.name).read_bytes() == data
        assert store.path_for(KERNEL, H200.name).stat().st_ino == inode
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
        paths = [each.path_for(KERNEL, H200.name) for each in (store, other)]
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
    data = store.path_for(KERNEL, H200.name).read_bytes()
    for bad in (
        row({"cols": 1}, speed_up=float("nan")),
        row({"cols": float("inf")}),
        row({"cols": "\ud800"}),
        row({"cols": object()}),  # type: ignore[dict-item]
        row({"cols": 1}, measured_at="today"),
        row({"cols": 1}, note="x" * 2000),
    ):
        assert refused(store.update(KERNEL, H200, changes(bad))).code in {"wrong_type", "unwritable"}
        assert store.path_for(KERNEL, H200.name).read_bytes() == data


# --- what cannot be used ---


def put(store: Store, data: bytes) -> Path:
    """Write the file of the sample kernel and device by hand."""
    path = store.path_for(KERNEL, H200.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_no_store_and_no_file_are_no_refusal(tmp_path: Path) -> None:
    """A kernel that was never tuned has no file; nothing is made by reading."""
    store = Store(tmp_path / "committed_configs")
    assert store.read(KERNEL, H200) is None
    assert store.read_all() == Contents()
    assert not store.root.exists()


@pytest.mark.parametrize("data", [b"", b"{", b"<<<<<<< HEAD\n", encode(file(row({"a": 1}), kernel="other"))])
def test_a_refused_file_is_never_overwritten(tmp_path: Path, data: bytes) -> None:
    """What somebody wrote by hand stays until they have looked at it."""
    store = Store(tmp_path)
    path = put(store, data)
    reading, updating = (
        refused(store.read(KERNEL, H200)),
        refused(store.update(KERNEL, H200, changes(row({"cols": 1})))),
    )
    assert reading == updating
    assert path.read_bytes() == data


@pytest.mark.parametrize(
    "change", [{"vendor": "amd"}, {"name": "NVIDIA H200 NVL"}, {"architecture": "sm_100"}, {"compute_units": 114}]
)
def test_another_device_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    """A file that was copied, or that another device of this name measured, is told by what differs."""
    store = Store(tmp_path)
    put(store, encode(structs.replace(file(row({"a": 1})), device=structs.replace(H200, **change))))
    found = refused(store.read(KERNEL, H200))
    assert found.code == "other_device"
    assert all(name in found.text for name in change)


def test_another_kernel_is_refused(tmp_path: Path) -> None:
    """A renamed kernel does not take the configs of its old name."""
    store = Store(tmp_path)
    put(store, encode(file(row({"a": 1}), kernel="layer_norm_fwd")))
    found = refused(store.read(KERNEL, H200))
    assert found.code == "other_kernel"
    assert "layer_norm_fwd" in found.text


def fifo(path: Path) -> None:
    """Put a pipe that nobody writes."""
    os.mkfifo(path)


def loop(path: Path) -> None:
    """Put a link to itself."""
    path.symlink_to(path.name)


def dangling(path: Path) -> None:
    """Put a link to nothing."""
    path.symlink_to("nothing")


def endless(path: Path) -> None:
    """Put a file that never ends."""
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [fifo, loop, dangling, endless, Path.mkdir])
def test_what_is_no_file_is_refused(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """A pipe does not block, a link to itself or to nothing is told, and an update leaves it alone."""
    store = Store(tmp_path)
    path = store.path_for(KERNEL, H200.name)
    path.parent.mkdir()
    make(path)
    mode = path.lstat().st_mode
    assert refused(store.read(KERNEL, H200)).code == "unreadable"
    assert refused(store.update(KERNEL, H200, changes(row({"a": 1})))).code == "unreadable"
    assert path.lstat().st_mode == mode
    assert len(store.read_all().refusals) == 1


@pytest.mark.parametrize("where", ["root", "folder"])
def test_a_file_in_place_of_a_folder_is_refused(tmp_path: Path, where: str) -> None:
    """Neither reading nor updating raises."""
    store = Store(tmp_path / "committed_configs")
    path = store.path_for(KERNEL, H200.name)
    (store.root if where == "root" else path.parent).parent.mkdir(exist_ok=True)
    (store.root if where == "root" else path.parent).write_text("x")
    assert refused(store.read(KERNEL, H200)).code == "unreadable"
    assert refused(store.update(KERNEL, H200, changes(row({"a": 1})))).code in {"unreadable", "unwritable"}
    assert store.read_all().refusals


def test_read_all_finds_what_nobody_reads(tmp_path: Path) -> None:
    """Files in the wrong place are refused; good ones, hidden ones and a README are not."""
    store = Store(tmp_path)
    updated(store.update(KERNEL, H200, changes(row({"a": 1}))))
    good = store.path_for(KERNEL, H200.name)
    data = good.read_bytes()
    for name in ("top.json", f"{KERNEL}/nvidia_a100.json", f"{KERNEL}/nvidia_h200.json.orig", "other/nvidia_h200.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    (tmp_path / KERNEL / "deeper" / "still").mkdir(parents=True)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "bad.json").write_text("{")
    (tmp_path / "README.md").write_text("x")
    (tmp_path / ".gitignore").write_text("x")
    contents = store.read_all()
    assert list(contents.files) == [good]
    assert {(str(Path(item.path).relative_to(tmp_path)), item.code) for item in contents.refusals} == {
        ("top.json", "misplaced"),
        (f"{KERNEL}/nvidia_a100.json", "other_device"),
        (f"{KERNEL}/nvidia_h200.json.orig", "misplaced"),
        (f"{KERNEL}/deeper", "misplaced"),
        ("other/nvidia_h200.json", "other_kernel"),
        ("bad/bad.json", "not_json"),
    }


def test_a_file_that_others_can_write_steers_no_production(tmp_path: Path) -> None:
    """Where files steer production, the file and its folders must be the user's own; a test run takes them."""
    root = tmp_path / "committed_configs"
    trusting, store = Store(root), Store(root, steers_production=True)
    updated(trusting.update(KERNEL, H200, changes(row({"a": 1}))))
    path = store.path_for(KERNEL, H200.name)
    for place in (path, path.parent, root):
        place.chmod(0o755 if place.is_dir() else 0o644)
    assert isinstance(store.read(KERNEL, H200), CommittedFile)
    for place in (path, path.parent, root):
        for bit in (stat.S_IWGRP, stat.S_IWOTH):
            mode = stat.S_IMODE(place.stat().st_mode)
            place.chmod(mode | bit)
            assert refused(store.read(KERNEL, H200)).code == "untrusted"
            assert isinstance(trusting.read(KERNEL, H200), CommittedFile)
            place.chmod(mode)
    assert isinstance(store.read(KERNEL, H200), CommittedFile)


def test_a_file_of_another_user_steers_no_production(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root's files are trusted, those of a third user are not."""
    store = Store(tmp_path / "committed_configs", steers_production=True)
    umask = os.umask(0o022)
    updated(store.update(KERNEL, H200, changes(row({"a": 1}))))
    os.umask(umask)
    me = os.geteuid()
    if me == 0:
        for place in (store.root, store.path_for(KERNEL, H200.name).parent, store.path_for(KERNEL, H200.name)):
            os.chown(place, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    found = refused(store.read(KERNEL, H200))
    assert found.code == "untrusted"
    assert "belongs to user" in found.text


UNPRIVILEGED = """
import os, sys
from committed_samples import H200, changes, row
from pathlib import Path
from pytest_kernelqual.committed.store import Store
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
store = Store(Path(sys.argv[1]))
print("read:", store.read("rms_norm_fwd", H200))
print("all:", *map(str, store.read_all().refusals))
print("update:", store.update("rms_norm_fwd", H200, changes(row({"cols": 2}))))
"""


@pytest.mark.parametrize("what", ["root", "folder", "file", "unreadable"])
def test_without_permission_nothing_is_lost(what: str) -> None:
    """A read-only folder or file, and one that cannot be read, are one line each; the file stays."""
    with tempfile.TemporaryDirectory() as base:
        Path(base).chmod(0o755)
        store = Store(Path(base) / "committed_configs")
        updated(store.update(KERNEL, H200, changes(row({"cols": 1}))))
        path = store.path_for(KERNEL, H200.name)
        (store.root / LOCK_FILE).touch()  # some versions of filelock remove it
        for place in (store.root, path.parent, path, store.root / LOCK_FILE):
            place.chmod(0o777 if place.is_dir() else 0o666)
        data = path.read_bytes()
        place, mode = {
            "root": (store.root, 0o555),
            "folder": (path.parent, 0o555),
            "file": (path, 0o444),
            "unreadable": (path, 0o000),
        }[what]
        if what == "root":
            (store.root / LOCK_FILE).unlink()
        place.chmod(mode)
        told = subprocess.run(
            [sys.executable, "-c", UNPRIVILEGED, str(store.root)],
            capture_output=True, text=True, check=False, cwd=base,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent)])},
        )  # fmt: skip
        place.chmod(0o777)
        assert told.returncode == 0, told.stderr
        read, every, update = told.stdout.splitlines()
        assert ("cannot be read" in read) == ("cannot be read" in every) == (what == "unreadable")
        assert "UpdateReport" not in update
        assert str(path) in update
        assert path.read_bytes() == data
        assert [item.name for item in path.parent.iterdir()] == [path.name]


def test_the_file_is_what_its_schema_says(tmp_path: Path) -> None:
    """The file on disk is canonical, with one field for each fact, and nothing else is left in its folder."""
    store = Store(tmp_path)
    updated(store.update(KERNEL, H200, changes(row({"cols": 1}))))
    path = store.path_for(KERNEL, H200.name)
    plain = json.loads(path.read_bytes())
    assert list(plain) == ["device", "kernel", "rows", "schema", "space", "toolchain"]
    assert list(plain["rows"][0]) == [
        "cache", "config", "evidence", "fixed_output", "key", "measured_at", "method", "output",
        "speed_up", "speed_up_samples", "times_us",
    ]  # fmt: skip
    assert encode(canonical(stored(store))) == path.read_bytes()
    assert list(path.parent.iterdir()) == [path]
