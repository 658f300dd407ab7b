// A team of threads that runs one function at a time on all members, with barriers between its phases.
//
// Members spin for a few tens of microseconds before they sleep: the phases of a pass are shorter than a
// wake-up, and between passes the cores belong to other processes.
#pragma once

#include <immintrin.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

class Team {
 public:
  explicit Team(int size) : size_(size < 1 ? 1 : size) {
    for (int member = 1; member < size_; ++member) {
      threads_.emplace_back([this, member] { serve(member); });
    }
  }

  ~Team() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
      job_number_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  int size() const { return size_; }

  // Calls body(member) on every member, the caller being member 0; returns when all are done.
  void run(const std::function<void(int)>& body) {
    if (size_ == 1) return body(0);
    job_ = &body;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      job_number_.fetch_add(1, std::memory_order_release);
    }
    if (sleepers_.load() > 0) wake_.notify_all();
    body(0);
    barrier();
  }

  // Returns when every member has called it.
  void barrier() {
    if (size_ == 1) return;
    const unsigned phase = phase_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
      arrived_.store(0, std::memory_order_relaxed);
      phase_.store(phase + 1, std::memory_order_release);
      return;
    }
    for (int spins = 0; phase_.load(std::memory_order_acquire) == phase; ++spins) {
      if (spins < kSpinsBeforeYield) {
        _mm_pause();
      } else {
        sched_yield();
      }
    }
  }

 private:
  static constexpr int kSpinsBeforeYield = 2000;
  static constexpr std::chrono::microseconds kSpinBeforeSleep{50};

  void serve(int member) {
    unsigned done = 0;
    for (;;) {
      done = wait_after(done);
      if (stopping_) return;
      (*job_)(member);
      barrier();
    }
  }

  unsigned wait_after(unsigned done) {
    const auto deadline = std::chrono::steady_clock::now() + kSpinBeforeSleep;
    do {
      for (int spins = 0; spins < 64; ++spins) {
        const unsigned number = job_number_.load(std::memory_order_acquire);
        if (number != done) return number;
        _mm_pause();
      }
    } while (std::chrono::steady_clock::now() < deadline);
    std::unique_lock<std::mutex> lock(mutex_);
    sleepers_.fetch_add(1);
    wake_.wait(lock, [&] { return job_number_.load(std::memory_order_acquire) != done; });
    sleepers_.fetch_sub(1);
    return job_number_.load(std::memory_order_acquire);
  }

  const int size_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<int> sleepers_{0};
  std::atomic<unsigned> job_number_{0};
  bool stopping_ = false;
  const std::function<void(int)>* job_ = nullptr;
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<unsigned> phase_{0};
};

// Hands out the work items of one phase. Each member has a range of its own, so that it reads weights in
// order, and helps the others when it is done; results never depend on who took what.
class WorkShare {
 public:
  explicit WorkShare(int members = 1) : taken_(members) {}

  void reset() {
    for (auto& own : taken_) own.count.store(0, std::memory_order_relaxed);
  }

  template <class Body>
  void drain(int member, int num_items, const Body& body) {
    const int members = int(taken_.size());
    for (int i = 0; i < members; ++i) {
      const int owner = (member + i) % members;
      const int first = int(int64_t(num_items) * owner / members);
      const int last = int(int64_t(num_items) * (owner + 1) / members);
      for (;;) {
        const int item = first + taken_[owner].count.fetch_add(1, std::memory_order_relaxed);
        if (item >= last) break;
        body(item);
      }
    }
  }

 private:
  struct alignas(64) Taken {
    std::atomic<int> count{0};
  };
  std::vector<Taken> taken_;
};
