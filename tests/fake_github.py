"""A server that answers as far as the scripts of `.github` ask GitHub's REST API."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

OWNER = "owner"
REPOSITORY = f"{OWNER}/kernels"
MOST_CHARACTERS = 65_536
"""GitHub takes no longer text of a pull request or comment."""
TOKEN = "a-token"  # noqa: S105 - of this server
BOT = "github-actions[bot]"


class FakeGithub:
    """What the repository holds, and what was asked for."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.pulls: list[dict[str, Any]] = []
        self.comments: dict[int, list[dict[str, Any]]] = {}
        self.runs: list[dict[str, Any]] = []
        self.refused: list[str] = []
        self.url = ""

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:
        """Answer one request, or None where there is no such thing."""
        found: Any = None
        match (method, *path.strip("/").split("/")):
            case "GET", "actions", "workflows", "gpu.yml", "runs":
                wanted = {"branch": "head_branch", "event": "event", "status": "conclusion"}
                runs = [run for run in self.runs if all(run[field] == query[name] for name, field in wanted.items())]
                found = {"workflow_runs": runs[: int(query["per_page"])]}
            case "GET", "pulls":
                pulls = [pull for pull in self.pulls if pull["head"]["label"] == query["head"]]
                found = _page([pull for pull in pulls if pull["state"] == query["state"]], query)
            case "POST", "pulls":
                label = f"{OWNER}:{body['head']}"
                found = {**body, "number": len(self.pulls) + 1, "state": "open", "head": {"label": label}}
                self.pulls.append(found)
            case "PATCH", "pulls", number:
                found = _changed(self.pulls, "number", int(number), body)
            case "GET", "issues", number, "comments":
                found = _page(self.comments.get(int(number), []), query)
            case "POST", "issues", number, "comments":
                found = {**body, "id": 1000 + sum(map(len, self.comments.values())), "user": {"login": BOT}}
                self.comments.setdefault(int(number), []).append(found)
            case "PATCH", "issues", "comments", number:
                found = _changed([one for many in self.comments.values() for one in many], "id", int(number), body)
        return found


def _changed(things: list[dict[str, Any]], name: str, wanted: int, body: dict[str, Any]) -> Any:
    for thing in things:
        if thing[name] == wanted:
            thing.update(body)
            return thing
    return None


def _page(things: list[Any], query: dict[str, str]) -> list[Any]:
    count, page = int(query.get("per_page", 30)), int(query.get("page", 1))
    return things[(page - 1) * count : page * count]


@contextmanager
def serving() -> Iterator[FakeGithub]:
    """Serve on a free port of this machine."""
    github = FakeGithub()

    class Handler(BaseHTTPRequestHandler):
        def _handle(self) -> None:
            asked = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(asked.query).items()}
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            path = asked.path.removeprefix(f"/repos/{REPOSITORY}")
            known = self.headers["Authorization"] == f"Bearer {TOKEN}" and path != asked.path
            too_long = bool(body) and len(body.get("body", "")) > MOST_CHARACTERS
            answer = github.answer(self.command, path, query, body) if known and not too_long else None
            if answer is None:
                github.refused.append(f"{self.command} {self.path}")
            told = json.dumps(answer).encode()
            self.send_response(422 if too_long else 404 if answer is None else 200)
            self.send_header("Content-Length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        do_GET = do_POST = do_PATCH = _handle  # noqa: N815 - names of the base class

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    github.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield github
    finally:
        server.shutdown()
        server.server_close()
