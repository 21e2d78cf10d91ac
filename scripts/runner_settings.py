"""Prints docs/runner-settings.md from the schema of a runner's settings."""

from typing import Any

from settings_reference import section_of, section_rows

from terracrew.settings import layers
from terracrew.settings.names import short_names
from terracrew.settings.runner import RunnerProcessSettings
from terracrew.settings.trees import Path
from terracrew.settings.variables import variable

HEAD = """# A runner's settings

`terracrew runner start` reads its settings from five layers, from low to high: defaults, a settings file, the environment, the
command line, external settings. `scripts/runner_settings.py` generates this page from the schema.

- The **file** is JSON or TOML and is named by `--config FILE` or `TERRACREW_RUNNER_CONFIG`. `"$schema"` (in TOML a comment
  `#:schema`) names its schema for editors: every server serves it at `/schemas/runner.json`; `terracrew runner schema` prints it,
  and [runner.schema.json](runner.schema.json) is a copy. No job can read the file.
- A **variable** is `TERRACREW_` and the name in capitals, with `__` between section and setting: `TERRACREW_RUNNER__CAPACITY`. A
  list of paths is separated by colons. A whole section may be one variable with JSON. What follows a mapping is its key:
  `TERRACREW_LOGGING__LOG_LEVEL__TERRACREW__RUNNER=Debug` sets the category `terracrew.runner`.
- An **option** is `--set NAME=VALUE` with the name as below (`--set logging.log_level.default=Debug`); some settings also have
  an option of their own (`terracrew runner start --help`). Secrets cannot be options: every user of a machine can read arguments.
- An **external setting** is read from a vault, a file, a variable or a program ([external settings](external-settings.md)).
- `terracrew runner settings` prints the effective values, where each came from and what it overrides; secrets are hidden.
  `terracrew runner start --check` only checks.
- A start reports everything that is wrong at once, each with its place: the file and line, the variable, the option. A variable
  that begins with `TERRACREW_` and that no process of Terracrew reads is an error, too.

The smallest file:

```json
{
  "$schema": "https://terracrew.example.com/schemas/runner.json",
  "server": {"url": "https://terracrew.example.com"},
  "runner": {
    "path": "spectre/spaceship/impatient",
    "credentials": {"service_account_path": "spectre/bot", "client_secret": "tcs_…"}
  }
}
```

`terracrew runner register` prints the variables for a runner with a worker token, all of them.

**The instance's name** is by default the runner's own, the last part of its path. Pins of modules and the history of an instance
follow the name, so the name of the host is no default: a container gets a new one each time it starts. A runner with several
instances needs a name for each of them: `TERRACREW_RUNNER__INSTANCE=%H` in a systemd unit, the name of the pod in a StatefulSet,
`--instance "$(hostname)"` in a shell. Two processes with one name are refused unless one takes the place of the other
([concepts](concepts.md)). With `runner.id` instead of the path, the instance must be named.

A runner and a service account may be named by their paths. The server looks the path up in the organization, for the credential
that is presented: a credential that may not serve the runner gets the same answer as for a path that does not exist. A secret or
an id shows which organization it is. A path with a credential helper does not: if the server has several organizations,
`runner.organization_id` must say it, because each of them may have an account of that path.
"""
TAIL = """
[Credential helpers](credential-helpers.md) has the whole story of `runner.credentials.helper`.
"""


def tables(schema: dict[str, Any]) -> list[str]:
    """Return a table for each section. A section in a section is part of the table of the outer one."""
    found: list[str] = []
    for name, each in schema["properties"].items():
        if "additionalProperties" in each:  # sections by names that people choose
            found += [f"\n## {name}\n\n{each['description']}"]
            continue
        section = section_of(schema, each)
        found += [f"\n## {name}\n"]
        found += [section["description"].replace("\n", " ") + "\n"] if "description" in section else []
        found += [
            "| setting | default | what it is |",
            "|---|---|---|",
            *section_rows(schema, section, (name,), _variables),
        ]
    return found


def _variables(path: Path) -> list[str]:
    short = [name for name, other in short_names(RunnerProcessSettings).items() if other == path]
    return [variable(layers.PREFIX, path), *short]


def page() -> str:
    return "\n".join([HEAD.rstrip("\n"), *tables(RunnerProcessSettings.model_json_schema()), TAIL.rstrip("\n")])


if __name__ == "__main__":
    print(page())
