resource "terracrew_runner" "crew" {
  name            = "crew"
  group           = terracrew_group.platform.path
  tags            = ["eu"]
  service_account = terracrew_service_account.crew.id
}
