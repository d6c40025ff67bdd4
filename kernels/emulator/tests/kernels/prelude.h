// Shared by the emulator's test kernels: bare clang, no ROCm headers.
#pragma once
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define DEVICE static __device__ inline __attribute__((always_inline))
#define KERNEL(THREADS) extern "C" __global__ __attribute__((amdgpu_flat_work_group_size(THREADS, THREADS))) void
#define LDS __attribute__((address_space(3)))
#define GLOBAL __attribute__((address_space(1)))
#define VECTOR(NAME, TYPE, N) typedef TYPE NAME __attribute__((ext_vector_type(N)))

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef short i16;
typedef long long i64;
VECTOR(i32x2, int, 2);
VECTOR(i32x3, int, 3);
VECTOR(i32x4, int, 4);
VECTOR(i32x6, int, 6);
VECTOR(i32x8, int, 8);
VECTOR(f32x2, float, 2);
VECTOR(f32x4, float, 4);
VECTOR(f32x16, float, 16);
VECTOR(f32x32, float, 32);
VECTOR(i32x16, int, 16);
VECTOR(f16x2, _Float16, 2);
VECTOR(f16x4, _Float16, 4);
VECTOR(f16x8, _Float16, 8);
VECTOR(f16x16, _Float16, 16);
VECTOR(f16x32, _Float16, 32);
VECTOR(bf16x2, __bf16, 2);
VECTOR(bf16x4, __bf16, 4);
VECTOR(bf16x8, __bf16, 8);
VECTOR(bf16x16, __bf16, 16);
VECTOR(bf16x32, __bf16, 32);
VECTOR(i16x4, short, 4);

DEVICE u32 thread() { return __builtin_amdgcn_workitem_id_x(); }
DEVICE u32 block() { return __builtin_amdgcn_workgroup_id_x(); }
DEVICE void sync() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
