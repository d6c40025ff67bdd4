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

#ifndef __global__
#define __global__ __attribute__((global))
#endif
#ifndef __device__
#define __device__ __attribute__((device))
#endif
#ifndef __shared__
#define __shared__ __attribute__((shared))
#endif
#define MEMBER __device__ inline __attribute__((always_inline))
#define DEVICE static MEMBER
#define LDS __attribute__((address_space(3)))
#define VECTOR(NAME, TYPE, LENGTH) typedef TYPE NAME __attribute__((ext_vector_type(LENGTH)))

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
VECTOR(i32x2, int, 2);
VECTOR(i32x4, int, 4);
VECTOR(i32x8, int, 8);
VECTOR(f32x4, float, 4);
VECTOR(f32x16, float, 16);
VECTOR(bf16x4, __bf16, 4);
VECTOR(bf16x8, __bf16, 8);
VECTOR(i16x4, short, 4);
typedef __amdgpu_buffer_rsrc_t Buffer;

constexpr unsigned WAVES_PER_SIMD = (WAVES_M * WAVES_N * GROUPS_PER_CU + 3) / 4;

#ifdef __gfx950__
constexpr bool DMA = true;
constexpr u32 MOST_LDS = 160 * 1024;
#else
constexpr bool DMA = false;
constexpr u32 MOST_LDS = 64 * 1024;
#endif

constexpr u32 bits(u32 format) { return format < 2 ? 8 : format < 4 ? 6 : format == 4 ? 4 : 16; }

// Whether one instruction takes all of a lane's 128-wide step (or half of it), in up to eight registers an operand.
#if defined(__gfx950__) && A_FORMAT < 5
#define WIDE_INSTRUCTION 1
#else
#define WIDE_INSTRUCTION 0
#endif
constexpr u32 WAVES = WAVES_M * WAVES_N, THREADS = WAVES * 64;
// Bytes of a piece; rows of a slab; bytes of a slab's scales a step.
constexpr u32 PIECE = 1024, SLAB = 64, SCALE_STEP = 256;
// Steps of 128 that a stage has scales for.
constexpr u32 STEPS = (TILE_K + 127) / 128;
// Slabs whose data lie together along K.
constexpr u32 UNIT_SLABS = C0C1 ? 4 : 1;
constexpr bool MX = SCALES == 1;

template <u32 FORMAT, u32 TILE, u32 WAVES_ALONG> struct Operand {
  static constexpr u32 BITS = bits(FORMAT);
  static constexpr u32 SLABS = TILE / SLAB;
  // Bytes of a slab in a step of 128, and in a stage.
  static constexpr u32 STEP_BYTES = SLAB * 16 * BITS, STAGE_BYTES = STEP_BYTES * TILE_K / 128;
  static constexpr u32 BYTES = SLABS * STAGE_BYTES, PIECES = BYTES / PIECE, SLAB_PIECES = STAGE_BYTES / PIECE;
  static constexpr u32 SCALE_BYTES = MX ? SLABS * STEPS * SCALE_STEP : 0;
  // Panels of 16 rows, and instructions' blocks of rows, of a wave.
  static constexpr u32 PANELS = TILE / 16 / WAVES_ALONG, BLOCKS = PANELS * 16 / MFMA;
  static constexpr u32 SCALE_WORDS = (PANELS + 3) / 4;
  static_assert(TILE % SLAB == 0 && PANELS * WAVES_ALONG * 16 == TILE && BLOCKS * MFMA == PANELS * 16);
  static_assert(PANELS % 4 == 0 || 4 % PANELS == 0, "a wave's panels straddle slabs");
};
typedef Operand<A_FORMAT, TILE_M, WAVES_M> OperandA;
typedef Operand<B_FORMAT, TILE_N, WAVES_N> OperandB;

constexpr u32 SCALES_AT = OperandA::BYTES + OperandB::BYTES;
constexpr u32 STAGE = SCALES_AT + OperandA::SCALE_BYTES + OperandB::SCALE_BYTES;
// Copies of one wave a stage: of codes, of scales.
constexpr u32 PIECES = OperandA::PIECES + OperandB::PIECES, CODE_UNITS = PIECES / WAVES;
constexpr u32 SCALE_PIECES = MX ? (OperandA::SLABS + OperandB::SLABS) * STEPS : 0;
constexpr u32 SCALE_UNITS = (SCALE_PIECES + WAVES - 1) / WAVES;
constexpr u32 UNITS = CODE_UNITS + SCALE_UNITS;
// Where waves that have no scales left to copy put what they copy all the same.
constexpr u32 SINK_AT = STAGES * STAGE, SINK = SCALE_PIECES % WAVES ? WAVES * SCALE_STEP : 0;
static_assert(PIECES % WAVES == 0, "waves copy different numbers of pieces");
static_assert(SINK_AT + SINK <= MOST_LDS, "the stages do not fit into LDS");
static_assert(!DMA || (STAGES >= 2 && (STAGES - 2) * UNITS < 64), "vmcnt has six bits");
static_assert(DMA || STAGES <= 2);
// An offset outside every buffer: what it fetches is zeros, and no memory is read.
constexpr u32 OUTSIDE = 0x80000000;

// Calls f<0>(), f<1>(), … f<N - 1>().
template <u32 N, u32 I = 0, class F> DEVICE void repeat(F f) {
  if constexpr (I < N) {
    f.template operator()<I>();
    repeat<N, I + 1>(f);
  }
}

DEVICE u32 uniform(u32 x) { return __builtin_amdgcn_readfirstlane(x); }

DEVICE Buffer buffer(const void *base, u32 bytes) {
  return __builtin_amdgcn_make_buffer_rsrc((void *)base, 0, bytes, 0x00020000);
}

// Waits until at most N of this wave's memory operations are under way. As assembly with a memory clobber, because the
// compiler moves loads across the builtin.
template <u32 N> DEVICE void wait_for_all_but() {
  static_assert(N < 64);
  asm volatile("s_waitcnt vmcnt(%0)" ::"n"(N) : "memory");
}

// All waves' reads of LDS before it are done, and nothing is moved across it.
DEVICE void barrier() {
  __builtin_amdgcn_sched_barrier(0);
  asm volatile("s_waitcnt lgkmcnt(0)" ::: "memory");
  __builtin_amdgcn_s_barrier();
  asm volatile("" ::: "memory");
  __builtin_amdgcn_sched_barrier(0);
}

// The tile at a position of the launch order: every XCD (workgroups go round the XCDs) takes neighbouring positions, and
// positions go down GROUP_M tiles along M before the next along N.
DEVICE void tile_at(u32 position, u32 tiles_m, u32 tiles_n, u32 &m, u32 &n) {
  if constexpr (XCDS > 1) {
    const u32 tiles = tiles_m * tiles_n, per = tiles / XCDS, longer = tiles % XCDS;
    const u32 xcd = position % XCDS, first = xcd * per + (xcd < longer ? xcd : longer);
    position = first + position / XCDS;
  }
  const u32 group = position / (GROUP_M * tiles_n), within = position % (GROUP_M * tiles_n);
  const u32 left = tiles_m - group * GROUP_M, height = left < GROUP_M ? left : GROUP_M;
  m = group * GROUP_M + within % height;
  n = within / height;
}

// One operand's part of a tile, as buffers that end where the operand or the tile ends.
struct Source {
  Buffer codes, scales;
  // Slab of the tile's first row in its unit; bytes of a unit's codes and scales.
  u32 first, code_stride, scale_stride;

  template <class O> DEVICE Source of(const u8 *codes, const u8 *scales, u32 rows, u32 steps, u32 tile) {
    const u32 slab = tile * O::SLABS, unit = slab / UNIT_SLABS;
    const u32 units = (rows + UNIT_SLABS * SLAB - 1) / (UNIT_SLABS * SLAB);
    const u32 spanned = (slab % UNIT_SLABS + O::SLABS + UNIT_SLABS - 1) / UNIT_SLABS;
    const u32 have = units - unit < spanned ? units - unit : spanned;
    const u32 stored = steps + (C0C1 ? 2 : 0);
    Source s;
    s.first = slab % UNIT_SLABS;
    s.code_stride = stored * UNIT_SLABS * O::STEP_BYTES;
    s.scale_stride = stored * UNIT_SLABS * SCALE_STEP;
    s.codes = buffer(codes + (u64)unit * s.code_stride, have * s.code_stride);
    s.scales = buffer(MX ? scales + (u64)unit * s.scale_stride : scales, MX ? have * s.scale_stride : 0);
    return s;
  }

  // Offset of a piece of codes of stage `stage`.
  template <class O> MEMBER u32 piece(u32 index, u32 stage, u32 steps) const {
    const u32 slab = first + index / O::SLAB_PIECES, part = index % O::SLAB_PIECES;
    const u32 unit = slab / UNIT_SLABS * code_stride;
    if constexpr (C0C1) {
      const u32 quarter = slab % 4, plane = part < 4 ? quarter * 4096 : 16384 + quarter * 2048 - 4 * PIECE;
      return stage < steps ? unit + stage * 4 * O::STEP_BYTES + plane + part * PIECE : OUTSIDE;
    }
    const u32 along = stage * O::STAGE_BYTES + part * PIECE;
    return along < code_stride ? unit + along : OUTSIDE;
  }

  // Offset of a piece of scales: those of slab index / STEPS, step index % STEPS.
  MEMBER u32 scale_piece(u32 index, u32 stage, u32 steps) const {
    const u32 slab = first + index / STEPS, step = stage * STEPS + index % STEPS;
    const u32 unit = slab / UNIT_SLABS * scale_stride + step * UNIT_SLABS * SCALE_STEP;
    return step < steps ? unit + (C0C1 ? slab % 4 / 2 * 512 + slab % 2 * 4 : 0) : OUTSIDE;
  }
};

// What a lane reads of an operand in LDS.
struct Reader {
  // Offsets of its 16-byte and 8-byte vectors and of its scales, and the shift that brings the wave's first panel down.
  u32 wide, narrow, scale, shift;

  template <class O> DEVICE Reader of(u32 codes_at, u32 scales_at, u32 wave, u32 lane) {
    const u32 panel = wave * O::PANELS, slab = panel / 4, within = panel % 4;
    const u32 half = MFMA == 32 ? lane / 16 % 2 : 0;
    const u32 element = MFMA == 32 ? lane / 32 * 16 + lane % 16 : lane;
    Reader r;
    r.wide = codes_at + slab * O::STAGE_BYTES + (within + half) * 1024 + element * 16;
    r.narrow = codes_at + slab * O::STAGE_BYTES + 4096 + (within + half) * 512 + element * 8;
    r.scale = scales_at + slab * STEPS * SCALE_STEP + element * 4;
    r.shift = 8 * (half + (O::PANELS < 4 ? within : 0));
    return r;
  }
};

#define AT(TYPE, OFFSET) (*(LDS const TYPE *)(stage + (OFFSET)))

// Sub-steps of a stage: instructions along K.
constexpr u32 SUBSTEPS = (WIDE_INSTRUCTION ? TILE_K / 128 : OperandA::STAGE_BYTES / 4096) * (MFMA / 16);


typedef float Sum __attribute__((ext_vector_type(MFMA == 32 ? 16 : 4)));

#if WIDE_INSTRUCTION
typedef i32x8 Fragment;
#else
typedef i32x4 Fragment;
#endif

// A lane's elements of one block of rows in one sub-step.
template <class O, u32 BLOCK, u32 SUBSTEP> DEVICE Fragment fragment(const LDS u8 *stage, const Reader &r) {
  constexpr u32 panel = BLOCK * MFMA / 16, slab = panel / 4 * O::STAGE_BYTES, at = panel % 4;
#if WIDE_INSTRUCTION
  constexpr u32 step = SUBSTEP / (MFMA / 16) * O::STEP_BYTES, half = SUBSTEP % (MFMA / 16);
  if constexpr (O::BITS == 8) {
    // 32 rows: the halves are the planes. 16 rows: both planes at once.
    constexpr u32 low = slab + step + half * 4096 + at * 1024, high = low + (MFMA == 32 ? 512 : 4096);
    const i32x4 x = AT(i32x4, r.wide + low), y = AT(i32x4, r.wide + high);
    return i32x8{x[0], x[1], x[2], x[3], y[0], y[1], y[2], y[3]};
  }
  const i32x4 x = AT(i32x4, r.wide + (slab + step + at * 1024 + half * 512));
  if constexpr (O::BITS == 4) return i32x8{x[0], x[1], x[2], x[3], 0, 0, 0, 0};
  const i32x2 y = AT(i32x2, r.narrow + (slab + step + at * 512 + half * 256));
  return i32x8{x[0], x[1], x[2], x[3], y[0], y[1], 0, 0};
#else
  constexpr u32 plane = SUBSTEP / (MFMA / 16), half = SUBSTEP % (MFMA / 16);
  return AT(i32x4, r.wide + (slab + plane * 4096 + at * 1024 + half * 512));
#endif
}

// The scales of a slab's four panels in a sub-step, the wave's first panel in the lowest byte.
template <class O, u32 SLAB_INDEX, u32 SUBSTEP> DEVICE u32 scales(const LDS u8 *stage, const Reader &r) {
  if constexpr (!MX) return 0;
  constexpr u32 step = SUBSTEP / (MFMA / 16), half = SUBSTEP % (MFMA / 16);
  const u32 four = AT(u32, r.scale + (SLAB_INDEX * STEPS * SCALE_STEP + step * SCALE_STEP + half * 128));
  return MFMA == 32 || O::PANELS < 4 ? four >> r.shift : four;
}

#if MFMA == 32
#define F8F6F4 __builtin_amdgcn_mfma_scale_f32_32x32x64_f8f6f4
#define BF16 __builtin_amdgcn_mfma_f32_32x32x16_bf16
#define HALF_BF16 __builtin_amdgcn_mfma_f32_32x32x8bf16_1k
#define HALF_FP8 __builtin_amdgcn_mfma_f32_32x32x16_fp8_fp8
#else
#define F8F6F4 __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4
#define BF16 __builtin_amdgcn_mfma_f32_16x16x32_bf16
#define HALF_BF16 __builtin_amdgcn_mfma_f32_16x16x16bf16_1k
#define HALF_FP8 __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8
#endif

// sum += B's block × A's block; of each dword of scales, the block's panel.
template <u32 BLOCK_A, u32 BLOCK_B>
DEVICE Sum multiply(Fragment b, Fragment a, Sum sum, u32 scale_b, u32 scale_a) {
#if WIDE_INSTRUCTION && SCALES == 1
  constexpr int select_a = BLOCK_A * MFMA / 16 % 4, select_b = BLOCK_B * MFMA / 16 % 4;
  return F8F6F4(b, a, sum, B_FORMAT, A_FORMAT, select_b, scale_b, select_a, scale_a);
#elif WIDE_INSTRUCTION
  // Scales of literally 0 make the instruction without scales.
  return F8F6F4(b, a, sum, B_FORMAT, A_FORMAT, 0, 0, 0, 0);
#elif defined(__gfx950__)
  return BF16(__builtin_bit_cast(bf16x8, b), __builtin_bit_cast(bf16x8, a), sum, 0, 0, 0);
#else
  // Two instructions, each of which takes half of every lane's 16 bytes.
  repeat<2>([&]<u32 H>() {
    const i32x2 y = {b[2 * H], b[2 * H + 1]}, x = {a[2 * H], a[2 * H + 1]};
#if A_FORMAT == 5
    sum = HALF_BF16(__builtin_bit_cast(i16x4, y), __builtin_bit_cast(i16x4, x), sum, 0, 0, 0);
#else
    sum = HALF_FP8(__builtin_bit_cast(long, y), __builtin_bit_cast(long, x), sum, 0, 0, 0);
#endif
  });
  return sum;
#endif
}

// Multiplies a stage. All fragments first, or, streamed, B's first and then A's block by block, one ahead.
DEVICE void multiply_stage(const LDS u8 *stage, const Reader &ra, const Reader &rb,
                           Sum (&sums)[OperandA::BLOCKS][OperandB::BLOCKS]) {
  repeat<SUBSTEPS>([&]<u32 S>() {
    Fragment a[OperandA::BLOCKS], b[OperandB::BLOCKS];
    u32 scales_a[OperandA::SCALE_WORDS], scales_b[OperandB::SCALE_WORDS];
    repeat<OperandA::SCALE_WORDS>([&]<u32 W>() { scales_a[W] = scales<OperandA, W, S>(stage, ra); });
    repeat<OperandB::SCALE_WORDS>([&]<u32 W>() { scales_b[W] = scales<OperandB, W, S>(stage, rb); });
    repeat<OperandB::BLOCKS>([&]<u32 J>() { b[J] = fragment<OperandB, J, S>(stage, rb); });
    repeat<STREAMED ? 1 : OperandA::BLOCKS>([&]<u32 I>() { a[I] = fragment<OperandA, I, S>(stage, ra); });
    if (PRIORITY) __builtin_amdgcn_s_setprio(1);
    repeat<OperandA::BLOCKS>([&]<u32 I>() {
      if constexpr (STREAMED && I + 1 < OperandA::BLOCKS) a[I + 1] = fragment<OperandA, I + 1, S>(stage, ra);
      repeat<OperandB::BLOCKS>([&]<u32 J>() {
        sums[I][J] = multiply<I, J>(b[J], a[I], sums[I][J], scales_b[J * MFMA / 64], scales_a[I * MFMA / 64]);
      });
      if (STREAMED) __builtin_amdgcn_sched_barrier(0);
    });
    if (PRIORITY) __builtin_amdgcn_s_setprio(0);
  });
}

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
  const u32 first = row < rows && column < n ? (row * n + column) * SIZE : OUTSIDE;
  if constexpr (N_ALIGNED) {
    if constexpr (OUT_BF16) __builtin_amdgcn_raw_buffer_store_b64(__builtin_bit_cast(i32x2, narrow), d, first, 0, CACHE);
    else __builtin_amdgcn_raw_buffer_store_b128(__builtin_bit_cast(i32x4, values), d, first, 0, CACHE);
    return;
  }
  repeat<4>([&]<u32 R>() {
    const u32 at = row < rows && column + R < n ? first + R * SIZE : OUTSIDE;
    if constexpr (OUT_BF16) __builtin_amdgcn_raw_buffer_store_b16(__builtin_bit_cast(short, narrow[R]), d, at, 0, CACHE);
    else __builtin_amdgcn_raw_buffer_store_b32(__builtin_bit_cast(int, values[R]), d, at, 0, CACHE);
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

// Copies of one stage by one wave.
struct Copier {
  Source a, b;
  u32 steps, wave, lane;

  // Source, offset and place in LDS of the wave's copy number UNIT of the codes.
  template <u32 UNIT, class F> MEMBER void with_piece(u32 stage, F f) const {
    constexpr u32 first = UNIT * WAVES, split = OperandA::PIECES;
    const u32 index = first + wave;
    const bool is_a = first + WAVES <= split || (first < split && index < split);
    const u32 offset = is_a ? a.template piece<OperandA>(index, stage, steps)
                            : b.template piece<OperandB>(index - split, stage, steps);
    if constexpr (first + WAVES <= split) f(a.codes, offset, index * PIECE);
    else if constexpr (first >= split) f(b.codes, offset, index * PIECE);
    else f(is_a ? a.codes : b.codes, offset, index * PIECE);
  }

#ifdef __gfx950__
  // Sends a stage to LDS: UNITS operations, whatever the stage.
  MEMBER void issue(LDS u8 *lds, u32 slot, u32 stage) const {
    LDS u8 *to = lds + slot * STAGE;
    repeat<CODE_UNITS>([&]<u32 U>() {
      with_piece<U>(stage, [&](Buffer from, u32 offset, u32 at) {
        __builtin_amdgcn_raw_ptr_buffer_load_lds(from, (LDS void *)(to + at), 16, lane * 16, offset, 0, 0);
      });
    });
    repeat<SCALE_UNITS>([&]<u32 U>() {
      constexpr u32 split = OperandA::SLABS * STEPS;
      const u32 index = U * WAVES + wave;
      const bool is_a = index < split, idle = index >= SCALE_PIECES;
      const u32 offset = is_a   ? a.scale_piece(index, stage, steps)
                         : idle ? OUTSIDE
                                : b.scale_piece(index - split, stage, steps);
      LDS u8 *place = idle ? lds + SINK_AT + wave * SCALE_STEP : to + SCALES_AT + index * SCALE_STEP;
      const u32 stride = C0C1 ? 8 : 4;
      __builtin_amdgcn_raw_ptr_buffer_load_lds(is_a ? a.scales : b.scales, (LDS void *)place, 4, lane * stride, offset,
                                               0, 0);
    });
    __builtin_amdgcn_sched_barrier(0);
  }
#else
  MEMBER void fetch(i32x4 (&held)[CODE_UNITS], u32 stage) const {
    repeat<CODE_UNITS>([&]<u32 U>() {
      with_piece<U>(stage, [&](Buffer from, u32 offset, u32) {
        held[U] = __builtin_bit_cast(i32x4, __builtin_amdgcn_raw_buffer_load_b128(from, lane * 16, offset, 0));
      });
    });
  }

  MEMBER void put(LDS u8 *lds, u32 slot, const i32x4 (&held)[CODE_UNITS]) const {
    repeat<CODE_UNITS>([&]<u32 U>() {
      *(LDS i32x4 *)(lds + slot * STAGE + (U * WAVES + wave) * PIECE + lane * 16) = held[U];
    });
  }
#endif
};

extern "C" __global__ __attribute__((amdgpu_flat_work_group_size(THREADS, THREADS),
                                     amdgpu_waves_per_eu(WAVES_PER_SIMD, WAVES_PER_SIMD))) void
gemm(const u8 *__restrict__ a, const u8 *__restrict__ b, const u8 *__restrict__ scales_a,
     const u8 *__restrict__ scales_b, const float *__restrict__ bias, u8 *__restrict__ d, u32 m, u32 n, u32 k, u32 groups) {
  __shared__ __attribute__((aligned(1024))) u8 shared[SINK_AT + SINK];
  LDS u8 *lds = (LDS u8 *)shared;
  const u32 lane = __builtin_amdgcn_workitem_id_x() % 64, wave = uniform(__builtin_amdgcn_workitem_id_x() / 64);
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
    Copier copy;
    copy.a = Source::of<OperandA>(a, scales_a, m, steps, tile_m);
    copy.b = Source::of<OperandB>(b, scales_b, n, steps, tile_n);
    copy.steps = steps, copy.wave = wave, copy.lane = lane;
    Sum sums[OperandA::BLOCKS][OperandB::BLOCKS];
    repeat<OperandA::BLOCKS>([&]<u32 I>() { repeat<OperandB::BLOCKS>([&]<u32 J>() { sums[I][J] = Sum(0.0f); }); });

#ifdef __gfx950__
    repeat<STAGES - 1>([&]<u32 S>() { copy.issue(lds, S, S); });
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
