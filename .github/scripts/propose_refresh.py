"""Open a pull request with the committed configs that a GPU machine has measured: `propose_refresh.py FOLDER GPU`.

FOLDER holds `committed_configs`, and the report of the run in `refresh`. A GPU has one branch and one open pull request
at most, which the newest measurement replaces.
"""

import base64
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from api import call

from pytest_kernelqual.report.entries import LONGEST_REASON
from pytest_kernelqual.report.markdown import COMMENT_CHARACTERS, code
from pytest_kernelqual.report.phrases import clean

_CONFIGS = Path("committed_configs")
_GAP = "\n\n"
_MOST_CHARACTERS = 20_000
"""Of the list of changed rows; GitHub takes as many characters of a pull request as of a comment."""
_BOT = ("github-actions[bot]", "41898282+github-actions[bot]@users.noreply.github.com")


def main(folder: str, gpu: str) -> int:
    """Take the files over, check them, and propose what changed."""
    measured = Path(folder)
    before = _rows()
    shutil.rmtree(_CONFIGS)
    shutil.copytree(measured / _CONFIGS, _CONFIGS)
    _kernelqual("check", str(_CONFIGS))
    if not _git("status", "--porcelain", "--", str(_CONFIGS)):
        print("nothing changed: every committed config is what was measured")
        return 0
    branch, title = f"kernelqual/refresh-{gpu}", f"Refresh committed configs ({gpu})"
    _git("checkout", "-B", branch)
    _git("add", "--all", "--", str(_CONFIGS))
    _git("-c", f"user.name={_BOT[0]}", "-c", f"user.email={_BOT[1]}", "commit", "--message", title)
    _git("push", "--force", "origin", branch)
    changes = _changes(before, _rows())
    limit = COMMENT_CHARACTERS - len(changes) - len(_GAP)
    report = _kernelqual(
        "report", str(measured / "refresh" / "report.json"), "--format", "markdown", "--limit", str(limit)
    )
    _propose(branch, title, f"{changes}{_GAP}{report}")
    return 0


def _rows() -> dict[str, str]:
    """Return the config of each row, by kernel, file and key."""
    return {
        f"{path.parent.name}/{path.stem} {json.dumps(row['key'])}": json.dumps(row["config"])
        if row["config"]
        else "fixed launch"
        for path in sorted(_CONFIGS.glob("*/*.json"))
        for row in json.loads(path.read_text())["rows"]
    }


def _changes(before: dict[str, str], after: dict[str, str]) -> str:
    """Return which configs are others, as Markdown that leaves room for the report; what it leaves out is counted."""
    names = sorted(before.keys() | after.keys())
    changed = [name for name in names if before.get(name) != after.get(name)]
    lines = [f"**{len(changed)} rows changed, {len(names) - len(changed)} kept with new figures**", ""]
    room = _MOST_CHARACTERS
    for number, name in enumerate(changed):
        line = f"- {_code(name)}: {_code(before.get(name, 'no row'))} -> {_code(after.get(name, 'no row'))}"
        room -= len(line) + 1
        if room < 0:
            lines.append(f"- {len(changed) - number} more rows, which the files of this pull request show")
            break
        lines.append(line)
    return "\n".join(lines)


def _code(text: str) -> str:
    """Return what a committed file holds as a code span of one short line, whatever is in it."""
    return code(clean(text, LONGEST_REASON))


def _propose(branch: str, title: str, body: str) -> None:
    owner = os.environ["GITHUB_REPOSITORY"].partition("/")[0]
    found = call("GET", "pulls", state="open", head=f"{owner}:{branch}")
    if found:
        call("PATCH", f"pulls/{found[0]['number']}", {"body": body})
        print(f"pull request {found[0]['number']} updated")
    else:
        asked = {"title": title, "head": branch, "base": os.environ["GITHUB_REF_NAME"], "body": body}
        print(f"pull request {call('POST', 'pulls', asked)['number']} opened")


def _kernelqual(*arguments: str) -> str:
    command = [sys.executable, "-m", "pytest_kernelqual", *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def _git(*arguments: str) -> str:
    """Run git; the token is in the environment of this one process, and in no argument or file."""
    login = base64.b64encode(f"x-access-token:{os.environ['GITHUB_TOKEN']}".encode()).decode()
    told = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"http.{os.environ['GITHUB_SERVER_URL']}/.extraheader",
        "GIT_CONFIG_VALUE_0": f"AUTHORIZATION: basic {login}",
    }
    done = subprocess.run(
        ["git", *arguments], env={**os.environ, **told}, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
