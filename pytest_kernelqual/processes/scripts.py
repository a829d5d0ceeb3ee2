"""Run a script that shows a fault, and run it under NVIDIA's sanitizer."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

_SANITIZER = "compute-sanitizer"
_TOOLS = ("memcheck", "racecheck")
_OWN_STATUSES = (0, 1, 2)
"""Those of the scripts; an error of Python has the status 1 too."""
_HOME = "/usr/local/cuda"
_SUMMARY = re.compile(r"^=+ ((?:ERROR|RACECHECK) SUMMARY: .*)$", re.MULTILINE)


class Shown(NamedTuple):
    """What a script showed."""

    reproduced: bool
    status: str
    text: str


def run_script(script: Path, limit_s: float) -> Shown:
    """Run a script in a process of its own; where the launch ended the process, by a signal say, it shows that."""
    try:
        done = subprocess.run(  # noqa: S603 - our own script
            [sys.executable, str(script)],
            cwd=script.parent,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        return Shown(reproduced=False, status=f"no end within {limit_s:g} s", text=_text(late.stdout or b""))
    text = _text(done.stdout)
    return Shown(
        reproduced=done.returncode not in _OWN_STATUSES or (done.returncode == 1 and "REPRODUCED" in text),
        status=f"signal {-done.returncode}" if done.returncode < 0 else f"exit status {done.returncode}",
        text=text,
    )


def sanitize(script: Path, *arguments: str, limit_s: float) -> list[str]:
    """Run a script under each tool of the sanitizer, keep what they print beside it, and return a line for each."""
    program = find_sanitizer()
    if program is None:
        return [f"sanitizer: not run: {_SANITIZER} is neither on PATH nor in $CUDA_HOME/bin or {_HOME}/bin"]
    lines = []
    for tool in _TOOLS:
        command = [program, "--tool", tool, sys.executable, str(script), *arguments]
        try:
            done = subprocess.run(  # noqa: S603 - NVIDIA's tool on our own script
                command,
                cwd=script.parent,
                # Each tensor with memory of its own, so that its end is known.
                env={**_environment(), "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=limit_s,
                check=False,
            )
            text, ended = _text(done.stdout), f"exit status {done.returncode}"
        except subprocess.TimeoutExpired as late:
            text, ended = _text(late.stdout or b""), f"no end within {limit_s:g} s"
        except OSError as error:
            text, ended = "", f"cannot be run: {error.strerror}"
        log = script.with_name(f"sanitizer-{tool}.txt")
        log.write_text(text, encoding="utf-8")
        found = _SUMMARY.findall(text)
        lines.append(f"sanitizer: {tool}: {found[-1] if found else ended} (all of it: {log.name})")
    return lines


def find_sanitizer() -> str | None:
    """Return the sanitizer's path; None where the machine has none."""
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), _HOME]
    places = os.pathsep.join([os.environ.get("PATH", ""), *(f"{home}/bin" for home in homes if home)])
    return shutil.which(_SANITIZER, path=places)


def _environment() -> dict[str, str]:
    """Return this process's environment; the script must find the modules that this process finds."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}  # noqa: PTH109 - as Python resolves ""


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
