#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tokenizer/fixtures.hpp"

namespace inferno::test {

using OrderedJson = nlohmann::ordered_json;

/// A schema by chance, of everything that can be followed, and values that match it.
class RandomSchema {
 public:
  explicit RandomSchema(Dice& dice);

  const OrderedJson& schema() const { return schema_; }
  /// A value that matches.
  OrderedJson instance() { return instance(schema_, 0); }

 private:
  OrderedJson make(int depth);
  OrderedJson make_string();
  OrderedJson make_number();
  OrderedJson make_array(int depth);
  OrderedJson make_object(int depth);
  OrderedJson make_enum();
  OrderedJson instance(const OrderedJson& schema, int depth);
  OrderedJson any_value(int depth);
  OrderedJson string_instance(const OrderedJson& schema);
  OrderedJson number_instance(const OrderedJson& schema);
  OrderedJson array_instance(const OrderedJson& schema, int depth);
  OrderedJson object_instance(const OrderedJson& schema, int depth);
  std::string text(std::size_t least, std::size_t most);

  Dice& dice_;
  OrderedJson schema_;
};

/// JSON as json.dumps writes it: with ", " and ": ", without blanks, or over several lines.
std::string spell(const OrderedJson& value, int style);

}  // namespace inferno::test
