// y = x W^T + bias for a few rows of x, with W packed once (weights.h).
#pragma once

#include "tile_float.h"
#include "tile_int4.h"
#include "tile_int8.h"

constexpr size_t kStreamBytes = 4096;  // fetched ahead where one tile takes all rows, over its halves

// Halves that a tile takes at once. Floating-point sums of one or two rows of a half are too few to hide the
// time of an addition; integers need no more, and read one stream.
static constexpr int halves_of(Format format, int rows) {
  return (format == kFp32 || format == kBf16) && rows <= kMaxRowsOfPanel ? 2 : 1;
}

// ROWS rows of a tile; rows of out are kPanel apart.
template <Format FORMAT, int ROWS>
static void tile(const PackedLinear& w, const char* base, const float* bias, Rows x, Fetch fetch,
                 float* out) {
  constexpr int HALVES = halves_of(FORMAT, ROWS);
  if constexpr (FORMAT == kFp32) {
    tile_fp32<ROWS, HALVES>(x, base, w.half_bytes(), w.k, bias, out);
  } else if constexpr (FORMAT == kBf16) {
    tile_bf16<ROWS, HALVES>(x, base, w.half_bytes(), w.padded_k() / 2, fetch, bias, out);
  } else if constexpr (FORMAT == kInt8) {
    tile_int8<ROWS>(x, base, w.padded_k() / kGroup, fetch, bias, out);
  } else {
    tile_int4<ROWS>(x, base, w.padded_k() / kGroup4, fetch, bias, out);
  }
}

using Tile = void (*)(const PackedLinear&, const char*, const float*, Rows, Fetch, float*);

template <Format FORMAT>
static inline Tile tile_of(int rows) {
  static constexpr Tile kTiles[] = {
      tile<FORMAT, 1>, tile<FORMAT, 2>, tile<FORMAT, 3>, tile<FORMAT, 4>,  tile<FORMAT, 5>,  tile<FORMAT, 6>,
#if defined(__AVX512BW__)
      tile<FORMAT, 7>, tile<FORMAT, 8>, tile<FORMAT, 9>, tile<FORMAT, 10>, tile<FORMAT, 11>, tile<FORMAT, 12>,
#endif
  };
  return kTiles[rows - 1];
}

static inline Tile tile_of(Format format, int rows) {
  switch (format) {
    case kFp32:
      return tile_of<kFp32>(rows);
    case kBf16:
      return tile_of<kBf16>(rows);
    case kInt8:
      return tile_of<kInt8>(rows);
    default:
      return tile_of<kInt4>(rows);
  }
}

// How many of ``left`` rows the first of ``parts`` near-equal parts takes.
static inline int part_of(int left, int parts) { return (left + parts - 1) / parts; }

// All rows of a block by the half or halves that a tile takes. Several tiles share the fetching of what
// follows, so that memory is busy for as long as these weights are in use.
static inline void tiles_of_block(const PackedLinear& w, const char* base, const float* bias, int halves,
                                  Rows x, int rows, float* out) {
  const int tiles = part_of(rows, kMaxRows);
  const size_t stride = part_of(kLine, tiles), share = stride * (w.half_bytes() / kLine);
  const char* from = base + (tiles == 1 ? kStreamBytes / halves : halves * w.half_bytes());
  for (int t = 0, first = 0; t < tiles; ++t, from += share) {
    const int count = part_of(rows - first, tiles - t);
    tile_of(w.format, count)(w, base, bias, x.from(first), {from, stride}, out + first * kPanel);
    first += count;
  }
}

// out [rows, kPanel] of one panel. Half by half, so that the tiles of many rows find theirs in the
// first-level cache.
static inline void panel_block(const PackedLinear& w, int panel, Rows x, int rows, float* out) {
  const size_t half_bytes = w.half_bytes();
  const char* base = static_cast<const char*>(w.weight) + 2 * half_bytes * panel;
  const float* bias = w.bias ? w.bias + panel * kPanel : nullptr;
  const int halves = halves_of(w.format, part_of(rows, part_of(rows, kMaxRows)));
  for (int h = 0; h < 2; h += halves) {
    tiles_of_block(w, base + h * half_bytes, bias ? bias + h * kHalf : nullptr, halves, x, rows,
                   out + h * kHalf);
  }
}

constexpr int kBlockRows = 96;  // whose activations the second-level cache holds beside the weights

// All rows of one panel: store(row, values) receives 32 outputs of each row.
template <class Store>
static inline void linear_panel(const PackedLinear& w, int panel, Rows x, int rows, const Store& store) {
  alignas(64) float out[kBlockRows * kPanel];
  const int blocks = part_of(rows, kBlockRows);
  for (int b = 0, first = 0; b < blocks; ++b) {
    const int count = part_of(rows - first, blocks - b);
    panel_block(w, panel, x.from(first), count, out);
    for (int r = 0; r < count; ++r) store(first + r, out + r * kPanel);
    first += count;
  }
}

// y [rows, ldy] gets the panel's columns, none past n.
static inline void linear_panel_to(const PackedLinear& w, int panel, Rows x, int rows, float* y,
                                   size_t ldy) {
  const int columns = std::min(kPanel, w.n - panel * kPanel);
  linear_panel(w, panel, x, rows, [&](int row, const float* values) {
    std::memcpy(y + size_t(row) * ldy + panel * kPanel, values, columns * sizeof(float));
  });
}
