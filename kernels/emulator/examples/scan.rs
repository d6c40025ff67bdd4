//! Lists what the emulator cannot execute in code objects: `cargo run -p tilewright-emulator --example scan FILE…`
//!
//! With `--list` first, prints every instruction's address and mnemonic instead.

use std::process::ExitCode;

use tilewright_emulator::CodeObject;

fn main() -> ExitCode {
    let mut found = 0;
    let mut list = false;
    for path in std::env::args().skip(1) {
        if path == "--list" {
            list = true;
            continue;
        }
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) => {
                eprintln!("{path}: {error}");
                return ExitCode::from(2);
            }
        };
        let code = match CodeObject::load(&bytes) {
            Ok(code) => code,
            Err(error) => {
                eprintln!("{path}: {error}");
                return ExitCode::from(2);
            }
        };
        if list {
            for (pc, mnemonic) in code.listing() {
                println!("{pc:x} {mnemonic}");
            }
            continue;
        }
        let findings = code.scan();
        for finding in &findings {
            println!("{path}: {} at {:#x}: {}", finding.kernel, finding.pc, finding.undecodable);
        }
        found += findings.len();
    }
    if found == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
