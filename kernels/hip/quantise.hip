// Quantises an activation, row-major M x K in bf16, and packs it into layout mfma16 (see the module mfma16 of the crate
// tilewright-kernels): what GEMM kernels multiply. Codes and scales have the bits of `format::quantize`.
//
//   FORMAT 0: bf16. Nothing is rounded; the elements take their places.
//   FORMAT 1: FP8 E4M3, OCP on gfx950 and FNUZ on gfx942. One f32 scale a row: amax / largest element over the finite
//             elements, at least 2^-126, and 1 if they are all 0. Elements by division. An infinity or NaN becomes NaN.
//   FORMAT 2, 3, 4, 5: MX with E4M3, E2M3, E3M2, E2M1. One E8M0 scale for 32 elements: 2^(floor(log2 amax) - EMAX). A block
//             with an infinity or NaN has scale NaN and zero codes; a block of zeros has scale 1.
//
// Elements round to nearest even and saturate. Rows from M up to the next multiple of 16 and elements from K up to the
// next multiple of 128 become zeros with scale 1; other panels of a slab are left as they are: a row of garbage reaches
// that row of D alone.
//
// C0C1 (FORMAT 3 only): what ROCm's AITER packs for its MXFP6 kernels. Every 32 elements are rotated first, in the arithmetic of
// `format::hadamard::rotate_aiter`; scale and rounding are those of `format::aiter` (half away from zero); the layout is
// `mxfp6_c0c1_256_padk2`: panels of 256 rows, each with two steps more along K than it holds, which are left as they are.
//
// FORMAT 1 takes one workgroup a row (two passes over it: the scale, the codes); the others one wave for the 16 rows of a
// panel and 128 (bf16: 32) elements along K, a lane for a row's block, so that what a wave writes is contiguous.

constexpr u32 PANEL = 16, STEP_K = 128;

#if FORMAT == 0
constexpr u32 BITS = 16;
#elif FORMAT == 1
constexpr u32 BITS = 8;
#ifdef __gfx942__
constexpr float LARGEST = 240.0f;
constexpr u32 NAN_CODE = 0x80;
#else
constexpr float LARGEST = 448.0f;
constexpr u32 NAN_CODE = 0x7f;
#endif
#elif FORMAT == 2
constexpr u32 BITS = 8, EMAX = 8;
constexpr float LARGEST = 448.0f;
#elif FORMAT == 3
constexpr u32 BITS = 6, EMAX = 2, MANTISSA = 3, EMIN = 0, LARGEST_CODE = 31;
#elif FORMAT == 4
constexpr u32 BITS = 6, EMAX = 4, MANTISSA = 2, EMIN = -2u, LARGEST_CODE = 31;
#else
constexpr u32 BITS = 4, EMAX = 2, MANTISSA = 1, EMIN = 0, LARGEST_CODE = 7;
#endif
constexpr u64 STEP_BYTES = 64 * STEP_K / 8 * BITS;

DEVICE float value(u32 bits) { return __builtin_bit_cast(float, bits); }
DEVICE u32 bits(float value) { return __builtin_bit_cast(u32, value); }
// Element `i` of a row's words, widened.
DEVICE u32 element(const u32* words, u32 i) { return i % 2 ? words[i / 2] & 0xffff0000 : words[i / 2] << 16; }

// Elements `at` .. `at + 8` of a row that holds `k`, zeros beyond: rows of a K that 8 does not divide are not aligned.
DEVICE void load8(const u16* row, u32 at, u32 k, u32* words) {
  if (k % 8 == 0) {
    const u32x4 v = at < k ? *(const u32x4*)(row + at) : u32x4{0, 0, 0, 0};
    for (u32 i = 0; i < 4; i++) words[i] = v[i];
    return;
  }
#pragma unroll
  for (u32 i = 0; i < 4; i++) {
    const u32 low = at + 2 * i < k ? row[at + 2 * i] : 0, high = at + 2 * i + 1 < k ? row[at + 2 * i + 1] : 0;
    words[i] = low | high << 16;
  }
}

#if FORMAT == 1 || FORMAT == 2
// Two finite values to E4M3 in the low half of a word.
DEVICE u32 pair(float a, float b) {
  a = __builtin_amdgcn_fmed3f(a, -LARGEST, LARGEST);
  b = __builtin_amdgcn_fmed3f(b, -LARGEST, LARGEST);
  return (u32)__builtin_amdgcn_cvt_pk_fp8_f32(a, b, 0, false) & 0xffff;
}
#endif

#if FORMAT == 0
KERNEL(256, 4) quantise(const u16* from, u8* codes, u8*, u32 m, u32 k) {
  const u32 lane = lane_id(), panel = __builtin_amdgcn_workgroup_id_y(), row = PANEL * panel + lane % 16;
  const u32 plane = 4 * __builtin_amdgcn_workgroup_id_x() + wave_id(), steps = (k + STEP_K - 1) / STEP_K;
  if (plane >= 4 * steps) return;
  u32 words[4] = {};
  if (row < m) load8(from + (u64)row * k, 32 * plane + 8 * (lane / 16), k, words);
  u8* to = codes + ((u64)(panel / 4) * steps + plane / 4) * STEP_BYTES + 4096 * (plane % 4) + 1024 * (panel % 4);
  *(u32x4*)(to + 16 * lane) = u32x4{words[0], words[1], words[2], words[3]};
}
#elif FORMAT == 1
KERNEL(256, 4) quantise(const u16* from, u8* codes, float* scales, u32 m, u32 k) {
  __shared__ u32 maxima[4];
  const u32 row = __builtin_amdgcn_workgroup_id_x(), padded = (k + STEP_K - 1) / STEP_K * STEP_K;
  const u16* values = from + (u64)row * k;
  const bool inside = row < m;
  // The order of magnitudes is the order of their bits.
  u32 amax = 0;
  for (u32 at = 8 * thread(); inside && at < k; at += 8 * 256) {
    u32 words[4];
    load8(values, at, k, words);
#pragma unroll
    for (u32 i = 0; i < 8; i++) {
      const u32 magnitude = element(words, i) & 0x7fffffff;
      if (magnitude < 0x7f800000 && magnitude > amax) amax = magnitude;
    }
  }
#pragma unroll
  for (u32 d = 32; d; d /= 2) {
    const u32 other = __builtin_amdgcn_ds_bpermute(4 * (lane_id() ^ d), amax);
    if (other > amax) amax = other;
  }
  if (lane_id() == 0) maxima[wave_id()] = amax;
  sync();
#pragma unroll
  for (u32 i = 0; i < 4; i++)
    if (maxima[i] > amax) amax = maxima[i];
  float scale = value(amax) / LARGEST;
  if (scale < 0x1p-126f) scale = 0x1p-126f;
  if (amax == 0) scale = 1;
  if (thread() == 0) scales[row] = scale;
  u8* slab = codes + (u64)(row / 64) * (padded / STEP_K) * STEP_BYTES + 1024 * (row % 64 / PANEL) + 16 * (row % PANEL);
  for (u32 at = 16 * thread(); at < padded; at += 16 * 256) {
    u32 words[8] = {}, out[4];
    if (inside) {
      load8(values, at, k, words);
      load8(values, at + 8, k, words + 4);
    }
#pragma unroll
    for (u32 i = 0; i < 16; i += 2) {
      const u32 a = element(words, i), b = element(words, i + 1);
      u32 two = pair(value(a) / scale, value(b) / scale);
      if ((a & 0x7fffffff) >= 0x7f800000) two = (two & 0xff00) | NAN_CODE;
      if ((b & 0x7fffffff) >= 0x7f800000) two = (two & 0x00ff) | NAN_CODE << 8;
      out[i / 4] = i % 4 ? out[i / 4] | two << 16 : two;
    }
    const u32 vector = at / 16;
    *(u32x4*)(slab + (vector / 8) * STEP_BYTES + 4096 * (vector % 8 / 4) + 256 * (vector % 4)) =
      u32x4{out[0], out[1], out[2], out[3]};
  }
}
#else
#if C0C1
// The code of a scaled value, rounded half away from zero; a negative value that becomes 0 keeps its sign, -0 does not.
DEVICE u32 encode(float scaled) {
  const float size = __builtin_fabsf(scaled), magnitude = size < 7.5f ? size : 7.5f;
  const float quanta = magnitude < 2 ? 8 : magnitude < 4 ? 4 : 2;
  const u32 base = magnitude < 2 ? 0 : magnitude < 4 ? 8 : 16;
  return (u32)(magnitude * quanta + 0.5f) + base + (scaled < 0 ? 32 : 0);
}

// Multiplies with the 32-point Hadamard matrix over sqrt(32), both rounded to bf16: products are exact, sums in f32.
DEVICE void rotate(float* v) {
#pragma unroll
  for (u32 i = 0; i < 32; i++) v[i] *= value(0x3e350000);
#pragma unroll
  for (u32 half = 1; half < 32; half *= 2)
#pragma unroll
    for (u32 i = 0; i < 32; i++)
      if (!(i & half)) {
        const float a = v[i], b = v[i + half];
        v[i] = a + b;
        v[i + half] = a - b;
      }
}
#elif FORMAT > 2
// The code nearest to a value that is at most twice the largest element. Adding 2^(23 - MANTISSA) quanta rounds in the
// adder and leaves the number of quanta in the low bits; a carry reaches the exponent, where it belongs.
DEVICE u32 encode(float scaled) {
  const u32 magnitude = bits(scaled) & 0x7fffffff, smallest = (EMIN + 127) << 23;
  u32 exponent = magnitude & 0x7f800000;
  if (exponent < smallest) exponent = smallest;
  const u32 adder = exponent + ((23 - MANTISSA) << 23);
  const u32 quanta = bits(value(magnitude) + value(adder)) - adder;
  u32 code = ((exponent - smallest) >> (23 - MANTISSA)) + quanta;
  if (code > LARGEST_CODE) code = LARGEST_CODE;
  return code | bits(scaled) >> 31 << (BITS - 1);
}
#endif

KERNEL(256, 2) quantise(const u16* from, u8* codes, u8* scales, u32 m, u32 k) {
  const u32 lane = lane_id(), panel = __builtin_amdgcn_workgroup_id_y(), row = PANEL * panel + lane % 16;
  const u32 step = 4 * __builtin_amdgcn_workgroup_id_x() + wave_id(), steps = (k + STEP_K - 1) / STEP_K;
  if (step >= steps) return;
  const u32 block = lane / 16;
  u32 words[16] = {};
  if (row < m)
#pragma unroll
    for (u32 i = 0; i < 4; i++) load8(from + (u64)row * k, STEP_K * step + 32 * block + 8 * i, k, words + 4 * i);
  float v[32];
#pragma unroll
  for (u32 i = 0; i < 32; i++) v[i] = value(element(words, i));
#if C0C1
  rotate(v);
  constexpr int LEAST = -100;
#else
  constexpr int LEAST = -149;
#endif
  u32 amax = 0;
#pragma unroll
  for (u32 i = 0; i < 32; i++) {
    const u32 magnitude = bits(v[i]) & 0x7fffffff;
    if (magnitude > amax) amax = magnitude;
  }
  // floor(log2 amax), of a subnormal too.
  int exponent = amax >> 23 ? (int)(amax >> 23) - 127 : -118 - __builtin_clz(amax | 1);
  if (exponent < LEAST) exponent = LEAST;
  int scale = exponent - (int)EMAX + 127;
  if (scale < 0) scale = 0;
  if (amax == 0) scale = 127;
  const bool finite = amax < 0x7f800000;
  // 2^(127 - scale), where 2^-127 is a subnormal.
  const float factor = scale == 254 ? value(0x00400000) : value((u32)(254 - scale) << 23);
  u32 out[BITS] = {};
#pragma unroll
  for (u32 i = 0; i < 32; i += FORMAT == 2 ? 2 : 1) {
#if FORMAT == 2
    out[i / 4] |= pair(v[i] * factor, v[i + 1] * factor) << (8 * (i % 4));
#else
    const u32 code = encode(v[i] * factor), bit = BITS * i;
    out[bit / 32] |= code << (bit % 32);
    if (bit % 32 + BITS > 32) out[bit / 32 + 1] |= code >> (32 - bit % 32);
#endif
  }
#pragma unroll
  for (u32 i = 0; i < BITS; i++) out[i] = finite ? out[i] : 0;
  const u32x4 low = {out[0], out[1], out[2], out[3]};
#if C0C1
  // Sixteen panels of 16 rows in one of 256: the lanes' first 16 bytes, then their other 8; scales by half and row.
  const u32 inner = panel % 16;
  const u64 tile = (u64)(panel / 16) * (steps + 2) + step;
  u8* to = codes + tile * (4 * STEP_BYTES);
  *(u32x4*)(to + 1024 * inner + 16 * lane) = low;
  *(u32x2*)(to + 16384 + 512 * inner + 8 * lane) = u32x2{out[4], out[5]};
  u8* scale_at = scales + tile * 1024 + 512 * (inner / 8) + 128 * block + 8 * (lane % 16) + inner % 8;
#else
  const u64 tile = (u64)(panel / 4) * steps + step;
  u8* to = codes + tile * STEP_BYTES + 1024 * (panel % 4);
#if FORMAT == 2
  to += 4096 * (block / 2) + 16 * (32 * (block % 2) + lane % 16);
  *(u32x4*)to = low;
  *(u32x4*)(to + 256) = u32x4{out[4], out[5], out[6], out[7]};
#else
  *(u32x4*)(to + 16 * lane) = low;
#if FORMAT < 5
  *(u32x2*)(codes + tile * STEP_BYTES + 4096 + 512 * (panel % 4) + 8 * lane) = u32x2{out[4], out[5]};
#endif
#endif
  u8* scale_at = scales + tile * 256 + 4 * lane + panel % 4;
#endif
  *scale_at = finite ? (u8)scale : 255;
}
#endif
