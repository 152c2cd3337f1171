//! What is remembered because it is dear to make, as long as all of it together is not too large.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

/// Clones of values by a key.
#[derive(Debug)]
pub(crate) struct Remembered<K, V>(Mutex<Held<K, V>>);

#[derive(Debug)]
struct Held<K, V> {
    values: HashMap<K, (V, usize)>,
    bytes: usize,
}

/// More bytes than this, by their estimate, are not remembered.
const BYTES: usize = 64 << 20;
/// What a value takes at least, with its key.
const LEAST: usize = 4 << 10;

impl<K, V> Default for Remembered<K, V> {
    fn default() -> Remembered<K, V> {
        Remembered(Mutex::new(Held { values: HashMap::new(), bytes: 0 }))
    }
}

impl<K: Eq + Hash, V: Clone> Remembered<K, V> {
    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.values.get(key).map(|(value, _bytes)| value.clone())
    }

    /// Forgets all others where there would be too much.
    pub(crate) fn put(&self, key: K, value: V, bytes: usize) {
        let bytes = bytes.saturating_add(LEAST);
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if held.bytes.saturating_add(bytes) > BYTES {
            *held = Held { values: HashMap::new(), bytes: 0 };
        }
        if bytes > BYTES {
            return;
        }
        held.bytes += bytes;
        if let Some((_old, bytes)) = held.values.insert(key, (value, bytes)) {
            held.bytes -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_is_remembered_as_there_is_room_for() {
        let remembered: Remembered<usize, usize> = Remembered::default();
        for _again in 0..3 {
            remembered.put(0, 1, BYTES / 4);
        }
        for key in 1..3 {
            remembered.put(key, key, BYTES / 4);
        }
        assert_eq!([0, 1, 2].map(|key| remembered.get(&key)), [Some(1), Some(1), Some(2)], "one key counts once");
        remembered.put(3, 3, BYTES / 2);
        assert_eq!([0, 1, 2, 3].map(|key| remembered.get(&key)), [None, None, None, Some(3)]);
        remembered.put(4, 4, BYTES);
        assert_eq!([3, 4].map(|key| remembered.get(&key)), [None, None], "too large for any room");
        for key in 0..100_000 {
            remembered.put(key, key, 0);
        }
        let count = (0..100_000).filter(|key| remembered.get(key).is_some()).count();
        assert!((1..=BYTES / LEAST).contains(&count), "{count}");
    }
}
