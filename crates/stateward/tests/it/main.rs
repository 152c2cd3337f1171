//! The binary as its users meet it: one module per door. Rules that need no process are tested beside their code.

#![expect(
    unreachable_pub,
    reason = "nothing is reachable from outside a test; pub is what a module offers to the others"
)]

mod audit;
mod backend;
mod backend_config;
mod bad_input;
mod cli;
mod cluster;
mod compat;
mod config;
mod configmap_backend;
mod configmap_backend_tls;
mod encryption;
mod exchange;
mod explorer;
mod history;
mod hub;
mod hub_cli;
mod key;
mod limits;
mod linearizable;
mod malformed;
mod manage;
mod memory;
mod metrics;
mod migrate;
mod mutual_tls;
mod oldest;
mod original;
mod places;
mod process;
mod remembered;
mod replay;
mod run;
mod secrets;
mod server;
mod sizes;
mod standalone;
mod state_commands;
mod state_exec;
mod states;
mod storage_backend;
mod terraform;
mod tls;
mod token;
