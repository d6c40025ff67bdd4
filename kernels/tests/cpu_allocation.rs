//! `Gemm::run` allocates nothing, on any thread: a counting allocator in a process of its own.

use std::alloc::{GlobalAlloc, Layout as AllocLayout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use tilewright_kernels::backend::Backend;
use tilewright_kernels::cpu::{Activation, Cpu, Gemm, Output, PackedWeight};
use tilewright_kernels::format::quantize::{QuantizeOptions, Quantized};
use tilewright_kernels::{Config, Format, Problem, Scaling};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: AllocLayout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::SeqCst);
        // SAFETY: as the caller guarantees.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: AllocLayout) {
        // SAFETY: as the caller guarantees.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn running_allocates_nothing() {
    let cpu = Cpu::detect();
    let threads = cpu.device().units.min(2);
    let split = threads;
    let texts = [
        format!(
            "cpu.tiled_mxfp6@1(decode=scratch,kc=256,layout=row_major,mc=32,nc=64,path=portable,prefetch=0,split_k=1,threads={threads},tile_m=4,tile_n=16)"
        ),
        format!(
            "cpu.skinny_mxfp6@1(layout=panel16x2,path=portable,prefetch=0,split_k={split},threads={threads},tile_m=2,tile_n=32)"
        ),
    ];
    let (m, n, k) = (30, 200, 512);
    let values: Vec<f32> = (0..n * k).map(|i| (i % 13) as f32 - 6.0).collect();
    let weight =
        Quantized::quantize(&values, n, k, Format::MxFp6E2m3, Scaling::Block32, &QuantizeOptions::default())
            .expect("legal");
    let activation: Vec<f32> = (0..m * k).map(|i| (i % 7) as f32 - 3.0).collect();
    let mut output = vec![0f32; m * n];
    for a in [Format::Bf16, Format::MxFp6E2m3, Format::Fp8E4m3] {
        let problem = Problem { a, ..Problem::new(m as u32, n as u32, k as u32, Format::MxFp6E2m3) };
        for text in &texts {
            let config = Config::parse(text).expect("canonical text");
            let weight = PackedWeight::pack(&weight, config.layout()).expect("legal");
            let gemm = Gemm::new(&config, &problem, cpu.device()).expect("launchable");
            let mut workspace = vec![0; gemm.workspace_bytes()];
            for round in 0..3 {
                // A config's first use on a process makes its look-up tables, in place.
                let before = ALLOCATIONS.load(Ordering::SeqCst);
                gemm.run(
                    &weight,
                    Activation::F32(&activation),
                    None,
                    Output::F32(&mut output),
                    &mut workspace,
                )
                .expect("legal");
                let after = ALLOCATIONS.load(Ordering::SeqCst);
                assert_eq!(after, before, "{text}, a={a}, round {round}");
            }
        }
    }
}
