"""Find the last good run of `gpu` on the default branch: `run-id` and `sha`, empty where there is none."""

import json
import os
from pathlib import Path

from api import call

event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text())
branch = event["repository"]["default_branch"]
runs = call("GET", "actions/workflows/gpu.yml/runs", branch=branch, event="push", status="success", per_page=1)[
    "workflow_runs"
]
run = runs[0] if runs else {"id": "", "head_sha": ""}
with Path(os.environ["GITHUB_OUTPUT"]).open("a") as outputs:
    outputs.write(f"run-id={run['id']}\nsha={run['head_sha']}\n")
print(
    f"base: run {run['id']} of {run['head_sha']}"
    if runs
    else f"no run of {branch} has passed yet: nothing to compare with"
)
