//! The Terraform/OpenTofu HTTP state backend.
