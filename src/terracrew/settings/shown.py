"""Which settings may be printed. Every setting that can hold free text is hidden unless it is listed here."""

from typing import Any
from urllib.parse import urlsplit

from terracrew.settings.external import references

HIDDEN = "(hidden)"
_REFERENCES = ("external", "settings")
SHOWN = frozenset(
    {
        "server.url",
        "server.discovery_host",
        "runner.id",
        "runner.path",
        "runner.instance",
        "runner.organization_id",
        "runner.release_key",
        "runner.notices",
        "runner.credentials.client_id",
        "runner.credentials.service_account_path",
        "runner.credentials.worker_id",
        "runner.credentials.helper.command",
        "working_directory.working_directory",
        "working_directory.temp_directory",
        "working_directory.cgroup",
        "engine.additional_binary_paths",
        "engine.install",
        "executor.isolation",
        "executor.user",
        "executor.read_paths",
        "executor.write_paths",
        "source.local_roots",
        "hooks_preapproval.preapproved_hooks_directory",
        "job_dispatcher.type",
        "job_dispatcher.allow.images",
        "job_dispatcher.allow.service_accounts",
        "job_dispatcher.data.api_url",
        "job_dispatcher.data.auth_type",
        "job_dispatcher.data.bind_path",
        "job_dispatcher.data.cluster",
        "job_dispatcher.data.cpu_limit",
        "job_dispatcher.data.eks_cluster",
        "job_dispatcher.data.engines",
        "job_dispatcher.data.environment",
        "job_dispatcher.data.extra_hosts",
        "job_dispatcher.data.host",
        "job_dispatcher.data.image",
        "job_dispatcher.data.launch_type",
        "job_dispatcher.data.local_image",
        "job_dispatcher.data.memory_limit",
        "job_dispatcher.data.memory_request",
        "job_dispatcher.data.namespace",
        "job_dispatcher.data.network",
        "job_dispatcher.data.pids_limit",
        "job_dispatcher.data.pull_seconds",
        "job_dispatcher.data.region",
        "job_dispatcher.data.subnets",
        "job_dispatcher.data.task_definition",
        "logging.log_level.*",
        "data_directory",
        "host",
        "local_roots",
        "runner_isolation",
        "runner_user",
        "runner_read_paths",
        "runner_write_paths",
        "runner_environment",
        "database_url",
        "public_url",
        "cloud_runner_image",
        "release_key",
        "issuer_url",
        "trusted_proxies",
        "allowed_hosts",
        "federation_private_issuers",
        "master_key_file",
        "object_store",
        "organization",
        "precedence",
        "external.settings.*",
        "external.aws.endpoint_url",
        "external.aws.region",
        "external.azure.auth",
        "external.azure.authority",
        "external.azure.client_id",
        "external.azure.client_secret_file",
        "external.azure.federated_token_file",
        "external.azure.metadata_url",
        "external.azure.tenant_id",
        "external.vault.address",
        "external.vault.auth",
        "external.vault.ca_file",
        "external.vault.jwt_file",
        "external.vault.mount",
        "external.vault.namespace",
        "external.vault.role",
        "external.vault.role_id",
        "external.vault.secret_id_file",
        "external.vault.token_file",
        "shared_runners.*.additional_binary_paths",
        "shared_runners.*.description",
        "shared_runners.*.isolation",
        "shared_runners.*.kind",
        "shared_runners.*.read_paths",
        "shared_runners.*.tags",
        "shared_runners.*.worker_token_file",
        "shared_runners.*.worker_token_sha256",
        "shared_runners.*.write_paths",
    }
)
"""Settings with text that is no secret. `*` stands for a name that people choose. An address is shown without its password."""
_CHOSEN_NAMES = (("logging", "log_level"), ("shared_runners",), _REFERENCES)
"""The settings below which people choose the names. Those of a dispatcher are known, or they are hidden."""


def is_listed(path: tuple[str, ...]) -> bool:
    """Return whether the text of a setting may be printed."""
    if path[:1] == ("job_dispatchers",):
        path = ("job_dispatcher", *path[2:])
    for section in _CHOSEN_NAMES:
        if path[: len(section)] == section and len(path) > len(section):
            path = (*section, "*", *path[len(section) + 1 :])
    return ".".join(path) in SHOWN


def value(path: tuple[str, ...], found: Any) -> Any:
    """Return a value as it may be printed. Numbers, true and false are no secrets."""
    if found is None or isinstance(found, bool | int | float) or found in ("", [], {}):
        return found
    if not is_listed(path):
        return HIDDEN
    if path[: len(_REFERENCES)] == _REFERENCES:
        return _reference(found)
    is_address = isinstance(found, str) and ("://" in found or path[-1].endswith("url"))
    return _without_password(found) if is_address else found


def _reference(text: Any) -> str:
    """Return a reference without the arguments of a program. In a lower layer it may be no reference at all."""
    try:
        return str(references.parse(text)) if isinstance(text, str) else HIDDEN
    except ValueError:
        return HIDDEN


def _without_password(address: str) -> str:
    """Return an address without its password and its query. Nothing is shown of a text that is not an address."""
    try:
        found = urlsplit(address)
        host = f"{found.hostname}:{found.port}" if found.port else found.hostname
    except ValueError:
        return HIDDEN
    if not found.scheme or not host:
        return HIDDEN
    if not (found.password or found.query or found.fragment):
        return address
    user = f"{found.username or ''}{':' + HIDDEN if found.password else ''}"
    rest = f"?{HIDDEN}" if found.query else ""
    return f"{found.scheme}://{user + '@' if user else ''}{host}{found.path}{rest}"
