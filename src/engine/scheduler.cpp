#include "engine/scheduler.hpp"

#include <algorithm>
#include <utility>

namespace inferno {
namespace {

/// Tokens of room that somebody waits for who was paused once.
constexpr std::uint32_t kLeastLookahead = 64;

}  // namespace

Scheduler::Scheduler(const SchedulerSettings& settings)
    : settings_(settings), pool_(settings.blocks), budget_(settings.step_tokens, settings.step_stretch) {
  if (settings.prefix_cache) {
    tree_ = std::make_unique<PrefixTree>(pool_, settings.block_size, settings.hash_seed);
  }
  for (auto slot = settings.max_rows; slot > 0; --slot) free_slots_.push_back(slot - 1);
}

Scheduler::~Scheduler() {
  while (auto* request = any()) remove(request->id);
}

std::uint32_t Scheduler::blocks_for(std::uint32_t positions) const {
  return (positions + settings_.block_size - 1) / settings_.block_size;
}

std::uint32_t Scheduler::available() const {
  return pool_.available() + blocks_cached();
}

std::span<const std::uint32_t> Scheduler::path(const ServedRequest& request, std::size_t from) {
  return std::span(request.cache->blocks()).first(request.shared).subspan(from);
}

std::uint32_t Scheduler::queued() const {
  return unstarted_;
}

void Scheduler::add(std::unique_ptr<ServedRequest> request) {
  if (uses_tree(*request)) request->space = tree_->hold_namespace(request->cache_namespace);
  request->lookahead = settings_.lookahead;
  enqueue(std::move(request));
}

void Scheduler::enqueue(std::unique_ptr<ServedRequest> request) {
  if (!request->started) ++unstarted_;
  const auto place = place_of(*request);
  waiting_.emplace(place, std::move(request));
}

ServedRequest* Scheduler::any() const {
  if (!running_.empty()) return running_.front().get();
  if (!waiting_.empty()) return waiting_.begin()->second.get();
  return stalled_.empty() ? nullptr : stalled_.front().get();
}

std::unique_ptr<ServedRequest> Scheduler::remove(std::uint64_t id) {
  std::unique_ptr<ServedRequest> request;
  const auto has_id = [id](const auto& candidate) { return candidate->id == id; };
  for (auto* list : {&running_, &stalled_}) {
    const auto at = std::find_if(list->begin(), list->end(), has_id);
    if (at == list->end()) continue;
    request = std::move(*at);
    list->erase(at);
  }
  if (!request) {
    const auto at = std::find_if(waiting_.begin(), waiting_.end(),
                                 [&](const auto& entry) { return entry.first.id == id; });
    if (at == waiting_.end()) return nullptr;
    request = std::move(at->second);
    waiting_.erase(at);
    if (!request->started) {
      --unstarted_;
      ++started_;  // it waits no longer
    }
  }
  give_back(*request);
  if (request->space != PrefixTree::kNone) tree_->release_namespace(request->space);
  return request;
}

void Scheduler::stall(std::uint64_t id) {
  const auto at = std::find_if(running_.begin(), running_.end(),
                               [id](const auto& candidate) { return candidate->id == id; });
  if (at == running_.end()) return;
  give_back(**at);
  ++(*at)->usage.pauses;
  ++counts_.stalls;
  stalled_.push_back(std::move(*at));
  running_.erase(at);
}

void Scheduler::resume(std::uint64_t id) {
  const auto at = std::find_if(stalled_.begin(), stalled_.end(),
                               [id](const auto& candidate) { return candidate->id == id; });
  if (at == stalled_.end()) return;
  enqueue(std::move(*at));
  stalled_.erase(at);
}

/// Blocks, pins, promises, slot. What is full stays in the prefix cache until somebody needs the room.
void Scheduler::give_back(ServedRequest& request) {
  if (request.slot != kGreedySlot) free_slots_.push_back(std::exchange(request.slot, kGreedySlot));
  request.slot_is_set = false;
  request.awaited = PrefixTree::kNone;
  if (!request.cache) return;
  const auto& blocks = request.cache->blocks();
  if (request.shared < request.promised) tree_->withdraw(blocks[request.shared]);
  if (request.shared > 0) tree_->unpin(path(request));
  request.known_at_pause = std::max(request.known_at_pause, request.written());
  request.shared = request.promised = 0;
  request.cache.reset();
}

void Scheduler::lose_cache() {
  while (!running_.empty()) {
    give_back(*running_.back());
    enqueue(std::move(running_.back()));
    running_.pop_back();
  }
  if (tree_) tree_->evict(pool_.capacity());
  budget_ = StepBudget(settings_.step_tokens, settings_.step_stretch);  // whoever goes on has other costs
}

ServedRequest* Scheduler::find(std::uint64_t id) const {
  for (const auto* list : {&running_, &stalled_}) {
    for (const auto& candidate : *list) {
      if (candidate->id == id) return candidate.get();
    }
  }
  for (const auto& [place, candidate] : waiting_) {
    if (place.id == id) return candidate.get();
  }
  return nullptr;
}

const std::vector<ScheduledRow>& Scheduler::form_step() {
  start_waiting();
  return form_rows();
}

const std::vector<ScheduledRow>& Scheduler::form_rows() {
  rows_.clear();
  add_decoding_rows();
  add_prompt_rows();
  return rows_;
}

void Scheduler::start_waiting() {
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    auto& candidate = *at->second;
    const auto lower = [&] { return !running_.empty() && running_.back()->priority < candidate.priority; };
    if (running_.size() >= settings_.max_rows && !lower()) return;
    auto verdict = try_start(candidate);
    while (verdict != Verdict::waits_for_prefix && lower() &&
           (verdict == Verdict::no_room || running_.size() >= settings_.max_rows)) {
      pause_last();
      verdict = try_start(candidate);
    }
    if (verdict == Verdict::no_room) return;
    if (verdict == Verdict::waits_for_prefix) {
      ++at;
      continue;
    }
    auto request = std::move(at->second);
    at = waiting_.erase(at);
    const auto place = place_of(*request);
    start(*request, static_cast<std::uint32_t>(found_.size()));
    const auto before = std::find_if(running_.begin(), running_.end(),
                                     [&](const auto& other) { return place < place_of(*other); });
    running_.insert(before, std::move(request));
  }
}

/// Blocks that a request with `held` of them takes for its next tokens.
std::uint64_t Scheduler::growth(const ServedRequest& request, std::uint32_t held,
                                std::uint32_t lookahead) const {
  const auto reach = std::uint64_t{request.sequence.size()} + lookahead;
  const auto positions = std::min<std::uint64_t>(reach, request.sequence.most_positions());
  const auto needed = blocks_for(static_cast<std::uint32_t>(positions));
  return needed > held ? needed - held : 0;
}

/// Whether there is room, and in found_ what it takes over. Changes nothing else but what it waits for.
Scheduler::Verdict Scheduler::try_start(ServedRequest& request) {
  const auto& tokens = request.sequence.tokens();
  if (request.awaited != PrefixTree::kNone && tree_->is_promised(request.awaited, request.awaited_promise)) {
    return Verdict::waits_for_prefix;
  }
  request.awaited = PrefixTree::kNone;
  found_.clear();
  PrefixTree::Found found;
  if (uses_tree(request)) {
    found = tree_->find(request.space, std::span(tokens).first(request.wanted_from()), found_);
    // A promise of somebody who may have to wait for this one is not worth waiting for.
    if (found.promised != PrefixTree::kNone && tree_->rank(found.promised) >= request.priority) {
      request.awaited = found.promised;
      request.awaited_promise = tree_->promise_of(found.promised);
      return Verdict::waits_for_prefix;
    }
  }
  const auto held = blocks_for(request.sequence.size());
  std::uint64_t needed = held - found_.size();
  if (!running_.empty()) {
    needed += growth(request, held, request.lookahead);
    for (const auto& other : running_) {
      needed += growth(*other, static_cast<std::uint32_t>(other->cache->blocks().size()), request.lookahead);
    }
  }
  return needed <= available() - found.unpinned ? Verdict::starts : Verdict::no_room;
}

void Scheduler::start(ServedRequest& request, std::uint32_t taken_over) {
  const auto size = request.sequence.size();
  if (taken_over > 0) tree_->pin(found_);
  request.cache.emplace(pool_, KvKind::paged, settings_.block_size, request.sequence.most_positions());
  request.cache->adopt(found_);
  request.shared = request.promised = taken_over;
  take_blocks(request, size);
  if (uses_tree(request)) promise_rest(request);
  if (request.needs_slot()) {
    request.slot = free_slots_.back();
    free_slots_.pop_back();
  }
  const auto cached = taken_over * settings_.block_size;
  if (request.started) {
    // Others have computed more of its prompt meanwhile than it had.
    counts_.cached_prompt_tokens += std::max(cached, request.known_at_pause) - request.known_at_pause;
    return;
  }
  request.started = true;
  --unstarted_;
  ++started_;
  request.usage.cached_tokens = cached;
  request.usage.queue_ms =
      std::chrono::duration<double, std::milli>(ServedRequest::Clock::now() - request.submitted).count();
  counts_.prompt_tokens += size;
  counts_.cached_prompt_tokens += cached;
  counts_.cache_hits += taken_over;
  if (uses_tree(request)) counts_.cache_misses += size / settings_.block_size - taken_over;
}

void Scheduler::promise_rest(ServedRequest& request) {
  const auto& blocks = request.cache->blocks();
  const auto size = settings_.block_size;
  auto& next = request.promised;
  // Nobody shall wait for a constraint of somebody else's.
  const auto certain = request.sequence.size() - (request.awaits_constraint() ? 1 : 0);
  for (; (next + 1) * size <= certain; ++next) {
    const auto tokens = std::span(request.sequence.tokens()).subspan(std::size_t{next} * size, size);
    const auto parent = next == 0 ? PrefixTree::kNone : blocks[next - 1];
    if (!tree_->promise(request.space, parent, tokens, blocks[next], request.priority)) return;
  }
}

/// Makes the request's table reach `positions`, with blocks of the prefix cache if need be.
bool Scheduler::take_blocks(ServedRequest& request, std::uint32_t positions) {
  const auto held = static_cast<std::uint32_t>(request.cache->blocks().size());
  const auto needed = blocks_for(positions);
  if (needed <= held) return true;
  const auto more = needed - held;
  if (tree_ && pool_.available() < more) counts_.evictions += tree_->evict(more - pool_.available());
  return request.cache->extend(positions);
}

void Scheduler::pause_last() {
  auto request = std::move(running_.back());
  running_.pop_back();
  give_back(*request);
  request->lookahead = std::max(kLeastLookahead, std::min(request->lookahead, 1U << 30) * 2);
  ++request->usage.pauses;
  ++counts_.pauses;
  enqueue(std::move(request));
}

void Scheduler::add_decoding_rows() {
  for (std::size_t i = 0; i < running_.size(); ++i) {
    auto& request = *running_[i];
    if (!request.decodes() || request.awaits_constraint()) continue;
    const auto size = request.sequence.size();
    bool here = true;
    while (here && !take_blocks(request, size)) {
      here = running_.size() > i + 1;
      pause_last();  // perhaps this one
    }
    if (here) rows_.push_back({&request, size - 1, 1, true});
  }
}

void Scheduler::add_prompt_rows() {
  prompts_.clear();
  for (const auto& request : running_) {
    if (!request->decodes()) prompts_.push_back(request.get());
  }
  if (prompts_.empty()) return;
  StepLoad decoding;
  for (const auto& row : rows_) decoding.add_row(row.first);
  auto allowance = budget_.prompts(decoding);
  const auto rest = [](const ServedRequest* request) { return request->runnable(); };
  auto* const first = prompts_.front();
  auto first_share = allowance.take(first->written(), rest(first), true);
  const auto give_first_more = [&] {
    first_share += allowance.take(first->written() + first_share, rest(first) - first_share);
  };
  // Those of lower priority come after all of the first one's priority; among equals whoever is done soonest.
  std::stable_sort(prompts_.begin() + 1, prompts_.end(), [&](const auto* a, const auto* b) {
    return a->priority != b->priority ? a->priority > b->priority : rest(a) < rest(b);
  });
  prompt_shares_.assign(prompts_.size(), 0);
  for (std::size_t i = 1; i < prompts_.size() && !allowance.empty(); ++i) {
    if (prompts_[i]->priority < first->priority || rest(first) - first_share <= rest(prompts_[i])) {
      give_first_more();
    }
    prompt_shares_[i] = allowance.take(prompts_[i]->written(), rest(prompts_[i]));
  }
  give_first_more();
  prompt_shares_[0] = first_share;
  for (std::size_t i = 0; i < prompts_.size(); ++i) {
    if (prompt_shares_[i] > 0)
      rows_.push_back({prompts_[i], prompts_[i]->written(), prompt_shares_[i], false});
  }
}

void Scheduler::written(ServedRequest& request, std::uint32_t length) {
  auto& cache = *request.cache;
  const auto run_below = [&](std::uint32_t end) {
    return std::min(length, end) - std::min(cache.length(), end);
  };
  counts_.recomputed_tokens += run_below(request.known_at_pause);
  counts_.prefilled_tokens += run_below(request.known());
  cache.advance(length);
  if (!uses_tree(request)) return;
  const auto size = settings_.block_size;
  while ((request.shared + 1) * size <= length) {
    const auto index = request.shared;
    const auto tokens = std::span(request.sequence.tokens()).subspan(std::size_t{index} * size, size);
    const auto parent = index == 0 ? PrefixTree::kNone : cache.blocks()[index - 1];
    const auto block = tree_->insert(request.space, parent, tokens, cache.blocks()[index]);
    if (block != cache.blocks()[index]) cache.replace(index, block);
    ++request.shared;
    request.promised = std::max(request.promised, request.shared);
  }
}

}  // namespace inferno
