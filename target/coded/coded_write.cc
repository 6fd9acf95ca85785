// Encodes the bytes of a coded object as they come, and sends each slice to its holder by a lane of
// its own. The end of the write is in coded_seal.cc.

#include "target/coded/coded_write.h"

#include <algorithm>

#include "common/api/coding_props.h"
#include "common/base/check.h"
#include "common/base/fail_point.h"
#include "common/base/gather.h"
#include "common/cluster/place/slice_plan.h"
#include "common/obs/log.h"
#include "target/drive/slice_ids.h"
#include "target/node/bodies.h"

namespace tarn::target {
namespace {

using Opened = Result<std::shared_ptr<SliceLane>>;

}  // namespace

CodedWrite::CodedWrite(TargetNode& node, ObjectName name, const Terms& terms, ec::SetId set,
                       ec::Encoder encoder)
    : node_(node),
      name_(std::move(name)),
      terms_(terms),
      set_(set),
      encoder_(std::move(encoder)),
      lanes_(terms.geometry.slices()),
      sealed_(terms.geometry.slices()) {}

CodedWrite::~CodedWrite() {
  for (std::size_t i = 0; i < lanes_.size(); ++i)
    if (lanes_[i] != nullptr && sealed_[i].empty()) lanes_[i]->give_up();
  if (full_copy_ != nullptr && full_copy_sealed_.empty()) full_copy_->give_up();
}

Task<Result<std::unique_ptr<CodedWrite>>> CodedWrite::begin(TargetNode& node, ObjectName name,
                                                            const Terms& terms,
                                                            std::optional<std::uint64_t> length) {
  const ec::SetId set = ec::new_set_id();
  CO_TRY(auto encoder, ec::Encoder::of(terms.geometry, set, true, !terms.owner_only));
  std::unique_ptr<CodedWrite> write(
      new CodedWrite(node, std::move(name), terms, set, std::move(encoder)));
  CO_TRY_OK(co_await write->open_lanes(length));
  co_return write;
}

/// Returns a place for each slice, without the targets that have refused.
std::vector<cluster::SlicePlace> CodedWrite::plan() {
  const auto state = node_.view.state();
  std::vector<std::string> holders(lanes_.size());
  for (const std::size_t i : good()) holders[i] = lanes_[i]->holder();
  cluster::SliceNeeds needs;
  needs.name_digest = cluster::placement_digest(name_.uname);
  needs.slices = lanes_.size();
  needs.after_owner = terms_.full_copy;
  if (!good().empty()) needs.holders = holders;
  needs.good = good().bits();
  needs.takes = [&](const std::string& id) {
    return !refused_.contains(id) && (id == node_.id || state->live.contains(id));
  };
  const auto standing = cluster::standing_members(*state->ownership->map);
  auto places = plan_slices(standing, needs);
  TARN_CHECK(places.size() == lanes_.size());
  degraded_ = stands_worse(standing, needs, places);
  return places;
}

Task<void> CodedWrite::open_full_copy(std::optional<std::uint64_t> length) {
  SliceWrite write;
  write.token = new_slice_token();
  write.key = {name_.bucket, name_.object, ec::raw(set_), io::kFullCopy};
  write.geometry = terms_.geometry;
  write.bytes = length;
  auto opened = co_await SliceLane::open(node_, node_.id, std::move(write));
  if (opened)
    full_copy_ = std::move(*opened);
  else
    last_ = opened.error();
}

/// Opens lanes until each slice has a holder, or no target is left that takes one.
Task<Status> CodedWrite::open_lanes(std::optional<std::uint64_t> length) {
  std::optional<std::uint64_t> bytes;
  if (length) {
    CO_TRY(const auto layout, ec::Layout::of(terms_.geometry, *length));
    bytes = layout.blocks_bytes();
  }
  if (with_full_copy()) co_await open_full_copy(length);
  if (terms_.owner_only) co_return enough();
  while (true) {
    const auto places = plan();
    std::vector<Task<Opened>> openings;
    std::vector<std::size_t> slices;
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      if (lanes_[i] != nullptr || places[i].id.empty()) continue;
      SliceWrite write;
      write.token = new_slice_token();
      write.key = {name_.bucket, name_.object, ec::raw(set_), static_cast<std::uint8_t>(i)};
      write.geometry = terms_.geometry;
      write.rank = places[i].rank;
      write.bytes = bytes;
      slices.push_back(i);
      openings.push_back(SliceLane::open(node_, places[i].id, std::move(write)));
    }
    if (openings.empty()) co_return enough();
    const auto opened = co_await gather(std::move(openings));
    for (std::size_t i = 0; i < slices.size(); ++i) {
      if (opened[i]) {
        // Bytes in a lane of another number would be sealed as a slice that they are not.
        TARN_CHECK((*opened[i])->index() == slices[i]);
        lanes_[slices[i]] = *opened[i];
        continue;
      }
      refused_.insert(places[slices[i]].id);
      last_ = opened[i].error();
    }
  }
}

ec::SliceNumbers CodedWrite::good() const {
  ec::SliceNumbers out;
  for (std::size_t i = 0; i < lanes_.size(); ++i)
    if (lanes_[i] != nullptr && !lanes_[i]->failed()) out.insert(i);
  return out;
}

std::size_t CodedWrite::wanted() const {
  return terms_.owner_only ? 1 : lanes_.size() + (terms_.full_copy ? 1 : 0);
}

/// Number of slices to be acknowledged: with k of them the first loss would be one of the object.
std::size_t CodedWrite::needed() const {
  if (terms_.strict || terms_.owner_only) return wanted();
  return terms_.geometry.k + (SAFETY("safety.enough_slices") ? 1 : 0);
}

Status CodedWrite::enough() const {
  const std::size_t there = good().size() + (full_copy_is_good() ? 1 : 0);
  const bool stands_well = !terms_.strict || !degraded_;
  if (there >= needed() && stands_well) return {};
  const bool full = last_.code == Errc::no_space;
  if (!stands_well && there >= needed())
    return fail(Errc::unavailable,
                "the slices of {} would lie on fewer targets than they shall (durability: strict)",
                name_.object);
  return fail(full ? Errc::no_space : Errc::unavailable,
              "{} of the {} slices of {} have a holder, {} are needed; the last that took none: {}",
              there, wanted(), name_.object, needed(), last_.message);
}

/// Missing slices are made out of the other slices at the end, if these are enough, and targets
/// take them.
Status CodedWrite::can_go_on() {
  Status now = enough();
  if (now || terms_.owner_only || good().size() < terms_.geometry.k) return now;
  const auto places = plan();
  const auto have_place = static_cast<std::size_t>(std::count_if(
      places.begin(), places.end(), [](const auto& each) { return !each.id.empty(); }));
  if (have_place + (full_copy_is_good() ? 1 : 0) >= needed()) return {};
  return now;
}

Task<Status> CodedWrite::filled(std::size_t bytes) {
  encoder_.filled(bytes);
  if (!encoder_.ready()) co_return Status();
  co_return co_await send(encoder_.take());
}

Task<Status> CodedWrite::send(ec::Stripe stripe) {
  const auto shared = std::make_shared<const ec::Stripe>(std::move(stripe));
  bool any_failed = false;
  for (const std::size_t i : good()) {
    const Status pushed = co_await lanes_[i]->push(shared, shared->block(i));
    if (pushed) continue;
    any_failed = true;
    last_ = pushed.error();
    refused_.insert(lanes_[i]->holder());
    obs::log("target").warn("slice left out of a write object={} slice={} holder={} err={}",
                            name_.object, i, lanes_[i]->holder(), last_.message);
  }
  if (full_copy_is_good()) {
    co_await send_full_copy(shared);
    any_failed = any_failed || !full_copy_is_good();
  }
  if (any_failed) co_return can_go_on();
  co_return Status();
}

/// The object's own bytes are the units of the data blocks.
Task<void> CodedWrite::send_full_copy(std::shared_ptr<const ec::Stripe> stripe) {
  const std::size_t unit = stripe->used_bytes() - ec::kFooterBytes;
  TARN_CHECK(stripe->number() * terms_.geometry.stripe_bytes() < encoder_.object_bytes());
  std::uint64_t rest = encoder_.object_bytes() - stripe->number() * terms_.geometry.stripe_bytes();
  for (std::size_t i = 0; i < terms_.geometry.k && rest > 0; ++i) {
    const auto bytes = stripe->block(i).first(std::min<std::uint64_t>(unit, rest));
    rest -= bytes.size();
    const Status pushed = co_await full_copy_->push(stripe, bytes);
    if (pushed) continue;
    last_ = pushed.error();
    obs::log("target").warn("full copy left out of a write object={} err={}", name_.object,
                            last_.message);
    co_return;
  }
}

Task<Status> CodedWrite::end() {
  if (auto last = encoder_.finish()) CO_TRY_OK(co_await send(std::move(*last)));
  for (const std::size_t i : good()) {
    const Status ended = co_await lanes_[i]->finish();
    if (ended) continue;
    last_ = ended.error();
    refused_.insert(lanes_[i]->holder());
  }
  if (full_copy_is_good())
    if (const Status ended = co_await full_copy_->finish(); !ended) last_ = ended.error();
  co_return can_go_on();
}

io::Coding CodedWrite::planned(const Generation& written) const {
  std::vector<std::string> holders(lanes_.size());
  for (std::size_t i = 0; i < lanes_.size(); ++i)
    if (lanes_[i] != nullptr) holders[i] = lanes_[i]->holder();
  return coding(written, holders, full_copy_is_good() ? node_.id : "");
}

io::Coding CodedWrite::coding(const Generation& written, const std::vector<std::string>& holders,
                              const std::string& full_copy) const {
  TARN_CHECK(holders.size() == terms_.geometry.slices());  // as check(Coding) wants it
  io::Coding out;
  out.layout = terms_.full_copy ? io::Coding::Layout::whole : io::Coding::Layout::striped;
  out.k = static_cast<std::uint8_t>(terms_.geometry.k);
  out.m = static_cast<std::uint8_t>(terms_.geometry.m);
  out.block_bytes = static_cast<std::uint32_t>(terms_.geometry.block_bytes);
  out.set = ec::raw(set_);
  out.written = written;
  out.holders = holders;
  out.full_copy = full_copy;
  return out;
}

Task<Result<std::unique_ptr<CodedWrite>>> begin_coded(TargetNode& node, const ObjectRequest& wanted,
                                                      std::optional<std::uint64_t> length) {
  const auto coding = api::coding_of(wanted.bucket.props);
  TARN_CHECK(coding.has_value());
  CodedWrite::Terms terms;
  terms.geometry = {coding->k, coding->m};
  terms.full_copy = coding->full_copy;
  terms.owner_only = wanted.bucket.props.durability == cluster::Durability::owner;
  terms.strict = wanted.bucket.props.durability == cluster::Durability::strict;
  co_return co_await CodedWrite::begin(node, wanted.name, terms, length);
}

Task<Result<std::unique_ptr<CodedWrite>>> encode_file(TargetNode& node, const ObjectRequest& wanted,
                                                      WorkFile& file, std::uint64_t size,
                                                      std::uint64_t xxh64) {
  CO_TRY_OK(check_memory());
  CO_TRY(auto coded, co_await begin_coded(node, wanted, size));
  for (std::uint64_t at = 0; at < size;) {
    const auto room = coded->room();
    const auto next = room.first(std::min<std::uint64_t>(room.size(), size - at));
    TARN_CHECK(!next.empty());
    CO_TRY_OK(co_await file.drive().read_back(file, next, at));
    at += next.size();
    CO_TRY_OK(co_await coded->filled(next.size()));
  }
  CO_TRY_OK(co_await coded->end());
  TARN_CHECK(coded->size() == size);
  if (coded->xxh64() != xxh64)
    co_return fail(Errc::corrupt, "drive {} gives back other bytes than were written",
                   file.drive().path());
  co_return coded;
}

}  // namespace tarn::target
