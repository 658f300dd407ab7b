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

// The low and the high halves of 16 bytes.
struct Nibbles {
  __m128i low, high;
};
static inline Nibbles nibbles(const char* p) {
  const __m128i mask = _mm_set1_epi8(15), bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm_and_si128(bytes, mask), _mm_and_si128(_mm_srli_epi16(bytes, 4), mask)};
}
// Sum of 8 lanes.
static inline int32_t sum8(__m256i v) {
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, _MM_SHUFFLE(1, 0, 3, 2)));
  return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, _MM_SHUFFLE(2, 3, 0, 1))));
}

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
// Both vectors of a half, from the 16 bytes of a pair; here they are one.
static inline void ivload_int4(const char* p, IntVector (&w)[1]) {
  const Nibbles bytes = nibbles(p);
  w[0] = _mm512_cvtepu8_epi16(_mm256_inserti128_si256(_mm256_castsi128_si256(bytes.low), bytes.high, 1));
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
static inline Vector vload_fp16(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
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
static inline void ivload_int4(const char* p, IntVector (&w)[2]) {
  const Nibbles bytes = nibbles(p);
  w[0] = _mm256_cvtepu8_epi16(bytes.low);
  w[1] = _mm256_cvtepu8_epi16(bytes.high);
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
static inline Vector vload_fp16(const uint16_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
#endif
