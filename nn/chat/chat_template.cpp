#include "fit/nn/chat/chat_template.hpp"

#include <filesystem>

#include "chat/jinja.hpp"
#include "common/config.hpp"
#include "io/input_file.hpp"
#include "unicode/characters.hpp"

namespace fit::text {
namespace {

constexpr const char* chat_op = "ChatTemplate";
using Value = io::Json;

Value json_of(const char* what, const std::string& text) {
  io::JsonLimits limits{100};
  limits.rounds = false;
  std::optional<Value> value = io::json_in(text, limits);
  if (!value) jinja::fail(what, " is not JSON of integers within 64 bits: '", io::shown(text), "'");
  return std::move(*value);
}

// The text, which must be UTF-8.
const std::string& utf8_of(const std::string& text) {
  unicode::check_utf8(chat_op, text);
  return text;
}

Value object_of(const char* what, const std::string& text) {
  Value value = json_of(what, text);
  if (!value.is_object()) jinja::fail(what, " is a ", value.type_name(), ": expected a JSON object");
  return value;
}

// The content of a special token: a string, or an object with the key "content".
std::string content_of(const io::Config::Value& token) {
  if (token.is_string()) return token.text();
  if (token.is_object() && token.contains("content") && token["content"].is_string()) return token["content"].text();
  return {};
}

// The text of a template: a string, or the one with the name "default" in a list.
std::string source_of(const io::Config& config) {
  const io::Config::Value& value = config.value("chat_template");
  if (value.is_string()) return value.text();
  if (value.is_array())
    for (const io::Config& one : config.objects("chat_template"))
      if (one.text("name", "") == "default") return one.text("template");
  config.fail("chat_template", " is ", value.type_name(), ": expected a string, or a list with the name \"default\"");
}

}  // namespace

struct ChatTemplate::Parsed {
  std::string source;
  jinja::Block program;
  Value variables;
};

ChatTemplate::ChatTemplate(const std::string& source, const std::string& variables)
    : parsed_(std::make_shared<const Parsed>(
          Parsed{utf8_of(source), jinja::parsed(source), object_of("variables", variables)})) {}

ChatTemplate ChatTemplate::load(const std::string& folder) {
  const std::filesystem::path path(folder);
  const std::string file = (path / "chat_template.jinja").string(),
                    config_path = (path / "tokenizer_config.json").string();
  std::string source;
  Value variables = Value::object();
  std::error_code error;
  const bool apart = std::filesystem::exists(file, error);
  if (apart) source = io::InputFile(chat_op, file).rest();
  if (!apart || std::filesystem::exists(config_path, error)) {
    const io::Config config(chat_op, config_path, {}, {16, 1'000'000, 1 << 16});
    if (!apart) source = source_of(config);
    for (const char* name : {"bos_token", "eos_token", "pad_token", "unk_token"})
      if (const std::string content = content_of(config.value(name)); !content.empty()) variables[name] = content;
  }
  try {
    return ChatTemplate(source, variables.dump());
  } catch (const Error& e) {
    throw FileError(std::string("[") + chat_op + "] " + folder + ": " + e.what());
  }
}

namespace {

// What a model thought has several names: transformers gives a message all that templates ask for.
Value with_reasoning(const Value& message) {
  if (!message.is_object()) return message;
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    const Value& reasoning = message[name];
    if (reasoning.is_undefined() || reasoning.is_null()) continue;
    Value all = Value::object();
    all["thinking"] = reasoning;
    for (const auto& [key, value] : message.items()) all[key] = value;
    all["reasoning_content"] = reasoning;
    return all;
  }
  return message;
}

// The text of a program for messages and variables.
std::string text_for(const jinja::Block& program, Value variables, const Value& messages, const ChatOptions& options) {
  if (!messages.is_array()) jinja::fail("messages is a ", messages.type_name(), ": expected a list");
  for (const char* name : {"tools", "documents"})  // None in transformers, unless they are given
    if (!variables.contains(name)) variables[name] = nullptr;
  variables["add_generation_prompt"] = options.add_generation_prompt();
  const Value more = object_of("variables", options.variables());
  for (const auto& [key, value] : more.items()) variables[key] = value;
  Value& list = variables["messages"] = Value::array();
  for (const Value& message : messages) list.push_back(with_reasoning(message));
  return jinja::run(program, variables);
}

}  // namespace

std::string ChatTemplate::apply(const std::vector<Message>& messages, const ChatOptions& options) const {
  Value list = Value::array();
  for (const Message& m : messages) list.push_back({{"role", utf8_of(m.role)}, {"content", utf8_of(m.content)}});
  return text_for(parsed_->program, parsed_->variables, list, options);
}

std::string ChatTemplate::apply_json(const std::string& messages, const ChatOptions& options) const {
  return text_for(parsed_->program, parsed_->variables, json_of("messages", messages), options);
}

const std::string& ChatTemplate::source() const { return parsed_->source; }

}  // namespace fit::text
