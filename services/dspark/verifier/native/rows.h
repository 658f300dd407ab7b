// Operations on single rows: RMS norm, rotary embedding, gated activation, soft cap.
#pragma once

#include "simd.h"

struct Norm {
  const float* weight;  // null: no norm
  float eps;
  int32_t reserved;
};

// target may be source.
static inline void rms_norm(const Norm& norm, const float* source, float* target, int size) {
  __m256 acc = _mm256_setzero_ps();
  int i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    const __m256 x = _mm256_loadu_ps(source + i);
    acc = _mm256_fmadd_ps(x, x, acc);
  }
  float total = sum8(acc);
  for (; i < size; ++i) total += source[i] * source[i];
  const float scale = 1.0f / std::sqrt(total / float(size) + norm.eps);
  const __m256 scale8 = _mm256_set1_ps(scale);
  for (i = 0; i + kLanes <= size; i += kLanes) {
    const __m256 x = _mm256_mul_ps(_mm256_loadu_ps(source + i), scale8);
    _mm256_storeu_ps(target + i, _mm256_mul_ps(x, _mm256_loadu_ps(norm.weight + i)));
  }
  for (; i < size; ++i) target[i] = source[i] * scale * norm.weight[i];
}

static inline void add_row(float* target, const float* source, int size) {
  for (int i = 0; i < size; ++i) target[i] += source[i];
}

// Rotates the first ``size`` elements of one head; pairs are (i, i + size/2).
static inline void rotate(float* head, const float* cos, const float* sin, int size) {
  const int half = size / 2;
  for (int i = 0; i < half; ++i) {
    const float a = head[i], b = head[i + half];
    head[i] = a * cos[i] - b * sin[i];
    head[i + half] = b * cos[i + half] + a * sin[i + half];
  }
}

enum Activation : int32_t { kSilu = 0, kGeluTanh = 1 };

static inline __m256 activate(Activation kind, __m256 x) {
  const __m256 one = _mm256_set1_ps(1.0f);
  if (kind == kSilu) {
    const __m256 e = exp8(_mm256_sub_ps(_mm256_setzero_ps(), x));
    return _mm256_div_ps(x, _mm256_add_ps(one, e));
  }
  const __m256 cubic = _mm256_mul_ps(_mm256_mul_ps(x, x), x);
  const __m256 inner = _mm256_mul_ps(_mm256_set1_ps(0.7978845608028654f),
                                     _mm256_fmadd_ps(_mm256_set1_ps(0.044715f), cubic, x));
  return _mm256_mul_ps(_mm256_mul_ps(_mm256_set1_ps(0.5f), x), _mm256_add_ps(one, tanh8(inner)));
}

// target[0..16) = act(gate) * up, for 16 values each.
static inline void gate_up16(Activation kind, const float* gate, const float* up, float* target) {
  for (int i = 0; i < 16; i += kLanes) {
    const __m256 g = activate(kind, _mm256_loadu_ps(gate + i));
    _mm256_storeu_ps(target + i, _mm256_mul_ps(g, _mm256_loadu_ps(up + i)));
  }
}

// values = cap * tanh(values / cap); size must allow whole vectors (the buffer is padded).
static inline void soft_cap(float* values, int size, float cap) {
  const __m256 cap8 = _mm256_set1_ps(cap);
  for (int i = 0; i < size; i += kLanes) {
    const __m256 x = _mm256_div_ps(_mm256_loadu_ps(values + i), cap8);
    _mm256_storeu_ps(values + i, _mm256_mul_ps(cap8, tanh8(x)));
  }
}
