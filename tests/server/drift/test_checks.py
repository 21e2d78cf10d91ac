"""Checks of modules: they begin one after the other, tell what differs, and say why they found nothing out."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from terracrew.protocol.events import Result
from terracrew.protocol.spec import Step
from terracrew.server.drift import loop
from tests.builders.clock import ShiftedClock
from tests.builders.deliveries import DONE, RUNNING, fact
from tests.builders.job_rows import JobRows, begin_code, change_instances
from tests.server.announcements.channels import add, outbox
from tests.server.drift.checked import CHECKS, MUTES, SOURCE, Checked, differs
from tests.server.jobs.waiting_jobs import waiting
from tests.server.simulated_runner import SimulatedRunner


def differences(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(each["address"], each["kind"]) for each in found["results"][0]["differences"]]


@pytest.mark.feature("M2.difference")
async def test_new_changed_and_gone_addresses_are_told_once(runner: SimulatedRunner) -> None:
    team = await Checked.make(runner)
    found = await team.check(differs(), differs("aws_s3.logs"))
    assert differences(found) == [("aws_s3.logs", "new"), ("aws_vpc.main", "new")]
    assert (found["drifted"], found["new"], found["check"]) == (2, 2, None)
    since = found["drifted_since"]
    found = await team.check(differs(), differs("aws_s3.logs"))
    assert (differences(found), found["drifted"], found["drifted_since"]) == ([], 2, since)
    found = await team.check(differs(after="bigger"))
    assert differences(found) == [("aws_vpc.main", "changed"), ("aws_s3.logs", "gone")]
    found = await team.check()
    assert (differences(found), found["drifted"], found["drifted_since"]) == ([("aws_vpc.main", "gone")], 0, None)
    assert [len(each["differences"]) for each in found["results"]] == [1, 2, 0, 2]


@pytest.mark.feature("M2.refresh")
async def test_a_check_is_a_plan_that_only_refreshes_unless_it_was_asked_to_be_a_full_one(
    runner: SimulatedRunner,
) -> None:
    team = await Checked.make(runner)
    await team.ask()
    await team.step()
    [job] = await team.open_jobs()
    attempt, granted = await runner.granted(job["id"])
    assert (granted.type, granted.is_refresh_only, granted.flags[Step.PLAN]) == ("PLAN", True, ["-refresh-only"])
    whole = (await team.admin.get(f"/api/v1/jobs/{job['id']}")).json()
    assert (whole["is_refresh_only"], whole["priority"], whole["origin"]["kind"]) == (True, -10, "drift")
    await attempt.deliver(RUNNING, DONE)
    await team.step()
    await team.ask(is_refresh_only=False)
    await team.step()
    [job] = await team.open_jobs()
    _, granted = await runner.granted(job["id"])
    assert (granted.is_refresh_only, granted.flags) == (False, {})


@pytest.mark.feature("M2.refresh")
async def test_a_runner_that_does_not_describe_what_it_has_found_makes_no_good_news(runner: SimulatedRunner) -> None:
    """Executors of 0.1.0 obey the flag and describe no plan without changes: nothing would seem to differ."""
    team = await Checked.make(runner)
    await team.check(differs())
    await team.ask()
    await team.step()
    found = await team.end(described=False)
    assert (found["drifted"], differences(found)) == (1, [])
    assert "its runner has an older version" in found["problem"]
    found = await team.check(differs())
    assert (found["problem"], differences(found)) == ("", [])


@pytest.mark.feature("M2.refresh")
async def test_people_are_notified_of_the_first_check_that_fails_only(runner: SimulatedRunner) -> None:
    team = await Checked.make(runner)
    rows = await JobRows.of_organization(team.server.db, team.server.organization_id)
    channel = await add(rows)

    async def fail() -> list[str]:
        await team.ask()
        await team.step()
        attempt = await runner.again((await team.show())["check"]["job_id"])
        await attempt.deliver(RUNNING, fact(Result("FAILED", "Error: no such region")))
        await team.step()
        return [each.content.title for each in await outbox(team.server.db, channel)]

    assert await fail() == ["Drift: the check failed"]
    assert await fail() == ["Drift: the check failed"], "and nobody is notified that its job has failed"
    [told] = await outbox(team.server.db, channel)
    assert "Error: no such region" in told.content.text
    await team.check()
    assert await fail() == ["Drift: the check failed"] * 2


@pytest.mark.feature("M2.refresh")
async def test_pulumi_has_no_plan_that_only_refreshes_and_says_so(runner: SimulatedRunner) -> None:
    team = await Checked.make(runner, engine="pulumi")
    await team.ask()
    await team.step()
    found = await team.show()
    assert (found["check"], await team.open_jobs()) == (None, [])
    assert "has no plan that only refreshes: ask for a full plan" in found["problem"]
    words = await team.admin.refused(
        "POST", "/api/v1/modules/team%2Fone/jobs", 400, json={"type": "PLAN", "is_refresh_only": True}
    )
    assert "is_refresh_only" in words


@pytest.mark.feature("M2.quiet")
async def test_a_check_begins_beside_no_job_of_its_module(runner: SimulatedRunner) -> None:
    team = await Checked.make(runner)
    job = await team.admin.made("/api/v1/modules/team%2Fone/jobs", {"type": "PLAN"})
    await team.ask()
    await team.step()
    assert [each["id"] for each in await team.open_jobs()] == [job["id"]]
    attempt = await runner.again(job["id"])
    await attempt.deliver(RUNNING)
    await team.step()
    assert await team.open_jobs() == []
    await attempt.deliver(DONE)
    await team.step()
    assert len(await team.open_jobs()) == 1


@pytest.mark.feature("M2.quiet")
async def test_checks_use_a_share_of_the_slots(runner: SimulatedRunner) -> None:
    names = [f"m{number}" for number in range(6)]
    team = await Checked.make(runner, *names)
    await change_instances(runner.server.db, capacity=8)
    for name in names:
        await team.ask(f"team/{name}")
    await team.step(servers=3)
    assert len(await team.open_jobs()) == 2  # a quarter of eight
    await team.step(percent=50)
    assert len(await team.open_jobs()) == 4
    await change_instances(runner.server.db, is_connected=False)
    await team.step()
    assert len(await team.open_jobs()) == 4


@pytest.mark.feature("M2.quiet")
async def test_checks_that_wait_for_slots_delay_no_other_organization(
    runner: SimulatedRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checks that were due first filled every step, although their organization had no slot left for a day."""
    monkeypatch.setattr(loop, "MAX_CHECKS_PER_STEP", 2)
    names = [f"m{number}" for number in range(4)]
    team = await Checked.make(runner, *names)
    await change_instances(runner.server.db, is_connected=False)
    for name in names:
        await team.ask(f"team/{name}")
    await team.step()
    assert len(await team.open_jobs()) == 1
    olga = await runner.app.person("olga", "owner", "", organization="other")
    await olga.made("/api/v1/modules", {"path": "own", "source": SOURCE})
    assert (await olga.post(CHECKS, json={"place": "own"})).status_code == 202
    await team.step()
    assert len(await olga.listed("/api/v1/jobs")) == 1
    assert len(await team.open_jobs()) == 1


@pytest.mark.feature("M2.quiet")
async def test_nobody_is_notified_of_a_module_that_was_deleted(runner: SimulatedRunner, clock: ShiftedClock) -> None:
    """The row of a deleted module stays until the retention removes it: its check failed, and its mute ended."""
    team = await Checked.make(runner)
    await team.check(differs())
    until = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    new = {"module": "team/one", "address": "aws_vpc.main", "reason": "tags by the cost team", "until": until}
    await team.admin.made(MUTES, new)
    rows = await JobRows.of_organization(team.server.db, team.server.organization_id)
    channel = await add(rows)
    await team.ask()
    assert (await team.admin.delete("/api/v1/modules/team%2Fone?force=true")).status_code == 204
    clock.advance(2 * 86_400)
    await team.step()
    assert await outbox(team.server.db, channel) == []


@pytest.mark.feature("M2.quiet")
async def test_one_check_runs_even_without_a_runner_and_is_given_up_after_an_hour(
    runner: SimulatedRunner, clock: ShiftedClock
) -> None:
    team = await Checked.make(runner, "one", "two")
    await change_instances(runner.server.db, is_connected=False)
    await team.ask("team/one")
    await team.ask("team/two")
    await team.step()
    assert len(await team.open_jobs()) == 1
    clock.advance(3700)
    await team.step()
    await team.step()
    problems = [(await team.show(name))["problem"] for name in ("one", "two")]
    assert sum("no runner took this drift check within an hour" in each for each in problems) == 1
    assert len(await team.open_jobs()) == 1  # that of the other module


@pytest.mark.feature("M2.quiet")
async def test_a_check_that_cannot_begin_for_a_day_is_given_up(runner: SimulatedRunner, clock: ShiftedClock) -> None:
    team = await Checked.make(runner)
    await team.admin.made("/api/v1/modules/team%2Fone/jobs", {"type": "PLAN"})
    await team.ask()
    clock.advance(25 * 3600)
    await team.step()
    found = await team.show()
    assert (found["check"], found["problem"]) == (None, "the check was given up: it could not begin for a day")


@pytest.mark.feature("M2.mutes")
async def test_a_muted_address_is_quiet_until_its_end_and_then_differs_again(
    runner: SimulatedRunner, clock: ShiftedClock
) -> None:
    team = await Checked.make(runner)
    await team.check(differs(), differs("aws_s3.logs"))
    until = (datetime.now(UTC) + timedelta(days=3)).isoformat()
    new = {"module": "team/one", "address": "aws_vpc.main", "reason": "tags by the cost team", "until": until}
    await team.admin.made(MUTES, new)
    found = await team.check(differs(after="bigger"), differs("aws_s3.logs"))
    assert (differences(found), found["drifted"], found["muted"]) == ([], 1, 1)
    assert [each["mute"] and each["mute"]["reason"] for each in found["items"]] == [None, "tags by the cost team"]
    clock.advance(3 * 86_400 + 1)
    await team.step()
    found = await team.show()
    assert (found["drifted"], found["muted"], found["mutes"]) == (2, 0, [])
    entries = await team.admin.listed("/api/v1/audit")
    ends = [each for each in entries if each["action"] == "drift.unmute"]
    assert [(each["actor_name"], each["details"]["address"]) for each in ends] == [("Terracrew", "aws_vpc.main")]


@pytest.mark.feature("M2.mutes")
async def test_a_mute_has_a_reason_an_end_and_a_place(runner: SimulatedRunner) -> None:
    team = await Checked.make(runner)
    await team.check(differs())
    now = datetime.now(UTC)
    good = {
        "module": "team/one",
        "address": "aws_vpc.main",
        "reason": "r",
        "until": (now + timedelta(days=1)).isoformat(),
    }
    for change, words in (
        ({"until": (now - timedelta(days=1)).isoformat()}, "until: "),
        ({"until": (now + timedelta(days=400)).isoformat()}, "within a year"),
        ({"until": "2026-12-01T00:00:00"}, "with its zone"),
        ({"reason": "  "}, "reason: "),
    ):
        assert words in await team.admin.refused("POST", MUTES, 400, json=good | change)
    first = await team.admin.made(MUTES, good)
    second = await team.admin.made(MUTES, good | {"reason": "another"})
    assert [each["id"] for each in (await team.show())["mutes"]] == [second["id"]]
    await team.admin.refused("DELETE", f"{MUTES}/{first['id']}", 404)
    assert (await team.admin.delete(f"{MUTES}/{second['id']}")).status_code == 204
    assert (await team.show())["drifted"] == 1


@pytest.mark.feature("M2.reconcile")
async def test_reconcile_is_an_apply_with_its_approvals_and_a_check_after_it(runner: SimulatedRunner) -> None:
    team = await Checked.make(runner, needs_approval=True)
    await team.check(differs())
    job = await team.admin.made("/api/v1/drift/reconcile", {"module": "team/one"})
    assert (job["type"], job["needs_approval"]) == ("APPLY", True)
    await team.step()
    assert [each["id"] for each in await team.open_jobs()] == [job["id"]]
    attempt = await runner.again(job["id"])
    await attempt.deliver(RUNNING)
    assert await begin_code(runner.server.db, attempt.ref, 0) == "approval"
    await attempt.deliver(waiting())
    await team.step()
    assert await team.open_jobs() == []
    answer = await team.admin.post(f"/api/v1/jobs/{job['id']}/cancel", json={})
    assert answer.json()["status"] == "CANCELED"
    await team.step()
    found = await team.end()
    assert (found["drifted"], differences(found)) == (0, [("aws_vpc.main", "gone")])


@pytest.mark.feature("M2.difference")
async def test_the_plan_of_a_check_is_not_applied(runner: SimulatedRunner) -> None:
    team = await Checked.make(runner)
    found = await team.check(differs())
    words = await team.admin.refused("POST", f"/api/v1/jobs/{found['checked_job_id']}/apply", 409, json={})
    assert "only shows what was changed outside" in words


@pytest.mark.feature("M2.fleet")
async def test_the_list_has_what_its_reader_may_see(runner: SimulatedRunner) -> None:
    team = await Checked.make(runner, "one", "two", "three")
    await team.check(differs(), name="two")
    await team.check(differs(), differs("aws_s3.logs"), name="one")
    await team.check(name="three")
    admin = team.admin
    listed = await admin.listed("/api/v1/drift", limit=1)
    assert [(each["path"], each["drifted"], each["new"]) for each in listed] == [("team/one", 2, 2), ("team/two", 1, 1)]
    assert len(await admin.listed("/api/v1/drift", only="all")) == 3
    assert len(await admin.listed("/api/v1/drift", only="all", place="team/three")) == 1
    assert await admin.listed("/api/v1/drift", only="failed") == []
    vera = await runner.app.person("vera", "viewer", "team")
    assert len(await vera.listed("/api/v1/drift", only="all")) == 3
    await vera.refused("POST", CHECKS, 403, json={"place": "team"})
    await vera.refused("POST", "/api/v1/drift/reconcile", 403, json={"module": "team/one"})
    stranger = await runner.app.person("sam", "owner", "", organization="other")
    assert await stranger.listed("/api/v1/drift", only="all") == []
    await stranger.refused("GET", "/api/v1/drift/modules/" + listed[0]["module_id"], 404)


@pytest.mark.feature("M2.quiet")
async def test_a_check_whose_asker_may_not_run_jobs_any_more_says_so(runner: SimulatedRunner) -> None:
    team = await Checked.make(runner)
    ann = await runner.app.person("ann", "operator", "team")
    assert (await ann.post(CHECKS, json={"place": "team/one"})).status_code == 202
    roles = await team.admin.listed("/api/v1/roles", principal="ann")
    await team.admin.delete(f"/api/v1/roles/{roles[0]['id']}")
    await team.step()
    assert (await team.show())["problem"].startswith("there is no module")


@pytest.mark.feature("M2.difference")
async def test_the_newest_results_are_kept(runner: SimulatedRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("terracrew.server.drift.service.MAX_KEPT_RESULTS", 2)
    team = await Checked.make(runner)
    for after in ("a", "b", "c"):
        found = await team.check(differs(after=after))
    assert len(found["results"]) == 2
    assert await runner.app.scalar("SELECT count(*) FROM drift_results") == 2
