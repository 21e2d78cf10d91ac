"""What an API server answers when it does not do something, in its own words and with what a person can do about it."""

import re
from typing import Literal, NamedTuple

from terracrew.clouds.contract import CloudRefused, CloudSilent
from terracrew.kubernetes_api import pod_words

Code = Literal["quota", "not_permitted", "identity", "missing", "other"]


class ClusterRefused(CloudRefused):
    """The API server answered that it does not do this."""

    def __init__(self, what: str, status: int, reason: str, said: str) -> None:
        self.http_status, self.reason = status, reason
        kind = _kind(status, said)
        self.refusal_code: Code = kind.code
        self.words, self.remedy = pod_words.shorten(f"{what}: {said}"), kind.remedy
        super().__init__(f"{self.words.rstrip('.')}. {self.remedy}" if self.remedy else self.words)

    @property
    def exists_already(self) -> bool:
        return self.http_status == 409 and self.reason == "AlreadyExists"


class ClusterThrottled(CloudSilent):
    """The API server answers that it was asked too often, and still did after repetitions."""


class _Kind(NamedTuple):
    status: int
    said: str
    """A pattern in the words of the API server."""
    code: Code
    remedy: str


_KINDS = (
    _Kind(
        401,
        "",
        "identity",
        "The API server does not accept the token. Compare its issuer, audience and authority with those on the page of the cloud "
        "identity: the API server must be able to read the issuer's keys over https.",
    ),
    _Kind(
        403,
        "exceeded quota",
        "quota",
        "Raise the ResourceQuota of the namespace, choose smaller instances, or allow fewer of them.",
    ),
    _Kind(
        403,
        r"(?i)serviceaccount \S+ not found|service account .* not found",
        "missing",
        "Deploy the runner again, or make the service account that the deployment names.",
    ),
    _Kind(
        403,
        "violates PodSecurity",
        "not_permitted",
        "The pods fit the standard `restricted`. Somebody has put a stricter rule on the namespace, or changes pods when they are made.",
    ),
    _Kind(403, "being terminated", "missing", "The namespace is being deleted. Choose another one."),
    _Kind(
        403,
        "",
        "not_permitted",
        "Give the identity the Role that its page shows; a test of the connection names what is missing.",
    ),
    _Kind(404, "(?i)namespaces? .* not found", "missing", "Make the namespace, or choose another one."),
)


def _kind(status: int, said: str) -> _Kind:
    found = (each for each in _KINDS if each.status == status and re.search(each.said, said))
    return next(found, _Kind(status, "", "other", ""))
