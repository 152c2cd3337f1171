//! The binary as its users meet it: one module per door. Rules that need no process are tested beside their code.

mod cluster;
mod server;
