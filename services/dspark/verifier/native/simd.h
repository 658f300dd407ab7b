// Vector operations with a fixed order of rounding. The build turns contraction off, so every fused
// multiply-add below is written out and each element meets the same operations whatever its neighbours are.
#pragma once

#include <immintrin.h>

#include <cmath>
#include <cstdint>
#include <cstring>

constexpr int kLanes = 8;

// Loops over arrays of vectors must be unrolled early, or the compiler keeps the arrays in memory.
#define UNROLL _Pragma("GCC unroll 16")

// Hides where a register's value comes from, so that the compiler neither moves nor repeats its making.
#ifndef KEEP
#define KEEP(value) asm volatile("" : "+v"(value))
#endif

static inline __m256 bf16_to_float(const uint16_t* source) {
  const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

static inline __m256 load8(const float* source) { return _mm256_loadu_ps(source); }
static inline __m256 load8(const uint16_t* source) { return bf16_to_float(source); }

static inline uint16_t float_to_bf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}

static inline void store_element(float* target, float value) { *target = value; }
static inline void store_element(uint16_t* target, float value) { *target = float_to_bf16(value); }

static inline float sum8(__m256 v) {
  __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  half = _mm_add_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}

// sum8 of each, with the same order of additions.
static inline __m128 sum8_of_four(const __m256* v) {
  const __m256 even = _mm256_add_ps(_mm256_permute2f128_ps(v[0], v[2], 0x20),
                                    _mm256_permute2f128_ps(v[0], v[2], 0x31));
  const __m256 odd = _mm256_add_ps(_mm256_permute2f128_ps(v[1], v[3], 0x20),
                                   _mm256_permute2f128_ps(v[1], v[3], 0x31));
  const __m256d low = _mm256_unpacklo_pd(_mm256_castps_pd(even), _mm256_castps_pd(odd));
  const __m256d high = _mm256_unpackhi_pd(_mm256_castps_pd(even), _mm256_castps_pd(odd));
  const __m256 pairs = _mm256_add_ps(_mm256_castpd_ps(low), _mm256_castpd_ps(high));
  const __m256 sums = _mm256_hadd_ps(pairs, pairs);
  return _mm_movelh_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1));
}

static inline float max8(__m256 v) {
  __m128 half = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  half = _mm_max_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
}

// exp by range reduction to [-ln2/2, ln2/2] and a degree-6 polynomial; below -87 the result is 0.
static inline __m256 exp8(__m256 x) {
  const __m256 low = _mm256_set1_ps(-87.0f);
  const __m256 tiny = _mm256_cmp_ps(x, low, _CMP_LT_OQ);
  x = _mm256_min_ps(_mm256_max_ps(x, low), _mm256_set1_ps(88.0f));
  const __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504088896341f)),
                                   _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693359375f), x);
  r = _mm256_fnmadd_ps(n, _mm256_set1_ps(-2.12194440e-4f), r);
  __m256 p = _mm256_set1_ps(1.0f / 720);
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 120));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 24));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 6));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.5f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
  const __m256i exponent = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
  const __m256 result =
      _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), exponent));
  return _mm256_andnot_ps(tiny, result);
}

static inline __m256 tanh8(__m256 x) {
  const __m256 one = _mm256_set1_ps(1.0f);
  const __m256 e = exp8(_mm256_add_ps(x, x));
  return _mm256_sub_ps(one, _mm256_div_ps(_mm256_set1_ps(2.0f), _mm256_add_ps(e, one)));
}
