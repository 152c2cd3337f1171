//! The binary as its users meet it: one module per door. Rules that need no process are tested beside their code.

mod cli;
mod cluster;
mod config;
mod mutual_tls;
mod run;
mod server;
mod token;
