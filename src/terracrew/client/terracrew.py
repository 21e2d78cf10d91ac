"""The Python client: `Terracrew(url, token)`, with a resource for each noun (docs/python-client.md)."""

from terracrew.client.http import Api, Token
from terracrew.client.resources import Groups, Inputs, Jobs, Modules, Runners, States


class Terracrew:
    """A server of Terracrew. It raises the errors of `terracrew.errors`, and sends nothing until something is asked of it."""

    def __init__(self, url: str, token: Token = None, *, organization: str | None = None, timeout: float = 30) -> None:
        """`token` is an API token, or a function that returns one. `organization` is needed by members of several."""
        self.api = Api(url, token, timeout=timeout, organization=organization)
        self.groups = Groups(self.api)
        self.modules = Modules(self.api)
        self.inputs = Inputs(self.api)
        self.jobs = Jobs(self.api)
        self.states = States(self.api)
        self.runners = Runners(self.api)

    def __enter__(self) -> "Terracrew":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to the server."""
        self.api.close()
