"""Opens the dispatcher that the runner's settings name."""

from collections.abc import Mapping
from typing import Any, cast

from terracrew import plugins
from terracrew.runner.config import RunnerConfig
from terracrew.runner.dispatch.protocol import Dispatcher, DispatcherPlugin


def open_dispatcher(config: RunnerConfig, environment: Mapping[str, str]) -> Dispatcher[Any]:
    """Open the dispatcher. Raises Invalid if no package provides the dispatcher, or if it cannot use its settings."""
    plugin = cast("DispatcherPlugin", plugins.load(plugins.DISPATCHERS, config.dispatcher))
    return plugin.open(config, environment)
