//! A line that moves, on a terminal; nothing on a pipe.

use std::io::{IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt as _;

use super::super::model;
use crate::client::transfer::Pieces;

/// Shows how far a copy is; cheap to clone.
#[derive(Clone, Debug)]
pub struct Progress(Option<Arc<Mutex<Line>>>);

#[derive(Debug)]
struct Line {
    name: String,
    doing: &'static str,
    done: u64,
    total: Option<u64>,
    drawn: Instant,
}

const EVERY: Duration = Duration::from_millis(100);
const WIDTH: u64 = 24;

impl Progress {
    pub fn of(name: &str) -> Progress {
        let name = crate::cli::output::plain(name);
        let line = Line { name, doing: "", done: 0, total: None, drawn: Instant::now() };
        Progress(std::io::stderr().is_terminal().then(|| Arc::new(Mutex::new(line))))
    }

    /// Begins a step of `total` bytes, if that is known.
    pub fn step(&self, doing: &'static str, total: Option<u64>) {
        self.change(|line| {
            (line.doing, line.done, line.total) = (doing, 0, total);
            line.draw();
        });
    }

    /// Counts pieces as they pass.
    pub fn watch(&self, pieces: Pieces) -> Pieces {
        let progress = self.clone();
        pieces
            .inspect(move |piece| {
                let length = piece.as_ref().map_or(0, bytes::Bytes::len);
                progress.change(|line| {
                    line.done += length as u64;
                    if line.drawn.elapsed() > EVERY {
                        line.draw();
                    }
                });
            })
            .boxed()
    }

    /// Takes the line away.
    pub fn end(&self) {
        self.change(|_| write("\r\u{1b}[K"));
    }

    fn change(&self, change: impl FnOnce(&mut Line)) {
        if let Some(line) = &self.0 {
            change(&mut line.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

impl Line {
    fn draw(&mut self) {
        self.drawn = Instant::now();
        write(&format!("\r\u{1b}[K{}", self.text()));
    }

    fn text(&self) -> String {
        let (name, doing, size) = (&self.name, self.doing, model::size(Some(self.done)));
        match self.total.filter(|total| *total > 0) {
            Some(total) => {
                let full = (self.done.min(total) * WIDTH / total).min(WIDTH);
                let bar: String = (0..WIDTH).map(|place| if place < full { '#' } else { '.' }).collect();
                format!("{name}: {doing} [{bar}] {} %, {size}", self.done.min(total) * 100 / total)
            }
            None => format!("{name}: {doing} {size}"),
        }
    }
}

fn write(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_is_as_full_as_the_copy() {
        let line = |done, total| {
            let line = Line { name: "a/b".to_owned(), doing: "writing", done, total, drawn: Instant::now() };
            line.text()
        };
        assert_eq!(line(0, Some(100)), "a/b: writing [........................] 0 %, 0 B");
        assert_eq!(line(50, Some(100)), "a/b: writing [############............] 50 %, 50 B");
        assert_eq!(line(200, Some(100)), "a/b: writing [########################] 100 %, 200 B");
        assert_eq!(line(2048, None), "a/b: writing 2.0 KiB");
    }
}
