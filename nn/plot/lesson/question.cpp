// A question as HTML. The page checks it (page/lesson/ask.js).
#include <algorithm>
#include <utility>

#include "fit/lesson.hpp"
#include "fit/ops/ops.hpp"
#include "plot/figures/text.hpp"
#include "plot/lesson/prose.hpp"
#include "tensor/check.hpp"

namespace fit {
namespace {

std::string prose(const std::string& text) {
  std::vector<plot::Heading> none;
  return plot::prose_html(text, none);
}

// The prose of one paragraph as a part of a line.
std::string in_line(const std::string& text) {
  const std::string html = prose(text), begin = "<p>", end = "</p>\n";
  return html.size() < begin.size() + end.size() ? html
                                                 : html.substr(begin.size(), html.size() - begin.size() - end.size());
}

}  // namespace

Question::Question(std::string text) : text_(std::move(text)) {}

Question& Question::right(const std::string& answer, const std::string& word) {
  answers_.push_back({answer, word, true});
  return *this;
}

Question& Question::wrong(const std::string& answer, const std::string& word) {
  answers_.push_back({answer, word, false});
  return *this;
}

Question& Question::otherwise(const std::string& word) {
  otherwise_ = word;
  return *this;
}

Question& Question::numbers(const Tensor& answer, double within, const std::string& word) {
  check::defined("Question::numbers", "answer", answer);
  if (answer.rank() > 2 || answer.numel() == 0)
    check::fail("Question::numbers", "answer is ", answer.shape(), ": give a number, a row or a matrix");
  const std::int64_t columns = answer.rank() == 0 ? 1 : answer.size(-1);
  numbers_ = reshape(answer.detach(), {-1, columns}).to(float64);
  within_ = within;
  return right("", word);
}

Question& Question::cell(const plot::Figure& map) {
  map_ = map.svg();
  return *this;
}

// What the reader chooses from, or fills in.
std::string Question::fields() const {
  std::string html;
  if (!map_.empty())
    return "<figure class=\"scrolls\">" + map_ +
           "</figure><p class=\"how\">Choose a cell: click it, or go there by "
           "the arrow keys and press Enter.</p>";
  if (!numbers_.defined()) {
    for (const Answer& a : answers_)
      html += "<button type=\"button\" class=\"choice\">" + in_line(a.text) + "</button>";
    return html;
  }
  for (std::int64_t i = 0; i < numbers_.size(0); ++i) {
    html += "<tr>";
    for (std::int64_t j = 0; j < numbers_.size(1); ++j)
      html += "<td><input type=\"text\" inputmode=\"decimal\" size=\"6\" autocomplete=\"off\" aria-label=\"row " +
              std::to_string(i + 1) + ", column " + std::to_string(j + 1) + "\" data-value=\"" +
              plot::fixed(numbers_[{i, j}].item(), 6) + "\"></td>";
    html += "</tr>";
  }
  const std::string kind = numbers_.numel() > 1 ? "matrix" : "number";
  return "<div class=\"scrolls\"><table class=\"" + kind + "\" data-within=\"" + plot::fixed(within_, 6) + "\">" +
         html + "</table></div><button>Check</button>";
}

std::string Question::html() const {
  const bool choices = map_.empty() && !numbers_.defined();
  const auto rights = std::count_if(answers_.begin(), answers_.end(), [](const Answer& a) { return a.right; });
  if (rights != 1 || (choices && answers_.size() < 2))
    check::fail("Lesson::ask", "the question \"", text_, "\" has ", rights, " right answers and ",
                static_cast<std::ptrdiff_t>(answers_.size()) - rights,
                " wrong ones: give one right answer, and to choose from a wrong one, too");
  std::string words;
  for (const Answer& a : answers_)
    words += std::string("<div class=\"word prose\" hidden data-answer=\"") + plot::escape_xml(a.text) + "\"" +
             (a.right ? " data-right" : "") + '>' + prose(a.word) + "</div>";
  const std::string other = otherwise_.empty() ? "Not yet." : otherwise_;
  words += "<div class=\"word prose\" hidden data-otherwise>" + prose(other) + "</div>";
  return "<div class=\"question\"><div class=\"prose\">" + prose(text_) + "</div><form>" + fields() +
         "</form><div class=\"said\" role=\"status\" tabindex=\"-1\"></div>" + words + "</div>\n";
}

}  // namespace fit
