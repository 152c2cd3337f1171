//! The binary as its users meet it: one module per door. Rules that need no process are tested beside their code.

#![expect(
    unreachable_pub,
    reason = "nothing is reachable from outside a test; pub is what a module offers to the others"
)]

mod audit;
mod cli;
mod cluster;
mod compat;
mod config;
mod key;
mod malformed;
mod mutual_tls;
mod process;
mod run;
mod secrets;
mod server;
mod standalone;
mod states;
mod terraform;
mod tls;
mod token;
