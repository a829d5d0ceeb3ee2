"""Write a Markdown file as the one comment of a pull request, of which a run of `gpu` has ended: `comment.py FILE`.

The run was untrusted, and so are its artifacts. Which pull request it was is therefore asked of GitHub: an open one
whose head is the repository, the branch and the commit of the run.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from api import call, pages

MARKER = "<!-- kernelqual: report of the workflow gpu -->"
_AUTHOR = "github-actions[bot]"


def main(file: str) -> int:
    """Create or replace the comment of each pull request of the run."""
    run = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text())["workflow_run"]
    shown = Path(file).read_text(encoding="utf-8")
    body = f"{MARKER}\n{shown}\n[the run]({run['html_url']}), commit {run['head_sha']}\n"
    numbers = _pull_requests(run)
    for number in numbers:
        comment = _own_comment(number)
        if comment is None:
            call("POST", f"issues/{number}/comments", {"body": body})
        else:
            call("PATCH", f"issues/comments/{comment}", {"body": body})
        print(f"pull request {number}: {'commented' if comment is None else 'comment replaced'}")
    if not numbers:
        print(f"no open pull request has {run['head_sha']} as its head: nothing to comment on")
    return 0


def _pull_requests(run: dict[str, Any]) -> list[int]:
    """Return the open pull requests whose head is what was run."""
    head = f"{run['head_repository']['owner']['login']}:{run['head_branch']}"
    found = pages("pulls", state="open", head=head)
    return [
        request["number"]
        for request in found
        if request["head"]["sha"] == run["head_sha"]
        and (request["head"]["repo"] or {}).get("id") == run["head_repository"]["id"]
    ]


def _own_comment(number: int) -> int | None:
    for comment in pages(f"issues/{number}/comments"):
        if comment["user"]["login"] == _AUTHOR and comment["body"].startswith(MARKER):
            return int(comment["id"])
    return None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
