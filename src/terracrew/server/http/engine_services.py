"""What this server offers to the command lines of OpenTofu and Terraform, and at which addresses.

The engines read it from `/.well-known/terraform.json`. The faces that serve these addresses take their paths from here.
"""

from typing import Any

from terracrew.server.identity.terminal_logins import model

DISCOVERY = "/.well-known/terraform.json"
TFE_BASE = "/api/tfe/v2/"
"""Where the API for `cloud` blocks and the backend `remote` begins."""
REGISTRY_BASE = "/api/registry/v1/"
MODULES_BASE = f"{REGISTRY_BASE}modules/"
"""Where the module registry protocol begins."""
AUTHORIZATION = "/dashboard/terminal-login"
"""The page that asks a person whether a command line may act for them."""
DEVICE_PAGE = "/dashboard/device"
"""The page on which a person types the code of a command line that cannot open a browser."""
DEVICE = "/connect/device"
"""Where such a command line begins its login."""
TOKEN = "/connect/token"  # noqa: S105 (an address)
SCIM_BASE = "/api/scim/v2"
"""Where identity providers manage people and groups."""
TOKEN_SETTINGS = "/app/settings/tokens"  # noqa: S105 (an address)
"""Where clients without `login.v1` send a person for a token. The path is fixed in them."""
_TFE_SERVICES = ("tfe.v2", "tfe.v2.1", "tfe.v2.2", "state.v2")
"""`cloud` blocks ask for the first one, the backend `remote` for the second or the last one."""


def services(url: str) -> dict[str, Any]:
    """Return the services of a server with this public address.

    This server has no registry of providers, so it names none.
    """
    return {
        "terracrew.v1": f"{url}/api/v1/",
        "terracrew-login.v1": {"authz": url + AUTHORIZATION, "device": url + DEVICE, "token": url + TOKEN},
        **dict.fromkeys(_TFE_SERVICES, url + TFE_BASE),
        "modules.v1": url + MODULES_BASE,
        "login.v1": {
            "client": model.ENGINE.id,
            "grant_types": ["authz_code"],
            "authz": url + AUTHORIZATION,
            "token": url + TOKEN,
            "ports": [model.MIN_PORT, model.MAX_PORT],
        },
    }
