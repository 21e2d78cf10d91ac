"""The status of a runner follows from its instances, and decides when the runner may be removed."""

import itertools
from datetime import UTC, datetime

import pytest

from terracrew.api.runners import Instance, RunnerStatus
from terracrew.server.cloud_hosted import starting
from terracrew.server.dashboard.runners import rows as pages
from terracrew.server.db.seam import Tx
from terracrew.server.identity.people import service
from terracrew.server.identity.people import store as people
from terracrew.server.identity.people.sessions import person
from terracrew.server.runners import view_reads
from terracrew.server.runners.model import instance_status
from tests.builders.job_rows import JobRows, insert_instance
from tests.server.application import Application
from tests.server.deployments.cloud_rows import cloud_runner
from tests.server.runners.connected import connect

ONLINE, OFFLINE, DRAINING = RunnerStatus.ONLINE, RunnerStatus.OFFLINE, RunnerStatus.DRAINING


@pytest.mark.feature("O2.status")
@pytest.mark.parametrize(
    ("is_connected", "is_draining", "expected"),
    [(True, False, ONLINE), (True, True, DRAINING), (False, False, OFFLINE), (False, True, OFFLINE)],
)
def test_an_instance_is_what_it_was_heard_to_be(is_connected: bool, is_draining: bool, expected: RunnerStatus) -> None:
    then = datetime.fromtimestamp(1000, UTC)
    instance = Instance("ins_1", "rnr_1", "one", "1.0", 4, {}, is_connected, is_draining, then, None, then)
    assert instance_status(instance) is expected


@pytest.mark.feature("O2.draining")
async def test_a_runner_is_what_its_best_instance_is_and_drains_when_told(application: Application) -> None:
    statuses = (ONLINE, OFFLINE, DRAINING)
    fleets = [fleet for count in range(3) for fleet in itertools.product(statuses, repeat=count)]
    expected: dict[str, RunnerStatus] = {}
    for is_told, fleet in itertools.product((False, True), fleets):
        name = f"r{len(expected)}"
        made = await application.admin.made("/api/v1/runners", {"name": name})
        await application.admin.post(f"/api/v1/runners/{name}/drain", json={"on": is_told})
        for number, each in enumerate(fleet):
            flags = {"is_connected": each is not OFFLINE, "is_draining": each is DRAINING}
            await connect(application, made["id"], f"i{number}", **flags)
        best = ONLINE if ONLINE in fleet else DRAINING if DRAINING in fleet else OFFLINE
        # Told to drain, it drains for as long as anything of it is there.
        expected[name] = DRAINING if is_told and best is ONLINE else best
    found = (await application.admin.get("/api/v1/runners", params={"limit": 100})).json()["items"]
    assert {each["name"]: each["status"] for each in found} == expected
    who = person(await application.server.db.read(lambda tx: people.user(tx, service.ADMINISTRATOR)), None)
    # Every name has an r: a search for it finds the same runners by another statement.
    all_, searched = [
        await application.server.db.read(lambda tx, typed=typed: pages.read_page(tx, who, None, typed, 1))
        for typed in ("", "r")
    ]
    found = list(expected.values())
    assert all_.counts == {"ALL": len(expected), **{each.value: found.count(each) for each in RunnerStatus}}
    assert searched.counts == all_.counts
    paths = [row.runner.path for row in all_.rows]
    assert paths == sorted(expected)
    assert [row.runner.path for row in searched.rows] == paths


@pytest.mark.feature("O2.status", "R1.cloud")
async def test_a_cloud_hosted_runner_without_an_instance_is_asleep_or_waking_and_not_offline(
    application: Application,
) -> None:
    rows = await JobRows.of_organization(application.server.db, application.admin.principal.organization_id or "")
    runners = {
        "asleep": await cloud_runner(rows),
        "waking": await cloud_runner(rows),
        "online": await cloud_runner(rows),
        "draining": await cloud_runner(rows),
        "new": await cloud_runner(rows, status="new"),
    }
    await application.server.db.write(lambda tx: starting.decide(tx, runners["waking"], 1))
    await connect(application, runners["online"], "one")
    await application.admin.post(f"/api/v1/runners/{runners['draining']}/drain", json={"on": True})
    expected = {
        "asleep": RunnerStatus.ASLEEP,
        "waking": RunnerStatus.WAKING,
        "online": ONLINE,
        "draining": DRAINING,
        "new": OFFLINE,
    }
    for name, runner_id in runners.items():
        shown = (await application.admin.get(f"/api/v1/runners/{runner_id}")).json()
        assert shown["status"] == expected[name], name
        listed = await application.admin.listed("/api/v1/runners", status=expected[name].value)
        assert [each["id"] for each in listed] == [runner_id]
    who = person(await application.server.db.read(lambda tx: people.user(tx, service.ADMINISTRATOR)), None)
    for typed in ("", "rnr"):
        page = await application.server.db.read(lambda tx, typed=typed: pages.read_page(tx, who, None, typed, 1))
        assert page.counts == {"ALL": 5, **dict.fromkeys(RunnerStatus, 1)}
    counted = await application.server.db.read(view_reads.counts_by_status)
    assert {row["status"]: row["runners"] for row in counted} == dict.fromkeys(RunnerStatus, 1)


@pytest.mark.feature("O2.status", "V1.reported")
async def test_a_runner_shows_its_instances_and_is_found_by_its_status(application: Application) -> None:
    runners = {
        name: await application.admin.made("/api/v1/runners", {"name": name})
        for name in ("on", "off", "draining", "told")
    }
    await connect(application, runners["on"]["id"], "two", version="0.2.0")
    await connect(application, runners["on"]["id"], "one", is_connected=False, heard_at=1.0)
    await connect(application, runners["draining"]["id"], "one", is_draining=True)
    await connect(application, runners["told"]["id"], "one")
    await application.admin.post("/api/v1/runners/told/drain", json={"on": True})

    async def found(**params: str) -> set[str]:
        return {
            each["name"] for each in (await application.admin.get("/api/v1/runners", params=params)).json()["items"]
        }

    assert await found(status="ONLINE") == {"on"}
    assert await found(status="OFFLINE") == {"off"}
    assert await found(status="DRAINING") == {"draining", "told"}
    assert await found() == set(runners)
    await application.admin.refused("GET", "/api/v1/runners", 400, params={"status": "GONE"})
    shown = (await application.admin.get("/api/v1/runners/on")).json()
    assert (shown["status"], shown["version"]) == ("ONLINE", "0.2.0")
    assert shown["last_seen_at"].startswith("20")
    assert [(each["name"], each["status"]) for each in shown["instances"]] == [("one", "OFFLINE"), ("two", "ONLINE")]
    assert shown["instances"][0]["engines"] == {"tofu": "1.12.6"}


@pytest.mark.feature("O2.status")
async def test_of_a_fleet_that_comes_and_goes_a_runner_shows_the_last_instances_and_counts_the_connected_ones(
    application: Application,
) -> None:
    """A runner whose pods had left 20,000 instances behind was shown with all of them, in every list of runners."""
    made = await application.admin.made("/api/v1/runners", {"name": "pods"})

    async def work(tx: Tx) -> None:
        for number in range(130):
            flags = {"is_connected": number < 105, "is_draining": number < 104}
            gone = None if number < 105 else tx.now - 1000 + number
            name = f"pod-{number:03}"
            await insert_instance(tx, made["id"], name=name, capacity=2, disconnected_at=gone, **flags)

    await application.server.db.write(work)
    shown = (await application.admin.get("/api/v1/runners/pods")).json()
    assert (shown["status"], shown["capacity"]) == ("ONLINE", 210)
    gone = [each["name"] for each in shown["instances"] if not each["is_connected"]]
    assert (len(shown["instances"]) - len(gone), gone) == (100, [f"pod-{number}" for number in range(120, 130)])
