//! An allocator that remembers the largest request of a thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

struct Watching;

// SAFETY: everything is the system's allocator; the note taken beside it allocates nothing.
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Watching = Watching;

fn note(size: usize) {
    // A thread that is ending has no cell any more.
    let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(size)));
}

/// The largest single request during a call, in bytes.
pub(crate) fn largest_during(call: impl FnOnce()) -> usize {
    LARGEST.with(|largest| largest.set(0));
    call();
    LARGEST.with(Cell::get)
}
