#include "support/example.hpp"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <sstream>

#include "fit/graph.hpp"
#include "fit/ops.hpp"
#include "fit/random.hpp"

namespace example {

void Example::section(const std::string& title) { std::cout << "\n== " << title << '\n'; }

void Example::claim(const std::string& what, bool holds) {
  ++claims_;
  std::cout << (holds ? "  [ok]     " : "  [FAILED] ") << what << '\n';
  if (!holds) failed_.push_back(what);
}

void Example::picture(const std::string& name, const fit::plot::Figure& figure) {
  const std::string path = out + '/' + name_ + '/' + name + ".svg";
  figure.save(path);
  pictures_.push_back(path);
}

int Example::finish() const {
  if (!pictures_.empty()) {
    std::cout << "\nPictures, for a browser:\n";
    for (const auto& path : pictures_) std::cout << "  " << path << '\n';
  }
  if (claims_ > 0)
    std::cout << '\n' << claims_ - static_cast<int>(failed_.size()) << " of " << claims_ << " claims hold\n";
  for (const auto& what : failed_) std::cerr << "FAILED: " << what << '\n';
  return failed_.empty() ? 0 : 1;
}

int run(int argc, char** argv, const std::string& about, const std::function<void(Example&)>& body) {
  Example e{std::filesystem::path(argv[0]).filename().string()};
  CLI::App app(about);
  app.option_defaults()->always_capture_default();
  app.add_option("--out", e.out, "folder for the pictures");
  app.add_option("--seed", e.seed, "of everything random");
  app.add_flag("--quick", e.quick, "a few steps only, as the tests do it");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    fit::manual_seed(e.seed);
    body(e);
    return e.finish();
  } catch (const std::exception& error) {
    std::cerr << "FAILED: " << error.what() << '\n';
    return 1;
  }
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> list;
  for (std::string word; in >> word;) list.push_back(word);
  return list;
}

double distance(const fit::Tensor& a, const fit::Tensor& b) {
  const fit::NoGrad plain;
  return fit::max(fit::abs(a - b)).item();
}

}  // namespace example
