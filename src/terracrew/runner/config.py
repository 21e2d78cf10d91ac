"""What a runner process is told before it starts: settings that were checked, in a form that costs no memory."""

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
    """Below which cgroup each attempt gets its own: a directory, `auto` for the runner's own one, or `off`."""
    engine_paths: list[str] = []
    source_roots: list[str] = []
    isolation: IsolationSettings = IsolationSettings()
    log_stream: LogStreamSettings = LogStreamSettings()
    log_level: dict[str, str] = {}
    is_built_in: bool = False
    """Lives in the server's process, so its engines get an allow-list of the environment."""
    executor_entry: str = "terracrew.executor.main:run"

    def __repr__(self) -> str:
        return f"RunnerConfig({self.runner_id!r}, instance={self.instance!r})"
