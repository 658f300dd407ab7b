// Tiles with int8 weights and 16-bit activations: sums over 64 k stay below 64 * 127 * 32767 < 2^28.1.
#pragma once

#include "tile_codes.h"

template <int ROWS>
static inline void add_pair(Rows x, const int16_t* codes, const char* weights,
                            IntVector (&acc)[ROWS][kVectors]) {
  IntVector w[kVectors];
  UNROLL for (int v = 0; v < kVectors; ++v) w[v] = ivload_int8(weights + v * 2 * kWidth);
  add_products<ROWS>(x, codes, w, acc);
}

// The 32 pairs of a group; what follows is fetched once in two pairs, into the second-level cache, since the
// first has too few misses in flight for the rate at which one row uses up int8 weights.
template <int ROWS>
static inline void add_group(Rows x, const char* group, int first_k, Fetch fetch,
                             IntVector (&acc)[ROWS][kVectors]) {
  const int16_t* codes = x.codes + first_k;
  for (int i = 0; i < kGroup / 4; ++i) {
    _mm_prefetch(fetch.from, _MM_HINT_T1);
    fetch.from += fetch.stride;
    add_pair<ROWS>(x, codes, group, acc);
    add_pair<ROWS>(x, codes + 2, group + kPairBytes, acc);
    codes += 4;
    group += 2 * kPairBytes;
  }
}

// ROWS rows by one half.
template <int ROWS>
static inline void tile_int8(Rows x, const char* base, int groups, Fetch fetch, const float* bias, float* out) {
  Vector sums[ROWS][kVectors];
  clear<ROWS>(sums);
  for (int g = 0; g < groups; ++g) {
    IntVector acc[ROWS][kVectors];
    clear<ROWS>(acc);
    const char* group = base + size_t(g) * kGroupBytes;
    add_group<ROWS>(x, group, g * kGroup, fetch, acc);
    fetch.from += kGroup / 4 * fetch.stride;
    for (int v = 0; v < kVectors; ++v) {
      const Vector scale = vload_bf16(reinterpret_cast<const uint16_t*>(group + kGroupCodes) + v * kWidth);
      for (int r = 0; r < ROWS; ++r) sums[r][v] = vfma(ivfloat(acc[r][v]), scale, sums[r][v]);
    }
  }
  store_outputs<ROWS>(sums, x, bias, out);
}
