"""Turns the checked settings of a server into the plain structs that the server process uses."""

from pathlib import Path

from terracrew.server.settings import DeclaredRunner, ServerSettings
from terracrew.settings.external.layer import Facts
from terracrew.settings.server import ServerFile
from terracrew.settings.shared_runners import BuiltInRunner, RemoteRunner

_PATHS = ("data_directory", "master_key_file")
_PATH_LISTS = ("local_roots", "runner_read_paths", "runner_write_paths")
_LISTS = ("trusted_proxies", "allowed_hosts", "federation_private_issuers")


def server_settings(found: ServerFile, file: Path | None, external: Facts = Facts()) -> ServerSettings:  # noqa: B008 - frozen
    values = {name: getattr(found, name) for name in ServerFile.model_fields if name != "external"}
    values |= {name: Path(values[name]).expanduser() for name in _PATHS if values[name] is not None}
    values |= {name: tuple(Path(each) for each in values[name]) for name in _PATH_LISTS}
    values |= {name: tuple(values[name]) for name in _LISTS}
    values["database_url"] = found.database_url.get_secret_value() if found.database_url else ""
    values["master_key"] = found.master_key.get_secret_value() if found.master_key else None
    values["secret_files"] = tuple(Path(each) for each in external.private_files)
    values["secret_variables"] = external.secret_variables
    values["runner_environment"] = tuple(found.runner_environment or ())
    values["reread_seconds"] = external.reread_seconds
    values["shared_runners"] = _declared(found)
    return ServerSettings(**values, file=file and file.expanduser().absolute())


def _declared(found: ServerFile) -> tuple[DeclaredRunner, ...] | None:
    if found.shared_runners is None:
        return None
    return tuple(_runner(name, each) for name, each in sorted(found.shared_runners.items()))


def _runner(name: str, found: BuiltInRunner | RemoteRunner) -> DeclaredRunner:
    tags = tuple(sorted(set(found.tags)))
    if isinstance(found, RemoteRunner):
        return DeclaredRunner(
            name=name,
            kind="remote",
            description=found.description,
            tags=tags,
            max_jobs=found.max_jobs,
            allow_multiple_instances=found.allow_multiple_instances,
            worker_token_sha256=found.token_sha256(),
            worker_token_file=Path(found.worker_token_file) if found.worker_token_file else None,
        )
    return DeclaredRunner(
        name=name,
        kind="built-in",
        description=found.description,
        tags=tags,
        max_jobs=found.slots,
        allow_multiple_instances=True,
        engine_paths=tuple(Path(each) for each in found.additional_binary_paths),
        isolation=found.isolation,
        read_paths=tuple(Path(each) for each in found.read_paths),
        write_paths=tuple(Path(each) for each in found.write_paths),
    )
