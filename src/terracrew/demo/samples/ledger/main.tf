# A database with a password: sensitive, so neither the log nor the dashboard shows it.

variable "owner" {
  type = string
}

resource "terraform_data" "database" {
  input = { name = "ledger", owner = var.owner }
}

resource "terraform_data" "password" {
  triggers_replace = terraform_data.database.id
  input            = sensitive(sha256("${terraform_data.database.id}/${var.owner}"))
}

output "address" {
  value = "ledger.${var.owner}.internal:5432"
}

output "password" {
  value     = terraform_data.password.output
  sensitive = true
}
