#include "plot/lesson/prose.hpp"

#include <cctype>
#include <cstring>
#include <sstream>

#include "base/affixes.hpp"
#include "plot/figures/text.hpp"

namespace fit::plot {
namespace {

using Lines = std::vector<std::string>;

std::string trimmed(const std::string& s) {
  const std::size_t begin = s.find_first_not_of(" \t\r"), end = s.find_last_not_of(" \t\r");
  return begin == std::string::npos ? "" : s.substr(begin, end - begin + 1);
}

// Addresses of the web, of places on the page and of files beside it; no script.
bool is_harmless(const std::string& address) {
  const std::size_t colon = address.find(':');
  return colon == std::string::npos || starts_with(address, "https:") || starts_with(address, "http:");
}

std::string inline_html(const std::string& s);

// If s[at] starts a text between two `mark`s, sets `inside` to the text, and moves `at` past the second mark.
bool take_between(const std::string& s, std::size_t& at, const std::string& mark, std::string& inside) {
  if (s.compare(at, mark.size(), mark) != 0) return false;
  const std::size_t begin = at + mark.size(), end = s.find(mark, begin);
  if (end == std::string::npos || end == begin) return false;
  inside = s.substr(begin, end - begin);
  at = end + mark.size();
  return true;
}

bool take_link(const std::string& s, std::size_t& at, std::string& html) {
  if (s[at] != '[') return false;
  const std::size_t middle = s.find("](", at), end = middle == std::string::npos ? middle : s.find(')', middle);
  if (end == std::string::npos) return false;
  const std::string address = s.substr(middle + 2, end - middle - 2);
  if (!is_harmless(address)) return false;
  html += "<a href=\"" + escape_xml(address) + "\">" + inline_html(s.substr(at + 1, middle - at - 1)) + "</a>";
  at = end + 1;
  return true;
}

// A formula on lines of its own: the parts between \qquad stand side by side where there is room.
std::string display_html(const std::string& latex) {
  const std::string gap = "\\qquad";
  std::string html;
  for (std::size_t from = 0, end = 0; end != std::string::npos; from = end + gap.size()) {
    end = latex.find(gap, from);
    html += mathml(latex.substr(from, end == std::string::npos ? end : end - from), MathStyle::display);
  }
  return html;
}

std::string inline_html(const std::string& s) {
  std::string html, plain, inside;
  const auto flush = [&] { html += escape_xml(plain), plain.clear(); };
  for (std::size_t at = 0; at < s.size();) {
    const std::size_t before = at;
    std::string part;
    if (take_between(s, at, "`", inside))
      part = "<code>" + escape_xml(inside) + "</code>";
    else if (take_between(s, at, "$$", inside))
      part = "<span class=\"formula scrolls\" tabindex=\"0\">" + display_html(inside) + "</span>";
    else if (take_between(s, at, "$", inside))
      part = mathml(inside, MathStyle::inside);
    else if (take_between(s, at, "**", inside))
      part = "<strong>" + inline_html(inside) + "</strong>";
    else if (at + 1 < s.size() && s[at + 1] != ' ' && take_between(s, at, "*", inside))
      part = "<em>" + inline_html(inside) + "</em>";
    else
      take_link(s, at, part);
    if (at == before) {
      plain += s[at++];
      continue;
    }
    flush();
    // A formula and the comma behind it stay on one line.
    if (starts_with(part, "<math") && at < s.size() && std::strchr(".,;:!?)", s[at]))
      part = "<span class=\"nobreak\">" + part + s[at++] + "</span>";
    html += part;
  }
  flush();
  return html;
}

// "- x" and "1. x": how far the text is in; 0: it is no item.
std::size_t item_indent(const std::string& line) {
  if (starts_with(line, "- ")) return 2;
  std::size_t i = 0;
  while (i < line.size() && std::isdigit(static_cast<unsigned char>(line[i]))) ++i;
  return i > 0 && line.compare(i, 2, ". ") == 0 ? i + 2 : 0;
}

std::string list_html(const Lines& lines, std::size_t& at) {
  const bool numbered = lines[at][0] != '-';
  std::string html = numbered ? "<ol>\n" : "<ul>\n";
  while (at < lines.size() && item_indent(lines[at]) > 0 && (lines[at][0] != '-') == numbered) {
    std::string text = lines[at].substr(item_indent(lines[at]));
    while (++at < lines.size() && starts_with(lines[at], "  ")) text += ' ' + trimmed(lines[at]);
    html += "<li>" + inline_html(text) + "</li>\n";
  }
  return html + (numbered ? "</ol>\n" : "</ul>\n");
}

std::string table_html(const Lines& lines, std::size_t& at) {
  std::string html = "<table class=\"scrolls\">\n";
  for (bool first = true; at < lines.size() && starts_with(lines[at], "|"); ++at) {
    if (lines[at].find_first_not_of("|-: ") == std::string::npos) continue;
    std::istringstream cells(lines[at].substr(1));
    html += "<tr>";
    for (std::string cell; std::getline(cells, cell, '|');)
      html += (first ? "<th>" : "<td>") + inline_html(trimmed(cell)) + (first ? "</th>" : "</td>");
    html += "</tr>\n";
    first = false;
  }
  return html + "</table>\n";
}

std::string heading_html(const std::string& line, std::vector<Heading>& headings) {
  const std::size_t level = line.find_first_not_of('#');
  Heading h{static_cast<int>(level), "part-" + std::to_string(headings.size() + 1),
            inline_html(trimmed(line.substr(level)))};
  headings.push_back(h);
  const std::string name = 'h' + std::to_string(level);
  return '<' + name + " id=\"" + h.id + "\">" + h.html + "</" + name + ">\n";
}

bool is_heading(const std::string& line) {
  const std::size_t level = line.find_first_not_of('#');
  return level != std::string::npos && level >= 1 && level <= 4 && line[level] == ' ';
}

}  // namespace

std::string prose_html(const std::string& markdown, std::vector<Heading>& headings) {
  Lines lines;
  std::istringstream in(markdown);
  for (std::string line; std::getline(in, line);) lines.push_back(trimmed(line).empty() ? "" : line);
  std::string html;
  for (std::size_t at = 0; at < lines.size();) {
    if (lines[at].empty()) {
      ++at;
    } else if (is_heading(lines[at])) {
      html += heading_html(lines[at++], headings);
    } else if (item_indent(lines[at]) > 0) {
      html += list_html(lines, at);
    } else if (lines[at][0] == '|') {
      html += table_html(lines, at);
    } else {
      std::string text = lines[at];
      while (++at < lines.size() && !lines[at].empty() && !is_heading(lines[at]) && item_indent(lines[at]) == 0 &&
             lines[at][0] != '|')
        text += ' ' + trimmed(lines[at]);
      html += "<p>" + inline_html(text) + "</p>\n";
    }
  }
  return html;
}

}  // namespace fit::plot
