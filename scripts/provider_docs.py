"""Writes docs/provider: a page for each resource and data source of the provider, from the schema that the provider itself gives
(`make provider-docs`).
"""

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from terracrew import __version__
from terracrew.toolchains import discovery

ROOT = Path(__file__).parents[1]
ADDRESS = "terracrew/terracrew"
EXAMPLES = ROOT / "provider" / "examples"
TYPES = {"string": "text", "number": "number", "bool": "true or false", "dynamic": "anything"}
IMPORTS = {
    "terracrew_assignment": ("the runner and the place, with a colon between them", "large:platform/network"),
    "terracrew_cloud_identity": ("its path or id", "platform/frankfurt"),
    "terracrew_group": ("its path or id", "platform"),
    "terracrew_module": ("its path or id", "platform/network"),
    "terracrew_role": ("its id, which `terracrew role list` shows", "rol_…"),
    "terracrew_runner": ("its path or id", "platform/crew"),
    "terracrew_schedule": ("its id, which `terracrew schedule list` shows", "sch_…"),
    "terracrew_service_account": ("its path or id", "platform/crew"),
    "terracrew_variable": ("its place, its target and its name, with colons between them", "platform:variable:zones"),
}
"""What each resource is imported by, in words and as an example."""


def configuration(mirror: Path) -> str:
    """Return the configuration with which OpenTofu and Terraform get the provider from a mirror, and all others as usual."""
    return f"""provider_installation {{
  filesystem_mirror {{
    path    = "{mirror}"
    include = ["{ADDRESS}"]
  }}
  direct {{
    exclude = ["{ADDRESS}"]
  }}
}}
"""


def read_schema(mirror: Path) -> dict[str, Any]:
    """Return what the provider of a mirror says of itself."""
    found = discovery.find("tofu")
    if found is None:
        raise SystemExit("OpenTofu is not here: `terracrew engine install tofu` installs it")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tofurc").write_text(configuration(mirror))
        needed = {"terracrew": {"source": ADDRESS, "version": __version__}}
        (folder / "main.tf.json").write_text(json.dumps({"terraform": {"required_providers": needed}}))
        env = {**os.environ, "TF_CLI_CONFIG_FILE": str(folder / "tofurc")}
        for arguments in (["init"], ["providers", "schema", "-json"]):
            done = subprocess.run([found.path, *arguments], cwd=folder, env=env, stdout=subprocess.PIPE, check=True)
    [schema] = json.loads(done.stdout)["provider_schemas"].values()
    return schema


def pages(schema: dict[str, Any]) -> dict[str, str]:
    """Return each page by the name of its file."""
    resources, lookups = schema["resource_schemas"], schema["data_source_schemas"]
    made = {f"{short(name)}.md": page(name, name, each["block"]) for name, each in resources.items()}
    return made | {
        f"data-{short(name)}.md": page(f"data {name}", f"data_{name}", each["block"]) for name, each in lookups.items()
    }


def short(name: str) -> str:
    return name.removeprefix("terracrew_").replace("_", "-")


def page(title: str, example: str, block: dict[str, Any]) -> str:
    attributes: dict[str, Any] = block["attributes"]
    given = {name: each for name, each in attributes.items() if each.get("required") or each.get("optional")}
    made = {name: each for name, each in attributes.items() if name not in given}
    shown = (EXAMPLES / f"{example}.tf").read_text().rstrip()
    lines = [f"# {title}", "", block["description"], "", "```hcl", shown, "```", ""]
    lines += ["## Arguments", "", *table(given), *objects(given, "")]
    lines += ["## What the server makes", "", *table(made)]
    if example in IMPORTS:
        words, value = IMPORTS[example]
        [name, *_] = re.findall(rf'^resource "{example}" "(\w+)"', shown, re.MULTILINE)
        lines += ["## Import", "", f"It is imported by {words}:", "", f"    tofu import {example}.{name} {value}", ""]
    lines.append("This page is made by `make provider-docs` from the schema of the [provider](../provider.md).")
    return "\n".join(lines) + "\n"


def table(attributes: dict[str, Any]) -> list[str]:
    rows = [f"| `{name}` | {kind(each)} | {described(each)} |" for name, each in ordered(attributes)]
    return ["| name | type | what it is |", "|---|---|---|", *rows, ""]


def objects(attributes: dict[str, Any], inside: str) -> Iterator[str]:
    """Yield a section for each object, and for those inside of it."""
    for name, each in ordered(attributes):
        if nested := each.get("nested_type"):
            path = f"{inside}{name}"
            yield from (f"### {path}", "", *table(nested["attributes"]), *objects(nested["attributes"], f"{path}."))


def ordered(attributes: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the attributes by name, the required ones first."""
    return sorted(attributes.items(), key=lambda each: (not each[1].get("required"), each[0]))


def kind(attribute: dict[str, Any]) -> str:
    if "nested_type" in attribute:
        return "object"
    of: str | list[str] = attribute["type"]
    return TYPES[of] if isinstance(of, str) else f"{of[0]} of {TYPES[of[1]]}s"


def described(attribute: dict[str, Any]) -> str:
    """Return the description of an attribute, with what the schema says of it besides."""
    required = ["Required."] if attribute.get("required") else []
    marks = {"sensitive": "Sensitive.", "write_only": "Write-only: in no state."}
    return " ".join(
        [*required, attribute["description"], *(words for mark, words in marks.items() if attribute.get(mark))]
    )


if __name__ == "__main__":
    target = ROOT / "docs" / "provider"
    target.mkdir(exist_ok=True)
    made = pages(read_schema(ROOT / "build" / "provider"))
    for file in set(target.iterdir()) - {target / name for name in made}:
        file.unlink()
    for name, text in made.items():
        (target / name).write_text(text)
