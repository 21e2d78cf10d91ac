"""Published modules of the company: one with everything that a page can show, one without a version, and one that does not work."""

from datetime import timedelta

import msgspec

from terracrew import ids
from terracrew.api.registry import RefusedTag
from terracrew.server.registry import documentation, store
from terracrew.server.registry.model import PublishedModule, PublishedUse, RegistryVersion
from tests.server.dashboard.company.rows import Company

MAIN = """
terraform {
  required_version = ">= 1.6, < 2.0"
  required_providers {
    aws = { source = "hashicorp/aws", version = "~> 5.40" }
  }
}
variable "name" {
  type        = string
  description = "What the network and everything in it is called"
}
variable "zones" {
  type = map(object({
    cidr      = string
    is_public = optional(bool, false)
  }))
  description = <<-EOT
    The zones by their names.
    Each gets a subnet with this range of addresses.
  EOT
  default = {
    a = { cidr = "10.0.0.0/20" }
    b = { cidr = "10.0.16.0/20", is_public = true }
  }
}
variable "shared_key" {
  type      = string
  default   = "none"
  sensitive = true
}
output "id" {
  value       = aws_vpc.this.id
  description = "The id of the network"
}
output "key" {
  value     = var.shared_key
  sensitive = true
}
resource "aws_vpc" "this" {}
resource "aws_subnet" "zone" {}
module "routes" { source = "./modules/routes" }
"""
README = """# A network with zones

It makes a network with a subnet for each **zone**, and nothing else.

- Routes are in the submodule `modules/routes`.
- See [the handbook](https://example.com/handbook) and [an address that is no link](javascript:alert(1)).

```hcl
module "vpc" {
  source = "…"
}
```

<script>alert("not this")</script>
"""
FILES = {
    "main.tf": MAIN,
    "README.md": README,
    "broken.tf": "variable",
    "modules/routes/main.tf": 'variable "table" { type = list(string) }\noutput "routes" { value = 1 }',
    "examples/two-zones/main.tf": 'module "vpc" {\n  source = "../.."\n  name   = "two"\n}',
    "examples/two-zones/README.md": "Two zones, one of which is public.",
}


async def registry(made: Company) -> None:
    vpc = await _module(
        made,
        "vpc",
        description="A network with a subnet in each zone",
        readers="organization",
        url="https://github.com/acme/terraform-vpc",
        latest="1.10.0",
        looked_at=made.tx.moment - timedelta(seconds=40),
        refused_tags=[RefusedTag("v1.11.0", "5e" * 20, "its files have no configuration in their top folder")],
    )
    described = msgspec.json.encode(documentation.of_files(FILES)).decode()
    for number, version in enumerate(("1.2.0", "1.9.0", "1.10.0", "2.0.0-rc.1")):
        archive = ids.new("arc")
        await made.insert(
            "archives",
            id=archive,
            organization_id=made.organization_id,
            sha256="5f" * 32,
            size=4_096,
            created_by=made.user_id,
            created_at=made.now,
        )
        await store.insert_version(
            made.tx,
            RegistryVersion(
                id=ids.new("pbv"),
                published_id=vpc.id,
                version=version,
                archive_id=archive,
                sha256="5f" * 32,
                size=4_096,
                tag=f"v{version}",
                commit_id="9f2c" * 10,
                moved_to="ab12" * 10 if number == 1 else "",
                withdrawn_at=made.tx.moment if number == 0 else None,
                withdrawn_reason="it removes routes that it did not make" if number == 0 else "",
                created_by=vpc.id,
                created_by_name="tags of platform/vpc/aws",
                created_at=made.tx.moment - timedelta(days=30 - number),
            ),
            described,
        )
    await _module(made, "dns")
    problem = "no connection to a forge of the group `platform` or one above it reads this repository: connect the forge first"
    await _module(made, "bucket", url="https://git.example.com/acme/bucket", problem=problem)


async def fetch(made: Company, job: str, *modules: str) -> None:
    """Let jobs of modules have fetched a version, one of them a version that is withdrawn by now."""
    rows = await made.tx.all("SELECT id, version FROM published_versions")
    versions = {row["version"]: row["id"] for row in rows}
    for number, module in enumerate(modules):
        at = made.tx.moment - timedelta(hours=number)
        version = versions["1.2.0" if number == 1 else "1.10.0"]
        use = PublishedUse(version_id=version, module_id=module, job_id=job, first_at=at, fetched_at=at)
        await store.put_use(made.tx, use)


async def _module(made: Company, name: str, **values: object) -> PublishedModule:
    module = PublishedModule(
        id=ids.new("pub"),
        organization_id=made.organization_id,
        group_id=await made.group("platform"),
        group="platform",
        name=name,
        system="aws",
        created_by=made.user_id,
        created_by_name="elena",
        created_at=made.tx.moment - timedelta(days=60),
        changed_at=made.tx.moment - timedelta(days=60),
        **values,  # pyright: ignore[reportArgumentType]
    )
    await store.insert(made.tx, module)
    return module
