#pragma once
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "io/json.hpp"

namespace fit::io {

/// A JSON file of a model's folder, such as config.json or tokenizer.json. It remembers the keys that were read, so
/// that no other key is ignored silently. The functions throw FileError with the file and the key.
class Config {
 public:
  using Value = Json;

  /// Throws FileError unless the file is a JSON object. The keys `absent` are read as if they were not there;
  /// "rope_scaling.factor" is one of an object inside.
  Config(const char* op, const std::string& path, const std::vector<std::string>& absent = {},
         const JsonLimits& limits = {16, 100'000});
  /// The object that a file holds, whose name is in messages.
  Config(const char* op, const std::string& path, InputFile&& file, const JsonLimits& limits);
  /// An object in memory, under the name of a file.
  Config(const char* op, const std::string& path, Value object);
  /// An object inside of another: its keys are named `before`.KEY.
  Config(const Config& outer, const std::string& before, const Value& object);

  /// Whether the key has a value other than null.
  bool has(const std::string& key) const;
  /// Whether the key is there, also with null.
  bool contains(const std::string& key) const;
  /// The value of a key, or `absent` if it has none. Throws FileError if `absent` is null, and for another type.
  std::int64_t integer(const std::string& key, const Value& absent = {}) const;
  double number(const std::string& key, const Value& absent = {}) const;
  bool boolean(const std::string& key, const Value& absent = {}) const;
  std::string text(const std::string& key, const Value& absent = {}) const;
  /// The value as it is; null if there is none.
  const Value& value(const std::string& key) const;
  /// An object; the objects of a list.
  Config object(const std::string& key) const;
  std::vector<Config> objects(const std::string& key) const;

  /// Marks keys that change nothing here.
  void ignore(const std::vector<std::string>& keys) const { read_->insert(keys.begin(), keys.end()); }
  /// Throws FileError for the first key that was not read, unless its value is null, false, 0 or empty. `advice` ends
  /// the message.
  void check_all_read(const char* advice = "") const;
  /// Throws FileError: the value of this key …
  template <class... Parts>
  [[noreturn]] void fail(const std::string& key, const Parts&... parts) const {
    fail_text(key, joined(parts...));
  }
  const std::string& path() const { return path_; }

 private:
  bool is_absent(const std::string& key) const;
  [[noreturn]] void fail_text(const std::string& key, const std::string& why) const;
  const Value& needed(const std::string& key, const Value& absent, bool (Value::*is)() const noexcept,
                      const char* type) const;

  const char* op_;
  std::string path_, before_;
  std::shared_ptr<const Json> json_;  // the file
  const Value* object_;
  std::shared_ptr<const std::set<std::string>> absent_;  // with the names before them; null: none
  std::shared_ptr<std::set<std::string>> read_;
};

}  // namespace fit::io
