//! The loop nest over micro-kernels.
//!
//! Work is cut into units of (part of K, column block, rows). A thread takes a unit whole:
//!
//! ```text
//! for each pass of kc along the part's K
//!     decode or gather the column block into scratch, if the config says so
//!     for each mc of the unit's rows
//!         for each tile_n of the column block
//!             for each tile_m of the rows: micro-kernel
//! ```
//!
//! Sums are kept in the thread's own accumulators: of one row of tiles where there is a single pass, of the whole unit
//! where there are several. Which thread takes a unit, and how units are cut, changes no result: each element is summed
//! along K in one order. The output's rows and columns of different units are disjoint.

use crate::cpu::activation::Activation;
use crate::cpu::gemm::Plan;
use crate::cpu::kernel::{BIASED, DECODED, Tile, decode};
use crate::cpu::output::{Epilogue, Target};
use crate::cpu::pack::{BLOCK, COLUMNS, PackedWeight, block_bytes};
use crate::cpu::tables::Tables;
use crate::cpu::{scratch, team};

/// What all threads of a run see.
pub(super) struct Shared<'a> {
    pub(super) plan: &'a Plan,
    pub(super) weight: &'a PackedWeight,
    pub(super) activation: Activation<'a>,
    pub(super) tables: &'static Tables,
    pub(super) epilogue: Epilogue<'a>,
    pub(super) output: Target,
    /// `plan.regions.total` bytes, aligned to a cache line, borrowed uniquely by this run.
    pub(super) workspace: *mut u8,
}

// SAFETY: threads write disjoint parts of output and workspace: see the module's documentation.
unsafe impl Sync for Shared<'_> {}

/// Elements of the activation that are worth waking a thread for.
const PACK_SHARE: usize = 32 << 10;

pub(super) fn run(shared: &Shared<'_>) {
    let plan = shared.plan;
    let threads = plan.tiling.threads as usize;
    let pack_threads = (plan.m * plan.packing.k / PACK_SHARE).clamp(1, threads);
    team::run(pack_threads, plan.row_tiles(), &|_, row_tile| shared.pack(row_tile));
    let row_units = plan.m.div_ceil(plan.unit_rows);
    let columns = plan.column_blocks();
    team::run(threads, plan.parts * columns * row_units, &|thread, unit| {
        // Neighbouring units share their weights, so that the second finds them in the shared cache.
        let (rest, rows) = (unit / row_units, unit % row_units);
        shared.unit(thread, rest / columns, rest % columns, rows);
    });
    if plan.parts > 1 {
        team::run(threads, plan.m, &|_, row| shared.add_parts(row));
    }
}

/// One column block's weights for one pass.
struct Weights {
    start: *const u8,
    /// Bytes from a register tile of panels to the next, by its number of panels.
    tile_step: usize,
    /// Bytes from a panel to the next within a register tile.
    panel_stride: usize,
    block_stride: usize,
}

impl Shared<'_> {
    fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset <= self.plan.regions.total);
        // SAFETY: offsets come from the plan's regions, which lie inside the workspace.
        unsafe { self.workspace.add(offset) }
    }

    /// The packed activation of a row tile, from a block on.
    fn tile_activation(&self, row_tile: usize, block: usize) -> *mut u8 {
        let packing = &self.plan.packing;
        let (_, rows) = self.plan.tile_rows(row_tile);
        let words = row_tile * self.plan.tile_m() * packing.row_words()
            + block * packing.slots.words(packing.scaled()) * rows;
        self.at(words * 4)
    }

    fn token_scale(&self, row: usize) -> f32 {
        if !self.epilogue.token_scales {
            return 1.0;
        }
        // SAFETY: the region holds one f32 per row, written by `pack` before any unit runs.
        unsafe { self.at(self.plan.regions.token_scales).cast::<f32>().add(row).read() }
    }

    fn pack(&self, row_tile: usize) {
        let plan = self.plan;
        let (rows, kernel_rows) = plan.tile_rows(row_tile);
        let first = row_tile * plan.tile_m();
        // SAFETY: each row tile's words, and each row's scale, belong to one call.
        let (out, scales) = unsafe {
            let out = self.tile_activation(row_tile, 0).cast::<u32>();
            let out = std::slice::from_raw_parts_mut(out, kernel_rows * plan.packing.row_words());
            let scales = self.at(plan.regions.token_scales).cast::<f32>();
            let count = if plan.packing.token_scaled() { rows } else { 0 };
            let offset = if count == 0 { 0 } else { first };
            (out, std::slice::from_raw_parts_mut(scales.add(offset), count))
        };
        plan.packing.tile(self.activation, first, rows, kernel_rows, out, scales);
    }

    /// Multiplies one unit of work.
    fn unit(&self, thread: usize, part: usize, column_block: usize, row_unit: usize) {
        let plan = self.plan;
        let panels = plan.n.div_ceil(COLUMNS);
        let first_panel = column_block * plan.nc;
        let width = plan.nc.min(panels - first_panel);
        let tiles = row_unit * plan.unit_rows / plan.tile_m()
            ..((row_unit + 1) * plan.unit_rows).min(plan.padded_rows()) / plan.tile_m();
        let part_start = plan.blocks * part / plan.parts;
        let part_end = plan.blocks * (part + 1) / plan.parts;
        let own = plan.regions.threads + thread * plan.regions.thread_bytes;
        let single_pass = part_end - part_start <= plan.kc;
        let mut block = part_start;
        while block < part_end {
            let blocks = plan.kc.min(part_end - block);
            let weights = if plan.decodes() {
                self.decode(self.at(own + plan.regions.scratch), first_panel, width, block, blocks)
            } else {
                self.packed(first_panel, block)
            };
            let (first, last) = (block == part_start, block + blocks == part_end);
            for rows in row_blocks(tiles.clone(), plan.mc / plan.tile_m()) {
                let mut panel = 0;
                while panel < width {
                    let np = tile_panels(plan.tiling.tile_n as usize / COLUMNS, width - panel, plan);
                    for row_tile in rows.clone() {
                        let (acc, ld) = if plan.parts > 1 {
                            self.part_sums(part, row_tile * plan.tile_m(), first_panel + panel)
                        } else {
                            let row = if single_pass { 0 } else { (row_tile - tiles.start) * plan.tile_m() };
                            let ld = plan.nc * COLUMNS;
                            (self.at(own + (row * ld + panel * COLUMNS) * 4).cast::<f32>(), ld)
                        };
                        let tile = Tile {
                            weight: weights.start.wrapping_add(panel * weights.tile_step),
                            panel_stride: weights.panel_stride,
                            block_stride: weights.block_stride,
                            blocks,
                            a: self.tile_activation(row_tile, block),
                            acc,
                            ld,
                            fresh: first,
                            prefetch: if row_tile == tiles.start { plan.tiling.prefetch as usize } else { 0 },
                            scaled_a: plan.packing.scaled(),
                            tables: self.tables,
                        };
                        // SAFETY: `Gemm::new` checked the processor's features through the predicate. The weights of
                        // a column block, the packed activation and the accumulators have the extent that `Tile` asks
                        // for by construction of the plan, and the accumulators are this thread's or this unit's own.
                        unsafe { plan.kernel(row_tile, np)(&tile) };
                        if last && plan.parts == 1 {
                            self.finish(row_tile, first_panel + panel, np, acc, ld);
                        }
                    }
                    panel += np;
                }
            }
            block += blocks;
        }
    }

    /// Where a column block's packed weights lie.
    fn packed(&self, first_panel: usize, block: usize) -> Weights {
        let plan = self.plan;
        let interleave = plan.tiling.layout.interleave().map_or(1, |panels| panels as usize);
        let bytes = block_bytes(self.weight.format());
        // Column blocks begin at whole groups of interleaved panels, and tiles of such a layout are whole groups.
        let tile_step = plan.blocks * bytes;
        let start = first_panel * tile_step + block * interleave * bytes;
        let start = self.weight.bytes().as_ptr().wrapping_add(start);
        let panel_stride = if interleave == 1 { tile_step } else { bytes };
        Weights { start, tile_step, panel_stride, block_stride: interleave * bytes }
    }

    /// Stores a finished tile.
    fn finish(&self, row_tile: usize, panel: usize, panels: usize, acc: *mut f32, ld: usize) {
        let plan = self.plan;
        let column = panel * COLUMNS;
        let columns = (panels * COLUMNS).min(plan.n - column);
        let first = row_tile * plan.tile_m();
        for row in 0..plan.tile_rows(row_tile).0 {
            // SAFETY: the kernel has written these sums, and the output's rows and columns are this unit's own.
            unsafe {
                let sums = std::slice::from_raw_parts_mut(acc.add(row * ld), columns);
                let at = (first + row) * plan.n + column;
                self.epilogue.store(sums, self.token_scale(first + row), column, self.output, at);
            }
        }
    }

    /// The accumulators of a part of K from a row and a panel on, and their row stride.
    fn part_sums(&self, part: usize, row: usize, panel: usize) -> (*mut f32, usize) {
        let plan = self.plan;
        let ld = plan.padded_n();
        let element = (part * plan.padded_rows() + row) * ld + panel * COLUMNS;
        (self.at(plan.regions.parts + element * 4).cast::<f32>(), ld)
    }

    /// Adds the parts of one row in order, into the first, and stores the sum.
    fn add_parts(&self, row: usize) {
        let plan = self.plan;
        // SAFETY: every unit has run, and each row of the parts and of the output belongs to one call.
        unsafe {
            let row_of = |part| self.part_sums(part, row, 0).0;
            let sums = std::slice::from_raw_parts_mut(row_of(0), plan.n);
            for part in 1..plan.parts {
                let more = std::slice::from_raw_parts(row_of(part).cast_const(), plan.n);
                for (sum, more) in sums.iter_mut().zip(more) {
                    *sum += more;
                }
            }
            self.epilogue.store(sums, self.token_scale(row), 0, self.output, row * plan.n);
        }
    }

    /// Decodes a pass of a column block into scratch, panel by panel.
    fn decode(&self, to: *mut u8, first_panel: usize, width: usize, block: usize, blocks: usize) -> Weights {
        let plan = self.plan;
        let block_stride = plan.source.block_bytes(plan.tiling.path);
        let panel_stride = blocks * block_stride;
        // SAFETY: the thread's scratch region has room for `nc` panels of `kc` blocks.
        let out = unsafe { std::slice::from_raw_parts_mut(to, width * panel_stride) };
        for (panel, out) in out.chunks_exact_mut(panel_stride).enumerate() {
            for (index, out) in out.chunks_exact_mut(block_stride).enumerate() {
                let (elements, scales) = out.split_at_mut(if plan.biased() { BIASED } else { DECODED });
                let at = (first_panel + panel, block + index);
                scratch::fill(self.weight, self.tables, plan, at, elements, scales);
            }
        }
        Weights { start: to, tile_step: panel_stride, panel_stride, block_stride }
    }
}

/// Row tiles `rows`, `step` at a time.
fn row_blocks(rows: std::ops::Range<usize>, step: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let end = rows.end;
    rows.step_by(step.max(1)).map(move |start| start..(start + step.max(1)).min(end))
}

/// Panels of the next tile: as many as a tile has, or a smaller power of two at the ragged end. Interleaved panels are
/// padded to whole tiles.
fn tile_panels(tile: usize, left: usize, plan: &Plan) -> usize {
    let padded = !plan.decodes() && plan.tiling.layout.interleave().is_some_and(|panels| panels > 1);
    if padded || left >= tile { tile } else { 1 << left.ilog2() }
}

const _: () = assert!(BLOCK.is_multiple_of(4) && align_of::<decode::Pairs>() == 4);
