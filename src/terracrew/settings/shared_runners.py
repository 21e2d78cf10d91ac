"""Shared runners as the server's file declares them: built in, or remote with the hash of a worker token."""

import hashlib
import re
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr

from terracrew.protocol import limits
from terracrew.settings.values import SHOWN, Directories, Directory, SettingsSection, Text

_NAME = re.compile(limits.PATH_NAME)
_TAG = r"^[a-zA-Z0-9][a-zA-Z0-9._:-]{0,62}$"
_SHA256 = r"^[0-9a-f]{64}$"
_TOKEN = re.compile(r"tcw_[A-Za-z0-9_-]{43}")


def _is_tag(text: str) -> str:
    if not re.fullmatch(_TAG.removesuffix("$"), text):
        raise ValueError(
            f"{text[:80]!r} is not a tag: use at most 63 letters, digits and `.`, `_`, `:` or `-`, and begin with a letter or digit"
        )
    return text


def _is_sha256(text: str) -> str:
    # The text is not repeated: it may be the token itself.
    if not re.fullmatch(_SHA256.removesuffix("$"), text):
        raise ValueError(
            "this is not a SHA-256 hash of 64 lowercase hexadecimal digits; `terracrew server worker-token NAME` prints one"
        )
    return text


Tag = Annotated[str, AfterValidator(_is_tag), Field(json_schema_extra={"pattern": _TAG})]
Sha256 = Annotated[str, AfterValidator(_is_sha256), Field(json_schema_extra={"pattern": _SHA256})]


def _is_no_token(value: Any) -> Any:
    """Refuse a token in place of its file, before another check repeats it in its message."""
    if isinstance(value, str) and _TOKEN.search(value):
        raise ValueError("this is a token, not the path of a file: put it into a file that only the server can read")
    return value


def _holds_token(path: str) -> str:
    try:
        token = Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ValueError(f"{path} cannot be read: {reason}") from None
    if _TOKEN.fullmatch(token) is None:
        raise ValueError(f"{path} holds no worker token; `terracrew server worker-token NAME` makes one")
    return path


class _SharedRunner(SettingsSection):
    description: Text = Field(default="", max_length=2000, description="What people read about it.")
    tags: Annotated[list[Tag], SHOWN] = Field(
        default=[], max_length=50, description="What it offers to modules that ask for tags."
    )


class BuiltInRunner(_SharedRunner):
    """A runner in the process of each server that runs built-in runners."""

    kind: Literal["built-in"] = Field(default="built-in", description="It runs in the server's process.")
    slots: int | None = Field(
        default=None,
        ge=1,
        le=limits.MAX_CAPACITY,
        description="How many jobs run at once in each server; by default the number of processors, at least 4.",
    )
    additional_binary_paths: Directories = Field(default=[], description="Searched for engines before PATH.")
    isolation: Literal["landlock", "none"] | None = Field(
        default=None, description="How its jobs are isolated; by default `runner_isolation`."
    )
    read_paths: Directories = Field(
        default=[], description="Paths that its jobs may read, besides those of `runner_read_paths`."
    )
    write_paths: Directories = Field(
        default=[], description="Paths that its jobs may write, besides those of `runner_write_paths`."
    )


class RemoteRunner(_SharedRunner):
    """A runner on another machine, which connects with a worker token."""

    kind: Literal["remote"] = Field(description="Its processes run elsewhere and connect to the server.")
    worker_token_sha256: Annotated[Sha256, SHOWN] | None = Field(
        default=None,
        description="The hash of its token. `terracrew server worker-token NAME` makes a token and this hash.",
    )
    worker_token_file: Annotated[Directory, AfterValidator(_holds_token), BeforeValidator(_is_no_token)] | None = Field(
        default=None, description="A file with its token, if the file is to be the secret's only place."
    )
    max_jobs: int = Field(default=100, ge=1, le=10_000, description="How many jobs each of its instances has at most.")
    allow_multiple_instances: bool = Field(
        default=False, description="Whether several processes may connect, each with a name of its own."
    )

    _token_sha256: str = PrivateAttr(default="")

    def model_post_init(self, _context: Any) -> None:
        if self.worker_token_file is None:
            self._token_sha256 = self.worker_token_sha256 or ""
        else:
            self._token_sha256 = hashlib.sha256(Path(self.worker_token_file).read_text().strip().encode()).hexdigest()

    @property
    def token_sha256(self) -> str:
        """The hash of the token when the settings were read. It is all that the server keeps of it."""
        return self._token_sha256


def name(text: str) -> str:
    """Return the text if a shared runner may have it as its name."""
    if _NAME.fullmatch(text) is None:
        raise ValueError(
            f"{text!r} is not a name: use at most 63 lowercase letters, digits and hyphens, and begin with no hyphen"
        )
    return text


_OF_REMOTE = frozenset(RemoteRunner.model_fields) - frozenset(BuiltInRunner.model_fields)


def _with_kind(value: Any) -> Any:
    """Make a runner a built-in one if it says nothing else. One with settings of a remote runner must say what it is."""
    if not isinstance(value, dict):
        return value
    given = cast("dict[str, Any]", value)
    return given if given.keys() & {"kind", *_OF_REMOTE} else {"kind": "built-in", **given}


SharedRunner = Annotated[BuiltInRunner | RemoteRunner, Field(discriminator="kind"), BeforeValidator(_with_kind)]
SharedRunners = Annotated[
    dict[Annotated[str, AfterValidator(name)], SharedRunner],
    Field(max_length=1000),
]
