//! Writing files so that a reader sees the old one or the new one, never half, and so that what was written survives a
//! power failure.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Replaces a file's content: temporary file in the same folder, fsync, rename, fsync of the folder. On any failure the
/// old file stays as it was, and no temporary file is left.
///
/// # Errors
/// If the folder is missing or not writable, or the disk is full.
pub fn write_atomic(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    step()?;
    let mut temporary = tempfile::Builder::new().prefix(".tilewright-").tempfile_in(folder)?;
    write(temporary.as_file_mut(), content)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // tempfile makes private files; a table is as readable as any other file of a repository.
        temporary.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))?;
    }
    step()?;
    temporary.as_file().sync_all()?;
    step()?;
    temporary.persist(path).map_err(|error| error.error)?;
    sync_folder(folder)
}

/// Waits until the names in a folder are on disk: a file is safe only when its name is.
///
/// # Errors
/// If the disk says no.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    // Elsewhere folders cannot be opened.
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Writes to an open file. What a failure leaves of `content` in it is for the caller to know.
///
/// # Errors
/// If the disk is full or gone.
pub fn write(file: &mut File, content: &[u8]) -> io::Result<()> {
    if let Err(full) = step() {
        // As a full disk does it: some of it fits.
        file.write_all(&content[..content.len() / 2])?;
        return Err(full);
    }
    file.write_all(content)
}

/// In debug builds, fails as if the disk were full from the step on that the environment names.
fn step() -> io::Result<()> {
    #[cfg(debug_assertions)]
    {
        use std::sync::OnceLock;
        use std::sync::atomic::{AtomicU64, Ordering};
        static FULL_FROM: OnceLock<Option<u64>> = OnceLock::new();
        static STEPS: AtomicU64 = AtomicU64::new(0);
        let full_from = FULL_FROM.get_or_init(|| std::env::var("TILEWRIGHT_DISK_FULL").ok()?.parse().ok());
        if full_from.is_some_and(|full| STEPS.fetch_add(1, Ordering::Relaxed) >= full) {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_is_replaced_whole_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.toml");
        write_atomic(&path, b"old").unwrap();
        write_atomic(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["t.toml"]);
    }

    #[test]
    fn a_vanished_folder_and_a_name_that_is_taken_are_errors_that_leave_no_file() {
        let folder = tempfile::tempdir().unwrap();
        assert!(write_atomic(&folder.path().join("gone/t.toml"), b"x").is_err());
        // The rename fails: a folder has that name.
        fs::create_dir_all(folder.path().join("t.toml/full")).unwrap();
        assert!(write_atomic(&folder.path().join("t.toml"), b"x").is_err());
        assert_eq!(names(folder.path()), ["t.toml"]);
    }

    #[test]
    fn readers_never_see_half_a_file_while_many_write_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.toml");
        let whole = |byte: u8| vec![byte; 100_000];
        write_atomic(&path, &whole(0)).unwrap();
        std::thread::scope(|scope| {
            let writers: Vec<_> = (1..5u8)
                .map(|byte| {
                    let (path, content) = (&path, whole(byte));
                    scope.spawn(move || (0..10).for_each(|_| write_atomic(path, &content).unwrap()))
                })
                .collect();
            while !writers.iter().all(|writer| writer.is_finished()) {
                let content = fs::read(&path).unwrap();
                assert_eq!(content, whole(content[0]));
            }
        });
        assert_eq!(names(folder.path()), ["t.toml"]);
    }
}
