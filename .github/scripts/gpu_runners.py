"""Read the labels of GPU machines from `.github/gpu-runners.json` into the output `gpus`."""

import json
import os
import re
from pathlib import Path

FILE = Path(".github/gpu-runners.json")

labels = json.loads(FILE.read_text())
if not isinstance(labels, list) or not all(re.fullmatch(r"[a-z0-9][a-z0-9-]*", str(label)) for label in labels):
    raise SystemExit(f'{FILE} holds {labels!r}; give a list of labels in lower case, such as ["h200"]')
with Path(os.environ["GITHUB_OUTPUT"]).open("a") as outputs:
    outputs.write(f"gpus={json.dumps(labels)}\n")
print(f"GPU machines: {', '.join(labels) or 'none'}")
