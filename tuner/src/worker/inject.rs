//! Faults on purpose, in debug builds only: what the tests of isolation and of resuming tune with.
//!
//! `TILEWRIGHT_INJECT` holds `fault@pattern` rules separated by `;`. A rule concerns the candidates whose `m=… n=… formats config` text
//! contains the pattern, all of them if it is empty. `timed-` before a fault keeps it out of the gate's runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use tilewright_kernels::backend::{Backend, Elements, Fingerprint, Operands, Regime, RunFault, Session};
use tilewright_kernels::config::fnv1a;
use tilewright_kernels::cpu::sabotage;
use tilewright_kernels::{Config, Device, Family, Problem};

/// The context of this process is poisoned: nothing works any more.
static POISONED: AtomicBool = AtomicBool::new(false);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Hang,
    Segfault,
    Abort,
    Exit,
    Allocate,
    Garbage,
    Print,
    Poison,
    /// The device itself is broken: everything aborts, in the workers that have the pattern on their command line.
    Lost,
    /// Alive, and an order of magnitude slower than the others.
    Slow,
    /// Writes one element past the output.
    Overrun,
    /// One timed launch in 50 leaves a wrong output; looks eight times as fast as it is.
    Wrong,
    /// Times are a function of candidate and slot, and nothing is launched for them.
    Synthetic,
}

#[derive(Clone)]
struct Rule {
    fault: Fault,
    timed: bool,
    pattern: String,
}

/// The backend with the faults that the environment asks for.
pub(super) fn wrap(inner: Box<dyn Backend>) -> anyhow::Result<Box<dyn Backend>> {
    let Ok(text) = std::env::var("TILEWRIGHT_INJECT") else { return Ok(inner) };
    let rules = text.split(';').filter(|rule| !rule.is_empty()).map(|rule| {
        let (name, pattern) = rule.split_once('@').with_context(|| format!("{rule:?}: no @"))?;
        let (timed, name) = name.strip_prefix("timed-").map_or((false, name), |name| (true, name));
        let fault = match name {
            "hang" => Fault::Hang,
            "segfault" => Fault::Segfault,
            "abort" => Fault::Abort,
            "exit" => Fault::Exit,
            "allocate" => Fault::Allocate,
            "garbage" => Fault::Garbage,
            "print" => Fault::Print,
            "poison" => Fault::Poison,
            "lost" => Fault::Lost,
            "slow" => Fault::Slow,
            "overrun" => Fault::Overrun,
            "wrong" => Fault::Wrong,
            "synthetic" => Fault::Synthetic,
            _ => anyhow::bail!("{name:?}: no such fault"),
        };
        Ok(Rule { fault, timed, pattern: pattern.into() })
    });
    let rules = rules.collect::<anyhow::Result<Vec<_>>>()?;
    Ok(Box::new(Faulty { inner, rules }))
}

/// Whether the times are made up.
pub(super) fn is_synthetic() -> bool {
    std::env::var("TILEWRIGHT_INJECT").is_ok_and(|text| text.contains("synthetic@"))
}

struct Faulty {
    inner: Box<dyn Backend>,
    rules: Vec<Rule>,
}

impl Backend for Faulty {
    fn device(&self) -> &Device {
        self.inner.device()
    }
    fn fingerprint(&self) -> &Fingerprint {
        self.inner.fingerprint()
    }
    fn families(&self) -> Vec<&'static Family> {
        self.inner.families()
    }
    fn timer_resolution(&self) -> Duration {
        let synthetic = self.rules.iter().any(|rule| rule.fault == Fault::Synthetic);
        if synthetic { Duration::from_nanos(20) } else { self.inner.timer_resolution() }
    }
    fn open(&self, operands: Operands, regime: Regime) -> Result<Box<dyn Session + '_>, RunFault> {
        let inner = self.inner.open(operands, regime)?;
        Ok(Box::new(FaultySession { inner, rules: &self.rules, launches: 0, spoil: false }))
    }
}

struct FaultySession<'a> {
    inner: Box<dyn Session + 'a>,
    rules: &'a [Rule],
    /// Timed launches of candidates that are wrong now and then.
    launches: u64,
    spoil: bool,
}

impl FaultySession<'_> {
    fn has(&self, fault: Fault, text: &str) -> bool {
        self.rules.iter().any(|rule| rule.fault == fault && text.contains(&rule.pattern))
    }

    /// Commits the faults of a candidate.
    fn commit(&self, text: &str, timed: bool) -> Result<(), RunFault> {
        for rule in self.rules.iter().filter(|rule| text.contains(&rule.pattern) && (timed || !rule.timed)) {
            match rule.fault {
                Fault::Hang => loop {
                    std::hint::spin_loop();
                },
                Fault::Segfault => segfault(),
                Fault::Abort => std::process::abort(),
                Fault::Exit => std::process::exit(7),
                Fault::Allocate => allocate(),
                Fault::Garbage => garbage(),
                Fault::Print => println!("printed by a kernel"),
                Fault::Slow => std::thread::sleep(Duration::from_millis(1500)),
                Fault::Poison => POISONED.store(true, Ordering::Relaxed),
                Fault::Overrun => sabotage::OVERRUN.store(true, Ordering::Relaxed),
                Fault::Wrong | Fault::Synthetic | Fault::Lost => {}
            }
        }
        let arguments: Vec<String> = std::env::args().collect();
        let here =
            |rule: &Rule| arguments.windows(2).any(|pair| pair[0] == "--cores" && pair[1] == rule.pattern);
        if self.rules.iter().any(|rule| rule.fault == Fault::Lost && here(rule)) {
            std::process::abort();
        }
        if POISONED.load(Ordering::Relaxed) {
            return Err(RunFault::Failed("the context is destroyed".into()));
        }
        Ok(())
    }
}

impl Session for FaultySession<'_> {
    fn run(&mut self, problem: &Problem, config: &Config, output: &mut Vec<f32>) -> Result<(), RunFault> {
        self.commit(&text(problem, config), false)?;
        let ran = self.inner.run(problem, config, output);
        sabotage::OVERRUN.store(false, Ordering::Relaxed);
        ran
    }

    fn time(&mut self, problem: &Problem, config: &Config, slot: usize) -> Result<Duration, RunFault> {
        let text = text(problem, config);
        self.commit(&text, true)?;
        if self.has(Fault::Synthetic, &text) {
            return Ok(synthetic(&text, slot));
        }
        let timed = self.inner.time(problem, config, slot);
        sabotage::OVERRUN.store(false, Ordering::Relaxed);
        self.spoil = false;
        if self.has(Fault::Wrong, &text) {
            self.launches += 1;
            self.spoil = self.launches.is_multiple_of(50);
            return timed.map(|time| time / 8);
        }
        timed
    }

    fn timed_output(&mut self, elements: Elements<'_>, output: &mut Vec<f32>) -> Result<bool, RunFault> {
        let shown = self.inner.timed_output(elements, output)?;
        if self.spoil
            && let Some(last) = output.last_mut()
        {
            *last += 1.0;
        }
        Ok(shown)
    }

    fn retain(&mut self, keep: &[Config]) {
        self.inner.retain(keep);
    }
}

fn text(problem: &Problem, config: &Config) -> String {
    format!("m={} n={} {}/{} {config}", problem.m, problem.n, problem.a, problem.b)
}

/// A time of 10 to 100 µs for the candidate, with 1 % of noise that depends on the slot.
fn synthetic(text: &str, slot: usize) -> Duration {
    let unit = |hash: u64| (hash >> 11) as f64 / (1u64 << 53) as f64;
    let spread = |hash: u64| hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ hash >> 29;
    let own = unit(spread(fnv1a(text.as_bytes())));
    let noise = unit(spread(fnv1a(format!("{text} {slot}").as_bytes()))) - 0.5;
    Duration::from_nanos((1e4 * (1.0 + 9.0 * own) * (1.0 + 0.01 * noise)) as u64)
}

fn segfault() {
    let nowhere = std::hint::black_box(16 as *mut u8);
    // SAFETY: none. The write faults, which is what it is for.
    unsafe { nowhere.write_volatile(1) };
}

/// Takes memory until there is none.
fn allocate() {
    let mut taken: Vec<Vec<u8>> = Vec::new();
    loop {
        taken.push(std::hint::black_box(vec![1; 64 << 20]));
    }
}

/// Writes into the channel to the tuner, as a kernel with a stray descriptor would.
fn garbage() {
    #[cfg(unix)]
    for descriptor in 3..16 {
        use std::io::Write;
        use std::os::fd::FromRawFd;
        // SAFETY: the descriptor may be anybody's, which is what this is for; it is never closed here.
        let mut file = std::mem::ManuallyDrop::new(unsafe { std::fs::File::from_raw_fd(descriptor) });
        let _ = file.write_all(b"a kernel's own words\n");
    }
}
