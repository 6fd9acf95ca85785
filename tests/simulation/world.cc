#include "tests/simulation/world.h"

#include <algorithm>

namespace tarn::simulation {
namespace {

constexpr auto kLater = [](const auto& a, const auto& b) {
  return a.at != b.at ? a.at > b.at : a.order > b.order;
};

}  // namespace

World::World(std::uint64_t seed, std::size_t places, bool trace)
    : random(seed),
      trace_(trace),
      processes_(places),
      cut_(places * places),
      slow_(places * places) {}

Time World::local(Place place) const {
  const Process& process = processes_[place];
  return process.offset + static_cast<Time>(static_cast<double>(now_) * process.rate);
}

void World::at(Time at, Run run) {
  events_.push_back({std::max(at, now_), ++order_, std::move(run)});
  std::push_heap(events_.begin(), events_.end(), kLater);
}

void World::enter(Place place, std::uint64_t epoch, Run run) {
  Process& process = processes_[place];
  if (!process.up || process.epoch != epoch) return;
  if (process.paused) {
    process.held.push_back(std::move(run));
  } else {
    run();
  }
}

void World::after(Place place, Time delay, Run run) {
  const auto real = static_cast<Time>(static_cast<double>(delay) / processes_[place].rate);
  at(now_ + real, [this, place, epoch = processes_[place].epoch, run = std::move(run)]() mutable {
    enter(place, epoch, std::move(run));
  });
}

void World::send(Place from, Place to, Run run, std::uint64_t epoch) {
  if (lost_one_in_ > 0 && random.one_in(lost_one_in_)) return;
  Time delay = random.between(100, 3 * kMillisecond) + slow_[from * processes_.size() + to];
  if (lost_one_in_ > 0 && random.one_in(lost_one_in_)) delay += random.up_to(late_);
  at(now_ + delay, [this, from, to, epoch, run = std::move(run)]() mutable {
    if (cut_[from * processes_.size() + to]) return;
    enter(to, epoch == 0 ? processes_[to].epoch : epoch, std::move(run));
  });
}

void World::start(Place place) {
  Process& process = processes_[place];
  process.up = true;
  process.paused = false;
  ++process.epoch;
}

void World::kill(Place place) {
  processes_[place].up = false;
  processes_[place].held.clear();
}

void World::pause(Place place) { processes_[place].paused = true; }

void World::go_on(Place place) {
  Process& process = processes_[place];
  if (!process.paused) return;
  process.paused = false;
  for (Run& run : std::exchange(process.held, {}))
    at(now_, [this, place, epoch = process.epoch, run = std::move(run)]() mutable {
      enter(place, epoch, std::move(run));
    });
}

void World::heal() {
  cut_.assign(cut_.size(), false);
  slow_.assign(slow_.size(), 0);
  disturb(0, 0);
}

std::uint64_t World::run_until(Time until) {
  std::uint64_t count = 0;
  while (!events_.empty() && events_.front().at <= until) {
    std::pop_heap(events_.begin(), events_.end(), kLater);
    Event event = std::move(events_.back());
    events_.pop_back();
    now_ = event.at;
    event.run();
    ++count;
  }
  now_ = std::max(now_, until);
  return count;
}

}  // namespace tarn::simulation
