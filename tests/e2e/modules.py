"""Modules that the attacks run: each leaves a witness outside the system, so that what really happened can be told."""


def quick(name: str = "world") -> str:
    return f"""
resource "terraform_data" "hello" {{ input = "hello {name}" }}
output "greeting" {{ value = terraform_data.hello.output }}
"""


def gated_plan(address: str) -> str:
    """A plan that waits until somebody answers at an address."""
    return f"""
data "terraform_remote_state" "gate" {{
  backend = "http"
  config  = {{ address = "{address}" }}
}}
resource "terraform_data" "a" {{ input = data.terraform_remote_state.gate.outputs.word }}
output "word" {{ value = terraform_data.a.output }}
"""


def gated_apply(witness: str, gate: str) -> str:
    """An apply whose resource says that it has begun and waits for a file before it ends; the witness counts both."""
    wait = f"echo begin >> {witness}; until [ -f {gate} ]; do sleep 0.05; done; echo end >> {witness}"
    return f"""
resource "terraform_data" "first" {{ input = "first" }}
resource "terraform_data" "slow" {{
  input = terraform_data.first.output
  provisioner "local-exec" {{ command = "{wait}" }}
}}
output "done" {{ value = terraform_data.slow.output }}
"""


def chatty_apply(lines: int, witness: str, pause: float = 0.0) -> str:
    """An apply that prints numbered lines and appends each to a witness file."""
    script = (
        f"i=1; while [ $i -le {lines} ]; do echo line-$i-of-it; echo $i >> {witness}; "
        f"{f'sleep {pause}; ' if pause else ''}i=$((i+1)); done"
    )
    return f"""
resource "terraform_data" "before" {{ input = "before" }}
resource "terraform_data" "chatty" {{
  input = terraform_data.before.output
  provisioner "local-exec" {{ command = "{script}" }}
}}
resource "terraform_data" "after" {{ input = terraform_data.chatty.output }}
output "done" {{ value = terraform_data.after.output }}
"""


def counted(witness: str) -> str:
    """A module whose every apply replaces a resource, and appends one word to the witness."""
    return f"""
resource "terraform_data" "counted" {{
  triggers_replace = timestamp()
  provisioner "local-exec" {{ command = "echo applied >> {witness}" }}
}}
"""


def scripted_apply(script: str) -> str:
    """An apply of one resource that runs a script."""
    return f"""
resource "terraform_data" "scripted" {{
  provisioner "local-exec" {{ command = "{script}" }}
}}
"""
