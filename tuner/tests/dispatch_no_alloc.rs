//! A lookup allocates nothing, on any rung.

mod table_fixture;

use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::cell::Cell;
use std::hint::black_box;
use std::path::Path;

use table_fixture::{decisions, device};
use tilewright::table::{Located, Lowered};
use tilewright_dispatch::{Request, Table};
use tilewright_kernels::Layout;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches a plain thread-local cell.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, memory: Memory) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: as the caller promised us.
        unsafe { System.alloc(memory) }
    }

    unsafe fn dealloc(&self, at: *mut u8, memory: Memory) {
        // SAFETY: as the caller promised us.
        unsafe { System.dealloc(at, memory) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn no_rung_allocates() {
    let located = Located::parse(Path::new("fixture.toml"), &decisions().to_toml()).unwrap();
    Lowered::of(&located).unwrap().with(|data| {
        let table = Table::bind(data, &device());
        let weight = &located.decisions.weights[0];
        let base = Request::new(weight.key().problem(64), weight.layout);
        let mut requests = vec![base; 6];
        requests[1].problem.m = 50;
        requests[2].problem.n = 961;
        requests[3].problem.n = 1_000_000;
        requests[4].layout = Layout::RowMajor;
        requests[5].problem.k = 33;
        let before = ALLOCATIONS.with(Cell::get);
        assert!(before > 0, "the counter counts");
        for request in &requests {
            let choice = black_box(table.choose(request));
            if let Ok(choice) = choice {
                black_box(table.runner_up(request, &choice));
            }
        }
        assert_eq!(ALLOCATIONS.with(Cell::get), before);
        let counts = table.counters().read();
        let each =
            [counts.exact, counts.interval, counts.nearest, counts.analytic, counts.default, counts.none];
        assert_eq!(each, [1; 6], "every rung was taken");
    });
}
