// An example that reaches what its arguments say: "example_quality REACHED GOAL" should reach at least GOAL, and the
// same with "at_most" in front at most.
#include <cstdlib>
#include <string>
#include <vector>

#include "support/example.hpp"

int main(int argc, char** argv) {
  std::vector<char*> arguments(argv, argv + argc);
  const bool at_most = argc > 1 && std::string(argv[1]) == "at_most";
  const int numbers = at_most ? 2 : 1;
  if (argc < numbers + 2) return 3;
  const double reached = std::atof(argv[numbers]), goal = std::atof(argv[numbers + 1]);
  arguments.erase(arguments.begin() + 1, arguments.begin() + numbers + 2);
  return example::run(static_cast<int>(arguments.size()), arguments.data(), "Reaches what it is told to reach.",
                      [&](example::Example& e) {
                        if (at_most)
                          e.at_most("quality", reached, goal);
                        else
                          e.at_least("quality", reached, goal);
                      });
}
