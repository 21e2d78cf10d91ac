"""A grant has the commits of earlier jobs of its module, and a job keeps the commit that its first attempt found."""

import pytest

from terracrew.protocol.events import SourceResolved
from terracrew.protocol.spec import ArchiveSource, GitSource, KnownRevision, Source
from tests.builders.deliveries import RUNNING, delivery, fact
from tests.builders.job_rows import JobRows, change_jobs

pytestmark = pytest.mark.feature("J5.git")
TAGGED = GitSource("https://host/x", tag="v1")
A, B = "a" * 40, "b" * 40


async def job(rows: JobRows, module: str, source: Source, resolved: SourceResolved | None = None) -> str:
    made = await rows.job(module, status="SUCCEEDED" if resolved else "QUEUED")
    found = resolved or SourceResolved("", "")
    await change_jobs(
        rows.db,
        made,
        source=source,
        source_commit=found.commit,
        source_revision=found.revision,
    )
    return made


async def test_a_grant_has_the_commits_of_earlier_jobs_of_the_same_repository(rows: JobRows) -> None:
    runner, module = await rows.runner(), await rows.module()
    await job(rows, module, TAGGED, SourceResolved("", "", A, "tag v1"))
    await job(rows, module, GitSource("https://other/x", tag="v1"), SourceResolved("", "", B, "tag v1"))
    await job(rows, module, GitSource("https://host/x"), SourceResolved("", "", B, "default branch"))
    await job(rows, await rows.module(), TAGGED, SourceResolved("", "", B, "tag v1"))
    granted = await runner.has(await job(rows, module, TAGGED))
    number = await rows.db.read(lambda tx: tx.one("SELECT number FROM jobs WHERE source_commit = :of", of=A))
    assert number is not None
    assert granted.spec.known_revisions[-1] == KnownRevision("tag v1", A, number["number"])
    assert [each.commit for each in granted.spec.known_revisions] == [B, A]


@pytest.mark.parametrize("source", [GitSource("https://host/x", branch="main"), ArchiveSource("arc_1")])
async def test_a_source_without_a_tag_needs_no_earlier_commits(rows: JobRows, source: Source) -> None:
    runner, module = await rows.runner(), await rows.module()
    await job(rows, module, source, SourceResolved("", "", A, "branch main"))
    assert (await runner.has(await job(rows, module, source))).spec.known_revisions == []


@pytest.mark.feature("J5.once")
async def test_a_later_attempt_is_told_the_commit_of_the_first(rows: JobRows) -> None:
    runner = await rows.runner()
    found = await job(rows, await rows.module(), TAGGED)
    ref = await runner.claimed(found)
    resolved = SourceResolved(f"git:{A}", "git https://host/x, tag v1", A, "tag v1", B)
    await rows.take(delivery(ref, 1, RUNNING, fact(resolved)))
    known = await rows.load(found)
    assert (known.source_digest, known.source_commit, known.source_revision) == (f"git:{A}", A, "tag v1")
    assert known.source_moved_from == B
    await rows.gone(ref)
    spec = (await runner.has(found, attempt=2)).spec
    assert (spec.source_digest, spec.source_commit, spec.source_revision) == (f"git:{A}", A, "tag v1")
