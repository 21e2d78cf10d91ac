resource "terracrew_group" "platform" {
  path             = "platform"
  description      = "What everybody uses"
  max_running_jobs = 5
  limits = {
    job_seconds  = 3600
    step_seconds = { plan = 600 }
  }
}
