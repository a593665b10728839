#include "plot/figures/drawing.hpp"
#include "plot/figures/encode.hpp"

namespace fit::plot {
namespace {

std::string attribute(const char* name, double v) { return std::string(" ") + name + "=\"" + coordinate(v) + '"'; }
std::string attribute(const char* name, const std::string& v) { return std::string(" ") + name + "=\"" + v + '"'; }
std::string point(double x, double y) { return coordinate(x) + ' ' + coordinate(y); }

class Writer {
 public:
  std::string take() { return std::move(out_); }

  void operator()(const Text& t) {
    static constexpr const char* anchors[] = {"start", "middle", "end"};
    const TextStyle& style = t.style;
    out_ += "<text" + named(style.name) + attribute("x", t.x) + attribute("y", t.y) +
            attribute("font-size", style.size) + attribute("fill", style.fill.hex());
    if (style.anchor != Anchor::start) out_ += attribute("text-anchor", anchors[static_cast<int>(style.anchor)]);
    if (style.bold) out_ += attribute("font-weight", 600);
    if (style.rotate != 0)
      out_ += attribute("transform", "rotate(" + coordinate(style.rotate) + ' ' + point(t.x, t.y) + ')');
    out_ += '>' + escape_xml(t.text) + "</text>\n";
  }
  void operator()(const Box& b) {
    out_ += "<rect" + named(b.name) + attribute("x", b.x) + attribute("y", b.y) + attribute("width", b.w) +
            attribute("height", b.h) + attribute("fill", b.fill.hex()) + opacity("fill-opacity", b.opacity);
    close("rect", b.title);
  }
  void operator()(const Line& l) {
    out_ += "<line" + attribute("x1", l.x1) + attribute("y1", l.y1) + attribute("x2", l.x2) + attribute("y2", l.y2) +
            attribute("stroke", l.stroke.hex()) + attribute("stroke-width", l.width) + dashes(l.dashed) +
            opacity("stroke-opacity", l.opacity);
    close("line", "");
  }
  void operator()(const Path& p) {
    out_ += "<path" + named(p.name) + " d=\"";
    for (const Step& s : p.steps) {
      if (s.kind == Step::Kind::curve) out_ += 'C' + point(s.x1, s.y1) + ' ' + point(s.x2, s.y2) + ' ';
      if (s.kind != Step::Kind::curve) out_ += s.kind == Step::Kind::move ? 'M' : 'L';
      out_ += point(s.x, s.y);
    }
    if (p.width == 0)
      out_ += "Z\"" + attribute("fill", p.stroke.hex()) + opacity("fill-opacity", p.opacity);
    else
      out_ += "\" fill=\"none\"" + attribute("stroke", p.stroke.hex()) + attribute("stroke-width", p.width) +
              " stroke-linejoin=\"round\" stroke-linecap=\"round\"" + dashes(p.dashed) +
              opacity("stroke-opacity", p.opacity);
    close("path", p.title);
  }
  void operator()(const Dot& d) {
    out_ += "<circle" + attribute("cx", d.x) + attribute("cy", d.y) + attribute("r", d.r) +
            attribute("fill", d.fill.hex()) + opacity("fill-opacity", d.opacity);
    close("circle", d.title);
  }
  void operator()(const Image& i) {
    out_ += "<image" + attribute("x", i.x) + attribute("y", i.y) + attribute("width", i.w) + attribute("height", i.h) +
            " preserveAspectRatio=\"none\"" + (i.smooth ? "" : " style=\"image-rendering:pixelated\"") + " href=\"" +
            "data:image/png;base64," + base64(indexed_png(i.width, i.height, i.indices, i.colors)) + "\"/>\n";
  }
  void operator()(const GroupBegin& g) {
    out_ += "<g";
    if (g.panel_width > 0)
      out_ += attribute("class", std::string("panel")) + attribute("data-width", g.panel_width) +
              attribute("data-height", g.panel_height);
    if (g.dx != 0 || g.dy != 0) out_ += attribute("transform", "translate(" + point(g.dx, g.dy) + ')');
    if (g.crisp) out_ += " shape-rendering=\"crispEdges\"";
    out_ += ">\n";
  }
  void operator()(const GroupEnd&) { out_ += "</g>\n"; }
  void operator()(const Description& d) { out_ += "<desc>" + escape_xml(d.text) + "</desc>\n"; }

 private:
  static std::string named(const char* name) { return *name ? attribute("class", std::string(name)) : ""; }
  static std::string opacity(const char* name, double v) { return v < 1 ? attribute(name, v) : ""; }
  static const char* dashes(bool dashed) { return dashed ? " stroke-dasharray=\"5 5\"" : ""; }
  void close(const std::string& element, const std::string& title) {
    out_ += title.empty() ? "/>\n" : "><title>" + escape_xml(title) + "</title></" + element + ">\n";
  }

  std::string out_;
};

}  // namespace

std::string svg_of(const Drawing& drawing, double width, double height, Rgb ground) {
  const std::string w = coordinate(width), h = coordinate(height);
  Writer write;
  for (const Element& element : drawing.elements()) std::visit(write, element);
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + w + "\" height=\"" + h + "\" viewBox=\"0 0 " + w + ' ' +
         h +
         "\" font-family=\"'Helvetica Neue', Helvetica, Arial, 'DejaVu Sans', sans-serif\">\n"
         "<rect width=\"100%\" height=\"100%\" fill=\"" +
         ground.hex() + "\"/>\n" + write.take() + "</svg>\n";
}

}  // namespace fit::plot
