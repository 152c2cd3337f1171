//! The Terraform/OpenTofu HTTP state backend.

pub mod codec;
