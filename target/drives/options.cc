#include "target/drives/options.h"

#include "common/base/encoding.h"

namespace tarn::target {
namespace {

constexpr std::uint64_t kBandwidthMax = 1ULL << 40U;

}  // namespace

Status parse_reserve(std::string_view text, SpaceLimits& limits) {
  if (text.ends_with('%')) {
    const auto percent = parse_u64(text.substr(0, text.size() - 1));
    if (!percent || *percent > 50)
      return fail(Errc::invalid_argument, "'{}' is not a percentage from 0% to 50%", text);
    limits.reserve_percent = static_cast<double>(*percent);
    limits.reserve_bytes = 0;
    return {};
  }
  TRY(limits.reserve_bytes, parse_size(text));
  return {};
}

void Options::bind(Settings& settings) {
  service.bind(settings);
  settings.duration("shutdown.notice", shutdown_notice, std::chrono::seconds(0),
                    std::chrono::minutes(1),
                    "how long after SIGTERM the target still serves clients, until proxies no "
                    "longer redirect to it");
  settings.custom(
      "space.reserve", "1%", "size or percent",
      [this](std::string_view value) { return parse_reserve(value, space); },
      "room on each drive that data never takes: the index lives in it");
  settings.integer("space.low_watermark", low_watermark, 1, 100, "percent",
                   "eviction ends here, or at the high watermark if that is lower");
  settings.integer("space.high_watermark", high_watermark, 1, 100, "percent",
                   "a drive fuller than this passes new files to the next drive, and objects that "
                   "can be fetched again are evicted from it");
  settings.integer("space.out_of_space", out_of_space, 1, 100, "percent",
                   "a drive fuller than this takes no new files");
  settings.word("checksum.verify", checksum_verify, {"cold", "always"},
                "compare blocks with their checksums when the drive brings them, or at every read");
  settings.word("drive.kind", drive_kind, {"auto", "rotational", "solid"},
                "rotational drives are read in long turns, one reader at a time; auto: as the "
                "kernel says");
  settings.duration("drive.hang_after", hang_after, std::chrono::seconds(2),
                    std::chrono::minutes(10),
                    "a drive that does nothing for so long while work waits for it is out until it "
                    "answers");
  settings.duration("drive.out_after", drive_out_after, std::chrono::seconds(1),
                    std::chrono::hours(24 * 365),
                    "how long a drive may be missing before its objects of buckets with an "
                    "upstream count as evicted, and are fetched to other drives; at least ten "
                    "minutes");
  settings.duration("append.timeout", append_timeout, std::chrono::seconds(1),
                    std::chrono::hours(24 * 7),
                    "how long an append that was not flushed is kept after its last call");
  settings.duration("lease.term", lease.term, std::chrono::seconds(1), std::chrono::seconds(60),
                    "term of a node's lease: after it a silent node counts as down; nodes renew"
                    " it four times a term");
  settings.duration("target.tombstone_keep", tombstone_keep, std::chrono::seconds(1),
                    std::chrono::hours(24 * 365),
                    "how long a tombstone is kept at least; longer while a target or drive is "
                    "away that may still hold the object");
  settings.integer("target.weight", weight, 1, 1000, "parts",
                   "share of all names relative to other targets; a change moves objects");
  settings.word("rebalance.enabled", rebalance_enabled, {"true", "false"},
                "move objects that belong on another target by now, without being asked");
  settings.word("resilver.enabled", resilver_enabled, {"true", "false"},
                "move objects between drives when these come or go, without being asked");
  settings.size("rebalance.bandwidth", rebalance_bandwidth, 0, kBandwidthMax,
                "ceiling of each target for moves of objects, in bytes a second; 0B: no limit");
  settings.integer("rebalance.workers", rebalance_workers, 0, MoveLimits::kWorkersMax, "objects",
                   "how many it moves at a time on each drive; 0: one on a rotational drive, four "
                   "on others");
  settings.size(
      "rebuild.bandwidth_min", rebuild_bandwidth_min, 0, kBandwidthMax,
      "floor of each drive in service for rebuilds of slices and copies, in bytes a second, "
      "beside clients and other moves; 0B: rebuilds use only what these leave");
  settings.former_name("rebuild.floor", "rebuild.bandwidth_min");
  settings.size("rebuild.bandwidth_max", rebuild_bandwidth_max, 0, kBandwidthMax,
                "ceiling of each target for rebuilds, in bytes a second, also below "
                "rebuild.bandwidth_min; 0B: no limit of its own");
  settings.duration("scrub.period", scrub_period, std::chrono::seconds(0),
                    std::chrono::hours(24 * 365),
                    "within which every byte on the drives is compared with its checksum; 0s: only "
                    "when it is asked for");
  settings.size("scrub.bandwidth", scrub_bandwidth, 0, kBandwidthMax,
                "bytes a second that a scrub which is asked for, or late, takes of each target; "
                "0B: no limit");
  settings.custom(
      "upstream.endpoints", "none", "URLs",
      [this](std::string_view text) -> Status {
        upstream_endpoints = text;
        return {};
      },
      "servers of upstream buckets that this target may ask, with commas between them; the clouds "
      "themselves need not be listed");
  settings.integer("upstream.connections", upstream_connections, 1, 4096, "requests",
                   "how many requests to one upstream server are under way at a time");
  settings.duration("upstream.timeout", upstream_timeout, std::chrono::seconds(1),
                    std::chrono::hours(1),
                    "for which an upstream server may send nothing before a request is broken off");
  settings.integer("drive.threads", drive_threads, 1, 256, "threads", "threads of each drive");
}

SpaceLimits Options::limits() const {
  SpaceLimits limits = space;
  limits.low_watermark = static_cast<double>(low_watermark);
  limits.high_watermark = static_cast<double>(high_watermark);
  limits.out_of_space = static_cast<double>(out_of_space);
  return limits;
}

std::optional<io::DriveKind> Options::kind() const {
  if (drive_kind == "rotational") return io::DriveKind::rotational;
  if (drive_kind == "solid") return io::DriveKind::solid;
  return std::nullopt;
}

}  // namespace tarn::target
