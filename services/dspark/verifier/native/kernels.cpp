// The C interface of the CPU kernels, called through ctypes. Sizes and types are checked by the caller.
#include <sys/mman.h>

#include "decoder.h"
#include "unpack.h"

extern "C" {

const char* dspark_isa() {
#if defined(__AVX512BW__)
  return "avx512";
#else
  return "avx2";
#endif
}

// Sizes of the structs that callers lay out themselves, in the order of structs.py.
void dspark_struct_sizes(int64_t* sizes) {
  const size_t all[] = {sizeof(PackedLinear),    sizeof(Norm),         sizeof(AttentionBatch),
                        sizeof(HeadShape),       sizeof(AttentionParams), sizeof(DecoderLayer),
                        sizeof(Decoder),         sizeof(DecoderPass)};
  for (size_t size : all) *sizes++ = int64_t(size);
}

Team* dspark_team_new(int32_t size) { return new Team(size); }
void dspark_team_delete(Team* team) { delete team; }

DecoderRun* dspark_decoder_new(Team* team) { return new DecoderRun(team->size()); }
void dspark_decoder_delete(DecoderRun* run) { delete run; }

void dspark_decoder_forward(DecoderRun* run, Team* team, const Decoder* model, const DecoderPass* pass) {
  run->forward(*team, *model, *pass);
}

// Asks for huge pages: a pass reads all weights once, so the TLB would miss all the time.
void dspark_advise_huge_pages(char* start, int64_t bytes) {
  const uintptr_t page = 2u << 20;
  const uintptr_t first = (uintptr_t(start) + page - 1) / page * page;
  const uintptr_t last = (uintptr_t(start) + bytes) / page * page;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

int64_t dspark_packed_bytes(int32_t n, int32_t k, Format format) {
  const PackedLinear w{nullptr, nullptr, n, k, format, 0};
  return int64_t(w.half_bytes()) * 2 * w.panels();
}

// source [n, k] row-major, bf16 or float as the target.
void dspark_pack(const void* source, int32_t n, int32_t k, Format format, void* target) {
  const PackedLinear w{nullptr, nullptr, n, k, format, 0};
  std::memset(target, 0, w.half_bytes() * 2 * w.panels());
  for (int column = 0; column < n; ++column) {
    char* half = static_cast<char*>(target) + w.half_bytes() * (column / kHalf);
    const int lane = column % kHalf;
    if (format == kBf16) {
      const uint16_t* row = static_cast<const uint16_t*>(source) + size_t(column) * k;
      uint16_t* lanes = reinterpret_cast<uint16_t*>(half);
      for (int i = 0; i < k; ++i) lanes[size_t(i / 2) * 2 * kHalf + lane * 2 + i % 2] = row[i];
    } else {
      const float* row = static_cast<const float*>(source) + size_t(column) * k;
      float* lanes = reinterpret_cast<float*>(half);
      for (int i = 0; i < k; ++i) lanes[size_t(i) * kHalf + lane] = row[i];
    }
  }
}

// codes [n, k] and scales (bf16) [n, groups], row-major, as an int8 target.
void dspark_pack_int8(const int8_t* codes, const uint16_t* scales, int32_t n, int32_t k, char* target) {
  const PackedLinear w{nullptr, nullptr, n, k, kInt8, 0};
  const int groups = w.padded_k() / kGroup;
  std::memset(target, 0, w.half_bytes() * 2 * w.panels());
  for (int column = 0; column < n; ++column) {
    char* half = target + w.half_bytes() * (column / kHalf);
    const int lane = column % kHalf;
    for (int i = 0; i < k; ++i) {
      char* pair = half + i / kGroup * kGroupBytes + i % kGroup / 2 * kPairBytes;
      pair[lane * 2 + i % 2] = codes[size_t(column) * k + i];
    }
    for (int g = 0; g < groups; ++g) {
      char* scale = half + g * kGroupBytes + kGroupCodes + lane * sizeof(uint16_t);
      std::memcpy(scale, scales + size_t(column) * groups + g, sizeof(uint16_t));
    }
  }
}

// codes [n, k] of 0 to 15, scales and smallest values (fp16) [n, groups], row-major, as an int4 target.
void dspark_pack_int4(const uint8_t* codes, const uint16_t* scales, const uint16_t* smallest, int32_t n, int32_t k,
                      char* target) {
  const PackedLinear w{nullptr, nullptr, n, k, kInt4, 0};
  const int groups = w.padded_k() / kGroup4;
  std::memset(target, 0, w.half_bytes() * 2 * w.panels());
  for (int column = 0; column < n; ++column) {
    char* half = target + w.half_bytes() * (column / kHalf);
    const int lane = column % kHalf;
    for (int i = 0; i < k; ++i) {
      char* pair = half + i / kGroup4 * kGroupBytes4 + i % kGroup4 / 2 * kPairBytes4;
      pair[lane % 8 * 2 + i % 2] |= codes[size_t(column) * k + i] << (lane < 8 ? 0 : 4);
    }
    for (int g = 0; g < groups; ++g) {
      uint16_t* scale = reinterpret_cast<uint16_t*>(half + g * kGroupBytes4 + kGroupCodes4);
      scale[lane] = scales[size_t(column) * groups + g];
      scale[kHalf + lane] = smallest[size_t(column) * groups + g];
    }
  }
}

// out [count, k]: some columns of a packed weight, which are rows of the matrix that it was made of.
void dspark_unpack(const PackedLinear* w, const int64_t* columns, int32_t count, float* out) {
  for (int c = 0; c < count; ++c) unpack_column(*w, int(columns[c]), out + size_t(c) * w->k);
}

// y [rows, n] = x [rows, ldx] W^T; rows of x are readable up to padded k, or to k for weights of codes.
void dspark_linear(Team* team, const PackedLinear* w, const float* x, int32_t ldx, int32_t rows, float* y) {
  WorkShare encodings(team->size()), panels(team->size());
  CodeBuffer codes;
  if (w->takes_codes()) codes.reserve(rows, w->k);
  team->run([&](int member) {
    Rows input{x, ldx, nullptr, 0, nullptr};
    if (w->takes_codes()) {
      encodings.drain(member, rows, [&](int row) { codes.encode(*w, row, x + size_t(row) * ldx); });
      team->barrier();
      input = {nullptr, 0, codes.codes(), codes.stride(), codes.scales()};
    }
    panels.drain(member, w->panels(), [&](int panel) { linear_panel_to(*w, panel, input, rows, y, w->n); });
  });
}

// q, out [rows, heads, head_dim]; k, v [rows, kv_heads, head_dim]; k_pool, v_pool of one layer.
void dspark_attention(Team* team, const HeadShape* shape, const AttentionParams* params,
                      const AttentionBatch* batch, int32_t rows, const float* q, const float* k,
                      const float* v, void* k_pool, void* v_pool, float* out) {
  const size_t q_size = size_t(shape->heads) * shape->head_dim;
  const size_t kv_size = size_t(shape->kv_heads) * shape->head_dim;
  WorkShare stores(team->size()), items(team->size());
  team->run([&](int member) {
    AttentionScratch scratch;
    stores.drain(member, rows, [&](int row) {
      store_kv_row(*shape, k_pool, v_pool, batch->slot_mapping[row], k + row * kv_size, v + row * kv_size);
    });
    team->barrier();
    items.drain(member, rows * shape->kv_heads, [&](int item) {
      const int row = item / shape->kv_heads;
      attend_row(*shape, *params, *batch, row, item % shape->kv_heads, q + row * q_size, k_pool, v_pool,
                 scratch, out + row * q_size);
    });
  });
}

}  // extern "C"
