"""The variables in which engines expect a token for a host, here the read-only token of the job for the server."""

from urllib.parse import urlsplit

_HTTPS_PORT = 443


def variables(server_url: str, discovery_host: str, token: str) -> dict[str, str]:
    """Return the variables for the server's own host and for the one under which modules name it."""
    server = urlsplit(server_url)
    port = server.port or (_HTTPS_PORT if server.scheme == "https" else 80)
    named = urlsplit(f"//{discovery_host}")
    hosts = [(server.hostname or "", port), (named.hostname or "", named.port or _HTTPS_PORT)]
    return {name: token for host, each in hosts if host for name in _names(host, each)}


def _names(host: str, port: int) -> tuple[str, ...]:
    """Return `TF_TOKEN_<host>`, in which the engines expect `_` for `.` and `__` for `-`.

    The engines look a token up by host and port, without the port if it is 443. So a server on another port gets a second
    variable, `TF_TOKEN_<host>:<port>`. A shell cannot set such a name, but an engine reads it.
    """
    ascii_host = host if host.isascii() else host.encode("idna").decode()
    name = "TF_TOKEN_" + ascii_host.replace("-", "__").replace(".", "_")
    return (name,) if port == _HTTPS_PORT else (name, f"{name}:{port}")
