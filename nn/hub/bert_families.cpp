#include "hub/family.hpp"
#include "weights/maps.hpp"

// BERT and its like: encoders.
namespace fit::nn::hub {
namespace {

#define FIT_OPTION_OF_BERT(T, name) FIT_HUB_OPTION(BERTOptions, T, name)

// transformers computes no model without segments.
Entry<BERTOptions> segments() {
  auto all = entry("type_vocab_size", FIT_OPTION_OF_BERT(std::int64_t, num_segments), 2);
  all.read = [read = all.read](const Config& c, BERTOptions& o) {
    read(c, o);
    if (o.num_segments() < 1) c.fail("type_vocab_size", " is ", o.num_segments(), ": it must be positive");
  };
  return all;
}

// The head of a masked language model is not loaded.
Entry<BERTOptions> heads() { return harmless<BERTOptions>({"tie_word_embeddings"}); }

Entry<BERTOptions> plain_length() {
  return entry("max_position_embeddings", FIT_OPTION_OF_BERT(std::int64_t, max_length));
}

std::vector<Entry<BERTOptions>> bert_entries(const Entry<BERTOptions>& length) {
  return sizes(
      "vocab_size", length, "num_hidden_layers", "num_attention_heads", "hidden_size",
      {entry("intermediate_size", FIT_OPTION_OF_BERT(std::int64_t, hidden)), segments(),
       entry("layer_norm_eps", FIT_OPTION_OF_BERT(double, eps), 1e-12), activation<BERTOptions>("hidden_act", "gelu"),
       dropout<BERTOptions>({"hidden_dropout_prob", "attention_probs_dropout_prob"}),
       fixed<BERTOptions>("position_embedding_type", "absolute"), fixed<BERTOptions>("is_decoder", false),
       fixed<BERTOptions>("add_cross_attention", false), heads()});
}

BERTFamily bert() {
  return {"bert", "BertModel", BERTOptions(), bert_entries(plain_length()), [](const BERTOptions&) {
            return concatenated({bert_heads("bert."), bert_map()});
          }};
}

// The positions begin behind the id of padding.
constexpr std::int64_t first_position = 2;

Entry<BERTOptions> roberta_length() {
  const char* const key = "max_position_embeddings";
  return {[=](const Config& c, BERTOptions& o) {
            if (c.integer("pad_token_id", 1) != 1)
              c.fail("pad_token_id", " is ", c.integer("pad_token_id"), ": only 1 can be computed here");
            o.max_length(c.integer(key) - first_position);
          },
          [=](const BERTOptions& o, Json& json) {
            json[key] = o.max_length() + first_position;
            json["pad_token_id"] = 1;
          }};
}

BERTFamily roberta() {
  return {"roberta", "RobertaModel", BERTOptions(), bert_entries(roberta_length()), [](const BERTOptions&) {
            return concatenated({bert_heads("roberta."), bert_map(first_position)});
          }};
}

BERTFamily distilbert() {
  return {"distilbert", "DistilBertModel", BERTOptions().num_segments(0),
          sizes("vocab_size", plain_length(), "n_layers", "n_heads", "dim",
                {entry("hidden_dim", FIT_OPTION_OF_BERT(std::int64_t, hidden)),
                 activation<BERTOptions>("activation", "gelu"), dropout<BERTOptions>({"dropout", "attention_dropout"}),
                 heads()}),
          [](const BERTOptions&) {
            NameMap map = bert_heads("distilbert.");
            const NameMap rest = {rename("embeddings.position_embeddings.weight", "position.weight"),
                                  rename("transformer.layer.*", "encoder.layers.*"),
                                  rename("encoder.layers.*.attention.q_lin.*", "encoder.layers.*.self_attn.w_q.*"),
                                  rename("encoder.layers.*.attention.k_lin.*", "encoder.layers.*.self_attn.w_k.*"),
                                  rename("encoder.layers.*.attention.v_lin.*", "encoder.layers.*.self_attn.w_v.*"),
                                  rename("encoder.layers.*.attention.out_lin.*", "encoder.layers.*.self_attn.w_o.*"),
                                  rename("encoder.layers.*.sa_layer_norm.*", "encoder.layers.*.norm1.*"),
                                  rename("encoder.layers.*.ffn.lin1.*", "encoder.layers.*.mlp.fc.*"),
                                  rename("encoder.layers.*.ffn.lin2.*", "encoder.layers.*.mlp.proj.*"),
                                  rename("encoder.layers.*.output_layer_norm.*", "encoder.layers.*.norm2.*")};
            map.insert(map.end(), rest.begin(), rest.end());
            return map;
          }};
}

#undef FIT_OPTION_OF_BERT

}  // namespace

const std::vector<BERTFamily>& bert_families() {
  static const std::vector<BERTFamily> all = {bert(), roberta(), distilbert()};
  return all;
}

}  // namespace fit::nn::hub
