//! `tilewright emulate`: runs a kernel of a gfx942 or gfx950 code object on this machine's CPU.

use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::{Context, bail};
use tilewright_emulator::{Arg, CodeObject, Dma, Grid, Memory, Options, Order};

use crate::diag::CheckFailed;
use crate::files;

/// Run a kernel of an AMD code object in the emulator, or list what it cannot execute.
///
/// Arguments are given in the kernel's order: `u32:5`, `i32:-1`, `f32:0.5`, `u64:7` are values; `in:FILE` is a buffer
/// that holds a file, `zeros:BYTES` an empty one, `out:FILE:BYTES` one that is written to a file at the end.
#[derive(clap::Args)]
pub(super) struct EmulateArgs {
    /// The code object (.co, .hsaco).
    code: PathBuf,
    /// The kernel's name.
    #[arg(required_unless_present = "scan")]
    kernel: Option<String>,
    /// The kernel's arguments.
    args: Vec<Value>,
    /// List the instructions that the emulator cannot execute, and run nothing.
    #[arg(long)]
    scan: bool,
    /// Workgroups in x, y, z.
    #[arg(long, value_delimiter = ',', default_value = "1")]
    grid: Vec<u32>,
    /// Work-items of a workgroup in x, y, z.
    #[arg(long, value_delimiter = ',', default_value = "64")]
    block: Vec<u32>,
    /// Bytes of LDS beside what the kernel declares.
    #[arg(long, default_value_t = 0)]
    lds: u32,
    /// What registers, LDS and output buffers hold before they are written (32 bits, hexadecimal).
    #[arg(long, default_value = "ffffffff", value_parser = |s: &str| u32::from_str_radix(s.trim_start_matches("0x"), 16))]
    poison: u32,
    /// Order in which the waves of a workgroup take turns.
    #[arg(long, value_enum, default_value_t = OrderArg::Forward)]
    order: OrderArg,
    /// When data on its way from memory to LDS lands.
    #[arg(long, value_enum, default_value_t = DmaArg::Late)]
    dma: DmaArg,
    /// Seed of random order and landing.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Print each instruction of one wave: WORKGROUP:WAVE.
    #[arg(long, value_parser = trace)]
    trace: Option<(u64, u32)>,
    /// Report LDS locations that two waves touch without a barrier between.
    #[arg(long)]
    races: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum OrderArg {
    Forward,
    Reverse,
    Random,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum DmaArg {
    Early,
    Late,
    Random,
}

/// One argument as given.
#[derive(Clone)]
enum Value {
    Plain(Arg),
    In(PathBuf),
    Zeros(usize),
    Out(PathBuf, usize),
}

impl FromStr for Value {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        fn number<T: FromStr>(s: &str) -> Result<T, String> {
            s.parse().map_err(|_| format!("`{s}` is not a number of this type"))
        }
        let (kind, rest) = s.split_once(':').ok_or("an argument has the form TYPE:VALUE")?;
        Ok(match kind {
            "u32" => Self::Plain(number::<u32>(rest)?.into()),
            "i32" => Self::Plain(number::<i32>(rest)?.into()),
            "f32" => Self::Plain(number::<f32>(rest)?.into()),
            "u64" => Self::Plain(number::<u64>(rest)?.into()),
            "in" => Self::In(rest.into()),
            "zeros" => Self::Zeros(number(rest)?),
            "out" => {
                let (file, bytes) = rest.rsplit_once(':').ok_or("an output has the form out:FILE:BYTES")?;
                Self::Out(file.into(), number(bytes)?)
            }
            _ => return Err(format!("`{kind}` is none of u32, i32, f32, u64, in, zeros, out")),
        })
    }
}

fn trace(s: &str) -> Result<(u64, u32), String> {
    let (group, wave) = s.split_once(':').ok_or("WORKGROUP:WAVE, two numbers")?;
    let number = |s: &str| s.parse::<u32>().map_err(|e| format!("`{s}`: {e}"));
    Ok((u64::from(number(group)?), number(wave)?))
}

fn axes(name: &str, given: &[u32]) -> anyhow::Result<[u32; 3]> {
    match *given {
        [x] => Ok([x, 1, 1]),
        [x, y] => Ok([x, y, 1]),
        [x, y, z] => Ok([x, y, z]),
        _ => bail!("--{name} takes one to three numbers"),
    }
}

impl EmulateArgs {
    /// Runs or scans.
    ///
    /// # Errors
    /// Bad input, what the emulator cannot execute, or a race.
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let bytes = std::fs::read(&self.code).with_context(|| self.code.display().to_string())?;
        let code = CodeObject::load(&bytes).with_context(|| self.code.display().to_string())?;
        match &self.kernel {
            Some(kernel) if !self.scan => self.launch(&code, kernel),
            kernel => scan(&code, kernel.as_deref()),
        }
    }

    fn launch(&self, code: &CodeObject, kernel: &str) -> anyhow::Result<ExitCode> {
        let grid = Grid {
            grid: axes("grid", &self.grid)?,
            block: axes("block", &self.block)?,
            dynamic_lds: self.lds,
        };
        let mut memory = Memory::new();
        let mut args = Vec::new();
        let mut outputs = Vec::new();
        for (i, value) in self.args.iter().enumerate() {
            let name = format!("argument {i}");
            args.push(match value {
                Value::Plain(arg) => arg.clone(),
                Value::In(file) => {
                    let data = std::fs::read(file).with_context(|| file.display().to_string())?;
                    memory.alloc_from(&name, &data).into()
                }
                Value::Zeros(bytes) => memory.alloc(&name, *bytes, 0).into(),
                Value::Out(file, bytes) => {
                    let address = memory.alloc(&name, *bytes, self.poison as u8);
                    outputs.push((file, address, *bytes));
                    address.into()
                }
            });
        }
        let options = Options {
            order: match self.order {
                OrderArg::Forward => Order::Forward,
                OrderArg::Reverse => Order::Reverse,
                OrderArg::Random => Order::Random,
            },
            dma: match self.dma {
                DmaArg::Early => Dma::Early,
                DmaArg::Late => Dma::Late,
                DmaArg::Random => Dma::Random,
            },
            seed: self.seed,
            poison: self.poison,
            traffic: true,
            races: self.races,
            trace: self.trace,
            ..Options::default()
        };
        let report = code.launch(kernel, &memory, grid, &args, &options)?;
        for (file, address, bytes) in outputs {
            let data = memory.read(address, bytes).map_err(anyhow::Error::msg)?;
            files::write_atomic(file, &data).with_context(|| file.display().to_string())?;
        }
        let t = &report.traffic;
        println!("{} wave-instructions, {:.1} % matrix", report.instructions, 100.0 * report.matrix_share());
        println!(
            "global memory: {} bytes read, {} written, {} lines of {} that would do",
            t.load_bytes, t.store_bytes, t.lines, t.lines_ideal
        );
        println!("LDS: {} cycles, {} without bank conflicts", t.lds_cycles, t.lds_cycles_ideal);
        let mut mix: Vec<_> = report.mix.iter().collect();
        mix.sort_by_key(|&(name, n)| (std::cmp::Reverse(*n), name));
        for (name, n) in mix {
            println!("{n:>12} {name}");
        }
        if report.races.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        let line = |(group, race): &(u64, tilewright_emulator::Race)| {
            let how = if race.both_wrote { "wrote" } else { "touched" };
            format!(
                "workgroup {group}: waves {} and {} {how} LDS {:#x}",
                race.first, race.second, race.address
            )
        };
        let list: Vec<String> = report.races.iter().map(line).collect();
        Err(CheckFailed(format!("{} races\n  {}", list.len(), list.join("\n  "))).into())
    }
}

fn scan(code: &CodeObject, kernel: Option<&str>) -> anyhow::Result<ExitCode> {
    let found: Vec<String> = code
        .scan()
        .into_iter()
        .filter(|f| kernel.is_none_or(|k| k == f.kernel))
        .map(|f| format!("{} at {:#x}: {}", f.kernel, f.pc, f.undecodable))
        .collect();
    if found.is_empty() {
        println!("{} kernels for {}, all executable", code.kernels().len(), code.arch().name());
        return Ok(ExitCode::SUCCESS);
    }
    Err(CheckFailed(format!("{} instructions cannot be executed\n  {}", found.len(), found.join("\n  ")))
        .into())
}
