"""Inputs and environment of modules are encrypted at rest, and people see of them only what they may."""

from pathlib import Path
from typing import Any

import pytest

from terracrew.server.tree.modules import contents
from terracrew.server.tree.modules.contents import Content
from tests.server.application import Application, on_one

SOURCE = {"kind": "local", "path": "/srv/sources/vpc"}
INPUTS = {
    "cidr": "10.0.0.0/8",
    "db_password": "hunter2",
    "database": {"user": "app", "auth_token": ["first-token", 7]},
    "address": "postgres://app:hunter2-hunter2@db/app",
}
ENVIRONMENT = {"DB_PASSWORD": "hunter2-in-the-environment", "AWS_REGION": "eu-central-1"}
SHOWN = {
    "cidr": "10.0.0.0/8",
    "db_password": "***",
    "database": {"user": "app", "auth_token": ["***", "***"]},
    "address": "postgres://app:***@db/app",
}


async def make(application: Application, **more: Any) -> Any:
    body = {"path": "vpc", "source": SOURCE, "inputs": INPUTS, "environment": ENVIRONMENT}
    return await application.admin.made("/api/v1/modules", body | more)


async def stored(application: Application, module_id: str) -> Content:
    return await application.server.db.read(lambda tx: contents.load(tx, application.server.keys, module_id))


@pytest.mark.feature("J6.secrets")
async def test_nobody_reads_a_secret_of_a_module_back(application: Application) -> None:
    """A viewer, who may not read the state, read DB_PASSWORD of a module."""
    made = await make(application)
    viewer, owner = await application.person("vera", "viewer"), await application.person("olga", "owner")
    for person in (viewer, owner, application.admin):
        found = (await person.get("/api/v1/modules/vpc")).json()
        assert found["inputs"] == SHOWN
        assert found["environment"] == {"DB_PASSWORD": "***", "AWS_REGION": "eu-central-1"}
        for path in ("/api/v1/modules", "/api/v1/modules/vpc", "/api/v1/audit", f"/dashboard/modules/{made['id']}"):
            assert "hunter2" not in (await person.get(path)).text
    assert made["inputs"] == SHOWN
    assert await stored(application, made["id"]) == Content(INPUTS, ENVIRONMENT)


async def test_inputs_and_environment_are_not_in_the_database_in_plain_text(
    application: Application, tmp_path: Path
) -> None:
    made = await make(application, inputs={"innocent": "a-value-in-plain-text"})
    for sql in ("SELECT * FROM modules WHERE id = :id", "SELECT * FROM inputs WHERE place_id = :id"):
        rows = await application.server.db.read(lambda tx, sql=sql: tx.all(sql, id=made["id"]))
        assert rows
        assert "a-value-in-plain-text" not in repr([dict(row) for row in rows])
        assert "hunter2" not in repr([dict(row) for row in rows])


async def test_what_is_sent_back_as_it_was_shown_stays(application: Application) -> None:
    made = await make(application)
    changed = {**made["inputs"], "cidr": "10.1.0.0/16"}
    environment = {**made["environment"], "AWS_REGION": "eu-west-1"}
    answer = await application.admin.patch("/api/v1/modules/vpc", json={"inputs": changed, "environment": environment})
    assert answer.status_code == 200, answer.text
    expected = Content({**INPUTS, "cidr": "10.1.0.0/16"}, {**ENVIRONMENT, "AWS_REGION": "eu-west-1"})
    assert await stored(application, made["id"]) == expected
    await application.admin.patch("/api/v1/modules/vpc", json={"inputs": {"db_password": "new"}, "environment": {}})
    assert await stored(application, made["id"]) == Content({"db_password": "new"}, {})


@on_one
async def test_a_hidden_value_that_is_not_stored_is_refused(application: Application) -> None:
    await make(application)
    for change, name in (
        ({"environment": {"NEW": "***"}}, "NEW"),
        ({"inputs": {"other_token": "***"}}, "other_token"),
        ({"inputs": {"database": {"password": "***"}}}, "database.password"),
    ):
        detail = await application.admin.refused("PATCH", "/api/v1/modules/vpc", 400, json=change)
        assert f"{name} is `***`" in detail
    body = {"path": "b", "source": SOURCE, "environment": {"A": "***"}}
    await application.admin.refused("POST", "/api/v1/modules", 400, json=body)
