# Fails on purpose: the plan itself refuses what would break a rule, so nothing is ever changed.

variable "retention_years" {
  type    = number
  default = 2
}

resource "terraform_data" "archive" {
  input = { retention_years = var.retention_years }

  lifecycle {
    precondition {
      condition     = var.retention_years >= 7
      error_message = "Payment records must be kept for 7 years, not ${var.retention_years}."
    }
  }
}
