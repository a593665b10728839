// figure_files DIR: writes every kind of figure, of harmless and of hostile names, and graphs.
#include <cmath>
#include <fstream>

#include "fit/fit.hpp"

using namespace fit;

namespace {

void figures(const std::string& path, const std::vector<std::string>& names, plot::Theme theme) {
  const auto n = static_cast<std::int64_t>(names.size());
  const std::string title = names[0] + ' ' + names[1];
  Tensor w = softmax(randn({3, n, n}) * 2, -1);
  w[{1, 1}] = NAN;
  const auto save = [&](const std::string& kind, const plot::Figure& f) { f.save(path + kind + ".svg"); };
  const auto o =
      plot::Options().title(title).x(names).y(names).xlabel("Key").ylabel("Query").theme(theme).bar_label("Weight");
  const plot::Figure map = plot::heatmap(w[0], o);
  save("heatmap", map);
  save("heads", plot::heads(w, o));
  save("difference", plot::difference(w[0], w[2], o));
  const auto large = plot::Options().title(title).theme(theme);
  save("large", plot::heatmap(randn({1500, 80}), large));
  save("token_lines",
       plot::token_lines(w, plot::TokenLinesOptions().title(title).queries(names).keys(names).theme(theme)));
  const auto axes = plot::LineOptions().title(title).xlabel("Step").ylabel("Loss").theme(theme).smooth();
  const plot::Figure curves =
      plot::lines({{names[0], randn({400}).to(float64).to_vector<double>()}, {names[1], {1, NAN, 2}}}, axes);
  save("lines", curves);
  const auto h = plot::HistogramOptions().title(title).xlabel("Value").theme(theme);
  save("histogram", plot::histogram({{names[0], randn({900})}, {names[1], randn({900}) + 1}}, h));
  const auto e = plot::EmbeddingMapOptions().title(title).tokens(names).theme(theme);
  save("embedding_map", plot::embedding_map(randn({n, 9}), e));
  save("positional", plot::positional(32, 40, theme));
  save("side_by_side", plot::side_by_side({map, curves}, title));
}

void graph(const std::string& path, const nn::Layer& model, const Tensor& loss, std::int64_t max_nodes) {
  std::ofstream(path) << graph_to_dot(loss, model, GraphToDotOptions().max_nodes(max_nodes));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string folder = std::string(argv[1]) + '/';
  manual_seed(1);
  const std::vector<std::string> words{"The", "tired", "cat", "sat", "on", "die", "müde", "Katze"};
  const std::vector<std::string> hostile{"<script>alert(1)</script>",
                                         "]]>&<!--",
                                         "שלום עולם",
                                         "\xe2\x80\xae"
                                         "evil",
                                         "🐈‍⬛ 猫",
                                         std::string("\x00\x01\x1b[31m\x7f\n", 10),
                                         std::string(10000, 'x'),
                                         "\xff\xef\xbf\xbf\xef\xbf\xbe\xc2\x85"};
  figures(folder + "light_", words, plot::Theme::light);
  figures(folder + "dark_", words, plot::Theme::dark);
  figures(folder + "hostile_", hostile, plot::Theme::light);

  const nn::GPT model(nn::GPTOptions().vocab_size(20).context_length(16).num_layers(6).num_heads(2).d_model(16));
  const Tensor ids = zeros({2, 4}, int64), loss = model.loss(ids, ids);
  for (const std::int64_t most : {5, 40, 1000})
    graph(folder + "gpt_" + std::to_string(most) + ".dot", model, loss, most);
  StateDict names;
  for (const std::string& name : hostile) {
    names.emplace_back(name, ones({2}));
    names.back().second.requires_grad_();
  }
  Tensor total = zeros({2});
  for (const auto& [name, tensor] : names) total = total + tensor;
  std::ofstream(folder + "hostile.dot") << graph_to_dot(sum(total), names);
}
