"""What each person may do with each operation of the API, and what a request for it contains."""

from typing import Any

from terracrew.protocol.transfers import PART_BYTES

PUBLIC = {
    "POST /connect/token",
    "GET /.well-known/jwks.json",
    "GET /.well-known/openid-configuration",
    "GET /.well-known/terraform.json",
    "GET /openapi.json",
    "GET /api",
    "POST /runnerhub/starts",
}
"""Anybody may call these. Other tests check what they answer."""
_RELEASES = {
    "GET /releases",
    "GET /releases/notes",
    "GET /releases/key",
    "GET /releases/{release}",
    "GET /dashboard/releases",
    "GET /dashboard/releases/notes",
}
"""Everybody who is logged in may read these, and so may runners. Our release has no file, so its download is refused by 404."""
_OWN = _RELEASES | {
    "GET /me",
    "GET /tokens",
    "POST /tokens",
    "GET /organizations",
    "GET /dashboard/organizations",
    "GET /dashboard/account",
    "GET /dashboard/account/tokens/create",
    "POST /dashboard/account/tokens/create",
}
_LISTS = {
    "GET /groups",
    "GET /modules",
    "GET /runners",
    "GET /cloud-identities",
    "GET /jobs",
    "GET /fleet-jobs",
    "GET /roles",
    "GET /events",
    "GET /dashboard",
    "GET /dashboard/runners",
    "GET /dashboard/jobs",
    "GET /dashboard/fleet-jobs",
    "GET /dashboard/modules",
    "GET /rollouts",
    "GET /rollouts/preview",
    "GET /dashboard/releases/update",
    "GET /dashboard/runners/add",
    "GET /dashboard/runners/deploy",
    "GET /dashboard/runners/deploy/costs",
    "GET /dashboard/cloud-identities",
}
"""These show only what the caller may see. The list may be empty."""

_SEES = (
    _OWN
    | _LISTS
    | {
        "GET /access/explain",
        "GET /groups/{group}",
        "GET /groups/{group}/runs",
        "GET /groups/{group}/runs/{run}",
        "GET /modules/{module}",
        "GET /modules/{module}/outputs",
        "GET /modules/{module}/steps",
        "GET /modules/{module}/dependencies",
        "GET /groups/{group}/steps",
        "GET /runners/{runner}",
        "GET /cloud-identities/{identity}",
        "GET /cloud-identities/{identity}/policies",
        "GET /cloud-identities/{identity}/report",
        "GET /runners/{runner}/assignments",
        "GET /runners/{runner}/remaining",
        "GET /rollouts/{rollout}",
        "GET /fleet-jobs/{fleet_job}",
        "GET /fleet-jobs/{fleet_job}/log",
        "GET /fleet-jobs/{fleet_job}/log/stream",
        "GET /jobs/{job}",
        "GET /jobs/{job}/log",
        "GET /jobs/{job}/log/stream",
        "GET /jobs/{job}/attempts/{attempt}",
        "GET /jobs/{job}/inputs",
        "GET /jobs/{job}/outputs",
        "GET /jobs/{job}/diff",
        "GET /jobs/{job}/lost-resources",
        "GET /inputs",
        "GET /dashboard/jobs/{job}",
        "GET /dashboard/fleet-jobs/{fleet_job}",
        "GET /dashboard/jobs/{job}/diff",
        "GET /dashboard/modules/{module}",
        "GET /dashboard/modules/{module}/contents",
        "GET /dashboard/groups",
        "GET /dashboard/groups/{group}",
        "GET /dashboard/groups/{group}/settings",
        "GET /dashboard/groups/{group}/runs/{run}",
        "GET /dashboard/runners/{runner}",
        "GET /dashboard/cloud-identities/{identity}",
        "GET /dashboard/runners/{runner}/started",
    }
)
_RUNS = _SEES | {
    "GET /modules/{module}/resources",
    "GET /dashboard/modules/{module}/destroy",
    "POST /archives",
    "PUT /uploads",
    "POST /modules/{module}/jobs",
    "POST /groups/{group}/runs",
    "POST /groups/{group}/runs/{run}/resume",
    "POST /groups/{group}/runs/{run}/apply",
    "POST /groups/{group}/runs/{run}/stop",
    "PATCH /jobs/{job}",
    "POST /jobs/{job}/cancel",
    "POST /jobs/cancel",
    "POST /jobs/{job}/rerun",
    "POST /jobs/{job}/apply",
    "POST /jobs/{job}/attempts/{attempt}/gone",
    "GET /modules/{module}/state",
    "GET /modules/{module}/states",
    "GET /states/{version}",
    "GET /states/{version}/diff",
    "GET /dashboard/states/{version}/diff",
    "POST /dashboard/jobs/{job}/priority",
    "POST /dashboard/jobs/{job}/cancel",
    "POST /dashboard/jobs/{job}/rerun",
    "POST /dashboard/jobs/{job}/apply",
    "POST /dashboard/jobs/{job}/import-lost",
    "POST /dashboard/jobs/{job}/gone",
    "POST /dashboard/modules/{module}/run",
    "POST /dashboard/groups/{group}/cancel-jobs",
    "GET /dashboard/groups/{group}/destroy",
    "POST /dashboard/groups/{group}/destroy",
    "POST /dashboard/groups/{group}/apply",
    "POST /dashboard/groups/{group}/runs/{run}/resume",
    "POST /dashboard/groups/{group}/runs/{run}/apply",
    "POST /dashboard/groups/{group}/runs/{run}/stop",
}
_DECIDES = {
    "POST /jobs/{job}/approve",
    "POST /jobs/{job}/decline",
    "POST /dashboard/jobs/{job}/approve",
    "POST /dashboard/jobs/{job}/decline",
}
ROLES: dict[str, set[str]] = {"operator": _RUNS, "approver": _RUNS | _DECIDES}
"""What each role allows at its own place. These operations are not called, because they would change the data of the other tests."""

MAY: dict[str, set[str]] = {
    "nobody": set(),
    "expired token": set(),
    "revoked token": set(),
    "disabled user": set(),
    "garbage": set(),
    "stranger": _OWN | _LISTS,
    "foreign viewer": _OWN | _LISTS | {"GET /dashboard/groups"},
    "foreign owner": _OWN
    | _LISTS
    | {
        "POST /groups",
        "POST /archives",
        "PUT /uploads",
        "POST /runners",
        "POST /runners/register",
        "POST /cloud-identities",
        "GET /users",
        "POST /users",
        "GET /service-accounts",
        "POST /service-accounts",
        "GET /audit",
        "GET /audit/export",
        "GET /dashboard/groups",
        "POST /dashboard/runners/add",
        "POST /dashboard/runners/deploy",
        "GET /dashboard/cloud-identities/create",
        "POST /dashboard/cloud-identities/create",
        "GET /dashboard/modules/create",
        "POST /dashboard/modules/create",
        "GET /dashboard/access",
        "GET /dashboard/audit",
        "GET /dashboard/users",
        "GET /dashboard/users/invite",
        "POST /dashboard/users/invite",
        "GET /dashboard/service-accounts",
        "GET /dashboard/service-accounts/create",
        "POST /dashboard/service-accounts/create",
    },
    "viewer": _SEES,
    "guest": _SEES,
    "sibling's operator": _OWN | _LISTS | {"POST /archives", "PUT /uploads", "GET /dashboard/groups"},
    "runner": {"GET /me"} | _RELEASES | _LISTS - {"GET /events"},
    "engine": {"GET /me"} | _LISTS - {"GET /events"},
    "executor": {"GET /me"} | _LISTS - {"GET /events"},
}
REFUSED_BY = {
    "POST /dashboard/account/password": {303, 400, 401, 403},
    "POST /dashboard/organizations/{organization}/choose": {303, 400, 401, 403, 404},
    "POST /modules": {400, 401, 403, 404},
    "PUT /uploads/{upload}/{index}": {401, 403, 409},
    "POST /rollouts": {401, 403, 409},
    "POST /dashboard/releases/update": {303, 401, 403, 409},
}
"""The statuses that may refuse an operation, where they differ from the usual ones.

A caller who may upload is told that this upload does not exist and that they should begin one (409). The foreign owner may make
modules in their own organization, but our archive does not exist for them (404). They may update their own runners, of which there
are none (409).
"""
UNKNOWN = {"nobody", "expired token", "revoked token", "disabled user", "garbage"}
SEES_TEAM = {"viewer", "operator", "approver", "guest"}
ORGANIZATIONS = {"guest": "default"}
"""Who names an organization in every request: the guest belongs to another one and is a viewer of the team in this one."""
OF_NO_TENANT = ("/healthz", "/readyz", "/metrics", "/login", "/logout", "/static/", "/schema")

FORM = {
    "name": "mine",
    "until": "2026-01-01T00:00:00+00:00",
    "plan": "1",
    "attempt": "1",
    "type": "PLAN",
    "mode": "kill",
    "priority": "1",
    "on": "true",
    "confirm": "1",
    "force": "true",
    "place": "",
    "kind": "group",
    "account": "",
    "reason": "",
    "password": "a long enough one",
    "again": "a long enough one",
}
"""These fields are enough for every form. A form ignores the fields of other forms."""
FORMS = {"POST /dashboard/cloud-identities/create": FORM | {"kind": "aws"}}
"""The forms in which a field has other choices."""
ARCHIVE = b"\x1f\x8b"
OURS_IN_PARTS = {"target": "archive", "sha256": "1" * 64, "size": 2_000_000}
QUERIES = {
    "GET /access/explain": "?verb=job.run&path=team",
    "GET /inputs": "?place=team",
    "DELETE /inputs": "?place=team&name=region",
}
"""What an operation is asked for besides its path."""
BODIES: dict[str, Any] = {
    "POST /groups": {"path": "made-by-{who}"},
    "POST /modules": {"path": "module-by-{who}", "source": {"kind": "archive", "archive_id": "{archive}"}},
    "POST /groups/{group}/runs": {"type": "APPLY"},
    "PATCH /modules/{module}": {"description": "mine now"},
    "POST /modules/{module}/move": {"path": "moved-by-{who}"},
    "POST /inputs": {"place": "{group}", "name": "region", "value": "mine"},
    "POST /archives": ARCHIVE,
    "PUT /uploads": {"target": "archive", "sha256": "0" * 64, "size": 2_000_000},
    "PUT /uploads/{upload}/{index}": b"x" * PART_BYTES,
    "POST /runners": {"name": "made-by-{who}"},
    "POST /runners/register": {"name": "registered-by-{who}"},
    "POST /cloud-identities": {
        "name": "made-by-{who}",
        "role_arn": "arn:aws:iam::123456789012:role/terracrew",
        "region": "eu-central-1",
    },
    "PATCH /cloud-identities/{identity}": {"role_arn": "arn:aws:iam::210987654321:role/mine"},
    "POST /cloud-identities/{identity}/test": {},
    "POST /cloud-identities/{identity}/report": {},
    "POST /runners/deploy": {"name": "deployed-by-{who}", "identity": "aws"},
    "POST /runners/{runner}/deploy": {},
    "POST /runners/{runner}/destroy": {},
    "POST /fleet-jobs/{fleet_job}/cancel": {},
    "POST /runners/{runner}/wake": {},
    "POST /runners/{runner}/update": {},
    "POST /rollouts": {},
    "POST /rollouts/{rollout}/pause": {},
    "POST /rollouts/{rollout}/resume": {},
    "POST /rollouts/{rollout}/stop": {},
    "PATCH /runners/{runner}": {"is_disabled": True},
    "POST /runners/{runner}/drain": {},
    "POST /runners/{runner}/reregister": {},
    "POST /runners/{runner}/alerts/acknowledge": {},
    "POST /runners/{runner}/once-tokens": {},
    "POST /runners/{runner}/assignments": {"place": "{group}"},
    "DELETE /runners/{runner}/assignments": {"place": "{group}"},
    "POST /modules/{module}/jobs": {"type": "PLAN"},
    "POST /modules/{module}/states": b'{"version": 4, "serial": 1, "lineage": "mine"}',
    "PATCH /jobs/{job}": {"priority": 5},
    "POST /jobs/{job}/cancel": {},
    "POST /jobs/cancel": {"module": "{module}"},
    "POST /jobs/{job}/rerun": {},
    "POST /jobs/{job}/apply": {},
    "POST /jobs/{job}/attempts/{attempt}/gone": {},
    "PUT /runnerhub/attempts/{job}/{attempt}/states/{number}": b"x" * 40,
    "PUT /runnerhub/attempts/{job}/{attempt}/uploads": {"target": "plan", "sha256": "0" * 64, "size": 2_000_000},
    "PUT /runnerhub/attempts/{job}/{attempt}/uploads/{upload}/{index}": b"x" * PART_BYTES,
    "PUT /runnerhub/attempts/{job}/{attempt}/plan": b"x" * 40,
    "PUT /runnerhub/attempts/{job}/{attempt}/start": b"{}",
    "POST /runnerhub/attempts/{job}/{attempt}/cloud-token": {"audience": "sts.amazonaws.com", "phase": "plan"},
    "POST /jobs/{job}/approve": {"plan": 1},
    "POST /jobs/{job}/decline": {"plan": 1},
    "POST /jobs/{job}/replan": {"plan": 1},
    "PATCH /groups/{group}": {"description": "changed by {who}"},
    "PUT /groups/{group}/steps/{step}": {"flags": {"tofu": ["-parallelism=5"]}},
    "PUT /modules/{module}/steps/{step}": {"flags": {"tofu": ["-parallelism=5"]}},
    "POST /tokens": {"name": "made-by-{who}"},
    "POST /me/password": {"new_password": "a long enough one", "current_password": "a guess"},
    "POST /users": {"name": "made-by-{who}@elsewhere"},
    "PATCH /users/{user}": {"is_disabled": True},
    "POST /service-accounts": {"name": "made-by-{who}"},
    "PATCH /service-accounts/{account_id}": {"is_disabled": True},
    "POST /service-accounts/{account_id}/secrets": {},
    "POST /service-accounts/{account_id}/trust-policies": {
        "issuer": "https://ci.example.com",
        "claims": {"sub": "mine"},
    },
    "POST /organizations": {"name": "made-by-{who}"},
    "PATCH /organizations/{organization}": {"name": "renamed-by-{who}"},
    "POST /releases": {"version": "9.0.0"},
    "POST /releases/{release}/files": b"mine",
    "POST /releases/{release}/withdraw": {"reason": "mine"},
    "POST /release-tokens": {"name": "made-by-{who}"},
    "POST /hold": {"reason": "mine"},
    "POST /hold/release": {},
    "POST /roles": {"principal": "{user_id}", "role": "owner", "path": ""},
}
