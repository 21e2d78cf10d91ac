"""What OpenTofu and Terraform have in common: both run configurations in HCL, with almost the same commands and files.

A `Dialect` says how a program differs from the others. The packages `tofu` and `terraform` have one each.
"""
