"""A source whose files are its settings."""

import hashlib
from pathlib import Path

import msgspec

from terracrew.errors import Invalid
from terracrew.executor.sources.contract import FetchContext
from terracrew.protocol.events import SourceResolved
from terracrew.protocol.spec import PluginSource


class File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    text: str = ""
    is_executable: bool = False
    link: str = ""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    files: dict[str, File]


class TextFetcher:
    async def fetch(self, source: PluginSource, workspace: Path, context: FetchContext) -> SourceResolved:
        try:
            settings = msgspec.convert(source.settings, Settings)
        except msgspec.ValidationError as error:
            raise Invalid(f"the settings of the source are wrong: {error}") from error
        for name, file in settings.files.items():
            path = workspace / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if file.link:
                path.symlink_to(file.link)
            else:
                path.write_text(file.text)
                path.chmod(0o755 if file.is_executable else 0o644)
        digest = hashlib.sha256(msgspec.json.encode(settings, order="sorted")).hexdigest()
        return SourceResolved(f"text:{digest}", f"{len(settings.files)} files in the settings")


SOURCE = TextFetcher()
