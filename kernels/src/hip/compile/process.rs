//! A process with a time limit, and a scratch folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How a process ended.
pub(super) enum End {
    /// With success.
    Done,
    /// With an exit code that compilers use for bad input, and this on standard error.
    Refused(String),
    /// By a signal, or with the code that a shell or driver makes of one.
    Crashed(String),
    /// By us, at the limit.
    TimedOut,
}

/// Runs a command until `deadline`. Its standard error goes through a file in `folder`: a pipe that nobody drains
/// would stop a compiler that complains at length.
pub(super) fn run(command: &mut Command, folder: &Path, deadline: Instant) -> io::Result<End> {
    let log = folder.join("log");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(fs::File::create(&log)?);
    // A group of its own, so that what a driver started ends with it.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    let mut child = command.spawn()?;
    let mut pause = Duration::from_millis(1);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() >= deadline {
            end(&mut child);
            return Ok(End::TimedOut);
        }
        sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    };
    if status.success() {
        return Ok(End::Done);
    }
    let log = String::from_utf8_lossy(&fs::read(&log).unwrap_or_default()).trim_end().to_string();
    Ok(match crash(status) {
        Some(how) if log.is_empty() => End::Crashed(how),
        Some(how) => End::Crashed(format!("{how}\n{log}")),
        None => End::Refused(log),
    })
}

/// How a status tells of a crash, if it does. Drivers report a signal of what they ran as 128 and its number.
fn crash(status: ExitStatus) -> Option<String> {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return Some(format!("signal {signal}"));
    }
    match status.code() {
        Some(code) if code > 128 => Some(format!("signal {} (exit code {code})", code - 128)),
        _ => None,
    }
}

/// Ends a process and its group.
fn end(child: &mut Child) {
    #[cfg(unix)]
    let _ = Command::new("kill")
        .args(["-KILL", "--", &format!("-{}", child.id())])
        .stderr(Stdio::null())
        .status();
    let _ = child.kill();
    let _ = child.wait();
}

/// A folder for one compilation, removed at the end.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new() -> io::Result<Scratch> {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tilewright-hip-{}-{serial}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Scratch(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
