"""A release is published once, and a withdrawn one stays withdrawn."""

import asyncio
from typing import Any

import msgspec
import pytest

from terracrew.errors import Conflict, Forbidden, Invalid, NotFound
from terracrew.server.db.seam import Database, Tx
from terracrew.server.principals.model import AttemptScope, Principal
from terracrew.server.releases import service, store
from terracrew.server.releases.model import Release
from tests.builders.job_rows import JobRows
from tests.server.announcements.channels import add, outbox
from tests.server.releases.release_rows import ADMIN, PUBLISHER, new_release, runner_image, wheel

OWNER = Principal("user", "usr_owner", "bo", "org_a")
ENGINE = Principal("engine", "job_1.1", "e", "org_a", attempt=AttemptScope("job_1", 1, "org_a", "mod_1", "m", "rnr_1"))


async def publish(db: Database, release: Release, who: Principal = ADMIN) -> Release:
    return await db.write(lambda tx: service.publish(tx, who, release))


async def audited(tx: Tx) -> list[tuple[str, str]]:
    rows = await tx.all("SELECT action, actor_name FROM audit WHERE target_kind = 'release' ORDER BY id")
    return [(row["action"], row["actor_name"]) for row in rows]


@pytest.mark.feature("V1.releases", "V1.withdraw")
async def test_a_release_is_stored_with_its_artifacts_and_audited(database: Database) -> None:
    version = "0.1.0-rc.1"
    made = new_release(version, is_breaking=True, artifacts=[runner_image(version), wheel(version)])
    await publish(database, made, PUBLISHER)
    found = await database.read(lambda tx: store.get(tx, f"v{version}+build.7"))
    assert found == msgspec.structs.replace(made, artifacts=[made.artifacts[1], made.artifacts[0]])  # sorted by name
    assert found.image("terracrew-runner") == runner_image(version)
    assert await database.read(lambda tx: service.latest(tx, "0.1.0-rc.1")) == found
    done = await database.write(lambda tx: service.withdraw(tx, ADMIN, version, " it does not start\n"))
    assert (done.is_withdrawn, done.withdrawn_by_name, done.withdrawn_reason) == (True, "ada", "it does not start")
    assert await database.read(lambda tx: service.latest(tx, "0.1.0-rc.1")) is None
    assert await database.read(audited) == [("release.publish", "ci"), ("release.withdraw", "ada")]


@pytest.mark.feature("M3.releases")
async def test_the_channels_of_organizations_tell_of_releases(rows: JobRows) -> None:
    channel, silent = await add(rows), await add(rows, events=("drift",))
    made = await publish(
        rows.db, msgspec.structs.replace(new_release("0.2.0", is_breaking=True), breaking_words="Drain first.")
    )
    await rows.db.write(lambda tx: service.withdraw(tx, ADMIN, "0.2.0", "broken"))
    withdrawn, published = await outbox(rows.db, channel)
    assert (published.content.title, published.content.text) == (
        "Terracrew 0.2.0 was published",
        "It is breaking. Drain first.",
    )
    assert (withdrawn.content.title, withdrawn.content.text) == ("Terracrew 0.2.0 was withdrawn", "broken")
    assert {published.subject_id, withdrawn.subject_id} == {made.id}
    assert await outbox(rows.db, silent) == []


@pytest.mark.feature("V1.releases")
@pytest.mark.parametrize("again", ["0.1.0", "0.1.0+linux"])
async def test_a_version_is_published_once_even_if_it_was_withdrawn(database: Database, again: str) -> None:
    await publish(database, new_release("0.1.0+other"))
    with pytest.raises(Conflict, match=r"0\.1\.0\+other was published on 2026-03-04 by ada; it exists already"):
        await publish(database, new_release(again))
    await database.write(lambda tx: service.withdraw(tx, ADMIN, "0.1.0", "broken"))
    with pytest.raises(Conflict, match="and withdrawn since"):
        await publish(database, new_release(again))
    with pytest.raises(Conflict, match="was withdrawn before: broken"):
        await database.write(lambda tx: service.withdraw(tx, ADMIN, "0.1.0", "again"))


@pytest.mark.feature("V1.releases")
async def test_of_two_that_publish_the_same_version_at_once_one_is_refused(database: Database) -> None:
    both = [publish(database, new_release("0.1.0")) for _ in range(2)]
    answers = await asyncio.gather(*both, return_exceptions=True)
    assert sorted(type(each).__name__ for each in answers) == ["Conflict", "Release"]
    assert all("publish another version" in str(each) for each in answers if isinstance(each, Conflict))
    assert len(await database.read(store.versions)) == 1


@pytest.mark.feature("V1.releases")
async def test_a_release_is_announced_once_it_is_stored_and_not_before(database: Database) -> None:
    with database.listen("releases") as woken:
        made = await publish(database, new_release("0.1.0"))
        assert await woken.get(5) == {("releases", made.id)}

        async def fail(tx: Tx) -> None:
            await service.publish(tx, ADMIN, new_release("0.2.0"))
            raise Invalid("no")

        with pytest.raises(Invalid):
            await database.write(fail)
        await database.write(lambda tx: service.withdraw(tx, ADMIN, "0.1.0", "broken"))
        assert await woken.get(5) == {("releases", made.id)}
    assert [each.version for each in await database.read(store.versions)] == ["0.1.0"]


@pytest.mark.feature("V1.rights")
async def test_only_administrators_withdraw_and_only_they_and_release_tokens_publish(database: Database) -> None:
    runner = Principal("runner", "rnr_1", "r", "org_a")
    for who in (OWNER, runner, ENGINE):
        with pytest.raises((Forbidden, NotFound)):
            await publish(database, new_release("0.1.0"), who)
    await publish(database, new_release("0.1.0"), PUBLISHER)
    for who in (OWNER, runner, ENGINE, PUBLISHER):
        with pytest.raises((Forbidden, NotFound)):
            await database.write(lambda tx, who=who: service.withdraw(tx, who, "0.1.0", "x"))
    for who in (OWNER, runner, ADMIN):
        assert (await database.read(lambda tx, who=who: service.get(tx, who, "0.1.0"))).version == "0.1.0"
    for who in (ENGINE, PUBLISHER):
        with pytest.raises(Forbidden):
            await database.read(lambda tx, who=who: service.between(tx, who))


@pytest.mark.parametrize("reason", ["", "  \n", "x" * 1_001])
async def test_a_withdrawal_has_a_reason(database: Database, reason: str) -> None:
    await publish(database, new_release("0.1.0"))
    with pytest.raises(Invalid, match="say in 1 to 1000 characters why"):
        await database.write(lambda tx: service.withdraw(tx, ADMIN, "0.1.0", reason))


@pytest.mark.parametrize("version", ["0.9.9", "", "latest", "../etc", "%00", "0.1.0\x00"])
async def test_an_unknown_version_is_not_found(database: Database, version: str) -> None:
    with pytest.raises(NotFound, match="there is no release"):
        await database.read(lambda tx: service.get(tx, ADMIN, version))
    with pytest.raises(NotFound, match="there is no release"):
        await database.write(lambda tx: service.withdraw(tx, ADMIN, version, "x"))


async def test_releases_between_two_versions_come_with_their_notes(database: Database) -> None:
    for version in ("0.1.0", "0.2.0", "0.3.0"):
        await publish(database, new_release(version, artifacts=[wheel(version)]))
    found: Any = await database.read(lambda tx: service.between(tx, OWNER, "0.1.0"))
    assert [(each.version, each.notes, len(each.artifacts)) for each in found] == [
        ("0.3.0", "Notes of 0.3.0", 1),
        ("0.2.0", "Notes of 0.2.0", 1),
    ]
