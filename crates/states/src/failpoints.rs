//! The steps at which tests crash this crate; nothing in a normal build.

failpoint::steps! {
    /// Steps of a chunked write, of moving old versions into a page, and of sweeping.
    pub enum Step {
        /// The head names the upload; no chunk is there.
        UploadNamed = "states.upload_named",
        /// A chunk was put, others may follow.
        ChunkPut = "states.chunk_put",
        /// All chunks are there, the head does not name them as a version.
        BeforeCommit = "states.before_commit",
        /// The head names the new version; nobody was told.
        AfterCommit = "states.after_commit",
        /// A page of old versions is there, the head still holds them itself.
        PagePut = "states.page_put",
        /// What stood in the head is in chunks, the head still holds it too.
        Spilled = "states.spilled",
        /// An old version is there in a smaller form, the head still names the larger one.
        SmallerPut = "states.smaller_put",
        /// The head names the smaller form of an old version; the larger one is still there.
        LargerUnnamed = "states.larger_unnamed",
        /// What was in the clear is there sealed, the head still names the clear one.
        SealedPut = "states.sealed_put",
        /// The head no longer names an upload; its chunks are still there.
        SweepHeadWritten = "states.sweep_head_written",
    }
}
