//! A worker from the inside.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use tilewright_kernels::backend::{Backend, Regime};
use tilewright_kernels::{BackendKind, Device, Format, Problem};

use super::frame;
use super::message::{Answer, Hello, Numbered, Question};
use crate::bench::BenchFault;
use crate::devices;
use crate::journal::DeviceRecord;
use crate::operands::WeightFile;
use crate::tune::{Candidate, DeviceRig, FormatPair, Job, Rig, Work, default_candidate};

/// How often a worker says that it lives.
const HEARTBEAT: Duration = Duration::from_millis(500);

/// What a worker is started with.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Name of the device.
    pub device: String,
    /// Cores to stay on, `first-last`.
    pub cores: Option<String>,
    /// Bytes of address space it may use.
    pub memory: Option<u64>,
    /// Whether operands stay in cache between launches.
    pub hot: bool,
}

/// Answers questions on standard input until it ends.
///
/// # Errors
/// If standard output cannot be set aside, or nobody listens.
pub fn serve(options: &ServeOptions) -> anyhow::Result<()> {
    let confined = confine(options);
    let output = Arc::new(Mutex::new(private_output().context("standard output cannot be set aside")?));
    beat(output.clone());
    let say = |number: u64, message: Answer| say(&output, number, message);
    let backend = match confined.and_then(|()| open(&options.device)) {
        Ok(backend) => backend,
        Err(error) => return Ok(say(0, Answer::Failed(format!("{error:#}")))?),
    };
    let hello = Hello {
        device: DeviceRecord::of(backend.device(), backend.fingerprint()),
        resolution_ns: backend.timer_resolution().as_nanos() as f64,
        tools: tools(backend.device().backend),
        #[cfg(debug_assertions)]
        simulated: super::inject::is_synthetic(),
        #[cfg(not(debug_assertions))]
        simulated: false,
    };
    say(0, Answer::Hello(Box::new(hello)))?;
    let regime = if options.hot { Regime::Hot } else { Regime::Cold };
    let mut host =
        Host { device: *backend.device(), rig: DeviceRig::new(backend.as_ref(), regime), open: None };
    let mut input = io::stdin().lock();
    while let Some(Numbered { number, message }) = next(&mut input) {
        let answer = host.answer(message);
        let ends = matches!(answer, Answer::Poisoned(_));
        say(number, answer)?;
        if ends {
            // A poisoned driver may hang on its way out.
            kill_self();
        }
    }
    Ok(())
}

/// What makes the kernels of a backend, where that is not this build itself. NVRTC's version and the drivers' are not
/// known here, so a change of them marks no row as stale.
fn tools(backend: BackendKind) -> BTreeMap<String, String> {
    let compiler = match backend {
        BackendKind::Hip => devices::hip_toolchain().ok().map(|toolchain| toolchain.version().to_string()),
        BackendKind::Cpu | BackendKind::Cuda => None,
    };
    compiler.into_iter().map(|version| ("compiler".to_string(), version)).collect()
}

fn open(device: &str) -> anyhow::Result<Box<dyn Backend>> {
    let backend = devices::open(device)?;
    #[cfg(debug_assertions)]
    let backend = super::inject::wrap(backend)?;
    Ok(backend)
}

struct Host<'b> {
    device: Device,
    rig: DeviceRig<'b>,
    open: Option<Job>,
}

impl Host<'_> {
    fn answer(&mut self, question: Question) -> Answer {
        let answer = match question {
            Question::Quality { job, formats } => self.quality(&job, &formats).map(Answer::Quality),
            Question::SelfTest => self.test().map(|()| Answer::Done),
            Question::Open { job, formats } => self.start(job, &formats).map(|()| Answer::Done),
            Question::Suggest { m, formats } => self.suggest(m, &formats).map(Answer::Suggested),
            Question::Warm { m, candidates } => self.warm(m, &candidates).map(|()| Answer::Done),
            Question::Admit { m, candidate } => {
                self.ask(m, &candidate, |rig, candidate| rig.admit(candidate).map(|()| Answer::Done))
            }
            Question::Time { m, candidate, slot } => self.ask(m, &candidate, |rig, candidate| {
                rig.time(candidate, slot).map(|sample| Answer::Timed(sample.ns))
            }),
        };
        answer.unwrap_or_else(|answer| answer)
    }

    fn quality(&mut self, job: &Job, formats: &str) -> Result<f64, Answer> {
        let pair = FormatPair::parse(formats)
            .ok_or_else(|| Answer::Failed(format!("{formats:?} are no formats")))?;
        with_work(job, |work| self.rig.quality(work, pair).map_err(|error| format!("{error:#}")))
    }

    fn test(&mut self) -> Result<(), Answer> {
        self.open = None;
        let job = Job::small();
        let pairs = [FormatPair { activation: Format::Bf16, weight: Format::Bf16 }];
        with_work(&job, |work| {
            let Some(candidate) = default_candidate(&work.base(1), &pairs, &self.device) else {
                return Ok(());
            };
            self.rig.open(work, &[Format::Bf16]).map_err(|error| format!("{error:#}"))?;
            let admitted = self.rig.admit(&candidate);
            self.rig.announce(work, &[]);
            admitted.map_err(|fault| match fault {
                BenchFault::Candidate(why) => why,
                other => format!("{other:?}"),
            })
        })
    }

    /// The open job's problem at `m` rows.
    fn base(&self, m: u32) -> Result<Problem, Answer> {
        let job = self.open.as_ref().ok_or_else(|| Answer::Failed("no weight is open".into()))?;
        job.base(m).map_err(Answer::Failed)
    }

    fn suggest(&mut self, m: u32, formats: &str) -> Result<Vec<String>, Answer> {
        let pair = FormatPair::parse(formats)
            .ok_or_else(|| Answer::Failed(format!("{formats:?} are no formats")))?;
        let problem = pair.apply(&self.base(m)?);
        Ok(self.rig.suggest(&problem).iter().map(|config| config.to_string()).collect())
    }

    fn warm(&mut self, m: u32, candidates: &[String]) -> Result<(), Answer> {
        let base = self.base(m)?;
        let candidates: Vec<Candidate> =
            candidates.iter().filter_map(|text| Candidate::parse(text, &base)).collect();
        self.rig.warm(&candidates);
        Ok(())
    }

    fn start(&mut self, job: Job, formats: &[String]) -> Result<(), Answer> {
        self.open = None;
        let formats: Option<Vec<Format>> = formats.iter().map(|name| Format::from_name(name)).collect();
        let formats =
            formats.ok_or_else(|| Answer::Failed("a format that this version does not have".into()))?;
        with_work(&job, |work| self.rig.open(work, &formats).map_err(|error| format!("{error:#}")))?;
        self.open = Some(job);
        Ok(())
    }

    fn ask(
        &mut self,
        m: u32,
        candidate: &str,
        question: impl FnOnce(&mut DeviceRig<'_>, &Candidate) -> Result<Answer, BenchFault>,
    ) -> Result<Answer, Answer> {
        let failed = |why: String| Answer::Failed(why);
        let base = self.base(m)?;
        let candidate = Candidate::parse(candidate, &base)
            .ok_or_else(|| failed(format!("{candidate}: not a candidate of this version")))?;
        match question(&mut self.rig, &candidate) {
            Ok(answer) => Ok(answer),
            Err(BenchFault::Candidate(why)) => {
                // Whatever it did may have harmed more than itself.
                match self.rig.probe() {
                    Some(Ok(())) => Err(Answer::Failed(why)),
                    Some(Err(probe)) => {
                        Err(Answer::Poisoned(format!("{why} (and the device failed after it: {probe})")))
                    }
                    // Nothing has passed here that could tell: a fresh worker knows.
                    None => Err(Answer::Poisoned(why)),
                }
            }
            Err(fault) => Err(Answer::Failed(format!("{fault:?}"))),
        }
    }
}

/// Makes the work of a job, with its weight files open.
fn with_work<T>(job: &Job, run: impl FnOnce(&Work<'_>) -> Result<T, String>) -> Result<T, Answer> {
    let attempt = || {
        let file = job.files().map(WeightFile::open).transpose().map_err(|bad| bad.to_string())?;
        run(&job.work(file.as_ref())?)
    };
    attempt().map_err(Answer::Failed)
}

fn say(output: &Mutex<File>, number: u64, message: Answer) -> io::Result<()> {
    let json = serde_json::to_vec(&Numbered { number, message }).expect("answers are plain data");
    let mut output = output.lock().map_err(|_| io::Error::other("the heart stopped"))?;
    frame::write(&mut *output, &json)
}

/// The next question; none when the tuner is done, or gone.
fn next(input: &mut impl io::Read) -> Option<Numbered<Question>> {
    let bytes = frame::read(input).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Says every half second that the worker lives. Where nobody listens the tuner is gone, and so is the worker, whatever its
/// candidate does.
fn beat(output: Arc<Mutex<File>>) {
    thread::spawn(move || {
        while say(&output, 0, Answer::Alive).is_ok() {
            thread::sleep(HEARTBEAT);
        }
        kill_self();
    });
}

/// Ends the process without running anything on the way: a kernel in flight, a driver or an allocator may hold locks.
fn kill_self() -> ! {
    #[cfg(unix)]
    {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
    std::process::abort()
}

/// A copy of standard output that only this module writes to; what kernels print goes to standard error.
#[cfg(unix)]
fn private_output() -> io::Result<File> {
    let private = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok(File::from(private))
}

#[cfg(not(unix))]
fn private_output() -> io::Result<File> {
    Err(io::Error::other("workers exist on Unix only"))
}

/// Binds the process to its cores and its memory, before anything is allocated or any thread of a kernel starts.
fn confine(options: &ServeOptions) -> anyhow::Result<()> {
    #[cfg(target_os = "linux")]
    if let Some(cores) = &options.cores {
        let mut set = rustix::thread::CpuSet::new();
        for core in super::cores::parse(cores)? {
            set.set(core);
        }
        rustix::thread::sched_setaffinity(None, &set).with_context(|| {
            format!("cores {cores}: cannot be used; this machine or container has not all of them")
        })?;
    }
    #[cfg(not(target_os = "linux"))]
    if options.cores.is_some() {
        anyhow::bail!("cores can be chosen on Linux only");
    }
    #[cfg(unix)]
    if let Some(memory) = options.memory {
        use rustix::process::{Resource, Rlimit, setrlimit};
        let limit = Rlimit { current: Some(memory), maximum: Some(memory) };
        setrlimit(Resource::As, limit).with_context(|| format!("{memory} bytes of memory: cannot be set"))?;
    }
    Ok(())
}
