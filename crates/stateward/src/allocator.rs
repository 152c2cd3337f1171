//! What the C library's allocator does with memory that is free again.

/// Lets go of large blocks as soon as they are free.
///
/// glibc raises the size from which it does so up to 32 MiB, by the blocks that it sees, and keeps an arena per thread:
/// the segments of one large state would stay with the process, once for every thread that has worked on one.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "there is no other way to tell the allocator")]
pub fn give_back_early() {
    const LARGE: libc::c_int = 1 << 20;
    const ARENAS: libc::c_int = 2;
    // SAFETY: mallopt takes two numbers and is called before there is a second thread.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
        libc::mallopt(libc::M_TRIM_THRESHOLD, LARGE);
        libc::mallopt(libc::M_ARENA_MAX, ARENAS);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn give_back_early() {}
