// PROGRAM                 says of each exercise in this program which properties hold; exit code 1 if one does not.
// PROGRAM --each-fails    the exit code is 1 if some exercise here, or none, holds completely: stubs must be work to
// do. PROGRAM --hint NAME N   prints the first N hints of an exercise. PROGRAM --list          names all exercises.
#include <cstdlib>
#include <iostream>
#include <map>

#include "exercises/exercises.hpp"
#include "support/example.hpp"

namespace exercises {
namespace {

std::map<std::string, std::vector<std::any>>& registered() {
  static std::map<std::string, std::vector<std::any>> functions;
  return functions;
}

}  // namespace

Functions::Functions(const std::string& name, std::vector<std::any> functions) : all(std::move(functions)) {
  registered()[name] = all;
}

void Properties::holds(const std::string& what, const std::function<bool()>& property) {
  ++count_;
  bool is_so = false;
  std::string why;
  try {
    is_so = property();
  } catch (const std::exception& error) {
    why = std::string("\n           ") + error.what();
  }
  if (!is_so) ++failed_;
  example::print_claim(what + why, is_so);
}

}  // namespace exercises

int main(int argc, char** argv) {
  using namespace exercises;
  const std::string mode = argc > 1 ? argv[1] : "", name = argc > 2 ? argv[2] : "";
  if (mode == "--list") {
    for (const Exercise& e : all()) std::cout << e.name << std::string(18 - e.name.size(), ' ') << e.about << '\n';
    return 0;
  }
  if (mode == "--hint") {
    for (const Exercise& e : all())
      for (std::size_t i = 0;
           e.name == name && i < e.hints.size() && (argc < 4 || static_cast<int>(i) < std::atoi(argv[3])); ++i)
        std::cout << i + 1 << ". " << e.hints[i] << '\n';
    return 0;
  }
  int solved = 0, seen = 0;
  for (const Exercise& e : all()) {
    const auto found = registered().find(e.name);
    if (found == registered().end()) continue;
    ++seen;
    std::cout << "\n== " << e.name << ": " << e.about << '\n';
    fit::manual_seed(1);
    Properties properties;
    try {
      e.check(properties, {e.name, found->second});
    } catch (const std::exception& error) {
      properties.holds(std::string("the functions are complete: ") + error.what(), [] { return false; });
    }
    std::cout << properties.count() - properties.failed() << " of " << properties.count() << " properties hold\n";
    if (properties.failed() == 0) ++solved;
  }
  std::cout << '\n' << solved << " of " << seen << " exercises are solved\n";
  if (mode == "--each-fails") return solved == 0 && seen == static_cast<int>(all().size()) ? 0 : 1;
  if (mode == "--all") return solved == static_cast<int>(all().size()) ? 0 : 1;
  return seen > 0 && solved == seen ? 0 : 1;
}
