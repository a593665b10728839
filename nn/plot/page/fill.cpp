#include <array>
#include <nlohmann/json.hpp>

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

std::string script_json(const nlohmann::json& json) {
  std::string text;
  for (const char c : json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace))
    text += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return text;
}

std::string shared_script() {
  const auto quoted = [](Rgb c) { return '"' + c.hex() + '"'; };
  std::string weights, pairs;  // "#f7fbff", …   and   ["#f7fbff", "#0d1420"], …
  const auto add = [&](const auto& light, const auto& dark) {
    for (std::size_t i = 0; i < light.size(); ++i) pairs += '[' + quoted(light[i]) + ',' + quoted(dark[i]) + "],";
  };
  for (const Rgb c : palette(weights_map)) weights += quoted(c) + ',';
  for (const Colormap map : {weights_map, Colormap::rdbu}) add(palette(map), palette(in_dark(map)));
  const auto inks = [](const Look& look) {
    return std::array{look.ink, look.soft_ink, look.grid, look.not_finite, look.stroke, look.masked, look.hatch};
  };
  const Look &light = look_of(Theme::light), &dark = look_of(Theme::dark);
  add(inks(light), inks(dark));
  add(light.series, dark.series);
  return "const LIGHT_WEIGHTS = [" + weights + "];\nconst DARK_COLORS = new Map([" + pairs + "]);\n" + shared_js;
}

std::string heads_script() { return shared_script() + packed_js + heads_js; }

}  // namespace fit::plot::page
