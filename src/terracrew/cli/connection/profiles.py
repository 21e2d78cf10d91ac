"""The configuration file of the command line: named servers with a token each. Only its owner can read it."""

import json
import os
import tomllib
from pathlib import Path

import msgspec

from terracrew.errors import Invalid
from terracrew.system import durable

DEFAULT = "default"
_NAME_HINT = "a profile's name is made of letters, digits, - and _"


class Profile(msgspec.Struct, frozen=True):
    name: str
    url: str = ""
    token: str = ""
    organization: str = ""
    token_id: str = ""
    """The id of a token that a login in a browser has got, so that the logout revokes it. A token that was pasted has none here."""

    def __repr__(self) -> str:
        return f"Profile({self.name!r}, {self.url!r}, token={'…' if self.token else 'none'})"


class Profiles(msgspec.Struct, frozen=True):
    """The content of the file. A missing file is the same as an empty one."""

    current: str = DEFAULT
    profiles: dict[str, Profile] = {}

    def get(self, name: str | None) -> Profile:
        """Return the named profile, or the current one. A name that does not exist is an error."""
        if name and name not in self.profiles:
            known = ", ".join(self.profiles) or "none"
            raise Invalid(f"{path()} has no profile {name!r}", hint=f"it has: {known}")
        return self.profiles.get(name or self.current, Profile(name or self.current))

    def with_profile(self, name: str, **values: str) -> "Profiles":
        """Return the profiles after a change of one of them, which is made if there is none of this name."""
        if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
            raise Invalid(f"{name!r} cannot name a profile: {_NAME_HINT}")
        profile = msgspec.structs.replace(self.profiles.get(name, Profile(name)), **values)
        return msgspec.structs.replace(self, profiles={**self.profiles, name: profile})

    def with_current(self, name: str) -> "Profiles":
        self.get(name)
        return msgspec.structs.replace(self, current=name)


class _File(msgspec.Struct, frozen=True):
    """The content of the file as it is written there."""

    profile: str = DEFAULT
    profiles: dict[str, dict[str, str]] = {}


def path() -> Path:
    """Return the path of the file: TERRACREW_CONFIG, or a file in the user's configuration directory."""
    if chosen := os.environ.get("TERRACREW_CONFIG"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "terracrew" / "config.toml"


def load() -> Profiles:
    try:
        found = msgspec.convert(tomllib.loads(path().read_text()), _File)
        profiles = {name: msgspec.convert({"name": name, **each}, Profile) for name, each in found.profiles.items()}
        return Profiles(found.profile, profiles)
    except FileNotFoundError:
        return Profiles()
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"{path()} is not TOML: {error}") from None
    except msgspec.ValidationError as error:
        # The error quotes types and places, never a value: a token stays out of it.
        raise Invalid(f"{path()}: {error}") from None


def save(profiles: Profiles) -> None:
    """Replace the whole file. Other users cannot read it, not even while it is written."""
    lines = [f"profile = {json.dumps(profiles.current)}"]
    for profile in profiles.profiles.values():
        lines += ["", f"[profiles.{profile.name}]"]
        lines += [
            f"{key} = {json.dumps(value)}"
            for key in ("url", "token", "organization", "token_id")
            if (value := getattr(profile, key))
        ]
    target = path()
    durable.make_directory(target.parent)
    durable.write(target, ("\n".join(lines) + "\n").encode())
