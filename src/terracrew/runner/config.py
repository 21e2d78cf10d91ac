"""The checked settings of a runner process, as a struct that needs no settings library to be read."""

import msgspec

from terracrew.protocol.start import IsolationSettings, LogStreamSettings


class RunnerConfig(msgspec.Struct, frozen=True):
    server_url: str
    runner_id: str
    instance: str
    client_id: str
    """The client id for the token endpoint: `<organization>:<client>` or `<organization>:<worker>`."""
    client_secret: str
    working_directory: str
    temp_directory: str
    rotates_worker_token: bool = False
    capacity: int = 4
    cgroup: str = "auto"
    """The cgroup below which each attempt gets its own: a directory, `auto` for the cgroup of the runner, or `off`."""
    engine_paths: list[str] = []
    source_roots: list[str] = []
    isolation: IsolationSettings = IsolationSettings()
    log_stream: LogStreamSettings = LogStreamSettings()
    log_level: dict[str, str] = {}
    is_built_in: bool = False
    """Whether this runner is part of the server's process. Its engines then get only allowed environment variables."""
    dispatcher: str = "local"
    dispatcher_data: dict[str, str] = {}
    """Settings of the dispatcher, which only it understands."""
    executor_entry: str = "terracrew.executor.main:run"

    def __repr__(self) -> str:
        return f"RunnerConfig({self.runner_id!r}, instance={self.instance!r})"
