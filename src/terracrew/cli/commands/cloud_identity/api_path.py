"""The path of a cloud identity in the API."""


def api_path(identity: str) -> str:
    """Return the path below which the API serves this identity, given its path or id."""
    from terracrew.client.http import segment

    return f"/cloud-identities/{segment(identity)}"
