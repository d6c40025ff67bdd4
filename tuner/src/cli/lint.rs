//! `tilewright lint`: faults of tables, ours and other tuners'.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::diag::BadInput;
use crate::import::ERROR_TOLERANCE;
use crate::lint::{Options, Target, coverage, lint, output};
use crate::shapes::Declaration;

/// Look for faults in tables: tilewright's, AITER's, TunableOp's, hipBLASLt's, vLLM's and Triton's.
///
/// Files are linted together: keys are compared across all tables of one family. Exits with 1 if something is found.
#[derive(Args)]
pub(super) struct LintArgs {
    /// The tables.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The device the tables are for, for instance gfx942:304; rows that never match it are found.
    #[arg(long, value_name = "ARCH:CUS")]
    device: Option<Target>,
    /// A declaration that the tables should serve on that device.
    #[arg(long = "declaration", value_name = "FILE", requires = "device")]
    declarations: Vec<PathBuf>,
    /// The largest share of wrong elements.
    #[arg(long, value_name = "SHARE", default_value_t = ERROR_TOLERANCE)]
    tolerance: f64,
    /// Findings of one rule in one file to print, all with -v; the counts are always of all.
    #[arg(long, value_name = "N", default_value_t = 5)]
    show: usize,
    /// Print JSON.
    #[arg(long, conflicts_with = "sarif")]
    json: bool,
    /// Print SARIF 2.1.0.
    #[arg(long)]
    sarif: bool,
}

impl LintArgs {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let declarations = Declaration::read_all(&self.declarations)?;
        let options = Options { tolerance: self.tolerance, device: self.device };
        let (mut report, foreign) = lint(&self.files, &options)?;
        for declaration in &declarations {
            let target = options.device.as_ref().expect("clap requires it");
            match coverage::check(declaration, &foreign, target, &mut report.findings) {
                Some(coverage) => report.coverage.push(coverage),
                None => {
                    let message =
                        format!("the limits of {} are not known, so nothing weighs its GEMMs", target.arch);
                    return Err(BadInput::one(
                        &declaration.file,
                        message,
                        "gfx942, gfx950 and h200 are known",
                    )
                    .into());
                }
            }
        }
        let text = if self.json {
            serde_json::to_string_pretty(&output::json(&report))? + "\n"
        } else if self.sarif {
            serde_json::to_string_pretty(&output::sarif(&report))? + "\n"
        } else {
            output::text(&report, if crate::style::is_verbose() { usize::MAX } else { self.show })
        };
        crate::style::print(&text)?;
        Ok(if report.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }
}
