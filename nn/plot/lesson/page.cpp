#include "plot/lesson/page.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <sstream>

#include "fit/ops/ops.hpp"
#include "io/json.hpp"
#include "plot/figures/colormap.hpp"
#include "plot/figures/text.hpp"
#include "plot/page/assets.hpp"

namespace fit::plot {
namespace {

using Kind = CellOutput::Kind;

std::string without_tags(const std::string& html) {
  std::string text;
  bool inside = false;
  for (const char c : html) {
    inside = inside || c == '<';
    if (!inside) text += c;
    inside = inside && c != '>';
  }
  return text;
}

// Converts a terminal's colour ("38;2;r;g;b" …) to a property of a style and its value. Ignores other codes.
std::pair<std::string, std::string> style_of(const std::string& codes) {
  std::vector<long> n;
  std::istringstream in(codes);
  for (std::string code; std::getline(in, code, ';');) n.push_back(std::strtol(code.c_str(), nullptr, 10));
  if (n.size() != 5 || n[1] != 2 || (n[0] != 38 && n[0] != 48)) return {};
  const auto channel = [&](std::size_t i) { return static_cast<std::uint8_t>(std::clamp(n[i], 0L, 255L)); };
  return {n[0] == 38 ? "color" : "background", Rgb{channel(2), channel(3), channel(4)}.hex()};
}

std::string line_html(const std::string& whole) {
  const std::size_t end_of_text = whole.find_last_not_of('\r') + 1;
  const std::size_t again = whole.substr(0, end_of_text).rfind('\r') + 1;  // 0 without a carriage return
  const std::string line = whole.substr(again, end_of_text - again);
  std::string html;
  std::map<std::string, std::string> style;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t escape = std::min(line.size(), line.find("\x1b[", at));
    if (escape > at) {
      const std::string text = escape_xml(line.substr(at, escape - at));
      std::string declarations;
      for (const auto& [property, value] : style) declarations += property + ':' + value + ';';
      html += style.empty() ? text : "<span style=\"" + declarations + "\">" + text + "</span>";
    }
    if (escape == line.size()) break;
    const std::size_t end = std::min(line.size() - 1, line.find_first_not_of("0123456789;", escape + 2));
    const std::string codes = line.substr(escape + 2, end - escape - 2);
    const auto [property, value] = style_of(codes);
    if (line[end] == 'm' && property.empty()) style.clear();
    if (line[end] == 'm' && !property.empty()) style[property] = value;
    at = end + 1;
  }
  return html;
}

std::string outputs_html(const std::vector<CellOutput>& outputs, const std::string& code);

// A slider over the cases. Each case is hidden until the slider is at it.
std::string vary_html(const CellOutput& o, const std::string& checks) {
  std::string html = "<div class=\"vary\"><label><code>" + escape_xml(o.content) +
                     "</code> <input type=\"range\" min=\"0\" max=\"" + std::to_string(o.cases.size() - 1) +
                     "\" value=\"0\" step=\"1\"> <output></output></label>\n";
  for (const auto& [value, outputs] : o.cases)
    html +=
        "<div class=\"case\" data-value=\"" + escape_xml(value) + "\">" + outputs_html(outputs, checks) + "</div>\n";
  return html + "</div>\n";
}

std::string output_html(const CellOutput& o, const std::string& checks) {
  switch (o.kind) {
    case Kind::text:
      return "<pre class=\"printed scrolls\">" + terminal_html(o.content) + "</pre>\n";
    case Kind::figure:
      return "<figure class=\"scrolls\" data-names=\"" + escape_xml(o.names) + "\">" + o.content +
             (o.caption.empty() ? "" : "<figcaption>" + escape_xml(o.caption) + "</figcaption>") + "</figure>\n";
    case Kind::heads:
      return "<section class=\"recording\"><h3>" + escape_xml(o.caption) + "</h3>\n" + o.content + "</section>\n";
    case Kind::vary:
      return vary_html(o, checks);
    case Kind::question:
    case Kind::product:
    case Kind::text_view:
      return o.content;
    case Kind::error:
      return "<pre class=\"error\" role=\"alert\">" + escaped_lines(o.content) + "</pre>\n";
    case Kind::holds:
      return "<p class=\"claim\">" + escape_xml(o.content) + "</p>\n";
    default:
      return "<p class=\"claim failed\" role=\"alert\">" + escape_xml(o.content) + "</p>\n";
  }
}

std::string code_html(const std::string& code) {
  return "<pre class=\"code scrolls\" tabindex=\"0\" aria-label=\"Code\"><code>" + escaped_lines(code) +
         "</code></pre>\n";
}

bool has_claims(const std::pair<std::string, std::vector<CellOutput>>& one) {
  return std::any_of(one.second.begin(), one.second.end(),
                     [](const CellOutput& o) { return o.kind == Kind::holds || o.kind == Kind::fails; });
}

// Claims that hold fold behind a line, with the code that checks and draws. Failed claims stand in the open. If the
// cases of vary() have claims, the code stands with them.
std::string outputs_html(const std::vector<CellOutput>& outputs, const std::string& code) {
  const bool in_cases = std::any_of(outputs.begin(), outputs.end(), [](const CellOutput& o) {
    return std::any_of(o.cases.begin(), o.cases.end(), has_claims);
  });
  const std::string checks = in_cases ? "" : code;
  std::string html, held;
  int count = 0;
  for (const CellOutput& o : outputs)
    if (o.kind == Kind::holds)
      held += output_html(o, ""), ++count;
    else
      html += output_html(o, in_cases ? code : "");
  if (count == 0 && checks.empty()) return html;
  const bool checked =
      std::any_of(outputs.begin(), outputs.end(), [](const CellOutput& o) { return o.kind == Kind::fails; });
  const std::string title = count == 0 && checked ? "How this is checked"
                            : count == 0          ? "How this is drawn"
                            : count == 1          ? "How this is checked: 1 claim holds"
                                                  : "How this is checked: " + std::to_string(count) + " claims hold";
  return html + "<details class=\"checks" + (count > 0 ? " held" : "") + "\"><summary>" + title + "</summary>\n" +
         held + (checks.empty() ? "" : code_html(checks)) + "</details>\n";
}

std::string cell_html(const LessonCell& cell) {
  std::string html = "<section class=\"cell\">\n";
  if (!cell.prose.empty()) html += "<div class=\"prose\">" + cell.prose + "</div>\n";
  if (!cell.source.code.empty()) html += code_html(cell.source.code);
  const std::string outputs = outputs_html(cell.outputs, cell.reached ? cell.source.checks : "");
  if (!outputs.empty()) html += "<div class=\"outputs\">\n" + outputs + "</div>\n";
  if (cell.source.marked && !cell.reached) html += "<p class=\"unreached\">This part did not run.</p>\n";
  return html + "</section>\n";
}

std::string contents_html(const std::vector<Heading>& headings) {
  std::string html;
  for (const Heading& h : headings)
    if (h.level == 2 || h.level == 3)
      html += "<li class=\"level-" + std::to_string(h.level) + "\"><a href=\"#" + h.id + "\">" + h.html + "</a></li>\n";
  return html;
}

std::string summary_html(const std::vector<LessonCell>& cells) {
  std::size_t held = 0, failed = 0, errors = 0;
  const auto count = [&](const CellOutput& o) {
    held += o.kind == Kind::holds;
    failed += o.kind == Kind::fails;
    errors += o.kind == Kind::error;
  };
  for (const LessonCell& cell : cells)
    for (const CellOutput& output : cell.outputs) {
      count(output);
      std::map<std::string, const CellOutput*> claims;  // of all cases: each counts once, and fails if it fails in one
      for (const auto& [value, outputs] : output.cases)
        for (const CellOutput& o : outputs) {
          const bool is_claim = o.kind == Kind::holds || o.kind == Kind::fails;
          if (!is_claim)
            count(o);
          else if (const auto [at, is_new] = claims.emplace(o.content, &o); !is_new && o.kind == Kind::fails)
            at->second = &o;
        }
      for (const auto& [what, claim] : claims) count(*claim);
    }
  std::string text =
      held + failed == 0 ? "" : std::to_string(held) + " of " + std::to_string(held + failed) + " claims hold";
  if (errors > 0) text += std::string(text.empty() ? "" : "; ") + "it ended with an error";
  if (text.empty()) return "";
  return std::string("<p id=\"summary\" class=\"") + (failed + errors > 0 ? "bad" : "good") + "\">" + text + "</p>";
}

}  // namespace

std::string terminal_html(const std::string& text) {
  std::string html;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) html += line_html(line) + '\n';
  return html;
}

std::string product_html(const Tensor& a, const Tensor& b, const Tensor& c) {
  const auto table = [](const char* name, const Tensor& m) {
    const Tensor values = m.to(float64);
    // As many digits for all numbers as one of them needs, at most four: the points stand below each other.
    int digits = 0;
    for (const double v : values.to_vector<double>())
      while (digits < 4 && std::abs(v - std::round(v * std::pow(10, digits)) / std::pow(10, digits)) > 0.5e-4) ++digits;
    std::string html = std::string("<table class=\"matrix\" data-of=\"") + name + "\">";
    for (std::int64_t i = 0; i < m.size(0); ++i) {
      html += "<tr>";
      for (std::int64_t j = 0; j < m.size(1); ++j) {
        html += "<td>" + fixed(values[{i, j}].item(), digits) + "</td>";
      }
      html += "</tr>";
    }
    return html + "</table>";
  };
  return "<div class=\"product\" tabindex=\"0\" role=\"application\" aria-label=\"A matrix product. Arrow keys move "
         "over the result.\"><div class=\"factors scrolls\">" +
         table("a", a) + "<span>·</span>" + table("b", b) + "<span>=</span>" + table("c", c) +
         "</div><p class=\"sum\" role=\"status\">Point at a number of the result.</p><button type=\"button\" "
         "class=\"play\">▶ Play</button></div>\n";
}

std::string text_html(const std::vector<std::string>& tokens, const std::vector<TextHead>& heads) {
  io::Json all = io::Json::array();
  for (const TextHead& head : heads) {
    std::vector<std::vector<double>> rows;
    for (std::int64_t i = 0; i < head.weights().size(0); ++i) {
      rows.push_back(head.weights()[i].to(float64).to_vector<double>());
      for (double& w : rows.back()) w = std::round(w * 1e4) / 1e4;
    }
    all.push_back({{"name", head.name()}, {"weights", rows}, {"fromKey", head.from_key()}});
  }
  std::string words;
  for (const std::string& token : tokens) words += "<span class=\"token\">" + escape_xml(printable(token)) + "</span>";
  return "<div class=\"text-view\" tabindex=\"0\" role=\"application\" aria-label=\"A text with arcs of attention. "
         "Arrow "
         "keys go from token to token.\"><div class=\"stage\"><svg aria-hidden=\"true\"></svg><div class=\"tokens\">" +
         words + "</div></div><div class=\"told\" role=\"status\"></div><script type=\"application/json\">" +
         page::script_json(all) + "</script></div>\n";
}

std::string lesson_html(const std::string& title, const std::vector<Heading>& headings,
                        const std::vector<LessonCell>& cells) {
  std::string body;
  for (const LessonCell& cell : cells) body += cell_html(cell);
  const std::string name = !title.empty()     ? escape_xml(title)
                           : headings.empty() ? "Lesson"
                                              : without_tags(headings.front().html);
  // The view of heads is a part of pages that show some.
  const bool heads = body.find("class=\"workbench\"") != std::string::npos;
  const std::string style = std::string(heads ? page::workbench_css : "") + page::lesson_css;
  const std::string script = (heads ? page::workbench_script() : page::shared_script()) + page::lesson_js;
  return page::filled(page::lesson_html, {{"{{head}}", page::head(name, style)},
                                          {"{{summary}}", summary_html(cells)},
                                          {"{{contents}}", contents_html(headings)},
                                          {"{{cells}}", body},
                                          {"{{script}}", script}});
}

}  // namespace fit::plot
