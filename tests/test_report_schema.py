"""The JSON Schema that ships with the package."""

import json
from importlib.resources import files
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from report_samples import ENVIRONMENT, NODEID, candidate, case, kernel, kernels, mismatching

from pytest_kernelqual.model.record import KernelRecord
from pytest_kernelqual.report import schema
from pytest_kernelqual.report.document import build, encode

SHIPPED = files("pytest_kernelqual.report").joinpath(schema.SCHEMA_FILE).read_text(encoding="utf-8")
VALIDATOR = jsonschema.Draft202012Validator(json.loads(SHIPPED))


def test_shipped_schema_is_the_generated_one() -> None:
    """Run `kernelqual schema` and store its output after a change of the records."""
    assert schema.render() == SHIPPED


def test_schema_is_itself_valid() -> None:
    """Any validator of the draft takes it."""
    jsonschema.Draft202012Validator.check_schema(json.loads(SHIPPED))


@settings(deadline=None)
@given(kernels)
def test_every_document_is_valid(records: list[KernelRecord]) -> None:
    """Whatever a run holds."""
    VALIDATOR.validate(json.loads(encode(build(records, ENVIRONMENT, [NODEID]))))


@pytest.mark.parametrize(
    "changes",
    [{"schema": "kernelqual/qualified-configurations/2"}, {"complete": 1}, {"kernels": {}}, {"digest": None}],
)
def test_wrong_document_is_invalid(changes: dict[str, Any]) -> None:
    """The schema tells more than that it is an object."""
    plain = json.loads(encode(build([kernel(case(candidate(), mismatching()))], None, [])))
    VALIDATOR.validate(plain)
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate({**plain, **changes})
