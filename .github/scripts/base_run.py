"""Find the last good run of `gpu` on the default branch: `run-id` and `sha`, empty where there is none."""

import json
import os
from pathlib import Path

from api import call

event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text())
branch = event["repository"]["default_branch"]
found = call("GET", "actions/workflows/gpu.yml/runs", branch=branch, event="push", status="success", per_page=1)
run = next(iter(found["workflow_runs"]), {"id": "", "head_sha": ""})
with Path(os.environ["GITHUB_OUTPUT"]).open("a") as outputs:
    outputs.write(f"run-id={run['id']}\nsha={run['head_sha']}\n")
print(f"the last good run of {branch}: {run['id'] or 'none, so that there is nothing to compare with'}")
