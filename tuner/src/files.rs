//! Writing files so that a reader sees the old one or the new one, never half.

use std::io::{self, Write};
use std::path::Path;

/// Replaces a file's content: temporary file in the same folder, fsync, rename. On any failure the old file stays.
///
/// # Errors
/// If the folder is missing or not writable, or the disk is full.
pub fn write_atomic(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut temporary = tempfile::Builder::new().prefix(".tilewright-").tempfile_in(folder)?;
    temporary.write_all(content)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // tempfile makes private files; a table is as readable as any other file of a repository.
        temporary.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))?;
    }
    temporary.as_file().sync_all()?;
    temporary.persist(path).map_err(|error| error.error)?;
    Ok(())
}
