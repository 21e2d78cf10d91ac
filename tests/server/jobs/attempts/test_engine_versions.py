"""A job gets one version of its engine: one that its module wants and that its runner has."""

import pytest

from terracrew.server.engines import model, store
from terracrew.server.jobs import decide
from terracrew.server.jobs import service as jobs
from tests.builders.job_rows import Instance, JobRows, change_instances, change_modules

pytestmark = pytest.mark.feature("J4.version", "S5.engine")


async def announce(rows: JobRows, instance: Instance, *versions: str, installs: bool = False) -> None:
    """Let an instance have these versions of OpenTofu."""
    defaults = {"tofu": versions[0]} if versions else {}
    installable = ["tofu"] if installs else []
    have = model.available(defaults, {"tofu": versions} if versions else {}, installable)
    await change_instances(
        rows.db,
        instance.id,
        engines=defaults,
        engine_versions={"tofu": versions} if versions else {},
        installable_engines=installable,
    )
    await rows.db.write(lambda tx: store.set_available(tx, {instance.id: have}))


async def wanting(rows: JobRows, wanted: str) -> str:
    """A queued job of a module that wants these versions."""
    module = await rows.module()
    await change_modules(rows.db, module, engine_version=wanted)
    await rows.db.write(lambda tx: store.remember_range(tx, "tofu", wanted))
    return await rows.job(module)


async def test_a_range_is_resolved_by_the_claim_and_kept_by_every_later_attempt(rows: JobRows) -> None:
    first, second = await rows.runner(), await rows.runner()
    await announce(rows, first, "1.12.6", "1.13.2", "2.0.0")
    await announce(rows, second, "1.13.4", "1.12.9")
    job = await wanting(rows, "~> 1.12")
    granted = await first.has(job)
    assert granted.spec.engine_version == "1.13.2"
    loaded = await rows.load(job)
    assert (loaded.engine_version, loaded.pinned_engine_version) == ("1.13.2", "1.13.2")
    await jobs.settle(rows.db, first.ref(job), lambda it, attempt, now: decide.hand_back(it, attempt, "no disk", now))
    requeued = await rows.load(job)
    assert (requeued.status, requeued.engine_version) == ("QUEUED", "1.13.2")
    assert await second.claim(job, attempt=2) is None, "it has other versions only"
    await announce(rows, second, "1.13.4", "1.13.2")
    again = await second.has(job, attempt=2)
    assert again.spec.engine_version == "1.13.2"


async def test_an_instance_without_a_wanted_version_cannot_claim(rows: JobRows) -> None:
    runner = await rows.runner()
    await announce(rows, runner, "1.12.6", "1.13.0-rc1")
    for wanted in ("1.12.5", "~> 1.13", ">= 1.12, != 1.12.6", "< 1.12"):
        assert await runner.claim(await wanting(rows, wanted)) is None, wanted
    assert (await runner.has(await wanting(rows, "1.13.0-rc1"))).spec.engine_version == "1.13.0-rc1"


async def test_a_module_that_accepts_any_version_is_bound_to_none(rows: JobRows) -> None:
    runner = await rows.runner()
    await announce(rows, runner, "1.12.6", "1.13.2")
    job = await rows.job(await rows.module())
    assert (await runner.has(job)).spec.engine_version == ""
    assert (await rows.load(job)).pinned_engine_version == ""


async def test_an_instance_that_installs_engines_is_told_which_version(rows: JobRows) -> None:
    runner = await rows.runner()
    await announce(rows, runner, installs=True)
    assert (await runner.has(await rows.job(await rows.module()))).spec.engine_version == "1.12.6"
    assert (await runner.has(await wanting(rows, "1.13.2"))).spec.engine_version == "1.13.2"
    assert await runner.claim(await wanting(rows, "> 1.13.2")) is None, "the range names no version to install"


async def test_a_hello_replaces_what_the_instance_had(rows: JobRows) -> None:
    runner = await rows.runner()
    await announce(rows, runner, "1.13.2")
    await announce(rows, runner, "1.12.6")
    assert await runner.claim(await wanting(rows, "1.13.2")) is None
