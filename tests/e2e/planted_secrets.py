"""A secret of every kind that a job can have, and programs that print all of them in every form."""

import json
from pathlib import Path

from tests.e2e.system import System

KEY = (
    "-----BEGIN OPENSSH PRIVATE KEY-----\nplanted-KEY/line+one==\nplanted-key-line-two\nkey3\n"
    "-----END OPENSSH PRIVATE KEY-----\n"
)
PLANTED = {
    "secret variable": 'planted-variable "quoted" <&> é',
    "secret of the environment": "planted/environment+secret=1",
    "secret of several lines": KEY,
    "secret file": "planted-file-secret-22",
    "secret in a document": "planted-document-secret-33",
    "environment variable with a secret name": "planted-module-token-44",
    "input with a secret name": "planted-input-password-55",
    "input of the job": "planted-job-password-66",
    "password in an address": "planted-address-p@ss-88",
    "sensitive output of another module": "planted output of another 99",
    "credential of git": "planted-git-credential-00",
}
OF_THE_RUNNER = {
    "cloud key of the runner": "planted/runner+key-11111",
    "registry token of the runner": "planted-registry-token-22222",
}
RUNNER_ENVIRONMENT = {
    "AWS_SECRET_ACCESS_KEY": OF_THE_RUNNER["cloud key of the runner"],
    "TF_TOKEN_registry_example_provider": OF_THE_RUNNER["registry token of the runner"],
}
_LEAK = """
import base64, json, os, pathlib, re, sys, urllib.parse, urllib.request
values = list(os.environ.values()) + [path.read_text() for path in pathlib.Path(".").glob("*.pem")]
seen = dict(os.environ)
if name := os.environ.get("TERRACREW_OIDC_TOKEN_FILE"):
    seen["oidc"] = pathlib.Path(name).read_text()
    values.append(seen["oidc"])
if (address := os.environ.get("TF_HTTP_ADDRESS")) and "TERRACREW_STEP" in os.environ:
    login = f"{os.environ['TF_HTTP_USERNAME']}:{os.environ['TF_HTTP_PASSWORD']}"
    seen["basic"] = base64.b64encode(login.encode()).decode()
    request = urllib.request.Request(address, headers={"Authorization": "Basic " + seen["basic"]})
    values.append(seen["basic"])
    content = urllib.request.urlopen(request).read()
    outputs = json.loads(content)["outputs"] if content else {}
    values += [each["value"] for each in outputs.values()]
for value in values:
    once = json.dumps(value)
    print("as it is:", value)
    print("escaped:", once, json.dumps(once), urllib.parse.quote(value, safe=""), urllib.parse.quote_plus(value))
    lower = re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), urllib.parse.quote(value, safe=""))
    print("in lower case:", lower)
    for lead in ("", "x", "xx"):
        text = (lead + value + "\\n").encode()
        print("base64:", base64.b64encode(text).decode(), base64.urlsafe_b64encode(text).decode())
        print(base64.encodebytes(text).decode())
    half = len(value) // 2
    for part in ("in two parts: " + value[:half], value[half:] + "\\n"):
        sys.stdout.write(part)
        sys.stdout.flush()
print("LEAKED", len(values))
"""
_MAIN = """
variable "connection" { type = string }
variable "db_password" { type = string }
variable "admin_password" { type = string }
variable "from_other" { type = string }
resource "terraform_data" "leak" {
  for_each = toset([nonsensitive(var.db_password)])
  input    = jsonencode({ all = [var.connection, var.from_other] })
  provisioner "local-exec" {
    command     = "python3 leak.py"
    environment = { ONE = var.connection, TWO = var.from_other, THREE = var.admin_password }
  }
  provisioner "local-exec" {
    when    = destroy
    command = "python3 leak.py"
  }
}
output "own" {
  value     = "made-here-${one(values(terraform_data.leak)).id}"
  sensitive = true
}
output "shown" { value = "postgres://app:${urlencode(var.connection)}@db" }
"""
_BAD = """
variable "connection" { type = string }
resource "terraform_data" "bad" {
  lifecycle {
    precondition {
      condition     = length(var.connection) == 1
      error_message = "This is not right: ${var.connection}"
    }
  }
}
"""
_FAILING_HOOK = (
    '#!/usr/bin/env python3\nimport os\nraise RuntimeError("the connection is " + os.environ["CONNECTION"])\n'
)


def leaking_files() -> dict[str, str]:
    return {"main.tf": _MAIN, "leak.py": _LEAK}


def plant(system: System, url: str, witness: Path) -> None:
    """Make two modules: `team/leak` prints every secret that it is given, and `team/bad` fails with one in its message."""
    api = system.api
    output = json.dumps(PLANTED["sensitive output of another module"])
    system.module("team/other", f'output "value" {{\n  value = {output}\n  sensitive = true\n}}')
    for name, secret, target in (
        ("connection", PLANTED["secret variable"], "variable"),
        ("CONNECTION", PLANTED["secret of the environment"], "environment"),
        ("DEPLOY_KEY", KEY, "environment"),
        ("ACCOUNT", json.dumps({"id": 7, "private_key": PLANTED["secret in a document"]}), "environment"),
        ("GIT_LOGIN", PLANTED["credential of git"], "environment"),
        ("extra.pem", PLANTED["secret file"], "file"),
    ):
        api.post("/inputs", {"place": "team", "name": name, "secret": secret, "target": target})
    address = f"amqp://app:{PLANTED['password in an address'].replace('@', '%40')}@broker"
    api.post(
        "/modules",
        {
            "path": "team/leak",
            "source": {"kind": "git", "url": url, "credential": "GIT_LOGIN"},
            "inputs": {"db_password": PLANTED["input with a secret name"]},
            "environment": {"SERVICE_TOKEN": PLANTED["environment variable with a secret name"], "BROKER": address},
            "oidc_audiences": ["sts.example.com"],
        },
    )
    system.module("team/bad", _BAD)
    reference = {"module": "team/other", "output": "value"}
    api.post("/inputs", {"place": "team/leak", "name": "from_other", "output": reference})
    hook = {"after": {"script": _hook(witness)}}
    for step in ("plan", "apply", "destroy"):
        api.replace(f"/modules/team%2Fleak/steps/{step}", hook)
    api.replace("/modules/team%2Fbad/steps/plan", {"after": {"script": _FAILING_HOOK}})


def _hook(witness: Path) -> str:
    """Return a hook that prints everything, notes the credentials of the attempt for the test, and waits after an apply."""
    return f"""#!/usr/bin/env python3
{_LEAK}
import time
folder = pathlib.Path({str(witness)!r})
step = os.environ["TERRACREW_STEP"]
(folder / step).write_text(json.dumps(seen))
end = time.monotonic() + 120
while step == "apply" and not (folder / "go").exists() and time.monotonic() < end:
    time.sleep(0.05)
"""


def noted(witness: Path) -> dict[str, str]:
    """Return the credentials of attempts, which the hooks have noted."""
    found: dict[str, str] = {}
    for step in ("plan", "apply", "destroy"):
        if (file := witness / step).exists():
            seen = json.loads(file.read_text())
            ours = (name for name in seen if name.startswith(("TF_TOKEN_", "TF_HTTP_PASSWORD")))
            names = [name for name in ("oidc", "basic", *ours) if name not in RUNNER_ENVIRONMENT]
            found |= {f"{name} of {step}": seen[name] for name in names if name in seen}
    return found
