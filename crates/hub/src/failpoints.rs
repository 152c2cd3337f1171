//! The steps at which tests crash this crate; nothing in a normal build.

failpoint::steps! {
    /// Steps of a change that concerns a backend, and of its end by others.
    pub enum Step {
        /// The entries are there, no backend was called.
        CreateReserved = "hub.create.reserved",
        /// A backend has done it, others may follow.
        CreateCalled = "hub.create.called",
        /// All backends have done it, nothing is visible.
        CreateBeforeCommit = "hub.create.before_commit",
        /// It is visible; nobody was told.
        CreateCommitted = "hub.create.committed",
        UpdateReserved = "hub.update.reserved",
        UpdateCalled = "hub.update.called",
        UpdateBeforeCommit = "hub.update.before_commit",
        UpdateCommitted = "hub.update.committed",
        DeleteReserved = "hub.delete.reserved",
        DeleteCalled = "hub.delete.called",
        DeleteBeforeCommit = "hub.delete.before_commit",
        DeleteCommitted = "hub.delete.committed",
        LockReserved = "hub.lock.reserved",
        LockCalled = "hub.lock.called",
        LockBeforeCommit = "hub.lock.before_commit",
        LockCommitted = "hub.lock.committed",
        UnlockReserved = "hub.unlock.reserved",
        UnlockCalled = "hub.unlock.called",
        UnlockBeforeCommit = "hub.unlock.before_commit",
        UnlockCommitted = "hub.unlock.committed",
        MoveReserved = "hub.move.reserved",
        /// A version is in the new place, others may follow.
        MoveCopied = "hub.move.copied",
        /// All versions are in the new place, which nobody knows.
        MoveBeforeSwitch = "hub.move.before_switch",
        /// The new place counts; the old copy is still there.
        MoveSwitched = "hub.move.switched",
        /// The old copy is gone, the entry is still there.
        MoveCleaned = "hub.move.cleaned",
        /// A backend refused: the entries say that all is to be undone.
        Aborted = "hub.aborted",
        /// An entry was undone or carried through at its backend, and is still there.
        SettleCalled = "hub.settle.called",
    }
}
