"""OpenTofu and Terraform: both run configurations in HCL, with almost the same commands and files. A `Dialect` says how they differ."""
