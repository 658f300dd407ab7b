// Attention of each row over its own ordered list of K/V slots.
//
// The result of a (row, head) depends on that list alone: scores are fixed-order dot products, the softmax
// sum runs in eight lanes by index, and values are added in position order. So a tree row equals the plain
// row with the same tokens bit for bit, wherever its K/V lies.
#pragma once

#include <vector>

#include "rows.h"

struct AttentionBatch {
  const int32_t* slot_mapping;   // [rows]
  const int32_t* prefix_slots;   // [any]
  const int32_t* prefix_starts;  // [rows]
  const int32_t* prefix_lens;    // [rows]
  const int32_t* tail_slots;     // [any]
  const int32_t* tail_starts;    // [rows]
  const int32_t* tail_lens;      // [rows]
};

struct HeadShape {
  int32_t heads;
  int32_t kv_heads;
  int32_t head_dim;
  int32_t kv_is_bf16;
};

struct AttentionParams {
  float scaling;
  float soft_cap;  // 0: none
  int32_t window;  // 0: none
  int32_t reserved;
};

constexpr int kKeys = 4;

// Scratch of one thread.
struct AttentionScratch {
  std::vector<int32_t> slots;
  std::vector<float> scores;
};

template <class Element>
static inline void store_kv(void* pool, int32_t slot, int size, const float* row) {
  Element* target = static_cast<Element*>(pool) + size_t(slot) * size;
  for (int i = 0; i < size; ++i) store_element(target + i, row[i]);
}

// The row's slots inside the window, in position order; returns how many.
static inline int gather_slots(const AttentionBatch& batch, int row, int window,
                               std::vector<int32_t>& slots) {
  const int prefix = batch.prefix_lens[row], tail = batch.tail_lens[row];
  const int total = prefix + tail;
  const int start = window > 0 && total > window ? total - window : 0;
  slots.resize(total - start);
  const int32_t* prefix_slots = batch.prefix_slots + batch.prefix_starts[row];
  const int32_t* tail_slots = batch.tail_slots + batch.tail_starts[row];
  int count = 0;
  for (int i = start; i < prefix; ++i) slots[count++] = prefix_slots[i];
  for (int i = std::max(0, start - prefix); i < tail; ++i) slots[count++] = tail_slots[i];
  return count;
}

// scores[g * stride + j] = q_g . k_j for QUERIES queries that share the K head. Keys go in fours, the last
// of ``slots`` again where fewer are left: stride allows it.
template <class Element, int QUERIES>
static inline void dot_scores(const float* q, int dim, const Element* k, size_t slot_stride,
                              const std::vector<int32_t>& slots, int count, float* scores, int stride) {
  for (int j = 0; j < count; j += kKeys) {
    const Element* key[kKeys];
    for (int i = 0; i < kKeys; ++i) key[i] = k + size_t(slots[std::min(j + i, count - 1)]) * slot_stride;
    __m256 acc[QUERIES][kKeys];
    UNROLL for (int g = 0; g < QUERIES; ++g) {
      UNROLL for (int i = 0; i < kKeys; ++i) acc[g][i] = _mm256_setzero_ps();
    }
    for (int d = 0; d < dim; d += kLanes) {
      __m256 query[QUERIES];
      UNROLL for (int g = 0; g < QUERIES; ++g) {
        query[g] = _mm256_loadu_ps(q + g * dim + d);
        // Hidden from the compiler, which would load it again for each key.
        KEEP(query[g]);
      }
      UNROLL for (int i = 0; i < kKeys; ++i) {
        const __m256 part = load8(key[i] + d);
        UNROLL for (int g = 0; g < QUERIES; ++g) {
          acc[g][i] = _mm256_fmadd_ps(query[g], part, acc[g][i]);
        }
      }
    }
    UNROLL for (int g = 0; g < QUERIES; ++g) _mm_storeu_ps(scores + g * stride + j, sum8_of_four(acc[g]));
  }
}

// Scales, caps and exponentiates count scores in place (padded to whole vectors); returns 1 / sum.
static inline float softmax_row(float* scores, int count, const AttentionParams& params) {
  const int padded = (count + kLanes - 1) / kLanes * kLanes;
  for (int j = count; j < padded; ++j) scores[j] = 0.0f;
  const __m256 scaling = _mm256_set1_ps(params.scaling);
  for (int j = 0; j < padded; j += kLanes) {
    _mm256_storeu_ps(scores + j, _mm256_mul_ps(_mm256_loadu_ps(scores + j), scaling));
  }
  if (params.soft_cap > 0) soft_cap(scores, padded, params.soft_cap);
  for (int j = count; j < padded; ++j) scores[j] = -INFINITY;
  __m256 top = _mm256_set1_ps(-INFINITY);
  for (int j = 0; j < padded; j += kLanes) top = _mm256_max_ps(top, _mm256_loadu_ps(scores + j));
  const __m256 highest = _mm256_set1_ps(max8(top));
  __m256 total = _mm256_setzero_ps();
  for (int j = 0; j < padded; j += kLanes) {
    const __m256 e = exp8(_mm256_sub_ps(_mm256_loadu_ps(scores + j), highest));
    _mm256_storeu_ps(scores + j, e);
    total = _mm256_add_ps(total, e);
  }
  return 1.0f / sum8(total);
}

// out[g, d..d+32) = sum_j p[g, j] v[j, d..d+32), j ascending; VECTORS vectors wide.
template <class Element, int QUERIES, int VECTORS>
static inline void weighted_values(const float* p, int stride, const Element* v, size_t slot_stride,
                                   const std::vector<int32_t>& slots, int count, const float* inverse,
                                   float* out, int dim) {
  __m256 acc[QUERIES][VECTORS];
  UNROLL for (int g = 0; g < QUERIES; ++g) {
    UNROLL for (int i = 0; i < VECTORS; ++i) acc[g][i] = _mm256_setzero_ps();
  }
  for (int j = 0; j < count; ++j) {
    const Element* value = v + size_t(slots[j]) * slot_stride;
    __m256 weight[QUERIES];
    UNROLL for (int g = 0; g < QUERIES; ++g) weight[g] = _mm256_broadcast_ss(p + g * stride + j);
    UNROLL for (int i = 0; i < VECTORS; ++i) {
      const __m256 part = load8(value + i * kLanes);
      UNROLL for (int g = 0; g < QUERIES; ++g) acc[g][i] = _mm256_fmadd_ps(weight[g], part, acc[g][i]);
    }
  }
  UNROLL for (int g = 0; g < QUERIES; ++g) {
    const __m256 scale = _mm256_set1_ps(inverse[g]);
    UNROLL for (int i = 0; i < VECTORS; ++i) {
      _mm256_storeu_ps(out + g * dim + i * kLanes, _mm256_mul_ps(acc[g][i], scale));
    }
  }
}

template <class Element, int QUERIES>
static void attend_queries(const float* q, int dim, const Element* k, const Element* v,
                           size_t slot_stride, int count, const AttentionParams& params,
                           AttentionScratch& scratch, float* out) {
  const int stride = (count + kLanes - 1) / kLanes * kLanes;
  if (scratch.scores.size() < size_t(stride) * QUERIES) scratch.scores.resize(size_t(stride) * QUERIES * 2);
  float* scores = scratch.scores.data();
  dot_scores<Element, QUERIES>(q, dim, k, slot_stride, scratch.slots, count, scores, stride);
  float inverse[QUERIES];
  for (int g = 0; g < QUERIES; ++g) inverse[g] = softmax_row(scores + g * stride, count, params);
  int d = 0;
  for (; d + 4 * kLanes <= dim; d += 4 * kLanes) {
    weighted_values<Element, QUERIES, 4>(scores, stride, v + d, slot_stride, scratch.slots, count,
                                         inverse, out + d, dim);
  }
  for (; d < dim; d += kLanes) {
    weighted_values<Element, QUERIES, 1>(scores, stride, v + d, slot_stride, scratch.slots, count,
                                         inverse, out + d, dim);
  }
}

// All query heads of one K/V head of one row; q and out are [heads, head_dim] of the row.
template <class Element>
static void attend_kv_head(const HeadShape& shape, const AttentionParams& params,
                           const AttentionBatch& batch, int row, int kv_head, const float* q,
                           const void* k_pool, const void* v_pool, AttentionScratch& scratch, float* out) {
  const int dim = shape.head_dim, group = shape.heads / shape.kv_heads;
  const size_t slot_stride = size_t(shape.kv_heads) * dim;
  const Element* k = static_cast<const Element*>(k_pool) + size_t(kv_head) * dim;
  const Element* v = static_cast<const Element*>(v_pool) + size_t(kv_head) * dim;
  const int count = gather_slots(batch, row, params.window, scratch.slots);
  for (int g = 0; g < group;) {
    const size_t at = (size_t(kv_head) * group + g) * dim;
    const int left = group - g;
    if (left >= 3) {
      attend_queries<Element, 3>(q + at, dim, k, v, slot_stride, count, params, scratch, out + at);
      g += 3;
    } else if (left == 2) {
      attend_queries<Element, 2>(q + at, dim, k, v, slot_stride, count, params, scratch, out + at);
      g += 2;
    } else {
      attend_queries<Element, 1>(q + at, dim, k, v, slot_stride, count, params, scratch, out + at);
      g += 1;
    }
  }
}

static inline void attend_row(const HeadShape& shape, const AttentionParams& params,
                              const AttentionBatch& batch, int row, int kv_head, const float* q,
                              const void* k_pool, const void* v_pool, AttentionScratch& scratch,
                              float* out) {
  if (shape.kv_is_bf16) {
    attend_kv_head<uint16_t>(shape, params, batch, row, kv_head, q, k_pool, v_pool, scratch, out);
  } else {
    attend_kv_head<float>(shape, params, batch, row, kv_head, q, k_pool, v_pool, scratch, out);
  }
}

static inline void store_kv_row(const HeadShape& shape, void* k_pool, void* v_pool, int32_t slot,
                                const float* k, const float* v) {
  const int size = shape.kv_heads * shape.head_dim;
  if (shape.kv_is_bf16) {
    store_kv<uint16_t>(k_pool, slot, size, k);
    store_kv<uint16_t>(v_pool, slot, size, v);
  } else {
    store_kv<float>(k_pool, slot, size, k);
    store_kv<float>(v_pool, slot, size, v);
  }
}
