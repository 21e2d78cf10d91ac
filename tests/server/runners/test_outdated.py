"""The version of a runner is the lowest one that takes jobs, and only a known lower version is outdated."""

import pytest

from terracrew.server.principals.model import SYSTEM
from terracrew.server.releases.rules import is_outdated
from terracrew.server.releases.service import publish, withdraw
from terracrew.server.runners.view_reads import current_version
from tests.builders.job_rows import JobRows, change_deployments
from tests.server.application import Application
from tests.server.deployments.cloud_rows import cloud_runner
from tests.server.releases.release_rows import new_release
from tests.server.runners.connected import connect

pytestmark = pytest.mark.feature("V2.outdated")


@pytest.mark.parametrize(
    ("connected", "deployed", "last", "version"),
    [
        (["0.1.0", "0.1.0-rc.2", "0.1.0-rc.10"], "0.1.0", "", "0.1.0-rc.2"),
        (["0.1.0-rc.2", "dev"], "", "", "0.1.0-rc.2"),
        (["dev"], "0.1.0", "", "dev"),
        ([], "0.1.0", "0.0.9", "0.1.0"),
        ([], "", "0.0.9", "0.0.9"),
        ([], "", "", ""),
    ],
)
def test_the_version_of_a_runner(connected: list[str], deployed: str, last: str, version: str) -> None:
    assert current_version(connected, deployed, last) == version


@pytest.mark.parametrize(
    ("version", "latest", "expected"),
    [
        ("0.1.0-rc.1", "0.1.0-rc.2", True),
        ("0.1.0-rc.9", "0.1.0-rc.10", True),
        ("0.1.0-rc.2", "0.1.0", True),
        ("0.1.0+build.5", "0.1.0", False),
        ("0.2.0", "0.1.0", False),
        ("dev", "0.1.0", False),
        ("", "0.1.0", False),
        ("0.1.0", "", False),
    ],
)
def test_outdated(version: str, latest: str, expected: bool) -> None:
    assert is_outdated(version, latest) is expected


async def test_a_list_says_which_runners_are_outdated(application: Application) -> None:
    db, admin = application.server.db, application.admin
    runners = {
        name: (await admin.made("/api/v1/runners", {"name": name}))["id"] for name in ("old", "new", "dev", "off")
    }
    await connect(application, runners["old"], "one", version="0.9.1")
    await connect(application, runners["old"], "two", version="0.9.2")
    await connect(application, runners["new"], "one", version="0.9.2")
    await connect(application, runners["new"], "two", version="0.9.1", retire_reason="0.9.2 was deployed")
    await connect(application, runners["old"], "three", version="0.0.1", is_on_trial=True, is_draining=True)
    await connect(application, runners["dev"], "one", version="dev")
    rows = await JobRows.of_organization(db, application.server.organization_id)
    asleep = await cloud_runner(rows)
    await change_deployments(db, version="0.9.1")

    async def listed() -> dict[str, tuple[str | None, str | None, bool]]:
        found = await admin.listed("/api/v1/runners")
        return {each["name"]: (each["version"], each["latest_version"], each["is_outdated"]) for each in found}

    assert (await listed())["old"] == ("0.9.1", None, False), "nothing was published yet"
    release = new_release("0.9.2")
    await db.write(lambda tx: publish(tx, SYSTEM, release))
    assert await listed() == {
        "old": ("0.9.1", "0.9.2", True),
        "new": ("0.9.2", "0.9.2", False),
        "dev": ("dev", "0.9.2", False),
        "off": (None, "0.9.2", False),
        asleep: ("0.9.1", "0.9.2", True),
    }
    await db.write(lambda tx: withdraw(tx, SYSTEM, "0.9.2", "it loses logs"))
    assert not any(is_outdated for _, _, is_outdated in (await listed()).values())
