resource "terracrew_cloud_identity" "frankfurt" {
  name     = "frankfurt"
  group    = terracrew_group.platform.path
  role_arn = "arn:aws:iam::111122223333:role/terracrew"
  region   = "eu-central-1"
}
