resource "terracrew_service_account" "pipeline" {
  name  = "pipeline"
  group = terracrew_group.platform.path
}

resource "terracrew_role" "pipeline" {
  principal = terracrew_service_account.pipeline.id
  role      = "operator"
  path      = terracrew_group.platform.path
}
