//! The steps at which tests end a migration; nothing in a normal build.

failpoint::steps! {
    /// Steps of copying one state.
    pub enum Step {
        /// The source is locked, the destination not.
        SourceLocked = "migrate.source_locked",
        /// Both are locked, nothing was read.
        BothLocked = "migrate.both_locked",
        /// The destination has the bytes; nobody compared them.
        Written = "migrate.written",
        /// They are the same; the source says nothing of it.
        Verified = "migrate.verified",
        /// The source says where it went; both are still locked.
        Left = "migrate.left",
        /// The destination is free, the source still locked.
        DestinationFree = "migrate.destination_free",
    }
}
