//! The steps at which tests crash or fail this crate; nothing in a normal build.

failpoint::steps! {
    /// Steps of writes, migrations and back-ups.
    pub enum Step {
        /// The statements ran, COMMIT was not sent. Failing here is a COMMIT that did not take place.
        BeforeCommit = "db.before_commit",
        /// COMMIT took place, the caller does not know it. Failing here is a COMMIT whose answer was lost.
        AfterCommitBeforeAck = "db.after_commit_before_ack",
        /// The statements of a migration step and its row are written, not committed.
        MigrationBeforeCommit = "db.migration_before_commit",
        /// One migration step is committed, the next has not begun.
        MigrationBetweenSteps = "db.migration_between_steps",
        /// The copy is complete and synced under its temporary name.
        BackupBeforeRename = "db.backup_before_rename",
    }
}
