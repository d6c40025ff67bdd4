//! The HIP runtime behind owned types: a device with one stream, buffers, kernels, graphs, events.
//!
//! HIP keeps the current device per thread; everything public in [`super`] calls [`Gpu::enter`] first. After a fault in
//! a kernel (an illegal access, say) every later call fails, as the runtime reports: only a fresh process recovers.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use super::library::{self, Handle, Properties, Runtime};

/// What went wrong, in words.
pub(crate) type Fault = String;

const HOST_TO_DEVICE: c_int = 1;
const DEVICE_TO_HOST: c_int = 2;
const DEVICE_TO_DEVICE: c_int = 3;
/// `hipStreamNonBlocking`.
const NON_BLOCKING: u32 = 1;
/// `hipStreamCaptureModeRelaxed`.
const RELAXED: c_int = 2;

/// Turns a `hipError_t` into a result that names the call.
fn check(status: c_int, call: &str) -> Result<(), Fault> {
    if status == 0 {
        return Ok(());
    }
    let text = library::runtime().ok().map(|api| {
        // SAFETY: any number may be asked about; the answer is a static, NUL-terminated string.
        unsafe { CStr::from_ptr((api.hipGetErrorString)(status)) }.to_string_lossy().into_owned()
    });
    Err(format!("HIP: {call}: {} (error {status})", text.as_deref().unwrap_or("unknown error")))
}

/// One GPU and a stream on it.
pub(super) struct Gpu {
    api: &'static Runtime,
    ordinal: c_int,
    stream: Handle,
}

// SAFETY: HIP handles may be used from any thread; the runtime serialises what needs it.
unsafe impl Send for Gpu {}
// SAFETY: as above.
unsafe impl Sync for Gpu {}

/// What the runtime tells of a device.
pub(super) struct Description {
    /// `AMD Instinct MI300X`.
    pub(super) name: String,
    /// `gfx942:sramecc+:xnack-`.
    pub(super) arch: String,
    /// Bytes of memory.
    pub(super) memory: usize,
    /// Bytes of LDS that a workgroup can have.
    pub(super) lds: usize,
    /// Compute units.
    pub(super) units: u32,
    /// The highest engine clock, in kHz.
    pub(super) clock_khz: u32,
    /// Bytes of L2 of one XCD.
    pub(super) l2: u32,
    /// Accelerator dies, where the runtime tells.
    pub(super) xcds: Option<u32>,
    /// `0000:c1:00.0`.
    pub(super) pci: String,
    /// Version of the runtime: 10^7 · major + 10^5 · minor + patch.
    pub(super) runtime_version: u32,
}

impl Gpu {
    /// How many devices there are; 0 without a runtime.
    pub(super) fn count() -> u32 {
        let Ok(api) = library::runtime() else { return 0 };
        let mut count = 0;
        // SAFETY: `count` is a valid place.
        let found = unsafe { (api.hipInit)(0) == 0 && (api.hipGetDeviceCount)(&mut count) == 0 };
        if found { count.try_into().unwrap_or(0) } else { 0 }
    }

    /// Opens a device by its ordinal.
    pub(super) fn open(ordinal: u32) -> Result<Gpu, Fault> {
        let api = library::runtime()?;
        let ordinal = c_int::try_from(ordinal).map_err(|_| "HIP: no such device".to_string())?;
        let mut stream = ptr::null_mut();
        // SAFETY: `stream` is a valid place; the device is made current before the stream is made on it.
        unsafe {
            check((api.hipInit)(0), "initialising the runtime")?;
            check((api.hipSetDevice)(ordinal), "opening the device")?;
            check((api.hipStreamCreateWithFlags)(&mut stream, NON_BLOCKING), "making a stream")?;
        }
        Ok(Gpu { api, ordinal, stream })
    }

    /// Makes the device current to this thread.
    pub(super) fn enter(&self) -> Result<(), Fault> {
        // SAFETY: takes a number.
        check(unsafe { (self.api.hipSetDevice)(self.ordinal) }, "entering the device")
    }

    fn attribute(&self, attribute: c_int) -> Option<u32> {
        let mut value = 0;
        // SAFETY: `value` is a valid place; an attribute that the runtime does not know is an error.
        let status = unsafe { (self.api.hipDeviceGetAttribute)(&mut value, attribute, self.ordinal) };
        u32::try_from(value).ok().filter(|value| status == 0 && *value > 0)
    }

    pub(super) fn describe(&self) -> Result<Description, Fault> {
        // SAFETY: plain data, for which all zeros is a value.
        let mut properties: Box<Properties> = Box::new(unsafe { std::mem::zeroed() });
        let mut pci = [0 as c_char; 64];
        let mut runtime_version = 0;
        // SAFETY: valid places, the first larger than what the runtime writes, the second of the length given.
        unsafe {
            let status = (self.api.hipGetDevicePropertiesR0600)(&mut *properties, self.ordinal);
            check(status, "reading the device's properties")?;
            let status = (self.api.hipDeviceGetPCIBusId)(pci.as_mut_ptr(), pci.len() as c_int, self.ordinal);
            check(status, "reading the device's place")?;
            check((self.api.hipRuntimeGetVersion)(&mut runtime_version), "reading the runtime's version")?;
        }
        let needed =
            |value: Option<u32>, what: &str| value.ok_or_else(|| format!("HIP: the device tells no {what}"));
        use library::attribute;
        Ok(Description {
            name: text(&properties.name),
            arch: text(&properties.arch),
            memory: properties.total_memory,
            lds: properties.lds_per_workgroup,
            units: needed(self.attribute(attribute::UNITS), "number of compute units")?,
            clock_khz: self.attribute(attribute::CLOCK_KHZ).unwrap_or(0),
            l2: self.attribute(attribute::L2_BYTES).unwrap_or(0),
            xcds: self.attribute(attribute::XCDS),
            pci: text(&pci),
            runtime_version: runtime_version as u32,
        })
    }

    /// Waits for everything launched, and reports what failed in it.
    pub(super) fn synchronize(&self) -> Result<(), Fault> {
        // SAFETY: the stream lives as long as `self`.
        check(unsafe { (self.api.hipStreamSynchronize)(self.stream) }, "running a kernel")
    }

    /// Launches a kernel with pointers to its arguments.
    pub(super) fn launch(
        &self,
        kernel: &Kernel,
        grid: [u32; 2],
        threads: u32,
        lds_bytes: u32,
        arguments: &mut [*mut c_void],
    ) -> Result<(), Fault> {
        // SAFETY: the arguments outlive the call, which copies them; callers pass pointers to values of the kernel's
        // parameter types, and the buffers among them outlive the launch (sessions synchronise before they free).
        let status = unsafe {
            (self.api.hipModuleLaunchKernel)(
                kernel.function,
                grid[0],
                grid[1],
                1,
                threads,
                1,
                1,
                lds_bytes,
                self.stream,
                arguments.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        check(status, "launching a kernel")
    }

    /// Records what `launches` puts into the stream as a graph.
    pub(super) fn capture(&self, launches: impl FnOnce() -> Result<(), Fault>) -> Result<Graph, Fault> {
        let (mut graph, mut executable) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the stream lives; capture is ended whether the launches succeed or not; the graph is destroyed once
        // it has been instantiated.
        unsafe {
            check((self.api.hipStreamBeginCapture)(self.stream, RELAXED), "beginning a graph")?;
            let launched = launches();
            let ended = check((self.api.hipStreamEndCapture)(self.stream, &mut graph), "ending a graph");
            launched.and(ended)?;
            let made = check(
                (self.api.hipGraphInstantiateWithFlags)(&mut executable, graph, 0),
                "instantiating a graph",
            );
            (self.api.hipGraphDestroy)(graph);
            made?;
        }
        Ok(Graph { api: self.api, executable })
    }

    /// Puts a graph into the stream.
    pub(super) fn replay(&self, graph: &Graph) -> Result<(), Fault> {
        // SAFETY: graph and stream live.
        check(unsafe { (self.api.hipGraphLaunch)(graph.executable, self.stream) }, "launching a graph")
    }

    /// The device's time from the start to the end of what `work` puts into the stream.
    pub(super) fn time(
        &self,
        events: &Events,
        work: impl FnOnce() -> Result<(), Fault>,
    ) -> Result<Duration, Fault> {
        let mut milliseconds = 0.0;
        // SAFETY: events and stream live; the second event is waited for before the time is read.
        unsafe {
            check((self.api.hipEventRecord)(events.begin, self.stream), "recording an event")?;
            work()?;
            check((self.api.hipEventRecord)(events.end, self.stream), "recording an event")?;
            check((self.api.hipEventSynchronize)(events.end), "running a kernel")?;
            let status = (self.api.hipEventElapsedTime)(&mut milliseconds, events.begin, events.end);
            check(status, "reading an event")?;
        }
        Ok(Duration::from_nanos((f64::from(milliseconds) * 1e6) as u64))
    }
}

/// A NUL-terminated text in an array.
fn text(chars: &[c_char]) -> String {
    let bytes: Vec<u8> = chars.iter().map(|c| *c as u8).take_while(|c| *c != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: made in `open`, and nothing else owns it.
        unsafe { (self.api.hipStreamDestroy)(self.stream) };
    }
}

/// Device memory.
pub(super) struct Buffer {
    api: &'static Runtime,
    pointer: Handle,
    bytes: usize,
}

impl Buffer {
    /// Uninitialised memory on the current device; a byte at least, so that the address is one.
    pub(super) fn new(bytes: usize) -> Result<Buffer, Fault> {
        let api = library::runtime()?;
        let mut pointer = ptr::null_mut();
        // SAFETY: `pointer` is a valid place.
        let status = unsafe { (api.hipMalloc)(&mut pointer, bytes.max(1)) };
        check(status, &format!("allocating {bytes} bytes"))?;
        Ok(Buffer { api, pointer, bytes })
    }

    /// A copy of `bytes`.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Buffer, Fault> {
        let buffer = Buffer::new(bytes.len())?;
        buffer.write(bytes)?;
        Ok(buffer)
    }

    /// Fills it from its start. Pageable memory: the copy has ended when the call returns.
    pub(super) fn write(&self, bytes: &[u8]) -> Result<(), Fault> {
        assert!(bytes.len() <= self.bytes, "more bytes than the buffer has");
        // SAFETY: the buffer has room for them.
        let status =
            unsafe { (self.api.hipMemcpy)(self.pointer, bytes.as_ptr().cast(), bytes.len(), HOST_TO_DEVICE) };
        check(status, "copying to the device")
    }

    /// A copy of it on the device.
    pub(super) fn duplicate(&self) -> Result<Buffer, Fault> {
        let copy = Buffer::new(self.bytes)?;
        // SAFETY: both have this size.
        let status =
            unsafe { (self.api.hipMemcpy)(copy.pointer, self.pointer, self.bytes, DEVICE_TO_DEVICE) };
        check(status, "copying on the device")?;
        settle(self.api, "copying on the device")?;
        Ok(copy)
    }

    /// Sets every byte.
    pub(super) fn fill(&self, byte: u8) -> Result<(), Fault> {
        // SAFETY: the buffer has this size.
        check(unsafe { (self.api.hipMemset)(self.pointer, byte.into(), self.bytes) }, "filling memory")?;
        settle(self.api, "filling memory")
    }

    /// Its first `into.len()` bytes.
    pub(super) fn read(&self, into: &mut [u8]) -> Result<(), Fault> {
        assert!(into.len() <= self.bytes, "more bytes than the buffer has");
        // SAFETY: both have room for that many bytes.
        let status = unsafe {
            (self.api.hipMemcpy)(into.as_mut_ptr().cast(), self.pointer, into.len(), DEVICE_TO_HOST)
        };
        check(status, "reading memory")
    }

    /// All its bytes.
    pub(super) fn bytes(&self) -> Result<Vec<u8>, Fault> {
        let mut bytes = vec![0; self.bytes];
        self.read(&mut bytes)?;
        Ok(bytes)
    }

    /// How many bytes it has.
    pub(super) fn len(&self) -> usize {
        self.bytes
    }

    /// The device address.
    pub(super) fn address(&self) -> u64 {
        self.pointer as u64
    }
}

// SAFETY: an address and a size; the runtime may be called with it from any thread.
unsafe impl Send for Buffer {}
// SAFETY: as above. What kernels and copies do to the bytes is ordered by the streams they are in.
unsafe impl Sync for Buffer {}

/// Waits for the default stream: copies and fills on the device may end after their call has returned, and a
/// non-blocking stream does not wait for them.
fn settle(api: &Runtime, call: &str) -> Result<(), Fault> {
    // SAFETY: the default stream always exists.
    check(unsafe { (api.hipStreamSynchronize)(ptr::null_mut()) }, call)
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `new`, freed once.
        unsafe { (self.api.hipFree)(self.pointer) };
    }
}

/// A loaded code object, shared by its kernels.
struct Module {
    api: &'static Runtime,
    handle: Handle,
}

// SAFETY: a handle that the runtime takes from any thread.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: loaded in `Kernel::load`, unloaded once.
        unsafe { (self.api.hipModuleUnload)(self.handle) };
    }
}

/// A kernel ready to launch.
#[derive(Clone)]
pub(super) struct Kernel {
    function: Handle,
    _module: Arc<Module>,
}

// SAFETY: a handle that the runtime takes from any thread; its module lives as long.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Kernel {}

impl Kernel {
    /// Loads the kernel `entry` of a code object.
    pub(super) fn load(object: &[u8], entry: &str) -> Result<Kernel, Fault> {
        let api = library::runtime()?;
        let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
        let name = CString::new(entry).map_err(|_| "a kernel's name holds a zero byte".to_string())?;
        // SAFETY: the object is a whole ELF image (its length is in it); the name is NUL-terminated; the module
        // outlives the function by the reference count.
        unsafe {
            check((api.hipModuleLoadData)(&mut module, object.as_ptr().cast()), "loading a kernel")?;
            let module = Arc::new(Module { api, handle: module });
            let status = (api.hipModuleGetFunction)(&mut function, module.handle, name.as_ptr());
            check(status, &format!("finding the kernel {entry}"))?;
            Ok(Kernel { function, _module: module })
        }
    }
}

/// A graph ready to launch.
pub(super) struct Graph {
    api: &'static Runtime,
    executable: Handle,
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: instantiated in `capture`, destroyed once.
        unsafe { (self.api.hipGraphExecDestroy)(self.executable) };
    }
}

/// A pair of events to time with.
pub(super) struct Events {
    api: &'static Runtime,
    begin: Handle,
    end: Handle,
}

impl Events {
    /// Two events on the current device.
    pub(super) fn new() -> Result<Events, Fault> {
        let api = library::runtime()?;
        let (mut begin, mut end) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: valid places for the handles.
        unsafe {
            check((api.hipEventCreate)(&mut begin), "making an event")?;
            check((api.hipEventCreate)(&mut end), "making an event")?;
        }
        Ok(Events { api, begin, end })
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // SAFETY: made in `new`, destroyed once.
        unsafe {
            (self.api.hipEventDestroy)(self.begin);
            (self.api.hipEventDestroy)(self.end);
        }
    }
}
