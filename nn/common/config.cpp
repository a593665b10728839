#include "common/config.hpp"

#include <utility>

namespace fit::io {
namespace {

// Whether a value asks for nothing: an option that is off.
bool is_off(const Json& value) {
  return value.is_null() || value == false || value == 0 ||
         ((value.is_array() || value.is_object()) && value.empty()) || value == "";
}

}  // namespace

Config::Config(const char* op, const std::string& path, InputFile&& file, const JsonLimits& limits)
    : op_(op), path_(path), json_(std::make_shared<const Json>(parse_json(file, file.rest(), limits))) {
  if (!json_->is_object()) file.fail("expected a JSON object, found ", json_->type_name());
  object_ = json_.get();
  read_ = std::make_shared<std::set<std::string>>();
}

Config::Config(const char* op, const std::string& path, const std::vector<std::string>& absent,
               const JsonLimits& limits)
    : Config(op, path, InputFile(op, path), limits) {
  absent_ = std::make_shared<const std::set<std::string>>(absent.begin(), absent.end());
}

Config::Config(const char* op, const std::string& path, Value object)
    : op_(op),
      path_(path),
      json_(std::make_shared<const Json>(std::move(object))),
      object_(json_.get()),
      read_(std::make_shared<std::set<std::string>>()) {}

Config::Config(const Config& outer, const std::string& before, const Value& object)
    : op_(outer.op_),
      path_(outer.path_),
      before_(outer.before_ + before + '.'),
      json_(outer.json_),
      object_(&object),
      absent_(outer.absent_),
      read_(std::make_shared<std::set<std::string>>()) {}

bool Config::is_absent(const std::string& key) const { return absent_ && absent_->count(before_ + key) > 0; }

void Config::fail_text(const std::string& key, const std::string& why) const {
  throw FileError(joined('[', op_, "] ", path_, ": ", before_, key, why));
}

const Config::Value& Config::value(const std::string& key) const {
  read_->insert(key);
  static const Value nothing;
  const Value* const found = object_->find(key);
  return !found || is_absent(key) ? nothing : *found;
}

bool Config::has(const std::string& key) const { return !value(key).is_null(); }

bool Config::contains(const std::string& key) const {
  read_->insert(key);
  return object_->contains(key) && !is_absent(key);
}

const Config::Value& Config::needed(const std::string& key, const Value& absent, bool (Value::*is)() const noexcept,
                                    const char* type) const {
  const Value& there = value(key);
  const Value& v = there.is_null() ? absent : there;
  if (v.is_null()) fail(key, " is missing: expected ", type);
  if (!(v.*is)()) fail(key, " is ", shown(v.dump()), ": expected ", type);
  return v;
}

std::int64_t Config::integer(const std::string& key, const Value& absent) const {
  const Value& v = needed(key, absent, &Value::is_integer, "a whole number");
  if (v.is_natural() && v.natural() > INT64_MAX) fail(key, " is ", v.dump(), ": it is too large");
  return v.integer();
}

double Config::number(const std::string& key, const Value& absent) const {
  return needed(key, absent, &Value::is_number, "a number").number();
}

bool Config::boolean(const std::string& key, const Value& absent) const {
  return needed(key, absent, &Value::is_boolean, "true or false").boolean();
}

std::string Config::text(const std::string& key, const Value& absent) const {
  return needed(key, absent, &Value::is_string, "a string").text();
}

Config Config::object(const std::string& key) const {
  const Value& v = value(key);
  if (!v.is_object()) fail(key, " is ", v.type_name(), ": expected an object");
  return Config(*this, key, v);
}

std::vector<Config> Config::objects(const std::string& key) const {
  const Value& list = value(key);
  if (!list.is_array()) fail(key, " is ", list.type_name(), ": expected a list");
  std::vector<Config> all;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string name = key + '[' + std::to_string(i) + ']';
    if (!list[i].is_object()) fail(name, " is ", list[i].type_name(), ": expected an object");
    all.emplace_back(*this, name, list[i]);
  }
  return all;
}

void Config::check_all_read(const char* advice) const {
  for (const auto& [key, v] : object_->items())
    if (read_->count(key) == 0 && !is_absent(key) && !is_off(v))
      fail(shown(key), " is ", shown(v.dump()), ": this key is not known here, and could change the result", advice);
}

}  // namespace fit::io
