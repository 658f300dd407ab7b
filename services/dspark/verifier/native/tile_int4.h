// Tiles with int4 weights and 16-bit activations.
//
// A weight is code * scale + smallest, with codes 0 to 15, so a group gives scale * (sum of code * activation) +
// smallest * (sum of activations). Both sums stay below 32 * 15 * 32767 < 2^23.9, so they are exact as floats.
#pragma once

#include "tile_codes.h"

template <int ROWS>
static inline void add_pair4(Rows x, const int16_t* codes, const char* weights,
                             IntVector (&acc)[ROWS][kVectors]) {
  IntVector w[kVectors];
  ivload_int4(weights, w);
  add_products<ROWS>(x, codes, w, acc);
}

// The 16 pairs of a group, whose codes are four lines.
template <int ROWS>
static inline void add_group4(Rows x, const char* group, int first_k, Fetch fetch,
                              IntVector (&acc)[ROWS][kVectors]) {
  const int16_t* codes = x.codes + first_k;
  for (int i = 0; i < kGroup4 / 8; ++i) {
    _mm_prefetch(fetch.from, _MM_HINT_T1);
    fetch.from += fetch.stride;
    UNROLL for (int pair = 0; pair < 4; ++pair) {
      add_pair4<ROWS>(x, codes + 2 * pair, group + pair * kPairBytes4, acc);
    }
    codes += 8;
    group += 4 * kPairBytes4;
  }
}

// ROWS rows by one half.
template <int ROWS>
static inline void tile_int4(Rows x, const char* base, int groups, Fetch fetch, const float* bias, float* out) {
  Vector sums[ROWS][kVectors];
  clear<ROWS>(sums);
  const float* group_sums = reinterpret_cast<const float*>(x.codes + groups * kGroup4);
  const size_t sum_stride = x.code_stride / 2;
  for (int g = 0; g < groups; ++g) {
    IntVector acc[ROWS][kVectors];
    clear<ROWS>(acc);
    const char* group = base + size_t(g) * kGroupBytes4;
    add_group4<ROWS>(x, group, g * kGroup4, fetch, acc);
    fetch.from += kGroup4 / 8 * fetch.stride;
    _mm_prefetch(fetch.from, _MM_HINT_T1);
    fetch.from += fetch.stride;
    const uint16_t* scales = reinterpret_cast<const uint16_t*>(group + kGroupCodes4);
    for (int v = 0; v < kVectors; ++v) {
      const Vector scale = vload_fp16(scales + v * kWidth), smallest = vload_fp16(scales + kHalf + v * kWidth);
      for (int r = 0; r < ROWS; ++r) {
        sums[r][v] = vfma(ivfloat(acc[r][v]), scale, sums[r][v]);
        sums[r][v] = vfma(vset(group_sums[r * sum_stride + g]), smallest, sums[r][v]);
      }
    }
  }
  store_outputs<ROWS>(sums, x, bias, out);
}
