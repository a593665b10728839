#include "fit/nn/training/tensorboard.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "fit/nn/training/trainer.hpp"
#include "io/atomic_file.hpp"
#include "io/size_signal.hpp"
#include "tensor/check.hpp"

namespace fit {
namespace {

constexpr const char* writer_op = "SummaryWriter";

// ---- messages of protobuf (https://protobuf.dev/programming-guides/encoding) ----------------------------------------

// The fields of a message. Numbers that follow an event's name are those of tensorflow/core/util/event.proto and
// tensorflow/core/framework/summary.proto.
class Message {
 public:
  Message& integer(int field, std::int64_t value) {
    varint(static_cast<std::uint64_t>(field) << 3);
    varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  Message& number(int field, double value) { return fixed(field, 1, value); }
  Message& single(int field, float value) { return fixed(field, 5, value); }
  Message& text(int field, const std::string& value) {
    varint(static_cast<std::uint64_t>(field) << 3 | 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& message(int field, const Message& value) { return text(field, value.bytes_); }
  Message& numbers(int field, const std::vector<double>& values) {
    return text(field, std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double)));
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void varint(std::uint64_t value) {
    for (; value > 127; value >>= 7) bytes_ += static_cast<char>((value & 127) | 128);
    bytes_ += static_cast<char>(value);
  }
  template <class T>
  Message& fixed(int field, std::uint64_t wire_type, T value) {
    varint(static_cast<std::uint64_t>(field) << 3 | wire_type);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  std::string bytes_;
};

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Message event(std::int64_t step) { return Message().number(1, wall_time()).integer(2, step); }

std::string summary(std::int64_t step, const Message& value) {
  return event(step).message(5, Message().message(1, value)).bytes();
}

Message histogram(const Tensor& values) {
  constexpr std::size_t intervals = 30;
  std::vector<double> finite;
  for (const double v : values.detach().to(float64).to_vector<double>())
    if (std::isfinite(v)) finite.push_back(v);
  if (finite.empty()) return {};
  const auto [least, greatest] = std::minmax_element(finite.begin(), finite.end());
  const double low = *least, high = *greatest, width = high / intervals - low / intervals;
  std::vector<double> limits(width > 0 ? intervals : 1, high), counts(limits.size());
  for (std::size_t i = 0; i + 1 < limits.size(); ++i) limits[i] = low + width * static_cast<double>(i + 1);
  double sum = 0, squares = 0;
  for (const double v : finite) {
    sum += v, squares += v * v;
    const auto at = std::lower_bound(limits.begin(), limits.end(), v) - limits.begin();
    ++counts[static_cast<std::size_t>(at)];
  }
  return Message()
      .number(1, low)
      .number(2, high)
      .number(3, static_cast<double>(finite.size()))
      .number(4, sum)
      .number(5, squares)
      .numbers(6, limits)
      .numbers(7, counts);
}

// ---- records (tensorflow/core/lib/io/record_writer.h) --------------------------------------------------------------

// CRC32C (Castagnoli), which zlib does not have, masked as TFRecord wants it.
std::uint32_t masked_crc(const char* bytes, std::size_t count) {
  static const std::array<std::uint32_t, 256> table = [] {
    std::array<std::uint32_t, 256> t{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      t[i] = i;
      for (int bit = 0; bit < 8; ++bit) t[i] = t[i] >> 1 ^ (t[i] & 1 ? 0x82f63b78u : 0);
    }
    return t;
  }();
  std::uint32_t crc = ~0u;
  for (std::size_t i = 0; i < count; ++i) crc = crc >> 8 ^ table[(crc ^ static_cast<unsigned char>(bytes[i])) & 255];
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

std::string record_of(const std::string& data) {
  const std::uint64_t length = data.size();
  char head[sizeof length];
  std::memcpy(head, &length, sizeof length);
  const std::uint32_t head_crc = masked_crc(head, sizeof head), crc = masked_crc(data.data(), data.size());
  std::string all(head, sizeof head);
  all.append(reinterpret_cast<const char*>(&head_crc), sizeof head_crc);
  all += data;
  return all.append(reinterpret_cast<const char*>(&crc), sizeof crc);
}

// The names of files of a folder are in the order of their times. A process may make several in a second.
std::string new_name() {
  static std::atomic<int> made{0};
  char host[256] = {};
  if (gethostname(host, sizeof host - 1) != 0 || !host[0]) std::strcpy(host, "localhost");
  return "events.out.tfevents." + std::to_string(static_cast<std::int64_t>(wall_time())) + "." + host + "." +
         std::to_string(getpid()) + "." + std::to_string(made++);
}

}  // namespace

// ---- SummaryWriter ------------------------------------------------------------------------------------------------

SummaryWriter::SummaryWriter(const std::string& folder, std::int64_t purge_step)
    : path_((std::filesystem::path(folder) / new_name()).string()) {
  io::make_folder(writer_op, folder);
  file_ = std::make_shared<std::ofstream>(path_, std::ios::binary | std::ios::app);
  write(event(purge_step).text(3, "brain.Event:2").bytes());
  constexpr int start = 1;  // of a session: TensorBoard forgets what earlier ones have from this step on
  write(event(purge_step).message(7, Message().integer(1, start)).bytes());
}

SummaryWriter::~SummaryWriter() = default;

void SummaryWriter::write(const std::string& event) {
  const io::NoSizeSignal no_signal;
  if (!(*file_ << record_of(event) << std::flush))
    throw FileError(std::string("[") + writer_op + "] " + path_ + " can't be written: " + std::strerror(errno));
}

void SummaryWriter::add_scalar(const std::string& tag, double value, std::int64_t step) {
  write(summary(step, Message().text(1, tag).single(2, static_cast<float>(value))));
}

void SummaryWriter::add_histogram(const std::string& tag, const Tensor& values, std::int64_t step) {
  check::defined("add_histogram", "values", values);
  write(summary(step, Message().text(1, tag).message(5, histogram(values))));
}

void SummaryWriter::add_text(const std::string& tag, const std::string& text, std::int64_t step) {
  constexpr int string_type = 7;
  const Message one = Message().message(2, Message().integer(1, 1));  // the shape [1]
  const Message tensor = Message().integer(1, string_type).message(2, one).text(8, text);
  const Message metadata = Message().message(1, Message().text(1, "text"));
  write(summary(step, Message().text(1, tag + "/text_summary").message(8, tensor).message(9, metadata)));
}

// ---- TensorBoardListener ------------------------------------------------------------------------------------------

TensorBoardListener::TensorBoardListener(std::string folder) : folder_(std::move(folder)) {}
TensorBoardListener::~TensorBoardListener() = default;

template <class F>
void TensorBoardListener::write(const F& f) {
  if (!writer_) return;
  try {
    f(*writer_);
  } catch (const FileError& error) {
    writer_.reset();
    std::cerr << error.what() << std::endl;
  }
}

void TensorBoardListener::on_begin(const TrainingStart& start) {
  writer_.reset();
  if (folder_.empty() && start.out.empty()) return;
  writer_ = std::make_unique<SummaryWriter>(folder_.empty() ? start.out + "/tensorboard" : folder_, start.step + 1);
  write([&](SummaryWriter& to) { to.add_text("title", start.title, start.step); });
}

void TensorBoardListener::on_gradients(std::int64_t step, const StateDict& parameters) {
  write([&](SummaryWriter& to) {
    for (const auto& [name, parameter] : parameters) {
      to.add_histogram("weights/" + name, parameter, step);
      if (const Tensor gradient = parameter.grad(); gradient.defined())
        to.add_histogram("gradients/" + name, gradient, step);
    }
  });
}

void TensorBoardListener::on_step(const TrainingRow& row) {
  write([&](SummaryWriter& to) {
    const auto step = static_cast<std::int64_t>(row.at("step"));
    for (const auto& [name, value] : row)
      if (name != "step") to.add_scalar(name, value, step);
  });
}

void TensorBoardListener::on_end(const TrainerResult&) { writer_.reset(); }

}  // namespace fit
