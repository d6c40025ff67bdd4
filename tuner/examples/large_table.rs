//! A table far larger than any model's, to see what compiling one costs: `ci/large_table.sh` runs this, then rustc on the
//! module it writes.
//!
//! ```text
//! cargo run --release -p tilewright --example large_table -- FOLDER [ROWS]
//! ```
//!
//! Rows have 17 measured M a weight, from 1 to 65,536, and a kernel, two runners-up and ties as tuned rows have. It
//! writes `FOLDER/fixture.toml` and `FOLDER/fixture.rs` and says how long each step of the table compiler took.

#[path = "../tests/table_fixture/mod.rs"]
mod table_fixture;

use std::path::Path;
use std::time::Instant;

use table_fixture::{decisions, weight};
use tilewright::files::write_atomic;
use tilewright::table::{Located, compile_located};
use tilewright_kernels::{Format, Layout};

/// Measured M of a weight.
const POINTS: usize = 17;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or_else(|| anyhow::anyhow!("give a folder to write to"))?;
    let rows: usize = arguments.next().map_or(Ok(50_000), |rows| rows.parse())?;
    let folder = Path::new(&folder);
    let points: Vec<u32> = (0..POINTS).map(|power| 1 << power).collect();
    let formats = [Format::Bf16, Format::Fp8E4m3, Format::MxFp6E2m3];
    let mut decisions = decisions();
    decisions.weights = (0..rows.div_ceil(POINTS))
        .map(|i| {
            let (n, k) = (64 * (1 + i as u32 / 3 % 37), 64 * (1 + i as u32 / 111));
            weight(&format!("w{i}"), n, k, formats[i % 3], Layout::Panel16, &points)
        })
        .collect();
    // The last weight has what is left.
    let last = decisions.weights.last_mut().expect("at least one row");
    last.rows.truncate(POINTS - (POINTS - rows % POINTS) % POINTS);

    let text = decisions.to_toml();
    let start = Instant::now();
    let located = Located::parse(Path::new("fixture.toml"), &text)?;
    let parsed = start.elapsed();
    let compiled = compile_located(&located)?;
    let all = start.elapsed();
    write_atomic(&folder.join("fixture.toml"), text.as_bytes())?;
    write_atomic(&folder.join("fixture.rs"), compiled.rs.as_bytes())?;
    println!(
        "{rows} rows of {} weights, {} kernels: {:.1} MB of TOML parsed in {:.2} s, compiled to {:.1} MB of Rust in {:.2} s",
        decisions.weights.len(),
        compiled.kernels,
        text.len() as f64 / 1e6,
        parsed.as_secs_f64(),
        compiled.rs.len() as f64 / 1e6,
        (all - parsed).as_secs_f64(),
    );
    Ok(())
}
