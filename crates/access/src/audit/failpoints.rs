//! The places at which a test may crash or fail the writer. Nothing happens at them outside tests.

failpoint::steps! {
    /// Steps of a write, a rotation and an expiry, in the order in which they come.
    pub enum Step {
        /// Half of a group is in the file.
        MidWrite = "audit.mid_write",
        /// The group is in the page cache only; made to fail, it stands for a failing `fdatasync`.
        AfterWriteBeforeSync = "audit.after_write_before_sync",
        /// The group is on disk, nobody was told.
        AfterSyncBeforeAck = "audit.after_sync_before_ack",
        /// Lines are on disk, the database does not know them yet, and nobody was told.
        AfterSyncBeforeHead = "audit.after_sync_before_head",
        /// The database knows them, nobody was told.
        AfterHead = "audit.after_head",
        /// The `rotate` line is on disk, the file still has its old name.
        RotateBeforeRename = "audit.rotate_before_rename",
        /// There is no `audit.log`.
        RotateAfterRename = "audit.rotate_after_rename",
        /// The checkpoint is on disk, the expired file is still there.
        ExpireBeforeDelete = "audit.expire_before_delete",
        /// The instance has its name, but no key yet.
        CreateBeforeKey = "audit.create_before_key",
        /// A torn end was cut off and is not recorded yet.
        TornBeforeRecord = "audit.torn_before_record",
    }
}
