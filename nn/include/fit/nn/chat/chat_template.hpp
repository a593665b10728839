#pragma once
#include <memory>
#include <string>
#include <vector>

#include "fit/base/option.hpp"

/// Texts of conversations, as models that were trained on them expect: the chat templates of the Hugging Face Hub.
namespace fit::text {

/// A part of a conversation.
struct Message {
  std::string role;     ///< "system", "user", "assistant"
  std::string content;  ///< what is said
};

/// The options of ChatTemplate::apply().
struct ChatOptions {
  /// Ends the text with the beginning of the model's answer.
  FIT_OPTION(bool, add_generation_prompt) = true;
  /// More variables of the template, a JSON object: {"enable_thinking": false}. Without them, "tools" and "documents"
  /// are None.
  FIT_OPTION(std::string, variables) = "{}";
};

/// A template in the language Jinja, in the part of it that templates of models use: text, {{ … }}, if, for, set, with,
/// macro, call, filter, raw, namespace(), expressions, and the filters, tests and methods that they call. Whatever else
/// a template needs is an Error that names it, also an argument; an Error, too, is a template that runs for very long.
///
///     const auto chat = text::ChatTemplate::load("Qwen3-0.6B");
///     const Tensor ids = tokenizer.encode(chat.apply({{"user", "Why is the sky blue?"}}));
class ChatTemplate {
 public:
  /// `variables` are of all texts, a JSON object: {"bos_token": "<s>"}. Throws Error for a template that can't be read.
  explicit ChatTemplate(const std::string& source, const std::string& variables = "{}");
  /// Reads chat_template.jinja or chat_template of tokenizer_config.json, with the special tokens there. Throws
  /// FileError if there is none.
  static ChatTemplate load(const std::string& folder);

  /// The text of a conversation. Throws Error for what the template refuses by raise_exception(), with its reason.
  std::string apply(const std::vector<Message>& messages, const ChatOptions& options = {}) const;
  /// The same for messages with more than a role and a content, such as calls of tools: a JSON list. What a model
  /// thought may be their "reasoning_content", "thinking" or "reasoning"; the template finds it under the first two
  /// names.
  std::string apply_json(const std::string& messages, const ChatOptions& options = {}) const;
  /// The text of the template.
  const std::string& source() const;

 private:
  struct Parsed;
  std::shared_ptr<const Parsed> parsed_;
};

}  // namespace fit::text
