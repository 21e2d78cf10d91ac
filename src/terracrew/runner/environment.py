"""Chooses the environment variables that the zygote and the engines get."""

import fnmatch
import re
from collections.abc import Collection, Mapping

PREFIX = "TERRACREW_"
_ALLOWED_BESIDE_SERVER = re.compile(
    r"PATH|HOME|LANG|LC_\w+|TZ|TMPDIR|SSL_CERT_\w+|GIT_SSL_CA(INFO|PATH)|\w+_proxy|\w+_PROXY|GOGC|GOMEMLIMIT"
)
"""The only variables of the server's environment that an engine of the built-in runner gets, besides those that its settings name."""
CLOUD_VARIABLES = (
    *("AWS_*", "ARM_*", "AZURE_*", "GOOGLE_*", "GCLOUD_*", "CLOUDSDK_*", "OCI_*", "OS_*", "ALICLOUD_*"),
    *("CLOUDFLARE_*", "DIGITALOCEAN_*", "HCLOUD_*", "KUBECONFIG", "KUBE_*", "VAULT_*", "GITHUB_TOKEN", "GITLAB_TOKEN"),
    *("TF_VAR_*", "TF_TOKEN_*", "TF_CLI_CONFIG_FILE", "TF_PLUGIN_CACHE_DIR", "PULUMI_*"),
)
"""What an engine of `terracrew up` gets as well: the variables with which people use engines and clouds at a prompt."""
_NEEDED_BY_ZYGOTE = re.compile(r"PYTHON\w+|TERRACREW_CACHE|XDG_CACHE_HOME|TERRACREW_[A-Z]+_(RELEASES|SHA256)")
"""Python reads these when the zygote starts. The search for engines reads the cache directories, and their installation the others."""


def for_engines(environ: Mapping[str, str], *, is_built_in: bool, patterns: Collection[str] = ()) -> dict[str, str]:
    """Return the base environment of engines: the runner's own without the variables of Terracrew.

    `patterns` are the names of what an engine of the built-in runner gets besides the few that it always gets.
    """
    if not is_built_in:
        return {name: value for name, value in environ.items() if not name.startswith(PREFIX)}
    return {name: value for name, value in environ.items() if _is_allowed_beside_server(name, patterns)}


def _is_allowed_beside_server(name: str, patterns: Collection[str]) -> bool:
    if name.startswith(PREFIX):
        return False
    is_named = any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    return is_named or _ALLOWED_BESIDE_SERVER.fullmatch(name) is not None


def for_zygote(environ: Mapping[str, str], *, is_built_in: bool) -> dict[str, str]:
    """Return the environment of the zygote. It contains no secret of Terracrew."""
    needed = {name: value for name, value in environ.items() if _NEEDED_BY_ZYGOTE.fullmatch(name)}
    return for_engines(environ, is_built_in=is_built_in) | needed
