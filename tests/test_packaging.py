"""What is shipped, and that the documentation says what the code does."""

import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

import msgspec
import options_reference
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from pytest_kernelqual.model import record, target_record
from pytest_kernelqual.model.outcome import OUTCOMES, Evidence
from pytest_kernelqual.model.record import Diagnosis
from pytest_kernelqual.model.spec import _OPTIONS
from pytest_kernelqual.report import change, drift
from pytest_kernelqual.report.code_differences import CodeDifference, LaunchDifference, StageDifference
from pytest_kernelqual.report.explanation import Explanation

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
DOCS = sorted((ROOT / "docs").glob("*.md"))
OTHERS = [ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "docs" / "results" / "README.md"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
HEAVY = {"torch", "triton", "msgspec", "tabulate", "numpy"}
MAX_LINES = 400
SDIST = {"CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md"}
CODE = re.compile(r"^```.*?^```$", flags=re.MULTILINE | re.DOTALL)


def run(*command: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command as a user would, without what this process was told."""
    told = {name: value for name, value in os.environ.items() if name not in {"PYTEST_ADDOPTS", "TRITON_INTERPRET"}}
    return subprocess.run(
        command, cwd=cwd, env={**told, **environment}, capture_output=True, text=True, check=False, timeout=600
    )


def table_after(text: str, marker: str) -> Iterator[list[str]]:
    """Yield the cells of each row of the Markdown table that follows a line."""
    lines = text.split(marker, 1)[1].lstrip("\n").splitlines()
    for line in lines[lines.index(next(line for line in lines if line.startswith("| ---"))) + 1 :]:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split("|")]


def test_one_version_everywhere() -> None:
    """The package, the change log and the command agree on the version."""
    first = next(line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## "))
    assert first.split()[1] == PROJECT["version"] == version("pytest-kernelqual")
    told = run(sys.executable, "-m", "pytest_kernelqual", "--version")
    assert told.stdout.strip() == f"kernelqual {PROJECT['version']}"


def test_constraints_pin_every_requirement_within_its_range() -> None:
    """What the README's commands install is one tested set."""
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    pins = {canonicalize_name(name): pin for name, pin in (line.split("==") for line in lines)}
    required = [
        *PROJECT["dependencies"],
        *(item for extra in PROJECT["optional-dependencies"].values() for item in extra),
    ]
    for requirement in map(Requirement, required):
        pin = pins.get(canonicalize_name(requirement.name))
        assert pin is not None, f"{requirement.name} is not in constraints.txt"
        assert requirement.specifier.contains(pin), f"{requirement} does not allow the pin {pin}"


def test_readme_commands_are_written_once() -> None:
    """CI reads the two commands from the README, so that they cannot drift apart."""
    commands = re.findall(r"^<!-- command: (.+) -->\n```sh\n(.+)\n```$", README.read_text(), flags=re.MULTILINE)
    assert [name for name, _ in commands] == ["main job", "tests"]
    script = (ROOT / ".ci/run").read_text()
    for name, command in commands:
        assert f'readme_command "{name}"' in script
        assert command.startswith("pip install -c constraints.txt -e ")
    for file in (".ci/run", ".github/workflows/ci.yml"):
        assert "pip install -c constraints.txt -e" not in (ROOT / file).read_text()
    assert "run: .ci/run" in (ROOT / ".github/workflows/ci.yml").read_text()


def test_the_page_of_options_is_current() -> None:
    """It is written by `python tests/options_reference.py`."""
    assert options_reference.FILE.read_text() == options_reference.render()


def test_the_page_of_options_says_what_help_does() -> None:
    """Its table holds the options, ini values and texts of `pytest --help`, and no others."""
    shown = run(sys.executable, "-m", "pytest", "--help", COLUMNS="300").stdout
    group = shown.split("qualification of GPU kernel configs:\n", 1)[1].split("\n\n", 1)[0]
    expected = []
    for option, text in re.findall(r"^  (--\S+)\s+(\S.*)$", group, flags=re.MULTILINE):
        told, _, ini = text.removesuffix(")").partition(" (ini: ")
        expected.append([f"`{option}`", f"`{ini}`" if ini else "", told])
    inis = dict(re.findall(r"^  (kernelqual_\w+) \(\w+\):\s+(\S.*)$", shown, flags=re.MULTILINE))
    twins = {ini.strip("`") for _, ini, _ in expected}
    assert len(expected) > 5
    assert twins - {""} <= inis.keys()
    expected += [["", f"`{name}`", text] for name, text in inis.items() if name not in twins]
    assert list(table_after(options_reference.render(), "# Options")) == expected


def test_documents_name_every_outcome_in_order() -> None:
    """Whoever meets an outcome finds what it means."""
    text = (ROOT / "docs/outcomes.md").read_text()
    assert tuple(row[0].strip("`") for row in table_after(text, "<!-- outcomes -->")) == OUTCOMES
    headings = re.findall(r"^## `(\w+)`$", text, flags=re.MULTILINE)
    assert tuple(headings) == OUTCOMES


def test_reviewing_explains_every_kind_of_change() -> None:
    """Gravest first, and which of them are worse."""
    rows = [*table_after((ROOT / "docs/reviewing.md").read_text(), "<!-- kinds of changes -->")]
    assert tuple(row[0].strip("`") for row in rows) == change.KINDS
    assert tuple(row[0].strip("`") for row in rows if row[1] == "worse") == change.WORSE


def test_declaring_documents_every_option_of_a_spec() -> None:
    """Each keyword of `kernel_spec` has a row."""
    rows = table_after((ROOT / "docs/declaring.md").read_text(), "<!-- options of kernel_spec -->")
    assert {row[0].strip("`") for row in rows} == _OPTIONS


STRUCTS = [
    value
    for module in (record, target_record, drift, change)
    for value in vars(module).values()
    if isinstance(value, type) and issubclass(value, msgspec.Struct) and value.__module__ == module.__name__
]


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_report_documents_every_field(struct: type[Any]) -> None:
    """`docs/report.md` has a table for each struct of the report, with its fields in their order."""
    rows = table_after((ROOT / "docs/report.md").read_text(), f"<!-- fields of {struct.__name__} -->")
    assert [row[0].strip("`") for row in rows] == list(struct.__struct_fields__)


@pytest.mark.parametrize("struct", [Explanation, CodeDifference, LaunchDifference, StageDifference])
def test_candidates_documents_every_field(struct: type[Any]) -> None:
    """`docs/candidates.md` does so for what `kernelqual explain --format json` prints."""
    rows = table_after((ROOT / "docs/candidates.md").read_text(), f"<!-- fields of {struct.__name__} -->")
    assert [row[0].strip("`") for row in rows] == list(struct.__struct_fields__)


def test_report_documents_every_named_value() -> None:
    """Grades of evidence and diagnoses are explained."""
    text = (ROOT / "docs/report.md").read_text()
    assert [name for name in (*get_args(Evidence), *get_args(Diagnosis)) if f"`{name}`" not in text] == []


def test_links_resolve() -> None:
    """Every relative link leads to a file, and its fragment to a heading there."""
    links = [
        (file, link)
        for file in [README, *DOCS, *OTHERS]
        for link in re.findall(
            r"\]\(([^)]+)\)", re.sub(r"^```.*?^```$", "", file.read_text(), flags=re.MULTILINE | re.DOTALL)
        )
    ]
    assert len(links) > 5
    for file, link in links:
        if link.startswith("https://"):
            continue
        path, _, fragment = link.partition("#")
        target = (file.parent / path).resolve() if path else file
        assert target.is_file(), f"{file.name} links to {link}"
        if fragment:
            headings = re.findall(r"^#+ (.+)$", target.read_text(), flags=re.MULTILINE)
            slugs = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
            assert fragment in slugs, f"{file.name} links to {link}; headings: {sorted(slugs)}"


def test_troubleshooting_quotes_what_is_really_said() -> None:
    """A message that is searched for is found; `(...)` and `BLOCK` stand for what varies."""
    source = "".join(path.read_text() for path in sorted((ROOT / "pytest_kernelqual").rglob("*.py")))
    quotes = re.findall(r'\*"([^"]+)"\*', (ROOT / "docs" / "troubleshooting.md").read_text())
    assert len(quotes) > 5
    parts = [part.strip() for quote in quotes for part in re.split(r"\(\.\.\.\)|BLOCK", quote)]
    assert [part for part in parts if part not in source] == []


def test_the_readme_leads_to_every_document() -> None:
    """Nothing is written that nobody finds."""
    text = README.read_text()
    assert [file.name for file in [*DOCS, *OTHERS] if f"]({file.relative_to(ROOT)})" not in text] == []


def examples() -> list[Path]:
    """Return the documents that hold files: Python blocks whose first line is `# path`."""
    return [
        file for file in [README, *DOCS] if re.search(r"^```python\n# \S+\.py$", file.read_text(), flags=re.MULTILINE)
    ]


@pytest.mark.parametrize("document", examples(), ids=lambda path: path.name)
def test_examples_of_documents_qualify(document: Path, tmp_path: Path) -> None:
    """What a document shows works when it is typed in: every item passes, and something was compared."""
    blocks = re.findall(r"^```python\n# (\S+\.py)\n(.*?)^```$", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    for name, text in blocks:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    inis = re.findall(r"^```ini\n(.*?)^```$", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    (tmp_path / "pytest.ini").write_text("".join(inis) or "[pytest]\n")
    done = run(
        sys.executable, "-m", "pytest", "--kernelqual", "--kernelqual-device=interpreter", "--strict-markers",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "qualified-configurations.json").read_text())
    assert report["complete"] is True
    declared = {
        name
        for _, text in blocks
        for name in re.findall(r"^@kernel_spec\(.*?^def (\w+)", text, re.DOTALL | re.MULTILINE)
    }
    tried = {kernel["kernel"] for kernel in report["kernels"] for case in kernel["cases"] if case["candidates"]}
    assert declared <= tried
    assert report["controls"]["compared"] >= len(declared)


def test_no_module_is_long() -> None:
    """A module that passes the limit holds more than one thing."""
    lengths = {path: len(path.read_text().splitlines()) for path in (ROOT / "pytest_kernelqual").rglob("*.py")}
    assert len(lengths) > 20
    assert {str(path): length for path, length in lengths.items() if length > MAX_LINES} == {}


def test_loading_the_plugin_imports_nothing_heavy(tmp_path: Path) -> None:
    """A run without --kernelqual pays for the options alone."""
    program = (
        "import sys, pytest; status = pytest.main(['--collect-only', '-q', '-p', 'pytest_kernelqual.plugin']);"
        f"print('heavy:', sorted({HEAVY!r} & sys.modules.keys()), 'plugin' , 'pytest_kernelqual.plugin' in sys.modules)"
    )
    done = run(sys.executable, "-c", program, cwd=tmp_path, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    assert "heavy: [] plugin True" in done.stdout, done.stdout + done.stderr


def build(target: str, source: Path, folder: Path) -> Path:
    """Build a distribution of a source tree, and return its file."""
    done = run(sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder), cwd=source)
    assert done.returncode == 0, done.stderr
    (built,) = folder.iterdir()
    return built


def test_wheel_and_sdist_hold_the_package_and_nothing_else(tmp_path: Path) -> None:
    """What is installed is whole, typed, has the schema, and is found by pytest; the sdist makes the same wheel."""
    sdist = build("sdist", ROOT, tmp_path / "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    unpacked = tmp_path / f"pytest_kernelqual-{PROJECT['version']}"
    kept = {path.name for path in unpacked.iterdir()}
    assert kept == {"pytest_kernelqual", *SDIST, ".gitignore", "pyproject.toml", "PKG-INFO"}
    package = [path for path in (ROOT / "pytest_kernelqual").rglob("*") if path.is_file()]
    expected = {str(path.relative_to(ROOT)) for path in package if "__pycache__" not in path.parts}
    assert {"pytest_kernelqual/py.typed", "pytest_kernelqual/report/qualified-configurations.schema.json"} <= expected
    with (
        zipfile.ZipFile(build("wheel", ROOT, tmp_path / "wheel")) as wheel,
        zipfile.ZipFile(build("wheel", unpacked, tmp_path / "again")) as again,
    ):
        contents = {name: wheel.read(name) for name in wheel.namelist()}
        assert contents == {name: again.read(name) for name in again.namelist()}
    described = f"pytest_kernelqual-{PROJECT['version']}.dist-info/"
    assert {name for name in contents if not name.startswith(described)} == expected
    assert described + "licenses/LICENSE" in contents
    entry_points = contents[described + "entry_points.txt"].decode()
    assert "[pytest11]\nkernelqual = pytest_kernelqual.plugin" in entry_points
    assert "[console_scripts]\nkernelqual = pytest_kernelqual.cli:main" in entry_points
