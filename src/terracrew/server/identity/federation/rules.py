"""Checks a trust policy when it is made, and compares the claims of a token with it. All functions are pure."""

import fnmatch
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast
from urllib.parse import urlsplit

from terracrew.api.access import TrustPolicy
from terracrew.errors import Invalid
from terracrew.server.identity.federation.model import TokenRefused

MAX_POLICIES = 10
MAX_CLAIMS = 20
MAX_NAME_CHARACTERS = 200
MAX_VALUE_CHARACTERS = 500
MAX_ISSUER_CHARACTERS = 500
MAX_LIST_ITEMS = 200
LEEWAY_SECONDS = 60
"""How far the clocks of an issuer and of this server may differ."""
MAX_LIFETIME_SECONDS = 86_400
"""A token that may be used once is remembered until it expires, so it must expire within a day."""
OWN_CLAIMS = frozenset({"iss", "aud", "exp", "nbf", "iat", "jti"})
_PUBLIC_HOSTS = frozenset(
    {
        "accounts.google.com",
        "agent.buildkite.com",
        "api.gitpod.io",
        "api.pulumi.com",
        "app.terraform.io",
        "appleid.apple.com",
        "gitlab.com",
        "login.microsoftonline.com",
        "oauth2.sigstore.dev",
        "oidc.cirrus-ci.com",
        "oidc.codefresh.io",
        "oidc.vercel.com",
        "securetoken.google.com",
        "sts.windows.net",
        "token.actions.githubusercontent.com",
    }
)
"""Hosts of issuers that serve everybody. Some have issuers for single customers as well, which are not told apart."""
_MAX_MOMENT = 1e12
"""In seconds since 1970; everything that is later is a mistake."""
_PRINTABLE_ASCII = re.compile(r"[!-~]+")


def checked_issuer(issuer: str, own_issuers: frozenset[str], allowed_origins: frozenset[str]) -> str:
    """Return the address of an issuer, if this server may fetch its keys."""
    words = f"{issuer[:MAX_ISSUER_CHARACTERS]!r} is not the address of an issuer"
    if len(issuer) > MAX_ISSUER_CHARACTERS or not _PRINTABLE_ASCII.fullmatch(issuer):
        raise Invalid(f"{words}: it has at most {MAX_ISSUER_CHARACTERS} printable ASCII characters")
    try:
        parts = urlsplit(issuer)
        _ = parts.port
    except ValueError:
        raise Invalid(f"{words} such as https://issuer.example.com") from None
    if parts.scheme not in ("https", "http") or not parts.hostname or "@" in parts.netloc or set("?#\\") & set(issuer):
        raise Invalid(f"{words}: it is https://, a host and possibly a path, without a password, `?` or `#`")
    if parts.scheme == "http" and origin(issuer) not in allowed_origins:
        raise Invalid(
            f"{words} that this server trusts: it must begin with https://. The server's setting "
            "`federation_private_issuers` can allow others"
        )
    if issuer.rstrip("/") in own_issuers:
        raise Invalid("this server's own tokens for jobs are not accepted: give the job's module what it needs instead")
    return issuer


def origin(url: str) -> str:
    """Return scheme, host and port of an address, in one spelling."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


def checked_bounds(issuer: str, audience: str, claims: Mapping[str, str], own: str) -> tuple[str, dict[str, str]]:
    """Return the audience and the further claims of a policy. The audience may be given as the claim `aud`, too.

    An audience alone does not bound the tokens of an issuer that everybody in the world can ask for one.
    """
    further = dict(claims)
    named = further.pop("aud", "")
    if named and audience not in ("", named):
        raise Invalid("the audience is given twice, as a field of its own and as the claim aud: leave one of them out")
    bounded = named or audience
    if not further and not bounded:
        raise Invalid(
            "without a claim such as sub, every token of the issuer for this server would be accepted: give a claim, or an "
            "audience that only your own programs ask the issuer for"
        )
    if not further and is_public(issuer):
        raise Invalid(
            f"everybody can get a token of {issuer} for any audience: give a claim that only your own tokens have, such as sub"
        )
    return checked_audience(bounded or own), _checked_claims(further)


def is_public(issuer: str) -> bool:
    """Return whether people who have nothing to do with each other get tokens of this issuer. Unknown issuers count as private."""
    return (urlsplit(issuer).hostname or "").rstrip(".") in _PUBLIC_HOSTS


def checked_audience(audience: str) -> str:
    if not 0 < len(audience) <= MAX_VALUE_CHARACTERS or not audience.isprintable() or not audience.strip("*?"):
        raise Invalid(
            f"an audience is a text of 1 to {MAX_VALUE_CHARACTERS} printable characters, the one that the issuer is asked for; "
            "it may contain `*` and `?`, but not only them"
        )
    return audience


def _checked_claims(claims: dict[str, str]) -> dict[str, str]:
    if len(claims) > MAX_CLAIMS:
        raise Invalid(f"a trust policy has at most {MAX_CLAIMS} claims")
    for name, value in claims.items():
        if not 0 < len(name) <= MAX_NAME_CHARACTERS or not name.isprintable():
            raise Invalid(f"the name of a claim has 1 to {MAX_NAME_CHARACTERS} printable characters")
        if name.removeprefix("/") in OWN_CLAIMS:  # as a pointer, too: every token of the issuer has its `iss`
            raise Invalid(
                f"the claim {name} is always checked: leave it out (issuer and audience are fields of their own)"
            )
        if not 0 < len(value) <= MAX_VALUE_CHARACTERS or not value.isprintable():
            raise Invalid(f"the value of the claim {name} has 1 to {MAX_VALUE_CHARACTERS} printable characters")
        if not value.strip("*?"):
            raise Invalid(f"the claim {name} must not be {value!r}, which everything matches: say what it must be")
    return claims


def check_times(claims: Mapping[str, Any], now: float) -> float:
    """Return when the token expires. Raises TokenRefused unless it is valid at this moment."""
    ends_at = _moment(claims, "exp")
    if ends_at is None:
        raise TokenRefused("the token has no time of expiry")
    if ends_at <= now - LEEWAY_SECONDS:
        raise TokenRefused(f"the token expired {_rounded(now - ends_at)} ago by this server's clock")
    for name in ("nbf", "iat"):
        begins_at = _moment(claims, name)
        if begins_at is not None and begins_at > now + LEEWAY_SECONDS:
            raise TokenRefused(f"the token's {name} is {_rounded(begins_at - now)} ahead of this server's clock")
    return ends_at


def matching(policies: tuple[TrustPolicy, ...], claims: Mapping[str, Any], ends_at: float, now: float) -> TrustPolicy:
    """Return the first policy that a verified token fulfils. Raises TokenRefused with what kept the nearest one from it."""
    reason, nearest = "the token's audience is that of no trust policy", -1
    for policy in policies:
        if not _has_audience(claims.get("aud"), policy.audience):
            continue
        wrong = [name for name, wanted in policy.claims.items() if not _has(claim(claims, name), wanted)]
        if not wrong and (policy.is_reusable or ends_at <= now + MAX_LIFETIME_SECONDS + LEEWAY_SECONDS):
            return policy
        fulfilled = len(policy.claims) - len(wrong)
        if fulfilled > nearest:
            nearest = fulfilled
            reason = f"claims do not match: {', '.join(wrong)}" if wrong else "the token is valid for more than a day"
    raise TokenRefused(reason)


def claim(claims: Mapping[str, Any], name: str) -> object:
    """Return a claim by its name, or by a JSON pointer into nested ones: `/kubernetes.io/namespace`."""
    if not name.startswith("/"):
        return claims.get(name)
    found: Any = claims
    for part in name[1:].split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        found = cast("dict[str, Any]", found).get(key) if isinstance(found, dict) else None
    return found


def _has(value: object, wanted: str) -> bool:
    """Return whether a claim has the value, or, if it is a list, contains it."""
    if isinstance(value, list):
        return any(_is(each, wanted) for each in cast("list[object]", value)[:MAX_LIST_ITEMS])
    return _is(value, wanted)


def _is(value: object, wanted: str) -> bool:
    if isinstance(value, bool):
        return wanted == ("true" if value else "false")
    if isinstance(value, int):
        return wanted == str(value)
    if not isinstance(value, str):
        return False
    return is_like(value, wanted) if set("*?") & set(wanted) else value == wanted


def is_like(value: str, pattern: str) -> bool:
    """Return whether a whole value is what a pattern describes: `*` stands for any characters, `?` for one."""
    return compiled(pattern).fullmatch(value) is not None


@lru_cache(2000)
def compiled(wanted: str) -> re.Pattern[str]:
    """Return a pattern as an expression for whole values."""
    # Only `*` and `?` are special. `translate` makes a pattern that needs no backtracking, whatever the value is.
    return re.compile(fnmatch.translate(wanted.replace("[", "[[]")))


def _has_audience(audience: object, wanted: str) -> bool:
    given = cast("list[object]", audience)[:MAX_LIST_ITEMS] if isinstance(audience, list) else [audience]
    return any(isinstance(each, str) and _is(each, wanted) for each in given)


def _moment(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    # The comparison is false for what is not a number, too.
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_MAX_MOMENT < value < _MAX_MOMENT:
        raise TokenRefused(f"the token's {name} is not a time")
    return float(value)


def _rounded(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"
