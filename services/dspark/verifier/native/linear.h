// y = x W^T + bias for a few rows of fp32 x, with W packed once.
//
// Each output element is one chain of fused multiply-adds over k = 0..K-1, so it does not depend on the
// number of rows or on the vector width. W [N, K] is packed in panels of 32 output columns, two halves of
// 16; a half is K steps of 16 values. bf16 weights are stored two k to a 32-bit lane (even k low), which
// gives both as fp32 with one operation each.
#pragma once

#include <algorithm>

#include "simd.h"

constexpr int kHalf = 16;
constexpr int kPanel = 2 * kHalf;

#if defined(__AVX512F__)
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

struct PackedLinear {
  const void* weight;  // uint32 pairs of bf16, or float
  const float* bias;   // [panels * 32] or null
  int32_t n;
  int32_t k;
  int32_t is_bf16;
  int32_t reserved;

  int panels() const { return (n + kPanel - 1) / kPanel; }
  // x rows must be readable (zero) up to this many elements.
  int padded_k() const { return is_bf16 ? (k + 1) / 2 * 2 : k; }
  size_t half_bytes() const { return size_t(padded_k()) * kHalf * (is_bf16 ? 2 : 4); }
};

constexpr size_t kLine = 64;
constexpr size_t kStreamBytes = 2048;  // fetched ahead where one tile takes all rows, over its halves

// Weights to fetch while a tile computes: one line for each pair of k, ``stride`` bytes from the one before.
struct Fetch {
  const char* from;
  size_t stride;
};

template <int ROWS, int HALVES>
static inline void tile_bf16(const float* x, int ldx, const char* base, size_t half_bytes, int steps,
                             Fetch fetch, const float* bias, float* out) {
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
      _mm_prefetch(fetch.from + h * half_bytes + size_t(step) * fetch.stride, _MM_HINT_T0);
      for (int v = 0; v < PER_HALF; ++v) w[h * PER_HALF + v] = vload_even(pairs + v * kWidth);
    }
    for (int r = 0; r < ROWS; ++r) {
      const Vector xs = vset(x[size_t(r) * ldx + 2 * step]);
      for (int v = 0; v < V; ++v) acc[r][v] = vfma(xs, w[v], acc[r][v]);
    }
    for (int h = 0; h < HALVES; ++h) {
      const uint32_t* pairs = half[h] + size_t(step) * kHalf;
      // Hidden from the compiler, which would hold both parts of the pair in registers and spill sums.
      asm volatile("" : "+r"(pairs));
      for (int v = 0; v < PER_HALF; ++v) w[h * PER_HALF + v] = vload_odd(pairs + v * kWidth);
    }
    for (int r = 0; r < ROWS; ++r) {
      const Vector xs = vset(x[size_t(r) * ldx + 2 * step + 1]);
      for (int v = 0; v < V; ++v) acc[r][v] = vfma(xs, w[v], acc[r][v]);
    }
  }
  for (int r = 0; r < ROWS; ++r) {
    for (int v = 0; v < V; ++v) vstore(out + r * kPanel + v * kWidth, acc[r][v]);
  }
}

template <int ROWS, int HALVES>
static inline void tile_fp32(const float* x, int ldx, const char* base, size_t half_bytes, int steps,
                             const float* bias, float* out) {
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
      const Vector xs = vset(x[size_t(r) * ldx + step]);
      for (int v = 0; v < V; ++v) acc[r][v] = vfma(xs, w[v], acc[r][v]);
    }
  }
  for (int r = 0; r < ROWS; ++r) {
    for (int v = 0; v < V; ++v) vstore(out + r * kPanel + v * kWidth, acc[r][v]);
  }
}

// ROWS rows by HALVES halves of a panel; rows of out are kPanel apart.
template <int ROWS, int HALVES>
static void tile(const PackedLinear& w, const char* base, const float* bias, const float* x, int ldx,
                 Fetch fetch, float* out) {
  if (w.is_bf16) {
    tile_bf16<ROWS, HALVES>(x, ldx, base, w.half_bytes(), w.padded_k() / 2, fetch, bias, out);
  } else {
    tile_fp32<ROWS, HALVES>(x, ldx, base, w.half_bytes(), w.k, bias, out);
  }
}

using Tile = void (*)(const PackedLinear&, const char*, const float*, const float*, int, Fetch, float*);

static constexpr int halves_of(int rows) { return rows <= kMaxRowsOfPanel ? 2 : 1; }

template <int ROWS>
static constexpr Tile kTile = tile<ROWS, halves_of(ROWS)>;

static inline Tile tile_of(int rows) {
  static constexpr Tile kTiles[] = {
      kTile<1>, kTile<2>, kTile<3>, kTile<4>, kTile<5>, kTile<6>,
#if defined(__AVX512F__)
      kTile<7>, kTile<8>, kTile<9>, kTile<10>, kTile<11>, kTile<12>,
#endif
  };
  return kTiles[rows - 1];
}

// How many of ``left`` rows the first of ``parts`` near-equal parts takes.
static inline int part_of(int left, int parts) { return (left + parts - 1) / parts; }

// All rows of a block by the half or halves that a tile takes. Several tiles share the fetching of what
// follows, so that memory is busy for as long as these weights are in use.
static inline void tiles_of_block(const PackedLinear& w, const char* base, const float* bias, int halves,
                                  const float* x, int ldx, int rows, float* out) {
  const int tiles = part_of(rows, kMaxRows);
  const size_t stride = part_of(kLine, tiles), share = stride * (w.padded_k() / 2);
  const char* from = base + (tiles == 1 ? kStreamBytes / halves : halves * w.half_bytes());
  for (int t = 0, first = 0; t < tiles; ++t, from += share) {
    const int count = part_of(rows - first, tiles - t);
    tile_of(count)(w, base, bias, x + size_t(first) * ldx, ldx, {from, stride}, out + first * kPanel);
    first += count;
  }
}

// out [rows, kPanel] of one panel. Half by half, so that the tiles of many rows find theirs in the
// first-level cache.
static inline void panel_block(const PackedLinear& w, int panel, const float* x, int ldx, int rows,
                               float* out) {
  const size_t half_bytes = w.half_bytes();
  const char* base = static_cast<const char*>(w.weight) + 2 * half_bytes * panel;
  const float* bias = w.bias ? w.bias + panel * kPanel : nullptr;
  const int halves = halves_of(part_of(rows, part_of(rows, kMaxRows)));
  for (int h = 0; h < 2; h += halves) {
    tiles_of_block(w, base + h * half_bytes, bias ? bias + h * kHalf : nullptr, halves, x, ldx, rows,
                   out + h * kHalf);
  }
}

constexpr int kBlockRows = 96;  // whose activations the second-level cache holds beside the weights

// All rows of one panel: store(row, values) receives 32 outputs of each row.
template <class Store>
static inline void linear_panel(const PackedLinear& w, int panel, const float* x, int ldx, int rows,
                                const Store& store) {
  alignas(64) float out[kBlockRows * kPanel];
  const int blocks = part_of(rows, kBlockRows);
  for (int b = 0, first = 0; b < blocks; ++b) {
    const int count = part_of(rows - first, blocks - b);
    panel_block(w, panel, x + size_t(first) * ldx, ldx, count, out);
    for (int r = 0; r < count; ++r) store(first + r, out + r * kPanel);
    first += count;
  }
}

// y [rows, ldy] gets the panel's columns, none past n.
static inline void linear_panel_to(const PackedLinear& w, int panel, const float* x, int ldx, int rows,
                                   float* y, size_t ldy) {
  const int columns = std::min(kPanel, w.n - panel * kPanel);
  linear_panel(w, panel, x, ldx, rows, [&](int row, const float* values) {
    std::memcpy(y + size_t(row) * ldy + panel * kPanel, values, columns * sizeof(float));
  });
}
