// What tiles with weights of codes share: activations as 16-bit codes, and sums of products of codes.
//
// A group's products are summed in 32-bit integers, which cannot overflow, so the order of those additions is
// free; groups are then added as floats in ascending order. So an output depends on its own row only, whatever
// the vector width.
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

// sums [padded / 32] of the codes of each group of int4.
static inline void sum_groups(const int16_t* codes, int padded, float* sums) {
  const __m256i ones = _mm256_set1_epi16(1);
  for (int g = 0; g < padded / kGroup4; ++g, codes += kGroup4) {
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes));
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + kGroup4 / 2));
    sums[g] = float(sum8(_mm256_add_epi32(_mm256_madd_epi16(low, ones), _mm256_madd_epi16(high, ones))));
  }
}

// acc[r][v] += the products of one pair of k. Each row is finished before the next is loaded, which the
// compiler is made to keep to: it would load all rows first and have no registers left for the sums.
template <int ROWS>
static inline void add_products(Rows x, const int16_t* codes, const IntVector (&w)[kVectors],
                                IntVector (&acc)[ROWS][kVectors]) {
  UNROLL for (int r = 0; r < ROWS; ++r) {
    IntVector xs = ivset_pair(codes + size_t(r) * x.code_stride);
    KEEP(xs);
    UNROLL for (int v = 0; v < kVectors; ++v) {
      acc[r][v] = ivdot(acc[r][v], xs, w[v]);
      KEEP(acc[r][v]);
    }
  }
}

template <int ROWS>
static inline void clear(IntVector (&acc)[ROWS][kVectors]) {
  UNROLL for (int r = 0; r < ROWS; ++r) {
    UNROLL for (int v = 0; v < kVectors; ++v) acc[r][v] = ivzero();
  }
}

template <int ROWS>
static inline void clear(Vector (&sums)[ROWS][kVectors]) {
  for (int r = 0; r < ROWS; ++r) {
    for (int v = 0; v < kVectors; ++v) sums[r][v] = vzero();
  }
}

// From sums over codes to outputs; rows of out are kPanel apart.
template <int ROWS>
static inline void store_outputs(const Vector (&sums)[ROWS][kVectors], Rows x, const float* bias, float* out) {
  for (int v = 0; v < kVectors; ++v) {
    const Vector start = bias ? vload(bias + v * kWidth) : vzero();
    for (int r = 0; r < ROWS; ++r) {
      vstore(out + r * kPanel + v * kWidth, vfma(sums[r][v], vset(x.scales[r]), start));
    }
  }
}
