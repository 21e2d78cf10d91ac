"""Checks what people put into a module: its engine, its audiences, and where its source may be."""

import posixpath
from collections.abc import Mapping, Sequence
from pathlib import Path

from terracrew import plugins
from terracrew.api.modules import Backend
from terracrew.engine_rules import flags
from terracrew.errors import Invalid
from terracrew.protocol.spec import LocalSource, PluginSource, audience_slug
from terracrew.server.principals.model import AUDIENCE
from terracrew.server.tree.inputs.checks import check_depth, check_size

MAX_SOURCE_SETTINGS_BYTES = 16 * 1024
MAX_SUBDIRECTORY_CHARACTERS = 1_000
MAX_AUDIENCES = 5
MAX_AUDIENCE_CHARACTERS = 200


def check_engine(engine: str) -> None:
    """Refuse a text that cannot name an engine."""
    if not plugins.is_name(engine):
        raise Invalid.in_field(
            "engine",
            f"{engine[:100]!r} is not the name of an engine: use at most 32 lower-case letters, digits and `-`, "
            "beginning with a letter",
        )


def check_workspace(engine: str, backend: Backend, environment: Mapping[str, str]) -> None:
    """Refuse a workspace for a module whose state has none. The executor checks this again, with what groups and the job set."""
    if backend == "terracrew" and engine in ("tofu", "terraform"):
        flags.check_workspace(environment)


def check_audiences(audiences: Sequence[str]) -> None:
    if len(audiences) > MAX_AUDIENCES:
        raise Invalid.in_field("oidc_audiences", f"{len(audiences)} are too many: at most {MAX_AUDIENCES} are allowed")
    seen: set[str] = set()
    for audience in audiences:
        if not 1 <= len(audience) <= MAX_AUDIENCE_CHARACTERS or not audience.isprintable():
            raise Invalid.in_field(
                "oidc_audiences", f"{audience[:250]!r} should be 1 to {MAX_AUDIENCE_CHARACTERS} printable characters"
            )
        if audience.strip().lower() == AUDIENCE:
            raise Invalid.in_field(
                "oidc_audiences", f"{audience!r} is this server itself: name the cloud that is to trust it"
            )
        if (slug := audience_slug(audience)) in seen:
            raise Invalid.in_field(
                "oidc_audiences", f"two of them would be the engine's variable TERRACREW_OIDC_TOKEN_FILE_{slug}"
            )
        seen.add(slug)


def check_local(source: LocalSource, roots: Sequence[Path]) -> None:
    """Refuse a local path that is not in its normal form, or not under one of the roots that the server allows."""
    if not posixpath.isabs(source.path) or posixpath.normpath(source.path) != source.path or "\0" in source.path:
        raise Invalid.in_field(
            "source.path", f"{source.path!r} should be absolute and without `.`, `..` or double slashes"
        )
    if not roots:
        raise Invalid.in_field(
            "source", "local paths are not allowed here: the server's setting `local_roots` names none"
        )
    if not any(Path(source.path).is_relative_to(root.expanduser()) for root in roots):
        allowed = ", ".join(str(root) for root in roots)
        raise Invalid.in_field(
            "source.path", f"{source.path} is not under one of the server's `local_roots` ({allowed})"
        )


def check_plugin_source(source: PluginSource) -> None:
    """Check the shape and the size of a source whose settings only a package on the runners understands."""
    if not plugins.is_name(source.plugin):
        raise Invalid.in_field(
            "source.plugin",
            f"{source.plugin[:100]!r} is not the name of a plug-in: use at most 32 lower-case letters, "
            "digits and `-`, beginning with a letter",
        )
    if source.plugin in plugins.BUILT_IN[plugins.SOURCES]:
        raise Invalid.in_field(
            "source.plugin", f"{source.plugin} is a kind of source of Terracrew itself: give it as source.kind"
        )
    check_depth("source.settings", source.settings)
    check_size("source.settings", source.settings, MAX_SOURCE_SETTINGS_BYTES)


def check_subdirectory(subdirectory: str) -> None:
    if not subdirectory:
        return
    if len(subdirectory) > MAX_SUBDIRECTORY_CHARACTERS or not subdirectory.isprintable():
        raise Invalid.in_field(
            "source.subdirectory",
            f"{subdirectory[:100]!r} should be at most {MAX_SUBDIRECTORY_CHARACTERS:,} printable characters",
        )
    is_plain = posixpath.normpath(subdirectory) == subdirectory and not subdirectory.startswith(("/", ".."))
    if not is_plain or subdirectory == "." or "\0" in subdirectory or "\\" in subdirectory:
        raise Invalid.in_field(
            "source.subdirectory", f"{subdirectory!r} should be relative, without `.`, `..` or double slashes"
        )
