"""The configuration of a runner is checked, changed field by field, and announced to its connections."""

from typing import Any

import pytest

from tests.server.application import Application

OWN: dict[str, Any] = {"heartbeat_seconds": None, "log_level": {}, "batch_size_limit": None, "period_seconds": None}


async def configured(application: Application, change: Any) -> Any:
    answer = await application.admin.patch("/api/v1/runners/r", json={"configuration": change})
    assert answer.status_code == 200, answer.text
    assert (await application.admin.get("/api/v1/runners/r")).json() == answer.json()
    return answer.json()["configuration"]


@pytest.mark.feature("C2.configuration")
async def test_a_runner_has_its_own_settings_until_somebody_sets_others(application: Application) -> None:
    assert (await application.admin.made("/api/v1/runners", {"name": "r"}))["configuration"] == OWN
    assert await configured(application, {"heartbeat_seconds": 5}) == OWN | {"heartbeat_seconds": 5}
    assert await configured(application, {}) == OWN | {"heartbeat_seconds": 5}
    await configured(application, {"log_level": {"Default": "Warning", "terracrew.runner": "Debug"}})
    await configured(application, {"log_level": {"Default": None, "websockets": "None"}, "batch_size_limit": 9})
    levels = {"terracrew.runner": "Debug", "websockets": "None"}
    assert await configured(application, {"period_seconds": 0.5, "heartbeat_seconds": None}) == OWN | {
        "log_level": levels,
        "batch_size_limit": 9,
        "period_seconds": 0.5,
    }
    assert (await configured(application, {"log_level": None}))["log_level"] == {}
    assert await configured(application, None) == OWN
    # Another change of the record leaves it alone.
    await configured(application, {"batch_size_limit": 9})
    await application.admin.patch("/api/v1/runners/r", json={"max_jobs": 3})
    assert (await application.admin.get("/api/v1/runners/r")).json()["configuration"] == OWN | {"batch_size_limit": 9}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"heartbeat_seconds": 0.5}, ">= 1.0"),
        ({"heartbeat_seconds": 31}, "<= 30.0"),
        ({"heartbeat_seconds": "5"}, "Expected `float | null`"),
        ({"log_level": {"Default": "Loud"}}, "'Loud' is not one of "),
        ({"log_level": {"a b": "Debug"}}, "matching regex"),
        ({"log_level": {f"c{n}": "Debug" for n in range(51)}}, "up to 50 categories"),
        ({"batch_size_limit": 0}, ">= 1"),
        ({"batch_size_limit": 10_001}, "<= 10000"),
        ({"period_seconds": 0}, "> 0"),
        ({"period_seconds": 3601}, "<= 3600"),
        ({"capacity": 3}, "unknown field `capacity`"),
    ],
)
async def test_what_cannot_be_set_is_refused_and_changes_nothing(
    application: Application, change: Any, words: str
) -> None:
    await application.admin.made("/api/v1/runners", {"name": "r"})
    refused = await application.admin.refused("PATCH", "/api/v1/runners/r", 400, json={"configuration": change})
    assert words in refused
    assert (await application.admin.get("/api/v1/runners/r")).json()["configuration"] == OWN


@pytest.mark.feature("C2.configuration", "X3.audit", "X3.roles")
async def test_a_configuration_is_told_to_every_server_audited_and_an_owners_to_change(
    application: Application,
) -> None:
    made = await application.admin.made("/api/v1/runners", {"name": "r"})
    with application.server.db.listen("runners", "configuration") as woken:
        await configured(application, {"heartbeat_seconds": 5})
        assert await woken.get(5) >= {("runners", made["id"]), ("configuration", made["id"])}
        await configured(application, {"heartbeat_seconds": 5})
        await application.admin.patch("/api/v1/runners/r", json={"max_jobs": 3})
        assert ("configuration", made["id"]) not in await woken.get(5)
    entries = (await application.admin.get("/api/v1/audit", params={"target": made["id"]})).json()["items"]
    assert [each["details"]["configuration"] for each in entries if "configuration" in each["details"]] == [
        OWN | {"heartbeat_seconds": 5}
    ]
    operator = await application.person("otto", "operator")
    await operator.refused("PATCH", "/api/v1/runners/r", 403, json={"configuration": None})
    assert (await operator.get("/api/v1/runners/r")).json()["configuration"] == OWN | {"heartbeat_seconds": 5}
