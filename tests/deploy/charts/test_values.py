"""The values of the charts: documented, described by a schema, and made into settings that exist. These tests need no Helm."""

import json
import re
from typing import Any

import jsonschema_rs
import pytest

from terracrew.settings import variables
from tests.deploy.charts.helm import chart, values

CHARTS = ("runner", "server")
VARIABLE = re.compile(r"name: (TERRACREW_[A-Z_]+)$", re.MULTILINE)


def schema(name: str) -> dict[str, Any]:
    return json.loads((chart(name) / "values.schema.json").read_text())


def changed(name: str, path: str, value: Any) -> dict[str, Any]:
    """The default values of a chart with one that is different: `a.b`."""
    found = values(name)
    *folders, last = path.split(".")
    place = found
    for folder in folders:
        place = place[folder]
    place[last] = value
    return found


@pytest.mark.parametrize("name", CHARTS)
def test_the_default_values_fit_the_schema_and_each_is_described_by_it(name: str) -> None:
    found = schema(name)
    jsonschema_rs.Draft7Validator(found).validate(values(name))

    def names(described: dict[str, Any], given: dict[str, Any]) -> None:
        properties = described.get("properties", {})
        assert set(given) == set(properties) - {"global"}
        for key, value in given.items():
            if properties[key].get("properties"):
                names(properties[key], value)

    names(found, values(name))


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("runner", "replica", 2),
        ("runner", "replicas", -1),
        ("runner", "server.url", "terracrew.example.com"),
        ("runner", "dispatcher.type", "docker"),
        ("runner", "dispatcher.data", {"image": "lower case"}),
        ("runner", "credentials.token", "tcw_secret"),
        ("runner", "credentials.federation.expirationSeconds", 60),
        ("runner", "persistence.size", "many"),
        ("runner", "env", {"A-B": "x"}),
        ("server", "objectStore", "/srv/objects"),
        ("server", "service.port", 0),
        ("server", "database.url", "postgresql://user:password@host/name"),
        ("server", "image.pullPolicy", "Sometimes"),
    ],
)
def test_a_wrong_value_is_refused(name: str, path: str, value: Any) -> None:
    assert not jsonschema_rs.Draft7Validator(schema(name)).is_valid(changed(name, path, value))


@pytest.mark.parametrize("name", CHARTS)
def test_every_variable_that_a_chart_sets_is_one_that_a_process_reads(name: str) -> None:
    text = "".join(file.read_text() for file in (chart(name) / "templates").glob("*.yaml"))
    found = set(VARIABLE.findall(text))
    assert len(found) > 5
    assert {each for each in found if not variables.is_known(each)} == set()
