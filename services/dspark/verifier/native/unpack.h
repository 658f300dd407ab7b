// Single columns of a packed weight as floats, for those who want few of them.
#pragma once

#include "weights.h"

static inline float bf16_value(const void* source) {
  uint16_t high;
  std::memcpy(&high, source, sizeof high);
  const uint32_t bits = uint32_t(high) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

static inline float fp16_value(const void* source) {
  uint16_t bits;
  std::memcpy(&bits, source, sizeof bits);
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits)));
}

// out [k]; a half's layout is that of weights.h.
static inline void unpack_column(const PackedLinear& w, int column, float* out) {
  const char* half = static_cast<const char*>(w.weight) + w.half_bytes() * (column / kHalf);
  const int lane = column % kHalf;
  for (int i = 0; i < w.k; ++i) {
    if (w.format == kFp32) {
      out[i] = reinterpret_cast<const float*>(half)[size_t(i) * kHalf + lane];
    } else if (w.format == kBf16) {
      out[i] = bf16_value(half + (size_t(i / 2) * 2 * kHalf + lane * 2 + i % 2) * sizeof(uint16_t));
    } else if (w.format == kInt8) {
      const char* group = half + size_t(i / kGroup) * kGroupBytes;
      const auto code = static_cast<int8_t>(group[i % kGroup / 2 * kPairBytes + lane * 2 + i % 2]);
      out[i] = code * bf16_value(group + kGroupCodes + lane * sizeof(uint16_t));
    } else {
      const char* group = half + size_t(i / kGroup4) * kGroupBytes4;
      const int pair = uint8_t(group[i % kGroup4 / 2 * kPairBytes4 + lane % 8 * 2 + i % 2]);
      const char* scale = group + kGroupCodes4 + lane * sizeof(uint16_t);
      const float smallest = fp16_value(scale + kHalf * sizeof(uint16_t));
      out[i] = (lane < 8 ? pair & 15 : pair >> 4) * fp16_value(scale) + smallest;
    }
  }
}
