"""The verbs of authorization in words, as they follow "may": pages, the command line and messages use the same ones."""

from terracrew.api.access import Verb

WORDS: dict[Verb, str] = {
    Verb.TREE_READ: "see groups and modules",
    Verb.TREE_WRITE: "change groups and modules",
    Verb.JOB_READ: "see jobs and logs",
    Verb.JOB_RUN: "run jobs",
    Verb.JOB_CANCEL: "cancel jobs",
    Verb.JOB_APPROVE: "approve and decline plans",
    Verb.STATE_READ: "read states and sensitive outputs",
    Verb.STATE_WRITE: "import, restore, adopt and discard states",
    Verb.SECRET_USE: "run jobs that use secrets",
    Verb.SECRET_SET: "set and remove secrets",
    Verb.RUNNER_READ: "see runners",
    Verb.RUNNER_WRITE: "register and change runners",
    Verb.ACCESS_READ: "see who has access",
    Verb.ACCESS_WRITE: "grant and revoke access",
    Verb.AUDIT_READ: "read the audit log",
    Verb.SERVER_ADMIN: "administer the server",
    Verb.HUB_CONNECT: "connect as a runner",
    Verb.ATTEMPT_REPORT: "report the results of an attempt",
    Verb.ATTEMPT_READ: "read the specification of an attempt",
}
