//! One GEMM on the CPU: a config bound to a problem.
//!
//! [`Gemm`] is a plan (see [`Plan`]): which micro-kernels, which blocks, and where everything lies in the caller's
//! workspace. Running it packs the activation into row tiles, multiplies unit by unit (see `nest`), and for split-K adds
//! the parts up in order. Nothing is allocated, and no result depends on which thread computed what.

use crate::config::Config;
use crate::cpu::activation::{Activation, Packing};
use crate::cpu::families::{Path, Tiling};
use crate::cpu::kernel::{self, Kernel, ROWS, Slots, Source};
use crate::cpu::nest::{self, Shared};
use crate::cpu::output::{Epilogue, Output};
use crate::cpu::pack::{BLOCK, COLUMNS, PackedWeight};
use crate::cpu::{tables, team};
use crate::device::Device;
use crate::family::{Reject, is_launchable};
use crate::layout::Layout;
use crate::problem::{self, OutType, Problem};

/// A launchable config for one problem: small, copied freely, holding no memory.
#[derive(Clone, Copy)]
pub struct Gemm {
    problem: Problem,
    plan: Plan,
}

/// Everything that follows from config and problem.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) tiling: Tiling,
    /// What the micro-kernels read.
    pub(super) source: Source,
    pub(super) packing: Packing,
    pub(super) m: usize,
    pub(super) n: usize,
    /// Blocks along K.
    pub(super) blocks: usize,
    /// Blocks along K of one pass; at least one.
    pub(super) kc: usize,
    /// Panels of a column block.
    pub(super) nc: usize,
    /// Rows whose activation stays in cache while they meet a column block: whole row tiles.
    pub(super) mc: usize,
    /// Rows of a unit of work: whole row tiles.
    pub(super) unit_rows: usize,
    /// Parts of K.
    pub(super) parts: usize,
    /// Kernels for full row tiles and for the last one, each for 1, 2 and 4 panels.
    pub(super) kernels: [[Option<Kernel>; 3]; 2],
    /// Rows of the last row tile that count, and rows its kernel has.
    pub(super) last_rows: (usize, usize),
    /// Byte offsets into the workspace, from its first aligned byte.
    pub(super) regions: Regions,
}

/// The workspace, in order of address: every region begins at a cache line.
#[derive(Clone, Copy, Default)]
pub(super) struct Regions {
    /// Row scales of a quantised activation. The packed activation is at 0.
    pub(super) token_scales: usize,
    /// Accumulators of the parts of K, `parts` × M × padded N.
    pub(super) parts: usize,
    /// The first thread's own region.
    pub(super) threads: usize,
    /// Within a thread's region: decoded weights. Accumulators are at 0.
    pub(super) scratch: usize,
    /// Bytes of a thread's region.
    pub(super) thread_bytes: usize,
    /// Bytes of it all.
    pub(super) total: usize,
}

/// Bytes to align a workspace by.
const ALIGN: usize = 64;
/// Rows of a unit that keeps partial sums between passes along K, so that they stay in cache.
const PARTIAL_ROWS: usize = 512;
/// The largest value of parameter `threads`.
const MOST_THREADS: u32 = 256;
/// Bytes of weights that stay in the first-level cache while several row tiles pass over them.
const SKINNY_PASS: usize = 16 << 10;

impl Gemm {
    /// Binds a config to a problem.
    ///
    /// # Errors
    /// What [`is_launchable`] says.
    pub fn new(config: &Config, problem: &Problem, device: &Device) -> Result<Self, Reject> {
        is_launchable(config, problem, device)?;
        let plan = Plan::new(&Tiling::of(config), problem)?;
        if plan.tiling.threads > 1 {
            team::start();
        }
        Ok(Gemm { problem: *problem, plan })
    }

    /// The problem it computes.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// Bytes of workspace that [`Gemm::run`] needs, at any alignment.
    pub fn workspace_bytes(&self) -> usize {
        self.plan.regions.total + ALIGN
    }

    /// Computes D = epilogue(A · Bᵀ).
    ///
    /// `activation` is row-major M × K, `output` row-major M × N of the problem's output type, and `bias` has N elements
    /// exactly if the problem has the epilogue. The workspace's content does not matter, before or after.
    ///
    /// # Errors
    /// If an operand's shape, format, layout or length is not what the problem and the config say, or the workspace is
    /// too small. The output is untouched then.
    pub fn run(
        &self,
        weight: &PackedWeight,
        activation: Activation<'_>,
        bias: Option<&[f32]>,
        mut output: Output<'_>,
        workspace: &mut [u8],
    ) -> Result<(), Reject> {
        self.check(weight, activation, bias, &output, workspace)?;
        let skip = workspace.as_ptr().align_offset(ALIGN);
        let workspace = &mut workspace[skip..];
        let shared = Shared {
            plan: &self.plan,
            weight,
            activation,
            tables: tables::tables(self.problem.b),
            epilogue: Epilogue {
                channel_scales: weight.channel_scales(),
                token_scales: self.plan.packing.token_scaled(),
                bias: bias.unwrap_or(&[]),
            },
            output: output.target(),
            workspace: workspace.as_mut_ptr(),
        };
        nest::run(&shared);
        Ok(())
    }

    fn check(
        &self,
        weight: &PackedWeight,
        activation: Activation<'_>,
        bias: Option<&[f32]>,
        output: &Output<'_>,
        workspace: &[u8],
    ) -> Result<(), Reject> {
        let Plan { m, n, packing, tiling, .. } = self.plan;
        let k = packing.k;
        if (weight.n(), weight.k()) != (n, k) {
            return Err(Reject::problem("the weight has another shape than the problem"));
        }
        if weight.format() != self.problem.b || weight.scaling() != self.problem.scaling {
            return Err(Reject::problem(
                "the weight has another format or scale granularity than the problem",
            ));
        }
        if weight.layout() != tiling.layout {
            return Err(Reject::param("layout", "the weight is packed in another layout"));
        }
        if activation.len() != m * k {
            return Err(Reject::problem("the activation must have M x K elements"));
        }
        let out_type = match output {
            Output::F32(_) => OutType::F32,
            Output::Bf16(_) => OutType::Bf16,
        };
        if output.len() != m * n || out_type != self.problem.out {
            return Err(Reject::problem("the output must have M x N elements of the problem's type"));
        }
        if bias.map(<[f32]>::len) != (self.problem.epilogue == problem::Epilogue::Bias).then_some(n) {
            return Err(Reject::problem("a bias of N elements must be given exactly if the problem has one"));
        }
        if workspace.len() < self.workspace_bytes() {
            return Err(Reject::problem("the workspace is smaller than workspace_bytes()"));
        }
        Ok(())
    }
}

/// The most workspace that a config needs for any M from 1 to `max_m`.
///
/// # Errors
/// If the config is not launchable for one of them.
pub fn max_workspace_bytes(
    config: &Config,
    problem: &Problem,
    device: &Device,
    max_m: u32,
) -> Result<usize, Reject> {
    // Regions grow with M but for the rounding of rows to tiles and of units to threads, and for what a single row tile
    // does differently.
    let tile_m = Tiling::of(config).tile_m;
    let last = max_m.saturating_sub(tile_m * MOST_THREADS).max(1);
    let mut most = 0;
    for m in (1..=tile_m.min(max_m)).chain(last..=max_m) {
        most = most.max(Gemm::new(config, &problem.with_m(m), device)?.workspace_bytes());
    }
    Ok(most)
}

impl Plan {
    pub(super) fn new(tiling: &Tiling, problem: &Problem) -> Result<Self, Reject> {
        let (m, n, k) = (problem.m as usize, problem.n as usize, problem.k as usize);
        let (path, tile_m) = (tiling.path, tiling.tile_m as usize);
        let packing = Packing { format: problem.a, slots: Slots::of(path), k };
        let blocks = k.div_ceil(BLOCK);
        let decodes = tiling.scratch || tiling.layout == Layout::RowMajor;
        let source = match (decodes, problem.b.is_mx()) {
            (false, _) => Source::Packed(problem.b),
            (true, false) => Source::Decoded,
            (true, true) => Source::DecodedScaled,
        };
        let tile_panels = tiling.tile_n as usize / COLUMNS;
        let nc = (tiling.nc as usize / COLUMNS).max(tile_panels);
        let tiles = m.div_ceil(tile_m);
        let last = m - (tiles - 1) * tile_m;
        let last_kernel =
            ROWS.into_iter().find(|rows| *rows >= last).expect("tiles are no larger than kernels");
        let full = if tiles > 1 { tile_m } else { last_kernel };
        let kernels = [full, last_kernel].map(|rows| {
            [1, 2, 4].map(|panels| {
                (panels <= tile_panels).then(|| kernel::kernel(path, source, rows, panels)).flatten()
            })
        });
        if kernels.iter().any(|kernels| kernels[tile_panels.ilog2() as usize].is_none()) {
            return Err(Reject::param("tile_m", "this build has no such register tile"));
        }
        let parts = tiling.split_k as usize;
        let part_blocks = blocks.div_ceil(parts);
        // A skinny kernel with more rows than a tile keeps a stretch of weights in cache for the other tiles.
        let skinny_kc = if tiling.skinny && tiles > 1 {
            (SKINNY_PASS / (tile_panels * source.block_bytes(path))).max(1)
        } else if tiling.skinny && decodes {
            (2 * SKINNY_PASS / (tile_panels * source.block_bytes(path))).max(1)
        } else {
            part_blocks
        };
        let kc = match tiling.kc as usize / BLOCK {
            0 => skinny_kc,
            kc => kc,
        }
        .min(part_blocks);
        let rounded = |rows: usize| rows.next_multiple_of(tile_m);
        let mc = if tiling.mc == 0 { rounded(m) } else { rounded(tiling.mc as usize) };
        let column_blocks = n.div_ceil(COLUMNS).div_ceil(nc);
        // Rows are divided only where columns and parts of K do not feed all threads.
        let row_units = (tiling.threads as usize).div_ceil(column_blocks * parts);
        let mut unit_rows = rounded(m.div_ceil(row_units));
        if kc < part_blocks {
            unit_rows = unit_rows.min(rounded(PARTIAL_ROWS));
        }
        let mut plan = Plan {
            tiling: *tiling,
            source,
            packing,
            m,
            n,
            blocks,
            kc,
            nc,
            mc,
            unit_rows,
            parts,
            kernels,
            last_rows: (last, last_kernel),
            regions: Regions::default(),
        };
        plan.regions = plan.lay_out(decodes);
        Ok(plan)
    }

    fn lay_out(&self, decodes: bool) -> Regions {
        let padded_rows = (self.row_tiles() - 1) * self.tile_m() + self.last_rows.1;
        let mut end = 0;
        let mut region = |bytes: usize| {
            let start = end;
            end += bytes.next_multiple_of(ALIGN);
            start
        };
        region(padded_rows * self.packing.row_words() * 4);
        let token_scales = region(if self.packing.token_scaled() { self.m * 4 } else { 0 });
        let parts =
            region(if self.parts > 1 { self.parts * self.padded_rows() * self.padded_n() * 4 } else { 0 });
        let threads = region(0);
        let acc_rows = if self.passes() > 1 { self.unit_rows } else { self.tile_m() };
        let scratch = (acc_rows * self.nc * COLUMNS * 4).next_multiple_of(ALIGN);
        let decoded = if decodes { self.kc * self.nc * self.source.block_bytes(self.tiling.path) } else { 0 };
        // Two lines between threads, for the hardware fetches neighbours.
        let thread_bytes = (scratch + decoded).next_multiple_of(ALIGN) + 2 * ALIGN;
        let total = threads + thread_bytes * self.tiling.threads as usize;
        Regions { token_scales, parts, threads, scratch, thread_bytes, total }
    }

    pub(super) fn tile_m(&self) -> usize {
        self.tiling.tile_m as usize
    }

    pub(super) fn row_tiles(&self) -> usize {
        self.m.div_ceil(self.tile_m())
    }

    /// M in whole row tiles.
    pub(super) fn padded_rows(&self) -> usize {
        self.row_tiles() * self.tile_m()
    }

    /// N in whole column blocks.
    pub(super) fn padded_n(&self) -> usize {
        self.n.div_ceil(COLUMNS).next_multiple_of(self.nc) * COLUMNS
    }

    pub(super) fn column_blocks(&self) -> usize {
        self.n.div_ceil(COLUMNS).div_ceil(self.nc)
    }

    /// Passes along K over the accumulators of a unit.
    pub(super) fn passes(&self) -> usize {
        self.blocks.div_ceil(self.parts).div_ceil(self.kc)
    }

    /// The kernel of a row tile for that many panels.
    pub(super) fn kernel(&self, row_tile: usize, panels: usize) -> Kernel {
        let last = (row_tile + 1 == self.row_tiles()) as usize;
        self.kernels[last][panels.ilog2() as usize].expect("narrower tiles than a legal one exist")
    }

    /// Rows of a row tile that count, and rows its kernel computes.
    pub(super) fn tile_rows(&self, row_tile: usize) -> (usize, usize) {
        if row_tile + 1 == self.row_tiles() { self.last_rows } else { (self.tile_m(), self.tile_m()) }
    }

    /// Whether weights are decoded, or gathered, into scratch.
    pub(super) fn decodes(&self) -> bool {
        !matches!(self.source, Source::Packed(_))
    }

    /// Whether scratch holds bytes for the integer dot.
    pub(super) fn biased(&self) -> bool {
        self.tiling.path == Path::Avx512Vnni
    }
}
