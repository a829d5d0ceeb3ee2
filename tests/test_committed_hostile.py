"""A folder of committed configs that somebody else has filled: each entry is told once, and all else goes on."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from committed_runs import agree, chosen, commit, declared, model, project, rows_of, verdicts_of
from msgspec import structs
from test_xdist import XDIST

from pytest_kernelqual.committed.names import folder_name

BACK = "a link that leads back to a folder above it; remove it"
NOWHERE = "nothing reads it: committed configs are in <kernel>/<device>.json; remove or rename it"

# What the end of the run tells: pytest makes no item of these.
AT_THE_END: dict[str, tuple[Callable[[Path], object], str]] = {
    "one/pipe.json": (os.mkfifo, "it is no regular file"),
    "one/self.json": (lambda path: path.symlink_to("self.json"), "cannot be read: Too many levels of symbolic links"),
    "one/nowhere.json": (lambda path: path.symlink_to("nothing"), "a link that leads nowhere; remove it"),
    "one/folder.json": (Path.mkdir, NOWHERE),
    "one/loop": (lambda path: path.symlink_to("."), NOWHERE),
    "one/elsewhere": (lambda path: path.symlink_to("../two"), NOWHERE),
    "back": (lambda path: path.symlink_to(".."), BACK),
    "self": (lambda path: path.symlink_to("self"), "nothing reads it"),
    "one/a\nb.json": (Path.touch, "Expecting value"),
    "one/\u202eabc.json": (Path.touch, "Expecting value"),
    "one/\udcff.json": (Path.touch, "Expecting value"),
}


def huge(path: Path) -> None:
    """Make a file of many bytes that the disk does not hold."""
    path.touch()
    os.truncate(path, 1 << 40)


BY_ITEMS: dict[str, tuple[Callable[[Path], object], str]] = {
    "one/huge.json": (huge, "has more than 4194304 bytes"),
    "one/deep.json": (lambda path: path.write_text("[" * 100_000), "nested deeper than 16"),
    "one/bom.json": (lambda path: path.write_bytes(b"\xef\xbb\xbf{}"), "byte order mark; save it as UTF-8 without one"),
    "one/utf16.json": (lambda path: path.write_text("{}", encoding="utf-16"), "not UTF-8 at byte 0"),
    "one/a::b.json": (lambda path: path.write_text("{}"), "schema None is not"),
    f"one/{'x' * 200}.json": (lambda path: path.write_text("{}"), "schema None is not"),
    "build/notes.txt": (Path.touch, NOWHERE),
    ".git/x.json": (Path.touch, ""),
}


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Return a project whose folder holds all of it beside one good file, and files of names that mean harm."""
    folder = project(tmp_path / "project", {"one": declared("a"), "two": declared("a")})
    good = commit(folder, "one", chosen("a"))
    commit(folder, "two", chosen("a"))
    root = good.parent.parent
    for name, (make, _) in {**AT_THE_END, **BY_ITEMS}.items():
        (root / name).parent.mkdir(exist_ok=True)
        make(root / name)
    for kernel in ("..", "../../etc/passwd", "con", "One", "one\0", "\u202eone"):
        plain = {**json.loads(good.read_text()), "kernel": kernel}
        (root / folder_name(kernel)).mkdir()
        (root / folder_name(kernel) / good.name).write_text(json.dumps(plain))
    return folder


@pytest.mark.parametrize("arguments", [(), (*XDIST, "-n", "2")])
def test_a_hostile_folder(hostile: Path, arguments: tuple[str, ...]) -> None:
    """No traceback, no endless walk, one plain reason an entry; the good rows and all candidates are fine."""
    ended = model(hostile, *arguments)
    assert ended.code == 1
    assert "Traceback" not in ended.text
    assert "INTERNALERROR" not in ended.text
    assert {name for name, verdict in verdicts_of(ended).items() if verdict == "ok"} == {
        f"{kernel}::test_committed[a-STUB_GPU]" for kernel in ("one", "two")
    }
    assert all(case.passed for case in ended.cases.values())
    found = {name.removeprefix("committed_configs/"): one for name, one in rows_of(ended).items() if "::file" in name}
    for name, (_, told) in BY_ITEMS.items():
        assert (f"{name}::file" in found) == bool(told), name
        assert not told or told in found[f"{name}::file"].reasons[0]
    verdicts = {one.verdict for name, one in found.items() if name.removesuffix("::file") not in BY_ITEMS}
    assert verdicts == {"orphan"}
    assert len(found) == len(BY_ITEMS) - 1 + 6
    problems = [line for line in ended.because.splitlines() if "committed_configs/" in line]
    assert len(problems) == len(AT_THE_END)
    for name, (_, reason) in AT_THE_END.items():
        (line,) = [line for line in problems if f"committed_configs/{ascii(name)[1:-1]}: " in line]
        assert reason in line
    agree(ended)


def test_rows_of_any_kind_and_number(tmp_path: Path) -> None:
    """Keys may be called what they like, and thousands of rows do not fill the screen."""
    folder = project(tmp_path, {"one": declared("a")})
    names: list[dict[str, Any]] = [
        {"self": 1}, {"interpreter": 1}, {"id": None, "axes": [1, [True]]}, {"cls": "\u202e\n"}, {"n": "a" * 200}, {},
    ]  # fmt: skip
    keys = [*names, *({"n": f"k{number}"} for number in range(2000))]
    commit(folder, "one", chosen("a"), *(structs.replace(chosen("a"), key=key) for key in keys))
    ended = model(folder)
    found = [one for kernel in ended.document.kernels for one in kernel.committed if "::file" in one.nodeid]
    assert len(found) == len(keys)
    assert len(ended.text.splitlines()) < 250
    assert "and 1986 more" in ended.text
    assert "more, which the report tells" in ended.text
    agree(ended)


def test_a_folder_that_leads_nowhere_is_no_empty_one(tmp_path: Path) -> None:
    """Nobody takes a broken link for a project without committed configs."""
    folder = project(tmp_path, {"one": declared("a")})
    (folder / "committed_configs").rmdir()
    (folder / "committed_configs").symlink_to("nothing")
    ended = model(folder)
    assert ended.code == 1
    assert "FAILED kernelqual::session - " in ended.text
    assert "/committed_configs: a link that leads nowhere; remove it" in ended.because


@pytest.mark.parametrize("link", [True, False])
def test_a_folder_elsewhere(tmp_path: Path, *, link: bool) -> None:
    """Committed configs may lie behind a link, or outside of the root folder, as the ini value says."""
    (tmp_path / "outside").mkdir()
    folder = project(tmp_path / "project", {"one": declared("a")})
    path = commit(folder, "one", chosen("a"), chosen("gone"))
    path.parent.parent.rename(tmp_path / "outside" / "shared")
    if link:
        (folder / "committed_configs").symlink_to(tmp_path / "outside" / "shared")
    else:
        (folder / "pytest.ini").write_text(
            "[pytest]\nkernelqual_paths = qual_stub.py ../outside/shared\nkernelqual_committed = ../outside/shared\n"
        )
    ended = model(folder)
    assert sorted(verdicts_of(ended).values()) == ["ok", "orphan"]
    assert "kernelqual::session" not in ended.text
    assert ended.code == 1
