"""The JSON Schema of `qualified-configurations.json`, generated from the types of the records."""

import json
from typing import Any

import msgspec

from pytest_kernelqual.model.record import DOCUMENT_SCHEMA, Document

SCHEMA_FILE = "qualified-configurations.schema.json"
"""The generated schema, shipped next to this module."""


def generate() -> dict[str, Any]:
    """Return the schema of a document, draft 2020-12."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": DOCUMENT_SCHEMA,
        **msgspec.json.schema(Document),
    }


def render() -> str:
    """Return the schema as the text of its file."""
    return json.dumps(generate(), indent=2, sort_keys=True) + "\n"
