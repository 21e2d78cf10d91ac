"""Fleet jobs over HTTP: lists by what the reader may see, steps, the log from any line on, live, and cancel."""

import asyncio
import json

import pytest

from terracrew import ids
from terracrew.api.fleet_jobs import FleetJob, FleetJobType, FleetLine, FleetStep, NewFleetJob
from terracrew.server.fleet_jobs import decide, service, store
from terracrew.server.fleet_jobs.service import LogPlace
from tests.server.application import Application, Person

pytestmark = pytest.mark.feature("W4.fleet", "J1.fleet")
API = "/api/v1/fleet-jobs"


async def queued(
    application: Application, group: str = "", type_: FleetJobType = FleetJobType.DEPLOY_WORKER, target: str = ""
) -> FleetJob:
    place = (await application.admin.get(f"/api/v1/groups/{group or '%2F'}")).json()
    new = NewFleetJob(
        type=type_,
        organization_id=application.server.organization_id,
        group_id=place["id"],
        target_id=target or ids.new("rnr"),
        target_name=f"{group}/burst".strip("/"),
        identity_id="cid_1",
    )
    return await application.server.db.write(lambda tx: service.create(tx, application.admin.principal, new))


async def claimed(application: Application, job: FleetJob) -> FleetJob:
    after = decide.claim(job, 1, "srv_1", job.created_at, is_target_busy=False)
    assert after is not None
    await application.server.db.write(lambda tx: store.save(tx, job, after))
    return after


async def reported(application: Application, job: FleetJob, *texts: str) -> None:
    lines = [FleetLine(1, number, job.created_at, text) for number, text in enumerate(texts, 1)]
    step = FleetStep(
        job_id=job.id,
        attempt=1,
        name="role",
        position=0,
        words="Task role",
        status="done",
        reference="arn:role",
        started_at=job.created_at,
        finished_at=job.created_at,
    )
    await application.server.db.write(lambda tx: store.put_steps(tx, [step]))
    await application.server.db.write(lambda tx: store.add_lines(tx, job.id, lines))


async def test_people_see_the_jobs_of_their_groups(application: Application) -> None:
    for path in ("team", "other"):
        await application.admin.made("/api/v1/groups", {"path": path})
    jobs = [await queued(application, group) for group in ("team", "other", "")]
    check = await queued(application, "team", FleetJobType.CONNECTION_TEST, "cid_1")
    viewer, nobody = await application.person("vera", "viewer", "team"), await application.person("nora")
    owner = await application.person("olga", "owner", "team")

    async def numbers(who: Person, **wanted: str) -> list[int]:
        return [each["number"] for each in await who.listed(API, **wanted)]

    assert await numbers(application.admin) == sorted((each.number for each in [*jobs, check]), reverse=True)
    assert await numbers(viewer) == [check.number, jobs[0].number]
    assert await numbers(viewer, type="CONNECTION_TEST") == [check.number]
    assert await numbers(viewer, status="FAILED") == []
    assert await numbers(viewer, target=jobs[0].target_id) == [jobs[0].number]
    assert await numbers(viewer, target="cid_1") == [check.number, jobs[0].number], "of runners that use it, too"
    assert await numbers(nobody) == []
    assert (await viewer.get(f"{API}/{jobs[0].number}")).json()["id"] == jobs[0].id
    for path in (f"/{jobs[1].number}", f"/{jobs[1].id}", f"/{jobs[1].id}/log", f"/{jobs[1].id}/log/stream"):
        await viewer.refused("GET", API + path, 404)
    words = await viewer.refused("GET", f"/api/v1/jobs/{jobs[0].number}", 404)
    assert f"`terracrew fleet-job show {jobs[0].number}` shows it" in words
    words = await viewer.refused("GET", f"/api/v1/jobs/{jobs[1].number}", 404)
    assert words == f"there is no job number {jobs[1].number}"
    words = await viewer.refused("POST", f"{API}/{jobs[0].number}/cancel", 403)
    assert "owner" in words
    canceled = (await owner.post(f"{API}/{jobs[0].number}/cancel")).json()
    assert (canceled["status"], canceled["error"]) == ("CANCELED", "olga canceled it")
    await owner.refused("POST", f"{API}/{jobs[0].number}/cancel", 409)
    await owner.refused("GET", f"{API}/not-a-job", 400)
    entries = (await application.admin.get("/api/v1/audit", params={"action": "fleet_job"})).json()["items"]
    assert [each["action"] for each in entries][:2] == ["fleet_job.cancel", "fleet_job.create"]


async def test_the_log_is_read_from_any_line_on(application: Application) -> None:
    job = await queued(application)
    await reported(application, job, "one", "two", "three")
    admin = application.admin
    shown = (await admin.get(f"{API}/{job.id}")).json()
    assert [(each["name"], each["status"], each["reference"]) for each in shown["steps"]] == [
        ("role", "done", "arn:role")
    ]
    assert (await admin.get(f"{API}/{job.id}/log")).text == "one\ntwo\nthree\n"
    answer = await admin.get(f"{API}/{job.id}/log", params={"after": "1.1", "format": "events", "limit": 1})
    assert [json.loads(line)["text"] for line in answer.text.splitlines()] == ["two"]
    await admin.refused("GET", f"{API}/{job.id}/log", 400, params={"after": "two"})


async def test_a_job_is_followed_to_its_end(application: Application) -> None:
    job = await claimed(application, await queued(application))
    await reported(application, job, "one")
    db = application.server.db
    seen: list[object] = []
    async with asyncio.timeout(30):
        async for place, news in service.follow(db, application.server.closing, job.id, LogPlace()):
            seen.append([line.text for line in news] if isinstance(news, list) else news)
            if news == "changed" and place == LogPlace(1, 1):
                continue
            if isinstance(news, list) and place == LogPlace(1, 1):
                ended = decide.finish(job, 1, "srv_1", "failed", "refused", job.created_at)
                assert ended is not None
                await db.write(lambda tx: store.add_lines(tx, job.id, [FleetLine(1, 2, job.created_at, "two")]))
                await db.write(lambda tx, ended=ended: store.save(tx, job, ended))
    assert [each for each in seen if each != "changed"] == [["one"], ["two"], "end"]
    assert seen[0] == "changed"
    pieces = (await application.admin.get(f"{API}/{job.id}/log/stream", headers={"Last-Event-ID": "1.1"})).text
    events = [each.split("\n") for each in pieces.strip().split("\n\n")]
    assert [line for each in events for line in each if not line.startswith("data: ")] == [
        "retry: 1000",
        "event: job",
        "id: 1.2",
        "event: log",
        "event: end",
    ]
    assert '"status":"FAILED"' in pieces
    assert '"one"' not in pieces
