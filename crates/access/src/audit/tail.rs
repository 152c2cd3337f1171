//! Reads the newest lines of a log, and those that come, across rotations. Nothing is checked here.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::files::{self, CURRENT, Rotated};
use super::line::Line;

/// The last lines of a log. [`Tail::read`] gives what there is now, [`Tail::follow`] waits for more.
#[derive(Debug)]
pub struct Tail {
    directory: PathBuf,
    /// The file being read, which keeps its content when it is renamed.
    file: Option<File>,
    /// What was read after the last newline.
    partial: Vec<u8>,
    /// The number of the last line that was read.
    last: u64,
    ready: VecDeque<String>,
}

/// How long [`Tail::follow`] waits between two looks.
const POLL: Duration = Duration::from_millis(200);
const CHUNK: u64 = 64 * 1024;

impl Tail {
    /// Finds the last `lines` lines.
    pub fn last(directory: &Path, lines: usize) -> io::Result<Tail> {
        let mut tail =
            Tail { directory: directory.to_owned(), file: None, partial: Vec::new(), last: 0, ready: VecDeque::new() };
        // The current file first, as in `verify`: what is rotated meanwhile is known by its number.
        let current = open(&directory.join(CURRENT))?;
        let mut wanted = lines;
        let mut sections = Vec::new();
        if let Some(mut file) = current {
            wanted -= seek_back(&mut file, wanted)?;
            sections.push((None, file));
        }
        for rotated in files::rotated(directory)?.into_iter().rev() {
            if wanted == 0 {
                break;
            }
            if let Some(mut file) = open(&rotated.path)? {
                wanted -= seek_back(&mut file, wanted)?;
                sections.push((Some(rotated), file));
            }
        }
        for (_, file) in sections.into_iter().rev() {
            tail.finish_file()?;
            tail.file = Some(file);
        }
        tail.take_lines()?;
        while tail.ready.len() > lines {
            tail.ready.pop_front();
        }
        if tail.last == 0 {
            // Nothing was asked for, or there is nothing: lines that come later are still to be told apart.
            tail.last = newest(directory)?;
        }
        Ok(tail)
    }

    /// The lines that are there and were not given yet.
    pub fn read(&mut self) -> io::Result<Vec<String>> {
        self.take_lines()?;
        if self.is_rotated()? {
            // Whatever went into the old file before it was renamed is read by now, or after one more look.
            self.finish_file()?;
            for rotated in files::rotated(&self.directory)? {
                if rotated.first > self.last {
                    self.file = open(&rotated.path)?;
                    self.finish_file()?;
                }
            }
            self.file = open(&self.directory.join(CURRENT))?;
            self.take_lines()?;
        }
        Ok(self.ready.drain(..).collect())
    }

    /// Waits until there are lines, and gives them.
    pub async fn follow(&mut self) -> io::Result<Vec<String>> {
        loop {
            let lines = self.read()?;
            if !lines.is_empty() {
                return Ok(lines);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    fn is_rotated(&self) -> io::Result<bool> {
        use std::os::unix::fs::MetadataExt;
        let current = match std::fs::metadata(self.directory.join(CURRENT)) {
            Ok(metadata) => metadata.ino(),
            // Between the two renames of a rotation: look again later.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        Ok(self.file.as_ref().map(File::metadata).transpose()?.is_none_or(|metadata| metadata.ino() != current))
    }

    fn finish_file(&mut self) -> io::Result<()> {
        self.take_lines()?;
        (self.file, self.partial) = (None, Vec::new());
        Ok(())
    }

    fn take_lines(&mut self) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let position = file.stream_position()?;
        if file.metadata()?.len() < position {
            // What failed to be written was cut off again.
            file.seek(SeekFrom::End(0))?;
            self.partial.clear();
        }
        file.read_to_end(&mut self.partial)?;
        let Some(end) = self.partial.iter().rposition(|byte| *byte == b'\n') else { return Ok(()) };
        let rest = self.partial.split_off(end + 1);
        for line in std::mem::replace(&mut self.partial, rest).split_inclusive(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            // A file may be met twice around a rotation; a line that cannot be read is shown as it is.
            match Line::parse(line) {
                Some(parsed) if parsed.n <= self.last => continue,
                Some(parsed) => self.last = parsed.n,
                None => {}
            }
            self.ready.push_back(String::from_utf8_lossy(line).into_owned());
        }
        Ok(())
    }
}

/// Moves to where the last `lines` lines begin, and tells how many there are from there.
fn seek_back(file: &mut File, lines: usize) -> io::Result<usize> {
    let mut position = file.metadata()?.len();
    let mut found = 0;
    let mut buffer = Vec::new();
    while position > 0 {
        let from = position.saturating_sub(CHUNK);
        file.seek(SeekFrom::Start(from))?;
        buffer.clear();
        Read::by_ref(file).take(position - from).read_to_end(&mut buffer)?;
        for (index, _) in buffer.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
            // The newline before the wanted lines is one more than they have.
            if found == lines {
                file.seek(SeekFrom::Start(from + index as u64 + 1))?;
                return Ok(found);
            }
            found += 1;
        }
        position = from;
    }
    file.seek(SeekFrom::Start(0))?;
    Ok(found)
}

fn newest(directory: &Path) -> io::Result<u64> {
    let number = |bytes: &[u8]| Line::parse(bytes).map(|line| line.n);
    let current = directory.join(CURRENT);
    let current = if current.exists() { number(&files::last_line(&current)?) } else { None };
    let rotated: Option<Rotated> = files::rotated(directory)?.pop();
    Ok(current.or(rotated.map(|file| file.last)).unwrap_or(0))
}

fn open(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
