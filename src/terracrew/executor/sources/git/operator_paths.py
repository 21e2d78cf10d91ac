"""What operators set up for git on a machine: where its configuration lies, and which files and programs that names."""

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from terracrew.attempt.engine_directory import read_produced
from terracrew.errors import Invalid

_PATH_VARIABLES = ("GIT_ASKPASS", "GIT_SSH", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "SSH_ASKPASS")
_MAX_CONFIGURATION_BYTES = 1 << 20
_MAX_CONFIGURATIONS = 20
_INCLUDE = re.compile(r"^[ \t]*path[ \t]*=[ \t]*(.+?)[ \t]*$", re.MULTILINE | re.IGNORECASE)
_PATH = re.compile(r"""(?:(?<=[\s"'=!])|^)~?/[^\s"'=,;:]+""", re.MULTILINE)


def find(program: str, environment: Mapping[str, str]) -> list[str]:
    """Return the paths for a runner with this environment, in which git is this program. A module's environment must not be passed,
    because a module must not open paths for itself."""
    home = environment.get("HOME", "")
    return list(dict.fromkeys(path for path in _candidates(program, environment, home) if os.path.isabs(path)))


def _candidates(program: str, environment: Mapping[str, str], home: str) -> Iterator[str]:
    prefix = os.path.dirname(os.path.dirname(os.path.realpath(program)))
    yield from (os.path.join(prefix, name) for name in ("bin", "lib", "libexec", "share"))
    yield from (environment.get(name, "") for name in _PATH_VARIABLES)
    for word in _words(environment.get("GIT_SSH_COMMAND", "")):
        yield from (_expanded(path, home) for path in _PATH.findall(word))
    settings = environment.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    given = environment.get("GIT_CONFIG_GLOBAL")
    files = [given] if given is not None else [os.path.join(settings, "git/config"), os.path.join(home, ".gitconfig")]
    yield os.path.join(settings, "git")
    for file, text in _configurations(files, home).items():
        yield file
        yield from (_expanded(path, home) for path in _PATH.findall(text))


def _configurations(files: list[str], home: str) -> dict[str, str]:
    """Return the configuration files that git would read, with their content. Conditions of includes are taken as met."""
    found: dict[str, str] = {}
    left = [file for file in reversed(files) if os.path.isabs(file)]
    while left and len(found) < _MAX_CONFIGURATIONS:
        if (file := left.pop()) in found:
            continue
        try:
            content = read_produced(Path(file), _MAX_CONFIGURATION_BYTES, follows_link=True)
        except Invalid:
            continue
        found[file] = content.decode(errors="replace")
        included = (_expanded(path.strip('"'), home) for path in _INCLUDE.findall(found[file]))
        left += [os.path.join(os.path.dirname(file), path) for path in included]
    return found


def _expanded(path: str, home: str) -> str:
    return f"{home}{path[1:]}" if path.startswith("~/") else path


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # git says what is wrong with it
        return []
