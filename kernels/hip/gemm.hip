// Tiled GEMM for gfx942 and gfx950: D = epilogue(A · Bᵀ), both operands packed (layouts mfma16 and c0c1, see the Rust
// modules of these names), D row-major.
//
//            one workgroup: TILE_M × TILE_N of D             one stage of LDS (TILE_K along K)
//            ┌──────────┬──────────┐                         ┌────────────┬────────────┬─────────┬─────────┐
//   WAVES_M  │ wave 0,0 │ wave 0,1 │                         │ A's slabs  │ B's slabs  │ A's E8M0│ B's E8M0│  × STAGES
//    rows of ├──────────┼──────────┤                         └────────────┴────────────┴─────────┴─────────┘
//    waves   │ wave 1,0 │ wave 1,1 │                           copied as they lie in memory, 1024 bytes a wave and
//            └──────────┴──────────┘                           instruction (a piece), 256 for scales
//
// Method. gfx950: pieces go from memory to LDS without passing registers, STAGES - 1 stages ahead; a wave waits until only the
// later stages' pieces of its own are under way (vmcnt), then for everybody (barrier). Every wave issues UNITS
// pieces a stage, always: past the end of K they are out of the buffers' range, which fetches nothing. No load into
// registers may stand in that loop, because it would count as a piece. gfx942 has no wide copy to LDS: there pieces pass
// through registers, fetched before a stage is multiplied and written to LDS after it.
//
// B is the matrix instruction's first operand and A its second, so that a lane ends up with four neighbours along N.
//
// Macros, all numbers: A_FORMAT, B_FORMAT (0 E4M3, 1 E5M2, 2 E2M3, 3 E3M2, 4 E2M1, 5 bf16), SCALES (0 none, 1 E8M0 per 32,
// 2 f32 per row), C0C1, TILE_M, TILE_N, TILE_K, WAVES_M, WAVES_N, STAGES, MFMA (16 or 32 rows), STREAMED, GROUP_M, XCDS,
// PERSISTENT, PRIORITY, NT_STORES, GROUPS_PER_CU, OUT_BF16, BIAS, N_ALIGNED (N is a multiple of 4).

// Four floats at an index of a buffer; zeros outside it.
DEVICE f32x4 four_floats(Buffer from, u32 index) {
  if constexpr (N_ALIGNED) return __builtin_bit_cast(f32x4, __builtin_amdgcn_raw_buffer_load_b128(from, index * 4, 0, 0));
  f32x4 x;
  repeat<4>([&]<u32 R>() {
    x[R] = __builtin_bit_cast(float, __builtin_amdgcn_raw_buffer_load_b32(from, (index + R) * 4, 0, 0));
  });
  return x;
}

// Stores four neighbours of a row of D, those of them that are below N.
DEVICE void store(Buffer d, u32 row, u32 column, u32 n, u32 rows, f32x4 values) {
  constexpr u32 SIZE = OUT_BF16 ? 2 : 4, CACHE = NT_STORES ? 2 : 0;
  const bf16x4 narrow = __builtin_convertvector(values, bf16x4);
  // & instead of &&, which would branch.
  const u32 first = ((row < rows) & (column < n)) ? (row * n + column) * SIZE : OUTSIDE;
  if constexpr (N_ALIGNED) {
    if constexpr (OUT_BF16) __builtin_amdgcn_raw_buffer_store_b64(__builtin_bit_cast(i32x2, narrow), d, first, 0, CACHE);
    else __builtin_amdgcn_raw_buffer_store_b128(__builtin_bit_cast(i32x4, values), d, first, 0, CACHE);
    return;
  }
  repeat<4>([&]<u32 R>() {
    const u32 at = ((row < rows) & (column + R < n)) ? first + R * SIZE : OUTSIDE;
    // Copies, because bit_cast of a vector's element casts its first one (clang 22).
    const float value = values[R];
    const __bf16 rounded = narrow[R];
    if constexpr (OUT_BF16) __builtin_amdgcn_raw_buffer_store_b16(__builtin_bit_cast(short, rounded), d, at, 0, CACHE);
    else __builtin_amdgcn_raw_buffer_store_b32(__builtin_bit_cast(int, value), d, at, 0, CACHE);
  });
}

// Scales, adds the bias, stores. `d` begins at the tile's first row and holds `rows` rows.
DEVICE void finish(const Sum (&sums)[OperandA::BLOCKS][OperandB::BLOCKS], Buffer d, Buffer factors_a, Buffer factors_b,
                   Buffer bias, u32 rows, u32 n, u32 tile_m, u32 tile_n, u32 wave, u32 lane) {
  const u32 wave_m = wave / WAVES_N, wave_n = wave % WAVES_N;
  const u32 row0 = wave_m * OperandA::PANELS * 16 + lane % MFMA;
  const u32 column0 = tile_n * TILE_N + wave_n * OperandB::PANELS * 16 + lane / MFMA * 4;
  repeat<OperandB::BLOCKS>([&]<u32 J>() {
    repeat<MFMA == 32 ? 4 : 1>([&]<u32 Q>() {
      const u32 column = column0 + J * MFMA + Q * 8;
      f32x4 factor_b, offset;
      if constexpr (SCALES == 2)
        factor_b = __builtin_bit_cast(f32x4, __builtin_amdgcn_raw_buffer_load_b128(factors_b, column * 4, 0, 0));
      if constexpr (BIAS) offset = four_floats(bias, column);
      repeat<OperandA::BLOCKS>([&]<u32 I>() {
        const u32 row = row0 + I * MFMA;
        f32x4 values;
        repeat<4>([&]<u32 R>() { values[R] = sums[I][J][Q * 4 + R]; });
        if constexpr (SCALES == 2) {
          const u32 at = (tile_m * TILE_M + row) * 4;
          values *= factor_b;
          values *= __builtin_bit_cast(float, __builtin_amdgcn_raw_buffer_load_b32(factors_a, at, 0, 0));
        }
        if constexpr (BIAS) values += offset;
        store(d, row, column, n, rows, values);
      });
    });
  });
}

KERNEL(THREADS, WAVES_PER_SIMD)
gemm(const u8 *__restrict__ a, const u8 *__restrict__ b, const u8 *__restrict__ scales_a,
     const u8 *__restrict__ scales_b, const float *__restrict__ bias, u8 *__restrict__ d, u32 m, u32 n, u32 k, u32 groups) {
  __shared__ __attribute__((aligned(1024))) u8 shared[SINK_AT + SINK];
  LDS u8 *lds = (LDS u8 *)shared;
  const u32 lane = lane_id(), wave = wave_id();
  const u32 steps = (k + 127) / 128, stages = (k + TILE_K - 1) / TILE_K;
  const u32 tiles_m = (m + TILE_M - 1) / TILE_M, tiles_n = (n + TILE_N - 1) / TILE_N, tiles = tiles_m * tiles_n;
  const Reader ra = Reader::of<OperandA>(0, SCALES_AT, wave / WAVES_N, lane);
  const Reader rb =
      Reader::of<OperandB>(OperandA::BYTES, SCALES_AT + OperandA::SCALE_BYTES, wave % WAVES_N, lane);
  const Buffer factors_a = buffer(scales_a, SCALES == 2 ? (m + SLAB - 1) / SLAB * SLAB * 4 : 0);
  const Buffer factors_b = buffer(scales_b, SCALES == 2 ? (n + SLAB - 1) / SLAB * SLAB * 4 : 0);
  const Buffer offsets = buffer(bias, BIAS ? n * 4 : 0);

  u32 position = __builtin_amdgcn_workgroup_id_x();
  do {
    u32 tile_m, tile_n;
    tile_at(position, tiles_m, tiles_n, tile_m, tile_n);
    const Source source_a = Source::of<OperandA>(a, scales_a, m, steps, tile_m);
    const Source source_b = Source::of<OperandB>(b, scales_b, n, steps, tile_n);
    const Copier copy(source_a, source_b, steps, wave, lane);
    Sum sums[OperandA::BLOCKS][OperandB::BLOCKS];
    repeat<OperandA::BLOCKS>([&]<u32 I>() { repeat<OperandB::BLOCKS>([&]<u32 J>() { sums[I][J] = Sum(0.0f); }); });

#ifdef __gfx950__
#pragma unroll 1
    for (u32 stage = 0; stage < STAGES - 1; stage++) copy.issue(lds, stage, stage);
    u32 slot = 0, free = STAGES - 1;
#pragma unroll 1
    for (u32 stage = 0; stage < stages; stage++) {
      wait_for_all_but<(STAGES - 2) * UNITS>();
      barrier();
      copy.issue(lds, free, stage + STAGES - 1);
      multiply_stage(lds + slot * STAGE, ra, rb, sums);
      free = slot;
      slot = slot + 1 == STAGES ? 0 : slot + 1;
    }
    wait_for_all_but<0>();
#else
    i32x4 held[CODE_UNITS];
    copy.fetch(held, 0);
    copy.put(lds, 0, held);
    barrier();
    u32 slot = 0;
#pragma unroll 1
    for (u32 stage = 0; stage < stages; stage++) {
      copy.fetch(held, stage + 1);
      multiply_stage(lds + slot * STAGE, ra, rb, sums);
      if (STAGES == 1) barrier();
      slot = STAGES == 1 ? 0 : 1 - slot;
      copy.put(lds, slot, held);
      barrier();
    }
#endif

    const u32 first = tile_m * TILE_M, rows = m - first < TILE_M ? m - first : TILE_M, size = OUT_BF16 ? 2 : 4;
    const Buffer out = buffer(d + (u64)first * n * size, rows * n * size);
    finish(sums, out, factors_a, factors_b, offsets, rows, n, tile_m, tile_n, wave, lane);
    if (!PERSISTENT) return;
    barrier();
    position += groups;
  } while (position < tiles);
}
