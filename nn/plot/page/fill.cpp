#include "plot/colormap.hpp"
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

std::string script_json(const std::string& json) {
  std::string text;
  for (const char c : json) text += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return text;
}

std::string heads_script() {
  std::string js = "const PALETTES = {";  // {blues: [[r, g, b], …], night: …}
  for (const auto& [name, map] : {std::pair("blues", Colormap::blues), std::pair("night", Colormap::night)}) {
    js += std::string(name) + ":[";
    for (const Rgb c : palette(map))
      js += '[' + std::to_string(c.r) + ',' + std::to_string(c.g) + ',' + std::to_string(c.b) + "],";
    js += "],";
  }
  return js + "};\n" + packed_js + heads_js;
}

}  // namespace fit::plot::page
