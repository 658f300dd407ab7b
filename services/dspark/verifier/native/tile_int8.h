// Tiles with int8 weights and 16-bit activations.
//
// Products are summed in 32-bit integers over a group of 64 k, which cannot overflow (64 * 127 * 32767 is
// below 2^28.1), so the order of those additions is free; groups are then added as floats in ascending
// order. So an output depends on its own row only, whatever the vector width.
#pragma once

#include <algorithm>

#include "weights.h"

constexpr float kMaxCode = 32767.0f;

// codes [padded] of x [size], symmetric and rounded to nearest even; returns what one code is worth.
static inline float encode_row(const float* x, int size, int16_t* codes, int padded) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  __m256 top8 = _mm256_setzero_ps();
  int i = 0;
  for (; i + kLanes <= size; i += kLanes) top8 = _mm256_max_ps(top8, _mm256_andnot_ps(sign, load8(x + i)));
  float top = max8(top8);
  for (; i < size; ++i) top = std::max(top, std::fabs(x[i]));
  const float scale = top / kMaxCode;
  const float inverse = scale > 0 ? 1.0f / scale : 0.0f;
  const __m256 inverse8 = _mm256_set1_ps(inverse);
  for (i = 0; i + kLanes <= size; i += kLanes) {
    const __m256i code = _mm256_cvtps_epi32(_mm256_mul_ps(load8(x + i), inverse8));
    const __m128i packed = _mm_packs_epi32(_mm256_castsi256_si128(code), _mm256_extracti128_si256(code, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + i), packed);
  }
  for (; i < size; ++i) codes[i] = int16_t(std::min(std::nearbyint(x[i] * inverse), kMaxCode));
  for (; i < padded; ++i) codes[i] = 0;
  return scale;
}

constexpr int kVectors = kHalf / kWidth;

// acc[r][v] += the products of one pair of k. Each row is finished before the next is loaded, which the
// compiler is made to keep to: it would load all rows first and have no registers left for the sums.
template <int ROWS>
static inline void add_pair(Rows x, const int16_t* codes, const char* weights,
                            IntVector (&acc)[ROWS][kVectors]) {
  IntVector w[kVectors];
  UNROLL for (int v = 0; v < kVectors; ++v) w[v] = ivload_int8(weights + v * 2 * kWidth);
  UNROLL for (int r = 0; r < ROWS; ++r) {
    IntVector xs = ivset_pair(codes + size_t(r) * x.code_stride);
    KEEP(xs);
    UNROLL for (int v = 0; v < kVectors; ++v) {
      acc[r][v] = ivdot(acc[r][v], xs, w[v]);
      KEEP(acc[r][v]);
    }
  }
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
  for (int r = 0; r < ROWS; ++r) {
    for (int v = 0; v < kVectors; ++v) sums[r][v] = vzero();
  }
  for (int g = 0; g < groups; ++g) {
    IntVector acc[ROWS][kVectors];
    UNROLL for (int r = 0; r < ROWS; ++r) {
      UNROLL for (int v = 0; v < kVectors; ++v) acc[r][v] = ivzero();
    }
    const char* group = base + size_t(g) * kGroupBytes;
    add_group<ROWS>(x, group, g * kGroup, fetch, acc);
    fetch.from += kGroup / 4 * fetch.stride;
    for (int v = 0; v < kVectors; ++v) {
      const Vector scale = vload_bf16(reinterpret_cast<const uint16_t*>(group + kGroupCodes) + v * kWidth);
      for (int r = 0; r < ROWS; ++r) sums[r][v] = vfma(ivfloat(acc[r][v]), scale, sums[r][v]);
    }
  }
  for (int v = 0; v < kVectors; ++v) {
    const Vector start = bias ? vload(bias + v * kWidth) : vzero();
    for (int r = 0; r < ROWS; ++r) {
      vstore(out + r * kPanel + v * kWidth, vfma(sums[r][v], vset(x.scales[r]), start));
    }
  }
}
