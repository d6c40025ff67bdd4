//! What a lookup costs, next to the table forms it could have been: `cargo bench -p tilewright --bench lookup`.
//!
//! 192 keys with 17 measured M each (3,264 rows), asked with random keys and random M. Each figure is the median over
//! 31 passes of 65,536 lookups, in nanoseconds a lookup. Passes of all forms are interleaved, so that a busy machine
//! slows them alike; the least of the passes is there because other programs can only add to it.

#[path = "../tests/table_fixture/mod.rs"]
mod table_fixture;

use std::cell::RefCell;
use std::collections::HashMap;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use rustc_hash::FxHashMap;
use table_fixture::{decisions, device, weight};
use tilewright::table::{Located, Lowered};
use tilewright_dispatch::table::Code;
use tilewright_dispatch::{Key, Request, Table, Tally};
use tilewright_kernels::{Format, Layout, is_launchable};

const LOOKUPS: usize = 1 << 16;
const PASSES: usize = 31;

fn main() {
    let mut decisions = decisions();
    let formats = [Format::Bf16, Format::Fp8E4m3, Format::MxFp6E2m3];
    let points: Vec<u32> = (0..17).map(|power| 1 << power).collect();
    decisions.weights = (0..192)
        .map(|i| {
            let (n, k) = (64 * (1 + i as u32 * 7 % 113), 64 * (1 + i as u32 / 3));
            weight(&format!("w{i}"), n, k, formats[i % 3], Layout::Panel16, &points)
        })
        .collect();
    let located = Located::parse(Path::new("fixture.toml"), &decisions.to_toml()).expect("as written");
    let lowered = Lowered::of(&located).expect("a sound table");
    lowered.with(|data| {
        let table = Table::bind(data, &device());
        let requests: Vec<Request> = random(data.groups.len())
            .map(|(group, m)| {
                let key = data.groups[group].key;
                Request::new(key.problem(m), key.layout)
            })
            .collect();
        println!(
            "{} keys, {} segments, {} kernels",
            data.groups.len(),
            data.segments.len(),
            data.kernels.len()
        );

        let mut sorted: Vec<(Code, u16)> =
            data.groups.iter().enumerate().map(|(i, group)| (group.key.encode(), i as u16)).collect();
        sorted.sort();
        let hashed: HashMap<Code, u16> = sorted.iter().copied().collect();
        let fx_hashed: FxHashMap<Code, u16> = sorted.iter().copied().collect();
        let phf = phf(&sorted);
        let texts: HashMap<String, u16> = data
            .groups
            .iter()
            .enumerate()
            .map(|(i, group)| (group.key.problem(1).to_string(), i as u16))
            .collect();
        let code = |request: &Request| Key::of(&request.problem, request.layout).encode();
        let chosen = *table.lookup(&requests[0]).expect("a measured key").config;
        let device = device();
        let tally = RefCell::new(Tally::default());
        let mut bench = Bench { requests: &requests, forms: Vec::new() };
        bench.form("nothing: the loop alone", |r| r.problem.m);
        bench.form("perfect hash of the key alone", |r| data.index.find(code(r)));
        bench.form("the predicate alone, always of one kernel", |r| {
            is_launchable(&chosen, &r.problem, &device)
        });
        bench.form("lookup: key, interval, proven predicate", |r| table.lookup(r));
        bench.form("lookup, counted in the thread's tally", |r| {
            table.choose_tallied(r, &mut tally.borrow_mut())
        });
        bench.form("lookup, counted in the table's counters", |r| table.choose(r));
        bench.form("key by FxHashMap (rustc-hash)", |r| fx_hashed.get(&code(r)).copied());
        bench.form("key by HashMap (SipHash)", |r| hashed.get(&code(r)).copied());
        bench.form("key by phf, two words as one u128", |r| phf.get(&wide(code(r))).copied());
        bench.form("key by binary search", |r| sorted.binary_search_by_key(&code(r), |entry| entry.0).ok());
        bench.form("key by text and HashMap", |r| texts.get(&r.problem.with_m(1).to_string()).copied());
        bench.run();
    });
}

/// One pass of a form over all requests.
type Pass<'b> = Box<dyn Fn() + 'b>;

/// The forms.
struct Bench<'b> {
    requests: &'b [Request],
    forms: Vec<(&'static str, Pass<'b>)>,
}

impl<'b> Bench<'b> {
    /// Adds a form. The pass is compiled for it, so that no call stands between the loop and the lookup.
    fn form<T>(&mut self, name: &'static str, find: impl Fn(&Request) -> T + 'b) {
        let requests = self.requests;
        let pass = move || {
            for request in requests {
                // Consumed by reference: it is looked at where it is, as a caller does.
                black_box(&find(black_box(request)));
            }
        };
        self.forms.push((name, Box::new(pass)));
    }

    /// Times the forms in turns.
    fn run(&self) {
        let mut times = vec![Vec::new(); self.forms.len()];
        for _ in 0..PASSES {
            for ((_, pass), times) in self.forms.iter().zip(&mut times) {
                let start = Instant::now();
                pass();
                times.push(start.elapsed().as_nanos() as f64 / self.requests.len() as f64);
            }
        }
        println!("  median     least");
        for ((name, _), times) in self.forms.iter().zip(&mut times) {
            times.sort_by(f64::total_cmp);
            println!("{:>5.1} ns  {:>5.1} ns  {name}", times[PASSES / 2], times[0]);
        }
    }
}

/// A code as one number.
fn wide(code: Code) -> u128 {
    u128::from(code.shape) << 64 | u128::from(code.traits)
}

/// What `phf_map!` would have put into the program.
fn phf(entries: &[(Code, u16)]) -> phf::Map<u128, u16> {
    let keys: Vec<u128> = entries.iter().map(|(code, _)| wide(*code)).collect();
    let state = phf_generator::generate_hash(&keys);
    let entries: Vec<(u128, u16)> = state.map.iter().map(|i| (keys[*i], entries[*i].1)).collect();
    phf::Map { key: state.key, disps: state.disps.leak(), entries: entries.leak() }
}

/// Random groups and M, the same on every host.
fn random(groups: usize) -> impl Iterator<Item = (usize, u32)> {
    let mut state = 1u64;
    (0..LOOKUPS).map(move |_| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        ((state >> 40) as usize % groups, 1 + ((state >> 20) as u32 >> (state % 20 + 12)))
    })
}
