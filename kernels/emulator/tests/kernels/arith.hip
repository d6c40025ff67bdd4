// Integer and float arithmetic, control flow, lanes, scratch, atomics: what a compiler makes of ordinary code.
#include "prelude.h"

KERNEL(64) ids(u32* out) {
  u32 x = __builtin_amdgcn_workgroup_id_x(), y = __builtin_amdgcn_workgroup_id_y(), z = __builtin_amdgcn_workgroup_id_z();
  u32 gx = __builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x();
  u32 gy = __builtin_amdgcn_grid_size_y() / __builtin_amdgcn_workgroup_size_y();
  u32 t = __builtin_amdgcn_workitem_id_x() + 4 * (__builtin_amdgcn_workitem_id_y() + 4 * __builtin_amdgcn_workitem_id_z());
  u32 at = ((z * gy + y) * gx + x) * 64 + t;
  out[at] = x | y << 8 | z << 16 | t << 24;
}

// A tail that is no multiple of the block.
KERNEL(256) axpy(const float* x, float* y, float a, u32 n) {
  u32 i = block() * 256 + thread();
  if (i < n) y[i] = a * x[i] + y[i];
}

KERNEL(64) u32_ops(const u32* a, const u32* b, u32* out) {
  u32 i = block() * 64 + thread(), x = a[i], y = b[i];
  u32* o = out + 16 * i;
  o[0] = x / y;
  o[1] = x % y;
  o[2] = (u32)((int)x / (int)y);
  o[3] = (u32)((int)x % (int)y);
  o[4] = (u32)(((u64)x * y) >> 32);
  o[5] = (u32)(((i64)(int)x * (int)y) >> 32);
  o[6] = __builtin_clz(x);
  o[7] = __builtin_ctz(x);
  o[8] = __builtin_popcount(x);
  o[9] = __builtin_bitreverse32(x);
  o[10] = (x >> (y & 31)) | (x << (-y & 31));
  o[11] = __builtin_amdgcn_perm(x, y, 0x01040602);
  o[12] = __builtin_amdgcn_sad_u8(0, 0, 7) + __builtin_elementwise_add_sat(x, y);
  o[13] = (u32)((int)x >> (y & 31));
  o[14] = x & 0xffffff ? (x & 0xffffff) * (y & 0xffffff) : 1;
  o[15] = (u32)((int)(x << 3) >> 7) ^ (u32)(i8)y;
}

KERNEL(64) u64_ops(const u64* a, const u64* b, u64* out) {
  u32 i = block() * 64 + thread();
  u64 x = a[i], y = b[i];
  u64* o = out + 8 * i;
  o[0] = x + y;
  o[1] = x - y;
  o[2] = x * y;
  o[3] = x / y;
  o[4] = x % y;
  o[5] = x << (y & 63);
  o[6] = (u64)((i64)x >> (y & 63));
  o[7] = x < y ? (i64)x < (i64)y : 2 + __builtin_clzll(x);
}

KERNEL(64) f32_ops(const float* a, const float* b, float* out) {
  u32 i = block() * 64 + thread();
  float x = a[i], y = b[i];
  float* o = out + 16 * i;
  o[0] = x + y;
  o[1] = x * y;
  o[2] = x / y;
  o[3] = __builtin_fmaf(x, y, x);
  o[4] = __builtin_fminf(x, y);
  o[5] = __builtin_fmaxf(x, y);
  o[6] = __builtin_floorf(x);
  o[7] = __builtin_rintf(x);
  o[8] = __builtin_truncf(-x);
  o[9] = __builtin_amdgcn_fmed3f(x, y, 1.0f);
  o[10] = __builtin_amdgcn_ldexpf(x, (int)(i % 40) - 20);
  o[11] = __builtin_amdgcn_fractf(x);
  o[12] = __builtin_amdgcn_frexp_mantf(x);
  o[13] = (float)__builtin_amdgcn_frexp_expf(x);
  o[14] = (float)(int)(x * 0.001f) + (float)(u32)__builtin_fabsf(y);
  o[15] = x < y ? 1.0f : __builtin_isunordered(x, y) ? 2.0f : -__builtin_fabsf(x);
}

KERNEL(64) approximations(const float* a, float* out) {
  u32 i = block() * 64 + thread();
  float x = a[i];
  float* o = out + 8 * i;
  o[0] = __builtin_amdgcn_rcpf(x);
  o[1] = __builtin_amdgcn_rsqf(x);
  o[2] = __builtin_amdgcn_sqrtf(x);
  o[3] = __builtin_amdgcn_exp2f(x * 0.125f);
  o[4] = __builtin_amdgcn_logf(x);
  o[5] = __builtin_amdgcn_sinf(x);
  o[6] = __builtin_amdgcn_cosf(x);
  o[7] = (float)__builtin_sqrt((double)x);
}

KERNEL(64) f64_ops(const double* a, const double* b, double* out) {
  u32 i = block() * 64 + thread();
  double x = a[i], y = b[i];
  double* o = out + 8 * i;
  o[0] = x + y;
  o[1] = x * y;
  o[2] = x / y;
  o[3] = __builtin_fma(x, y, -x);
  o[4] = __builtin_fmin(x, y);
  o[5] = __builtin_fmax(x, -y);
  o[6] = __builtin_floor(x) + (double)(int)y;
  o[7] = (double)(float)x;
}

KERNEL(64) half_ops(const _Float16* a, const _Float16* b, _Float16* out) {
  u32 i = block() * 64 + thread();
  _Float16 x = a[i], y = b[i];
  _Float16* o = out + 8 * i;
  o[0] = x + y;
  o[1] = x * y;
  o[2] = x / y;
  o[3] = __builtin_fmaf16(x, y, x);
  f16x2 p = {x, y}, q = {y, (_Float16)1.5f};
  f16x2 s = p * q + q;
  o[4] = s[0];
  o[5] = s[1];
  float m = (float)x * 3.0f + (float)y;
  o[6] = (_Float16)m;
  o[7] = __builtin_fmaxf16(x, y);
}

// f32 to bf16 and back, as instructions (gfx950) or as integer code (gfx942).
KERNEL(64) bf16_ops(const float* a, __bf16* out, float* back) {
  u32 i = block() * 64 + thread();
  __bf16 x = (__bf16)a[i];
  out[i] = x;
  back[i] = (float)x * 2.0f;
}

KERNEL(64) narrow_memory(const u8* bytes, const i16* words, int* out, u8* copy, i16* twice) {
  u32 i = thread();
  out[i] = (int)(i8)bytes[i] + words[i];
  out[64 + i] = bytes[63 - i];
  copy[i] = bytes[i] ^ 0x5a;
  twice[i] = words[i] * 2;
}

// Loops whose trip count differs by lane.
KERNEL(64) collatz(const u32* a, u32* steps) {
  u32 i = block() * 64 + thread(), n = 0;
  for (u64 x = a[i]; x != 1; n++) x = x & 1 ? 3 * x + 1 : x / 2;
  steps[i] = n;
}

KERNEL(64) lanes(const u32* a, u32* out) {
  u32 i = thread(), x = a[i];
  u32* o = out + 16 * i;
  o[0] = __builtin_amdgcn_ds_bpermute((63 - i) * 4, x);
  o[1] = __builtin_amdgcn_ds_permute(((i * 5) & 63) * 4, x);
  o[2] = __builtin_amdgcn_ds_swizzle(x, 0x041f);
  o[3] = __builtin_amdgcn_update_dpp(7, x, 0x111, 0xf, 0xf, false);
  o[4] = __builtin_amdgcn_update_dpp(7, x, 0x142, 0xa, 0xf, false);
  o[5] = __builtin_amdgcn_mov_dpp(x, 0x1b, 0xf, 0xf, true);
  o[6] = __builtin_amdgcn_readlane(x, 17) + __builtin_amdgcn_readfirstlane(x);
  o[7] = __builtin_amdgcn_mbcnt_hi(0xffff0000, __builtin_amdgcn_mbcnt_lo(0x0000ffff, i));
  u64 ballot = __builtin_amdgcn_ballot_w64(x & 1);
  o[8] = (u32)ballot;
  o[9] = (u32)(ballot >> 32);
  u32 sum = x;
  sum += __builtin_amdgcn_update_dpp(0, sum, 0x111, 0xf, 0xf, true);
  sum += __builtin_amdgcn_update_dpp(0, sum, 0x112, 0xf, 0xf, true);
  sum += __builtin_amdgcn_update_dpp(0, sum, 0x114, 0xf, 0xe, true);
  sum += __builtin_amdgcn_update_dpp(0, sum, 0x118, 0xf, 0xc, true);
  sum += __builtin_amdgcn_update_dpp(0, sum, 0x142, 0xa, 0xf, false);
  sum += __builtin_amdgcn_update_dpp(0, sum, 0x143, 0xc, 0xf, false);
  o[10] = sum;
  o[11] = i & 1 ? __builtin_amdgcn_readfirstlane(x) : 0;
  o[12] = __builtin_amdgcn_update_dpp(9, x, 0x153, 0xf, 0xf, false);
  o[13] = o[14] = o[15] = 0;
}

// A table indexed at run time lives in scratch, one copy a lane.
KERNEL(128) scratch(const u32* a, u32* out) {
  u32 i = block() * 128 + thread();
  u32 table[24];
  for (u32 k = 0; k < 24; k++) table[(k * 7 + i) % 24] = a[i] + k;
  u32 sum = 0;
  for (u32 k = 0; k < 24; k++) sum = sum * 3 + table[(a[i] + k) % 24];
  out[i] = sum;
}

KERNEL(256) atomics(u32* counters, float* sum, u64* wide, const u32* a) {
  __shared__ u32 bins[16];
  u32 i = thread(), x = a[block() * 256 + i];
  if (i < 16) bins[i] = 0;
  sync();
  __hip_atomic_fetch_add(&bins[x & 15], 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
  sync();
  if (i < 16) __hip_atomic_fetch_add(&counters[i], bins[i], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
  __hip_atomic_fetch_max(&counters[16], x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
  __builtin_amdgcn_global_atomic_fadd_f32((GLOBAL float*)sum, (float)(x & 255));
  __hip_atomic_fetch_add(wide, (u64)x << 20, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

// Sum of a block in LDS, by halves.
KERNEL(256) reduce(const float* a, float* out) {
  __shared__ float part[256];
  u32 i = thread();
  part[i] = a[block() * 256 + i];
  for (u32 n = 128; n > 0; n /= 2) {
    sync();
    if (i < n) part[i] += part[i + n];
  }
  if (i == 0) out[block()] = part[0];
}
