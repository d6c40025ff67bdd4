// From LDS through the matrix cores. Part of gemm.hip.

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
