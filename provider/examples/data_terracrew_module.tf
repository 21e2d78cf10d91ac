data "terracrew_module" "dns" {
  path = "shared/dns"
}

output "zone" {
  value = data.terracrew_module.dns.outputs.zone
}
