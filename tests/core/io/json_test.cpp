// JSON values of the library, beside nlohmann's.
#include "io/json.hpp"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "fit/base/error.hpp"
#include "support/catch.hpp"

namespace fit::test::json_test {
namespace {

using Catch::Matchers::Contains;
using io::Json;
using Theirs = nlohmann::ordered_json;

Theirs theirs(const Json& value) {
  switch (value.kind()) {
    case Json::Kind::boolean:
      return value.boolean();
    case Json::Kind::natural:
      return value.natural();
    case Json::Kind::negative:
      return value.integer();
    case Json::Kind::real:
      return value.number();
    case Json::Kind::text:
      return value.text();
    case Json::Kind::list: {
      Theirs list = Theirs::array();
      for (const Json& one : value) list.push_back(theirs(one));
      return list;
    }
    case Json::Kind::object: {
      Theirs object = Theirs::object();
      for (const auto& [key, one] : value.items()) object[key] = theirs(one);
      return object;
    }
    default:
      return nullptr;
  }
}

const std::vector<std::string>& texts() {
  static const std::vector<std::string> all = {
      "null",
      "true",
      "0",
      "-1",
      "18446744073709551615",
      "-9223372036854775808",
      "9223372036854775808",
      "0.1",
      "1e300",
      "1e-7",
      "-0.0",
      "100000.0",
      R"("a\"\\\u00e9\n\u0001 \ud83d\ude00")",
      "[]",
      "{}",
      R"([1,[2,[3,"x"]],{"z":1,"a":[null,false]}])",
      R"({"b":{"c":[]},"a":-2.5})",
  };
  return all;
}

}  // namespace

TEST_CASE("JSON is read and printed as nlohmann does", "[io]") {
  for (const std::string& text : texts()) {
    INFO(text);
    const std::optional<Json> value = io::json_in(text);
    REQUIRE(value);
    const Theirs reference = Theirs::parse(text);
    CHECK(theirs(*value) == reference);
    CHECK(value->dump() == reference.dump());
    CHECK(value->dump(2) == reference.dump(2));
    CHECK(value->ascii() == reference.dump(-1, ' ', true));
    CHECK(io::json_in(value->dump()) == value);
    const Json copy = *value;
    CHECK(copy == *value);
    CHECK(std::string(copy.type_name()) == reference.type_name());
  }
  CHECK(Json(std::nan("")).dump() == "null");
  CHECK_THROWS_WITH(Json("\xff").dump(), Contains("is not valid UTF-8"));
  CHECK(Json("a\xff").ascii() == "\"a\\ufffd\"");
}

TEST_CASE("JSON that is no JSON, or beyond the limits, is refused", "[io]") {
  for (const char* const text : {"", "{", "[1,]", "nul", "1 2", "{\"a\":1,\"a\":2}", "\"\xff\"", "1e999", "[1", "01"})
    CHECK_FALSE(io::json_in(text));
  CHECK(io::json_in("[[1]]", {2}));
  CHECK_FALSE(io::json_in("[[1]]", {1}));
  CHECK(io::json_in("[1,2]", {1, 2}));
  CHECK_FALSE(io::json_in("[1,2,3]", {1, 2}));
  CHECK_FALSE(io::json_in("{\"long\":1}", {1, 9, 3}));
  CHECK_FALSE(io::json_in(std::string(100'000, '[')));
}

TEST_CASE("JSON values are made of lists, and compare by value", "[io]") {
  Json object{{"a", 1}, {"b", {1, 2.5, "x"}}, {"c", {{"d", nullptr}}}};
  CHECK(object.dump() == R"({"a":1,"b":[1,2.5,"x"],"c":{"d":null}})");
  CHECK(Json::array({{"a", 1}}).dump() == R"([["a",1]])");
  CHECK(Json(std::vector<std::pair<int, int>>{{1, 2}}).dump() == "[[1,2]]");
  object["e"]["f"] = true;
  object["g"].push_back(-3);
  CHECK(object["e"].dump() == R"({"f":true})");
  CHECK(object["g"] == Json::array({-3}));
  CHECK(std::as_const(object)["none"].is_undefined());
  CHECK_FALSE(object.contains("none"));
  CHECK(Json(1) == Json(1.));
  CHECK(Json(-1) != Json(std::numeric_limits<std::uint64_t>::max()));
  CHECK(Json(-1) < Json(0));
  CHECK(Json("a") < Json("b"));
  CHECK_FALSE(Json("a") < Json(1));
  CHECK(Json({{"x", 1}, {"y", 2}}) == Json({{"y", 2}, {"x", 1}}));
  CHECK_THROWS_WITH(Json(1).text(), Contains("a value is of the type number, not string"));
  CHECK_THROWS_WITH(Json(std::numeric_limits<std::uint64_t>::max()).integer(), Contains("is too large"));
  Json moved = std::move(object);
  CHECK(moved.size() == 5);
  moved = moved["b"];  // a part of itself
  CHECK(moved.dump() == R"([1,2.5,"x"])");
}

}  // namespace fit::test::json_test
