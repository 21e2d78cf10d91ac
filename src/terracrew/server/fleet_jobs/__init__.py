"""Jobs of the fleet: they deploy, update and remove cloud-hosted runners, and test connections to clouds."""
