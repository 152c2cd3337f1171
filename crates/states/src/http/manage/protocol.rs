//! The protocol of the clients, `/state/{namespace}/{name}`, as the OpenAPI document describes it; it is served by the
//! module above.

use access::http::api::{Input, Operation};

use super::input::ID;
use super::operation::{LOCK_INFO, STATE, STATE_BODY};

pub(super) const PATH: &str = "/state/{namespace}/{name}";
const QUERY: &[Input] = &[ID];
const CHANGE: &str = "update; create for a new state";

pub(super) const OPERATIONS: &[Operation] = &[
    Operation::new("GET", PATH, "clientRead", "The current version, as the client wrote it")
        .needs("get")
        .answers(STATE)
        .fails(&[404, 409]),
    Operation::new("POST", PATH, "clientWrite", "Write a version; sent twice, it is written once")
        .needs(CHANGE)
        .query(QUERY)
        .takes(STATE_BODY)
        .fails(&[409, 413, 415, 423]),
    Operation::new("PUT", PATH, "clientReplace", "The same as POST")
        .needs(CHANGE)
        .query(QUERY)
        .takes(STATE_BODY)
        .fails(&[409, 413, 415, 423]),
    Operation::new("DELETE", PATH, "clientDelete", "Delete the state; it can be restored")
        .needs("delete")
        .query(QUERY)
        .fails(&[404, 409, 423]),
    Operation::new("LOCK", PATH, "clientLock", "Take the lock. Held by another: 423 with the holder's LockInfo")
        .needs(CHANGE)
        .takes(LOCK_INFO)
        .fails(&[409, 413, 423]),
    Operation::new("UNLOCK", PATH, "clientUnlock", "Let go of the lock; an empty body breaks whatever lock is there")
        .needs("update; to break a lock of another, unlock on states")
        .takes(LOCK_INFO)
        .fails(&[413, 423]),
    Operation::new(
        "GET",
        "/state/{namespace}/{name}/outputs",
        "clientOutputs",
        "A state document with the outputs and no resources, for `terraform_remote_state`",
    )
    .needs("get on states/outputs; for sensitive ones also get on states/sensitive-outputs")
    .answers(STATE)
    .fails(&[404, 409]),
];
