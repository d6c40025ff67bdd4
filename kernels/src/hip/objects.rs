//! Code objects beside a table, so that an engine needs no compiler: the content of `<model>.objects`.
//!
//! An object is found by all that it was made from: file, definitions, architecture, flags and a hash of the text. A
//! build whose kernels have changed finds nothing and says so; it never runs old code under a new kernel's rules.
//!
//! The format, numbers little-endian: the line `tilewright hip objects 1\n`; the number of entries (u32); each entry:
//! length of its key (u32), key, length of its object (u64), FNV-1a of the object (u64), object.

use std::collections::BTreeMap;
use std::fmt;

use super::compile::FLAGS;
use super::launch::Source;
use crate::config::fnv1a;

const HEAD: &[u8] = b"tilewright hip objects 1\n";

/// Code objects that lie in `'a` bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Objects<'a> {
    entries: BTreeMap<&'a str, &'a [u8]>,
}

/// Why bytes are not code objects of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectsFault {
    /// Another file, or of another version.
    NotObjects,
    /// They end early, or an object is not the one that was written.
    Damaged,
}

impl fmt::Display for ObjectsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ObjectsFault::NotObjects => "these are not the code objects of a table, version 1",
            ObjectsFault::Damaged => "the code objects are damaged: tune again, or restore the file",
        })
    }
}

impl std::error::Error for ObjectsFault {}

/// What identifies the object of a source.
fn key(source: &Source, arch: &str) -> String {
    let (flags, defines) = (FLAGS.join(" "), source.defines.join(" "));
    format!("{} {arch} {flags} {defines} {:016x}", source.file, fnv1a(source.text.as_bytes()))
}

impl<'a> Objects<'a> {
    /// Reads what [`pack`] wrote.
    ///
    /// # Errors
    /// If it is something else or was damaged.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ObjectsFault> {
        if bytes.is_empty() {
            return Ok(Objects::default());
        }
        let mut rest = bytes.strip_prefix(HEAD).ok_or(ObjectsFault::NotObjects)?;
        let mut take = |count: u64| {
            let count = usize::try_from(count).map_err(|_| ObjectsFault::Damaged)?;
            let (taken, left) = rest.split_at_checked(count).ok_or(ObjectsFault::Damaged)?;
            rest = left;
            Ok(taken)
        };
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |n, byte| n << 8 | u64::from(*byte));
        let mut entries = BTreeMap::new();
        for _ in 0..number(take(4)?) {
            let length = number(take(4)?);
            let key = std::str::from_utf8(take(length)?).map_err(|_| ObjectsFault::Damaged)?;
            let (length, sum) = (number(take(8)?), number(take(8)?));
            let object = take(length)?;
            if fnv1a(object) != sum || entries.insert(key, object).is_some() {
                return Err(ObjectsFault::Damaged);
            }
        }
        if rest.is_empty() { Ok(Objects { entries }) } else { Err(ObjectsFault::Damaged) }
    }

    /// The object of a source for an architecture.
    pub fn get(&self, source: &Source, arch: &str) -> Option<&'a [u8]> {
        self.entries.get(key(source, arch).as_str()).copied()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// The file's bytes: a function of the objects alone, whatever their order. Of sources with the same object, that is,
/// kernels of one text with the same definitions, one is kept.
pub fn pack(objects: &[(Source, Vec<u8>)], arch: &str) -> Vec<u8> {
    let sorted: BTreeMap<String, &Vec<u8>> =
        objects.iter().map(|(source, object)| (key(source, arch), object)).collect();
    let mut bytes = HEAD.to_vec();
    bytes.extend((sorted.len() as u32).to_le_bytes());
    for (key, object) in sorted {
        bytes.extend((key.len() as u32).to_le_bytes());
        bytes.extend(key.as_bytes());
        bytes.extend((object.len() as u64).to_le_bytes());
        bytes.extend(fnv1a(object).to_le_bytes());
        bytes.extend(object);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(define: &str) -> Source {
        Source { file: "a.hip", text: "text", entry: "a", defines: vec![define.into()] }
    }

    #[test]
    fn objects_are_found_by_what_they_were_made_from() {
        let made = [(source("X=2"), vec![2; 9]), (source("X=1"), vec![1; 3])];
        let bytes = pack(&made, "gfx950");
        let found = Objects::parse(&bytes).unwrap();
        assert_eq!(found.get(&source("X=1"), "gfx950"), Some(&[1; 3][..]));
        assert_eq!(found.get(&Source { entry: "b", ..source("X=2") }, "gfx950"), Some(&[2; 9][..]));
        assert_eq!(found.get(&source("X=1"), "gfx942"), None);
        assert_eq!(found.get(&Source { text: "new text", ..source("X=1") }, "gfx950"), None);
        let turned = [made[1].clone(), made[0].clone()];
        assert_eq!(pack(&turned, "gfx950"), bytes, "the order shows");
    }

    #[test]
    fn damage_anywhere_is_found() {
        let bytes = pack(&[(source("X=1"), vec![1; 3]), (source("X=2"), vec![2; 9])], "gfx950");
        assert_eq!(Objects::parse(b""), Ok(Objects::default()), "no file is no objects");
        assert_eq!(Objects::parse(&bytes[1..]), Err(ObjectsFault::NotObjects));
        for end in HEAD.len()..bytes.len() {
            assert_eq!(Objects::parse(&bytes[..end]), Err(ObjectsFault::Damaged), "cut at {end}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert_eq!(Objects::parse(&longer), Err(ObjectsFault::Damaged));
        let mut changed = bytes.clone();
        *changed.last_mut().unwrap() ^= 1;
        assert_eq!(Objects::parse(&changed), Err(ObjectsFault::Damaged));
    }
}
