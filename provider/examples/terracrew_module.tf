resource "terracrew_module" "network" {
  path           = "${terracrew_group.platform.path}/network"
  engine_version = "~> 1.12"
  needs_approval = true
  tags           = ["eu"]
  source = {
    git = {
      url          = "https://forge.example/platform.git"
      branch       = "main"
      subdirectory = "network"
    }
  }
}
