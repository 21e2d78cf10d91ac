"""Names of inputs that hold a static key of a cloud, and what people are told who give one to the server.

The server stores such an input like every secret, encrypted. A key that nobody stores is better: the jobs of a module log in to the
cloud as a role, or the runner alone has the key.
"""

from terracrew.protocol.cloud import CloudName

CLOUD_OF_KEY: dict[str, CloudName] = {
    "AWS_ACCESS_KEY_ID": "aws",
    "AWS_SECRET_ACCESS_KEY": "aws",
    "AWS_SESSION_TOKEN": "aws",
    "ARM_CLIENT_SECRET": "azure",
    "ARM_CLIENT_CERTIFICATE": "azure",
    "GOOGLE_CREDENTIALS": "gcp",
    "GOOGLE_CLOUD_KEYFILE_JSON": "gcp",
    "GCLOUD_KEYFILE_JSON": "gcp",
    "GOOGLE_OAUTH_ACCESS_TOKEN": "gcp",
    "VAULT_TOKEN": "vault",
}
_WORDS: dict[CloudName, str] = {"aws": "AWS", "azure": "Azure", "gcp": "Google Cloud", "vault": "Vault"}


def warning(name: str) -> str:
    """Return what to tell about an input of this name; empty if it holds no static key."""
    cloud = CLOUD_OF_KEY.get(name.upper())
    if cloud is None:
        return ""
    return (
        f"{name} is a static key of {_WORDS[cloud]}, which the server now stores. Jobs can log in to {_WORDS[cloud]} as a role "
        "without any key (--cloud, docs/cloud.md); or give the key to the runner alone, in its environment"
    )
