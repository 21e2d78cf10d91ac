"""A job that asks for something of a dispatcher is given only to an instance that offers it."""

import msgspec
import pytest

from terracrew.api.jobs import JobStatus
from terracrew.protocol.dispatcher_choice import AllowedChoices, DispatcherChoice, OfferedDispatcher
from terracrew.server.jobs import decide
from terracrew.server.jobs import service as jobs
from tests.builders.job_rows import Instance, JobRows, change_instances, change_jobs

pytestmark = pytest.mark.feature("D1.asked", "X2.enforced")

DEFAULT = OfferedDispatcher("default", "local", engines={"tofu": ["1.12.6"]})
SMALL = OfferedDispatcher("small", "docker", AllowedChoices(max_memory_mb=128), {"tofu": ["1.11.4"]})
BIG = OfferedDispatcher("big", "docker", AllowedChoices(["team/*"], 1024), {"tofu": ["1.13.2"]})


async def announce(rows: JobRows, instance: Instance, *offers: OfferedDispatcher) -> None:
    text = msgspec.json.encode(offers).decode()
    await change_instances(rows.db, instance.id, dispatchers=text)


async def asking(rows: JobRows, choice: DispatcherChoice) -> str:
    """A queued job that asks for this."""
    job = await rows.job(await rows.module())
    text = msgspec.json.encode(choice).decode()
    await change_jobs(rows.db, job, dispatcher=text)
    return job


@pytest.mark.parametrize(
    ("choice", "name"),
    [
        (DispatcherChoice("big", "team/app:1", 1024), "big"),
        (DispatcherChoice("docker"), "small"),
        (DispatcherChoice("docker", memory_mb=512), "big"),
        (DispatcherChoice("local"), "default"),
    ],
)
async def test_a_grant_names_the_dispatcher_that_was_found(rows: JobRows, choice: DispatcherChoice, name: str) -> None:
    runner = await rows.runner()
    await announce(rows, runner, DEFAULT, SMALL, BIG)
    job = await asking(rows, choice)
    granted = await runner.has(job)
    assert granted.spec.choice == msgspec.structs.replace(choice, name=name)
    assert (await rows.load(job)).dispatcher == choice, "the job keeps what it asked for"
    assert granted.spec.engine_version == "", "any version of the image will do"


@pytest.mark.parametrize(
    "choice",
    [
        DispatcherChoice("kubernetes"),
        DispatcherChoice("big", "evil/app:1"),
        DispatcherChoice("big", memory_mb=1025),
        DispatcherChoice("big", cpu=0.1),
        DispatcherChoice("big", service_account="admin"),
        DispatcherChoice(image="team/app:1"),
    ],
)
async def test_a_runner_that_claims_what_it_does_not_offer_gets_nothing_and_another_one_does(
    rows: JobRows, choice: DispatcherChoice
) -> None:
    """A hostile runner claims any job that it knows the id of."""
    hostile, other = await rows.runner(), await rows.runner()
    await announce(rows, hostile, DEFAULT, SMALL, BIG)
    allows = AllowedChoices(["**"], 9999, 99.0, ["**"])
    await announce(rows, other, *(msgspec.structs.replace(each, allows=allows) for each in (DEFAULT, BIG)))
    job = await asking(rows, choice)
    before = await rows.load(job)
    assert await hostile.claim(job) is None
    assert await rows.load(job) == before, "nobody can tell that it was tried"
    if choice.name != "kubernetes":
        assert (await other.has(job)).spec.choice.image == choice.image


async def test_a_runner_of_an_older_version_gets_only_jobs_that_ask_for_nothing(rows: JobRows) -> None:
    runner = await rows.runner()
    for choice in (DispatcherChoice("local"), DispatcherChoice("default"), DispatcherChoice(memory_mb=64)):
        assert await runner.claim(await asking(rows, choice)) is None
    assert await runner.has(await rows.job(await rows.module()))


async def test_a_dispatcher_has_engines_of_its_own(rows: JobRows) -> None:
    runner = await rows.runner()
    without = msgspec.structs.replace(BIG, engines={"pulumi": ["3.0.0"]})
    await announce(rows, runner, DEFAULT, without)
    assert await runner.claim(await asking(rows, DispatcherChoice("big"))) is None
    await announce(rows, runner, msgspec.structs.replace(DEFAULT, engines={}), BIG)
    assert await runner.has(await asking(rows, DispatcherChoice("big")))


async def test_every_attempt_of_a_job_asks_for_the_same(rows: JobRows) -> None:
    runner = await rows.runner()
    await announce(rows, runner, DEFAULT, BIG)
    job = await asking(rows, DispatcherChoice("docker", "team/app:1"))
    await runner.has(job)
    back = "the dispatcher big of this runner does not allow the image team/app:1"
    await jobs.settle(rows.db, runner.ref(job), lambda it, attempt, now: decide.hand_back(it, attempt, back, now))
    assert (await rows.load(job)).status == JobStatus.QUEUED
    assert (await runner.has(job, attempt=2)).spec.choice == DispatcherChoice("big", "team/app:1")
