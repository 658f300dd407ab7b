// Tiles with int4 weights and 16-bit activations.
//
// A weight is code * scale + smallest, with codes 0 to 15, so a group gives scale * (sum of code * activation) +
// smallest * (sum of activations). Both sums are exact integers (32 * 15 * 32767 is below 2^23.9, so exact as
// floats too), and groups are added in ascending order: an output depends on its own row only, whatever the
// vector width.
#pragma once

#include "tile_int8.h"

// sums [padded / 32] of the codes of each group.
static inline void sum_groups(const int16_t* codes, int padded, float* sums) {
  const __m256i ones = _mm256_set1_epi16(1);
  for (int g = 0; g < padded / kGroup4; ++g, codes += kGroup4) {
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes));
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + kGroup4 / 2));
    sums[g] = float(sum8(_mm256_add_epi32(_mm256_madd_epi16(low, ones), _mm256_madd_epi16(high, ones))));
  }
}

// acc[r][v] += the products of one pair of k.
template <int ROWS>
static inline void add_pair4(Rows x, const int16_t* codes, const char* weights,
                             IntVector (&acc)[ROWS][kVectors]) {
  IntVector w[kVectors];
  ivload_int4(weights, w);
  UNROLL for (int r = 0; r < ROWS; ++r) {
    IntVector xs = ivset_pair(codes + size_t(r) * x.code_stride);
    KEEP(xs);
    UNROLL for (int v = 0; v < kVectors; ++v) {
      acc[r][v] = ivdot(acc[r][v], xs, w[v]);
      KEEP(acc[r][v]);
    }
  }
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
  for (int r = 0; r < ROWS; ++r) {
    for (int v = 0; v < kVectors; ++v) sums[r][v] = vzero();
  }
  const float* group_sums = reinterpret_cast<const float*>(x.codes + groups * kGroup4);
  const size_t sum_stride = x.code_stride / 2;
  for (int g = 0; g < groups; ++g) {
    IntVector acc[ROWS][kVectors];
    UNROLL for (int r = 0; r < ROWS; ++r) {
      UNROLL for (int v = 0; v < kVectors; ++v) acc[r][v] = ivzero();
    }
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
  for (int v = 0; v < kVectors; ++v) {
    const Vector start = bias ? vload(bias + v * kWidth) : vzero();
    for (int r = 0; r < ROWS; ++r) {
      vstore(out + r * kPanel + v * kWidth, vfma(sums[r][v], vset(x.scales[r]), start));
    }
  }
}
