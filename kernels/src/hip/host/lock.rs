//! One process at a time measures on a device.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;

/// A lock on a GPU, by its place on the bus, held until it is dropped or the process ends.
pub(super) struct DeviceLock(#[expect(dead_code, reason = "the lock is the open file")] File);

impl DeviceLock {
    /// Takes the lock.
    pub(super) fn take(pci: &str) -> Result<DeviceLock, String> {
        let name: String = pci.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let path = std::env::temp_dir().join(format!("tilewright-hip-{name}.lock"));
        let open = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
        // Another user's file can be locked as well, just not written.
        let file = match open {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => File::open(&path),
            other => other,
        };
        let file = file.map_err(|error| format!("{}: {error}", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(DeviceLock(file)),
            Err(TryLockError::WouldBlock) => Err(format!(
                "another process measures on the GPU at {pci} (it holds {}); wait for it, or choose another GPU",
                path.display()
            )),
            Err(TryLockError::Error(error)) => Err(format!("{}: cannot be locked: {error}", path.display())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_lent_once_and_again_after_it_is_given_back() {
        let place = format!("test:{}", std::process::id());
        let first = DeviceLock::take(&place).unwrap();
        let refused = DeviceLock::take(&place).err().unwrap();
        assert!(refused.contains("another process measures"), "{refused}");
        drop(first);
        assert!(DeviceLock::take(&place).is_ok());
        let _ = std::fs::remove_file(
            std::env::temp_dir().join(format!("tilewright-hip-test-{}.lock", std::process::id())),
        );
    }
}
