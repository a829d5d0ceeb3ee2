"""`docs/options.md`, made of what the plugin declares; `python tests/options_reference.py` writes it anew."""

from pathlib import Path

import pytest

from pytest_kernelqual.plugin import pytest_addoption

FILE = Path(__file__).parent.parent / "docs" / "options.md"

_HEAD = """# Options

What `pytest --help` shows, and the ini value that says the same for every run.

* An option wins over its ini value.
* A [spec's own](declaring.md#options) `seeds`, `profiles`, `repeats` and time limits win over both.
* A relative `--kernelqual-json` counts from the current folder, its ini twin from the root folder.
* Write values with `=`: pytest takes a path that stands alone for where the root folder is.
* A value that cannot be used is one error that shows it, with the limit; the exit status is 4.

| option | ini | meaning |
| --- | --- | --- |
"""

_TAIL = """
By default `kernelqual_paths` is `kernels committed_configs` and `kernelqual_files` is `qual_*.py`.

```ini
[pytest]
kernelqual_paths = src/kernels committed_configs
kernelqual_files = qual_*.py
kernelqual_fail_on = out_of_resources compile_error
kernelqual_require_evidence = identical_order
```

Options of pytest work as ever: `-k`, `-m`, `-x`, `--lf`, `-n`, `--collect-only`, `--junitxml`, `--durations`.
"""


def render() -> str:
    """Return the page."""
    parser = pytest.Parser(_ispytest=True)
    pytest_addoption(parser)
    rows, twins = [], set()
    for option in parser.getgroup("kernelqual").options:
        (name,) = option.names()
        attributes = option.attrs()
        metavar = attributes.get("metavar")
        meaning, _, ini = str(attributes["help"]).removesuffix(")").partition(" (ini: ")
        twins.add(ini)
        rows.append(_row(f"{name}={metavar}" if metavar else name, ini, meaning))
    rows += [_row("", ini, help_) for ini, (help_, *_) in parser._inidict.items() if ini not in twins]
    return f"{_HEAD}{''.join(rows)}{_TAIL}"


def _row(option: str, ini: str, meaning: str) -> str:
    return f"| {f'`{option}`' if option else ''} | {f'`{ini}`' if ini else ''} | {meaning} |\n"


if __name__ == "__main__":
    FILE.write_text(render())
