"""Everybody who may see a job reads the same log of it, at an address that is a credential."""

import logging
import re

import pytest

from terracrew.server.terminals import words
from terracrew.server.terminals.transcript import Transcripts
from tests.server.application import Application, Person, on_one
from tests.server.tree.inputs.references import NETWORK, pair, refer

pytestmark = pytest.mark.feature("K5.same")


async def address_of_log(who: Person, job_id: str) -> str:
    plan = (await who.get(f"/api/tfe/v2/plans/{job_id}")).json()
    url: str = plan["data"]["attributes"]["log-read-url"]
    return url[url.index("/api/tfe") :]


@on_one
async def test_a_log_names_no_module_that_some_of_its_readers_may_not_see(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words, "MIN_WAIT_SECONDS", -1.0)
    await pair(application)
    await application.admin.made("/api/v1/groups", {"path": "other"})
    source = {"kind": "local", "path": "/srv/sources/m"}
    user = await application.admin.made("/api/v1/modules", {"path": "other/user", "source": source})
    await refer(application.admin, "other/user", NETWORK)
    otto = await application.person("otto", "viewer", "other")
    job = await application.admin.made(f"/api/v1/modules/{user['id']}/jobs", {"type": "PLAN"})
    text = (await application.stranger().get(await address_of_log(otto, job["id"]))).text
    assert "a module that not everybody may see" in text
    assert NETWORK not in text
    assert re.search(rf"/dashboard/jobs/{job['id']}\n", text), "where everybody finds what they may see"


@on_one
async def test_the_address_of_a_log_does_not_stand_in_the_log_of_the_server(
    application: Application, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    module = await application.admin.made(
        "/api/v1/modules", {"path": "m", "source": {"kind": "local", "path": "/srv/sources/m"}}
    )
    job = await application.admin.made(f"/api/v1/modules/{module['id']}/jobs", {"type": "PLAN"})
    address = await address_of_log(application.admin, job["id"])

    async def broken(*_: object, **__: object) -> bytes:
        raise RuntimeError("a damaged row")

    monkeypatch.setattr(Transcripts, "read", broken)
    with caplog.at_level(logging.DEBUG, "terracrew"):
        assert (await application.stranger().get(address)).status_code == 500
    of_the_server = [record for record in caplog.records if record.name != "httpx"]  # which is the client of this test
    logged = "\n".join(map(caplog.handler.format, of_the_server))
    assert "in GET /api/tfe/v2/links/{sealed}" in logged
    assert address.rpartition("/")[2] not in logged
