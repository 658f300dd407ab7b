// Tiles with floating-point weights.
//
// Each output element is one chain of fused multiply-adds over k = 0..K-1, so it does not depend on the
// number of rows or on the vector width. A half is K steps of 16 values; bf16 weights are stored two k to
// a 32-bit lane (even k low), which gives both as fp32 with one operation each.
#pragma once

#include "weights.h"

template <int ROWS, int HALVES>
static inline void tile_bf16(Rows x, const char* base, size_t half_bytes, int steps, Fetch fetch,
                             const float* bias, float* out) {
  constexpr int PER_HALF = kHalf / kWidth;
  constexpr int V = HALVES * PER_HALF;
  Vector acc[ROWS][V];
  for (int v = 0; v < V; ++v) {
    const Vector start = bias ? vload(bias + v * kWidth) : vzero();
    for (int r = 0; r < ROWS; ++r) acc[r][v] = start;
  }
  const uint32_t* half[HALVES];
  for (int h = 0; h < HALVES; ++h) half[h] = reinterpret_cast<const uint32_t*>(base + h * half_bytes);
  for (int step = 0; step < steps; ++step) {
    Vector w[V];
    for (int h = 0; h < HALVES; ++h) {
      const uint32_t* pairs = half[h] + size_t(step) * kHalf;
      _mm_prefetch(fetch.from + h * half_bytes + size_t(step) * fetch.stride, _MM_HINT_T1);
      for (int v = 0; v < PER_HALF; ++v) w[h * PER_HALF + v] = vload_even(pairs + v * kWidth);
    }
    for (int r = 0; r < ROWS; ++r) {
      const Vector xs = vset(x.values[size_t(r) * x.stride + 2 * step]);
      for (int v = 0; v < V; ++v) acc[r][v] = vfma(xs, w[v], acc[r][v]);
    }
    for (int h = 0; h < HALVES; ++h) {
      const uint32_t* pairs = half[h] + size_t(step) * kHalf;
      // Hidden from the compiler, which would hold both parts of the pair in registers and spill sums.
      asm volatile("" : "+r"(pairs));
      for (int v = 0; v < PER_HALF; ++v) w[h * PER_HALF + v] = vload_odd(pairs + v * kWidth);
    }
    for (int r = 0; r < ROWS; ++r) {
      const Vector xs = vset(x.values[size_t(r) * x.stride + 2 * step + 1]);
      for (int v = 0; v < V; ++v) acc[r][v] = vfma(xs, w[v], acc[r][v]);
    }
  }
  for (int r = 0; r < ROWS; ++r) {
    for (int v = 0; v < V; ++v) vstore(out + r * kPanel + v * kWidth, acc[r][v]);
  }
}

template <int ROWS, int HALVES>
static inline void tile_fp32(Rows x, const char* base, size_t half_bytes, int steps, const float* bias,
                             float* out) {
  constexpr int PER_HALF = kHalf / kWidth;
  constexpr int V = HALVES * PER_HALF;
  Vector acc[ROWS][V];
  for (int v = 0; v < V; ++v) {
    const Vector start = bias ? vload(bias + v * kWidth) : vzero();
    for (int r = 0; r < ROWS; ++r) acc[r][v] = start;
  }
  for (int step = 0; step < steps; ++step) {
    Vector w[V];
    for (int h = 0; h < HALVES; ++h) {
      const float* row = reinterpret_cast<const float*>(base + h * half_bytes) + size_t(step) * kHalf;
      for (int v = 0; v < PER_HALF; ++v) w[h * PER_HALF + v] = vload(row + v * kWidth);
    }
    for (int r = 0; r < ROWS; ++r) {
      const Vector xs = vset(x.values[size_t(r) * x.stride + step]);
      for (int v = 0; v < V; ++v) acc[r][v] = vfma(xs, w[v], acc[r][v]);
    }
  }
  for (int r = 0; r < ROWS; ++r) {
    for (int v = 0; v < V; ++v) vstore(out + r * kPanel + v * kWidth, acc[r][v]);
  }
}
