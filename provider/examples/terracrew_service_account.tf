resource "terracrew_service_account" "crew" {
  name  = "crew"
  group = terracrew_group.platform.path
}
