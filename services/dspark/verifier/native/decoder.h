// One pass of a pre-norm decoder (Llama, Qwen and Gemma shapes) over flat rows, on all members of a team.
#pragma once

#include <memory>

#include "attention.h"
#include "linear.h"
#include "threads.h"

struct DecoderLayer {
  PackedLinear qkv;      // q heads, then k heads, then v heads
  PackedLinear output;
  PackedLinear gate_up;  // panels of 16 gate and 16 up columns
  PackedLinear down;
  Norm input_norm;
  Norm attention_out_norm;  // before the residual sum; may be absent
  Norm mlp_norm;
  Norm mlp_out_norm;  // before the residual sum; may be absent
  Norm q_norm;        // per head; may be absent
  Norm k_norm;
  AttentionParams attention;
  int32_t rope;  // which of the pass's rotary tables
  int32_t reserved;
};

struct Decoder {
  const DecoderLayer* layers;
  int32_t num_layers;
  int32_t hidden_size;
  int32_t intermediate_size;
  Activation activation;
  HeadShape shape;
  Norm final_norm;
  PackedLinear head;
  float logit_cap;  // 0: none
  int32_t rotary_dim;
  char* kv_pool;  // [layers, 2, slots, kv_heads, head_dim]
  int64_t kv_plane_bytes;
};

constexpr int kMaxRopes = 4;

struct DecoderPass {
  int32_t rows;
  int32_t num_logits;
  const float* embeddings;  // [rows, hidden_size]
  AttentionBatch batch;
  const float* cos[kMaxRopes];  // [rows, rotary_dim] each
  const float* sin[kMaxRopes];
  const int64_t* logits_rows;  // [num_logits]
  float* logits;               // [num_logits, head.n]
  const int64_t* feature_rows;    // [num_feature_rows]
  const int32_t* feature_layers;  // [num_feature_layers], ascending; 0: the head's input, i: what layer i leaves
  float* features;                // [num_feature_rows, num_feature_layers, hidden_size]
  int32_t num_feature_rows;
  int32_t num_feature_layers;
  int32_t first_layer;
  int32_t end_layer;            // below the decoder's number of layers: the pass stops there and hands out probes
  const int64_t* carried_rows;  // [rows] ascending: the rows of the pass that stopped at first_layer
  const int64_t* probe_rows;    // [num_probes]
  float* probes;                // [num_probes, hidden_size] what the head would get at end_layer
  int32_t num_probes;
  int32_t reserved;
};

// A zeroed matrix whose rows may be read past their end, up to the padding.
class RowBuffer {
 public:
  float* row(int index) { return data_.data() + size_t(index) * stride_; }
  int stride() const { return stride_; }

  void reserve(int rows, int size) {
    // Strides of a whole page would put all rows of a tile into one cache set.
    const int stride = (size + 15) / 16 * 16 + (((size + 15) / 16 * 16) % 1024 == 0 ? 16 : 0);
    if (stride == stride_ && data_.size() >= size_t(rows) * stride) return;
    stride_ = stride;
    data_.assign(size_t(rows) * stride, 0.0f);
  }

 private:
  std::vector<float> data_;
  int stride_ = 0;
};

// Rows encoded for weights of codes. One linear layer's input at a time: all have this buffer.
class CodeBuffer {
 public:
  int stride() const { return stride_; }
  const int16_t* codes() const { return codes_.data(); }
  const float* scales() const { return scales_.data(); }

  void reserve(int rows, int size) {
    const int codes = (size + kGroup - 1) / kGroup * kGroup;
    const int padded = codes + codes / kGroup4 * int(sizeof(float) / sizeof(int16_t));
    stride_ = padded + (padded % 2048 == 0 ? 32 : 0);
    if (codes_.size() < size_t(rows) * stride_) codes_.resize(size_t(rows) * stride_);
    if (scales_.size() < size_t(rows)) scales_.resize(rows);
  }

  // If the weight takes codes.
  void encode(const PackedLinear& w, int row, const float* values) {
    if (!w.takes_codes()) return;
    int16_t* codes = codes_.data() + size_t(row) * stride_;
    scales_[row] = encode_row(values, w.k, codes, w.padded_k());
    if (w.format == kInt4) {
      sum_groups(codes, w.padded_k(), reinterpret_cast<float*>(codes + w.padded_k()));
    }
  }

 private:
  std::vector<int16_t> codes_;
  std::vector<float> scales_;
  int stride_ = 0;
};

class DecoderRun {
 public:
  explicit DecoderRun(int members) : scratch_(members) {}

  void forward(Team& team, const Decoder& model, const DecoderPass& pass) {
    model_ = &model;
    pass_ = &pass;
    reserve();
    if (pass.first_layer) carry();
    team.run([&](int member) { run_member(team, member); });
  }

 private:
  static constexpr int kPhases = 10;

  void reserve() {
    const auto& shape = model_->shape;
    const int rows = pass_->rows, hidden = model_->hidden_size;
    residual_.reserve(rows, hidden);
    normed_.reserve(rows, hidden);
    branch_.reserve(rows, hidden);
    qkv_.reserve(rows, (shape.heads + 2 * shape.kv_heads) * shape.head_dim);
    context_.reserve(rows, shape.heads * shape.head_dim);
    gated_.reserve(rows, (model_->intermediate_size + kHalf - 1) / kHalf * kHalf);
    codes_.reserve(rows, std::max({hidden, shape.heads * shape.head_dim, model_->intermediate_size + kHalf}));
    const size_t needed = size_t(model_->num_layers) * kPhases + pass_->num_feature_layers + 3;
    while (shares_.size() < needed) shares_.emplace_back(int(scratch_.size()));
    for (auto& share : shares_) share.reset();
  }

  // The rows that go on, moved to the front of what the pass before them left. Buffers that are large enough
  // are kept as they are, so reserve() has not touched it.
  void carry() {
    const size_t bytes = size_t(model_->hidden_size) * sizeof(float);
    for (int row = 0; row < pass_->rows; ++row) {
      const int from = int(pass_->carried_rows[row]);
      if (from == row) continue;
      std::memcpy(residual_.row(row), residual_.row(from), bytes);
      std::memcpy(branch_.row(row), branch_.row(from), bytes);
    }
  }

  void run_member(Team& team, int member) {
    AttentionScratch& scratch = scratch_[member];
    const int rows = pass_->rows, kv_heads = model_->shape.kv_heads;
    WorkShare* share = shares_.data();
    for (int i = pass_->first_layer; i < pass_->end_layer; ++i) {
      const DecoderLayer& layer = model_->layers[i];
      const DecoderLayer* previous = i ? &model_->layers[i - 1] : nullptr;
      (share++)->drain(member, rows, [&](int row) { enter_layer(layer, previous, row); });
      team.barrier();
      if (const int feature = feature_of(i); i && feature >= 0) {
        (share++)->drain(member, pass_->num_feature_rows, [&](int index) { copy_feature(feature, index); });
      }
      project(*share++, member, layer.qkv, normed_, qkv_);
      team.barrier();
      (share++)->drain(member, rows, [&](int row) { rotate_and_store(layer, i, row); });
      team.barrier();
      (share++)->drain(member, rows * kv_heads, [&](int item) {
        attend(layer, i, item % rows, item / rows, scratch);
      });
      team.barrier();
      encode(*share++, team, member, layer.output, context_);
      project(*share++, member, layer.output, context_, branch_);
      team.barrier();
      (share++)->drain(member, rows, [&](int row) { enter_mlp(layer, row); });
      team.barrier();
      (share++)->drain(member, layer.gate_up.panels(), [&](int panel) { gate_up(layer, panel); });
      team.barrier();
      encode(*share++, team, member, layer.down, gated_);
      project(*share++, member, layer.down, gated_, branch_);
      team.barrier();
    }
    if (pass_->end_layer < model_->num_layers) {
      share->drain(member, pass_->num_probes, [&](int index) {
        copy_normed(int(pass_->probe_rows[index]), pass_->probes + size_t(index) * model_->hidden_size);
      });
      return;
    }
    if (const int which = feature_of(0); which >= 0) {
      (share++)->drain(member, pass_->num_feature_rows, [&](int index) {
        copy_normed(int(pass_->feature_rows[index]), feature(which, index));
      });
      team.barrier();
    }
    (share++)->drain(member, pass_->num_logits, [&](int index) { leave(index); });
    team.barrier();
    const PackedLinear& head = model_->head;
    share->drain(member, head.panels(), [&](int panel) { logits(head, panel); });
  }

  // A phase of its own where no member has written a whole row.
  void encode(WorkShare& share, Team& team, int member, const PackedLinear& w, RowBuffer& x) {
    if (!w.takes_codes()) return;
    share.drain(member, pass_->rows, [&](int row) { codes_.encode(w, row, x.row(row)); });
    team.barrier();
  }

  Rows input_of(const PackedLinear& w, RowBuffer& x) {
    if (!w.takes_codes()) return {x.row(0), x.stride(), nullptr, 0, nullptr};
    return {nullptr, 0, codes_.codes(), codes_.stride(), codes_.scales()};
  }

  void project(WorkShare& share, int member, const PackedLinear& w, RowBuffer& x, RowBuffer& y) {
    const Rows input = input_of(w, x);
    share.drain(member, w.panels(), [&](int panel) {
      linear_panel_to(w, panel, input, pass_->rows, y.row(0), y.stride());
    });
  }

  void add_branch(const Norm& norm, int row) {
    if (norm.weight) rms_norm(norm, branch_.row(row), branch_.row(row), model_->hidden_size);
    add_row(residual_.row(row), branch_.row(row), model_->hidden_size);
  }

  void enter_layer(const DecoderLayer& layer, const DecoderLayer* previous, int row) {
    const int hidden = model_->hidden_size;
    if (previous) {
      add_branch(previous->mlp_out_norm, row);
    } else {
      std::memcpy(residual_.row(row), pass_->embeddings + size_t(row) * hidden, hidden * sizeof(float));
    }
    rms_norm(layer.input_norm, residual_.row(row), normed_.row(row), hidden);
    codes_.encode(layer.qkv, row, normed_.row(row));
  }

  void enter_mlp(const DecoderLayer& layer, int row) {
    add_branch(layer.attention_out_norm, row);
    rms_norm(layer.mlp_norm, residual_.row(row), normed_.row(row), model_->hidden_size);
    codes_.encode(layer.gate_up, row, normed_.row(row));
  }

  // Where the features of a layer go; -1: they are not wanted.
  int feature_of(int layer) const {
    for (int i = 0; i < pass_->num_feature_layers; ++i) {
      if (pass_->feature_layers[i] == layer) return i;
    }
    return -1;
  }

  float* feature(int feature, int index) const {
    const size_t place = size_t(index) * pass_->num_feature_layers + feature;
    return pass_->features + place * model_->hidden_size;
  }

  // Until the next layer's MLP adds to it, the residual is what the layer before left.
  void copy_feature(int which, int index) {
    std::memcpy(feature(which, index), residual_.row(int(pass_->feature_rows[index])),
                model_->hidden_size * sizeof(float));
  }

  // What the head gets, or would get, of what the last layer that ran leaves; changes no buffer.
  void copy_normed(int row, float* target) {
    const int hidden = model_->hidden_size;
    const Norm& norm = model_->layers[pass_->end_layer - 1].mlp_out_norm;
    std::memcpy(target, branch_.row(row), hidden * sizeof(float));
    if (norm.weight) rms_norm(norm, target, target, hidden);
    add_row(target, residual_.row(row), hidden);
    rms_norm(model_->final_norm, target, target, hidden);
  }

  char* plane(int layer, int which) const {
    return model_->kv_pool + (size_t(layer) * 2 + which) * model_->kv_plane_bytes;
  }

  void rotate_and_store(const DecoderLayer& layer, int index, int row) {
    const auto& shape = model_->shape;
    const int rotary = model_->rotary_dim;
    const float* cos = pass_->cos[layer.rope] + size_t(row) * rotary;
    const float* sin = pass_->sin[layer.rope] + size_t(row) * rotary;
    for (int head = 0; head < shape.heads + shape.kv_heads; ++head) {
      float* values = qkv_.row(row) + size_t(head) * shape.head_dim;
      const Norm& norm = head < shape.heads ? layer.q_norm : layer.k_norm;
      if (norm.weight) rms_norm(norm, values, values, shape.head_dim);
      rotate(values, cos, sin, rotary);
    }
    const float* k = qkv_.row(row) + size_t(shape.heads) * shape.head_dim;
    store_kv_row(shape, plane(index, 0), plane(index, 1), pass_->batch.slot_mapping[row], k,
                 k + size_t(shape.kv_heads) * shape.head_dim);
  }

  void attend(const DecoderLayer& layer, int index, int row, int kv_head, AttentionScratch& scratch) {
    attend_row(model_->shape, layer.attention, pass_->batch, row, kv_head, qkv_.row(row),
               plane(index, 0), plane(index, 1), scratch, context_.row(row));
  }

  void gate_up(const DecoderLayer& layer, int panel) {
    linear_panel(layer.gate_up, panel, input_of(layer.gate_up, normed_), pass_->rows,
                 [&](int row, const float* values) {
                   gate_up16(model_->activation, values, values + kHalf, gated_.row(row) + panel * kHalf);
                 });
  }

  void leave(int index) {
    const int row = int(pass_->logits_rows[index]);
    add_branch(model_->layers[model_->num_layers - 1].mlp_out_norm, row);
    rms_norm(model_->final_norm, residual_.row(row), normed_.row(index), model_->hidden_size);
    codes_.encode(model_->head, index, normed_.row(index));
  }

  void logits(const PackedLinear& head, int panel) {
    const int columns = std::min(kPanel, head.n - panel * kPanel);
    linear_panel(head, panel, input_of(head, normed_), pass_->num_logits,
                 [&](int row, const float* values) {
                   alignas(64) float capped[kPanel];
                   std::memcpy(capped, values, sizeof capped);
                   if (model_->logit_cap > 0) soft_cap(capped, kPanel, model_->logit_cap);
                   std::memcpy(pass_->logits + size_t(row) * head.n + panel * kPanel, capped,
                               columns * sizeof(float));
                 });
  }

  const Decoder* model_ = nullptr;
  const DecoderPass* pass_ = nullptr;
  std::vector<AttentionScratch> scratch_;
  std::vector<WorkShare> shares_;
  RowBuffer residual_, normed_, branch_, qkv_, context_, gated_;
  CodeBuffer codes_;
};
