//! A persistent team of worker threads, one for the whole process.
//!
//! [`run`] hands out the numbers `0..chunks` to the caller and up to `threads - 1` workers through one atomic counter.
//! Workers spin for a moment after a job and then park, so a model's next layer finds them awake and an idle process
//! costs nothing. A job allocates nothing.
//!
//! Invariants:
//! * a worker takes part in a job only between joining it (a compare-and-swap on `state` that fails once the job is
//!   closed) and leaving it, and the caller returns only after closing the job and seeing everybody leave, so the
//!   closure outlives every use of it; a worker that wakes late finds the job closed and goes back to sleep;
//! * there is one job at a time. A second caller, or a job started from inside a job, runs its chunks alone;
//! * a panic in any chunk is caught, stops the handing out, and goes on in the caller once everybody has left.

use std::any::Any;
use std::cell::UnsafeCell;
use std::hint;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, TryLockError};
use std::thread::{self, Thread};

/// Calls `job(thread, chunk)` for every chunk, once each, from at most `threads` threads. `thread` is below `threads`
/// and no two concurrent calls share it.
pub(super) fn run(threads: usize, chunks: usize, job: &(dyn Fn(usize, usize) + Sync)) {
    if let Some(team) = TEAM.get().filter(|_| threads > 1 && chunks > 1) {
        let turn = match team.turn.try_lock() {
            Ok(turn) => Some(turn),
            // An earlier job panicked; what the turn guards was put in order before that went on.
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        if turn.is_some() {
            return team.lead(threads, chunks, job);
        }
    }
    for chunk in 0..chunks {
        job(0, chunk);
    }
}

/// Starts the workers, one less than there are cores, unless they run already, and waits until they do: a starting
/// thread allocates.
pub(super) fn start() {
    let team = TEAM.get_or_init(|| {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<Worker> = (1..cores)
            .map_while(|number| {
                let builder = thread::Builder::new().name(format!("tilewright-{number}"));
                // Fewer workers make a job slower, not wrong.
                let handle = builder.spawn(move || TEAM.wait().work(number)).ok()?;
                Some(Worker { thread: handle.thread().clone(), parked: AtomicBool::new(false) })
            })
            .collect();
        Team {
            turn: Mutex::new(()),
            state: AtomicU64::new(CLOSED),
            job: UnsafeCell::new(None),
            next: AtomicUsize::new(0),
            panic: Mutex::new(None),
            ready: AtomicUsize::new(0),
            workers,
        }
    });
    let mut turns = 0;
    while team.ready.load(Ordering::Acquire) < team.workers.len() {
        pause(&mut turns);
    }
}

static TEAM: OnceLock<Team> = OnceLock::new();

/// Turns of waiting before a worker parks, a few tens of microseconds.
const SPINS: u32 = 2000;

/// `Team::state`: the number of workers inside in the low bits, then whether the job is closed, then its number.
const CLOSED: u64 = 1 << 16;
const INSIDE: u64 = CLOSED - 1;
const NEXT_JOB: u64 = CLOSED << 1;

struct Team {
    /// Held by the caller whose job runs.
    turn: Mutex<()>,
    state: AtomicU64,
    /// Written by the holder of `turn` while `state` is closed and nobody is inside; read only by those inside.
    job: UnsafeCell<Option<Job>>,
    /// The next chunk to hand out.
    next: AtomicUsize,
    /// The first panic's payload.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// Workers that wait for jobs.
    ready: AtomicUsize,
    workers: Vec<Worker>,
}

struct Worker {
    thread: Thread,
    /// Set by the worker before it parks, cleared by whoever wakes it.
    parked: AtomicBool,
}

#[derive(Clone, Copy)]
struct Job {
    run: *const (dyn Fn(usize, usize) + Sync),
    threads: usize,
    chunks: usize,
}

// SAFETY: `job` is only touched under the protocol in the module's documentation; `run` points at a `Sync` closure.
unsafe impl Sync for Team {}
// SAFETY: as above; a team is created by one thread and used by others.
unsafe impl Send for Team {}

impl Team {
    fn lead(&self, threads: usize, chunks: usize, run: &(dyn Fn(usize, usize) + Sync)) {
        let threads = threads.min(self.workers.len() + 1);
        // SAFETY: only the lifetime changes; this function does not return before every user has left.
        let run = unsafe {
            std::mem::transmute::<&(dyn Fn(usize, usize) + Sync), *const (dyn Fn(usize, usize) + Sync)>(run)
        };
        let job = Job { run, threads, chunks };
        // SAFETY: the turn is ours, the last job is closed and nobody is inside.
        unsafe { *self.job.get() = Some(job) };
        self.next.store(0, Ordering::Relaxed);
        let number = (self.state.load(Ordering::Relaxed) & !(CLOSED | INSIDE)).wrapping_add(NEXT_JOB);
        self.state.store(number, Ordering::SeqCst);
        for worker in &self.workers[..threads - 1] {
            if worker.parked.swap(false, Ordering::SeqCst) {
                worker.thread.unpark();
            }
        }
        self.take_chunks(job, 0);
        self.state.fetch_or(CLOSED, Ordering::AcqRel);
        let mut turns = 0;
        while self.state.load(Ordering::Acquire) & INSIDE != 0 {
            pause(&mut turns);
        }
        // A caller must never take part in the next job while it unwinds.
        let panic = self.panic.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
    }

    fn take_chunks(&self, job: Job, thread: usize) {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            loop {
                let chunk = self.next.fetch_add(1, Ordering::Relaxed);
                if chunk >= job.chunks {
                    return;
                }
                // SAFETY: whoever takes chunks is inside the job, so the closure lives.
                unsafe { (*job.run)(thread, chunk) };
            }
        }));
        if let Err(payload) = outcome {
            self.next.store(usize::MAX / 2, Ordering::Relaxed);
            self.panic.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get_or_insert(payload);
        }
    }

    fn work(&self, thread: usize) -> ! {
        self.ready.fetch_add(1, Ordering::AcqRel);
        let mut last = CLOSED;
        loop {
            let state = self.wait_for_job(thread, last);
            last = state & !INSIDE;
            if state & CLOSED != 0
                || self.state.compare_exchange(state, state + 1, Ordering::AcqRel, Ordering::Relaxed).is_err()
            {
                // Somebody else joined, or the job closed: look again.
                last = CLOSED;
                hint::spin_loop();
                continue;
            }
            // SAFETY: we are inside, so the job stays as it is.
            let job = unsafe { *self.job.get() };
            if let Some(job) = job.filter(|job| thread < job.threads) {
                self.take_chunks(job, thread);
            }
            self.state.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// The state once it shows a job that is open and not `last`.
    fn wait_for_job(&self, thread: usize, last: u64) -> u64 {
        let worker = &self.workers[thread - 1];
        let is_new = |state: u64| state & CLOSED == 0 && state & !INSIDE != last;
        loop {
            for _ in 0..SPINS {
                let state = self.state.load(Ordering::Acquire);
                if is_new(state) {
                    return state;
                }
                hint::spin_loop();
            }
            worker.parked.store(true, Ordering::SeqCst);
            let state = self.state.load(Ordering::SeqCst);
            if is_new(state) {
                worker.parked.store(false, Ordering::SeqCst);
                return state;
            }
            while worker.parked.load(Ordering::Acquire) {
                thread::park();
            }
        }
    }
}

/// Waits a moment: first busily, then giving the core away, for there may be more threads than free cores.
fn pause(turns: &mut u32) {
    *turns += 1;
    if *turns < SPINS { hint::spin_loop() } else { thread::yield_now() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(threads: usize, chunks: usize) -> Vec<usize> {
        let counts: Vec<AtomicUsize> = (0..chunks).map(|_| AtomicUsize::new(0)).collect();
        run(threads, chunks, &|thread, chunk| {
            assert!(thread < threads);
            counts[chunk].fetch_add(1, Ordering::Relaxed);
        });
        counts.into_iter().map(AtomicUsize::into_inner).collect()
    }

    #[test]
    fn every_chunk_is_done_once() {
        start();
        for round in 0..2000 {
            let chunks = round % 37;
            assert_eq!(counted(1 + round % 4, chunks), vec![1; chunks]);
        }
    }

    #[test]
    fn a_parked_team_wakes_up() {
        start();
        for _ in 0..5 {
            thread::sleep(std::time::Duration::from_millis(3));
            assert_eq!(counted(2, 8), vec![1; 8]);
        }
    }

    #[test]
    fn a_job_inside_a_job_and_concurrent_callers_make_progress() {
        start();
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        run(2, 3, &|_, _| assert_eq!(counted(2, 3), vec![1; 3]));
                    }
                });
            }
        });
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_team_goes_on() {
        start();
        for bad in [0, 5, 31] {
            let outcome = catch_unwind(|| run(2, 32, &|_, chunk| assert!(chunk != bad, "chunk {chunk}")));
            let payload = outcome.expect_err("the panic comes through");
            assert_eq!(payload.downcast_ref::<String>(), Some(&format!("chunk {bad}")));
            assert_eq!(counted(2, 32), vec![1; 32]);
        }
    }
}
