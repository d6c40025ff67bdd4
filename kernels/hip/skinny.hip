// Skinny GEMM, M <= 32: D[M,N] = epilogue(A[M,K] * W[N,K]^T), both operands in layout mfma16 (A in bf16 may lie row-major).
// Its time is that of reading W once; everything here is about keeping those reads under way.
//
//   grid: x = tiles of TILE_N rows of W, y = parts of K.         PRODUCERS = 0: every wave streams for itself
//
//     W  |~~~~~~~ part 0 ~~~~~~~|~~~~~~~ part 1 ~~~~~~~|           memory -> ring of DEPTH steps in registers -> MFMA
//        |0 1 2 3 0 1 2 3 0 1 2 |  step s of a part belongs
//                                  to wave s % WAVES             PRODUCERS > 0: waves with one task each
//     sums of the waves are added in LDS, sums of the parts
//     as REDUCE says                                              memory -> slots in LDS (producers) -> MFMA (consumers)
//
// FORM is the instruction: 0 v_smfmac 16x16x64 and 1 16x16x128 (both M <= 8, FP8: a sparse instruction on dense data takes
// half the time), 2 for 16 rows, 3 for 32.
// Steps beyond a part's end read zeros: buffers end where the part does. That covers ring, slots and K tails alike.
//
// A slot has two flags, which count items: a producer waits until the slot's previous item was consumed, a consumer until
// the slot's item arrived. gfx950 copies to LDS directly and waits for that (vmcnt) before it raises the flag; gfx942, which
// can copy but 4 bytes a lane, goes through registers.
//
// REDUCE: 0 one part; 1 f32 atomics into a zeroed buffer, which the last workgroup of a tile reads and zeroes; 2 each part
// stores its sums and the last workgroup adds them in order; 3 as 2, by the kernel of skinny_reduce.hip.
//
// Macros: WEIGHT, ACTIVATION (formats, as in quantise.hip), FORM, PANELS (16 rows of W each), WAVES (that multiply),
// PRODUCERS, DEPTH (steps of the ring, or slots), STEPS (of 128 along K, of a slot), REDUCE, CACHE (bits of the loads of W),
// DIRECT (A lies row-major), OUT_BF16, BIAS.

constexpr u32 W_BITS = bits_of(WEIGHT), A_BITS = bits_of(ACTIVATION);
constexpr u32 W_STEP = step_bytes(W_BITS), A_STEP = step_bytes(A_BITS), SCALE_STEP = 256;
constexpr u32 TOTAL_WAVES = WAVES + PRODUCERS, THREADS = 64 * TOTAL_WAVES;
// An offset outside every buffer.
constexpr u32 OUTSIDE = 0x80000000;
// f32 of a row of sums in LDS: a multiple of four, and not of the banks.
constexpr u32 PITCH = TILE_N + 4;

// A step in a slot: W's vectors and 8-byte tails, A's, then the scales of both. 1024 bytes are what a wave copies at once.
constexpr u32 PIECE = 1024;
constexpr u32 W_PIECES = planes(W_BITS) * PANELS, W_TAILS = has_tail(W_BITS) ? PANELS / 2 : 0;
constexpr u32 A_PIECES = planes(A_BITS) * BLOCK_PANELS, A_TAILS = has_tail(A_BITS) ? 1 : 0;
constexpr u32 PIECES = W_PIECES + W_TAILS + A_PIECES + A_TAILS;
constexpr u32 W_TAIL_AT = PIECE * W_PIECES, A_AT = W_TAIL_AT + PIECE * W_TAILS, A_TAIL_AT = A_AT + PIECE * A_PIECES;
constexpr u32 SCALES_AT = A_TAIL_AT + PIECE * A_TAILS;
constexpr u32 SLOT_STEP = SCALES_AT + (MX ? 2 * SCALE_STEP : 0), SLOT = STEPS * SLOT_STEP;
constexpr u32 QUEUE_BYTES = PRODUCERS ? DEPTH * SLOT : 0, SUM_BYTES = WAVES * TILE_M * PITCH * 4;
constexpr u32 MEMORY = QUEUE_BYTES > SUM_BYTES ? QUEUE_BYTES : SUM_BYTES;
static_assert(SCALES_AT == PIECE * PIECES);
static_assert(PRODUCERS == 0 || !has_tail(W_BITS) || PANELS % 2 == 0, "half a piece");

typedef __amdgpu_buffer_rsrc_t Buffer;
DEVICE Buffer buffer(const void* base, u32 bytes) {
  return __builtin_amdgcn_make_buffer_rsrc((void*)base, 0, bytes, 0x00020000);
}
template <int POLICY> DEVICE u32x4 load16(Buffer from, u32 at) {
  return __builtin_bit_cast(u32x4, __builtin_amdgcn_raw_buffer_load_b128(from, at, 0, POLICY));
}
template <int POLICY> DEVICE u32x2 load8(Buffer from, u32 at) {
  return __builtin_bit_cast(u32x2, __builtin_amdgcn_raw_buffer_load_b64(from, at, 0, POLICY));
}

// The operands of a workgroup, and where they end.
struct Operands {
  Buffer w, a, w_scales, a_scales;
  // First panel of the tile in its slab.
  u32 panel;
  // Of A where it lies row-major: rows, K of a row, K of this part's end.
  u32 m, k, k_end;

  // Where 8 bf16 of A lie: `vector` counts 64 a panel.
  DEVICE u32 direct(u32 step, u32 plane, u32 vector, u32 m, u32 k, u32 k_end) {
    const u32 row = 16 * (vector / 64) + vector % 16, at = STEP_K * step + 32 * plane + 8 * (vector % 64 / 16);
    return row < m && at < k_end ? 2 * (row * k + at) : OUTSIDE;
  }
  __device__ inline u32 a_vector(u32 step, u32 plane, u32 vector) const {
    if (DIRECT) return direct(step, plane, vector, m, k, k_end);
    return step * A_STEP + 4096 * plane + 16 * vector;
  }
  __device__ inline u32 w_vector(u32 step, u32 plane, u32 vector) const {
    return step * W_STEP + 1024 * panel + 4096 * plane + 16 * vector;
  }
  // Both 8-byte tails lie behind one plane.
  __device__ inline u32 w_tail(u32 step, u32 vector) const {
    return step * W_STEP + 4096 + 512 * panel + 8 * vector;
  }
  __device__ inline u32 a_tail(u32 step, u32 vector) const { return step * A_STEP + 4096 + 8 * vector; }
};

// What a wave multiplies in one step.
struct Step {
  Fragment<W_BITS> w[BLOCKS];
  Fragment<A_BITS> a;
  Scales w_scales, a_scales;
};

// The plane and vector of A that a lane reads as its p-th.
DEVICE u32x2 a_place(u32 lane, u32 p, u32 s) {
#if FORM == 0
  return u32x2{p, sparse_vector(lane, 0)};
#elif FORM == 1
  return u32x2{lane / 32, sparse_vector(lane, p)};
#else
  return u32x2{p, vector_of(lane) + s};
#endif
}

// Moves the scales of the lane's first panel to byte 0.
DEVICE u32 aligned(u32 scales, u32 panel, u32 lane) { return scales >> (8 * (panel + (WIDE ? lane % 32 / 16 : 0))); }

// Reads a step: `w16(plane, vector)`, `w8(vector)`, `a16`, `a8`, `w4(vector)` and `a4` know where the operands lie.
template <class W16, class W8, class A16, class A8, class W4, class A4>
DEVICE void read_step(Step& to, u32 lane, W16 w16, W8 w8, A16 a16, A8 a8, W4 w4, A4 a4) {
  const u32 first = vector_of(lane);
#pragma unroll
  for (u32 b = 0; b < BLOCKS; b++) {
    const u32 vector = first + 64 * BLOCK_PANELS * b;
    read_fragment<W_BITS>(
        to.w[b], [&](u32 p, u32 s) { return w16(p, vector + s); }, [&](u32 s) { return w8(vector + s); });
  }
  read_fragment<A_BITS>(
      to.a,
      [&](u32 p, u32 s) {
        const u32x2 at = a_place(lane, p, s);
        return a16(at[0], at[1]);
      },
      [&](u32 s) { return a8(first + s); });
  if constexpr (MX)
#pragma unroll
    for (u32 i = 0; i < HALVES; i++) {
      to.w_scales.words[i] = w4(first % 64 + 32 * i);
      to.a_scales.words[i] = a4(first % 64 + 32 * i);
    }
}

// From memory into registers.
DEVICE void fetch(Step& to, const Operands& o, u32 lane, u32 step) {
  read_step(
      to, lane, [&](u32 p, u32 v) { return load16<CACHE>(o.w, o.w_vector(step, p, v)); },
      [&](u32 v) { return load8<CACHE>(o.w, o.w_tail(step, v)); },
      [&](u32 p, u32 v) { return load16<0>(o.a, o.a_vector(step, p, v)); },
      [&](u32 v) { return load8<0>(o.a, o.a_tail(step, v)); },
      [&](u32 v) { return __builtin_amdgcn_raw_buffer_load_b32(o.w_scales, step * SCALE_STEP + 4 * v, 0, 0); },
      [&](u32 v) { return __builtin_amdgcn_raw_buffer_load_b32(o.a_scales, step * SCALE_STEP + 4 * v, 0, 0); });
}

// From a slot into registers.
DEVICE void take(Step& to, LDS const u8* slot, u32 lane) {
  const auto w16 = [&](u32 p, u32 v) { return *(LDS const u32x4*)(slot + PIECE * PANELS * p + 16 * v); };
  const auto w8 = [&](u32 v) { return *(LDS const u32x2*)(slot + W_TAIL_AT + 8 * v); };
  const auto a16 = [&](u32 p, u32 v) { return *(LDS const u32x4*)(slot + A_AT + PIECE * BLOCK_PANELS * p + 16 * v); };
  const auto a8 = [&](u32 v) { return *(LDS const u32x2*)(slot + A_TAIL_AT + 8 * v); };
  const auto w4 = [&](u32 v) { return *(LDS const u32*)(slot + SCALES_AT + 4 * v); };
  const auto a4 = [&](u32 v) { return *(LDS const u32*)(slot + SCALES_AT + SCALE_STEP + 4 * v); };
  read_step(to, lane, w16, w8, a16, a8, w4, a4);
}

DEVICE void add_step(Sum* sums, Step& step, u32 panel, u32 lane) {
  if constexpr (MX)
#pragma unroll
    for (u32 i = 0; i < HALVES; i++) {
      // Only here, when the step's data have to be there: a shift right after the load would wait for it.
      asm volatile("" : "+v"(step.w_scales.words[i]), "+v"(step.a_scales.words[i]));
      step.w_scales.words[i] = aligned(step.w_scales.words[i], panel, lane);
      step.a_scales.words[i] = aligned(step.a_scales.words[i], 0, lane);
    }
#pragma unroll
  for (u32 b = 0; b < BLOCKS; b++) multiply(step.w[b], step.a, step.w_scales, step.a_scales, b, lane, sums[b]);
}

// Every wave for itself.
DEVICE void stream(Sum* sums, const Operands& o, u32 begin, u32 end) {
  const u32 lane = lane_id();
  Step ring[DEPTH];
  begin += wave_id();
#pragma unroll
  for (u32 d = 0; d < DEPTH; d++) {
    fetch(ring[d], o, lane, begin + d * WAVES);
    // In the order of their use, by which waits count.
    asm volatile("" ::: "memory");
    __builtin_amdgcn_sched_barrier(0);
  }
#pragma unroll 1
  for (u32 step = begin; step < end; step += DEPTH * WAVES)
#pragma unroll
    for (u32 d = 0; d < DEPTH; d++) {
      add_step(sums, ring[d], o.panel, lane);
      // The products come before the loads, or the compiler mixes the two, needs other registers for what it fetches,
      // and waits for every load to copy them. Products have no side effects: only that their sums are looked at keeps
      // them in place. Loads left alone move down to their uses.
#pragma unroll
      for (u32 b = 0; b < BLOCKS; b++) asm volatile("" : "+v"(sums[b])::"memory");
      __builtin_amdgcn_sched_barrier(0);
      fetch(ring[d], o, lane, step + (d + DEPTH) * WAVES);
      __builtin_amdgcn_sched_barrier(0);
    }
}

#if PRODUCERS
DEVICE u32 raised(LDS u32* flag) { return __hip_atomic_load(flag, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_WORKGROUP); }
DEVICE void raise(LDS u32* flag, u32 to) { __hip_atomic_store(flag, to, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_WORKGROUP); }
DEVICE void await(LDS u32* flag, u32 value) {
  while (raised(flag) != value) __builtin_amdgcn_s_sleep(0);
}

// Calls `f(operand, offset, bytes before it in the slot, policy)` for each piece of a step.
template <class F> DEVICE void for_pieces(const Operands& o, u32 step, u32 lane, F f) {
#pragma unroll
  for (u32 i = 0; i < W_PIECES; i++)
    f.template operator()<CACHE>(o.w, o.w_vector(step, i / PANELS, 64 * (i % PANELS) + lane), PIECE * i);
#pragma unroll
  for (u32 i = 0; i < W_TAILS; i++)
    f.template operator()<CACHE>(o.w, o.w_tail(step, 128 * i + 2 * lane), W_TAIL_AT + PIECE * i);
#pragma unroll
  for (u32 i = 0; i < A_PIECES; i++)
    f.template operator()<0>(o.a, o.a_vector(step, i / BLOCK_PANELS, 64 * (i % BLOCK_PANELS) + lane), A_AT + PIECE * i);
#pragma unroll
  for (u32 i = 0; i < A_TAILS; i++) f.template operator()<0>(o.a, o.a_tail(step, 2 * lane), A_TAIL_AT);
}

DEVICE void produce(const Operands& o, LDS u8* queue, LDS u32* ready, LDS u32* freed, u32 begin, u32 items) {
  const u32 lane = lane_id();
#pragma unroll 1
  for (u32 item = wave_id(); item < items; item += PRODUCERS) {
    const u32 index = item % DEPTH, step = begin + item * STEPS;
    LDS u8* slot = queue + index * SLOT;
#ifdef __gfx950__
    await(freed + index, item >= DEPTH ? item - DEPTH + 1 : 0);
#pragma unroll
    for (u32 s = 0; s < STEPS; s++) {
      LDS u8* to = slot + s * SLOT_STEP;
      for_pieces(o, step + s, lane, [&]<int POLICY>(Buffer from, u32 at, u32 offset) {
        __builtin_amdgcn_raw_ptr_buffer_load_lds(from, (LDS void*)(to + offset), 16, at, 0, 0, POLICY);
      });
      if constexpr (MX) {
        const u32 at = (step + s) * SCALE_STEP + 4 * lane;
        __builtin_amdgcn_raw_ptr_buffer_load_lds(o.w_scales, (LDS void*)(to + SCALES_AT), 4, at, 0, 0, 0);
        __builtin_amdgcn_raw_ptr_buffer_load_lds(o.a_scales, (LDS void*)(to + SCALES_AT + SCALE_STEP), 4, at, 0, 0, 0);
      }
    }
    // Copies to LDS have arrived when vmcnt says so. The release below makes clang 22 wait as well, but nothing says that
    // every compiler takes a copy to LDS for something that a release orders.
    asm volatile("s_waitcnt vmcnt(0)" ::: "memory");
    __builtin_amdgcn_sched_barrier(0);
#else
    u32x4 pieces[STEPS * PIECES];
#pragma unroll
    for (u32 s = 0; s < STEPS; s++)
      for_pieces(o, step + s, lane, [&]<int POLICY>(Buffer from, u32 at, u32 offset) {
        pieces[s * PIECES + offset / PIECE] = load16<POLICY>(from, at);
      });
    await(freed + index, item >= DEPTH ? item - DEPTH + 1 : 0);
#pragma unroll
    for (u32 i = 0; i < STEPS * PIECES; i++) *(LDS u32x4*)(slot + PIECE * i + 16 * lane) = pieces[i];
#endif
    raise(ready + index, item + 1);
  }
}

DEVICE void consume(Sum* sums, u32 panel, LDS u8* queue, LDS u32* ready, LDS u32* freed, u32 items) {
  const u32 lane = lane_id();
#pragma unroll 1
  for (u32 item = wave_id() - PRODUCERS; item < items; item += WAVES) {
    const u32 index = item % DEPTH;
    await(ready + index, item + 1);
    Step steps[STEPS];
#pragma unroll
    for (u32 s = 0; s < STEPS; s++) take(steps[s], queue + index * SLOT + s * SLOT_STEP, lane);
#pragma unroll
    for (u32 s = 0; s < STEPS; s++) add_step(sums, steps[s], panel, lane);
    raise(freed + index, item + 1);
  }
}
#endif

// A wave's sums as a matrix of TILE_M rows in LDS.
DEVICE void put_sums(LDS float* to, const Sum* sums) {
  const u32 lane = lane_id();
#pragma unroll
  for (u32 b = 0; b < BLOCKS; b++) {
#if FORM <= 1
    LDS float* at = to + 2 * (lane / 16) * PITCH + 16 * b + lane % 16;
    at[0] = sums[b][0] + sums[b][1];
    at[PITCH] = sums[b][2] + sums[b][3];
#elif FORM == 2
    *(LDS f32x4*)(to + lane % 16 * PITCH + 16 * b + 4 * (lane / 16)) = sums[b];
#else
#pragma unroll
    for (u32 i = 0; i < 4; i++)
      *(LDS f32x4*)(to + lane % 32 * PITCH + 32 * b + 8 * i + 4 * (lane / 32)) =
          f32x4{sums[b][4 * i], sums[b][4 * i + 1], sums[b][4 * i + 2], sums[b][4 * i + 3]};
#endif
  }
}

KERNEL(THREADS, (TOTAL_WAVES + 3) / 4)
skinny(const u8* weight, const u8* activation,
#if WEIGHT >= 1
       const u8* weight_scales, const u8* activation_scales,
#endif
       const float* bias, Out* d,
#if REDUCE
       float* partial,
#endif
#if REDUCE == 1 || REDUCE == 2
       u32* tickets,
#endif
       u32 m, u32 n, u32 k, u32 parts) {
#if WEIGHT == 0
  const u8 *weight_scales = nullptr, *activation_scales = nullptr;
#endif
  __shared__ __attribute__((aligned(1024))) u8 memory[MEMORY];
  __shared__ u32 flags[2 * DEPTH + 1];
  const u32 tile = __builtin_amdgcn_workgroup_id_x(), part = __builtin_amdgcn_workgroup_id_y(), n0 = tile * TILE_N;
  const u32 steps = (k + STEP_K - 1) / STEP_K, begin = steps * part / parts, end = steps * (part + 1) / parts;
  Operands o;
  const u64 slab_steps = (u64)(n0 / 64) * steps;
  o.w = buffer(weight + slab_steps * W_STEP, end * W_STEP);
  o.a = buffer(activation, DIRECT ? 2 * m * k : end * A_STEP);
  o.w_scales = buffer(MX ? weight_scales + slab_steps * SCALE_STEP : nullptr, end * SCALE_STEP);
  o.a_scales = buffer(activation_scales, end * SCALE_STEP);
  o.panel = n0 % 64 / 16;
  o.m = m, o.k = k, o.k_end = k < end * STEP_K ? k : end * STEP_K;

  Sum sums[BLOCKS] = {};
#if PRODUCERS
  LDS u32 *ready = (LDS u32*)flags, *freed = ready + DEPTH;
  if (thread() < 2 * DEPTH) ready[thread()] = 0;
  sync();
  const u32 items = (end - begin + STEPS - 1) / STEPS;
  if (wave_id() < PRODUCERS)
    produce(o, (LDS u8*)memory, ready, freed, begin, items);
  else
    consume(sums, o.panel, (LDS u8*)memory, ready, freed, items);
  // The sums take the queue's place.
  sync();
#else
  stream(sums, o, begin, end);
#endif
  LDS float* shared = (LDS float*)memory;
  if (wave_id() >= PRODUCERS) put_sums(shared + (wave_id() - PRODUCERS) * TILE_M * PITCH, sums);
  sync();

  const Finish finish = {(const float*)weight_scales, (const float*)activation_scales, bias, d, n};
  [[maybe_unused]] const u64 size = (u64)m * n;
  // Calls f(row, column of D, place in LDS) for the work-item's elements; neighbours are neighbours in N.
  const auto for_elements = [&](auto f) {
    for (u32 at = thread(); at < TILE_M * TILE_N; at += THREADS) {
      const u32 row = at / TILE_N, column = at % TILE_N;
      if (row < m && n0 + column < n) f(row, n0 + column, row * PITCH + column);
    }
  };
  for_elements([&](u32 row, u32 column, u32 place) {
    float sum = 0;
#pragma unroll
    for (u32 w = 0; w < WAVES; w++) sum += shared[w * TILE_M * PITCH + place];
#if REDUCE == 0
    finish(sum, row, column);
#elif REDUCE == 1
    __hip_atomic_fetch_add(partial + (u64)row * n + column, sum, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
#else
    partial[part * size + (u64)row * n + column] = sum;
#endif
  });
#if REDUCE == 1 || REDUCE == 2
  // Everybody's sums are visible to the device before the workgroup draws its ticket.
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
  sync();
  LDS u32* last = (LDS u32*)flags + 2 * DEPTH;
  if (thread() == 0) *last = __hip_atomic_fetch_add(tickets + tile, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT) == parts - 1;
  sync();
  if (!*last) return;
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
  if (thread() == 0) tickets[tile] = 0;
  for_elements([&](u32 row, u32 column, u32) {
    const u64 at = (u64)row * n + column;
    float sum = 0;
#if REDUCE == 1
    sum = __hip_atomic_exchange(partial + at, 0.0f, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
#else
    for (u32 other = 0; other < parts; other++) sum += partial[other * size + at];
#endif
    finish(sum, row, column);
  });
#endif
}
