#include "fit/nn/training/tensorboard.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "fit/ops/ops.hpp"
#include "nn/models/trained.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

// Event files, byte by byte. check.event_files lets the tensorboard package read them.
namespace fit::test::tensorboard_test {
namespace {

using Catch::Matchers::Contains;

// CRC32C bit by bit, masked as TFRecord wants it.
std::uint32_t masked_crc(const std::string& bytes) {
  std::uint32_t crc = ~0u;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
  }
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

template <class T>
T number_at(const std::string& bytes, std::size_t at) {
  T x;
  REQUIRE(at + sizeof x <= bytes.size());
  std::memcpy(&x, bytes.data() + at, sizeof x);
  return x;
}

// The events of a file without their wall times, which are the first field.
std::vector<std::string> events_in(const std::string& path) {
  const std::string all = get(path);
  std::vector<std::string> events;
  for (std::size_t at = 0; at < all.size();) {
    const auto length = number_at<std::uint64_t>(all, at);
    CHECK(number_at<std::uint32_t>(all, at + 8) == masked_crc(all.substr(at, 8)));
    const std::string data = all.substr(at + 12, length);
    CHECK(number_at<std::uint32_t>(all, at + 12 + length) == masked_crc(data));
    REQUIRE(data.size() > 9);
    CHECK(data[0] == '\x09');
    CHECK(number_at<double>(data, 1) > 1.7e9);  // seconds since 1970
    events.push_back(data.substr(9));
    at += 16 + length;
  }
  return events;
}

std::string bytes(std::initializer_list<int> list) { return {list.begin(), list.end()}; }

std::string only_file(const std::string& folder) {
  std::vector<std::string> all;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) all.push_back(entry.path().string());
  REQUIRE(all.size() == 1);
  return all[0];
}

}  // namespace

TEST_CASE("tensorboard: an event file has the bytes of TFRecord and protobuf", "[tensorboard]") {
  CHECK(masked_crc("123456789") == ((0xe3069283u >> 15 | 0xe3069283u << 17) + 0xa282ead8u));  // of RFC 3720
  const Directory d;
  SummaryWriter writer(d.file("deep/er"), 5);
  writer.add_scalar("loss", 0.5, 3);
  writer.add_text("t", "hi", 300);
  CHECK_THAT(writer.path(), Contains("events.out.tfevents."));
  const std::vector<std::string> events = events_in(writer.path());
  REQUIRE(events.size() == 4);
  CHECK(events[0] == bytes({0x10, 5, 0x1a, 13}) + "brain.Event:2");
  CHECK(events[1] == bytes({0x10, 5, 0x3a, 2, 8, 1}));
  CHECK(events[2] == bytes({0x10, 3, 0x2a, 13, 0x0a, 11, 0x0a, 4}) + "loss" + bytes({0x15, 0, 0, 0, 0x3f}));
  CHECK(events[3] == bytes({0x10, 0xac, 2, 0x2a, 42, 0x0a, 40, 0x0a, 14}) + "t/text_summary" +
                         bytes({0x42, 12, 8, 7, 0x12, 4, 0x12, 2, 8, 1, 0x42, 2}) + "hi" +
                         bytes({0x4a, 8, 0x0a, 6, 0x0a, 4}) + "text");
}

TEST_CASE("tensorboard: a histogram counts what is finite, from the least to the greatest", "[tensorboard]") {
  const Directory d;
  SummaryWriter writer(d.path.string());
  const double inf = std::numeric_limits<double>::infinity();
  writer.add_histogram("h", tensor({-1., 0., 0.5, 2., inf, std::nan("")}), 1);
  const std::string event = events_in(writer.path()).at(2);
  // step 1, summary, value, tag h, histogram: min, max, num, sum, squares, then 30 limits and 30 counts
  const std::size_t at = event.find('h') + 1 + 3;
  CHECK(event[at] == '\x09');
  CHECK(number_at<double>(event, at + 1) == -1);
  CHECK(number_at<double>(event, at + 10) == 2);
  CHECK(number_at<double>(event, at + 19) == 4);
  CHECK(number_at<double>(event, at + 28) == 1.5);
  CHECK(number_at<double>(event, at + 37) == 5.25);
  const std::size_t limits = at + 45 + 3, counts = limits + 240 + 3;
  CHECK(number_at<double>(event, limits) == Approx(-0.9));
  CHECK(number_at<double>(event, limits + 29 * 8) == 2);
  std::vector<double> filled;
  for (std::size_t i = 0; i < 30; ++i)
    if (number_at<double>(event, counts + 8 * i) == 1) filled.push_back(static_cast<double>(i));
  CHECK(filled == std::vector<double>{0, 9, 14, 29});
  CHECK(counts + 240 == event.size());

  for (const Tensor& values : {zeros({0}), full({4}, 7.), full({2}, std::nan(""))})  // no interval, one value, none
    writer.add_histogram("h", values, 2);
  CHECK(events_in(writer.path()).size() == 6);
  CHECK_THROWS_WITH(writer.add_histogram("h", Tensor(), 2), Contains("[add_histogram] values"));
}

TEST_CASE("tensorboard: a Trainer's numbers, also of one that is resumed", "[tensorboard]") {
  const Directory d;
  TrainerOptions options = quiet(4, d.path.string());
  options.title("A title").histograms_every(2);
  Trained t(options);
  t.trainer.listen(std::make_shared<TensorBoardListener>()).run();
  const std::string first = only_file(d.file("tensorboard"));
  const auto count = [](const std::vector<std::string>& events, const std::string& text) {
    return std::count_if(events.begin(), events.end(), [&](const std::string& e) { return e.find(text) != e.npos; });
  };
  std::vector<std::string> events = events_in(first);
  CHECK(count(events, "A title") == 1);
  CHECK(count(events, bytes({0x0a, 4}) + "loss") == 4);
  CHECK(count(events, "tokens") == 4);
  CHECK(count(events, "step") == 0);
  const auto parameters = static_cast<std::int64_t>(t.model->parameters().size());
  CHECK(count(events, "weights/") == 2 * parameters);
  CHECK(count(events, "gradients/") == 2 * parameters);

  Trained on(options.resume(true).steps(6));
  on.trainer.listen(std::make_shared<TensorBoardListener>(d.file("own"))).run();
  events = events_in(only_file(d.file("own")));
  CHECK(events[1] == bytes({0x10, 5, 0x3a, 2, 8, 1}));  // events from step 5 on are forgotten
  CHECK(count(events, bytes({0x0a, 4}) + "loss") == 2);

  Trained without_folder(quiet(1));
  without_folder.trainer.listen(std::make_shared<TensorBoardListener>()).run();
  CHECK_THROWS_WITH(SummaryWriter(put(d.file("file"), "x")), Contains("[SummaryWriter]") && Contains("can't be made"));
}

}  // namespace fit::test::tensorboard_test
