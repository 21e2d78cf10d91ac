resource "terracrew_schedule" "nightly" {
  place     = terracrew_group.platform.path
  name      = "nightly"
  kind      = "DRIFT"
  cron      = "0 3 * * *"
  time_zone = "Europe/Berlin"
}
