// Rotates, quantises and packs an activation, row-major M × K in bf16 with K a multiple of 32, into layout c0c1 (see the
// module c0c1 of the crate tilewright-kernels): MXFP6 E2M3 with the bits of `format::quantize` under AITER's rule.
//
// A lane has a row's block of 32, a wave the 16 rows of a row block and four blocks along K, so that what it writes of codes is
// contiguous. The rotation is five passes of sums and differences of bf16 values times 1/sqrt(32) rounded to bf16, in f32;
// elements round half away from zero. A block with an infinity or NaN has scale NaN and zero codes. Rows from M up to
// the next multiple of 16 and blocks from K on become zeros with scale 1; other rows of a panel are left as they are.

constexpr u32 PANEL_BLOCKS = 16;
constexpr u64 STEP_BYTES = 24576, STEP_SCALE_BYTES = 1024;

DEVICE float from_bits(u32 bits) { return __builtin_bit_cast(float, bits); }

// The code of a value divided by its block's scale: evenly spaced codes in three ranges.
DEVICE u32 encode(float scaled) {
  const float magnitude = __builtin_fminf(__builtin_fabsf(scaled), 7.5f);
  const bool low = magnitude < 2.0f, middle = magnitude < 4.0f;
  const u32 code = (u32)(magnitude * (low ? 8.0f : middle ? 4.0f : 2.0f) + 0.5f) + (low ? 0 : middle ? 8 : 16);
  return scaled < 0.0f ? code | 32 : code;
}

KERNEL(256, 1) quantise_c0c1(const u16* __restrict__ activation, u8* __restrict__ codes, u8* __restrict__ scales, u32 m, u32 k) {
  const u32 lane = lane_id(), steps = (k + 127) / 128;
  const u32 step = __builtin_amdgcn_workgroup_id_x() * 4 + wave_id(), row_block = __builtin_amdgcn_workgroup_id_y();
  if (step >= steps) return;
  const u32 i = lane % 16, g = lane / 16, row = row_block * 16 + i, block = step * 4 + g;

  float x[32];
  const bool inside = row < m && block < k / 32;
  const u32x4* from = (const u32x4*)(activation + (u64)row * k + block * 32);
#pragma unroll
  for (u32 v = 0; v < 4; v++) {
    const u32x4 eight = inside ? from[v] : u32x4{0, 0, 0, 0};
#pragma unroll
    for (u32 w = 0; w < 4; w++) {
      x[8 * v + 2 * w] = from_bits(eight[w] << 16) * from_bits(0x3e350000);
      x[8 * v + 2 * w + 1] = from_bits(eight[w] & 0xffff0000) * from_bits(0x3e350000);
    }
  }
#pragma unroll
  for (u32 half = 1; half < 32; half *= 2) {
#pragma unroll
    for (u32 e = 0; e < 32; e++) {
      if (e & half) continue;
      const float a = x[e], b = x[e + half];
      x[e] = a + b, x[e + half] = a - b;
    }
  }

  // As integers, because a NaN is then larger than any number.
  u32 largest = 0;
#pragma unroll
  for (u32 e = 0; e < 32; e++) {
    const u32 magnitude = __builtin_bit_cast(u32, x[e]) & 0x7fffffff;
    largest = magnitude > largest ? magnitude : largest;
  }
  const bool finite = largest < 0x7f800000;
  const int exponent = (int)(largest >> 23) - 127;
  u32 scale = (exponent < -100 ? -100 : exponent) - 2 + 127;
  scale = largest == 0 ? 127 : scale;
  const float reciprocal = from_bits((254 - scale) << 23);
  u32 words[6] = {0, 0, 0, 0, 0, 0};
#pragma unroll
  for (u32 e = 0; e < 32; e++) {
    const u32 code = finite ? encode(x[e] * reciprocal) : 0, at = 6 * e;
    words[at / 32] |= code << at % 32;
    if (at % 32 > 26) words[at / 32 + 1] |= code >> (32 - at % 32);
  }

  const u64 stored = (u64)(row_block / PANEL_BLOCKS) * (steps + 2) + step;
  const u32 within = row_block % PANEL_BLOCKS;
  u8* to = codes + stored * STEP_BYTES;
  *(u32x4*)(to + (within * 64 + lane) * 16) = u32x4{words[0], words[1], words[2], words[3]};
  *(u32x2*)(to + 16384 + (within * 64 + lane) * 8) = u32x2{words[4], words[5]};
  scales[stored * STEP_SCALE_BYTES + within / 8 * 512 + g * 128 + i * 8 + within % 8] = finite ? scale : 255;
}
