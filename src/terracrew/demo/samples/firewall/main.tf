# Rules for the subnets of another module: its output is the input of this one.

variable "subnets" {
  type = map(string)
}

resource "terraform_data" "rule" {
  for_each = var.subnets
  input    = { from = each.value, to = "0.0.0.0/0", port = 443 }
}

output "rules" {
  value = { for zone, rule in terraform_data.rule : zone => "${rule.output.from} may use port ${rule.output.port}" }
}
