// The AVX-512 instructions that the kernels use, element by element, for machines without them.
// Include before everything else (-include), so that the kernels take their AVX-512 path.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#define KEEP(value)

template <class Element>
struct Emulated {
  Element at[64 / sizeof(Element)];
};
using EmulatedFloats = Emulated<float>;
using EmulatedInts = Emulated<int32_t>;

template <class To, class From>
static inline To emulated_cast(const From& from) {
  To to;
  static_assert(sizeof to == 64 && sizeof from == 64);
  std::memcpy(&to, &from, sizeof to);
  return to;
}

template <class Vector, class Function>
static inline Vector emulated_map(Function function) {
  Vector result;
  for (unsigned i = 0; i < sizeof result.at / sizeof result.at[0]; ++i) result.at[i] = function(i);
  return result;
}

template <class Element>
static inline Emulated<Element> emulated_load(const void* source) {
  Emulated<Element> result;
  std::memcpy(&result, source, sizeof result);
  return result;
}

template <class To, class From, class Half>
static inline Emulated<To> emulated_widen(const Half& half) {
  From from[sizeof half / sizeof(From)];
  std::memcpy(from, &half, sizeof half);
  return emulated_map<Emulated<To>>([&](unsigned i) { return To(from[i]); });
}

static inline EmulatedFloats emulated_from_fp16(__m256i halves) {
  EmulatedFloats result;
  _mm256_storeu_ps(result.at, _mm256_cvtph_ps(_mm256_castsi256_si128(halves)));
  _mm256_storeu_ps(result.at + 8, _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1)));
  return result;
}

static inline EmulatedInts emulated_madd(EmulatedInts a, EmulatedInts b) {
  const auto x = emulated_cast<Emulated<int16_t>>(a), y = emulated_cast<Emulated<int16_t>>(b);
  return emulated_map<EmulatedInts>([&](unsigned i) {
    return int32_t(x.at[2 * i]) * y.at[2 * i] + int32_t(x.at[2 * i + 1]) * y.at[2 * i + 1];
  });
}

static inline EmulatedInts emulated_add(EmulatedInts a, EmulatedInts b) {
  return emulated_map<EmulatedInts>([&](unsigned i) { return int32_t(uint32_t(a.at[i]) + uint32_t(b.at[i])); });
}

#define __m512 EmulatedFloats
#define __m512i EmulatedInts
#define _mm512_setzero_ps() EmulatedFloats{}
#define _mm512_setzero_si512() EmulatedInts{}
#define _mm512_set1_ps(value) emulated_map<EmulatedFloats>([&](unsigned) { return float(value); })
#define _mm512_set1_epi32(value) emulated_map<EmulatedInts>([&](unsigned) { return int32_t(value); })
#define _mm512_loadu_ps(source) emulated_load<float>(source)
#define _mm512_loadu_si512(source) emulated_load<int32_t>(source)
#define _mm512_storeu_ps(target, value) std::memcpy(target, &(value), sizeof(value))
#define _mm512_fmadd_ps(a, b, c) \
  emulated_map<EmulatedFloats>([&](unsigned i) { return __builtin_fmaf((a).at[i], (b).at[i], (c).at[i]); })
#define _mm512_castsi512_ps(value) emulated_cast<EmulatedFloats>(value)
#define _mm512_slli_epi32(value, bits) \
  emulated_map<EmulatedInts>([v = (value)](unsigned i) { return int32_t(uint32_t(v.at[i]) << (bits)); })
#define _mm512_and_si512(a, b) \
  emulated_map<EmulatedInts>([x = (a), y = (b)](unsigned i) { return x.at[i] & y.at[i]; })
#define _mm512_cvtepi32_ps(value) \
  emulated_map<EmulatedFloats>([v = (value)](unsigned i) { return float(v.at[i]); })
#define _mm512_cvtepi8_epi16(half) emulated_cast<EmulatedInts>(emulated_widen<int16_t, int8_t>(half))
#define _mm512_cvtepu8_epi16(half) emulated_cast<EmulatedInts>(emulated_widen<int16_t, uint8_t>(half))
#define _mm512_cvtph_ps(half) emulated_from_fp16(half)
#define _mm512_cvtepu16_epi32(half) emulated_widen<int32_t, uint16_t>(half)
#define _mm512_madd_epi16(a, b) emulated_madd(a, b)
#define _mm512_add_epi32(a, b) emulated_add(a, b)
#define _mm512_dpwssd_epi32(sum, a, b) emulated_add(sum, emulated_madd(a, b))

#define __AVX512BW__ 1
#ifdef EMULATE_VNNI
#define __AVX512VNNI__ 1
#endif
