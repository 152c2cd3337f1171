//! Things with numbers, which are given again when a thing goes.

/// Puts a thing where one was taken away, or at the end.
pub(super) fn put<T>(things: &mut Vec<T>, free: &mut Vec<u32>, thing: T) -> u32 {
    if let Some(id) = free.pop() {
        things[id as usize] = thing;
        return id;
    }
    push(things, thing);
    u32::try_from(things.len() - 1).expect("fewer than 4 billion")
}

/// Puts a thing at the end of a long list.
pub(super) fn push<T>(things: &mut Vec<T>, thing: T) {
    // A quarter more, not twice as much: these are the longest lists that there are.
    if things.len() == things.capacity() {
        things.reserve_exact(things.len() / 4 + 16);
    }
    things.push(thing);
}
