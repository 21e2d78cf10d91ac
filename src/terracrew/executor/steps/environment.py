"""The environment of every job: the runner's, the module's environment inputs, and what Terracrew adds."""

from urllib.parse import urlsplit

from terracrew.protocol.messages import Granted
from terracrew.protocol.spec import Credentials
from terracrew.protocol.start import ExecutorStart


def of_job(start: ExecutorStart, granted: Granted) -> dict[str, str]:
    """Nothing of it is an engine's own business yet; what Terracrew adds cannot be replaced by an input."""
    spec, credentials = granted.spec, granted.credentials
    ours = {"TERRACREW_GROUP_PATH": spec.group_path, "TERRACREW_ENDPOINT": start.server_url}
    return start.environment | spec.environment | ours | _tokens(start.server_url, credentials)


def _tokens(server_url: str, credentials: Credentials) -> dict[str, str]:
    """`TF_TOKEN_<host>`, as the engines read it: `.` is `_` and `-` is `__`.

    The engines look a token up by host and port, the port being left out where it is 443. So a server on another port
    gets a second variable, `TF_TOKEN_<host>:<port>`: no shell could set it, but an engine reads it.
    """
    parts = urlsplit(server_url)
    host = parts.hostname or ""
    name = "TF_TOKEN_" + host.replace("-", "__").replace(".", "_")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    names = (name,) if port == 443 else (name, f"{name}:{port}")
    return dict.fromkeys(names, credentials.api)
