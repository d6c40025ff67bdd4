//! Code objects on disk: a file per key. The key stands at the head of the file, with length and checksum, so that a
//! collision of file names or a torn file is found.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::config::fnv1a;

/// Length of the checksum and length fields after the key.
const HEAD: usize = 16;

/// The object kept under `key`, if the file is whole and holds that key's.
pub(super) fn read(path: &Path, key: &str) -> Option<Vec<u8>> {
    let bytes = fs::read(path).ok()?;
    let rest = bytes.strip_prefix(key.as_bytes())?;
    let (head, object) = rest.split_at_checked(HEAD)?;
    let sum = u64::from_le_bytes(head[..8].try_into().ok()?);
    let length = u64::from_le_bytes(head[8..].try_into().ok()?);
    (length == object.len() as u64 && sum == fnv1a(object)).then(|| object.to_vec())
}

/// Best effort: a cache that cannot be written is only slow. A temporary name and a rename, because several processes
/// may compile the same kernel.
pub(super) fn write(path: &Path, key: &str, object: &[u8]) {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    let mut bytes = key.as_bytes().to_vec();
    bytes.extend(fnv1a(object).to_le_bytes());
    bytes.extend((object.len() as u64).to_le_bytes());
    bytes.extend(object);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let temporary = path.with_extension(format!("{}.{serial}", std::process::id()));
    let folder = path.parent().unwrap_or(Path::new("."));
    if fs::create_dir_all(folder).and_then(|()| fs::write(&temporary, &bytes)).is_ok() {
        let _ = fs::rename(&temporary, path);
    }
}
