"""Opens the dispatchers that the runner's settings name."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from terracrew import plugins
from terracrew.errors import Invalid
from terracrew.protocol.dispatcher_choice import DEFAULT
from terracrew.runner.config import RunnerConfig
from terracrew.runner.dispatch.dispatchers import Dispatchers, OpenedDispatcher
from terracrew.runner.dispatch.protocol import Dispatcher, DispatcherPlugin


def open_dispatcher(config: RunnerConfig, environment: Mapping[str, str]) -> Dispatcher[Any]:
    """Open the default dispatcher. Raises Invalid if no package provides the dispatcher, or if it cannot use its settings."""
    plugin = cast("DispatcherPlugin", plugins.load(plugins.DISPATCHERS, config.dispatcher))
    return plugin.open(config, environment)


async def open_all(config: RunnerConfig, environment: Mapping[str, str]) -> Dispatchers:
    """Open the default dispatcher, and those that jobs may ask for by their names."""
    opened = [
        OpenedDispatcher(DEFAULT, config.dispatcher, open_dispatcher(config, environment), config.dispatcher_allows)
    ]
    try:
        for each in config.named_dispatchers:
            own = msgspec.structs.replace(
                config,
                # Two dispatchers of one instance would take what the other one started for that of an earlier process.
                instance=f"{config.instance}.{each.name}",
                dispatcher=each.type,
                dispatcher_data=each.data,
                executor_server_url=each.executor_server_url or config.executor_server_url,
            )
            try:
                dispatcher = open_dispatcher(own, environment)
            except Invalid as error:
                raise Invalid(f"job_dispatchers.{each.name}: {error.message}") from error
            opened.append(OpenedDispatcher(each.name, each.type, dispatcher, each.allows, own.executor_server_url))
    except BaseException:
        await Dispatchers(opened).close()
        raise
    return Dispatchers(opened)
