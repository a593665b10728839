
#include "plot/figures/drawing.hpp"
#include "plot/page/assets.hpp"

namespace fit::plot::page {

std::string filled(const std::string& page, const Parts& parts) {
  std::string out;
  std::size_t from = 0;
  for (const auto& [name, part] : parts) {
    const std::size_t at = page.find(name, from);
    out += page.substr(from, at - from) + part;
    from = at + name.size();
  }
  return out + page.substr(from);
}

std::string head(const std::string& title, const std::string& css, const std::string& sources) {
  return filled(shared_html, {{"{{sources}}", sources}, {"{{title}}", title}, {"{{style}}", shared_css + css}});
}

std::string script_json(const io::Json& json) {
  std::string text;
  for (const char c : json.ascii()) text += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return text;
}

std::string shared_script() {
  const auto quoted = [](Rgb c) { return '"' + c.hex() + '"'; };
  std::string weights, pairs;  // "#f7fbff", …   and   ["#f7fbff", "#0d1420"], …
  for (const Rgb c : palette(weights_map)) weights += quoted(c) + ',';
  for (const auto& [light, dark] : dark_colors()) pairs += '[' + quoted(light) + ',' + quoted(dark) + "],";
  return "const LIGHT_WEIGHTS = [" + weights + "];\nconst DARK_COLORS = new Map([" + pairs + "]);\n" + shared_js;
}

std::string workbench_script() { return shared_script() + packed_js + workbench_js; }

}  // namespace fit::plot::page
