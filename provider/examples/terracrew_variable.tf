resource "terracrew_variable" "zones" {
  place = terracrew_group.platform.path
  name  = "zones"
  value = ["eu-central-1a", "eu-central-1b"]
}

variable "forge_token" {
  type      = string
  sensitive = true
}

resource "terracrew_variable" "forge_token" {
  place          = terracrew_module.network.path
  target         = "environment"
  name           = "FORGE_TOKEN"
  secret         = var.forge_token
  secret_version = 1
}

resource "terracrew_module" "app" {
  path = "${terracrew_group.platform.path}/app"
  source = {
    git = { url = "https://forge.example/app.git" }
  }
}

resource "terracrew_variable" "network" {
  place  = terracrew_module.app.path
  name   = "vpc_id"
  output = { module = terracrew_module.network.path, output = "vpc_id" }
}
