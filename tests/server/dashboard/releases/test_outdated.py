"""What the pages of runners say about runners that have a lower version than the latest release."""

import html
import random
import re

import pytest

from terracrew.server.dashboard.releases import rollout
from terracrew.server.db.seam import Tx
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.runners import view_reads
from terracrew.server.runners.reads import RunnerScope
from tests.builders.job_rows import change_deployments, change_instances
from tests.server.application import Application
from tests.server.dashboard.company import releases
from tests.server.dashboard.company.rows import Company
from tests.server.dashboard.visitor import logged_in

pytestmark = [pytest.mark.feature("V2.outdated", "U1.list"), pytest.mark.usefixtures("jobs")]
HERE = "/dashboard/runners"
HOSTILE = "9<script>alert(1)</script>"


def alert(page: str) -> str:
    found = re.search(r'<div class="notice" id="outdated".*?</div>', page, re.DOTALL)
    return html.unescape(re.sub(r"<[^>]+>", "", found[0])) if found else ""


async def set_version(application: Application, version: str, path: str = "%") -> None:
    sql = "SELECT instances.id FROM instances JOIN runners ON runners.id = runner_id WHERE path LIKE :path"
    rows = await application.server.db.read(lambda tx: tx.all(sql, path=path))
    await change_instances(application.server.db, *[row["id"] for row in rows], version=version)


async def test_the_alert_counts_and_names_outdated_runners_until_they_have_the_latest_release(
    application: Application,
) -> None:
    someone = await logged_in(application)
    assert alert(await someone.see(HERE)) == "", "nothing was published"
    await releases.publish_all(application.server.db)
    page = await someone.see(HERE)
    assert alert(page).startswith("5 runners are outdated: 1.5.0 is the latest release.")
    assert "built-in and data/warehouse run 1.4.0; frankfurt-prod runs 1.3.2, and 2 more." in alert(page)
    assert "since=1.3.2&amp;until=1.5.0" in page
    assert page.count('class="outdated"') == 5
    await set_version(application, "1.5.0")
    page = await someone.see(HERE)
    assert alert(page) == ""
    assert 'class="outdated"' not in page
    await set_version(application, "1.4.1", "frankfurt-prod")
    assert alert(await someone.see(HERE)).startswith("1 runner is outdated: 1.5.0 is the latest release.")


async def test_an_update_of_all_is_offered_only_for_runners_that_it_can_concern(application: Application) -> None:
    await releases.publish_all(application.server.db)
    someone = await logged_in(application)
    assert 'id="update-all"' in await someone.see(HERE)
    await set_version(application, "1.5.0")
    await set_version(application, "1.4.0", "built-in")
    page = await someone.see(HERE)
    assert "built-in runs 1.4.0." in alert(page)
    assert 'id="update-all"' not in page, "shared runners are updated with their server"


async def test_a_group_has_the_alert_of_its_own_runners(application: Application) -> None:
    await releases.publish_all(application.server.db)
    someone = await logged_in(application)
    assert alert(await someone.see(f"{HERE}?group=platform")).startswith("1 runner is outdated")
    assert "platform/network/runner runs 1.4.0." in alert(await someone.see(f"{HERE}?group=platform"))


async def test_a_version_that_is_none_is_shown_as_text_and_is_not_outdated(application: Application) -> None:
    await releases.publish_all(application.server.db)
    await set_version(application, HOSTILE)
    someone = await logged_in(application)
    page = await someone.see(HERE)
    assert alert(page) == ""
    assert "<script>alert" not in page
    assert html.escape(HOSTILE) in page


async def test_readers_are_told_only_of_runners_that_they_see(application: Application) -> None:
    await releases.publish_all(application.server.db)
    await application.person("vera", "viewer", "platform")
    await application.person("otto", "owner", organization="second")
    page = await (await logged_in(application, "vera")).see(HERE)
    assert "built-in and platform/network/runner run 1.4.0." in alert(page)
    page = await (await logged_in(application, "otto")).see(HERE)
    assert "1 runner is outdated: 1.5.0 is the latest release. built-in runs 1.4.0." in alert(page)
    assert "platform" not in page


async def test_the_alert_and_the_rows_agree_about_every_runner(application: Application) -> None:
    """The statement of the alert is a second form of the rule that the rows are shown by."""
    db, chance = application.server.db, random.Random(31)
    await releases.publish_all(db)
    who = application.admin.principal
    within = RunnerScope(who.organization_id or "", is_shared=True)
    seen_counts: set[int] = set()

    async def shuffle(tx: Tx) -> tuple[int, int]:
        await tx.run("DELETE FROM instances")
        company, ids = (
            Company(tx, within.organization_id, who.id),
            [row["id"] for row in await tx.all("SELECT id FROM runners")],
        )
        for runner_id in ids:
            for number in range(chance.randrange(4)):
                version = chance.choice(["1.4.0", "1.5.0", "1.10.0", "unknown"])
                reason = chance.choice(["", "a newer one has come"])
                silent = chance.random() * 120  # half of them are not connected any more
                await company.instance(runner_id, f"i{number}", silent=silent, version=version, retire_reason=reason)
        await change_deployments(tx, version=chance.choice(["", "1.4.0", "1.5.0"]))
        alert = await rollout.read_outdated(tx, await authorize.visible(tx, who, Verb.RUNNER_READ), within)
        return alert.count if alert else 0, sum(each.is_outdated for each in await view_reads.views_of(tx, ids))

    for _ in range(40):
        alerted, shown = await db.write(shuffle)
        assert alerted == shown
        seen_counts.add(alerted)
    assert len(seen_counts) > 2, "the rounds differ"
