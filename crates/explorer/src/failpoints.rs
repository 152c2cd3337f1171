//! The steps at which tests crash this crate; nothing in a normal build.

failpoint::steps! {
    /// Steps between an event, the index and the copy on disk.
    pub enum Step {
        /// Events are in the hands of whoever collects; nothing of them is in the index.
        EventTaken = "explorer.event_taken",
        /// The index has taken a change in; the copy has not been told.
        IndexedBeforeCopy = "explorer.indexed_before_copy",
        /// A batch is in the hands of the writer; nothing of it is written.
        CopyBeforeWrite = "explorer.copy_before_write",
        /// Some statements of a batch ran; it is not committed.
        CopyInBatch = "explorer.copy_in_batch",
        /// A batch is committed; whoever waits for it has not been told.
        CopyAfterCommit = "explorer.copy_after_commit",
        /// The copy has the events of a batch; the stream has not been told.
        BeforeAcknowledge = "explorer.before_acknowledge",
        /// The keys of a cluster that is removed are gone; its rows are not.
        KeysPurged = "explorer.keys_purged",
        /// The keys and rows of a cluster that is removed are gone; nobody was told.
        RowsPurged = "explorer.rows_purged",
    }
}
