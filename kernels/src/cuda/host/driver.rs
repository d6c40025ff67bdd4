//! The CUDA driver behind owned types: a context with one stream, buffers, kernels, graphs, events.
//!
//! The driver library is loaded when first used; [`Context::open`] says so if there is none. A context is current to
//! whatever thread calls [`Context::enter`], which everything public in [`super`] does first.
//!
//! After an illegal access every call on the context fails. Such a fault says "context lost": only a fresh process recovers.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::sys;
use cudarc::driver::sys::{CUdevice_attribute as Attribute, CUresult};

/// What went wrong, in words.
pub(crate) type Fault = String;

/// Turns a driver status into a result that names the call.
pub(crate) fn check(status: CUresult, call: &str) -> Result<(), Fault> {
    if status == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let mut text = ptr::null();
    // SAFETY: `text` is a valid place for the pointer; the driver gives a static string or an error.
    let known =
        unsafe { sys::cuGetErrorString(status, &mut text) } == CUresult::CUDA_SUCCESS && !text.is_null();
    // SAFETY: the driver's static, NUL-terminated string.
    let text = if known { unsafe { CStr::from_ptr(text) }.to_string_lossy() } else { "unknown error".into() };
    let lost = if is_lost(status) { LOST } else { "" };
    Err(format!("CUDA: {call}: {text} ({status:?}){lost}"))
}

/// What a fault ends with after which the process cannot use the device any more.
const LOST: &str = "; context lost: only a new process can use the device";

/// Whether the driver refuses every later call on the context.
fn is_lost(status: CUresult) -> bool {
    use CUresult::*;
    matches!(
        status,
        CUDA_ERROR_ILLEGAL_ADDRESS
            | CUDA_ERROR_LAUNCH_TIMEOUT
            | CUDA_ERROR_ASSERT
            | CUDA_ERROR_HARDWARE_STACK_ERROR
            | CUDA_ERROR_ILLEGAL_INSTRUCTION
            | CUDA_ERROR_MISALIGNED_ADDRESS
            | CUDA_ERROR_INVALID_ADDRESS_SPACE
            | CUDA_ERROR_INVALID_PC
            | CUDA_ERROR_LAUNCH_FAILED
            | CUDA_ERROR_ECC_UNCORRECTABLE
    )
}

/// A device's primary context and one stream on it.
pub(crate) struct Context {
    device: sys::CUdevice,
    context: sys::CUcontext,
    stream: sys::CUstream,
}

// SAFETY: driver handles may be used from any thread; a context may be current to several at once.
unsafe impl Send for Context {}
// SAFETY: as above; the driver serialises what needs it.
unsafe impl Sync for Context {}

impl Context {
    /// Opens a device by its ordinal.
    pub(crate) fn open(ordinal: u32) -> Result<Context, Fault> {
        // SAFETY: only looks for the library.
        if !unsafe { sys::is_culib_present() } {
            return Err("no CUDA driver: libcuda is not installed or not on the library path".into());
        }
        let (mut device, mut context, mut stream) = (0, ptr::null_mut(), ptr::null_mut());
        // SAFETY: every out-pointer is a valid place; the driver is initialised first, and the stream made last, in
        // the context made current just before.
        unsafe {
            check(sys::cuInit(0), "initialising the driver")?;
            check(sys::cuDeviceGet(&mut device, ordinal as c_int), "finding the device")?;
            check(sys::cuDevicePrimaryCtxRetain(&mut context, device), "opening the device")?;
            check(sys::cuCtxSetCurrent(context), "entering the device")?;
            let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
            check(sys::cuStreamCreate(&mut stream, flags), "making a stream")?;
        }
        Ok(Context { device, context, stream })
    }

    /// How many devices there are; 0 without a driver.
    pub(crate) fn count() -> u32 {
        let mut count = 0;
        // SAFETY: the library is looked for before it is called; `count` is a valid place.
        let found = unsafe {
            sys::is_culib_present()
                && sys::cuInit(0) == CUresult::CUDA_SUCCESS
                && sys::cuDeviceGetCount(&mut count) == CUresult::CUDA_SUCCESS
        };
        if found { count as u32 } else { 0 }
    }

    /// Makes the context current to this thread.
    pub(crate) fn enter(&self) -> Result<(), Fault> {
        // SAFETY: the context is retained as long as `self` lives.
        check(unsafe { sys::cuCtxSetCurrent(self.context) }, "entering the device")
    }

    /// An attribute of the device.
    pub(crate) fn attribute(&self, attribute: Attribute) -> Result<u32, Fault> {
        let mut value = 0;
        // SAFETY: `value` is a valid place.
        let status = unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, self.device) };
        check(status, "reading an attribute")?;
        Ok(value as u32)
    }

    /// The vendor's name of the device.
    pub(crate) fn name(&self) -> Result<String, Fault> {
        let mut name = [0 as c_char; 128];
        // SAFETY: the driver writes at most 128 bytes, NUL included.
        unsafe {
            check(
                sys::cuDeviceGetName(name.as_mut_ptr(), name.len() as c_int, self.device),
                "reading the name",
            )?;
            Ok(CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned())
        }
    }

    /// Bytes of device memory.
    pub(crate) fn memory(&self) -> Result<usize, Fault> {
        let mut bytes = 0;
        // SAFETY: `bytes` is a valid place.
        check(unsafe { sys::cuDeviceTotalMem_v2(&mut bytes, self.device) }, "reading the memory's size")?;
        Ok(bytes)
    }

    /// The CUDA version the driver supports, as 1000 · major + 10 · minor.
    pub(crate) fn driver_version(&self) -> Result<u32, Fault> {
        let mut version = 0;
        // SAFETY: `version` is a valid place.
        check(unsafe { sys::cuDriverGetVersion(&mut version) }, "reading the driver's version")?;
        Ok(version as u32)
    }

    /// The stream that everything is launched into.
    pub(crate) fn stream(&self) -> sys::CUstream {
        self.stream
    }

    /// Waits for everything launched, and reports what failed in it.
    pub(crate) fn synchronize(&self) -> Result<(), Fault> {
        // SAFETY: the stream lives as long as `self`.
        check(unsafe { sys::cuStreamSynchronize(self.stream) }, "running a kernel")
    }

    /// Launches a kernel.
    pub(crate) fn launch(
        &self,
        kernel: &Kernel,
        launch: &Launch,
        arguments: &mut [*mut c_void],
    ) -> Result<(), Fault> {
        // SAFETY: plain data, for which all zeros is a value.
        let mut attribute: sys::CUlaunchAttribute = unsafe { std::mem::zeroed() };
        attribute.id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        attribute.value.programmaticStreamSerializationAllowed = 1;
        let config = sys::CUlaunchConfig {
            gridDimX: launch.grid,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: launch.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: launch.shared_bytes,
            hStream: self.stream,
            attrs: &mut attribute,
            numAttrs: u32::from(launch.overlaps_previous),
        };
        // SAFETY: `config` and the arguments outlive the call, which copies them; callers pass pointers to arguments
        // of the kernel's signature, whose buffers outlive the launch (sessions synchronise before they free).
        let status = unsafe {
            sys::cuLaunchKernelEx(&config, kernel.function, arguments.as_mut_ptr(), ptr::null_mut())
        };
        check(status, "launching a kernel")
    }

    /// Launches a graph.
    pub(crate) fn replay(&self, graph: &Graph) -> Result<(), Fault> {
        // SAFETY: graph and stream live.
        check(unsafe { sys::cuGraphLaunch(graph.0, self.stream) }, "launching a graph")
    }

    /// Records what `launches` puts into the stream as a graph.
    pub(crate) fn capture(&self, launches: impl FnOnce() -> Result<(), Fault>) -> Result<Graph, Fault> {
        let mode = sys::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_RELAXED;
        let (mut graph, mut executable) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the stream lives; capture is ended whether the launches succeed or not; the graph is destroyed once
        // it has been instantiated.
        unsafe {
            check(sys::cuStreamBeginCapture_v2(self.stream, mode), "beginning a graph")?;
            let launched = launches();
            let ended = check(sys::cuStreamEndCapture(self.stream, &mut graph), "ending a graph");
            launched.and(ended)?;
            let made =
                check(sys::cuGraphInstantiateWithFlags(&mut executable, graph, 0), "instantiating a graph");
            sys::cuGraphDestroy(graph);
            made?;
        }
        Ok(Graph(executable))
    }

    /// Runs a graph between two events, and gives the time between them. What `before` launches keeps the device busy
    /// while the host submits the rest, so that its latency is not measured.
    pub(crate) fn time(
        &self,
        graph: &Graph,
        events: &Events,
        before: impl FnOnce() -> Result<(), Fault>,
    ) -> Result<Duration, Fault> {
        let mut milliseconds = 0.0;
        before()?;
        // SAFETY: graph, events and stream live; the second event is waited for before the time is read.
        unsafe {
            check(sys::cuEventRecord(events.0, self.stream), "recording an event")?;
            check(sys::cuGraphLaunch(graph.0, self.stream), "launching a graph")?;
            check(sys::cuEventRecord(events.1, self.stream), "recording an event")?;
            check(sys::cuEventSynchronize(events.1), "running a graph")?;
            check(sys::cuEventElapsedTime_v2(&mut milliseconds, events.0, events.1), "reading an event")?;
        }
        Ok(Duration::from_nanos((f64::from(milliseconds) * 1e6) as u64))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: made in `open`, and nothing else owns them.
        unsafe {
            sys::cuStreamDestroy_v2(self.stream);
            sys::cuDevicePrimaryCtxRelease_v2(self.device);
        }
    }
}

/// Waits for the default stream: copies and fills may end after their call has returned, and the context's own stream
/// does not wait for them.
fn settle(call: &str) -> Result<(), Fault> {
    // SAFETY: the default stream always exists.
    check(unsafe { sys::cuStreamSynchronize(ptr::null_mut()) }, call)
}

/// Device memory.
pub(crate) struct Buffer {
    pointer: sys::CUdeviceptr,
    bytes: usize,
}

impl Buffer {
    /// Uninitialised memory in the current context.
    pub(crate) fn new(bytes: usize) -> Result<Buffer, Fault> {
        let mut pointer = 0;
        // SAFETY: `pointer` is a valid place.
        let status = unsafe { sys::cuMemAlloc_v2(&mut pointer, bytes.max(1)) };
        check(status, &format!("allocating {bytes} bytes"))?;
        Ok(Buffer { pointer, bytes })
    }

    /// A copy of `values`.
    pub(crate) fn from_slice<T: Copy>(values: &[T]) -> Result<Buffer, Fault> {
        let buffer = Buffer::new(size_of_val(values))?;
        // SAFETY: the buffer has the slice's size.
        let status = unsafe { sys::cuMemcpyHtoD_v2(buffer.pointer, values.as_ptr().cast(), buffer.bytes) };
        check(status, "copying to the device")?;
        settle("copying to the device")?;
        Ok(buffer)
    }

    /// A copy of it on the device.
    pub(crate) fn duplicate(&self) -> Result<Buffer, Fault> {
        let copy = Buffer::new(self.bytes)?;
        // SAFETY: both have this size.
        let status = unsafe { sys::cuMemcpyDtoD_v2(copy.pointer, self.pointer, self.bytes) };
        check(status, "copying on the device")?;
        settle("copying on the device")?;
        Ok(copy)
    }

    /// Sets every byte.
    pub(crate) fn fill(&self, byte: u8) -> Result<(), Fault> {
        // SAFETY: the buffer has this size.
        check(unsafe { sys::cuMemsetD8_v2(self.pointer, byte, self.bytes) }, "filling memory")?;
        settle("filling memory")
    }

    /// Sets the bytes from `at` on.
    pub(crate) fn fill_part(&self, at: usize, bytes: usize, byte: u8) -> Result<(), Fault> {
        assert!(at + bytes <= self.bytes, "the part lies outside the buffer");
        // SAFETY: just asserted.
        check(unsafe { sys::cuMemsetD8_v2(self.pointer + at as u64, byte, bytes) }, "filling memory")?;
        settle("filling memory")
    }

    /// Copies its bytes from `at` on.
    pub(crate) fn read_part(&self, at: usize, to: &mut [u8]) -> Result<(), Fault> {
        assert!(at + to.len() <= self.bytes, "the part lies outside the buffer");
        // SAFETY: just asserted.
        let status =
            unsafe { sys::cuMemcpyDtoH_v2(to.as_mut_ptr().cast(), self.pointer + at as u64, to.len()) };
        check(status, "reading memory")
    }

    /// Its bytes.
    pub(crate) fn read(&self) -> Result<Vec<u8>, Fault> {
        let mut bytes = vec![0; self.bytes];
        // SAFETY: both have this size.
        let status = unsafe { sys::cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), self.pointer, self.bytes) };
        check(status, "reading memory")?;
        Ok(bytes)
    }

    /// Its size.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The device address.
    pub(crate) fn address(&self) -> u64 {
        self.pointer
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `new`, freed once.
        unsafe { sys::cuMemFree_v2(self.pointer) };
    }
}

/// How the tensor copy engine finds a matrix in memory: an argument of a kernel.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct TensorMap(sys::CUtensorMap);

impl TensorMap {
    /// A row-major bf16 matrix of `[columns, rows]`, copied in boxes of `[columns, rows]` in the 128-byte swizzle.
    /// What lies outside the matrix reads as zero.
    pub(crate) fn bf16(matrix: u64, size: [u32; 2], boxes: [u32; 2]) -> Result<TensorMap, Fault> {
        let [columns, rows] = size.map(u64::from);
        // SAFETY: plain data, for which all zeros is a value.
        let mut map: sys::CUtensorMap = unsafe { std::mem::zeroed() };
        // SAFETY: the arrays have as many elements as the rank asks for; the matrix's address is only written down.
        let status = unsafe {
            sys::cuTensorMapEncodeTiled(
                &mut map,
                sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                2,
                matrix as *mut c_void,
                [columns, rows].as_ptr(),
                [columns * 2].as_ptr(),
                boxes.as_ptr(),
                [1u32, 1].as_ptr(),
                sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
                sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        };
        check(status, "describing a matrix")?;
        Ok(TensorMap(map))
    }
}

/// A loaded module, shared by its kernels.
struct Module(sys::CUmodule);

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: loaded in `Kernel::load`, unloaded once.
        unsafe { sys::cuModuleUnload(self.0) };
    }
}

// SAFETY: driver handles may be used from any thread.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

/// A kernel ready to launch.
#[derive(Clone)]
pub(crate) struct Kernel {
    function: sys::CUfunction,
    _module: Arc<Module>,
}

// SAFETY: driver handles may be used from any thread; the module goes with the last of its kernels.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Kernel {}

impl Kernel {
    /// Loads the kernel `entry` of a cubin, with room for `shared_bytes` of dynamic shared memory.
    pub(crate) fn load(cubin: &[u8], entry: &str, shared_bytes: u32) -> Result<Kernel, Fault> {
        let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
        let name = CString::new(entry).map_err(|_| "a kernel's name holds a zero byte".to_string())?;
        // SAFETY: the cubin is a whole image (its length is in it); the name is NUL-terminated; the module outlives the
        // function by the reference count.
        unsafe {
            check(sys::cuModuleLoadData(&mut module, cubin.as_ptr().cast()), "loading a kernel")?;
            let module = Arc::new(Module(module));
            check(sys::cuModuleGetFunction(&mut function, module.0, name.as_ptr()), "finding a kernel")?;
            let attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            check(
                sys::cuFuncSetAttribute(function, attribute, shared_bytes as c_int),
                "reserving shared memory",
            )?;
            Ok(Kernel { function, _module: module })
        }
    }
}

/// Geometry of a launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch {
    /// CTAs.
    pub(crate) grid: u32,
    /// Threads of a CTA.
    pub(crate) threads: u32,
    /// Dynamic shared memory of a CTA.
    pub(crate) shared_bytes: u32,
    /// Whether it may begin before the kernel before it has ended (programmatic dependent launch).
    pub(crate) overlaps_previous: bool,
}

/// A graph ready to launch.
pub(crate) struct Graph(sys::CUgraphExec);

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: instantiated in `capture`, destroyed once.
        unsafe { sys::cuGraphExecDestroy(self.0) };
    }
}

/// A pair of events to time with.
pub(crate) struct Events(sys::CUevent, sys::CUevent);

impl Events {
    /// Two events in the current context.
    pub(crate) fn new() -> Result<Events, Fault> {
        let (mut begin, mut end) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: valid places for the handles.
        unsafe {
            check(sys::cuEventCreate(&mut begin, 0), "making an event")?;
            check(sys::cuEventCreate(&mut end, 0), "making an event")?;
        }
        Ok(Events(begin, end))
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // SAFETY: made in `new`, destroyed once.
        unsafe {
            sys::cuEventDestroy_v2(self.0);
            sys::cuEventDestroy_v2(self.1);
        }
    }
}
