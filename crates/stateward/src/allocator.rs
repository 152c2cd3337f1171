//! What the C library's allocator does with memory that is free again.

/// Lets go of what is free beyond a few megabytes.
///
/// glibc raises that bound up to 64 MiB, by the blocks that it sees, and keeps an arena per thread: the segments of many
/// large states would stay with the process, once for every thread that has worked on one. Without any reserve every
/// large state would have to ask the kernel for its memory, page by page.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "there is no other way to tell the allocator")]
pub fn give_back_early() {
    /// A block of more bytes is the kernel's again as soon as it is free: most segments are smaller.
    const LARGE: libc::c_int = 4 << 20;
    /// So many stay with an arena.
    const RESERVE: libc::c_int = 8 << 20;
    const ARENAS: libc::c_int = 2;
    // SAFETY: mallopt takes two numbers and is called before there is a second thread.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
        libc::mallopt(libc::M_TRIM_THRESHOLD, RESERVE);
        libc::mallopt(libc::M_ARENA_MAX, ARENAS);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn give_back_early() {}
