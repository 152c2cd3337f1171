//! The body of a LOCK or UNLOCK: refused, or kept as sent with an ID that a later UNLOCK finds again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use states::lock_info::LockInfo;

fuzz_target!(|body: &[u8]| {
    let unlock = LockInfo::of_unlock(body);
    let Ok(lock) = LockInfo::of_lock(body) else { return };
    assert_eq!(lock.text.as_bytes(), body);
    assert!(!lock.id.is_empty());
    assert_eq!(unlock.expect("what can be locked can be unlocked"), lock);
    for field in ["Operation", "Info", "Who"] {
        let _ = lock.field(field);
    }
    let made = LockInfo::made(&lock.id, "", "", "");
    assert_eq!(LockInfo::of_lock(made.text.as_bytes()).expect("our own").id, lock.id);
});
