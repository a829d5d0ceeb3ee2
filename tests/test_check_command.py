"""`kernelqual check`: what can be told of committed files without pytest, torch or a GPU."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from committed_samples import H200, KERNEL, changes, many_rows, null_row, row
from hypothesis import given, settings
from msgspec import structs

from pytest_kernelqual.cli import main
from pytest_kernelqual.committed.checking import check
from pytest_kernelqual.committed.refusal import Refusal
from pytest_kernelqual.committed.schema import Row
from pytest_kernelqual.committed.store import Store

ONE = {"cols": 64}
FILE = f"{KERNEL}/nvidia_h200.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with one file that an update wrote."""
    root = tmp_path / "committed_configs"
    Store(root).update(KERNEL, H200, changes(row(ONE), null_row({"cols": 128})))
    return root


def rewrite(change: Callable[[str], str]) -> Callable[[Path], None]:
    """Return an edit by hand of the file."""

    def edit(root: Path) -> None:
        path = root / FILE
        path.write_text(change(path.read_text()))

    return edit


def add(name: str, text: str = "") -> Callable[[Path], None]:
    """Return a file put beside the others."""

    def edit(root: Path) -> None:
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)

    return edit


def _twice(text: str) -> str:
    plain = json.loads(text)
    return json.dumps({**plain, "rows": [plain["rows"][0], *plain["rows"]]})


def _unreadable(root: Path) -> None:
    (root / KERNEL / "gone.json").symlink_to("nowhere")


def _no_rows(root: Path) -> None:
    rewrite(lambda text: json.dumps({**json.loads(text), "rows": []}, indent=2, sort_keys=True) + "\n")(root)


FINDINGS = {
    "truncated": (rewrite(lambda text: text[:100]), FILE, "Expecting property name"),
    "minified": (rewrite(lambda text: json.dumps(json.loads(text))), FILE, "not in canonical form from line 1 on"),
    "blank line at the end": (rewrite(lambda text: text + "\n"), FILE, "not in canonical form from line "),
    "windows line ends": (rewrite(lambda text: text.replace("\n", "\r\n")), FILE, "not in canonical form from line 1"),
    "newer": (rewrite(lambda text: text.replace("configs/1", "configs/2")), FILE, "needs another version of the tool"),
    "foreign": (rewrite(lambda _: '{"a": 1}'), FILE, "is it another file?"),
    "merge conflict": (rewrite(lambda text: f"<<<<<<< ours\n{text}"), FILE, "marker <<<<<<< in line 1"),
    "unknown field": (rewrite(lambda text: text.replace('"kernel"', '"kernels"')), FILE, "unknown field `kernels`"),
    "a key twice": (rewrite(_twice), FILE, "repeats key"),
    "no rows": (_no_rows, FILE, "has no rows; remove it"),
    "another kernel": (rewrite(lambda text: text.replace(KERNEL, "softmax")), FILE, "belongs into folder 'softmax'"),
    "another device": (rewrite(lambda text: text.replace("NVIDIA H200", "NVIDIA H100")), FILE, "'nvidia_h100.json'"),
    "a way of timing that there is not": (
        rewrite(lambda text: text.replace('"method": "graph"', '"method": "guess"')),
        FILE,
        "method 'guess' is no way of timing; use 'graph' or 'events'",
    ),
    "no JSON file": (add(f"{KERNEL}/notes.txt"), f"{KERNEL}/notes.txt", "nothing reads it"),
    "a file in the root": (add("nvidia_h200.json"), "nvidia_h200.json", "nothing reads it"),
    "a link to nowhere": (_unreadable, f"{KERNEL}/gone.json", "a link that leads nowhere"),
}


@pytest.mark.parametrize("name", FINDINGS)
def test_each_finding_is_one_line(folder: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With the path, the reason, and exit status 1; nothing else changes a thing."""
    edit, where, why = FINDINGS[name]
    edit(folder)
    assert main(["check", str(folder)]) == 1
    told = capsys.readouterr()
    finding, summary = told.out.splitlines()
    assert finding.startswith(f"{folder / where}: ")
    assert why in finding
    assert summary.startswith("1 finding; ")
    assert told.err == ""


@pytest.mark.parametrize(
    ("name", "values", "told"),
    [
        ("num_warps", ["8", True, 8.5, 8.0, -1, 0, 7, 128, None], "is no power of two from 1 to 64"),
        ("num_ctas", ["1", False, 0, 3, 32, None], "is no power of two from 1 to 16"),
        ("num_stages", ["3", True, 2.0, -1, 101, None], "is no whole number from 0 to 100"),
        ("maxnreg", ["64", True, 64.0, 0, 257], "is no whole number from 1 to 256"),
    ],
)
def test_launch_options_have_types_and_ranges(
    folder: Path, name: str, values: list[Any], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In an otherwise canonical file, which the plugin refuses by the same line."""
    written = (folder / FILE).read_text()
    for value in values:
        (folder / FILE).write_text(written.replace('"num_warps": 8', f'"{name}": {json.dumps(value)}'))
        assert main(["check", str(folder)]) == 1
        finding, _ = capsys.readouterr().out.splitlines()
        assert f"row 1, key {ONE}: config value {name}={value!r} {told}" in finding
        refused = Store(folder).read(KERNEL, H200)
        assert (isinstance(refused, Refusal), str(refused)) == (True, finding)


@pytest.mark.parametrize("option", ["num_warps=1", "num_stages=0", "num_ctas=16", "maxnreg=256", "maxnreg=null"])
def test_launch_options_that_a_launch_can_have_are_no_findings(
    folder: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those at the ends of their ranges, and no limit of registers."""
    name, _, value = option.partition("=")
    text = (folder / FILE).read_text()
    (folder / FILE).write_text(text.replace('"num_warps": 8', f'"{name}": {value}'))
    assert main(["check", str(folder)]) == 0, capsys.readouterr().out


def test_an_empty_folder_holds_nothing_to_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Which is said; notes are nothing to check either."""
    for _ in range(2):
        assert main(["check", str(tmp_path)]) == 0
        assert capsys.readouterr().out == f"{tmp_path} holds no committed configs: there is nothing to check\n"
        add("README.md")(tmp_path)


def test_findings_of_several_files_are_all_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In order of the paths."""
    for name in ("truncated", "no JSON file", "a file in the root"):
        FINDINGS[name][0](folder)
    assert main(["check", str(folder)]) == 1
    *findings, summary = capsys.readouterr().out.splitlines()
    paths = [line.partition(": ")[0] for line in findings]
    assert paths == sorted(
        str(folder / FINDINGS[name][1]) for name in ("truncated", "no JSON file", "a file in the root")
    )
    assert summary == "3 findings; 0 usable files with 0 rows"


def test_a_good_folder_has_no_findings(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Notes in Markdown, hidden files and a second device of the same name are no findings."""
    add("README.md")(folder)
    add(".gitkeep")(folder)
    Store(folder).update(KERNEL, structs.replace(H200, compute_units=66), changes(row(ONE)))
    assert main(["check", str(folder)]) == 0
    assert capsys.readouterr().out == "0 findings; 2 usable files with 3 rows\n"


def test_a_kernel_without_a_file_for_a_device_of_others(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each place where one is missing, once; a file that is refused is not missing."""
    other = structs.replace(H200, name="NVIDIA A100")
    for device in (H200, other):
        Store(folder).update("softmax", device, changes(row(ONE)))
    assert main(["check", str(folder)]) == 1
    told, summary = capsys.readouterr().out.splitlines()
    assert told == (
        f"{folder / KERNEL / 'nvidia_a100.json'}: is missing, and other kernels have a file for NVIDIA A100; "
        "run --kernelqual-update there, or remove the files of the device"
    )
    assert summary == "1 finding; 3 usable files with 4 rows"
    add(f"{KERNEL}/nvidia_a100.json", "{}")(folder)
    assert main(["check", str(folder)]) == 1
    assert "is missing" not in capsys.readouterr().out


@settings(max_examples=25, deadline=None)
@given(many_rows)
def test_what_an_update_writes_has_no_findings(tmp_path_factory: pytest.TempPathFactory, rows: list[Row]) -> None:
    """Whatever the rows hold."""
    root = tmp_path_factory.mktemp("store")
    Store(root).update(KERNEL, H200, changes(*rows))
    found = check(root)
    assert (found.findings, found.rows) == ([], len(rows))


def test_the_folder_of_this_repository_is_the_default() -> None:
    """It has no findings, and neither pytest, torch nor triton is imported."""
    script = (
        "import sys; from pytest_kernelqual.cli import main; status = main(['check']); "
        "assert not {'pytest', 'torch', 'triton'} & set(sys.modules); sys.exit(status)"
    )
    root = Path(__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("0 findings; ")


@pytest.mark.parametrize("given_path", ["nowhere", "file", "nul\0"])
def test_a_path_that_is_no_folder_exits_with_2(
    tmp_path: Path, given_path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An empty answer would look like a pass."""
    (tmp_path / "file").write_text("{}")
    assert main(["check", str(tmp_path / given_path)]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("kernelqual: error: cannot read '")
    assert told.err.count("\n") == 1
