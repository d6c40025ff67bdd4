//! A worker process from the outside: started, asked, watched, ended.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::frame::{self, FrameError, Inbox};
use super::message::{Answer, Hello, Numbered, Question};

/// Without a heartbeat for so long the whole process is dead, not just busy.
const SILENCE: Duration = Duration::from_secs(60);
/// How long a worker may take to open its device.
const START: Duration = Duration::from_secs(120);
/// How long a question may run on after the user said stop.
const GRACE: Duration = Duration::from_millis(800);
/// How often a wait looks whether to stop.
const TICK: Duration = Duration::from_millis(100);
/// Of what a worker says on standard error during one question, so many bytes are kept.
const LAST_WORDS: usize = 2048;

/// Which worker to start.
#[derive(Clone, Debug)]
pub struct WorkerSpec {
    /// The executable: this one.
    pub executable: PathBuf,
    /// Name of its device.
    pub device: String,
    /// Cores it is bound to, `first-last`; of a CPU only.
    pub cores: Option<String>,
    /// Whether operands stay in cache between launches.
    pub hot: bool,
    /// Bytes of address space it may use.
    pub memory: Option<u64>,
}

/// Why a question has no answer.
#[derive(Debug)]
pub(super) enum Death {
    /// The process ended, was killed, or said nonsense. In words.
    Died(String),
    /// Somebody else killed it: the system for want of memory, or a person.
    Killed(String),
    /// The user said stop, and the question was not answered soon after.
    Stopped,
}

/// A running worker.
pub(super) struct Worker {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    inbox: Inbox,
    last_words: Arc<Mutex<Vec<u8>>>,
    number: u64,
    pub(super) hello: Hello,
}

impl Worker {
    /// Starts a worker and waits until its device is open.
    pub(super) fn start(spec: &WorkerSpec, stop: &AtomicBool) -> Result<Self, Death> {
        let died = |what: &str, error: std::io::Error| Death::Died(format!("{what}: {error}"));
        let mut command = Command::new(&spec.executable);
        command.args(["worker", "--device", &spec.device]);
        if let Some(cores) = &spec.cores {
            command.args(["--cores", cores]);
        }
        if let Some(memory) = spec.memory {
            command.args(["--memory", &memory.to_string()]);
        }
        if spec.hot {
            command.arg("--hot");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        #[cfg(unix)]
        {
            use std::os::unix::process::CommandExt;
            // Ctrl-C is for the tuner: it decides what becomes of its workers.
            command.process_group(0);
        }
        let mut child =
            command.spawn().map_err(|error| died(&spec.executable.display().to_string(), error))?;
        let input = child.stdin.take().expect("it is piped");
        let output = child.stdout.take().expect("it is piped");
        let errors = child.stderr.take().expect("it is piped");
        let last_words = Arc::new(Mutex::new(Vec::new()));
        let kept = last_words.clone();
        let listener = thread::Builder::new().name("worker errors".into());
        let listener = listener.spawn(move || keep(errors, &kept));
        if let Err(error) = listener {
            let _ = child.kill();
            let _ = child.wait();
            return Err(died("no thread to listen to a worker", error));
        }
        let mut worker = Worker {
            child,
            input,
            output,
            inbox: Inbox::default(),
            last_words,
            number: 0,
            hello: Hello::default(),
        };
        match worker.wait(0, START, stop)? {
            Answer::Hello(hello) => {
                worker.hello = *hello;
                Ok(worker)
            }
            Answer::Failed(why) => {
                worker.end();
                Err(Death::Died(why))
            }
            other => Err(worker.nonsense(&format!("{other:?} instead of a greeting"))),
        }
    }

    /// Asks a question. A worker that does not answer in time is killed.
    pub(super) fn ask(
        &mut self,
        question: Question,
        deadline: Duration,
        stop: &AtomicBool,
    ) -> Result<Answer, Death> {
        self.number += 1;
        if let Ok(mut words) = self.last_words.lock() {
            words.clear();
        }
        let question = Numbered { number: self.number, message: question };
        let json = serde_json::to_vec(&question).expect("questions are plain data");
        if frame::write(&mut self.input, &json).is_err() {
            return Err(self.died("it was gone"));
        }
        self.wait(self.number, deadline, stop)
    }

    fn wait(&mut self, number: u64, deadline: Duration, stop: &AtomicBool) -> Result<Answer, Death> {
        let asked = Instant::now();
        let mut heard = asked;
        let mut stopped: Option<Instant> = None;
        loop {
            match self.receive(TICK.min(deadline)) {
                Ok(Some(Numbered { message: Answer::Alive, .. })) => heard = Instant::now(),
                Ok(Some(answer)) if answer.number == number => return Ok(answer.message),
                Ok(Some(answer)) => {
                    return Err(self.nonsense(&format!("an answer to question {}", answer.number)));
                }
                Ok(None) => {}
                Err(FrameError::Closed) => return Err(self.died("it ended")),
                Err(error) => return Err(self.nonsense(&error.to_string())),
            }
            if stop.load(Ordering::Relaxed) && stopped.get_or_insert_with(Instant::now).elapsed() > GRACE {
                self.end();
                return Err(Death::Stopped);
            }
            if asked.elapsed() > deadline {
                self.end();
                return Err(Death::Died(format!(
                    "hung: no answer after {:.1} s",
                    asked.elapsed().as_secs_f64()
                )));
            }
            if heard.elapsed() > SILENCE {
                self.end();
                return Err(Death::Died(format!("its worker was silent for {} s", SILENCE.as_secs())));
            }
        }
    }

    /// The next message, if one comes within that time.
    fn receive(&mut self, within: Duration) -> Result<Option<Numbered<Answer>>, FrameError> {
        let message = match self.inbox.take()? {
            Some(message) => message,
            None => {
                if !is_readable(&self.output, within).map_err(FrameError::Io)? {
                    return Ok(None);
                }
                let mut bytes = [0; 4096];
                match self.output.read(&mut bytes).map_err(FrameError::Io)? {
                    0 => return Err(FrameError::Closed),
                    count => self.inbox.push(&bytes[..count]),
                }
                match self.inbox.take()? {
                    Some(message) => message,
                    None => return Ok(None),
                }
            }
        };
        let answer = serde_json::from_slice(&message);
        answer.map(Some).map_err(|error| FrameError::Garbage(error.to_string()))
    }

    fn nonsense(&mut self, what: &str) -> Death {
        self.end();
        Death::Died(format!("garbage on the worker's channel: {what}"))
    }

    /// The stream has ended: how did the process?
    fn died(&mut self, fallback: &str) -> Death {
        let began = Instant::now();
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break Some(status),
                // A kernel may have closed the stream and live on.
                Ok(None) if began.elapsed() > Duration::from_secs(2) => break None,
                Ok(None) => thread::sleep(Duration::from_millis(5)),
                Err(_) => break None,
            }
        };
        self.end();
        let killed = status.is_some_and(is_killed);
        let how = status.map_or_else(|| format!("{fallback}, without an exit status"), describe);
        let words = self.last_words.lock().map(|words| words.clone()).unwrap_or_default();
        let words = String::from_utf8_lossy(&words);
        // The first line says what happened, those after it where.
        let line = words.lines().map(str::trim).find(|line| !line.is_empty());
        let what = match line {
            Some(line) => format!("its worker {how}: {line}"),
            None => format!("its worker {how}"),
        };
        if killed { Death::Killed(what) } else { Death::Died(what) }
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end();
    }
}

/// Whether there is something to read within that time, or the end.
#[cfg(unix)]
fn is_readable(output: &ChildStdout, within: Duration) -> std::io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let timeout = Timespec { tv_sec: within.as_secs() as i64, tv_nsec: within.subsec_nanos().into() };
    let mut watched = [PollFd::new(output, PollFlags::IN)];
    match poll(&mut watched, Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(unix))]
fn is_readable(_: &ChildStdout, _: Duration) -> std::io::Result<bool> {
    Err(std::io::Error::other("workers exist on Unix only"))
}

/// Whether a process was ended by SIGKILL.
fn is_killed(status: ExitStatus) -> bool {
    #[cfg(unix)]
    return std::os::unix::process::ExitStatusExt::signal(&status) == Some(9);
    #[cfg(not(unix))]
    return false;
}

/// How a process ended, in words.
fn describe(status: ExitStatus) -> String {
    #[cfg(unix)]
    {
        use std::os::unix::process::ExitStatusExt;
        if let Some(signal) = status.signal() {
            let name = match signal {
                4 => " (SIGILL)",
                6 => " (SIGABRT)",
                7 => " (SIGBUS)",
                8 => " (SIGFPE)",
                9 => " (SIGKILL, perhaps for want of memory)",
                11 => " (SIGSEGV)",
                _ => "",
            };
            return format!("was ended by signal {signal}{name}");
        }
    }
    match status.code() {
        Some(code) => format!("exited with code {code}"),
        None => "ended".into(),
    }
}

/// Keeps the beginning of what a worker says on standard error.
fn keep(mut errors: impl Read, kept: &Mutex<Vec<u8>>) {
    let mut bytes = [0; 512];
    while let Ok(count @ 1..) = errors.read(&mut bytes) {
        let Ok(mut kept) = kept.lock() else { return };
        let room = LAST_WORDS.saturating_sub(kept.len());
        kept.extend(&bytes[..count.min(room)]);
    }
}
