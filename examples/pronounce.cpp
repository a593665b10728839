// From spelling to sounds: an encoder-decoder learns how English words are pronounced from the CMU dictionary, and
// finds the likeliest pronunciation by beam search. The picture shows which letters each sound comes from. Sized for
// 15 minutes on two cores.
#include <algorithm>
#include <iostream>
#include <map>

#include "fit/fit.hpp"
#include "support/example.hpp"

using namespace fit;

namespace {

using Sounds = std::vector<std::string>;

struct Entry {
  std::string word;
  std::vector<Sounds> pronunciations;
};

// Lines like ("abacus" nil (((ae) 1) ((b ax) 0) ((k ax s) 0))): syllables, each with its stress, which is left out.
// "ax" is how the file writes an "ah" without stress.
std::vector<Entry> read_dictionary() {
  const std::string path = "/usr/share/festival/dicts/cmu/cmudict-0.4.out";
  std::map<std::string, std::vector<Sounds>> found;
  for (const std::string& line : data::read_lines(example::data_file(path, "festlex-cmu"))) {
    const std::size_t begin = line.find('"') + 1, end = line.find('"', begin);
    if (begin == 0 || end == std::string::npos) continue;
    const std::string word = line.substr(begin, end - begin);
    const auto letter = [](char c) { return c >= 'a' && c <= 'z'; };
    if (word.size() < 2 || word.size() > 20 || !std::all_of(word.begin(), word.end(), letter)) continue;
    std::string rest = line.substr(line.find('(', end));
    for (char& c : rest)
      if (!letter(c)) c = ' ';
    Sounds sounds = example::words(rest);
    for (std::string& sound : sounds)
      if (sound == "ax") sound = "ah";
    std::vector<Sounds>& all = found[word];
    if (!sounds.empty() && sounds.size() <= 20) all.push_back(sounds);
  }
  std::vector<Entry> entries;
  for (const auto& [word, pronunciations] : found)
    if (!pronunciations.empty()) entries.push_back({word, pronunciations});
  return entries;
}

constexpr std::int64_t padding = 0, begin_token = 1, end_token = 2, first_sound = 3, letters = 27;

// The sounds and their numbers.
struct Inventory {
  std::vector<std::string> names;

  explicit Inventory(const std::vector<Entry>& entries) {
    std::map<std::string, int> all;
    for (const Entry& e : entries)
      for (const Sounds& p : e.pronunciations)
        for (const std::string& sound : p) all[sound] = 1;
    for (const auto& [name, _] : all) names.push_back(name);
  }
  std::int64_t size() const { return first_sound + static_cast<std::int64_t>(names.size()); }
  std::int64_t id(const std::string& name) const {
    return first_sound + (std::lower_bound(names.begin(), names.end(), name) - names.begin());
  }
  Sounds decode(const nn::Tokens& tokens) const {
    Sounds sounds;
    for (const std::int64_t t : tokens)
      if (t >= first_sound) sounds.push_back(names[static_cast<std::size_t>(t - first_sound)]);
    return sounds;
  }
};

// Rows of different lengths, filled up with padding: [rows, longest].
Tensor padded(const std::vector<nn::Tokens>& rows) {
  std::size_t longest = 0;
  for (const nn::Tokens& row : rows) longest = std::max(longest, row.size());
  Tensor t = full({static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(longest)}, padding, int64);
  auto to = t.edit<std::int64_t>();
  for (std::size_t i = 0; i < rows.size(); ++i)
    std::copy(rows[i].begin(), rows[i].end(), to.begin() + static_cast<std::ptrdiff_t>(i * longest));
  return t;
}

Tensor spelled(const std::vector<Entry>& entries, const Tensor& which) {  // [B, S]
  std::vector<nn::Tokens> rows;
  for (const std::int64_t i : which.data<std::int64_t>()) {
    rows.emplace_back();
    for (const char c : entries[static_cast<std::size_t>(i)].word) rows.back().push_back(c - 'a' + 1);
  }
  return padded(rows);
}

// begin, the sounds of the pronunciation listed first, end: [B, T].
Tensor spoken(const std::vector<Entry>& entries, const Inventory& inventory, const Tensor& which) {
  std::vector<nn::Tokens> rows;
  for (const std::int64_t i : which.data<std::int64_t>()) {
    rows.push_back({begin_token});
    for (const std::string& s : entries[static_cast<std::size_t>(i)].pronunciations[0])
      rows.back().push_back(inventory.id(s));
    rows.back().push_back(end_token);
  }
  return padded(rows);
}

// Insertions, deletions and replacements from one to the other (Levenshtein).
std::size_t edits(const Sounds& a, const Sounds& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

std::vector<Sounds> pronounce(const nn::Transformer& model, const Inventory& inventory, const Tensor& source) {
  nn::BeamOptions o;
  o.num_beams = 4, o.max_length = 22, o.begin = begin_token, o.end = end_token;
  std::vector<Sounds> found;
  for (const auto& best : nn::beam_search(model, source, create_padding_mask(source, padding), o))
    found.push_back(inventory.decode(best[0].tokens));
  return found;
}

// Edits in percent of the sounds of the nearest listed pronunciation.
double phoneme_error_rate(nn::Transformer& model, const std::vector<Entry>& entries, const Inventory& inventory,
                          const Tensor& which) {
  const NoGrad plain;
  model.eval();
  std::size_t wrong = 0, all = 0;
  for (const Tensor& some : split(which, 128)) {
    const std::vector<Sounds> found = pronounce(model, inventory, spelled(entries, some));
    for (std::size_t i = 0; i < found.size(); ++i) {
      const Entry& entry = entries[some[static_cast<std::int64_t>(i)].item<std::size_t>()];
      const auto nearer = [&](const Sounds& a, const Sounds& b) { return edits(found[i], a) < edits(found[i], b); };
      const Sounds& nearest = *std::min_element(entry.pronunciations.begin(), entry.pronunciations.end(), nearer);
      wrong += edits(found[i], nearest);
      all += nearest.size();
    }
  }
  model.train();
  return 100 * static_cast<double>(wrong) / static_cast<double>(all);
}

// Which letters each sound of a word is taken from: the mean over the heads of the last layer.
plot::Figure look(nn::Transformer& model, const Inventory& inventory, const std::string& word) {
  const NoGrad plain;
  model.eval();
  const std::vector<Entry> entries = {{word, {}}};
  const Tensor source = spelled(entries, tensor({0}));
  const Sounds sounds = pronounce(model, inventory, source)[0];
  nn::Tokens target = {begin_token};
  std::vector<std::string> spelling, rows = sounds;
  for (const std::string& s : sounds) target.push_back(inventory.id(s));
  for (const char c : word) spelling.emplace_back(1, c);
  rows.emplace_back("end");
  nn::TransformerWeights weights;
  model.forward(source, padded({target}), {}, &weights);
  return plot::heatmap(mean(weights.cross.back()[0], 0), {word, spelling, rows, "Letter", "Sound"});
}

}  // namespace

int main(int argc, char** argv) {
  return example::run(argc, argv, "Trains an encoder-decoder to pronounce English words.", [](example::Example& e) {
    const std::vector<Entry> entries = read_dictionary();
    const Inventory inventory(entries);
    const auto count = static_cast<std::int64_t>(entries.size());
    const Tensor order = randperm(count);
    const Tensor training = order[{range(0, count * 9 / 10)}];
    const Tensor held_out = order[{range(e.quick ? count - 50 : count * 9 / 10)}];

    nn::TransformerOptions o;
    o.source_vocab = letters, o.target_vocab = inventory.size(), o.max_length = 24;
    o.d_model = 128, o.num_heads = 4, o.hidden = 512;
    o.num_encoder_layers = 3, o.num_decoder_layers = 2;
    o.norm_first = true;
    o.dropout = 0.1;
    nn::Transformer model(o);
    const std::int64_t batch_size = 128, per_epoch = training.numel() / batch_size;
    const int epochs = e.quick ? 1 : 16, steps = e.quick ? 5 : epochs * static_cast<int>(per_epoch);
    optim::AdamW optimizer(model.named_parameters());
    optim::OneCycleLR schedule(optimizer, 1.5e-3, steps, {0.1});
    std::cout << count << " words, " << inventory.names.size() << " sounds, " << model.num_parameters()
              << " parameters\n";

    nn::CrossEntropyOptions loss_options;
    loss_options.ignore_index = padding;
    loss_options.label_smoothing = 0.1;
    plot::Curve curve{"training"};
    Tensor shuffled;
    for (int step = 0; step < steps; ++step) {
      const std::int64_t at = step % per_epoch * batch_size;
      if (at == 0) shuffled = index_select(training, 0, randperm(training.numel()));
      const Tensor some = shuffled[{range(at, at + batch_size)}];
      const Tensor source = spelled(entries, some), target = spoken(entries, inventory, some);
      const Tensor logits = model(source, target[{range(), range(0, -1)}], create_padding_mask(source, padding));
      const Tensor loss = nn::cross_entropy(logits, target[{range(), range(1)}], loss_options);
      optimizer.zero_grad();
      loss.backward();
      optim::clip_grad_norm_(model.parameters(), 1.0);
      optimizer.step();
      schedule.step();
      curve.y.push_back(loss.item());
      if ((step + 1) % std::max(1, steps / (2 * epochs)) == 0) e.progress("step", step + 1, steps, "loss", loss.item());
    }

    e.picture("loss", plot::lines({curve}, {"Pronunciation", "Step", "Nats a sound"}));
    e.picture("cross_attention", look(model, inventory, "thoughtfully"));
    e.at_most("phoneme error rate on the held-out tenth, in percent",
              phoneme_error_rate(model, entries, inventory, held_out), 8);
  });
}
