"""The REST API of GitHub, as far as scripts of this folder need it; a job's environment says what to reach."""

import json
import os
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

PER_PAGE = 100
_LIMIT_S = 30.0


def call(method: str, path: str, body: object = None, **query: object) -> Any:
    """Call the API of this repository and return the answer, decoded."""
    url = f"{os.environ['GITHUB_API_URL']}/repos/{os.environ['GITHUB_REPOSITORY']}/{path}"
    request = Request(f"{url}?{urlencode(query)}" if query else url, method=method)
    request.add_header("Accept", "application/vnd.github+json")
    request.add_header("Authorization", f"Bearer {os.environ['GITHUB_TOKEN']}")
    request.add_header("X-GitHub-Api-Version", "2022-11-28")
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    with urlopen(request, timeout=_LIMIT_S) as answer:
        return json.load(answer)


def pages(path: str, **query: object) -> list[Any]:
    """Return the items of all pages of a list."""
    found: list[Any] = []
    for page in range(1, 1000):
        items = call("GET", path, **query, per_page=PER_PAGE, page=page)
        found += items
        if len(items) < PER_PAGE:
            break
    return found
