// From spelling to sounds: an encoder-decoder learns the pronunciation of English words from the CMU dictionary. Beam
// search finds the most likely pronunciation. The figure shows the letters to which each sound attends. Sized for ten
// minutes on two cores.
#include <algorithm>
#include <iostream>
#include <map>
#include <set>

#include "fit/fit.hpp"
#include "support/example.hpp"

using namespace fit;

namespace {

using Sounds = std::vector<std::string>;

struct Entry {
  std::string word;
  std::vector<Sounds> pronunciations;
};

// Reads lines like ("abacus" nil (((ae) 1) ((b ax) 0) ((k ax s) 0))): syllables with stress. Ignores the stress. "ax"
// in the file is an "ah" without stress.
std::vector<Entry> read_dictionary(const std::string& folder) {
  std::map<std::string, std::vector<Sounds>> found;
  const std::string path =
      example::data_file(folder + "/cmudict-0.4.out", "Debian's package festlex-cmu", "apt-get install festlex-cmu");
  for (const std::string& line : data::read_lines(path)) {
    const std::size_t begin = line.find('"') + 1, end = line.find('"', begin);
    if (begin == 0 || end == std::string::npos) continue;
    const std::string word = line.substr(begin, end - begin);
    const auto letter = [](char c) { return c >= 'a' && c <= 'z'; };
    if (!std::all_of(word.begin(), word.end(), letter)) continue;
    std::string rest = line.substr(line.find('(', end));
    for (char& c : rest)
      if (!letter(c)) c = ' ';
    Sounds sounds = example::words(rest);
    for (std::string& sound : sounds)
      if (sound == "ax") sound = "ah";
    std::vector<Sounds>& all = found[word];  // some entries differ only in stress, or in noun and verb
    if (std::find(all.begin(), all.end(), sounds) == all.end()) all.push_back(sounds);
  }
  std::vector<Entry> entries;
  entries.reserve(found.size());
  for (const auto& [word, pronunciations] : found) entries.push_back({word, pronunciations});
  return entries;
}

constexpr std::int64_t padding = 0, begin_token = 1, end_token = 2, first_sound = 3, letters = 27;

// The sounds and their ids.
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

Tensor ids_of(const nn::Tokens& tokens) { return tensor(tokens, {static_cast<std::int64_t>(tokens.size())}); }

Tensor letters_of(const std::string& word) {  // [S]
  nn::Tokens tokens;
  for (const char c : word) tokens.push_back(c - 'a' + 1);
  return ids_of(tokens);
}

// begin, sounds, end: [T].
Tensor sounds_of(const Sounds& sounds, const Inventory& inventory) {
  nn::Tokens tokens = {begin_token};
  for (const std::string& s : sounds) tokens.push_back(inventory.id(s));
  tokens.push_back(end_token);
  return ids_of(tokens);
}

// A dataset of words with each of their pronunciations, {letters [S], sounds [T]}.
class Lessons final : public data::Dataset {
 public:
  Lessons(const std::vector<Entry>& entries, const Inventory& inventory) {
    for (const Entry& e : entries)
      for (const Sounds& p : e.pronunciations) lessons_.push_back({letters_of(e.word), sounds_of(p, inventory)});
  }
  std::int64_t size() const override { return static_cast<std::int64_t>(lessons_.size()); }
  data::Example get(std::int64_t i) const override { return lessons_[static_cast<std::size_t>(i)]; }
  // The sort key: the number of letters, then the number of sounds.
  std::vector<std::int64_t> lengths() const {
    std::vector<std::int64_t> all;
    for (const data::Example& l : lessons_) all.push_back(100 * l[0].numel() + l[1].numel());
    return all;
  }

 private:
  std::vector<data::Example> lessons_;
};

// The number of insertions, deletions and replacements (Levenshtein distance).
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
  const auto o = nn::BeamOptions().num_beams(4).max_length(22).begin(begin_token).end(end_token);
  std::vector<Sounds> found;
  for (const auto& best : nn::beam_search(model, source, create_padding_mask(source, padding), o))
    found.push_back(inventory.decode(best[0].tokens));
  return found;
}

// The edit distance to the nearest listed pronunciation, in percent of its sounds.
double phoneme_error_rate(nn::Transformer& model, std::vector<Entry> entries, const Inventory& inventory) {
  const NoGrad no_grad;
  model.eval();
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.word.size() < b.word.size(); });  // for less padding
  const std::size_t batch_size = 128;
  std::size_t wrong = 0, all = 0;
  for (std::size_t at = 0; at < entries.size(); at += batch_size) {
    std::vector<data::Example> words;
    for (std::size_t i = at; i < std::min(at + batch_size, entries.size()); ++i)
      words.push_back({letters_of(entries[i].word)});
    const std::vector<Sounds> found = pronounce(model, inventory, data::pad_collate({padding})(words)[0]);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const std::vector<Sounds>& listed = entries[at + i].pronunciations;
      const auto nearer = [&](const Sounds& a, const Sounds& b) { return edits(found[i], a) < edits(found[i], b); };
      const Sounds& nearest = *std::min_element(listed.begin(), listed.end(), nearer);
      wrong += edits(found[i], nearest);
      all += nearest.size();
    }
  }
  model.train();
  return 100 * static_cast<double>(wrong) / static_cast<double>(all);
}

// The letters to which each sound of a word attends: the mean over the heads of the last layer.
plot::Figure look(nn::Transformer& model, const Inventory& inventory, const std::string& word) {
  const NoGrad no_grad;
  model.eval();
  const Tensor source = letters_of(word).unsqueeze(0);
  const Sounds sounds = pronounce(model, inventory, source)[0];
  std::vector<std::string> spelling, rows = sounds;
  for (const char c : word) spelling.emplace_back(1, c);
  rows.emplace_back("end");
  nn::TransformerWeights weights;
  model.forward(source, sounds_of(sounds, inventory)[{range(0, -1)}].unsqueeze(0), {}, &weights);
  const auto named = plot::Options().title(word).x(spelling).y(rows).xlabel("Letter").ylabel("Sound");
  const auto options = plot::Options(named).bar_label("Attention weight").vmin(0).vmax(1);
  return plot::heatmap(mean(weights.cross.back()[0], 0), options);
}

// The letters and sounds of a word, for the animation of the heads.
struct Sample {
  Tensor letters, sounds;  // [1, S], [1, T]
  std::vector<std::string> spelling, fed;

  Sample(const std::string& word, const Sounds& spoken, const Inventory& inventory)
      : letters(letters_of(word).unsqueeze(0)),
        sounds(sounds_of(spoken, inventory)[{range(0, -1)}].unsqueeze(0)),
        fed(spoken) {
    for (const char c : word) spelling.emplace_back(1, c);
    fed.insert(fed.begin(), "begin");
  }
  void name_tokens(AttentionRecording& heads) const {
    std::set<std::string> layers;
    for (const AttentionRecord& r : heads.records()) layers.insert(r.layer);
    for (const std::string& layer : layers) {
      const bool reads = layer.rfind("encoder", 0) == 0, looks_up = layer.find("cross") != std::string::npos;
      heads.name_tokens(layer, reads ? spelling : fed, looks_up ? spelling : std::vector<std::string>());
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  const auto train = [](example::Example& e) {
    // Splits by word: a tenth is for the test, and a few words are for validation.
    const std::vector<Entry> entries = read_dictionary(e.data);
    const Inventory inventory(entries);
    const auto count = static_cast<std::int64_t>(entries.size());
    const std::int64_t watched = e.quick ? 20 : 1000, held_out = count / 10, training = count - held_out - watched;
    const nn::Tokens order = randperm(count).to_vector<std::int64_t>();
    const auto part = [&](std::int64_t from, std::int64_t size) {
      std::vector<Entry> some;
      for (std::int64_t i = from; i < from + size; ++i)
        some.push_back(entries[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])]);
      return some;
    };
    const Lessons lessons(part(0, training), inventory);
    const std::vector<Entry> validation = part(training, watched);

    // A batch has words of similar lengths. A mixed batch would be half padding.
    const auto batches = data::LoaderOptions()
                             .batch_size(64)
                             .drop_last()
                             .sampler(data::bucket_sampler(lessons.lengths()))
                             .collate(data::pad_collate({padding, padding}));
    data::DataLoader loader(lessons, batches);

    const auto o = nn::TransformerOptions()
                       .source_vocab(letters)
                       .target_vocab(inventory.size())
                       .max_length(24)
                       .d_model(128)
                       .num_heads(4)
                       .hidden(512)
                       .num_encoder_layers(3)
                       .num_decoder_layers(2)
                       .norm_first()
                       .dropout(0.05);
    nn::Transformer model(o);
    dist::DataParallel parallel(model);
    const int epochs = e.quick ? 1 : 16, per_epoch = e.quick ? 5 : static_cast<int>(loader.size());
    const auto all_steps = std::int64_t{epochs} * per_epoch;
    optim::AdamW optimizer(optim::decay_groups(model, optim::AdamWOptions().beta2(0.98)));
    optim::OneCycleLR schedule(optimizer, 2e-3, all_steps, optim::OneCycleOptions().pct_start(0.05));
    std::cout << lessons.size() << " lessons, " << inventory.names.size() << " sounds, " << model.num_parameters()
              << " parameters\n";

    const auto loss_options = nn::CrossEntropyOptions().ignore_index(padding).label_smoothing(0.1);
    plot::TrainingPage& page = e.follow("Pronunciation", all_steps, model);
    const Sample shown("thoughtfully", {"th", "ao", "t", "f", "ah", "l", "iy"}, inventory);
    const auto film = [&](int step) {
      e.look(
          model, step, [&] { model(shown.letters, shown.sounds, Tensor()); },
          [&](AttentionRecording& heads) { shown.name_tokens(heads); });
    };
    film(0);
    int steps = 0;
    for (int epoch = 1; epoch <= epochs; ++epoch) {
      int step = 0;
      for (const data::Batch& batch : loader) {
        if (step++ == per_epoch) break;
        const Tensor source = parallel.rows(batch[0]), target = parallel.rows(batch[1]);
        const Tensor logits = model(source, target[{range(), range(0, -1)}], create_padding_mask(source, padding));
        const Tensor sounds = target[{range(), range(1)}];
        optimizer.zero_grad();
        const double loss =
            parallel.backward(nn::cross_entropy(logits, sounds, loss_options), sum(sounds != padding).item());
        const double norm = optim::clip_grad_norm_(model.parameters(), 1.0);
        page.add({{"step", ++steps}, {"loss", loss}, {"lr", optimizer.lr()}, {"grad_norm", norm}});
        optimizer.step();
        schedule.step();
      }
      film(steps);
      const double errors = phoneme_error_rate(model, validation, inventory);
      page.add({{"step", steps}, {"phoneme error rate", errors}});
      e.progress("epoch", epoch, epochs, "phoneme error rate", errors);
    }

    e.trained("Nats a sound");
    e.picture("cross_attention", look(model, inventory, "thoughtfully"));
    const std::vector<Entry> unseen = part(count - held_out, e.quick ? 50 : held_out);
    const double errors = phoneme_error_rate(model, unseen, inventory);
    e.at_most("phoneme error rate on the held-out tenth, in percent", errors, 8);
    e.beside_int8(
        "phoneme error rate", model, [&](nn::Transformer& m) { return phoneme_error_rate(m, unseen, inventory); },
        errors, 0.3);
  };
  return example::run(argc, argv, "Trains an encoder-decoder to pronounce English words.", train,
                      {example::bf16, example::int8}, "/usr/share/festival/dicts/cmu");
}
