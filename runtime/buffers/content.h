// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/buffers/host_memory.h"
#include "runtime/memory/budget/budget.h"

namespace plimsoll::buffers {

// Memory of one value: of the device, the library's own or borrowed from a caller who is told when
// nobody uses it any more; or of the host.
class Storage {
 public:
  Storage() = default;
  explicit Storage(memory::Allocation own) : allocation_(std::move(own)) {}
  // `booking` counts the caller's bytes (Budget::book); `release` is called once, on whichever
  // thread lets go last, and must not throw.
  Storage(memory::Allocation booking, std::function<void()> release)
      : allocation_(std::move(booking)), release_(std::move(release)), is_borrowed_(true) {}
  explicit Storage(HostMemory host) : host_(std::move(host)), is_on_host_(true) {}
  Storage(Storage&& other) noexcept { *this = std::move(other); }
  Storage& operator=(Storage&& other) noexcept;
  ~Storage() { let_go(); }

  void* data() const { return is_on_host_ ? host_.data() : allocation_.data(); }
  // Whether it is device memory of the library's own.
  bool is_own() const { return !is_borrowed_ && !is_on_host_; }
  // Precondition: own.
  memory::Allocation take() { return std::move(allocation_); }

 private:
  void let_go() noexcept;

  memory::Allocation allocation_;
  HostMemory host_;
  std::function<void()> release_;
  bool is_borrowed_ = false, is_on_host_ = false;
};

// The bytes of a value that may still be in the making: pending, then ready or failed, for good.
// Users hold it through `ContentRef`s, its maker through a `ContentMaker`; the memory goes with the
// last user, however long the maker stays. Thread-safe.
class Content {
 public:
  using Callback = std::function<void(const Status&)>;

  bool is_pending() const;
  // Blocks while pending; then how it went.
  Status wait() const;
  // Whether it failed with the error of another content that it would have been made of.
  bool is_inherited() const;
  // Calls `callback` once it is no longer pending: at once on this thread where it is not, else on
  // the maker's. It must not throw.
  void when_done(Callback callback);
  // Null while pending and when failed. Valid as long as the content is held.
  void* data() const;
  // Whether the memory may be given to somebody else. Precondition: ready.
  bool is_own() const;
  // For the only user (ContentRef::is_only). Precondition: ready, own.
  memory::Allocation take();

 private:
  friend class ContentMaker;
  friend class ContentRef;
  enum class State : std::uint8_t { pending, ready, failed };
  void fill(Storage storage);
  void finish(State state, const Status& why, bool is_inherited = false);
  void abandon() noexcept;
  void let_go() noexcept;

  std::atomic<std::int64_t> users_{1};
  std::atomic<std::int64_t> owners_{2};  // the maker, and all users together
  mutable std::mutex mutex_;             // guards what follows; callbacks are called without it
  mutable std::condition_variable done_;
  State state_ = State::pending;
  bool is_abandoned_ = false;  // no users any more
  bool is_inherited_ = false;
  Status why_;
  Storage storage_;
  std::vector<Callback> callbacks_;
};

// One use of a content. What a user did before it let go has happened for one that finds itself the
// only one.
class ContentRef {
 public:
  ContentRef() = default;
  ContentRef(const ContentRef& other) : content_(other.content_) {
    if (content_ != nullptr) content_->users_.fetch_add(1, std::memory_order_relaxed);
  }
  ContentRef(ContentRef&& other) noexcept : content_(std::exchange(other.content_, nullptr)) {}
  ContentRef& operator=(ContentRef other) noexcept {
    std::swap(content_, other.content_);
    return *this;
  }
  ~ContentRef() {
    if (content_ != nullptr && content_->users_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      content_->abandon();
    }
  }

  Content* operator->() const { return content_; }
  Content* get() const { return content_; }
  explicit operator bool() const { return content_ != nullptr; }
  bool is_only() const { return content_->users_.load(std::memory_order_acquire) == 1; }

 private:
  friend class ContentMaker;
  explicit ContentRef(Content* first_use) : content_(first_use) {}

  Content* content_ = nullptr;
};

// The maker's end of a content: set() or fail() once, or fill() and set() in two steps, so that
// none of several is seen before all have their memory.
class ContentMaker {
 public:
  ContentMaker() : content_(new Content) {}
  ContentMaker(ContentMaker&& other) noexcept
      : content_(std::exchange(other.content_, nullptr)),
        is_used_(std::exchange(other.is_used_, true)) {}
  ContentMaker& operator=(ContentMaker&&) = delete;
  ~ContentMaker();

  // Precondition: called once.
  ContentRef use();

  // Memory without users goes back at once.
  void fill(Storage storage) { content_->fill(std::move(storage)); }
  // Both call the callbacks on this thread.
  void set() { content_->finish(Content::State::ready, ok_status()); }
  void fail(const Status& why, bool is_inherited = false) {
    content_->finish(Content::State::failed, why, is_inherited);
  }
  bool is_pending() const { return content_->is_pending(); }

 private:
  Content* content_;
  bool is_used_ = false;
};

// A content that is there already.
ContentRef make_ready(Storage storage);

}  // namespace plimsoll::buffers
