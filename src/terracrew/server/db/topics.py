"""The topics of wake-ups: the names that units of work may wake, and that loops and streams may listen to."""

from typing import Literal, NewType, Self, TypeAlias

import msgspec

LogTopic = NewType("LogTopic", str)
"""The log of one job. Each has a topic of its own, because few of the listeners follow the same log."""

Topic: TypeAlias = (
    Literal[
        "access",  # a user, runner or service account: a credential or permission of it has changed
        "access_log",  # an organization or a principal: the audit log has a new entry about access in it, or by it
        "answered",  # an instance: its process has answered a question about who it is
        "asked",  # an instance: its process has to say who it is
        "assignments",  # a runner: which places it serves has changed
        "cancel",  # a job: the attempt that runs it has to end
        "configuration",  # a runner: its processes have to be told their settings
        "deletions",  # a module: something was deleted, and its content can be removed
        "deployments",  # a runner: its deployment or an instance of it in the cloud has changed
        "discovery",  # a discovery rule: it was made, changed, asked to look, or has found something else
        "terminals",  # a run that was started at a prompt has begun, or somebody has said yes
        "drift",  # a module: a check of it is due or has ended, or what is muted in it has changed
        "ended",  # an `AttemptKey`: the attempt was ended by somebody else
        "fleet",  # a job of the fleet: it waits, is wanted canceled, or something that people see of it has changed
        "forge_branches",  # a repository of a forge: the newest commit of its default branch has changed
        "forge_deliveries",  # a connection to a forge: something was delivered
        "forges",  # a connection to a forge: something that people see of it or of its repositories has changed
        "freed",  # a `FreedKey`: a module's lock and an instance's slot are free
        "group_runs",  # a group: a run of all of its modules has changed
        "history",  # a point: a server has written it to the history of the database
        "holds",  # no key: the server holds changes, or no longer
        "instances",  # an `InstanceKey`: a process of a runner has come or gone
        "jobs",  # a job: something that people see of it has changed
        "notifications",  # a channel: it has something to send, or something that people see of it has changed
        "plan_verdicts",  # no key: a job has ended at whose plan policies may have to look
        "pull_requests",  # a pull request: its facts have changed, or a command for it was written
        "queue",  # a job: it waits for a runner now, or no longer
        "rekey",  # no key: the master key is being changed
        "releases",  # a release: it was published or withdrawn
        "roles",  # a principal: its roles have changed
        "rollouts",  # a roll-out: it or one of its runners has changed
        "runners",  # a runner: its record has changed
        "schedules",  # a schedule: it was made, changed or has started something
        "states",  # a module: a state of it has arrived or was decided about
        "triggers",  # a module: an output that it uses has changed
        "updates",  # an `UpdateKey`: the update of an instance was asked for, reported about or withdrawn
        "tree",  # a group or module: it was created, changed or deleted
    ]
    | LogTopic
)
"""A topic, with what its key names. The key "" says that anything of the topic may have changed."""


def log_of(job_id: str) -> LogTopic:
    return LogTopic(f"log:{job_id}")


class _Key(msgspec.Struct, frozen=True, array_like=True):
    """The key of a topic that names several things. The topics of the others have a plain id."""

    def encode(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def decode(cls, key: str) -> Self:
        return msgspec.json.decode(key, type=cls)


class AttemptKey(_Key, frozen=True, array_like=True):
    job_id: str
    attempt: int


class FreedKey(_Key, frozen=True, array_like=True):
    job_id: str
    module_id: str
    instance_id: str | None = None
    """None if no slot is free: only what kept the module from running has ended."""


class InstanceKey(_Key, frozen=True, array_like=True):
    runner_id: str
    instance_id: str


class UpdateKey(_Key, frozen=True, array_like=True):
    job_id: str
    instance_id: str


def runner_of(topic: str, key: str) -> str:
    """Return the runner that a wake-up of `runners`, `deployments` or `instances` is about; empty if it may be any."""
    return InstanceKey.decode(key).runner_id if key and topic == "instances" else key
