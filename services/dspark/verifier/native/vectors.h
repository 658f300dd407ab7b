// The widest vectors of the build, and how many rows of sums fit its registers.
#pragma once

#include "simd.h"

#if defined(__AVX512BW__)
using Vector = __m512;
constexpr int kWidth = 16;
constexpr int kMaxRows = 12;
constexpr int kMaxRowsOfPanel = 12;  // whose sums fit the registers for both halves at once
static inline Vector vzero() { return _mm512_setzero_ps(); }
static inline Vector vload(const float* p) { return _mm512_loadu_ps(p); }
static inline void vstore(float* p, Vector v) { _mm512_storeu_ps(p, v); }
static inline Vector vset(float v) { return _mm512_set1_ps(v); }
static inline Vector vfma(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }
static inline Vector vload_even(const uint32_t* p) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16));
}
static inline Vector vload_odd(const uint32_t* p) {
  const __m512i mask = _mm512_set1_epi32(int(0xffff0000u));
  return _mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(p), mask));
}
#else
using Vector = __m256;
constexpr int kWidth = 8;
constexpr int kMaxRows = 6;
constexpr int kMaxRowsOfPanel = 2;
static inline Vector vzero() { return _mm256_setzero_ps(); }
static inline Vector vload(const float* p) { return _mm256_loadu_ps(p); }
static inline void vstore(float* p, Vector v) { _mm256_storeu_ps(p, v); }
static inline Vector vset(float v) { return _mm256_set1_ps(v); }
static inline Vector vfma(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }
static inline __m256i vload_bits(const uint32_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
static inline Vector vload_even(const uint32_t* p) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(vload_bits(p), 16));
}
static inline Vector vload_odd(const uint32_t* p) {
  const __m256i mask = _mm256_set1_epi32(int(0xffff0000u));
  return _mm256_castsi256_ps(_mm256_and_si256(vload_bits(p), mask));
}
#endif

// Vectors of 32-bit sums of products of 16-bit pairs.
#if defined(__AVX512BW__)
using IntVector = __m512i;
static inline IntVector ivzero() { return _mm512_setzero_si512(); }
// Both codes of a pair, to every lane.
static inline IntVector ivset_pair(const int16_t* pair) {
  int32_t bits;
  std::memcpy(&bits, pair, sizeof bits);
  return _mm512_set1_epi32(bits);
}
static inline IntVector ivload_int8(const char* p) {
  return _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
static inline IntVector ivdot(IntVector sum, IntVector a, IntVector b) {
#if defined(__AVX512VNNI__)
  return _mm512_dpwssd_epi32(sum, a, b);
#else
  return _mm512_add_epi32(sum, _mm512_madd_epi16(a, b));
#endif
}
static inline Vector ivfloat(IntVector v) { return _mm512_cvtepi32_ps(v); }
static inline Vector vload_bf16(const uint16_t* p) {
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}
#else
using IntVector = __m256i;
static inline IntVector ivzero() { return _mm256_setzero_si256(); }
static inline IntVector ivset_pair(const int16_t* pair) {
  int32_t bits;
  std::memcpy(&bits, pair, sizeof bits);
  return _mm256_set1_epi32(bits);
}
static inline IntVector ivload_int8(const char* p) {
  return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
static inline IntVector ivdot(IntVector sum, IntVector a, IntVector b) {
#if defined(__AVXVNNI__)
  return _mm256_dpwssd_avx_epi32(sum, a, b);
#else
  return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
#endif
}
static inline Vector ivfloat(IntVector v) { return _mm256_cvtepi32_ps(v); }
static inline Vector vload_bf16(const uint16_t* p) { return bf16_to_float(p); }
#endif
