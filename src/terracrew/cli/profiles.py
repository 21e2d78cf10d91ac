"""The configuration file of the command line: named servers with a token each, readable by its owner alone."""

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from terracrew import durable
from terracrew.errors import Invalid

DEFAULT = "default"
_NAME_HINT = "a profile's name is made of letters, digits, - and _"


class Profile(msgspec.Struct, frozen=True):
    name: str
    url: str = ""
    token: str = ""

    def __repr__(self) -> str:
        return f"Profile({self.name!r}, {self.url!r}, token={'…' if self.token else 'none'})"


class Profiles(msgspec.Struct, frozen=True):
    """What the file says; a file that is not there says nothing."""

    current: str = DEFAULT
    profiles: dict[str, Profile] = {}

    def get(self, name: str | None) -> Profile:
        """The named profile, or the current one. Naming one that is not there is a mistake."""
        if name and name not in self.profiles:
            known = ", ".join(self.profiles) or "none"
            raise Invalid(f"{path()} has no profile {name!r}", hint=f"it has: {known}")
        return self.profiles.get(name or self.current, Profile(name or self.current))

    def with_profile(self, profile: Profile) -> "Profiles":
        if not profile.name.replace("-", "").replace("_", "").isalnum() or not profile.name.isascii():
            raise Invalid(f"{profile.name!r} cannot name a profile: {_NAME_HINT}")
        return msgspec.structs.replace(self, profiles={**self.profiles, profile.name: profile})

    def with_current(self, name: str) -> "Profiles":
        self.get(name)
        return msgspec.structs.replace(self, current=name)


def path() -> Path:
    """Where the file is: TERRACREW_CONFIG, else the user's configuration directory."""
    if chosen := os.environ.get("TERRACREW_CONFIG"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "terracrew" / "config.toml"


def load() -> Profiles:
    try:
        content: dict[str, Any] = tomllib.loads(path().read_text())
    except FileNotFoundError:
        return Profiles()
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"{path()} is not TOML: {error}") from None
    try:
        found = msgspec.convert(content.get("profiles", {}), dict[str, dict[str, str]])
        current = msgspec.convert(content.get("profile", DEFAULT), str)
        return Profiles(
            current, {name: msgspec.convert({"name": name, **each}, Profile) for name, each in found.items()}
        )
    except msgspec.ValidationError as error:
        # The error quotes types and places, never a value: a token stays out of it.
        raise Invalid(f"{path()}: {error}") from None


def save(profiles: Profiles) -> None:
    """Replace the file as a whole; nobody else could ever read it, not even while it is written."""
    lines = [f"profile = {json.dumps(profiles.current)}"]
    for profile in profiles.profiles.values():
        lines += ["", f"[profiles.{profile.name}]"]
        lines += [f"{key} = {json.dumps(value)}" for key in ("url", "token") if (value := getattr(profile, key))]
    target = path()
    durable.make_directory(target.parent)
    durable.write(target, ("\n".join(lines) + "\n").encode())
