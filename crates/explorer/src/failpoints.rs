//! The steps at which tests crash this crate; nothing in a normal build.

failpoint::steps! {
    /// Steps between an event, the index and the copy on disk.
    pub enum Step {
        /// The index has taken a change in; the copy has not been told.
        IndexedBeforeCopy = "explorer.indexed_before_copy",
        /// A batch is in the hands of the writer; nothing of it is written.
        CopyBeforeWrite = "explorer.copy_before_write",
        /// Some statements of a batch ran; it is not committed.
        CopyInBatch = "explorer.copy_in_batch",
        /// A batch is committed; whoever waits for it has not been told.
        CopyAfterCommit = "explorer.copy_after_commit",
    }
}
