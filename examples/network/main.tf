# Three zones, a route between them, and the gateway that waits for both: an order that `tofu` has to keep.

variable "cidr" {
  type    = string
  default = "10.20.0.0/16"
}

variable "zones" {
  type    = list(string)
  default = ["a", "b", "c"]
}

resource "terraform_data" "subnet" {
  for_each = toset(var.zones)
  input = {
    zone = each.key
    cidr = cidrsubnet(var.cidr, 8, index(var.zones, each.key))
  }
}

resource "terraform_data" "route_table" {
  input      = { for zone, subnet in terraform_data.subnet : zone => subnet.output.cidr }
  depends_on = [terraform_data.subnet]
}

resource "terraform_data" "gateway" {
  input      = "igw-${substr(sha1(var.cidr), 0, 8)}"
  depends_on = [terraform_data.route_table]

  provisioner "local-exec" {
    command = "echo \"gateway ${self.input} is up for ${var.cidr}\""
  }
}

output "subnets" {
  value = terraform_data.route_table.output
}

output "gateway" {
  value = terraform_data.gateway.output
}
