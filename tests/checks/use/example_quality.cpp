// An example that reaches what its arguments say: "example_quality REACHED GOAL" should reach at least GOAL, and the
// same with "at_most" in front at most. With "int8" in front, it measures GOAL where it has int8 weights, and should
// then be at most 0.3 above REACHED.
#include <cstdlib>
#include <string>
#include <vector>

#include "fit/nn/layers/linear.hpp"
#include "support/example.hpp"

int main(int argc, char** argv) {
  std::vector<char*> arguments(argv, argv + argc);
  const std::string kind = argc > 1 ? argv[1] : "";
  const int numbers = kind == "at_most" || kind == "int8" ? 2 : 1;
  if (argc < numbers + 2) return 3;
  const double reached = std::atof(argv[numbers]), goal = std::atof(argv[numbers + 1]);
  arguments.erase(arguments.begin() + 1, arguments.begin() + numbers + 2);
  return example::run(static_cast<int>(arguments.size()), arguments.data(), "Reaches what it is told to reach.",
                      [&](example::Example& e) {
                        if (kind == "int8")
                          e.beside_int8(
                              "quality", fit::nn::Linear(2, 2),
                              [&](fit::nn::Linear& l) { return l.weight.parametrized() ? goal : 100; }, reached, 0.3);
                        else if (kind == "at_most")
                          e.at_most("quality", reached, goal);
                        else
                          e.at_least("quality", reached, goal);
                      },
                      {example::int8});
}
