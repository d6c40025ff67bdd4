//! The emulated device's state: memory, objects behind handles, and the simulated clock.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tilewright_emulator::{Arg, CodeObject, Grid, Memory, Options, Order};

use crate::clock::launch_ns;
use crate::gpu::Gpu;

/// `hipError_t`.
pub(crate) const INVALID_VALUE: i32 = 1;
pub(crate) const OUT_OF_MEMORY: i32 = 2;
pub(crate) const INVALID_DEVICE: i32 = 101;
pub(crate) const INVALID_IMAGE: i32 = 200;
pub(crate) const INVALID_HANDLE: i32 = 400;
pub(crate) const NOT_FOUND: i32 = 500;
pub(crate) const LAUNCH_FAILURE: i32 = 719;

/// What fresh memory holds: a program that reads it before it wrote it shall notice.
const FRESH: u8 = 0xcd;

/// A launch as it was asked for, to be carried out now or by a graph.
#[derive(Clone)]
pub(crate) struct Launch {
    pub(crate) code: Arc<CodeObject>,
    pub(crate) kernel: String,
    pub(crate) grid: Grid,
    pub(crate) args: Vec<Arg>,
}

/// What a handle stands for.
pub(crate) enum Object {
    Module(Arc<CodeObject>),
    Function(Arc<CodeObject>, String),
    /// What is being captured, if anything is.
    Stream(Option<Vec<Launch>>),
    /// When it was recorded, in nanoseconds.
    Event(Option<f64>),
    /// A graph, or one ready to launch.
    Graph(Vec<Launch>),
}

/// The device.
pub(crate) struct Device {
    pub(crate) gpu: &'static Gpu,
    pub(crate) memory: Memory,
    sizes: HashMap<u64, usize>,
    objects: HashMap<u64, Object>,
    next: u64,
    /// Nanoseconds since the device was opened.
    pub(crate) now_ns: f64,
    launches: u64,
    options: Options,
    /// What the last launch that failed failed of.
    pub(crate) fault: String,
}

/// The device, or `None` where the environment names one that is not known.
pub(crate) fn device() -> Option<MutexGuard<'static, Device>> {
    static DEVICE: OnceLock<Option<Mutex<Device>>> = OnceLock::new();
    let device = DEVICE.get_or_init(|| {
        let name = std::env::var("TILEWRIGHT_EMULATED_GPU").ok();
        let gpu = Gpu::named(name.as_deref());
        if gpu.is_none() {
            eprintln!("TILEWRIGHT_EMULATED_GPU={}: not one of mi355x, mi300x", name.unwrap_or_default());
        }
        let order = match std::env::var("TILEWRIGHT_EMULATED_ORDER").as_deref() {
            Ok("reverse") => Order::Reverse,
            Ok("random") => Order::Random,
            _ => Order::Forward,
        };
        // A kernel that never ends is a fault within seconds, not hours.
        let options = Options { order, limit: 1 << 28, ..Options::default() };
        gpu.map(|gpu| Mutex::new(Device::new(gpu, options)))
    });
    device.as_ref().map(|device| device.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Device {
    fn new(gpu: &'static Gpu, options: Options) -> Device {
        Device {
            gpu,
            memory: Memory::new(),
            sizes: HashMap::new(),
            objects: HashMap::new(),
            next: 1,
            now_ns: 0.0,
            launches: 0,
            options,
            fault: String::new(),
        }
    }

    /// Keeps an object and gives its handle, which is never 0.
    pub(crate) fn keep(&mut self, object: Object) -> u64 {
        // Handles are told from small numbers and from addresses.
        let handle = 0x5100_0000_0000 + self.next;
        self.next += 1;
        self.objects.insert(handle, object);
        handle
    }

    pub(crate) fn object(&mut self, handle: u64) -> Result<&mut Object, i32> {
        self.objects.get_mut(&handle).ok_or(INVALID_HANDLE)
    }

    pub(crate) fn forget(&mut self, handle: u64) -> Result<(), i32> {
        self.objects.remove(&handle).map(|_| ()).ok_or(INVALID_HANDLE)
    }

    pub(crate) fn allocate(&mut self, bytes: usize) -> Result<u64, i32> {
        let used: usize = self.sizes.values().sum();
        if used.saturating_add(bytes) > self.gpu.memory_gib << 30 {
            return Err(OUT_OF_MEMORY);
        }
        let name = format!("allocation {}", self.next);
        self.next += 1;
        let address = self.memory.alloc(&name, bytes, FRESH);
        self.sizes.insert(address, bytes);
        Ok(address)
    }

    pub(crate) fn free(&mut self, address: u64) -> Result<(), i32> {
        self.sizes.remove(&address).ok_or(INVALID_VALUE)?;
        self.memory.free(address).map_err(|_| INVALID_VALUE)
    }

    /// Puts a launch into a stream: runs it, or adds it to the graph under capture.
    pub(crate) fn submit(&mut self, stream: u64, launch: Launch) -> Result<(), i32> {
        if stream != 0
            && let Object::Stream(Some(captured)) = self.object(stream)?
        {
            captured.push(launch);
            return Ok(());
        }
        self.run(&launch)
    }

    /// Runs a launch and lets its time pass.
    pub(crate) fn run(&mut self, launch: &Launch) -> Result<(), i32> {
        let Launch { code, kernel, grid, args } = launch;
        self.launches += 1;
        match code.launch(kernel, &self.memory, *grid, args, &self.options) {
            Ok(report) => {
                self.now_ns += launch_ns(self.gpu, *grid, &report, self.launches);
                Ok(())
            }
            Err(error) => {
                self.fault = error.to_string();
                Err(LAUNCH_FAILURE)
            }
        }
    }
}
