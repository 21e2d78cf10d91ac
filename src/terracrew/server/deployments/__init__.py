"""What was deployed for each cloud-hosted runner, and its instances in the cloud."""
