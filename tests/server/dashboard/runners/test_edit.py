"""People edit a runner's record and the settings of its processes in one form."""

from typing import Any

import pytest

from tests.server.application import Application
from tests.server.dashboard.visitor import Visitor, logged_in

OWN: dict[str, Any] = {"heartbeat_seconds": None, "log_level": {}, "batch_size_limit": None, "period_seconds": None}


async def configured(application: Application) -> object:
    return (await application.admin.get("/api/v1/runners/r")).json()["configuration"]


@pytest.mark.feature("C2.configuration")
async def test_a_runner_is_configured_by_a_form_and_an_empty_one_gives_it_back(application: Application) -> None:
    made = await application.admin.made("/api/v1/runners", {"name": "r"})
    visitor: Visitor = await logged_in(application)
    page = f"/dashboard/runners/{made['id']}/edit"
    assert page in await visitor.see("/dashboard/runners/")
    await visitor.see(page)
    levels = "terracrew.runner = debug\r\nDefault=Warning\r\n"
    saved = await visitor.submit(
        page,
        **{
            "configuration.heartbeat_seconds": "2.5",
            "configuration.log_level": levels,
            "configuration.batch_size_limit": "9",
            "configuration.period_seconds": "",
        },
    )
    assert saved.status_code == 303
    wanted = OWN | {
        "heartbeat_seconds": 2.5,
        "log_level": {"Default": "Warning", "terracrew.runner": "Debug"},
        "batch_size_limit": 9,
    }
    assert await configured(application) == wanted
    assert ">configured<" in await visitor.see("/dashboard/runners/")
    shown = await visitor.see(page)
    assert 'value="2.5"' in shown
    assert "Default=Warning\nterracrew.runner=Debug</textarea>" in shown

    refused = await visitor.submit(
        page, **{"configuration.heartbeat_seconds": "99", "configuration.log_level": "<b>=Debug"}
    )
    assert refused.status_code == 200
    assert 'id="configuration-heartbeat-seconds-wrong" role="alert">Write a number of at most 30.' in refused.text
    assert 'value="99"' in refused.text, "what was typed is not lost"
    assert "<b>" not in refused.text
    assert await configured(application) == wanted

    await visitor.submit(page, **{"configuration.log_level": "Default=Warning", "configuration.batch_size_limit": ""})
    assert await configured(application) == OWN | {"heartbeat_seconds": 2.5, "log_level": {"Default": "Warning"}}
    await visitor.submit(page, **{"configuration.heartbeat_seconds": "", "configuration.log_level": ""})
    assert await configured(application) == OWN


@pytest.mark.feature("R1.fields", "R7.update")
async def test_the_record_is_edited_by_the_same_form(application: Application) -> None:
    made = await application.admin.made("/api/v1/runners", {"name": "r", "description": "old", "tags": ["a"]})
    visitor = await logged_in(application)
    page = f"/dashboard/runners/{made['id']}/edit"
    assert ">old</textarea>" in await visitor.see(page)
    saved = await visitor.submit(
        page, description=" new ", tags="eu,gpu", max_jobs="3", allow_multiple_instances="true"
    )
    assert saved.headers["location"] == f"/dashboard/runners/{made['id']}"
    found = (await application.admin.get("/api/v1/runners/r")).json()
    assert (found["description"], found["tags"], found["max_jobs"]) == ("new", ["eu", "gpu"], 3)
    assert found["allow_multiple_instances"] is True
    for wrong in ({"max_jobs": "-1"}, {"max_jobs": "1e3"}, {"tags": "no/slash"}, {"description": "x" * 5000}):
        refused = await visitor.submit(page, **wrong)
        assert 'class="wrong"' in refused.text, wrong
    assert (await application.admin.get("/api/v1/runners/r")).json()["max_jobs"] == 3
    await application.person("vera", "viewer")
    viewer = await logged_in(application, "vera")
    await viewer.see(page, 403)
    assert (await viewer.submit(page, max_jobs="9")).status_code == 403
