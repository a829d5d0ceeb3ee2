"""The picture of a terminal in the README, of a run of `docs/start.md`; `python tests/terminal_picture.py` draws it."""

import re
import tempfile
from html import unescape
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

FILE = Path(__file__).parent.parent / "docs" / "images" / "terminal.svg"
WIDTH = 110
# What the picture of another machine would show otherwise.
_LEFT_OUT = ("platform ", "rootdir: ", "plugins: ", "benchmark: ", "report: /", "kernelqual: device")


def draw(text: str) -> str:
    """Return the picture of what a run printed, colours included."""
    plain = re.compile(r"\x1b\[[0-9;]*m")
    kept = [line for line in text.splitlines() if not plain.sub("", line).startswith(_LEFT_OUT)]
    console = Console(record=True, width=WIDTH, force_terminal=True, file=Path("/dev/null").open("w"))  # noqa: SIM115
    console.print(Text.from_ansi("$ pytest --kernelqual\n" + "\n".join(kept)))
    svg = console.export_svg(title="pytest --kernelqual", theme=MONOKAI, unique_id="terminal")
    # No font is fetched: what draws it takes its own.
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL).replace("Fira Code", "monospace")


def text_of(svg: str) -> str:
    """Return the text of a picture, by lines."""
    lines: dict[str, str] = {}
    for line, text in re.findall(r'<text [^>]*clip-path="url\(#terminal-line-(\d+)\)"[^>]*>(.*?)</text>', svg):
        lines[line] = lines.get(line, "") + unescape(text).replace("\xa0", " ")
    return "\n".join(lines.values())


if __name__ == "__main__":
    from test_start import story  # it reads the page, which a test of it does too

    with tempfile.TemporaryDirectory() as folder:
        _, printed = next(story(Path(folder), "--color=yes", columns=WIDTH))
    FILE.write_text(draw(printed))
