// Keeps processors from falling asleep in the moments between passes.
//
// A request to the next service wakes one sleeping thread after another, and a processor that sleeps takes
// tens of microseconds to wake up, more in a virtual machine. Threads of the lowest scheduling class spin in
// these moments; any other thread takes their place at once.
#pragma once

#include <immintrin.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

class Vigil {
 public:
  // A duration of 0 means no vigil.
  Vigil(int size, int milliseconds) : duration_(std::chrono::milliseconds(milliseconds)) {
    for (int i = 0; i < (milliseconds > 0 ? size : 0); ++i) threads_.emplace_back([this] { serve(); });
  }

  ~Vigil() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
      until_.store(0);
    }
    wake_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  // Spin for the whole duration from now on, unless paused before.
  void resume() {
    if (threads_.empty()) return;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      until_.store(now() + duration_.count());
    }
    wake_.notify_all();
  }

  // Leave the processors alone.
  void pause() { until_.store(0); }

 private:
  static int64_t now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  void serve() {
    const sched_param none{};
    // A spinning thread of any other class would take time from those that work.
    if (sched_setscheduler(0, SCHED_IDLE, &none) != 0) return;
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return stopping_ || now() < until_.load(); });
      if (stopping_) return;
      lock.unlock();
      while (now() < until_.load(std::memory_order_relaxed)) {
        for (int spins = 0; spins < 64; ++spins) _mm_pause();
      }
      lock.lock();
    }
  }

  const std::chrono::nanoseconds duration_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<int64_t> until_{0};
  bool stopping_ = false;
};
