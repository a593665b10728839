/// # A lesson for the test
///
/// Prose with **strong**, *emphasis*, `code`, a [link](#part-2) and a formula: $w_{ij} = \frac{e^{s_{ij}}}{\sum_k
/// e^{s_{ik}}}$.
///
/// $$\text{Attention}(Q, K, V) = \operatorname{softmax}\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V$$
///
/// <script>alert("prose")</script> & ]]> are text.
#include <cstdio>
#include <cstring>
#include <iostream>
#include <stdexcept>

#include "fit/fit.hpp"

using namespace fit;

// 4 rows of 5 values that lesson_page.py knows, too.
Tensor values() {
  std::vector<double> v;
  for (int i = 0; i < 20; ++i) v.push_back(i * 7 % 20 / 20.0);
  return tensor(v, {4, 5});
}
// not shown

Tensor weights() { return tensor({{1., 0., 0.}, {0.625, 0.375, 0.}, {0.6, 0.2, 0.2}}); }

// The weights that the lesson draws, on a page of heads.
void write_heads(const std::string& path) {
  AttentionRecording recording;
  recording.add("layer", weights().reshape({1, 3, 3}));
  plot::write_workbench(path, recording);
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const bool throws = argc > 2 && std::strcmp(argv[2], "throw") == 0;
  Lesson lesson(std::string(argv[1]) + (throws ? "/thrown.html" : "/lesson.html"));
  write_heads(std::string(argv[1]) + "/heads.html");

  /// ## What it prints
  lesson.cell();
  std::cout << "from cout <script>alert(\"printed\")</script> & ]]>\n";
  std::printf("from printf\n");
  lesson.claim("one is one", 1 == 1);
  // not shown
  if (throws) throw std::runtime_error("something <b>went</b> wrong");

  /// ## What it draws
  ///
  /// A small map, whose cells are elements, and a large one, which is an image.
  lesson.cell();
  const auto options =
      plot::Options().title("Values").x({"a", "b", "c", "<script>alert(1)</script>", "e"}).y({"p", "q", "r", "s"});
  lesson.figure(plot::heatmap(values(), options), "A caption & more");
  lesson.figure(plot::heatmap(broadcast_to(linspace(0, 1, 100), {80, 100}), plot::Options().title("Large")));
  lesson.figure(plot::heads(values().reshape({2, 2, 5})));

  /// ## What fails
  lesson.cell();
  lesson.claim("one is two </p><script>alert(2)</script>", 1 == 2);
  std::cout << std::string(
      "a\x01"
      "b\x1b[48;2;255;0;0mred\x1b[0m\xff\n");

  /// ## Heads
  lesson.cell();
  const auto to_one = plot::Options().vmin(0).vmax(1);
  lesson.figure(plot::heatmap(weights(), to_one));
  plot::print_heatmap(std::cout, weights(), to_one, plot::Colors::always);
  AttentionRecording recording;
  recording.title = "\"quoted\" & </iframe>";
  recording.add("layer", softmax(randn({3, 6, 6})));
  lesson.heads(recording);

  /// ## What answers
  ///
  /// The weights $\name{scores}{S}$.
  lesson.cell();
  const Tensor scores = values();
  lesson.ask(Question("How much is *one* and one?")
                 .wrong("One", "That is *one*.")
                 .right("Two", "Two, <b>always</b>.")
                 .wrong("$3$", "Too much."));
  lesson.ask(Question("Half of one?").numbers(tensor(0.5), 0.01, "A half.").wrong("2", "Twice."));
  lesson.ask(Question("The identity?").numbers(eye(2), 0.01, "It is.").otherwise("Ones on the diagonal."));
  const auto names = plot::Options().x({"a", "b"}).y({"p", "q"}).xlabel("Key").ylabel("Query");
  lesson.ask(Question("The largest?")
                 .cell(plot::heatmap(tensor({{1., 2.}, {4., 3.}}), names))
                 .right("q → a", "Four.")
                 .wrong("p → a", "The smallest.")
                 .otherwise("No."));
  lesson.text({"x", "y", "z"}, {TextHead().name("First").weights(weights()),
                                TextHead().name("Second").weights(tril(ones({3, 3}))).from_key(true)});
  lesson.vary("d_k", {1, 4, 16}, [&](double d_k) {
    std::cout << "d_k is " << d_k << '\n';
    lesson.claim("d_k is positive", d_k > 0);
    lesson.figure(plot::heatmap(scores * d_k));
  });
  lesson.vary("case", {"first", "second"}, [&](std::size_t i) { std::cout << "case " << i << '\n'; });
  lesson.product(tensor({{1., 2.}, {3., -4.}}), tensor({{5., 6.}, {7., 8.}}));
  for (const auto map : {plot::Colormap::viridis, plot::Colormap::blues, plot::Colormap::rdbu})
    lesson.figure(plot::heatmap(linspace(0, 1, 255).reshape({15, 17}), plot::Options().colormap(map).annotate()));
  const auto one = plot::Options().title("One").xlabel("Key").ylabel("Query");
  lesson.figure(plot::side_by_side({plot::heatmap(values(), one), plot::heatmap(values(), one)}, "Two"));
}
