"""One self-contained HTML file of any number of reports: it asks no network and runs no text of a report."""

import gzip
import json
import re
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from typing import Any

import jinja2

from pytest_kernelqual.errors import DocumentError
from pytest_kernelqual.judge.verdict import SEVERITY
from pytest_kernelqual.model.outcome import EVIDENCE, OUTCOMES
from pytest_kernelqual.report.html_data import report_data
from pytest_kernelqual.report.named import Named

MOST_BYTES = 10_000_000
"""A page never grows larger: where it would, long texts are cut shorter, and the page says so."""

_SCRIPTS = ("cells.js", "detail.js", "matrix.js", "speed.js", "speed_plots.js", "report.js")
_LONGEST_TEXTS = (4000, 400, 100)
_ASSETS = files("pytest_kernelqual.report") / "page"
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def render(reports: Sequence[Named]) -> str:
    """Return the page of reports, in ASCII.

    Raises:
        DocumentError: The reports are too many for one page.
    """

    def data(limit: int) -> dict[str, Any]:
        return {
            "outcomes": OUTCOMES,
            "evidence": EVIDENCE,
            "severity": SEVERITY,
            "reports": [report_data(report.name, report.document, limit) for report in reports],
        }

    return page("report.html.j2", _SCRIPTS, data)


def page(template: str, scripts: Sequence[str], data: Callable[[int], Mapping[str, Any]]) -> str:
    """Return the page of a template whose `scripts` show `data`, made for the longest text that the page may hold.

    Raises:
        DocumentError: There is too much data for one page.
    """
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        loader=jinja2.FunctionLoader(_asset),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = _Inline(_asset("uPlot.min.css") + _asset("page.css"))
    script = _Inline("\n".join(map(_asset, ("uPlot.iife.min.js", "base.js", "plots.js", *scripts))))
    for longest in _LONGEST_TEXTS:
        held = data(longest)
        text = environment.get_template(template).render(
            held, longest=longest, cut=longest != _LONGEST_TEXTS[0], style=style, script=script, packed=_packed(held)
        )
        text = _NOT_ASCII.sub(lambda found: f"&#{ord(found[0])};", text)
        if len(text) <= MOST_BYTES:
            return text
    raise DocumentError(f"the page would have {len(text):,} bytes, more than {MOST_BYTES:,}; give fewer reports")


class _Inline(str):
    """Text of ours that goes into the page as it is, and the source by which the page's policy lets it run."""

    __slots__ = ()

    def __html__(self) -> str:
        return str(self)

    @property
    def source(self) -> str:
        return f"'sha256-{b64encode(sha256(self.encode()).digest()).decode()}'"


def _asset(name: str) -> str:
    """Return a file of the page; what is not ASCII in scripts is written as escapes."""
    text = (_ASSETS / name).read_text("utf-8")
    return _NOT_ASCII.sub(lambda found: f"\\u{ord(found[0]):04x}", text) if name.endswith(".js") else text


def _packed(held: Mapping[str, Any]) -> str:
    """Return data in a form in which no text of it is part of the page: base64 of compressed JSON."""
    text = json.dumps(held, allow_nan=False, separators=(",", ":"))
    return b64encode(gzip.compress(text.encode("ascii"), 6, mtime=0)).decode("ascii")
