// The geometry of one tile, and small tools. Part of gemm.hip, whose head has the picture and the macros.

#define MEMBER __device__ inline __attribute__((always_inline))
typedef __amdgpu_buffer_rsrc_t Buffer;
VECTOR(bf16x4, __bf16, 4);

constexpr u32 WAVES_PER_SIMD = (WAVES_M * WAVES_N * GROUPS_PER_CU + 3) / 4;

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
static_assert(CODE_UNITS <= 32, "more pieces than a wave has scalar registers for");
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

// One of two values. Not `?:` on members, which would be one of two places in memory.
template <class T> DEVICE T choose(bool first, T x, T y) { return first ? x : y; }

// A buffer whose base and size are the same in all lanes, which the compiler does not always see.
DEVICE Buffer buffer(const void *base, u32 bytes) {
  const u64 at = (u64)base;
  const u64 scalar = (u64)uniform((u32)(at >> 32)) << 32 | uniform((u32)at);
  return __builtin_amdgcn_make_buffer_rsrc((void *)scalar, 0, uniform(bytes), 0x00020000);
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
