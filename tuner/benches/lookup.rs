//! What a lookup costs, next to the table forms it could have been: `cargo bench -p tilewright --bench lookup`.
//!
//! 192 keys with 17 measured M each (3,264 rows), asked with random keys and random M. Each figure is the median over
//! 15 passes of 65,536 lookups, in nanoseconds a lookup. Passes of all forms are interleaved, so that a busy machine
//! slows them alike.

#[path = "../tests/table_fixture/mod.rs"]
mod table_fixture;

use std::collections::HashMap;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use rustc_hash::FxHashMap;
use table_fixture::{decisions, device, weight};
use tilewright::table::{Located, Lowered};
use tilewright_dispatch::table::Code;
use tilewright_dispatch::{Key, Request, Table};
use tilewright_kernels::{Format, Layout, is_launchable};

const LOOKUPS: usize = 1 << 16;
const PASSES: usize = 15;

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
        // Each form consumes what it finds, so that nothing is optimised away.
        type Form<'f> = Box<dyn Fn(&Request) + 'f>;
        fn form<'f, T>(find: impl Fn(&Request) -> T + 'f) -> Form<'f> {
            Box::new(move |request| {
                let found = find(request);
                // By reference: it is looked at where it is, as a caller does.
                black_box(&found);
            })
        }
        let device = device();
        let forms: [(&str, Form<'_>); 9] = [
            ("perfect hash of the key alone", form(|r| data.index.find(code(r)))),
            (
                "the predicate alone, always of one kernel",
                form(|r| is_launchable(&chosen, &r.problem, &device)),
            ),
            ("lookup: key, interval, proven predicate", form(|r| table.lookup(r))),
            ("lookup, counted", form(|r| table.choose(r))),
            ("key by FxHashMap (rustc-hash)", form(|r| fx_hashed.get(&code(r)).copied())),
            ("key by HashMap (SipHash)", form(|r| hashed.get(&code(r)).copied())),
            ("key by phf, two words as one u128", form(|r| phf.get(&wide(code(r))).copied())),
            ("key by binary search", form(|r| sorted.binary_search_by_key(&code(r), |entry| entry.0).ok())),
            ("key by text and HashMap", form(|r| texts.get(&r.problem.with_m(1).to_string()).copied())),
        ];
        let mut times = vec![Vec::new(); forms.len()];
        for _ in 0..PASSES {
            for ((_, form), times) in forms.iter().zip(&mut times) {
                let start = Instant::now();
                for request in &requests {
                    form(black_box(request));
                }
                times.push(start.elapsed().as_nanos() as f64 / LOOKUPS as f64);
            }
        }
        for ((name, _), times) in forms.iter().zip(&mut times) {
            times.sort_by(f64::total_cmp);
            println!("{:>8.1} ns  {name}", times[PASSES / 2]);
        }
    });
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
