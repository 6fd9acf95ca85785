#pragma once

#include <memory>
#include <string>

#include <rocksdb/env.h>

#include "target/drive/head_turns.h"

namespace tarn::target {

/// A RocksDB environment whose background threads belong to one drive. The default environment's
/// pool is shared by the whole process: there one hung drive would stall the indexes of all other
/// drives. Each flush and each compaction takes one of `turns`, so that it moves the head like one
/// more reader (null: whenever it likes).
[[nodiscard]] std::unique_ptr<rocksdb::Env> make_index_env(const std::shared_ptr<HeadTurns>& turns);

/// A RocksDB info log that writes warnings and errors to our log. Not a file on the drive: RocksDB
/// aborts when its own log cannot be written.
[[nodiscard]] std::shared_ptr<rocksdb::Logger> make_index_logger(const std::string& drive);

}  // namespace tarn::target
