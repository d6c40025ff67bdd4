//! `libamdhip64` and `libhiprtc` without ROCm and without a GPU: the functions that tilewright's HIP host calls, backed
//! by the emulator. `ci/hip-emulated.sh` builds it and puts it under both names into a folder; a program that finds that
//! folder on its library path first sees one GPU.
//!
//! Two environment variables choose what is emulated: `TILEWRIGHT_EMULATED_GPU` is `mi355x` (the default) or `mi300x`;
//! `TILEWRIGHT_EMULATED_ORDER` is `forward` (the default), `reverse` or `random`, the order of waves. hiprtc compiles with the clang
//! that `TILEWRIGHT_EMULATED_CLANG` names, or that [`Clang::find`](tilewright_kernels::hip::compile::Clang::find) finds.
//!
//! What is unlike the real libraries:
//!
//! * every call has ended when it returns, on one thread at a time; a kernel's fault is the error of its launch, says
//!   what the emulator says, and leaves the device usable;
//! * device addresses are those of the emulator's memory: any access outside a buffer faults;
//! * time is a model's ([`clock`]): it orders kernels plausibly and means nothing. The library exports
//!   `tilewright_emulated_device`, by which the host knows and marks what it measures as simulated;
//! * functions that the host does not call are missing.

#[cfg(unix)]
mod api;
pub mod clock;
mod device;
pub mod gpu;
#[cfg(unix)]
mod rtc;
