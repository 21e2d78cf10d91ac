# What takes the payments: nobody changes it before somebody has looked at the plan.

resource "terraform_data" "certificate" {
  input = { host = "pay.example.com", days = 90 }
}

resource "terraform_data" "gateway" {
  triggers_replace = terraform_data.certificate.id
  input            = { host = terraform_data.certificate.output.host, port = 443 }
}

output "address" {
  value = "https://${terraform_data.gateway.output.host}"
}
