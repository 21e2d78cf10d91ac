"""A job that runs the result of merging a pull request reaches only runners that know such sources, with the pack in its grant."""

from typing import Any

import msgspec
import pytest

from terracrew.api.jobs import Job, NewJob
from terracrew.errors import Invalid
from terracrew.protocol.messages import Granted
from terracrew.protocol.spec import ArchiveSource, GitSource, JobType, MergeResult
from terracrew.server.jobs.create import JobRequest
from terracrew.server.principals.model import SYSTEM
from terracrew.server.tree.modules import archives
from tests.server.hub.hub_clients import Hub

URL = "https://git.example.com/acme/network.git"
PACK = b"PACK of a merge result"
BASE, HEAD, MERGED = "b" * 40, "a" * 40, "c" * 40


async def source(hub: Hub) -> GitSource:
    server = hub.server
    kept = await archives.keep_pack(server.staging, server.quotas, server.organization_id, PACK)
    result = MergeResult(BASE, HEAD, "refs/heads/main", kept.sha256, kept.size, kept.id)
    return GitSource(URL, commit=MERGED, merge=result)


async def create(hub: Hub, merged: GitSource) -> Job:
    module = await hub.crew.rows.module()
    return (await hub.server.create_job(JobRequest(SYSTEM, module, NewJob(JobType.PLAN, source=merged)))).job


async def test_a_runner_that_knows_them_gets_the_result_beside_a_source_that_every_version_reads(hub: Hub) -> None:
    async with hub.runner(knows_merge_results=True) as runner:
        merged = await source(hub)
        job = await create(hub, merged)
        granted = await runner.granted(job.id)
        assert granted.spec.source == GitSource(URL, commit=MERGED)
        assert granted.spec.merge == merged.merge
        assert granted.spec.archive == PACK
        assert '"merge"' not in msgspec.json.encode(granted.spec.source).decode()


async def test_an_older_runner_never_gets_one_and_the_job_says_why_it_waits(hub: Hub) -> None:
    with hub.server.scheduler.freshness.watching(hub.server.db):
        await check_waiting(hub)


async def check_waiting(hub: Hub) -> None:
    async with hub.runner() as runner:
        await hub.until(lambda: hub.session().takes_jobs)
        await runner.send_credits(1)
        await hub.server.scheduler.sweep()
        job = await create(hub, await source(hub))
        assert job.status == "QUEUED"
        await hub.server.scheduler.sweep()
        assert not await runner.claim(job.id), "not even if its scheduler had chosen it"
        reason = (await shown(hub, job))["reason"]
        assert reason["code"] == "no_engine"
        assert reason["text"] == (
            "it runs the merge result of a pull request, and the version of its runners is too old for that: update a runner"
        )
    async with hub.runner(knows_merge_results=True, instance_key="n" * 32) as runner:
        await runner.send_credits(1)
        await hub.server.scheduler.sweep()
        assert msgspec.convert(await runner.get("granted"), Granted, strict=False).spec.job_id == job.id


async def shown(hub: Hub, job: Job) -> dict[str, Any]:
    return (await hub.crew.app.admin.get(f"/api/v1/jobs/{job.id}")).json()


async def test_people_and_programs_cannot_set_one(hub: Hub) -> None:
    admin = hub.crew.app.admin
    body = msgspec.to_builtins(await source(hub))
    module = await hub.crew.rows.module()
    for path, asked in (
        ("/api/v1/modules", {"path": "merged", "source": body}),
        (f"/api/v1/modules/{module}/jobs", {"type": "PLAN", "source": body}),
    ):
        answer = await admin.post(path, json=asked)
        assert answer.status_code == 400, answer.text
        assert "only the server makes the result of merging a pull request" in answer.text
    answer = await admin.patch(f"/api/v1/modules/{module}", json={"source": body})
    assert "only the server makes" in answer.text
    job = await create(hub, await source(hub))
    again = await admin.post(f"/api/v1/jobs/{job.id}/rerun", json={})
    assert "plan the pull request again" in again.text


async def test_a_person_may_apply_the_plan_of_one(hub: Hub) -> None:
    """The source is that of the plan which they have seen, and not part of the request."""
    planned = await create(hub, await source(hub))
    who = hub.crew.app.admin.principal
    asked = NewJob(JobType.APPLY, source=planned.source)
    request = JobRequest(who, planned.module_id, asked, plan_of=planned)
    assert (await hub.server.create_job(request)).job.source == planned.source
    with pytest.raises(Invalid, match="only the server makes"):
        await hub.server.create_job(JobRequest(who, planned.module_id, asked))


async def test_a_pack_that_was_removed_is_merged_again(hub: Hub) -> None:
    merged = await source(hub)
    assert merged.merge
    gone = msgspec.structs.replace(merged, merge=msgspec.structs.replace(merged.merge, archive_id="arc_" + "0" * 32))
    with pytest.raises(Invalid, match="merge again"):
        await create(hub, gone)


def test_the_pack_is_transported_like_an_archive_and_other_sources_look_as_before() -> None:
    result = MergeResult(BASE, HEAD, "refs/heads/main", "d" * 64, 5, "arc_" + "1" * 32)
    merged = GitSource(URL, commit=MERGED, subdirectory="vpc", merge=result)
    assert merged.upload == ArchiveSource(result.archive_id, "vpc", result.sha256, 5)
    assert msgspec.json.encode(merged).endswith(b'"archive_id":"arc_' + b"1" * 32 + b'"}}'), "the database looks there"
    assert msgspec.json.decode(msgspec.json.encode(merged), type=GitSource) == merged
    plain = GitSource(URL)
    assert plain.upload is None
    assert b"merge" not in msgspec.json.encode(plain)
