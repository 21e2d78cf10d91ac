data "terracrew_group" "shared" {
  path = "shared"
}

resource "terracrew_role" "reader" {
  principal = "reader"
  role      = "viewer"
  path      = data.terracrew_group.shared.path
}
