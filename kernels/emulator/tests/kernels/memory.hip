// LDS, buffers and transfers between them; conversions of small floats.
#include "prelude.h"

typedef __amdgpu_buffer_rsrc_t Buffer;
DEVICE Buffer buffer(const void* p, u32 bytes) { return __builtin_amdgcn_make_buffer_rsrc((void*)p, 0, bytes, 0x00020000); }

// Loads and stores beyond the range of the descriptor, with the offset split between vector, scalar and instruction.
KERNEL(64) buffer_range(const u32* a, u32 bytes, u32 soffset, u32* out, u32* stored, u32 stored_bytes) {
  u32 i = thread();
  Buffer r = buffer(a, bytes), w = buffer(stored, stored_bytes);
  out[i] = __builtin_amdgcn_raw_buffer_load_b32(r, i * 4, soffset, 0);
  i32x4 x = __builtin_bit_cast(i32x4, __builtin_amdgcn_raw_buffer_load_b128(r, i * 16, soffset, 0));
  for (u32 k = 0; k < 4; k++) out[64 + 4 * i + k] = x[k];
  out[320 + i] = __builtin_amdgcn_raw_buffer_load_b16(r, i * 2 + 64, soffset, 0);
  __builtin_amdgcn_raw_buffer_store_b32(i + 1, w, i * 4, 0, 0);
}

// Dwords to LDS: base in M0, instruction offset on both sides, inactive lanes leave holes.
KERNEL(64) dma_dword(const u32* a, u32 bytes, u32* out) {
  __shared__ u32 lds[256];
  u32 i = thread();
  for (u32 k = 0; k < 4; k++) lds[64 * k + i] = 0x1000 + 64 * k + i;
  sync();
  Buffer r = buffer(a, bytes);
  if (i % 5 != 0) __builtin_amdgcn_raw_ptr_buffer_load_lds(r, (LDS void*)lds, 4, i * 8, 0, 128, 0);
  __builtin_amdgcn_global_load_lds((GLOBAL void*)(a + 63 - i), (LDS void*)(lds + 128), 4, 64, 0);
  asm volatile("s_waitcnt vmcnt(0)" ::: "memory");
  sync();
  for (u32 k = 0; k < 4; k++) out[64 * k + i] = lds[64 * k + i];
}

// Wave 1 writes what wave 0 reads, with no barrier between.
KERNEL(128) race(u32* out) {
  __shared__ u32 lds[128];
  u32 i = thread();
  ((volatile LDS u32*)lds)[i] = i;
  out[i] = ((volatile LDS u32*)lds)[127 - i];
}

// Wave 0 hands data to wave 1 by a flag in LDS, without a barrier: wave 1 polls.
KERNEL(128) handoff(const u32* a, u32* out) {
  __shared__ u32 data[64], flag;
  u32 i = thread() & 63, wave = __builtin_amdgcn_readfirstlane(thread() >> 6);
  if (thread() == 0) __hip_atomic_store(&flag, 0, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
  sync();
  if (wave == 0) {
    data[i] = a[i] + 1;
    if (i == 0) __hip_atomic_store(&flag, 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_WORKGROUP);
  } else {
    while (__hip_atomic_load(&flag, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_WORKGROUP) == 0) {}
    out[i] = data[63 - i];
  }
}

// One past the end of the buffer, by the last lane.
KERNEL(64) overrun(u32* out) { out[thread() + 1] = thread(); }

// LDS that nobody wrote.
KERNEL(64) unwritten(u32* out) {
  __shared__ u32 lds[64];
  asm volatile("" ::"v"(lds) : "memory");
  out[thread()] = ((volatile LDS u32*)lds)[thread()];
}

KERNEL(64) spin(volatile u32* flag) {
  while (*flag == 0) __builtin_amdgcn_s_sleep(1);
}

KERNEL(64) convert_fp8(const float* a, const u32* random, u32* packed, u32* stochastic, float* back) {
  u32 i = block() * 64 + thread();
  u32 p = __builtin_amdgcn_cvt_pk_fp8_f32(a[2 * i], a[2 * i + 1], 0x11223344, false);
  p = __builtin_amdgcn_cvt_pk_bf8_f32(a[2 * i], a[2 * i + 1], p, true);
  packed[i] = p;
  stochastic[i] = __builtin_amdgcn_cvt_sr_fp8_f32(a[i], random[i], 0x11223344, 2);
  back[6 * i] = __builtin_amdgcn_cvt_f32_fp8(p, 0);
  back[6 * i + 1] = __builtin_amdgcn_cvt_f32_fp8(p, 1);
  back[6 * i + 2] = __builtin_amdgcn_cvt_f32_bf8(p, 2);
  back[6 * i + 3] = __builtin_amdgcn_cvt_f32_bf8(p, 3);
  f32x2 both = __builtin_amdgcn_cvt_pk_f32_bf8(p, true);
  back[6 * i + 4] = both[0];
  back[6 * i + 5] = both[1];
}

#ifdef __gfx950__
KERNEL(64) transpose(const u8* a, u8* out) {
  __shared__ __attribute__((aligned(16))) u8 lds[64 * 12];
  u32 i = thread();
  for (u32 k = 0; k < 3; k++) ((u32*)lds)[64 * k + i] = ((const u32*)a)[64 * k + i];
  sync();
  i32x2 t4 = __builtin_amdgcn_ds_read_tr4_b64_v2i32((LDS i32x2*)(lds + i * 8));
  i32x3 t6 = __builtin_amdgcn_ds_read_tr6_b96_v3i32((LDS i32x3*)(lds + i * 12));
  i32x2 t8 = __builtin_amdgcn_ds_read_tr8_b64_v2i32((LDS i32x2*)(lds + i * 8));
  i16x4 t16 = __builtin_amdgcn_ds_read_tr16_b64_v4i16((LDS i16x4*)(lds + i * 8));
  u8* o = out + i * 36;
  __builtin_memcpy(o, &t4, 8);
  __builtin_memcpy(o + 8, &t6, 12);
  __builtin_memcpy(o + 20, &t8, 8);
  __builtin_memcpy(o + 28, &t16, 8);
}

KERNEL(64) dma_wide(const u8* a, u32 bytes, u32* out) {
  __shared__ __attribute__((aligned(16))) u32 lds[64 * 7];
  u32 i = thread();
  Buffer r = buffer(a, bytes);
  __builtin_amdgcn_raw_ptr_buffer_load_lds(r, (LDS void*)lds, 16, (63 - i) * 16, 0, 0, 0);
  __builtin_amdgcn_global_load_lds((GLOBAL void*)(a + i * 12), (LDS void*)(lds + 256), 12, 0, 0);
  asm volatile("s_waitcnt vmcnt(0)" ::: "memory");
  sync();
  for (u32 k = 0; k < 7; k++) out[64 * k + i] = lds[64 * k + i];
}

KERNEL(64) swap_rows(const u32* a, u32* out) {
  u32 i = thread();
  auto p = __builtin_amdgcn_permlane32_swap(a[i], a[64 + i], false, false);
  auto q = __builtin_amdgcn_permlane16_swap(a[i], a[64 + i], false, false);
  out[i] = p[0];
  out[64 + i] = p[1];
  out[128 + i] = q[0];
  out[192 + i] = q[1];
}

typedef u32 u32x6 __attribute__((ext_vector_type(6)));

KERNEL(64) convert_scaled(const float* a, float scale, u32* out, float* back) {
  u32 i = thread();
  f32x16 low = ((const f32x16*)a)[2 * i], high = ((const f32x16*)a)[2 * i + 1];
  auto fp6 = __builtin_bit_cast(u32x6, __builtin_amdgcn_cvt_scalef32_2xpk16_fp6_f32(low, high, scale));
  for (u32 k = 0; k < 6; k++) out[16 * i + k] = fp6[k];
  f32x32 wide = __builtin_amdgcn_cvt_scalef32_pk32_f32_fp6(fp6, scale);
  for (u32 k = 0; k < 32; k++) back[32 * i + k] = wide[k];
  u32 fp4 = 0;
  fp4 = __builtin_amdgcn_cvt_scalef32_pk_fp4_f32(fp4, low[0], low[1], scale, 0);
  fp4 = __builtin_amdgcn_cvt_scalef32_pk_fp4_f32(fp4, low[2], low[3], scale, 1);
  fp4 = __builtin_amdgcn_cvt_scalef32_pk_fp4_f32(fp4, low[4], low[5], scale, 2);
  fp4 = __builtin_amdgcn_cvt_scalef32_pk_fp4_f32(fp4, low[6], low[7], scale, 3);
  out[16 * i + 6] = fp4;
  bf16x32 b;
  for (u32 k = 0; k < 16; k++) b[k] = (__bf16)low[k], b[16 + k] = (__bf16)high[k];
  auto bf6 = __builtin_bit_cast(u32x6, __builtin_amdgcn_cvt_scalef32_pk32_bf6_bf16(b, scale));
  for (u32 k = 0; k < 6; k++) out[16 * i + 7 + k] = bf6[k];
  f32x2 pair = __builtin_amdgcn_cvt_scalef32_pk_f32_fp4(fp4, scale, 2);
  // By way of variables: clang casts a vector element in place as the whole vector's first element.
  float first = pair[0], second = pair[1];
  out[16 * i + 13] = __builtin_bit_cast(u32, first);
  out[16 * i + 14] = __builtin_bit_cast(u32, second);
  out[16 * i + 15] = __builtin_amdgcn_prng_b32(i | 0x80000000);
}
#endif
