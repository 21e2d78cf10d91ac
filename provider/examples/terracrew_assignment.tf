resource "terracrew_runner" "large" {
  name                       = "large"
  is_assigned_to_all_modules = false
}

resource "terracrew_assignment" "network" {
  runner = terracrew_runner.large.path
  place  = terracrew_module.network.path
}
