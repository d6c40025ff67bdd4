// D[M,N] = epilogue(A[M,K] · B[N,K]^T) for every format, any M, N and K, from dense row-major operands.
//
// A wave multiplies one row of B with ROWS rows of A: its lanes take neighbouring elements of K, decode the weight once,
// and add their partial sums in a fixed tree at the end. No tiles, no LDS, no matrix instructions: it is what runs
// where nothing better does, and what faster kernels are compared with.
//
// `snap` quantises the activation first where A_BITS is not 16: an f32 of its element's value for each element, and
// scales beside. A block's scales are added as exponents to each product, so that no scale can overflow an element.
//
// Macros: A_* and B_* describe the formats (BITS, EXPONENT and MANTISSA bits, BIAS, SPECIAL: 0 IEEE, 1 the top code is
// NaN, 2 negative zero is NaN, 3 all finite; BLOCKS: 1 with E8M0 scales per 32); B_SCALES 0 none, 1 one, 2 per row;
// ROWS, WAVES; OUT_BF16, HAS_BIAS.
#ifndef __global__
#define __global__ __attribute__((global))
#endif
#ifndef __device__
#define __device__ __attribute__((device))
#endif
#define DEVICE static __device__ inline __attribute__((always_inline))
#define KERNEL(THREADS) extern "C" __global__ __attribute__((amdgpu_flat_work_group_size(THREADS, THREADS))) void

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

constexpr u32 LANES = 64, BLOCK = 32;
constexpr u32 INFINITE = 0x7f800000;

DEVICE u32 bits(float x) { return __builtin_bit_cast(u32, x); }
DEVICE float real(u32 x) { return __builtin_bit_cast(float, x); }

template <u32 BITS, u32 EXPONENT, u32 MANTISSA, int BIAS, u32 SPECIAL> struct Element {
  static constexpr u32 MAGNITUDES = 1u << (EXPONENT + MANTISSA);
  static constexpr u32 TOP = SPECIAL == 0 ? (((1u << EXPONENT) - 1) << MANTISSA) - 1
                             : SPECIAL == 1 ? MAGNITUDES - 2 : MAGNITUDES - 1;

  DEVICE float magnitude(u32 code) { return real(code << (23 - MANTISSA)) * real((254u - BIAS) << 23); }

  DEVICE float decode(u32 code) {
    if constexpr (BITS == 16) return real(code << 16);
    u32 size = code & (MAGNITUDES - 1);
    u32 sign = (code & MAGNITUDES) << (31 - EXPONENT - MANTISSA);
    float value = real(bits(magnitude(size)) | sign);
    if constexpr (SPECIAL == 2) return size == 0 && sign != 0 ? real(0x7fc00000) : value;
    if constexpr (SPECIAL == 0)
      value = size > TOP ? real(sign | INFINITE | (size - TOP - 1) << (23 - MANTISSA)) : value;
    if constexpr (SPECIAL == 1) value = size > TOP ? real(0x7fc00000) : value;
    return value;
  }

  // The exponent of the largest element.
  static constexpr int EMAX = (int)(TOP >> MANTISSA) - BIAS;

  // The value of the nearest element, ties to even, saturating; NaN stays NaN.
  DEVICE float round(float x) {
    float size = __builtin_fabsf(x);
    u32 b = bits(size);
    u32 half = (1u << (22 - MANTISSA)) - 1 + (b >> (23 - MANTISSA) & 1);
    u32 normal = ((b + half) >> (23 - MANTISSA)) - ((127u - BIAS) << MANTISSA);
    constexpr float SMALLEST = __builtin_bit_cast(float, (128u - BIAS) << 23);
    u32 subnormal = (u32)__builtin_rintf(size * real((126u + BIAS + MANTISSA) << 23));
    u32 code = size < SMALLEST ? subnormal : normal;
    code = size >= magnitude(TOP) || code > TOP ? TOP : code;
    float value = real(bits(magnitude(code)) | (bits(x) & 0x80000000));
    return x != x ? x : value;
  }

  // Element `i` of a dense row, elements little-endian from the lowest bit.
  DEVICE u32 load(const u8 *row, u64 i) {
    if constexpr (BITS == 16) return ((const u16 *)row)[i];
    if constexpr (BITS == 8) return row[i];
    if constexpr (BITS == 4) return row[i / 2] >> (4 * (i & 1));
    u64 at = i / 4 * 3;  // four elements of six bits in three bytes
    u32 word = row[at] | row[at + 1] << 8 | row[at + 2] << 16;
    return word >> (6 * (i & 3));
  }
};

typedef Element<A_BITS, A_EXPONENT, A_MANTISSA, A_BIAS, A_SPECIAL> A;
typedef Element<B_BITS, B_EXPONENT, B_MANTISSA, B_BIAS, B_SPECIAL> B;

DEVICE u32 lane() { return __builtin_amdgcn_workitem_id_x() & (LANES - 1); }
DEVICE u32 wave() { return __builtin_amdgcn_readfirstlane(__builtin_amdgcn_workitem_id_x() / LANES); }
DEVICE u32 from(u32 other, u32 x) { return __builtin_amdgcn_ds_bpermute((int)(4 * other), (int)x); }

DEVICE u32 larger(u32 a, u32 b) { return a > b ? a : b; }

// One wave a row of A. `elements` M x K; `scales` M floats, or M x K/32 E8M0 codes.
KERNEL(LANES) snap(const u16 *a, float *elements, void *scales, u32 m, u32 k, u32 step) {
  for (u64 row = __builtin_amdgcn_workgroup_id_x(); row < m; row += step) {
    const u16 *from_row = a + row * k;
    float *to = elements + row * k;
#if A_BLOCKS
    for (u32 block = lane(); block < k / BLOCK; block += LANES) {
      u32 amax = 0;
      for (u32 i = 0; i < BLOCK; i++)
        amax = larger(amax, (u32)(from_row[(u64)block * BLOCK + i] & 0x7fff) << 16);
      // floor(log2 amax) - emax + 127; a bf16 subnormal's logarithm comes from its leading bit.
      int log = amax >> 23 ? (int)(amax >> 23) - 127 : 31 - __builtin_clz(amax | 1) - 149;
      int code = log - A::EMAX + 127;
      code = amax == 0 ? 127 : amax >= INFINITE ? 255 : code < 0 ? 0 : code;
      ((u8 *)scales)[row * (k / BLOCK) + block] = (u8)code;
      u32 reciprocal = 254 - code;
      float factor = reciprocal == 0 || code == 255 ? real(0x400000) : real(reciprocal << 23);
      for (u32 i = 0; i < BLOCK; i++) {
        float x = real((u32)from_row[(u64)block * BLOCK + i] << 16);
        to[(u64)block * BLOCK + i] = code == 255 ? 0.0f : A::round(x * factor);
      }
    }
#else
    u32 amax = 0;
    for (u32 i = lane(); i < k; i += LANES) {
      u32 size = (u32)(from_row[i] & 0x7fff) << 16;
      amax = larger(amax, size < INFINITE ? size : 0);
    }
    for (u32 mask = LANES / 2; mask; mask /= 2) amax = larger(amax, from(lane() ^ mask, amax));
    float scale = real(amax) / A::magnitude(A::TOP);
    scale = amax == 0 ? 1.0f : scale < real(0x800000) ? real(0x800000) : scale;
    if (lane() == 0) ((float *)scales)[row] = scale;
    for (u32 i = lane(); i < k; i += LANES) {
      float x = real((u32)from_row[i] << 16);
      bool finite = (bits(x) & 0x7fffffff) < INFINITE;
      to[i] = finite ? A::round(x / scale) : real(0x7fc00000);
    }
#endif
  }
}

// `a` and `a_scales` are the activation in bf16 and nothing, or what `snap` left. Workgroups go through N in steps of
// `step_n` workgroups and through M in steps of `step_m`.
KERNEL(LANES * WAVES)
gemm(const u8 *b, const void *b_scales, const void *a, const void *a_scales, const float *bias, void *d, u32 m, u32 n,
     u32 k, u32 row_bytes, u32 step_n, u32 step_m) {
  for (u64 row = (u64)__builtin_amdgcn_workgroup_id_y() * ROWS; row < m; row += (u64)step_m * ROWS) {
    for (u64 column = (u64)__builtin_amdgcn_workgroup_id_x() * WAVES + wave(); column < n;
         column += (u64)step_n * WAVES) {
      const u8 *weights = b + column * row_bytes;
      float sum[ROWS] = {};
      for (u32 i = lane(); i < k; i += LANES) {
        float w = B::decode(B::load(weights, i));
        int exponent = 0;
        u32 b_code = 0, a_code = 0;
#if B_BLOCKS
        b_code = ((const u8 *)b_scales)[column * (k / BLOCK) + i / BLOCK];
        exponent += (int)b_code - 127;
#endif
        for (u32 r = 0; r < ROWS; r++) {
          u64 at = row + r < m ? row + r : m - 1;
#if A_BITS == 16
          float x = real((u32)((const u16 *)a)[at * k + i] << 16);
#else
          float x = ((const float *)a)[at * k + i];
#endif
          float product = x * w;
          int e = exponent;
#if A_BLOCKS
          a_code = ((const u8 *)a_scales)[at * (k / BLOCK) + i / BLOCK];
          e += (int)a_code - 127;
#endif
#if A_BLOCKS || B_BLOCKS
          product = a_code == 255 || b_code == 255 ? real(0x7fc00000) : __builtin_ldexpf(product, e);
#endif
          sum[r] += product;
        }
      }
      float mine = 0;
      for (u32 r = 0; r < ROWS; r++) {
        for (u32 mask = LANES / 2; mask; mask /= 2) sum[r] += real(from(lane() ^ mask, bits(sum[r])));
        mine = lane() == r ? sum[r] : mine;
      }
      u64 at = row + lane();
      if (lane() < ROWS && at < m) {
#if B_SCALES == 1
        mine *= ((const float *)b_scales)[0];
#elif B_SCALES == 2
        mine *= ((const float *)b_scales)[column];
#endif
#if A_BITS != 16 && !A_BLOCKS
        mine *= ((const float *)a_scales)[at];
#endif
#if HAS_BIAS
        mine += bias[column];
#endif
#if OUT_BF16
        ((__bf16 *)d)[at * n + column] = (__bf16)mine;
#else
        ((float *)d)[at * n + column] = mine;
#endif
      }
    }
  }
}
