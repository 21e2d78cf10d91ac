"""The path of a runner in the API."""


def api_path(runner: str) -> str:
    """Return the path below which the API serves this runner, given its path or id."""
    from terracrew.client.http import segment

    return f"/runners/{segment(runner)}"
