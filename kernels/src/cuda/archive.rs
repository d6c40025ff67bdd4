//! Compiled kernels beside a table, so that running it takes the driver alone.
//!
//! An archive holds cubins by the identity of their source: file, options and a hash of the text. A kernel whose source
//! has changed since is not found in it, and is compiled. The format, version 1, little-endian: the line `tilewright
//! cubins 1`, a u32 count, and for each kernel in ascending order of identity u32 length and bytes of the identity, u32
//! length and bytes of the cubin; at the end the FNV-1a hash of all that as a u64.

use std::collections::BTreeMap;
use std::fmt;

use crate::config::fnv1a;
use crate::cuda::source::Source;

const HEAD: &[u8] = b"tilewright cubins 1\n";

/// Cubins by the identity of their source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Archive {
    cubins: BTreeMap<String, Vec<u8>>,
}

/// Why bytes are not an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArchiveError {
    /// The head is another: not an archive, or another version.
    Head,
    /// The hash is another, or a length leads outside.
    Damaged,
}

impl fmt::Display for ArchiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ArchiveError::Head => "not an archive of cubins of this version",
            ArchiveError::Damaged => "the archive of cubins is damaged; make it again",
        })
    }
}

impl std::error::Error for ArchiveError {}

/// What identifies a compiled kernel, whoever compiles it.
pub fn identity(source: &Source) -> String {
    format!("{} {} {:016x}", source.file, source.defines.join(" "), fnv1a(source.text.as_bytes()))
}

impl Archive {
    /// Adds a kernel.
    pub fn insert(&mut self, source: &Source, cubin: Vec<u8>) {
        self.cubins.insert(identity(source), cubin);
    }

    /// The cubin of a source.
    pub fn get(&self, source: &Source) -> Option<&[u8]> {
        self.cubins.get(&identity(source)).map(Vec::as_slice)
    }

    /// How many kernels it holds.
    pub fn len(&self) -> usize {
        self.cubins.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.cubins.is_empty()
    }

    /// The archive as bytes: the same kernels give the same bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = HEAD.to_vec();
        bytes.extend((self.cubins.len() as u32).to_le_bytes());
        for (identity, cubin) in &self.cubins {
            for part in [identity.as_bytes(), cubin] {
                bytes.extend((part.len() as u32).to_le_bytes());
                bytes.extend(part);
            }
        }
        let hash = fnv1a(&bytes);
        bytes.extend(hash.to_le_bytes());
        bytes
    }

    /// Reads what [`Archive::to_bytes`] wrote.
    ///
    /// # Errors
    /// If it did not, or not all of it is there.
    pub fn from_bytes(bytes: &[u8]) -> Result<Archive, ArchiveError> {
        let rest = bytes.strip_prefix(HEAD).ok_or(ArchiveError::Head)?;
        let (_, hash) = bytes.split_last_chunk::<8>().ok_or(ArchiveError::Damaged)?;
        if fnv1a(&bytes[..bytes.len() - 8]) != u64::from_le_bytes(*hash) {
            return Err(ArchiveError::Damaged);
        }
        let mut rest = rest.get(..rest.len().saturating_sub(8)).ok_or(ArchiveError::Damaged)?;
        let count = number(&mut rest)?;
        let mut archive = Archive::default();
        for _ in 0..count {
            let identity = String::from_utf8(part(&mut rest)?.to_vec()).map_err(|_| ArchiveError::Damaged)?;
            archive.cubins.insert(identity, part(&mut rest)?.to_vec());
        }
        if rest.is_empty() { Ok(archive) } else { Err(ArchiveError::Damaged) }
    }
}

fn number(rest: &mut &[u8]) -> Result<u32, ArchiveError> {
    let (number, left) = rest.split_first_chunk::<4>().ok_or(ArchiveError::Damaged)?;
    *rest = left;
    Ok(u32::from_le_bytes(*number))
}

fn part<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], ArchiveError> {
    let length = number(rest)? as usize;
    let (part, left) = rest.split_at_checked(length).ok_or(ArchiveError::Damaged)?;
    *rest = left;
    Ok(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(define: &str) -> Source {
        Source { file: "a.cu", text: "kernel", entry: "gemm", defines: vec![define.into()] }
    }

    #[test]
    fn an_archive_reads_back_and_finds_kernels_by_their_source() {
        let mut archive = Archive::default();
        archive.insert(&source("-DB=2"), vec![4, 5]);
        archive.insert(&source("-DA=1"), vec![1, 2, 3]);
        let read = Archive::from_bytes(&archive.to_bytes()).expect("it was just written");
        assert_eq!(read, archive);
        assert_eq!(read.get(&source("-DA=1")), Some(&[1u8, 2, 3][..]));
        assert_eq!(read.get(&source("-DA=2")), None);
        let changed = Source { text: "another kernel", ..source("-DA=1") };
        assert_eq!(read.get(&changed), None, "a stale cubin was found");
    }

    #[test]
    fn no_truncated_or_changed_archive_is_read() {
        let mut archive = Archive::default();
        archive.insert(&source("-DA=1"), vec![1, 2, 3]);
        let bytes = archive.to_bytes();
        for end in 0..bytes.len() {
            assert!(Archive::from_bytes(&bytes[..end]).is_err(), "{end} bytes were read");
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(Archive::from_bytes(&changed).is_err(), "a changed byte {at} was read");
        }
    }
}
