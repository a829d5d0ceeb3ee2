"""`docs/start.md` as a newcomer follows it: what it says to type does what it says."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from terminal_picture import FILE, text_of

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "start.md").read_text()
FILES = re.findall(r"^```python\n# (\S+\.py)\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
SPEC = "kernels/qual_scale_rows.py"
TESTS = "kernels/test_scale_rows_configs.py"


def run(folder: Path, *arguments: str, columns: int = 400, visible: str = "") -> tuple[int, str]:
    """Run pytest on the files of the page, by default on a machine without a GPU, and with this plugin alone."""
    told = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "TRITON_"))}
    command = [sys.executable, "-m", "pytest", "--kernelqual", "-p", "pytest_kernelqual.plugin", *arguments]
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "CUDA_VISIBLE_DEVICES": visible, "COLUMNS": f"{columns}"}
    done = subprocess.run(
        command,
        cwd=folder,
        env={**told, **alone},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def story(folder: Path, *arguments: str, columns: int = 400, visible: str = "") -> Iterator[tuple[int, str]]:
    """Write the kernel and the first spec, and run it; then the second spec, and run that."""
    for name, text in FILES:
        if name not in (SPEC, TESTS):
            write(folder, name, text)
    for spec in (text for name, text in FILES if name == SPEC):
        write(folder, SPEC, spec)
        yield run(folder, *arguments, columns=columns, visible=visible)


def shown(name: str) -> list[str]:
    """Return the lines that the page shows of a run."""
    (block,) = re.findall(rf"^<!-- output: {name} -->\n```text\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
    return [line for line in block.splitlines() if line]


def write(folder: Path, name: str, text: str) -> None:
    """Write one file of the page."""
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def missing(name: str, text: str) -> list[str]:
    """Return the lines of the page that are no line of the run, nor the beginning of one."""
    lines = [line.strip("= ") for line in text.splitlines()]
    return [one for one in shown(name) if not any(line.startswith(one.strip()) for line in lines)]


def differences(runs: Iterable[tuple[int, str]]) -> Iterator[str]:
    """Yield the output of each run that is not as the page shows it."""
    for (code, text), (name, expected) in zip(runs, (("the first run", 1), ("the second run", 0)), strict=True):
        if code != expected or missing(name, text):
            yield f"{name}: exit status {code}, without {missing(name, text)}\n{text}"


def test_the_first_run_fails_as_shown_and_the_second_passes(tmp_path: Path) -> None:
    """The page says what is typed, and what is seen; so does the picture in the README."""
    assert "```sh\npytest --kernelqual\n```" in PAGE
    assert list(differences(story(tmp_path))) == []
    drawn = [line.strip("= ") for line in text_of(FILE.read_text()).splitlines()]
    assert [one for one in shown("the first run")[2:5] if one not in drawn] == [], drawn


if __name__ == "__main__":  # on a GPU: `python tests/test_start.py`
    with tempfile.TemporaryDirectory() as made:
        there = list(differences(story(Path(made), "--kernelqual-device=cuda", visible="0")))
    sys.exit("\n".join(there) or 0)
