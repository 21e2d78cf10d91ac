"""Replaces the command `terracrew runner start` by the runner process, which never loads the code that checks settings."""

import os
import sys
from typing import NoReturn

import msgspec

from terracrew.runner import environment
from terracrew.runner.config import RunnerConfig


def offer(config: RunnerConfig) -> int:
    """Write the settings to a file without a path and return its descriptor, which the new program inherits."""
    descriptor = in_memory("runner-config", msgspec.json.encode(config))
    os.set_inheritable(descriptor, True)
    return descriptor


def in_memory(name: str, content: bytes) -> int:
    """Return the descriptor of a file that has no path. Unlike a pipe, it can hold content of any size before anything reads it."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    with open(os.dup(descriptor), "wb") as file:
        file.write(content)
    return descriptor


def accept(descriptor: int) -> RunnerConfig:
    with open(descriptor, "rb") as file:
        file.seek(0)
        return msgspec.json.decode(file.read(), type=RunnerConfig)


def become(config: RunnerConfig) -> NoReturn:
    """Replace this process by the runner. Its environment has no secret of Terracrew, because engines inherit it."""
    arguments = [sys.executable, "-P", "-m", "terracrew.runner", str(offer(config))]
    sys.stdout.flush()
    sys.stderr.flush()
    kept = {name: value for name, value in os.environ.items() if name not in config.secret_variables}
    os.execve(sys.executable, arguments, environment.for_zygote(kept, is_built_in=False))  # noqa: S606
