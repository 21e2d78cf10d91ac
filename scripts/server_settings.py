"""Prints docs/server-settings.md from the schema of the server's settings."""

from typing import Any

from settings_reference import default, described, limits, section_of, section_rows

from terracrew.settings import server
from terracrew.settings.variables import variable

HEAD = """# The server's settings

`terracrew server` and `terracrew up` read their settings from five layers, from low to high: defaults, a settings file, the
environment, the command line, external settings. `scripts/server_settings.py` generates this page from the schema.

- The **file** is JSON or TOML and is named by `--config FILE` or `TERRACREW_SERVER_CONFIG`. `"$schema"` (in TOML a comment
  `#:schema`) names its schema for editors: every server serves it at `/schemas/server.json`; `terracrew server schema` prints
  it, and [server.schema.json](server.schema.json) is a copy. [examples/server.toml](../examples/server.toml) is a complete
  file.
- A **variable** is `TERRACREW_SERVER_` and the name in capitals, an **option** is `--` and the name with hyphens
  (`--data-directory`). A list is an option that is repeated, or one variable: paths are separated by colons, other values by
  spaces or commas.
- An **external setting** is read from a vault, a file, a variable or a program ([external settings](external-settings.md)).
- `terracrew server settings` prints the effective values with the layer that each came from; secrets are hidden. The options go
  before the command: `terracrew server --config server.toml settings`.
- A start reports everything that is wrong at once, each with its place. A variable that begins with `TERRACREW_` and that no
  process of Terracrew reads is an error, too.
"""
SHARED = """
## Shared runners

Shared runners serve every organization. They are declared only in the file, as `shared_runners` with their names as keys; a
start of the server creates, changes and retires them ([operations](operations.md#shared-runners)).
"""


def rows(properties: dict[str, Any], *, has_variables: bool) -> list[str]:
    """Return one row for each setting, in the order of the schema."""
    found = ["| setting | default | what it is |", "|---|---|---|"]
    for name, each in properties.items():
        if name in ("$schema", "external", *server.FILE_ONLY):
            continue
        words = ", ".join([*limits(each), *([f"`{server.PREFIX}{name.upper()}`"] if has_variables else [])])
        value = default(each, is_required="default" not in each)
        found.append(f"| `{name}` | {value} | {described(each)}{f' ({words})' if words else ''} |")
    return found


def external(schema: dict[str, Any]) -> list[str]:
    section = section_of(schema, schema["properties"]["external"])
    rows_of = section_rows(schema, section, ("external",), lambda path: [variable(server.PREFIX, path)])
    words = section["description"].replace("\n", " ")
    return ["\n## external\n", words + "\n", "| setting | default | what it is |", "|---|---|---|", *rows_of]


def page() -> str:
    schema = server.schema()
    kinds = [
        part
        for name, title in (("BuiltInRunner", "Built in"), ("RemoteRunner", "Remote"))
        for part in (
            f"\n### {title}\n",
            schema["$defs"][name]["description"] + "\n",
            *rows(schema["$defs"][name]["properties"], has_variables=False),
        )
    ]
    return "\n".join(
        [HEAD, *rows(schema["properties"], has_variables=True), *external(schema), SHARED.rstrip("\n"), *kinds]
    )


if __name__ == "__main__":
    print(page())
