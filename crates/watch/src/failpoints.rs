//! The steps at which tests crash this crate; nothing in a normal build.

failpoint::steps! {
    /// Steps between the API server's word, the key set, the consumer and its acknowledgement.
    pub enum Step {
        /// Objects came by a list or a watch; nothing about them is durable.
        Received = "watch.received",
        /// The keys of new objects are durable; nothing was handed out.
        KeysWritten = "watch.keys_written",
        /// A list is complete and was compared; what it lacks waits to be handed out.
        Compared = "watch.compared",
        /// An event is in the consumer's hands.
        HandedOut = "watch.handed_out",
        /// The consumer acknowledged deletions; their keys are still there.
        Acknowledged = "watch.acknowledged",
        /// The keys of acknowledged deletions are gone.
        KeysRemoved = "watch.keys_removed",
        /// A kind or a cluster is about to be removed; its streams are closed.
        RemovalBegun = "watch.removal_begun",
        /// Everything of a kind or a cluster is deleted, nothing is committed.
        RemovalBeforeCommit = "watch.removal_before_commit",
        /// Everything of a kind or a cluster is gone; nobody was told.
        Removed = "watch.removed",
    }
}
