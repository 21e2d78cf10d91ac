"""The Python client: `Terracrew(url, token)`, with a resource for each noun (docs/python-client.md)."""

from terracrew.api.overview import Overview, OverviewSpan
from terracrew.client.http import Api, Token
from terracrew.client.resources import (
    GroupResource,
    InputResource,
    JobResource,
    ModuleResource,
    RunnerResource,
    StateResource,
)


class Terracrew:
    """A server of Terracrew. It raises the errors of `terracrew.errors`, and sends nothing until something is asked of it."""

    def __init__(self, url: str, token: Token = None, *, organization: str | None = None, timeout: float = 30) -> None:
        """`token` is an API token, or a function that returns one. `organization` is needed by members of several."""
        self.api = Api(url, token, timeout=timeout, organization=organization)
        self.groups = GroupResource(self.api)
        self.modules = ModuleResource(self.api)
        self.inputs = InputResource(self.api)
        self.jobs = JobResource(self.api)
        self.states = StateResource(self.api)
        self.runners = RunnerResource(self.api)

    def overview(self, place: str = "", span: OverviewSpan = "day") -> Overview:
        """Return what needs the caller, what waits, and figures of jobs and runners, in and below a group or everywhere."""
        return self.api.get("/overview", Overview, place=place, span=span)

    def __enter__(self) -> "Terracrew":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to the server."""
        self.api.close()
