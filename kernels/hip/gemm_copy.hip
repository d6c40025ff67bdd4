// From memory to LDS: where the pieces of a stage lie, and which wave copies them. Part of gemm.hip.

// One operand's part of a tile: where it begins, and how much of the operand there is from there on.
struct Source {
  const u8 *codes, *scales;
  u32 code_bytes, scale_bytes;
  // Slab of the tile's first row in its unit; bytes of a unit's codes and scales.
  u32 first, code_stride, scale_stride;

  template <class O> DEVICE Source of(const u8 *codes, const u8 *scales, u32 rows, u32 steps, u32 tile) {
    const u32 slab = tile * O::SLABS, unit = slab / UNIT_SLABS;
    const u32 units = (rows + UNIT_SLABS * SLAB - 1) / (UNIT_SLABS * SLAB);
    const u32 spanned = (slab % UNIT_SLABS + O::SLABS + UNIT_SLABS - 1) / UNIT_SLABS;
    const u32 have = units - unit < spanned ? units - unit : spanned;
    const u32 stored = steps + (C0C1 ? 2 : 0);
    Source s;
    s.first = slab % UNIT_SLABS;
    s.code_stride = stored * UNIT_SLABS * O::STEP_BYTES;
    s.scale_stride = stored * UNIT_SLABS * SCALE_STEP;
    s.codes = codes + (u64)unit * s.code_stride;
    s.scales = scales + (u64)unit * s.scale_stride;
    s.code_bytes = have * s.code_stride;
    s.scale_bytes = have * s.scale_stride;
    return s;
  }

  // Offset of a piece of codes in the first stage.
  template <class O> MEMBER u32 piece(u32 index) const {
    const u32 slab = first + index / O::SLAB_PIECES, part = index % O::SLAB_PIECES;
    const u32 unit = slab / UNIT_SLABS * code_stride;
    if constexpr (!C0C1) return unit + part * PIECE;
    const u32 quarter = slab % 4;
    return unit + part * PIECE + (part < 4 ? quarter * 4096 : 16384 + quarter * 2048 - 4 * PIECE);
  }

  // Offset of a piece of scales in the first stage: those of slab index / STEPS, step index % STEPS.
  MEMBER u32 scale_piece(u32 index) const {
    const u32 slab = first + index / STEPS, step = index % STEPS;
    const u32 unit = slab / UNIT_SLABS * scale_stride + step * UNIT_SLABS * SCALE_STEP;
    return unit + (C0C1 ? slab % 4 / 2 * 512 + slab % 2 * 4 : 0);
  }
};

// The copies that one wave makes of every stage: copy U is of piece U * WAVES + wave.
struct Copier {
  // From where, and how far into it in the first stage.
  Buffer codes[CODE_UNITS], scales[SCALE_UNITS ? SCALE_UNITS : 1];
  u32 code_at[CODE_UNITS], scale_at[SCALE_UNITS ? SCALE_UNITS : 1];
  // Bit U: the copy is of a stage's second step of 128, which the last stage may not have.
  u32 codes_late, scales_late;
  u32 steps, wave, lane;

  // Whether all copies with number UNIT are of A, none is, or it depends on the wave.
  enum Whose { A, B, EITHER };
  template <u32 UNIT, u32 OF_A, u32 OF_ALL> static constexpr Whose whose() {
    return (UNIT + 1) * WAVES <= OF_A ? A : UNIT * WAVES >= OF_A && (UNIT + 1) * WAVES <= OF_ALL ? B : EITHER;
  }

  MEMBER Copier(const Source &a, const Source &b, u32 steps, u32 wave, u32 lane)
      : codes_late(0), scales_late(0), steps(steps), wave(wave), lane(lane) {
    const Buffer codes_a = buffer(a.codes, a.code_bytes), codes_b = buffer(b.codes, b.code_bytes);
    repeat<CODE_UNITS>([&]<u32 U>() {
      constexpr Whose owner = whose<U, OperandA::PIECES, PIECES>();
      const u32 index = U * WAVES + wave, of_b = index - OperandA::PIECES;
      const bool is_a = owner == A || (owner == EITHER && index < OperandA::PIECES);
      if constexpr (owner == A) codes[U] = codes_a;
      else if constexpr (owner == B) codes[U] = codes_b;
      else codes[U] = buffer(choose(is_a, a.codes, b.codes), choose(is_a, a.code_bytes, b.code_bytes));
      // Where the owner depends on the wave, the compiler has to be told that the choice is the same in all lanes.
      const u32 at = choose(is_a, a.piece<OperandA>(index), b.piece<OperandB>(of_b));
      code_at[U] = owner == EITHER ? uniform(at) : at;
      const bool late = is_a ? index % OperandA::SLAB_PIECES >= OperandA::SLAB_PIECES / 2
                             : of_b % OperandB::SLAB_PIECES >= OperandB::SLAB_PIECES / 2;
      if (STEPS == 2) codes_late |= u32(late) << U;
    });
    const Buffer scales_a = buffer(a.scales, a.scale_bytes), scales_b = buffer(b.scales, b.scale_bytes);
    repeat<SCALE_UNITS>([&]<u32 U>() {
      constexpr u32 split = OperandA::SLABS * STEPS;
      constexpr Whose owner = whose<U, split, SCALE_PIECES>();
      const u32 index = U * WAVES + wave, of_b = index - split;
      const bool is_a = owner == A || (owner == EITHER && index < split), idle = index >= SCALE_PIECES;
      if constexpr (owner == A) scales[U] = scales_a;
      else if constexpr (owner == B) scales[U] = scales_b;
      else scales[U] = buffer(choose(is_a, a.scales, b.scales), idle ? 0 : choose(is_a, a.scale_bytes, b.scale_bytes));
      scale_at[U] = uniform(choose(is_a, a.scale_piece(index), b.scale_piece(of_b)));
      if (STEPS == 2) scales_late |= index % 2 << U;
    });
  }

  // OUTSIDE where K ended before the stage, or before its second step for copies that are `late`; else 0. Bits instead of
  // conditions, so that no branch stands among the copies.
  template <u32 UNIT> MEMBER u32 past_end(u32 stage, u32 late) const {
    const u32 whole = stage * TILE_K >= steps * 128 ? OUTSIDE : 0;
    const u32 half = STEPS == 2 && 2 * stage + 1 >= steps ? late >> UNIT << 31 : 0;
    return whole | half;
  }

  // Offset of copy UNIT of the codes of a stage in its buffer.
  template <u32 UNIT> MEMBER u32 code_offset(u32 stage) const {
    const u32 of_a = UNIT_SLABS * OperandA::STAGE_BYTES, of_b = UNIT_SLABS * OperandB::STAGE_BYTES;
    constexpr Whose owner = whose<UNIT, OperandA::PIECES, PIECES>();
    const bool is_a = owner == A || (owner == EITHER && UNIT * WAVES + wave < OperandA::PIECES);
    return (code_at[UNIT] + stage * (is_a ? of_a : of_b)) | past_end<UNIT>(stage, codes_late);
  }

  template <u32 UNIT> MEMBER u32 scale_offset(u32 stage) const {
    return (scale_at[UNIT] + stage * (STEPS * UNIT_SLABS * SCALE_STEP)) | past_end<UNIT>(stage, scales_late);
  }

#ifdef __gfx950__
  // Sends a stage to LDS: UNITS operations, whatever the stage.
  MEMBER void issue(LDS u8 *lds, u32 slot, u32 stage) const {
    LDS u8 *to = lds + slot * STAGE;
    repeat<CODE_UNITS>([&]<u32 U>() {
      LDS void *place = (LDS void *)(to + (U * WAVES + wave) * PIECE);
      __builtin_amdgcn_raw_ptr_buffer_load_lds(codes[U], place, 16, lane * 16, code_offset<U>(stage), 0, 0);
    });
    repeat<SCALE_UNITS>([&]<u32 U>() {
      const u32 index = U * WAVES + wave;
      LDS u8 *place = index < SCALE_PIECES ? to + SCALES_AT + index * SCALE_STEP : lds + SINK_AT + wave * SCALE_STEP;
      const u32 stride = C0C1 ? 8 : 4;
      __builtin_amdgcn_raw_ptr_buffer_load_lds(scales[U], (LDS void *)place, 4, lane * stride, scale_offset<U>(stage),
                                               0, 0);
    });
    __builtin_amdgcn_sched_barrier(0);
  }
#else
  MEMBER void fetch(i32x4 (&held)[CODE_UNITS], u32 stage) const {
    repeat<CODE_UNITS>([&]<u32 U>() {
      held[U] = __builtin_bit_cast(
          i32x4, __builtin_amdgcn_raw_buffer_load_b128(codes[U], lane * 16, code_offset<U>(stage), 0));
    });
  }

  MEMBER void put(LDS u8 *lds, u32 slot, const i32x4 (&held)[CODE_UNITS]) const {
    repeat<CODE_UNITS>([&]<u32 U>() {
      *(LDS i32x4 *)(lds + slot * STAGE + (U * WAVES + wave) * PIECE + lane * 16) = held[U];
    });
  }
#endif
};
