// A packed weight [N, K] and the activations it is applied to.
//
// Panels have 32 output columns, two halves of 16; a half holds all K of its columns, so that one pass over
// it is one stream. What a half looks like inside is its format's matter.
#pragma once

#include "vectors.h"

constexpr int kHalf = 16;
constexpr int kPanel = 2 * kHalf;

enum Format : int32_t {
  kFp32 = 0,
  kBf16 = 1,
  kInt8 = 2,  // 8-bit codes, a bf16 scale for each column and group of k
  kInt4 = 3,  // 4-bit codes, an fp16 scale and an fp16 smallest value for each column and group of k
};

// An int8 half is a sequence of groups: the codes of 64 k as 32 pairs [16 columns, 2], then 16 scales.
constexpr int kGroup = 64;
constexpr int kPairBytes = 2 * kHalf;
constexpr int kGroupCodes = kGroup * kHalf;
constexpr int kGroupBytes = kGroupCodes + kHalf * int(sizeof(uint16_t));

// An int4 half is a sequence of groups: the codes of 32 k as 16 pairs, then 16 scales and 16 smallest values.
// A pair is 16 bytes: the codes of the first 8 columns in their low halves, those of the others in the high.
constexpr int kGroup4 = 32;
constexpr int kPairBytes4 = kHalf;
constexpr int kGroupCodes4 = kGroup4 * kHalf / 2;
constexpr int kGroupBytes4 = kGroupCodes4 + 2 * kHalf * int(sizeof(uint16_t));

struct PackedLinear {
  const void* weight;
  const float* bias;  // [panels * 32] or null
  int32_t n;
  int32_t k;
  Format format;
  int32_t reserved;

  int panels() const { return (n + kPanel - 1) / kPanel; }
  // Activations must be readable (zero) up to this many elements.
  int padded_k() const {
    return (k + unit() - 1) / unit() * unit();
  }
  int unit() const { return format == kInt8 ? kGroup : format == kInt4 ? kGroup4 : format == kBf16 ? 2 : 1; }
  size_t half_bytes() const {
    if (format == kInt4) return size_t(padded_k() / kGroup4) * kGroupBytes4;
    if (format == kInt8) return size_t(padded_k() / kGroup) * kGroupBytes;
    return size_t(padded_k()) * kHalf * (format == kBf16 ? 2 : 4);
  }
  bool takes_codes() const { return format == kInt8 || format == kInt4; }
};

// Rows of activations: values for floating-point weights, codes and their scale for weights of codes. Behind
// the padded codes of a row come, for int4, the sums of its groups, as floats.
struct Rows {
  const float* values;
  int stride;
  const int16_t* codes;
  int code_stride;
  const float* scales;

  Rows from(int row) const {
    if (!codes) return {values + size_t(row) * stride, stride, nullptr, 0, nullptr};
    return {values, stride, codes + size_t(row) * code_stride, code_stride, scales + row};
  }
};

// Weights to fetch while a tile computes: ``stride`` bytes for each 64 bytes of a half that it reads.
struct Fetch {
  const char* from;
  size_t stride;
};
constexpr size_t kLine = 64;
