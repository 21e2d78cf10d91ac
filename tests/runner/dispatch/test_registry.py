"""Which dispatcher a runner uses, by its settings."""

import pytest

from terracrew.errors import Invalid
from terracrew.runner.config import RunnerConfig
from terracrew.runner.dispatch import dispatchers
from terracrew.runner.dispatch.local.dispatcher import Local


def config(dispatcher: str = "local", **data: str) -> RunnerConfig:
    return RunnerConfig(
        server_url="http://127.0.0.1",
        runner_id="rnr_1",
        instance="one",
        client_id="org_1:sac_1",
        client_secret="secret",
        working_directory="/nowhere",
        temp_directory="/nowhere",
        dispatcher=dispatcher,
        dispatcher_data=data,
    )


async def test_local_is_the_default() -> None:
    opened = dispatchers.open_dispatcher(config(), {})
    assert isinstance(opened, Local)
    await opened.close()


async def test_a_dispatcher_that_is_not_installed_is_refused_by_name() -> None:
    with pytest.raises(Invalid, match="there is no dispatcher 'absent' here; installed: local"):
        dispatchers.open_dispatcher(config("absent"), {})


async def test_a_setting_that_the_dispatcher_does_not_have_is_refused_by_name() -> None:
    with pytest.raises(Invalid, match=r"job_dispatcher\.data\.image: the dispatcher `local` has no such setting"):
        dispatchers.open_dispatcher(config(image="x"), {})
