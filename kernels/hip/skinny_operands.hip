// Operands of the skinny GEMM: how a lane finds its elements in layout mfma16, and which instruction multiplies them.
//
// A *block* is the rows of one instruction: 16 (a panel) or, in FORM 3, 32 (two panels). Of a step of 128 along K a lane
// owns 32 elements of a block of 16 and 64 of a block of 32, in words of the order in which the instruction takes them.
// D = W * A^T: the weight is the first operand, so that a lane's four sums are neighbours in N. The sparse forms turn
// that around, as only the first operand of v_smfmac can be sparse.

// Number formats, as in quantise.hip.
constexpr u32 bits_of(u32 format) {
  return format == 0 ? 16 : format <= 2 ? 8 : format <= 4 ? 6 : 4;
}
// Operand type of v_mfma_scale: E4M3, E2M3, E3M2, E2M1.
constexpr int code_of(u32 format) {
  return format <= 2 ? 0 : format == 3 ? 2 : format == 4 ? 3 : 4;
}
constexpr bool MX = WEIGHT >= 2, SPARSE = FORM <= 1, WIDE = FORM == 3;
constexpr u32 STEP_K = 128, BLOCK_PANELS = WIDE ? 2 : 1, BLOCKS = PANELS / BLOCK_PANELS, HALVES = BLOCK_PANELS;
// Rows of D that a tile holds.
constexpr u32 TILE_M = SPARSE ? 8 : WIDE ? 32 : 16, TILE_N = 16 * PANELS;
constexpr u32 step_bytes(u32 bits) { return 64 * STEP_K / 8 * bits; }
// 16-byte vectors of a lane's 32 elements, and whether 8 bytes follow.
constexpr u32 planes(u32 bits) { return bits / 4 == 1 ? 1 : bits / 4; }
constexpr bool has_tail(u32 bits) { return bits == 6; }

template <bool IS_WIDE> struct Accumulator { typedef f32x4 type; };
template <> struct Accumulator<true> { typedef f32x16 type; };
typedef Accumulator<WIDE>::type Sum;

// A lane's words of a block, for a step.
template <u32 BITS> struct Fragment { u32 words[BITS * HALVES]; };
// The lane's E8M0 scales: the byte of panel j is byte j; in FORM 3 of panel j - j % 2, for the lane's own of the two.
struct Scales { u32 words[HALVES]; };

// Where a lane's first vector lies among those of a panel (64 a panel); the second half of a wide block is 32 on.
DEVICE u32 vector_of(u32 lane) {
  return WIDE ? 64 * (lane % 32 / 16) + 16 * (lane / 32) + lane % 16 : lane;
}

// Reads a fragment: `load16(plane, vector)` and `load8(vector)` read from wherever the operand lies.
template <u32 BITS, class Load16, class Load8>
DEVICE void read_fragment(Fragment<BITS>& to, Load16 load16, Load8 load8) {
#pragma unroll
  for (u32 p = 0; p < planes(BITS); p++)
#pragma unroll
    for (u32 s = 0; s < HALVES; s++) {
      const u32x4 v = load16(p, 32 * s);
      // 8 and 16 bits: plane after plane; 4 and 6 bits have one plane, and their halves are operands of their own.
      const u32 at = has_tail(BITS) ? 6 * s : 4 * (HALVES * p + s);
      for (u32 i = 0; i < 4; i++) to.words[at + i] = v[i];
    }
  if constexpr (has_tail(BITS))
#pragma unroll
    for (u32 s = 0; s < HALVES; s++) {
      const u32x2 v = load8(32 * s);
      to.words[6 * s + 4] = v[0], to.words[6 * s + 5] = v[1];
    }
}

DEVICE i32x2 two(const u32* w) { return i32x2{(int)w[0], (int)w[1]}; }
DEVICE i32x4 four(const u32* w) { return i32x4{(int)w[0], (int)w[1], (int)w[2], (int)w[3]}; }
DEVICE i32x8 eight(const u32* w, u32 words) {
  i32x8 v = {};
  for (u32 i = 0; i < 8; i++) v[i] = i < words ? (int)w[i] : 0;
  return v;
}

#if FORM <= 1
// Two bytes of every four of 16: what the sparse operand keeps of a row. Lane 16g + 2r holds elements 0 and 1 of row r's fours
// as row 2r, lane 16g + 2r + 1 elements 2 and 3 as row 2r + 1; together the two rows' sums are the whole product.
DEVICE void keep_half(const u32* four_words, u32 lane, u32* two_words) {
  const u32 selector = lane % 2 ? 0x07060302 : 0x05040100;
  two_words[0] = __builtin_amdgcn_perm(four_words[1], four_words[0], selector);
  two_words[1] = __builtin_amdgcn_perm(four_words[3], four_words[2], selector);
}

// The activation's lane: of plane p the vector 16g + r (K 64), or of plane g / 2 two vectors (K 128, where the sparse
// operand's 32 elements of a lane are contiguous though the dense operand's are not).
DEVICE u32 sparse_vector(u32 lane, u32 v) {
  const u32 group = lane / 16, row = lane % 16 / 2;
  return FORM == 0 ? 16 * group + row : 16 * (2 * (group % 2) + v) + row;
}
#endif

// sum += the products of one step.
DEVICE void multiply(const Fragment<bits_of(WEIGHT)>& w, const Fragment<bits_of(ACTIVATION)>& a, const Scales& sw,
          const Scales& sa, u32 block, u32 lane, Sum& sum) {
#if FORM <= 1
  const int indices = lane % 2 ? 0xeeeeeeee : 0x44444444;
  u32 kept[4];
  keep_half(a.words, lane, kept);
  keep_half(a.words + 4, lane, kept + 2);
#if FORM == 0
  sum = __builtin_amdgcn_smfmac_f32_16x16x64_fp8_fp8(two(kept), four(w.words), sum, indices, 0, 0);
  sum = __builtin_amdgcn_smfmac_f32_16x16x64_fp8_fp8(two(kept + 2), four(w.words + 4), sum, indices, 0, 0);
#else
  sum = __builtin_amdgcn_smfmac_f32_16x16x128_fp8_fp8(four(kept), eight(w.words, 8), sum, indices, 0, 0);
#endif
#elif WEIGHT == 0
#ifdef __gfx950__
#pragma unroll
  for (u32 i = 0; i < 4 * HALVES; i++) {
    const bf16x8 x = __builtin_bit_cast(bf16x8, four(w.words + 4 * i)), y = __builtin_bit_cast(bf16x8, four(a.words + 4 * i));
#if FORM == 3
    sum = __builtin_amdgcn_mfma_f32_32x32x16_bf16(x, y, sum, 0, 0, 0);
#else
    sum = __builtin_amdgcn_mfma_f32_16x16x32_bf16(x, y, sum, 0, 0, 0);
#endif
  }
#else
#pragma unroll
  for (u32 i = 0; i < 8 * HALVES; i++) {
    const i16x4 x = __builtin_bit_cast(i16x4, two(w.words + 2 * i)), y = __builtin_bit_cast(i16x4, two(a.words + 2 * i));
#if FORM == 3
    sum = __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(x, y, sum, 0, 0, 0);
#else
    sum = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(x, y, sum, 0, 0, 0);
#endif
  }
#endif
#elif WEIGHT == 1
#ifdef __gfx950__
  // Scales that are the literal 0 make the instruction without scales.
#pragma unroll
  for (u32 i = 0; i < HALVES; i++) {
    const i32x8 x = eight(w.words + 8 * i, 8), y = eight(a.words + 8 * i, 8);
#if FORM == 3
    sum = __builtin_amdgcn_mfma_scale_f32_32x32x64_f8f6f4(x, y, sum, 0, 0, 0, 0, 0, 0);
#else
    sum = __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(x, y, sum, 0, 0, 0, 0, 0, 0);
#endif
  }
#else
#pragma unroll
  for (u32 i = 0; i < 4 * HALVES; i++) {
    const long x = __builtin_bit_cast(long, two(w.words + 2 * i)), y = __builtin_bit_cast(long, two(a.words + 2 * i));
#if FORM == 3
    sum = __builtin_amdgcn_mfma_f32_32x32x16_fp8_fp8(x, y, sum, 0, 0, 0);
#else
    sum = __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(x, y, sum, 0, 0, 0);
#endif
  }
#endif
#else
  constexpr u32 W = bits_of(WEIGHT), A = bits_of(ACTIVATION);
  constexpr int TYPE_W = code_of(WEIGHT), TYPE_A = code_of(ACTIVATION);
#pragma unroll
  for (u32 i = 0; i < HALVES; i++) {
    const i32x8 x = eight(w.words + W * i, W), y = eight(a.words + A * i, A);
    // The byte of the scales is part of the instruction.
#if FORM == 3
#define SCALED(BYTE) __builtin_amdgcn_mfma_scale_f32_32x32x64_f8f6f4(x, y, sum, TYPE_W, TYPE_A, 2 * BYTE, sw.words[i], 0, sa.words[i])
    sum = block == 0 ? SCALED(0) : SCALED(1);
#else
#define SCALED(BYTE) __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(x, y, sum, TYPE_W, TYPE_A, BYTE, sw.words[i], 0, sa.words[i])
    switch (block) {
    case 0: sum = SCALED(0); break;
    case 1: sum = SCALED(1); break;
    case 2: sum = SCALED(2); break;
    default: sum = SCALED(3);
    }
#endif
#undef SCALED
  }
#endif
}
