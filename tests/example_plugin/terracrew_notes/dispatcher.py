"""A dispatcher that writes down every executor that it starts, and otherwise does what `local` does."""

from collections.abc import Mapping
from pathlib import Path

from terracrew.errors import Invalid
from terracrew.protocol.start import ExecutorStart
from terracrew.runner.config import RunnerConfig
from terracrew.runner.dispatch.local.dispatcher import Handle, Local


class NotedDispatcher(Local):
    def __init__(self, file: Path, config: RunnerConfig, environment: Mapping[str, str]) -> None:
        super().__init__(config.executor_entry, environment, config.engine_paths, cgroup=config.cgroup)
        self._file = file

    async def start(self, start: ExecutorStart) -> Handle:
        with self._file.open("a") as file:
            file.write(f"{Path(start.directory).name}\n")
        return await super().start(start)


class NotedPlugin:
    def open(self, config: RunnerConfig, environment: Mapping[str, str]) -> NotedDispatcher:
        if config.dispatcher_data.keys() != {"file"}:
            raise Invalid("job_dispatcher.data: the dispatcher `noted` needs a `file`, and nothing else")
        return NotedDispatcher(Path(config.dispatcher_data["file"]), config, environment)


PLUGIN = NotedPlugin()
