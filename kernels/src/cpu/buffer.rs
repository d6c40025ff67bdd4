//! Memory for packed weights: zeroed, aligned to a cache line, and to 2 MiB in huge pages where it is large enough for
//! address translation to matter.

use std::alloc::{Layout as AllocLayout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Bytes of a cache line, and the alignment of everything a kernel loads.
pub(super) const LINE: usize = 64;
const HUGE: usize = 2 << 20;

/// A zeroed, aligned, fixed-size allocation.
pub(super) struct Buffer {
    start: NonNull<u8>,
    layout: AllocLayout,
}

// SAFETY: the buffer owns its memory and has no interior mutability.
unsafe impl Send for Buffer {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// `bytes` zero bytes, or one line of them if that is less.
    pub(super) fn zeroed(bytes: usize) -> Self {
        let align = if bytes >= 2 * HUGE { HUGE } else { LINE };
        let layout = AllocLayout::from_size_align(bytes.max(LINE), align).expect("the size fits an isize");
        // SAFETY: the size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        if align == HUGE {
            advise_huge(start, layout.size());
        }
        Buffer { start, layout }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the memory is owned, initialised (zeroed at least) and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.layout.size()) }
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and borrowed uniquely.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.layout.size()) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `zeroed` with this same layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Self {
        let mut copy = Buffer::zeroed(self.layout.size());
        copy.bytes_mut().copy_from_slice(self.bytes());
        copy
    }
}

/// Asks for huge pages; a kernel that has none goes on with small ones.
#[cfg(target_os = "linux")]
fn advise_huge(start: NonNull<u8>, bytes: usize) {
    use std::ffi::{c_int, c_void};
    unsafe extern "C" {
        fn madvise(start: *mut c_void, bytes: usize, advice: c_int) -> c_int;
    }
    const MADV_HUGEPAGE: c_int = 14;
    // SAFETY: the range is owned and page-aligned at its start; the advice does not change what memory holds.
    unsafe { madvise(start.as_ptr().cast(), bytes, MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn advise_huge(_: NonNull<u8>, _: usize) {}
