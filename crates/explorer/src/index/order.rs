//! The texts of a dictionary in their order, so that two of them are compared by a number each.
//!
//! Ids are in chunks; a label is the rank of the chunk and a number that grows within it, with gaps: a new text takes the
//! middle of a gap, and only when there is none its chunk is numbered anew. Labels hold until the next change.

/// A chunk is split beyond this.
const LONGEST: usize = 256;
/// The gap after a text that is the last of its chunk: texts often come in order.
const STRIDE: u32 = 1 << 20;

#[derive(Debug, Default)]
pub(super) struct Order {
    /// In order; each in order.
    chunks: Vec<Chunk>,
    /// Of each chunk by its number: where it is in `chunks`.
    ranks: Vec<u32>,
    /// Numbers of chunks that are gone.
    free: Vec<u32>,
    /// Of each id: number of its chunk, label in it.
    places: Vec<(u32, u32)>,
}

#[derive(Debug)]
struct Chunk {
    number: u32,
    ids: Vec<u32>,
}

impl Order {
    /// Larger for later texts.
    pub(super) fn label(&self, id: u32) -> u64 {
        let (chunk, within) = self.places[id as usize];
        u64::from(self.ranks[chunk as usize]) << 32 | u64::from(within)
    }

    /// The ids whose texts are not `before`, in order.
    pub(super) fn from(&self, before: impl Fn(u32) -> bool) -> impl Iterator<Item = u32> + '_ {
        let (chunk, at) = self.find(before);
        let rest = self.chunks.get(chunk).map_or(&[][..], |chunk| &chunk.ids[at..]);
        rest.iter().chain(self.chunks.iter().skip(chunk + 1).flat_map(|chunk| &chunk.ids)).copied()
    }

    /// Puts a new id after all whose texts are `before` its own.
    pub(super) fn insert(&mut self, id: u32, before: impl Fn(u32) -> bool) {
        if self.places.len() <= id as usize {
            self.places.resize(id as usize + 1, (0, 0));
        }
        if self.chunks.is_empty() {
            let number = self.number();
            self.chunks.push(Chunk { number, ids: vec![id] });
            self.rank_from(0);
            self.place(0, 0);
            return;
        }
        let (mut chunk, mut at) = self.find(before);
        // At the start of a chunk, or behind the last one: the end of the one before serves as well.
        if chunk > 0 && at == 0 {
            chunk -= 1;
            at = self.chunks[chunk].ids.len();
        }
        self.chunks[chunk].ids.insert(at, id);
        self.place(chunk, at);
        if self.chunks[chunk].ids.len() > LONGEST {
            self.split(chunk);
        }
    }

    pub(super) fn remove(&mut self, id: u32) {
        let (number, within) = self.places[id as usize];
        let chunk = self.ranks[number as usize] as usize;
        let places = &self.places;
        let ids = &mut self.chunks[chunk].ids;
        if let Ok(at) = ids.binary_search_by_key(&within, |id| places[*id as usize].1) {
            ids.remove(at);
        }
        if ids.is_empty() {
            self.free.push(number);
            self.chunks.remove(chunk);
            self.rank_from(chunk);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let chunks: usize = self.chunks.iter().map(|chunk| chunk.ids.capacity() * 4 + 48).sum();
        chunks + self.places.capacity() * 8 + self.ranks.capacity() * 4
    }

    /// Where the first id is whose text is not `before`.
    fn find(&self, before: impl Fn(u32) -> bool) -> (usize, usize) {
        // The last chunk that begins with a text before; what is sought is in it, or at the start of the next.
        let after = self.chunks.partition_point(|chunk| before(chunk.ids[0]));
        let Some(chunk) = after.checked_sub(1) else { return (0, 0) };
        let at = self.chunks[chunk].ids.partition_point(|id| before(*id));
        if at == self.chunks[chunk].ids.len() { (chunk + 1, 0) } else { (chunk, at) }
    }

    /// Gives the id at this place a label between its neighbours'.
    fn place(&mut self, chunk: usize, at: usize) {
        let Chunk { number, ids } = &self.chunks[chunk];
        let label = |at: usize| self.places[ids[at] as usize].1;
        let low = at.checked_sub(1).map_or(0, label);
        let within = if at + 1 == ids.len() {
            low.checked_add(STRIDE)
        } else {
            let gap = label(at + 1) - low;
            (gap > 1).then_some(low + gap / 2)
        };
        match within {
            Some(within) => self.places[ids[at] as usize] = (*number, within),
            None => self.number_anew(chunk),
        }
    }

    fn number_anew(&mut self, chunk: usize) {
        let Chunk { number, ids } = &self.chunks[chunk];
        for (id, within) in ids.iter().zip((1..).map(|count: u32| count * STRIDE)) {
            self.places[*id as usize] = (*number, within);
        }
    }

    fn split(&mut self, chunk: usize) {
        let number = self.number();
        let ids = &mut self.chunks[chunk].ids;
        let later = ids.split_off(ids.len() / 2);
        ids.shrink_to_fit();
        self.chunks.insert(chunk + 1, Chunk { number, ids: later });
        self.rank_from(chunk);
        self.number_anew(chunk);
        self.number_anew(chunk + 1);
    }

    fn number(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.ranks.push(0);
            u32::try_from(self.ranks.len() - 1).expect("fewer chunks than ids")
        })
    }

    fn rank_from(&mut self, chunk: usize) {
        for (rank, chunk) in (0_u32..).zip(&self.chunks).skip(chunk) {
            self.ranks[chunk.number as usize] = rank;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids are put in the order of the numbers in `values`.
    fn check(order: &Order, values: &[Option<u32>]) {
        let mut expected: Vec<u32> = (0..).zip(values).filter_map(|(id, value)| value.map(|_| id)).collect();
        expected.sort_by_key(|id| values[*id as usize]);
        assert_eq!(order.from(|_| false).collect::<Vec<_>>(), expected);
        assert!(expected.is_sorted_by(|one, other| order.label(*one) < order.label(*other)));
    }

    #[test]
    fn labels_follow_the_texts_whatever_comes_and_goes() {
        let mut random = fastrand::Rng::with_seed(testbed::seed("labels_follow_the_texts_whatever_comes_and_goes"));
        for run in 0..6 {
            let (mut order, mut values) = (Order::default(), Vec::new());
            let mut next = 1 << 30;
            for step in 0..4000_u32 {
                let live: Vec<u32> =
                    (0..).zip(&values).filter_map(|(id, value): (u32, &Option<u32>)| value.map(|_| id)).collect();
                if random.u32(0..10) < 3 && !live.is_empty() {
                    let id = live[random.usize(..live.len())];
                    order.remove(id);
                    values[id as usize] = None;
                } else {
                    // At random, growing, falling.
                    let value = match run % 3 {
                        0 => random.u32(..),
                        1 => next + step,
                        _ => {
                            next -= 1;
                            next
                        }
                    };
                    if values.contains(&Some(value)) {
                        continue;
                    }
                    let id = u32::try_from(values.len()).unwrap();
                    order.insert(id, |other| values[other as usize] < Some(value));
                    values.push(Some(value));
                }
                if step % 500 == 0 {
                    check(&order, &values);
                }
            }
            check(&order, &values);
            let middle = Some(1 << 30);
            let after: Vec<u32> = order.from(|id| values[id as usize] < middle).collect();
            assert!(after.iter().all(|id| values[*id as usize] >= middle));
            assert_eq!(after.len(), values.iter().filter(|value| **value >= middle).count());
        }
    }
}
