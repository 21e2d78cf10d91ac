"""From the command to the runner: the process becomes another that never loads what checked its settings."""

import os
import sys
from typing import NoReturn

import msgspec

from terracrew.runner import environment
from terracrew.runner.config import RunnerConfig


def offer(config: RunnerConfig) -> int:
    """Put the settings where only this process and what it becomes can read them."""
    descriptor = in_memory("runner-config", msgspec.json.encode(config))
    os.set_inheritable(descriptor, True)
    return descriptor


def in_memory(name: str, content: bytes) -> int:
    """A descriptor of a file that has no path; unlike a pipe, it holds any size without a reader."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    with open(os.dup(descriptor), "wb") as file:
        file.write(content)
    return descriptor


def accept(descriptor: int) -> RunnerConfig:
    with open(descriptor, "rb") as file:
        file.seek(0)
        return msgspec.json.decode(file.read(), type=RunnerConfig)


def become(config: RunnerConfig) -> NoReturn:
    """Replace this process by the runner. What is ours leaves the environment, where every engine could read it."""
    arguments = [sys.executable, "-P", "-m", "terracrew.runner", str(offer(config))]
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, arguments, environment.of_helper(os.environ, is_built_in=False))  # noqa: S606
