"""Whether an object store answers and takes writes, as the last requests to it have shown."""

import re
from collections import Counter
from typing import NamedTuple
from urllib.parse import urlsplit

from terracrew.errors import Unavailable
from terracrew.logging import get_logger

AWAY = "the object store does not answer"
NO_WRITES = "the object store takes no writes"
NO_READS = "the object store cannot be read"
NOT_THE_SAME = "the object store is not there any more: its place has another one, or none"
RETRY_AFTER_SECONDS = 2.0
MAX_PROBE_BYTES = 1 << 20
log = get_logger("terracrew.objects")


class ObjectHealth:
    def __init__(self, url: str) -> None:
        self._url = url
        self.problem = ""
        """What is wrong, as readiness and pages say it; empty if the store works."""
        self.errors: Counter[str] = Counter()
        """How often the store has failed: `storage` for what it did not store, `read` for everything else."""
        self.is_logged = True
        """Whether failures are logged."""
        self._refused_bytes: int | None = None
        """The size of the last object that it did not store; None if it has stored one since."""

    @property
    def probe_bytes(self) -> int:
        """The size of an object that shows whether the store works again."""
        return min(self._refused_bytes or 0, MAX_PROBE_BYTES)

    def failed(self, error: BaseException, size: int | None) -> Unavailable:
        """Note that the store did not store an object of this size, or (None) did not do anything else. Returns what to raise."""
        found = explain(error, self._url)
        message = AWAY if found.is_away else NO_READS if size is None else NO_WRITES
        return self._noted(message, found.words, size)

    def is_not_the_same(self, size: int | None = None) -> Unavailable:
        """Note that the place of the store does not have its id any more. Returns what to raise."""
        return self._noted(NOT_THE_SAME, place(self._url), size)

    def _noted(self, message: str, reason: str, size: int | None) -> Unavailable:
        self.errors["read" if size is None else "storage"] += 1
        # Once, not for every object. Only the log has the reason, which may name hosts and paths.
        if self.is_logged and not self.problem:
            log.warning(message, reason=reason)
        if size is not None:
            self._refused_bytes = size
        self.problem = message
        advice = "; try again in a moment" if message == AWAY else ""
        return Unavailable(message + advice, retry_after=RETRY_AFTER_SECONDS)

    def stored(self, size: int) -> None:
        """Note that the store took an object. A smaller one than it refused does not show that there is space again."""
        if self.problem not in ("", NOT_THE_SAME) and size >= self.probe_bytes:
            self._recovered()

    def answered(self) -> None:
        """Note that the store answered something else than a write. That does not show that it takes writes again."""
        if self.problem in (AWAY, NO_READS) and self._refused_bytes is None:
            self._recovered()

    def recognized(self) -> None:
        """Note that the store has its id."""
        if self.problem == NOT_THE_SAME:
            self._recovered()

    def _recovered(self) -> None:
        log.warning("the object store takes writes again" if self.problem == NO_WRITES else "the object store is back")
        self.problem, self._refused_bytes = "", None


_HOST = re.compile(r"https?://(?:[^/\s?#@]*@)?([^/\s?#]+)")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_OF_SYSTEM = re.compile(r'message: "([^"]+)"')
_ADDRESS = re.compile(r"(\w+://)(?:[^/\s?#@]*@)?([^\s?#\"]*)[^\s\"]*")
_MAX_REASON_CHARACTERS = 300

_NO_CREDENTIALS = re.compile(
    r"169\.254\.|/latest/api/token|/latest/meta-data|metadata\.google|401 Unauthorized"
    r"|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|InvalidToken"
    r"|InvalidClientTokenId|AuthenticationFailed|Unauthenticated"
)
"""An address of a metadata service is asked for credentials when the settings and the environment have none."""
_NO_BUCKET = re.compile(r"NoSuchBucket|bucket does not exist|ContainerNotFound")
_DENIED = re.compile(r"AccessDenied|403 Forbidden|AuthorizationFailure|(?:os error |Errno )(?:1|13|30)[)\]]")
_OTHER_REGION = re.compile(
    r"PermanentRedirect|AuthorizationHeaderMalformed|configured region|IllegalLocationConstraint"
)
_BEYOND_END = re.compile(r"InvalidRange|StartTooLarge|416 Range")
_FULL = re.compile(r"(?:os error |Errno )(?:28|122)[)\]]|507 Insufficient|QuotaExceeded")
_AWAY = re.compile(
    r"HTTP error|error sending request|timed out|status code: (?:5\d\d|429)"
    r"|(?:os error |Errno )(?:5|107|112|116)[)\]]"
)
_TIMED_OUT = re.compile(r"timed out|TimedOut", re.IGNORECASE)
_NO_NAME = re.compile(r"failed to lookup address|dns error")

_CREDENTIALS = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for the server, or give its machine a role",
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS for the server, or give its machine a service account",
    "az": "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY for the server, or give its machine an identity",
}
_RIGHTS = {
    "file": "the server's user must be able to read and write there",
    "s3": "the server needs s3:PutObject, s3:GetObject, s3:DeleteObject and s3:ListBucket",
    "gs": "the server needs the role roles/storage.objectUser",
    "az": "the server needs the role Storage Blob Data Contributor",
}


class StoreProblem(NamedTuple):
    words: str
    """What is wrong, and what to do about it. It has no secrets, and may have the address of the store."""
    is_away: bool = False
    """Whether the store only does not answer, so that it may answer later without a change of the settings."""
    is_full: bool = False


def place(url: str) -> str:
    """Return the URL of a store as people may see it, without what could be a secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def is_bucket_missing(error: BaseException) -> bool:
    """Return whether not only an object does not exist, but the whole store."""
    return bool(_NO_BUCKET.search(str(error)))


def is_beyond_end(error: BaseException) -> bool:
    """Return whether an object was asked for a part that begins at its end or after it."""
    return bool(_BEYOND_END.search(str(error)))


def explain(error: BaseException, url: str) -> StoreProblem:
    """Return what an error of the store at this URL means."""
    text, scheme = f"{type(error).__name__}: {error}", _family(url)
    if _NO_CREDENTIALS.search(text):
        advice = _CREDENTIALS.get(scheme, "give the server some")
        return StoreProblem(f"there are no valid credentials for it{_coded(text)}: {advice}")
    if _NO_BUCKET.search(text):
        return StoreProblem("its bucket does not exist: create it, or correct the setting")
    if "PermissionDenied" in text or _DENIED.search(text):
        return StoreProblem(
            f"access is denied{_coded(text)}: {_RIGHTS.get(scheme, 'the server must be allowed to use it')}"
        )
    if _OTHER_REGION.search(text):
        return StoreProblem("its bucket is in another region: set AWS_REGION for the server")
    if "BadScheme" in text:
        return StoreProblem("its endpoint has no TLS: set AWS_ALLOW_HTTP=true for the server if that is intended")
    if _FULL.search(text):
        return StoreProblem("there is no space left", is_full=True)
    if isinstance(error, TimeoutError) or _AWAY.search(text):
        host = _HOST.search(text)
        return StoreProblem(f"it does not answer{f' at {host[1]}' if host else ''} ({_reason(text)})", is_away=True)
    return StoreProblem(_plain(str(error)))


def _family(url: str) -> str:
    scheme = urlsplit(url).scheme
    return {"s3a": "s3", "gcs": "gs", "azure": "az", "abfs": "az", "abfss": "az", "adl": "az"}.get(scheme, scheme)


def _coded(text: str) -> str:
    """Return the code of the store's answer. The rest of the answer may quote parts of the request."""
    found = _CODE.search(text)
    return f" ({found[1]})" if found else ""


def _reason(text: str) -> str:
    if _TIMED_OUT.search(text) or text.startswith("TimeoutError"):
        return "no answer in time"
    if _NO_NAME.search(text):
        return "its name cannot be resolved"
    if answer := re.search(r"status code: (\d{3})", text):
        return f"it answered {answer[1]}"
    found = _OF_SYSTEM.search(text)
    return found[1] if found else _plain(text)


def _plain(text: str) -> str:
    """Return the first line of a message, without the parameters of addresses, which may be signed, and without XML."""
    line = re.sub(r"<[?\w].*", "", text.partition("\n")[0])
    return _ADDRESS.sub(r"\1\2", line)[:_MAX_REASON_CHARACTERS].strip()
